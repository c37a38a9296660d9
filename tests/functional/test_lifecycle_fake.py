"""The whole life of fake machines, by a real conductor in this process.

Everything is real: threads, locks, worker pools, SQLite, and the RPC client over
direct dispatch.  Only the machines are fake.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.drivers.fake.machine import FakePower
from ironic_rs.drivers.fake.provisioning import FakeDeploy
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport

HOST = "conductor-1"
WAIT = 30.0


class Site:
    """A conductor and a client of it."""

    def __init__(self) -> None:
        transport = DirectTransport()
        self.conductor = Conductor(HOST, transport)
        self.conductor.start()
        self.client = ConductorClient(transport, self.conductor.ring)
        self.context = admin_context()

    def call(self, method: str, node: models.Node, *args: Any, **kwargs: Any) -> Any:
        """Call the conductor of a node through the client."""
        return getattr(self.client, method)(self.context, node, *args, **kwargs)

    def settle(self) -> None:
        """Wait until no worker holds a node any more."""
        assert self.conductor.tasks.book.wait_empty(WAIT), "a worker does not end"

    def run(self, method: str, node: models.Node, *args: Any, **kwargs: Any) -> models.Node:
        """Call, wait for the worker, and return the node as stored."""
        self.call(method, node, *args, **kwargs)
        self.settle()
        return self.read(node)

    def verb(self, node: models.Node, action: str) -> models.Node:
        return self.run("do_provisioning_action", node, action)

    def enroll(self, **values: Any) -> models.Node:
        row = {"uuid": str(uuid.uuid4()), "driver": "fake-hardware", "conductor_group": ""}
        made = self.client.create_node(self.context, row | values)
        return nodes.get(made["uuid"])

    def node(self, state: str, **values: Any) -> models.Node:
        """Store a node that has got somewhere already."""
        return self.enroll(
            provision_state=state,
            target_provision_state=states.STATES[state].target,
            power_state=states.POWER_ON,
            **values,
        )

    @staticmethod
    def read(node: models.Node) -> models.Node:
        return nodes.get(node.id)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{tmp_path}/ironic.sqlite", group="database")
    CONF.set_override("host", HOST)
    CONF.set_override("enabled_hardware_types", ["fake-hardware"])
    for kind in INTERFACE_TYPES:
        CONF.set_override(
            f"enabled_{kind}_interfaces",
            {"network": ["noop"], "bios": ["no-bios"]}.get(kind, ["fake"]),
        )
    CONF.set_override("default_storage_interface", "fake")
    CONF.set_override("node_locked_retry_interval", 1, group="conductor")
    session.configure()
    with session.writer() as connection:
        models.Base.metadata.create_all(connection)
    made = Site()
    try:
        yield made
    finally:
        assert made.conductor.stop(WAIT)
        session.dispose()
        CONF.reset()
        CONF.clear()


def test_the_whole_life_of_a_machine(site: Site) -> None:
    node = site.enroll(name="m1")
    assert node.provision_state == states.ENROLL

    node = site.verb(node, "manage")
    assert node.provision_state == states.MANAGEABLE
    node = site.run("change_node_power_state", node, states.POWER_ON)
    assert node.power_state == states.POWER_ON
    node = site.run("inspect_hardware", node)
    assert node.provision_state == states.MANAGEABLE
    assert node.inspection_finished_at is not None
    node = site.verb(node, "provide")
    assert node.provision_state == states.AVAILABLE
    site.call("update_node", node, [{"op": "add", "path": "/instance_uuid", "value": node.uuid}])
    node = site.run("do_node_deploy", node, configdrive={"meta_data": {"name": "m1"}})
    assert node.provision_state == states.ACTIVE
    assert node.instance_info["configdrive"] == {"meta_data": {"name": "m1"}}
    node = site.run("do_node_deploy", node, rebuild=True)
    assert node.provision_state == states.ACTIVE
    node = site.run("do_node_tear_down", node)
    assert node.provision_state == states.AVAILABLE
    assert (node.instance_uuid, node.instance_info) == (None, {})
    node = site.verb(node, "manage")
    site.call("destroy_node", node)
    with pytest.raises(errors.NodeNotFound):
        site.read(node)


def test_a_life_costs_few_statements(site: Site) -> None:
    with session.count_statements() as seen:
        node = site.enroll()
        for step in (
            lambda: site.verb(node, "manage"),
            lambda: site.run("inspect_hardware", node),
            lambda: site.verb(node, "provide"),
            lambda: site.run("do_node_deploy", node),
            lambda: site.run("do_node_tear_down", node),
        ):
            stored = step()
            assert stored.reservation is None
    assert stored.provision_state == states.AVAILABLE
    verbs = Counter(text.split()[0] for text in seen.statements)
    assert seen.count <= 100, verbs


def test_many_machines_at_one_time(site: Site) -> None:
    fleet = [site.enroll() for _ in range(20)]
    for method, args, state in (
        ("do_provisioning_action", ["manage"], states.MANAGEABLE),
        ("inspect_hardware", [], states.MANAGEABLE),
        ("do_provisioning_action", ["provide"], states.AVAILABLE),
        ("do_node_deploy", [], states.ACTIVE),
        ("do_node_tear_down", [], states.AVAILABLE),
    ):
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda node, m=method, a=args: site.call(m, node, *a), fleet))
        site.settle()
        stored = [site.read(node) for node in fleet]
        assert {node.provision_state for node in stored} == {state}
        assert {node.reservation for node in stored} == {None}
        assert {node.last_error for node in stored} == {None}


def test_manual_cleaning_with_a_pause(site: Site) -> None:
    node = site.node(states.MANAGEABLE)
    update = {
        "interface": "firmware",
        "step": "update",
        "args": {"settings": [{"component": "bmc", "url": "http://h/f"}]},
    }
    plan = [
        {"interface": "deploy", "step": "hold"},
        update,
        {"interface": "power", "step": "reboot"},
    ]
    node = site.run("do_node_clean", node, plan)
    assert node.provision_state == states.CLEANHOLD
    node = site.verb(node, "unhold")
    assert node.provision_state == states.MANAGEABLE
    assert node.clean_step == {}
    kinds = [row["event_type"] for row in history.select(["event_type"], {"node_id": node.id})]
    assert kinds == ["manual_cleaning_start", "manual_cleaning_end"]


def test_a_paused_cleaning_can_be_aborted(site: Site) -> None:
    node = site.node(states.MANAGEABLE)
    node = site.run("do_node_clean", node, [{"interface": "deploy", "step": "hold"}])
    node = site.verb(node, "abort")
    assert node.provision_state == states.CLEANFAIL
    assert node.target_provision_state == states.MANAGEABLE
    assert "aborted on request" in node.last_error
    assert site.verb(node, "manage").provision_state == states.MANAGEABLE


def test_a_servicing_waits_and_a_cast_goes_on_with_it(site: Site) -> None:
    node = site.node(states.ACTIVE)
    plan = [
        {"interface": "vendor", "step": "trigger_servicewait"},
        {"interface": "vendor", "step": "log_passthrough"},
    ]
    node = site.run("do_node_service", node, plan)
    assert node.provision_state == states.SERVICEWAIT

    done = threading.Event()
    release = site.conductor.tasks.book.drop

    def dropped(key: str, token: object) -> None:
        release(key, token)
        if site.read(node).provision_state == states.ACTIVE:
            done.set()

    site.conductor.tasks.book.drop = dropped  # type: ignore[method-assign]
    with site.conductor.tasks.acquire(site.context, str(node.uuid), purpose="busy"):
        # It must wait for the lock, not fail and not overtake its holder.
        site.client.continue_node(site.context, node, "service")
        assert site.read(node).provision_state == states.SERVICEWAIT
    assert done.wait(WAIT)
    assert site.read(node).last_error is None


def test_power_requests(site: Site) -> None:
    node = site.node(states.MANAGEABLE)
    for request, result in (
        (states.POWER_OFF, states.POWER_OFF),
        (states.POWER_ON, states.POWER_ON),
        (states.REBOOT, states.POWER_ON),
        (states.SOFT_REBOOT, states.POWER_ON),
        (states.SOFT_POWER_OFF, states.POWER_OFF),
    ):
        node = site.run("change_node_power_state", node, request)
        assert node.power_state == result
        assert node.target_power_state is None
        assert node.driver_internal_info["last_power_state_change"]


def test_maintenance_refuses_and_ends_without_a_trace(site: Site) -> None:
    node = site.node(states.AVAILABLE)
    site.call("update_node", node, [{"op": "replace", "path": "/maintenance", "value": True}])
    for method, args in (
        ("do_node_deploy", []),
        ("do_node_clean", [[{"interface": "deploy", "step": "hold"}]]),
        ("do_node_rescue", ["secret"]),
    ):
        with pytest.raises(errors.NodeInMaintenance):
            site.call(method, node, *args)
    site.call("update_node", node, [{"op": "replace", "path": "/maintenance", "value": False}])
    assert site.run("do_node_deploy", node).provision_state == states.ACTIVE


@pytest.mark.parametrize(
    ("state", "method", "args"),
    [
        (states.ENROLL, "do_node_deploy", []),
        (states.ENROLL, "inspect_hardware", []),
        (states.ENROLL, "do_provisioning_action", ["provide"]),
        (states.AVAILABLE, "do_node_tear_down", []),
        (states.ACTIVE, "do_node_deploy", []),
        (states.ACTIVE, "do_provisioning_action", ["abort"]),
        (states.CLEANWAIT, "do_node_clean", [[{"interface": "deploy", "step": "hold"}]]),
    ],
)
def test_what_does_not_fit_the_state_is_refused(
    site: Site, state: str, method: str, args: list[Any]
) -> None:
    node = site.node(state)
    with pytest.raises(errors.InvalidStateRequested):
        site.call(method, node, *args)
    stored = site.read(node)
    assert (stored.provision_state, stored.reservation) == (state, None)


@pytest.fixture
def slow_deploy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Make deployments wait until the returned function is called."""
    go = threading.Event()
    begun = threading.Event()

    def prepare(self: FakeDeploy, task: Any) -> None:
        begun.set()
        go.wait(WAIT)

    monkeypatch.setattr(FakeDeploy, "prepare", prepare)
    yield lambda: (begun.wait(WAIT), go.set())[1]
    go.set()


def test_a_busy_node_answers_questions_and_refuses_changes(
    site: Site, slow_deploy: Callable[[], None]
) -> None:
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    node = site.node(states.AVAILABLE)
    site.call("do_node_deploy", node)
    for method in ("get_boot_device", "validate_driver_interfaces", "get_supported_boot_devices"):
        site.call(method, node)
    for method, args in (
        ("update_node", [[{"op": "add", "path": "/extra/a", "value": 1}]]),
        ("change_node_power_state", [states.POWER_OFF]),
        ("destroy_node", []),
    ):
        with pytest.raises(errors.NodeLocked):
            site.call(method, node, *args)
    assert site.read(node).provision_state == states.DEPLOYING
    slow_deploy()
    site.settle()
    assert site.read(node).provision_state == states.ACTIVE


def test_without_workers_nothing_changes(site: Site) -> None:
    available, active = site.node(states.AVAILABLE), site.node(states.ACTIVE)
    site.conductor.workers.close()
    for node, method, args in (
        (available, "do_node_deploy", []),
        (active, "do_node_tear_down", []),
        (active, "change_node_power_state", [states.POWER_OFF]),
    ):
        with pytest.raises(errors.NoFreeConductorWorker):
            site.call(method, node, *args)
        stored = site.read(node)
        assert stored.provision_state == node.provision_state
        assert stored.target_provision_state is None
        assert (stored.power_state, stored.target_power_state) == (states.POWER_ON, None)
        assert stored.reservation is None


def test_a_worker_that_crashes_leaves_no_node_behind(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: FakePower, task: Any) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr(FakePower, "get_power_state", crash)
    node = site.verb(site.enroll(), "manage")
    assert node.provision_state == states.ENROLL
    assert node.target_provision_state is None
    assert "no memory" in node.last_error
    assert node.reservation is None


def test_no_acknowledged_patch_is_lost(site: Site) -> None:
    CONF.set_override("node_locked_retry_attempts", 10, group="conductor")
    fleet = [site.node(states.MANAGEABLE) for _ in range(4)]
    jobs = [(node, field, f"k{n}") for n in range(10) for node in fleet for field in _FIELDS]

    def change(job: tuple[models.Node, str, str]) -> tuple[int, str, str] | None:
        node, field, key = job
        try:
            site.call("update_node", node, [{"op": "add", "path": f"/{field}/{key}", "value": 1}])
        except errors.NodeLocked:
            return None
        return node.id, field, key

    with ThreadPoolExecutor(20) as pool:
        acknowledged = [done for done in pool.map(change, jobs) if done]
    assert len(acknowledged) > len(jobs) / 2
    for node_id, field, key in acknowledged:
        assert key in getattr(nodes.get(node_id), field)


_FIELDS = ("extra", "properties", "driver_info")


def test_an_instance_is_claimed_once(site: Site) -> None:
    CONF.set_override("node_locked_retry_attempts", 10, group="conductor")
    node = site.node(states.AVAILABLE)

    def claim(number: int) -> str:
        value = str(uuid.UUID(int=number + 1))
        try:
            site.call(
                "update_node", node, [{"op": "add", "path": "/instance_uuid", "value": value}]
            )
        except errors.IronicError as exc:
            return type(exc).__name__
        return value

    with ThreadPoolExecutor(20) as pool:
        results = Counter(pool.map(claim, range(20)))
    winners = [name for name in results if "-" in name]
    assert len(winners) == 1
    assert results["NodeAssociated"] == 19
    assert site.read(node).instance_uuid == winners[0]


def test_a_node_is_deleted_once(site: Site) -> None:
    node = site.node(states.MANAGEABLE)

    def delete(_: int) -> str:
        try:
            site.call("destroy_node", node)
        except errors.IronicError as exc:
            return type(exc).__name__
        return "deleted"

    with ThreadPoolExecutor(10) as pool:
        results = Counter(pool.map(delete, range(10)))
    assert results == {"deleted": 1, "NodeNotFound": 9}
