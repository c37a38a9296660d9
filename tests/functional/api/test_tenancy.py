"""What one project sees of the others: nothing (field case K14/96).

Seven objects of each kind, which differ in the last digit of their uuid only: the node
of that digit says whose they are.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa

from ironic_rs.api import app
from ironic_rs.api.args import Arg
from ironic_rs.api.call import Services
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.domain.fields.kinds import Boolean
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import conducted, configured, services_over
from tests.functional.api.harness import Answer, Client
from tests.harness import keystone as keystones
from tests.harness.personas import LESSEE, OWNER, THIRD, TOKENS, headers

#: Owner and lessee of each node.
NODES: Mapping[int, tuple[str | None, str | None]] = {
    1: (OWNER, None),
    2: (OWNER, LESSEE),
    3: (THIRD, OWNER),
    4: (THIRD, None),
    5: (None, None),
    6: (THIRD, LESSEE),
    7: (OWNER, THIRD),
}
PARENT, CHASSIS = 1, "c0000000-0000-4000-8000-000000000000"


def uuid(kind: str, number: int) -> str:
    return f"{kind}0000000-0000-4000-8000-{number:012d}"


def mac(number: int) -> str:
    return f"52:54:00:00:00:0{number}"


def fill() -> None:
    """Store the objects."""
    shared = {"driver": "fake-hardware", "shard": "s", "conductor_group": "g", "chassis_id": 1}
    rows: dict[Any, list[dict[str, Any]]] = collections.defaultdict(list)
    rows[models.Chassis] = [{"id": 1, "uuid": CHASSIS}]
    for n, (owner, lessee) in NODES.items():
        base = {"id": n, "version": "1"}
        rows[models.Node].append(
            {
                **base,
                **shared,
                "uuid": uuid("a", n),
                "name": f"n{n}",
                "owner": owner,
                "lessee": lessee,
                "instance_uuid": uuid("e", n),
                "instance_name": f"i{n}",
                "description": f"rack {n}",
                "parent_node": uuid("a", PARENT) if n >= 4 else None,
                "last_error": "secret error",
                "reservation": "secret-host" if n != 2 else None,
                "driver_info": {"address": "secret", "password": "canary"},
                "driver_internal_info": {"url": "secret", "agent_secret_token": "canary"},
                "instance_info": {"image": "x", "admin_password": "canary"},
                "resource_class": "r",
                "provision_state": "active",
                "maintenance": True,
                "retired": False,
                "fault": "power failure",
            }
        )
        attached = {**base, "node_id": n}
        rows[models.Portgroup].append(
            {**attached, "uuid": uuid("b", n), "name": f"g{n}", "address": mac(n), "mode": "x"}
        )
        rows[models.Port].append(
            {
                **attached,
                "uuid": uuid("d", n),
                "name": f"p{n}",
                "address": mac(n),
                "portgroup_id": n,
                "description": "port",
            }
        )
        rows[models.VolumeConnector].append(
            {**attached, "uuid": uuid("7", n), "type": "iqn", "connector_id": f"c{n}"}
        )
        rows[models.VolumeTarget].append(
            {
                **attached,
                "uuid": uuid("8", n),
                "volume_type": "iscsi",
                "volume_id": f"v{n}",
                "boot_index": 0,
                "properties": {"auth_password": "canary", "iqn": "secret"},
            }
        )
        rows[models.Allocation].append(
            {
                **attached,
                "uuid": uuid("f", n),
                "name": f"a{n}",
                "state": "active",
                "owner": owner,
                "resource_class": "r",
            }
        )
        rows[models.Runbook].append(
            {**base, "uuid": uuid("9", n), "name": f"CUSTOM_{n}", "owner": owner}
        )
    with session.writer() as connection:
        for model, values in rows.items():
            connection.execute(sa.insert(table(model)), values)


@pytest.fixture(scope="module")
def services(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    transport = DirectTransport()
    with (
        configured(empty_database, tmp_path_factory.mktemp("tenancy")) as conf,
        conducted(transport),
        keystones.running() as keystone,
        keystones.configured(conf, keystone),
    ):
        fill()
        keystone.tokens.update(TOKENS)
        yield services_over(conf, transport)


@pytest.fixture(scope="module")
def client(services: Services) -> Client:
    return Client(app.build(services))


def get(client: Client, path: str, persona: str) -> Answer:
    return client.get(path, headers=headers(persona))


def is_visible(path: str, number: int, project: str) -> bool:
    """Tell whether a project sees an object in the list of a path."""
    owner, lessee = NODES[number]
    if path.startswith(("/v1/allocations", "/v1/runbooks")):
        return owner == project
    return project in (owner, lessee)


def rows_of(answer: Answer) -> list[Any]:
    (rows,) = (value for key, value in answer.body.items() if key not in ("next", "links"))
    return list(rows)


def number_of(row: Any) -> int:
    return int((row if isinstance(row, str) else row["uuid"])[-1])


LISTS = [
    route
    for route in ROUTES
    if route.method == "GET" and route.policy and route.policy[0].endswith(":list_all")
]
#: Who looks, for which project, and whether nodes that are leased to it can be named.
VIEWERS = (("OR", OWNER, True), ("LR", LESSEE, True), ("TM", THIRD, True), ("OS", OWNER, False))
#: Good values of the filters, by name; ``{n}`` is each number.
VALUES: Mapping[str, list[str]] = {
    "node": [uuid("a", 0)[:-1] + "{n}", "n{n}"],
    "node_uuid": [uuid("a", 0)[:-1] + "{n}"],
    "portgroup": [uuid("b", 0)[:-1] + "{n}", "g{n}"],
    "instance_uuid": [uuid("e", 0)[:-1] + "{n}"],
    "parent_node": [uuid("a", 0)[:-1] + "{n}"],
    "address": ["52:54:00:00:00:0{n}"],
    "owner": [OWNER, LESSEE, THIRD],
    "lessee": [OWNER, LESSEE, THIRD],
    "instance_name": ["i{n}"],
    "chassis_uuid": [CHASSIS],
    "provision_state": ["active"],
    "driver": ["fake-hardware"],
    "resource_class": ["r"],
    "fault": ["power failure"],
    "conductor_group": ["g"],
    "conductor_groups": ["g"],
    "conductor": ["cond-a"],
    "description_contains": ["rack", "port"],
    "shard": ["s"],
    "state": ["active"],
}
#: Filters that say for whom, which projects may not all use.
BY_PROJECT = ("project",)


#: Filters and parts of the path that name an object of a node.
NAMING = ("node", "node_uuid", "portgroup")


def values_of(arg: Arg) -> list[str]:
    if isinstance(arg.kind, Boolean):
        return ["true", "false"]
    texts = VALUES[arg.name]
    return list(dict.fromkeys(text.format(n=n) for text in texts for n in NODES))


def paths_of(route: Route) -> list[str]:
    """Return the paths of a list: one for each parent."""
    path = route.path.replace("{chassis}", CHASSIS)
    for name, kind in (("node", "a"), ("portgroup", "b")):
        if f"{{{name}}}" in path:
            return [path.replace(f"{{{name}}}", uuid(kind, n)) for n in NODES]
    return [path]


def queries_of(route: Route) -> Iterator[dict[str, str]]:
    """Yield every filter with every choice of fields."""
    names = {arg.name for arg in route.args}
    choices: list[dict[str, str]] = [{}]
    if "fields" in names:
        choices.append({"fields": "uuid"})
    if "detail" in names:
        choices.append({"detail": "true"})
    paging = ("limit", "marker", "sort_key", "sort_dir", "fields", "detail")
    for arg in route.args:
        if arg.name not in (*paging, "project"):
            for value in values_of(arg):
                for choice in choices:
                    yield {arg.name: value, **choice}
    yield from choices
    if "sort_key" in names:
        yield {"sort_key": "created_at", "sort_dir": "desc"}


def named_by(route: Route, path: str, query: Mapping[str, str]) -> int | None:
    """Return the number of the object that a request names."""
    if "{node}" in route.path or "{portgroup}" in route.path:
        return int(path.split("/")[3][-1])
    for name in NAMING:
        if name in query:
            return int(query[name][-1])
    return None


def may_name(number: int, project: str, leased: bool) -> bool:
    owner, lessee = NODES[number]
    return owner == project or (leased and lessee == project)


@pytest.mark.parametrize("route", LISTS, ids=lambda r: r.path)
def test_a_list_shows_what_the_project_may_see_of_it(route: Route, client: Client) -> None:
    """That is: what the system's reader gets, without what is of others."""
    seen = 0
    for path in paths_of(route):
        for query in queries_of(route):
            url = f"{path}?{urlencode(query)}"
            everything = get(client, url, "SR")
            assert everything.status == 200, (url, everything.raw)
            named = named_by(route, path, query)
            for persona, project, leased in VIEWERS:
                answer = get(client, url, persona)
                if named is not None and not may_name(named, project, leased):
                    # The same as for a node that does not exist.
                    unknown = 400 if path == "/v1/allocations" else 404
                    assert answer.status == unknown, (url, persona)
                    continue
                if path == "/v1/allocations" and query.get("owner", project) != project:
                    assert answer.status == 403, (url, persona)
                    continue
                assert answer.status == 200, (url, persona, answer.raw)
                wanted = [
                    number_of(row)
                    for row in rows_of(everything)
                    if is_visible(path, number_of(row), project)
                ]
                assert [number_of(row) for row in rows_of(answer)] == wanted, (url, persona)
                seen += len(wanted)
    assert seen


@pytest.mark.parametrize("route", [r for r in LISTS if "{" not in r.path], ids=lambda r: r.path)
def test_pages_lead_through_what_is_visible_alone(route: Route, client: Client) -> None:
    visible = [n for n in NODES if is_visible(route.path, n, OWNER)]
    more = "&include_children=true" if route.path.startswith("/v1/nodes") else ""
    path, found = f"{route.path}?limit=1{more}", []
    while path:
        answer = get(client, path, "OR")
        assert answer.status == 200, answer.raw
        found += [number_of(row) for row in rows_of(answer)]
        path = answer.body.get("next", "").removeprefix("http://localhost")
    assert found == visible
    # The page is not full, whatever there is of others.
    assert "next" not in get(client, f"{route.path}?limit={len(visible) + 1}{more}", "OR").body


@pytest.mark.parametrize("route", [r for r in LISTS if "{" not in r.path], ids=lambda r: r.path)
def test_a_marker_that_is_not_visible_is_unknown(route: Route, client: Client) -> None:
    everything = (
        rows_of(get(client, f"{route.path}?include_children=true", "SR"))
        if (route.path.startswith("/v1/nodes"))
        else rows_of(get(client, route.path, "SR"))
    )
    markers = {number_of(row): row["uuid"] for row in everything}
    assert markers.keys() == NODES.keys()
    for number, marker in markers.items():
        status = get(client, f"{route.path}?marker={marker}", "OR").status
        assert status == (200 if is_visible(route.path, number, OWNER) else 404), number


@pytest.mark.parametrize(
    ("persona", "project", "status"),
    [
        ("OR", OWNER, 200),
        ("OR", THIRD, 403),
        ("OA", THIRD, 403),
        ("SR", THIRD, 200),
        ("SR", "nobody", 200),
    ],
)
def test_only_the_system_may_list_the_nodes_of_another_project(
    persona: str, project: str, status: int, client: Client
) -> None:
    answer = get(client, f"/v1/nodes?include_children=true&project={project}", persona)
    assert answer.status == status
    if status == 200:
        visible = [n for n in NODES if is_visible("/v1/nodes", n, project)]
        assert [number_of(row) for row in rows_of(answer)] == visible


@pytest.mark.parametrize("persona", ["ON", "DA"])
def test_without_a_role_or_a_scope_that_counts_there_is_no_list(
    persona: str, client: Client
) -> None:
    for route in LISTS:
        if "{node}" in route.path or "{portgroup}" in route.path:
            continue
        for path in paths_of(route):
            assert get(client, path, persona).status == 403, path


@pytest.mark.parametrize("persona", ["OR", "LA", "TM"])
def test_children_are_those_that_the_project_sees(persona: str, client: Client) -> None:
    path = f"/v1/nodes/{uuid('a', PARENT)}/children"
    children = [n for n in NODES if n >= 4]
    assert [number_of(row) for row in rows_of(get(client, path, "SR"))] == children
    if persona != "OR":
        assert get(client, path, persona).status == 404
        return
    seen = [n for n in children if is_visible("/v1/nodes", n, OWNER)]
    assert [number_of(row) for row in rows_of(get(client, path, persona))] == seen


def test_an_elevated_service_sees_everything(services: Services, client: Client) -> None:
    path = "/v1/nodes?include_children=true"
    assert rows_of(get(client, path, "VS")) == []
    services.conf.set_override("rbac_service_role_elevated_access", True)
    try:
        assert len(rows_of(get(client, path, "VS"))) == len(NODES)
        assert len(rows_of(get(client, path, "TS"))) < len(NODES)
    finally:
        services.conf.clear_override("rbac_service_role_elevated_access")
