"""HTTP adapters for other services, made from the option groups of keystoneauth."""

from __future__ import annotations

import functools

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import loading

from ironic_rs.conf import CONF

#: Seconds for one request when the operator sets none: without a limit a hanging
#: Keystone would keep a locked node's worker for ever.
_TIMEOUT = 60


@functools.cache
def adapter(group: str) -> ksa_adapter.Adapter:
    """Return the adapter of an option group; it keeps its token while that is valid.

    :raises keystoneauth1.exceptions.ClientException,
        keystoneauth1.exceptions.MissingRequiredOptions: the options do not suffice.
    """
    return loading.load_adapter_from_conf_options(
        CONF,
        group,
        auth=loading.load_auth_from_conf_options(CONF, group),
        session=loading.load_session_from_conf_options(
            CONF, group, timeout=CONF[group].timeout or _TIMEOUT
        ),
    )
