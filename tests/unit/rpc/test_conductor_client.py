"""Routing and payloads of the client."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.conductor.endpoints import ENDPOINTS
from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.context import RequestContext, admin_context
from ironic_rs.rpc.registry import CASTS, RPC_VERSION, Registry
from ironic_rs.rpc.ring import HashRing
from ironic_rs.rpc.transport import RpcServer, Transport
from ironic_rs.rpc.versions import fits

UUID = "00000000-0000-4000-8000-000000000001"
NODE = SimpleNamespace(uuid=UUID, driver="redfish", conductor_group="")


class Recorder(Transport):
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

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
        self.sent.append(
            {"host": host, "method": method, "version": version, "arguments": dict(arguments)}
        )
        return {}

    def cast(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
    ) -> None:
        self.call(host, method, arguments, context, version=version)

    def serve(self, host: str, registry: Registry) -> RpcServer:
        raise AssertionError

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("host", "me")
    yield
    CONF.reset()
    CONF.clear()


@pytest.fixture
def wire() -> Recorder:
    return Recorder()


@pytest.fixture
def client(wire: Recorder) -> ConductorClient:
    members = [("", "redfish", host) for host in ("cond-a", "cond-b", "cond-c")]
    return ConductorClient(wire, HashRing(lambda: members))


def test_node_calls_go_to_the_owner_with_its_uuid(client: ConductorClient, wire: Recorder) -> None:
    client.change_node_power_state(admin_context(), NODE, "power on", timeout=5)
    client.destroy_node(
        admin_context(), {"uuid": UUID, "driver": "redfish", "conductor_group": None}
    )
    assert wire.sent == [
        {
            "host": "cond-c",
            "method": "change_node_power_state",
            "version": "1.39",
            "arguments": {"node_id": UUID, "new_state": "power on", "timeout": 5},
        },
        {
            "host": "cond-c",
            "method": "destroy_node",
            "version": "1.9",
            "arguments": {"node_id": UUID},
        },
    ]


def test_driver_calls_go_to_any_conductor_that_has_it(
    client: ConductorClient, wire: Recorder
) -> None:
    client.get_driver_properties(admin_context(), "redfish")
    assert wire.sent[0]["host"] in {"cond-a", "cond-b", "cond-c"}
    with pytest.raises(errors.DriverNotFound):
        client.get_driver_properties(admin_context(), "ipmi")


def test_allocations_go_to_any_live_conductor_or_to_that_of_the_node_in_use(
    client: ConductorClient, wire: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ironic_rs.db.conductors.online_hosts", lambda: ["cond-x"])
    client.create_allocation(admin_context(), {"name": "a"})
    client.destroy_allocation(admin_context(), UUID)
    client.create_allocation(admin_context(), {"name": "a"}, NODE)
    assert [(s["host"], s["arguments"]) for s in wire.sent] == [
        ("cond-x", {"allocation": {"name": "a"}}),
        ("cond-x", {"allocation_id": UUID}),
        ("cond-c", {"allocation": {"name": "a"}, "node_id": UUID}),
    ]
    monkeypatch.setattr("ironic_rs.db.conductors.online_hosts", list)
    with pytest.raises(errors.TemporaryFailure) as caught:
        client.create_allocation(admin_context(), {})
    assert caught.value.code == 503


def test_continuation_goes_to_this_host(client: ConductorClient, wire: Recorder) -> None:
    client.continue_node(admin_context(), NODE, "service")
    assert wire.sent[0]["host"] == "me"
    assert wire.sent[0]["method"] == "continue_node_service"


_LOST = SimpleNamespace(uuid=UUID, driver="redfish", conductor_group="nowhere")


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (404, lambda c, x, n: c.change_node_power_state(x, n, "power on")),
        (404, lambda c, x, n: c.do_node_deploy(x, n)),
        (400, lambda c, x, n: c.update_node(x, n, [])),
        (400, lambda c, x, n: c.destroy_node(x, n)),
        (400, lambda c, x, n: c.create_node(x, vars(n))),
        (400, lambda c, x, n: c.vif_list(x, n)),
        (400, lambda c, x, n: c.get_virtual_media(x, n)),
        (400, lambda c, x, n: c.attach_virtual_media(x, n, "cdrom", "http://a")),
        (400, lambda c, x, n: c.detach_virtual_media(x, n)),
        (404, lambda c, x, n: c.update_volume_target(x, n, UUID, [])),
        (404, lambda c, x, n: c.create_allocation(x, {}, n)),
        (400, lambda c, x, n: c.get_node_with_token(x, n)),
        (400, lambda c, x, n: c.heartbeat(x, n, "http://a", "1")),
        (400, lambda c, x, n: c.continue_inspection(x, n, {})),
    ],
)
def test_no_conductor_for_the_node(client: ConductorClient, code: int, call: Any) -> None:
    with pytest.raises(errors.NoValidHost, match="nowhere") as caught:
        call(client, admin_context(), _LOST)
    assert caught.value.code == code


def test_optional_arguments_are_sent_only_when_needed(
    client: ConductorClient, wire: Recorder
) -> None:
    client.do_node_deploy(admin_context(), NODE)
    client.do_node_deploy(admin_context(), NODE, deploy_steps=[{"step": "a"}])
    client.do_node_clean(admin_context(), NODE, [])
    client.do_node_clean(admin_context(), NODE, [], disable_ramdisk=True)
    assert [(s["version"], sorted(s["arguments"])) for s in wire.sent] == [
        ("1.22", ["configdrive", "node_id", "rebuild"]),
        ("1.52", ["configdrive", "deploy_steps", "node_id", "rebuild"]),
        ("1.32", ["clean_steps", "node_id"]),
        ("1.53", ["clean_steps", "disable_ramdisk", "node_id"]),
    ]


def test_heartbeat_fits_the_pinned_release(client: ConductorClient, wire: Recorder) -> None:
    CONF.set_override("pin_release_version", "2025.2")
    client.heartbeat(admin_context(), NODE, "https://a", "1.0", agent_token="t")
    assert fits(wire.sent[0]["version"], "1.61")


def test_every_call_fits_a_method_of_the_conductor(
    client: ConductorClient, wire: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two sides cannot drift apart: names, arguments and versions are compared."""
    registry = Registry(endpoint(None) for endpoint in ENDPOINTS)  # type: ignore[arg-type]
    samples: dict[str, Any] = {
        "node": {"uuid": UUID, "driver": "redfish", "conductor_group": ""},
        "driver_name": "redfish",
        "kind": "clean",
        "backfill": {"uuid": UUID, "driver": "redfish", "conductor_group": ""},
    }
    monkeypatch.setattr(client, "any_host", lambda: "cond-a")
    for name, method in inspect.getmembers(client, inspect.ismethod):
        if name.startswith("_") or name in ("host_for", "any_host"):
            continue
        arguments = {
            p.name: samples.get(p.name, [] if "Sequence" in str(p.annotation) else {})
            for p in inspect.signature(method).parameters.values()
            if p.name != "context"
        }
        method(admin_context(), **arguments)
    for kind in ("deploy", "service"):
        client.continue_node(admin_context(), NODE, kind)
    called = {sent["method"] for sent in wire.sent}
    for sent in wire.sent:
        assert sent["method"] in registry, sent["method"]
        method = registry._methods[sent["method"]]
        method.signature.bind(admin_context(), **sent["arguments"])
        assert fits(sent["version"], RPC_VERSION)
    assert called >= CASTS
    assert called == set(registry.names)


def test_a_condition_goes_along_with_one_call(wire: Recorder, client: ConductorClient) -> None:
    context = RequestContext()
    context.if_match = ("a", "b")
    client.update_node(context, NODE, [])
    client.update_node(context, NODE, [])
    assert [call["arguments"].get("if_match") for call in wire.sent] == [["a", "b"], None]
    assert [call["version"] for call in wire.sent] == ["1.63", "1.1"]
    # Tags of which none can match are a condition too.
    context.if_match = ()
    client.destroy_node(context, NODE)
    assert wire.sent[-1]["arguments"]["if_match"] == []


def test_a_condition_that_conductors_do_not_know_is_refused(
    wire: Recorder, client: ConductorClient
) -> None:
    CONF.set_override("pin_release_version", "39.0")
    context = RequestContext()
    context.if_match = ("a",)
    with pytest.raises(errors.ServiceUnavailable, match=r"pin_release_version is 39\.0"):
        client.update_node(context, NODE, [])
    assert wire.sent == []
    client.update_node(RequestContext(), NODE, [])
    assert len(wire.sent) == 1
