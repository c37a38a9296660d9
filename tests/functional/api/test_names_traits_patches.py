"""Names, traits and JSON patches, on every resource that has them (field cases K18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import pytest

from ironic_rs.api.documents import Patch
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import nodes
from tests.functional.api.harness import Client
from tests.harness.servers import wait_until

NODE = "00000000-0000-4000-8000-00000000000a"
STEP = {"interface": "bios", "step": "a"}
RULE = {"actions": [{"op": "fail", "args": {"msg": "x"}}]}

#: A body that makes something of each collection, without a name.
BODIES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "nodes": lambda n: {"driver": "fake-hardware"},
    "ports": lambda n: {"node_uuid": NODE, "address": f"52:54:00:00:{n // 256:02x}:{n % 256:02x}"},
    "portgroups": lambda n: {"node_uuid": NODE},
    "chassis": lambda n: {},
    "deploy_templates": lambda n: {
        "name": f"CUSTOM_{n}",
        "steps": [{**STEP, "args": {}, "priority": 1}],
    },
    "runbooks": lambda n: {"name": f"CUSTOM_{n}", "steps": [{**STEP, "order": 1}]},
    "inspection_rules": lambda n: {**RULE, "description": "x"},
    "allocations": lambda n: {"resource_class": "none"},
    "volume/connectors": lambda n: {"node_uuid": NODE, "type": "x", "connector_id": str(n)},
    "volume/targets": lambda n: {
        "node_uuid": NODE,
        "volume_type": "x",
        "volume_id": "x",
        "boot_index": n,
    },
}
PATCHABLE = [
    r.path.removeprefix("/v1/").rpartition("/")[0]
    for r in ROUTES
    if r.body and isinstance(r.body, Patch)
]


@dataclass
class Maker:
    """Makes things, each different from those before."""

    client: Client
    made: int = 0

    def __call__(self, collection: str, **more: Any) -> Any:
        self.made += 1
        return self.client.post(f"/v1/{collection}", {**BODIES[collection](self.made), **more})

    def uuid(self, collection: str, **more: Any) -> str:
        answer = self(collection, **more)
        assert answer.status == 201, answer.body
        return str(answer.body["uuid"])


@pytest.fixture(scope="module")
def make(shared_api: Client) -> Maker:
    assert shared_api.post("/v1/nodes", {"driver": "fake-hardware", "uuid": NODE}).status == 201
    # Volumes can not be changed under a machine that runs.
    nodes.update(nodes.get_by_ident(NODE), {"power_state": "power off"}, fence=None)
    return Maker(shared_api)


# Names

NAMED = ("nodes", "ports", "portgroups", "runbooks", "allocations")
GOOD = (
    "node-1",
    "Node.Example.COM",
    "a_b~c",
    "1",
    "x" * 255,
    "None",
    "null",
    "a..b",
    "-",
    "~",
    "...",
)
BAD: tuple[Any, ...] = (
    "",
    " ",
    "a b",
    "ü",
    "节点",
    "a/b",
    "a,b",
    "a%2Fb",
    "a\n",
    "a\x00",
    "x" * 256,
    ".",
    "..",
    "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
    "1BE26C0B-03F2-4D2E-AE87-C02D7F33C123",
    "1be26c0b03f24d2eae87c02d7f33c123",
    "{1be26c0b-03f2-4d2e-ae87-c02d7f33c123}",
    5,
    True,
    [],
    {},
)
RESERVED = ("maintenance", "management", "states", "vendor_passthru", "detail", "validate")


@pytest.mark.parametrize("collection", NAMED)
def test_good_names_are_stored_and_lead_back(collection: str, make: Maker) -> None:
    for name in GOOD:
        uuid = make.uuid(collection, name=name)
        by_name = make.client.get(f"/v1/{collection}/{quote(name)}")
        assert (by_name.status, by_name.body["uuid"]) == (200, uuid), name
        again = make(collection, name=name)
        assert again.status == 409, (name, again.body)
        assert name[:50] in again.text
        path = f"/v1/{collection}/{uuid}"
        other = {"op": "replace", "path": "/name", "value": f"other-{collection[:3]}-{make.made}"}
        assert make.client.patch(path, [other]).status == 200


@pytest.mark.parametrize("collection", NAMED)
def test_bad_names_are_refused(collection: str, make: Maker) -> None:
    uuid = make.uuid(collection, name=f"good-{collection}")
    path = f"/v1/{collection}/{uuid}"
    for name in (*BAD, *(RESERVED if collection == "nodes" else ())):
        answer = make(collection, name=name)
        assert answer.status == 400, (name, answer.body)
        for op in ("add", "replace"):
            answer = make.client.patch(path, [{"op": op, "path": "/name", "value": name}])
            assert answer.status == 400, (name, answer.body)
    assert make.client.get(path).body["name"] == f"good-{collection}"


@pytest.mark.parametrize("collection", NAMED)
def test_names_are_taken_away(collection: str, make: Maker) -> None:
    taken = f"taken-{collection}"
    first, second = (make.uuid(collection, name=name) for name in (taken, f"free-{collection}"))
    path = f"/v1/{collection}/{second}"
    rename = {"op": "replace", "path": "/name", "value": taken}
    assert make.client.patch(path, [rename]).status == 409
    null = make.client.patch(path, [{"op": "replace", "path": "/name", "value": None}])
    remove = [{"op": "remove", "path": "/name"}]
    if collection == "runbooks":
        assert null.status == 400
        assert make.client.patch(path, remove).status == 400
        return
    if collection == "nodes":
        assert null.status == 400
    else:
        assert (null.status, null.body["name"]) == (200, None)
    for _ in range(2):
        answer = make.client.patch(path, remove)
        assert (answer.status, answer.body["name"]) == (200, None)
    assert make.client.patch(f"/v1/{collection}/{first}", remove).status == 200
    answer = make.client.patch(path, [rename])
    assert (answer.status, answer.body["name"]) == (200, taken)


# Traits

GOOD_TRAITS = ("CUSTOM_OK", "CUSTOM_A_1", "CUSTOM_" + "X" * 248, "HW_CPU_X86_VMX", "CUSTOM__")
BAD_TRAITS: tuple[Any, ...] = (
    "custom_x",
    "CUSTOM_a",
    "CUSTOM_",
    "CUSTOM_A.B",
    "CUSTOM_Ü",
    "CUSTOM_" + "X" * 249,
    "HW_BOGUS",
    "",
    " CUSTOM_A",
    "CUSTOM_A\n",
    None,
    5,
    [],
    {},
)
WITH_TRAITS = ("nodes", "runbooks")


@pytest.mark.parametrize("collection", WITH_TRAITS)
def test_good_traits(collection: str, make: Maker) -> None:
    path = f"/v1/{collection}/{make.uuid(collection)}/traits"
    for trait in GOOD_TRAITS:
        assert make.client.put(f"{path}/{trait}").status == 204, trait
        assert make.client.put(f"{path}/{trait}", {}).status == 204, trait
    assert make.client.get(path).body == {"traits": sorted(GOOD_TRAITS)}
    twice = {"traits": [*GOOD_TRAITS[:2], *GOOD_TRAITS[:2]]}
    assert make.client.put(path, twice).status == 204
    assert make.client.get(path).body == {"traits": sorted(GOOD_TRAITS[:2])}


@pytest.mark.parametrize("collection", WITH_TRAITS)
def test_bad_traits_change_nothing(collection: str, make: Maker) -> None:
    path = f"/v1/{collection}/{make.uuid(collection)}/traits"
    assert make.client.put(f"{path}/CUSTOM_OK").status == 204
    for trait in BAD_TRAITS:
        answer = make.client.put(path, {"traits": ["CUSTOM_NEW", trait]})
        assert answer.status == 400, (trait, answer.body)
        if isinstance(trait, str) and trait:
            single = make.client.put(f"{path}/{quote(trait)}")
            assert single.status in (400, 404), (trait, single.body)
    bodies: tuple[Any, ...] = (
        {},
        [],
        ["CUSTOM_NEW"],
        {"traits": "CUSTOM_NEW"},
        {"traits": None},
        {"traits": ["CUSTOM_NEW"], "more": 1},
    )
    for body in bodies:
        assert make.client.put(path, body).status == 400, body
    assert make.client.put(f"{path}/CUSTOM_NEW", {"traits": ["CUSTOM_NEW"]}).status == 400
    assert make.client.get(path).body == {"traits": ["CUSTOM_OK"]}


@pytest.mark.parametrize("collection", WITH_TRAITS)
def test_fifty_traits_and_no_more(collection: str, make: Maker) -> None:
    uuid = make.uuid(collection)
    path = f"/v1/{collection}/{uuid}/traits"
    fifty = [f"CUSTOM_{number}" for number in range(50)]
    assert make.client.put(path, {"traits": fifty}).status == 204
    for answer in (
        make.client.put(f"{path}/CUSTOM_X"),
        make.client.put(path, {"traits": [*fifty, "CUSTOM_X"]}),
    ):
        assert answer.status == 400
        assert "50 traits" in answer.text
    assert make.client.put(f"{path}/CUSTOM_1").status == 204
    assert make.client.get(path).body == {"traits": sorted(fifty)}
    assert make.client.delete(path).status == 204
    assert make.client.get(path).body == {"traits": []}


@pytest.mark.parametrize(("collection", "status"), [("nodes", 404), ("runbooks", 204)])
def test_a_trait_that_is_not_there(collection: str, status: int, make: Maker) -> None:
    path = f"/v1/{collection}/{make.uuid(collection)}/traits/CUSTOM_MISSING"
    assert make.client.delete(path).status == status


def test_traits_of_allocations(make: Maker) -> None:
    made = make("allocations", traits=[*GOOD_TRAITS, GOOD_TRAITS[0]])
    assert made.status == 201, made.body
    assert set(made.body["traits"]) == set(GOOD_TRAITS)
    for trait in BAD_TRAITS:
        answer = make("allocations", traits=["CUSTOM_NEW", trait])
        assert answer.status == 400, (trait, answer.body)


# Patches

#: Where a patch finds an object that takes any key.
OBJECT = {"inspection_rules": "/actions/0/args/msg"}
EXTRA = "/extra"


def _object(collection: str) -> str:
    return OBJECT.get(collection, EXTRA)


def _at(document: Any, pointer: str) -> Any:
    for key in pointer.strip("/").split("/"):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@pytest.fixture
def patched(make: Maker) -> Callable[..., Any]:
    """Patch something new of a collection."""

    def patch(collection: str, *ops: Any, version: str = "1.115", path: str | None = None) -> Any:
        if path is None:
            path = f"/v1/{collection}/{make.uuid(collection)}"
        return make.client.at(version).patch(path, list(ops))

    return patch


@pytest.mark.parametrize("collection", PATCHABLE)
def test_escapes_of_pointers_from_1_98(collection: str, patched: Any) -> None:
    root = _object(collection)
    ops = [
        {"op": "add", "path": root, "value": {}},
        {"op": "add", "path": f"{root}/a~1b", "value": {}},
        {"op": "add", "path": f"{root}/a~1b/c~0d", "value": 1},
        {"op": "add", "path": f"{root}/~01", "value": 2},
        {"op": "add", "path": f"{root}/gone~1", "value": 3},
        {"op": "remove", "path": f"{root}/gone~1"},
        {"op": "replace", "path": f"{root}/~01", "value": 4},
    ]
    answer = patched(collection, *ops, version="1.98")
    if collection == "inspection_rules":
        answer = patched(collection, *ops)
    assert answer.status == 200, answer.body
    assert _at(answer.body, root) == {"a/b": {"c~d": 1}, "~1": 4}
    free = collection in ("inspection_rules", "allocations")
    before = patched(collection, *ops, version="1.97")
    assert before.status == (200 if free else 400), before.body


@pytest.mark.parametrize("collection", PATCHABLE)
def test_what_is_no_patch(collection: str, patched: Any, make: Maker) -> None:
    root = _object(collection)
    path = f"/v1/{collection}/{make.uuid(collection)}"
    good = {"op": "add", "path": f"{root}/a", "value": 1}
    bad: tuple[Any, ...] = (
        None,
        5,
        "x",
        [],
        {},
        {**good, "op": "test"},
        {**good, "op": "move", "from": root},
        {**good, "op": "copy"},
        {**good, "op": "ADD"},
        {**good, "op": None},
        {**good, "more": 1},
        {"op": "add", "value": 1},
        {"op": "add", "path": f"{root}/a"},
        {"op": "replace", "path": f"{root}/a"},
        *({**good, "path": p} for p in ("", "/", "//", "extra", "/bogus", "/~2", "/extra/~", 5)),
        {"op": "replace", "path": f"{root}/missing", "value": 1},
        {"op": "remove", "path": f"{root}/missing"},
        {"op": "add", "path": f"{root}/missing/deep", "value": 1},
        {"op": "add", "path": "/links", "value": []},
    )
    for op in bad:
        answer = patched(collection, op, path=path)
        assert answer.status == 400, (op, answer.body)
    for body in ({}, good, "x", 5, None):
        answer = make.client.patch(path, body)
        if body is not None:
            assert answer.status == 400, (body, answer.body)


def _settled(client: Client, path: str) -> dict[str, Any]:
    """Return a document that nobody works on: an allocation's worker begins after the answer."""

    def look() -> Any:
        body = client.get(path).body
        return body if body.get("state") != "allocating" else None

    return cast("dict[str, Any]", wait_until(look, f"{path} is no longer allocating"))


@pytest.mark.parametrize("collection", PATCHABLE)
def test_operations_are_one_after_the_other_and_all_or_none(
    collection: str, patched: Any, make: Maker
) -> None:
    root = _object(collection)
    path = f"/v1/{collection}/{make.uuid(collection)}"
    before = _settled(make.client, path)
    same = patched(collection, path=path).body
    # A lock of a node moves the time too.
    assert {**same, "updated_at": None} == {**before, "updated_at": None}
    ops = [
        {"op": "add", "path": root, "value": {"list": [1]}},
        {"op": "add", "path": f"{root}/list/-", "value": 3},
        {"op": "add", "path": f"{root}/list/1", "value": 2},
        {"op": "replace", "path": f"{root}/list/0", "value": {"x": None}},
    ]
    answer = patched(collection, *ops, path=path)
    assert (answer.status, _at(answer.body, root)) == (200, {"list": [{"x": None}, 2, 3]})
    failing = {"op": "remove", "path": f"{root}/list/7"}
    answer = patched(collection, {"op": "remove", "path": f"{root}/list"}, failing, path=path)
    assert answer.status == 400
    assert "operation 1" in answer.text
    assert "/list/7" in answer.text
    assert _at(make.client.get(path).body, root) == {"list": [{"x": None}, 2, 3]}


@pytest.mark.parametrize("collection", PATCHABLE)
def test_an_unknown_thing_is_not_patched(collection: str, make: Maker) -> None:
    path = f"/v1/{collection}/1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    answer = make.client.patch(path, [{"op": "add", "path": "/extra/a", "value": 1}])
    assert answer.status == (400 if collection == "inspection_rules" else 404)
    assert make.client.patch(path, []).status == 404
