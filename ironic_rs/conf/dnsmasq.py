"""Options of group [dnsmasq].

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup("dnsmasq")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "dhcp_optsdir",
        default="/etc/dnsmasq.d/optsdir.d",
        help="Directory with one file of DHCP options for each node: dnsmasq's dhcp-optsdir.",
    ),
    cfg.StrOpt(
        "dhcp_hostsdir",
        default="/etc/dnsmasq.d/hostsdir.d",
        help="Directory with one file for each MAC address: dnsmasq's dhcp-hostsdir.",
    ),
    cfg.StrOpt(
        "dhcp_leasefile",
        default="/var/lib/dnsmasq/dnsmasq.leases",
        help="File in which dnsmasq keeps its leases.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
