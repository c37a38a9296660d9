"""The rules of the policy, with who passes them when an operator changes nothing.

Entry point ``ironic_rs.api`` of the group ``oslo.policy.policies``, for the sample
and for the oslopolicy tools. Nothing enforces them with ``noauth`` and ``http_basic``.

Source: specification rest-api.md section 4, data/policies.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from oslo_policy import policy

#: In OpenStack's Wallaby cycle the rules learned of scopes and of the roles below admin.
_SINCE = "17.0.0"
_REASON = "The rules before scopes and the roles reader, member and manager."


def list_rules(*, scoped: bool = True) -> list[policy.RuleDefault]:
    """Return all rules with their defaults, in the order of the documentation.

    Rules with a legacy check are that check as well when
    ``[oslo_policy]enforce_new_defaults`` is off.

    :param scoped: with the scopes that they are for.
    """
    table = json.loads((resources.files("ironic_rs.api") / "policies.json").read_text())
    return [_rule(name, row, row["scope"] if scoped else None) for name, row in table.items()]


def _rule(name: str, row: Mapping[str, Any], scope: list[str] | None) -> policy.RuleDefault:
    more: dict[str, Any] = {"scope_types": scope}
    if row.get("legacy_only"):
        more |= {
            "deprecated_for_removal": True,
            "deprecated_reason": _REASON,
            "deprecated_since": _SINCE,
        }
    if "legacy" in row:
        legacy_name, legacy_check = row["legacy"]
        more["deprecated_rule"] = policy.DeprecatedRule(
            legacy_name, legacy_check, deprecated_reason=_REASON, deprecated_since=_SINCE
        )
    if not row["operations"]:
        return policy.RuleDefault(name, row["check"], **more)
    return policy.DocumentedRuleDefault(
        name,
        row["check"],
        description=name.removeprefix("baremetal:").replace(":", ": ").replace("_", " "),
        operations=[{"method": method, "path": path} for method, path in row["operations"]],
        **more,
    )
