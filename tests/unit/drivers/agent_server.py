"""An agent on the wire: the command API of agent-protocol.md section 6, with faults."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class AgentServer:
    """Serves commands over HTTP, or HTTPS with a certificate of its own.

    :ivar requests: (method, path, query, body) of each request.
    :ivar commands: the command list; a POST appends to it.
    :ivar answers: command name -> what its result is, as a function of its params.
    :ivar hang_up: how many of the next POSTs get no answer although they are done.
    :ivar lost: how many of the next POSTs get no answer and are not done.
    :ivar drop: how many of the next requests get no answer and are not done.
    :ivar drips: (begin, part) for the next requests: the part is sent again and again.
    :ivar raw: (status, body bytes) for the next requests.
    """

    def __init__(self, certificate: Path | None = None, *, tls: bool = False) -> None:
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.connections = 0
        self.commands: list[dict[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.hang_up = 0
        self.lost = 0
        self.drop = 0
        self.drips: list[tuple[bytes, bytes]] = []
        self.raw: list[tuple[int, bytes]] = []
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        scheme = "http"
        if tls and certificate is not None:
            scheme = "https"
            self._server.socket = _tls_context(certificate).wrap_socket(
                self._server.socket, server_side=True
            )
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @contextlib.contextmanager
    def running(self) -> Iterator[AgentServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._server.shutdown()
            self._server.server_close()

    def did(
        self,
        name: str,
        status: str = "SUCCEEDED",
        result: Any = None,
        error: Any = None,
    ) -> dict[str, Any]:
        """Put a command into the list."""
        command = {
            "id": str(len(self.commands)),
            "command_name": name,
            "command_status": status,
            "command_error": error,
            "command_result": result,
        }
        self.commands.append(command)
        return command

    def posted(self) -> list[str]:
        """Return the names of the commands that were posted."""
        return [body["name"] for method, _, _, body in self.requests if method == "POST"]

    def params(self, name: str) -> dict[str, Any]:
        """Return the parameters of the newest posted command of this name."""
        found = [b["params"] for m, _, _, b in self.requests if m == "POST" and b["name"] == name]
        return found[-1]

    def _run(self, body: dict[str, Any], wait: bool) -> dict[str, Any]:
        short = body["name"].rpartition(".")[2]
        answer = self.answers.get(body["name"])
        if answer is not None:
            command = self.did(**{"name": short, **answer(body["params"])})
        else:
            command = self.did(short, "SUCCEEDED" if wait else "RUNNING")
        return command

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                agent.connections += 1

            def do_GET(self) -> None:
                self.handle_one("GET")

            def do_POST(self) -> None:
                self.handle_one("POST")

            def handle_one(self, method: str) -> None:
                parts = urlsplit(self.path)
                query = dict(parse_qsl(parts.query))
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                agent.requests.append((method, parts.path, query, body))
                if agent.drop:
                    agent.drop -= 1
                    self.close_connection = True
                    return
                if agent.lost and method == "POST":
                    agent.lost -= 1
                    self.close_connection = True
                    return
                if agent.drips:
                    self.drip(*agent.drips.pop(0))
                    return
                if agent.raw:
                    self.answer(*agent.raw.pop(0))
                    return
                if method == "GET":
                    document: Any = {"commands": agent.commands}
                else:
                    document = agent._run(body, query.get("wait") == "true")
                    if agent.hang_up:
                        agent.hang_up -= 1
                        self.close_connection = True
                        return
                self.answer(200, json.dumps(document).encode())

            def drip(self, begin: bytes, part: bytes) -> None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.wfile.write(begin)
                    while not agent._over.wait(0.05):
                        self.wfile.write(part)

            def answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: Any) -> None:
                """Tests read ``requests`` instead."""

        return Handler


def make_certificate(directory: Path, name: str = "agent") -> Path:
    """Make a self-signed certificate for 127.0.0.1 as agents do; returns its path."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=True,
        )
        .sign(key, hashes.SHA512())
    )
    path = directory / f"{name}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def _tls_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context
