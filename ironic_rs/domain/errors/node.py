"""Errors about a node: its locks, states and flows."""

from __future__ import annotations

import datetime
from typing import Any, Self

from ironic_rs.domain.errors.base import (
    Conflict,
    Invalid,
    InvalidState,
    IronicError,
    NotAuthorized,
    NotFound,
    TemporaryFailure,
)


class NodeInMaintenance(Invalid):
    code = 400
    template = (
        "The {op} operation can't be performed on node {node} because it's in "
        "maintenance mode. Clear maintenance first."
    )


class NodeIsRetired(Invalid):
    code = 400
    template = (
        "The {op} operation can't be performed on node {node} because it is "
        "retired. Unset retired first."
    )


class NodeProtected(NotAuthorized):
    code = 403
    template = (
        "Node {node} is protected and cannot be undeployed, rebuilt or "
        "deleted. Unset protected first."
    )


class NodeNotFound(NotFound):
    code = 404
    template = "Node {node} could not be found."


class NodeAlreadyExists(Conflict):
    code = 409
    template = "A node with UUID {uuid} already exists."


class DuplicateName(Conflict):
    code = 409
    template = "A node with name {name} already exists."


class InstanceAssociated(Conflict):
    code = 409
    template = (
        "Instance {instance_uuid} is already associated with a node, it cannot "
        "be associated with this other node {node}."
    )


class InstanceNotFound(NotFound):
    code = 404
    template = "Instance {instance} could not be found."


class NodeAssociated(Conflict):
    code = 409
    template = "Node {node} is associated with instance {instance}."


class Locked(Conflict):
    """A lock stands in the way; the details tell whose: ``lock: {host, operation, since}``.

    What is not known of the holder is null.
    """

    code = 409

    def held_by(
        self,
        node: str,
        host: str,
        operation: str | None = None,
        since: datetime.datetime | None = None,
    ) -> Self:
        """Name the holder, in the details and after the text that clients know.

        :param node: uuid of the locked node.
        :param operation: what the lock was taken for.
        :param since: when, an aware time.
        :returns: the error itself.
        """
        begun = None if since is None else since.isoformat(timespec="seconds")
        self.details["lock"] = {"node": node, "host": host, "operation": operation, "since": begun}
        told = [operation] if operation else []
        told += [f"since {begun}"] if begun else []
        if told:
            self.args = (f"{self.args[0]} Lock of {host}: {', '.join(told)}.",)
        return self

    def of(self, cause: Locked) -> Self:
        """Take over what another error tells about the holder; returns the error itself."""
        lock: dict[str, Any] | None = cause.details.get("lock")
        if lock is None:
            return self
        since = lock["since"] and datetime.datetime.fromisoformat(lock["since"])
        return self.held_by(lock["node"], lock["host"], lock["operation"], since)


class NodeMoved(Conflict):
    """A request comes so late that the node has been in another state meanwhile."""

    code = 409
    template = (
        "Node {node} was '{seen}' when this was asked for, and is '{now}': it has been through "
        "something else meanwhile. Nothing was done; look at it and decide anew."
    )


class NodeLocked(Locked):
    code = 409
    template = (
        "Node {node} is locked by host {host}, please retry after the current "
        "operation is completed."
    )


class NodeNotLocked(Invalid):
    code = 400
    template = "Node {node} found not to be locked on release."


class LockLost(Conflict):
    """The fence refused a write: the reservation is no longer ours (W10, W42)."""

    code = 409
    template = (
        "This conductor ({host}) lost its lock of node {node}: {reason}. Nothing was written."
    )


class WorkAborted(Conflict):
    """A user has asked for the end of what was done for a node."""

    code = 409
    template = "Node {node}: {what} was aborted on request."


class ParentNodeLocked(Locked):
    code = 409
    template = (
        "Parent node {parent} of node {node} is locked, please retry after the "
        "current operation is completed."
    )


class ChildNodeLocked(Locked):
    code = 409
    template = (
        "Child node {child} of node {node} is locked, please retry after the "
        "current operation is completed."
    )


class ExclusiveLockRequired(NotAuthorized):
    code = 403
    template = "An exclusive lock is required, but the current context has a shared lock."


class NoFreeConductorWorker(TemporaryFailure):
    code = 503
    template = (
        "Requested action cannot be performed due to lack of free conductor workers, please retry."
    )


class ConcurrentActionLimit(TemporaryFailure):
    code = 503
    template = (
        "Unable to process requested task {task_type} as the maximum number of "
        "concurrent operations is reached, please retry later."
    )


class NoValidHost(NotFound):
    code = 404
    template = "No valid host was found. Reason: {reason}"


class PowerStateFailure(InvalidState):
    code = 409
    template = "Failed to set node power state to {pstate}."


class NodeMaintenanceFailure(Invalid):
    code = 400
    template = "Failed to toggle maintenance-mode flag for node {node}: {reason}"


class NodeConsoleNotEnabled(Invalid):
    code = 400
    template = "Console access is not enabled on node {node}."


class NodeTraitNotFound(NotFound):
    code = 404
    template = "Node {node_id} doesn't have the trait {trait}."


class NodeTagNotFound(NotFound):
    code = 404
    template = "Node {node_id} doesn't have the tag {tag}."


class NodeHistoryNotFound(NotFound):
    code = 404
    template = "Node history record {history} could not be found."


class NodeInventoryNotFound(NotFound):
    code = 404
    template = "Node inventory record for node {node} could not be found."


class StepNotAllowed(Invalid):
    code = 400
    template = "Step {step} is not allowed by this deployment's configuration."


class BootModeNotAllowed(Invalid):
    code = 400
    template = "Boot mode {mode} is not allowed for {op} operation."


class InstanceDeployFailure(IronicError):
    code = 500
    template = "Failed to deploy instance: {reason}"


class InstanceUndeployFailure(IronicError):
    code = 500
    template = "Failed to undeploy instance: {reason}"


class InstanceRescueFailure(IronicError):
    code = 500
    template = "Failed to rescue instance {instance} for node {node}: {reason}"


class InstanceUnrescueFailure(IronicError):
    code = 500
    template = "Failed to unrescue instance {instance} for node {node}: {reason}"


class NodeCleaningFailure(IronicError):
    code = 500
    template = "Failed to clean node {node}: {reason}"


class NodeServicingFailure(IronicError):
    code = 500
    template = "Failed to service node {node}: {reason}"


class NodeVerifyFailure(IronicError):
    code = 500
    template = "Failed to verify node {node}: {reason}"


class HardwareInspectionFailure(IronicError):
    code = 500
    template = "Failed to inspect hardware. Reason: {error}"
