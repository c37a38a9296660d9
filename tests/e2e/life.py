"""The life of a machine, driven by openstacksdk, with the time of each stage."""

from __future__ import annotations

import base64
import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import openstack

from tests.harness.cluster import Cluster
from tests.harness.machine_room import Machine, Room, wait_for

Document = dict[str, Any]

#: Where a machine stays after something went wrong.
FAILED = {
    *("enroll", "error", "clean failed", "deploy failed", "inspect failed", "rescue failed"),
    *("unrescue failed", "service failed"),
}


class Life:
    """One machine and its node."""

    def __init__(self, service: Cluster, room: Room, machine: Machine) -> None:
        self.service, self.room, self.machine = service, room, machine
        self.console = machine.console
        self.baremetal = openstack.connect(
            auth_type="none", endpoint=service.url, baremetal_endpoint_override=service.url
        ).baremetal
        self.times: dict[str, float] = {}
        self.node: Document = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of the block; print it, and the console when the block fails."""
        begun = time.monotonic()
        print(f">> {self.machine.name}: {name}", flush=True)
        try:
            yield
        except BaseException:
            print(f"-- end of the console of {self.machine.name}\n{self.console.text[-6000:]}")
            raise
        self.times[name] = time.monotonic() - begun
        print(f"<< {self.machine.name}: {name} {self.times[name]:.0f} s", flush=True)

    def report(self) -> str:
        """Return the times of all stages in one line."""
        stages = ", ".join(f"{name} {spent:.0f}" for name, spent in self.times.items())
        return f"{self.machine.name}: {stages}; {sum(self.times.values()):.0f} s"

    def look(self) -> Document:
        """Return the node as it is now."""
        return self.service.node(self.machine.name)

    def wait(self, wanted: str) -> Document:
        """Wait until the node is in the state and free; fails at once in a failed state."""
        shown = ""

        def there() -> bool:
            nonlocal shown
            self.node = node = self.look()
            state = node["provision_state"]
            if state != shown:
                print(f"   {state} ({node['power_state']})", flush=True)
                shown = state
            if state != wanted and state in FAILED and node["reservation"] is None:
                raise AssertionError(f"{state}: {node['last_error']}")
            return bool(state == wanted and node["reservation"] is None)

        wait_for(there, f"{self.machine.name} is {wanted}")
        return self.node

    def act(self, target: str, wanted: str, **more: Any) -> Document:
        """Ask for a provision action and wait for its end; nothing may have gone wrong."""
        self.baremetal.set_node_provision_state(self.machine.name, target, **more)
        return self.end(wanted)

    def end(self, wanted: str) -> Document:
        """Wait for the state; nothing may have gone wrong on the way."""
        node = self.wait(wanted)
        assert node["last_error"] is None, node["last_error"]
        return node

    # Stages

    def enroll(self, **node: Any) -> None:
        """Create the node and its port; ``manage`` checks the BMC."""
        made = self.baremetal.create_node(
            name=self.machine.name,
            resource_class="room",
            properties={"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"},
            deploy_interface="direct",
            rescue_interface="agent",
            **node,
        )
        assert made.provision_state == "enroll"
        self.baremetal.create_port(node_id=made.id, address=self.machine.mac)
        self.act("manage", "manageable")

    def inspect(self, interface: str) -> Document:
        """Inspect by the interface; returns what is stored of the inventory."""
        self.baremetal.update_node(self.machine.name, inspect_interface=interface)
        self.act("inspect", "manageable")
        return dict(self.service.get(f"/v1/nodes/{self.machine.name}/inventory"))

    def image(self, disk_format: str, url: str | None = None) -> Document:
        """Return the ``instance_info`` of the room's image; ``url``: from elsewhere."""
        name = f"instance.{disk_format}"
        return {
            "image_source": url or self.room.file(name),
            "image_checksum": (self.room.artefacts / f"{name}.sha256").read_text().strip(),
            "image_disk_format": disk_format,
        }

    def prepare_deploy(self, disk_format: str, url: str | None = None) -> Document:
        """Set what to deploy; returns a config drive with a mark of its own."""
        self.baremetal.update_node(self.machine.name, instance_info=self.image(disk_format, url))
        self.console.skip()
        mark = uuid.uuid4().hex
        return {
            "meta_data": {"uuid": mark, "name": self.machine.name},
            "user_data": f"#room {mark}",
            "network_data": {"links": [], "networks": [], "services": []},
        }

    def deploy(self, disk_format: str = "qcow2") -> None:
        """Deploy the image with a config drive, and see the instance read it."""
        drive = self.prepare_deploy(disk_format)
        self.act("active", "active", config_drive=drive)
        self.see_instance()
        assert drive["meta_data"]["uuid"] in self.console.found(r"ROOM-INSTANCE (meta_data.json.*)")
        assert drive["user_data"] in self.console.found(r"ROOM-INSTANCE (user_data.*)")

    def see_instance(self) -> None:
        """Wait until the instance has booted, by what it writes on the console."""
        wait_for(lambda: self.console.found("ROOM-INSTANCE (ready)"), "the instance boots")
        assert self.console.found("ROOM-INSTANCE (booted)")

    def rescue(self) -> None:
        """Rescue: the ramdisk runs and has the hash of the password."""
        self.console.skip()
        self.act("rescue", "rescue", rescue_password="let-me-in-1")
        # The agent's own log speaks of the password too: the hash alone tells.
        wait_for(
            lambda: self.console.found(r"ROOM-RAMDISK \S+ rescue password (\$5\$)"),
            "the ramdisk has the hash of the password",
        )

    def unrescue(self) -> None:
        """Boot the instance again."""
        self.console.skip()
        self.act("unrescue", "active")
        self.see_instance()

    def modify(self) -> None:
        """Service: the ramdisk writes a file on the disk, the instance finds it."""
        self.console.skip()
        mark = uuid.uuid4().hex
        file = {
            "path": "/room.txt",
            "partition": "1",
            "content": base64.b64encode(mark.encode()).decode(),
        }
        step = {"interface": "deploy", "step": "inject_files", "args": {"files": [file]}}
        # The SDK knows no service.
        self.service.provision(self.machine.name, "service", service_steps=[step])
        self.end("active")
        self.see_instance()
        assert self.console.found(r"ROOM-INSTANCE file (\w+)") == mark

    def undeploy(self) -> None:
        """Tear down; the disk is cleaned, so no instance boots any more."""
        self.act("deleted", "available")
