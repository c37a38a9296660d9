"""Sandbox machines in the crash tests: a Redfish BMC and an agent in a process of their own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
import sqlalchemy as sa

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.conductor.periodics import tasks
from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.domain import states
from ironic_rs.drivers.redfish import power as redfish_power
from ironic_rs.sandbox import demo
from ironic_rs.sandbox.service import ServeOptions, serve
from ironic_rs.sandbox.settings import MIB, Settings
from ironic_rs.service import image_server
from ironic_rs.service.wsgi import WsgiServer
from tests.harness.crash.flows import NODE
from tests.harness.crash.site import Site
from tests.harness.servers import HOST, free_port, wait_until

#: The agent heartbeats every 0.6 to 1.2 seconds: silence for so long is the end of it.
_HEARTBEAT = 2
_SILENCE = 6.0
_LIMIT = 90.0
_WAITING = (
    states.DEPLOYWAIT,
    states.CLEANWAIT,
    states.SERVICEWAIT,
    states.INSPECTWAIT,
    states.RESCUEWAIT,
)
_POWER = {"On": states.POWER_ON, "Off": states.POWER_OFF}


class SandboxMachine:
    """The only machine of a sandbox, over its control endpoint."""

    only_switched_on_request = False

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.demo = demo.make_files(self.files, image_mib=3)
        self.control, self.files_port = free_port(), free_port()
        self.settings: dict[str, Any] = {
            "machines": 1,
            "network": f"{HOST}/32",
            "bmc_port": free_port(),
            "agent_port": 0,
            "boot_delay": 0.0,
            "shutdown_delay": 0.0,
            "heartbeat_gap": 0.0,
            "retry_interval": 0.1,
            "disk_bytes": 16 * MIB,
            "raid": (("immediate", 4), ("on-reset", 8)),
        }
        self.spec = Settings(directory=folder, **self.settings).spec(0)
        self._pid: int | None = None

    def start(self, place: Path) -> None:
        """Start a new machine, off, in a process of its own."""
        settings = Settings(directory=place / "sandbox", **self.settings)
        options = ServeOptions(settings, self.control, files=self.files, files_port=self.files_port)
        self._pid = os.fork()
        if self._pid == 0:
            try:
                signal.alarm(600)
                asyncio.run(serve(options))
            finally:
                os._exit(0)
        ready = settings.directory / "sandbox.json"
        wait_until(ready.exists, "the sandbox is ready", interval=0.01)

    def stop(self) -> None:
        """End it at once."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = None

    def _url(self, path: str) -> str:
        return f"http://{HOST}:{self.control}{path}"

    def switch(self, state: str) -> None:
        """Put the power switch."""
        body = {"type": "On" if state == states.POWER_ON else "ForceOff"}
        requests.post(self._url("/machines/1/actions/reset"), json=body, timeout=30)
        wait_until(lambda: self.power() == state, f"the machine is {state}", interval=0.01)

    def power(self) -> str:
        return _POWER[requests.get(self._url("/machines/1"), timeout=30).json()["power"]]

    def calls(self) -> Counter[str]:
        answer = requests.get(self._url("/machines/1/counters"), timeout=30).json()
        found: Counter[str] = Counter()
        for name, number in answer["counts"].items():
            # To make a volume, or to delete it, is a step as well: once for each of them.
            short = name.replace("agent.step.", "step ").replace("bmc.raid.", "step raid.")
            found[short.replace("bmc.reset.", "power ")] = number
        return found

    def forget_calls(self) -> None:
        requests.post(self._url("/counters/reset"), timeout=30)

    def instance_info(self) -> dict[str, Any]:
        """What to deploy: the demo image, whole-disk."""
        return {
            "image_source": f"http://{HOST}:{self.files_port}/{self.demo.image.name}",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": hashlib.sha256(self.demo.image.read_bytes()).hexdigest(),
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }

    def hardware(self) -> dict[str, Any]:
        """Columns of its node."""
        return {
            "driver": "redfish",
            "console_enabled": False,
            "boot_interface": "redfish-virtual-media",
            "deploy_interface": "direct",
            "inspect_interface": "redfish",
            "rescue_interface": "agent",
            "bios_interface": "no-bios",
            "firmware_interface": "no-firmware",
            "raid_interface": "no-raid",
            "driver_info": {
                "redfish_address": f"http://{HOST}:{self.spec.bmc_port}",
                "redfish_system_id": self.spec.system_path,
                "redfish_username": "admin",
                "redfish_password": "password",
            },
            "instance_info": self.instance_info(),
        }

    def options(self, folder: Path, api_port: int, images_port: int) -> dict[str, dict[str, Any]]:
        """Options of a conductor and an API that boot it."""
        return {
            "DEFAULT": {
                "auth_strategy": "noauth",
                "my_ip": HOST,
                "enabled_hardware_types": ["redfish"],
                "enabled_boot_interfaces": ["redfish-virtual-media"],
                "enabled_deploy_interfaces": ["direct"],
                "enabled_inspect_interfaces": ["redfish", "agent"],
                "enabled_management_interfaces": ["redfish"],
                "enabled_power_interfaces": ["redfish"],
                "enabled_network_interfaces": ["noop"],
                "enabled_storage_interfaces": ["noop"],
                "enabled_raid_interfaces": ["no-raid", "redfish"],
                "enabled_bios_interfaces": ["no-bios", "redfish"],
                "enabled_vendor_interfaces": ["no-vendor"],
                "enabled_rescue_interfaces": ["agent"],
                "enabled_firmware_interfaces": ["no-firmware", "redfish"],
                "enabled_console_interfaces": ["no-console"],
                "default_network_interface": "noop",
                "default_storage_interface": "noop",
            },
            "conductor": {
                "deploy_kernel": f"file://{self.demo.kernel}",
                "deploy_ramdisk": f"file://{self.demo.ramdisk}",
                "rescue_kernel": f"file://{self.demo.kernel}",
                "rescue_ramdisk": f"file://{self.demo.ramdisk}",
                "bootloader": f"file://{self.demo.esp}",
                "file_url_allowed_paths": [str(self.files)],
            },
            "deploy": {
                "http_root": str(folder / "httpboot"),
                "http_server": True,
                "http_server_host": HOST,
                "http_server_port": images_port,
                "http_url": f"http://{HOST}:{images_port}",
            },
            "redfish": {
                "firmware_update_validation_interval": 0,
                "firmware_update_bmc_timeout": 3,
            },
            "agent": {
                "image_download_source": "http",
                "command_wait_interval": 0,
                "post_deploy_get_power_state_retry_interval": 0,
                "certificates_path": str(folder / "certificates"),
            },
            "api": {
                "host_ip": HOST,
                "port": api_port,
                "ramdisk_heartbeat_timeout": _HEARTBEAT,
            },
            "service_catalog": {"endpoint_override": f"http://{HOST}:{api_port}"},
        }


class SandboxSite(Site):
    """A conductor with its API in one process, and the machine that it works on."""

    def __init__(self, host: str, machine: SandboxMachine) -> None:
        super().__init__(host)
        self.machine = machine
        services = Services(CONF, self.conductor.rpc, self.conductor.ring)
        self._app = app.build(services)
        self.timed_out = 0

    def serve(self) -> None:
        super().serve()
        image_server.start_if_wanted(CONF, single_process=True)
        WsgiServer(self._app, CONF).start()

    def steps(self, kind: str) -> list[dict[str, str]]:
        names = {"clean": ("erase_pstore", "erase_devices_metadata")}.get(kind, ("burnin_cpu",))
        return [{"interface": "deploy", "step": name} for name in names]

    def _moves(self) -> bool:
        state = self.node().provision_state
        return state in _WAITING or state in states.STUCK_STATES_TREATED_AS_FAIL

    def go_on(self, kind: str) -> None:
        """Wait while the agent drives the flow on."""
        wait_until(lambda: not self._moves(), f"{kind} ends", _LIMIT, interval=0.02)
        self.settle()

    def follow(self) -> None:
        periodics = tasks.of_interfaces(self.conductor.drivers.all_interfaces())

        def over() -> bool:
            for periodic in periodics:
                periodic.run(self.conductor)
            self.settle()
            return not self._moves()

        wait_until(over, "the BMC has done its work", _LIMIT, interval=0.05)
        # A step that finds all done switches nothing: of a machine whose power state was
        # lost only this knows.
        PowerSync().run(self.conductor)
        self.settle()

    def go_on_waiting(self) -> bool:
        """Nothing to do: the machine is real enough to come by itself."""
        return False

    def come_to_rest(self) -> dict[str, Any]:
        """Run all periodics until nothing changes and nothing is waited for any more.

        When nothing is heard of the machine for a while, the time of its call-back is over.
        """
        periodics = tasks.collect(self.conductor)
        before: Mapping[str, Any] | None = None
        quiet, changed = 0, time.monotonic()
        deadline = changed + _LIMIT
        while time.monotonic() < deadline:
            for periodic in periodics:
                periodic.run(self.conductor)
            self.settle()
            now = self.picture()
            if now != before:
                before, quiet, changed = now, 0, time.monotonic()
            quiet += 1
            if not self._moves():
                if quiet > 2:
                    return now
            elif time.monotonic() - changed > _SILENCE:
                self._let_time_pass()
                changed = time.monotonic()
            threading.Event().wait(0.05)
        raise AssertionError(f"after {_LIMIT:.0f} s it still changes: {before}")

    def _let_time_pass(self) -> None:
        """Make the last call-back of the machine a day old."""
        self.timed_out += 1
        rows = table(models.Node)
        yesterday = sa.func.datetime("now", "-1 day")
        with session.writer() as connection:
            connection.execute(
                sa.update(rows)
                .where(rows.c.uuid == NODE)
                .values(provision_updated_at=yesterday, inspection_started_at=yesterday)
            )


def configure(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Set options of this process."""
    for group, values in options.items():
        for name, value in values.items():
            CONF.set_override(name, value, group=None if group == "DEFAULT" else group)
    # A simulated machine is what it was told to be at once.
    redfish_power.RESTART_SETTLE = 0.0
