"""What users rely on whatever happens (specification conductor.md section 16)."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import session
from ironic_rs.domain import errors, states
from ironic_rs.domain.steps import KINDS
from ironic_rs.integrations import interruption
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.defects.site import WAIT, Site, age, dead_conductor, steps, write

INSTANCE = {"image_source": "http://i/image"}


def test_a_state_is_only_written_by_the_holder_of_the_lock(site: Site) -> None:
    site.kit.offer("deploy", "deploy.deploy", 80)
    site.kit.offer("service", "raid.a", requires_ramdisk=False)
    dead_conductor("cond-z")
    waiting = site.node(states.CLEANWAIT)
    age(waiting, 100_000)
    site.node(states.DEPLOYING, reservation="cond-z")
    uuid = site.enroll()

    with session.count_statements() as counted:
        for target, more in (
            ("manage", {}),
            ("inspect", {}),
            ("clean", {"clean_steps": steps("hold")}),
            ("unhold", {}),
            ("provide", {}),
            ("active", {}),
            ("rescue", {"rescue_password": "a password"}),
            ("unrescue", {}),
            ("service", {"service_steps": steps("raid.a")}),
            ("rebuild", {}),
            ("deleted", {}),
        ):
            node = site.provision(uuid, target, **more)
            assert node["last_error"] is None, (target, node["last_error"])
        site.tick_all()

    assert node["provision_state"] == states.AVAILABLE
    moves = [
        text.partition(" WHERE ")
        for text in counted.statements
        if text.startswith("UPDATE nodes SET")
        and "provision_state=" in text.partition(" WHERE ")[0]
    ]
    assert len(moves) > 20
    assert {"reservation" in condition for _, _, condition in moves} == {True}


@pytest.mark.parametrize(
    ("state", "target", "change", "status"),
    [
        (states.AVAILABLE, "active", {"maintenance": True}, 400),
        (states.AVAILABLE, "active", {"provision_state": states.CLEANING}, 400),
        (states.ACTIVE, "rebuild", {"protected": True}, 403),
        (states.ACTIVE, "deleted", {"protected": True}, 403),
        (states.MANAGEABLE, "provide", {"retired": True}, 400),
        (states.ACTIVE, "service", {"maintenance": True}, 400),
        (states.MANAGEABLE, "clean", {"maintenance": True}, 400),
        (states.CLEANHOLD, "unhold", {"provision_state": states.CLEANFAIL}, 400),
    ],
)
def test_what_was_checked_before_the_lock_is_checked_again_under_it(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    target: str,
    change: dict[str, Any],
    status: int,
) -> None:
    uuid = site.node(state)
    send = ConductorClient._node

    def late(self: Any, context: Any, node: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        write(uuid, **change)
        return send(self, context, node, method, *args, **kwargs)

    monkeypatch.setattr(ConductorClient, "_node", late)
    more = {f"{target}_steps": steps("hold")} if target in ("clean", "service") else {}

    answer = site.ask(uuid, target, **more)
    site.settle()

    assert answer.status == status, answer.body
    node = site.shown(uuid)
    assert node["provision_state"] == change.get("provision_state", state)
    assert node["reservation"] is None


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_signals_that_come_twice_run_no_step_twice_and_leave_none_out(
    site: Site, kind: str
) -> None:
    data = KINDS[kind]
    begun, go = threading.Event(), threading.Event()

    def slow(task: Any) -> None:
        begun.set()
        go.wait(WAIT)

    site.kit.results["raid.b"] = slow
    end = states.MANAGEABLE if kind == "clean" else states.ACTIVE
    uuid = site.node(
        data.wait,
        target_provision_state=end,
        **{data.field: steps("raid.a")[0]},
        driver_internal_info={
            data.steps_key: steps("raid.a", "raid.b", "raid.c"),
            data.index_key: 0,
            "steps_validated": True,
        },
    )

    for _ in range(4):
        site.cast(kind, uuid)
    assert begun.wait(WAIT)
    site.cast(kind, uuid)
    go.set()
    site.becomes(uuid, provision_state=end)

    # A deployment may be told to go on while it runs: it then finds nothing to do.
    assert Counter(site.kit.ran) == {"raid.b": 1, "raid.c": 1}


@pytest.mark.parametrize(
    ("state", "periodic", "target"),
    [
        (states.CLEANWAIT, "_check_cleanwait_timeouts", states.MANAGEABLE),
        (states.RESCUEWAIT, "_check_rescuewait_timeouts", states.RESCUE),
        (states.SERVICEWAIT, "_check_servicewait_timeouts", states.ACTIVE),
        (states.DEPLOYWAIT, "_check_deploy_timeouts", states.ACTIVE),
    ],
)
def test_a_timeout_keeps_the_target(site: Site, state: str, periodic: str, target: str) -> None:
    uuid = site.node(state, target_provision_state=target)
    age(uuid, 100_000)

    site.tick(periodic)

    node = site.shown(uuid)
    assert node["provision_state"] == states.next_state(state, "fail")
    assert node["target_provision_state"] == target


@pytest.mark.parametrize("kind", ["clean", "service"])
def test_a_failure_touches_no_maintenance_of_the_operator(site: Site, kind: str) -> None:
    site.kit.results["raid.a"] = errors.RedfishError(error="no disk")
    CONF.set_override("allow_provisioning_in_maintenance", True, group="conductor")
    data = KINDS[kind]
    uuid = site.node(
        data.wait,
        maintenance=True,
        maintenance_reason="a new fan",
        **{data.field: steps("raid.z")[0]},
        driver_internal_info={
            data.steps_key: steps("raid.z", "raid.a"),
            data.index_key: 0,
        },
    )

    site.cast(kind, uuid)

    node = site.becomes(uuid, provision_state=data.failed)
    assert (node["maintenance"], node["maintenance_reason"]) == (True, "a new fan")
    assert node["fault"] is None
    assert "no disk" in node["last_error"]


@pytest.mark.parametrize("broken", ["console", "logs"])
def test_what_is_beside_a_flow_does_not_fail_it(site: Site, broken: str) -> None:
    def fail(task: Any) -> None:
        raise OSError("no port is free")

    CONF.set_override("deploy_logs_collect", "always", group="agent")
    site.kit.offer("deploy", "deploy.deploy", 80)
    site.kit.interfaces["console"].start_console = fail if broken == "console" else lambda t: None
    if broken == "logs":
        site.kit.interfaces["deploy"].collect_ramdisk_logs = fail
    uuid = site.node(states.AVAILABLE, console_enabled=True, instance_info=INSTANCE)

    node = site.provision(uuid, "active")

    assert node["provision_state"] == states.ACTIVE
    assert node["console_enabled"] is (broken != "console")


def test_a_console_that_does_not_stop_fails_the_tear_down(site: Site) -> None:
    """It may show the instance of the next user."""

    def fail(task: Any) -> None:
        raise errors.ConsoleError(error="it does not stop")

    site.kit.interfaces["console"].stop_console = fail
    uuid = site.node(states.ACTIVE, console_enabled=True, instance_info=INSTANCE)

    node = site.provision(uuid, "deleted")

    assert node["provision_state"] == states.ERROR
    assert "it does not stop" in node["last_error"]
    assert node["instance_info"] == INSTANCE


def test_the_token_of_a_ramdisk_is_told_once_and_never_again(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = site.node(states.CLEANWAIT)
    write(uuid, driver_internal_info={})

    def look_up() -> str:
        answer = site.api.get(f"/v1/lookup?node_uuid={uuid}")
        assert answer.status == 200, answer.body
        return str(answer.body["config"]["agent_token"])

    with caplog.at_level(logging.DEBUG):
        token, again = look_up(), look_up()
        shown = site.shown(uuid)

    assert len(token) > 30
    assert again == "******"
    assert token == site.stored(uuid).driver_internal_info["agent_secret_token"]
    assert token not in str(shown)
    assert token not in caplog.text


@pytest.mark.parametrize(
    ("state", "values"),
    [
        (states.CLEANWAIT, {}),
        (states.DEPLOYWAIT, {}),
        (states.ENROLL, {}),
        (states.ACTIVE, {"target_power_state": states.POWER_OFF}),
        (states.ACTIVE, {"reservation": "cond-b"}),
        (states.ACTIVE, {"maintenance": True}),
        (states.ACTIVE, {"driver_internal_info": {"redfish_fw_updates": [1]}}),
    ],
)
def test_power_sync_leaves_a_machine_alone_that_is_about_to_change(
    site: Site, state: str, values: dict[str, Any]
) -> None:
    asked: list[str] = []
    power = site.kit.interfaces["power"]
    power.get_power_state = lambda task: asked.append(task.node.uuid) or states.POWER_ON
    site.node(state, **values)
    other = site.node(states.ACTIVE)

    site.tick("_sync_power_states")

    assert asked == [other]


def test_a_conductor_never_takes_itself_for_dead(site: Site) -> None:
    uuid = site.node(states.MANAGEABLE)
    with site.held(uuid):
        dead_conductor("cond-a")

        site.tick("_check_orphan_nodes")

        assert site.shown(uuid)["reservation"] == "cond-a"


def test_a_busy_node_ends_only_its_own_turn(site: Site) -> None:
    fleet = [site.node(states.CLEANWAIT) for _ in range(3)]
    synced = [site.node(states.ACTIVE, power_state=states.POWER_OFF) for _ in range(3)]
    CONF.set_override("force_power_state_during_sync", False, group="conductor")
    site.kit.interfaces["power"].get_power_state = lambda task: states.POWER_ON
    for uuid in fleet:
        age(uuid, 100_000)

    with contextlib.ExitStack() as stack:
        # Taken between the query and the lock, for all that the periodic knows.
        for uuid in (fleet[0], synced[0]):
            stack.enter_context(site.held(uuid))
            write(uuid, reservation=None)
        site.tick("_check_cleanwait_timeouts")
        site.tick("_sync_power_states")

    assert [site.shown(uuid)["provision_state"] for uuid in fleet[1:]] == [states.CLEANFAIL] * 2
    assert [site.shown(uuid)["power_state"] for uuid in synced[1:]] == [states.POWER_ON] * 2


_MORE: dict[str, dict[str, Any]] = {
    "rescue": {"rescue_password": "a password"},
    "service": {"service_steps": steps("raid.a")},
}


def kept_back(site: Site, transport: DirectTransport, uuid: str, target: str) -> Callable[[], Any]:
    """Ask for a state in vain: the call gets lost; return what has it arrive after all."""
    late: list[Callable[[], Any]] = []
    call = transport.call

    def keep(host: str, method: str, arguments: Any, context: RequestContext, **kwargs: Any) -> Any:
        # What another process gets of the context is a copy.
        copy = RequestContext.from_dict(context.to_dict())
        late.append(lambda: call(host, method, arguments, copy, **kwargs))
        raise errors.ServiceUnavailable("no answer in time")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "call", keep)
        assert site.ask(uuid, target, **_MORE.get(target, {})).status == 503
    (come,) = late
    return come


@pytest.mark.parametrize(
    ("target", "meanwhile"),
    [
        ("rescue", "service"),
        ("deleted", "rebuild"),
        ("rebuild", "service"),
        ("service", "rebuild"),
    ],
)
def test_what_comes_after_the_node_has_been_through_something_else_is_refused(
    site: Site, transport: DirectTransport, target: str, meanwhile: str
) -> None:
    """A broker or a frozen conductor keeps a call: its user was told 503 and has gone on."""
    site.kit.offer("deploy", "deploy.deploy", 80)
    site.kit.offer("service", "raid.a", requires_ramdisk=False)
    uuid = site.node(states.ACTIVE, instance_info=INSTANCE)
    come = kept_back(site, transport, uuid, target)
    before = site.provision(uuid, meanwhile, **_MORE.get(meanwhile, {}))
    assert (before["provision_state"], before["last_error"]) == (states.ACTIVE, None)

    with pytest.raises(errors.NodeMoved, match=r"active since .*active since .*decide anew"):
        come()
    site.settle()
    assert site.shown(uuid) == before

    # The same again, by a user who has looked.
    after = site.provision(uuid, target, **_MORE.get(target, {}))
    assert after["last_error"] is None
    assert after["provision_updated_at"] > before["provision_updated_at"]


def test_what_comes_late_to_a_node_that_has_not_moved_is_done(
    site: Site, transport: DirectTransport
) -> None:
    uuid = site.node(states.ACTIVE, instance_info=INSTANCE)
    come = kept_back(site, transport, uuid, "rescue")
    site.power(uuid, states.REBOOT)
    come()
    site.settle()
    assert site.shown(uuid)["provision_state"] == states.RESCUE


def test_a_late_request_to_undeploy_does_not_break_off_a_newer_deployment(
    site: Site, transport: DirectTransport
) -> None:
    uuid = site.node(states.DEPLOYFAIL, instance_info=INSTANCE)
    come = kept_back(site, transport, uuid, "deleted")
    begun, go, broken_off = threading.Event(), threading.Event(), threading.Event()

    def transfer(_task: Any) -> None:
        with interruption.stoppable(broken_off.set):
            begun.set()
            assert go.wait(WAIT)
            interruption.check()

    site.kit.offer("deploy", "deploy.deploy", 80)
    site.kit.results["deploy.deploy"] = transfer
    assert site.ask(uuid, "active").status == 202
    assert begun.wait(WAIT)
    with pytest.raises(errors.NodeLocked):
        come()
    assert not broken_off.is_set()
    go.set()
    site.settle()
    assert site.shown(uuid)["provision_state"] == states.ACTIVE
