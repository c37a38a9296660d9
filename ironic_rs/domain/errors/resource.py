"""Errors of every resource other than nodes."""

from __future__ import annotations

from ironic_rs.domain.errors.base import Conflict, Invalid, IronicError, NotFound


class PortNotFound(NotFound):
    code = 404
    template = "Port {port} could not be found."


class PortAlreadyExists(Conflict):
    code = 409
    template = "A port with UUID {uuid} already exists."


class PortDuplicateName(Conflict):
    code = 409
    template = "A port with name {name} already exists."


class MACAlreadyExists(Conflict):
    code = 409
    template = "A port with MAC address {mac} already exists."


class PortgroupNotFound(NotFound):
    code = 404
    template = "Portgroup {portgroup} could not be found."


class PortgroupAlreadyExists(Conflict):
    code = 409
    template = "A portgroup with UUID {uuid} already exists."


class PortgroupDuplicateName(Conflict):
    code = 409
    template = "A portgroup with name {name} already exists."


class PortgroupMACAlreadyExists(Conflict):
    code = 409
    template = "A portgroup with MAC address {mac} already exists."


class PortgroupNotEmpty(Invalid):
    code = 400
    template = (
        "Cannot complete the requested action because portgroup {portgroup} "
        "contains ports. Remove them first."
    )


class PortgroupPhysnetInconsistent(IronicError):
    code = 500
    template = (
        "Port group {portgroup} has member ports with inconsistent physical "
        "networks ({physical_networks})."
    )


class ChassisNotFound(NotFound):
    code = 404
    template = "Chassis {chassis} could not be found."


class ChassisAlreadyExists(Conflict):
    code = 409
    template = "A chassis with UUID {uuid} already exists."


class ChassisNotEmpty(Invalid):
    code = 400
    template = (
        "Cannot complete the requested action because chassis {chassis} "
        "contains nodes. Remove them first."
    )


class VolumeConnectorNotFound(NotFound):
    code = 404
    template = "Volume connector {connector} could not be found."


class VolumeConnectorAlreadyExists(Conflict):
    code = 409
    template = "A volume connector with UUID {uuid} already exists."


class VolumeConnectorTypeAndIdAlreadyExists(Conflict):
    code = 409
    template = "A volume connector with type {type} and connector ID {connector_id} already exists."


class VolumeTargetNotFound(NotFound):
    code = 404
    template = "Volume target {target} could not be found."


class VolumeTargetAlreadyExists(Conflict):
    code = 409
    template = "A volume target with UUID {uuid} already exists."


class VolumeTargetBootIndexAlreadyExists(Conflict):
    code = 409
    template = "A volume target with boot index '{boot_index}' for the same node already exists."


class AllocationNotFound(NotFound):
    code = 404
    template = "Allocation {allocation} could not be found."


class AllocationAlreadyExists(Conflict):
    code = 409
    template = "An allocation with UUID {uuid} already exists."


class AllocationDuplicateName(Conflict):
    code = 409
    template = "An allocation with name {name} already exists."


class AllocationFailed(IronicError):
    code = 500
    template = "Failed to process allocation {uuid}: {error}."


class AllocationLost(Conflict):
    """Only ever seen by the worker that looks for a node: it has to stop."""

    code = 409
    template = (
        "Allocation {allocation} is settled, or another conductor's to settle (state {state})."
    )


class DeployTemplateNotFound(NotFound):
    code = 404
    template = "Deploy template {template} could not be found."


class DeployTemplateAlreadyExists(Conflict):
    code = 409
    template = "A deploy template with UUID {uuid} already exists."


class DeployTemplateDuplicateName(Conflict):
    code = 409
    template = "A deploy template with name {name} already exists."


class InvalidDeployTemplate(Invalid):
    code = 400
    template = "Deploy template invalid: {err}."


class RunbookNotFound(NotFound):
    code = 404
    template = "Runbook {runbook} could not be found."


class RunbookAlreadyExists(Conflict):
    code = 409
    template = "A runbook with UUID {uuid} already exists."


class RunbookDuplicateName(Conflict):
    code = 409
    template = "A runbook with name {name} already exists."


class InvalidRunbook(Invalid):
    code = 400
    template = "Runbook invalid: {err}."


class RuleNotFound(NotFound):
    code = 404
    template = "Inspection rule {rule} could not be found."


class InspectionRuleAlreadyExists(Conflict):
    code = 409
    template = "An inspection rule with UUID {uuid} already exists."


class BIOSSettingNotFound(NotFound):
    code = 404
    template = "Node {node} doesn't have a BIOS setting '{name}'."


class BIOSSettingListNotFound(NotFound):
    code = 404
    template = "Node {node} doesn't have BIOS settings '{names}'."


class BIOSSettingAlreadyExists(Conflict):
    code = 409
    template = "A BIOS setting {name} for node {node} already exists."


class FirmwareComponentNotFound(NotFound):
    code = 404
    template = "Node {node} doesn't have firmware component '{name}'."


class FirmwareComponentAlreadyExists(Conflict):
    code = 409
    template = "Firmware component {name} already exists for node {node}."


class IncompleteLookup(Invalid):
    code = 400
    template = "At least one of 'addresses' and 'node_uuid' parameters is required."


class SwiftObjectStillExists(IronicError):
    code = 500
    template = "Swift object {obj} of node {node} still exists."


class StorageError(IronicError):
    code = 500
    template = "Storage operation failure."


class DatabaseVersionTooOld(IronicError):
    code = 500
    template = "Database schema is too old: run the database upgrade first."


class IncompatibleObjectVersion(IronicError):
    code = 500
    template = (
        "Record of version {version} can not be used by this release (supported: {supported})."
    )
