"""Each RPC method: what it needs, and each of its refusals, through the real endpoint.

The facts are the specification's (conductor.md section 1.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.decorators import Passthru
from ironic_rs.drivers.machine import VendorRoute
from ironic_rs.rpc.registry import CASTS
from tests.unit.conductor import tablekit
from tests.unit.conductor.endpoints.good_calls import GOOD
from tests.unit.conductor.endpoints.record_refusals import OF_RECORDS
from tests.unit.conductor.endpoints.refusals import METHODS, OF_NODES, is_about_a_node

REFUSALS = [*OF_NODES, *OF_RECORDS]
#: Called with ``node_id``.
ABOUT_NODES = [method for method in METHODS if is_about_a_node(method)]
#: Name a record that is stored for the call: a case that does so has all arguments.
MADE = {"port_id", "portgroup_id", "connector_id", "target_id", "allocation_id"}


@pytest.fixture(autouse=True)
def offered(table) -> Iterator[None]:
    """Steps and vendor methods that the good calls name."""
    kit = table.world.kit
    kit.offer("deploy", "deploy.deploy", 100)
    kit.offer("clean", "raid.a", 10)
    kit.offer("service", "raid.a")

    def check(method, **info):
        if info:
            raise errors.MissingParameterValue("no room for more")

    vendor = table.world.drivers.enabled("vendor")["fake"]
    route = Passthru("ping", ("POST",), True, "Ping.", False)
    vendor.driver_routes["ping"] = VendorRoute(route, lambda context, **info: None)
    vendor.driver_validate = check
    yield
    del vendor.driver_routes["ping"]
    del vendor.driver_validate


def prepare(table, method, *, state=None, values=None):
    """Store the node of a good call; None for a method about none."""
    good = GOOD[method]
    if good.state is None:
        return None
    row = {"resource_class": "gold"} | dict(good.values) | dict(values or {})
    return table.node(state or good.state, **row)


def ask(table, method, node, arguments):
    named = node if method in ABOUT_NODES and "node_id" not in arguments else None
    return table.answer(method, named, **arguments)


def test_every_method_and_every_refusal_has_a_case():
    assert set(GOOD) == set(METHODS)
    wanted = {(method, error) for method, row in METHODS.items() for error in row["refusals"]}
    have = {(case.method, case.error) for case in REFUSALS}
    assert have - wanted == set()
    assert wanted - have == set()


def test_the_conductor_offers_the_methods_of_the_specification(table):
    registry = table.world.registry
    assert registry.names == sorted(METHODS)
    assert len(METHODS) == 57
    since = {name: registry._methods[name].since for name in METHODS}
    assert since == {name: row["since"] for name, row in METHODS.items()}
    assert {name for name, row in METHODS.items() if row["cast"]} == CASTS


@pytest.mark.parametrize("case", REFUSALS, ids=lambda c: f"{c.method}-{c.error}-{c.why}")
def test_a_refusal_changes_nothing(table, case):
    good = GOOD[case.method]
    node = prepare(table, case.method, state=case.state, values=case.values)
    with ExitStack() as stack:
        stack.enter_context(table.scripted(dict(good.answers) | dict(case.answers)))
        stack.enter_context(tablekit.configured(case.conf))
        arguments = dict(case.args(table, node) if callable(case.args) else case.args)
        if arguments.keys().isdisjoint(MADE):
            arguments = good.arguments(table, node) | arguments
        if case.change is not None:
            undo = case.change(table)
            if undo is not None:
                stack.callback(undo)
        before = table.rows()
        answer = ask(table, case.method, node, arguments)
    error = answer.get("error")
    assert error is not None, answer
    assert (error["class"], error["code"]) == (
        case.error,
        METHODS[case.method]["refusals"][case.error],
    ), error
    after = table.rows()
    for rows in (before, after):
        for row in rows["nodes"]:
            for column in case.writes:
                row.pop(column)
    assert after == before
    assert table.workers.kept == []
    assert len(table.world.tasks.book) == 0
    assert table.world.kit.ran == []


# Locks and workers.


def call_well(table, method, node):
    good = GOOD[method]
    with table.scripted(good.answers):
        arguments = good.arguments(table, node)
        return ask(table, method, node, arguments)


@pytest.mark.parametrize("method", METHODS)
def test_a_good_call_is_accepted_with_the_workers_it_needs(table, method):
    node = prepare(table, method)
    answer = call_well(table, method, node)
    assert "error" not in answer, answer
    assert len(table.workers.kept) == (1 if METHODS[method]["worker"] else 0)
    if table.workers.kept or node is None or method == "destroy_node":
        return
    assert table.world.read(node).reservation is None
    assert len(table.world.tasks.book) == 0


@pytest.mark.parametrize(
    "method", [m for m in ABOUT_NODES if METHODS[m]["lock"] in ("shared", "none")]
)
def test_a_call_without_the_lock_works_while_the_node_is_locked(table, method):
    node = prepare(table, method, values={"reservation": tablekit.OTHER_HOST})
    assert "error" not in call_well(table, method, node)
    assert table.world.read(node).reservation == tablekit.OTHER_HOST


@pytest.mark.parametrize(
    "method",
    [m for m in ABOUT_NODES if METHODS[m]["worker"] and METHODS[m]["lock"] != "shared"],
)
def test_the_lock_goes_to_the_worker_and_ends_with_it(table, method):
    node = prepare(table, method)
    assert "error" not in call_well(table, method, node)
    assert table.world.read(node).reservation == table.world.host
    with table.scripted({**GOOD[method].answers, "deploy.heartbeat": None}):
        table.workers.run()
    stored = table.world.read(node)
    assert stored.reservation is None
    assert len(table.world.tasks.book) == 0


@pytest.mark.parametrize(
    "method", [m for m in ABOUT_NODES if "IncompatibleInterface" not in METHODS[m]["refusals"]]
)
def test_w30_a_call_that_asks_no_driver_needs_none(table, method):
    node = prepare(table, method, values={"driver": "of-another-conductor"})
    assert "error" not in call_well(table, method, node)
