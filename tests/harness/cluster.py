"""The product as an operator runs it: real processes, real sockets, real signals."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests

from tests.harness.servers import HOST, free_port, wait_until

BIN = Path(sys.executable).parent
VERSION = "1.115"

#: Intervals short enough for a test; the relations between them are the defaults'.
FAST: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {
        "auth_strategy": "noauth",
        "debug": True,
        "my_ip": HOST,
        "hash_ring_reset_interval": 2,
        "enabled_hardware_types": "redfish,fake-hardware",
        "enabled_boot_interfaces": "redfish-virtual-media,fake",
        "enabled_deploy_interfaces": "direct,fake",
        "enabled_inspect_interfaces": "redfish,fake,no-inspect",
        "enabled_management_interfaces": "redfish,fake",
        "enabled_power_interfaces": "redfish,fake",
        "enabled_network_interfaces": "noop",
        "enabled_storage_interfaces": "noop",
        "enabled_raid_interfaces": "no-raid,fake",
        "enabled_bios_interfaces": "no-bios,fake",
        "enabled_vendor_interfaces": "no-vendor,fake",
        "enabled_rescue_interfaces": "no-rescue,fake",
        "enabled_firmware_interfaces": "no-firmware,fake",
        "enabled_console_interfaces": "no-console,fake",
        "default_network_interface": "noop",
    },
    "conductor": {
        "heartbeat_interval": 1,
        "heartbeat_timeout": 6,
        "check_provision_state_interval": 2,
        "sync_power_state_interval": 5,
        "sync_local_state_interval": 3,
        "power_failure_recovery_interval": 3,
        "graceful_shutdown_timeout": 30,
    },
    "deploy": {"http_server_host": HOST},
    "agent": {"image_download_source": "http"},
    "redfish": {"kernel_append_params": "nofb", "firmware_update_validation_interval": 0},
}


class Process:
    """A process of the product with its log."""

    def __init__(self, name: str, command: list[str], folder: Path, env: Mapping[str, str]) -> None:
        self.name, self.command, self.env = name, command, env
        self.log = folder / f"{name}.log"
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start in a process group of its own."""
        with self.log.open("ab") as out:
            self.popen = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=out,
                cwd=self.log.parent,
                env={**os.environ, **self.env},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.popen is not None, f"{self.name} does not run"
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def signal(self, sig: int) -> None:
        """Send a signal to the process alone."""
        os.kill(self.pid, sig)

    def wait(self, timeout: float = 60) -> int:
        """Wait for the end; return the exit status."""
        assert self.popen is not None
        return self.popen.wait(timeout)

    def kill(self) -> None:
        """kill -9 the whole group, and wait."""
        if self.popen is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(60)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Cluster:
    """API and conductors over one database and one bus.

    :param folder: everything that the processes write lies below it.
    :param options: group -> option -> value, over :data:`FAST`.
    :param address: where the API and the files for machines are served.
    """

    def __init__(
        self,
        folder: Path,
        database: str,
        transport: str,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        env: Mapping[str, str] | None = None,
        address: str = HOST,
    ) -> None:
        self.folder, self.database, self.transport = folder, database, transport
        self.options = options or {}
        self.env = dict(env or {})
        self.address, self.port = address, free_port()
        self.url = f"http://{address}:{self.port}"
        self.processes: dict[str, Process] = {}
        self.http = requests.Session()
        self.http.headers.update({"X-OpenStack-Ironic-API-Version": VERSION})

    # Configuration and processes

    def config(self, name: str, extra: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write the configuration file of one process."""
        own: dict[str, dict[str, Any]] = {
            "DEFAULT": {"transport_url": self.transport, "state_path": str(self.folder)},
            "api": {
                "host_ip": self.address,
                "port": self.port,
                "public_endpoint": self.url,
                "api_workers": 2,
            },
            "database": {"connection": self.database},
            "service_catalog": {"endpoint_override": self.url},
        }
        groups: dict[str, dict[str, Any]] = {}
        for source in (FAST, own, self.options, extra):
            for group, values in source.items():
                groups.setdefault(group, {}).update(values)
        lines = []
        for group, values in groups.items():
            lines.append(f"[{group}]")
            lines += [f"{key} = {value}" for key, value in values.items()]
        path = self.folder / f"{name}.conf"
        path.write_text("\n".join(lines) + "\n")
        return path

    def run(self, *command: str, config: Path, timeout: float = 120) -> str:
        """Run a console script to its end; return what it printed."""
        done = subprocess.run(
            [str(BIN / command[0]), "--config-file", str(config), *command[1:]],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.folder,
            check=False,
            env={**os.environ, **self.env},
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def migrate(self) -> None:
        """Create the schema."""
        self.run("ironic-rs-dbsync", "upgrade", config=self.config("dbsync", {}))

    def _launch(self, name: str, script: str, config: Path) -> Process:
        command = [str(BIN / script), "--config-file", str(config)]
        process = Process(name, command, self.folder, self.env)
        process.start()
        self.processes[name] = process
        return process

    def start_api(self) -> Process:
        """Start ``ironic-rs-api`` and wait until it answers."""
        process = self._launch("api", "ironic-rs-api", self.config("api", {}))
        self.wait_api(process)
        return process

    def wait_api(self, process: Process) -> None:
        """Wait until the API answers."""

        def answers() -> bool:
            assert process.alive, f"{process.name} ended\n{process.text()[-3000:]}"
            with contextlib.suppress(requests.RequestException):
                return self.http.get(f"{self.url}/v1", timeout=5).status_code == 200
            return False

        wait_until(answers, f"the API answers\n{process.text()[-3000:]}")

    def start_conductor(
        self, host: str, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Process:
        """Start ``ironic-rs-conductor`` and wait until it is registered."""
        image_port = free_port()
        root = self.folder / f"httpboot-{host}"
        extra: dict[str, dict[str, Any]] = {
            "DEFAULT": {"host": host},
            "deploy": {
                "http_root": root,
                "http_server": True,
                "http_server_port": image_port,
                "http_url": f"http://{HOST}:{image_port}",
            },
            "agent": {"certificates_path": self.folder / f"certificates-{host}"},
        }
        for group, values in (options or {}).items():
            extra.setdefault(group, {}).update(values)
        process = self._launch(host, "ironic-rs-conductor", self.config(host, extra))
        self.wait_conductor(host)
        return process

    def start_all_in_one(self, image_port: int | None = None) -> Process:
        """Start ``ironic-rs`` and wait until it answers and has its conductor."""
        image_port = image_port or free_port()
        options = {
            "DEFAULT": {"host": "all-in-one", "rpc_transport": "none"},
            "deploy": {
                "http_root": self.folder / "httpboot",
                "http_server_port": image_port,
                "http_url": f"http://{self.address}:{image_port}",
                "http_server": True,
            },
            "agent": {"certificates_path": self.folder / "certificates"},
        }
        process = self._launch("all-in-one", "ironic-rs", self.config("all-in-one", options))
        self.wait_api(process)
        self.wait_conductor("all-in-one")
        return process

    def wait_conductor(self, host: str, alive: bool = True) -> None:
        """Wait until the API shows the conductor as alive (or not)."""
        process = self.processes[host]

        def seen() -> bool:
            if alive:
                assert process.alive, f"{host} ended\n{process.text()[-3000:]}"
            rows = self.get("/v1/conductors")["conductors"]
            if not any(row["hostname"] == host and row["alive"] == alive for row in rows):
                return False
            # In the ring it is once its drivers are registered, a moment later.
            drivers = self.get("/v1/drivers")["drivers"]
            return not alive or any(host in driver["hosts"] for driver in drivers)

        wait_until(seen, f"conductor {host} alive={alive}")

    def stop(self) -> None:
        """Kill what is left, and wait."""
        for process in self.processes.values():
            if process.alive:
                with contextlib.suppress(ProcessLookupError):
                    process.signal(signal.SIGCONT)
            process.kill()

    # Requests

    def get(self, path: str, **params: Any) -> Any:
        """GET a JSON document; fails unless 200."""
        answer = self.http.get(self.url + path, params=params, timeout=60)
        assert answer.status_code == 200, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def send(self, method: str, path: str, body: Any = None, expect: int | None = None) -> Any:
        """Send a request; fails when ``expect`` is given and differs."""
        answer = self.http.request(method, self.url + path, json=body, timeout=90)
        if expect is not None:
            assert answer.status_code == expect, (
                f"{method} {path}: {answer.status_code} {answer.text}"
            )
        return answer

    def node(self, ident: str) -> dict[str, Any]:
        return dict(self.get(f"/v1/nodes/{ident}"))

    def create(self, host: str | None = None, **body: Any) -> dict[str, Any]:
        """Create a node; with ``host``, one that the ring gives to this conductor."""
        body = {"driver": "fake-hardware", **body}
        while True:
            node = self.send("POST", "/v1/nodes", body, 201).json()
            if host is None or self.node(node["uuid"])["conductor"] == host:
                return dict(node)
            self.send("DELETE", f"/v1/nodes/{node['uuid']}", expect=204)

    def manage(self, ident: str) -> None:
        """Bring an enrolled node to manageable."""
        self.provision(ident, "manage")
        self.wait_state(ident, "manageable")

    def provide(self, ident: str) -> None:
        """Bring an enrolled node to available."""
        self.manage(ident)
        self.provision(ident, "provide")
        self.wait_state(ident, "available")

    def provision(self, ident: str, target: str, **more: Any) -> None:
        """Ask for a provision action (202)."""
        body = {"target": target, **more}
        self.send("PUT", f"/v1/nodes/{ident}/states/provision", body, expect=202)

    def wait_power(self, ident: str, state: str) -> None:
        """Wait until the node shows a power state."""
        wait_until(lambda: self.node(ident)["power_state"] == state, f"{ident} is in {state}")

    def wait_state(self, ident: str, *wanted: str, timeout: float = 120) -> dict[str, Any]:
        """Wait until the node is in one of the states and nobody holds it."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.node(ident))
            return seen["provision_state"] in wanted and seen["reservation"] is None

        try:
            wait_until(there, "", timeout)
        except AssertionError:
            raise AssertionError(
                f"node {ident} is not {' or '.join(wanted)} after {timeout:.0f} s but "
                f"{seen.get('provision_state')!r}, reservation {seen.get('reservation')!r}, "
                f"last_error {seen.get('last_error')!r}"
            ) from None
        return seen

    def baremetal(self, *args: str, timeout: float = 180) -> Any:
        """Run the real ``baremetal`` client; returns its JSON, or its text."""
        command = [str(BIN / "baremetal"), "--os-auth-type", "none", "--os-endpoint", self.url]
        done = subprocess.run(
            [*command, *args], capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, f"baremetal {args}: {done.stdout}\n{done.stderr}"
        with contextlib.suppress(ValueError):
            return json.loads(done.stdout)
        return done.stdout


class Sandbox:
    """A fleet of simulated machines in a process of its own.

    :param args: further arguments of ``ironic-rs-sandbox serve``.
    :param image_mib: size of the image to deploy.
    """

    def __init__(self, folder: Path, machines: int, *args: str, image_mib: int = 4) -> None:
        self.folder = folder / "sandbox"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.files_port = free_port(), free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.files = folder / "files"
        self.image_url = f"http://{HOST}:{self.files_port}/demo.img"
        self.image_file = self.files / "demo.img"
        subprocess.run(
            [
                str(BIN / "ironic-rs-sandbox"),
                "demo-files",
                str(self.files),
                f"--image-mib={image_mib}",
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
        self.process = Process(
            "sandbox",
            [
                str(BIN / "ironic-rs-sandbox"),
                "serve",
                f"--directory={self.folder}",
                f"--machines={machines}",
                f"--control-port={self.port}",
                f"--files={self.files}",
                f"--files-port={self.files_port}",
                "--bmc-port=0",
                "--agent-port=0",
                *args,
            ],
            folder,
            {},
        )

    def start(self) -> None:
        """Start and wait until the control endpoint answers."""
        self.process.start()

        def answers() -> bool:
            assert self.process.alive, self.process.text()[-3000:]
            with contextlib.suppress(requests.RequestException):
                return requests.get(self.url + "/", timeout=5).status_code == 200
            return False

        wait_until(answers, f"the sandbox answers\n{self.process.text()[-2000:]}")

    def stop(self) -> None:
        self.process.kill()

    def options(self) -> dict[str, dict[str, Any]]:
        """Options of a service that boots these machines."""
        return {
            "conductor": {
                "deploy_kernel": f"file://{self.files}/kernel",
                "deploy_ramdisk": f"file://{self.files}/ramdisk",
                "bootloader": f"file://{self.files}/esp.img",
                "file_url_allowed_paths": self.files,
            },
            "agent": {
                "command_wait_interval": 1,
                "post_deploy_get_power_state_retry_interval": 1,
            },
            # The agents heartbeat every 1.5 to 3 seconds.
            "api": {"ramdisk_heartbeat_timeout": 5},
        }

    def node(self, machine: Mapping[str, Any]) -> dict[str, Any]:
        """Body that enrolls a machine."""
        bmc = machine["bmc"]
        return {
            "name": machine["name"],
            "driver": "redfish",
            "resource_class": "sandbox",
            "boot_interface": "redfish-virtual-media",
            "deploy_interface": "direct",
            "inspect_interface": "redfish",
            "driver_info": {
                "redfish_address": bmc["address"],
                "redfish_system_id": bmc["system_id"],
                "redfish_username": bmc["username"],
                "redfish_password": bmc["password"],
            },
            "instance_info": self.instance_info(),
        }

    def instance_info(self) -> dict[str, str]:
        """What to deploy: the demo image, whole-disk."""
        return {
            "image_source": self.image_url,
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": hashlib.sha256(self.image_file.read_bytes()).hexdigest(),
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }

    def enroll(self, cluster: Cluster, machine: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Create the node and the ports of a machine; returns the node."""
        node = cluster.send("POST", "/v1/nodes", {**self.node(machine), **more}, 201).json()
        for mac in machine["macs"]:
            port = {"node_uuid": node["uuid"], "address": mac}
            cluster.send("POST", "/v1/ports", port, 201)
        return dict(node)

    def lifecycle(self, cluster: Cluster, *args: str, timeout: float = 600) -> str:
        """Drive all machines through a whole life with the real client."""
        done = subprocess.run(
            [
                str(BIN / "ironic-rs-sandbox"),
                "lifecycle",
                f"--api={cluster.url}",
                f"--control={self.url}",
                f"--image-url={self.image_url}",
                f"--image-file={self.image_file}",
                "--plain",
                *args,
            ],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def get(self, path: str) -> Any:
        answer = requests.get(self.url + path, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> None:
        """Ask the control endpoint for an action."""
        answer = requests.post(self.url + path, json=body, timeout=30)
        assert answer.status_code in (200, 202, 204), answer.text

    def faults(self, machine: str | None = None, **values: Any) -> None:
        """Set faults of one machine, or of all."""
        path = f"/machines/{machine}/faults" if machine else "/faults"
        answer = requests.patch(self.url + path, json=values, timeout=30)
        assert answer.status_code == 200, answer.text

    def heal(self) -> None:
        """End all faults."""
        assert requests.delete(self.url + "/faults", timeout=30).status_code == 200

    def machines(self) -> list[dict[str, Any]]:
        return list(self.get("/machines")["machines"])


@contextlib.contextmanager
def running(thing: Cluster | Sandbox) -> Iterator[Any]:
    """Stop the thing at the end, whatever happens."""
    try:
        yield thing
    finally:
        thing.stop()
