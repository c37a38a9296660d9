#!/usr/bin/env python3
"""Write the pages and tables that are made from the code's own tables.

``python docs/generate.py`` writes them, ``--check`` only tells which are stale
(exit code 1). ``tests/unit/test_docs.py`` runs the check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from keystoneauth1 import loading
from oslo_config import cfg

from ironic_rs.conf import compat

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "made by docs/generate.py, do not edit"

LIBRARIES = (
    "cotyledon",
    "keystonemiddleware.",
    "oslo.cache",
    "oslo.concurrency",
    "oslo.config",
    "oslo.db",
    "oslo.log",
    "oslo.messaging",
    "oslo.middleware",
    "oslo.policy",
    "oslo.service.",
)


def library_options() -> str:
    """Names of all options that the libraries register, for ``conf/compat.py``."""
    names: set[str] = set()
    for entry in metadata.entry_points(group="oslo.config.opts"):
        if entry.name.startswith(LIBRARIES):
            for group, options in entry.load()():
                names.update(_names(getattr(group, "name", group) or "DEFAULT", options))
    for plugin in loading.get_available_plugin_loaders().values():
        names.update(_names(compat.AUTH_SECTION, plugin.get_options()))
    common = [
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
        *loading.get_auth_common_conf_options(),
    ]
    names.update(_names(compat.AUTH_SECTION, common))
    head = f"# Options of the libraries, one a line: group.name; {NOTICE}.\n"
    return head + "".join(f"{name}\n" for name in sorted(names))


def _names(group: str, options: list[cfg.Opt]) -> set[str]:
    found = set()
    for option in options:
        name = option.name.replace("-", "_")
        found.add(f"{group}.{name}")
        # keystoneauth has option classes of its own.
        old_names = option.deprecated if hasattr(option, "deprecated") else option.deprecated_opts
        for old in old_names:
            old_group = getattr(old, "group", None) or group
            found.add(f"{old_group}.{(old.name or name).replace('-', '_')}")
    return found


PAGES: dict[str, Callable[[], str]] = {
    "ironic_rs/conf/library_options.txt": library_options,
}


def main(argv: list[str]) -> int:
    """Write or check all pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only tell which pages are stale")
    check = parser.parse_args(argv).check
    stale = []
    for name, page in PAGES.items():
        path = ROOT / name
        text = page()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text)
    for name in stale:
        print(f"stale: {name}" if check else f"written: {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
