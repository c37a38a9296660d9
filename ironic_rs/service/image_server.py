"""A small web server for ``[deploy]http_root``: boot ISOs and images for machines.

For sites without a web server beside the conductor.  It gives whole files and byte
ranges, and nothing else: no listings, no hidden files, no way out of its
directories, no uploads.

Source: design section 1, specification drivers.md section 12.7; own options
``[deploy]http_server``, ``http_server_host`` and ``http_server_port``.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.server
import os
import re
import socket
import socketserver
import stat
import threading
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from oslo_config import cfg
from oslo_log import log

from ironic_rs.domain import errors

LOG = log.getLogger(__name__)

CHUNK = 256 * 1024
#: Seconds after which a silent connection is closed.
IDLE_TIMEOUT = 30
#: Connections served at a time; more wait in the queue of the kernel.
MAX_CONNECTIONS = 256

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "ironic-rs"
    sys_version = ""
    timeout = IDLE_TIMEOUT
    # Head and body leave in two packets: without this the second waits 40 ms.
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve(with_body=True)

    def do_HEAD(self) -> None:
        self._serve(with_body=False)

    def _refuse(self) -> None:
        # What was sent along is not read, so nothing more can be read after it.
        self.close_connection = True
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD", "Connection": "close"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _serve(self, *, with_body: bool) -> None:
        file = _open(self.path, self.server.root, self.server.roots)
        if file is None:
            self._answer(HTTPStatus.NOT_FOUND, {})
            return
        with file:
            info = os.fstat(file.fileno())
            tag = f'"{info.st_mtime_ns:x}-{info.st_size:x}"'
            headers = {
                "Content-Type": "application/octet-stream",
                "Last-Modified": email.utils.formatdate(info.st_mtime, usegmt=True),
                "ETag": tag,
                "Accept-Ranges": "bytes",
                "X-Content-Type-Options": "nosniff",
            }
            first, length, status = self._wanted(info.st_size, headers)
            if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                self._answer(status, {"Content-Range": f"bytes */{info.st_size}"})
                return
            if status == HTTPStatus.PARTIAL_CONTENT:
                last = first + length - 1
                headers["Content-Range"] = f"bytes {first}-{last}/{info.st_size}"
            self._answer(status, headers, length)
            if with_body:
                self._send(file, first, length)

    def _wanted(self, size: int, headers: dict[str, str]) -> tuple[int, int, HTTPStatus]:
        """Return (first byte, count, status); anything but one good range is the whole."""
        whole = (0, size, HTTPStatus.OK)
        match = _RANGE.fullmatch(self.headers.get("Range", "").strip())
        condition = self.headers.get("If-Range")
        if match is None or match[0] == "bytes=-":
            return whole
        if condition is not None and condition not in (headers["ETag"], headers["Last-Modified"]):
            return whole
        if match[1]:
            first = int(match[1])
            last = min(int(match[2]), size - 1) if match[2] else size - 1
            if match[2] and int(match[2]) < first:
                return whole
        else:
            first, last = max(size - int(match[2]), 0), size - 1
        if first > last:
            return 0, 0, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        return first, last - first + 1, HTTPStatus.PARTIAL_CONTENT

    def _answer(self, status: HTTPStatus, headers: dict[str, str], length: int = 0) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, file: BinaryIO, first: int, length: int) -> None:
        file.seek(first)
        while length:
            data = file.read(min(CHUNK, length))
            if not data:
                # The file shrank: the promised length can not be kept.
                self.close_connection = True
                return
            self.wfile.write(data)
            length -= len(data)

    def log_message(self, format: str, *args: object) -> None:
        LOG.debug("%s %s", self.address_string(), format % args)


def _open(target: str, root: Path, roots: Sequence[Path]) -> BinaryIO | None:
    """Open what a request asks for; None for whatever is not ours to give."""
    path = unquote(target.partition("?")[0].partition("#")[0])
    parts = path.strip("/").split("/")
    if "\0" in path or any(not part or part.startswith(".") for part in parts):
        return None
    try:
        # Links are followed: images are shown by links into the image directory.
        real = root.joinpath(*parts).resolve(strict=True)
        if not any(real.is_relative_to(allowed) for allowed in roots):
            LOG.warning("Not serving %s: it leads to %s, outside of the served places", path, real)
            return None
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, RuntimeError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(
        self, family: socket.AddressFamily, address: tuple[str, int], roots: Sequence[Path]
    ) -> None:
        self.address_family = family
        self.root = roots[0]
        self.roots = roots
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not HTTPServer's: that one looks up the name of the host.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: object, client_address: object) -> None:
        self._free.acquire()
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        LOG.debug("Connection of %s broke off", client_address, exc_info=True)


class ImageServer:
    """Serves the files below a directory in background threads.

    :param root: the directory; made when missing.
    :param also: further directories that links below ``root`` may lead into.
    :param port: 0 takes a free one.
    :raises ConfigInvalid: the directory or the address cannot be used.
    """

    def __init__(self, root: Path, host: str, port: int, also: Sequence[Path] = ()) -> None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            roots = [path.resolve() for path in (root, *also)]
            family, _kind, _proto, _name, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._server = _Server(family, (str(address[0]), int(address[1])), roots)
        except OSError as exc:
            raise errors.ConfigInvalid(
                error_msg=(
                    f"Cannot serve [deploy]http_root {root} on http_server_host {host}, "
                    f"http_server_port {port}: {exc.strerror or exc}."
                )
            ) from exc
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.2},
            name="image-server",
            daemon=True,
        )
        self._thread.start()
        LOG.info("Serving %s on port %d", self._server.root, self.port)

    def stop(self) -> None:
        """Stop listening; transfers under way end with the process."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        with contextlib.suppress(OSError):
            self._server.server_close()


def wanted(conf: cfg.ConfigOpts, *, single_process: bool) -> bool:
    """Tell whether this process is to serve ``[deploy]http_root``."""
    choice: bool | None = conf.deploy.http_server
    if choice is None:
        return single_process and not conf.deploy.http_url
    return choice


def start_if_wanted(conf: cfg.ConfigOpts, *, single_process: bool) -> ImageServer | None:
    """Start the server when the configuration says so; an unset http_url is filled in.

    :param single_process: API and conductor share this process.
    :raises ConfigInvalid: the directory or the address cannot be used.
    """
    if not wanted(conf, single_process=single_process):
        return None
    deploy = conf.deploy
    server = ImageServer(
        Path(deploy.http_root),
        deploy.http_server_host,
        deploy.http_server_port,
        also=[Path(conf.pxe.images_path)],
    )
    if not deploy.http_url:
        conf.set_override("http_url", _url(conf, server.port), group="deploy")
        LOG.info("[deploy]http_url is unset and becomes %s", conf.deploy.http_url)
    server.start()
    return server


def _url(conf: cfg.ConfigOpts, port: int) -> str:
    host = conf.deploy.http_server_host
    if host in ("0.0.0.0", "::", ""):
        host = conf.my_ip
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
