"""Options of group [service_catalog]: how the service finds its own API."""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import client

GROUP = cfg.OptGroup(
    "service_catalog",
    help="How the conductor learns the URL of the Bare Metal API that ramdisks call.",
)

OPTS: list[cfg.Opt] = client.options("baremetal")


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
