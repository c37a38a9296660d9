"""Options that every group has which says how to reach another service."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg


def options(service_type: str) -> list[cfg.Opt]:
    """Return the options of keystoneauth; the plug-in named by auth_type adds its own.

    :param service_type: type in the service catalog.
    """
    made: list[cfg.Opt] = [
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_adapter_conf_options(include_deprecated=False),
    ]
    defaults: dict[str, Any] = {
        "service_type": service_type,
        "valid_interfaces": ["internal", "public"],
    }
    for option in made:
        option.default = defaults.get(option.dest, option.default)
    return made
