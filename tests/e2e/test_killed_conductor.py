"""kill -9 of the conductor while the real agent writes the image."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.life import Life
from tests.harness.cluster import Cluster
from tests.harness.machine_room import Machine, Room, wait_for

HALF = 8 * 1024**2


class HeldImage:
    """An image of which the second part goes out when the test says so; a drip until then.

    :ivar begun: the first part is on its way to the machine.
    :ivar released: the second part goes out.
    :ivar broken: the connection ends instead of the second part; no other is served.
    :ivar served: how often somebody began to fetch it.
    """

    def __init__(self, address: str, file: Path) -> None:
        self.file = file
        self.begun, self.released = threading.Event(), threading.Event()
        self.broken = False
        self.served = 0
        self._server = http.server.ThreadingHTTPServer((address, 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://{address}:{self._server.server_address[1]}/{file.name}"

    @contextlib.contextmanager
    def running(self) -> Iterator[HeldImage]:
        """Serve until the block ends."""
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()

    def hold(self) -> None:
        """Keep the second part back from now on, and count anew."""
        self.begun.clear()
        self.released.clear()
        self.broken = False
        self.served = 0

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        image = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._head()

            def do_GET(self) -> None:
                if image.broken:
                    self.send_error(500, "by order of the test")
                    return
                image.served += 1
                content = image.file.read_bytes()
                self._head()
                self.wfile.write(content[:HALF])
                image.begun.set()
                sent = HALF
                # The agent gives up after a minute without a byte.
                while not image.released.wait(5):
                    self.wfile.write(content[sent : sent + 4096])
                    sent += 4096
                if not image.broken:
                    self.wfile.write(content[sent:])

            def _head(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(image.file.stat().st_size))
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def image(room: Room) -> Iterator[HeldImage]:
    with HeldImage(room.address, room.artefacts / "instance.raw").running() as held:
        yield held


@pytest.mark.timeout(7200)
def test_a_conductor_killed_while_the_image_is_written_leaves_a_machine_that_deploys(
    room: Room, service: Cluster, image: HeldImage
) -> None:
    machine = room.machine("killed-1", 3)
    life = Life(service, room, machine)
    with life.stage("enroll"):
        life.enroll(
            driver="redfish",
            boot_interface="redfish-virtual-media",
            automated_clean=False,
            **_bmc(room, machine),
        )
        life.act("provide", "available")

    with life.stage("killed, and the image is lost with it"):
        _kill_while_writing(life, room, image)
        # Waiting for the agent is no work of a conductor: the next one goes on with it.
        node = life.look()
        assert (node["provision_state"], node["reservation"]) == ("wait call-back", None)
        image.broken = True
        image.released.set()
        wait_for(
            lambda: life.look()["provision_state"] not in ("wait call-back", "deploying"),
            "the deployment ends",
        )
        wait_for(lambda: life.look()["reservation"] is None, "nobody holds the node")
        node = life.look()
        assert node["provision_state"] == "deploy failed"
        assert "write_image" in node["last_error"], node["last_error"]
        assert node["power_state"] == "power off"

    with life.stage("killed, and the image goes on"):
        _kill_while_writing(life, room, image)
        image.released.set()
        life.end("active")
        life.see_instance()
        assert image.served == 1
    with life.stage("undeploy"):
        life.undeploy()
    print(life.report())


def _bmc(room: Room, machine: Machine) -> dict[str, object]:
    # The agent fetches a lost image again, every ten seconds, nine times.
    more = "ipa-image-download-connection-retries=1"
    return {
        "driver_info": {
            "redfish_address": room.redfish,
            "redfish_system_id": machine.system,
            "redfish_username": room.user,
            "redfish_password": room.password,
            "kernel_append_params": f"%default% {more}",
        }
    }


def _kill_while_writing(life: Life, room: Room, image: HeldImage) -> None:
    """Deploy, kill the service when half of the image is on the machine, start it anew."""
    image.hold()
    drive = life.prepare_deploy("raw", image.url)
    life.baremetal.set_node_provision_state(life.machine.name, "active", config_drive=drive)
    wait_for(image.begun.is_set, "the agent fetches the image")
    wait_for(
        lambda: (
            (node := life.look())["provision_state"] == "wait call-back"
            and node["reservation"] is None
        ),
        "the conductor waits for the agent",
    )
    life.service.processes["all-in-one"].kill()
    life.service.start_all_in_one(room.files_port)
