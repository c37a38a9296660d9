"""Options of group [service_catalog]: how the service finds its own API.

They are those of keystoneauth; the plug-in named by auth_type adds its own.
"""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = cfg.OptGroup(
    "service_catalog",
    help="How the conductor learns the URL of the Bare Metal API that ramdisks call.",
)

OPTS: list[cfg.Opt] = [
    *loading.get_session_conf_options(),
    *loading.get_auth_common_conf_options(),
    *loading.get_adapter_conf_options(include_deprecated=False),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this group."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
    conf.set_default("service_type", "baremetal", group=GROUP.name)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP.name)
