"""A stand-in for Keystone over HTTP: it knows the tokens that a test gives out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "keystone_authtoken"
_SOON = "2999-01-01T00:00:00.000000Z"
_PAST = "2001-01-01T00:00:00.000000Z"

#: What Keystone makes of one role: it implies the ones below it.
IMPLIED: Mapping[str, Sequence[str]] = {
    "admin": ("admin", "manager", "member", "reader"),
    "manager": ("manager", "member", "reader"),
    "member": ("member", "reader"),
    "reader": ("reader",),
    "service": ("service",),
}


def token(
    role: str | None,
    *,
    project: str | None = None,
    project_name: str | None = None,
    system: bool = False,
    domain: str | None = None,
    expired: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return what Keystone tells about a token: scope and roles."""
    default = {"id": "default", "name": "Default"}
    body: dict[str, Any] = {
        "methods": ["password"],
        "user": {"id": "user-id", "name": "user", "domain": default},
        "issued_at": _PAST,
        "expires_at": _PAST if expired else _SOON,
        "audit_ids": ["audit"],
        "roles": [{"id": name, "name": name} for name in IMPLIED.get(role or "", ())],
        **more,
    }
    if project is not None:
        body["project"] = {"id": project, "name": project_name or project, "domain": default}
    if system:
        body["system"] = {"all": True}
    if domain is not None:
        body["domain"] = {"id": domain, "name": domain}
    return {"token": body}


class Keystone:
    """The server.

    :ivar tokens: what it knows, by token; tests add to it.
    :ivar asked: tokens that it was asked about.
    :ivar broken: answers 500 to everything.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.broken = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v3"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def version(self) -> dict[str, Any]:
        return {
            "id": "v3.14",
            "status": "stable",
            "links": [{"rel": "self", "href": f"{self.url}/"}],
            "media-types": [],
        }

    def own_token(self) -> dict[str, Any]:
        """Return the token of the service that asks, with a catalog."""
        endpoints = [
            {"id": i, "interface": i, "region": "r", "region_id": "r", "url": self.url}
            for i in ("public", "internal", "admin")
        ]
        identity = {"type": "identity", "name": "keystone", "id": "i", "endpoints": endpoints}
        return token("admin", project="service-id", project_name="service", catalog=[identity])


def _handler(keystone: Keystone) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Tests print nothing."""

        def do_GET(self) -> None:
            if self.path.startswith("/v3/auth/tokens"):
                subject = self.headers["X-Subject-Token"]
                keystone.asked.append(subject)
                known = keystone.tokens.get(subject)
                if known is not None:
                    return self._answer(200, known)
                return self._answer(404, {"error": {"code": 404, "message": "no such token"}})
            return self._answer(200, {"version": keystone.version()})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(201, keystone.own_token(), {"X-Subject-Token": "service-token"})

        def _answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
            if keystone.broken:
                status, body = 500, {"error": {"code": 500, "message": "broken"}}
            raw = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    return Handler


@contextmanager
def running() -> Iterator[Keystone]:
    """Run a Keystone for the life of the block."""
    server = Keystone()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def configured(conf: cfg.ConfigOpts, keystone: Keystone) -> Iterator[None]:
    """Make an API that is built within the block check tokens there."""
    conf.set_override("auth_strategy", "keystone")
    loading.register_auth_conf_options(conf, GROUP)
    of_plugin = loading.get_auth_plugin_conf_options("password")
    conf.register_opts(of_plugin, group=GROUP)
    values = {
        "auth_type": "password",
        "auth_url": keystone.url,
        "username": "ironic",
        "password": "secret",
        "user_domain_id": "default",
        "project_name": "service",
        "project_domain_id": "default",
    }
    for name, value in values.items():
        conf.set_override(name, value, group=GROUP)
    try:
        yield
    finally:
        # Some of them are required, by whoever reads a configuration next.
        conf.clear()
        conf.unregister_opts(of_plugin, group=GROUP)
