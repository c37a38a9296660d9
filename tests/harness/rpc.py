"""What transports are tried with: an endpoint, and a line that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

from oslo_context import context as oslo_context

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import rpc_method
from tests.harness import servers

HOST = "cond-a"


class Endpoint:
    def __init__(self) -> None:
        self.calls = 0
        self.locked = 0
        self.casts: list[str] = []
        self.cast_seen = threading.Event()
        self.entered = threading.Event()
        self.gate = threading.Event()

    @rpc_method("echo", since="1.5")
    def echo(self, context: RequestContext, value: Any = None) -> Any:
        self.calls += 1
        return value

    @rpc_method("who")
    def who(self, context: RequestContext) -> dict[str, Any]:
        current = oslo_context.get_current()
        return {**context.to_dict(), "logged": current and current.request_id}

    @rpc_method("fail")
    def fail(self, context: RequestContext, foreign: bool) -> None:
        if foreign:
            raise LookupError("a text")
        raise errors.NodeLocked(node="n", host="h").held_by("n", "h", "a test")

    @rpc_method("size")
    def size(self, context: RequestContext, blob: str) -> int:
        return len(blob)

    @rpc_method("slow")
    def slow(self, context: RequestContext) -> str:
        self.entered.set()
        self.gate.wait(30)
        return "done"

    @rpc_method("continue_node_clean")
    def continue_node_clean(self, context: RequestContext, node_id: str) -> None:
        if self.locked:
            self.locked -= 1
            raise errors.NodeLocked(node=node_id, host="h")
        self.casts.append(node_id)
        self.cast_seen.set()

    def hidden(self, context: RequestContext) -> str:
        return "never"


class Relay:
    """A TCP relay before the broker that can be cut and joined again."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = servers.free_port()
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def join(self) -> None:
        listener = socket.create_server((servers.HOST, self.port))
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            gone, self._open = [*self._open, self._listener], []
            self._listener = None
        for sock in gone:
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            with self._lock:
                self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
