"""Creating, deleting and moving: what belongs to a project, and what may be attached to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.db import nodes
from ironic_rs.db import ports as db_ports
from tests.functional.api.conftest import services_over
from tests.functional.api.harness import Answer, Client
from tests.harness import keystone as keystones
from tests.harness.personas import LESSEE, OWNER, PASSES, SERVICE, THIRD, TOKENS, headers


@pytest.fixture
def services(conf: Any, transport: Any) -> Iterator[Services]:
    with keystones.running() as keystone, keystones.configured(conf, keystone):
        keystone.tokens.update(TOKENS)
        yield services_over(conf, transport)


@pytest.fixture
def client(services: Services, conductor: Any) -> Client:
    return Client(app.build(services))


def create(client: Client, persona: str, **values: Any) -> Answer:
    body = {"driver": "fake-hardware", **values}
    return client.post("/v1/nodes", body, headers=headers(persona))


CREATORS = PASSES["baremetal:node:create"] | PASSES["baremetal:node:create:self_owned_node"]


@pytest.mark.parametrize("persona", TOKENS)
def test_nodes_of_a_project_are_created_by_its_admin_or_service(
    persona: str, client: Client
) -> None:
    answer = create(client, persona)
    assert answer.status == (201 if persona in CREATORS else 403)
    if answer.status == 201:
        own = {"S": None, "O": OWNER, "L": LESSEE, "T": THIRD, "V": SERVICE}[persona[0]]
        assert answer.body["owner"] == own


def test_the_system_creates_for_any_project_and_projects_for_themselves(client: Client) -> None:
    assert create(client, "SA", owner=THIRD).body["owner"] == THIRD
    assert create(client, "OA", owner=OWNER).body["owner"] == OWNER
    refused = create(client, "OA", owner=THIRD)
    assert refused.status == 400
    assert "is not the caller's" in refused.text


def test_a_version_without_owners_sets_the_owner_all_the_same(client: Client) -> None:
    assert create(client.at("1.40"), "OA", name="n1").status == 201
    assert client.get("/v1/nodes/n1", headers=headers("SR")).body["owner"] == OWNER


def test_the_option_leaves_creating_and_deleting_to_the_system(conf: Any, client: Client) -> None:
    assert create(client, "OA", name="n1").status == 201
    conf.set_override("project_admin_can_manage_own_nodes", False, group="api")
    assert create(client, "OA").status == 403
    assert create(client, "OS").status == 403
    assert create(client, "SA").status == 201
    assert client.delete("/v1/nodes/n1", headers=headers("OA")).status == 403
    conf.set_override("project_admin_can_manage_own_nodes", True, group="api")
    assert client.delete("/v1/nodes/n1", headers=headers("OG")).status == 403
    assert client.delete("/v1/nodes/n1", headers=headers("OA")).status == 204


@pytest.fixture
def three(client: Client) -> dict[str, str]:
    """Nodes: two of OWNER, the second leased to LESSEE, and one of a third project."""
    made = {}
    for name, owner, lessee in (
        ("one", OWNER, None),
        ("two", OWNER, LESSEE),
        ("foreign", THIRD, None),
    ):
        values = {"name": name, "owner": owner, "lessee": lessee, "power_state": "power off"}
        made[name] = nodes.create({"driver": "fake-hardware", **values}).uuid
    return made


def test_the_parent_of_a_node_has_the_same_owner(client: Client, three: dict[str, str]) -> None:
    texts = set()
    for ident in (three["foreign"], "no-such-node"):
        answer = create(client, "OA", parent_node=ident)
        assert answer.status == 400
        texts.add(answer.text.replace(ident, "X"))
    assert len(texts) == 1
    assert create(client, "OA", parent_node="one").body["parent_node"] == three["one"]
    assert create(client, "SA", parent_node="one").status == 400
    patch = [{"op": "add", "path": "/parent_node", "value": "foreign"}]
    assert client.patch("/v1/nodes/one", patch, headers=headers("SA")).status == 400


#: A good body of each kind of object of a node, without the node.
ATTACHED: Mapping[str, dict[str, Any]] = {
    "ports": {"address": "52:54:00:00:00:01"},
    "portgroups": {"address": "52:54:00:00:00:01"},
    "volume/connectors": {"type": "iqn", "connector_id": "c"},
    "volume/targets": {"volume_type": "iscsi", "volume_id": "v", "boot_index": 0},
}


@pytest.mark.parametrize("kind", ATTACHED)
def test_attaching_to_what_is_not_visible_tells_nothing(
    kind: str, client: Client, three: dict[str, str]
) -> None:
    def attach(persona: str, uuid: str) -> Answer:
        body = {"node_uuid": uuid, **ATTACHED[kind]}
        return client.post(f"/v1/{kind}", body, headers=headers(persona))

    missing = "00000000-0000-4000-8000-000000000000"
    for persona in ("OA", "LA", "TA", "SR"):
        known = three["one" if persona == "TA" else "foreign"]
        assert attach(persona, known).status == attach(persona, missing).status == 403
    assert attach("SA", missing).status == 400
    # Volumes are for the lessee too.
    assert attach("LM", three["two"]).status == 403
    lessee = attach("LA", three["two"]).status
    assert lessee == (201 if kind.startswith("volume") else 403)
    if lessee == 403:
        assert attach("OA", three["two"]).status == 201


@pytest.mark.parametrize("kind", ATTACHED)
def test_moving_to_a_node_of_another_owner_tells_nothing(
    kind: str, client: Client, three: dict[str, str]
) -> None:
    body = {"node_uuid": three["one"], **ATTACHED[kind]}
    uuid = client.post(f"/v1/{kind}", body, headers=headers("OA")).body["uuid"]

    def move(persona: str, to: str) -> Answer:
        patch = [{"op": "replace", "path": "/node_uuid", "value": to}]
        return client.patch(f"/v1/{kind}/{uuid}", patch, headers=headers(persona))

    missing = "00000000-0000-4000-8000-000000000000"
    texts = {move("OA", to).text.replace(to, "X") for to in (three["foreign"], missing)}
    assert len(texts) == 1
    assert move("OA", three["foreign"]).status == 400
    assert move("SA", three["foreign"]).status == 400
    assert move("OA", three["two"]).status == 200
    assert move("TA", three["foreign"]).status == 404


def test_a_portgroup_of_another_node_is_as_unknown_as_none(
    client: Client, three: dict[str, str]
) -> None:
    other = client.post(
        "/v1/portgroups", {"node_uuid": three["foreign"]}, headers=headers("TA")
    ).body["uuid"]
    texts = set()
    for group in (other, "00000000-0000-4000-8000-000000000000"):
        body = {
            "node_uuid": three["one"],
            "address": "52:54:00:00:00:01",
            "portgroup_uuid": group,
        }
        answer = client.post("/v1/ports", body, headers=headers("OA"))
        assert answer.status == 400
        texts.add(answer.text.replace(group, "X"))
    assert len(texts) == 1
    assert db_ports.select(("id",), {}) == []


def test_the_owner_of_a_provisioned_node_is_for_the_admin_of_the_system(
    client: Client, three: dict[str, str]
) -> None:
    node = nodes.get(three["one"])
    nodes.update(node, {"provision_state": "active"}, fence=None)
    patch = [{"op": "replace", "path": "/owner", "value": THIRD}]
    assert client.patch("/v1/nodes/one", patch, headers=headers("SM")).status == 409
    assert client.patch("/v1/nodes/one", patch, headers=headers("OA")).status == 403
    assert client.patch("/v1/nodes/one", patch, headers=headers("SA")).status == 200
    assert client.get("/v1/nodes/one", headers=headers("OA")).status == 404
