"""Errors of conductors, drivers, BMCs, agents, images and networks."""

from __future__ import annotations

from ironic_rs.domain.errors.base import (
    Conflict,
    Invalid,
    InvalidParameterValue,
    IronicError,
    NotAuthorized,
    NotFound,
)


class ConductorNotFound(NotFound):
    code = 404
    template = "Conductor {conductor} could not be found."


class ConductorAlreadyRegistered(IronicError):
    code = 500
    template = "Conductor {conductor} already registered."


class ConductorHardwareInterfacesAlreadyRegistered(IronicError):
    code = 500
    template = (
        "At least one of these (hardware type, interface type, interface) "
        "combinations are already registered for this conductor: {row}"
    )


class DriverNotFound(NotFound):
    code = 404
    template = "Could not find the following driver(s) or hardware type(s): {driver_name}."


class DriverNotFoundInEntrypoint(DriverNotFound):
    code = 404
    template = "Could not find the following items in the '{entrypoint}' entrypoint: {names}."


class DriverLoadError(IronicError):
    code = 500
    template = "Driver, hardware type or interface {driver} could not be loaded. Reason: {reason}."


class NoDriversLoaded(IronicError):
    code = 500
    template = (
        "Conductor {conductor} cannot be started because no hardware types "
        "were loaded. Set [DEFAULT]enabled_hardware_types."
    )


class DriverOperationError(IronicError):
    code = 500
    template = "Runtime driver failure: {reason}"


class InterfaceNotFoundInEntrypoint(InvalidParameterValue):
    code = 400
    template = (
        "Could not find the following interface in the '{entrypoint}' "
        "entrypoint: {iface}. Valid interfaces are {valid}."
    )


class IncompatibleInterface(InvalidParameterValue):
    code = 400
    template = (
        "{interface_type} interface implementation '{interface_impl}' is not "
        "supported by hardware type {hardware_type}."
    )


class NoValidDefaultForInterface(InvalidParameterValue):
    code = 400
    template = (
        "No default value found for {interface_type} interface{node_info}: "
        "hardware type {driver} supports none of the enabled ones."
    )


class UnsupportedDriverExtension(Invalid):
    code = 400
    template = "Driver {driver} does not support {extension} (disabled or not implemented)."


class UnsupportedHardwareFeature(Invalid):
    code = 400
    template = (
        "Node {node} hardware does not support feature {feature}, which is "
        "required based on the requested configuration."
    )


class VendorPassthruException(IronicError):
    code = 500
    template = "Vendor passthru failed: {reason}"


class AgentAPIError(IronicError):
    code = 500
    template = "Agent API for node {node} returned HTTP status code {status} with error: {error}"


class AgentConnectionFailed(IronicError):
    code = 500
    template = "Connection to agent failed: {reason}"


class AgentCommandTimeout(IronicError):
    code = 500
    template = "Timeout executing command {command} on node {node}."


class AgentInProgress(IronicError):
    code = 500
    template = (
        'Node {node} command "{command}" failed. Agent is presently executing '
        "a command. Error: {error}"
    )


class ImageNotFound(NotFound):
    code = 404
    template = "Image {image_id} could not be found."


class ImageNotAuthorized(NotAuthorized):
    code = 403
    template = "Not authorized for image {image_id}."


class ImageRefValidationFailed(InvalidParameterValue):
    code = 400
    template = "Validation of image href {image_href} failed, reason: {reason}"


class InvalidImageRef(InvalidParameterValue):
    code = 400
    template = "Invalid image href {image_href}."


class InvalidImage(InvalidParameterValue):
    code = 400
    template = "The requested image is not valid for use: {reason}"


class ImageCreationFailed(IronicError):
    code = 500
    template = "Creating {image_type} image failed: {error}"


class ImageConvertFailed(IronicError):
    code = 500
    template = "Image {image_id} is unacceptable: {reason}"


class ImageDownloadFailed(IronicError):
    code = 500
    template = "Failed to download image {image_href}, reason: {reason}"


class ImageChecksumError(InvalidImage):
    code = 400
    template = "The supplied image checksum is invalid or does not match: {reason}"


class InsufficientDiskSpace(IronicError):
    code = 500
    template = (
        "Disk volume where '{path}' is located doesn't have enough disk space. "
        "Required {required} MiB, only {actual} MiB available."
    )


class ConfigInvalid(IronicError):
    code = 500
    template = "Invalid configuration file. {error_msg}"


class IncorrectConfiguration(IronicError):
    code = 500
    template = "Configuration is incorrect: {error}"


class RedfishError(IronicError):
    code = 500
    template = "Redfish exception occurred. Error: {error}"


class RedfishConnectionError(RedfishError):
    code = 500
    template = "Redfish connection failed for node {node}: {error}"


class IPMIFailure(IronicError):
    code = 500
    template = "IPMI call failed: {cmd}."


class DHCPLoadError(IronicError):
    code = 500
    template = "DHCP provider {provider} could not be loaded. Reason: {reason}."


class ConsoleError(IronicError):
    code = 500
    template = "Console operation failed: {error}"


class ConsoleSubprocessFailed(ConsoleError):
    code = 500
    template = "Console subprocess of node {node} failed: {error}"


class NoFreeIPMITerminalPorts(IronicError):
    code = 503
    template = "No free port for a console on {host}: all of [console]port_range are in use."


class SensorDataError(IronicError):
    code = 500
    template = "Failed to get sensor data for node {node}. Error: {error}"


class FailedToGetSensorData(SensorDataError):
    code = 500
    template = "Failed to get sensor data for node {node}. Error: {error}"


class FailedToParseSensorData(SensorDataError):
    code = 500
    template = "Failed to parse sensor data for node {node}. Error: {error}"


class NetworkError(IronicError):
    code = 500
    template = "Network operation failure."


class FailedToUpdateMacOnPort(NetworkError):
    code = 500
    template = "Update MAC address on port {port_id} failed."


class FailedToUpdateDHCPOptOnPort(NetworkError):
    code = 500
    template = "Update DHCP options on port {port_id} failed."


class VifAlreadyAttached(Conflict):
    code = 409
    template = (
        "Unable to attach VIF because VIF {vif} is already attached to {object_type} {object_uuid}."
    )


class VifInvalidForAttach(Conflict):
    code = 409
    template = "Unable to attach VIF {vif} to node {node}. Reason: {reason}"


class VifNotAttached(Invalid):
    code = 400
    template = "Unable to detach VIF {vif} from node {node} because it is not attached to it."


class NoFreePhysicalPorts(Invalid):
    code = 400
    template = "Unable to attach VIF {vif}, not enough free physical ports."
