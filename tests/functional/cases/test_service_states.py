"""A servicing is treated as a cleaning is (field-cases.md K08/63): states by operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import ramdisk, states
from ironic_rs.domain.steps import CLEAN, SERVICE, StepKind, wipe_on_power_off
from ironic_rs.drivers.decorators import node_periodic
from ironic_rs.drivers.pxe import retry
from tests.functional.defects.inband import OTHER, STEP, in_step
from tests.functional.defects.site import Site, age, dead_conductor, steps
from tests.unit.drivers.agent_server import AgentServer

KINDS = {kind.name: kind for kind in (CLEAN, SERVICE)}
ROLES = ("running", "wait", "hold")
#: Where an aborted or finished flow ends, which is not the same place for the two.
HOME = {"clean": states.MANAGEABLE, "service": states.ACTIVE}


class Cell:
    """A node in one state of one flow, and what an operation makes of it."""

    def __init__(self, site: Site, agent: AgentServer, kind: StepKind, role: str) -> None:
        self.site, self.agent, self.kind = site, agent, kind
        self.state: str = getattr(kind, role)

    def node(self, **values: Any) -> str:
        """The node; its first step runs in the ramdisk, unless the flow is held."""
        plan = [STEP, OTHER]
        if self.state == self.kind.hold:
            plan = [*steps("hold"), OTHER]
        uuid = in_step(self.site, self.kind.name, plan)
        # As servicing always is, by steps that were asked for.
        target = HOME[self.kind.name]
        found = nodes.get(uuid)
        info = found.driver_internal_info | values.pop("driver_internal_info", {})
        row = {"provision_state": self.state, "target_provision_state": target, **values}
        nodes.update(found, {**row, "driver_internal_info": info}, fence=None)
        return uuid

    def role(self, node: Mapping[str, Any]) -> str:
        """The word that the two flows have in common for a state."""
        names = {getattr(self.kind, role): role for role in (*ROLES, "failed")}
        names[HOME[self.kind.name]] = "home"
        return names.get(node["provision_state"], node["provision_state"])

    def command(self, status: str, step: Mapping[str, Any] = STEP) -> None:
        """The last command of the agent: it has run, or runs, a step."""
        name = f"execute_{self.kind.name}_step"
        self.agent.did(name, status, {f"{self.kind.name}_step": dict(step)})


def look_up(cell: Cell) -> str:
    answer = cell.site.api.get(f"/v1/lookup?node_uuid={cell.node()}")
    return str(answer.status)


def look_up_with_fast_track(cell: Cell) -> str:
    uuid = cell.node(driver_info={"fast_track": True})
    return str(cell.site.api.get(f"/v1/lookup?node_uuid={uuid}").status)


def heartbeat(cell: Cell) -> str:
    """A heartbeat while the agent's step is still running."""
    cell.command("RUNNING")
    uuid = cell.node()
    status = cell.site.beat(uuid, cell.agent.url).status
    known = "agent_url" in cell.site.stored(uuid).driver_internal_info
    return f"{status} {'recorded' if known else 'ignored'} {cell.role(cell.site.shown(uuid))}"


def end_of_an_in_band_step(cell: Cell) -> str:
    cell.command("SUCCEEDED")
    uuid = cell.node()
    cell.site.beat(uuid, cell.agent.url)
    node = cell.site.shown(uuid)
    return f"{cell.role(node)} in {node[cell.kind.field]['step']}"


def failure_of_an_in_band_step(cell: Cell) -> str:
    cell.command("FAILED")
    uuid = cell.node()
    cell.site.beat(uuid, cell.agent.url)
    node = cell.site.shown(uuid)
    return f"{cell.role(node)}, maintenance {node['maintenance']}"


def heartbeat_in_a_step_of_the_bmc(cell: Cell) -> str:
    """The driver watches the step: the ramdisk does not end it."""
    cell.command("SUCCEEDED")
    uuid = cell.node(driver_internal_info={cell.kind.polling_flag: True})
    cell.site.beat(uuid, cell.agent.url)
    node = cell.site.shown(uuid)
    return f"{cell.role(node)} in {node[cell.kind.field]['step']}"


def end_of_a_step_of_the_bmc(cell: Cell) -> str:
    """The driver, which watches the step, finds that it is over."""

    class Polling(type(cell.site.kit.interfaces["raid"])):  # type: ignore[misc]
        @node_periodic("poll", lambda conf: 60, filters={"provision_state": cell.kind.wait})
        def poll(self, task: Any) -> None:
            task.upgrade_lock()
            task.flows.resume(cell.kind.name)

    cell.site.install(Polling())
    uuid = cell.node(driver_internal_info={"agent_url": cell.agent.url})
    cell.site.tick("Polling.poll")
    node = cell.site.shown(uuid)
    return f"{cell.role(node)} in {node[cell.kind.field]['step']}"


TIMEOUTS = {"clean": "_check_cleanwait_timeouts", "service": "_check_servicewait_timeouts"}


def time_out(cell: Cell) -> str:
    uuid = cell.node()
    age(uuid, 100_000)
    cell.site.tick(TIMEOUTS[cell.kind.name])
    node = cell.site.shown(uuid)
    fault = node["fault"] == f"{cell.kind.name} failure"
    return f"{cell.role(node)}, maintenance {node['maintenance']}, fault {fault}"


def time_out_in_maintenance(cell: Cell) -> str:
    uuid = cell.node(maintenance=True)
    age(uuid, 100_000)
    cell.site.tick(TIMEOUTS[cell.kind.name])
    return cell.role(cell.site.shown(uuid))


def boot_from_virtual_media(cell: Cell) -> str:
    """Which medium the boot interface prepares, and whether it keeps one at all."""
    node = cell.site.stored(cell.node())
    return f"{ramdisk.mode(node)} ramdisk" if ramdisk.needed(node) else "none"


def boot_from_the_network_again(cell: Cell) -> str:
    """Nothing was heard of the machine: is it booted once more?"""
    CONF.set_override("boot_retry_timeout", 300, group="pxe")
    uuid = cell.node()
    nodes.update(nodes.get(uuid), {"driver_internal_info": {}}, fence=None)
    age(uuid, 100_000)
    return "again" if retry.due(cell.site.stored(uuid)) else "left"


def abort(cell: Cell) -> str:
    uuid = cell.node()
    step = {**cell.site.shown(uuid)[cell.kind.field], "abortable": True}
    nodes.update(nodes.get(uuid), {cell.kind.field: step}, fence=None)
    deploy = cell.site.conductor.drivers.enabled("deploy")["custom-agent"]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("tear_down_cleaning", "tear_down_service"):
            patch.setattr(deploy, name, lambda task: None)
        status = cell.site.ask(uuid, "abort").status
        cell.site.settle()
    node = cell.site.shown(uuid)
    ended = cell.role(node) in ("failed", "home") and node[cell.kind.field] == {}
    return f"{status} {'ended' if ended else cell.role(node)}"


def power_sync(cell: Cell) -> str:
    asked: list[str] = []
    power = cell.site.kit.interfaces["power"]
    power.get_power_state = lambda task: asked.append(task.node.uuid) or states.POWER_ON
    cell.node()
    cell.site.tick("_sync_power_states")
    return "asked" if asked else "left"


def attach_a_network_card(cell: Cell) -> str:
    uuid = cell.node()
    told: list[str] = []
    network = cell.site.kit.interfaces["network"]
    network.vif_attach = lambda task, vif: told.append(vif["id"])
    answer = cell.site.api.post(f"/v1/nodes/{uuid}/vifs", {"id": "vif-1"})
    cell.site.settle()
    return f"{answer.status} {told}"


def death_of_the_conductor(cell: Cell) -> str:
    dead_conductor("cond-z")
    uuid = cell.node(reservation="cond-z")
    deploy = cell.site.conductor.drivers.enabled("deploy")["custom-agent"]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("tear_down_cleaning", "tear_down_service"):
            patch.setattr(deploy, name, lambda task: None)
        cell.site.tick("_check_orphan_nodes")
    node = cell.site.shown(uuid)
    return f"{cell.role(node)}, maintenance {node['maintenance']}, held {node['reservation']}"


def going_on_after_a_hold(cell: Cell) -> str:
    uuid = cell.node(driver_internal_info={"agent_url": cell.agent.url})
    status = cell.site.ask(uuid, "unhold").status
    cell.site.settle()
    node = cell.site.shown(uuid)
    return f"{status} {cell.role(node)} in {node[cell.kind.field]['step']}"


def what_a_power_off_leaves(cell: Cell) -> str:
    """The address, the token and the steps of a ramdisk go with it."""
    node = cell.site.stored(cell.node(driver_internal_info={"agent_url": "x"}))
    wipe_on_power_off(node)
    gone = {"agent_url", "agent_secret_token", cell.kind.cached_key}
    return ", ".join(sorted(gone & node.driver_internal_info.keys())) or "nothing"


#: Operation -> its outcome while steps run, while they are waited for, and while held.
MATRIX: dict[Callable[[Cell], str], tuple[str, str, str]] = {
    look_up: ("200", "200", "404"),
    look_up_with_fast_track: ("200", "200", "200"),
    heartbeat: ("202 recorded running", "202 recorded wait", "202 recorded hold"),
    end_of_an_in_band_step: ("running in erase", "wait in burn", "hold in hold"),
    failure_of_an_in_band_step: (
        "running, maintenance False",
        "failed, maintenance True",
        "hold, maintenance False",
    ),
    heartbeat_in_a_step_of_the_bmc: ("running in erase", "wait in erase", "hold in hold"),
    end_of_a_step_of_the_bmc: ("running in erase", "wait in burn", "hold in hold"),
    time_out: (
        "running, maintenance False, fault False",
        "failed, maintenance True, fault True",
        "hold, maintenance False, fault False",
    ),
    time_out_in_maintenance: ("running", "wait", "hold"),
    boot_from_virtual_media: ("deploy ramdisk", "deploy ramdisk", "none"),
    boot_from_the_network_again: ("left", "again", "left"),
    abort: ("400 running", "202 ended", "202 ended"),
    power_sync: ("asked", "left", "asked"),
    attach_a_network_card: ("204 ['vif-1']", "204 ['vif-1']", "204 ['vif-1']"),
    death_of_the_conductor: (
        "failed, maintenance True, held None",
        "wait, maintenance False, held None",
        "hold, maintenance False, held None",
    ),
    going_on_after_a_hold: ("400 running in erase", "400 wait in erase", "202 wait in burn"),
    what_a_power_off_leaves: ("nothing", "nothing", "nothing"),
}


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", MATRIX, ids=lambda operation: operation.__name__)
def test_63_each_state_by_each_operation(
    site_with_agent: tuple[Site, AgentServer],
    operation: Callable[[Cell], str],
    role: str,
    name: str,
) -> None:
    cell = Cell(*site_with_agent, KINDS[name], role)
    assert operation(cell) == MATRIX[operation][ROLES.index(role)]
