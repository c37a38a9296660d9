"""HTTP side of a BMC: connections, sessions, authentication, faults, dispatch.

Each BMC has its own listening socket, so that a client sees separate services as it
does with real hardware; all of them share the event loop.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from ironic_rs.sandbox.agent import tls
from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish import actions, documents, oddities
from ironic_rs.sandbox.redfish.forms import ROOT, Document, collection
from ironic_rs.sandbox.redfish.refusal import Refused

_SESSIONS = "SessionService/Sessions"


@dataclass
class Session:
    """A logged-in client."""

    identity: str
    token: str
    username: str
    last_used: float


class Bmc(web.Server):
    """The Redfish service of one machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(self._handle, access_log=None, keepalive_timeout=3600.0)
        self.machine = machine
        self.sessions: dict[str, Session] = {}
        self._listener: asyncio.Server | None = None
        self._numbers = 0
        self._tags = oddities.Tags()

    async def start(self) -> None:
        """Listen on the address of the BMC."""
        machine, spec = self.machine, self.machine.spec
        context, scheme = None, "http"
        if machine.settings.bmc_tls:
            made = await asyncio.to_thread(
                tls.make, spec.name, spec.bmc_address, machine.folder, None, None
            )
            context, scheme = made.context, "https"
            machine.bmc_certificate.write_text(made.certificate)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self, spec.bmc_address, spec.bmc_port, ssl=context
        )
        port = self._listener.sockets[0].getsockname()[1]
        host = f"[{spec.bmc_address}]" if ":" in spec.bmc_address else spec.bmc_address
        machine.bmc_url = f"{scheme}://{host}:{port}"

    async def stop(self) -> None:
        """Close the socket and all connections."""
        if self._listener is not None:
            self._listener.close()
        self.pre_shutdown()
        await self.shutdown(0.0)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count what a BMC has to bear."""
        self.machine.counters.add("bmc.connections")
        super().connection_made(handler, transport)

    def expire_sessions(self) -> int:
        """End all sessions now; returns how many there were."""
        ended = len(self.sessions)
        self.sessions.clear()
        return ended

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        machine, path = self.machine, request.path
        counters, faults = machine.counters, machine.faults
        counters.add("bmc.requests")
        shown = f"/redfish/v1/{_SESSIONS}/{{id}}" if f"{_SESSIONS}/" in path else path
        counters.bmc_paths[f"{request.method} {shown}"] += 1
        if faults.bmc_delay and faults.concerns(request.method, path):
            await asyncio.sleep(faults.bmc_delay)
        if faults.take_bmc_hit(request.method, path):
            counters.add("bmc.faults")
            instead = await oddities.broken(request, faults)
            if instead is not None:
                return instead
            headers = {}
            if faults.bmc_retry_after is not None:
                headers["Retry-After"] = str(faults.bmc_retry_after)
            return _error(
                faults.bmc_status,
                "The service is not able to answer now",
                headers,
                faults.bmc_message_id or "GeneralError",
            )
        try:
            return await self._dispatch(request)
        except Refused as exc:
            return _error(exc.status, str(exc), message_id=exc.message_id)

    async def _dispatch(self, request: web.BaseRequest) -> web.Response:
        path = request.path.rstrip("/")
        if path == "/redfish" and request.method == "GET":
            return _json({"v1": "/redfish/v1/"})
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            raise Refused(404, f"No resource at {request.path}", "ResourceMissingAtURI")
        path = path.removeprefix(ROOT).strip("/")
        if request.method == "POST" and path == _SESSIONS:
            return self._log_in(await _body(request))
        if path:
            self._authenticate(request)
        if path == _SESSIONS or path.startswith(f"{_SESSIONS}/"):
            return self._session_resource(request.method, path)
        if request.method in ("GET", "HEAD"):
            return self._get(path, request)
        handler = actions.find(self.machine, request.method, path)
        if handler is None:
            known = documents.find(self.machine, path) is not None
            raise Refused(
                405 if known else 404,
                f"{request.method} {request.path} is not possible",
                "ActionNotSupported" if known else "ResourceMissingAtURI",
            )
        if request.method == "PATCH":
            current = documents.find(self.machine, path) or {}
            given = request.headers.get("If-Match")
            self._tags.check(self.machine.faults, request.path, current, given)
        outcome = handler(self.machine, await _body(request))
        if isinstance(outcome, actions.Created):
            made = documents.find(self.machine, outcome.path.removeprefix(f"{documents.ROOT}/"))
            return _json(made or {}, 201, {"Location": outcome.path})
        if isinstance(outcome, dict):
            return _json(outcome)
        if outcome is not None:
            return _json({"@odata.id": outcome}, 202, {"Location": outcome})
        return web.Response(status=204)

    def _get(self, path: str, request: web.BaseRequest) -> web.Response:
        document = documents.find(self.machine, path)
        if document is None:
            raise Refused(404, f"No resource at {path}", "ResourceMissingAtURI")
        faults = self.machine.faults
        headers = {"ETag": self._tags.of(document)} if faults.bmc_etags else None
        if "$expand" in request.query and "Members" in document:
            document["Members"] = [
                documents.find(self.machine, _below_root(member)) or member
                for member in document["Members"]
            ]
        document = oddities.page(faults, request.path, document, request.query.get("$skip"))
        return _json(oddities.shown(faults, request.path, document), headers=headers)

    # -- sessions -------------------------------------------------------------------

    def _log_in(self, body: dict[str, Any]) -> web.Response:
        settings = self.machine.settings
        if not self._password_fits(str(body.get("UserName")), str(body.get("Password"))):
            self.machine.counters.add("bmc.denied")
            raise Refused(401, "User name or password is wrong", "ResourceAtUriUnauthorized")
        self._forget_old()
        if len(self.sessions) >= settings.session_limit:
            raise Refused(
                503, f"{settings.session_limit} sessions are open", "SessionLimitExceeded"
            )
        self._numbers += 1
        session = Session(
            str(self._numbers), secrets.token_hex(16), settings.username, time.monotonic()
        )
        self.sessions[session.token] = session
        self.machine.counters.add("bmc.sessions")
        location = f"{ROOT}/{_SESSIONS}/{session.identity}"
        headers = {"X-Auth-Token": session.token, "Location": location}
        return _json(_show(session), 201, headers)

    def _session_resource(self, method: str, path: str) -> web.Response:
        here = f"{ROOT}/{_SESSIONS}"
        identity = path.removeprefix(_SESSIONS).strip("/")
        if not identity and method == "GET":
            members = [f"{here}/{session.identity}" for session in self.sessions.values()]
            return _json(collection("Session", here, members))
        found = [item for item in self.sessions.values() if item.identity == identity]
        if not found:
            raise Refused(404, f"No session {identity}", "ResourceMissingAtURI")
        if method == "GET":
            return _json(_show(found[0]))
        if method != "DELETE":
            raise Refused(405, f"{method} is not possible on a session", "ActionNotSupported")
        del self.sessions[found[0].token]
        return web.Response(status=204)

    def _authenticate(self, request: web.BaseRequest) -> None:
        token = request.headers.get("X-Auth-Token")
        if token:
            self._forget_old()
            session = self.sessions.get(token)
            if session is not None:
                session.last_used = time.monotonic()
                return
        elif self._basic_fits(request.headers.get("Authorization", "")):
            self.machine.counters.add("bmc.basic_auth")
            return
        self.machine.counters.add("bmc.denied")
        raise Refused(401, "Log in first, or again", "NoValidSession")

    def _basic_fits(self, header: str) -> bool:
        scheme, _, encoded = header.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            text = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return False
        username, _, password = text.partition(":")
        return self._password_fits(username, password)

    def _password_fits(self, username: str, password: str) -> bool:
        settings = self.machine.settings
        given = f"{username}:{password}".encode()
        return hmac.compare_digest(given, f"{settings.username}:{settings.password}".encode())

    def _forget_old(self) -> None:
        lifetime = self.machine.faults.session_lifetime
        if lifetime is None:
            lifetime = self.machine.settings.session_lifetime
        oldest = time.monotonic() - lifetime
        for token in [key for key, item in self.sessions.items() if item.last_used < oldest]:
            del self.sessions[token]


def _show(session: Session) -> Document:
    return {
        "@odata.type": "#Session.v1_1_0.Session",
        "@odata.id": f"{ROOT}/{_SESSIONS}/{session.identity}",
        "Id": session.identity,
        "Name": "Session",
        "UserName": session.username,
    }


def _below_root(member: Document) -> str:
    return str(member["@odata.id"]).removeprefix(ROOT).strip("/")


async def _body(request: web.BaseRequest) -> dict[str, Any]:
    raw = await request.read()
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw)
    except ValueError as exc:
        raise Refused(400, f"The body is no JSON: {exc}", "MalformedJSON") from exc
    if not isinstance(body, dict):
        raise Refused(400, "The body has to be a JSON object", "MalformedJSON")
    return body


def _json(
    document: Document, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=json.dumps(document).encode(),
        status=status,
        content_type="application/json",
        headers={"OData-Version": "4.0", **(headers or {})},
    )


def _error(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    message_id: str = "GeneralError",
) -> web.Response:
    code = f"Base.1.8.{message_id}"
    info = {"MessageId": code, "Message": message, "Severity": "Critical"}
    document = {"error": {"code": code, "message": message, "@Message.ExtendedInfo": [info]}}
    return _json(document, status, headers)
