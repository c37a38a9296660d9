"""The URL of our own API, as ramdisks are told it.

Source: specification drivers.md section 3 (Ironic API URL for the ramdisk).
"""

from __future__ import annotations

from keystoneauth1 import exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.integrations import keystone

LOG = log.getLogger(__name__)

_GROUP = "service_catalog"


def url() -> str:
    """Return the URL of the Bare Metal API, without a slash at its end.

    ``[service_catalog]endpoint_override``, else the service catalog when Keystone is
    in use, else ``[api]public_endpoint``.

    :raises InvalidParameterValue: none of them tells it.
    """
    found = CONF.service_catalog.endpoint_override
    if not found and CONF.auth_strategy == "keystone":
        try:
            found = keystone.adapter(_GROUP).get_endpoint()
        except (exceptions.ClientException, exceptions.MissingRequiredOptions) as exc:
            LOG.error("The service catalog does not tell the URL of our API: %s", exc)
    found = found or CONF.api.public_endpoint
    if not found:
        raise errors.InvalidParameterValue(
            "The URL of the Bare Metal API is not known: set [service_catalog]endpoint_override "
            "to the address that ramdisks can reach."
        )
    return str(found).rstrip("/")
