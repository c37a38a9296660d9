"""What all outgoing HTTP has in common: TLS contexts and texts of errors.

requests loads the trust store for each connection, cannot be told the least TLS
version, and puts whole URLs, with the secrets in them, into its errors.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
import requests.adapters
import requests.utils
import urllib3.exceptions
from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

#: urllib3 begins its texts with the connection object.
_CONNECTION = re.compile(r"^<?[\w.]*HTTPS?Connection[^:]*?>?: ")
_VERSIONS = {
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}

#: Each agent has a certificate of its own, so contexts come and go.
_MAX_CONTEXTS = 512
_contexts: OrderedDict[tuple[Any, ...], ssl.SSLContext] = OrderedDict()
_lock = threading.Lock()


def parse_verify(value: Any, name: str) -> bool | str:
    """Return a trust setting: true, false, or the path of a certificate store.

    :param value: a boolean, its text, or a path.
    :param name: what the value is called, for the error.
    :raises InvalidParameterValue: neither a boolean nor an existing path.
    """
    if isinstance(value, bool):
        return value
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError:
        if isinstance(value, str) and value and Path(value).exists():
            return value
    raise errors.InvalidParameterValue(
        f"{name} is '{value}', expected a boolean or the path of an existing certificate "
        "file or directory."
    )


def _store(verify: bool | str) -> tuple[str | None, float]:
    """Return the trust store, None for no verification, and its time of change."""
    if verify is False:
        return None, 0.0
    store = verify
    if store is True:
        store = (
            os.environ.get("REQUESTS_CA_BUNDLE")
            or os.environ.get("CURL_CA_BUNDLE")
            or requests.utils.DEFAULT_CA_BUNDLE_PATH
        )
    return str(store), os.stat(store).st_mtime


def context(
    verify: bool | str, minimum_version: str = "1.2", ciphers: str | None = None
) -> ssl.SSLContext:
    """Return the shared context of a trust setting.

    :param verify: see :func:`parse_verify`.
    :param minimum_version: ``1.1``, ``1.2`` or ``1.3``.
    :param ciphers: OpenSSL cipher list for TLS 1.2, None for the default.
    :raises OSError: the trust store cannot be read.
    :raises ValueError: the cipher list is not understood.
    """
    store, changed = _store(verify)
    key = (store, changed, minimum_version, ciphers)
    with _lock:
        found = _contexts.get(key)
        if found is not None:
            _contexts.move_to_end(key)
            return found
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if store is None:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    elif os.path.isdir(store):
        made.load_verify_locations(capath=store)
    else:
        made.load_verify_locations(cafile=store)
    made.minimum_version = _VERSIONS[minimum_version]
    if ciphers:
        try:
            made.set_ciphers(ciphers)
        except ssl.SSLError as exc:
            raise ValueError(f"TLS cipher list '{ciphers}': {exc}") from exc
    with _lock:
        _contexts[key] = made
        while len(_contexts) > _MAX_CONTEXTS:
            _contexts.popitem(last=False)
    return made


class ContextAdapter(requests.adapters.HTTPAdapter):
    """An adapter of requests that uses a given TLS context."""

    def __init__(self, tls: ssl.SSLContext, **kwargs: Any) -> None:
        self._tls = tls
        super().__init__(**kwargs)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._tls, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._tls, **kwargs)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        # The trust store is in the context; only the choice is left.
        verified = self._tls.verify_mode == ssl.CERT_REQUIRED
        conn.cert_reqs = "CERT_REQUIRED" if verified else "CERT_NONE"


@contextlib.contextmanager
def server_session(max_redirects: int) -> Iterator[requests.Session]:
    """Return a session for the operator's web servers, with the trust of ``webserver_*``.

    :raises InvalidParameterValue: the trust setting is bad.
    :raises OSError, ValueError: as of :func:`context`.
    """
    verify = parse_verify(CONF.webserver_verify_ca, "[DEFAULT]webserver_verify_ca")
    tls = context(verify, CONF.webserver_tls_minimum_version, CONF.webserver_tls_ciphers)
    with requests.Session() as session:
        session.max_redirects = max_redirects
        session.mount("https://", ContextAdapter(tls))
        yield session


def never_sent(error: BaseException) -> bool:
    """Tell whether a request has certainly not left this host: no connection was made."""
    if isinstance(error, requests.ConnectTimeout):
        return True
    inner = error.args[0] if error.args else None
    reason = getattr(inner, "reason", None)
    return isinstance(reason, urllib3.exceptions.NewConnectionError)


def describe(error: BaseException | None) -> str:
    """Return what went wrong with a request, without its URL and so without secrets."""
    if isinstance(error, requests.TooManyRedirects):
        return "too many redirects"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.InvalidSchema):
        return "redirected to something that is neither http nor https"
    inner = error.args[0] if error and error.args else None
    if isinstance(inner, urllib3.exceptions.ReadTimeoutError):
        return "the answer did not end in time"
    # Of urllib3's texts these two are known to be without the URL.
    reason = inner if isinstance(inner, urllib3.exceptions.ProtocolError) else None
    reason = getattr(inner, "reason", reason)
    name = type(error).__name__
    return name if reason is None else f"{name}: {_CONNECTION.sub('', str(reason))}"
