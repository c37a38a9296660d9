"""Options of group [console].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_rs.conf.types import PortRange

GROUP = cfg.OptGroup("console")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "terminal_pid_dir",
        help="Directory of the files of running consoles. Default: [DEFAULT]tempdir.",
    ),
    cfg.IntOpt(
        "terminal_timeout",
        default=600,
        min=0,
        help="Seconds after which an idle connection to a console is closed; 0: never.",
    ),
    cfg.IntOpt(
        "subprocess_checking_interval",
        default=1,
        help="Seconds between looks whether a console that was started is ready.",
    ),
    cfg.IntOpt(
        "subprocess_timeout",
        default=10,
        help="Seconds after which a console that is not ready has failed to start.",
    ),
    cfg.IntOpt(
        "kill_timeout",
        default=1,
        help="Seconds after which a console that does not end is killed.",
    ),
    cfg.IPOpt(
        "socat_address",
        default="$my_ip",
        help="Address of this host that consoles listen on.",
    ),
    cfg.Opt(
        "port_range",
        type=types.List(item_type=PortRange(), bounds=False),
        help=(
            "Ports for consoles of nodes without ipmi_terminal_port: FIRST:LAST, or several "
            "such ranges separated by commas."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
