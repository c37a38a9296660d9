"""Machines whose ramdisk does not come up are booted once more."""

from __future__ import annotations

import datetime

import pytest
from oslo_utils import timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states


def ago(seconds: float) -> str:
    then = timeutils.utcnow(with_timezone=True) - datetime.timedelta(seconds=seconds)
    return then.isoformat()


@pytest.fixture
def waiting(make, config):
    """Return a maker of shared tasks on nodes that wait for a ramdisk."""
    config("pxe", boot_retry_timeout=300)

    def maker(state: str = states.DEPLOYWAIT, boot: str = "ipxe", **info):
        info.setdefault("last_power_state_change", ago(301))
        task = make(boot, provision_state=state, driver_internal_info=info)
        task.shared = True
        return task

    return maker


def test_no_machine_is_booted_again_unless_configured(make):
    assert make("ipxe").driver.boot.periodics() == []


def test_the_nodes_to_look_at(make, config):
    config("pxe", boot_retry_timeout=300, boot_retry_check_interval=7)
    ((mark, _method),) = make("pxe").driver.boot.periodics()
    assert mark.interval(CONF) == 7
    assert mark.filters == {
        "provision_state_in": sorted(
            [states.CLEANWAIT, states.RESCUEWAIT, states.DEPLOYWAIT, states.SERVICEWAIT]
        ),
        "reserved": False,
        "maintenance": False,
        "provisioned_before": 300,
    }


@pytest.mark.parametrize(
    "state", [states.DEPLOYWAIT, states.CLEANWAIT, states.RESCUEWAIT, states.SERVICEWAIT]
)
def test_a_silent_machine_is_booted_again(waiting, state):
    task = waiting(state)
    task.driver.boot.check_boot_timeouts(task)
    assert task.flows.calls == [
        ("power", states.POWER_OFF),
        ("set_boot_device", "pxe", False),
        ("power", states.POWER_ON),
    ]
    assert not task.shared


def test_http_boot_is_set_again(waiting):
    task = waiting(boot="http")
    task.driver.boot.check_boot_timeouts(task)
    assert ("set_boot_device", "uefihttp", False) in task.flows.calls


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("agent_secret_token", lambda: "token"),
        ("agent_last_heartbeat", lambda: ago(10)),
        ("last_power_state_change", lambda: ago(10)),
    ],
)
def test_a_machine_that_was_heard_of_is_left_alone(waiting, name, value):
    task = waiting(**{name: value()})
    task.driver.boot.check_boot_timeouts(task)
    assert task.flows.calls == []
    assert task.shared


def test_old_news_is_no_news(waiting):
    task = waiting(agent_last_heartbeat=ago(400), last_power_state_change="nonsense")
    task.driver.boot.check_boot_timeouts(task)
    assert len(task.flows.calls) == 3


@pytest.mark.parametrize("change", ["state", "maintenance", "token"])
def test_everything_is_looked_at_again_under_the_lock(waiting, change):
    task = waiting()

    def upgrade_lock(purpose=None, retry=None):
        assert purpose == "retrying PXE boot"
        assert retry is False
        task.shared = False
        if change == "state":
            task.node.provision_state = states.DEPLOYFAIL
        elif change == "maintenance":
            task.node.maintenance = True
        else:
            task.node.driver_internal_info["agent_secret_token"] = "token"

    task.upgrade_lock = upgrade_lock
    task.driver.boot.check_boot_timeouts(task)
    assert task.flows.calls == []


def test_a_locked_node_is_left_to_the_next_run(waiting):
    task = waiting()
    task.locked_by = "somebody"
    with pytest.raises(errors.NodeLocked):
        task.driver.boot.check_boot_timeouts(task)
