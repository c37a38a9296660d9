"""What holds for every list (rest-api.md section 5.3, field case K01)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from ironic_rs.api.routes import ROUTES
from ironic_rs.db import conductors
from ironic_rs.domain import fields
from ironic_rs.domain.fields import Table
from tests.functional.api.harness import Client

NODE = "00000000-0000-4000-8000-00000000000a"
NOWHERE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
ROWS = 5


@dataclass(frozen=True)
class List:
    """A collection, and how its rows are made.

    :param body: body of the request that makes row n.
    :param kept: a filter that all rows pass.
    :param refused: fields that can not be sorted by.
    :param unselectable: fields of documents that a list does not let choose.
    :param detail: it has a detailed form.
    """

    path: str
    table: Table
    body: Callable[[int], dict[str, Any]]
    kept: str = ""
    refused: tuple[str, ...] = ()
    unselectable: tuple[str, ...] = ("links",)
    marker: str = "uuid"
    detail: bool = True

    @property
    def key(self) -> str:
        return self.table.collection


def _mac(number: int) -> str:
    return f"52:54:00:00:00:{number:02x}"


def _step(**more: Any) -> list[dict[str, Any]]:
    return [{"interface": "bios", "step": "a", "args": {}, **more}]


LISTS: Mapping[str, List] = {
    found.path: found
    for found in (
        List(
            "nodes",
            fields.NODE,
            lambda n: {"driver": "fake-hardware", "name": f"row{n}", "resource_class": "x"},
            "resource_class=x",
            (
                *("properties", "driver_info", "extra", "instance_info", "driver_internal_info"),
                *("clean_step", "deploy_step", "service_step", "raid_config"),
                *("target_raid_config", "traits", "network_data"),
                *("conductor", "chassis_uuid", "allocation_uuid"),
            ),
            ("links", "created_at", "updated_at", "ports", "states", "portgroups", "volume"),
        ),
        List(
            "ports",
            fields.PORT,
            lambda n: {"address": _mac(n), "node_uuid": NODE, "name": f"row{n}"},
            f"node={NODE}",
            ("extra", "internal_info", "local_link_connection", "node_uuid", "portgroup_uuid"),
        ),
        List(
            "portgroups",
            fields.PORTGROUP,
            lambda n: {"node_uuid": NODE, "name": f"row{n}"},
            f"node={NODE}",
            ("extra", "internal_info", "properties", "node_uuid"),
        ),
        List("chassis", fields.CHASSIS, lambda n: {"description": f"row{n}"}, "", ("extra",)),
        List(
            "conductors",
            fields.CONDUCTOR,
            lambda n: {},
            "",
            ("alive", "drivers"),
            marker="hostname",
        ),
        List(
            "deploy_templates",
            fields.DEPLOY_TEMPLATE,
            lambda n: {"name": f"CUSTOM_{n}", "steps": _step(priority=1)},
            "",
            ("extra", "steps"),
        ),
        List(
            "runbooks",
            fields.RUNBOOK,
            lambda n: {"name": f"CUSTOM_{n}", "steps": _step(order=1), "public": True},
            "project=p",
            ("extra", "steps", "traits"),
        ),
        List(
            "inspection_rules",
            fields.INSPECTION_RULE,
            lambda n: {"actions": [{"op": "fail", "args": {"msg": "x"}}], "priority": n},
            "phase=main",
            ("actions", "conditions", "scope"),
        ),
        List(
            "allocations",
            fields.ALLOCATION,
            lambda n: {"resource_class": "none", "name": f"row{n}"},
            "resource_class=none",
            ("extra", "candidate_nodes", "traits"),
            detail=False,
        ),
        List(
            "volume/connectors",
            fields.VOLUME_CONNECTOR,
            lambda n: {"node_uuid": NODE, "type": "iqn", "connector_id": f"row{n}"},
            f"node={NODE}",
            ("extra", "node_uuid"),
        ),
        List(
            "volume/targets",
            fields.VOLUME_TARGET,
            lambda n: {"node_uuid": NODE, "volume_type": "x", "volume_id": "x", "boot_index": n},
            f"node={NODE}",
            ("extra", "properties", "node_uuid"),
        ),
    )
    if any(r.path == f"/v1/{found.path}" for r in ROUTES)
}


def paged() -> list[str]:
    """Collections of the route table that have pages."""
    return [
        r.path.removeprefix("/v1/")
        for r in ROUTES
        if r.method == "GET"
        and "{" not in r.path
        and not r.path.endswith("/detail")
        and {"limit", "fields"} <= {arg.name for arg in r.args}
    ]


@pytest.fixture(scope="module")
def api(shared_api: Client) -> Client:
    """An API with some rows in every list."""
    client = shared_api
    assert client.post("/v1/nodes", {"driver": "fake-hardware", "uuid": NODE}).status == 201
    for found in LISTS.values():
        for number in range(ROWS):
            if found.path == "conductors":
                # None that requests could be sent to.
                conductors.register(f"cond-{number}", [], "")
                conductors.unregister(f"cond-{number}")
                continue
            made = client.post(f"/v1/{found.path}", found.body(number))
            assert made.status == 201, made.body
    return client


def rows(api: Client, found: List, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"/v1/{found.path}?{query}")
    assert answer.status == 200, (query, answer.body)
    listed: list[dict[str, Any]] = answer.body[found.key]
    return listed


def lists(without: tuple[str, ...] = ()) -> list[Any]:
    return [pytest.param(f, id=f.path) for f in LISTS.values() if f.path not in without]


def test_every_list_is_tested_here() -> None:
    assert sorted(LISTS) == sorted(paged())


@pytest.mark.parametrize("found", lists())
def test_fields(found: List, api: Client) -> None:
    shown = {n for n in found.table.names("L") + found.table.names("D")}
    for name in sorted(shown - set(found.unselectable)):
        assert set(rows(api, found, f"fields={name}")[0]) == {name, "links"}, name
    names = sorted(shown - set(found.unselectable))[:3]
    wanted = {*names, "links"}
    for query in (
        f"fields={','.join(names)}",
        f"fields={','.join(names).upper()}",
        f"fields={names[0]}&fields={names[1]},{names[2]}",
        f"fields={names[0]},,{names[1]},%20{names[2]}%20,",
        f"fields={','.join(names * 200)}",
        f"fields=links,{','.join(names)}",
    ):
        assert set(rows(api, found, query)[0]) == wanted, query
    assert set(rows(api, found, "fields=")[0]) == {"links"}


@pytest.mark.parametrize("found", lists())
@pytest.mark.parametrize("name", ["bogus", "%00", "id", "version", "'", "node_id", "节", "*"])
def test_unknown_fields_are_named(found: List, name: str, api: Client) -> None:
    some = found.table.rows[0].name
    for query in (f"fields={some},{name}", f"fields={some}&fields={name}"):
        answer = api.get(f"/v1/{found.path}?{query}")
        assert answer.status == 400, answer.body
        if name.isalpha() and name.isascii():
            assert name in answer.text


@pytest.mark.parametrize("found", lists())
def test_sort_keys(found: List, api: Client) -> None:
    keys = [f.name for f in found.table.rows if f.column and f.sortable]
    assert not set(keys) & set(found.refused)
    assert keys
    for key in (*keys, "id"):
        up = [row["links"] for row in rows(api, found, f"sort_key={key}&sort_dir=asc&fields=")]
        down = [row["links"] for row in rows(api, found, f"sort_key={key}&sort_dir=desc&fields=")]
        assert up == down[::-1], key
    for key in (*found.refused, "links", "bogus", "", "%00", "ID", "uuid,uuid"):
        answer = api.get(f"/v1/{found.path}?sort_key={key}")
        assert answer.status == 400, (key, answer.body)
    assert api.get(f"/v1/{found.path}?sort_dir=up").status == 400


@pytest.mark.parametrize("found", lists())
def test_limits(found: List, api: Client) -> None:
    for limit in ("0", "-1", "x", "1.5", "", "1&limit=2"):
        assert api.get(f"/v1/{found.path}?limit={limit}").status == 400, limit
    assert len(rows(api, found, f"limit={10**17}")) >= ROWS
    assert "next" not in api.get(f"/v1/{found.path}").body


@pytest.mark.parametrize("found", lists())
def test_markers(found: List, api: Client) -> None:
    for marker in ("' or 1", "%00", "a b"):
        assert api.get(f"/v1/{found.path}?marker={marker}").status == 400, marker
    unknown = api.get(f"/v1/{found.path}?marker={NOWHERE}")
    assert (unknown.status, NOWHERE in unknown.text) == (404, True)
    if found.marker == "uuid":
        assert api.get(f"/v1/{found.path}?marker=row1").status == 400


@pytest.mark.parametrize("found", lists(without=("conductors",)))
def test_the_marker_of_a_row_that_is_gone_is_not_found(found: List, api: Client) -> None:
    body = {**found.body(ROWS), "uuid": "00000000-0000-4000-8000-0000000000ff"}
    made = api.post(f"/v1/{found.path}", body).body
    answer = api.get(f"/v1/{found.path}?limit={ROWS + 1}&sort_key=id&{found.kept}")
    link = urlsplit(answer.body["next"])
    assert api.delete(f"/v1/{found.path}/{made['uuid']}").status == 204
    followed = api.get(f"{link.path}?{link.query}")
    assert followed.status == 404, followed.body
    assert made["uuid"] in followed.text


@pytest.mark.parametrize("found", lists())
@pytest.mark.parametrize("form", ["", "detail=true", "fields={name},links"])
def test_links_lead_through_all_pages(found: List, form: str, api: Client) -> None:
    if "detail" in form and not found.detail:
        form = ""
    name = found.table.rows[0].name
    query = "&".join(filter(None, (found.kept, form.format(name=name), "sort_dir=desc")))
    whole = rows(api, found, query)
    walked: list[dict[str, Any]] = []
    url: str | None = f"/v1/{found.path}?{query}&limit=2"
    while url is not None:
        answer = api.get(url)
        assert answer.status == 200, answer.body
        walked += answer.body[found.key]
        url = answer.body.get("next")
        if url is not None:
            parts = urlsplit(url)
            assert found.kept in parts.query
            url = f"{parts.path}?{parts.query}"
    assert walked == whole
    assert len(walked) >= ROWS


@pytest.mark.parametrize("found", [f for f in LISTS.values() if f.detail], ids=lambda f: f.path)
def test_fields_and_detail_exclude_each_other(found: List, api: Client) -> None:
    assert api.get(f"/v1/{found.path}?detail=true&fields=links").status == 400
    assert rows(api, found, "detail=false&fields=")
    assert api.get(f"/v1/{found.path}?detail=perhaps").status == 400


@pytest.mark.parametrize("path", ["nodes", "ports"])
def test_lists_of_shards_in_both_spellings(path: str, api: Client) -> None:
    shard = {"op": "add", "path": "/shard", "value": "Sh-1"}
    assert api.patch(f"/v1/nodes/{NODE}", [shard]).status == 200
    found = LISTS[path]
    for query in ("shard=a&shard=Sh-1", "shard=a,Sh-1", "shard=a,,Sh-1,", "shard=b&shard=Sh-1,c"):
        listed = rows(api, found, query)
        assert listed, query
        if path == "nodes":
            assert [row["uuid"] for row in listed] == [NODE]
    for query in ("shard=sh-1", "shard=", "shard=a"):
        assert rows(api, found, query) == [], query
