"""What an operator's files set that this release does not read.

An ``ironic.conf`` written for the reference release is accepted as it is: options
without an effect here are named once at start, never refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from oslo_config import cfg
from oslo_log import log

from ironic_rs.conf import opts

LOG = log.getLogger(__name__)

AUTH_SECTION = "<keystoneauth>"
"""Pseudo-group of library_options.txt: options of any authentication plug-in."""

REFERENCE_LIBRARIES = frozenset({"oslo_reports", "oslo_versionedobjects", "profiler"})
"""Groups of libraries that the reference release uses and this one does not."""


def report_unused(conf: cfg.ConfigOpts) -> None:
    """Log one warning for known and one for unknown options that have no effect."""
    known: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    used = used_names(conf)
    for file in config_files(conf):
        for name in options_set_in(file):
            if name in used or _is_library_option(name):
                continue
            group, _, option = name.partition(".")
            is_known = name in reference_options() or group in REFERENCE_LIBRARIES
            found = known if is_known else unknown
            found.setdefault(str(file), []).append(f"[{group}]{option}")
    if known:
        LOG.warning("Options that this release accepts but does not use: %s", _by_file(known))
    if unknown:
        LOG.warning("Unknown options, perhaps misspelt, ignored: %s", _by_file(unknown))


def config_files(conf: cfg.ConfigOpts) -> list[Path]:
    """Return the files that were read, in the order of reading."""
    files = [Path(file) for file in conf.config_file or ()]
    for directory in conf.config_dirs:
        files.extend(sorted(Path(directory).glob("*.conf")))
    return files


def options_set_in(file: Path) -> list[str]:
    """Return ``group.name`` of all options that a file sets, in file order."""
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(file), sections).parse()
    return [
        f"{group}.{name.replace('-', '_')}" for group, names in sections.items() for name in names
    ]


def used_names(conf: cfg.ConfigOpts) -> set[str]:
    """Return ``group.name`` of all registered options and of their deprecated names."""
    names: set[str] = set()
    for entry in conf:
        value = conf[entry]
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            names.update(f"{entry}.{option}" for option in value)
        else:
            names.add(f"DEFAULT.{entry}")
    for group, options in opts.list_opts():
        for option in options:
            for old in option.deprecated_opts:
                names.add(f"{old.group or group}.{(old.name or option.name).replace('-', '_')}")
    return names


@cache
def reference_options() -> frozenset[str]:
    """Return ``group.name`` of every option of the reference release, old names included."""
    return frozenset(name for line in _lines("known_options.txt") for name in line.split())


@cache
def _library_options() -> frozenset[str]:
    return frozenset(_lines("library_options.txt"))


@cache
def _groups_with_auth() -> frozenset[str]:
    names = (name.partition(".") for name in reference_options() | _library_options())
    return frozenset(group for group, _, option in names if option == "auth_type")


def _is_library_option(name: str) -> bool:
    group, _, option = name.partition(".")
    if name in _library_options():
        return True
    return group in _groups_with_auth() and f"{AUTH_SECTION}.{option}" in _library_options()


def _lines(file: str) -> Iterator[str]:
    text = (resources.files("ironic_rs.conf") / file).read_text()
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _by_file(found: dict[str, list[str]]) -> str:
    return "; ".join(f"{file}: {_joined(names)}" for file, names in found.items())


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)
