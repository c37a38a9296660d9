"""Rules of oslo.policy, made ready to be evaluated many times.

oslo.policy inspects the signature of each part of a rule, and parses the names in it,
at every evaluation: half a millisecond for a rule of ours. Here that is done once, when
the rules are loaded; the meaning is the same.

Source: oslo.policy's documentation of policy files.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from oslo_policy import policy

Target = Mapping[str, Any]
Caller = MutableMapping[str, Any]
Evaluate = Callable[[Target, Caller, policy.Enforcer], bool]


def _class_of(text: str) -> type:
    return type(policy.RuleDefault("name", text).check)


_TRUE, _FALSE = _class_of("@"), _class_of("!")
_ROLE, _COMPARISON = _class_of("role:x"), _class_of("attribute:x")


class Prepared(policy.Check):
    """A rule that is ready to be evaluated.

    :param check: the rule as oslo.policy has parsed it.
    """

    def __init__(self, check: Any) -> None:
        super().__init__("prepared", str(check))
        self._evaluate = _prepare(check)

    def __str__(self) -> str:
        return self.match

    def __call__(
        self,
        target: Target,
        creds: Caller,
        enforcer: policy.Enforcer,
        current_rule: str | None = None,
    ) -> bool:
        return self._evaluate(target, creds, enforcer)


def _prepare(check: Any) -> Evaluate:
    kind = type(check)
    if kind is _TRUE:
        return lambda target, caller, enforcer: True
    if kind is _FALSE:
        return lambda target, caller, enforcer: False
    if kind is policy.AndCheck:
        parts = [_prepare(part) for part in check.rules]
        return lambda target, caller, enforcer: all(p(target, caller, enforcer) for p in parts)
    if kind is policy.OrCheck:
        parts = [_prepare(part) for part in check.rules]
        return lambda target, caller, enforcer: any(p(target, caller, enforcer) for p in parts)
    if kind is policy.NotCheck:
        refused = _prepare(check.rule)
        return lambda target, caller, enforcer: not refused(target, caller, enforcer)
    if kind is policy.RuleCheck:
        return _other_rule(check.match)
    if kind is _ROLE:
        return _role(check.match)
    if kind is _COMPARISON:
        return _comparison(check.kind, check.match)
    # Checks of other packages and of remote servers.
    return lambda target, caller, enforcer: bool(check(target, caller, enforcer, None))


def _other_rule(name: str) -> Evaluate:
    def evaluate(target: Target, caller: Caller, enforcer: policy.Enforcer) -> bool:
        try:
            rule: Any = enforcer.rules[name]
        except KeyError:
            return False
        return bool(rule(target, caller, enforcer, name))

    return evaluate


def _role(match: str) -> Evaluate:
    def evaluate(target: Target, caller: Caller, enforcer: policy.Enforcer) -> bool:
        try:
            wanted = (match % target).lower()
        except KeyError:
            return False
        return any(wanted == role.lower() for role in caller.get("roles", ()))

    return evaluate


def _comparison(kind: str, match: str) -> Evaluate:
    """Compare a literal, or an attribute of the caller, with text about the target."""
    literal: str | None
    try:
        literal = str(ast.literal_eval(kind))
    except (ValueError, SyntaxError):
        literal = None
    path = kind.split(".")

    def evaluate(target: Target, caller: Caller, enforcer: policy.Enforcer) -> bool:
        try:
            wanted = match % target
        except KeyError:
            return False
        return wanted == literal if literal is not None else _is_at(caller, path, wanted)

    return evaluate


def _is_at(value: Any, path: Sequence[str], wanted: str) -> bool:
    """Tell whether the text is what is at the path; of a list, one of its items."""
    for number, name in enumerate(path):
        if isinstance(value, list):
            return any(_is_at(item, path[number:], wanted) for item in value)
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    if isinstance(value, list):
        return any(_is_at(item, (), wanted) for item in value)
    return wanted == str(value)
