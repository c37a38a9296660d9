"""An option that nobody reads is a lie to the operator: it is not registered.

The package is searched for ``CONF.<group>.<name>``, for ``<name>`` of a group held
in a variable, for item access and for ``getattr``. Where a group is read by a name
in a variable, every text of the package that is the name counts.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import ironic_rs
from ironic_rs.conf import compat, opts

PACKAGE = Path(ironic_rs.__file__).parent
CONF_NAMES = {"CONF", "conf", "_conf"}
LEAST_TEXT = 6
"""Shorter f-strings, such as ``{a}_{b}``, could be anything."""

LISTED = [(group, option) for group, options in opts.list_opts() for option in options]
AUTH_GROUPS = {group for group, option in LISTED if option.dest == "auth_type"}
CASES = [
    (group, option)
    for group, option in LISTED
    # keystoneauth reads its own options.
    if group not in AUTH_GROUPS
    or f"{compat.AUTH_SECTION}.{option.dest}" not in compat._library_options()
]


@dataclass
class Reads:
    """What one module, or all together, read by attribute and by text."""

    attributes: set[str] = field(default_factory=set)
    of_conf: set[str] = field(default_factory=set)
    items: set[tuple[str, str]] = field(default_factory=set)
    groups_by_variable: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    patterns: list[re.Pattern[str]] = field(default_factory=list)

    def reads(self, group: str, name: str) -> bool:
        if group == "DEFAULT" and name in self.of_conf:
            return True
        return (group, name) in self.items or (group in self.of_conf and name in self.attributes)

    def names(self, name: str) -> bool:
        return name in self.texts or any(pattern.fullmatch(name) for pattern in self.patterns)


def group_of(node: ast.expr) -> str | None:
    """Return the group that an expression such as ``self.conf.api`` stands for."""
    if _is_conf(node):
        return "DEFAULT"
    if isinstance(node, ast.Attribute) and _is_conf(node.value):
        return node.attr
    if isinstance(node, ast.Subscript) and _is_conf(node.value):
        return node.slice.value if isinstance(node.slice, ast.Constant) else None
    return None


def _is_conf(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
    return name in CONF_NAMES


def reads_of(source: str) -> Reads:
    found = Reads()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.texts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            known = [str(p.value) for p in node.values if isinstance(p, ast.Constant)]
            if len("".join(known)) >= LEAST_TEXT:
                parts = (
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
                    for part in node.values
                )
                found.patterns.append(re.compile("".join(parts)))
        elif isinstance(node, ast.Attribute):
            found.attributes.add(node.attr)
            if _is_conf(node.value):
                found.of_conf.add(node.attr)
        elif isinstance(node, ast.Subscript):
            _item(found, node.value, node.slice)
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", None) == "getattr"
            and len(node.args) > 1
        ):
            _item(found, node.args[0], node.args[1])
    return found


def _item(found: Reads, of: ast.expr, key: ast.expr) -> None:
    group = group_of(of)
    if group is None:
        return
    if isinstance(key, ast.Constant):
        found.items.add((group, key.value))
    else:
        found.groups_by_variable.add(group)


@cache
def modules() -> tuple[Reads, ...]:
    files = [
        file
        for file in PACKAGE.rglob("*.py")
        if file.parent.name != "conf" or file.name in {"loading.py", "compat.py"}
    ]
    return tuple(reads_of(file.read_text()) for file in files)


@cache
def referred_to() -> frozenset[str]:
    """Return names that the default of another option contains as ``$name``."""
    defaults = [str(option.default) for _, option in CASES] + ["$state_path/ironic.sqlite"]
    return frozenset(name for text in defaults for name in re.findall(r"\$(\w+)", text))


def is_read(group: str, name: str, where: tuple[Reads, ...]) -> bool:
    if name in referred_to() or any(module.reads(group, name) for module in where):
        return True
    by_variable = any(group in module.groups_by_variable for module in where)
    return by_variable and any(module.names(name) for module in where)


@pytest.mark.parametrize(("group", "option"), CASES, ids=[f"{g}.{o.name}" for g, o in CASES])
def test_an_option_is_read(group, option):
    found = is_read(group, option.dest, modules())
    assert found


@pytest.mark.parametrize(("group", "option"), CASES, ids=[f"{g}.{o.name}" for g, o in CASES])
def test_an_option_says_what_it_is_for(group, option):
    assert option.help


@pytest.mark.parametrize(
    "source",
    [
        "CONF.api.port",
        "self.conf.api.port",
        "section = CONF.api\nsection.port",
        "CONF['api']['port']",
        "getattr(CONF.api, 'port')",
        "getattr(CONF.api, f'{x}_workers')",
        "getattr(CONF.api, name)\nTABLE = {'port': 1}",
    ],
)
def test_every_way_of_reading_is_found(source):
    assert is_read("api", "api_workers" if "workers" in source else "port", (reads_of(source),))


@pytest.mark.parametrize(
    "source",
    ["CONF.port", "thing.port", "CONF.api", "api.port", "'port'", "getattr(CONF.pxe, x)\n'port'"],
)
def test_what_is_no_reading_is_not_found(source):
    assert not is_read("api", "port", (reads_of(source),))


@pytest.mark.parametrize(
    "source",
    [
        "CONF.default_boot_interface",
        "getattr(conf, f'default_{kind}_interface')",
        "option = f'default_{kind}_interface'\nself._conf[option]",
    ],
)
def test_options_of_the_default_group_are_found(source):
    assert is_read("DEFAULT", "default_boot_interface", (reads_of(source),))
