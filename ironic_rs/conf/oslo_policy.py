"""The option of group [oslo_policy] that oslo.policy itself has no more.

Specification clients.md section 1; oslo.policy 6 dropped it with its meaning.
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("oslo_policy")

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enforce_scope",
        default=True,
        help=(
            "Refuse tokens whose scope (system, project, domain) is not that of the rule, "
            "whatever their roles."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
