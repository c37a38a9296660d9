"""Every configuration option, one module per group.

``CONF`` is the process-wide oslo.config object; import it from here so that all
options are registered.
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import (
    agent,
    api,
    auto_discovery,
    conductor,
    database,
    default,
    deploy,
    disk_utils,
    fake,
    inspector,
    inventory,
    pxe,
    redfish,
)

CONF = cfg.CONF

MODULES = (
    agent,
    api,
    auto_discovery,
    conductor,
    database,
    default,
    deploy,
    disk_utils,
    fake,
    inspector,
    inventory,
    pxe,
    redfish,
)

for _module in MODULES:
    _module.register(CONF)
