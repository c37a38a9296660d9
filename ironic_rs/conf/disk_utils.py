"""Options of group [disk_utils].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("disk_utils")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "image_convert_memory_limit",
        default=2048,
        help="Most memory, in MiB of address space, that one conversion of an image may use.",
    ),
    cfg.IntOpt(
        "image_convert_attempts",
        default=3,
        help="How often a conversion is tried while it fails for a lack of memory.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
