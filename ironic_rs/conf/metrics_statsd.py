"""Options of group [metrics_statsd].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("metrics_statsd")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "statsd_host",
        default="localhost",
        help="Host of the statsd server that the conductor sends metrics to.",
    ),
    cfg.PortOpt(
        "statsd_port",
        default=8125,
        help="UDP port of the statsd server that the conductor sends metrics to.",
    ),
    cfg.StrOpt(
        "agent_statsd_host",
        default="localhost",
        help="Host of the statsd server that ramdisks send metrics to.",
    ),
    cfg.PortOpt(
        "agent_statsd_port",
        default=8125,
        help="UDP port of the statsd server that ramdisks send metrics to.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
