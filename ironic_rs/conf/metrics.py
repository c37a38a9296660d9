"""Options of group [metrics].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("metrics")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "backend",
        default="noop",
        choices=[
            ("noop", "nowhere"),
            ("statsd", "to the server of [metrics_statsd]"),
            (
                "collector",
                "into memory, to be sent with the sensor data of the conductor",
            ),
            (
                "prometheus",
                "offered over HTTP by the conductor, at prometheus_address and prometheus_port",
            ),
        ],
        help="Where the conductor sends its metrics.",
    ),
    cfg.BoolOpt(
        "prepend_host",
        default=False,
        help="Put the name of the conductor before the names of metrics.",
    ),
    cfg.BoolOpt(
        "prepend_host_reverse",
        default=True,
        help="Reverse the parts of the host name that are put before the names of metrics.",
    ),
    cfg.StrOpt(
        "global_prefix",
        help="Text that is put before the names of all metrics.",
    ),
    cfg.StrOpt(
        "prometheus_address",
        default="127.0.0.1",
        help=(
            "Address that /metrics is offered at, with backend prometheus. It is open to whoever "
            "reaches it."
        ),
    ),
    cfg.PortOpt(
        "prometheus_port",
        default=9608,
        help="Port that /metrics is offered at, with backend prometheus.",
    ),
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
