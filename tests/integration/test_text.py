"""Strings that one database forgives and another does not: field case K16/110.

The same requests, to the whole application over SQLite, MariaDB and PostgreSQL; the
answers must be the same, and what was accepted comes back as it was sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.db import migration, session
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import (
    conducted,
    configured,
    empty_database,
    services_over,
)
from tests.functional.api.harness import Answer, Client
from tests.harness import servers

__all__ = ["empty_database"]

EMOJI = "\N{GRINNING FACE}"
#: Texts that are kept as they are wherever text is free.
FREE = [f"ünï ß {EMOJI}", " ahead", "behind ", "%_'\"\\ \u200b"]


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "postgresql"])
def api(
    request: pytest.FixtureRequest,
    empty_database: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Client]:
    transport = DirectTransport()
    folder = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        conf = stack.enter_context(configured(empty_database, folder))
        if request.param != "sqlite":
            make = getattr(servers, f"{request.param}_database")
            conf.set_override("connection", stack.enter_context(make()), group="database")
            session.configure()
            migration.upgrade()
        services = services_over(conf, transport)
        stack.enter_context(conducted(transport))
        yield Client(app.build(services))


def node(api: Client, **body: Any) -> Answer:
    return api.post("/v1/nodes", {"driver": "fake-hardware", **body})


@pytest.fixture
def uuid(api: Client) -> Iterator[str]:
    made = node(api)
    assert made.status == 201
    yield made.body["uuid"]
    assert api.delete(f"/v1/nodes/{made.body['uuid']}").status == 204


def patched(field: str) -> Callable[[Client, str, str], tuple[int, Any]]:
    def write(api: Client, uuid: str, text: str) -> tuple[int, Any]:
        path = f"/v1/nodes/{uuid}"
        answer = api.patch(path, [{"op": "add", "path": f"/{field}", "value": text}])
        return answer.status, api.get(path).body[field]

    return write


def maintained(api: Client, uuid: str, text: str) -> tuple[int, Any]:
    path = f"/v1/nodes/{uuid}"
    answer = api.put(f"{path}/maintenance", {"reason": text})
    reason = api.get(path).body["maintenance_reason"]
    api.delete(f"{path}/maintenance")
    return answer.status, reason


def below(collection: str, field: str, **body: Any) -> Callable[[Client, str, str], Any]:
    def write(api: Client, uuid: str, text: str) -> tuple[int, Any]:
        given = dict(body) if collection in UNOWNED else {"node_uuid": uuid, **body}
        answer = api.post(f"/v1/{collection}", {**given, field: text})
        if answer.status != 201:
            return answer.status, None
        path = f"/v1/{collection}/{answer.body['uuid']}"
        shown = api.get(path).body[field]
        assert api.delete(path).status == 204
        return 201, shown

    return write


UNOWNED = {"chassis"}
WRITE: dict[str, tuple[int, Callable[[Client, str, str], tuple[int, Any]]]] = {
    "lessee": (255, patched("lessee")),
    "owner": (255, patched("owner")),
    "shard": (255, patched("shard")),
    "description": (4096, patched("description")),
    "resource_class": (80, patched("resource_class")),
    "maintenance_reason": (4096, maintained),
    "retired_reason": (65535, patched("retired_reason")),
    "chassis description": (255, below("chassis", "description")),
    "connector id": (255, below("volume/connectors", "connector_id", type="iqn")),
    "target type": (64, below("volume/targets", "volume_type", boot_index=0, volume_id="v")),
}
#: Texts with an alphabet of their own.
NAMES: dict[str, tuple[int, Callable[[Client, str, str], tuple[int, Any]]]] = {
    "name": (255, patched("name")),
    "conductor_group": (255, patched("conductor_group")),
    "portgroup name": (255, below("portgroups", "name")),
    "port name": (255, below("ports", "name", address="52:54:00:00:00:01")),
}


@pytest.mark.parametrize("field", WRITE)
def test_free_text_comes_back_as_it_was_sent(api: Client, uuid: str, field: str) -> None:
    limit, write = WRITE[field]
    if field == "retired_reason":
        patched("retired")(api, uuid, True)  # type: ignore[arg-type]
    texts = [*FREE, "y" * limit, EMOJI * min(limit, 1000)]
    for text in texts:
        status, shown = write(api, uuid, text)
        assert status in (200, 201, 202), (text[:20], status)
        assert shown == text, (text[:20], shown)


@pytest.mark.parametrize("field", {**WRITE, **NAMES})
def test_what_is_too_long_or_holds_nul_is_refused(api: Client, uuid: str, field: str) -> None:
    limit, write = {**WRITE, **NAMES}[field]
    if field == "retired_reason":
        patched("retired")(api, uuid, True)  # type: ignore[arg-type]
    for text in ("z" * (limit + 1), "z" * max(5000, limit + 1), "a\0b", "\0", EMOJI + "\0"):
        status, shown = write(api, uuid, text)
        assert status == 400, (text[:20], len(text), status)
        assert shown != text


# There is no conductor of another group, so a group that is fit can not be written.
@pytest.mark.parametrize("field", [name for name in NAMES if name != "conductor_group"])
def test_names_of_the_greatest_length_are_kept(api: Client, uuid: str, field: str) -> None:
    limit, write = NAMES[field]
    for text in ("n" * limit, "Node-1.example"):
        status, shown = write(api, uuid, text)
        assert (status in (200, 201), shown) == (True, text)


def test_nul_in_documents_comes_back_and_in_queries_does_no_harm(api: Client, uuid: str) -> None:
    for value in ("a\0b", {"k": "\0"}, ["\0"], {"\0": 1}):
        change = [{"op": "add", "path": "/extra/a", "value": value}]
        assert api.patch(f"/v1/nodes/{uuid}", change).status == 200
        assert api.get(f"/v1/nodes/{uuid}").body["extra"] == {"a": value}
    for query in ("owner=%00", "resource_class=a%00", "description_contains=%00", "shard=%00"):
        assert api.get(f"/v1/nodes?{query}").status == 400, query
    assert api.get("/v1/nodes/%00").status in (400, 404)


STEP = {"interface": "bios", "step": "reset", "order": 1, "args": {"a": "n\0"}}
#: Resources with documents: the collection, a body, and where the documents are.
DOCUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "node": (
        "nodes",
        {
            "driver": "fake-hardware",
            **{
                field: {"a": "b\0", "\0": ["\0c", {"d": "\0"}]}
                for field in ("extra", "properties", "driver_info", "instance_info")
            },
        },
    ),
    "port": (
        "ports",
        {"address": "52:54:00:00:00:01", "extra": {"\0": "\0"}},
    ),
    "portgroup": ("portgroups", {"extra": {"a": "\0"}, "properties": {"\0b": "\0"}}),
    "chassis": ("chassis", {"extra": {"a": ["x\0y"]}}),
    "volume target": (
        "volume/targets",
        {
            "volume_type": "iscsi",
            "boot_index": 0,
            "volume_id": "v",
            "properties": {"target_iqn": "\0"},
            "extra": {"\0": 1},
        },
    ),
    "deploy template": (
        "deploy_templates",
        {
            "name": "CUSTOM_NUL",
            "steps": [{**{k: v for k, v in STEP.items() if k != "order"}, "priority": 1}],
            "extra": {"\0": "\0"},
        },
    ),
    "runbook": ("runbooks", {"name": "CUSTOM_NUL", "steps": [STEP], "extra": {"\0": "\0"}}),
    "inspection rule": (
        "inspection_rules",
        {
            "actions": [{"op": "set-attribute", "args": {"path": "/extra/a", "value": "\0"}}],
            "conditions": [{"op": "eq", "args": {"values": ["\0", "a"]}}],
        },
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_nul_comes_back_in_the_documents_of_every_resource(
    api: Client, uuid: str, kind: str
) -> None:
    collection, body = DOCUMENTS[kind]
    below_node = collection in ("ports", "portgroups", "volume/targets")
    made = api.post(f"/v1/{collection}", {**body, **({"node_uuid": uuid} if below_node else {})})
    assert made.status == 201, made.raw
    path = f"/v1/{collection}/{made.body['uuid']}"
    shown = api.get(path)
    assert shown.status == 200
    listed = api.get(f"/v1/{collection}?detail=true" if kind != "inspection rule" else path)
    assert listed.status == 200
    assert api.delete(path).status == 204
    for field, value in body.items():
        assert made.body[field] == shown.body[field] == value, field
    assert b"\\u0000" in listed.raw


def test_half_a_character_is_refused_everywhere(api: Client, uuid: str) -> None:
    """JSON can write what no text holds: one half of a surrogate pair."""
    for path in ("owner", "description", "name", "extra/a", "extra/\ud83d"):
        change = [{"op": "add", "path": f"/{path}", "value": "\ud83d"}]
        answer = api.patch(f"/v1/nodes/{uuid}", change)
        assert (answer.status, answer.fault["errorcode"]) == (400, "malformed_body"), path
        assert "surrogate" in answer.text


def test_names_that_differ_in_letter_case_are_one_name(api: Client) -> None:
    first = node(api, name="Case-A")
    assert first.status == 201
    for name in ("Case-A", "case-a", "CASE-A"):
        refused = node(api, name=name)
        assert (refused.status, refused.fault["errorcode"]) == (409, "duplicate_name"), name
    other = node(api, name="other")
    rename = [{"op": "replace", "path": "/name", "value": "cASE-a"}]
    assert api.patch("/v1/nodes/other", rename).status == 409
    assert api.get("/v1/nodes/case-a").status == 404, "it is written as it was given"
    assert api.patch("/v1/nodes/Case-A", rename).status == 200
    assert api.get("/v1/nodes/cASE-a").body["uuid"] == first.body["uuid"]
    for answer in (first, other):
        assert api.delete(f"/v1/nodes/{answer.body['uuid']}").status == 204


@pytest.mark.parametrize("collection", ["portgroups", "ports"])
def test_names_below_nodes_are_one_name_as_well(api: Client, uuid: str, collection: str) -> None:
    def make(name: str, last: int) -> int:
        body = {"node_uuid": uuid, "name": name, "address": f"52:54:00:00:00:0{last}"}
        return api.post(f"/v1/{collection}", body).status

    assert [make("Bond-A", 1), make("bond-a", 2), make("Bond-B", 3)] == [201, 409, 201]
    for row in api.get(f"/v1/{collection}").body[collection]:
        assert api.delete(f"/v1/{collection}/{row['uuid']}").status == 204


@pytest.mark.parametrize("field", ["owner", "lessee", "shard", "resource_class"])
def test_filters_compare_exactly(api: Client, field: str) -> None:
    texts = ["abc", "ABC", "äbc"]
    if field != "shard":
        # Of a list of shards the blanks around commas do not count.
        texts += ["abc ", " abc", "abc\t"]
    made = {text: node(api) for text in texts}
    for text, answer in made.items():
        assert patched(field)(api, answer.body["uuid"], text) == (200, text)
    for text, answer in made.items():
        query = text.replace(" ", "%20").replace("\t", "%09")
        found = api.get(f"/v1/nodes?{field}={query}").body["nodes"]
        assert [item["uuid"] for item in found] == [answer.body["uuid"]], text
    for answer in made.values():
        assert api.delete(f"/v1/nodes/{answer.body['uuid']}").status == 204
