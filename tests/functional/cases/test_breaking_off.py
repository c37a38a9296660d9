"""Work that takes long is broken off by users who do not want it any more (K10/81)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.conductor.interrupts import Work
from ironic_rs.domain import states
from ironic_rs.integrations import interruption
from tests.functional.defects.site import Site


class Transfer:
    """A deployment in the middle of something that takes long."""

    def __init__(self) -> None:
        self.runs, self.stopped = threading.Event(), threading.Event()

    def __call__(self, _task: Any) -> None:
        with interruption.stoppable(self.stopped.set):
            self.runs.set()
            self.stopped.wait(60)


@pytest.fixture
def busy(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Site, str, Transfer]]:
    """A site, and a node that is being deployed."""
    transfer = Transfer()
    monkeypatch.setattr(site.kit.interfaces["deploy"], "prepare", transfer, raising=False)
    uuid = site.node(states.AVAILABLE)
    assert site.ask(uuid, "active").status == 202
    assert transfer.runs.wait(60)
    yield site, uuid, transfer
    transfer.stopped.set()
    site.settle()


@pytest.mark.parametrize("target", ["deleted", "undeploy"])
def test_an_undeployment_ends_it_and_goes_on(
    conf: Any, busy: tuple[Site, str, Transfer], target: str
) -> None:
    site, uuid, transfer = busy
    # The lock is waited for, as by default.
    conf.set_override("node_locked_retry_attempts", 30, group="conductor")
    assert site.shown(uuid)["provision_state"] == "deploying"
    answer = site.ask(uuid, target)
    assert answer.status == 202, answer.body
    assert transfer.stopped.is_set()
    site.settle()
    assert site.shown(uuid)["instance_info"] == {}
    assert any("aborted on request" in entry["event"] for entry in site.history(uuid))


def test_an_abort_ends_it(busy: tuple[Site, str, Transfer]) -> None:
    site, uuid, _transfer = busy
    node = site.provision(uuid, "abort")
    assert node["provision_state"] == "deploy failed"
    assert "preparation of the deployment was aborted on request" in node["last_error"]


@pytest.mark.parametrize("target", ["active", "rebuild", "manage", "rescue"])
def test_no_other_verb_ends_it(busy: tuple[Site, str, Transfer], target: str) -> None:
    site, uuid, transfer = busy
    more = {"rescue_password": "secret"} if target == "rescue" else {}
    assert site.ask(uuid, target, **more).status == 409
    assert not transfer.stopped.is_set()


def test_a_condition_that_does_not_hold_ends_nothing(busy: tuple[Site, str, Transfer]) -> None:
    site, uuid, transfer = busy
    path = f"/v1/nodes/{uuid}/states/provision"
    for target in ("deleted", "abort"):
        answer = site.api.put(path, {"target": target}, headers={"If-Match": '"of-yesterday"'})
        assert answer.status in (409, 412), answer.body
    assert not transfer.stopped.is_set()


def test_a_deployment_that_cannot_be_broken_off_is_waited_for(site: Site) -> None:
    uuid = site.node(states.DEPLOYING)
    with site.held(uuid):
        answer = site.ask(uuid, "deleted")
    assert answer.status == 409
    assert "locked" in str(answer.body)


def test_an_undeployment_ends_no_other_flow(site: Site) -> None:
    uuid = site.node(states.RESCUEWAIT)
    interrupts = site.conductor.interrupts

    def never() -> None:
        raise AssertionError("the rescue was broken off")

    with contextlib.ExitStack() as held:
        held.enter_context(site.held(uuid))
        work: Work = held.enter_context(interrupts.work(uuid, states.RESCUING))
        held.enter_context(interrupts.stoppable(work, never))
        assert site.ask(uuid, "deleted").status == 409
