"""Asking a BMC by the program ``ipmitool``, run once for each request.

Source: specification drivers.md section 5.3; field cases 54 and 57.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.drivers.ipmi import sensors, turns
from ironic_rs.drivers.ipmi.driver_info import DEFAULT_PORT, PROGRAM, BmcTarget
from ironic_rs.drivers.ipmi.errors import BmcError, is_transient

LOG = log.getLogger(__name__)

#: How programs say that a BMC does not want a cipher suite.
_CIPHER_REFUSED = (
    "unsupported cipher suite id",
    "no matching cipher suite",
    "no cipher suite match",
    "invalid role",
)
#: What no repetition changes.
_FINAL = (
    "rakp 2 hmac is invalid",
    "rakp 2 message indicates an error",
    "password",
    "unauthorized",
    "invalid user name",
    "invalid command",
    "invalid data field",
    "illegal parameter",
    "usage:",
    "option requires",
    "unknown host",
    "address lookup",
)
_CODE = re.compile(r"rsp=0x([0-9a-f]{2})")
_HEX = re.compile(r"[0-9a-f]{2}", re.IGNORECASE)
#: Requests that only read, as pairs of network function and command.
_NETFN_READS = frozenset({(0x00, 0x01)})


class _SuiteRefused(BmcError):
    """The BMC does not want the cipher suite."""


class Program:
    """A way to ask a BMC; several requests keep the pause between them.

    :param deadline: by ``time.monotonic()``.
    """

    def __init__(self, target: BmcTarget, bmc: turns.Bmc, deadline: float) -> None:
        self._target = target
        self._bmc = bmc
        self._deadline = deadline
        self._used = False

    def ask(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        numbers = [f"0x{byte:02x}" for byte in (netfn, command, *data)]
        text = self._run(["raw", *numbers], bounded=(netfn, command) in _NETFN_READS)
        words = text.split()
        if not all(_HEX.fullmatch(word) for word in words):
            raise BmcError(f"{PROGRAM} printed '{text.strip()}' in place of bytes")
        return bytes(int(word, 16) for word in words)

    def tell(self, netfn: int, command: int) -> None:
        self.ask(netfn, command)

    def sensors(self) -> sensors.Sensors:
        text = self._run(["-v", "sdr"], bounded=True)
        return sensors.parse(text)

    def deactivate_console(self) -> None:
        """Close the serial console; none open, or no answer, is no error."""
        try:
            self._run(["sol", "deactivate"], bounded=True)
        except BmcError as exc:
            LOG.debug("BMC %s: the console was not closed: %s", self._target, exc)

    def _run(self, words: Sequence[str], *, bounded: bool) -> str:
        """Run the program; with the next cipher suite when the BMC refuses one.

        :param bounded: the program may be ended, ``[ipmi]kill_on_timeout`` permitting.
        :raises BmcError: it failed with all suites.
        """
        target, place = self._target, self._bmc.suites
        suites = target.suites
        start = min(place.get(target.node_uuid, 0), max(0, len(suites) - 1))
        for number in range(start, max(1, len(suites))):
            suite = suites[number] if suites else None
            try:
                text = self._run_with(suite, words, bounded)
            except BmcError as exc:
                if not isinstance(exc, _SuiteRefused):
                    place[target.node_uuid] = number
                    raise
                if number + 1 >= len(suites):
                    raise BmcError(str(exc), code=exc.code) from exc
                LOG.info(
                    "BMC %s refuses cipher suite %s, trying %s",
                    target,
                    suite,
                    suites[number + 1],
                )
            else:
                place[target.node_uuid] = number
                return text
        raise AssertionError("the last suite returns or raises")

    def _run_with(self, suite: str | None, words: Sequence[str], bounded: bool) -> str:
        if self._used:
            turns.pause(self._bmc)
        self._used = True
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise BmcError("no time is left for another request")
        timeout = left if CONF.ipmi.kill_on_timeout or not bounded else None
        with credentials(self._target) as (options, environment):
            command = [*arguments(self._target, suite), *options, *words]
            LOG.debug("Running %s", " ".join(command))
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    check=False,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    errors="replace",
                    timeout=timeout,
                )
            except subprocess.TimeoutExpired as exc:
                raise BmcError(f"{PROGRAM} did not end in {left:.0f} s") from exc
            except OSError as exc:
                raise BmcError(f"{PROGRAM} cannot be run: {exc.strerror or exc}") from exc
            finally:
                self._bmc.ended = time.monotonic()
        if CONF.ipmi.debug:
            LOG.debug("%s said: %s", PROGRAM, done.stderr)
        if done.returncode:
            raise _failure(done.stderr or done.stdout, done.returncode)
        return done.stdout


def _failure(said: str, returncode: int) -> BmcError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # With [ipmi]debug much is said after the reason.
    refusals = [line for line in lines if any(one in line.lower() for one in _CIPHER_REFUSED)]
    last = lines[-3:]
    told = last if not refusals or refusals[-1] in last else [refusals[-1], *last]
    text = "; ".join(told) or f"{PROGRAM} ended with exit code {returncode}"
    match = _CODE.search(said)
    code = int(match[1], 16) if match else None
    final = any(phrase in said.lower() for phrase in _FINAL) or code is not None
    again = is_transient(said) or not (final or CONF.ipmi.use_ipmitool_retries)
    return (_SuiteRefused if refusals else BmcError)(text, transient=again, code=code)


def arguments(target: BmcTarget, suite: str | None) -> list[str]:
    """Return the command line that reaches the BMC, without the password.

    :param suite: cipher suite, None for the program's choice.
    """
    interface = "lanplus" if target.version == "2.0" else "lan"
    command = [PROGRAM, "-I", interface, "-H", target.address, "-L", target.privilege]
    if target.port != DEFAULT_PORT:
        command += ["-p", str(target.port)]
    if target.username:
        command += ["-U", target.username]
    if target.kg:
        command += ["-y", target.kg.hex()]
    if suite is not None and target.version == "2.0":
        command += ["-C", suite]
    if CONF.ipmi.debug:
        command.append("-vvv")
    command += _bridging(target)
    return command + _timing()


def _bridging(target: BmcTarget) -> list[str]:
    bridge = target.bridge
    if bridge is None:
        return []
    found: list[str] = []
    for option, value in (
        ("-m", bridge.local_address),
        ("-B", bridge.transit_channel),
        ("-T", bridge.transit_address),
        ("-b", bridge.target_channel),
        ("-t", bridge.target_address),
    ):
        if value is not None:
            found += [option, value]
    return found


def _timing() -> list[str]:
    """Return how often, and after how many seconds, the program sends again.

    Each wait of the program is a second longer than the one before.
    """
    interval = max(1, CONF.ipmi.min_command_interval)
    if not CONF.ipmi.use_ipmitool_retries:
        return ["-R", "1", "-N", str(interval)]
    tries, left, wait = 0, CONF.ipmi.command_retry_timeout, interval
    while left >= wait:
        left -= wait
        wait += 1
        tries += 1
    return ["-R", str(max(1, tries)), "-N", str(interval)]


@contextlib.contextmanager
def credentials(target: BmcTarget) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield (options, environment) that give the program its password.

    :raises BmcError: the file with the password cannot be written.
    """
    environment = dict(os.environ)
    if CONF.ipmi.store_cred_in_env:
        yield ["-E"], environment | {"IPMI_PASSWORD": target.password}
        return
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(
                tempfile.NamedTemporaryFile("w", prefix="ipmi-", encoding="utf-8", dir=CONF.tempdir)
            )
            file.write(target.password or "\0")
            file.flush()
        except OSError as exc:
            raise BmcError(f"the file with the password cannot be written: {exc}") from exc
        yield ["-f", file.name], environment
