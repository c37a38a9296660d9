"""Control and metrics of a sandbox: a JSON endpoint on the loopback interface.

================================================= =====================================
GET    ``/``                                      summary: states, sums of all counters
GET    ``/states``                                power and software of every machine
GET    ``/machines``                              all about every machine
GET    ``/machines/{machine}``                    state of one, by name, UUID or number
GET    ``/machines/{machine}/counters``           its counters
GET    ``/machines/{machine}/disk[?bytes=N]``     digest of its first bytes (default: as
                                                  many as the image has, else 1 MiB)
GET    ``/machines/{machine}/logs``               log lines of its agent
PATCH  ``/faults``, ``/machines/{machine}/faults``  set faults, null resets one
DELETE the same                                   end all faults
POST   ``/machines/{machine}/actions/{action}``   restart-agent, expire-sessions, reset
                                                  (body ``{"type": "ForceOff"}``)
POST   ``/counters/reset``                        all counters to zero
================================================= =====================================

Errors are ``{"error": text}`` with status 400 or 404.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ironic_rs.sandbox import counters
from ironic_rs.sandbox.agent.agent import Agent
from ironic_rs.sandbox.faults import Faults
from ironic_rs.sandbox.fleet import Fleet
from ironic_rs.sandbox.machine import RESET_TYPES, Machine
from ironic_rs.sandbox.settings import MIB, SettingsError

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Control:
    """The endpoint.  It has no authentication: it only ever listens on loopback."""

    def __init__(self, fleet: Fleet, address: str, port: int) -> None:
        """:param port: 0 for a free one."""
        self._fleet = fleet
        self._address, self._port = address, port
        application = web.Application(middlewares=[_errors])
        application.add_routes(
            [
                web.get("/", self._summary),
                web.get("/states", self._states),
                web.get("/machines", self._machines),
                web.get("/machines/{machine}", self._machine),
                web.get("/machines/{machine}/counters", self._counters),
                web.get("/machines/{machine}/disk", self._disk),
                web.get("/machines/{machine}/logs", self._logs),
                web.patch("/faults", self._set_faults),
                web.delete("/faults", self._clear_faults),
                web.patch("/machines/{machine}/faults", self._set_faults),
                web.delete("/machines/{machine}/faults", self._clear_faults),
                web.post("/machines/{machine}/actions/{action}", self._act),
                web.post("/counters/reset", self._reset_counters),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self) -> str:
        """Listen; returns the URL."""
        await self._runner.setup()
        await web.TCPSite(self._runner, self._address, self._port).start()
        return f"http://{self._address}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    def _find(self, request: web.Request) -> Machine:
        key = request.match_info["machine"]
        machine = self._fleet.find(key)
        if machine is None:
            raise LookupError(f"no machine {key}")
        return machine

    def _selected(self, request: web.Request) -> list[Machine]:
        if "machine" in request.match_info:
            return [self._find(request)]
        return self._fleet.machines

    async def _summary(self, _request: web.Request) -> web.Response:
        machines = self._fleet.machines
        return _json(
            {
                "machines": len(machines),
                "power": dict(Counter(machine.power for machine in machines)),
                "software": dict(Counter(machine.software for machine in machines)),
                "counts": counters.total(machine.counters for machine in machines),
            }
        )

    async def _states(self, _request: web.Request) -> web.Response:
        return _json(
            {
                machine.spec.name: {
                    "power": machine.power,
                    "software": machine.software,
                    "detail": machine.detail,
                }
                for machine in self._fleet
            }
        )

    async def _machines(self, _request: web.Request) -> web.Response:
        return _json({"machines": [machine.to_json() for machine in self._fleet]})

    async def _machine(self, request: web.Request) -> web.Response:
        return _json(self._find(request).to_json())

    async def _counters(self, request: web.Request) -> web.Response:
        return _json(self._find(request).counters.to_json())

    async def _disk(self, request: web.Request) -> web.Response:
        machine = self._find(request)
        text = request.query.get("bytes")
        if text is not None and not text.isdecimal():
            raise SettingsError(f"bytes={text!r} is no number")
        disk = machine.disk
        default = disk.image.size if disk.image else MIB
        length = min(int(text) if text is not None else default, disk.size)
        digest = await asyncio.to_thread(disk.digest, length)
        reason = await asyncio.to_thread(disk.why_not_bootable)
        return _json(
            {
                "bytes": length,
                "sha256": digest,
                "size": disk.size,
                "allocated": disk.allocated(),
                "bootable": reason is None,
                "reason": reason,
                "configdrive": machine.configdrive,
            }
        )

    async def _logs(self, request: web.Request) -> web.Response:
        agent = self._find(request).agent
        lines = list(agent.log_lines) if isinstance(agent, Agent) else []
        return _json({"lines": lines})

    async def _set_faults(self, request: web.Request) -> web.Response:
        values = await _body(request)
        Faults().update(values)
        selected = self._selected(request)
        for machine in selected:
            machine.faults.update(values)
        return _json({"machines": [machine.spec.name for machine in selected]})

    async def _clear_faults(self, request: web.Request) -> web.Response:
        selected = self._selected(request)
        for machine in selected:
            machine.faults.update(Faults().to_json())
        return _json({"machines": [machine.spec.name for machine in selected]})

    async def _act(self, request: web.Request) -> web.Response:
        machine, action = self._find(request), request.match_info["action"]
        if action == "restart-agent":
            return _json({"restarted": machine.restart_agent()})
        if action == "expire-sessions":
            return _json({"expired": self._fleet.bmcs.expire_sessions(machine)})
        if action == "reset":
            reset_type = (await _body(request)).get("type")
            if reset_type not in RESET_TYPES:
                raise SettingsError(f"type {reset_type!r} is none of {', '.join(RESET_TYPES)}")
            machine.reset(str(reset_type))
            return _json({"power": machine.power})
        raise LookupError(f"no action {action}")

    async def _reset_counters(self, _request: web.Request) -> web.Response:
        for machine in self._fleet:
            machine.counters.reset()
        return _json({})


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    if request.headers.get("Origin"):
        return _json({"error": "not for web pages"}, 403)
    try:
        return await handler(request)
    except SettingsError as exc:
        return _json({"error": str(exc)}, 400)
    except LookupError as exc:
        return _json({"error": str(exc)}, 404)
    except web.HTTPException as exc:
        return _json({"error": exc.reason}, exc.status)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read() or b"{}")
    except ValueError as exc:
        raise SettingsError(f"the body is no JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise SettingsError("the body has to be a JSON object")
    return body


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(document).encode(), status=status, content_type="application/json"
    )
