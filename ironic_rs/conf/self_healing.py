"""Options of group [self_healing]: calls that are made again while a flow runs."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "self_healing",
    help=(
        "How often a conductor makes a call again that met a fault which may pass, within a step "
        "or the preparation of a flow. By default it does not."
    ),
)


def _retries(whom: str, faults: str) -> str:
    return (
        f"How often calls to {whom} are made again within one step, for {faults}. Only calls "
        "that were refused or lost before they had an effect, or that may have it twice, are "
        "made again. 0: never."
    )


OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "bmc_retries",
        default=0,
        min=0,
        mutable=True,
        help=_retries("a BMC", "a BMC that is busy, away or does not answer in time"),
    ),
    cfg.IntOpt(
        "agent_retries",
        default=0,
        min=0,
        mutable=True,
        help=_retries("the agent in the ramdisk", "an agent that can not be reached"),
    ),
    cfg.IntOpt(
        "image_retries",
        default=0,
        min=0,
        mutable=True,
        help=_retries("a server of images", "a server that is busy or away"),
    ),
    cfg.FloatOpt(
        "backoff",
        default=5.0,
        min=0,
        mutable=True,
        help="Seconds before the first retry; each further one comes after twice the time.",
    ),
    cfg.FloatOpt(
        "max_backoff",
        default=60.0,
        min=0,
        mutable=True,
        help="Longest time between two tries, in seconds.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
