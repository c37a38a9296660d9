"""A BMC of one system, scripted by the test and observed at the wire.

It keeps connections alive, counts them, and records every request.  ``script``
makes it answer wrongly, ``tree`` is what it shows.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import http.server
import json
import re
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/1"
MANAGER = f"{ROOT}/Managers/1"
CD = f"{SYSTEM}/VirtualMedia/Cd"
FLOPPY = f"{SYSTEM}/VirtualMedia/Floppy"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
SESSIONS = f"{ROOT}/SessionService/Sessions"

_POWER_AFTER = {
    "On": "On",
    "ForceOn": "On",
    "ForceOff": "Off",
    "GracefulShutdown": "Off",
    "ForceRestart": "On",
    "GracefulRestart": "On",
}


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    method: str
    path: str
    body: Any
    headers: dict[str, str]
    query: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Answer:
    """What a rule answers.

    :ivar close: drop the connection instead.
    :ivar reset: break it off (TCP RST) instead.
    :ivar raw: what goes over the wire instead, head included, until the other side
        leaves.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False
    reset: bool = False
    raw: Iterable[bytes] | None = None


@dataclass
class _Rule:
    method: str
    path: re.Pattern[str]
    answer: Callable[[Request], Answer | None]
    left: int | None


def error(text: str, code: str = "Base.1.0.GeneralError") -> dict[str, Any]:
    """Body of a Redfish error."""
    return {
        "error": {
            "code": code,
            "message": text,
            "@Message.ExtendedInfo": [{"MessageId": code, "Message": text, "Severity": "Critical"}],
        }
    }


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def collection(*paths: str) -> dict[str, Any]:
    return {"Name": "c", "Members": [link(path) for path in paths]}


def media(path: str, *types: str, action: bool = True) -> dict[str, Any]:
    """A virtual media device."""
    name = path.rpartition("/")[2]
    actions = {
        "#VirtualMedia.InsertMedia": {"target": f"{path}/Actions/VirtualMedia.InsertMedia"},
        "#VirtualMedia.EjectMedia": {"target": f"{path}/Actions/VirtualMedia.EjectMedia"},
    }
    return {
        **link(path),
        "Id": name,
        "Name": name,
        "MediaTypes": list(types),
        "Image": "",
        "Inserted": False,
        "Actions": actions if action else {},
    }


def _tree() -> dict[str, Any]:
    return {
        ROOT: {
            "Id": "root",
            "Name": "root",
            "RedfishVersion": "1.5.0",
            "Systems": link(f"{ROOT}/Systems"),
            "Managers": link(f"{ROOT}/Managers"),
            "SessionService": link(f"{ROOT}/SessionService"),
            "Links": {"Sessions": link(SESSIONS)},
        },
        f"{ROOT}/Systems": collection(SYSTEM),
        SYSTEM: {
            "Id": "1",
            "Name": "machine",
            "UUID": "5f3a0c1e-0000-4000-8000-000000000001",
            "Manufacturer": "Contoso",
            "Model": "M1",
            "SerialNumber": "S1",
            "PowerState": "Off",
            "Status": {"State": "Enabled", "Health": "OK"},
            "Boot": {
                "BootSourceOverrideEnabled": "Disabled",
                "BootSourceOverrideTarget": "None",
                "BootSourceOverrideMode": "UEFI",
                "BootSourceOverrideTarget@Redfish.AllowableValues": [
                    "None",
                    "Pxe",
                    "Hdd",
                    "Cd",
                    "BiosSetup",
                ],
            },
            "MemorySummary": {"TotalSystemMemoryGiB": 64},
            "IndicatorLED": "Off",
            "SecureBoot": link(f"{SYSTEM}/SecureBoot"),
            "EthernetInterfaces": link(f"{SYSTEM}/EthernetInterfaces"),
            "Processors": link(f"{SYSTEM}/Processors"),
            "VirtualMedia": link(f"{SYSTEM}/VirtualMedia"),
            "Links": {"ManagedBy": [link(MANAGER)], "Chassis": []},
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": RESET,
                    "ResetType@Redfish.AllowableValues": [*_POWER_AFTER, "Nmi"],
                }
            },
        },
        f"{SYSTEM}/SecureBoot": {"Id": "SecureBoot", "SecureBootEnable": False},
        f"{SYSTEM}/EthernetInterfaces": collection(
            f"{SYSTEM}/EthernetInterfaces/1", f"{SYSTEM}/EthernetInterfaces/2"
        ),
        f"{SYSTEM}/EthernetInterfaces/1": {
            "Id": "NIC1",
            "MACAddress": "AA:BB:CC:00:00:01",
            "SpeedMbps": 25000,
            "Status": {"State": "Enabled", "Health": "OK"},
        },
        f"{SYSTEM}/EthernetInterfaces/2": {
            "Id": "NIC2",
            "MACAddress": "AA:BB:CC:00:00:02",
            "Status": {"State": "Disabled", "Health": "OK"},
        },
        f"{SYSTEM}/Processors": collection(f"{SYSTEM}/Processors/1", f"{SYSTEM}/Processors/2"),
        **{
            f"{SYSTEM}/Processors/{n}": {
                "Id": f"CPU{n}",
                "ProcessorType": "CPU",
                "ProcessorArchitecture": "x86",
                "InstructionSet": "x86-64",
                "Model": "Fast",
                "MaxSpeedMHz": 3700,
                "TotalThreads": 32,
            }
            for n in (1, 2)
        },
        f"{SYSTEM}/VirtualMedia": collection(CD, FLOPPY),
        CD: media(CD, "CD", "DVD"),
        FLOPPY: media(FLOPPY, "Floppy", "USBStick"),
        f"{ROOT}/Managers": collection(MANAGER),
        MANAGER: {
            "Id": "BMC",
            "FirmwareVersion": "1.0",
            "DateTime": "2020-01-01T00:00:00+00:00",
            "DateTimeLocalOffset": "+00:00",
        },
    }


def paged(document: dict[str, Any], size: int) -> Callable[[Request], Answer]:
    """Answer with a collection in pages of so many members."""

    def answer(request: Request) -> Answer:
        start = int(request.query.removeprefix("$skip=") or 0)
        members = document["Members"]
        page = {**document, "Members": members[start : start + size]}
        page["Members@odata.count"] = len(members)
        if start + size < len(members):
            page["Members@odata.nextLink"] = f"{request.path}?$skip={start + size}"
        return Answer(200, page)

    return answer


class Bmc:
    """A Redfish service on a port of the loopback.

    :param auth: ``none``, ``basic``, ``session`` or ``both``.
    :param host: a loopback address, of IPv4 or IPv6.
    """

    username = "admin"
    password = "secret of the bmc"

    def __init__(
        self,
        auth: str = "none",
        context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.auth = auth
        self._host = f"[{host}]" if ":" in host else host
        self.tree = _tree()
        self.requests: list[Request] = []
        self.connections = 0
        self.logins = 0
        #: Requests answered 401.
        self.refused = 0
        self.sessions: set[str] = set()
        #: False: power requests are accepted and never carried out.
        self.obeys = True
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        bmc = self

        class Handler(_Handler):
            owner = bmc

        class Server(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = Server((host, 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if context is None else "https"
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{self._scheme}://{self._host}:{self._server.server_address[1]}"

    @property
    def system(self) -> dict[str, Any]:
        """What the system shows."""
        document: dict[str, Any] = self.tree[SYSTEM]
        return document

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def script(
        self,
        method: str,
        path: str,
        answer: Answer | Callable[[Request], Answer | None],
        times: int | None = None,
        *,
        first: bool = False,
    ) -> None:
        """Answer the next ``times`` (None: all) requests that match in this way.

        :param path: a regular expression, searched for.
        :param answer: a callable may return None for the ordinary answer.
        :param first: go before what was scripted earlier.
        """
        give = answer if callable(answer) else lambda _request: answer
        at = 0 if first else len(self._rules)
        self._rules.insert(at, _Rule(method, re.compile(path), give, times))

    def asked(self, method: str | None = None, path: str = "") -> list[Request]:
        """The recorded requests that match."""
        return [
            request
            for request in self.requests
            if method in (None, request.method) and re.search(path, request.path)
        ]

    def forget(self) -> None:
        """Begin recording anew."""
        self.requests.clear()
        self.connections = 0
        self.logins = 0

    def handle(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            rule = self._rule(request)
        if rule is not None:
            scripted = rule.answer(request)
            if scripted is not None:
                return scripted
        with self._lock:
            denied = self._denied(request)
            return denied or self._ordinary(request)

    def _rule(self, request: Request) -> _Rule | None:
        for rule in self._rules:
            if rule.left != 0 and rule.method == request.method and rule.path.search(request.path):
                if rule.left is not None:
                    rule.left -= 1
                return rule
        return None

    def _denied(self, request: Request) -> Answer | None:
        if self.auth == "none" or request.path == ROOT:
            return None
        if request.path == SESSIONS and request.method == "POST":
            return None
        token = request.headers.get("x-auth-token")
        if token in self.sessions and self.auth in ("session", "both"):
            return None
        wanted = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        given = request.headers.get("authorization")
        if self.auth in ("basic", "both") and given == f"Basic {wanted}":
            return None
        return Answer(401, error("not authorised"))

    def _ordinary(self, request: Request) -> Answer:
        if request.path == SESSIONS:
            return self._log_in(request)
        if request.method == "DELETE" and request.path.startswith(SESSIONS):
            self.sessions.discard(request.path.rpartition("/")[2])
            return Answer(204)
        if request.method == "GET":
            found = self.tree.get(request.path)
            return Answer(404, error("nothing here")) if found is None else Answer(200, found)
        if request.method == "PATCH" and request.path in self.tree:
            _merge(self.tree[request.path], request.body)
            return Answer(204)
        if request.method == "POST":
            return self._act(request)
        return Answer(405, error("no such method"))

    def _log_in(self, request: Request) -> Answer:
        if self.auth not in ("session", "both"):
            return Answer(404, error("no sessions"))
        if request.body != {"UserName": self.username, "Password": self.password}:
            return Answer(401, error("bad credentials"))
        self.logins += 1
        token = secrets.token_hex(8)
        self.sessions.add(token)
        return Answer(
            201, {}, {"X-Auth-Token": token, "Location": f"{self.address}{SESSIONS}/{token}"}
        )

    def _act(self, request: Request) -> Answer:
        if request.path == RESET:
            state = _POWER_AFTER.get(request.body["ResetType"])
            if state and self.obeys:
                self.system["PowerState"] = state
            return Answer(204)
        device, _, action = request.path.partition("/Actions/VirtualMedia.")
        if device in self.tree and action == "InsertMedia":
            self.tree[device].update(Image=request.body["Image"], Inserted=True)
            return Answer(204)
        if device in self.tree and action == "EjectMedia":
            self.tree[device].update(Image="", Inserted=False)
            return Answer(204)
        return Answer(404, error("no such action"))


def _merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in two packets: without this the second waits 40 ms.
    disable_nagle_algorithm = True
    owner: Bmc

    def setup(self) -> None:
        super().setup()
        self.owner.connections += 1

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        request = Request(
            self.command,
            path.rstrip("/"),
            json.loads(raw) if raw else None,
            {name.lower(): value for name, value in self.headers.items()},
            query,
        )
        answer = self.owner.handle(request)
        self.owner.refused += answer.status == 401
        if answer.close or answer.reset or answer.raw is not None:
            self.close_connection = True
            if answer.reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                # Not the ordinary end, which begins with a shutdown.
                self.connection.close()
            with contextlib.suppress(OSError):
                for part in answer.raw or ():
                    self.wfile.write(part)
            return
        body = answer.body
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        pass
