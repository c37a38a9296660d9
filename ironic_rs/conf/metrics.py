"""Options of group [metrics].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("metrics")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "agent_backend",
        default="noop",
        help="Where ramdisks send their metrics; told to them at look-up.",
    ),
    cfg.BoolOpt(
        "agent_prepend_host",
        default=False,
        help="Ramdisks put their host name before the names of metrics.",
    ),
    cfg.BoolOpt(
        "agent_prepend_uuid",
        default=False,
        help="Ramdisks put the UUID of the node before the names of metrics.",
    ),
    cfg.BoolOpt(
        "agent_prepend_host_reverse",
        default=True,
        help="Ramdisks reverse the parts of the host name that they put before names of metrics.",
    ),
    cfg.StrOpt(
        "agent_global_prefix",
        help="Text that ramdisks put before the names of all metrics.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
