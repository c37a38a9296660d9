"""REST API of the agent (agent-protocol section 6)."""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web

from ironic_rs.sandbox.agent.errors import AgentError, invalid

if TYPE_CHECKING:
    from ironic_rs.sandbox.agent.agent import Agent


class AgentServer:
    """Serves the commands of one agent."""

    def __init__(self, agent: Agent, version: str) -> None:
        self._agent = agent
        self._version = version
        self._started_at = datetime.now(UTC).replace(tzinfo=None).isoformat()
        self._server = web.Server(self._handle, access_log=None)
        self._listener: asyncio.Server | None = None

    async def start(self, address: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._server, address, port, ssl=tls, reuse_address=True
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the socket and cut all connections, as a power switch would."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._server.shutdown(0.0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        faults = self._agent.machine.faults
        self._agent.machine.counters.add("agent.requests")
        if faults.agent_delay:
            await asyncio.sleep(faults.agent_delay)
        status = faults.take_agent_status()
        if status:
            return _error(status, "injected fault")
        try:
            return await self._dispatch(request)
        except AgentError as exc:
            return _error(exc.code, f"{exc.message}: {exc.details}")

    async def _dispatch(self, request: web.BaseRequest) -> web.Response:
        path = request.path.rstrip("/").removeprefix("/v1").strip("/")
        if path == "" and request.method == "GET":
            return _json(self._root(request))
        if path == "status" and request.method == "GET":
            return _json({"started_at": self._started_at, "version": self._version})
        head, _, identity = path.partition("/")
        if head != "commands":
            raise AgentError("NotFound", "Not found", request.path, 404)
        self._check_token(request)
        commands = self._agent.commands
        wait = request.query.get("wait", "false").lower() == "true"
        if request.method == "POST" and not identity:
            body = await self._body(request)
            result = await commands.submit(body.get("name"), body.get("params"), wait=wait)
            return _json(result.to_json())
        if request.method != "GET":
            raise AgentError("NotAllowed", "Method not allowed", request.method, 405)
        if not identity:
            return _json({"commands": [item.to_json() for item in commands.results]})
        found = commands.find(identity)
        if found is None:
            raise AgentError("RequestedObjectNotFoundError", "Command not found", identity, 404)
        if wait and found.task is not None:
            await asyncio.wait([found.task])
        return _json(found.to_json())

    def _root(self, request: web.BaseRequest) -> dict[str, Any]:
        base = f"{request.scheme}://{request.host}"
        if request.path.rstrip("/") == "":
            version = {"id": "v1", "links": [{"href": f"{base}/v1/", "rel": "self"}]}
            return {
                "name": "OpenStack Ironic Python Agent API",
                "description": "Simulated ramdisk agent of a sandbox machine",
                "versions": [version],
                "default_version": version,
            }
        return {
            "id": "v1",
            "commands": [{"href": f"{base}/v1/commands/", "rel": "self"}],
            "status": [{"href": f"{base}/v1/status/", "rel": "self"}],
            "media_types": [{"base": "application/json", "type": "application/json"}],
        }

    def _check_token(self, request: web.BaseRequest) -> None:
        given = request.query.get("agent_token", "").encode()
        wanted = self._agent.token
        if wanted is None or not hmac.compare_digest(given, wanted.encode()):
            raise AgentError("Unauthorized", "Token invalid", "agent_token is wrong", 401)

    async def _body(self, request: web.BaseRequest) -> dict[str, Any]:
        raw = b"".join([chunk async for chunk in request.content.iter_any()])
        try:
            body = json.loads(raw)
        except ValueError as exc:
            raise invalid(f"no JSON: {exc}") from exc
        if not isinstance(body, dict) or "name" not in body or "params" not in body:
            raise invalid("a JSON object with name and params is needed")
        return body


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(document).encode(), status=status, content_type="application/json"
    )


def _error(status: int, text: str) -> web.Response:
    code = "Client" if status < 500 else "Server"
    return _json({"faultcode": code, "faultstring": text}, status)
