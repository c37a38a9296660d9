"""What a driver is: one abstract class per interface type, and the driver of a node.

Interfaces are singletons shared by all nodes and threads: they keep no state.
They return or raise; provision states are decided by the conductor's flows.
Every method takes the task (:class:`ironic_rs.drivers.contract.Task`) first.

Source: specification drivers.md section 2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_log import log

from ironic_rs.domain import ramdisk
from ironic_rs.drivers.interface import (
    CORE_INTERFACES,
    INTERFACE_TYPES,
    OPTIONAL_INTERFACES,
    BaseInterface,
    Properties,
)
from ironic_rs.drivers.machine import (
    BIOSInterface,
    ConsoleInterface,
    FirmwareInterface,
    ManagementInterface,
    PowerInterface,
    RAIDInterface,
    VendorInterface,
    VendorRoute,
)

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.hardware.base import HardwareType

LOG = log.getLogger(__name__)

__all__ = [
    "CORE_INTERFACES",
    "INTERFACE_TYPES",
    "OPTIONAL_INTERFACES",
    "BIOSInterface",
    "BareDriver",
    "BaseInterface",
    "BootInterface",
    "ConsoleInterface",
    "DeployInterface",
    "FirmwareInterface",
    "ImagePublisherSettings",
    "InspectInterface",
    "ManagementInterface",
    "NetworkInterface",
    "PowerInterface",
    "Properties",
    "RAIDInterface",
    "RescueInterface",
    "StorageInterface",
    "VendorInterface",
    "VendorRoute",
]


class DeployInterface(BaseInterface):
    """Puts an image on the machine and takes it off again."""

    interface_type = "deploy"

    @abstractmethod
    def deploy(self, task: Task) -> str | None:
        """Core deploy step (priority 100); DEPLOYWAIT when a ramdisk has to boot."""

    @abstractmethod
    def tear_down(self, task: Task) -> str:
        """Undeploy, after :meth:`clean_up`.  Returns ``deleted``."""

    @abstractmethod
    def prepare(self, task: Task) -> None:
        """Make ready before the deploy steps, or take over an active node.  Idempotent."""

    @abstractmethod
    def clean_up(self, task: Task) -> None:
        """Remove what deployment left on the conductor.  Idempotent, works on shared tasks."""

    @abstractmethod
    def take_over(self, task: Task) -> None:
        """Become the conductor of an active node; called after :meth:`prepare`."""

    def prepare_cleaning(self, task: Task) -> str | None:
        """Start cleaning; CLEANWAIT when a ramdisk has to boot."""
        return None

    def tear_down_cleaning(self, task: Task) -> None:
        """End cleaning, also a failed one."""

    def prepare_service(self, task: Task) -> str | None:
        """Start servicing; SERVICEWAIT when a ramdisk has to boot."""
        return None

    def tear_down_service(self, task: Task) -> None:
        """End servicing and boot the instance again."""

    def heartbeat(
        self,
        task: Task,
        callback_url: str,
        agent_version: str | None,
        *,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Act on a heartbeat of the ramdisk (in a worker).

        :param agent_verify_ca: path of the certificate that the agent has sent.
        """
        LOG.warning(
            "Node %s sent a heartbeat, but deploy interface %s does not support them",
            task.node.uuid,
            task.node.deploy_interface,
        )

    def switch_interface(self, task: Task) -> None:
        """Replace this interface by the one that fits the node (autodetect)."""

    def restore_interface(self, task: Task) -> None:
        """Put the interface back that :meth:`switch_interface` replaced."""
        original = task.node.driver_internal_info.pop("original_deploy_interface", None)
        if original is not None:
            task.node.deploy_interface = original
            task.save()

    def supports_deploy(self, task: Task) -> bool:
        """Tell autodetect whether this interface can deploy the node."""
        return True


@dataclass(frozen=True)
class ImagePublisherSettings:
    """How boot images of a boot interface are published.

    :param container: Swift container.
    :param timeout: seconds that the object lives in Swift.
    :param image_subdir: directory below ``[deploy]http_root``.
    :param file_permission: mode bits of a published file.
    :param kernel_params: default kernel parameters.
    """

    swift_enabled: bool = False
    container: str | None = None
    timeout: int | None = None
    image_subdir: str | None = None
    file_permission: int = 0o644
    kernel_params: str = ""


class BootInterface(BaseInterface):
    """Boots the ramdisk and the instance."""

    interface_type = "boot"
    #: Of ipxe_boot, pxe_boot, ramdisk_boot, iscsi_volume_boot, ramdisk_boot_configdrive.
    capabilities: ClassVar[Sequence[str]] = ()

    @property
    def image_publisher_settings(self) -> ImagePublisherSettings | None:
        """How boot images are published; None when the interface publishes none."""
        return None

    @abstractmethod
    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str | None]) -> None:
        """Make the next boot run the ramdisk with these kernel parameters.

        :param ramdisk_params: None stands for a key alone.
        """

    @abstractmethod
    def clean_up_ramdisk(self, task: Task) -> None:
        """Undo :meth:`prepare_ramdisk`."""

    def missing_medium(self, task: Task) -> str | None:
        """Return where the medium of the ramdisk should be and is not, as seen last.

        For the text after a vain wait; takes a few seconds at most.  None when it is
        there, there is no medium, or nobody knows.
        """
        slot = task.node.driver_internal_info.get(ramdisk.MEDIUM_NOT_SHOWN)
        return None if slot is None else str(slot)

    @abstractmethod
    def prepare_instance(self, task: Task) -> None:
        """Make the next boots run the instance; a deployment's ramdisk may still run."""

    def after_ramdisk(self, task: Task) -> None:
        """Take away what the ramdisk of a deployment needed until it stopped, just now.

        Comes after :meth:`prepare_instance`.  Nothing by default.
        """

    @abstractmethod
    def clean_up_instance(self, task: Task) -> None:
        """Undo :meth:`prepare_instance`."""

    def validate_rescue(self, task: Task) -> None:
        """Check that the rescue ramdisk can be booted."""
        raise self._unsupported(task, "validate_rescue")

    def validate_inspection(self, task: Task) -> None:
        """Check that the ramdisk can be booted for inspection.

        :raises UnsupportedDriverExtension: inspection must be unmanaged.
        """
        raise self._unsupported(task, "validate_inspection")


class NetworkInterface(BaseInterface):
    """Connects the machine to provisioning, tenant and other networks.

    ``add_*_network`` of cleaning, rescuing, inspection and servicing return
    {port uuid: network service port id}.
    """

    interface_type = "network"
    #: [] or ["metadata"] (network data for the config drive can be generated).
    capabilities: ClassVar[Sequence[str]] = ()
    #: True: switches are configured, so the links of ports to them have to be known.
    configures_switches: ClassVar[bool] = False

    @abstractmethod
    def port_changed(self, task: Task, port: Any) -> None:
        """Tell the network about changed columns of a port, before it is saved.

        :raises Conflict: the change is not possible now.
        """

    @abstractmethod
    def portgroup_changed(self, task: Task, portgroup: Any) -> None:
        """Tell the network about changed columns of a port group, before it is saved.

        :raises Conflict: the change is not possible now.
        """

    @abstractmethod
    def vif_attach(self, task: Task, vif_info: Mapping[str, Any]) -> None:
        """Attach a virtual interface, ``vif_info["id"]``, to a free port."""

    @abstractmethod
    def vif_detach(self, task: Task, vif_id: str) -> None:
        """Detach a virtual interface.

        :raises VifNotAttached: it is not attached to this node.
        """

    @abstractmethod
    def vif_list(self, task: Task) -> list[dict[str, Any]]:
        """Return [{id}] of the attached virtual interfaces."""

    @abstractmethod
    def get_current_vif(self, task: Task, p_obj: Any) -> str | None:
        """Return the virtual interface that a port or port group uses now."""

    @abstractmethod
    def add_provisioning_network(self, task: Task) -> None:
        """Connect the machine to the provisioning network."""

    @abstractmethod
    def remove_provisioning_network(self, task: Task) -> None:
        """Disconnect the machine from the provisioning network."""

    @abstractmethod
    def add_cleaning_network(self, task: Task) -> dict[str, str]:
        """Connect the machine to the cleaning network."""

    @abstractmethod
    def remove_cleaning_network(self, task: Task) -> None:
        """Disconnect the machine from the cleaning network."""

    @abstractmethod
    def add_rescuing_network(self, task: Task) -> dict[str, str]:
        """Connect the machine to the rescuing network."""

    @abstractmethod
    def remove_rescuing_network(self, task: Task) -> None:
        """Disconnect the machine from the rescuing network."""

    @abstractmethod
    def add_inspection_network(self, task: Task) -> dict[str, str]:
        """Connect the machine to the inspection network."""

    @abstractmethod
    def remove_inspection_network(self, task: Task) -> None:
        """Disconnect the machine from the inspection network."""

    @abstractmethod
    def add_servicing_network(self, task: Task) -> dict[str, str]:
        """Connect the machine to the servicing network."""

    @abstractmethod
    def remove_servicing_network(self, task: Task) -> None:
        """Disconnect the machine from the servicing network."""

    @abstractmethod
    def configure_tenant_networks(self, task: Task) -> None:
        """Connect the machine to the networks of its instance."""

    @abstractmethod
    def unconfigure_tenant_networks(self, task: Task) -> None:
        """Disconnect the machine from the networks of its instance."""

    def validate_rescue(self, task: Task) -> None:
        """Check that the rescuing network is usable."""

    def validate_inspection(self, task: Task) -> None:
        """Check that the inspection network is usable.

        :raises UnsupportedDriverExtension: inspection must be unmanaged.
        """
        raise self._unsupported(task, "validate_inspection")

    def need_power_on(self, task: Task) -> bool:
        """Tell whether network changes need a running machine (Smart NIC)."""
        return False

    def get_node_network_data(self, task: Task) -> dict[str, Any]:
        """Return the network data that the ramdisk gets."""
        return task.node.network_data or {}


class RescueInterface(BaseInterface):
    """Boots an active node into a rescue ramdisk."""

    interface_type = "rescue"

    @abstractmethod
    def rescue(self, task: Task) -> str:
        """Return RESCUEWAIT or RESCUE.

        :raises InstanceRescueFailure: not possible.
        """

    @abstractmethod
    def unrescue(self, task: Task) -> str:
        """Return ACTIVE.

        :raises InstanceUnrescueFailure: not possible.
        """

    def clean_up(self, task: Task) -> None:
        """Remove what rescue left on the conductor."""


class InspectInterface(BaseInterface):
    """Finds out what the machine is made of."""

    interface_type = "inspect"

    @abstractmethod
    def inspect_hardware(self, task: Task) -> str | None:
        """Return MANAGEABLE when done, INSPECTWAIT when it goes on without us.

        :raises HardwareInspectionFailure: not possible.
        """

    def abort(self, task: Task) -> None:
        """Stop a waiting inspection."""
        raise self._unsupported(task, "abort")

    def continue_inspection(
        self, task: Task, inventory: dict[str, Any], plugin_data: dict[str, Any] | None = None
    ) -> str | None:
        """Process what the ramdisk posted; INSPECTWAIT when more is to come."""
        raise self._unsupported(task, "continue_inspection")


class StorageInterface(BaseInterface):
    """Remote volumes."""

    interface_type = "storage"

    @abstractmethod
    def attach_volumes(self, task: Task) -> None:
        """Attach the volumes of the node.

        :raises StorageError: not possible.
        """

    @abstractmethod
    def detach_volumes(self, task: Task) -> None:
        """Detach the volumes of the node.

        :raises StorageError: not possible.
        """

    @abstractmethod
    def should_write_image(self, task: Task) -> bool:
        """Tell whether deployment writes the image to a local disk."""


class BareDriver:
    """The driver of one node: one attribute per interface type.

    Attributes may be replaced on the task's own object (autodetect does so).
    """

    boot: BootInterface
    deploy: DeployInterface
    management: ManagementInterface
    network: NetworkInterface
    power: PowerInterface
    bios: BIOSInterface
    console: ConsoleInterface
    firmware: FirmwareInterface
    inspect: InspectInterface
    raid: RAIDInterface
    rescue: RescueInterface
    storage: StorageInterface
    vendor: VendorInterface

    def __init__(
        self,
        hardware_type: HardwareType,
        interfaces: Mapping[str, BaseInterface],
        find: Callable[[str, str], BaseInterface],
    ) -> None:
        self.hardware_type = hardware_type
        self._find = find
        self.__dict__.update(interfaces)

    def find(self, interface_type: str, name: str) -> BaseInterface:
        """Return another interface that the node could have.

        :raises InvalidParameterValue: not enabled, or it does not fit the hardware type.
        """
        return self._find(interface_type, name)

    def interfaces(self) -> dict[str, BaseInterface]:
        """Return interface type -> interface, in the order of INTERFACE_TYPES."""
        return {name: getattr(self, name) for name in INTERFACE_TYPES}

    def get_properties(self) -> Properties:
        """Return the properties of all interfaces."""
        properties: Properties = {}
        for interface in self.interfaces().values():
            properties.update(interface.get_properties())
        return properties
