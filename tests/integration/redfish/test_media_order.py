"""Media are taken from no running system (field-cases.md K06/52), on every way out of a ramdisk.

Each test stands at the end of a flow whose ramdisk runs from a virtual CD, ends it in
one of the possible ways, and looks at the wire.  With ``disable_power_off`` nothing is
powered off: the medium goes first, and the reboot ends the ramdisk.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import states
from ironic_rs.drivers.redfish import power
from tests.harness.bmc import CD, RESET, SYSTEM, Answer, Bmc
from tests.harness.servers import wait_until
from tests.unit.drivers.agent_server import AgentServer

pytestmark = pytest.mark.timeout(120)

ISO = "http://192.0.2.9/boot.iso"
TOKEN = "t" * 43
Run = Callable[..., models.Node]
Enrol = Callable[..., models.Node]


@dataclass
class Bench:
    """A machine whose ramdisk runs from a CD, and what its BMC has seen since."""

    bmc: Bmc
    conductor: Conductor
    enrol: Enrol
    run: Run
    #: Power state at each ejection.
    ejected: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bmc.tree[CD].update(Inserted=True, Image=ISO)
        self.bmc.system["PowerState"] = "On"

        def eject(_request: Any) -> None:
            self.ejected.append(self.bmc.system["PowerState"])

        self.bmc.script("POST", "Cd/.*EjectMedia$", eject)

    def node(self, state: str, **values: Any) -> models.Node:
        node = self.enrol(self.bmc)
        info = {"agent_secret_token": TOKEN, **values.pop("info", {})}
        row = {
            "provision_state": state,
            "target_provision_state": states.STATES[state].target,
            "power_state": states.POWER_ON,
            "driver_internal_info": info,
            **values,
        }
        nodes.update(node, row, fence=None)
        return nodes.get(node.uuid)

    def act(self, node: models.Node, action: str) -> None:
        self.run(node, "do_provisioning_action", action=action)

    def expire(self, node: models.Node, timeout: timeouts.CallbackTimeout) -> None:
        """Let the wait of the node be over."""
        long_ago = datetime.datetime(2020, 1, 1)
        nodes.update(nodes.get(node.uuid), {timeout.since: long_ago}, fence=None)
        timeouts.check(self.conductor, timeout)
        self.settle(node)

    def settle(self, node: models.Node) -> models.Node:
        def over() -> models.Node | None:
            found = nodes.get(node.uuid)
            return found if found.reservation is None else None

        assert self.conductor.tasks.book.wait_empty(60)
        found = wait_until(over, "nobody holds the node")
        assert isinstance(found, models.Node)
        return found

    @property
    def resets(self) -> list[str]:
        return [request.body["ResetType"] for request in self.bmc.asked("POST", RESET)]


@pytest.fixture
def bench(
    bmc: Bmc,
    conductor: Conductor,
    enrol: Enrol,
    run: Run,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Bench:
    monkeypatch.setattr(power, "RESTART_SETTLE", 0)
    CONF.set_override("http_root", str(tmp_path), "deploy")
    CONF.set_override("http_url", "http://192.0.2.1:8080", "deploy")
    CONF.set_override("endpoint_override", "http://192.0.2.1:6385", "service_catalog")
    CONF.set_override("deploy_logs_collect", "never", "agent")
    CONF.set_override("require_tls", False, "agent")
    CONF.set_override("post_deploy_get_power_state_retry_interval", 0, "agent")
    return Bench(bmc, conductor, enrol, run)


WAITING = {
    "inspection": (states.INSPECTWAIT, timeouts.INSPECT, {"inspector_manage_boot": True}),
    "cleaning": (states.CLEANWAIT, timeouts.CLEAN, {}),
    "deployment": (states.DEPLOYWAIT, timeouts.DEPLOY, {}),
    "rescue": (states.RESCUEWAIT, timeouts.RESCUE, {}),
    "servicing": (states.SERVICEWAIT, timeouts.SERVICE, {"agent_start_attempted": True}),
}


def inspected(bench: Bench, node: models.Node) -> None:
    bench.run(node, "continue_inspection", inventory={"interfaces": []}, plugin_data={})


def cleaned(bench: Bench, node: models.Node) -> None:
    bench.run(node, "continue_node_clean")


def serviced(bench: Bench, node: models.Node) -> None:
    bench.run(node, "continue_node_service")


def undeployed(bench: Bench, node: models.Node) -> None:
    bench.run(node, "do_node_tear_down")


def unrescued(bench: Bench, node: models.Node) -> None:
    bench.run(node, "do_node_unrescue")


#: The ways out: of which flow, and how.
WAYS: dict[str, tuple[str, Callable[[Bench, models.Node], None]]] = {
    **{
        f"{flow} times out": (flow, lambda bench, node, t=timeout: bench.expire(node, t))
        for flow, (_state, timeout, _info) in WAITING.items()
    },
    **{
        f"{flow} is aborted": (flow, lambda bench, node: bench.act(node, "abort"))
        for flow in WAITING
        if flow != "deployment"
    },
    "deployment is given up": ("deployment", undeployed),
    "inspection ends": ("inspection", inspected),
    "cleaning ends": ("cleaning", cleaned),
    "servicing ends": ("servicing", serviced),
    "rescue ends": ("rescued", unrescued),
}


def started(bench: Bench, flow: str, **values: Any) -> models.Node:
    if flow == "rescued":
        return bench.node(states.RESCUE, **values)
    state, _timeout, info = WAITING[flow]
    target = {"target_provision_state": states.MANAGEABLE} if flow == "cleaning" else {}
    return bench.node(state, info=info, **target, **values)


@pytest.mark.parametrize("way", WAYS)
def test_52_the_machine_is_off_when_its_medium_goes(bench: Bench, way: str) -> None:
    flow, leave = WAYS[way]
    node = started(bench, flow)
    leave(bench, node)
    bench.settle(node)
    assert set(bench.ejected) == {"Off"}
    assert bench.bmc.tree[CD]["Inserted"] is False


@pytest.mark.parametrize("way", WAYS)
def test_52_with_disable_power_off_it_stays_on(bench: Bench, way: str) -> None:
    flow, leave = WAYS[way]
    node = started(bench, flow, disable_power_off=True)
    leave(bench, node)
    bench.settle(node)
    assert set(bench.ejected) == {"On"}
    assert not {"ForceOff", "GracefulShutdown"} & set(bench.resets)


@pytest.mark.parametrize("stays_on", [False, True])
def test_52_a_deployment_ejects_when_its_ramdisk_has_stopped(bench: Bench, stays_on: bool) -> None:
    names = ("write_image", "prepare_instance_boot", "tear_down_agent", "boot_instance")
    steps = [{"interface": "deploy", "step": name, "priority": 60, "args": {}} for name in names]
    with AgentServer().running() as agent:
        seen_by_agent: list[bool] = []

        def power_off(_params: Any) -> dict[str, Any]:
            seen_by_agent.append(bench.bmc.tree[CD]["Inserted"])
            bench.bmc.system["PowerState"] = "Off"
            return {"status": "SUCCEEDED"}

        def lock_down(_params: Any) -> dict[str, Any]:
            seen_by_agent.append(bench.bmc.tree[CD]["Inserted"])
            # From now on it answers nobody.
            agent.drop = 1_000_000
            return {"status": "RUNNING"}

        agent.answers["standby.power_off"] = power_off
        agent.answers["system.lockdown"] = lock_down
        agent.answers["image.install_bootloader"] = lambda _: {"status": "SUCCEEDED"}
        node = bench.node(
            states.DEPLOYWAIT,
            deploy_step=steps[0],
            disable_power_off=stays_on,
            instance_info={"image_source": "http://192.0.2.9/x", "image_type": "whole-disk"},
            info={
                "agent_url": agent.url,
                "deploy_steps": steps,
                "deploy_step_index": 0,
                "agent_cached_deploy_steps": {},
                "is_whole_disk_image": True,
            },
        )
        bench.run(node, "continue_node_deploy")
        found = bench.settle(node)
    assert found.last_error is None
    assert found.provision_state == states.ACTIVE
    assert seen_by_agent == [True]
    assert bench.ejected == ["On" if stays_on else "Off"]
    assert bench.bmc.tree[CD]["Inserted"] is False
    assert bench.bmc.system["Boot"]["BootSourceOverrideTarget"] == "Hdd"


def test_52_a_finished_rescue_is_left_to_its_user(bench: Bench) -> None:
    """The ramdisk lives in memory, and its medium, with the token on it, goes."""
    with AgentServer().running() as agent:
        node = bench.node(
            states.RESCUEWAIT,
            instance_info={"rescue_password": "x", "hashed_rescue_password": "$6$x"},
            info={"agent_url": agent.url},
        )
        bench.run(
            node,
            "heartbeat",
            callback_url=agent.url,
            agent_version="13",
            agent_token=TOKEN,
        )
        found = bench.settle(node)
    assert (found.provision_state, found.last_error) == (states.RESCUE, None)
    assert bench.ejected == ["On"]
    assert bench.resets == []


def test_52_a_shutdown_that_fails_leaves_the_medium_in(bench: Bench) -> None:
    bench.bmc.script("POST", "ComputerSystem.Reset$", Answer(403))
    node = started(bench, "cleaning")
    bench.act(node, "abort")
    found = bench.settle(node)
    assert bench.ejected == []
    assert SYSTEM in (found.last_error or found.maintenance_reason or "")
