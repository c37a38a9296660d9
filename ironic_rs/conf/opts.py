"""All options as lists: for the sample file, the documentation and the checks.

Entry point ``ironic_rs`` of the group ``oslo.config.opts``.
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import MODULES


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group name, options), sorted by group with ``DEFAULT`` first."""
    groups: dict[str, list[cfg.Opt]] = {}
    for module in MODULES:
        name = module.GROUP.name if hasattr(module, "GROUP") else "DEFAULT"
        groups.setdefault(name, []).extend(module.OPTS)
    return sorted(groups.items(), key=lambda item: (item[0] != "DEFAULT", item[0]))


def register_all(conf: cfg.ConfigOpts) -> None:
    """Register every option with another object than the process-wide ``CONF``."""
    for module in MODULES:
        module.register(conf)
