"""The rules of the policy, with who passes them when an operator changes nothing.

Entry point ``ironic_rs.api`` of the group ``oslo.policy.policies``, for the sample
and for the oslopolicy tools. Nothing enforces them with ``noauth`` and ``http_basic``.

Source: specification rest-api.md section 4, data/policies.json.
"""

from __future__ import annotations

import json
from importlib import resources

from oslo_policy import policy


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules with their defaults, in the order of the documentation."""
    table = json.loads((resources.files("ironic_rs.api") / "policies.json").read_text())
    return [
        _rule(name, rule["check"], rule["scope"], rule["operations"])
        for name, rule in table.items()
    ]


def _rule(
    name: str, check: str, scope: list[str] | None, operations: list[tuple[str, str]]
) -> policy.RuleDefault:
    if not operations:
        return policy.RuleDefault(name, check, scope_types=scope)
    return policy.DocumentedRuleDefault(
        name,
        check,
        description=name.removeprefix("baremetal:").replace(":", ": ").replace("_", " "),
        operations=[{"method": method, "path": path} for method, path in operations],
        scope_types=scope,
    )
