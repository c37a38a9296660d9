"""What transports are tried with: an endpoint, and a line that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext, admin_context
from ironic_rs.rpc.registry import rpc_method
from ironic_rs.rpc.transport import Transport
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


def check_calls_casts_and_errors(client: Transport, host: str, endpoint: Endpoint) -> None:
    """What every transport keeps, seen from the client of a served endpoint."""
    value = {"a": [1, None, "é"], "b": {"c": 1.5}}
    assert client.call(host, "echo", {"value": value}, admin_context()) == value
    assert client.call(host, "echo", {}, admin_context(), version="1.5") is None

    context = RequestContext(
        user_id="u",
        user_name="name",
        roles=["admin"],
        is_public_api=True,
        request_id="req-1",
        global_request_id="req-2",
        auth_token_info={"token": {"a": 1}},
    )
    who = client.call(host, "who", {}, context)
    assert who["logged"] == "req-1"
    for name, sent in context.to_dict().items():
        assert who[name] == sent, name

    with pytest.raises(errors.NodeLocked, match="locked by host h") as caught:
        client.call(host, "fail", {"foreign": False}, admin_context())
    assert caught.value.code == 409
    assert caught.value.details["lock"]["operation"] == "a test"
    with pytest.raises(errors.IronicError, match="LookupError: a text") as other:
        client.call(host, "fail", {"foreign": True}, admin_context())
    assert type(other.value) is errors.IronicError

    for hidden in ("hidden", "__init__", "init_host", "target", "nothing"):
        with pytest.raises(errors.IronicError, match=hidden) as refused:
            client.call(host, hidden, {}, admin_context())
        assert refused.value.code == 500
    with pytest.raises(errors.IronicError, match="Arguments of the RPC method 'echo'"):
        client.call(host, "echo", {"other": 1}, admin_context())

    endpoint.locked = 3
    client.cast(host, "continue_node_clean", {"node_id": "n"}, admin_context())
    assert endpoint.cast_seen.wait(30)
    assert endpoint.casts == ["n"]
    assert endpoint.locked == 0
