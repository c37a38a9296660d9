"""Commands to the ramdisk of a node, over its HTTP API.

The agent is not trusted: it may hang, answer nonsense or never stop answering, so
each request has a deadline and an answer has a greatest size, redirects are not
followed, and nothing it says is logged unmasked.  The token is in the query of
every request, so no URL and no error of the HTTP library is ever shown, and the lines
that the library itself logs are masked.

Source: specification drivers.md section 8, agent-protocol.md sections 6 and 7;
field case 64.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import requests
from oslo_log import log
from oslo_utils import units

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, secrets
from ironic_rs.drivers.agent import payload
from ironic_rs.integrations import bounded, healing, http
from ironic_rs.integrations.healing import Partner

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.domain.steps import Step, StepKind

LOG = log.getLogger(__name__)

Command = dict[str, Any]

RUNNING = "RUNNING"
SUCCEEDED = "SUCCEEDED"
FAILED = "FAILED"
VERSION_MISMATCH = frozenset({"VERSION_MISMATCH", "CLEAN_VERSION_MISMATCH"})

#: Logs of a ramdisk are the largest answer: tens of MiB of base64.
MAX_ANSWER = 256 * units.Mi
CONNECT_TIMEOUT = 10.0
_CHUNK = 256 * units.Ki
#: Agents that connections are kept for; each keeps one or two.  More than a conductor
#: cleans at a time, or no connection would live from one heartbeat to the next.
_MAX_SESSIONS = 2000
#: An agent that was not spoken to for so long is gone: heartbeats come every one to
#: three minutes.
_MAX_IDLE = 600.0

# The library logs paths with their query when it is asked for all it knows.
for _name in ("urllib3.connectionpool", "urllib3.util.retry", "urllib3.poolmanager"):
    logging.getLogger(_name).addFilter(secrets.MaskingFilter())

#: Sessions and when they were asked for, the longest unused first.
_sessions: OrderedDict[tuple[Any, ...], tuple[requests.Session, float]] = OrderedDict()
_lock = threading.Lock()


class _Unreachable(Exception):
    """There was no answer; the text is safe to show.

    :ivar sent: the request may have reached the agent.
    """

    def __init__(self, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.sent = sent


def _verify(node: models.Node) -> bool | str:
    """Return what the agent's certificate is checked against.

    :raises InvalidParameterValue: a certificate that is not on this host.
    """
    for name, value in (
        ("agent_verify_ca (sent by the agent)", node.driver_internal_info.get("agent_verify_ca")),
        ("driver_info agent_verify_ca", node.driver_info.get("agent_verify_ca")),
        ("[agent]verify_ca", CONF.agent.verify_ca),
    ):
        if value is not None and value != "":
            return http.parse_verify(value, f"Node {node.uuid}: {name}")
    return True


def _session(node: models.Node, url: str) -> requests.Session:
    """Return the session that is kept for an agent, with its connections."""
    key: tuple[Any, ...] = (url,)
    if url.startswith("https:"):
        verify = _verify(node)
        # A new ramdisk at the same address has a new certificate.
        changed = os.stat(verify).st_mtime_ns if isinstance(verify, str) else 0
        key = (url, verify, changed, CONF.agent.tls_minimum_version, CONF.agent.tls_ciphers)
    kept = _keep(key)
    if kept is not None:
        return kept
    session = requests.Session()
    # Agents are on the provisioning network: no proxy, no netrc.
    session.trust_env = False
    if url.startswith("https:"):
        tls = http.context(verify, CONF.agent.tls_minimum_version, CONF.agent.tls_ciphers)
        session.mount("https://", bounded.TlsAdapter(tls))
    else:
        session.mount("http://", bounded.PlainAdapter())
    made = _keep(key, session)
    assert made is not None
    return made


def _keep(key: tuple[Any, ...], made: requests.Session | None = None) -> requests.Session | None:
    """Return the session of an agent, ``made`` when there is none; close those of old ones."""
    now = time.monotonic()
    closing = []
    with _lock:
        session = _sessions.pop(key, (made, now))[0]
        if session is not None:
            _sessions[key] = (session, now)
        while _sessions:
            oldest, (unused, used_at) = next(iter(_sessions.items()))
            if len(_sessions) <= _MAX_SESSIONS and now - used_at <= _MAX_IDLE:
                break
            del _sessions[oldest]
            closing.append(unused)
    for old in closing:
        old.close()
    return session


def _is_it(command: Mapping[str, Any], before: frozenset[str] | None) -> bool:
    """Tell whether the agent's newest command of a name is the one that was sent just now.

    One that runs is: an agent runs one at a time, and this node is locked.  One that has
    ended may be an earlier one.

    :param before: the commands that the agent had then, None when that is not known.
    """
    if command.get("command_status") == RUNNING:
        return True
    return before is not None and str(command.get("id")) not in before


def error_text(command: Mapping[str, Any]) -> str:
    """Return why a command failed, in the agent's words."""
    error = command.get("command_error")
    if error is None:
        return "the agent gave no reason"
    if isinstance(error, Mapping):
        error = error.get("details") or error.get("message") or error
    return secrets.mask_text(str(error))


class AgentClient:
    """The ramdisk of one node, as of the record of the task.  Stateless otherwise.

    Every method may raise:

    * AgentConnectionFailed: no address known, or no answer after all tries;
    * AgentInProgress: the agent runs another command, try again later;
    * AgentAPIError: it refused, or its answer makes no sense;
    * InvalidParameterValue: its certificate is not on this host.
    """

    def __init__(self, node: models.Node) -> None:
        self._node = node

    # HTTP

    def _url(self) -> str:
        url = self._node.driver_internal_info.get("agent_url")
        if not url:
            raise errors.AgentConnectionFailed(
                reason=f"the agent of node {self._node.uuid} has not called yet, so its "
                "address is not known"
            )
        return str(url).rstrip("/")

    def _request(self, method: str, params: Mapping[str, str], body: Any = None) -> Any:
        """Send one request; return the decoded answer.

        :raises _Unreachable: no answer in time.
        """
        url = self._url()
        token = self._node.driver_internal_info.get("agent_secret_token")
        limit = float(CONF.agent.command_timeout)
        bounded.allow(limit, MAX_ANSWER, self._too_long)
        try:
            with _session(self._node, url).request(
                method,
                f"{url}/{CONF.agent.agent_api_version}/commands/",
                params={**params, **({"agent_token": token} if token else {})},
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                timeout=(min(CONNECT_TIMEOUT, limit), limit),
                allow_redirects=False,
                stream=True,
            ) as response:
                return self._decode(response.status_code, self._read(response))
        except (requests.ConnectionError, requests.Timeout) as exc:
            raise _Unreachable(http.describe(exc), sent=not http.never_sent(exc)) from None
        except requests.RequestException as exc:
            raise self._api_error("none", http.describe(exc)) from None

    def _read(self, response: requests.Response) -> bytes:
        content = bytearray()
        for chunk in response.iter_content(_CHUNK):
            content += chunk
            # What was packed is longer than what has come.
            if len(content) > MAX_ANSWER:
                raise self._too_long(MAX_ANSWER)
        return bytes(content)

    def _too_long(self, longest: int) -> errors.AgentAPIError:
        return self._api_error("none", f"more than {longest} bytes")

    def _decode(self, status: int, content: bytes) -> Any:
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if status == requests.codes.ok and isinstance(answer, dict):
            return answer
        if status < requests.codes.bad_request:
            raise self._api_error(status, "the answer is not a JSON object")
        text = answer.get("faultstring") if isinstance(answer, dict) else None
        text = secrets.mask_text(str(text or "no reason given"))
        if status == requests.codes.conflict or "agent is busy" in text.lower():
            raise errors.AgentInProgress(node=self._node.uuid, command="any", error=text)
        raise self._api_error(status, text)

    def _api_error(self, status: int | str, text: str) -> errors.AgentAPIError:
        return errors.AgentAPIError(node=self._node.uuid, status=status, error=text)

    # Commands

    def commands(self) -> list[Command]:
        """Return the commands that the agent has run since its start, oldest first."""
        attempts = max(1, CONF.agent.max_command_attempts)
        for attempt in range(1, attempts + 1):
            try:
                return self._commands()
            except _Unreachable as exc:
                if attempt == attempts:
                    if healing.again(Partner.AGENT, "list of commands", exc):
                        return self.commands()
                    raise errors.AgentConnectionFailed(reason=str(exc)) from None
        raise AssertionError("the last attempt returns or raises")

    def _commands(self) -> list[Command]:
        found = self._request("GET", {}).get("commands")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._api_error(200, "the answer has no list of commands")
        return found

    def run(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        wait: bool = False,
        before: frozenset[str] | None = None,
    ) -> Command:
        """Start a command and return its state.

        :param name: ``extension.command``.
        :param wait: the agent answers when the command has ended.
        :param before: ids of the agent's commands until now: with them one whose answer
            was lost is known again also when it has ended.
        """
        node = self._node
        body = {"name": name, "params": params}
        LOG.debug("Sending command %s to the agent of node %s", name, node.uuid)
        attempts = max(1, CONF.agent.max_command_attempts)
        sent = False
        for attempt in range(1, attempts + 1):
            try:
                answer = self._request("POST", {"wait": "true" if wait else "false"}, body)
                return self._checked(answer)
            except errors.AgentInProgress as exc:
                raise errors.AgentInProgress(
                    node=node.uuid, command=name, error=exc.fields.get("error", exc)
                ) from exc
            except _Unreachable as exc:
                sent = sent or exc.sent
                # It may have got the command, and only the answer was lost.
                started = self._last(name)
                if started is not None and _is_it(started, before):
                    LOG.info("The agent of node %s got %s although %s", node.uuid, name, exc)
                    return self._accepted(started, name, wait)
                LOG.warning(
                    "Attempt %d of %d to send %s to the agent of node %s failed: %s",
                    attempt,
                    attempts,
                    name,
                    node.uuid,
                    exc,
                )
                last = str(exc)
        # What may run already is never sent again so late.
        if not sent and healing.again(Partner.AGENT, f"command {name}", last):
            return self.run(name, params, wait=wait, before=before)
        raise errors.AgentConnectionFailed(reason=f"command {name}: {last}")

    def _checked(self, answer: Command) -> Command:
        error = answer.get("command_error")
        if isinstance(error, Mapping) and error.get("type") == "TypeError":
            raise self._api_error(
                requests.codes.ok,
                f"the ramdisk does not know a parameter, it may be too old: {error_text(answer)}",
            )
        return answer

    def _accepted(self, started: Command, name: str, wait: bool) -> Command:
        if started.get("command_status") != RUNNING:
            return self._checked(started)
        if wait:
            raise errors.AgentInProgress(
                node=self._node.uuid, command=name, error="it takes longer than expected"
            )
        return started

    def _last(self, name: str) -> Command | None:
        """Return the newest command if it has this name, None also when unreachable."""
        try:
            found = self._commands()
        except (_Unreachable, errors.IronicError):
            return None
        if found and found[-1].get("command_name") == name.rpartition(".")[2]:
            return found[-1]
        return None

    def run_to_end(self, name: str, params: Mapping[str, Any]) -> Command:
        """Start a command and look at it until it has ended.

        :raises AgentCommandTimeout: it has not, after ``[agent]command_wait_attempts``
            looks ``command_wait_interval`` seconds apart.
        """
        command: Command | None = self.run(name, params)
        for _attempt in range(CONF.agent.command_wait_attempts):
            if command is not None and command.get("command_status") != RUNNING:
                return command
            time.sleep(CONF.agent.command_wait_interval)
            command = self._newest(name)
        if command is not None and command.get("command_status") != RUNNING:
            return command
        raise errors.AgentCommandTimeout(command=name, node=self._node.uuid)

    def _newest(self, name: str) -> Command | None:
        try:
            found = self._commands()
        except _Unreachable as exc:
            LOG.warning("The agent of node %s does not answer now: %s", self._node.uuid, exc)
            return None
        short = name.rpartition(".")[2]
        return next((one for one in reversed(found) if one.get("command_name") == short), None)

    # The commands in use

    def get_steps(self, kind: StepKind, ports: Sequence[models.Port]) -> Command:
        """Ask for the in-band steps of a kind."""
        return self.run(
            f"{kind.name}.get_{kind.name}_steps",
            {"node": payload.node_dict(self._node), "ports": payload.port_dicts(ports)},
            wait=True,
        )

    def execute_step(
        self, kind: StepKind, step: Step, ports: Sequence[models.Port], **node_values: Any
    ) -> Command:
        """Start an in-band step.

        :param node_values: columns of the node that the ramdisk is to see changed.
        """
        node = payload.node_dict(self._node, with_configdrive=kind.name == "deploy")
        before = frozenset(str(command.get("id")) for command in self.commands())
        return self.run(
            f"{kind.name}.execute_{kind.name}_step",
            {
                "step": step,
                "node": {**node, **node_values},
                "ports": payload.port_dicts(ports),
                f"{kind.name}_version": self._node.driver_internal_info.get(
                    "hardware_manager_version"
                ),
            },
            before=before,
        )

    def get_partition_uuids(self) -> Command:
        """Ask for the identifiers of what was written to the disk."""
        return self.run("standby.get_partition_uuids", {}, wait=True)

    def install_bootloader(
        self,
        root_uuid: str | None,
        *,
        efi_system_part_uuid: str | None,
        prep_boot_part_uuid: str | None,
        target_boot_mode: str,
        software_raid: bool,
    ) -> Command:
        """Install the boot loader and wait until it is done."""
        params = {
            "root_uuid": root_uuid,
            "efi_system_part_uuid": efi_system_part_uuid,
            "prep_boot_part_uuid": prep_boot_part_uuid,
            "target_boot_mode": target_boot_mode,
        }
        try:
            return self.run_to_end("image.install_bootloader", params)
        except errors.AgentAPIError:
            if software_raid and target_boot_mode == "uefi":
                raise
            # A ramdisk of long ago does not know the last one.
            del params["target_boot_mode"]
            return self.run_to_end("image.install_bootloader", params)

    def power_off(self) -> Command:
        """Make the ramdisk power the machine off."""
        return self.run("standby.power_off", {})

    def reboot(self) -> Command:
        """Make the ramdisk reboot the machine."""
        return self.run("standby.run_image", {})

    def sync(self) -> Command:
        """Flush the disks."""
        return self.run("standby.sync", {}, wait=True)

    def collect_system_logs(self) -> Command:
        """Get the logs of the ramdisk: base64 of a tar.gz in ``system_logs``."""
        return self.run("log.collect_system_logs", {}, wait=True)

    def finalize_rescue(self, hashed_password: str | None, password: str | None) -> Command:
        """Set the password of the rescue user, and leave the rescuing network.

        :param password: plain; only for ramdisks that know no hashes, where
            ``[conductor]require_rescue_password_hashed`` allows it.
        :raises InstanceRescueFailure: the ramdisk knows no hashes, and must.
        """
        node = self._node
        name = "rescue.finalize_rescue"
        try:
            return self.run(name, {"rescue_password": hashed_password, "hashed": True}, wait=True)
        except errors.AgentAPIError as exc:
            if CONF.conductor.require_rescue_password_hashed:
                raise errors.InstanceRescueFailure(
                    instance=node.instance_uuid,
                    node=node.uuid,
                    reason=(
                        "the ramdisk does not take a hashed password, which "
                        f"[conductor]require_rescue_password_hashed demands: {exc}"
                    ),
                ) from exc
            LOG.warning("Node %s: the rescue password is sent in plain text: %s", node.uuid, exc)
            return self.run(name, {"rescue_password": password}, wait=True)

    def lockdown(self, *, fail_if_unavailable: bool = True) -> None:
        """Make the ramdisk take its network down, and wait until it is unreachable.

        :param fail_if_unavailable: false: an agent that does not answer is fine.
        :raises AgentCommandTimeout: it still answers.
        """
        if not fail_if_unavailable:
            try:
                self._commands()
            except (_Unreachable, errors.AgentConnectionFailed):
                return
        self.sync()
        try:
            self.run("system.lockdown", {})
        except errors.AgentConnectionFailed as exc:
            # Its network may be down before its answer is out; else it answers below.
            LOG.info("Node %s: no answer to the lockdown: %s", self._node.uuid, exc)
        for _attempt in range(CONF.agent.post_deploy_get_power_state_retries + 1):
            try:
                self._commands()
            except _Unreachable:
                return
            time.sleep(CONF.agent.post_deploy_get_power_state_retry_interval)
        raise errors.AgentCommandTimeout(command="system.lockdown", node=self._node.uuid)
