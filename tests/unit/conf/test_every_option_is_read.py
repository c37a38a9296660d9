"""An option that nobody reads is a lie to the operator: it is not registered.

The package is searched for ``CONF.<group>.<name>``, for ``<name>`` of a group held
in a variable, for item access and for ``getattr`` with a text or an f-string.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import ironic_rs
from ironic_rs.conf import opts

PACKAGE = Path(ironic_rs.__file__).parent
CONF_NAMES = {"CONF", "conf", "_conf"}
CASES = [(group, option) for group, options in opts.list_opts() for option in options]


@dataclass
class Reads:
    """What one module reads by attribute and by text."""

    attributes: set[str] = field(default_factory=set)
    of_conf: set[str] = field(default_factory=set)
    texts: list[re.Pattern[str]] = field(default_factory=list)

    def reads(self, group: str, name: str) -> bool:
        by_text = any(pattern.fullmatch(name) for pattern in self.texts)
        if group == "DEFAULT":
            return name in self.of_conf or by_text
        return group in self.of_conf and (name in self.attributes or by_text)


def is_conf(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
    return name in CONF_NAMES


def is_conf_or_group(node: ast.expr) -> bool:
    return is_conf(node) or is_conf(getattr(node, "value", node))


def pattern_of(node: ast.expr) -> re.Pattern[str] | None:
    """Return what names a text or an f-string can stand for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.compile(re.escape(node.value))
    if isinstance(node, ast.JoinedStr) and any(isinstance(p, ast.Constant) for p in node.values):
        parts = [
            re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+"
            for part in node.values
        ]
        return re.compile("".join(parts))
    return None


def reads_of(source: str) -> Reads:
    found = Reads()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.attributes.add(node.attr)
            if is_conf(node.value):
                found.of_conf.add(node.attr)
            continue
        if isinstance(node, ast.Subscript) and is_conf_or_group(node.value):
            of, key = node.value, node.slice
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", None) == "getattr"
            and len(node.args) > 1
        ):
            of, key = node.args[:2]
        else:
            continue
        pattern = pattern_of(key)
        if pattern is None:
            continue
        found.texts.append(pattern)
        if is_conf(of):
            found.of_conf.update([key.value] if isinstance(key, ast.Constant) else [])
    return found


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


@pytest.mark.parametrize(("group", "option"), CASES, ids=[f"{g}.{o.name}" for g, o in CASES])
def test_an_option_is_read(group, option):
    assert option.dest in referred_to() or any(
        module.reads(group, option.dest) for module in modules()
    )


@pytest.mark.parametrize(
    "source",
    [
        "CONF.api.port",
        "self.conf.api.port",
        "section = CONF.api\nsection.port",
        "CONF['api']['port']",
        "getattr(CONF.api, 'port')",
        "getattr(CONF.api, f'po{x}')",
    ],
)
def test_every_way_of_reading_is_found(source):
    assert reads_of(source).reads("api", "port")


@pytest.mark.parametrize("source", ["CONF.port", "thing.port", "CONF.api", "api.port", "'port'"])
def test_what_is_no_reading_is_not_found(source):
    assert not reads_of(source).reads("api", "port")


@pytest.mark.parametrize(
    "source", ["CONF.default_boot_interface", "getattr(conf, f'default_{kind}_interface')"]
)
def test_options_of_the_default_group_are_found(source):
    assert reads_of(source).reads("DEFAULT", "default_boot_interface")
