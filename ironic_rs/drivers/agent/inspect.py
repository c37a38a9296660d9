"""Inspect interface ``agent``: the machine boots a ramdisk that posts what it finds.

Hooks (:mod:`ironic_rs.inspection.hooks`) make properties and ports of it; what is
common to all kinds of inspection (rules, storing) is done by the conductor's flow.

Source: specification inspection.md section 1, drivers.md section 15, agent-protocol.md
section 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.conf.types import parse_kernel_parameters
from ironic_rs.domain import errors, names, states
from ironic_rs.drivers import base, fast_track
from ironic_rs.drivers.agent import logs
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.inspection import addresses
from ironic_rs.inspection.hooks import base as hooks
from ironic_rs.inspection.hooks import ports as port_hook
from ironic_rs.integrations import own_api

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: driver_internal_info keys: whether the boot for the inspection is ours to end, and
#: by which addresses of its BMC the node is found.
_MANAGED = "inspector_manage_boot"
_ADDRESSES = "lookup_bmc_addresses"


class AgentInspect(base.InspectInterface):
    """In-band inspection, by virtual media or over the network."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks = hooks.load("[inspector]hooks", CONF.inspector.hooks)

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        """Check that the ramdisk can be booted, where it must be us who boots it.

        :raises UnsupportedDriverExtension: the boot or the network interface can not.
        """
        if not CONF.inspector.require_managed_boot:
            return
        if not task.ports and _may_find_ports(task):
            # What a network boot needs is only there once the BMC was asked.
            return
        _validate_boot(task)

    @require_exclusive_lock
    def inspect_hardware(self, task: Task) -> str:
        """Boot the ramdisk.

        :raises HardwareInspectionFailure: not possible.
        """
        try:
            if CONF.inspector.pre_create_ports:
                _create_ports(task)
            managed = _is_managed(task)
            info = task.node.driver_internal_info
            info[_MANAGED] = managed
            info[_ADDRESSES] = addresses.of_bmc(task.node)
            task.save()
            if managed:
                _start_managed(task)
            else:
                _start_unmanaged(task)
        except errors.LockLost:
            raise
        except errors.IronicError as exc:
            raise errors.HardwareInspectionFailure(
                error=f"unable to start inspection: {exc}"
            ) from exc
        return states.INSPECTWAIT

    @require_exclusive_lock
    def continue_inspection(
        self, task: Task, inventory: dict[str, Any], plugin_data: dict[str, Any] | None = None
    ) -> str | None:
        """Run the hooks on what the ramdisk has posted, then end its boot.

        :raises HardwareInspectionFailure: a hook or the clean-up failed.
        """
        data = {} if plugin_data is None else plugin_data
        collect = CONF.agent.deploy_logs_collect
        try:
            hooks.run(self._hooks, task, inventory, data)
        except errors.HardwareInspectionFailure as exc:
            if collect != "never":
                logs.keep(task.node, data.get("logs"))
            raise errors.HardwareInspectionFailure(
                error=f"failed to run inspection hooks: {exc.fields.get('error') or exc}"
            ) from exc
        if collect == "always":
            logs.keep(task.node, data.get("logs"))
        task.node.driver_internal_info.pop(_ADDRESSES, None)
        _end(task)
        return None

    def abort(self, task: Task) -> None:
        """Stop the ramdisk; also after a failure, whatever was done already.

        :raises HardwareInspectionFailure: a part of it failed, the others were done.
        """
        task.node.driver_internal_info.pop(_ADDRESSES, None)
        # A machine that called by itself is not ours to switch.
        _end(task, always_off=task.node.provision_state != states.ENROLL)


def _validate_boot(task: Task) -> None:
    task.driver.boot.validate_inspection(task)
    task.driver.network.validate_inspection(task)


def _is_managed(task: Task) -> bool:
    """Tell whether boot and network interface can boot the ramdisk.

    :raises UnsupportedDriverExtension: they can not, and must.
    """
    try:
        _validate_boot(task)
    except errors.UnsupportedDriverExtension as exc:
        if CONF.inspector.require_managed_boot:
            raise
        LOG.info("Node %s: its boot for inspection is not managed: %s", task.node.uuid, exc)
        return False
    return True


def _may_find_ports(task: Task) -> bool:
    """Tell whether the BMC may know the network cards of a node without ports."""
    able = type(task.driver.management).get_mac_addresses
    return (
        CONF.inspector.pre_create_ports and able is not base.ManagementInterface.get_mac_addresses
    )


def _create_ports(task: Task) -> None:
    """Create ports for the network cards that the BMC knows; the look-up finds them."""
    node = task.node
    try:
        found = task.driver.management.get_mac_addresses(task)
    except errors.UnsupportedDriverExtension:
        return
    except errors.LockLost:
        raise
    except errors.IronicError as exc:
        # The ramdisk will tell them; only finding the node may depend on them.
        LOG.warning("Node %s: its MAC addresses are not known: %s", node.uuid, exc)
        return
    if not found:
        LOG.warning("Node %s: the BMC knows no MAC addresses", node.uuid)
    known = {str(port.address) for port in task.ports}
    for text in found:
        address = names.normalize_mac(text)
        if address is None:
            LOG.warning("Node %s: %r is no MAC address, left out", node.uuid, text)
        elif address not in known:
            known.add(address)
            port_hook.create(node, address)
            task.ports = None


def _callback_url() -> str:
    url = own_api.url()
    return f"{url}/continue_inspection" if url.endswith("/v1") else f"{url}/v1/continue_inspection"


def _start_managed(task: Task) -> None:
    driver = task.driver
    params = parse_kernel_parameters(CONF.inspector.extra_kernel_params)
    params["ipa-inspection-callback-url"] = _callback_url()
    if CONF.inspector.force_dhcp:
        params.setdefault("ipa-collect-lldp", "1")
    if fast_track.enabled(task.node):
        # The ramdisk stays, for the next flow to use.
        params["ipa-api-url"] = own_api.url()
    with task.flows.power_off_and_on():
        driver.network.add_inspection_network(task)
        driver.boot.prepare_ramdisk(task, params)


def _start_unmanaged(task: Task) -> None:
    with task.flows.power_off_and_on():
        task.flows.set_boot_device("pxe", persistent=False)


def _end(task: Task, *, always_off: bool = False) -> None:
    """End the boot of the ramdisk, and power off.

    :param always_off: also a machine whose boot is not ours.
    :raises HardwareInspectionFailure: with all that failed.
    """
    node, boot, network = task.node, task.driver.boot, task.driver.network
    managed = bool(node.driver_internal_info.pop(_MANAGED, False))
    todo: list[tuple[str, Callable[[], object]]] = []
    if managed:
        todo = [
            ("end the boot of the ramdisk", lambda: boot.clean_up_ramdisk(task)),
            (
                "leave the inspection network",
                lambda: network.remove_inspection_network(task),
            ),
        ]
    if (managed or always_off) and CONF.inspector.power_off and not fast_track.in_use(task):
        state = states.REBOOT if node.disable_power_off else states.POWER_OFF
        todo.append((f"request {state}", lambda: task.flows.power(state)))
    problems = []
    for what, action in todo:
        try:
            action()
        except errors.LockLost:
            raise
        except errors.IronicError as exc:
            LOG.error("Node %s: could not %s: %s", node.uuid, what, exc)
            problems.append(f"could not {what}: {exc}")
    if problems:
        raise errors.HardwareInspectionFailure(error="; ".join(problems))
