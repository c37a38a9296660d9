"""What the API (and a conductor itself) may ask of conductors.

One method per RPC method of specification data/rpc-methods.json.  Methods about
a node take the node, anything with ``uuid``, ``driver`` and ``conductor_group``
as attributes or keys, and find its conductor on the hash ring.

Source: specification conductor.md sections 1.2 and 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ironic_rs.conf import CONF
from ironic_rs.rpc import versions
from ironic_rs.rpc.calls import Json, Patch, field
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.record_calls import RecordCalls
from ironic_rs.rpc.registry import version_tuple

#: Arguments of heartbeat that older conductors do not know, with their first version.
_HEARTBEAT_SINCE = {
    "agent_version": "1.42",
    "agent_token": "1.49",
    "agent_verify_ca": "1.51",
    "agent_status": "1.54",
    "agent_status_message": "1.54",
}


class ConductorClient(RecordCalls):
    """Calls conductors.

    Every method raises what the conductor raised, and besides:

    * NoValidHost (404; 400 for node create, patch and delete, VIFs, virtual media,
      lookup, heartbeat and continue_inspection): no conductor of the node's group
      serves its driver;
    * TemporaryFailure 503: no conductor is alive;
    * ServiceUnavailable 503: the conductor or the message broker does not answer.
    """

    # Nodes

    def create_node(self, context: RequestContext, node: Mapping[str, Any]) -> Json:
        """Insert a node; its interfaces get their defaults.

        :param node: columns; ``uuid``, ``driver`` and ``conductor_group`` are needed.
        :returns: ``{"uuid": ...}``.
        """
        host = self.host_for(node, code=400)
        reply: Json = self._transport.call(
            host, "create_node", {"node": dict(node)}, context, version="1.36"
        )
        return reply

    def update_node(
        self, context: RequestContext, node: Any, patch: Patch, reset_interfaces: bool = False
    ) -> None:
        """Apply a JSON patch on column names to the record, under its lock."""
        self._node(
            context,
            node,
            "update_node",
            "1.46" if reset_interfaces else "1.1",
            missing=400,
            patch=list(patch),
            reset_interfaces=reset_interfaces,
        )

    def destroy_node(self, context: RequestContext, node: Any) -> None:
        """Delete a node and all that hangs on it."""
        self._node(context, node, "destroy_node", "1.9", missing=400)

    def validate_driver_interfaces(self, context: RequestContext, node: Any) -> Json:
        """Return interface type -> ``{"result": bool, "reason": text}``."""
        reply: Json = self._node(context, node, "validate_driver_interfaces", "1.5")
        return reply

    def add_node_traits(
        self, context: RequestContext, node: Any, traits: Sequence[str], replace: bool = False
    ) -> None:
        """Add traits, or replace them all."""
        self._node(context, node, "add_node_traits", "1.44", traits=list(traits), replace=replace)

    def remove_node_traits(
        self, context: RequestContext, node: Any, traits: Sequence[str] | None
    ) -> None:
        """Remove the named traits; None removes all."""
        self._node(
            context,
            node,
            "remove_node_traits",
            "1.44",
            traits=None if traits is None else list(traits),
        )

    # Power and boot

    def change_node_power_state(
        self, context: RequestContext, node: Any, new_state: str, timeout: int | None = None
    ) -> None:
        """Start a power action; returns when a worker has it.

        :param timeout: seconds for a soft action.
        """
        self._node(
            context, node, "change_node_power_state", "1.39", new_state=new_state, timeout=timeout
        )

    def change_node_boot_mode(self, context: RequestContext, node: Any, new_state: str) -> None:
        """Start to switch the boot mode (``bios`` or ``uefi``)."""
        self._node(context, node, "change_node_boot_mode", "1.55", new_state=new_state)

    def change_node_secure_boot(self, context: RequestContext, node: Any, new_state: bool) -> None:
        """Start to switch secure boot on or off."""
        self._node(context, node, "change_node_secure_boot", "1.55", new_state=new_state)

    def set_boot_device(
        self, context: RequestContext, node: Any, device: str, persistent: bool = False
    ) -> None:
        """Set the boot device of the next boot, or of all."""
        self._node(context, node, "set_boot_device", "1.17", device=device, persistent=persistent)

    def get_boot_device(self, context: RequestContext, node: Any) -> Json:
        """Return ``{"boot_device": name, "persistent": bool}``, both may be None."""
        reply: Json = self._node(context, node, "get_boot_device", "1.17")
        return reply

    def get_supported_boot_devices(self, context: RequestContext, node: Any) -> list[str]:
        """Return the names of the boot devices that the node can use."""
        reply: list[str] = self._node(context, node, "get_supported_boot_devices", "1.17")
        return reply

    def inject_nmi(self, context: RequestContext, node: Any) -> None:
        """Send a non-maskable interrupt."""
        self._node(context, node, "inject_nmi", "1.40")

    def get_indicator_state(
        self, context: RequestContext, node: Any, component: str, indicator: str
    ) -> str:
        """Return the state of an indicator light."""
        reply: str = self._node(
            context,
            node,
            "get_indicator_state",
            "1.50",
            component=component,
            indicator=indicator,
        )
        return reply

    def set_indicator_state(
        self, context: RequestContext, node: Any, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator light."""
        self._node(
            context,
            node,
            "set_indicator_state",
            "1.50",
            component=component,
            indicator=indicator,
            state=state,
        )

    def get_supported_indicators(
        self, context: RequestContext, node: Any, component: str | None = None
    ) -> Json:
        """Return component -> indicator -> ``{"readonly": bool, "states": [...]}``."""
        reply: Json = self._node(
            context, node, "get_supported_indicators", "1.50", component=component
        )
        return reply

    # Provisioning

    def do_node_deploy(
        self,
        context: RequestContext,
        node: Any,
        rebuild: bool = False,
        configdrive: str | Mapping[str, Any] | None = None,
        deploy_steps: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Start a deployment."""
        arguments: Json = {"rebuild": rebuild, "configdrive": configdrive}
        version = "1.22"
        if deploy_steps:
            arguments["deploy_steps"] = list(deploy_steps)
            version = "1.52"
        self._node(context, node, "do_node_deploy", version, **arguments)

    def do_node_tear_down(self, context: RequestContext, node: Any) -> None:
        """Start a tear down."""
        self._node(context, node, "do_node_tear_down", "1.6")

    def do_provisioning_action(self, context: RequestContext, node: Any, action: str) -> None:
        """Start ``manage``, ``provide``, ``adopt``, ``abort`` or ``unhold``."""
        self._node(context, node, "do_provisioning_action", "1.23", action=action)

    def do_node_clean(
        self,
        context: RequestContext,
        node: Any,
        clean_steps: Sequence[Mapping[str, Any]],
        disable_ramdisk: bool = False,
    ) -> None:
        """Start a manual cleaning."""
        arguments: Json = {"clean_steps": list(clean_steps)}
        version = "1.32"
        if disable_ramdisk:
            arguments["disable_ramdisk"] = disable_ramdisk
            version = "1.53"
        self._node(context, node, "do_node_clean", version, **arguments)

    def do_node_service(
        self,
        context: RequestContext,
        node: Any,
        service_steps: Sequence[Mapping[str, Any]],
        disable_ramdisk: bool | None = False,
    ) -> None:
        """Start a servicing."""
        self._node(
            context,
            node,
            "do_node_service",
            "1.57",
            service_steps=list(service_steps),
            disable_ramdisk=disable_ramdisk,
        )

    def do_node_rescue(self, context: RequestContext, node: Any, rescue_password: str) -> None:
        """Start a rescue."""
        self._node(context, node, "do_node_rescue", "1.43", rescue_password=rescue_password)

    def do_node_unrescue(self, context: RequestContext, node: Any) -> None:
        """Start to leave the rescue ramdisk."""
        self._node(context, node, "do_node_unrescue", "1.43")

    def inspect_hardware(self, context: RequestContext, node: Any) -> None:
        """Start an inspection."""
        self._node(context, node, "inspect_hardware", "1.24")

    def set_target_raid_config(
        self, context: RequestContext, node: Any, target_raid_config: Mapping[str, Any]
    ) -> None:
        """Check and store the wanted RAID configuration."""
        self._node(
            context,
            node,
            "set_target_raid_config",
            "1.30",
            target_raid_config=dict(target_raid_config),
        )

    # Agents

    def get_node_with_token(self, context: RequestContext, node: Any) -> Json:
        """Return ``{"uuid": ..., "agent_secret_token": ...}``; the token is told once."""
        reply: Json = self._node(context, node, "get_node_with_token", "1.49", missing=400)
        return reply

    def heartbeat(
        self,
        context: RequestContext,
        node: Any,
        callback_url: str,
        agent_version: str | None,
        *,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Hand on a heartbeat of the ramdisk; returns when a worker has it."""
        highest = versions.cap(CONF)
        optional = {
            "agent_version": agent_version,
            "agent_token": agent_token,
            "agent_verify_ca": agent_verify_ca,
            "agent_status": agent_status,
            "agent_status_message": agent_status_message,
        }
        known = {n: v for n, v in optional.items() if versions.fits(_HEARTBEAT_SINCE[n], highest)}
        version = max(("1.34", *(_HEARTBEAT_SINCE[n] for n in known)), key=version_tuple)
        self._node(
            context,
            node,
            "heartbeat",
            version,
            missing=400,
            callback_url=callback_url,
            **known,
        )

    def continue_inspection(
        self,
        context: RequestContext,
        node: Any,
        inventory: Mapping[str, Any],
        plugin_data: Mapping[str, Any] | None = None,
    ) -> None:
        """Hand on what the ramdisk found; returns when a worker has it."""
        self._node(
            context,
            node,
            "continue_inspection",
            "1.56",
            missing=400,
            inventory=dict(inventory),
            plugin_data=None if plugin_data is None else dict(plugin_data),
        )

    def continue_node(self, context: RequestContext, node: Any, kind: str) -> None:
        """Ask this very host to go on with a flow (a cast; for conductors only).

        Release the task before: the cast waits for the lock of the node.

        :param kind: ``clean``, ``deploy`` or ``service``.
        """
        version = {"clean": "1.27", "deploy": "1.45", "service": "1.60"}[kind]
        self._transport.cast(
            self._transport.identity(CONF.host),
            f"continue_node_{kind}",
            {"node_id": field(node, "uuid")},
            context,
            version=version,
        )

    # VIFs and virtual media

    def vif_list(self, context: RequestContext, node: Any) -> list[Json]:
        """Return ``[{"id": vif}, ...]``."""
        reply: list[Json] = self._node(context, node, "vif_list", "1.38", missing=400)
        return reply

    def vif_attach(self, context: RequestContext, node: Any, vif_info: Mapping[str, Any]) -> None:
        """Attach a VIF."""
        self._node(context, node, "vif_attach", "1.38", missing=400, vif_info=dict(vif_info))

    def vif_detach(self, context: RequestContext, node: Any, vif_id: str) -> None:
        """Detach a VIF."""
        self._node(context, node, "vif_detach", "1.38", missing=400, vif_id=vif_id)

    def get_virtual_media(self, context: RequestContext, node: Any) -> list[Json]:
        """Return the virtual media devices as the driver reports them."""
        reply: list[Json] = self._node(context, node, "get_virtual_media", "1.61", missing=400)
        return reply

    def attach_virtual_media(
        self,
        context: RequestContext,
        node: Any,
        device_type: str,
        image_url: str,
        image_download_source: str = "local",
    ) -> None:
        """Start to insert an image.

        :param device_type: ``cdrom``, ``disk`` or ``floppy``.
        :param image_download_source: ``local``, ``http`` or ``swift`` (W33: sent on).
        """
        self._node(
            context,
            node,
            "attach_virtual_media",
            "1.59",
            missing=400,
            device_type=device_type,
            image_url=image_url,
            image_download_source=image_download_source,
        )

    def detach_virtual_media(
        self, context: RequestContext, node: Any, device_types: Sequence[str] | None = None
    ) -> None:
        """Start to eject what is in devices of these types, of all types when None."""
        self._node(
            context,
            node,
            "detach_virtual_media",
            "1.59",
            missing=400,
            device_types=None if device_types is None else list(device_types),
        )

    # Consoles

    def get_console_information(self, context: RequestContext, node: Any) -> Json:
        """Return ``{"type": ..., "url": ...}``."""
        reply: Json = self._node(context, node, "get_console_information", "1.11")
        return reply

    def set_console_mode(self, context: RequestContext, node: Any, enabled: bool) -> None:
        """Start to switch the console."""
        self._node(context, node, "set_console_mode", "1.11", enabled=enabled)

    # Vendor passthru and drivers

    def vendor_passthru(
        self,
        context: RequestContext,
        node: Any,
        driver_method: str,
        http_method: str,
        info: Mapping[str, Any],
    ) -> Json:
        """Run a vendor method of a node; returns ``{"return", "async", "attach"}``."""
        reply: Json = self._node(
            context,
            node,
            "vendor_passthru",
            "1.20",
            driver_method=driver_method,
            http_method=http_method,
            info=dict(info),
        )
        return reply

    def get_node_vendor_passthru_methods(self, context: RequestContext, node: Any) -> Json:
        """Return method -> its description."""
        reply: Json = self._node(context, node, "get_node_vendor_passthru_methods", "1.21")
        return reply

    def driver_vendor_passthru(
        self,
        context: RequestContext,
        driver_name: str,
        driver_method: str,
        http_method: str,
        info: Mapping[str, Any],
    ) -> Json:
        """Run a vendor method of a hardware type."""
        reply: Json = self._driver(
            context,
            driver_name,
            "driver_vendor_passthru",
            "1.20",
            driver_method=driver_method,
            http_method=http_method,
            info=dict(info),
        )
        return reply

    def get_driver_vendor_passthru_methods(self, context: RequestContext, driver_name: str) -> Json:
        """Return method -> its description."""
        reply: Json = self._driver(
            context, driver_name, "get_driver_vendor_passthru_methods", "1.21"
        )
        return reply

    def get_driver_properties(self, context: RequestContext, driver_name: str) -> dict[str, str]:
        """Return property -> description of the default interfaces of a hardware type."""
        reply: dict[str, str] = self._driver(context, driver_name, "get_driver_properties", "1.16")
        return reply

    def get_raid_logical_disk_properties(
        self, context: RequestContext, driver_name: str
    ) -> dict[str, str]:
        """Return property -> description of logical disks of a hardware type."""
        reply: dict[str, str] = self._driver(
            context, driver_name, "get_raid_logical_disk_properties", "1.30"
        )
        return reply
