"""HTTP basic authentication.

Source: specification rest-api.md sections 3 and 4, auxiliary.md section 14.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import bcrypt
import orjson
import webob.exc
from oslo_middleware import basic_auth
from oslo_middleware import exceptions as middleware_errors

from ironic_rs.domain import errors
from ironic_rs.httpd import identity

LOG = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
WSGIApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class BasicAuth:
    """HTTP basic authentication against a file with bcrypt entries (RFC 7617).

    The file is read for each request, so that changes of it count at once; a
    password that was verified against an entry is not hashed again while that entry
    stays as it is (a bcrypt check costs tens of milliseconds).

    :param app: what is guarded.
    :param path: the file.
    :param option: what names the file, for the error.
    :raises IncorrectConfiguration: the file can not be read, or has other entries.
    """

    _REMEMBERED = 1024

    def __init__(self, app: WSGIApplication, path: str, option: str) -> None:
        self._app = app
        self._path = Path(path)
        self._secret = os.urandom(32)
        self._verified: dict[bytes, None] = {}
        self._lock = threading.Lock()
        try:
            basic_auth.validate_auth_file(path)
        except (middleware_errors.ConfigInvalid, webob.exc.HTTPBadRequest) as exc:
            raise errors.IncorrectConfiguration(error=f"{option} {path}: {exc}") from exc

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        identity.forget_identity(environ)
        try:
            user, password = basic_auth.parse_token(basic_auth.parse_header(environ))
            self._authenticate(user, password)
        except webob.exc.HTTPException as exc:
            return _refuse(exc, start_response)
        environ["HTTP_X_USER"] = environ["HTTP_X_USER_NAME"] = user
        return self._app(environ, start_response)

    def _authenticate(self, user: str, password: bytes) -> None:
        entry = self._entry(user)
        if entry is None:
            raise webob.exc.HTTPUnauthorized()
        _, crypted = basic_auth.parse_entry(entry)
        key = hmac.digest(self._secret, b"\0".join((entry.encode(), password)), hashlib.sha256)
        if key in self._verified:
            return
        if not bcrypt.checkpw(password[:72], crypted):
            LOG.info("The password of user %s does not match", user)
            raise webob.exc.HTTPUnauthorized()
        with self._lock:
            if len(self._verified) >= self._REMEMBERED:
                self._verified.clear()
            self._verified[key] = None

    def _entry(self, user: str) -> str | None:
        try:
            with self._path.open(encoding="utf-8") as lines:
                for line in lines:
                    if line.startswith(f"{user}:"):
                        return line.strip()
        except OSError as exc:
            LOG.error("The user file %s can not be read: %s", self._path, exc)
            raise webob.exc.HTTPBadRequest("Problem reading auth file") from exc
        LOG.info("User %s is not in the user file", ascii(user))
        return None


def _refuse(exc: webob.exc.HTTPException, start_response: StartResponse) -> Iterable[bytes]:
    code = exc.status_int
    message = exc.detail or ("Incorrect username or password" if code == 401 else exc.title)
    body = orjson.dumps({"error": {"message": message, "code": code}})
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if code == 401:
        headers.append(("WWW-Authenticate", 'Basic realm="Baremetal API"'))
    start_response(exc.status, headers)
    return [body]
