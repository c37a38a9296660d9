"""Pages: no row is lost or repeated, whatever they are sorted by."""

from __future__ import annotations

import datetime
import itertools

import pytest

from ironic_rs.db import allocations, chassis, models, nodes, portgroups, ports
from ironic_rs.db.nodes import LISTING
from ironic_rs.domain import errors
from tests.database_suite.setup import make_node

#: The clock is the same for all nodes of a page and another one for the next page.
COLUMNS = sorted({*models.Node.__table__.columns.keys(), *LISTING.derived} - {"database_time"})


def fill():
    """Nodes with NULLs and equal values in nearly every column."""
    groups = [chassis.create({}), chassis.create({})]
    shared = {
        "owner": ["b", "a", None],
        "maintenance": [True, False],
        "automated_clean": [None, True, False],
        "chassis_id": [None, groups[0].id, groups[1].id],
        "extra": [{}, {"a": 1}, {"b": "é"}],
        "resource_class": [None, "gold", "Gold"],
        "description": ["", None, "x" * 300],
        "power_state": [None, "power on"],
    }
    cycles = {name: itertools.cycle(values) for name, values in shared.items()}
    created = [
        make_node(
            name=None if n % 3 == 0 else f"n{10 - n}",
            **{name: next(values) for name, values in cycles.items()},
        )
        for n in range(11)
    ]
    for n, node in enumerate(created):
        if n % 2:
            nodes.update(node, {"provision_state": f"s{n % 3}"}, fence=None)
    return created


@pytest.mark.usefixtures("db")
class TestPages:
    def test_pages_join_to_the_whole_list_for_every_column_and_direction(self):
        created = fill()
        everything = {node.uuid for node in created}
        for column, direction in itertools.product(COLUMNS, ("asc", "desc")):
            order = {"sort_key": column, "sort_dir": direction}
            whole = [row["uuid"] for row in nodes.select(["uuid"], **order)]
            assert set(whole) == everything, column
            paged, marker = [], None
            while page := nodes.select(["uuid"], limit=3, marker=marker, **order):
                paged += [row["uuid"] for row in page]
                marker = paged[-1]
                assert len(paged) <= len(whole), column
            assert paged == whole, (column, direction)

    def test_null_sorts_before_every_value_and_ties_by_id(self):
        first, second, third = make_node(owner="a"), make_node(), make_node(owner="a")
        up = nodes.select(["id"], sort_key="owner")
        down = nodes.select(["id"], sort_key="owner", sort_dir="desc")
        assert [row["id"] for row in up] == [second.id, first.id, third.id]
        assert [row["id"] for row in down] == [third.id, first.id, second.id]

    def test_a_marker_costs_one_more_statement_and_no_whole_node(self):
        created = fill()
        rows = nodes.select(["id"], marker=created[3].uuid)
        assert [row["id"] for row in rows] == [node.id for node in created[4:]]

    def test_wrong_keys_and_markers_are_refused(self):
        with pytest.raises(errors.InvalidParameterValue, match="sort_key"):
            nodes.select(["uuid"], sort_key="colour")
        with pytest.raises(errors.InvalidParameterValue, match="direction"):
            nodes.select(["uuid"], sort_dir="sideways")
        with pytest.raises(errors.NodeNotFound, match="gone"):
            nodes.select(["uuid"], marker="gone")
        with pytest.raises(errors.PortNotFound):
            ports.select(["uuid"], marker="gone")

    def test_filters_hold_on_every_page(self):
        fill()
        filters = {"maintenance": True}
        whole = [row["uuid"] for row in nodes.select(["uuid"], filters)]
        first = nodes.select(["uuid"], filters, limit=2)
        rest = nodes.select(["uuid"], filters, marker=first[-1]["uuid"])
        assert [row["uuid"] for row in [*first, *rest]] == whole

    def test_names_of_other_records_can_be_shown_and_sorted_by(self):
        owner, other = sorted((make_node(), make_node()), key=lambda node: node.uuid)
        group = portgroups.create({"node_id": owner.id})
        ports.create({"address": "52:54:00:00:00:01", "node_id": other.id})
        ports.create(
            {"address": "52:54:00:00:00:02", "node_id": owner.id, "portgroup_id": group.id}
        )
        rows = ports.select(["address", "node_uuid", "portgroup_uuid"], sort_key="node_uuid")
        assert [tuple(row.values()) for row in rows] == [
            ("52:54:00:00:00:02", owner.uuid, group.uuid),
            ("52:54:00:00:00:01", other.uuid, None),
        ]
        allocations.bind(allocations.create({"resource_class": "x"}), owner.id)
        assert [row["node_uuid"] for row in allocations.select(["node_uuid"])] == [owner.uuid]

    def test_times_are_aware_and_in_utc(self):
        make_node()
        (row,) = nodes.select(["created_at"])
        now = datetime.datetime.now(datetime.UTC)
        assert abs((now - row["created_at"]).total_seconds()) < 60
