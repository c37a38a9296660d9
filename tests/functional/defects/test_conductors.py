"""Conductors that start, stop, die and forget (W07, W08, W09, W27, W28, W50)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.conductor import service
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, nodes
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import services_over
from tests.functional.api.harness import Client
from tests.functional.defects.site import (
    WAIT,
    Site,
    dead_conductor,
    scripted,
    steps,
    write,
)
from tests.harness.scripted import Kit

STUCK = sorted(states.STUCK_STATES_TREATED_AS_FAIL)


@pytest.fixture
def life(conf: Any, transport: DirectTransport) -> Iterator[Any]:
    """Starts conductors by name, in full; returns the site of each."""
    api = Client(app.build(services_over(conf, transport)))
    begun: list[Conductor] = []

    def start(host: str) -> Site:
        kit = Kit()
        conductor = scripted(host, transport, kit)
        conductor.start()
        begun.append(conductor)
        for other in begun:
            other.ring.reset()
        return Site(api, conductor, kit)

    yield start
    for conductor in begun:
        if not conductor.stopping.is_set():
            CONF.set_override("hash_ring_reset_interval", 0)
            assert conductor.stop(WAIT)


def mine(site: Site, state: str, **values: Any) -> str:
    """A node that the ring gives to the conductor of the site."""
    while True:
        uuid = site.node(state, **values)
        if site.shown(uuid)["conductor"] == site.conductor.host:
            return uuid
        nodes.destroy(nodes.get(uuid).id)


def test_w07_a_stop_waits_for_the_workers_and_nobody_takes_their_nodes(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, other = life("cond-a"), life("cond-b")
    begun, go = threading.Event(), threading.Event()

    def deploy(task: Any) -> None:
        begun.set()
        go.wait(WAIT)

    site.kit.offer("deploy", "deploy.deploy", 80)
    site.kit.results["deploy.deploy"] = deploy
    uuid = mine(site, states.AVAILABLE)
    assert site.ask(uuid, "active").status == 202
    assert begun.wait(WAIT)

    # A keep-alive that ended with the beginning of the stop would be stale by now.
    beats: list[bool] = []
    window = threading.Event()

    def wait_for_rings(seconds: float) -> None:
        write_heartbeat_age("cond-a")
        beats.append(site.conductor.keepalive.beat())
        window.set()

    monkeypatch.setattr(service.time, "sleep", wait_for_rings)
    CONF.set_override("hash_ring_reset_interval", 15)
    results: list[bool] = []
    stop = threading.Thread(target=lambda: results.append(site.conductor.stop(None)))
    stop.start()
    assert window.wait(WAIT)
    other.tick("_check_orphan_nodes")
    node = site.shown(uuid)
    assert (node["provision_state"], node["reservation"]) == (states.DEPLOYING, "cond-a")
    assert results == []
    go.set()
    stop.join(WAIT)

    assert (beats, results) == ([True], [True])
    CONF.set_override("hash_ring_reset_interval", 0)
    node = site.shown(uuid)
    assert (node["provision_state"], node["reservation"]) == (states.ACTIVE, None)
    assert node["conductor"] == "cond-b"


def write_heartbeat_age(host: str) -> None:
    """Nobody has heard of the conductor for longer than it takes to be held for dead."""
    dead_conductor(host)
    assert host in conductors.offline_hosts()


def test_w07_requests_that_still_come_during_a_stop_are_served(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    CONF.set_override("hash_ring_reset_interval", 3600)
    site = life("cond-a")
    life("cond-b")
    site.api.get("/v1/drivers")
    uuid = mine(site, states.MANAGEABLE)
    answers: list[int] = []

    def wait_for_rings(seconds: float) -> None:
        # The ring of the API does not know of the stop yet.
        path = f"/v1/nodes/{uuid}/states/power"
        answers.append(site.api.put(path, {"target": "power off"}).status)

    monkeypatch.setattr(service.time, "sleep", wait_for_rings)

    assert site.conductor.stop(None)

    assert answers == [202]
    node = nodes.get(uuid)
    assert (node.power_state, node.reservation) == (states.POWER_OFF, None)


@pytest.mark.parametrize("held", [True, False], ids=["own lock", "no lock"])
def test_w08_every_interrupted_node_is_failed_at_the_start(life: Any, held: bool) -> None:
    earlier = life("cond-b")
    for state in STUCK:
        for _ in range(9):
            earlier.node(state, reservation="cond-a" if held else None)
    assert earlier.conductor.stop(WAIT)

    site = life("cond-a")

    found = site.listed("provision_state", "reservation", "last_error")
    assert len(found) == 9 * len(STUCK)
    assert not {node["provision_state"] for node in found} & set(STUCK)
    assert {node["reservation"] for node in found} == {None}
    assert all(node["last_error"] for node in found)


def test_w08_interrupted_nodes_that_come_later_are_failed_too(life: Any) -> None:
    site = life("cond-a")
    for state in STUCK:
        for number in range(9):
            site.node(state, maintenance=number % 2 == 0)

    # What does not change between two looks has nobody.
    site.tick("_check_orphan_nodes")
    site.tick("_check_orphan_nodes")

    assert not {node["provision_state"] for node in site.listed("provision_state")} & set(STUCK)


@pytest.mark.parametrize("maintenance", [False, True])
@pytest.mark.parametrize("state", STUCK)
def test_w09_what_a_dead_conductor_did_is_failed_in_every_state(
    site: Site, state: str, maintenance: bool
) -> None:
    dead_conductor("cond-z")
    uuid = site.node(state, reservation="cond-z", maintenance=maintenance)

    site.tick("_check_orphan_nodes")

    node = site.shown(uuid)
    assert node["provision_state"] == states.next_state(state, "fail")
    assert node["reservation"] is None
    assert "cond-z" in node["last_error"]


def test_w09_a_cleaning_of_a_dead_conductor_is_cleaned_up_after(site: Site) -> None:
    torn_down: list[str] = []
    deploy = site.kit.interfaces["deploy"]
    deploy.tear_down_cleaning = lambda task: torn_down.append(task.node.uuid)
    dead_conductor("cond-z")
    step = steps("raid.a")[0]
    uuid = site.node(
        states.CLEANING,
        target_provision_state=states.MANAGEABLE,
        reservation="cond-z",
        clean_step=step,
        driver_internal_info={"clean_steps": [step], "clean_step_index": 0},
    )

    site.tick("_check_orphan_nodes")

    assert torn_down == [uuid]
    node = site.shown(uuid)
    assert (node["provision_state"], node["fault"]) == (states.CLEANFAIL, "clean failure")
    assert node["target_provision_state"] == states.MANAGEABLE
    assert node["clean_step"] == {}


def test_w09_one_busy_node_does_not_keep_the_others_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_conductor("cond-z")
    fleet = [site.node(states.DEPLOYING, reservation="cond-z") for _ in range(4)]
    take = nodes.take_over_lock

    def racing(node_id: int, *hosts: str) -> bool:
        if node_id == nodes.get(fleet[0]).id:
            raise errors.NodeLocked(node=fleet[0], host="cond-b")
        return bool(take(node_id, *hosts))

    monkeypatch.setattr(nodes, "take_over_lock", racing)

    site.tick("_check_orphan_nodes")

    assert [site.shown(uuid)["reservation"] for uuid in fleet] == ["cond-z", None, None, None]


def test_w27_nothing_but_the_methods_of_the_table_can_be_called(
    site: Site, transport: DirectTransport
) -> None:
    public = {
        name
        for thing in (site.conductor, *(m.handler.__self__ for m in _methods(site)))
        for name in dir(thing)
        if callable(getattr(thing, name, None))
    }
    offered = set(site.conductor.registry.names)
    hidden = public - offered
    assert {"stop", "start", "keep_registered", "acquire"} <= hidden

    for name in sorted(hidden | {"prepare_host", "keepalive_halt", "manage_node_history"}):
        with pytest.raises(errors.IronicError, match="does not offer"):
            transport.call("cond-a", name, {}, site.context)

    assert not site.conductor.stopping.is_set()
    assert site.power(site.node(), "power off")["power_state"] == "power off"


def _methods(site: Site) -> list[Any]:
    return list(site.conductor.registry._methods.values())


def test_w27_calls_are_served_once_everything_is_there_and_before_it_is_known(
    conf: Any, transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    conductor = scripted("cond-a", transport, Kit())
    seen: list[Any] = []

    def call() -> Any:
        arguments = {"driver_name": "fake-hardware"}
        try:
            return transport.call("cond-a", "get_driver_properties", arguments, admin_context())
        except errors.ServiceUnavailable:
            return None

    load, register = conductor.drivers.load, conductors.register

    def loading() -> None:
        seen.append(call())
        load()
        seen.append(call())

    def registering(*args: Any, **kwargs: Any) -> Any:
        seen.append(call())
        return register(*args, **kwargs)

    monkeypatch.setattr(conductor.drivers, "load", loading)
    monkeypatch.setattr(conductors, "register", registering)
    conductor.start()
    try:
        assert seen[:2] == [None, None], "not while it has no drivers"
        assert seen[2] is not None, "from the moment on in which others can know of it"
    finally:
        assert conductor.stop(WAIT)


@pytest.mark.parametrize(
    ("host", "neighbour"),
    [("cond_a", "condXa"), ("cond%", "cond-b"), ("cond-a:8089", "cond-a"), ("cond", "cond:8089")],
)
def test_w28_a_conductor_has_one_name_and_frees_the_locks_of_that_name_only(
    life: Any, host: str, neighbour: str
) -> None:
    earlier = life(host)
    own = earlier.node(states.MANAGEABLE)
    foreign = earlier.node(states.MANAGEABLE, reservation=neighbour)
    with earlier.held(own):
        assert earlier.shown(own)["reservation"] == host
    assert earlier.shown(own)["conductor"] == host
    assert [row["hostname"] for row in earlier.api.get("/v1/conductors").body["conductors"]] == [
        host
    ]
    # It ends without a word.
    write(own, reservation=host)
    assert earlier.conductor.stop(WAIT) is not None

    again = life(host)

    assert again.shown(own)["reservation"] is None
    assert again.shown(foreign)["reservation"] == neighbour


def test_w28_the_locks_of_a_dead_conductor_are_found_by_its_whole_name(site: Site) -> None:
    dead_conductor("cond_z:8089")
    dead = site.node(states.DEPLOYING, reservation="cond_z:8089")
    alike = site.node(states.DEPLOYING, reservation="condYz:8089")

    site.tick("_check_orphan_nodes")

    assert site.shown(dead)["reservation"] is None
    assert site.shown(alike)["reservation"] == "condYz:8089"


def test_w50_a_conductor_that_was_cleaned_up_registers_itself_again(site: Site) -> None:
    uuid = site.node(states.MANAGEABLE)
    before = site.api.get("/v1/drivers/fake-hardware").body
    dead_conductor("cond-a")
    assert conductors.destroy("cond-a", 1800)
    site.conductor.ring.reset()
    assert site.api.get("/v1/conductors").body["conductors"] == []
    assert site.api.put(f"/v1/nodes/{uuid}/states/power", {"target": "power off"}).status >= 400

    assert site.conductor.keepalive.beat()

    rows = site.api.get("/v1/conductors").body["conductors"]
    assert [(row["hostname"], row["alive"]) for row in rows] == [("cond-a", True)]
    assert site.api.get("/v1/drivers/fake-hardware").body == before
    assert site.power(uuid, "power off")["power_state"] == "power off"
    site.tick("_sync_local_state")
    assert site.conductor.conductor_id == conductors.get("cond-a").id
