"""Options of group [dhcp].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("dhcp")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "dhcp_provider",
        default="neutron",
        help=(
            "What tells machines where to boot from: neutron, dnsmasq (files for a dnsmasq on "
            "the conductor's host) or none (a DHCP server that somebody else configures). A "
            "name that you set must be installed; the built-in default becomes none where "
            "neutron is not."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
