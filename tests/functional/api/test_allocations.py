"""Allocations over the API: who may see and make which, and many at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import allocations, nodes
from tests.functional.api.harness import Answer, Client
from tests.harness import keystone as keystones
from tests.harness.keystone import Keystone, token

#: Who asks: name -> token.
CALLERS: dict[str, dict[str, Any]] = {
    "system-admin": {"role": "admin", "system": True},
    "system-member": {"role": "member", "system": True},
    "system-reader": {"role": "reader", "system": True},
    "member": {"role": "member", "project": "p1"},
    "reader": {"role": "reader", "project": "p1"},
    "admin": {"role": "admin", "project": "p1"},
    "stranger": {"role": "member", "project": "p2"},
}


@pytest.fixture
def keystone(conf: Any) -> Iterator[Keystone]:
    with keystones.running() as server, keystones.configured(conf, server):
        for name, given in CALLERS.items():
            values = dict(given)
            server.tokens[name] = token(values.pop("role"), **values)
        yield server


class Guarded:
    """The API under its default policy, for each caller."""

    def __init__(self, client: Client, conductor: Conductor) -> None:
        self._client = client
        self._conductor = conductor

    def __call__(self, caller: str, method: str, path: str, body: Any = None) -> Answer:
        answer = self._client.request(method, path, body, headers={"X-Auth-Token": caller})
        assert answer.status < 500, answer.body
        return answer

    def create(self, caller: str, **values: Any) -> Answer:
        body = {"resource_class": "gold", **values}
        answer = self(caller, "POST", "/v1/allocations", body)
        assert self._conductor.workers.wait(30)
        return answer

    def names(self, caller: str, query: str = "") -> list[str]:
        answer = self(caller, "GET", f"/v1/allocations?fields=name{query}")
        assert answer.status == 200, answer.body
        return sorted(row["name"] for row in answer.body["allocations"])


@pytest.fixture
def guarded(keystone: Keystone, services: Services, conductor: Conductor) -> Guarded:
    return Guarded(Client(app.build(services)), conductor)


def machine(name: str, **values: Any) -> Any:
    row = {
        "name": name,
        "driver": "fake-hardware",
        "resource_class": "gold",
        "provision_state": "available",
        "power_state": "power off",
    }
    return nodes.create(row | values)


def stored(name: str, owner: str | None, node: Any = None) -> None:
    """Store an allocation, of a node when one is given."""
    values = {"name": name, "owner": owner, "resource_class": "gold"}
    if node is None:
        allocations.create({**values, "state": "error"})
    else:
        allocations.create_bound(values, node.id)


# Who may make one, and whose it is


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        ("system-admin", 201),
        ("system-member", 201),
        ("system-reader", 403),
        ("admin", 201),
        ("member", 201),
        ("reader", 403),
        ("stranger", 201),
    ],
)
def test_members_make_allocations(guarded: Guarded, caller: str, status: int) -> None:
    assert guarded.create(caller).status == status


def test_an_allocation_belongs_to_the_project_of_its_maker(guarded: Guarded) -> None:
    assert guarded.create("member").body["owner"] == "p1"
    assert guarded.create("member", owner="p1").body["owner"] == "p1"
    assert guarded.create("system-member").body["owner"] is None
    assert guarded.create("system-member", owner="p9").body["owner"] == "p9"
    for caller in ("member", "admin"):
        assert guarded.create(caller, owner="p2").status == 403


def test_also_in_versions_that_do_not_show_the_owner(
    keystone: Keystone, services: Services, conductor: Conductor
) -> None:
    client = Client(app.build(services), "1.52", {"X-Auth-Token": "member"})
    made = client.post("/v1/allocations", {"resource_class": "gold"})
    assert "owner" not in made.body
    assert allocations.get(made.body["uuid"]).owner == "p1"
    assert conductor.workers.wait(30)


def test_projects_get_nodes_of_their_own_only(guarded: Guarded) -> None:
    machine("foreign", owner="p2")
    machine("nobody-s")
    failed = guarded.create("member", name="a")
    assert allocations.get(failed.body["uuid"]).state == "error"
    leased = machine("leased", owner="p2", lessee="p1")
    made = guarded.create("member", name="b")
    assert allocations.get(made.body["uuid"]).node_id == leased.id


def test_without_the_new_defaults_another_owner_needs_the_rule_of_before(
    guarded: Guarded, conf: Any, keystone: Keystone, services: Services, conductor: Conductor
) -> None:
    conf.set_override("enforce_new_defaults", False, "oslo_policy")
    again = Guarded(Client(app.build(services)), conductor)
    # Everybody whom the old rules let make one passes the restricted rule.
    assert again.create("member", owner="p2").status == 403
    assert again.create("member").status == 201


def test_candidates_and_nodes_in_use_must_be_visible(guarded: Guarded) -> None:
    machine("mine", owner="p1")
    machine("foreign", owner="p2", provision_state="active")
    for name in ("foreign", "absent"):
        refused = guarded.create("member", candidate_nodes=["mine", name])
        assert (refused.status, f"'{name}'" in refused.text) == (400, True)
        refused = guarded.create("member", node=name)
        assert (refused.status, refused.text) == (400, f"Node {name} could not be found.")
    assert guarded.create("member", candidate_nodes=["mine"]).status == 201


# Who may see, change and delete which


@pytest.fixture
def filled(guarded: Guarded) -> Guarded:
    """Allocations of p1 and p2 with nodes, and one of nobody."""
    stored("one", "p1", machine("n1", owner="p1"))
    stored("two", "p2", machine("n2", owner="p2", lessee="p1"))
    stored("none", None)
    return guarded


def test_lists_show_what_is_the_caller_s(filled: Guarded) -> None:
    for caller in ("system-admin", "system-reader"):
        assert filled.names(caller) == ["none", "one", "two"]
    for caller in ("member", "reader", "admin"):
        assert filled.names(caller) == ["one"]
    assert filled.names("stranger") == ["two"]


def test_lists_by_node_for_every_scope(filled: Guarded) -> None:
    assert filled.names("system-reader", "&node=n2") == ["two"]
    assert filled.names("member", "&node=n1") == ["one"]
    # The node may be seen by its lessee, the allocation may not.
    assert filled.names("member", "&node=n2") == []
    assert filled.names("stranger", "&node=n2") == ["two"]
    for name in ("n1", "absent"):
        answer = filled("stranger", "GET", f"/v1/allocations?node={name}")
        assert (answer.status, answer.text) == (400, f"Node {name} could not be found.")


def test_lists_by_owner(filled: Guarded) -> None:
    assert filled.names("system-reader", "&owner=p2") == ["two"]
    assert filled.names("member", "&owner=p1") == ["one"]
    assert filled("member", "GET", "/v1/allocations?owner=p2").status == 403


def test_links_to_further_pages_keep_to_the_project(filled: Guarded) -> None:
    stored("other", "p1")
    answer = filled("member", "GET", "/v1/allocations?limit=1&sort_key=name")
    path = answer.body["next"].partition("localhost")[2].removeprefix(":80")
    rows = filled("member", "GET", path).body["allocations"]
    assert [row["name"] for row in rows] == ["other"]


@pytest.mark.parametrize(
    ("caller", "shown", "changed"),
    [
        ("system-admin", 200, 200),
        ("system-member", 200, 200),
        ("system-reader", 200, 403),
        ("member", 200, 200),
        ("reader", 200, 403),
        ("stranger", 404, 404),
    ],
)
def test_what_may_not_be_seen_does_not_exist(
    filled: Guarded, caller: str, shown: int, changed: int
) -> None:
    path = "/v1/allocations/one"
    assert filled(caller, "GET", path).status == shown
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert filled(caller, "PATCH", path, patch).status == changed
    assert filled(caller, "DELETE", path).status == (204 if changed == 200 else changed)


def test_the_allocation_of_a_node(filled: Guarded) -> None:
    assert filled("member", "GET", "/v1/nodes/n1/allocation").body["name"] == "one"
    assert filled("member", "GET", "/v1/nodes/n2/allocation").status == 403
    assert filled("stranger", "GET", "/v1/nodes/n1/allocation").status == 400
    machine("n3", owner="p1")
    assert filled("reader", "GET", "/v1/nodes/n3/allocation").status == 404
    assert filled("reader", "DELETE", "/v1/nodes/n1/allocation").status == 403
    assert filled("member", "DELETE", "/v1/nodes/n2/allocation").status == 403
    assert filled("member", "DELETE", "/v1/nodes/n1/allocation").status == 204


# Many at once


@pytest.mark.timeout(120)
def test_twenty_at_once_take_exactly_the_five_nodes_there_are(
    api: Client, conductor: Conductor
) -> None:
    free = {machine(f"n{number}").id for number in range(5)}
    start = threading.Barrier(20)
    answers: list[Answer] = []

    def ask(number: int) -> None:
        start.wait()
        body = {"resource_class": "gold", "name": f"a{number}"}
        answers.append(api.post("/v1/allocations", body))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(answer.status, answer.body["state"]) for answer in answers] == [
        (201, "allocating")
    ] * 20
    assert conductor.workers.wait(60)
    found = allocations.select(["state", "node_id"])
    assert {row["node_id"] for row in found if row["state"] == "active"} == free
    assert sorted(row["state"] for row in found) == ["active"] * 5 + ["error"] * 15


@pytest.mark.timeout(120)
def test_every_acknowledged_change_is_kept(api: Client) -> None:
    stored("a", None)
    start = threading.Barrier(20)
    answers: list[int] = []

    def change(number: int) -> None:
        start.wait()
        patch = [{"op": "add", "path": f"/extra/k{number}", "value": number}]
        answers.append(api.patch("/v1/allocations/a", patch).status)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20
    assert len(api.get("/v1/allocations/a").body["extra"]) == 20


def test_no_conductor_is_503(lonely: Client) -> None:
    answer = lonely.post("/v1/allocations", {"resource_class": "gold"})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert lonely.get("/v1/allocations").body == {"allocations": []}
