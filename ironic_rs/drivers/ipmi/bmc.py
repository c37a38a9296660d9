"""Operations on a BMC: in turn, in time, and again when it was only busy.

Source: specification drivers.md sections 5.3 and 5.5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import pyghmi.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.ipmi import driver_info, sensors, turns
from ironic_rs.drivers.ipmi.driver_info import BmcTarget
from ironic_rs.drivers.ipmi.errors import BmcError
from ironic_rs.drivers.ipmi.program import Program
from ironic_rs.drivers.ipmi.session import MALFORMED, Session
from ironic_rs.integrations import healing
from ironic_rs.integrations.healing import Partner

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: Seconds after which a BMC that sends nothing at all is given up when only its state
#: is wanted: at first, and when it was silent the last time.  A cycle of power sync is
#: not stretched by dead BMCs.
READ_PATIENCE = 15.0
SILENT_PATIENCE = 5.0


class Link(Protocol):
    """A way to ask a BMC."""

    def ask(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        """Send a request; return the data of its answer, without completion code.

        :raises BmcError: no answer, or one with an error.
        """

    def tell(self, netfn: int, command: int) -> None:
        """Send a request once that the BMC may not live to answer.

        :raises BmcError: no answer soon, or one with an error.
        """

    def sensors(self) -> dict[str, dict[str, Any]]:
        """Return sensor type -> sensor id -> fields.

        :raises BmcError: not readable.
        """


class BuiltIn:
    """A logged-in session of the built-in client."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def ask(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        return self._session.ask(netfn, command, data)

    def tell(self, netfn: int, command: int) -> None:
        self._session.tell(netfn, command)

    def sensors(self) -> dict[str, dict[str, Any]]:
        return sensors.read(self._session)


def operate(
    node: models.Node,
    doing: str,
    what: Callable[[Any], T],
    *,
    reading: bool = False,
    program_for: str | None = None,
) -> T:
    """Run ``what`` with a link to the BMC of a node; again while the BMC is busy.

    One deadline holds for everything (``[ipmi]command_retry_timeout``).

    :param doing: for the error: "reading the power state".
    :param what: may be called several times.
    :param reading: only the state is wanted; give a silent BMC up early.
    :param program_for: what only the program does; ``what`` gets a :class:`Program`.
    :raises IPMIFailure: it failed; the text names node, BMC, deed and reason.
    :raises InvalidParameterValue: driver_info is not acceptable.
    """
    target = driver_info.parse(node)
    if program_for is not None:
        target = replace(target, needs_program=target.needs_program or program_for)
    driver_info.check_program(target)
    while True:
        try:
            return _in_time(target, doing, what, reading)
        except BmcError as exc:
            # A BMC that has not sent a packet has done nothing.
            may_repeat = exc.silent or (reading and exc.transient)
            if may_repeat and healing.again(Partner.BMC, doing, exc):
                continue
            raise errors.IPMIFailure(
                cmd=f"{doing} of node {node.uuid} at BMC {target}: {exc}"
            ) from exc


def _in_time(target: BmcTarget, doing: str, what: Callable[[Link], T], reading: bool) -> T:
    limit = float(CONF.ipmi.command_retry_timeout)
    deadline = time.monotonic() + limit + CONF.ipmi.min_command_interval
    with turns.turn(target, deadline) as bmc:
        patience = limit
        if reading:
            patience = min(limit, SILENT_PATIENCE if bmc.silent else READ_PATIENCE)
        reason: BmcError | None = None
        while True:
            turns.pause(bmc)
            try:
                result = _once(target, bmc, what, deadline, patience)
            except BmcError as exc:
                bmc.ended = time.monotonic()
                bmc.silent = exc.silent
                if not exc.silent and _worth_another_try(exc):
                    if bmc.ended + _pause_after_failure() < deadline:
                        LOG.info("BMC %s, %s: %s; trying again", target, doing, exc)
                        reason = exc if exc.code is not None or reason is None else reason
                        time.sleep(_pause_after_failure())
                        continue
                    # The time ran out in the middle of a log-in: that is not the cause.
                    if exc.code is None and reason is not None:
                        raise reason from exc
                raise
            bmc.silent = False
            return result


def _pause_after_failure() -> float:
    return max(float(CONF.ipmi.min_command_interval), 1.0)


def _once(
    target: BmcTarget,
    bmc: turns.Bmc,
    what: Callable[[Link], T],
    deadline: float,
    patience: float,
) -> T:
    if target.needs_program is not None:
        return what(Program(target, bmc, deadline))
    try:
        with Session(target, deadline, patience) as session:
            return what(BuiltIn(session))
    except pyghmi.exceptions.PyghmiException as exc:
        raise BmcError(str(exc) or type(exc).__name__) from exc
    except (OSError, NotImplementedError, *MALFORMED) as exc:
        raise BmcError(f"unexpected answer ({type(exc).__name__}: {exc})") from exc


def _worth_another_try(exc: BmcError) -> bool:
    text = str(exc).lower()
    return exc.transient or any(
        phrase.lower() in text for phrase in CONF.ipmi.additional_retryable_ipmi_errors
    )
