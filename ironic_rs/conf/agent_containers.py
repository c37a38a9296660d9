"""Options of group [agent_containers].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("agent_containers")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "allow_arbitrary_containers",
        default=False,
        help="Ramdisks may run any container image as a step, not only the allowed ones.",
    ),
    cfg.ListOpt(
        "allowed_containers",
        default=[],
        help="Container images that ramdisks may run as steps.",
    ),
    cfg.StrOpt(
        "container_steps_file",
        default="/etc/ironic-python-agent.d/mysteps.yaml",
        help="File inside the ramdisk that describes its container steps.",
    ),
    cfg.StrOpt(
        "runner",
        default="podman",
        choices=["podman", "docker"],
        help="Program with which ramdisks run containers.",
    ),
    cfg.ListOpt(
        "pull_options",
        default=[],
        help="Options of the runner when it pulls an image.",
    ),
    cfg.ListOpt(
        "run_options",
        default=["--rm", "--network=host"],
        help="Options of the runner when it runs a container.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
