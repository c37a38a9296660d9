"""Who may do what: the one place that decides, asked once per request.

With ``noauth`` and ``http_basic`` nothing is enforced (rest-api.md section 4); the
rule names are in the route table, so that a strategy which does enforce needs no
change elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from oslo_config import cfg

from ironic_rs.api.enforcement import RoleBased
from ironic_rs.rpc.context import RequestContext

#: Rules that nobody passes unless the operator's file says otherwise.
SHOW_DRIVER_SECRETS = "show_password"
SHOW_INSTANCE_SECRETS = "show_instance_secrets"


class Enforcer(Protocol):
    """Decides about rules for the caller of a request."""

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        """Tell whether the rule passes for a target such as ``{"node.owner": ...}``."""


class Permissive:
    """Enforcer of the strategies without policy: all is allowed but to see secrets."""

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        return rule not in (SHOW_DRIVER_SECRETS, SHOW_INSTANCE_SECRETS)


def enforcer(conf: cfg.ConfigOpts) -> Enforcer:
    """Return what decides with the configured ``[DEFAULT]auth_strategy``.

    :raises IncorrectConfiguration: a policy file can not be used.
    """
    return RoleBased(conf) if conf.auth_strategy == "keystone" else Permissive()


def node_target(node: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what rules may ask about a node, and about what is attached to it.

    That is: ports, portgroups, volume connectors and targets, histories, ...
    """
    return {"node.owner": node["owner"], "node.lessee": node["lessee"]}


def allocation_target(owner: str | None) -> dict[str, Any]:
    """Return what rules may ask about an allocation."""
    return {"allocation.owner": owner}


def runbook_target(owner: str | None, public: bool) -> dict[str, Any]:
    """Return what rules may ask about a runbook."""
    return {"runbook.owner": owner, "runbook.public": public}
