"""How many SQL statements requests cost (design section 7), and what ORM they use: none."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ironic_rs.db import (
    allocations,
    chassis,
    inspection_rules,
    models,
    nodes,
    portgroups,
    ports,
    runbooks,
    session,
    templates,
    volumes,
)
from ironic_rs.db.base import table
from tests.functional.api.harness import Client

NODES = 1000
ATTACHED = 25


@pytest.fixture
def thousand(api: Client) -> Client:
    """An API over a thousand nodes with traits, half of them in a chassis, all allocated."""
    rack = chassis.create({})
    rows = [
        {
            "id": n,
            "uuid": f"00000000-0000-4000-8000-{n:012d}",
            "name": f"n{n}",
            "driver": "fake-hardware",
            "provision_state": "active",
            "version": "1.44",
            "driver_info": {"address": "x", "redfish_password": "p"},
            "properties": {"cpu_arch": "x86_64"},
            "chassis_id": rack.id if n % 2 else None,
        }
        for n in range(1, NODES + 1)
    ]
    with session.writer() as connection:
        connection.execute(sa.insert(table(models.Node)), rows)
        connection.execute(
            sa.insert(table(models.NodeTrait)),
            [{"node_id": row["id"], "trait": "CUSTOM_A"} for row in rows],
        )
        connection.execute(
            sa.insert(table(models.Port)),
            [
                {
                    "uuid": f"10000000-0000-4000-8000-{row['id']:012d}",
                    "node_id": row["id"],
                    "address": "52:54:00:{:02x}:{:02x}:{:02x}".format(
                        0, row["id"] // 256, row["id"] % 256
                    ),
                }
                for row in rows
            ],
        )
    allocation = allocations.create({"resource_class": "x"})
    node = nodes.get(1)
    nodes.update(node, {"allocation_id": allocation.id}, fence=None)
    return api


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/v1/nodes", 1),
        ("/v1/nodes/detail", 2),
        ("/v1/nodes?detail=true&conductor=cond-a", 2),
        ("/v1/nodes?fields=uuid,name,conductor,chassis_uuid,allocation_uuid,traits", 2),
        (
            "/v1/nodes?fields=uuid,power_state,target_power_state,provision_state,"
            "target_provision_state,last_error,maintenance,properties,instance_uuid,traits,"
            "resource_class&shard=a",
            1,
        ),
        ("/v1/ports", 1),
        ("/v1/ports/detail", 1),
    ],
)
def test_pages_of_a_thousand_cost_a_few_statements(thousand: Client, path: str, most: int) -> None:
    with session.count_statements() as counted:
        answer = thousand.get(path)
    assert answer.status == 200
    assert counted.count <= most, counted.statements
    if "shard" not in path:
        (rows,) = (value for key, value in answer.body.items() if key != "next")
        assert len(rows) == NODES


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/v1/nodes/n1", 2),
        ("/v1/nodes/n1?fields=name", 1),
        ("/v1/nodes/n1/states", 1),
        ("/v1/nodes/n1/traits", 1),
        ("/v1/nodes/n1/ports", 2),
        ("/v1/nodes/n1/history", 2),
        ("/v1/drivers", 1),
        ("/v1/drivers/fake-hardware", 1),
        ("/v1/conductors", 1),
        ("/v1/chassis", 1),
        ("/", 0),
    ],
)
def test_single_reads_cost_a_few_statements(thousand: Client, path: str, most: int) -> None:
    with session.count_statements() as counted:
        assert thousand.get(path).status == 200
    assert counted.count <= most, counted.statements


@pytest.fixture
def attached(api: Client) -> Client:
    """An API over nodes that have what can be attached to nodes, and allocations."""
    for number in range(ATTACHED):
        node = nodes.create({"name": f"n{number}", "driver": "fake-hardware"})
        group = portgroups.create({"node_id": node.id, "name": f"pg{number}"})
        for place in range(2):
            address = f"52:54:00:00:{number:02x}:{place:02x}"
            ports.create({"node_id": node.id, "address": address, "portgroup_id": group.id})
        volumes.create_connector({"node_id": node.id, "type": "iqn", "connector_id": str(number)})
        volumes.create_target(
            {"node_id": node.id, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}
        )
        allocations.create_bound({"name": f"a{number}"}, node.id)
    return api


@pytest.mark.parametrize(
    ("path", "rows", "most"),
    [
        ("/v1/ports", 2 * ATTACHED, 1),
        ("/v1/ports/detail", 2 * ATTACHED, 1),
        ("/v1/ports?fields=node_uuid,portgroup_uuid", 2 * ATTACHED, 1),
        ("/v1/ports?node=n1&detail=true", 2, 2),
        ("/v1/ports?portgroup=pg1&detail=true", 2, 3),
        ("/v1/nodes/n1/ports?detail=true", 2, 2),
        ("/v1/portgroups/pg1/ports/detail", 2, 3),
        ("/v1/portgroups", ATTACHED, 1),
        ("/v1/portgroups/detail", ATTACHED, 1),
        ("/v1/portgroups?node=n1", 1, 2),
        ("/v1/nodes/n1/portgroups/detail", 1, 2),
        ("/v1/volume/connectors", ATTACHED, 1),
        ("/v1/volume/connectors?detail=true", ATTACHED, 1),
        ("/v1/volume/connectors?node=n1", 1, 2),
        ("/v1/nodes/n1/volume/connectors", 1, 2),
        ("/v1/volume/targets", ATTACHED, 1),
        ("/v1/volume/targets?detail=true", ATTACHED, 1),
        ("/v1/nodes/n1/volume/targets?detail=true", 1, 2),
        ("/v1/volume", None, 0),
        ("/v1/nodes/n1/volume", None, 0),
        ("/v1/allocations", ATTACHED, 1),
        ("/v1/allocations?fields=node_uuid", ATTACHED, 1),
        ("/v1/allocations?node=n1&state=active", 1, 2),
        ("/v1/allocations/a1", None, 1),
        ("/v1/nodes/n1/allocation", None, 2),
    ],
)
def test_lists_of_what_hangs_on_nodes_cost_a_few_statements(
    attached: Client, path: str, rows: int | None, most: int
) -> None:
    with session.count_statements() as counted:
        answer = attached.get(path)
    assert answer.status == 200, answer.body
    assert counted.count <= most, counted.statements
    if rows is not None:
        (listed,) = answer.body.values()
        assert len(listed) == rows


STEP = {"interface": "bios", "step": "a", "args": {}, "priority": 1, "order": 1}


@pytest.mark.parametrize(
    ("path", "rows", "most"),
    [
        ("/v1/deploy_templates", 30, 1),
        ("/v1/deploy_templates?detail=true", 30, 2),
        ("/v1/deploy_templates?fields=steps,extra", 30, 2),
        ("/v1/runbooks", 30, 1),
        ("/v1/runbooks?detail=true&project=p", 30, 3),
        ("/v1/runbooks?fields=traits", 30, 2),
        ("/v1/inspection_rules?detail=true", 30, 1),
        ("/v1/shards", 1, 1),
        ("/v1/deploy_templates/CUSTOM_1", None, 2),
        ("/v1/deploy_templates/CUSTOM_1?fields=name", None, 1),
        ("/v1/runbooks/CUSTOM_1", None, 3),
        ("/v1/runbooks/CUSTOM_1/traits", None, 2),
    ],
)
def test_lists_of_steps_cost_a_few_statements(
    api: Client, path: str, rows: int | None, most: int
) -> None:
    nodes.create({"driver": "fake-hardware", "shard": "s"})
    for number in range(30):
        name = f"CUSTOM_{number}"
        templates.create({"name": name, "steps": [STEP]})
        inspection_rules.create({"actions": [{"op": "fail", "args": {"msg": name}}]})
        runbooks.create({"name": name, "steps": [STEP], "traits": [name], "public": True})
    with session.count_statements() as counted:
        answer = api.get(path)
    assert answer.status == 200
    assert counted.count <= most, counted.statements
    if rows is not None:
        (listed,) = answer.body.values()
        assert len(listed) == rows


def test_a_heartbeat_that_changes_nothing_costs_the_api_one_read(api: Client) -> None:
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201
    with session.count_statements() as counted:
        api.post(
            "/v1/heartbeat/n1",
            {"callback_url": "https://192.0.2.1:1", "agent_token": "x", "agent_version": "1"},
        )
    reads = [
        s for s in counted.statements if "driver_internal_info" in s and "reservation" not in s
    ]
    assert len(reads) == 1, counted.statements


def test_computed_fields_of_a_page_are_right(thousand: Client) -> None:
    rows = thousand.get("/v1/nodes/detail?limit=2").body["nodes"]
    assert [row["chassis_uuid"] is not None for row in rows] == [True, False]
    assert [row["allocation_uuid"] is not None for row in rows] == [True, False]
    assert [row["conductor"] for row in rows] == ["cond-a", "cond-a"]
    assert [row["traits"] for row in rows] == [["CUSTOM_A"], ["CUSTOM_A"]]
