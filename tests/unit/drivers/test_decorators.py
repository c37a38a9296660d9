"""Marks on interface methods."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers import base, decorators
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    driver_passthru,
    node_periodic,
    passthru,
    require_exclusive_lock,
    service_step,
    verify_step,
)
from ironic_rs.drivers.fake.machine import FakeManagement
from ironic_rs.drivers.fake.vendor import FakeVendor
from tests.unit.drivers import kit


class Everything(FakeManagement):
    @clean_step(priority=3, abortable=True, argsinfo={"a": {"description": "d"}})
    @deploy_step(priority=2)
    @service_step()
    @verify_step(priority=1)
    @require_exclusive_lock
    def work(self, task, **args):
        return args or None

    @node_periodic(
        "looking after things",
        lambda conf: 60,
        filters={"maintenance": False},
        columns=["provision_state"],
    )
    def look(self, task):
        """Nothing."""


def test_one_method_may_be_a_step_of_every_kind():
    interface = Everything()
    task = kit.Task(kit.node())
    assert interface.get_clean_steps(task) == [
        {
            "step": "work",
            "priority": 3,
            "abortable": True,
            "argsinfo": {"a": {"description": "d"}},
            "requires_ramdisk": True,
            "interface": "management",
        }
    ]
    (deploy,) = interface.get_deploy_steps(task)
    assert (deploy["priority"], deploy["abortable"]) == (2, True)
    (service,) = interface.get_service_steps(task)
    assert (service["priority"], service["abortable"], service["requires_ramdisk"]) == (
        0,
        False,
        True,
    )
    assert interface.get_verify_steps(task) == [
        {"step": "work", "priority": 1, "interface": "management"}
    ]


def test_steps_get_their_arguments():
    interface = Everything()
    task = kit.Task(kit.node())
    step = {"step": "work", "args": {"a": 1}}
    assert interface.execute_clean_step(task, step) == {"a": 1}
    assert interface.execute_deploy_step(task, {"step": "work", "args": None}) is None
    assert interface.execute_service_step(task, step) == {"a": 1}
    assert interface.execute_verify_step(task, {"step": "work"}) is None


def test_changing_a_step_does_not_change_the_next_one():
    interface = Everything()
    task = kit.Task(kit.node())
    interface.get_clean_steps(task)[0]["priority"] = 99
    assert interface.get_clean_steps(task)[0]["priority"] == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: clean_step(priority="1"),
        lambda: clean_step(priority=True),
        lambda: clean_step(priority=None),
        lambda: clean_step(priority=1, abortable="yes"),
        lambda: clean_step(priority=1, requires_ramdisk=1),
        lambda: clean_step(priority=1, argsinfo=[]),
        lambda: clean_step(priority=1, argsinfo={"a": "d"}),
        lambda: clean_step(priority=1, argsinfo={"a": {}}),
        lambda: clean_step(priority=1, argsinfo={"a": {"description": 1}}),
        lambda: clean_step(priority=1, argsinfo={"a": {"description": "d", "required": "y"}}),
        lambda: clean_step(priority=1, argsinfo={"a": {"description": "d", "default": 1}}),
        lambda: deploy_step(priority=-1),
        lambda: verify_step(priority=-1),
        lambda: verify_step(priority="1"),
        lambda: service_step(priority="1"),
    ],
)
def test_marks_of_the_wrong_type_are_refused(make):
    with pytest.raises(errors.InvalidParameterValue):
        make()


def test_periodics_are_collected_with_their_method():
    interface = Everything()
    ((mark, method),) = interface.periodics()
    assert mark.purpose == "looking after things"
    assert mark.interval(None) == 60
    assert mark.filters == {"maintenance": False}
    assert mark.columns == ("provision_state",)
    assert mark.shared is True
    assert method == interface.look


class Vendor(FakeVendor):
    @passthru(["get", "POST"], method="named", async_call=False, attach=True, description="d")
    def on_node(self, task, http_method, fail=None):
        if fail is not None:
            raise fail
        return http_method

    @driver_passthru(["get"])
    def on_driver(self, context, http_method):
        return context


def test_routes_are_described_and_callable():
    vendor = Vendor()
    found = vendor.vendor_routes["named"]
    assert found.route.metadata() == {
        "http_methods": ["GET", "POST"],
        "async": False,
        "description": "d",
        "attach": True,
        "require_exclusive_lock": True,
    }
    assert found.func(None, http_method="GET") == "GET"
    driver = vendor.driver_routes["on_driver"]
    assert driver.route.metadata() == {
        "http_methods": ["GET"],
        "async": True,
        "description": "",
        "attach": False,
    }
    assert driver.func("context", http_method="GET") == "context"
    vendor.driver_validate("on_driver")


def test_errors_of_vendor_methods_keep_or_get_a_class():
    call = Vendor().vendor_routes["named"].func
    with pytest.raises(errors.NodeLocked):
        call(None, http_method="GET", fail=errors.NodeLocked(node="n", host="h"))
    with pytest.raises(errors.VendorPassthruException, match="no luck"):
        call(None, http_method="GET", fail=ValueError("no luck"))


def test_the_lock_is_demanded():
    with pytest.raises(errors.ExclusiveLockRequired):
        Everything().work(kit.Task(kit.node(), shared=True))


def test_the_interface_types_are_in_the_order_of_a_driver_object():
    assert base.INTERFACE_TYPES == (
        "boot",
        "deploy",
        "management",
        "network",
        "power",
        "bios",
        "console",
        "firmware",
        "inspect",
        "raid",
        "rescue",
        "storage",
        "vendor",
    )
    assert decorators.STEP_MARK
