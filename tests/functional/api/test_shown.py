"""What of a node is shown to whom (rest-api.md section 8.2), and what it costs to decide."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.db import models, nodes, session
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import conducted, configured, services_over
from tests.functional.api.harness import Client
from tests.harness import keystone as keystones
from tests.harness.personas import LESSEE, OWNER, PASSES, THIRD, TOKENS, headers

SEES = PASSES["baremetal:node:get"]
UNREDACTED = PASSES["baremetal:node:get:last_error"]
VALUES: Mapping[str, Any] = {
    "last_error": "the BMC is down",
    "reservation": "cond-a",
    "driver_info": {"address": "192.0.2.1", "password": "canary"},
    "driver_internal_info": {"agent_url": "https://192.0.2.2", "agent_secret_token": "canary"},
    "instance_info": {"image_source": "x", "admin_password": "canary", "configdrive": "canary"},
}
SHOWN: Mapping[str, Any] = {
    "last_error": "the BMC is down",
    "reservation": "cond-a",
    "driver_info": {"address": "192.0.2.1", "password": "******"},
    "driver_internal_info": {"agent_url": "https://192.0.2.2", "agent_secret_token": "******"},
    "instance_info": {
        "image_source": "x",
        "admin_password": "******",
        "configdrive": "******",
    },
}
REDACTED: Mapping[str, Any] = {
    "last_error": "** Value Redacted - Requires baremetal:node:get:last_error permission. **",
    "reservation": "** Redacted - requires baremetal:node:get:reservation permission. **",
    "driver_info": {
        "content": "** Redacted - requires baremetal:node:get:driver_info permission. **"
    },
    "driver_internal_info": {
        "content": "** Redacted - requires baremetal:node:get:driver_internal_info permission. **"
    },
    "instance_info": SHOWN["instance_info"],
}
FIELDS = ",".join(VALUES)


class Counted:
    """An enforcer that counts what it is asked."""

    def __init__(self, enforcer: Any) -> None:
        self.enforcer = enforcer
        self.asked: collections.Counter[str] = collections.Counter()

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        self.asked[rule] += 1
        return bool(self.enforcer.allows(context, rule, target))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown")


@pytest.fixture(scope="module")
def services(empty_database: Path, folder: Path) -> Iterator[Services]:
    transport = DirectTransport()
    with (
        configured(empty_database, folder) as conf,
        conducted(transport),
        keystones.running() as keystone,
        keystones.configured(conf, keystone),
    ):
        services_over(conf, transport)
        conf.set_override("policy_file", str(folder / "policy.yaml"), group="oslo_policy")
        keystone.tokens.update(TOKENS)
        nodes.create(
            {
                "driver": "fake-hardware",
                "name": "n1",
                "owner": OWNER,
                "lessee": LESSEE,
                **VALUES,
            }
        )
        yield services_over(conf, transport)


@pytest.fixture
def asked(services: Services) -> Iterator[collections.Counter[str]]:
    """How often each rule was evaluated."""
    counted = Counted(services.enforcer)
    services.enforcer = counted
    yield counted.asked
    services.enforcer = counted.enforcer


@pytest.fixture(scope="module")
def client(services: Services) -> Client:
    return Client(app.build(services))


@pytest.mark.parametrize("persona", sorted(SEES))
@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes/n1",
        f"/v1/nodes/n1?fields={FIELDS}",
        f"/v1/nodes/n1?fields=owner,lessee,{FIELDS}",
        "/v1/nodes/detail",
        "/v1/nodes?detail=true",
        f"/v1/nodes?fields={FIELDS}",
        *(f"/v1/nodes?fields={name}" for name in VALUES),
    ],
)
def test_details_are_for_the_owner_and_the_system(persona: str, path: str, client: Client) -> None:
    answer = client.get(path, headers=headers(persona))
    document = answer.body["nodes"][0] if "nodes" in answer.body else answer.body
    wanted = SHOWN if persona in UNREDACTED else REDACTED
    found = {name: document[name] for name in VALUES if name in document}
    assert found == {name: wanted[name] for name in found}
    assert found


def test_an_answer_to_a_change_is_redacted_too(client: Client) -> None:
    node = nodes.get_by_ident("n1")
    nodes.update(node, {"reservation": None}, fence=None)
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    answer = client.patch("/v1/nodes/n1", patch, headers=headers("LA"))
    nodes.update(node, {"reservation": "cond-a"}, fence=None)
    assert answer.status == 200
    assert answer.body["last_error"] == REDACTED["last_error"]
    assert answer.body["driver_info"] == REDACTED["driver_info"]


def test_the_states_are_not_redacted(client: Client) -> None:
    answer = client.get("/v1/nodes/n1/states", headers=headers("LR"))
    assert answer.body["last_error"] == VALUES["last_error"]


@pytest.mark.parametrize(
    ("rule", "name", "value"),
    [
        ("show_password", "driver_info", VALUES["driver_info"]),
        ("show_instance_secrets", "instance_info", VALUES["instance_info"]),
    ],
)
def test_an_operator_may_let_admins_see_secrets(
    rule: str, name: str, value: Any, client: Client, folder: Path
) -> None:
    file = folder / "policy.yaml"
    file.write_text(f'"{rule}": "role:admin and system_scope:all"\n')
    try:
        for path in ("/v1/nodes/n1", "/v1/nodes/detail", f"/v1/nodes?fields={name}"):
            for persona in ("SA", "SM"):
                answer = client.get(path, headers=headers(persona))
                document = answer.body["nodes"][0] if "nodes" in answer.body else answer.body
                for other in SHOWN.keys() & document.keys():
                    shown = value if (persona, other) == ("SA", name) else SHOWN[other]
                    assert document[other] == shown
    finally:
        file.unlink()


@pytest.fixture(scope="module")
def thousand(services: Services, client: Client) -> Client:
    """A thousand nodes more, of 10 pairs of owner and lessee that OWNER is part of."""
    import sqlalchemy as sa

    from ironic_rs.db.base import table

    rows = [
        {
            "uuid": f"00000000-0000-4000-8000-{n:012d}",
            "driver": "fake-hardware",
            "version": "1",
            "provision_state": "active",
            "owner": OWNER if n % 2 else f"other-{n % 5}",
            "lessee": f"lessee-{n % 5}" if n % 2 else OWNER,
            "last_error": "x",
        }
        for n in range(1000)
    ]
    with session.writer() as connection:
        connection.execute(sa.insert(table(models.Node)), rows)
    return client


SHOW = {"show_password": 1, "show_instance_secrets": 1}
LIST = {"baremetal:node:list_all": 1}


@pytest.mark.parametrize(
    ("path", "persona", "rules"),
    [
        ("/v1/nodes", "SR", LIST),
        ("/v1/nodes", "OR", {**LIST, "baremetal:node:list": 1}),
        ("/v1/nodes/detail", "SR", {**LIST, **SHOW, "baremetal:node:get:filter_threshold": 1}),
        (
            "/v1/nodes?fields=uuid,last_error",
            "OR",
            {
                **LIST,
                "baremetal:node:list": 1,
                "baremetal:node:get:filter_threshold": 1,
                "baremetal:node:get:last_error": 11,
            },
        ),
        ("/v1/ports", "OR", {"baremetal:port:list_all": 1, "baremetal:port:list": 1}),
        (
            "/v1/nodes/n1?fields=uuid",
            "OR",
            {"baremetal:node:get": 1},
        ),
        (
            "/v1/nodes/n1/traits",
            "OR",
            {"baremetal:node:get": 1, "baremetal:node:traits:list": 1},
        ),
    ],
)
def test_a_few_rules_are_asked_for_a_page(
    path: str,
    persona: str,
    rules: dict[str, int],
    thousand: Client,
    asked: collections.Counter[str],
) -> None:
    answer = thousand.get(path, headers=headers(persona))
    assert answer.status == 200
    assert asked == rules
    for rows in answer.body.values():
        if path.startswith("/v1/nodes?") and isinstance(rows, list):
            assert len(rows) == 1000


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/v1/nodes", 1),
        ("/v1/nodes/detail", 3),
        ("/v1/nodes?fields=uuid,last_error&shard=s", 1),
        ("/v1/ports", 1),
        ("/v1/portgroups", 1),
        ("/v1/nodes/n1/children", 2),
        ("/v1/nodes/n1/ports", 2),
        ("/v1/nodes?marker=00000000-0000-4000-8000-000000000001", 2),
    ],
)
def test_the_limit_to_a_project_costs_no_statement(path: str, most: int, thousand: Client) -> None:
    with session.count_statements() as counted:
        assert thousand.get(path, headers=headers("OR")).status == 200
    assert counted.count <= most, counted.statements


def test_steps_on_many_children_cost_one_statement(
    services: Services, thousand: Client, asked: collections.Counter[str]
) -> None:
    parent = nodes.create(
        {"driver": "fake-hardware", "name": "parent", "owner": OWNER, "provision_state": "active"}
    )
    children = [
        nodes.create({"driver": "fake-hardware", "owner": owner, "parent_node": parent.uuid}).uuid
        for owner in (OWNER, OWNER, THIRD)
    ]
    step = {"interface": "power", "step": "x", "execute_on_child_nodes": True}

    def ask(**more: Any) -> Any:
        body = {"target": "service", "service_steps": [{**step, **more}]}
        return thousand.put("/v1/nodes/parent/states/provision", body, headers=headers("OM"))

    with session.count_statements() as counted:
        assert ask(limit_child_node_execution=children).status == 404
    assert counted.count == 2, counted.statements
    assert asked["baremetal:node:get"] == 2
    # All children, of which one is somebody else's.
    with session.count_statements() as counted:
        assert ask().status == 403
    assert counted.count == 2, counted.statements
