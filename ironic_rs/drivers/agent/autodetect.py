"""Deploy interface ``autodetect``: each deployment takes the interface that fits it.

Source: specification drivers.md section 10.8.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, NoReturn

from oslo_config import cfg
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers import base
from ironic_rs.drivers.agent.heartbeat import HeartbeatMixin
from ironic_rs.drivers.decorators import deploy_step, require_exclusive_lock
from ironic_rs.drivers.registry import INTERFACE_GROUP

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_OPTION = "autodetect_deploy_interfaces"
_BUILT_IN = (cfg.Locations.opt_default, cfg.Locations.set_default)


def _candidates() -> list[str]:
    """Return the names to choose from, in order; of the built-in ones those that are there.

    :raises InvalidParameterValue: one is not enabled, or none is left.
    """
    names: list[str] = list(CONF[_OPTION])
    enabled = CONF.enabled_deploy_interfaces
    where = CONF.get_location(_OPTION)
    if where is None or where.location in _BUILT_IN:
        there = metadata.entry_points(group=f"{INTERFACE_GROUP}.deploy").names
        names = [name for name in names if name in enabled and name in there]
    absent = [name for name in names if name not in enabled]
    if absent or not names:
        raise errors.InvalidParameterValue(
            f"Deploy interface autodetect: [DEFAULT]{_OPTION} names {', '.join(absent) or 'none'}, "
            "expected are one or more names of [DEFAULT]enabled_deploy_interfaces."
        )
    return names


class AutodetectDeploy(HeartbeatMixin, base.DeployInterface):
    """Replaces itself at the start of a flow; the end of cleaning puts it back."""

    def __init__(self) -> None:
        super().__init__()
        self._names = _candidates()

    def get_properties(self) -> base.Properties:
        return {}

    def _choose(self, task: Task) -> tuple[str, base.DeployInterface]:
        """Return the first interface that can deploy the node, else the last of all.

        :raises InvalidParameterValue: a candidate does not fit the hardware type.
        """
        found: list[tuple[str, base.DeployInterface]] = []
        for name in self._names:
            interface = task.driver.find("deploy", name)
            assert isinstance(interface, base.DeployInterface)
            found.append((name, interface))
            if interface.supports_deploy(task):
                break
        return found[-1]

    def validate(self, task: Task) -> None:
        """Check the node as the interface would that it is going to have."""
        node = task.node
        own = node.deploy_interface
        node.deploy_interface, chosen = self._choose(task)
        try:
            chosen.validate(task)
        finally:
            node.deploy_interface = own

    def switch_interface(self, task: Task) -> None:
        """Take the interface that fits (saved with what the flow saves next)."""
        node = task.node
        name, chosen = self._choose(task)
        LOG.info("Node %s: deploy interface %s is taken", node.uuid, name)
        node.driver_internal_info["original_deploy_interface"] = node.deploy_interface
        node.deploy_interface = name
        task.driver.deploy = chosen

    # Everything else is done by the interface that was chosen.

    @staticmethod
    def _refuse(task: Task) -> NoReturn:
        raise errors.InstanceDeployFailure(
            reason=f"deploy interface autodetect of node {task.node.uuid} has not chosen an "
            "interface yet"
        )

    @deploy_step(priority=100)
    @require_exclusive_lock
    def deploy(self, task: Task) -> str | None:
        self._refuse(task)

    def tear_down(self, task: Task) -> str:
        self._refuse(task)

    def prepare(self, task: Task) -> None:
        self._refuse(task)

    def clean_up(self, task: Task) -> None:
        self._refuse(task)

    def take_over(self, task: Task) -> None:
        self._refuse(task)

    def prepare_cleaning(self, task: Task) -> str | None:
        self._refuse(task)

    def tear_down_cleaning(self, task: Task) -> None:
        self._refuse(task)

    def prepare_service(self, task: Task) -> str | None:
        self._refuse(task)

    def tear_down_service(self, task: Task) -> None:
        self._refuse(task)
