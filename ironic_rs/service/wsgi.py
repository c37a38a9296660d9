"""The HTTP server of the REST API, embedded in a process.

One process serves from a pool of threads; several processes may serve one
listening socket, which the first of them opens (:func:`listen`) and hands on.

Source: specification rest-api.md section 1, operations.md section 1.
"""

from __future__ import annotations

import socket
import ssl

from oslo_config import cfg

from ironic_rs.httpd import server
from ironic_rs.httpd.server import Listener, WSGIApplication

#: Threads of one process.  Most requests wait (for SQL or for a conductor) more
#: than they compute.
THREADS = 32


def _listener(conf: cfg.ConfigOpts) -> Listener:
    options = conf.api
    return Listener(
        what="The API",
        section="api",
        host=options.host_ip,
        port=options.port,
        unix_socket=options.unix_socket,
        unix_socket_mode=options.unix_socket_mode,
        tls="enable_ssl_api" if options.enable_ssl_api else None,
        tls_minimum=options.server_tls_minimum_version,
        tls_ciphers=options.server_tls_ciphers,
        cert_file=options.cert_file,
        key_file=options.key_file,
    )


def listen(conf: cfg.ConfigOpts) -> socket.socket:
    """Open the listening socket of ``[api]``: a unix socket or host and port.

    :returns: a bound and listening socket, inheritable by no other program.
    :raises ConfigInvalid: the address can not be used; the text says why.
    """
    return server.listen(_listener(conf))


def tls_context(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    """Return the TLS settings of ``[api]``, or None when TLS is off.

    :raises ConfigInvalid: certificate, key or ciphers can not be used.
    """
    return server.tls_context(_listener(conf))


class WsgiServer(server.HttpServer):
    """Serves the API in background threads of this process.

    :param app: the application.
    :param conf: configuration with the group ``[api]``.
    :param sock: listening socket to share; None opens the configured one.
    """

    def __init__(
        self, app: WSGIApplication, conf: cfg.ConfigOpts, sock: socket.socket | None = None
    ) -> None:
        super().__init__(app, _listener(conf), threads=THREADS, sock=sock)
