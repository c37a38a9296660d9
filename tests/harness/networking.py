"""A Networking service in memory: as much of its API v2.0 as clients of tests call.

It keeps the rules that clients run into: one MAC address once in a network, no new
address for a bound port, filters, NeutronError documents.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import threading
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: The network that is always there, with one subnet.
NETWORK = "11111111-2222-4333-8444-555555555555"
NETWORK_NAME = "baremetal"

#: Body of answers without a document.
EMPTY = b""

Document = dict[str, Any]

_SINGULAR = {
    "networks": "network",
    "ports": "port",
    "subnets": "subnet",
    "segments": "segment",
    "security-groups": "security_group",
    "agents": "agent",
}
_PORT: Document = {
    "name": "",
    "admin_state_up": True,
    "device_id": "",
    "device_owner": "",
    "binding:host_id": "",
    "binding:profile": {},
    "binding:vnic_type": "normal",
    "binding:vif_type": "unbound",
    "status": "DOWN",
    "security_groups": [],
    "extra_dhcp_opts": [],
}


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.document = {"NeutronError": {"type": kind, "message": message, "detail": ""}}


@dataclass
class Fault:
    """What happens to requests instead of the proper answer.

    :param path: regular expression that the path has to match.
    :param status: answer with this; None: hang until the server ends.
    :param times: how often; None: always.
    """

    method: str
    path: str
    status: int | None
    message: str = "by order of the test"
    times: int | None = None


class Networking:
    """The service; ``url`` is its endpoint.

    :ivar requests: (method, path, body, headers) of all requests so far.
    :ivar binding: status and vif_type of a port that is bound.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Document]] = {name: {} for name in _SINGULAR}
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.binding = ("ACTIVE", "other")
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.add("networks", id=NETWORK, name=NETWORK_NAME, mtu=1500)
        self.subnet = self.add(
            "subnets",
            network_id=NETWORK,
            ip_version=4,
            cidr="192.0.2.0/24",
            gateway_ip="192.0.2.1",
            dns_nameservers=["192.0.2.2"],
            host_routes=[],
        )["id"]

    @contextlib.contextmanager
    def running(self) -> Iterator[Networking]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._server.shutdown()
            self._server.server_close()

    # What tests arrange and look at

    def add(self, collection: str, **values: Any) -> Document:
        """Add an object as an operator would."""
        with self._lock:
            return self._create(collection, values)

    def fail(
        self,
        method: str,
        path: str,
        status: int | None,
        message: str = "by order of the test",
        times: int | None = None,
    ) -> None:
        """Have requests fail; see :class:`Fault`."""
        self.faults.append(Fault(method, path, status, message, times))

    def heal(self) -> None:
        """End all faults."""
        self.faults.clear()

    @property
    def ports(self) -> dict[str, Document]:
        return self.tables["ports"]

    def asked(self, method: str | None = None) -> list[str]:
        """Return ``METHOD path`` of the requests (of one method)."""
        return [f"{found} {path}" for found, path, _, _ in self.requests if method in (None, found)]

    # The API

    def _answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        parts = path.strip("/").split("/")
        if path == "/":
            return 200, {
                "versions": [
                    {
                        "id": "v2.0",
                        "status": "CURRENT",
                        "links": [{"rel": "self", "href": f"{self.url}/v2.0/"}],
                    }
                ]
            }
        if parts[0] != "v2.0" or len(parts) not in (2, 3) or parts[1] not in _SINGULAR:
            raise Refused(404, "HTTPNotFound", f"The resource {path} could not be found.")
        collection, name = parts[1], _SINGULAR[parts[1]]
        with self._lock:
            if len(parts) == 2:
                if method == "POST":
                    return 201, {name: self._create(collection, body[name])}
                return 200, {collection.replace("-", "_"): self._find(collection, query)}
            found = self.tables[collection].get(parts[2])
            if found is None:
                kind = name.title().replace("_", "")
                raise Refused(404, f"{kind}NotFound", f"{kind} {parts[2]} could not be found.")
            if method == "DELETE":
                del self.tables[collection][parts[2]]
                return 204, None
            if method == "PUT":
                self._update(collection, found, body[name])
            return 200, {name: found}

    def _find(self, collection: str, query: str) -> list[Document]:
        filters = urllib.parse.parse_qs(query)
        fields = filters.pop("fields", None)
        found = [
            row
            for row in self.tables[collection].values()
            if all(str(row.get(name)) in values for name, values in filters.items())
        ]
        if fields:
            found = [{name: row[name] for name in fields if name in row} for row in found]
        return found

    def _create(self, collection: str, values: Mapping[str, Any]) -> Document:
        row: Document = {"id": str(uuid.uuid4()), "name": "", **values}
        if collection == "ports":
            row = {**_PORT, **row}
            if row["network_id"] not in self.tables["networks"]:
                raise Refused(404, "NetworkNotFound", f"Network {row['network_id']}: not found")
            row["mac_address"] = values.get("mac_address") or _address()
            if "fixed_ips" not in values:
                row["fixed_ips"] = self._fixed_ips(row["network_id"])
            self._check_address(row)
            self._bind(row)
        self.tables[collection][row["id"]] = row
        return row

    def _update(self, collection: str, row: Document, values: Mapping[str, Any]) -> None:
        wanted = {**row, **values}
        if collection == "ports":
            if wanted["mac_address"] is None:
                wanted["mac_address"] = _address()
            if wanted["mac_address"] != row["mac_address"]:
                if row["binding:host_id"]:
                    raise Refused(
                        409,
                        "PortBound",
                        f"Unable to complete operation on port {row['id']}, port is already "
                        f"bound, port type: {row['binding:vif_type']}, old_mac "
                        f"{row['mac_address']}, new_mac {wanted['mac_address']}.",
                    )
                self._check_address(wanted)
            given: list[Document] = []
            for address in wanted["fixed_ips"]:
                given.append({"ip_address": self._ip(address["subnet_id"], given), **address})
            wanted["fixed_ips"] = given
            self._bind(wanted)
        row.update(wanted)

    def _check_address(self, port: Document) -> None:
        for other in self.ports.values():
            same = ("network_id", "mac_address")
            if other["id"] != port["id"] and all(other[key] == port[key] for key in same):
                raise Refused(
                    409,
                    "MacAddressInUse",
                    f"Unable to complete operation for network {port['network_id']}. The mac "
                    f"address {port['mac_address']} is in use.",
                )

    def _bind(self, port: Document) -> None:
        bound = bool(port["binding:host_id"])
        port["status"], port["binding:vif_type"] = self.binding if bound else ("DOWN", "unbound")

    def _fixed_ips(self, network: str) -> list[Document]:
        return [
            {"subnet_id": subnet["id"], "ip_address": self._ip(subnet["id"])}
            for subnet in self.tables["subnets"].values()
            if subnet["network_id"] == network
        ]

    def _ip(self, subnet: str, given: Sequence[Document] = ()) -> str:
        """Return a free address; ``given`` are those of the port itself."""
        prefix = self.tables["subnets"][subnet]["cidr"].partition("/")[0]
        all_fixed = [ip for port in self.ports.values() for ip in port["fixed_ips"]]
        taken = {ip["ip_address"] for ip in [*all_fixed, *given]}
        base = prefix if prefix.endswith(":") else prefix.rpartition(".")[0] + "."
        return next(ip for n in range(10, 10000) if (ip := f"{base}{n}") not in taken)

    # HTTP

    def _fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                fits = fault.method == method and re.fullmatch(fault.path, path)
                if not fits or fault.times == 0:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def _serve(
        self, method: str, target: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        with self._lock:
            self.requests.append((method, target, body, headers))
        fault = self._fault(method, path)
        if fault is not None:
            if fault.status is None:
                self._ended.wait()
                return 503, None
            return fault.status, Refused(fault.status, "Fault", fault.message).document
        try:
            return self._answer(method, path, query, body)
        except Refused as exc:
            return exc.status, exc.document

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, document = service._serve(self.command, self.path, body, dict(self.headers))
                content = EMPTY if document is None else json.dumps(document).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _address() -> str:
    return "fa:16:3e:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))
