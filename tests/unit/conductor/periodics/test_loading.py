"""Records of many nodes, with what is needed of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ironic_rs.conductor.periodics import loading
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import models, nodes, records, session
from ironic_rs.domain import errors
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]


def load(*made: models.Node) -> list[models.Node]:
    rows = nodes.select(["id"], {"id_in": [node.id for node in made]})
    return list(loading.load_nodes(rows))


def test_a_thousand_nodes_are_one_statement_in_their_order(
    conductor: Conductor, make_node: MakeNode
) -> None:
    made = [make_node() for _ in range(5)]
    rows = nodes.select(["id"], {}, sort_dir="desc")
    with session.count_statements() as seen:
        found = [node.uuid for node in loading.load_nodes(rows)]
    assert found == [node.uuid for node in reversed(made)]
    assert seen.count == 1
    (statement,) = seen.statements
    for unused in ("extra", "network_data", "raid_config", "description", "clean_step"):
        assert f"nodes.{unused}" not in statement


def test_every_column_is_there_the_rest_by_one_statement_at_its_first_use(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(
        extra={"a": [1]}, raid_config={"x": 1}, description="words", driver_info={"b": 2}
    )
    (view,) = load(node)
    with session.count_statements() as seen:
        assert view.driver_info == {"b": 2}
        assert view.name is None
        assert seen.count == 0
        assert view.extra == {"a": [1]}
        assert seen.count == 1
        full = nodes.get(node.id)
        count = seen.count
        for column in models.Node.__table__.columns:
            assert getattr(view, column.key) == getattr(full, column.key), column.key
        assert view.traits == []
        assert seen.count == count
    assert view.get_interface("power") == full.get_interface("power")


def test_the_rest_can_be_read_in_another_thread(conductor: Conductor, make_node: MakeNode) -> None:
    (view,) = load(make_node(extra={"a": 1}))
    found = []
    thread = threading.Thread(target=lambda: found.append(view.extra))
    thread.start()
    thread.join(30)
    assert found == [{"a": 1}]


def test_a_node_that_is_gone_meanwhile_says_so(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    (view,) = load(node)
    nodes.destroy(node.id)
    with pytest.raises(errors.NodeNotFound, match=node.uuid):
        _ = view.extra


def test_a_view_becomes_a_full_record_with_the_lock(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(extra={"a": 1})
    (view,) = load(node)
    with conductor.tasks.view(admin_context(), view) as task:
        with pytest.raises(errors.ExclusiveLockRequired):
            task.save()
        task.upgrade_lock()
        assert records.changes(task.node) == {}
        task.node.extra["b"] = 2
        task.save()
    assert nodes.get(node.id).extra == {"a": 1, "b": 2}
