"""Direct dispatch: the conductor lives in the caller's process.

A call runs in the caller's thread.  Arguments, result and errors take the same
way through JSON as on the bus, so nothing works here that would fail there.

Source: specification conductor.md sections 1.1 (none) and 6.4.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import orjson

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc import dispatch
from ironic_rs.rpc.casts import CastRunner
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import Registry
from ironic_rs.rpc.transport import RpcServer, Transport


class DirectServer(RpcServer):
    """The conductor's side of direct dispatch."""

    def __init__(self, transport: DirectTransport, host: str, registry: Registry) -> None:
        self._transport = transport
        self._host = host
        self._registry = registry
        self._idle = threading.Condition()
        self._running = 0
        self._casts: CastRunner | None = None

    def start(self) -> None:
        self._casts = CastRunner(self._registry, lambda: CONF.conductor.node_locked_retry_interval)
        self._transport._servers[self._host] = self

    def stop(self) -> None:
        self._transport._servers.pop(self._host, None)

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        if self._casts is not None:
            self._casts.close(timeout)
        left = None if end is None else max(0.0, end - time.monotonic())
        with self._idle:
            return self._idle.wait_for(lambda: not self._running, left)

    def answer(
        self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
    ) -> bytes:
        """Run a method; the answer object as JSON."""
        with self._idle:
            self._running += 1
        try:
            reply = dispatch.answer(self._registry, method, arguments, context)
            try:
                return orjson.dumps(reply)
            except TypeError as exc:
                return orjson.dumps(dispatch.failure(exc))
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def accept(self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Queue a cast."""
        if self._casts is not None:
            self._casts.submit(method, arguments, context)


class DirectTransport(Transport):
    """Calls conductors of this process (one, except in tests)."""

    def __init__(self) -> None:
        self._servers: dict[str, DirectServer] = {}

    def call(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
        timeout: float | None = None,
    ) -> Any:
        values, who = self._wire(arguments, context)
        return dispatch.unpack(orjson.loads(self._server(host).answer(method, values, who)))

    def cast(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
    ) -> None:
        values, who = self._wire(arguments, context)
        self._server(host).accept(method, values, who)

    def serve(self, host: str, registry: Registry) -> DirectServer:
        return DirectServer(self, host, registry)

    def close(self) -> None:
        self._servers.clear()

    @staticmethod
    def _wire(
        arguments: Mapping[str, Any], context: RequestContext
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        values, who = orjson.loads(orjson.dumps([arguments, context.to_dict()]))
        return values, who

    def _server(self, host: str) -> DirectServer:
        server = self._servers.get(host)
        if server is None:
            raise errors.ServiceUnavailable(
                f"Conductor {host} does not run in this process (it is starting or stopping). "
                "Please retry."
            )
        return server
