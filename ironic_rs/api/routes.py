"""The whole API: one row for each operation.

Columns: method, path, handler, then what differs from the usual (see
:class:`~ironic_rs.api.router.Route`): first version and the status below it, status
of success, policy rules (after the visibility of the node), arguments, the document
that the body is, the document that is answered.

Source: specification rest-api.md section 18, data/api-fields.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ironic_rs.api import notify, traits
from ironic_rs.api.args import DETAIL, FIELDS, PAGE
from ironic_rs.api.documents import Chosen, Listing, New, Patch, Refused, Whole
from ironic_rs.api.microversions import MINIMUM, V
from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.api.steps import STEP_RULE
from ironic_rs.api.v1 import (
    allocations,
    chassis,
    conductors,
    deploy_templates,
    description,
    drivers,
    events,
    inspection_data,
    inspection_rules,
    management,
    node_parts,
    node_states,
    node_update,
    nodes,
    portgroups,
    ports,
    provision,
    ramdisk,
    root,
    runbooks,
    shards,
    virtual_media,
    volumes,
)
from ironic_rs.domain import fields

_LIST_NODES = ("baremetal:node:list_all", "baremetal:node:list")
_LIST_PORTS = ("baremetal:port:list_all", "baremetal:port:list")
_LIST_PORTGROUPS = ("baremetal:portgroup:list_all", "baremetal:portgroup:list")
_LIST_ALLOCATIONS = ("baremetal:allocation:list_all", "baremetal:allocation:list")
_LIST_VOLUMES = ("baremetal:volume:list_all", "baremetal:volume:list")
_LIST_RUNBOOKS = ("baremetal:runbook:list_all", "baremetal:runbook:list")
#: Vendor methods that go on after the answer answer 202.
_VENDOR: dict[str, Any] = {
    "body": management.METHOD_ARGUMENTS,
    "answer": management.METHOD_RESULT,
    "also": (202,),
}
_ALL_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def _node(name: str) -> tuple[str, ...]:
    return (f"baremetal:node:{name}",)


def _rule(name: str) -> tuple[str, ...]:
    return (f"baremetal:{name}",)


# fmt: off
_NODES: tuple[Route, ...] = (
    Route("GET", "/v1/nodes", nodes.list_nodes, policy=_LIST_NODES,
          args=(*nodes.FILTERS, *PAGE, FIELDS, DETAIL), answer=Listing(fields.NODE)),
    Route("GET", "/v1/nodes/detail", nodes.list_nodes_detail, policy=_LIST_NODES,
          args=(*nodes.DETAIL_FILTERS, *PAGE), answer=Listing(fields.NODE, whole=True)),
    Route("POST", "/v1/nodes", nodes.create_node, success=201, body=nodes.NEW,
          policy=("baremetal:node:create", "baremetal:node:create:self_owned_node"),
          answer=Whole(fields.NODE), event=notify.NODE_CREATED),
    Route("GET", "/v1/nodes/validate", nodes.validate_named, policy=_node("validate"),
          args=nodes.VALIDATE_ARGS, answer=nodes.VALIDATION),
    Route("GET", "/v1/nodes/{node}/validate", nodes.validate_node, policy=_node("validate"),
          answer=nodes.VALIDATION),
    Route("GET", "/v1/nodes/{node}", nodes.show_node, args=node_parts.NODE_ARGS,
          answer=Chosen(fields.NODE)),
    Route("PATCH", "/v1/nodes/{node}", node_update.update_node, body=Patch(fields.NODE),
          args=node_update.ARGS, answer=Whole(fields.NODE), sometimes=node_update.RULES,
          event=notify.NODE_UPDATED),
    Route("DELETE", "/v1/nodes/{node}", nodes.delete_node, success=204,
          policy=("baremetal:node:delete", "baremetal:node:delete:self_owned_node"),
          event=notify.NODE_DELETED),
    Route("PUT", "/v1/nodes/{node}/maintenance", nodes.set_maintenance, success=202, body="args",
          policy=_node("set_maintenance"), args=nodes.MAINTENANCE_ARGS,
          event=notify.MAINTENANCE_SET),
    Route("DELETE", "/v1/nodes/{node}/maintenance", nodes.clear_maintenance, success=202,
          policy=_node("clear_maintenance"), event=notify.MAINTENANCE_SET),

    Route("GET", "/v1/nodes/{node}/states", node_states.show_states, policy=_node("get_states"),
          answer=Whole(fields.NODE_STATES)),
    Route("PUT", "/v1/nodes/{node}/states/power", node_states.set_power, success=202, body="args",
          policy=_node("set_power_state"), args=node_states.POWER_ARGS),
    Route("PUT", "/v1/nodes/{node}/states/provision", provision.set_provision, success=202,
          body="args", policy=_node("set_provision_state"), args=provision.ARGS,
          sometimes=provision.RULES),
    Route("PUT", "/v1/nodes/{node}/states/raid", node_states.set_raid, V.RAID, 406, 204,
          body=node_states.RAID, policy=_node("set_raid_state")),
    Route("PUT", "/v1/nodes/{node}/states/boot_mode", node_states.set_boot_mode, V.BOOT_MODE, 404,
          202, body="args", policy=_node("set_boot_mode"), args=node_states.BOOT_MODE_ARGS,
          late=True),
    Route("PUT", "/v1/nodes/{node}/states/secure_boot", node_states.set_secure_boot, V.BOOT_MODE,
          404, 202, body="args", policy=_node("set_secure_boot"),
          args=node_states.SECURE_BOOT_ARGS, late=True),
    Route("GET", "/v1/nodes/{node}/states/console", node_states.show_console,
          policy=_node("get_console"), answer=node_states.CONSOLE),
    Route("GET", "/v1/nodes/states/console/{node}", node_states.show_console,
          policy=_node("get_console"), answer=node_states.CONSOLE),
    Route("PUT", "/v1/nodes/{node}/states/console", node_states.set_console, success=202,
          body="args", policy=_node("set_console_state"), args=node_states.CONSOLE_ARGS),

    Route("GET", "/v1/nodes/{node}/management/boot_device", management.show_boot_device,
          policy=_node("get_boot_device"), answer=management.BOOT_DEVICE),
    Route("PUT", "/v1/nodes/{node}/management/boot_device", management.set_boot_device,
          success=204, body="args", policy=_node("set_boot_device"),
          args=management.BOOT_DEVICE_ARGS),
    Route("GET", "/v1/nodes/{node}/management/boot_device/supported",
          management.list_boot_devices, policy=_node("get_boot_device"),
          answer=management.BOOT_DEVICES),
    Route("PUT", "/v1/nodes/{node}/management/inject_nmi", management.inject_nmi, V.INJECT_NMI,
          404, 204, policy=_node("inject_nmi")),
    Route("GET", "/v1/nodes/{node}/management/indicators", management.list_indicators,
          policy=_node("get_indicator_state"), answer=management.INDICATORS),
    Route("GET", "/v1/nodes/{node}/management/indicators/{indicator}", management.show_indicator,
          policy=_node("get_indicator_state"), answer=management.INDICATOR),
    Route("PUT", "/v1/nodes/{node}/management/indicators/{indicator}", management.set_indicator,
          success=204, body="args", policy=_node("set_indicator_state"),
          args=management.INDICATOR_ARGS),

    Route("GET", "/v1/nodes/{node}/traits", node_parts.show_traits, V.TRAITS, 406,
          policy=_node("traits:list"), answer=traits.SHOWN, etag=True),
    Route("PUT", "/v1/nodes/{node}/traits", node_parts.set_traits, V.TRAITS, 405, 204,
          body=traits.WANTED, policy=_node("traits:set"), event=notify.NODE_UPDATED),
    Route("PUT", "/v1/nodes/{node}/traits/{trait}", node_parts.add_trait, V.TRAITS, 405, 204,
          policy=_node("traits:set"), event=notify.NODE_UPDATED),
    Route("DELETE", "/v1/nodes/{node}/traits", node_parts.remove_traits, V.TRAITS, 404, 204,
          policy=_node("traits:delete"), event=notify.NODE_UPDATED),
    Route("DELETE", "/v1/nodes/{node}/traits/{trait}", node_parts.remove_trait, V.TRAITS, 404,
          204, policy=_node("traits:delete"), event=notify.NODE_UPDATED),

    Route("GET", "/v1/nodes/{node}/vifs", node_parts.list_vifs, V.VIFS, policy=_node("vif:list"),
          answer=node_parts.VIFS),
    Route("POST", "/v1/nodes/{node}/vifs", node_parts.attach_vif, V.VIFS, 404, 204,
          body=node_parts.NEW_VIF, policy=_node("vif:attach"), conditional=True),
    Route("DELETE", "/v1/nodes/{node}/vifs/{vif}", node_parts.detach_vif, V.VIFS, 404, 204,
          policy=_node("vif:detach")),
    Route("GET", "/v1/nodes/{node}/vmedia", virtual_media.list_media, V.GET_VMEDIA,
          policy=_node("vmedia:get"), answer=virtual_media.DEVICES),
    Route("POST", "/v1/nodes/{node}/vmedia", virtual_media.attach_media, V.VMEDIA, 404, 204,
          body="args", policy=_node("vmedia:attach"), args=virtual_media.ATTACH_ARGS,
          conditional=True),
    Route("DELETE", "/v1/nodes/{node}/vmedia", virtual_media.detach_media, V.VMEDIA, 404, 204,
          body="args", policy=_node("vmedia:detach"), args=virtual_media.DETACH_ARGS),
    Route("DELETE", "/v1/nodes/{node}/vmedia/{device_types}", virtual_media.detach_named_media,
          V.VMEDIA, 404, 204, policy=_node("vmedia:detach")),
    Route("GET", "/v1/nodes/{node}/allocation", allocations.show_node_allocation, V.ALLOCATIONS,
          policy=(allocations.GET,), args=allocations.SHOW_ARGS, answer=Chosen(fields.ALLOCATION)),
    Route("DELETE", "/v1/nodes/{node}/allocation", allocations.delete_node_allocation,
          V.ALLOCATIONS, 404, 204, policy=(allocations.DELETE,),
          event=notify.NODE_ALLOCATION_DELETED),
    Route("GET", "/v1/nodes/{node}/bios", node_parts.list_bios, V.BIOS, policy=_node("bios:get"),
          args=node_parts.BIOS_ARGS, answer=Listing(fields.BIOS_SETTING, paged=False)),
    Route("GET", "/v1/nodes/{node}/bios/{setting}", node_parts.show_bios, V.BIOS,
          policy=_node("bios:get"), answer=node_parts.BIOS_BY_NAME, etag=True),
    Route("GET", "/v1/nodes/{node}/firmware", node_parts.list_firmware, V.FIRMWARE,
          policy=_node("firmware:get"), args=node_parts.FIRMWARE_ARGS,
          answer=Listing(fields.FIRMWARE_COMPONENT, paged=False)),
    Route("GET", "/v1/nodes/{node}/history", node_parts.list_history, V.HISTORY,
          policy=_node("history:get"), args=node_parts.HISTORY_ARGS,
          answer=Listing(fields.NODE_HISTORY)),
    Route("GET", "/v1/nodes/{node}/history/{uuid}", node_parts.show_history, V.HISTORY,
          policy=_node("history:get"), answer=Whole(fields.NODE_HISTORY)),
    Route("GET", "/v1/nodes/{node}/inventory", node_parts.show_inventory, V.INVENTORY,
          policy=_node("inventory:get"), answer=node_parts.INVENTORY, etag=True),
    Route("GET", "/v1/nodes/{node}/children", node_parts.list_children, V.CHILDREN,
          policy=_LIST_NODES, answer=node_parts.CHILDREN),

    Route("GET", "/v1/nodes/{node}/ports", ports.list_node_ports, policy=_LIST_PORTS,
          args=ports.BELOW_ARGS, answer=Listing(fields.PORT)),
    Route("GET", "/v1/nodes/{node}/ports/detail", ports.list_node_ports_detail,
          policy=_LIST_PORTS, args=PAGE, answer=Listing(fields.PORT, whole=True)),
    Route("GET", "/v1/nodes/{node}/portgroups", portgroups.list_node_portgroups,
          V.PORTGROUP_PORTS, policy=_LIST_PORTGROUPS, args=ports.BELOW_ARGS,
          answer=Listing(fields.PORTGROUP)),
    Route("GET", "/v1/nodes/{node}/portgroups/detail", portgroups.list_node_portgroups_detail,
          V.PORTGROUP_PORTS, policy=_LIST_PORTGROUPS, args=PAGE,
          answer=Listing(fields.PORTGROUP, whole=True)),

    Route("GET", "/v1/nodes/{node}/volume", volumes.show_node_volume, V.VOLUMES,
          policy=_rule("volume:get"), answer=volumes.OVERVIEW),
    Route("GET", "/v1/nodes/{node}/volume/connectors", volumes.list_node_connectors, V.VOLUMES,
          policy=_LIST_VOLUMES, args=volumes.BELOW_ARGS, answer=Listing(fields.VOLUME_CONNECTOR)),
    Route("GET", "/v1/nodes/{node}/volume/targets", volumes.list_node_targets, V.VOLUMES,
          policy=(*_LIST_VOLUMES, volumes.VIEW_PROPERTIES), args=volumes.BELOW_ARGS,
          answer=Listing(fields.VOLUME_TARGET)),

    Route("GET", "/v1/nodes/{node}/vendor_passthru/methods", management.node_methods,
          policy=_node("vendor_passthru"), answer=management.METHODS),
)

_OTHERS: tuple[Route, ...] = (
    Route("GET", "/v1/ports", ports.list_ports, policy=_LIST_PORTS, args=ports.LIST_ARGS,
          answer=Listing(fields.PORT)),
    Route("GET", "/v1/ports/detail", ports.list_ports_detail, policy=_LIST_PORTS,
          args=ports.DETAIL_ARGS, answer=Listing(fields.PORT, whole=True)),
    Route("POST", "/v1/ports", ports.create_port, success=201, body=ports.NEW,
          policy=_rule("port:create"), answer=Whole(fields.PORT), event=notify.created("port")),
    Route("GET", "/v1/ports/{port}", ports.show_port, policy=_rule("port:get"),
          args=ports.SHOW_ARGS, answer=Chosen(fields.PORT)),
    Route("PATCH", "/v1/ports/{port}", ports.update_port, body=Patch(fields.PORT),
          policy=_rule("port:update"), answer=Whole(fields.PORT), event=notify.updated("port")),
    Route("DELETE", "/v1/ports/{port}", ports.delete_port, success=204,
          policy=_rule("port:delete"), event=notify.deleted("port")),

    Route("GET", "/v1/portgroups", portgroups.list_portgroups, V.PORTGROUPS,
          policy=_LIST_PORTGROUPS, args=portgroups.LIST_ARGS, answer=Listing(fields.PORTGROUP)),
    Route("GET", "/v1/portgroups/detail", portgroups.list_portgroups_detail, V.PORTGROUPS,
          policy=_LIST_PORTGROUPS, args=portgroups.DETAIL_ARGS,
          answer=Listing(fields.PORTGROUP, whole=True)),
    Route("POST", "/v1/portgroups", portgroups.create_portgroup, V.PORTGROUPS, 404, 201,
          body=New(fields.PORTGROUP), policy=_rule("portgroup:create"),
          answer=Whole(fields.PORTGROUP), event=notify.created("portgroup")),
    Route("GET", "/v1/portgroups/{portgroup}", portgroups.show_portgroup, V.PORTGROUPS,
          policy=_rule("portgroup:get"), args=portgroups.SHOW_ARGS,
          answer=Chosen(fields.PORTGROUP)),
    Route("PATCH", "/v1/portgroups/{portgroup}", portgroups.update_portgroup, V.PORTGROUPS,
          body=Patch(fields.PORTGROUP), policy=_rule("portgroup:update"),
          answer=Whole(fields.PORTGROUP), event=notify.updated("portgroup")),
    Route("DELETE", "/v1/portgroups/{portgroup}", portgroups.delete_portgroup, V.PORTGROUPS, 404,
          204, policy=_rule("portgroup:delete"), event=notify.deleted("portgroup")),
    Route("GET", "/v1/portgroups/{portgroup}/ports", ports.list_portgroup_ports,
          V.PORTGROUP_PORTS, policy=_LIST_PORTS, args=ports.BELOW_ARGS,
          answer=Listing(fields.PORT)),
    Route("GET", "/v1/portgroups/{portgroup}/ports/detail", ports.list_portgroup_ports_detail,
          V.PORTGROUP_PORTS, policy=_LIST_PORTS, args=PAGE,
          answer=Listing(fields.PORT, whole=True)),

    Route("GET", "/v1/chassis", chassis.list_chassis, policy=_rule("chassis:get"),
          args=chassis.LIST_ARGS, answer=Listing(fields.CHASSIS)),
    Route("GET", "/v1/chassis/detail", chassis.list_chassis_detail, policy=_rule("chassis:get"),
          args=chassis.DETAIL_ARGS, answer=Listing(fields.CHASSIS, whole=True)),
    Route("POST", "/v1/chassis", chassis.create_chassis, success=201, body=New(fields.CHASSIS),
          policy=_rule("chassis:create"), answer=Whole(fields.CHASSIS),
          event=notify.created("chassis")),
    Route("GET", "/v1/chassis/{chassis}", chassis.show_chassis, policy=_rule("chassis:get"),
          args=chassis.SHOW_ARGS, answer=Chosen(fields.CHASSIS)),
    Route("PATCH", "/v1/chassis/{chassis}", chassis.update_chassis, body=Patch(fields.CHASSIS),
          policy=_rule("chassis:update"), answer=Whole(fields.CHASSIS),
          event=notify.updated("chassis")),
    Route("DELETE", "/v1/chassis/{chassis}", chassis.delete_chassis, success=204,
          policy=_rule("chassis:delete"), event=notify.deleted("chassis")),
    Route("GET", "/v1/chassis/{chassis}/nodes", nodes.list_chassis_nodes, policy=_LIST_NODES,
          args=(*nodes.FILTERS, *PAGE, FIELDS, DETAIL), answer=Listing(fields.NODE)),
    Route("GET", "/v1/chassis/{chassis}/nodes/detail", nodes.list_chassis_nodes_detail,
          policy=_LIST_NODES, args=(*nodes.DETAIL_FILTERS, *PAGE),
          answer=Listing(fields.NODE, whole=True)),

    Route("GET", "/v1/drivers", drivers.list_drivers, policy=_rule("driver:get"),
          args=drivers.LIST_ARGS, answer=Listing(fields.DRIVER, paged=False)),
    Route("GET", "/v1/drivers/{driver}", drivers.show_driver, policy=_rule("driver:get"),
          args=drivers.SHOW_ARGS, answer=Chosen(fields.DRIVER)),
    Route("GET", "/v1/drivers/{driver}/properties", drivers.show_properties,
          policy=_rule("driver:get_properties"), answer=drivers.PROPERTIES, etag=True),
    Route("GET", "/v1/drivers/{driver}/raid/logical_disk_properties",
          drivers.show_raid_properties, V.RAID, 406,
          policy=_rule("driver:get_raid_logical_disk_properties"), answer=drivers.PROPERTIES,
          etag=True),
    Route("GET", "/v1/drivers/{driver}/vendor_passthru/methods", management.driver_methods,
          policy=_rule("driver:vendor_passthru"), answer=management.METHODS),

    Route("GET", "/v1/volume", volumes.show_volume, V.VOLUMES, policy=_rule("volume:get"),
          answer=volumes.OVERVIEW),
    Route("GET", "/v1/volume/connectors", volumes.list_connectors, V.VOLUMES,
          policy=_LIST_VOLUMES, args=volumes.LIST_ARGS, answer=Listing(fields.VOLUME_CONNECTOR)),
    Route("POST", "/v1/volume/connectors", volumes.create_connector, V.VOLUMES, 404, 201,
          body=New(fields.VOLUME_CONNECTOR), policy=_rule("volume:create"),
          answer=Whole(fields.VOLUME_CONNECTOR), event=notify.created("connector")),
    Route("GET", "/v1/volume/connectors/{connector}", volumes.show_connector, V.VOLUMES,
          policy=_rule("volume:get"), args=volumes.SHOW_ARGS,
          answer=Chosen(fields.VOLUME_CONNECTOR)),
    Route("PATCH", "/v1/volume/connectors/{connector}", volumes.update_connector, V.VOLUMES,
          body=Patch(fields.VOLUME_CONNECTOR), policy=_rule("volume:update"),
          answer=Whole(fields.VOLUME_CONNECTOR), event=notify.updated("connector")),
    Route("DELETE", "/v1/volume/connectors/{connector}", volumes.delete_connector, V.VOLUMES,
          404, 204, policy=_rule("volume:delete"), event=notify.deleted("connector")),
    Route("GET", "/v1/volume/targets", volumes.list_targets, V.VOLUMES,
          policy=(*_LIST_VOLUMES, volumes.VIEW_PROPERTIES), args=volumes.LIST_ARGS,
          answer=Listing(fields.VOLUME_TARGET)),
    Route("POST", "/v1/volume/targets", volumes.create_target, V.VOLUMES, 404, 201,
          body=New(fields.VOLUME_TARGET), policy=_rule("volume:create"),
          answer=Whole(fields.VOLUME_TARGET), event=notify.created("target")),
    Route("GET", "/v1/volume/targets/{target}", volumes.show_target, V.VOLUMES,
          policy=(*_rule("volume:get"), volumes.VIEW_PROPERTIES), args=volumes.SHOW_ARGS,
          answer=Chosen(fields.VOLUME_TARGET)),
    Route("PATCH", "/v1/volume/targets/{target}", volumes.update_target, V.VOLUMES,
          body=Patch(fields.VOLUME_TARGET), answer=Whole(fields.VOLUME_TARGET),
          policy=(*_rule("volume:update"), volumes.VIEW_PROPERTIES),
          event=notify.updated("target")),
    Route("DELETE", "/v1/volume/targets/{target}", volumes.delete_target, V.VOLUMES, 404, 204,
          policy=_rule("volume:delete"), event=notify.deleted("target")),

    Route("GET", "/v1/allocations", allocations.list_allocations, V.ALLOCATIONS,
          policy=_LIST_ALLOCATIONS, args=allocations.LIST_ARGS, answer=Listing(fields.ALLOCATION)),
    Route("POST", "/v1/allocations", allocations.create_allocation, V.ALLOCATIONS, 405, 201,
          body=allocations.NEW, answer=Whole(fields.ALLOCATION),
          policy=(allocations.CREATE, allocations.CREATE_RESTRICTED, allocations.CREATE_PRE_RBAC),
          etag=False, event=notify.created("allocation")),
    Route("GET", "/v1/allocations/{allocation}", allocations.show_allocation, V.ALLOCATIONS,
          policy=(allocations.GET,), args=allocations.SHOW_ARGS, answer=Chosen(fields.ALLOCATION)),
    Route("PATCH", "/v1/allocations/{allocation}", allocations.update_allocation,
          V.PATCH_ALLOCATION, 405, body=allocations.CHANGE, answer=Whole(fields.ALLOCATION),
          policy=(allocations.GET, allocations.UPDATE), event=notify.updated("allocation")),
    Route("DELETE", "/v1/allocations/{allocation}", allocations.delete_allocation, V.ALLOCATIONS,
          405, 204, policy=(allocations.GET, allocations.DELETE),
          event=notify.deleted("allocation")),

    Route("GET", "/v1/conductors", conductors.list_conductors, V.CONDUCTORS,
          policy=_rule("conductor:get"), args=conductors.LIST_ARGS,
          answer=Listing(fields.CONDUCTOR)),
    Route("GET", "/v1/conductors/{hostname}", conductors.show_conductor, V.CONDUCTORS,
          policy=_rule("conductor:get"), args=conductors.SHOW_ARGS,
          answer=Chosen(fields.CONDUCTOR)),
)

_STEP_LISTS: tuple[Route, ...] = (
    Route("GET", "/v1/deploy_templates", deploy_templates.list_templates, V.DEPLOY_TEMPLATES,
          policy=_rule("deploy_template:get"), args=deploy_templates.LIST_ARGS,
          answer=Listing(fields.DEPLOY_TEMPLATE)),
    Route("POST", "/v1/deploy_templates", deploy_templates.create_template, V.DEPLOY_TEMPLATES,
          405, 201, body=deploy_templates.NEW, policy=_rule("deploy_template:create"),
          answer=Whole(fields.DEPLOY_TEMPLATE), event=notify.created("template")),
    Route("GET", "/v1/deploy_templates/{template}", deploy_templates.show_template,
          V.DEPLOY_TEMPLATES, policy=_rule("deploy_template:get"),
          args=deploy_templates.SHOW_ARGS, answer=Chosen(fields.DEPLOY_TEMPLATE)),
    Route("PATCH", "/v1/deploy_templates/{template}", deploy_templates.update_template,
          V.DEPLOY_TEMPLATES, 405, body=Patch(fields.DEPLOY_TEMPLATE),
          policy=_rule("deploy_template:update"), answer=Whole(fields.DEPLOY_TEMPLATE),
          event=notify.updated("template")),
    Route("DELETE", "/v1/deploy_templates/{template}", deploy_templates.delete_template,
          V.DEPLOY_TEMPLATES, 405, 204, policy=_rule("deploy_template:delete"),
          event=notify.deleted("template")),

    Route("GET", "/v1/runbooks", runbooks.list_runbooks, V.RUNBOOKS, policy=_LIST_RUNBOOKS,
          args=runbooks.LIST_ARGS, answer=Listing(fields.RUNBOOK)),
    Route("POST", "/v1/runbooks", runbooks.create_runbook, V.RUNBOOKS, 405, 201,
          body=runbooks.NEW, policy=_rule("runbook:create"), answer=Whole(fields.RUNBOOK),
          sometimes=(STEP_RULE,), event=notify.created("runbook")),
    Route("GET", "/v1/runbooks/{runbook}", runbooks.show_runbook, V.RUNBOOKS,
          policy=_rule("runbook:get"), args=runbooks.SHOW_ARGS, answer=Chosen(fields.RUNBOOK)),
    Route("PATCH", "/v1/runbooks/{runbook}", runbooks.update_runbook, V.RUNBOOKS, 405,
          body=Patch(fields.RUNBOOK), answer=Whole(fields.RUNBOOK), sometimes=(STEP_RULE,),
          policy=(*_rule("runbook:update"), *_rule("runbook:update:owner"),
                  *_rule("runbook:update:public")), event=notify.updated("runbook")),
    Route("DELETE", "/v1/runbooks/{runbook}", runbooks.delete_runbook, V.RUNBOOKS, 405, 204,
          policy=_rule("runbook:delete"), event=notify.deleted("runbook")),
    Route("GET", "/v1/runbooks/{runbook}/traits", runbooks.show_traits, V.RUNBOOK_TRAITS,
          policy=_rule("runbook:get"), answer=traits.SHOWN, etag=True),
    Route("PUT", "/v1/runbooks/{runbook}/traits", runbooks.set_traits, V.RUNBOOK_TRAITS, 404,
          204, body=traits.WANTED, policy=_rule("runbook:update")),
    Route("PUT", "/v1/runbooks/{runbook}/traits/{trait}", runbooks.add_trait, V.RUNBOOK_TRAITS,
          404, 204, policy=_rule("runbook:update")),
    Route("DELETE", "/v1/runbooks/{runbook}/traits", runbooks.remove_traits, V.RUNBOOK_TRAITS,
          404, 204, policy=_rule("runbook:update")),
    Route("DELETE", "/v1/runbooks/{runbook}/traits/{trait}", runbooks.remove_trait,
          V.RUNBOOK_TRAITS, 404, 204, policy=_rule("runbook:update")),
)

_MORE: tuple[Route, ...] = (
    Route("GET", "/v1/inspection_rules", inspection_rules.list_rules, V.INSPECTION_RULES,
          policy=_rule("inspection_rule:get"), args=inspection_rules.LIST_ARGS,
          answer=Listing(fields.INSPECTION_RULE)),
    Route("POST", "/v1/inspection_rules", inspection_rules.create_rule, V.INSPECTION_RULES, 405,
          201, body=inspection_rules.NEW, policy=_rule("inspection_rule:create"),
          answer=Whole(fields.INSPECTION_RULE), event=notify.created("rule")),
    Route("GET", "/v1/inspection_rules/{rule}", inspection_rules.show_rule, V.INSPECTION_RULES,
          policy=_rule("inspection_rule:get"), args=inspection_rules.SHOW_ARGS,
          answer=Chosen(fields.INSPECTION_RULE)),
    Route("PATCH", "/v1/inspection_rules/{rule}", inspection_rules.update_rule,
          V.INSPECTION_RULES, 405, body=Patch(fields.INSPECTION_RULE, any_pointer=True),
          policy=_rule("inspection_rule:update"), answer=Whole(fields.INSPECTION_RULE),
          event=notify.updated("rule")),
    Route("DELETE", "/v1/inspection_rules/{rule}", inspection_rules.delete_rule,
          V.INSPECTION_RULES, 405, 204, policy=_rule("inspection_rule:delete"),
          event=notify.deleted("rule")),

    Route("GET", "/v1/shards", shards.list_shards, V.SHARDS, policy=_rule("shards:get"),
          answer=Listing(fields.SHARD, whole=True, paged=False)),
    Route("POST", "/v1/events", events.post_events, V.EVENTS, 404, 204, body=events.EVENTS,
          policy=_rule("events:post")),
)

_PUBLIC: tuple[Route, ...] = (
    Route(ANY_METHOD, "/", root.show_root, body=root.ANY_BODY, public=True, answer=root.ROOT),
    Route("GET", "/v1", root.show_version, public=True, answer=root.VERSION),
    Route("GET", "/v1/openapi.json", description.show_description, public=True,
          args=description.ARGS, answer=description.DESCRIPTION, etag=True),
    Route("GET", "/v1/lookup", ramdisk.lookup, V.RAMDISK, public=True, args=ramdisk.LOOKUP_ARGS,
          policy=_rule("driver:ipa_lookup"), answer=ramdisk.AGENT),
    # To a name with other characters than a-z 0-9 - it is not public.
    Route("POST", "/v1/heartbeat/{node}", ramdisk.heartbeat, V.RAMDISK, 404, 202, body="args",
          public=True, args=ramdisk.HEARTBEAT_ARGS, policy=_rule("node:ipa_heartbeat"),
          also=(401,)),
    Route("POST", "/v1/heartbeat", ramdisk.named_heartbeat, V.RAMDISK, 404, 202, body="args",
          args=ramdisk.NAMED_HEARTBEAT_ARGS, policy=_rule("node:ipa_heartbeat")),
    # Agents send no version at all.
    Route("POST", "/v1/continue_inspection", inspection_data.continue_inspection,
          V.CONTINUE_INSPECTION, 404, 202, body=inspection_data.DATA, public=True,
          args=inspection_data.ARGS, policy=_rule("driver:ipa_continue_inspection"),
          answer=inspection_data.ANSWER, even_at=(MINIMUM,)),
)


def _passthru() -> Iterator[Route]:
    node, driver = _node("vendor_passthru"), _rule("driver:vendor_passthru")
    of_node, of_driver = management.node_passthru, management.driver_passthru
    for method in _ALL_METHODS:
        yield Route(method, "/v1/nodes/{node}/vendor_passthru/{method}", of_node, policy=node,
                    conditional=True, **_VENDOR)
        yield Route(method, "/v1/nodes/{node}/vendor_passthru", of_node, policy=node,
                    args=management.PASSTHRU_ARGS, conditional=True, **_VENDOR)
        yield Route(method, "/v1/drivers/{driver}/vendor_passthru/{method}", of_driver,
                    policy=driver, conditional=False, **_VENDOR)
        yield Route(method, "/v1/drivers/{driver}/vendor_passthru", of_driver, policy=driver,
                    args=management.PASSTHRU_ARGS, conditional=False, **_VENDOR)


def _refused() -> Iterator[Route]:
    """What is attached to a node can be listed below it, nothing else."""
    for name in ("ports", "portgroups", "volume/connectors", "volume/targets"):
        yield Route("POST", f"/v1/nodes/{{node}}/{name}", ports.refuse_below_node, body=Refused())
        for method in ("GET", "PATCH", "DELETE"):
            yield Route(method, f"/v1/nodes/{{node}}/{name}/{{ident}}", ports.refuse_below_node,
                        body=Refused(), conditional=False)
# fmt: on


ROUTES: tuple[Route, ...] = (
    *_PUBLIC,
    *_NODES,
    *_OTHERS,
    *_STEP_LISTS,
    *_MORE,
    *_passthru(),
    *_refused(),
)
