"""Cases of operators about workers and limits (field-cases.md K16/108)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.domain import states
from tests.functional.api.harness import Answer
from tests.functional.defects.site import WAIT, Site, steps


@pytest.fixture
def ten(conf: Any) -> None:
    """Ten workers, two of them reserved for the requests of users."""
    for name, value in (
        ("workers_pool_size", 10),
        ("reserved_workers_pool_percentage", 20),
        ("sync_power_state_workers", 1),
        ("periodic_max_workers", 1),
    ):
        conf.set_override(name, value, group="conductor")


@pytest.fixture
def gate(site: Site) -> Iterator[threading.Event]:
    """What keeps every BMC from answering."""
    opened = threading.Event()

    def change(task: Any, state: str, timeout: int | None = None) -> None:
        assert opened.wait(WAIT)
        task.node.power_state = states.POWER_TARGET[state]

    site.kit.interfaces["power"].set_power_state = change
    yield opened
    opened.set()
    site.settle()


def refused(answer: Answer, code: str) -> None:
    assert answer.status == 503, answer.body
    assert answer.fault["errorcode"] == code
    assert int(answer.headers["Retry-After"]) >= 1


def test_108_of_twenty_slow_operations_ten_run_and_none_waits_unseen(
    ten: None, site: Site, gate: threading.Event
) -> None:
    fleet = [site.node() for _ in range(20)]
    answers = {
        uuid: site.api.put(f"/v1/nodes/{uuid}/states/power", {"target": "power off"})
        for uuid in fleet
    }
    assert Counter(answer.status for answer in answers.values()) == {202: 10, 503: 10}
    for uuid, answer in answers.items():
        node = site.shown(uuid)
        if answer.status == 503:
            refused(answer, "no_free_conductor_worker")
            assert (node["reservation"], node["target_power_state"]) == (None, None)
        else:
            assert node["target_power_state"] == "power off"
    gate.set()
    site.settle()
    done = {uuid for uuid in fleet if site.shown(uuid)["power_state"] == "power off"}
    assert done == {uuid for uuid, answer in answers.items() if answer.status == 202}


#: verb -> (state it starts from, body).
VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "manage": (states.ENROLL, {}),
    "provide": (states.MANAGEABLE, {}),
    "inspect": (states.MANAGEABLE, {}),
    "adopt": (states.MANAGEABLE, {}),
    "clean": (states.MANAGEABLE, {"clean_steps": steps("raid.a")}),
    "active": (states.AVAILABLE, {}),
    "rebuild": (states.ACTIVE, {}),
    "deleted": (states.ACTIVE, {}),
    "rescue": (states.ACTIVE, {"rescue_password": "secret"}),
    "unrescue": (states.RESCUE, {}),
    "service": (states.ACTIVE, {"service_steps": steps("raid.a")}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_108_without_a_worker_every_verb_is_rolled_back(site: Site, verb: str) -> None:
    state, body = VERBS[verb]
    for kind in ("clean", "service"):
        site.kit.offer(kind, "raid.a", requires_ramdisk=False)
    uuid = site.node(state)
    before = site.shown(uuid)
    with site.no_worker():
        answer = site.ask(uuid, verb, **body)
    refused(answer, "no_free_conductor_worker")
    after = site.shown(uuid)
    kept = ("provision_state", "target_provision_state", "power_state", "target_power_state")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after["reservation"] is None
    again = site.ask(uuid, verb, **body)
    assert again.status == 202, again.body
    site.settle()


def test_108_the_reserved_share_serves_users_while_the_rest_is_busy(ten: None, site: Site) -> None:
    fleet = [site.node() for _ in range(2)]
    with site.no_worker(reserved=True):
        for uuid in fleet:
            assert (
                site.api.put(f"/v1/nodes/{uuid}/states/power", {"target": "power off"}).status
                == 202
            )
        assert site.conductor.tasks.book.wait_empty(WAIT)
    assert {site.shown(uuid)["power_state"] for uuid in fleet} == {"power off"}


def test_108_the_sixth_of_five_deployments_is_told_to_come_later(
    conf: Any, site: Site, gate: threading.Event
) -> None:
    conf.set_override("max_concurrent_deploy", 5, group="conductor")
    entered = threading.Semaphore(0)

    def slow(task: Any) -> None:
        entered.release()
        assert gate.wait(WAIT)

    site.kit.offer("deploy", "deploy.core", 1)
    site.kit.results["deploy.core"] = slow
    fleet = [site.node(states.AVAILABLE) for _ in range(10)]
    answers = [site.ask(uuid, "active") for uuid in fleet]
    assert [answer.status for answer in answers] == [202] * 5 + [503] * 5
    for uuid, answer in zip(fleet[5:], answers[5:], strict=True):
        refused(answer, "concurrent_action_limit")
        assert site.shown(uuid)["provision_state"] == states.AVAILABLE
    for _ in range(5):
        assert entered.acquire(timeout=WAIT)
    gate.set()
    site.settle()
    assert site.provision(fleet[5], "active")["provision_state"] == states.ACTIVE


def test_108_the_limit_of_cleanings_counts_tear_downs_as_well(
    conf: Any, site: Site, gate: threading.Event
) -> None:
    conf.set_override("max_concurrent_clean", 2, group="conductor")
    site.kit.offer("clean", "raid.a", requires_ramdisk=False)

    def slow(task: Any) -> None:
        assert gate.wait(WAIT)

    site.kit.results["raid.a"] = slow
    fleet = [site.node() for _ in range(3)]
    answers = [site.ask(uuid, "clean", clean_steps=steps("raid.a")) for uuid in fleet]
    assert [answer.status for answer in answers] == [202, 202, 503]
    refused(answers[2], "concurrent_action_limit")
    assert site.shown(fleet[2])["provision_state"] == states.MANAGEABLE
    active = site.node(states.ACTIVE)
    refused(site.ask(active, "deleted"), "concurrent_action_limit")
    assert site.shown(active)["provision_state"] == states.ACTIVE
