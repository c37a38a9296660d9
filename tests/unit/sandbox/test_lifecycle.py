"""The scripted lifecycle against a double of the API, with a stand-in for the client."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from rich.console import Console

from ironic_rs.sandbox.lifecycle.client import LifecycleError, NodeView
from ironic_rs.sandbox.lifecycle.progress import Lines, LiveTable, StageTiming, timing_lines
from ironic_rs.sandbox.lifecycle.scenario import Plan, Scenario

IMAGE = b"bytes of an image"
SHA256 = hashlib.sha256(IMAGE).hexdigest()
NAMES = ["machine-0001", "machine-0002"]
TARGETS = {
    "manage": "manageable",
    "inspect": "manageable",
    "provide": "available",
    "deploy": "active",
    "undeploy": "available",
}

# Sends its words to the double, which acts on them; in bash, because it starts fast.
STAND_IN = r"""#!/bin/bash
LC_ALL=C
[ "$OS_AUTH_TYPE" = none ] || exit 9
place=${OS_ENDPOINT#http://}
body=$(printf '%s\n' "$@")
exec 3<>"/dev/tcp/${place%:*}/${place#*:}"
printf 'POST /command HTTP/1.0\r\nContent-Length: %s\r\n\r\n%s' "${#body}" "$body" >&3
read -r _ status _ <&3
[ "$status" = 200 ]
"""


class Double:
    """API and control endpoint; verbs succeed at once unless told otherwise."""

    def __init__(self):
        self.nodes = {}
        self.commands = []
        self.outcomes = {}
        self.disk = {"sha256": SHA256, "configdrive": {"size": 1}}
        self.runs = "instance"
        self.inspections = 0

    def application(self):
        application = web.Application()
        application.add_routes(
            [
                web.post("/command", self.command),
                web.get("/v1/nodes", self.list_nodes),
                web.get("/machines", self.machines),
                web.get("/states", self.states),
                web.get("/machines/{name}/disk", self.get_disk),
            ]
        )
        return application

    async def command(self, request):
        words = (await request.text()).split("\n")
        self.commands.append(words)
        if words[0] == "create":
            with open(words[1]) as stream:
                for node in json.load(stream)["nodes"]:
                    self.add(node["name"], "enroll", node)
        elif words[1] in TARGETS:
            for name in NAMES:
                if name in words:
                    self.act(words[1], self.nodes[name])
        return web.json_response({})

    def add(self, name, state, given=None):
        self.nodes[name] = {
            "uuid": f"uuid of {name}",
            "name": name,
            "provision_state": state,
            "target_provision_state": None,
            "power_state": "power off",
            "last_error": None,
            "reservation": None,
            "inspection_finished_at": None,
            "given": given,
        }

    def act(self, verb, node):
        state, error = self.outcomes.get(verb, (TARGETS[verb], None))
        node.update(provision_state=state, last_error=error)
        if verb == "inspect" and error is None:
            self.inspections += 1
            node["inspection_finished_at"] = f"time {self.inspections}"
        if verb == "undeploy":
            self.runs = "none"
            self.disk = {"sha256": "0" * 64, "configdrive": None}

    async def list_nodes(self, request):
        assert request.headers["X-OpenStack-Ironic-API-Version"]
        fields = request.query["fields"].split(",")
        shown = [{key: node[key] for key in fields} for node in self.nodes.values()]
        return web.json_response({"nodes": shown})

    async def machines(self, _request):
        bmc = {"address": "http://bmc", "system_id": "/s", "username": "u", "password": "p"}
        shown = [{"name": name, "macs": ["52:53:00:00:00:01"], "bmc": bmc} for name in NAMES]
        return web.json_response({"machines": shown})

    async def states(self, _request):
        state = {"power": "On", "software": self.runs, "detail": "because"}
        return web.json_response(dict.fromkeys(NAMES, state))

    async def get_disk(self, request):
        assert request.query["bytes"] == str(len(IMAGE))
        return web.json_response(self.disk)


@asynccontextmanager
async def serving(double):
    runner = web.AppRunner(double.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
def double():
    return Double()


@pytest.fixture
def live(double, tmp_path):
    """Run a lifecycle; returns (scenario, printed text)."""
    executable = tmp_path / "baremetal"
    executable.write_text(STAND_IN)
    executable.chmod(0o755)
    image = tmp_path / "image"
    image.write_bytes(IMAGE)

    async def run(options):
        stream = io.StringIO()
        async with serving(double) as url, aiohttp.ClientSession() as session:
            plan = Plan(url, url, f"{url}/image", image, baremetal=str(executable), **options)
            scenario = Scenario(plan, session, Lines(stream))
            await scenario.run()
        return scenario, stream.getvalue()

    return lambda **options: asyncio.run(run(options))


def verbs(double):
    return [words[0] if words[0] == "create" else words[1] for words in double.commands]


def test_a_whole_life_uses_one_command_for_all_machines_and_each_verb(live, double):
    scenario, text = live()
    assert verbs(double) == ["create", "manage", "inspect", "provide", "set", "deploy", "undeploy"]
    for words in double.commands[1:]:
        assert words[2:4] == NAMES
    assert [item.name for item in scenario.timings] == ["enroll", *TARGETS]
    assert "All 2 machines are active at one time" in text
    assert "available again" in text


def test_nodes_are_enrolled_with_what_the_machine_says(live, double):
    live(driver_info={"bootloader": "file:///esp"})
    node = double.nodes["machine-0001"]["given"]
    assert node["driver_info"] == {
        "redfish_address": "http://bmc",
        "redfish_system_id": "/s",
        "redfish_username": "u",
        "redfish_password": "p",
        "bootloader": "file:///esp",
    }
    assert node["ports"] == [{"address": "52:53:00:00:00:01"}]


def test_the_image_is_set_with_its_digest(live, double):
    live()
    words = next(words for words in double.commands if words[1] == "set")
    assert f"image_os_hash_value={SHA256}" in words
    assert "image_os_hash_algo=sha256" in words


def test_known_nodes_are_used_again(live, double):
    double.add("machine-0001", "available")
    double.add("machine-0002", "manageable")
    live()
    assert verbs(double)[:2] == ["manage", "inspect"]
    assert double.commands[0][2:] == ["machine-0001"]


def test_a_node_in_use_is_left_alone(live, double):
    double.add("machine-0002", "active")
    with pytest.raises(LifecycleError, match="machine-0002 is active"):
        live()
    assert double.commands == []


def test_parts_can_be_left_out(live, double):
    live(inspect=False, undeploy=False, config_drive=False)
    assert verbs(double) == ["create", "manage", "provide", "set", "deploy"]
    assert "--config-drive" not in double.commands[-1]


@pytest.mark.parametrize(
    ("verb", "outcome", "message"),
    [
        ("manage", ("enroll", "no such BMC"), "manage: node machine-0001 is in state enroll"),
        ("provide", ("clean failed", "step failed"), "clean failed: step failed"),
        ("deploy", ("deploy failed", None), "deploy failed: no error recorded"),
        ("undeploy", ("error", "why"), "error: why"),
    ],
)
def test_a_failed_node_ends_the_run_with_its_reason(live, double, verb, outcome, message):
    double.outcomes[verb] = outcome
    with pytest.raises(LifecycleError, match=message):
        live()


def test_time_runs_out(live, double):
    double.outcomes["provide"] = ("cleaning", None)
    with pytest.raises(LifecycleError, match=r"provide: after 0 s not available: machine-0001"):
        live(stage_timeout=0.1)


def test_a_disk_that_differs_from_the_image_fails_the_run(live, double):
    double.disk["sha256"] = "1" * 64
    with pytest.raises(LifecycleError, match="the disks differ from the image: machine-0001"):
        live()


def test_an_instance_that_does_not_run_fails_the_run(live, double):
    double.runs = "firmware"
    with pytest.raises(LifecycleError, match="instances do not run: machine-0001: because"):
        live(stage_timeout=0.1)


def test_a_lost_config_drive_fails_the_run(live, double):
    double.disk["configdrive"] = None
    with pytest.raises(LifecycleError, match="no config drive"):
        live()


def test_a_failed_command_is_shown_with_its_error(live, tmp_path):
    (tmp_path / "baremetal").write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    with pytest.raises(LifecycleError, match=r"`baremetal create .*` ended with 3: it is broken"):
        live()


def test_a_missing_client_is_named():
    plan = Plan("http://a", "http://b", "http://c", None, baremetal="/nonexistent/baremetal")
    with pytest.raises(LifecycleError, match="/nonexistent/baremetal"):
        asyncio.run(Scenario(plan, None, Lines())._command.run("--version"))


def view(state, name="machine-0001"):
    return NodeView(name, "uuid", state, None, "power on", None, None, False)


def test_lines_tell_each_change_once():
    stream = io.StringIO()
    with Lines(stream) as lines:
        for state in ("available", "deploying", "deploying", "active"):
            lines.update({"machine-0001": view(state)}, {})
    texts = [line.split("s  ", 1)[1] for line in stream.getvalue().splitlines()]
    assert texts == [
        "machine-0001: available",
        "machine-0001: available -> deploying",
        "machine-0001: deploying -> active",
    ]


def test_lines_of_many_machines_are_sums():
    stream = io.StringIO()
    with Lines(stream) as lines:
        lines.update({str(number): view("active", str(number)) for number in range(50)}, {})
    assert stream.getvalue().endswith("active 50\n")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize(("count", "shown"), [(2, "machine-1"), (50, "50")])
def test_the_table_shows_machines_or_sums(count, shown):
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with LiveTable(console) as table:
        table.stage("deploy")
        nodes = {f"machine-{n}": view("deploy failed", f"machine-{n}") for n in range(count)}
        table.update(nodes, {"machine-1": "agent"})
        table.note("a note")
    table.timings([StageTiming("deploy", 3.0, [1.0, 2.0, 3.0])])
    text = console.file.getvalue()
    assert shown in text
    assert "a note" in text
    assert "deploy failed" in text


def test_timings_are_summed():
    lines = timing_lines([StageTiming("enroll", 1.0, []), StageTiming("deploy", 3.0, [1.0, 3.0])])
    assert lines[2].split() == ["deploy", "3.0", "1.0", "2.0", "3.0"]
    assert lines[-1].split() == ["sum", "4.0"]
