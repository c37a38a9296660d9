"""Values from an inspection in the arguments of rules: ``{inventory[cpu][count]}``.

The syntax is that of ``str.format``, but only data can be reached by it: columns of
the node, keys of objects and places in lists.

Source: specification inspection.md section 7 (masking, interpolation).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ironic_rs.db import models, records

MASK = "***"
#: Keys of inventory and plugin data whose values rules do not see.
SECRET_KEYS = frozenset({"password", "auth_token", "bmc_password"})

_FIELD = re.compile(r"(\w+)((?:\.\w+|\[[^\[\]]*\])*)")
_STEP = re.compile(r"\.(\w+)|\[([^\[\]]*)\]")
#: Format specifications: none that nests, and no width of thousands.
_SPEC = re.compile(r"(?!.*\d{4})[^{}]{0,20}")
_CONVERSIONS = {None: None, "": None, "s": str, "r": repr, "a": ascii}
_PARSER = string.Formatter()
_NOTHING = object()


class Unresolved(Exception):
    """A text is no template that can be filled in."""


class Missing(Unresolved):
    """What a template names is not there."""


@dataclass(frozen=True)
class Scope:
    """What templates can name.

    :param masked: secrets of inventory and plugin data read as ``***``.
    :param item: what a loop is at.
    """

    node: models.Node
    inventory: Mapping[str, Any]
    plugin_data: Mapping[str, Any]
    masked: bool = True
    item: Any = _NOTHING

    @property
    def looped(self) -> bool:
        return self.item is not _NOTHING

    def at(self, item: Any) -> Scope:
        """Return the scope of one pass of a loop."""
        return Scope(self.node, self.inventory, self.plugin_data, self.masked, item)


def fill(value: Any, scope: Scope) -> Any:
    """Return a value with its templates filled in, at any depth; the others stay."""
    if isinstance(value, str):
        try:
            return fill_text(value, scope)
        except Unresolved:
            return value
    if isinstance(value, dict):
        return {fill(key, scope): fill(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, scope) for item in value]
    return value


def fill_text(text: str, scope: Scope) -> str:
    """Return a text with its templates filled in.

    :raises Missing: one names something that is not there.
    :raises Unresolved: the text is malformed.
    """
    if "{" not in text and "}" not in text:
        return text
    try:
        pieces = list(_PARSER.parse(text))
    except ValueError as exc:
        raise Unresolved(str(exc)) from None
    return "".join(
        literal if field is None else literal + _shown(field, spec or "", conversion, scope)
        for literal, field, spec, conversion in pieces
    )


def _shown(field: str, spec: str, conversion: str | None, scope: Scope) -> str:
    match = _FIELD.fullmatch(field)
    if match is None or conversion not in _CONVERSIONS or not _SPEC.fullmatch(spec):
        raise Unresolved(field)
    value = _look_up(match[1], match[2], scope)
    convert = _CONVERSIONS[conversion]
    try:
        return format(value if convert is None else convert(value), spec)
    except (TypeError, ValueError) as exc:
        raise Unresolved(str(exc)) from None


def _look_up(root: str, steps: str, scope: Scope) -> Any:
    masked = False
    if root == "node":
        value: Any = records.as_dict(scope.node)
        attribute = _STEP.match(steps)
        if attribute is None or attribute[1] not in value:
            raise Missing(root)
        value, steps = value[attribute[1]], steps[attribute.end() :]
    elif root in ("inventory", "plugin_data"):
        value, masked = getattr(scope, root), scope.masked
    elif root == "item" and scope.looped:
        value = scope.item
    else:
        raise Missing(root)
    for step in _STEP.finditer(steps):
        key = step[2]
        if key is None:
            raise Missing(step[1])
        value = MASK if masked and key in SECRET_KEYS else _member(value, key)
    return masked_copy(value) if masked else value


def _member(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)]
    raise Missing(key)


def masked_copy(value: Any) -> Any:
    """Return a value without the secrets in it."""
    if isinstance(value, Mapping):
        return {k: MASK if k in SECRET_KEYS else masked_copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [masked_copy(item) for item in value]
    return value
