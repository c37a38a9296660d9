"""What conductors do by the clock (W01, W14, W36 to W40, W43).

The failures of firmware updates (W36) and the expiry of graphical consoles (W37) are
polled by drivers that are not part of the service yet: their tests hold what such a
driver builds upon, by an interface that does the same.
"""

from __future__ import annotations

import datetime
import threading
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import event

from ironic_rs.conductor.periodics.scheduler import Scheduler
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import session
from ironic_rs.domain import errors, states
from ironic_rs.domain.steps import KINDS
from ironic_rs.drivers.decorators import node_periodic
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.defects.site import (
    WAIT,
    Site,
    age,
    dead_conductor,
    scripted,
    steps,
)
from tests.harness.scripted import Kit

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)

# Children


@pytest.fixture
def parent(site: Site) -> str:
    return site.node(states.ACTIVE)


def test_w01_children_are_hidden_from_the_list_of_nodes_only(site: Site, parent: str) -> None:
    child = site.enroll(parent_node=parent)

    def listed(query: str) -> set[str]:
        return {node["uuid"] for node in site.api.get(f"/v1/nodes{query}").body["nodes"]}

    assert listed("") == {parent}
    assert listed("?include_children=true") == {parent, child}
    assert site.shown(child)["parent_node"] == parent


def test_w01_the_power_of_children_is_synced(site: Site, parent: str) -> None:
    CONF.set_override("force_power_state_during_sync", False, group="conductor")
    child = site.node(states.ACTIVE, parent_node=parent)
    site.kit.interfaces["power"].get_power_state = lambda task: "power off"

    site.tick("_sync_power_states")

    assert site.shown(child)["power_state"] == "power off"


@pytest.mark.parametrize(
    ("state", "periodic", "failed"),
    [
        (states.DEPLOYWAIT, "_check_deploy_timeouts", states.DEPLOYFAIL),
        (states.CLEANWAIT, "_check_cleanwait_timeouts", states.CLEANFAIL),
        (states.RESCUEWAIT, "_check_rescuewait_timeouts", states.RESCUEFAIL),
        (states.SERVICEWAIT, "_check_servicewait_timeouts", states.SERVICEFAIL),
        (states.INSPECTWAIT, "_check_inspect_wait_timeouts", states.INSPECTFAIL),
    ],
)
def test_w01_children_do_not_wait_for_ever(
    site: Site, parent: str, state: str, periodic: str, failed: str
) -> None:
    child = site.node(state, parent_node=parent, inspection_started_at=LONG_AGO)
    age(child, 100_000)

    site.tick(periodic)

    assert site.shown(child)["provision_state"] == failed


def test_w01_children_of_a_dead_conductor_are_freed(site: Site, parent: str) -> None:
    dead_conductor("cond-z")
    child = site.node(states.DEPLOYING, parent_node=parent, reservation="cond-z")

    site.tick("_check_orphan_nodes")

    node = site.shown(child)
    assert (node["provision_state"], node["reservation"]) == (states.DEPLOYFAIL, None)


def test_w01_children_are_taken_over(site: Site, parent: str) -> None:
    child = site.node(states.ACTIVE, parent_node=parent)
    taken: list[str] = []
    site.kit.interfaces["deploy"].take_over = lambda task: taken.append(task.node.uuid)

    site.tick("_sync_local_state")

    assert child in taken
    assert site.stored(child).conductor_affinity == site.conductor.conductor_id


def test_w01_children_come_out_of_a_power_failure(site: Site, parent: str) -> None:
    child = site.node(states.ACTIVE, parent_node=parent, maintenance=True, fault=states.FAULT_POWER)

    site.tick("_power_failure_recovery")

    assert site.shown(child)["maintenance"] is False


def test_w01_periodics_of_drivers_see_children(site: Site, parent: str) -> None:
    seen: list[str] = []

    class Polling(type(site.kit.interfaces["raid"])):  # type: ignore[misc]
        @node_periodic("poll", lambda conf: 60)
        def poll(self, task: Any) -> None:
            seen.append(task.node.uuid)

    site.install(Polling())
    child = site.node(states.ACTIVE, parent_node=parent)

    site.tick("Polling.poll")

    assert sorted(seen) == sorted([parent, child])


# Power sync and last_error


@pytest.mark.parametrize("state", sorted(states.FAILURE - states.SYNC_EXCLUDED))
@pytest.mark.parametrize("text", ["Cleaning failed: no disk", "Failed to change power state to x"])
def test_w14_power_sync_keeps_the_error_of_a_failed_flow(site: Site, state: str, text: str) -> None:
    uuid = site.node(state, last_error=text)

    site.tick("_sync_power_states")

    assert site.shown(uuid)["last_error"] == text


def test_w14_power_sync_keeps_errors_that_are_not_about_power(site: Site) -> None:
    uuid = site.node(states.ACTIVE, last_error="Failed to attach VIF x")

    with session.count_statements() as counted:
        site.tick("_sync_power_states")

    assert site.shown(uuid)["last_error"] == "Failed to attach VIF x"
    assert not [text for text in counted.statements if text.startswith("UPDATE nodes")]


def test_w14_power_sync_clears_the_error_of_a_power_action_that_is_over(site: Site) -> None:
    uuid = site.node(states.ACTIVE)

    def broken(task: Any, *args: Any, **kwargs: Any) -> None:
        raise errors.RedfishError(error="busy")

    power = site.kit.interfaces["power"]
    power.set_power_state = broken
    assert "busy" in site.power(uuid, "power off")["last_error"]

    site.tick("_sync_power_states")

    assert site.shown(uuid)["last_error"] is None


# Polling by drivers


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_w36_an_update_that_a_driver_polls_fails_the_flow_that_asked_for_it(
    site: Site, kind: str
) -> None:
    data = KINDS[kind]

    class Updating(type(site.kit.interfaces["firmware"])):  # type: ignore[misc]
        """Finds, in any flow, that its update has failed."""

        @node_periodic("poll updates", lambda conf: 60, filters={"provision_state": data.wait})
        def poll(self, task: Any) -> None:
            task.upgrade_lock()
            running = next(k for k in KINDS.values() if k.wait == task.node.provision_state)
            task.flows.fail(running.name, "the update failed")

    site.install(Updating())
    uuid = site.node(data.wait, **{data.field: steps("firmware.update")[0]})
    handled: list[str] = []
    deploy = site.kit.interfaces["deploy"]
    deploy.tear_down_cleaning = lambda task: handled.append("clean")
    deploy.tear_down_service = lambda task: handled.append("service")

    site.tick("Updating.poll")

    node = site.shown(uuid)
    assert node["provision_state"] == data.failed
    assert node["last_error"].startswith("the update failed. Next: ")
    assert node["fault"] == {"clean": "clean failure", "service": "service failure"}.get(kind)
    assert handled == ([kind] if kind != "deploy" else [])


def test_w37_a_poll_that_saves_must_take_the_lock(site: Site) -> None:
    """A poll that stops an old console must not overwrite what others do to the node."""
    refused: list[str] = []

    class Expiring(type(site.kit.interfaces["console"])):  # type: ignore[misc]
        @node_periodic("expire consoles", lambda conf: 60, filters={"console_enabled": True})
        def expire(self, task: Any) -> None:
            task.node.console_enabled = False
            try:
                task.save()
            except errors.ExclusiveLockRequired:
                refused.append(task.node.uuid)
            task.upgrade_lock(retry=False)
            assert task.node.console_enabled, "a fresh record"
            task.node.console_enabled = False
            task.save()

    site.install(Expiring())
    free = site.node(states.ACTIVE, console_enabled=True)
    busy = site.node(states.ACTIVE, console_enabled=True)

    with site.held(busy):
        site.tick("Expiring.expire")
        assert site.shown(busy)["console_enabled"] is True

    assert sorted(refused) == sorted([free, busy])
    assert site.shown(free)["console_enabled"] is False


def at_a_time(number: int, limit: int) -> tuple[Any, Counter[str]]:
    """A visit that comes to an end only when ``limit`` run at the same time."""
    together, seen = threading.Barrier(limit), Counter[str]()
    guard = threading.Lock()

    def visit(task: Any) -> None:
        with guard:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
        together.wait(WAIT)
        with guard:
            seen["now"] -= 1
            seen["done"] += 1
        together.wait(WAIT)

    assert number % limit == 0
    return visit, seen


def test_w38_polls_of_drivers_run_beside_each_other_within_bounds(site: Site) -> None:
    CONF.set_override("periodic_max_workers", 3, group="conductor")
    visit, seen = at_a_time(6, 3)

    class Polling(type(site.kit.interfaces["raid"])):  # type: ignore[misc]
        @node_periodic("poll", lambda conf: 60, filters={"provision_state": states.CLEANWAIT})
        def poll(self, task: Any) -> None:
            visit(task)

    site.install(Polling())
    for _ in range(6):
        site.node(states.CLEANWAIT)

    site.tick("Polling.poll")

    assert (seen["most"], seen["done"]) == (3, 6)


def test_w38_timeouts_are_handled_beside_each_other_within_bounds(site: Site) -> None:
    CONF.set_override("periodic_max_workers", 3, group="conductor")
    visit, seen = at_a_time(6, 3)
    site.kit.interfaces["deploy"].clean_up = visit
    fleet = [site.node(states.DEPLOYWAIT) for _ in range(6)]
    for uuid in fleet:
        age(uuid, 100_000)

    site.tick("_check_deploy_timeouts")

    assert (seen["most"], seen["done"]) == (3, 6)
    assert {site.shown(uuid)["provision_state"] for uuid in fleet} == {states.DEPLOYFAIL}


@pytest.mark.parametrize(
    "name",
    [
        "_sync_power_states",
        "_check_deploy_timeouts",
        "_check_cleanwait_timeouts",
        "_check_orphan_nodes",
        "_sync_local_state",
        "_power_failure_recovery",
    ],
)
def test_w38_a_scan_reads_only_what_it_decides_by(conf: Any, site: Site, name: str) -> None:
    """And asks for the members of the ring once, not for each node."""
    CONF.set_override("hash_ring_reset_interval", 3600)
    for _ in range(5):
        site.node(states.MANAGEABLE, maintenance=True)
    site.tick(name)

    with session.count_statements() as counted:
        site.tick(name)

    assert not [text for text in counted.statements if "driver_internal_info" in text]
    assert counted.count <= 3, counted.statements


# In phase, and the backlog


def test_w39_conductors_that_start_together_do_not_work_in_phase(site: Site) -> None:
    dues: list[list[float]] = []
    for _ in range(2):
        scheduler = Scheduler(site.conductor, list(site.periodics.values()))
        scheduler.start()
        scheduler.stop()
        dues.append([record.due or 0.0 for record in scheduler.records])

    apart = [abs(one - other) for one, other in zip(*dues, strict=True)]
    # By chance two of them may be; all of them may not.
    assert sum(apart) > 10


def test_w39_a_backlog_of_timeouts_is_worked_off_at_once(site: Site) -> None:
    fleet = [site.node(states.CLEANWAIT) for _ in range(25)]
    for uuid in fleet:
        age(uuid, 100_000)

    site.tick("_check_cleanwait_timeouts")

    assert {site.shown(uuid)["provision_state"] for uuid in fleet} == {states.CLEANFAIL}


@pytest.mark.parametrize(
    "state",
    [states.ACTIVE, states.RESCUE, states.SERVICEWAIT, states.SERVICEHOLD, states.SERVICEFAIL],
)
def test_w40_every_node_with_an_instance_is_taken_over(site: Site, state: str) -> None:
    uuid = site.node(state, conductor_affinity=None, console_enabled=True)
    prepared: list[str] = []
    deploy = site.kit.interfaces["deploy"]
    deploy.prepare = deploy.take_over = lambda task: prepared.append(task.node.provision_state)
    site.kit.interfaces["console"].start_console = lambda task: prepared.append("console")

    site.tick("_sync_local_state")

    assert site.stored(uuid).conductor_affinity == site.conductor.conductor_id
    node = site.shown(uuid)
    assert (node["provision_state"], node["reservation"]) == (state, None)
    assert "console" in prepared
    # An instance in service or rescue is not prepared: something else is booted.
    assert prepared.count(state) == (2 if state == states.ACTIVE else 0)


# Clocks


def test_w43_whether_a_conductor_lives_is_told_by_the_clock_of_the_database(site: Site) -> None:
    """No time of a host takes part, neither when it is written nor when it is judged."""
    found: list[tuple[str, Any]] = []

    def look(conn: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        if "conductors" in statement:
            found.append((statement, parameters))

    dead_conductor("cond-z")
    engines = session.database()
    for engine in (engines.autocommit, engines.transactions):
        event.listen(engine, "before_cursor_execute", look)
    try:
        assert site.conductor.keepalive.beat()
        rows = site.api.get("/v1/conductors").body["conductors"]
        site.api.get("/v1/drivers")
        site.conductor.ring.reset()
        site.enroll()
        site.tick("_check_orphan_nodes")
    finally:
        for engine in (engines.autocommit, engines.transactions):
            event.remove(engine, "before_cursor_execute", look)

    assert {row["hostname"]: row["alive"] for row in rows} == {"cond-a": True, "cond-z": False}
    assert any(
        "updated_at" in statement and statement.startswith("UPDATE") for statement, _ in found
    )
    for statement, parameters in found:
        values = parameters.values() if isinstance(parameters, dict) else parameters
        times = [v for v in values if isinstance(v, datetime.datetime) or _is_time(v)]
        assert times == [], statement


def _is_time(value: Any) -> bool:
    text = str(value)
    return text.startswith("20") and "-" in text and ":" in text


def test_w43_a_conductor_whose_clock_is_wrong_is_alive(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    other: Conductor = scripted("cond-b", DirectTransport(), Kit())
    other.drivers.load()

    with monkeypatch.context() as patch:
        # Its host is a day behind.
        patch.setattr("oslo_utils.timeutils.utcnow", _yesterday)
        other._register()
        other.keepalive.beat()

    rows = site.api.get("/v1/conductors").body["conductors"]
    assert {row["hostname"]: row["alive"] for row in rows} == {"cond-a": True, "cond-b": True}
    other.workers.close()


def _yesterday(with_timezone: bool = False) -> datetime.datetime:
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    return now if with_timezone else now.replace(tzinfo=None)
