"""Which image servers get the credentials of ``[deploy]image_server_user``.

Source: specification drivers.md section 12.2.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from ironic_rs.conf import CONF
from ironic_rs.domain import errors


def permitted(href: str) -> bool:
    """Tell whether the credentials may be sent to the host of an image.

    References that are not http(s) or oci never carry them over the network and
    are permitted.
    """
    parts = urlsplit(href)
    if parts.scheme not in ("http", "https", "oci"):
        return True
    hosts = CONF.deploy.image_server_auth_hosts
    if not hosts:
        return bool(CONF.deploy.image_server_auth_permit_unknown_hosts)
    host = (parts.hostname or "").lower()
    return any(
        host == entry.lower() or (entry.startswith(".") and host.endswith(entry.lower()))
        for entry in hosts
    )


def basic_auth(href: str) -> tuple[str, str] | None:
    """Return (user, password) for an image, None when it gets none.

    :raises MissingParameterValue: ``http_basic`` is configured without them.
    """
    deploy = CONF.deploy
    if deploy.image_server_auth_strategy != "http_basic" or not permitted(href):
        return None
    if not deploy.image_server_user or not deploy.image_server_password:
        raise errors.MissingParameterValue(
            "[deploy]image_server_auth_strategy is http_basic, but image_server_user or "
            "image_server_password is not set."
        )
    return deploy.image_server_user, deploy.image_server_password
