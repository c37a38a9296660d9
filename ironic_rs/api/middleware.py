"""WSGI middleware around the API: request ids and log, authentication, plug-ins.

Plain WSGI where it runs for every request; oslo.middleware's where it is switched
on by option.

Source: specification rest-api.md sections 1, 3 (form D), 4; operations.md section 8.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import stevedore
from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_middleware import request_id

from ironic_rs.api import errors as api_errors
from ironic_rs.api import microversions
from ironic_rs.domain import errors, secrets
from ironic_rs.httpd import identity
from ironic_rs.httpd.basic_auth import BasicAuth

LOG = logging.getLogger(__name__)
REQUEST_LOG = logging.getLogger("ironic_rs.api.requests")

StartResponse = Callable[..., Any]
Headers = list[tuple[str, str]]
WSGIApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

REQUEST_ID_HEADERS = ("x-openstack-request-id", "openstack-request-id")
VERSION_HEADERS = (
    microversions.HEADER,
    microversions.MINIMUM_HEADER,
    microversions.MAXIMUM_HEADER,
)
MIDDLEWARE_GROUP = "ironic.api.middleware"
PUBLIC_MARK = "ironic_rs.public_route"

#: Paths that need no authentication (section 4, and ours, the API description); a
#: trailing slash does not count.
_PUBLIC = re.compile(
    r"(?:/|/v1|/v1/openapi|/v1/lookup|/v1/heartbeat/[a-z0-9\-]+|/v1/continue_inspection)?"
    r"(?:\.json|\.xml)?"
)
_REQUEST_ID = re.compile(request_id.ID_FORMAT)


class Envelope:
    """Gives each request its id, completes the headers of the answer, writes the request log.

    OPTIONS is answered here, as the CORS middleware would.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        started = time.monotonic()
        own_id = oslo_context.generate_request_id()
        environ[request_id.ENV_REQUEST_ID] = own_id
        global_id = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
        if _REQUEST_ID.match(global_id):
            environ[request_id.GLOBAL_REQ_ID] = global_id

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers = headers + _missing(status, headers, own_id)
            REQUEST_LOG.info(
                "%s - %s %s - %s (%.2fms)",
                _client(environ),
                environ["REQUEST_METHOD"],
                _target(environ),
                status.split(" ", 1)[0],
                (time.monotonic() - started) * 1000,
            )
            if exc_info:
                return start_response(status, headers, exc_info)
            return start_response(status, headers)

        if environ["REQUEST_METHOD"] == "OPTIONS":
            start("200 OK", [("Content-Length", "0")])
            return [b""]
        return self._app(environ, start)


def _missing(status: str, headers: Iterable[tuple[str, str]], own_id: str) -> Headers:
    """Return the headers that every answer has and that this one lacks.

    Errors of the application have their own code and time; those of the middleware, be
    it a library's, get what their status tells.
    """
    present = {name.lower() for name, _ in headers}
    wanted = [(name, own_id) for name in REQUEST_ID_HEADERS]
    code = int(status.split(" ", 1)[0])
    if code >= 400:
        wanted.append((api_errors.CODE_HEADER, api_errors.code_of_status(code)))
    if code == 503:
        wanted.append(("Retry-After", api_errors.RETRY_AFTER_BUSY))
    return [(name, value) for name, value in wanted if name.lower() not in present]


def _client(environ: dict[str, Any]) -> str:
    forwarded: str = environ.get("HTTP_X_FORWARDED_FOR", "").split(",")[0].strip()
    return forwarded or environ.get("HTTP_X_REAL_IP") or environ.get("REMOTE_ADDR") or "unknown"


def _target(environ: dict[str, Any]) -> str:
    query = environ.get("QUERY_STRING")
    target = f"{environ['PATH_INFO']}?{query}" if query else environ["PATH_INFO"]
    # It comes from the client: one request is one line of the log, without secrets.
    return ascii(secrets.mask_text(target))[1:-1]


class OnPath:
    """Sends one exact path (a trailing slash does not count) to another application."""

    def __init__(self, path: str, special: WSGIApplication, app: WSGIApplication) -> None:
        self._path = path
        self._special = special
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        app = self._special if environ["PATH_INFO"].rstrip("/") == self._path else self._app
        return app(environ, start_response)


def is_public(path: str) -> bool:
    """Tell whether a path needs no authentication."""
    return _PUBLIC.fullmatch(path.rstrip("/")) is not None


class _NoAuth:
    """Nobody is asked who he is; headers that say so are dropped."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        identity.forget_identity(environ)
        environ[PUBLIC_MARK] = is_public(environ["PATH_INFO"])
        return self._app(environ, start_response)


class _PublicOrToken:
    """Lets requests of public routes pass by the check of tokens."""

    def __init__(self, app: WSGIApplication, guarded: WSGIApplication) -> None:
        self._app = app
        self._guarded = guarded

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        environ[PUBLIC_MARK] = public = is_public(environ["PATH_INFO"])
        if not public:
            return self._guarded(environ, start_response)
        identity.forget_identity(environ)
        return self._app(environ, start_response)


class _PublicOrPassword:
    """HTTP basic authentication, except on the paths that need none."""

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self._app = app
        self._guarded = BasicAuth(app, path, "[DEFAULT]http_basic_auth_user_file")

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        environ[PUBLIC_MARK] = public = is_public(environ["PATH_INFO"])
        if not public:
            return self._guarded(environ, start_response)
        identity.forget_identity(environ)
        return self._app(environ, start_response)


def authentication(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Wrap the application in the configured ``[DEFAULT]auth_strategy``.

    :raises IncorrectConfiguration: the strategy can not be used.
    """
    if conf.auth_strategy == "noauth":
        return _NoAuth(app)
    if conf.auth_strategy == "http_basic":
        return _PublicOrPassword(app, conf.http_basic_auth_user_file)
    # Its libraries take megabytes: only who uses them pays.
    from ironic_rs.httpd import tokens

    return _PublicOrToken(app, tokens.TokenAuth(app, conf))


def audited(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Wrap the application in the audit of ``[audit]``, when that is enabled.

    :raises IncorrectConfiguration: the map or the notifier can not be used.
    """
    if not conf.audit.enabled:
        return app
    from ironic_rs.api import audit

    return audit.audited(app, conf)


def custom(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Wrap the application in the plug-ins of ``[api]middleware``, the last one outermost.

    :raises IncorrectConfiguration: a plug-in is not installed or does not load.
    """
    for name in conf.api.middleware:
        try:
            plugin: Any = stevedore.DriverManager(MIDDLEWARE_GROUP, name)
        except (stevedore.exception.NoMatches, ImportError) as exc:
            raise errors.IncorrectConfiguration(
                error=f"[api]middleware {name} can not be loaded: {exc}"
            ) from exc
        app = plugin.driver(app)
    return app
