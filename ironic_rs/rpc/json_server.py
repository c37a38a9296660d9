"""The conductor's side of JSON-RPC 2.0 over HTTP.

One POST is one call, or one notification (no ``id``), which is answered before it
is carried out.  The parameters are the arguments, and besides ``context`` (who
asks) and ``rpc.version``.

Source: specification conductor.md section 1.1 (json-rpc), auxiliary.md section 14;
JSON-RPC 2.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from oslo_config import cfg

from ironic_rs.domain import errors, secrets
from ironic_rs.httpd.basic_auth import BasicAuth
from ironic_rs.httpd.documents import deeper_than
from ironic_rs.httpd.server import HttpServer, Listener
from ironic_rs.rpc import dispatch, versions
from ironic_rs.rpc.casts import CastRunner
from ironic_rs.rpc.registry import CASTS, RPC_VERSION, Registry
from ironic_rs.rpc.transport import RpcServer

LOG = logging.getLogger(__name__)

StartResponse = Callable[..., Any]
WSGIApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

#: Calls that are served at the same time; most wait for a BMC or for SQL.
THREADS = 64
#: Levels that a call is nested around a value of the API: body, params, a list of
#: patches, one patch, and some to spare.
_WRAPPING = 8
#: Bytes that a call has around a value of the API.
_ENVELOPE = 1024 * 1024

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


def _listener(conf: cfg.ConfigOpts) -> Listener:
    options = conf.json_rpc
    return Listener(
        what="The JSON-RPC server",
        section="json_rpc",
        host=options.host_ip,
        port=options.port,
        unix_socket=options.unix_socket,
        unix_socket_mode=options.unix_socket_mode,
        tls="use_ssl" if options.use_ssl else None,
        tls_minimum=options.server_tls_minimum_version,
        tls_ciphers=options.server_tls_ciphers,
        cert_file=options.cert_file,
        key_file=options.key_file,
    )


def strategy(conf: cfg.ConfigOpts) -> str:
    """Return how callers prove who they are: noauth, http_basic or keystone."""
    return str(conf.json_rpc.auth_strategy or conf.auth_strategy)


class _Fault(Exception):
    """The answer to a request that is no call.

    :param code: of JSON-RPC, or the HTTP status when positive.
    """

    def __init__(self, code: int, message: str, number: Any = None) -> None:
        super().__init__(message)
        self.code, self.number = code, number


class JsonRpcServer(RpcServer):
    """Receives the calls of one conductor by HTTP.

    :raises ConfigInvalid: the address or the certificate can not be used.
    :raises IncorrectConfiguration: the authentication can not be used.
    """

    def __init__(self, conf: cfg.ConfigOpts, registry: Registry) -> None:
        self._conf = conf
        self._registry = registry
        self._stopping = False
        self._casts: CastRunner | None = None
        self._http = HttpServer(_authenticated(self._serve, conf), _listener(conf), threads=THREADS)

    def start(self) -> None:
        self._casts = CastRunner(
            self._registry, lambda: self._conf.conductor.node_locked_retry_interval
        )
        self._http.start()

    def stop(self) -> None:
        self._stopping = True

    def wait(self, timeout: float | None = None) -> bool:
        if self._casts is not None:
            self._casts.close(timeout)
        return self._http.stop(timeout)

    def _serve(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        status, headers = HTTPStatus.OK, []
        try:
            body = self._answer(environ)
        except _Fault as fault:
            error = {"code": fault.code, "message": str(fault)}
            body = orjson.dumps({"jsonrpc": "2.0", "id": fault.number, "error": error})
            if fault.code > 0:
                status = HTTPStatus(fault.code)
                # Its body was perhaps not read.
                headers.append(("Connection", "close"))
            if fault.code == HTTPStatus.METHOD_NOT_ALLOWED:
                headers.append(("Allow", "POST"))
        if body:
            headers.append(("Content-Type", "application/json"))
        elif status is HTTPStatus.OK:
            status = HTTPStatus.NO_CONTENT
        headers.append(("Content-Length", str(len(body))))
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    def _answer(self, environ: dict[str, Any]) -> bytes:
        """Carry out a request; the answer, empty for a notification.

        :raises _Fault: it is no call, or not one of this conductor.
        """
        if environ["REQUEST_METHOD"] != "POST":
            raise _Fault(405, "Only POST is served here.")
        self._check_role(environ)
        request = self._document(environ)
        number = request.get("id")
        notified = "id" not in request
        name, arguments, context = self._call(request)
        self._log(name, number, arguments)
        if self._stopping:
            stopping = errors.ServiceUnavailable("This conductor is stopping. Please retry.")
            return _encoded(number, dispatch.failure(stopping))
        if name in CASTS and self._casts is not None:
            self._casts.submit(name, arguments, context)
            reply: Mapping[str, Any] = {"result": None}
        else:
            reply = dispatch.answer(self._registry, name, arguments, context)
        return b"" if notified else _encoded(number, reply)

    def _check_role(self, environ: Mapping[str, Any]) -> None:
        if strategy(self._conf) != "keystone":
            return
        has = {role.strip().lower() for role in environ.get("HTTP_X_ROLES", "").split(",")}
        allowed = self._conf.json_rpc.allowed_roles
        if has.isdisjoint(role.lower() for role in allowed):
            LOG.warning("A call without one of the roles %s is refused", ", ".join(allowed))
            raise _Fault(403, f"The roles of [json_rpc]allowed_roles are {', '.join(allowed)}.")

    def _document(self, environ: dict[str, Any]) -> dict[str, Any]:
        options = self._conf.api
        kib = max(
            options.max_json_body_size,
            options.max_json_body_size_provision,
            options.max_json_body_size_inspection,
        )
        limit = int(kib) * 1024 + _ENVELOPE
        body = environ["wsgi.input"].read(limit + 1)
        if len(body) > limit:
            raise _Fault(413, f"The request is larger than the {limit} bytes accepted here.")
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise _Fault(PARSE_ERROR, f"The request is not valid JSON: {exc}.") from None
        if not isinstance(request, dict):
            raise _Fault(INVALID_REQUEST, "One JSON object is one request; no batches are served.")
        if deeper_than(request, options.max_json_body_depth + _WRAPPING):
            raise _Fault(
                INVALID_REQUEST, "The request is nested too deep ([api]max_json_body_depth)."
            )
        return request

    def _call(self, request: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Return method, arguments and context."""
        number, name = request.get("id"), request.get("method")
        if request.get("jsonrpc") != "2.0" or not isinstance(name, str):
            raise _Fault(INVALID_REQUEST, "Needed are jsonrpc = 2.0 and a method.", number)
        if name not in self._registry:
            raise _Fault(
                NO_METHOD,
                f"This conductor does not offer the RPC method '{name}' (RPC version "
                f"{RPC_VERSION}).",
                number,
            )
        params = request.get("params", {})
        if not isinstance(params, dict):
            raise _Fault(INVALID_PARAMS, "Parameters are given by name.", number)
        arguments = dict(params)
        context = arguments.pop("context", None)
        version = arguments.pop("rpc.version", "1.0")
        if not isinstance(context, dict):
            raise _Fault(INVALID_PARAMS, "The parameter 'context' is an object.", number)
        if not _is_spoken(version):
            raise _Fault(
                NO_METHOD,
                f"RPC version {version} of the method '{name}' is not spoken here, but "
                f"{RPC_VERSION}: services of different releases are running; set "
                "[DEFAULT]pin_release_version during an upgrade.",
                number,
            )
        return name, arguments, context

    def _log(self, name: str, number: Any, arguments: Mapping[str, Any]) -> None:
        if self._conf.json_rpc.debug_log_request_id_only:
            LOG.debug("RPC %s, request %s", name, number)
        else:
            LOG.debug("RPC %s, request %s: %s", name, number, secrets.mask(arguments))


def _is_spoken(version: Any) -> bool:
    try:
        return versions.fits(version, RPC_VERSION)
    except (AttributeError, ValueError):
        return False


def _encoded(number: Any, reply: Mapping[str, Any]) -> bytes:
    """Return the answer object of JSON-RPC for one of :mod:`dispatch`."""
    error = reply.get("error")
    document: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    if error is None:
        document["result"] = reply.get("result")
    else:
        data = {"class": error["class"], "details": error["details"]}
        document["error"] = {"code": error["code"], "message": error["message"], "data": data}
    try:
        return orjson.dumps(document)
    except TypeError as exc:
        return _encoded(number, dispatch.failure(exc))


def _authenticated(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Wrap the application in the configured authentication.

    :raises IncorrectConfiguration: it can not be used.
    """
    how = strategy(conf)
    if how == "http_basic":
        path = conf.json_rpc.http_basic_auth_user_file
        return BasicAuth(app, path, "[json_rpc]http_basic_auth_user_file")
    if how == "keystone":
        # Its libraries take megabytes: only who uses them pays.
        from ironic_rs.httpd import tokens

        guarded: WSGIApplication = tokens.TokenAuth(app, conf)
        return guarded
    return app
