"""Holds every answer of the application against the API description.

Whatever a functional test does, an answer whose status, headers or body the
description does not have is an error of that test: description and truth can not
drift apart.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

import jsonschema
import webob

from ironic_rs.api import microversions, openapi
from ironic_rs.api.documents import Refused
from ironic_rs.api.router import ANY_METHOD, Route, Router
from ironic_rs.api.routes import ROUTES
from ironic_rs.conf import CONF

ROUTER = Router(ROUTES)
DRAFT = jsonschema.Draft202012Validator
#: Answered before there is an operation.
OUTSIDE = ("/healthcheck",)


class Undescribed(AssertionError):
    """An answer that the description does not have."""


@functools.lru_cache(maxsize=64)
def description(minor: int, auth: str, highest: int) -> dict[str, Any]:
    """Return the description of a version, with its references as they are."""
    return openapi.describe(ROUTES, minor, openapi.Settings(auth, highest))


@functools.lru_cache(maxsize=4096)
def validator(minor: int, auth: str, highest: int, pointer: tuple[str, ...]) -> Any:
    """Return what checks a value against the schema at a place of the description."""
    document: Any = description(minor, auth, highest)
    schema: Any = document
    for part in pointer:
        schema = schema[part]
    rooted = {**schema, "components": document["components"]}
    return DRAFT(rooted, format_checker=DRAFT.FORMAT_CHECKER)


class Described:
    """WSGI middleware that checks what it hands on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = webob.Request(dict(environ))
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            started[:] = [int(status.split(maxsplit=1)[0]), dict(headers)]
            return start_response(status, headers)

        body = b"".join(self.app(environ, start))
        check(request, started[0], started[1], body)
        return [body]


def check(request: webob.Request, status: int, headers: dict[str, str], body: bytes) -> None:
    """Check one exchange.

    :raises Undescribed: the description does not have the answer.
    """
    what = f"{request.method} {request.environ['PATH_INFO']} answered {status} {body[:300]!r}"
    found = {name.lower(): value for name, value in headers.items()}
    if request.method in ("OPTIONS", "HEAD") or (
        request.environ["PATH_INFO"].rstrip("/") in OUTSIDE
    ):
        return
    # Without the prefix no path is public.
    unprefixed = status == 401 and not request.environ["PATH_INFO"].startswith("/v1")
    route = None if unprefixed else _route(request)
    highest = microversions.maximum(CONF.pin_release_version)
    if route is None:
        if status < 400:
            raise Undescribed(f"no operation: {what}")
        _check_error(status, body, what)
        return
    minor = microversions.negotiate(request.environ, highest)
    verb = "get" if route.method == ANY_METHOD else route.method.lower()
    place = (minor, CONF.auth_strategy, highest)
    operation = description(*place)["paths"][route.path][verb]
    response = operation["responses"].get(str(status))
    if response is None:
        raise Undescribed(f"status {status} is not among {list(operation['responses'])}: {what}")
    pointer: tuple[str, ...] = ("paths", route.path, verb, "responses", str(status))
    if "$ref" in response:
        pointer = ("components", "responses", response["$ref"].rpartition("/")[2])
        response = description(*place)["components"]["responses"][pointer[2]]
    _check_headers(description(*place), response, found, what)
    if status >= 400:
        _check_error(status, body, what)
    content = response.get("content")
    if content is None:
        if body and status not in route.also:
            raise Undescribed(f"there is a body, but the route has no answer=: {what}")
        return
    kind = found.get("content-type", "").partition(";")[0]
    if kind not in content:
        raise Undescribed(f"content type {kind!r} is not among {list(content)}: {what}")
    if kind == "application/json":
        _check_value((*place, (*pointer, "content", kind, "schema")), json.loads(body), what)


def _route(request: webob.Request) -> Route | None:
    """Return the operation that a request is for, None where it is for none."""
    highest = microversions.maximum(CONF.pin_release_version)
    try:
        minor = microversions.negotiate(request.environ, highest)
        versioned = microversions.requested(request.environ) is not None
        (route, _), *_ = ROUTER.readings(
            request.method, request.path_info, minor, versioned=versioned
        )
    except Exception:
        return None
    return None if isinstance(route.body, Refused) or not route.exists(minor) else route


def _check_headers(
    document: dict[str, Any], response: dict[str, Any], found: dict[str, str], what: str
) -> None:
    for name, reference in response["headers"].items():
        header = document["components"]["headers"][reference["$ref"].rpartition("/")[2]]
        value = found.get(name.lower())
        if value is None:
            if header["required"]:
                raise Undescribed(f"there is no header {name}: {what}")
        elif value not in header["schema"].get("enum", [value]):
            raise Undescribed(f"header {name} is {value}: {what}")


def _check_value(place: tuple[Any, ...], value: Any, what: str) -> None:
    error = jsonschema.exceptions.best_match(validator(*place).iter_errors(value))
    if error is not None:
        where = "/".join(map(str, error.absolute_path))
        raise Undescribed(f"{where or 'the body'}: {error.message[:500]}: {what}")


def _check_error(status: int, body: bytes, what: str) -> None:
    """Errors have one of the forms of specification section 3."""
    value = json.loads(body)
    text = value.get("error_message")
    if text is None:
        name = "AuthenticationError" if "error" in value else "RefusedBody"
    elif not text.startswith("{"):
        # For whoever can not read JSON.
        return
    else:
        value = json.loads(text)
        name = "Fault" if "faultcode" in value else "RoutingError"
    schema = openapi.ERRORS[name]
    error = jsonschema.exceptions.best_match(DRAFT(schema).iter_errors(value))
    if error is not None:
        raise Undescribed(f"form {name}: {error.message}: {what}")
    if value.get("code", status) != status:
        raise Undescribed(f"code of the body is {value['code']}: {what}")
