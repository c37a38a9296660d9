"""Who calls the API in tests, and which rules of the policy each of them passes.

Written down from the specification (rest-api.md sections 13.2 and 13.3), not computed
from the rules: the object that rules are asked about (a node, an allocation, a runbook)
is owned by one project and leased to another one.

The first letter of a persona is his scope (System, Owner's project, Lessee's, a Third
one), the second one his role (Admin, manaGer, Member, Reader, Service, None).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from tests.harness.keystone import IMPLIED, token

OWNER, LESSEE, THIRD, SERVICE = "project-o", "project-l", "project-t", "project-v"
#: What rules may ask about the objects of the tests.
TARGET: Mapping[str, Any] = {
    "node.owner": OWNER,
    "node.lessee": LESSEE,
    "allocation.owner": OWNER,
    "runbook.owner": OWNER,
    "runbook.public": False,
}
ANONYMOUS = "--"

_SCOPES: Mapping[str, Mapping[str, Any]] = {
    "S": {"system": True},
    "O": {"project": OWNER},
    "L": {"project": LESSEE},
    "T": {"project": THIRD},
}
_ROLES = {"A": "admin", "G": "manager", "M": "member", "R": "reader", "S": "service"}

#: What Keystone tells about the token of each persona.
TOKENS: Mapping[str, dict[str, Any]] = {
    **{
        scope + letter: token(role, **about)
        for scope, about in _SCOPES.items()
        for letter, role in _ROLES.items()
    },
    "ON": token(None, project=OWNER),
    "DA": token("admin", domain="default"),
    # The user of another service, such as Nova.
    "VS": token("service", project=SERVICE, project_name="service"),
}


def headers(persona: str) -> dict[str, str]:
    """Return the headers that a persona sends."""
    return {} if persona == ANONYMOUS else {"X-Auth-Token": persona}


def project(persona: str) -> str | None:
    """Return the project that a persona acts for."""
    found = TOKENS.get(persona, {"token": {}})["token"].get("project")
    return found["id"] if found else None


def roles(persona: str) -> tuple[str, ...]:
    """Return the roles that a persona has."""
    return tuple(role["name"] for role in TOKENS[persona]["token"]["roles"])


assert set(_ROLES.values()) == set(IMPLIED)

_SYSTEM = "SA SG SM SR SS"
_EVERY_ROLE = "OA OG OM OR OS LA LG LM LR LS TA TG TM TR TS VS"

#: Who passes what: personas to the names of rules (without ``baremetal:``).
_TABLE: tuple[tuple[str, str], ...] = (
    # sys-admin
    (
        "SA",
        """node:update:chassis_uuid node:update_owner_provisioned node:delete
        node:disable_cleaning node:update:shard node:update:disable_power_off
        node:vendor_passthru chassis:create chassis:delete driver:vendor_passthru events:post
        deploy_template:create deploy_template:update deploy_template:delete
        inspection_rule:create inspection_rule:update inspection_rule:delete""",
    ),
    # sys-admin or sys-service
    ("SA SS", "node:create"),
    # any admin or service
    ("SA SS OA OS LA LS TA TS VS", "node:create:self_owned_node"),
    # sys-member
    (
        "SA SG SM",
        """node:update:owner node:update:conductor_group node:update:parent_node chassis:update
        allocation:create_restricted runbook:update:public runbook:update:owner""",
    ),
    # sys-reader
    (
        _SYSTEM,
        """node:list_all node:get:filter_threshold port:list_all portgroup:list_all
        volume:list_all allocation:list_all runbook:list_all inspection_rule:list_all chassis:get
        driver:get driver:get_properties driver:get_raid_logical_disk_properties conductor:get
        deploy_template:get inspection_rule:get shards:get""",
    ),
    # any reader or service
    (
        f"{_SYSTEM} {_EVERY_ROLE}",
        "node:list port:list portgroup:list volume:list allocation:list runbook:list",
    ),
    # sys or project reader
    (
        f"{_SYSTEM} OA OG OM OR OS LA LG LM LR",
        """node:get node:get_states node:get_indicator_state node:vif:list node:traits:list
        node:bios:get node:firmware:get node:vmedia:get port:get portgroup:get volume:get""",
    ),
    # sys or owner reader
    (
        f"{_SYSTEM} OA OG OM OR OS",
        """node:get:last_error node:get:reservation node:get:driver_internal_info
        node:get:driver_info node:history:get node:inventory:get""",
    ),
    # sys or project member
    (
        "SA SG SM SS OA OG OM LA LG LM",
        """node:update node:update_extra node:set_power_state node:set_boot_mode
        node:set_secure_boot node:vmedia:attach node:vmedia:detach""",
    ),
    # sys member, owner member, lessee admin
    (
        "SA SG SM SS OA OG OM OS LA LG",
        """node:update_instance_info node:validate node:set_maintenance node:clear_maintenance
        node:set_provision_state node:set_provision_state:clean_steps
        node:set_provision_state:service_steps node:vif:attach node:vif:detach volume:update""",
    ),
    # sys member or owner member
    (
        "SA SG SM SS OA OG OM OS",
        """node:update:driver_info node:update:properties node:update:instance_uuid
        node:update:lessee node:update:network_data node:update:name node:update:retired
        node:set_indicator_state node:set_raid_state node:get_console node:set_console_state""",
    ),
    # sys member or owner admin
    (
        "SA SG SM SS OA OG OS",
        """node:update:driver_interfaces node:get_boot_device node:set_boot_device
        node:inject_nmi node:traits:set node:traits:delete port:update portgroup:update""",
    ),
    # sys admin or owner admin
    ("SA SS OA OG OS", "port:create port:delete portgroup:create portgroup:delete"),
    # owner admin
    ("OA", "node:delete:self_owned_node"),
    # + lessee admin
    ("SA SG SM SS OA OG OS LA LG", "volume:create volume:delete"),
    # target properties
    (f"{_SYSTEM} OA LA TA", "volume:view_target_properties"),
    # allocation
    ("SA SG SM OA OG OM", "allocation:update allocation:delete"),
    (f"{_SYSTEM} OA OG OM OR", "allocation:get"),
    ("SA SG SM OA OG OM LA LG LM TA TG TM", "allocation:create"),
    ("OA LA TA", "allocation:create_pre_rbac"),
    # runbook
    ("SA SG SM SS OA OG OS LS TS VS", "runbook:update runbook:delete runbook:use"),
    (f"{_SYSTEM} OA OG OM OR OS LS TS VS", "runbook:get"),
    ("SA SG SM SS OA OG OS LA LG LS TA TG TS VS", "runbook:create"),
    # always
    (
        f"{_SYSTEM} {_EVERY_ROLE} ON DA",
        "node:ipa_heartbeat driver:ipa_lookup driver:ipa_continue_inspection",
    ),
)

#: The same for rules whose names have no prefix.
_OLD: Mapping[str, str] = {
    "show_password": "",
    "show_instance_secrets": "",
    "public_api": "",
    "service_role": "",
    "admin_api": "SA OA LA TA DA",
    "is_admin": "SA OA LA TA DA",
    "is_member": "",
    "is_observer": "",
    "is_node_owner": "OA OG OM OR OS ON",
    "is_node_lessee": "LA LG LM LR LS",
    "is_allocation_owner": "OA OG OM OR OS ON",
}

#: All rules, with who passes them.
PASSES: Mapping[str, frozenset[str]] = {
    **{
        f"baremetal:{rule}": frozenset(who.split())
        for who, rules in _TABLE
        for rule in rules.split()
    },
    **{rule: frozenset(who.split()) for rule, who in _OLD.items()},
}
#: Rules that tokens of projects never pass.
SYSTEM_ONLY: Set[str] = frozenset(
    f"baremetal:{rule}"
    for rule in [
        "node:update_owner_provisioned",
        "chassis:get",
        "chassis:create",
        "chassis:update",
        "chassis:delete",
        "driver:get",
        "driver:get_properties",
        "driver:get_raid_logical_disk_properties",
        "driver:vendor_passthru",
        "events:post",
    ]
)
#: Rules that an elevated service passes: those of system readers and members.
OF_ELEVATED_SERVICE = frozenset(
    rule for rule, who in PASSES.items() if {"SM"} <= who and rule not in SYSTEM_ONLY
) | {"service_role"}
