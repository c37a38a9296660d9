"""An HTTP server for one WSGI application, embedded in a process.

The REST API and the calls between services are served by one each.
The server underneath is cheroot; docs/wsgi-server.md says why and what was
measured.

Source: specification rest-api.md section 1, operations.md section 1.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cheroot import connections, wsgi
from cheroot.makefile import MakeFile
from cheroot.server import HTTPServer
from cheroot.ssl import Adapter

from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

#: Connections that the kernel keeps while all threads are busy.
BACKLOG = 1024
#: Seconds after which an idle connection is closed, and a stalled request given up.
IDLE_TIMEOUT = 30
MAX_HEADER_BYTES = 64 * 1024
#: Seconds in which the workers of a process that was killed stop listening.
ORPHAN_SECONDS = 3.0

_FOR_EVER = 365 * 24 * 3600.0

_TLS_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class Listener:
    """Where and how to listen.

    :ivar what: what is served, for logs and errors, e.g. ``The API``.
    :ivar section: group of the options, for errors.
    :ivar unix_socket: path of a unix socket in place of host and port.
    :ivar tls: option that switched TLS on; None when it is off.
    :ivar tls_minimum: ``1.2`` or ``1.3``.
    :ivar tls_ciphers: OpenSSL's list, None for its default.
    """

    what: str
    section: str
    host: str
    port: int
    unix_socket: str | None
    unix_socket_mode: int | None
    tls: str | None
    tls_minimum: str
    tls_ciphers: str | None
    cert_file: str | None
    key_file: str | None


def listen(listener: Listener) -> socket.socket:
    """Open a listening socket: a unix socket or host and port.

    :returns: a bound and listening socket, inheritable by no other program.
    :raises ConfigInvalid: the address can not be used; the text says why.
    """
    section, host, port = listener.section, listener.host, listener.port
    if listener.unix_socket:
        return _listen_unix(Path(listener.unix_socket), listener.unix_socket_mode, section)
    try:
        family, kind, proto, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as exc:
        raise errors.ConfigInvalid(
            f"Cannot listen on [{section}]host_ip {host}, port {port}: {exc.strerror or exc}."
        ) from exc
    return sock


def _is_served(path: Path) -> bool:
    """Whether a process listens on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        try:
            sock.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (TimeoutError, BlockingIOError):
            # Its backlog is full.
            return True
    return True


def _listen_unix(path: Path, mode: int | None, section: str) -> socket.socket:
    patience = time.monotonic() + ORPHAN_SECONDS
    try:
        while _is_served(path):
            if time.monotonic() > patience:
                raise errors.ConfigInvalid(
                    f"Cannot listen on [{section}]unix_socket {path}: another process does."
                )
            time.sleep(0.1)
        with contextlib.suppress(FileNotFoundError):
            if path.is_socket():
                path.unlink()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(path))
        if mode is not None:
            path.chmod(mode)
        sock.listen(BACKLOG)
    except OSError as exc:
        raise errors.ConfigInvalid(
            f"Cannot listen on [{section}]unix_socket {path}: {exc}."
        ) from exc
    return sock


def tls_context(listener: Listener) -> ssl.SSLContext | None:
    """Return the TLS settings of a server, or None when TLS is off.

    :raises ConfigInvalid: certificate, key or ciphers can not be used.
    """
    section = listener.section
    if listener.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _TLS_VERSIONS[listener.tls_minimum]
    if not listener.cert_file:
        raise errors.ConfigInvalid(
            f"[{section}]{listener.tls} needs [{section}]cert_file and [{section}]key_file."
        )
    _check_certificate(listener.cert_file, section)
    try:
        context.load_cert_chain(listener.cert_file, listener.key_file)
        if listener.tls_ciphers:
            context.set_ciphers(listener.tls_ciphers)
    except (OSError, ssl.SSLError) as exc:
        raise errors.ConfigInvalid(
            f"{listener.what}: TLS can not be set up from [{section}]cert_file "
            f"{listener.cert_file}, key_file {listener.key_file}, server_tls_ciphers: {exc}."
        ) from exc
    return context


def _check_certificate(path: str, section: str) -> None:
    """Refuse a certificate that every client would refuse.

    :raises ConfigInvalid: not readable, no certificate, expired, or not valid yet.
    """
    # Eight megabytes that nobody needs without TLS.
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError) as exc:
        raise errors.ConfigInvalid(
            f"[{section}]cert_file {path} can not be used: {getattr(exc, 'strerror', None) or exc}."
        ) from exc
    now = datetime.datetime.now(datetime.UTC)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= now <= ends:
        raise errors.ConfigInvalid(
            f"The certificate of [{section}]cert_file {path} is valid from "
            f"{begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC, not now: no client would "
            "accept it."
        )


class _TlsAdapter(Adapter):
    """TLS whose handshake happens in the worker thread that reads the request.

    cheroot's own adapter shakes hands in the thread that accepts connections: one
    silent client would stop everybody else.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(None, None)
        self.context = context

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[socket.socket, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return MakeFile(sock, mode, bufsize)


class _Server(wsgi.Server):
    """cheroot on a socket that is given, possibly shared with other processes."""

    keep_alive_conn_limit = 10_000
    max_request_header_size = MAX_HEADER_BYTES

    def __init__(
        self,
        sock: socket.socket,
        app: WSGIApplication,
        tls: ssl.SSLContext | None,
        threads: int,
    ) -> None:
        super().__init__(
            sock.getsockname()[:2] if sock.family != socket.AF_UNIX else sock.getsockname(),
            app,
            numthreads=threads,
            max=threads,
            server_name="ironic-rs",
            request_queue_size=BACKLOG,
            timeout=IDLE_TIMEOUT,
        )
        self._given = sock
        if tls is not None:
            self.ssl_adapter = _TlsAdapter(tls)

    def prepare(self) -> None:
        self._interrupt = None
        self.software = f"{self.version} Server"
        self.socket = self._given
        # Another process may take the connection that woke this one up: accepting
        # must never wait.
        self.socket.setblocking(False)
        if self.socket.family != socket.AF_UNIX:
            # Inherited by connections: head and body of an answer are two writes.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections = connections.ConnectionManager(self)
        self.requests.start()
        self.ready = True

    def process_conn(self, conn: Any) -> None:
        if conn.last_used is None:
            # A new connection gets a thread when it sends something, not before.
            self.put_conn(conn)
            return
        super().process_conn(conn)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        LOG.log(level, "http server: %s", msg, exc_info=traceback and level >= logging.ERROR)


class HttpServer:
    """Serves one WSGI application in background threads of this process.

    :param app: the application.
    :param threads: requests that are served at the same time.
    :param sock: listening socket to share; None opens the configured one.
    :raises ConfigInvalid: the address or the certificate can not be used.
    """

    def __init__(
        self,
        app: WSGIApplication,
        listener: Listener,
        *,
        threads: int,
        sock: socket.socket | None = None,
    ) -> None:
        self._what = listener.what
        self._tls = tls_context(listener)
        self._socket = sock if sock is not None else listen(listener)
        self._owns_unix_socket = sock is None and self._socket.family == socket.AF_UNIX
        self._address = self._socket.getsockname()
        self._server: HTTPServer = _Server(self._socket, app, self._tls, threads)
        self._ready = threading.Event()
        self._stopped = threading.Event()
        name = f"{listener.section}-http"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    @property
    def url(self) -> str:
        """Where the server listens, e.g. ``http://127.0.0.1:6385``."""
        if self._socket.family == socket.AF_UNIX:
            return f"unix:{self._address}"
        host, port = self._address[:2]
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    def start(self) -> None:
        """Serve from now on; returns when requests are accepted."""
        self._thread.start()
        self._ready.wait()
        LOG.info("%s listens on %s", self._what, self.url)

    @property
    def serving(self) -> bool:
        """Whether requests are accepted."""
        return self._thread.is_alive() and not self._stopped.is_set()

    def stop(self, timeout: float | None = 60) -> bool:
        """Stop accepting, let running requests end, close; idempotent.

        :param timeout: seconds that running requests get, None = for ever.
        :returns: False when some were given up.
        """
        if self._stopped.is_set():
            return True
        seconds = _FOR_EVER if timeout is None else timeout
        self._server.shutdown_timeout = max(1, round(seconds))
        # cheroot waits without end for a thread that does not give in; we do not.
        closer = threading.Thread(target=self._server.stop, name="http-stop", daemon=True)
        closer.start()
        closer.join(seconds + 2)
        done = not closer.is_alive()
        if not done:
            LOG.warning("Requests still running after %s seconds are given up", timeout)
        if self._owns_unix_socket:
            with contextlib.suppress(OSError):
                os.unlink(self._address)
        self._stopped.set()
        return done

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the server has stopped.

        :returns: False when ``timeout`` seconds passed first.
        """
        return self._stopped.wait(timeout)

    def _serve(self) -> None:
        # Threads made here are daemons as this one is: a stuck request can not keep
        # the process from ending.
        try:
            self._server.prepare()
        finally:
            self._ready.set()
        self._server.serve()
