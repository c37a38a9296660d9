"""Options of group [inspection_rules].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("inspection_rules")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "built_in_rules",
        mutable=True,
        help=(
            "Path of a YAML file with a list of inspection rules that all inspections have "
            "beside those of the API. It is read at each inspection; a bad file stops the start."
        ),
    ),
    cfg.StrOpt(
        "mask_secrets",
        default="always",
        choices=["always", "never", "sensitive"],
        help=(
            "Whether passwords and tokens in the inspected data read as *** in rules: always, "
            "never, or in all but sensitive rules."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
