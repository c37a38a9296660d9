"""Options of group [drac].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("drac")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "boot_device_job_status_timeout",
        default=30,
        min=1,
        help="Seconds that the job may take which makes a virtual medium the boot device.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
