"""Who may write to a node, and who need not lock it
(W10, W11, W29, W30, W31, W41, W42, W46)."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.rpc.conductor_client import ConductorClient
from tests.functional.defects.site import TOKEN, WAIT, Site, steps, write
from tests.unit.drivers.agent_server import make_certificate

PLAN = steps("raid.a", "raid.b")


def cleaned(site: Site, during: Callable[[str], None]) -> str:
    """Clean a node by hand; ``during`` is called with its uuid in the first of two steps."""
    for name in ("raid.a", "raid.b"):
        site.kit.offer("clean", name, requires_ramdisk=False)

    def step(task: Any) -> None:
        during(str(task.node.uuid))
        task.node.extra["written by"] = "the worker that lost its lock"

    site.kit.results["raid.a"] = step
    uuid = site.node(states.MANAGEABLE)
    assert site.ask(uuid, "clean", clean_steps=PLAN).status == 202
    assert site.conductor.workers.wait(WAIT)
    return uuid


@pytest.mark.parametrize("holder", ["cond-b", None], ids=["taken over", "freed"])
def test_w10_a_worker_that_lost_its_lock_writes_nothing_more(
    site: Site, holder: str | None
) -> None:
    left: list[dict[str, Any]] = []

    def lose(uuid: str) -> None:
        write(uuid, reservation=holder, provision_state=states.CLEANFAIL, last_error="taken over")
        left.append(site.shown(uuid))

    uuid = cleaned(site, lose)

    assert site.kit.ran == ["raid.a"], "the next step is not run"
    assert site.shown(uuid) == left[0]


def test_w10_a_newer_task_of_the_same_conductor_shuts_out_the_old_one(site: Site) -> None:
    left: list[dict[str, Any]] = []
    newer: list[Any] = []

    def lose(uuid: str) -> None:
        write(uuid, reservation=None)
        task = site.conductor.tasks.acquire(site.context, uuid, purpose="newer")
        newer.append(task)
        task.node.extra["written by"] = "the newer task"
        task.save()
        left.append(site.shown(uuid))

    uuid = cleaned(site, lose)

    assert site.kit.ran == ["raid.a"], "the next step is not run"
    assert site.shown(uuid) == left[0]
    assert left[0]["extra"] == {"written by": "the newer task"}
    assert left[0]["reservation"] == "cond-a"
    newer[0].release()
    assert site.shown(uuid)["reservation"] is None


def test_w42_a_conductor_without_a_heartbeat_starts_and_writes_nothing(site: Site) -> None:
    fence, clock = site.conductor.fence, site.conductor.fence._clock
    left: list[dict[str, Any]] = []

    def lose(uuid: str) -> None:
        fence._clock = lambda: clock() + CONF.conductor.heartbeat_timeout + 1
        left.append(site.shown(uuid))

    uuid = cleaned(site, lose)
    idle = site.node(states.MANAGEABLE)

    assert site.kit.ran == ["raid.a"], "the next step is not run"
    assert site.shown(uuid) == left[0]
    for target in ("provide", "inspect"):
        answer = site.ask(idle, target)
        assert answer.status == 503
        assert "heartbeat" in answer.text
    assert site.shown(idle)["provision_state"] == states.MANAGEABLE
    # It is a conductor like any other once its heartbeat is recorded again.
    assert site.conductor.keepalive.beat()
    assert site.provision(idle, "inspect")["provision_state"] == states.MANAGEABLE
    # What it left behind is settled by the next look at its own locks.
    site.tick("_check_orphan_nodes")
    assert site.shown(uuid)["provision_state"] == states.CLEANFAIL


@pytest.mark.parametrize("column", ["driver_info", "properties", "extra", "instance_info"])
def test_w11_a_patch_keeps_what_was_written_since_the_node_was_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    uuid = site.node(states.MANAGEABLE, **{column: {"old": 1}})
    update = ConductorClient.update_node

    def late(self: Any, context: Any, node: Any, *args: Any, **kwargs: Any) -> None:
        # The conductor was quicker than the request.
        write(uuid, **{column: {"old": 1, "meanwhile": 2}}, driver_internal_info={"plan": [1]})
        update(self, context, node, *args, **kwargs)

    monkeypatch.setattr(ConductorClient, "update_node", late)

    answer = site.api.patch(
        f"/v1/nodes/{uuid}", [{"op": "add", "path": f"/{column}/asked", "value": 3}]
    )

    assert answer.status == 200, answer.body
    assert site.shown(uuid)[column] == {"old": 1, "meanwhile": 2, "asked": 3}
    assert site.stored(uuid).driver_internal_info == {"plan": [1]}


@pytest.mark.parametrize("column", ["driver_info", "properties", "extra", "instance_info"])
def test_w11_two_patches_of_one_column_lose_no_key(
    site: Site, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    CONF.set_override("node_locked_retry_attempts", 30, group="conductor")
    uuid = site.node(states.MANAGEABLE, **{column: {"old": 1}})
    both = threading.Barrier(2)
    update = ConductorClient.update_node

    def together(self: Any, *args: Any, **kwargs: Any) -> None:
        # Both requests have read the node by now.
        both.wait(WAIT)
        update(self, *args, **kwargs)

    monkeypatch.setattr(ConductorClient, "update_node", together)

    def patch(key: str) -> int:
        ops = [{"op": "add", "path": f"/{column}/{key}", "value": key}]
        return site.api.patch(f"/v1/nodes/{uuid}", ops).status

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(patch, ["one", "other"])) == [200, 200]

    assert site.shown(uuid)[column] == {"old": 1, "one": "one", "other": "other"}


@pytest.mark.parametrize(
    "path",
    [
        "management/boot_device",
        "management/boot_device/supported",
        "management/indicators",
        "management/indicators/led@system",
        "vmedia",
        "states/console",
        "validate",
        "vifs",
    ],
)
def test_w29_reading_needs_no_lock(site: Site, path: str) -> None:
    uuid = site.node(states.ACTIVE, console_enabled=True)
    free = site.api.get(f"/v1/nodes/{uuid}/{path}")
    with site.held(uuid):
        held = site.api.get(f"/v1/nodes/{uuid}/{path}")

    assert (free.status, held.status) == (200, 200), held.body
    assert free.body == held.body


def test_w30_an_allocation_can_go_when_its_driver_is_not_enabled(site: Site) -> None:
    uuid = site.node(states.AVAILABLE, resource_class="gold")
    assert site.api.post("/v1/allocations", {"resource_class": "gold", "name": "a"}).status == 201
    site.settle()
    assert site.shown(uuid)["allocation_uuid"]
    write(uuid, driver="not-enabled-here")

    answer = site.api.delete("/v1/allocations/a")

    assert answer.status == 204, answer.body
    node = site.shown(uuid)
    assert (node["allocation_uuid"], node["instance_uuid"]) == (None, None)


@pytest.mark.parametrize("action", ["attach", "detach"])
def test_w31_the_failure_with_a_vif_can_be_read(site: Site, action: str) -> None:
    def broken(*args: Any) -> None:
        raise errors.NetworkError("Neutron has no such port")

    setattr(site.kit.interfaces["network"], f"vif_{action}", broken)
    uuid = site.node(states.MANAGEABLE)

    if action == "attach":
        answer = site.api.post(f"/v1/nodes/{uuid}/vifs", {"id": "vif-1"})
    else:
        answer = site.api.delete(f"/v1/nodes/{uuid}/vifs/vif-1")

    assert answer.status >= 400
    node = site.shown(uuid)
    assert "Neutron has no such port" in node["last_error"]
    assert "vif-1" in node["last_error"]
    assert node["reservation"] is None


def test_w41_a_console_switch_keeps_what_was_written_before_its_lock(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = site.node(states.ACTIVE, last_error="an old one")
    console = site.kit.interfaces["console"]
    # Another one writes between the check of the console and the lock.
    console.validate = lambda task: write(
        uuid, extra={"meanwhile": 1}, driver_internal_info={"meanwhile": 2}, owner="somebody"
    )

    answer = site.api.put(f"/v1/nodes/{uuid}/states/console", {"enabled": True})
    site.settle()

    assert answer.status == 202
    node = site.shown(uuid)
    assert (node["console_enabled"], node["last_error"]) == (True, None)
    assert (node["extra"], node["owner"]) == ({"meanwhile": 1}, "somebody")
    assert site.stored(uuid).driver_internal_info == {"meanwhile": 2}


def test_w41_a_console_that_was_switched_meanwhile_is_not_switched_again(site: Site) -> None:
    uuid = site.node(states.ACTIVE)
    started: list[str] = []
    console = site.kit.interfaces["console"]
    console.validate = lambda task: write(uuid, console_enabled=True)
    console.start_console = lambda task: started.append(task.node.uuid)

    assert site.api.put(f"/v1/nodes/{uuid}/states/console", {"enabled": True}).status == 202
    site.settle()

    assert started == []
    assert site.shown(uuid)["console_enabled"] is True


def test_w46_tokens_are_compared_in_constant_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = site.node(states.CLEANWAIT)
    compared: list[bool] = []
    compare = hmac.compare_digest

    def watched(one: Any, other: Any) -> bool:
        compared.append(compare(one, other))
        return compared[-1]

    monkeypatch.setattr(hmac, "compare_digest", watched)

    assert site.beat(uuid, agent_token=TOKEN[:-1] + "u").status == 400
    assert compared == [False]
    assert site.beat(uuid).status == 202
    assert compared[1:] == [True, True], "by the API, and under the lock again"


def test_w46_a_heartbeat_writes_no_certificate_before_it_has_the_lock(
    site: Site, tmp_path: Path
) -> None:
    certificate = make_certificate(tmp_path).read_text()
    folder = Path(CONF.agent.certificates_path)
    uuid = site.node(states.CLEANWAIT, driver_internal_info={"agent_url": "https://192.0.2.5"})
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with site.held(uuid):
            held.set()
            go.wait(WAIT)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(WAIT)
    body = {"callback_url": "https://192.0.2.5", "agent_version": "13", "agent_token": TOKEN}
    answer = site.api.post(f"/v1/heartbeat/{uuid}", {**body, "agent_verify_ca": certificate})
    found = list(folder.glob("*")) if folder.exists() else []
    go.set()
    other.join()

    assert answer.status == 202
    assert found == []
    assert site.beat(uuid, agent_verify_ca=certificate).status == 202
    assert [path.read_text() for path in folder.glob("*.crt")] == [certificate]
