"""Options of group [time_in_state]: how long a node is expected to be in a transient state."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "time_in_state",
    help="How long nodes are expected to be in the states that they should leave by themselves.",
)

_MINUTE = 60
_HOUR = 60 * _MINUTE

#: What is expected of each state, in seconds.
EXPECTED = {
    "verifying": 10 * _MINUTE,
    "inspecting": 30 * _MINUTE,
    "inspect wait": 1 * _HOUR,
    "adopting": 10 * _MINUTE,
    "cleaning": 1 * _HOUR,
    # Disks may have to be overwritten.
    "clean wait": 12 * _HOUR,
    "deploying": 30 * _MINUTE,
    "wait call-back": 2 * _HOUR,
    "deleting": 30 * _MINUTE,
    "rescuing": 30 * _MINUTE,
    "rescue wait": 1 * _HOUR,
    "unrescuing": 30 * _MINUTE,
    "servicing": 1 * _HOUR,
    "service wait": 12 * _HOUR,
}


OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "check_interval",
        default=60,
        min=0,
        mutable=True,
        help=(
            "Seconds between two looks at how long the nodes of the conductor are in their "
            "states; 0 switches the look off."
        ),
    ),
    *(
        cfg.IntOpt(
            state.replace(" ", "_").replace("-", "_"),
            default=seconds,
            min=0,
            mutable=True,
            help=(
                f"Seconds after which a node in state '{state}' is reported, in the log and in "
                "its history; 0: never."
            ),
        )
        for state, seconds in EXPECTED.items()
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
