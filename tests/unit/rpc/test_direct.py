"""Direct dispatch behaves as the bus does, without one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc import dispatch
from ironic_rs.rpc import transport as rpc_transport
from ironic_rs.rpc.context import RequestContext, admin_context
from ironic_rs.rpc.direct import DirectTransport
from ironic_rs.rpc.registry import Registry, rpc_method
from ironic_rs.rpc.transport import RpcServer


class Foreign(Exception):
    pass


class Endpoint:
    def __init__(self) -> None:
        self.locked = 0
        self.casts: list[tuple[str, str | None]] = []
        self.done = threading.Event()
        self.gate = threading.Event()
        self.entered = threading.Event()

    @rpc_method("echo")
    def echo(self, context: RequestContext, **values: Any) -> Any:
        return values

    @rpc_method("who")
    def who(self, context: RequestContext) -> list[Any]:
        current = oslo_context.get_current()
        return [context.user_id, context.request_id, current and current.request_id]

    @rpc_method("fail")
    def fail(self, context: RequestContext, name: str) -> None:
        if name == "locked":
            raise errors.NodeLocked(node="n", host="h").held_by("n", "h", "test")
        if name == "coded":
            error = errors.NoValidHost(reason="r")
            error.code = 400
            raise error
        raise Foreign("text of a foreign error")

    @rpc_method("unfit")
    def unfit(self, context: RequestContext) -> Any:
        return {"a": object()}

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
        self.casts.append((node_id, context.user_id))
        self.done.set()

    @rpc_method("continue_node_deploy")
    def continue_node_deploy(self, context: RequestContext, node_id: str) -> None:
        raise Foreign("nobody hears this")


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("node_locked_retry_interval", 0, group="conductor")
    yield
    CONF.reset()
    CONF.clear()


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def transport() -> DirectTransport:
    return DirectTransport()


@pytest.fixture
def server(transport: DirectTransport, endpoint: Endpoint) -> Iterator[RpcServer]:
    server = transport.serve("host", Registry([endpoint]))
    server.start()
    yield server
    endpoint.gate.set()
    server.stop()
    assert server.wait(30)


@pytest.mark.usefixtures("server")
class TestCall:
    def test_values_take_the_way_through_json(self, transport: DirectTransport) -> None:
        sent = {"list": [1, "é", None], "tuple": (1, 2), "nested": {"a": {"b": 1.5}}}
        reply = transport.call("host", "echo", sent, admin_context())
        assert reply == {"list": [1, "é", None], "tuple": [1, 2], "nested": {"a": {"b": 1.5}}}
        assert reply["nested"] is not sent["nested"]

    def test_arguments_that_are_not_json_are_refused_here_too(
        self, transport: DirectTransport
    ) -> None:
        with pytest.raises(TypeError):
            transport.call("host", "echo", {"a": object()}, admin_context())

    def test_result_that_is_not_json_is_an_error(self, transport: DirectTransport) -> None:
        with pytest.raises(errors.IronicError, match="TypeError"):
            transport.call("host", "unfit", {}, admin_context())

    def test_context_is_the_callers_inside_and_outside(self, transport: DirectTransport) -> None:
        context = RequestContext(user_id="u", request_id="req-1")
        reply = transport.call("host", "who", {}, context)
        assert reply == ["u", "req-1", "req-1"]
        assert oslo_context.get_current() is context

    def test_error_of_the_product_is_created_again(self, transport: DirectTransport) -> None:
        with pytest.raises(errors.NodeLocked, match="locked by host h") as caught:
            transport.call("host", "fail", {"name": "locked"}, admin_context())
        assert caught.value.code == 409
        assert caught.value.details["lock"]["operation"] == "test"
        with pytest.raises(errors.NoValidHost) as other:
            transport.call("host", "fail", {"name": "coded"}, admin_context())
        assert other.value.code == 400
        assert errors.NoValidHost.code == 404

    def test_error_without_details_of_an_earlier_release_is_understood(self) -> None:
        reply = {"error": {"class": "NodeLocked", "message": "m", "code": 409}}
        with pytest.raises(errors.NodeLocked) as caught:
            dispatch.unpack(reply)
        assert caught.value.details == {}

    def test_foreign_error_is_a_plain_one_with_its_text(
        self, transport: DirectTransport, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(errors.IronicError, match="Foreign: text of a foreign error") as caught:
            transport.call("host", "fail", {"name": "foreign"}, admin_context())
        assert type(caught.value) is errors.IronicError
        assert caught.value.code == 500
        assert "RPC fail failed unexpectedly" in caplog.text

    def test_unknown_host_is_unavailable(self, transport: DirectTransport) -> None:
        with pytest.raises(errors.ServiceUnavailable, match="does not run in this process"):
            transport.call("other", "echo", {}, admin_context())
        with pytest.raises(errors.ServiceUnavailable):
            transport.cast("other", "continue_node_clean", {}, admin_context())

    def test_calls_run_at_the_same_time(
        self, transport: DirectTransport, endpoint: Endpoint
    ) -> None:
        replies: list[str] = []
        thread = threading.Thread(
            target=lambda: replies.append(transport.call("host", "slow", {}, admin_context()))
        )
        thread.start()
        assert endpoint.entered.wait(30)
        assert transport.call("host", "echo", {"a": 1}, admin_context()) == {"a": 1}
        endpoint.gate.set()
        thread.join(30)
        assert replies == ["done"]


@pytest.mark.usefixtures("server")
class TestCast:
    def test_runs_with_the_callers_context(
        self, transport: DirectTransport, endpoint: Endpoint
    ) -> None:
        context = RequestContext(user_id="u", overwrite=False)
        transport.cast("host", "continue_node_clean", {"node_id": "n"}, context)
        assert endpoint.done.wait(30)
        assert endpoint.casts == [("n", "u")]

    def test_comes_again_while_the_node_is_locked(
        self, transport: DirectTransport, endpoint: Endpoint
    ) -> None:
        endpoint.locked = 5
        transport.cast("host", "continue_node_clean", {"node_id": "n"}, admin_context())
        assert endpoint.done.wait(30)
        assert endpoint.locked == 0

    def test_waiting_casts_hold_no_thread(
        self, transport: DirectTransport, endpoint: Endpoint
    ) -> None:
        CONF.set_override("node_locked_retry_interval", 3600, group="conductor")
        endpoint.locked = 20
        for number in range(20):
            transport.cast("host", "continue_node_clean", {"node_id": str(number)}, admin_context())
        transport.cast("host", "continue_node_clean", {"node_id": "free"}, admin_context())
        assert endpoint.done.wait(30)
        assert endpoint.casts == [("free", None)]

    def test_failure_is_logged_and_dropped(
        self, transport: DirectTransport, endpoint: Endpoint
    ) -> None:
        transport.cast("host", "continue_node_deploy", {"node_id": "n"}, admin_context())
        transport.cast("host", "continue_node_clean", {"node_id": "n"}, admin_context())
        assert endpoint.done.wait(30)


def test_stopped_server_refuses_calls_and_lets_running_ones_end(
    transport: DirectTransport, endpoint: Endpoint
) -> None:
    server = transport.serve("host", Registry([endpoint]))
    with pytest.raises(errors.ServiceUnavailable):
        transport.call("host", "echo", {}, admin_context())
    server.start()
    replies: list[str] = []
    thread = threading.Thread(
        target=lambda: replies.append(transport.call("host", "slow", {}, admin_context()))
    )
    thread.start()
    assert endpoint.entered.wait(30)
    server.stop()
    with pytest.raises(errors.ServiceUnavailable):
        transport.call("host", "echo", {}, admin_context())
    assert not server.wait(0)
    endpoint.gate.set()
    assert server.wait(30)
    thread.join(30)
    assert replies == ["done"]


def test_configuration_chooses_the_transport() -> None:
    CONF.set_override("rpc_transport", "none")
    try:
        first = rpc_transport.get()
        assert isinstance(first, DirectTransport)
        assert rpc_transport.get() is first
        rpc_transport.reset()
        assert rpc_transport.get() is not first
    finally:
        rpc_transport.reset()
