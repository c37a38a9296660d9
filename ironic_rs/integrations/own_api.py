"""The URL of our own API, as ramdisks are told it.

Source: specification drivers.md section 3 (Ironic API URL for the ramdisk).
"""

from __future__ import annotations

import functools

from keystoneauth1 import adapter, exceptions, loading
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

LOG = log.getLogger(__name__)

_GROUP = "service_catalog"
#: Seconds for one request to Keystone when the operator sets none.
_TIMEOUT = 60


@functools.cache
def _adapter() -> adapter.Adapter:
    """Return the adapter of the group; it keeps its token for as long as that is valid."""
    return loading.load_adapter_from_conf_options(
        CONF,
        _GROUP,
        auth=loading.load_auth_from_conf_options(CONF, _GROUP),
        session=loading.load_session_from_conf_options(
            # Without a limit a hanging Keystone would keep a locked node's worker for ever.
            CONF,
            _GROUP,
            timeout=CONF.service_catalog.timeout or _TIMEOUT,
        ),
    )


def url() -> str:
    """Return the URL of the Bare Metal API, without a slash at its end.

    ``[service_catalog]endpoint_override``, else the service catalog when Keystone is
    in use, else ``[api]public_endpoint``.

    :raises InvalidParameterValue: none of them tells it.
    """
    found = CONF.service_catalog.endpoint_override
    if not found and CONF.auth_strategy == "keystone":
        try:
            found = _adapter().get_endpoint()
        except (exceptions.ClientException, exceptions.MissingRequiredOptions) as exc:
            LOG.error("The service catalog does not tell the URL of our API: %s", exc)
    found = found or CONF.api.public_endpoint
    if not found:
        raise errors.InvalidParameterValue(
            "The URL of the Bare Metal API is not known: set [service_catalog]endpoint_override "
            "to the address that ramdisks can reach."
        )
    return str(found).rstrip("/")
