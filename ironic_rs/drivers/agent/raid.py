"""RAID interface ``agent``: the hardware managers of the ramdisk do the work.

Source: specification drivers.md sections 9.2 and 10.10, agent-protocol.md section 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.domain import raid, steps
from ironic_rs.domain.steps import Step
from ironic_rs.drivers import base
from ironic_rs.drivers.agent import inband
from ironic_rs.drivers.decorators import clean_step, deploy_step, service_step

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

_APPLY_ARGUMENTS = {
    "raid_config": {
        "description": "Target RAID configuration: {logical_disks: [...]}.",
        "required": True,
    },
    "delete_existing": {
        "description": "Delete the existing volumes first. Default true.",
        "required": False,
    },
}
_CHOICE = {
    "create_root_volume": {
        "description": "Create the root volume of the target. Default true.",
        "required": False,
    },
    "create_nonroot_volumes": {
        "description": "Create the other volumes of the target. Default true.",
        "required": False,
    },
}


class AgentRAID(base.RAIDInterface):
    """Offers what the ramdisk offers; the ramdisk's word is written to the node."""

    def get_properties(self) -> base.Properties:
        return {}

    # What is offered: the steps that the ramdisk has told, nothing before that.

    def get_clean_steps(self, task: Task) -> list[Step]:
        return _with_choice(inband.cached(task, steps.CLEAN, self.interface_type))

    def get_deploy_steps(self, task: Task) -> list[Step]:
        return inband.cached(task, steps.DEPLOY, self.interface_type)

    def get_service_steps(self, task: Task) -> list[Step]:
        return _with_choice(inband.cached(task, steps.SERVICE, self.interface_type))

    # A hardware manager may have RAID steps that nobody here knows.

    def execute_clean_step(self, task: Task, step: Step) -> str | None:
        if _is_own(step, self.clean_steps):
            return super().execute_clean_step(task, step)
        return inband.execute(task, steps.CLEAN, step)

    def execute_deploy_step(self, task: Task, step: Step) -> str | None:
        if _is_own(step, self.deploy_steps):
            return super().execute_deploy_step(task, step)
        return inband.execute(task, steps.DEPLOY, step)

    def execute_service_step(self, task: Task, step: Step) -> str | None:
        if _is_own(step, self.service_steps):
            return super().execute_service_step(task, step)
        if step["step"] == "create_configuration":
            return self.create_configuration(task, **(step.get("args") or {}))
        return inband.execute(task, steps.SERVICE, step)

    # The steps

    @clean_step(priority=0)
    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
        **arguments: Any,
    ) -> str | None:
        """Create the volumes of target_raid_config, or those of one kind.

        Existing volumes are the business of ``delete_configuration``: the ramdisk does
        not delete them here.

        :param arguments: of the hardware manager.
        :raises MissingParameterValue: there is nothing to create.
        """
        target = raid.filtered_target(
            task.node,
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
        )
        # For hardware managers that look here.
        task.node.driver_internal_info["target_raid_config"] = target
        # The choice is made: the ramdisk does not know its arguments.
        return _run(task, {"args": arguments}, target_raid_config=target)

    @clean_step(priority=0)
    def delete_configuration(self, task: Task) -> str | None:
        """Delete all volumes."""
        return _run(task)

    @deploy_step(priority=0, argsinfo=_APPLY_ARGUMENTS)
    @service_step(priority=0, argsinfo=_APPLY_ARGUMENTS)
    def apply_configuration(
        self,
        task: Task,
        raid_config: dict[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Create the given volumes.

        :raises InvalidParameterValue: ``raid_config`` is not acceptable.
        """
        self.validate_raid_config(task, raid_config)
        return _run(task)


def _with_choice(offered: list[Step]) -> list[Step]:
    """Add the arguments that are dealt with here to what the ramdisk tells."""
    return [
        {**step, "argsinfo": {**_CHOICE, **(step.get("argsinfo") or {})}}
        if step["step"] == "create_configuration"
        else step
        for step in offered
    ]


def _run(task: Task, changes: Step | None = None, **node_values: Any) -> str:
    """Have the ramdisk run the step that the node is at."""
    kind = steps.kind_of(task.node)
    step: Step = getattr(task.node, kind.field)
    return inband.execute(task, kind, {**step, **(changes or {})}, **node_values)


def _is_own(step: Step, own: list[Step]) -> bool:
    return any(one["step"] == step["step"] for one in own)
