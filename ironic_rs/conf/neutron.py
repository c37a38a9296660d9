"""Options of group [neutron]: how to reach the Networking service, and its networks.

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import client

GROUP = cfg.OptGroup(
    "neutron",
    help="How the conductor reaches the Networking service, and which networks it uses.",
)


def _network(kind: str, used: str, *old_names: str) -> list[cfg.Opt]:
    return [
        cfg.StrOpt(
            f"{kind}_network",
            mutable=True,
            deprecated_opts=[cfg.DeprecatedOpt(name, group="neutron") for name in old_names],
            help=(
                f"Name or UUID of the network that machines are in {used}. driver_info "
                f"{kind}_network of a node wins."
            ),
        ),
        cfg.ListOpt(
            f"{kind}_network_security_groups",
            default=[],
            mutable=True,
            help=(
                f"UUIDs of the security groups of the ports that are made in the {kind} network "
                "by network interface neutron."
            ),
        ),
    ]


OPTS: list[cfg.Opt] = [
    *client.options("network"),
    *_network("cleaning", "while they are cleaned", "cleaning_network_uuid"),
    *_network("provisioning", "while they are deployed", "provisioning_network_uuid"),
    *_network("rescuing", "while the rescue ramdisk runs"),
    *_network("inspection", "while they are inspected"),
    *_network("servicing", "while they are serviced"),
    cfg.IntOpt(
        "request_timeout",
        default=45,
        min=1,
        mutable=True,
        help="Seconds to wait for the answer to one request.",
    ),
    cfg.IntOpt(
        "retries",
        default=3,
        min=0,
        mutable=True,
        help=(
            "How often to try again when the connection fails. Requests that create something "
            "are not sent twice, and none after a time-out. connect_retries and "
            "status_code_retries, when set, come on top and know no exceptions."
        ),
    ),
    cfg.IntOpt(
        "port_setup_delay",
        default=0,
        min=0,
        mutable=True,
        help=(
            "Seconds to wait after the DHCP options of ports were set, for DHCP agents that take "
            "them over late."
        ),
    ),
    cfg.BoolOpt(
        "add_all_ports",
        default=False,
        mutable=True,
        help=(
            "Connect all ports of a machine to the cleaning, provisioning and other networks of "
            "the service, not only those with pxe_enabled; and let it boot from any of them."
        ),
    ),
    cfg.IntOpt(
        "dhcpv6_stateful_address_count",
        default=4,
        min=1,
        mutable=True,
        help=(
            "How many IPv6 addresses a port gets in a subnet with stateful DHCPv6: firmware, boot "
            "loader and ramdisk each ask for one of their own."
        ),
    ),
    cfg.BoolOpt(
        "fail_on_port_binding_failure",
        default=True,
        help=(
            "With network interface neutron: wait until a port is active, and fail when it could "
            "not be bound. driver_info fail_on_binding_failure of a node wins."
        ),
    ),
    cfg.BoolOpt(
        "allow_disabling_power_off",
        default=False,
        help=(
            "Accept nodes with disable_power_off in network interface neutron: a machine that "
            "stays on moves between networks while its old system runs."
        ),
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
