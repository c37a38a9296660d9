"""A web server for image tests: files, redirects, refusals and broken transfers."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What is served at one path.

    :param refuse: methods answered with 405.
    :param statuses: answers before the proper one.
    :param cut: send only this many bytes of the body, then hang up, this often.
    :param short: leave out so many bytes of a GET, and do not announce them.
    :param stall: after this many bytes of the body wait for :attr:`ImageServer.go_on`.
    :param endless: send the body again and again.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    refuse: tuple[str, ...] = ()
    statuses: list[int] = field(default_factory=list)
    cut: int | None = None
    cuts: int = 0
    short: int = 0
    stall: int | None = None
    endless: bool = False


_ORDINARY = Page()


class ImageServer:
    """Serves :attr:`pages`; writes down requests as (method, path, headers)."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.stalled = threading.Event()
        self.go_on = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @contextlib.contextmanager
    def running(self) -> Iterator[ImageServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self.go_on.set()
            self._server.shutdown()
            self._server.server_close()

    def put(self, path: str, body: bytes = b"", **details: object) -> str:
        """Serve something; returns its URL."""
        self.pages[path] = Page(body, **details)  # type: ignore[arg-type]
        return self.url + path

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path was asked with."""
        return [method for method, asked, _ in self.requests if asked == path]

    def auth(self, path: str) -> tuple[str, str] | None:
        """Return the credentials of the newest request for a path."""
        headers = [headers for _, asked, headers in self.requests if asked == path][-1]
        if "Authorization" not in headers:
            return None
        user, _, password = (
            base64.b64decode(headers["Authorization"].split()[1]).decode().partition(":")
        )
        return user, password

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.serve()

            def do_GET(self) -> None:
                self.serve()

            def serve(self) -> None:
                path = self.path.partition("?")[0]
                server.requests.append((self.command, path, dict(self.headers)))
                page = server.pages.get(path, Page(status=404))
                if page.statuses:
                    self.answer(page.statuses.pop(0), {}, b"")
                elif self.command in page.refuse:
                    self.answer(405, {}, b"")
                elif self.headers.get("Range") == "bytes=0-0" and page.status == 200:
                    total = {"Content-Range": f"bytes 0-0/{len(page.body)}"}
                    self.answer(206, page.headers | total, page.body[:1])
                else:
                    cut = page.cut if page.cuts > 0 and self.command == "GET" else None
                    page.cuts -= 1 if cut is not None else 0
                    short = page.short if self.command == "GET" else 0
                    body = page.body[: len(page.body) - short]
                    self.answer(page.status, page.headers, body, cut, page)

            def answer(
                self,
                status: int,
                headers: dict[str, str],
                body: bytes,
                cut: int | None = None,
                page: Page = _ORDINARY,
            ) -> None:
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    if value:
                        self.send_header(name, value)
                self.end_headers()
                if self.command != "GET":
                    return
                if page.stall is not None:
                    self.wfile.write(body[: page.stall])
                    server.stalled.set()
                    server.go_on.wait(120)
                    body = body[page.stall :]
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body if cut is None else body[:cut])
                    while page.endless:
                        self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Tests read ``requests`` instead."""

        return Handler
