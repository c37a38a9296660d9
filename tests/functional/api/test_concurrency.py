"""Requests that run at once (field cases K02)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.rpc.context import admin_context
from tests.functional.api.harness import Answer, Client


def at_once(number: int, work: Callable[[int], Answer]) -> list[Answer]:
    """Run ``work(0)``, ``work(1)``, ... in threads that start together."""
    barrier = threading.Barrier(number)
    answers: list[Answer] = []

    def run(place: int) -> None:
        barrier.wait()
        answers.append(work(place))

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == number
    return answers


def test_every_acknowledged_patch_is_stored(api: Client) -> None:
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201

    def patch(place: int) -> Answer:
        return api.patch(
            "/v1/nodes/n1", [{"op": "add", "path": f"/extra/k{place}", "value": place}]
        )

    answers = at_once(20, patch)
    assert {a.status for a in answers} <= {200, 409}
    for refused in (a for a in answers if a.status == 409):
        assert refused.fault["errorcode"] == "node_locked"
        assert refused.headers["Retry-After"] == "1"
    acknowledged = [a for a in answers if a.status == 200]
    stored = api.get("/v1/nodes/n1").body["extra"]
    assert acknowledged
    assert len(stored) == len(acknowledged)


@pytest.mark.parametrize("collection", ["chassis", "deploy_templates", "runbooks"])
def test_no_patch_of_a_record_is_lost(api: Client, collection: str) -> None:
    steps = {
        "deploy_templates": {"args": {}, "priority": 1},
        "runbooks": {"order": 1},
    }
    body: dict[str, Any] = {}
    if collection in steps:
        step = {"interface": "bios", "step": "a", **steps[collection]}
        body = {"name": "CUSTOM_A", "steps": [step]}
    uuid = api.post(f"/v1/{collection}", body).body["uuid"]

    def patch(place: int) -> Answer:
        ops = [{"op": "add", "path": f"/extra/k{place}", "value": place}]
        return api.patch(f"/v1/{collection}/{uuid}", ops)

    answers = at_once(20, patch)
    assert {a.status for a in answers} == {200}
    assert len(api.get(f"/v1/{collection}/{uuid}").body["extra"]) == 20


def test_only_one_caller_gets_the_instance(api: Client) -> None:
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201

    def claim(place: int) -> Answer:
        value = f"00000000-0000-4000-8000-{place:012d}"
        return api.patch("/v1/nodes/n1", [{"op": "add", "path": "/instance_uuid", "value": value}])

    answers = at_once(10, claim)
    assert Counter(a.status for a in answers)[200] == 1
    # A program can tell the lock, which is worth a retry, from the loss.
    codes = {a.fault["errorcode"] for a in answers if a.status == 409}
    assert codes <= {"node_locked", "node_associated"}
    retry = {a.fault["errorcode"]: "Retry-After" in a.headers for a in answers if a.status == 409}
    assert retry.get("node_associated", False) is False


def test_a_name_is_given_once(api: Client) -> None:
    answers = at_once(
        10, lambda _: api.post("/v1/nodes", {"driver": "fake-hardware", "name": "same"})
    )
    assert Counter(a.status for a in answers) == {201: 1, 409: 9}


def test_a_mac_address_is_used_once_in_any_spelling(api: Client) -> None:
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201
    spellings = ("52:54:00:AA:BB:01", "52:54:00:aa:bb:01", "52-54-00-aa-BB-01")

    def create(place: int) -> Answer:
        return api.post("/v1/ports", {"address": spellings[place % 3], "node_ident": "n1"})

    assert Counter(a.status for a in at_once(9, create)) == {201: 1, 409: 8}


def test_a_node_is_deleted_once(api: Client) -> None:
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201
    answers = at_once(8, lambda _: api.delete("/v1/nodes/n1"))
    counted = Counter(a.status for a in answers)
    assert counted[204] == 1
    assert set(counted) <= {204, 404, 409}
    assert api.get("/v1/nodes/n1").status == 404


def test_the_answer_to_a_lock_tells_whose_it_is(api: Client, conductor: Conductor) -> None:
    uuid = api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).body["uuid"]
    with conductor.tasks.acquire(admin_context(), uuid, purpose="a long operation"):
        for answer in (
            api.patch("/v1/nodes/n1", [{"op": "add", "path": "/extra/a", "value": 1}]),
            api.put("/v1/nodes/n1/states/power", {"target": "power on"}),
            api.put("/v1/nodes/n1/traits", {"traits": []}),
            api.delete("/v1/nodes/n1"),
        ):
            assert answer.status == 409
            assert answer.headers["Retry-After"] == "1"
            fault = answer.fault
            assert fault["errorcode"] == "node_locked"
            assert fault["lock"].pop("since") in fault["faultstring"]
            assert fault["lock"] == {
                "node": uuid,
                "host": "cond-a",
                "operation": "a long operation",
            }
            assert fault["faultstring"].startswith(
                f"Node {uuid} is locked by host cond-a, please retry after the current operation "
                "is completed."
            )
