"""From exceptions to HTTP answers, in the forms that clients parse.

Every error body says ``{"error_message": "<string>"}`` where the string is JSON
again: a fault (raised by a handler) or the router's form (no such path, method or
version).  The size and depth guard answers flat.  Beside these compatible parts,
each answer has a stable code for programs, in the header
``X-OpenStack-Ironic-Error-Code`` and as ``errorcode`` inside the inner document.

Source: specification rest-api.md section 3.
"""

from __future__ import annotations

import http
import logging
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import webob
import webob.exc
from oslo_config import cfg

from ironic_rs.api import microversions
from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

CODE_HEADER = "X-OpenStack-Ironic-Error-Code"
_KNOWN_STATUS = frozenset(int(status) for status in http.HTTPStatus)
_TRACEBACK = "Traceback (most recent call last):"
#: Seconds that a client should wait before it tries again.
RETRY_AFTER_LOCK = "1"
RETRY_AFTER_BUSY = "5"


#: Codes of what no error class stands for, with status and meaning.
OTHER_CODES: Mapping[str, tuple[int, str]] = {
    "bad_request": (400, "The HTTP request itself is malformed."),
    "internal_error": (500, "Unexpected error of the API service; its log tells more."),
    "method_not_allowed": (405, "The path does not have this method, or not in this version."),
    "request_entity_too_large": (413, "The HTTP server refused the size of the request."),
    "unsupported_version": (406, "The microversion is not offered."),
}


class RouterError(Exception):
    """The request can not be routed: no such path, method, version or identifier.

    :param allow: methods that the path has, with status 405.
    """

    def __init__(
        self,
        status: int,
        description: str = "",
        code: str | None = None,
        allow: Sequence[str] = (),
    ) -> None:
        super().__init__(description)
        self.status = status
        self.code = code or code_of_status(status)
        self.allow = allow


class BodyRefused(errors.Invalid):
    """The body is too large or nested too deep."""


class BodyTooLarge(BodyRefused):
    code = 413


class BodyTooDeep(BodyRefused):
    code = 400


class LengthRequired(BodyRefused):
    """The body comes in chunks, and the HTTP server does not put them together."""

    code = 411


class MalformedBody(errors.Invalid):
    """The body is not JSON."""


def code_of_status(status: int) -> str:
    """Return the code of an error of which nothing but the status is known."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        return f"http_{status}"
    return phrase.lower().replace(" ", "_").replace("-", "_")


def response(exc: Exception, conf: cfg.ConfigOpts, environ: Mapping[str, Any]) -> webob.Response:
    """Return the answer for any exception; unknown ones are logged and answer 500."""
    if isinstance(exc, BodyRefused):
        return _guarded(exc)
    if isinstance(exc, microversions.UnsupportedVersion):
        answer = _unsupported(exc, environ)
        answer.headers.extend(microversions.headers(exc.maximum))
        return answer
    if isinstance(exc, RouterError):
        answer = _routed(exc.status, str(exc), exc.code, environ)
        if exc.allow:
            answer.headers["Allow"] = ", ".join(exc.allow)
        return answer
    if isinstance(exc, webob.exc.HTTPException):
        status = exc.status_int
        return _routed(status, exc.detail or "", code_of_status(status), environ)
    if isinstance(exc, UnicodeDecodeError):
        exc = errors.MalformedRequestURI("The request URI is not valid UTF-8.")
    return _fault(exc, conf, environ)


def _fault(exc: Exception, conf: cfg.ConfigOpts, environ: Mapping[str, Any]) -> webob.Response:
    debug = None
    if isinstance(exc, errors.IronicError):
        status = exc.code if exc.code in _KNOWN_STATUS else 500
        text = str(exc)
        code = exc.machine_code()
    else:
        LOG.exception("Unexpected error in %s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        status = 500
        # The text of an unknown exception may hold anything, so it stays in the log.
        text = (
            f"Unexpected error of the API service ({type(exc).__name__}); its log has the details "
            f"under request id {environ.get('openstack.request_id')}."
        )
        code = "internal_error"
    if status >= 500 and conf.debug_tracebacks_in_api:
        debug = "".join(traceback.format_exception(exc))
    elif _TRACEBACK in text:
        text = text.partition(_TRACEBACK)[0].rstrip()
    fault = {
        **(exc.details if isinstance(exc, errors.IronicError) else {}),
        "faultcode": "Client" if status < 500 else "Server",
        "faultstring": text,
        "debuginfo": debug,
        "errorcode": code,
    }
    answer = _wrapped(status, fault, code)
    if isinstance(exc, errors.Locked):
        answer.headers["Retry-After"] = RETRY_AFTER_LOCK
    elif status == 503:
        answer.headers["Retry-After"] = RETRY_AFTER_BUSY
    return answer


def _unsupported(
    exc: microversions.UnsupportedVersion, environ: Mapping[str, Any]
) -> webob.Response:
    if environ["PATH_INFO"].strip("/"):
        return _routed(406, str(exc), "unsupported_version", environ)
    fault = {
        "faultcode": "Client",
        "faultstring": str(exc),
        "debuginfo": None,
        "errorcode": "unsupported_version",
    }
    return _wrapped(406, fault, "unsupported_version")


def _routed(status: int, description: str, code: str, environ: Mapping[str, Any]) -> webob.Response:
    title = http.HTTPStatus(status).phrase
    if "json" in environ.get("HTTP_ACCEPT", "*/*") or "*/*" in environ.get("HTTP_ACCEPT", "*/*"):
        inner: Any = {
            "code": status,
            "title": title,
            "description": description,
            "errorcode": code,
        }
        return _wrapped(status, inner, code)
    # Whoever can not read JSON gets text, in the same envelope.
    return _wrapped(status, f"{status} {title}\n\n{description}", code)


def _wrapped(status: int, inner: Any, code: str) -> webob.Response:
    text = inner if isinstance(inner, str) else orjson.dumps(_clean(inner)).decode()
    return json_response(status, orjson.dumps({"error_message": text}), code)


def _guarded(exc: BodyRefused) -> webob.Response:
    body = {"faultcode": "Client", "faultstring": str(exc), "errorcode": exc.machine_code()}
    return json_response(exc.code, orjson.dumps(body), exc.machine_code())


def json_response(status: int, body: bytes, code: str | None = None) -> webob.Response:
    """Return a JSON answer; ``code`` is that of an error."""
    answer = webob.Response(status=status, body=body)
    answer.headers["Content-Type"] = "application/json"
    if code is not None:
        answer.headers[CODE_HEADER] = code
    return answer


def _clean(fault: dict[str, Any]) -> dict[str, Any]:
    # Texts quote what clients and BMCs sent; JSON can not carry lone surrogates.
    return {
        k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v
        for k, v in fault.items()
    }
