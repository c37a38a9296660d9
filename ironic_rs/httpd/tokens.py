"""Tokens of callers, checked by keystonemiddleware.

The options are those of ``[keystone_authtoken]``, read from our configuration.

Source: specification rest-api.md sections 3 (form E) and 4.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import webob
import webob.exc
from keystoneauth1 import loading
from keystonemiddleware import auth_token
from oslo_config import cfg

from ironic_rs.domain import errors
from ironic_rs.httpd import identity

LOG = logging.getLogger(__name__)

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

GROUP = "keystone_authtoken"
SERVICE_TYPE = "baremetal"


class TokenAuth(auth_token.AuthProtocol):
    """auth_token that answers 503, not with an error of its own, when Keystone can not be asked.

    :param conf: the process's configuration.
    :raises IncorrectConfiguration: an option of ``[keystone_authtoken]`` can not be used.
    """

    def __init__(self, app: WSGIApplication, conf: cfg.ConfigOpts) -> None:
        try:
            _check(conf)
            super().__init__(app, {"oslo_config_config": conf})
        except errors.IncorrectConfiguration:
            raise
        except Exception as exc:
            # The options are used by libraries, each with errors of its own.
            raise errors.IncorrectConfiguration(error=f"[{GROUP}] {exc}") from exc

    def process_request(self, request: webob.Request) -> webob.Response | None:
        """Check the tokens of a request and set the headers that say who calls."""
        try:
            answer = super().process_request(request)
        except webob.exc.HTTPUnauthorized:
            raise
        except Exception as exc:
            # Keystone is away, the service's own password is wrong, ...
            LOG.error("No token can be validated: %s: %s", type(exc).__name__, exc)
            raise _unavailable() from exc
        info = request.environ.get(identity.TOKEN_INFO)
        if info is not None:
            # With a service token, auth_token has put the scope of that one here.
            system = info["token"].get("system") or {}
            request.headers[identity.SYSTEM_SCOPE] = "all" if system.get("all") else None
        return answer


def _check(conf: cfg.ConfigOpts) -> None:
    """Register the options and refuse what would only fail at the first request."""
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    loading.register_auth_conf_options(conf, GROUP)
    # Access rules of application credentials name us by this type.
    conf.set_default("service_type", SERVICE_TYPE, group=GROUP)
    options = conf[GROUP]
    section = options.auth_section or GROUP
    if not conf[section].auth_type:
        raise errors.IncorrectConfiguration(
            error=f"[DEFAULT]auth_strategy = keystone needs [{section}]auth_type (such as "
            "password), auth_url and the credentials of the service; without Keystone, use "
            "auth_strategy = http_basic or noauth"
        )
    secured = options.memcache_sasl_enabled or options.memcache_tls_enabled
    module = "bmemcached" if secured else "memcache"
    if options.memcached_servers and importlib.util.find_spec(module) is None:
        raise errors.IncorrectConfiguration(
            error=f"[{GROUP}]memcached_servers needs the Python module {module}: install "
            f"{'python-binary-memcached' if secured else 'ironic-rs[memcached]'}"
        )


def _unavailable() -> webob.exc.HTTPServiceUnavailable:
    message = "The Keystone service is temporarily unavailable."
    body = {"error": {"code": 503, "title": "Service Unavailable", "message": message}}
    return webob.exc.HTTPServiceUnavailable(
        body=orjson.dumps(body),
        content_type="application/json",
        charset="UTF-8",
        headers=[("Retry-After", "5")],
    )
