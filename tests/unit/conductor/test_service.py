"""Start and stop of a conductor, in the right order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conductor.keepalive import KeepAlive
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, models, nodes
from ironic_rs.domain import errors, states
from ironic_rs.drivers.fake.machine import FakeConsole
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from ironic_rs.rpc.registry import Registry
from ironic_rs.rpc.transport import RpcServer
from tests.unit.conductor.test_keepalive import age

MakeNode = Callable[..., models.Node]


class Watched(DirectTransport):
    """Notes what happens to its server, and what the rest looked like then."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def serve(self, host: str, registry: Registry) -> Any:
        server = super().serve(host, registry)
        start, stop = server.start, server.stop

        def watched_start() -> None:
            self.log.append(f"serve, registered: {conductors.online_hosts()}")
            start()

        def watched_stop() -> None:
            self.log.append(f"stop, online: {conductors.online_hosts()}")
            stop()

        server.start, server.stop = watched_start, watched_stop
        return server


@pytest.fixture
def transport(database: None) -> Watched:
    return Watched()


@pytest.fixture
def started(transport: Watched) -> Iterator[Conductor]:
    conductor = Conductor("cond-a", transport)
    conductor.start()
    yield conductor
    if not conductor.stopping.is_set():
        assert conductor.stop(30)


def test_start_registers_what_this_conductor_offers(started: Conductor) -> None:
    record = conductors.get("cond-a")
    assert record.online
    assert record.drivers == ["fake-hardware"]
    assert record.id == started.conductor_id
    assert conductors.ring_members() == [("", "fake-hardware", "cond-a")]
    defaults = {
        row["interface_type"]: row["interface_name"]
        for row in conductors.interfaces()
        if row["default"]
    }
    assert defaults["power"] == "fake"
    assert started.periodics is not None
    assert "_sync_power_states" in started.periodics.names
    assert started.healthy()


def test_conductor_group_is_registered_in_lower_case(transport: Watched) -> None:
    CONF.set_override("conductor_group", "Rack1", group="conductor")
    conductor = Conductor("cond-a", transport)
    conductor.start()
    assert conductors.ring_members() == [("rack1", "fake-hardware", "cond-a")]
    assert conductor.stop(30)


def test_calls_are_served_before_the_conductor_is_registered(
    started: Conductor, transport: Watched
) -> None:
    assert transport.log == ["serve, registered: []"]


def test_start_clears_old_locks_and_fails_stuck_nodes(
    transport: Watched, make_node: MakeNode
) -> None:
    dying = make_node(states.DEPLOYING, reservation="cond-a")
    powering = make_node(states.AVAILABLE, reservation="cond-a", target_power_state="power on")
    conductor = Conductor("cond-a", transport)
    conductor.start()
    assert nodes.get(dying.id).provision_state == states.DEPLOYFAIL
    assert nodes.get(dying.id).reservation is None
    assert nodes.get(powering.id).target_power_state is None
    assert "Pending power operation" in (nodes.get(powering.id).last_error or "")
    assert conductor.stop(30)


def test_a_conductor_that_stood_still_since_its_registration_starts_all_the_same(
    transport: Watched, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = make_node(states.DEPLOYING)
    start = KeepAlive.start

    def late(keepalive: KeepAlive) -> None:
        age(conductor, 3600)
        start(keepalive)

    monkeypatch.setattr(KeepAlive, "start", late)
    conductor = Conductor("cond-a", transport)
    conductor.start()
    assert conductors.online_hosts() == ["cond-a"]
    assert nodes.get(stuck.id).provision_state == states.DEPLOYFAIL
    assert conductor.stop(30)


def test_name_in_use_is_warned_of(transport: Watched, caplog: pytest.LogCaptureFixture) -> None:
    conductors.register("cond-a", [])
    conductor = Conductor("cond-a", transport)
    conductor.start()
    assert "registered and online" in caplog.text
    assert conductor.stop(30)


def test_failed_registration_leaves_nothing_behind(
    transport: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor = Conductor("cond-a", transport)

    def rows() -> Any:
        raise errors.NoValidDefaultForInterface(
            interface_type="power", driver="fake-hardware", node_info=""
        )

    monkeypatch.setattr(conductor.drivers, "registration_rows", rows)
    with pytest.raises(errors.NoValidDefaultForInterface):
        conductor.start()
    assert conductors.online_hosts() == []
    assert transport.log[-1].startswith("stop")
    with pytest.raises(errors.ServiceUnavailable):
        transport.call("cond-a", "do_node_deploy", {}, admin_context())


def test_unknown_hardware_type_stops_the_start(transport: Watched) -> None:
    CONF.set_override("enabled_hardware_types", ["typo"])
    with pytest.raises(errors.DriverNotFoundInEntrypoint, match="typo"):
        Conductor("cond-a", transport).start()
    assert conductors.online_hosts() == []


def test_pools_too_small_stop_the_start(transport: Watched) -> None:
    CONF.set_override("workers_pool_size", 10, group="conductor")
    with pytest.raises(errors.IncorrectConfiguration):
        Conductor("cond-a", transport)


class Busy:
    """A node whose worker runs until it is told to end."""

    def __init__(self, conductor: Conductor, node: models.Node) -> None:
        self.gate = threading.Event()
        self.node = node
        with conductor.tasks.acquire(admin_context(), node.uuid) as task:
            task.event("deploy", callback=self._work, call_args=(task,))

    def _work(self, task: Task) -> None:
        self.gate.wait(60)
        task.event("done")


def stop_in_thread(
    conductor: Conductor, timeout: float | None
) -> tuple[threading.Thread, list[bool]]:
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(conductor.stop(timeout)))
    thread.start()
    assert conductor.stopping.wait(30)
    return thread, results


def wait_offline() -> None:
    pause = threading.Event()
    while conductors.online_hosts():
        pause.wait(0.01)


def test_stop_leaves_the_ring_first_and_lets_workers_finish(
    started: Conductor, transport: Watched, make_node: MakeNode
) -> None:
    busy = Busy(started, make_node(states.AVAILABLE))
    thread, results = stop_in_thread(started, None)
    wait_offline()
    assert conductors.ring_members() == []
    assert conductors.offline_hosts() == [], "still alive, so nobody takes its locks"
    assert nodes.get(busy.node.id).reservation == "cond-a"
    assert started.keepalive.alive
    busy.gate.set()
    thread.join(30)
    assert results == [True]
    assert nodes.get(busy.node.id).provision_state == states.ACTIVE
    assert nodes.get(busy.node.id).reservation is None
    assert transport.log[-1] == "stop, online: []"
    assert not started.keepalive.alive


def test_worker_that_does_not_end_in_time_keeps_its_lock(
    started: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    busy = Busy(started, make_node(states.AVAILABLE))
    assert not started.stop(0.2)
    assert nodes.get(busy.node.id).reservation == "cond-a"
    assert "leaves 1 nodes locked" in caplog.text
    busy.gate.set()
    assert started.workers.wait(30)


def test_requests_are_served_until_the_others_know_of_the_stop(
    started: Conductor, transport: Watched, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductors.register("cond-b", ["fake-hardware"])
    CONF.set_override("hash_ring_reset_interval", 15)
    node = make_node(states.ENROLL)
    answers = []

    def pause(seconds: float) -> None:
        assert 14 < seconds <= 15
        transport.call(
            "cond-a",
            "do_provisioning_action",
            {"node_id": node.uuid, "action": "manage"},
            admin_context(),
        )
        answers.append(conductors.online_hosts())

    monkeypatch.setattr("ironic_rs.conductor.service.time.sleep", pause)
    assert started.stop(None)
    assert answers == [["cond-b"]]
    assert nodes.get(node.id).provision_state == states.MANAGEABLE
    assert nodes.get(node.id).reservation is None


@pytest.mark.parametrize("alone", [True, False])
def test_no_periodic_starts_work_once_a_stop_has_begun(
    started: Conductor, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    CONF.set_override("hash_ring_reset_interval", 15)
    order: list[str] = []
    if not alone:
        conductors.register("cond-b", ["fake-hardware"])
    for thing, name in ((started.periodics, "stop"), (started.workers, "close")):
        real = getattr(thing, name)

        def noted(*args: object, real: Callable[..., object] = real) -> object:
            order.append(real.__qualname__)
            return real(*args)

        monkeypatch.setattr(thing, name, noted)
    monkeypatch.setattr("ironic_rs.conductor.service.time.sleep", lambda _: order.append("window"))
    assert started.stop(None)
    stop, close = "Scheduler.stop", "WorkerPools.close"
    assert order == ([close, stop] if alone else [stop, "window", close])


def test_the_window_never_exceeds_the_time_for_the_stop(
    started: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductors.register("cond-b", ["fake-hardware"])
    CONF.set_override("hash_ring_reset_interval", 1000)
    pauses: list[float] = []
    monkeypatch.setattr("ironic_rs.conductor.service.time.sleep", pauses.append)
    started.stop(2)
    assert len(pauses) == 1
    assert pauses[0] <= 2


def test_alone_it_does_not_wait_for_other_rings(
    started: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    CONF.set_override("hash_ring_reset_interval", 1000)

    def pause(seconds: float) -> None:
        raise AssertionError("nobody else serves the nodes meanwhile")

    monkeypatch.setattr("ironic_rs.conductor.service.time.sleep", pause)
    assert started.stop(30)


def test_after_the_stop_nothing_is_accepted(
    started: Conductor, transport: Watched, make_node: MakeNode
) -> None:
    node = make_node(states.ENROLL)
    assert started.stop(30)
    with pytest.raises(errors.ServiceUnavailable):
        transport.call("cond-a", "do_provisioning_action", {"node_id": node.uuid}, admin_context())
    with pytest.raises(errors.NoFreeConductorWorker):
        started.workers.submit(lambda: None)


def test_planned_restart_stays_in_the_ring(started: Conductor) -> None:
    started.keep_registered()
    assert started.stop(30)
    assert conductors.online_hosts() == ["cond-a"]
    assert conductors.ring_members() == [("", "fake-hardware", "cond-a")]


def test_stop_without_a_start_does_nothing(transport: Watched) -> None:
    conductor = Conductor("cond-a", transport)
    assert conductor.stop(1)
    assert conductors.online_hosts() == []


def test_database_that_is_away_does_not_keep_it_from_stopping(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor = Conductor("cond-a", DirectTransport())
    conductor.start()

    def away(*args: Any, **kwargs: Any) -> Any:
        raise errors.ServiceUnavailable("The database cannot be reached")

    for name in ("unregister", "online_hosts", "touch"):
        monkeypatch.setattr(conductors, name, away)
    assert conductor.stop(30)


def test_health_depends_on_the_threads(started: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert started.periodics is not None
    monkeypatch.setattr(started.periodics, "_pulse", started.periodics._pulse - 1000)
    monkeypatch.setattr(type(started.periodics), "silence", 1000.0)
    assert not started.healthy()
    monkeypatch.undo()
    assert started.healthy()
    started.keepalive.stop()
    assert not started.healthy()


def test_server_interface_is_what_the_conductor_uses() -> None:
    assert {"start", "stop", "wait"} <= set(dir(RpcServer))


def test_a_bad_file_of_inspection_rules_stops_the_start(transport: Watched, tmp_path: Any) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- actions: [{op: fly, args: []}]")
    CONF.set_override("built_in_rules", str(file), "inspection_rules")
    try:
        with pytest.raises(errors.ConfigInvalid, match=r"rules\.yaml, line 1: .*'fly'"):
            Conductor("cond-a", transport).start()
    finally:
        CONF.clear_override("built_in_rules", "inspection_rules")
    assert not conductors.online_hosts()


def test_consoles_that_are_wanted_are_started_anew(
    transport: Watched, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make_node(console_enabled=True, console_interface="fake")
    broken = make_node(console_enabled=True, console_interface="fake")
    make_node(console_enabled=False, console_interface="fake")
    seen: list[str] = []
    both = threading.Event()

    def start_console(_self: Any, task: Task) -> None:
        assert not task.shared
        seen.append(task.node.uuid)
        if len(seen) == 2:
            both.set()
        if task.node.uuid == broken.uuid:
            raise errors.ConsoleError(error="no luck")

    monkeypatch.setattr(FakeConsole, "start_console", start_console)
    conductor = Conductor("cond-a", transport)
    conductor.start()
    assert both.wait(30)
    assert conductor.stop(30)
    assert sorted(seen) == sorted([wanted.uuid, broken.uuid])
    assert nodes.get(wanted.uuid).console_enabled
    failed = nodes.get(broken.uuid)
    assert not failed.console_enabled
    assert failed.last_error is not None
    assert "no luck" in failed.last_error
    assert failed.reservation is None
