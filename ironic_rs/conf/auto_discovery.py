"""Options of group [auto_discovery].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("auto_discovery")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        mutable=True,
        help=(
            "Whether machines that are not known yet are enrolled when their ramdisk posts "
            "inspection data."
        ),
    ),
    cfg.StrOpt(
        "driver",
        mutable=True,
        help="Hardware type of nodes that are enrolled by themselves.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
