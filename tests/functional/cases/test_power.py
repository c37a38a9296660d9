"""Cases of operators about power (field-cases.md K05), as users of the API meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from ironic_rs.conductor.flows import power
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.fake.machine import FakePower
from tests.functional.api.test_concurrency import at_once
from tests.functional.defects.site import Site

ON, OFF = states.POWER_ON, states.POWER_OFF


class Bmcs(FakePower):
    """BMCs that keep a power state of their own, and may be away.

    :ivar state: by node uuid, what the machine is.
    :ivar away: node uuids whose BMC does not answer.
    :ivar refuses: node uuids whose BMC refuses requests.
    :ivar switched: (node uuid, request) in the order of the requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, str] = {}
        self.away: set[str] = set()
        self.refuses: set[str] = set()
        self.switched: list[tuple[str, str]] = []

    def get_power_state(self, task: Any) -> str | None:
        uuid = task.node.uuid
        if uuid in self.away:
            raise errors.RedfishConnectionError(node=uuid, error="no route to host")
        return self.state.setdefault(uuid, ON)

    def set_power_state(self, task: Any, power_state: str, timeout: int | None = None) -> None:
        uuid = task.node.uuid
        if uuid in self.away | self.refuses:
            raise errors.RedfishError(error=f"the BMC of {uuid} says no")
        self.switched.append((uuid, power_state))
        self.state[uuid] = states.POWER_TARGET[power_state]

    def reboot(self, task: Any, timeout: int | None = None) -> None:
        self.set_power_state(task, states.REBOOT, timeout)


@pytest.fixture
def bmcs(site: Site) -> Bmcs:
    made = Bmcs()
    site.install(made)
    return made


def patch(site: Site, node: str, op: str, path: str, value: Any = None) -> Any:
    change = {"op": op, "path": path}
    return site.api.patch(
        f"/v1/nodes/{node}", [change | ({} if op == "remove" else {"value": value})]
    )


def maintain(site: Site, node: str, reason: str) -> None:
    assert site.api.put(f"/v1/nodes/{node}/maintenance", {"reason": reason}).status == 202


# K05/42: automatic maintenance and its end


def sync(site: Site, rounds: int = 1) -> None:
    for _ in range(rounds):
        site.tick("_sync_power_states")
        site.settle()


def recover(site: Site) -> None:
    site.tick("_power_failure_recovery")
    site.settle()


STATES = [
    states.ACTIVE,
    states.AVAILABLE,
    states.MANAGEABLE,
    states.CLEANFAIL,
    states.DEPLOYFAIL,
    states.SERVICEFAIL,
    states.RESCUE,
]


@pytest.mark.parametrize("state", STATES)
def test_42_three_misses_are_a_fault_that_ends_with_the_bmc_s_return(
    site: Site, bmcs: Bmcs, state: str
) -> None:
    node = site.node(state)
    bmcs.away.add(node)
    sync(site, 2)
    assert site.shown(node)["maintenance"] is False
    sync(site, 2)
    lost = site.shown(node)
    assert (lost["maintenance"], lost["fault"], lost["power_state"]) == (
        True,
        "power failure",
        None,
    )
    assert "no route to host" in lost["maintenance_reason"]
    before = len(site.history(node))
    sync(site, 2)
    recover(site)
    assert site.shown(node)["fault"] == "power failure"
    assert len(site.history(node)) == before, "what is known already is told once"

    bmcs.away.clear()
    recover(site)
    well = site.shown(node)
    assert (well["maintenance"], well["fault"], well["maintenance_reason"]) == (False, None, None)
    assert (well["power_state"], well["provision_state"]) == (ON, state)
    assert len(site.history(node)) <= before + 1
    sync(site)
    assert site.shown(node) | {"updated_at": None} == well | {"updated_at": None}


@pytest.mark.parametrize("state", [states.CLEANWAIT, states.DEPLOYWAIT, states.INSPECTWAIT])
def test_42_a_node_that_waits_for_its_ramdisk_keeps_its_flow(
    site: Site, bmcs: Bmcs, state: str
) -> None:
    node = site.node(state)
    bmcs.away.add(node)
    sync(site, 4)
    bmcs.away.clear()
    recover(site)
    sync(site)
    shown = site.shown(node)
    assert shown["provision_state"] == state
    assert (shown["maintenance"], shown["fault"], shown["reservation"]) == (False, None, None)


def test_42_maintenance_of_an_operator_is_never_ended(site: Site, bmcs: Bmcs) -> None:
    before, during = (site.node(states.ACTIVE) for _ in range(2))
    maintain(site, before, "new disks")
    bmcs.away |= {before, during}
    sync(site, 4)
    assert (site.shown(before)["fault"], site.shown(before)["maintenance_reason"]) == (
        None,
        "new disks",
    )
    assert site.shown(during)["fault"] == "power failure"
    maintain(site, during, "mainboard")
    bmcs.away.clear()
    for _ in range(2):
        recover(site)
        sync(site)
    for node, reason in ((before, "new disks"), (during, "mainboard")):
        shown = site.shown(node)
        assert (shown["maintenance"], shown["maintenance_reason"]) == (True, reason)
        assert shown["fault"] is None
        assert site.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
        sync(site)
        assert site.shown(node)["power_state"] == ON


@pytest.fixture
def told(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Any]]]:
    """Events since the last look: (type, from, to, fault, maintenance), and what Nova is told."""
    seen: list[Any] = []

    def notify(
        self: Any, ctxt: Any, event_type: str, payload: Any, priority: str, *_: Any, **__: Any
    ) -> None:
        data = payload["ironic_object.data"]
        fields = ("from_power", "power_state", "fault", "maintenance")
        kind = event_type.removeprefix("baremetal.node.")
        seen.append((kind, *(data.get(field) for field in fields)))

    def tell(context: Any, server: str | None, power_state: str | None) -> None:
        seen.append((server, power_state))

    news = site.conductor.news
    monkeypatch.setattr(oslo_messaging.Notifier, "_notify", notify)
    monkeypatch.setattr(news.nova, "tell", tell)
    CONF.set_override("notification_level", "info")
    CONF.set_override("driver", ["noop"], group="oslo_messaging_notifications")

    def look() -> list[Any]:
        assert news.emitter.flush(30)
        found, seen[:] = list(seen), []
        return sorted(found, key=len)

    yield look
    CONF.clear_override("notification_level")
    CONF.clear_override("driver", group="oslo_messaging_notifications")


def test_42_each_transition_is_notified_once(
    site: Site, bmcs: Bmcs, told: Callable[[], list[Any]]
) -> None:
    server = "11111111-1111-4111-8111-111111111111"
    node = site.node(states.ACTIVE, instance_uuid=server)
    by_hand = site.node(states.ACTIVE, maintenance=True, maintenance_reason="new disks")
    sync(site)
    bmcs.away |= {node, by_hand}
    sync(site, 3)
    assert told() == [], "nothing has changed"
    sync(site, 3)
    for _ in range(3):
        recover(site)
    corrected = "power_state_corrected.success"
    assert told() == [(server, None), (corrected, ON, None, "power failure", True)]

    bmcs.away.clear()
    for _ in range(3):
        recover(site)
        sync(site)
    assert told() == [(server, ON), (corrected, None, ON, None, False)]

    # Away and back once more is told once more.
    bmcs.away.add(node)
    sync(site, 6)
    bmcs.away.clear()
    bmcs.state[node] = OFF
    recover(site)
    sync(site, 2)
    assert [event[1:] for event in told() if event[0] == corrected] == [
        (ON, None, "power failure", True),
        (None, OFF, None, False),
    ]


def test_42_one_miss_or_two_are_forgotten_with_the_next_answer(site: Site, bmcs: Bmcs) -> None:
    node = site.node(states.ACTIVE)
    for _ in range(3):
        bmcs.away.add(node)
        sync(site, 2)
        bmcs.away.clear()
        sync(site)
    assert (site.shown(node)["maintenance"], site.shown(node)["last_error"]) == (False, None)


# K05/43: stale error text on a healthy node


@pytest.mark.parametrize("node_history", [True, False])
def test_43_a_power_error_goes_when_sync_confirms_the_state(
    site: Site, bmcs: Bmcs, conf: Any, node_history: bool
) -> None:
    conf.set_override("node_history", node_history, group="conductor")
    node = site.node(states.ACTIVE)
    bmcs.refuses.add(node)
    failed = site.power(node, OFF)
    assert f"the BMC of {node} says no" in failed["last_error"]
    assert (failed["power_state"], failed["target_power_state"]) == (ON, None)
    bmcs.refuses.clear()
    sync(site)
    assert site.shown(node)["last_error"] is None
    kept = [row["event"] for row in site.history(node)]
    assert any("says no" in event for event in kept) is node_history


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (states.DEPLOYFAIL, "Failed to deploy: the image is broken"),
        (states.CLEANFAIL, "Clean step deploy.erase_devices failed"),
        (states.ACTIVE, "Failed to rescue: timeout"),
        (states.INSPECTFAIL, "Timeout while inspecting"),
    ],
)
def test_43_errors_of_other_work_are_not_cleared_by_power_sync(
    site: Site, bmcs: Bmcs, state: str, text: str
) -> None:
    node = site.node(state, last_error=text)
    sync(site, 2)
    assert site.shown(node)["last_error"] == text


def test_43_the_next_power_action_clears_the_error_of_the_last(site: Site, bmcs: Bmcs) -> None:
    node = site.node(states.ACTIVE)
    bmcs.refuses.add(node)
    assert site.power(node, OFF)["last_error"]
    bmcs.refuses.clear()
    assert site.power(node, OFF)["last_error"] is None


# K05/44: parent and child power

DEDICATED = [True, "true", "True", 1, "1", "yes", "on"]
NOT_DEDICATED = [False, "false", 0, "0", "", None, "no"]


def family(site: Site, bmcs: Bmcs, dedicated: Any = "unset") -> tuple[str, str]:
    """A server and the DPU in it, both on; their uuids."""
    parent = site.enroll(name="server")
    info = {} if dedicated == "unset" else {"has_dedicated_power_supply": dedicated}
    child = site.enroll(name="dpu", parent_node="server", driver_info=info)
    assert site.shown(child)["parent_node"] == parent, "names are stored as UUIDs"
    return parent, child


def test_44_a_child_goes_off_with_its_parent_and_brings_it_back(site: Site, bmcs: Bmcs) -> None:
    parent, child = family(site, bmcs)
    site.power(parent, OFF)
    assert bmcs.switched == [(child, OFF), (parent, OFF)]
    bmcs.switched.clear()
    site.power(child, ON)
    assert bmcs.switched == [(parent, ON), (child, ON)]
    assert {site.shown(node)["power_state"] for node in (parent, child)} == {ON}


@pytest.mark.parametrize("request_", [states.SOFT_POWER_OFF, states.REBOOT, states.SOFT_REBOOT])
def test_44_other_requests_reach_the_child_as_well(site: Site, bmcs: Bmcs, request_: str) -> None:
    parent, child = family(site, bmcs)
    site.power(parent, request_)
    assert bmcs.switched[:2] == [(child, OFF), (parent, request_)]
    assert bmcs.state[child] == bmcs.state[parent]


@pytest.mark.parametrize("value", [*DEDICATED, *NOT_DEDICATED])
def test_44_a_supply_of_its_own_keeps_a_child_on(site: Site, bmcs: Bmcs, value: Any) -> None:
    parent, child = family(site, bmcs, value)
    site.power(parent, OFF)
    own = value in DEDICATED
    assert bmcs.switched == ([(parent, OFF)] if own else [(child, OFF), (parent, OFF)])
    bmcs.switched.clear()
    bmcs.state[child] = OFF
    site.power(child, ON)
    assert bmcs.switched == ([(child, ON)] if own else [(parent, ON), (child, ON)])


def test_44_a_node_is_not_its_own_parent(site: Site) -> None:
    uuid = "0f5bd2f0-0000-4000-8000-000000000001"
    for parent in (uuid, "self"):
        refused = site.api.post(
            "/v1/nodes",
            {"driver": "fake-hardware", "uuid": uuid, "name": "self", "parent_node": parent},
        )
        assert refused.status == 400, refused.body
    node = site.enroll(name="self")
    for value in (node, "self", node.upper()):
        for op in ("add", "replace"):
            refused = patch(site, node, op, "/parent_node", value)
            assert refused.status == 400, (value, refused.body)
    assert site.shown(node)["parent_node"] is None


@pytest.mark.parametrize("length", [2, 3, 5])
def test_44_a_loop_of_parents_is_refused(site: Site, length: int) -> None:
    chain = [site.enroll(name="n0")]
    for number in range(1, length):
        chain.append(site.enroll(name=f"n{number}", parent_node=f"n{number - 1}"))
    for value in (chain[-1], f"n{length - 1}"):
        refused = patch(site, chain[0], "add", "/parent_node", value)
        assert refused.status == 400
        assert "loop" in refused.text
    assert site.shown(chain[0])["parent_node"] is None


def test_44_two_changes_at_once_make_no_loop(site: Site) -> None:
    for attempt in range(5):
        one, two = (site.enroll(name=f"{name}{attempt}") for name in "ab")
        pairs = [(one, two), (two, one)]

        def link(place: int, pairs: list[tuple[str, str]] = pairs) -> Any:
            node, parent = pairs[place]
            return patch(site, node, "add", "/parent_node", parent)

        answers = at_once(2, link)
        assert {answer.status for answer in answers} <= {200, 400, 409}
        linked = [node for node in (one, two) if site.shown(node)["parent_node"]]
        assert len(linked) <= 1, "each is the parent of the other"


@pytest.mark.parametrize("value", ["nobody", "0f5bd2f0-0000-4000-8000-00000000dead", 7, "", "a/b"])
def test_44_a_parent_has_to_exist(site: Site, value: Any) -> None:
    node = site.enroll(name="child")
    assert patch(site, node, "add", "/parent_node", value).status == 400
    body = {"driver": "fake-hardware", "name": "other", "parent_node": value}
    assert site.api.post("/v1/nodes", body).status == 400


def test_44_a_parent_is_not_deleted_before_its_children(site: Site, bmcs: Bmcs) -> None:
    parent, child = family(site, bmcs)
    refused = site.api.delete("/v1/nodes/server")
    assert refused.status == 409
    assert child in refused.text
    assert "parent_node" in refused.text, "it says what to do"
    maintain(site, parent, "gone")
    assert site.api.delete("/v1/nodes/server").status == 409
    assert patch(site, child, "remove", "/parent_node").status == 200
    assert patch(site, child, "remove", "/parent_node").status == 200
    assert site.api.delete("/v1/nodes/server").status == 204
    assert site.shown(child)["parent_node"] is None


def test_44_maintenance_of_a_parent_does_not_keep_its_child_from_power(
    site: Site, bmcs: Bmcs
) -> None:
    parent, child = family(site, bmcs)
    site.power(parent, OFF)
    maintain(site, parent, "cables")
    bmcs.switched.clear()
    site.power(child, ON)
    assert bmcs.switched == [(parent, ON), (child, ON)]
    shown = site.shown(parent)
    assert (shown["maintenance"], shown["maintenance_reason"]) == (True, "cables")
    site.power(parent, OFF)
    assert (bmcs.state[parent], bmcs.state[child]) == (OFF, OFF)


@pytest.mark.parametrize("busy", ["parent", "child"])
def test_44_a_busy_relative_is_a_clear_failure(site: Site, bmcs: Bmcs, busy: str) -> None:
    parent, child = family(site, bmcs)
    if busy == "parent":
        site.power(parent, OFF)
    held, asked = (parent, child) if busy == "parent" else (child, parent)
    wanted = ON if busy == "parent" else OFF
    bmcs.state[child] = ON if busy == "child" else OFF
    bmcs.switched.clear()
    with site.held(held):
        answer = site.api.put(f"/v1/nodes/{asked}/states/power", {"target": wanted})
        assert answer.status == 202
        site.conductor.workers.wait(30)
        shown = site.shown(asked)
        assert held in shown["last_error"]
        assert (shown["target_power_state"], shown["reservation"]) == (None, None)
    assert bmcs.switched == [], "nothing was switched"


def test_44_a_child_that_can_not_be_switched_off_keeps_its_parent_on(
    site: Site, bmcs: Bmcs
) -> None:
    parent, child = family(site, bmcs)
    bmcs.refuses.add(child)
    shown = site.power(parent, OFF)
    assert child in shown["last_error"]
    assert shown["target_power_state"] is None
    assert (site.shown(child)["target_power_state"], bmcs.state[parent]) == (None, ON)


def test_44_grandchildren_follow(site: Site, bmcs: Bmcs) -> None:
    parent, child = family(site, bmcs)
    grandchild = site.enroll(name="nic", parent_node="dpu")
    site.power(parent, OFF)
    assert bmcs.switched == [(grandchild, OFF), (child, OFF), (parent, OFF)]
    bmcs.switched.clear()
    site.power(grandchild, ON)
    assert bmcs.switched == [(parent, ON), (child, ON), (grandchild, ON)]


def test_44_power_sync_does_not_switch_a_child_of_a_parent_that_is_off(
    site: Site, bmcs: Bmcs, conf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = family(site, bmcs)
    for node in (parent, child):
        site.provision(node, "manage")
    conf.set_override("force_power_state_during_sync", True, group="conductor")
    sync(site)
    site.power(parent, OFF)
    asked: list[Callable[..., Any]] = []
    plain = power.node_power_action
    monkeypatch.setattr(
        power, "node_power_action", lambda *a, **k: (asked.append(a[1]), plain(*a, **k))
    )
    sync(site, 2)
    assert asked == []
    assert (bmcs.state[parent], bmcs.state[child]) == (OFF, OFF)
