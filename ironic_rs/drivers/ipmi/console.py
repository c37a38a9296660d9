"""Console interface ``ipmitool-socat``: serial over LAN at a TCP port of the conductor.

For each connection a script runs that closes what an earlier client has left open on
the BMC and opens the console: so a client that broke off locks out nobody.

Source: specification drivers.md section 5.4; field cases 56 and 57.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
from typing import Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.base import ConsoleInterface, Properties
from ironic_rs.drivers.console import ports, socat
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.ipmi import driver_info, program
from ironic_rs.drivers.ipmi.bmc import operate
from ironic_rs.drivers.ipmi.driver_info import PROPERTIES, SERIAL_CONSOLES, BmcTarget

LOG = log.getLogger(__name__)

#: driver_internal_info key: the port that the node's console was given.
PORT = "allocated_ipmi_terminal_port"


class IPMISocatConsole(ConsoleInterface):
    """Runs ``socat``, which runs ``ipmitool`` for a client."""

    def get_properties(self) -> Properties:
        return {
            **PROPERTIES,
            "ipmi_terminal_port": (
                "Port of the conductor for the console. Default: one of [console]port_range."
            ),
        }

    def validate(self, task: Task) -> None:
        node = task.node
        target = _target(task)
        driver_info.check_program(target)
        if shutil.which(socat.PROGRAM) is None:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: a serial console needs the program {socat.PROGRAM}; it is "
                "not installed on this conductor, or may not be run."
            )
        if _port_of(task) is None and not CONF.console.port_range:
            raise errors.MissingParameterValue(
                f"Node {node.uuid}: a console needs ipmi_terminal_port in driver_info, or "
                "[console]port_range."
            )
        if target.version != "2.0":
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: a serial console needs ipmi_protocol_version 2.0."
            )

    def start_console(self, task: Task) -> None:
        """Start the console, in place of one that runs.

        :raises ConsoleError, NoFreeIPMITerminalPorts: as named.
        """
        node = task.node
        target = _target(task)
        self._stop(task)
        port = _own_port(task)
        if port is None:
            port = node.driver_internal_info[PORT] = ports.allocate()
            task.save()
        try:
            socat.start(node.uuid, port, _script(target), target.password or "\0")
        except errors.ConsoleError:
            self._release(task)
            raise

    def stop_console(self, task: Task) -> None:
        """Stop the console; does nothing when it does not run.

        :raises ConsoleError: it does not end.
        """
        if not self._stop(task):
            LOG.warning("Node %s: its console does not run on this conductor", task.node.uuid)
        self._deactivate(task)

    def _stop(self, task: Task) -> bool:
        ran = socat.stop(task.node.uuid)
        self._release(task)
        return ran

    def _release(self, task: Task) -> None:
        socat.remove_files(task.node.uuid)
        ports.release(task.node.driver_internal_info.pop(PORT, None))
        task.save()

    def _deactivate(self, task: Task) -> None:
        """Close what the BMC may have open; it may well have nothing."""
        try:
            operate(
                task.node,
                "closing the console",
                program.Program.deactivate_console,
                program_for=SERIAL_CONSOLES,
            )
        except errors.IronicError as exc:
            LOG.info("Node %s: %s", task.node.uuid, exc)

    def get_console(self, task: Task) -> dict[str, Any]:
        address = str(CONF.console.socat_address)
        host = f"[{address}]" if ":" in address else address
        return {"type": "socat", "url": f"tcp://{host}:{_port_of(task)}"}


def _target(task: Task) -> BmcTarget:
    target = driver_info.parse(task.node)
    return dataclasses.replace(target, needs_program=target.needs_program or SERIAL_CONSOLES)


def _own_port(task: Task) -> int | None:
    value = task.node.driver_info.get("ipmi_terminal_port")
    if value in (None, ""):
        return None
    return driver_info.port_number(task.node, "ipmi_terminal_port", value)


def _port_of(task: Task) -> int | None:
    return _own_port(task) or task.node.driver_internal_info.get(PORT)


def _script(target: BmcTarget) -> str:
    """Return the script that a client of the console gets."""
    suite = target.suites[0] if target.suites else None
    words = program.arguments(target, suite)
    words += ["-f", str(socat.place(target.node_uuid, "pw"))]
    line = shlex.join(words)
    return f"#!/bin/sh\n{line} sol deactivate >/dev/null 2>&1\nexec {line} sol activate\n"
