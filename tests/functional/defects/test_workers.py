"""When workers are few, or all of them are busy (W06, W12, W13, W35, W44, W45, W51)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
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

PASSWORD = "a rescue password"


@pytest.fixture
def few(conf: Any) -> None:
    """Eight workers, two of them reserved for the requests of users."""
    for name, value in (
        ("workers_pool_size", 8),
        ("reserved_workers_pool_percentage", 25),
        ("sync_power_state_workers", 1),
        ("periodic_max_workers", 1),
    ):
        conf.set_override(name, value, group="conductor")


def test_w06_after_a_burst_to_the_maximum_requests_are_accepted_again(
    few: None, site: Site
) -> None:
    gate = threading.Event()

    def change(task: Any, state: str, timeout: int | None = None) -> None:
        gate.wait(WAIT)
        task.node.power_state = states.POWER_TARGET[state]

    site.kit.interfaces["power"].set_power_state = change
    fleet = [site.node() for _ in range(9)]

    def ask(uuid: str) -> int:
        path = f"/v1/nodes/{uuid}/states/power"
        return site.api.put(path, {"target": "power off"}).status

    assert [ask(uuid) for uuid in fleet] == [202] * 8 + [503]
    gate.set()
    site.settle()

    for _ in range(2):
        assert ask(fleet[8]) == 202
        site.settle()
    # And the work of the clock finds workers as well.
    assert site.conductor.workers.submit(lambda: "ran", reserved_ok=False).result(WAIT) == "ran"
    assert {site.shown(uuid)["power_state"] for uuid in fleet} == {"power off"}


def test_w12_a_rescue_without_a_worker_is_rolled_back(site: Site) -> None:
    uuid = site.node(states.ACTIVE)

    with site.no_worker():
        answer = site.ask(uuid, "rescue", rescue_password=PASSWORD)

    assert answer.status == 503
    node = site.shown(uuid)
    assert (node["provision_state"], node["target_provision_state"]) == (states.ACTIVE, None)
    assert node["reservation"] is None
    assert "rescue" not in str(site.stored(uuid).instance_info), "the password is forgotten"
    assert site.provision(uuid, "rescue", rescue_password=PASSWORD)["provision_state"] == "rescue"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_w12_an_unhold_without_a_worker_is_rolled_back(site: Site, kind: str) -> None:
    data = KINDS[kind]
    plan = {data.steps_key: steps("hold"), data.index_key: 0}
    target = states.MANAGEABLE if kind == "clean" else states.ACTIVE
    uuid = site.node(
        data.hold,
        target_provision_state=target,
        **{data.field: steps("hold")[0]},
        driver_internal_info=plan,
    )

    with site.no_worker():
        answer = site.ask(uuid, "unhold")

    assert answer.status == 503
    node = site.shown(uuid)
    assert (node["provision_state"], node["target_provision_state"]) == (data.hold, target)
    assert node["reservation"] is None
    assert site.provision(uuid, "unhold")["provision_state"] == target


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_w13_a_flow_that_finds_no_worker_waits_again_and_then_goes_on(
    site: Site, kind: str
) -> None:
    data = KINDS[kind]
    target = states.MANAGEABLE if kind == "clean" else states.ACTIVE
    uuid = site.node(
        data.wait,
        target_provision_state=target,
        **{data.field: steps("raid.a")[0]},
        driver_internal_info={
            data.steps_key: steps("raid.a", "raid.b"),
            data.index_key: 0,
            "steps_validated": True,
        },
    )

    with site.no_worker():
        with pytest.raises(errors.NoFreeConductorWorker):
            site.conductor.registry.dispatch(
                f"continue_node_{kind}", site.context, {"node_id": uuid}
            )
        node = site.shown(uuid)

    assert (node["provision_state"], node["target_provision_state"]) == (data.wait, target)
    assert node["reservation"] is None
    site.cast(kind, uuid)
    site.becomes(uuid, provision_state=target)
    assert site.kit.ran == ["raid.b"]


def test_w13_inspection_data_that_finds_no_worker_can_be_sent_again(site: Site) -> None:
    site.kit.interfaces["inspect"].continue_inspection = lambda task, inventory, data: None
    uuid = site.node(states.INSPECTWAIT)

    def post() -> int:
        body = {"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:01"}]}}
        return site.api.post(f"/v1/continue_inspection?node_uuid={uuid}", body).status

    with site.no_worker():
        assert post() == 503
        assert site.shown(uuid)["provision_state"] == states.INSPECTWAIT

    assert post() == 202
    site.settle()
    assert site.shown(uuid)["provision_state"] == states.MANAGEABLE


def test_w35_the_work_of_the_clock_never_takes_a_reserved_worker(
    few: None, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    reserved = site.conductor.workers.reserved
    assert reserved is not None
    submit = reserved.submit

    def watched(fn: Any, *args: Any, **kwargs: Any) -> Any:
        taken.append(getattr(fn, "__qualname__", str(fn)))
        return submit(fn, *args, **kwargs)

    monkeypatch.setattr(reserved, "submit", watched)

    class Polling(type(site.kit.interfaces["raid"])):  # type: ignore[misc]
        """Polls the machine, and has a worker go on when it is done."""

        @node_periodic("poll", lambda conf: 60, filters={"provision_state": states.CLEANWAIT})
        def poll(self, task: Any) -> None:
            task.upgrade_lock()
            task.spawn_after(lambda: None)

    site.install(Polling())
    dead_conductor("cond-z")
    for state in (states.DEPLOYWAIT, states.CLEANWAIT):
        age(site.node(state), 100_000)
    site.node(states.CLEANING, reservation="cond-z")
    site.node(states.MANAGEABLE)
    site.node(states.ACTIVE, conductor_affinity=None)
    site.node(states.CLEANWAIT)

    with site.no_worker(reserved=True):
        site.tick_all()

        assert taken == []
        uuid = site.node(states.MANAGEABLE)
        path = f"/v1/nodes/{uuid}/states/power"
        assert site.api.put(path, {"target": "power off"}).status == 202, "a user gets one"
        assert taken


def test_w44_more_deployments_than_allowed_are_refused_and_the_limit_is_documented(
    site: Site,
) -> None:
    CONF.set_override("max_concurrent_deploy", 1, group="conductor")
    CONF.set_override("max_concurrent_clean", 1, group="conductor")
    site.kit.offer("deploy", "deploy.deploy", 80)
    running, more = site.node(states.DEPLOYWAIT), site.node(states.AVAILABLE)
    cleaned = site.node(states.CLEANWAIT)

    answers = [
        site.ask(more, "active"),
        site.ask(site.node(states.MANAGEABLE), "clean", clean_steps=steps("hold")),
    ]

    for answer in answers:
        assert answer.status == 503
        assert "maximum number of concurrent operations" in answer.text
    assert site.shown(more)["provision_state"] == states.AVAILABLE
    # Neither of these is limited.
    assert site.ask(site.node(states.MANAGEABLE), "inspect").status == 202
    assert site.ask(site.node(states.ACTIVE), "service", service_steps=steps("hold")).status == 202
    site.settle()
    # One after the other is never too many.
    site.provision(running, "abort")
    site.provision(cleaned, "abort")
    assert site.provision(more, "active")["provision_state"] == states.ACTIVE
    texts = {opt.name: opt.help for opt in _options()}
    for name in ("max_concurrent_deploy", "max_concurrent_clean"):
        assert "at the same moment" in texts[name], "a race that operators must know of"
    assert "inspection and servicing" in texts["max_concurrent_clean"]


def _options() -> list[Any]:
    return [info["opt"] for info in CONF.conductor._group._opts.values()]


def test_w45_an_allocation_without_a_worker_is_not_left_behind(site: Site) -> None:
    site.node(states.AVAILABLE, resource_class="gold")

    with site.no_worker():
        answer = site.api.post("/v1/allocations", {"resource_class": "gold", "name": "a"})

    assert answer.status == 503
    assert site.api.get("/v1/allocations").body["allocations"] == []
    answer = site.api.post("/v1/allocations", {"resource_class": "gold", "name": "a"})
    assert answer.status == 201
    site.settle()
    assert site.api.get("/v1/allocations/a").body["state"] == "active"


@pytest.mark.parametrize("total", [28, 33, 39])
def test_w51_one_reserved_worker_is_enough(
    conf: Any, transport: DirectTransport, total: int
) -> None:
    conf.set_override("workers_pool_size", total, group="conductor")
    conductor: Conductor = scripted("cond-a", transport, Kit())
    conductor.start()
    gate = threading.Event()
    try:
        assert conductor.periodics is not None
        conductor.periodics.stop()
        assert conductor.workers.wait(WAIT)
        normal, reserved = conductor.workers.normal, conductor.workers.reserved
        assert reserved is not None
        assert (normal.size, reserved.size) == (total - 1, 1)
        running = [conductor.workers.submit(gate.wait) for _ in range(total)]
        with pytest.raises(errors.NoFreeConductorWorker):
            conductor.workers.submit(gate.wait)
        gate.set()
        assert all(future.result(WAIT) for future in running)
    finally:
        gate.set()
        assert conductor.stop(WAIT)
