"""Who calls, as a request says it: the names in WSGI, and nothing that checks them.

Source: specification rest-api.md section 4; keystonemiddleware's auth_token.
"""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping
from typing import Any

TOKEN_INFO = "keystone.token_info"
_STATUS = "HTTP_X_IDENTITY_STATUS"
SYSTEM_SCOPE = "OpenStack-System-Scope"

_NAMED = ("USER_ID", "USER_NAME", "USER_DOMAIN_ID", "USER_DOMAIN_NAME", "PROJECT_ID")
_MORE = ("PROJECT_NAME", "PROJECT_DOMAIN_ID", "PROJECT_DOMAIN_NAME", "DOMAIN_ID", "DOMAIN_NAME")
_ABOUT = (*_NAMED, *_MORE, "ROLES", "IDENTITY_STATUS")
#: What says who calls, by its names in WSGI: auth_token sets it, clients must not.
_IDENTITY = (
    "HTTP_OPENSTACK_SYSTEM_SCOPE",
    "HTTP_X_AUTH_TOKEN",
    "HTTP_X_IS_ADMIN_PROJECT",
    "HTTP_X_ROLE",
    "HTTP_X_SERVICE_CATALOG",
    "HTTP_X_SERVICE_TOKEN",
    "HTTP_X_STORAGE_TOKEN",
    "HTTP_X_TENANT",
    "HTTP_X_TENANT_ID",
    "HTTP_X_TENANT_NAME",
    "HTTP_X_USER",
    *(f"HTTP_X_{who}{what}" for who, what in itertools.product(("", "SERVICE_"), _ABOUT)),
)


def forget_identity(environ: MutableMapping[str, Any]) -> None:
    """Drop the headers that say who calls, where nobody has checked them."""
    for name in _IDENTITY:
        environ.pop(name, None)


def token_info(environ: MutableMapping[str, Any]) -> Any:
    """Return what Keystone says about the caller's token, None without a token."""
    return environ.get(TOKEN_INFO)


def is_refused(environ: MutableMapping[str, Any]) -> bool:
    """Tell whether the token was bad, and auth_token left it to us to say so.

    That is ``[keystone_authtoken]delay_auth_decision``.
    """
    return environ.get(_STATUS) == "Invalid"
