"""RPC: deploy, tear down, rescue and unrescue.

Source: specification conductor.md sections 10.6, 10.7 and 10.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.endpoints import base
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import deploy, image_type, rescue, teardown
from ironic_rs.conductor.steps import plan, validate
from ironic_rs.conf import CONF
from ironic_rs.domain import capabilities, errors, sha_crypt, states, steps
from ironic_rs.domain.steps import Step
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)


def check_instance_traits(node: models.Node) -> None:
    """Check that the node has the traits that its instance asks for.

    :raises InvalidParameterValue: one is missing, or the list is malformed.
    """
    wanted = node.instance_info.get("traits")
    if wanted is None:
        return
    if not isinstance(wanted, list) or not all(isinstance(trait, str) for trait in wanted):
        raise errors.InvalidParameterValue(
            f"Error parsing traits from the instance_info of node {node.uuid}: they must be a "
            "list of strings."
        )
    missing = sorted(set(wanted) - set(node.traits))
    if missing:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid} lacks traits that its instance asks for: {', '.join(missing)}."
        )


def _refuse_boot_mode(node: models.Node, action: str) -> None:
    disallowed = CONF.conductor.disallowed_deployment_boot_modes
    if not disallowed:
        return
    mode = capabilities.of_node(node, "boot_mode") or node.properties.get("boot_mode")
    if mode in disallowed:
        raise errors.BootModeNotAllowed(mode=mode, op=action)


def _set_lessee(task: Task) -> None:
    """Lease the node to the project it is deployed for (not saved)."""
    node = task.node
    if node.lessee is not None or not CONF.conductor.automatic_lessee:
        return
    source = CONF.conductor.automatic_lessee_source
    project = None
    if source == "instance":
        project = node.instance_info.get("project_id")
    elif source == "request":
        project = task.context.project_id
    if project:
        node.lessee = project
        node.driver_internal_info["automatic_lessee"] = True


def _check_deployable(task: Task, deploy_steps: Sequence[Step] | None) -> None:
    """Validate everything that can be validated before the state changes."""
    task.driver.deploy.switch_interface(task)
    try:
        task.driver.power.validate(task)
        task.driver.deploy.validate(task)
        check_instance_traits(task.node)
        plan.check_deploy_steps(task, deploy_steps, skip_missing=True)
    except errors.InvalidParameterValue as exc:
        failure = errors.InstanceDeployFailure(
            f"Failed to validate deploy or power info for node {task.node.uuid}: {exc}"
        )
        # The caller can mend it: answered with the code of the cause, 400.
        failure.code = exc.code
        raise failure from exc


def _prepare_rescue(task: Task, rescue_password: str) -> None:
    """Put the password into the record and check the interfaces (not saved)."""
    node = task.node
    info = node.instance_info
    info["rescue_password"] = rescue_password
    info["hashed_rescue_password"] = sha_crypt.crypt(
        rescue_password, CONF.conductor.rescue_password_hash_algorithm
    )
    try:
        task.driver.power.validate(task)
        task.driver.rescue.validate(task)
        task.driver.network.validate(task)
    except errors.Invalid as exc:
        raise errors.InstanceRescueFailure(
            instance=node.instance_uuid,
            node=node.uuid,
            reason=f"validation failed: {exc}",
        ) from exc


class DeploymentEndpoint(Endpoint):
    """Putting instances on nodes and taking them off."""

    @rpc_method("do_node_deploy", since="1.22")
    def do_node_deploy(
        self,
        context: RequestContext,
        node_id: str,
        rebuild: bool = False,
        configdrive: str | dict[str, Any] | None = None,
        deploy_steps: Sequence[Step] | None = None,
    ) -> None:
        """Start a deployment.

        :param rebuild: deploy an active node again.
        :param configdrive: URL, base64 text, or {meta_data, user_data, ...}.
        :param deploy_steps: [{interface, step, args, priority}] of the user.
        :raises InvalidStateRequested, NodeInMaintenance, NodeProtected,
            InstanceDeployFailure (400), StepNotAllowed, BootModeNotAllowed,
            ConcurrentActionLimit: refused; the node is as before.
        """
        base.check_concurrency("deploy")
        event = "rebuild" if rebuild else "deploy"
        with self.acquire(context, node_id, purpose="node deployment") as task:
            node = task.node
            base.refuse_maintenance(task, "rebuild" if rebuild else "provisioning")
            if rebuild:
                base.refuse_protected(task)
            base.require_event(task, event)
            _refuse_boot_mode(node, event)
            validate.refuse_disallowed(steps.DEPLOY, deploy_steps)
            if rebuild:
                image_type.forget_glance_details(node)
            image_type.infer(node)
            _check_deployable(task, deploy_steps)
            if not rebuild:
                _set_lessee(task)
            base.start(task, event, deploy.do_node_deploy, configdrive, deploy_steps)

    @rpc_method("do_node_tear_down", since="1.6")
    def do_node_tear_down(self, context: RequestContext, node_id: str) -> None:
        """Start taking the instance off; automated cleaning follows.

        :raises NodeProtected, InvalidStateRequested, InstanceDeployFailure,
            ConcurrentActionLimit: refused; the node is as before.
        """
        base.check_concurrency("clean")
        interrupts = self.conductor.interrupts
        if context.unconditional and interrupts.abort(node_id, states.DEPLOYING):
            # The deployment fails now, and gives the lock back.
            LOG.info("Node %s: its deployment is broken off by a request to undeploy it", node_id)
        with self.acquire(context, node_id, purpose="node tear down") as task:
            node = task.node
            base.refuse_protected(task)
            try:
                task.driver.power.validate(task)
            except errors.InvalidParameterValue as exc:
                raise errors.InstanceDeployFailure(
                    f"Failed to validate power driver interface. Can not delete instance. "
                    f"Node {node.uuid}: {exc}"
                ) from exc
            base.require_event(task, "delete")
            node.driver_internal_info.pop("agent_url", None)
            previous = node.provision_state
            base.start(task, "delete", teardown.do_node_tear_down, previous)

    @rpc_method("do_node_rescue", since="1.43")
    def do_node_rescue(self, context: RequestContext, node_id: str, rescue_password: str) -> None:
        """Start booting the rescue ramdisk.

        :raises NodeInMaintenance, InstanceRescueFailure, InvalidStateRequested: refused.
        """
        with self.acquire(context, node_id, purpose="node rescue") as task:
            base.refuse_maintenance(task, "rescue")
            base.require_event(task, "rescue")
            _prepare_rescue(task, rescue_password)
            steps.wipe_token_and_url(task.node)
            base.start(task, "rescue", rescue.do_node_rescue)

    @rpc_method("do_node_unrescue", since="1.43")
    def do_node_unrescue(self, context: RequestContext, node_id: str) -> None:
        """Start returning from the rescue ramdisk to the instance.

        :raises NodeInMaintenance, InstanceUnrescueFailure, InvalidStateRequested: refused.
        """
        with self.acquire(context, node_id, purpose="node unrescue") as task:
            node = task.node
            base.refuse_maintenance(task, "unrescue")
            try:
                task.driver.power.validate(task)
            except errors.InvalidParameterValue as exc:
                raise errors.InstanceUnrescueFailure(
                    instance=node.instance_uuid, node=node.uuid, reason=f"validation failed: {exc}"
                ) from exc
            node.driver_internal_info.pop("agent_url", None)
            base.start(task, "unrescue", rescue.do_node_unrescue)
