"""Calls from service to service by JSON-RPC 2.0 over HTTP, without a broker.

Connections are kept and shared by the threads of a process.  One that was idle for
long is not used again: the other side might close it just when a call is sent, and
nobody would know whether the call was carried out.

Source: specification conductor.md section 1.1 (json-rpc), auxiliary.md section 14.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from typing import Any

import orjson
import requests
import requests.adapters
import urllib3
import urllib3.connection
from keystoneauth1 import exceptions as ksa_errors
from keystoneauth1 import loading
from keystoneauth1 import session as ksa_session
from oslo_config import cfg
from oslo_messaging import opts
from oslo_utils import netutils

from ironic_rs.domain import errors
from ironic_rs.rpc import dispatch, versions
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.json_server import JsonRpcServer, strategy
from ironic_rs.rpc.registry import Registry
from ironic_rs.rpc.transport import Transport

LOG = logging.getLogger(__name__)

#: With this port the name of a conductor is its host name alone.
DEFAULT_PORT = 8089
#: Seconds to open a connection.
CONNECT_SECONDS = 5.0
#: Seconds of idleness after which a connection is not used again; the server closes
#: it after 30.
IDLE_SECONDS = 20.0
#: Connections kept to each conductor.
_CONNECTIONS = 64

_TLS_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_PLUGINS = {"noauth": "none", "http_basic": "http_basic"}


class _FreshPool(urllib3.HTTPConnectionPool):
    """Opens a connection anew that was idle for long."""

    def _get_conn(self, timeout: float | None = None) -> Any:
        connection: Any = super()._get_conn(timeout)
        if time.monotonic() - getattr(connection, "idle_since", 0.0) > IDLE_SECONDS:
            connection.close()
        return connection

    def _put_conn(self, conn: Any) -> None:
        if conn is not None:
            conn.idle_since = time.monotonic()
        super()._put_conn(conn)


class _FreshTlsPool(_FreshPool, urllib3.HTTPSConnectionPool):
    """The same over TLS."""


class _Adapter(requests.adapters.HTTPAdapter):
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(pool_maxsize=_CONNECTIONS)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        if self._context is not None:
            options["ssl_context"] = self._context
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _FreshPool, "https": _FreshTlsPool}


class JsonRpcTransport(Transport):
    """Calls conductors by HTTP.

    :raises IncorrectConfiguration: the options of ``[json_rpc]`` can not be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        # rpc_response_timeout is an option of oslo.messaging, with any transport.
        conf.register_opts([o for o in _of_messaging() if o.dest == "rpc_response_timeout"])
        options = conf.json_rpc
        self._scheme = "https" if options.client_use_ssl else "http"
        self._requests = requests.Session()
        # Conductors are called directly, whatever proxy the environment names.
        self._requests.trust_env = False
        adapter = _Adapter(_tls_context(conf))
        for prefix in ("http://", "https://"):
            self._requests.mount(prefix, adapter)
        self._session = self._authenticated(conf)

    def _authenticated(self, conf: cfg.ConfigOpts) -> ksa_session.Session:
        how = strategy(conf)
        if how in _PLUGINS:
            conf.set_default("auth_type", _PLUGINS[how], group="json_rpc")
        if not conf.json_rpc.auth_type and not conf.json_rpc.auth_section:
            raise errors.IncorrectConfiguration(
                error="rpc_transport = json-rpc with auth_strategy = keystone needs "
                "[json_rpc]auth_type (such as password), auth_url and the credentials of the "
                "service; without Keystone, set [json_rpc]auth_strategy to http_basic or noauth"
            )
        try:
            session: ksa_session.Session = loading.load_session_from_conf_options(
                conf,
                "json_rpc",
                session=self._requests,
                auth=loading.load_auth_from_conf_options(conf, "json_rpc"),
            )
        except (ksa_errors.ClientException, cfg.Error, ValueError) as exc:
            raise errors.IncorrectConfiguration(error=f"[json_rpc] {exc}") from exc
        return session

    def identity(self, host: str) -> str:
        """Return ``host``, with the port unless it is the usual one."""
        port = self._conf.json_rpc.port
        return host if port == DEFAULT_PORT else f"{netutils.escape_ipv6(host)}:{port}"

    def call(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
        timeout: float | None = None,
    ) -> Any:
        wait = timeout or self._conf.json_rpc.timeout or self._conf.rpc_response_timeout
        request = self._request(method, arguments, context, version)
        # The specification of JSON-RPC has null, strings and numbers; ours is for the logs.
        request["id"] = context.request_id
        answer = self._post(host, method, request, wait)
        error = answer.get("error")
        if error is None:
            return answer.get("result")
        data = error.get("data") or {}
        if "class" not in data:
            raise errors.IronicError(
                f"Conductor {host} could not run the request '{method}': {error.get('message')} "
                f"({error.get('code')})"
            )
        return dispatch.unpack({"error": {**error, **data}})

    def cast(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
    ) -> None:
        wait = self._conf.json_rpc.timeout or self._conf.rpc_response_timeout
        self._post(host, method, self._request(method, arguments, context, version), wait)

    def serve(self, host: str, registry: Registry) -> JsonRpcServer:
        return JsonRpcServer(self._conf, registry)

    def close(self) -> None:
        self._requests.close()

    def _request(
        self, method: str, arguments: Mapping[str, Any], context: RequestContext, version: str
    ) -> dict[str, Any]:
        versions.check(self._conf, method, version)
        params = {**arguments, "context": context.to_dict(), "rpc.version": version}
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def _url(self, host: str) -> str:
        name, port = netutils.parse_host_port(host, DEFAULT_PORT)
        return f"{self._scheme}://{netutils.escape_ipv6(name)}:{port}"

    def _post(
        self, host: str, method: str, request: Mapping[str, Any], wait: float
    ) -> dict[str, Any]:
        """Send a request and return the answer object, an empty one of a notification.

        :raises ServiceUnavailable: no answer; the text says whether it was sent.
        """
        LOG.debug("RPC %s to %s, request %s", method, host, request.get("id"))
        try:
            answer = self._session.request(
                self._url(host),
                "POST",
                data=orjson.dumps(request),
                headers={"Content-Type": "application/json"},
                timeout=(CONNECT_SECONDS, wait),
                raise_exc=False,
                redirect=False,
                log=False,
            )
        except ksa_errors.ClientException as exc:
            raise _unanswered(host, method, wait, exc) from exc
        if answer.status_code == 204:
            return {}
        try:
            document = orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            document = None
        if answer.status_code != 200 or not isinstance(document, dict):
            raise _refused(host, method, answer.status_code)
        return document


def _of_messaging() -> list[cfg.Opt]:
    """Return the options of oslo.messaging that are in no group."""
    return [option for group, options in opts.list_opts() if group is None for option in options]


def _unanswered(
    host: str, method: str, wait: float, exc: ksa_errors.ClientException
) -> errors.ServiceUnavailable:
    # keystoneauth tells apart neither time-outs nor lost connections.
    cause = exc.__context__
    if isinstance(cause, requests.ReadTimeout):
        return errors.ServiceUnavailable(
            f"Conductor {host} did not answer the request '{method}' within {wait} s. It may "
            "still carry it out: look at the object before you retry."
        )
    if not isinstance(cause, requests.ConnectionError):
        return errors.ServiceUnavailable(
            f"The request '{method}' to conductor {host} could not be sent ([json_rpc]): {exc}"
        )
    reason = getattr(cause.args[0] if cause.args else None, "reason", None)
    text = getattr(reason, "__cause__", None) or (reason.args[0] if reason else cause)
    unsent = (requests.ConnectTimeout, requests.exceptions.SSLError)
    if isinstance(cause, unsent) or isinstance(reason, urllib3.exceptions.NewConnectionError):
        return errors.ServiceUnavailable(
            f"Conductor {host} can not be reached, the request '{method}' was not sent: {text}. "
            "Please retry."
        )
    return errors.ServiceUnavailable(
        f"The connection to conductor {host} broke during the request '{method}'. It may "
        "still carry it out: look at the object before you retry."
    )


def _refused(host: str, method: str, status: int) -> errors.IronicError:
    text = f"Conductor {host} answered the request '{method}' with HTTP status {status}"
    if status in (401, 403):
        return errors.IronicError(
            f"{text}: the credentials of [json_rpc] here do not fit its auth_strategy, "
            "http_basic_auth_user_file or allowed_roles."
        )
    if status >= 500:
        return errors.ServiceUnavailable(f"{text}. Please retry.")
    return errors.IronicError(f"{text}: is it [json_rpc]port of a conductor?")


def _tls_context(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    """Return the context of ``tls_min_version`` and ``tls_ciphers``, None when they are unset.

    :raises IncorrectConfiguration: OpenSSL does not know the ciphers.
    """
    least, ciphers = conf.json_rpc.tls_min_version, conf.json_rpc.tls_ciphers
    if not conf.json_rpc.client_use_ssl or not (least or ciphers):
        return None
    context = ssl.create_default_context()
    context.check_hostname = not conf.json_rpc.insecure
    if least in _TLS_VERSIONS:
        context.minimum_version = _TLS_VERSIONS[least]
    try:
        if ciphers:
            context.set_ciphers(ciphers)
    except ssl.SSLError as exc:
        raise errors.IncorrectConfiguration(error=f"[json_rpc]tls_ciphers: {exc}") from exc
    return context
