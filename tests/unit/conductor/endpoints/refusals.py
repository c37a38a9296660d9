"""What makes each RPC method refuse: one entry for each refusal of the table of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers import noop
from tests.unit.conductor import tablekit
from tests.unit.conductor.endpoints import good_calls
from tests.unit.conductor.endpoints.good_calls import (
    GOOD,
    NOWHERE,
    TRAIT,
    UUID,
    Args,
    MakeArgs,
    replace,
)
from tests.unit.conductor.flowkit import steps
from tests.unit.conductor.tablekit import Table

METHODS = tablekit.load("rpc_methods")
FORBIDDEN = steps("vendor.send_raw")


@dataclass(frozen=True)
class Refusal:
    """How a call differs from the good one, and what it gets for it.

    :param error: class of the error.
    :param why: what is wrong, for people.
    :param values: columns of the node.
    :param args: arguments, or what makes them, in place of the good ones of that name.
    :param answers: as :attr:`Good.answers`.
    :param conf: options by (group, name).
    :param change: last change before the call; returns what undoes it, or None.
    :param writes: columns of the node that the refusal leaves its trace in.
    :param state: provision state of the node.
    """

    method: str
    error: str
    why: str
    values: Args = field(default_factory=dict)
    args: Args | MakeArgs = field(default_factory=dict)
    answers: Args = field(default_factory=dict)
    conf: dict[tuple[str, str], Any] = field(default_factory=dict)
    change: Callable[[Table], Callable[[], None] | None] | None = None
    writes: frozenset[str] = frozenset()
    state: str | None = None


def has(method: str, error: str) -> bool:
    """Tell whether the table of facts has a refusal."""
    return error in METHODS[method]["refusals"]


def is_about_a_node(method: str) -> bool:
    """Tell whether a method is called with ``node_id``."""
    return GOOD[method].state is not None and method != "destroy_allocation"


# What all methods of a kind refuse.

#: Interfaces whose validation comes first; others than these see no call.
VALIDATED: dict[str, tuple[str, ...]] = {
    "change_node_power_state": ("power",),
    "change_node_boot_mode": ("management",),
    "change_node_secure_boot": ("management",),
    "vendor_passthru": ("vendor",),
    "do_node_clean": ("power", "network"),
    "do_node_service": ("power", "network"),
    "get_console_information": ("console",),
    "set_console_mode": ("console",),
    "update_port": ("network",),
    "update_portgroup": ("network",),
    "set_boot_device": ("management",),
    "get_boot_device": ("management",),
    "inject_nmi": ("management",),
    "set_indicator_state": ("management",),
    "get_indicator_state": ("management",),
    "get_supported_indicators": ("management",),
    "inspect_hardware": ("power", "inspect"),
    "vif_list": ("network",),
    "vif_attach": ("network",),
    "vif_detach": ("network",),
    "attach_virtual_media": ("management",),
    "detach_virtual_media": ("management",),
    "get_virtual_media": ("management",),
}
#: Methods that tell of a failed validation in their own words.
WRAPPED: dict[str, tuple[str, tuple[str, ...]]] = {
    "do_node_rescue": ("InstanceRescueFailure", ("power", "rescue", "network")),
    "do_node_unrescue": ("InstanceUnrescueFailure", ("power",)),
    "do_node_deploy": ("InstanceDeployFailure", ("power", "deploy")),
    "do_node_tear_down": ("InstanceDeployFailure", ("power",)),
}
#: Driver method that has the last word.
ASKED: dict[str, str] = {
    "get_console_information": "console.get_console",
    "set_console_mode": "console.validate",
    "set_boot_device": "management.set_boot_device",
    "get_boot_device": "management.get_boot_device",
    "inject_nmi": "management.inject_nmi",
    "get_supported_boot_devices": "management.get_supported_boot_devices",
    "set_indicator_state": "management.set_indicator_state",
    "get_indicator_state": "management.get_indicator_state",
    "get_supported_indicators": "management.get_supported_indicators",
    "inspect_hardware": "inspect.validate",
    "set_target_raid_config": "raid.validate_raid_config",
    "attach_virtual_media": "management.validate",
    "detach_virtual_media": "management.validate",
    "get_virtual_media": "management.get_virtual_media",
}


def _generated() -> Iterator[Refusal]:
    for method in METHODS:
        if is_about_a_node(method):
            yield Refusal(method, "NodeNotFound", "no such node", args={"node_id": NOWHERE})
            if has(method, "NodeLocked"):
                locked = {"reservation": tablekit.OTHER_HOST}
                if method == "heartbeat":
                    locked["driver_internal_info"] = {"agent_secret_token": good_calls.TOKEN}
                yield Refusal(method, "NodeLocked", "another conductor works on it", locked)
            if has(method, "IncompatibleInterface"):
                yield from _of_the_driver(method)
        if has(method, "NoFreeConductorWorker"):
            yield Refusal(
                method,
                "NoFreeConductorWorker",
                "all are busy",
                change=_all_busy,
                writes=frozenset({"last_error", "updated_at"}),
            )
    for method, interfaces in VALIDATED.items():
        for interface in interfaces:
            for name in ("InvalidParameterValue", "MissingParameterValue"):
                if has(method, name):
                    answers = {f"{interface}.validate": getattr(errors, name)(f"bad {interface}")}
                    yield Refusal(method, name, f"validation of {interface}", answers=answers)
    for method, (name, interfaces) in WRAPPED.items():
        for interface in interfaces:
            answers = {f"{interface}.validate": errors.MissingParameterValue("no address")}
            yield Refusal(method, name, f"validation of {interface}", answers=answers)
    for method, asked in ASKED.items():
        unsupported = errors.UnsupportedDriverExtension(driver="fake-hardware", extension=method)
        yield Refusal(
            method, "UnsupportedDriverExtension", "not implemented", answers={asked: unsupported}
        )


def _of_the_driver(method: str) -> Iterator[Refusal]:
    nothing = {f"{kind}_interface": None for kind in tablekit.flowkit.INTERFACE_TYPES}
    yield Refusal(method, "DriverNotFound", "not enabled here", {"driver": "unknown"})
    yield Refusal(
        method,
        "InterfaceNotFoundInEntrypoint",
        "not enabled here",
        {"power_interface": "unknown"},
    )
    yield Refusal(method, "IncompatibleInterface", "does not fit", {"driver": "picky"})
    yield Refusal(
        method, "NoValidDefaultForInterface", "nothing fits", {"driver": "picky"} | nothing
    )


def _all_busy(table: Table) -> None:
    table.workers.full = True


# What only one method, or a few, refuse.


def _interface(kind: str, implementation: Any) -> Callable[[Table], Callable[[], None]]:
    def change(table: Table) -> Callable[[], None]:
        before = table.world.kit.interfaces[kind]
        table.world.kit.interfaces[kind] = implementation
        return lambda: table.world.kit.interfaces.update({kind: before})

    return change


def _forget_defaults(table: Table) -> Callable[[], None]:
    table.world.drivers._defaults.clear()
    return table.world.drivers._defaults.clear


def other_node(table: Table, state: str = "manageable", **values: Any) -> models.Node:
    return table.node(state, **values)


def _new_node(**values: Any) -> Args:
    return {"node": {"driver": "fake-hardware"} | values}


def _taken(**values: Any) -> MakeArgs:
    def make(table: Table, node: Any) -> Args:
        other_node(table, **values)
        return _new_node(**values)

    return make


CREATE_NODE = [
    Refusal("create_node", "DriverNotFound", "not enabled", args=_new_node(driver="unknown")),
    Refusal(
        "create_node",
        "InterfaceNotFoundInEntrypoint",
        "not enabled",
        args=_new_node(power_interface="unknown"),
    ),
    Refusal(
        "create_node",
        "IncompatibleInterface",
        "does not fit",
        args=lambda table, node: _new_node(driver="picky", **table.interfaces),
    ),
    Refusal(
        "create_node", "NoValidDefaultForInterface", "nothing fits", args=_new_node(driver="picky")
    ),
    Refusal(
        "create_node",
        "InvalidParameterValue",
        "its own parent",
        args=_new_node(uuid=UUID, parent_node=UUID),
    ),
    Refusal("create_node", "NodeAlreadyExists", "uuid", args=_taken(uuid=UUID)),
    Refusal("create_node", "DuplicateName", "name", args=_taken(name="a")),
    Refusal("create_node", "InstanceAssociated", "instance", args=_taken(instance_uuid=UUID)),
]


def patch_of(path: str, value: Any) -> Args:
    return {"patch": replace(path, value)}


def _allocated(table: Table, node: Any) -> Args:
    good_calls.allocate(table, node)
    return {"patch": [{"op": "remove", "path": "/instance_uuid"}]}


def _update(error: str, why: str, path: str, value: Any, **more: Any) -> Refusal:
    return Refusal("update_node", error, why, args=patch_of(path, value), **more)


UPDATE_NODE = [
    _update("DriverNotFound", "not enabled", "/driver", "unknown"),
    _update("InvalidParameterValue", "reason of not protected", "/protected_reason", "x"),
    _update("InvalidParameterValue", "reason of not retired", "/retired_reason", "x"),
    _update("InvalidParameterValue", "unknown parent", "/parent_node", NOWHERE),
    _update("InvalidState", "no instance to protect", "/protected", True),
    _update("InvalidState", "available can not retire", "/retired", True, state="available"),
    _update(
        "InvalidState", "interfaces of a used node", "/raid_interface", "no-raid", state="active"
    ),
    _update(
        "InvalidState",
        "class of a used node",
        "/resource_class",
        "b",
        state="active",
        values={"resource_class": "a"},
    ),
    Refusal(
        "update_node", "InvalidState", "allocation of a used node", state="active", args=_allocated
    ),
    _update(
        "NodeAssociated",
        "has an instance",
        "/instance_uuid",
        NOWHERE,
        values={"instance_uuid": UUID},
    ),
]
DESTROY_NODE = [
    Refusal("destroy_node", "NodeAssociated", "instance", {"instance_uuid": UUID}),
    Refusal("destroy_node", "NodeProtected", "protected", {"protected": True}),
    Refusal("destroy_node", "InvalidState", "in use", state="active"),
    Refusal(
        "destroy_node",
        "InvalidState",
        "available ones stay",
        state="available",
        conf={("conductor", "allow_deleting_available_nodes"): False},
    ),
    Refusal(
        "destroy_node",
        "InvalidState",
        "has a child",
        args=lambda table, node: other_node(table, parent_node=node.uuid) and {},
    ),
]
POWER = [
    Refusal("change_node_power_state", "InvalidParameterValue", "request", args={"new_state": "x"}),
    Refusal(
        "change_node_power_state", "PowerStateFailure", "stays on", {"disable_power_off": True}
    ),
    Refusal(
        "change_node_power_state",
        "PowerStateFailure",
        "stays on, also softly",
        {"disable_power_off": True},
        args={"new_state": "soft power off"},
    ),
]


VENDOR = [
    Refusal("vendor_passthru", "InvalidParameterValue", "route", args={"driver_method": "unknown"}),
    Refusal("vendor_passthru", "InvalidParameterValue", "verb", args={"http_method": "GET"}),
    Refusal("vendor_passthru", "MissingParameterValue", "argument", args={"info": {}}),
    *(
        Refusal(
            method,
            "UnsupportedDriverExtension",
            "no vendor methods",
            change=_interface("vendor", noop.NoVendor()),
        )
        for method in ("vendor_passthru", "get_node_vendor_passthru_methods")
    ),
    Refusal(
        "driver_vendor_passthru",
        "InvalidParameterValue",
        "route",
        args={"driver_method": "unknown"},
    ),
    Refusal("driver_vendor_passthru", "InvalidParameterValue", "verb", args={"http_method": "GET"}),
    Refusal("driver_vendor_passthru", "MissingParameterValue", "argument", args={"info": {"a": 1}}),
]
DRIVERS = [
    Refusal(method, error, why, args={"driver_name": name}, conf=conf, change=_forget_defaults)
    for method, kind in (
        ("driver_vendor_passthru", "vendor"),
        ("get_driver_vendor_passthru_methods", "vendor"),
        ("get_driver_properties", "power"),
        ("get_raid_logical_disk_properties", "raid"),
    )
    for error, why, name, conf in (
        ("DriverNotFound", "not enabled", "unknown", {}),
        ("NoValidDefaultForInterface", "nothing fits", "picky", {}),
        ("UnsupportedDriverExtension", "can it not", "mute", {}),
        (
            "InterfaceNotFoundInEntrypoint",
            "default not enabled",
            "fake-hardware",
            {("DEFAULT", f"default_{kind}_interface"): "unknown"},
        ),
    )
    if has(method, error)
]


def _running(state: str) -> MakeArgs:
    return lambda table, node: other_node(table, state) and {}


def _limit(method: str, kind: str, state: str) -> Refusal:
    return Refusal(
        method,
        "ConcurrentActionLimit",
        f"one is {state}",
        args=_running(state),
        conf={("conductor", f"max_concurrent_{kind}"): 1},
    )


MAINTENANCE = {"maintenance": True}
PROTECTED = {"protected": True}
PROVISION = [
    _limit("do_node_deploy", "deploy", "deploying"),
    _limit("do_node_deploy", "deploy", "wait call-back"),
    *(
        _limit(method, "clean", state)
        for method in ("do_node_clean", "do_node_tear_down")
        for state in ("deleting", "cleaning", "clean wait")
    ),
    *(
        Refusal(method, "NodeInMaintenance", "in maintenance", MAINTENANCE)
        for method in (
            "do_node_deploy",
            "do_node_rescue",
            "do_node_unrescue",
            "do_node_clean",
            "do_node_service",
        )
    ),
    *(
        Refusal(method, "InvalidStateRequested", f"not in {state}", state=state)
        for method, state in (
            ("do_node_deploy", "enroll"),
            ("do_node_tear_down", "available"),
            ("do_node_rescue", "available"),
            ("do_node_unrescue", "active"),
            ("do_node_clean", "available"),
            ("do_node_service", "available"),
            ("inspect_hardware", "available"),
            ("do_provisioning_action", "active"),
            ("continue_node_deploy", "active"),
            ("continue_node_clean", "cleaning"),
            ("continue_node_service", "servicing"),
        )
    ),
    Refusal(
        "do_node_deploy",
        "NodeProtected",
        "rebuild",
        PROTECTED,
        args={"rebuild": True},
        state="active",
    ),
    Refusal("do_node_tear_down", "NodeProtected", "protected", PROTECTED),
    Refusal(
        "do_node_deploy",
        "BootModeNotAllowed",
        "by the operator",
        {"properties": {"boot_mode": "bios"}},
        conf={("conductor", "disallowed_deployment_boot_modes"): ["bios"]},
    ),
    Refusal(
        "do_node_deploy",
        "BootModeNotAllowed",
        "as a capability",
        {"properties": {"capabilities": "boot_mode:bios"}},
        conf={("conductor", "disallowed_deployment_boot_modes"): ["bios"]},
    ),
    Refusal("do_node_deploy", "StepNotAllowed", "forbidden", args={"deploy_steps": FORBIDDEN}),
    Refusal("do_node_clean", "StepNotAllowed", "forbidden", args={"clean_steps": FORBIDDEN}),
    Refusal("do_node_service", "StepNotAllowed", "forbidden", args={"service_steps": FORBIDDEN}),
    Refusal(
        "do_node_deploy",
        "InstanceDeployFailure",
        "lacks a trait",
        {"instance_info": {"traits": [TRAIT]}},
    ),
    Refusal(
        "do_node_deploy",
        "InstanceDeployFailure",
        "steps twice",
        args={"deploy_steps": steps("deploy.deploy", "deploy.deploy", args={}, priority=0)},
    ),
    Refusal(
        "do_provisioning_action",
        "InvalidState",
        "maintenance first",
        MAINTENANCE,
        args={"action": "abort"},
        state="service failed",
    ),
    Refusal(
        "do_provisioning_action",
        "NodeInMaintenance",
        "by the operator",
        MAINTENANCE,
        conf={("conductor", "allow_provisioning_in_maintenance"): False},
    ),
    Refusal("do_provisioning_action", "NodeIsRetired", "retired", {"retired": True}),
    Refusal(
        "do_provisioning_action",
        "UnsupportedDriverExtension",
        "inspection goes on",
        args={"action": "abort"},
        state="inspect wait",
    ),
    Refusal(
        "do_provisioning_action",
        "NodeCleaningFailure",
        "no runbook",
        conf={("conductor", "automated_cleaning_step_source"): "runbook"},
    ),
    Refusal("continue_inspection", "NotFound", "not asked for", state="manageable"),
    Refusal("continue_inspection", "NotFound", "no auto-discovery", state="enroll"),
]


#: Refusals of methods about nodes and drivers.
OF_NODES: list[Refusal] = [
    *_generated(),
    *CREATE_NODE,
    *UPDATE_NODE,
    *DESTROY_NODE,
    *POWER,
    *VENDOR,
    *DRIVERS,
    *PROVISION,
]
