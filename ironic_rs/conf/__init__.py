"""Every configuration option, one module per group.

``CONF`` is the process-wide oslo.config object; import it from here so that all
options are registered.
"""

from __future__ import annotations

from oslo_config import cfg

from ironic_rs.conf import (
    agent,
    agent_containers,
    api,
    audit,
    auto_discovery,
    conductor,
    conductor_images,
    console,
    database,
    default,
    deploy,
    dhcp,
    disk_utils,
    dnsmasq,
    drac,
    drivers,
    fake,
    healthcheck,
    inspection_rules,
    inspector,
    inventory,
    ipmi,
    json_rpc,
    metrics,
    metrics_statsd,
    neutron,
    notifications,
    nova,
    oslo_policy,
    pxe,
    redfish,
    self_healing,
    sensor_data,
    service_catalog,
    time_in_state,
)

CONF = cfg.CONF

MODULES = (
    agent,
    agent_containers,
    api,
    audit,
    auto_discovery,
    conductor,
    conductor_images,
    console,
    database,
    default,
    deploy,
    dhcp,
    disk_utils,
    dnsmasq,
    drac,
    drivers,
    fake,
    healthcheck,
    inspection_rules,
    inspector,
    inventory,
    ipmi,
    json_rpc,
    metrics,
    metrics_statsd,
    oslo_policy,
    neutron,
    nova,
    notifications,
    pxe,
    redfish,
    sensor_data,
    self_healing,
    service_catalog,
    time_in_state,
)

for _module in MODULES:
    _module.register(CONF)
