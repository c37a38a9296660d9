"""Cases of operators about IPMI and the programs of the conductor (field-cases.md K07).

The API, the conductor and the interfaces are the real ones; the programs are scripts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.db import nodes
from ironic_rs.domain import states
from ironic_rs.drivers.ipmi import turns
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import conducted, services_over
from tests.functional.api.harness import Answer, Client
from tests.harness.ipmitool import FakeProgram
from tests.harness.servers import missing, wait_until
from tests.unit.drivers.agent_server import AgentServer
from tests.unit.image_server import ImageServer
from tests.unit.images.test_configdrive import files_of

INFO = {"ipmi_address": "192.0.2.7", "ipmi_username": "admin", "ipmi_password": "the secret"}
#: Power on, and a Dell.
ON = """
device = args[-2:] == ['0x06', '0x01']
print(' 20 01 01 02 02 03 a2 02 00 34 12' if device else ' 01 00 00 00')
"""


class Room:
    """A conductor, and a directory that is all of its ``PATH``."""

    def __init__(self, api: Client, place: Path) -> None:
        self.api, self.place = api, place
        self.program = FakeProgram(place)

    def node(self, **info: Any) -> str:
        driver_info = {key: value for key, value in (INFO | info).items() if value is not None}
        answer = self.api.post("/v1/nodes", {"driver": "ipmi", "driver_info": driver_info})
        assert answer.status == 201, answer.body
        return str(answer.body["uuid"])

    def shown(self, uuid: str) -> dict[str, Any]:
        return dict(self.api.get(f"/v1/nodes/{uuid}").body)

    def settled(self, uuid: str) -> dict[str, Any]:
        """The node when nobody works on it."""

        def free() -> dict[str, Any] | None:
            node = self.shown(uuid)
            busy = node["reservation"] or node["provision_state"] in states.UNSTABLE
            return None if busy else node

        found = wait_until(free, "nobody works on the node")
        assert isinstance(found, dict)
        return found

    def ask(self, uuid: str, target: str, **more: Any) -> Answer:
        path = f"/v1/nodes/{uuid}/states/provision"
        return self.api.put(path, {"target": target, **more})

    def managed(self, uuid: str) -> dict[str, Any]:
        """Ask for ``manage``; the node when that is over."""
        assert self.ask(uuid, "manage").status == 202
        return self.settled(uuid)

    def validated(self, uuid: str, interface: str) -> tuple[bool, str]:
        found = self.api.get(f"/v1/nodes/{uuid}/validate").body[interface]
        return found["result"], str(found.get("reason"))

    def suites(self) -> list[str]:
        """Cipher suites that the program was run with, in order."""
        return [run["args"][run["args"].index("-C") + 1] for run in self.program.runs]


@pytest.fixture
def room(conf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    place = tmp_path / "bin"
    place.mkdir()
    for kind in ("power", "management", "vendor"):
        conf.set_override(f"enabled_{kind}_interfaces", ["ipmitool", "fake"])
    conf.set_override("enabled_hardware_types", ["ipmi", "fake-hardware"])
    conf.set_override("enabled_console_interfaces", ["ipmitool-socat", "no-console", "fake"])
    conf.set_override("enabled_boot_interfaces", ["ipxe", "fake"])
    conf.set_override("enabled_deploy_interfaces", ["direct", "fake"])
    for option, value in {
        "use_ipmitool": "always",
        "min_command_interval": 0,
        "command_retry_timeout": 2,
    }.items():
        conf.set_override(option, value, group="ipmi")
    ports = [range(20000, 20100)]
    for option, value in {
        "terminal_pid_dir": str(tmp_path),
        "port_range": ports,
        "socat_address": "127.0.0.1",
    }.items():
        conf.set_override(option, value, group="console")
    monkeypatch.setattr("ironic_rs.drivers.ipmi.bmc._pause_after_failure", lambda: 0.0)
    monkeypatch.setenv("PATH", str(place))
    turns._bmcs.clear()
    transport = DirectTransport()
    with conducted(transport):
        made = Room(Client(app.build(services_over(conf, transport))), place)
        made.program.write(ON)
        yield made


# K07/54: cipher suites


REFUSALS = [
    "Error in open session response message : no matching cipher suite",
    "Unsupported cipher suite ID : 17",
    "Error in open session response message : invalid role",
    "> RAKP 2 message has no data\nError in open session response message : invalid role\n"
    "Error: Unable to establish IPMI v2 / RMCP+ session",
]
SELECTIVE = """
suite = args[args.index('-C') + 1]
if suite not in {good!r}:
    print({text!r}, file=sys.stderr)
    sys.exit(1)
"""


@pytest.mark.parametrize("text", REFUSALS)
def test_54_the_next_suite_is_tried_and_remembered(conf: Any, room: Room, text: str) -> None:
    conf.set_override("cipher_suite_versions", ["3", "17"], group="ipmi")
    room.program.write(SELECTIVE.format(good=["3"], text=text) + ON)
    uuid = room.node()
    assert room.managed(uuid)["provision_state"] == states.MANAGEABLE
    assert room.suites()[:2] == ["17", "3"]
    assert set(room.suites()[1:]) == {"3"}

    path = f"/v1/nodes/{uuid}/management/boot_device"
    assert room.api.put(path, {"boot_device": "pxe"}).status == 204
    assert room.suites().count("17") == 1
    other = room.node()
    assert room.managed(other)["provision_state"] == states.MANAGEABLE
    assert room.suites().count("17") == 2, "what is known of one node is not taken for another"


@pytest.mark.parametrize("text", REFUSALS)
def test_54_when_all_suites_are_refused_the_last_refusal_is_told(
    conf: Any, room: Room, text: str
) -> None:
    conf.set_override("cipher_suite_versions", ["1", "3", "8", "17"], group="ipmi")
    room.program.write(SELECTIVE.format(good=[], text=text))
    uuid = room.node()
    node = room.managed(uuid)
    assert node["provision_state"] == states.ENROLL
    assert text.splitlines()[-1] in node["last_error"]
    assert "192.0.2.7:623" in node["last_error"]
    assert room.suites() == ["17", "8", "3", "1"]
    assert "the secret" not in node["last_error"]


def test_54_the_suite_of_the_node_is_respected(conf: Any, room: Room) -> None:
    conf.set_override("cipher_suite_versions", ["3", "17"], group="ipmi")
    room.program.write(SELECTIVE.format(good=["3"], text=REFUSALS[0]) + ON)
    refused, accepted = room.node(ipmi_cipher_suite="17"), room.node(ipmi_cipher_suite=3)
    node = room.managed(refused)
    assert node["provision_state"] == states.ENROLL
    assert "no matching cipher suite" in node["last_error"]
    assert room.suites() == ["17"]
    assert room.managed(accepted)["provision_state"] == states.MANAGEABLE
    assert set(room.suites()[1:]) == {"3"}


def test_54_without_a_list_the_choice_is_the_programs(room: Room) -> None:
    room.program.write(f"print({REFUSALS[2]!r}, file=sys.stderr); sys.exit(1)")
    node = room.managed(room.node())
    assert node["provision_state"] == states.ENROLL
    assert "invalid role" in node["last_error"]
    assert all("-C" not in run["args"] for run in room.program.runs)


# K07/56: nonsense in driver_info


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ipmi_address", "a b"),
        ("ipmi_address", "-x"),
        ("ipmi_address", "-H192.0.2.8"),
        ("ipmi_address", "10.0.0.999"),
        ("ipmi_address", ""),
        ("ipmi_address", None),
        ("ipmi_port", "623x"),
        ("ipmi_port", 0),
        ("ipmi_port", 70000),
        ("ipmi_priv_level", "ROOT"),
        ("ipmi_priv_level", "-L"),
        ("ipmi_protocol_version", "9"),
        ("ipmi_cipher_suite", "strong"),
        ("ipmi_hex_kg_key", "abc"),
        ("ipmi_bridging", "triple"),
        ("ipmi_target_address", "--help"),
        ("ipmi_username", "x" * 17),
    ],
)
def test_56_nonsense_is_named_before_the_bmc_is_asked(room: Room, key: str, value: Any) -> None:
    more = {key: value}
    if key == "ipmi_target_address":
        more |= {"ipmi_bridging": "single", "ipmi_target_channel": 1}
    uuid = room.node(**more)
    for interface in ("power", "management"):
        result, reason = room.validated(uuid, interface)
        assert (result, key in reason) == (False, True), reason
    node = room.managed(uuid)
    assert node["provision_state"] == states.ENROLL
    assert key in node["last_error"]
    assert "Traceback" not in node["last_error"]

    nodes.update(nodes.get(uuid), {"provision_state": states.MANAGEABLE}, fence=None)
    for method, path, body in (
        ("PUT", "states/power", {"target": "power on"}),
        ("PUT", "management/boot_device", {"boot_device": "pxe"}),
        ("POST", "vendor_passthru/bmc_reset", {"warm": True}),
    ):
        answer = room.api.request(method, f"/v1/nodes/{uuid}/{path}", body)
        assert (answer.status, key in answer.fault["faultstring"]) == (400, True), path
    assert room.program.runs == [], "nothing of it was given to the program"


@pytest.mark.parametrize("address", ["2001:db8::7", "[2001:db8::7]"])
def test_56_ipv6_is_given_to_the_program_as_it_is(room: Room, address: str) -> None:
    uuid = room.node(ipmi_address=address)
    assert room.validated(uuid, "power") == (True, "None")
    assert room.managed(uuid)["provision_state"] == states.MANAGEABLE
    args = room.program.runs[0]["args"]
    assert args[args.index("-H") + 1] == "2001:db8::7"


@pytest.mark.parametrize(
    "words", [{"ipmi_username": "-v"}, {"ipmi_username": "a b"}, {"ipmi_password": "-f /etc/x"}]
)
def test_56_what_looks_like_an_option_is_a_word(room: Room, words: dict[str, str]) -> None:
    assert room.managed(room.node(**words))["provision_state"] == states.MANAGEABLE
    run = room.program.runs[0]
    if "ipmi_username" in words:
        assert run["args"][run["args"].index("-U") + 1] == words["ipmi_username"]
    assert run["password"] == words.get("ipmi_password", "the secret")


STEP = {"interface": "vendor", "step": "send_raw", "args": {"raw_bytes": "0x00 0x01"}}


@pytest.mark.parametrize(
    ("state", "target", "key"),
    [
        (states.MANAGEABLE, "clean", "clean_steps"),
        (states.AVAILABLE, "active", "deploy_steps"),
        (states.ACTIVE, "service", "service_steps"),
    ],
)
def test_56_raw_commands_are_no_steps_by_default(
    conf: Any, room: Room, state: str, target: str, key: str
) -> None:
    uuid = room.node()
    nodes.update(nodes.get(uuid), {"provision_state": state}, fence=None)
    step = {**STEP, "priority": 99} if target == "active" else STEP

    answer = room.ask(uuid, target, **{key: [step]})

    assert answer.status == 400
    assert "vendor.send_raw" in answer.fault["faultstring"]
    assert f"disallow_{key}" in answer.fault["faultstring"]
    assert room.shown(uuid)["provision_state"] == state
    assert room.program.runs == []


def test_56_raw_commands_run_where_the_operator_allows_them(conf: Any, room: Room) -> None:
    conf.set_override("disallow_clean_steps", [], group="api")
    uuid = room.node()
    nodes.update(nodes.get(uuid), {"provision_state": states.MANAGEABLE}, fence=None)
    assert room.ask(uuid, "clean", clean_steps=[STEP], disable_ramdisk=True).status == 202
    node = room.settled(uuid)
    assert (node["provision_state"], node["last_error"]) == (states.MANAGEABLE, None)
    runs = [run["args"][-3:] for run in room.program.runs]
    assert ["raw", "0x00", "0x01"] in runs


def installed(name: str) -> str:
    """The real program, wherever the room has its own."""
    found = shutil.which(name, path=os.defpath)
    if found is None:
        missing(f"{name} is not installed")
    return str(found)


@pytest.mark.parametrize(
    ("method", "body", "words"),
    [
        ("bmc_reset", {}, ["0x06", "0x03"]),
        ("bmc_reset", {"warm": "false"}, ["0x06", "0x02"]),
        ("send_raw", {"raw_bytes": "0x2c 1 0xff"}, ["0x2c", "0x01", "0xff"]),
    ],
)
def test_56_vendor_methods_are_called_by_who_may(
    room: Room, method: str, body: dict[str, Any], words: list[str]
) -> None:
    uuid = room.node()
    path = f"/v1/nodes/{uuid}/vendor_passthru/{method}"
    for verb in ("GET", "PUT", "DELETE"):
        assert room.api.request(verb, path, body).status == 400
    assert room.api.post(path, body).status == 202
    room.settled(uuid)
    assert room.program.runs[-1]["args"][-len(words) - 1 :] == ["raw", *words]


@pytest.mark.parametrize(
    ("method", "body", "word"),
    [
        ("send_raw", {}, "raw_bytes"),
        ("send_raw", {"raw_bytes": "0x00"}, "raw_bytes"),
        ("send_raw", {"raw_bytes": "0x00 0x01; reboot"}, "raw_bytes"),
        ("bmc_reset", {"warm": "perhaps"}, "warm"),
        ("fly", {}, "fly"),
    ],
)
def test_56_vendor_methods_refuse_nonsense_at_once(
    room: Room, method: str, body: dict[str, Any], word: str
) -> None:
    answer = room.api.post(f"/v1/nodes/{room.node()}/vendor_passthru/{method}", body)
    assert (answer.status, word in answer.fault["faultstring"]) == (400, True)
    assert room.program.runs == []


@pytest.fixture
def with_socat(room: Room) -> Iterator[Room]:
    """The real socat, on the path."""
    (room.place / "socat").symlink_to(installed("socat"))
    yield room
    for node in room.api.get("/v1/nodes").body["nodes"]:
        room.api.put(f"/v1/nodes/{node['uuid']}/states/console", {"enabled": False})
        room.settled(node["uuid"])


def test_56_a_console_that_was_killed_is_enabled_again(with_socat: Room, tmp_path: Path) -> None:
    room = with_socat
    uuid = room.node()
    path = f"/v1/nodes/{uuid}/states/console"
    pids = []
    for _life in range(2):
        assert room.api.put(path, {"enabled": True}).status == 202
        wait_until(lambda: room.api.get(path).body["console_enabled"], "the console is on")
        room.settled(uuid)
        pids.append(int((tmp_path / f"{uuid}.pid").read_text()))
        # Killed, and its conductor as well: nobody has tidied up.
        os.killpg(pids[-1], 9)
        nodes.update(nodes.get(uuid), {"console_enabled": False}, fence=None)
    assert pids[0] != pids[1]
    assert room.shown(uuid)["last_error"] is None


# K07/57: programs that are missing


def absent(room: Room, name: str) -> None:
    (room.place / name).unlink(missing_ok=True)


def not_executable(room: Room, name: str) -> None:
    (room.place / name).write_text("#!/bin/sh\n")
    (room.place / name).chmod(0o644)


def of_another_machine(room: Room, name: str) -> None:
    (room.place / name).write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    (room.place / name).chmod(0o755)


BROKEN = pytest.mark.parametrize("broken", [absent, not_executable, of_another_machine])
Break = Callable[[Room, str], None]


@BROKEN
def test_57_without_ipmitool_the_node_stays_where_it_is(room: Room, broken: Break) -> None:
    uuid = room.node()
    broken(room, "ipmitool")

    node = room.managed(uuid)

    assert node["provision_state"] == states.ENROLL
    assert "ipmitool" in node["last_error"]
    assert "Traceback" not in node["last_error"]
    result, reason = room.validated(uuid, "power")
    if broken is not of_another_machine:
        assert (result, "ipmitool" in reason) == (False, True)
    room.program.write(ON)
    assert room.managed(uuid)["provision_state"] == states.MANAGEABLE


@BROKEN
@pytest.mark.parametrize("name", ["ipmitool", "socat"])
def test_57_without_its_programs_a_console_is_refused(
    with_socat: Room, broken: Break, name: str
) -> None:
    room = with_socat
    uuid = room.node()
    (room.place / name).unlink()
    broken(room, name)
    answer = room.api.put(f"/v1/nodes/{uuid}/states/console", {"enabled": True})
    if broken is not of_another_machine:
        assert (answer.status, name in answer.fault["faultstring"]) == (400, True)
        result, reason = room.validated(uuid, "console")
        assert (result, name in reason) == (False, True)
        return
    assert answer.status == 202
    node = room.settled(uuid)
    if name == "socat":
        # ipmitool is run for a client only, who is told then.
        assert (node["console_enabled"], "socat" in node["last_error"]) == (False, True)


def qcow2(tmp_path: Path) -> bytes:
    path = tmp_path / "disk.qcow2"
    words = [installed("qemu-img"), "create", "-f", "qcow2", str(path), "1M"]
    subprocess.run(words, check=True, capture_output=True)
    return path.read_bytes()


@contextlib.contextmanager
def deployable(
    conf: Any, room: Room, tmp_path: Path, content: bytes, **info: Any
) -> Iterator[tuple[str, AgentServer]]:
    """A node whose image the conductor serves, and its ramdisk, which runs already."""
    conf.set_override("http_root", str(tmp_path / "httpboot"), group="deploy")
    conf.set_override("images_path", str(tmp_path / "images"), group="pxe")
    conf.set_override("instance_master_path", "", group="pxe")
    conf.set_override("require_tls", False, group="agent")
    conf.set_override("endpoint_override", "http://api", group="service_catalog")
    instance = {
        "image_os_hash_algo": "sha256",
        "image_os_hash_value": hashlib.sha256(content).hexdigest(),
        "image_type": "whole-disk",
        **info,
    }
    with ImageServer().running() as server, AgentServer().running() as agent:
        conf.set_override("http_url", server.url, group="deploy")
        instance["image_source"] = server.put("/disk", content)
        listed = {"deploy_steps": {}, "hardware_manager_version": {}}
        agent.answers["deploy.get_deploy_steps"] = lambda _: {
            "status": "SUCCEEDED",
            "result": listed,
        }
        body = {
            "driver": "fake-hardware",
            "deploy_interface": "direct",
            "instance_info": instance,
            "driver_info": {"fast_track": True, "image_download_source": "local"},
        }
        uuid = str(room.api.post("/v1/nodes", body).body["uuid"])
        internal = {"agent_url": agent.url, "agent_last_heartbeat": "2999-01-01T00:00:00+00:00"}
        row = {"provision_state": states.AVAILABLE, "power_state": states.POWER_ON}
        nodes.update(nodes.get(uuid), {**row, "driver_internal_info": internal}, fence=None)
        server.put(f"/agent_images/{uuid}", b"")
        yield uuid, agent


@BROKEN
@pytest.mark.parametrize("declared", ["qcow2", None])
def test_57_without_qemu_img_a_deployment_with_a_conversion_fails(
    conf: Any, room: Room, tmp_path: Path, broken: Break, declared: str | None
) -> None:
    broken(room, "qemu-img")
    info = {"image_disk_format": declared} if declared else {}
    with deployable(conf, room, tmp_path, qcow2(tmp_path), **info) as (uuid, _agent):
        answer = room.ask(uuid, "active")
        if declared and broken is not of_another_machine:
            # What is known beforehand is told before anything is begun.
            assert (answer.status, "qemu-img" in answer.fault["faultstring"]) == (400, True)
            result, reason = room.validated(uuid, "deploy")
            assert (result, "qemu-img" in reason) == (False, True)
            return
        assert answer.status == 202
        node = room.settled(uuid)
        assert node["provision_state"] == states.DEPLOYFAIL
        assert "qemu-img" in node["last_error"]
        assert "Traceback" not in node["last_error"]
        assert not [path for path in (tmp_path / "images").rglob("*") if path.is_file()]


def test_57_config_drives_and_raw_images_need_no_program(
    conf: Any, room: Room, tmp_path: Path
) -> None:
    absent(room, "ipmitool")
    assert os.listdir(room.place) == []
    with deployable(conf, room, tmp_path, b"\x5a" * 4096, image_disk_format="raw") as found:
        uuid, agent = found
        drive = {"meta_data": {"hostname": "h"}, "user_data": "#!/bin/sh"}
        assert room.ask(uuid, "active", configdrive=drive).status == 202
        wait_until(lambda: "deploy.execute_deploy_step" in agent.posted(), "the image is written")
        given = agent.params("deploy.execute_deploy_step")["step"]["args"]["configdrive"]
        assert files_of(given)["/openstack/latest/user_data"] == b"#!/bin/sh"
