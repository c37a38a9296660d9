"""RPC: cleaning, servicing, inspection, verbs, and going on with waiting flows.

Source: specification conductor.md sections 1.3, 10.3, 10.5, 10.8 to 10.10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor import failures
from ironic_rs.conductor.endpoints import base
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import (
    abort,
    clean,
    deploy,
    inspect,
    runbooks,
    service,
    takeover,
    verify,
)
from ironic_rs.conductor.steps import collect, events, validate
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, secrets, states, steps
from ironic_rs.domain.steps import Step, StepKind
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

_CONTINUE: dict[str, Callable[[Task], None]] = {
    "clean": clean.continue_node_clean,
    "deploy": deploy.continue_node_deploy,
    "service": service.continue_node_service,
}
#: Hold state -> kind of the flow that is paused there.
_HELD = {kind.hold: kind for kind in steps.KINDS.values()}
#: Wait and hold states -> kind of the flow that an abort ends.
_STOPPABLE = {
    **{kind.wait: kind for kind in steps.KINDS.values()},
    **{kind.hold: kind for kind in steps.KINDS.values()},
}
_ABORT: dict[str, Callable[[Task], None]] = {
    "clean": abort.do_node_clean_abort,
    "deploy": abort.do_node_deploy_abort,
    "service": abort.do_node_service_abort,
}


class ProvisionEndpoint(Endpoint):
    """The provisioning verbs other than deploy and rescue."""

    @rpc_method("do_node_clean", since="1.32")
    def do_node_clean(
        self,
        context: RequestContext,
        node_id: str,
        clean_steps: Sequence[Step],
        disable_ramdisk: bool | None = False,
    ) -> None:
        """Start a manual cleaning.

        :param clean_steps: [{interface, step, args?}], run in this order.
        :raises NodeInMaintenance, InvalidParameterValue, StepNotAllowed,
            InvalidStateRequested, ConcurrentActionLimit: refused.
        """
        base.check_concurrency("clean")
        with self.acquire(context, node_id, purpose="node manual cleaning") as task:
            base.refuse_maintenance(task, "cleaning")
            _check_steps(task, steps.CLEAN, clean_steps)
            base.start(
                task,
                "clean",
                clean.do_node_clean,
                clean_steps,
                disable_ramdisk,
                target_state=states.MANAGEABLE,
            )

    @rpc_method("do_node_service", since="1.57")
    def do_node_service(
        self,
        context: RequestContext,
        node_id: str,
        service_steps: Sequence[Step],
        disable_ramdisk: bool | None = False,
    ) -> None:
        """Start servicing an active node.

        :param service_steps: [{interface, step, args?}], run in this order.
        :raises NodeInMaintenance, InvalidParameterValue, StepNotAllowed,
            InvalidStateRequested: refused.
        """
        with self.acquire(context, node_id, purpose="node service") as task:
            base.refuse_maintenance(task, "service")
            _check_steps(task, steps.SERVICE, service_steps)
            base.start(
                task,
                "service",
                service.do_node_service,
                service_steps,
                disable_ramdisk,
                target_state=states.ACTIVE,
            )

    @rpc_method("inspect_hardware", since="1.24")
    def inspect_hardware(self, context: RequestContext, node_id: str) -> None:
        """Start an inspection.

        :raises InvalidParameterValue, UnsupportedDriverExtension,
            InvalidStateRequested: refused.
        """
        with self.acquire(context, node_id, purpose="hardware inspection") as task:
            task.driver.power.validate(task)
            task.driver.inspect.validate(task)
            base.start(task, "inspect", inspect.do_inspect_hardware)

    @rpc_method("continue_inspection", since="1.56")
    def continue_inspection(
        self,
        context: RequestContext,
        node_id: str,
        inventory: dict[str, Any],
        plugin_data: dict[str, Any] | None = None,
    ) -> None:
        """Accept what a ramdisk found out.

        :raises NotFound: the node does not wait for it.
        """
        with self.acquire(context, node_id, purpose="continue inspection") as task:
            state = task.node.provision_state
            discovered = CONF.auto_discovery.enabled and state == states.ENROLL
            if state not in states.CONTINUE_INSPECTION and not discovered:
                LOG.error("Node %s sent inspection data in state '%s'", task.node.uuid, state)
                raise errors.NotFound()
            args = (inventory, plugin_data)
            if discovered:
                task.set_spawn_error_hook(failures.work_refused, task)
                task.spawn_after(inspect.continue_inspection, task, *args)
                return
            base.start(task, "resume", inspect.continue_inspection, *args)

    @rpc_method("continue_node_clean", since="1.27")
    def continue_node_clean(self, context: RequestContext, node_id: str) -> None:
        """Go on with a cleaning that waits (cast)."""
        self._continue(context, node_id, steps.CLEAN)

    @rpc_method("continue_node_deploy", since="1.45")
    def continue_node_deploy(self, context: RequestContext, node_id: str) -> None:
        """Go on with a deployment that waits (cast)."""
        self._continue(context, node_id, steps.DEPLOY)

    @rpc_method("continue_node_service", since="1.60")
    def continue_node_service(self, context: RequestContext, node_id: str) -> None:
        """Go on with a servicing that waits (cast)."""
        self._continue(context, node_id, steps.SERVICE)

    def _continue(self, context: RequestContext, node_id: str, kind: StepKind) -> None:
        """Resume and hand over; without a worker the flow waits again (W13).

        A flow that runs already is refused (W20), except a deployment, which a
        driver may ask to continue before its step has returned.
        """
        with self.acquire(
            context, node_id, patient=True, purpose=f"continue node {kind.label}"
        ) as task:
            node = task.node
            if kind is steps.DEPLOY and node.provision_state == kind.running:
                LOG.warning("Node %s is '%s' already", node.uuid, kind.running)
                task.set_spawn_error_hook(failures.work_refused, task)
                task.spawn_after(_CONTINUE[kind.name], task)
                return
            if node.provision_state != kind.wait:
                raise errors.InvalidStateRequested(
                    action=f"continue {kind.label}", node=node.uuid, state=node.provision_state
                )
            base.start(
                task, "resume", _CONTINUE[kind.name], target_state=events.kept_target(task, kind)
            )

    @rpc_method("do_provisioning_action", since="1.23")
    def do_provisioning_action(self, context: RequestContext, node_id: str, action: str) -> None:
        """Run a verb: manage, provide, adopt, abort, unhold, or any machine event.

        :raises InvalidStateRequested, InvalidState, NodeInMaintenance, NodeIsRetired,
            UnsupportedDriverExtension, NodeCleaningFailure: refused.
        """
        interrupts = self.conductor.interrupts
        if action == "abort" and context.unconditional and interrupts.abort(node_id):
            # The step fails now.
            LOG.info("Node %s: what is done for it is broken off on request", node_id)
            return
        with self.acquire(context, node_id, purpose=f"provision action {action}") as task:
            state = task.node.provision_state
            if action == "provide" and state == states.MANAGEABLE:
                _provide(task)
            elif action == "manage" and state == states.ENROLL:
                base.start(task, "manage", verify.do_node_verify)
            elif action == "adopt" and state in (states.MANAGEABLE, states.ADOPTFAIL):
                base.start(task, "adopt", takeover.do_adoption)
            elif action == "abort" and state in states.ABORTABLE_BY_VERB:
                _abort(task)
            elif action == "unhold" and state in _HELD:
                _unhold(task, _HELD[state])
            else:
                base.require_event(task, action)
                if states.next_state(state, action) in states.STUCK_STATES_TREATED_AS_FAIL:
                    # Another request starts these, with the worker that ends them.
                    raise errors.InvalidStateRequested(
                        action=action, node=task.node.uuid, state=state
                    )
                task.event(action)


def _check_steps(task: Task, kind: StepKind, wanted: Sequence[Step]) -> None:
    try:
        task.driver.power.validate(task)
        task.driver.network.validate(task)
    except errors.InvalidParameterValue as exc:
        raise errors.InvalidParameterValue(
            f"Validation of node {task.node.uuid} for {kind.label} failed: {exc}"
        ) from exc
    validate.refuse_disallowed(kind, wanted)


def _provide(task: Task) -> None:
    node = task.node
    if not CONF.conductor.allow_provisioning_in_maintenance:
        base.refuse_maintenance(task, "providing")
    if node.retired:
        raise errors.NodeIsRetired(op="providing", node=node.uuid)
    clean_steps, disable_ramdisk = runbooks.automated_steps(node)
    if clean_steps is not None:
        clean_steps = collect.without_disallowed(steps.CLEAN, clean_steps)
    base.start(
        task,
        "provide",
        clean.do_node_clean,
        clean_steps,
        disable_ramdisk,
        clean_steps is not None,
    )


def _unhold(task: Task, kind: StepKind) -> None:
    """Go on after a hold step at once, without waiting for a heartbeat (W04)."""
    events.fire(task, kind, "unhold")
    base.start(task, "resume", _CONTINUE[kind.name], target_state=events.kept_target(task, kind))


def _abort(task: Task) -> None:
    state = str(task.node.provision_state)
    if state == states.INSPECTWAIT:
        inspect.abort_inspection(task)
    elif state == states.RESCUEWAIT:
        secrets.forget_rescue_password(task.node)
        base.start(task, "abort", abort.do_node_rescue_abort, last_error=abort.RESCUE_ABORTED)
    elif state == states.SERVICEFAIL:
        _leave_failed_service(task)
    else:
        _abort_steps(task, _STOPPABLE[state])


def _abort_steps(task: Task, kind: StepKind) -> None:
    """Stop a step flow now, or after the running step if that may not be broken off."""
    node = task.node
    step: Step = getattr(node, kind.field) or {}
    held = node.provision_state == kind.hold
    if step and not step.get("abortable") and not held:
        LOG.info(
            "Node %s: step %s can not be broken off, %s is aborted after it",
            node.uuid,
            steps.step_id(step),
            kind.label,
        )
        if not step.get("abort_after"):
            step["abort_after"] = True
            task.save()
        return
    if kind is steps.DEPLOY:
        node.driver_internal_info.pop("agent_url", None)
    base.start(
        task,
        "abort",
        _ABORT[kind.name],
        target_state=events.kept_target(task, kind),
        last_error=abort.message(task, kind),
    )


def _leave_failed_service(task: Task) -> None:
    """Return from a failed servicing to the instance; active only when it runs (W19).

    :raises InvalidState: the node is in maintenance.
    """
    node = task.node
    if node.maintenance:
        raise errors.InvalidState(
            f"Node {node.uuid} is in maintenance: clear it before leaving '{states.SERVICEFAIL}'."
        )
    task.set_spawn_error_hook(failures.work_refused, task)
    task.spawn_after(abort.do_node_service_abort, task)
