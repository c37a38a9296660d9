"""Steps that the ramdisk runs, by the heartbeats of an agent on the wire (W04, W17, W21)."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import states
from ironic_rs.domain.steps import KINDS
from tests.functional.defects.inband import OTHER, STEP, in_step, lists
from tests.functional.defects.site import steps


def test_w17_a_failed_step_of_a_servicing_fails_the_servicing(
    site_with_agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, agent = site_with_agent
    agent.did("execute_service_step", "FAILED", error={"details": "disk on fire"})
    uuid = in_step(site, "service", [STEP], instance_info={"image_source": "http://i"})
    undone: list[str] = []
    deploy = site.conductor.drivers.enabled("deploy")["custom-agent"]
    monkeypatch.setattr(deploy, "clean_up", lambda task: undone.append("deploy"))

    assert site.beat(uuid, agent.url).status == 202

    node = site.shown(uuid)
    assert node["provision_state"] == states.SERVICEFAIL
    assert "disk on fire" in node["last_error"]
    assert (node["maintenance"], node["fault"]) == (True, "service failure")
    assert node["service_step"] == {}
    assert undone == [], "nothing of the instance is cleaned up"
    assert node["instance_info"] == {"image_source": "http://i"}


@pytest.mark.parametrize("kind", ["clean", "deploy"])
def test_w17_a_failed_step_of_another_flow_fails_that_flow(site_with_agent: Any, kind: str) -> None:
    site, agent = site_with_agent
    agent.did(f"execute_{kind}_step", "FAILED", error={"details": "disk on fire"})
    uuid = in_step(site, kind, [STEP])

    assert site.beat(uuid, agent.url).status == 202

    node = site.shown(uuid)
    assert node["provision_state"] == KINDS[kind].failed
    assert "disk on fire" in node["last_error"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_w04_a_heartbeat_goes_on_after_a_hold_whose_worker_was_lost(
    site_with_agent: Any, kind: str
) -> None:
    site, agent = site_with_agent
    # The last command of the agent belongs to another step.
    agent.did(f"execute_{kind}_step", result={f"{kind}_step": OTHER})
    uuid = in_step(site, kind, [*steps("hold"), STEP])

    assert site.beat(uuid, agent.url).status == 202

    assert agent.params(f"{kind}.execute_{kind}_step")["step"]["step"] == "erase"
    node = site.shown(uuid)
    assert (node["provision_state"], node["last_error"]) == (KINDS[kind].wait, None)
    assert node[KINDS[kind].field]["step"] == "erase"


@pytest.mark.parametrize("kind", ["deploy", "service"])
def test_w21_changed_versions_are_listed_and_run_again_by_kind(
    site_with_agent: Any, kind: str
) -> None:
    site, agent = site_with_agent
    lists(agent, kind, STEP)
    agent.did(f"execute_{kind}_step", "VERSION_MISMATCH")
    uuid = in_step(site, kind, [STEP])

    assert site.beat(uuid, agent.url).status == 202

    assert agent.posted() == [f"{kind}.get_{kind}_steps", f"{kind}.execute_{kind}_step"]
    assert agent.params(f"{kind}.execute_{kind}_step")["step"]["step"] == "erase"
    node = site.shown(uuid)
    assert (node["provision_state"], node["last_error"]) == (KINDS[kind].wait, None)
    info = site.stored(uuid).driver_internal_info
    assert "clean_steps" not in info, "no plan of another flow"
    assert info["hardware_manager_version"] == {"generic": "2"}


def test_w21_automated_cleaning_starts_over_with_the_new_list(site_with_agent: Any) -> None:
    site, agent = site_with_agent
    lists(agent, "clean", STEP, OTHER)
    agent.did("execute_clean_step", "CLEAN_VERSION_MISMATCH")
    uuid = in_step(site, "clean", [STEP])

    assert site.beat(uuid, agent.url).status == 202

    assert agent.params("clean.execute_clean_step")["step"]["step"] == "burn"
    plan = site.stored(uuid).driver_internal_info["clean_steps"]
    assert [step["step"] for step in plan if step["interface"] == "deploy"][:2] == ["burn", "erase"]
