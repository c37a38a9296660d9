"""Who may do what: the one place that decides, asked once per request.

With ``noauth`` and ``http_basic`` nothing is enforced (rest-api.md section 4); the
rule names are in the route table, so that a strategy which does enforce needs no
change elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext


class Enforcer(Protocol):
    """Decides about rules for the caller of a request."""

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        """Tell whether the rule passes for a target such as ``{"node.owner": ...}``."""


class Permissive:
    """Enforcer of the strategies without policy."""

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        return True


def node_target(node: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what rules may ask about a node."""
    return {"node.owner": node["owner"], "node.lessee": node["lessee"]}


def check(
    enforcer: Enforcer, context: RequestContext, rules: tuple[str, ...], target: Mapping[str, Any]
) -> None:
    """Require all of the rules.

    :raises HTTPForbidden: one of them refuses.
    """
    for rule in rules:
        if not enforcer.allows(context, rule, target):
            raise errors.HTTPForbidden(resource=rule)


def check_any(
    enforcer: Enforcer, context: RequestContext, rules: tuple[str, ...], target: Mapping[str, Any]
) -> None:
    """Require one of the rules.

    :raises HTTPForbidden: all refuse.
    """
    if not any(enforcer.allows(context, rule, target) for rule in rules):
        raise errors.HTTPForbidden(resource=rules[-1])


def visible(enforcer: Enforcer, context: RequestContext, node: Mapping[Any, Any]) -> bool:
    """Tell whether the caller may know that the node exists."""
    return enforcer.allows(context, "baremetal:node:get", node_target(node))
