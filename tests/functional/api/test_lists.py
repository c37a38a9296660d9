"""Every list: all documented fields, sort keys and filters, and links to further pages.

Made from the route table and the field tables: a list is covered by being in them.
"""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.api.call import Services
from ironic_rs.api.documents import Listing
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import allocations, history, nodes, portgroups, ports, volumes
from tests.functional.api.harness import Client

PARTS = {"node": "n1", "portgroup": "pg", "chassis": "c0000000-0000-4000-8000-000000000001"}
#: A value of each filter that some of the rows have.
FILTERS: dict[str, str] = {
    "node": "n1",
    "node_uuid": "00000000-0000-4000-8000-000000000001",
    "portgroup": "pg",
    "shard": "Shard-1",
    "conductor_groups": "G1",
    "description_contains": "up",
    "address": "52:54:00:00:00:01",
    "resource_class": "gold",
    "state": "error",
    "owner": "p1",
}
#: What lists can not be sorted by although it is a column (rest-api.md section 5.3).
UNSORTED = {
    "ports": {"extra", "internal_info", "local_link_connection"},
    "portgroups": {"extra", "internal_info", "properties"},
    "connectors": {"extra"},
    "targets": {"extra", "properties"},
    "allocations": {"extra", "candidate_nodes", "traits"},
}


def lists() -> list[Any]:
    """The paged lists of what belongs to nodes, and of allocations."""
    return [
        pytest.param(r, id=r.path)
        for r in ROUTES
        if isinstance(r.answer, Listing)
        and r.answer.paged
        and r.answer.table.collection in UNSORTED
    ]


def path_of(route: Route) -> str:
    return route.path.format(**PARTS)


def collection(route: Route) -> str:
    assert isinstance(route.answer, Listing)
    return route.answer.table.collection


@pytest.fixture(scope="module")
def filled(shared_api: Client, shared_services: Services) -> Client:
    """An API with three of everything on one node, and some on another one."""
    node = nodes.create(
        {
            "uuid": FILTERS["node_uuid"],
            "name": "n1",
            "driver": "fake-hardware",
            "shard": FILTERS["shard"],
            "conductor_group": "g1",
            "owner": "p1",
        }
    )
    other = nodes.create({"name": "n2", "driver": "fake-hardware"})
    history.create({"node_id": node.id, "event": "x"})
    group = portgroups.create({"node_id": node.id, "name": "pg", "address": FILTERS["address"]})
    for number in range(3):
        owner = other if number == 2 else node
        portgroups.create({"node_id": owner.id, "name": f"pg{number}"})
        ports.create(
            {
                "node_id": node.id,
                "portgroup_id": group.id,
                "address": f"52:54:00:00:00:0{number}",
                "description": f"uplink {number}",
            }
        )
        volumes.create_connector({"node_id": owner.id, "type": "iqn", "connector_id": str(number)})
        target = {"volume_type": "iscsi", "boot_index": number, "volume_id": "v"}
        volumes.create_target({"node_id": owner.id, **target})
        allocations.create(
            {"name": f"a{number}", "state": "error", "resource_class": "gold", "owner": "p1"}
        )
    allocations.create_bound({"name": "bound"}, node.id)
    return shared_api


def rows_of(client: Client, route: Route, query: str) -> list[dict[str, Any]]:
    answer = client.get(f"{path_of(route)}?{query}")
    assert answer.status == 200, (query, answer.body)
    rows: list[dict[str, Any]] = answer.body[collection(route)]
    return rows


@pytest.mark.parametrize("route", [p for p in lists() if not p.values[0].path.endswith("detail")])
def test_every_field_can_be_chosen(route: Route, filled: Client) -> None:
    assert isinstance(route.answer, Listing)
    names = [f.name for f in route.answer.table.rows if f.listed or f.detailed]
    for name in names:
        rows = rows_of(filled, route, f"fields={name}")
        assert rows
        assert all(set(row) == {name, "links"} for row in rows)
    (*_, row) = rows_of(filled, route, f"fields={','.join(names)}")
    assert set(row) == set(names)
    for bogus in ("bogus", "id", "node_id", "version", f"{names[0]},bogus", "%00"):
        assert filled.get(f"{path_of(route)}?fields={bogus}").status == 400
    assert set(rows_of(filled, route, "fields=")[0]) == {"links"}
    assert set(rows_of(filled, route, f"fields=UUID&fields={names[-1]}")[0]) == {
        "uuid",
        "links",
        names[-1],
    }


@pytest.mark.parametrize("route", lists())
def test_every_column_can_be_sorted_by_in_both_directions(route: Route, filled: Client) -> None:
    assert isinstance(route.answer, Listing)
    refused = set()
    for field in route.answer.table.rows:
        if not (field.listed or field.detailed):
            continue
        whole = {
            direction: filled.get(f"{path_of(route)}?sort_key={field.name}&sort_dir={direction}")
            for direction in ("asc", "desc")
        }
        if field.column is None:
            assert whole["asc"].status == 400
            continue
        if whole["asc"].status == 400:
            refused.add(field.name)
            continue
        found = [row["uuid"] for row in whole["asc"].body[collection(route)]]
        assert found
        assert [r["uuid"] for r in whole["desc"].body[collection(route)]] == found[::-1]
        assert followed(filled, route, f"sort_key={field.name}&limit=1") == found
    assert refused == UNSORTED[collection(route)]


def followed(client: Client, route: Route, query: str) -> list[str]:
    """Return the uuids of all pages, by their links."""
    found: list[str] = []
    url = f"{path_of(route)}?{query}"
    for _ in range(20):
        answer = client.get(url)
        assert answer.status == 200, answer.body
        rows = answer.body[collection(route)]
        found += [row["uuid"] for row in rows]
        if "next" not in answer.body:
            return found
        url = f"/v1/{answer.body['next'].split('/v1/', 1)[1]}"
        # The link goes on with this very list, not with that of all nodes.
        assert url.startswith(f"{path_of(route)}?"), url
    raise AssertionError("there is always one more page")


@pytest.mark.parametrize("route", lists())
@pytest.mark.parametrize("query", ["", "detail=true", "fields=uuid,created_at"])
def test_links_lead_through_the_list_with_each_of_its_filters(
    route: Route, query: str, filled: Client
) -> None:
    accepted = {arg.name for arg in route.args}
    if query and query.partition("=")[0] not in accepted:
        return
    everything = followed(filled, route, f"{query}&limit=1")
    assert len(everything) == len(set(everything)) > 0
    for name in sorted(FILTERS.keys() & accepted):
        wanted = f"{query}&{name}={FILTERS[name]}"
        once = [row["uuid"] for row in rows_of(filled, route, wanted)]
        assert once, name
        assert followed(filled, route, f"{wanted}&limit=1") == once, name
        absent = filled.get(f"{path_of(route)}?{wanted}-nothing")
        assert absent.status in (200, 400, 404)
        if absent.status == 200:
            assert absent.body[collection(route)] == [], name


@pytest.mark.parametrize("route", lists())
def test_markers_and_limits_are_checked(route: Route, filled: Client) -> None:
    for query, status in {
        "marker=1be26c0b-03f2-4d2e-ae87-c02d7f33c123": 404,
        "marker=n1": 400,
        "marker=' or 1": 400,
        "limit=0": 400,
        "limit=-1": 400,
        "limit=x": 400,
        "sort_dir=up": 400,
        "sort_key=bogus": 400,
        "bogus=1": 400,
    }.items():
        assert filled.get(f"{path_of(route)}?{query}").status == status, query
    assert filled.get(f"{path_of(route)}?limit=1000000").status == 200
