"""The OpenAPI 3.1 description of the API at one microversion.

It is made from the route table, the field tables and the documents that the rows
name: what is not in them is not in it.  Operations, arguments and fields that a
version does not have are left out.

Source: specification rest-api.md sections 1 to 5; OpenAPI specification 3.1.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ironic_rs.api import errors, microversions
from ironic_rs.api.args import Arg, StringList
from ironic_rs.api.documents import (
    ARGUMENTS,
    OBJECT,
    PATH_ARGUMENTS,
    TEXT,
    Chosen,
    Document,
    Listing,
    Refused,
    Schema,
    Shape,
    component,
    one_of,
    or_null,
    record,
    reference,
)
from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.domain import fields

OPENAPI = "3.1.1"
DESCRIPTION = """\
Provisions bare metal machines. This document describes one microversion of the API: the
operations, arguments and fields that it has, and no others. Requests name the microversion
in the header `{header}` (or `OpenStack-API-Version: baremetal X.Y`); without it they get
{minimum}.

It describes the forms that clients should send. The service takes some others as well:
booleans as words (`true`, `yes`, `0`, ...), integers as digits in a string, UUIDs in other
spellings, arguments of a body in the query string, null for what is not to be set, and empty
items in comma separated lists.
Texts have no NUL characters and no lone surrogates, integers fit into 64 bits.

Every error has a stable code for programs in the header `{code}`; texts may change.
"""

_PREFIX = reference("")["$ref"]
#: Operations that read nothing but themselves.
_FIXED = frozenset({"/", "/v1", "/v1/openapi.json"})
_RAMDISK = frozenset({"lookup", "heartbeat", "continue_inspection"})
_AUTHENTICATION: Mapping[str, Mapping[str, Any]] = {
    "keystone": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
    "http_basic": {"type": "http", "scheme": "basic"},
}
_STATUS: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "The request is malformed or not possible; the text says what and why."),
    401: ("Unauthorized", "No credentials, or wrong ones."),
    403: ("Forbidden", "Policy refuses the operation, or the object is protected."),
    404: ("NotFound", "No such object, not visible to the caller, or no conductor serves it."),
    406: ("NotAcceptable", "The microversion is not offered, or lacks what the request uses."),
    409: ("Conflict", "Locked, in a state that does not allow it, or a duplicate."),
    412: ("PreconditionFailed", "A condition of the request (If-Match) does not hold."),
    413: ("TooLarge", "The body is larger than this deployment accepts."),
    500: ("ServerError", "A driver or the service failed."),
    503: ("Unavailable", "No conductor is online, or all of its workers are busy."),
}
_RETRY = frozenset({409, 503})
#: Statuses of the errors that every operation may answer.
COMMON = (400, 406, 413, 500)


@dataclass(frozen=True)
class Settings:
    """What a deployment adds to the description.

    :param auth: ``[DEFAULT]auth_strategy``.
    :param highest: highest minor version offered.
    :param network_data: text of the JSON schema of ``network_data``; None when the
        operator has one of his own.
    """

    auth: str = "keystone"
    highest: int = microversions.MAXIMUM
    network_data: str | None = None


def describe(routes: Iterable[Route], minor: int, settings: Settings) -> Schema:
    """Return the description of 1.``minor``, without ``servers``."""
    rows = described(routes, minor)
    paths: dict[str, Any] = {}
    for route in rows:
        item = paths.setdefault(route.path, {"parameters": _path_parameters(route.path)})
        item[_verb(route)] = _operation(route, minor, settings, _ids(rows))
    document: Schema = {
        "openapi": OPENAPI,
        "info": {
            "title": "Bare metal API",
            "version": microversions.text(minor),
            "description": DESCRIPTION.format(
                header=microversions.HEADER,
                minimum=microversions.text(microversions.MINIMUM),
                code=errors.CODE_HEADER,
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "parameters": {"Microversion": _version_parameter(minor)},
            "headers": _headers(minor, settings.highest),
            "responses": {
                name: _error(status, text)
                for status, (name, text) in _STATUS.items()
                if status != 401 or settings.auth in _AUTHENTICATION
            },
        },
        "tags": [{"name": name} for name in dict.fromkeys(tag(route) for route in rows)],
    }
    if settings.auth in _AUTHENTICATION:
        document["components"]["securitySchemes"] = {settings.auth: _AUTHENTICATION[settings.auth]}
    document["components"]["schemas"] = _schemas(document, minor, settings)
    return document


def described(routes: Iterable[Route], minor: int) -> list[Route]:
    """Return the routes that a version has and that are not there to be refused."""
    return [r for r in routes if r.exists(minor) and not isinstance(r.body, Refused)]


def summary(route: Route) -> str:
    """Return the operation in words: ``List nodes``."""
    return _handler(route).replace("_", " ").capitalize()


def tag(route: Route) -> str:
    """Return the group of operations that a route belongs to."""
    if route.path in _FIXED:
        return "versions"
    first = route.path.split("/")[2]
    return "ramdisk" if first in _RAMDISK else first


def statuses(route: Route) -> list[int]:
    """Return the statuses of the errors of an operation."""
    found = {*COMMON}
    if not route.public:
        found |= {401, 403}
    elif route.policy:
        found.add(403)
    if route.path not in _FIXED:
        found |= {404, 503}
        if route.method != "GET":
            found.add(409)
    if route.etag or route.method not in ("GET", ANY_METHOD):
        found.add(412)
    found |= {status for status in route.also if status >= 400}
    return sorted(found)


def _handler(route: Route) -> str:
    return route.handler.__name__


def _verb(route: Route) -> str:
    return "get" if route.method == ANY_METHOD else route.method.lower()


def _ids(rows: Sequence[Route]) -> Callable[[Route], str]:
    """Return how operations are called: by handler, where that has one operation."""
    handlers = [_handler(route) for route in rows]

    def name(route: Route) -> str:
        if handlers.count(_handler(route)) == 1:
            return _handler(route)
        words = route.path.replace("{", "").replace("}", "").strip("/").split("/")[1:]
        return "_".join((_verb(route), *words))

    return name


def _operation(
    route: Route, minor: int, settings: Settings, name: Callable[[Route], str]
) -> Schema:
    operation: Schema = {
        "operationId": name(route),
        "summary": summary(route),
        "tags": [tag(route)],
        "x-min-version": microversions.text(route.since),
        "x-policy": list(route.policy),
        "x-policy-sometimes": list(route.sometimes),
        "parameters": [],
        "responses": _responses(route, minor, settings),
    }
    if route.body != ARGUMENTS or route.method == "DELETE":
        known = [arg for arg in route.args if arg.first <= minor]
        operation["parameters"] = [_query(arg, route.answer, minor) for arg in known]
    if route.etag and route.method == "GET":
        operation["parameters"].append(_IF_NONE_MATCH)
    if route.conditional:
        operation["parameters"].append(_IF_MATCH)
    body = _body(route, minor)
    if body is not None:
        operation["requestBody"] = body
    if settings.auth in _AUTHENTICATION:
        operation["security"] = [] if route.public else [{settings.auth: []}]
    return operation


def _path_parameters(path: str) -> list[Schema]:
    found: list[Schema] = [{"$ref": "#/components/parameters/Microversion"}]
    for part in path.split("/"):
        if part.startswith("{"):
            schema, text = PATH_ARGUMENTS[part[1:-1]]
            found.append(
                {
                    "name": part[1:-1],
                    "in": "path",
                    "required": True,
                    "description": text,
                    "schema": schema,
                }
            )
    return found


def _version_parameter(minor: int) -> Schema:
    return {
        "name": microversions.HEADER,
        "in": "header",
        "required": minor != microversions.MINIMUM,
        "description": "The microversion that this document describes.",
        "schema": one_of((microversions.text(minor),)),
    }


def _condition(name: str, text: str) -> Schema:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": text,
        "schema": TEXT,
    }


_IF_MATCH = _condition(
    "If-Match",
    "Entity tags that the object, or the object that it is part of, may have; * is any. If it "
    "has none of them, nothing is done.",
)
_IF_NONE_MATCH = _condition(
    "If-None-Match", "Entity tags of answers that the client has: they are not sent again."
)


def _query(arg: Arg, answer: Document | None, minor: int) -> Schema:
    parameter: Schema = {
        "name": arg.name,
        "in": "query",
        "required": arg.required,
        "schema": arg.schema(minor),
    }
    if isinstance(answer, Listing | Chosen):
        if arg.name == "fields" and arg.form is None:
            parameter["schema"]["items"] = one_of(answer.table.choices(minor))
        elif arg.name == "sort_key":
            parameter["schema"]["enum"] = answer.table.sort_keys(minor)
    if isinstance(arg.kind, StringList):
        parameter |= {"style": "form", "explode": False}
    return parameter


def _body(route: Route, minor: int) -> Schema | None:
    # What a GET carries is read, but has no meaning for HTTP (RFC 9110, 9.3.1).
    if route.body is None or _verb(route) == "get":
        return None
    if isinstance(route.body, str):
        schema = arguments(route.args, minor)
    else:
        schema = route.body.schema(minor)
    return {
        # No body is an empty object.
        "required": bool(schema.get("required")) or schema.get("type") == "array",
        "content": {"application/json": {"schema": schema}},
    }


def arguments(args: Iterable[Arg], minor: int) -> Schema:
    """Return the JSON schema of a body that is an object of arguments."""
    known = [arg for arg in args if arg.first <= minor]
    required = {arg.name: arg.schema(minor) for arg in known if arg.required}
    return record(
        required, **{arg.name: or_null(arg.schema(minor)) for arg in known if not arg.required}
    )


def _responses(route: Route, minor: int, settings: Settings) -> Schema:
    found: Schema = {}
    found[str(route.success)] = _answer(route, route.answer, route.success, minor)
    for status in route.also:
        if status < 400:
            found[str(status)] = _answer(route, None, status, minor)
    if route.etag and route.method == "GET":
        found["304"] = {
            "description": "The client has this answer: its entity tag is in If-None-Match.",
            "headers": _header_references((*_ALWAYS, "EntityTag")),
        }
    for status in statuses(route):
        if status != 401 or settings.auth in _AUTHENTICATION:
            found[str(status)] = {"$ref": f"#/components/responses/{_STATUS[status][0]}"}
    return found


def _answer(route: Route, answer: Document | None, status: int, minor: int) -> Schema:
    names = list(_ALWAYS)
    response: Schema = {
        "description": "No body." if answer is None else f"{answer.text}.".capitalize()
    }
    if status == 201:
        names.append("NewLocation")
    elif route.method in ("POST", "PUT"):
        names.append("Location")
    if route.etag:
        names.append("EntityTag")
    response["headers"] = _header_references(names)
    if answer is not None:
        response["content"] = {"application/json": {"schema": answer.schema(minor)}}
        if isinstance(answer, Shape) and answer.raw:
            response["content"]["application/octet-stream"] = {}
    return response


_ALWAYS = ("Version", "MinimumVersion", "MaximumVersion", "RequestId")
_HEADER_NAMES: Mapping[str, str] = {
    "Version": microversions.HEADER,
    "MinimumVersion": microversions.MINIMUM_HEADER,
    "MaximumVersion": microversions.MAXIMUM_HEADER,
    "RequestId": "X-OpenStack-Request-Id",
    "NewLocation": "Location",
    "Location": "Location",
    "EntityTag": "ETag",
    "ErrorCode": errors.CODE_HEADER,
    "RetryAfter": "Retry-After",
}


def _header_references(names: Iterable[str]) -> Schema:
    return {_HEADER_NAMES[name]: {"$ref": f"#/components/headers/{name}"} for name in names}


def _headers(minor: int, highest: int) -> Schema:
    def header(text: str, schema: Schema, *, required: bool = True) -> Schema:
        return {"description": text, "required": required, "schema": schema}

    lowest = microversions.text(microversions.MINIMUM)
    uri = {"type": "string", "format": "uri"}
    return {
        "Version": header("The microversion used.", one_of((microversions.text(minor),))),
        "MinimumVersion": header("The lowest microversion offered.", one_of((lowest,))),
        "MaximumVersion": header(
            "The highest microversion offered.", one_of((microversions.text(highest),))
        ),
        "RequestId": header("Finds the request in the logs.", TEXT),
        "NewLocation": header("URL of the new object.", uri),
        "Location": header("Where to look at the outcome.", uri, required=False),
        "EntityTag": header("Names this answer, for conditions of later requests.", TEXT),
        "ErrorCode": header(
            "Stable code of the condition, for programs: `node_locked`.", TEXT, required=False
        ),
        "RetryAfter": header(
            "Seconds to wait before the next try, where that makes sense.",
            {"type": "integer", "minimum": 0},
            required=False,
        ),
    }


def _error(status: int, text: str) -> Schema:
    names = ["RequestId", "ErrorCode"]
    if status in _RETRY:
        names.append("RetryAfter")
    forms = {
        400: ["Error", "RefusedBody", "AuthenticationError"],
        401: ["Error", "AuthenticationError"],
        413: ["RefusedBody"],
        503: ["Error", "AuthenticationError"],
    }.get(status, ["Error"])
    schemas = [reference(form) for form in forms]
    return {
        "description": text,
        "headers": _header_references(names),
        "content": {
            "application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        },
    }


_LINK: Schema = record({"href": {"type": "string", "format": "uri"}, "rel": TEXT})
_CODE: Schema = {"type": "string", "description": "Stable code of the condition."}
#: Who holds the lock of the node, for what and since when.
_LOCK: Schema = record(
    {
        "node": TEXT,
        "host": TEXT,
        "operation": or_null(TEXT),
        "since": or_null({"type": "string", "format": "date-time"}),
    }
)
#: Forms of errors, by name.
ERRORS: Mapping[str, Schema] = {
    "Error": record(
        {
            "error_message": {
                "type": "string",
                "description": "A JSON document in a string.",
                "contentMediaType": "application/json",
                "contentSchema": {"oneOf": [reference("Fault"), reference("RoutingError")]},
            }
        }
    ),
    "Fault": {
        **record(
            {
                "faultcode": one_of(("Client", "Server")),
                "faultstring": TEXT,
                "debuginfo": or_null(TEXT),
                "errorcode": _CODE,
            },
            lock=_LOCK,
        ),
        "description": "The error of an operation.",
    },
    "RoutingError": {
        **record(
            {
                "code": {"type": "integer"},
                "title": TEXT,
                "description": TEXT,
                "errorcode": _CODE,
            }
        ),
        "description": "No such path, method, version or form of identifier.",
    },
    "RefusedBody": {
        **record({"faultcode": one_of(("Client",)), "faultstring": TEXT, "errorcode": _CODE}),
        "description": "The body is too large or nested too deep.",
    },
    "AuthenticationError": {
        **record({"error": record({"message": TEXT, "code": {"type": "integer"}}, title=TEXT)}),
        "description": "Credentials are missing, malformed or wrong, or can not be checked.",
    },
}


def _schemas(document: Schema, minor: int, settings: Settings) -> Schema:
    """Return the schemas that the document refers to, and those that these refer to."""
    known = {"Link": _LINK, **ERRORS, **_network_data(settings.network_data)}
    for table in fields.TABLES.values():
        known[component(table)] = table.shown_schema(minor, whole=True)
        known[f"{component(table)}Part"] = table.shown_schema(minor, whole=False)
    found: Schema = {}
    wanted = list(_references(document))
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = known[name]
            wanted += _references(found[name])
    return {name: found[name] for name in sorted(found)}


def _network_data(text: str | None) -> Schema:
    if text is None:
        return {"NetworkData": OBJECT}
    schema = json.loads(text.replace("#/$defs/", f"{_PREFIX}NetworkData."))
    del schema["$schema"]
    parts = schema.pop("$defs")
    return {
        # An empty object takes the configuration away.
        "NetworkData": {"anyOf": [schema, {"type": "object", "maxProperties": 0}]},
        **{f"NetworkData.{name}": part for name, part in parts.items()},
    }


def _references(value: Any) -> Iterator[str]:
    """Return the names of the schemas that a value refers to."""
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(_PREFIX):
            yield target.removeprefix(_PREFIX)
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)
