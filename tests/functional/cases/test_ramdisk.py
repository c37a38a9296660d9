"""Cases of operators about the ramdisk: look-up, token, heartbeat, commands (K08)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oslo_utils import timeutils

from ironic_rs.db import records
from ironic_rs.domain import states
from ironic_rs.domain.steps import KINDS
from tests.functional.defects.inband import OTHER, STEP, in_step, lists
from tests.functional.defects.site import TOKEN, Site, write
from tests.unit.drivers.agent_server import AgentServer, make_certificate

EACH = pytest.mark.parametrize("kind", sorted(KINDS))
MAC = "52:54:00:00:00:01"
URL = "https://192.0.2.5:9999"
GOOD = {"callback_url": URL, "agent_version": "13", "agent_token": TOKEN}
NOBODY = "No node that waits for a ramdisk matches the look-up."


def record(site: Site, uuid: str) -> dict[str, Any]:
    """All that a heartbeat could change."""
    return records.as_dict(site.stored(uuid))


# K08/58: heartbeat hygiene


BAD = {
    "nothing": ({}, "callback_url"),
    "no token": ({**GOOD, "agent_token": None}, "agent_token"),
    "an empty token": ({**GOOD, "agent_token": ""}, "token"),
    "an old token": ({**GOOD, "agent_token": "o" * 43}, "Invalid or missing agent token"),
    "the mask": ({**GOOD, "agent_token": "******"}, "Invalid or missing agent token"),
    "no version": ({**GOOD, "agent_version": None}, "agent_version"),
    "ftp": ({**GOOD, "callback_url": "ftp://192.0.2.5/"}, "callback_url"),
    "a file": ({**GOOD, "callback_url": "file:///etc/passwd"}, "callback_url"),
    "no host": ({**GOOD, "callback_url": "https://"}, "callback_url"),
    "a number": ({**GOOD, "callback_url": 5}, "callback_url"),
    "no TLS": ({**GOOD, "callback_url": "http://192.0.2.5:9999"}, "require_tls"),
    "an unknown key": ({**GOOD, "colour": "red"}, "colour"),
    "a weird status": ({**GOOD, "agent_status": "weird"}, "agent_status"),
    "a broken certificate": ({**GOOD, "agent_verify_ca": "PEM?"}, "agent_verify_ca"),
    "another address": ({**GOOD, "callback_url": "https://192.0.2.6:9999"}, "callback_url"),
}


@pytest.mark.parametrize("state", [states.INSPECTWAIT, states.DEPLOYWAIT])
@pytest.mark.parametrize("name", BAD)
def test_58_a_bad_heartbeat_is_refused_with_its_reason(
    conf: Any, site: Site, name: str, state: str
) -> None:
    conf.set_override("require_tls", True, group="agent")
    body, reason = BAD[name]
    known = {"agent_url": URL} if name == "another address" else {}
    uuid = site.node(state, name="n1", driver_internal_info=known)
    other = site.node(state, driver_internal_info={"agent_url": "https://192.0.2.77:9999"})
    before = record(site, uuid)
    sent = {key: value for key, value in body.items() if value is not None}

    for ident in (uuid, "n1"):
        answer = site.api.post(f"/v1/heartbeat/{ident}", sent)
        site.settle()

        assert answer.status == 400
        assert reason in answer.fault["faultstring"]
        assert TOKEN not in answer.text
        assert other not in answer.text
        assert "192.0.2.77" not in answer.text
    assert record(site, uuid) == before


@pytest.mark.parametrize("url", ["https://[2001:db8::1]:9999", URL, "https://ramdisk.example.org"])
def test_58_a_good_heartbeat_is_taken_after_bad_ones(
    conf: Any, site_with_agent: tuple[Site, AgentServer], url: str, tmp_path: Path
) -> None:
    conf.set_override("require_tls", True, group="agent")
    site, _agent = site_with_agent
    uuid = in_step(site, "clean", [STEP], name="n1", provision_state=states.CLEANING)
    assert site.beat(uuid, url, agent_token="wrong").status == 400
    assert site.beat("n1", "http://192.0.2.5").status == 400

    pem = make_certificate(tmp_path).read_text()
    assert site.beat("n1", url, agent_verify_ca=pem).status == 202

    info = site.stored(uuid).driver_internal_info
    assert info["agent_url"] == url
    assert Path(info["agent_verify_ca"]).read_text() == pem
    assert site.beat(uuid, url, agent_verify_ca=pem).status == 202
    changed = site.beat(uuid, url, agent_verify_ca=make_certificate(tmp_path, "b").read_text())
    assert (changed.status, "certificate" in changed.text) == (400, True)


@pytest.mark.parametrize("state", [states.AVAILABLE, states.ACTIVE])
def test_58_where_nobody_waits_a_heartbeat_changes_nothing(
    site_with_agent: tuple[Site, AgentServer], state: str
) -> None:
    site, agent = site_with_agent
    uuid = in_step(site, "clean", [STEP], clean_step={}, provision_state=state)
    before = record(site, uuid)
    assert site.beat(uuid, agent.url).status == 202
    assert record(site, uuid) == before
    assert site.beat(uuid, agent.url, agent_token="wrong").status == 400
    write(uuid, driver_internal_info={})
    assert site.beat(uuid, agent.url).status == 400, "nobody has got a token"
    assert agent.requests == []


# K08/60: the first heartbeat of a locked node


def test_60_the_first_heartbeat_of_a_locked_node_is_to_be_repeated(
    site_with_agent: tuple[Site, AgentServer],
) -> None:
    site, agent = site_with_agent
    uuid = in_step(site, "clean", [STEP], provision_state=states.CLEANING)
    with site.held(uuid):
        body = {**GOOD, "callback_url": agent.url}
        refused = site.api.post(f"/v1/heartbeat/{uuid}", body)
    assert refused.status == 409
    assert "agent_url" not in site.stored(uuid).driver_internal_info

    assert site.beat(uuid, agent.url).status == 202
    assert site.stored(uuid).driver_internal_info["agent_url"] == agent.url
    with site.held(uuid):
        assert site.api.post(f"/v1/heartbeat/{uuid}", body).status == 202, "it is known now"


@pytest.mark.parametrize("earlier", [(), ("get_clean_steps", "execute_clean_step")])
@pytest.mark.parametrize("kind", ["clean", "deploy"])
def test_60_a_flow_waits_for_an_agent_whose_address_is_not_known(
    conf: Any, site_with_agent: tuple[Site, AgentServer], kind: str, earlier: tuple[str, ...]
) -> None:
    """Its heartbeat was dropped, so all that is known of it is that it has inspected.

    It may have worked before.
    """
    site, agent = site_with_agent
    for name in earlier:
        agent.did(name)
    conf.set_override("endpoint_override", "http://api", group="service_catalog")
    lists(agent, kind, {**STEP, "priority": 90})
    start = {"clean": states.MANAGEABLE, "deploy": states.AVAILABLE}[kind]
    uuid = in_step(
        site,
        kind,
        [STEP],
        provision_state=start,
        target_provision_state=None,
        driver_info={"fast_track": True},
    )
    write(
        uuid,
        **{KINDS[kind].field: {}},
        driver_internal_info={"agent_secret_token": TOKEN},
        inspection_finished_at=timeutils.utcnow(with_timezone=True),
    )
    boot = site.kit.interfaces["boot"]
    boot.prepare_ramdisk = lambda task, params: None
    verb = {"clean": "clean", "deploy": "active"}[kind]
    plan = {"clean_steps": [{"interface": "deploy", "step": "erase"}]} if kind == "clean" else {}

    node = site.provision(uuid, verb, **plan)

    assert (node["provision_state"], node["last_error"]) == (KINDS[kind].wait, None)
    assert node["power_state"] == "power on"
    assert site.beat(uuid, agent.url).status == 202
    assert agent.posted()[0] == f"{kind}.get_{kind}_steps"
    assert agent.posted()[-1] == f"{kind}.execute_{kind}_step"


# K08/62: the token is told once


def look_up(site: Site, query: str) -> Any:
    return site.api.get(f"/v1/lookup?{query}")


def with_port(site: Site, state: str, **values: Any) -> str:
    uuid = site.node(state, **values)
    write(uuid, driver_internal_info={})
    assert site.api.post("/v1/ports", {"node_uuid": uuid, "address": MAC}).status == 201
    return uuid


@pytest.mark.parametrize("query", [f"addresses={MAC}", f"addresses={MAC.upper()}", "node_uuid={}"])
def test_62_the_first_look_up_tells_the_token_and_later_ones_a_mask(site: Site, query: str) -> None:
    uuid = with_port(site, states.DEPLOYWAIT)
    first = look_up(site, query.format(uuid))
    assert first.status == 200
    token = first.body["config"]["agent_token"]
    assert token == site.stored(uuid).driver_internal_info["agent_secret_token"]
    for again in (query.format(uuid), f"addresses={MAC}", f"node_uuid={uuid}"):
        answer = look_up(site, again)
        assert (answer.status, answer.body["config"]["agent_token"]) == (200, "******")
        assert token not in str(answer.body)
    assert site.beat(uuid, agent_token="******").status == 400
    assert site.beat(uuid, agent_token=token).status == 202


@pytest.mark.parametrize(
    "state", [states.ENROLL, states.MANAGEABLE, states.AVAILABLE, states.ACTIVE, states.CLEANFAIL]
)
@pytest.mark.parametrize("maintenance", [False, True])
def test_62_where_nobody_waits_the_answer_is_that_for_unknown_nodes(
    site: Site, state: str, maintenance: bool
) -> None:
    uuid = with_port(site, state, maintenance=maintenance)
    unknown = look_up(site, "addresses=52:54:00:00:00:99")
    assert (unknown.status, unknown.fault["faultstring"]) == (404, NOBODY)
    for query in (f"addresses={MAC}", f"node_uuid={uuid}", f"node_uuid={uuid[:-1]}0"):
        answer = look_up(site, query)
        assert (answer.status, answer.text) == (404, unknown.text)
    assert site.stored(uuid).driver_internal_info == {}


def test_62_in_maintenance_a_flow_that_waits_still_gets_its_ramdisk(site: Site) -> None:
    uuid = with_port(site, states.CLEANWAIT, maintenance=True)
    assert look_up(site, f"node_uuid={uuid}").status == 200


@pytest.mark.parametrize("query", ["", "addresses=", "addresses=junk,also", "addresses=,,"])
def test_62_a_look_up_without_an_address_is_refused(site: Site, query: str) -> None:
    with_port(site, states.DEPLOYWAIT)
    answer = look_up(site, query)
    assert (answer.status, answer.fault["errorcode"]) == (400, "incomplete_lookup")


def test_62_where_no_ramdisks_are_served_both_calls_are_forbidden(conf: Any, site: Site) -> None:
    uuid = with_port(site, states.DEPLOYWAIT)
    conf.set_override("enable_ramdisk_endpoints", False, group="api")
    assert look_up(site, f"node_uuid={uuid}").status == 403
    assert site.beat(uuid).status == 403
    assert "agent_secret_token" not in site.stored(uuid).driver_internal_info


def test_62_a_reboot_by_the_service_issues_a_new_token(site: Site) -> None:
    uuid = with_port(site, states.SERVICEWAIT)
    first = look_up(site, f"node_uuid={uuid}").body["config"]["agent_token"]
    site.power(uuid, "rebooting")
    second = look_up(site, f"node_uuid={uuid}").body["config"]["agent_token"]
    assert len(second) == len(first) == 43
    assert second != first
    assert site.beat(uuid, agent_token=first).status == 400


# K08/64: commands that a retry has repeated


def told(site: Site, uuid: str, kind: str) -> tuple[str, str | None, str | None]:
    """State, running step and error."""
    node = site.shown(uuid)
    return node["provision_state"], node[KINDS[kind].field].get("step"), node["last_error"]


@EACH
@pytest.mark.parametrize("first", ["FAILED", "RUNNING", "SUCCEEDED"])
def test_64_of_two_entries_of_a_step_the_newest_decides(
    site_with_agent: tuple[Site, AgentServer], kind: str, first: str
) -> None:
    site, agent = site_with_agent
    done = {f"{kind}_step": STEP}
    name = f"execute_{kind}_step"
    agent.did(f"get_{kind}_steps", "FAILED", error={"message": "connection"})
    agent.did(f"get_{kind}_steps")
    agent.did(name, first, done, {"message": "connection"})
    agent.did(name, "RUNNING")
    uuid = in_step(site, kind, [STEP, OTHER])

    assert site.beat(uuid, agent.url).status == 202
    assert told(site, uuid, kind) == (KINDS[kind].wait, "erase", None)

    agent.commands[-1] |= {"command_status": "SUCCEEDED", "command_result": done}
    assert site.beat(uuid, agent.url).status == 202
    assert agent.params(f"{kind}.execute_{kind}_step")["step"]["step"] == "burn"
    assert told(site, uuid, kind) == (KINDS[kind].wait, "burn", None)


@EACH
def test_64_a_failure_that_is_the_newest_fails_the_step(
    site_with_agent: tuple[Site, AgentServer], kind: str
) -> None:
    site, agent = site_with_agent
    name = f"execute_{kind}_step"
    agent.did(name, "SUCCEEDED", {f"{kind}_step": OTHER})
    agent.did(name, "FAILED", error={"details": "disk on fire"})
    uuid = in_step(site, kind, [STEP, OTHER])
    assert site.beat(uuid, agent.url).status == 202
    state, _step, error = told(site, uuid, kind)
    assert state == KINDS[kind].failed
    assert "disk on fire" in str(error)
    assert "deploy.erase" in str(error)


def sent(site: Site, agent: AgentServer, kind: str) -> str:
    """A node whose second step was sent to the agent, which runs it."""
    agent.did(f"execute_{kind}_step", result={f"{kind}_step": STEP})
    uuid = in_step(site, kind, [STEP, OTHER])
    assert site.beat(uuid, agent.url).status == 202
    assert told(site, uuid, kind) == (KINDS[kind].wait, "burn", None)
    return uuid


@EACH
def test_64_an_agent_that_restarted_in_a_step_fails_it(
    site_with_agent: tuple[Site, AgentServer], kind: str
) -> None:
    site, agent = site_with_agent
    uuid = sent(site, agent, kind)
    agent.commands.clear()
    assert site.beat(uuid, agent.url).status == 202
    state, _step, error = told(site, uuid, kind)
    assert state == KINDS[kind].failed
    assert "restarted" in str(error)


@EACH
@pytest.mark.parametrize("result", [None, "text", {}, {"other": 1}])
def test_64_a_result_that_tells_nothing_fails_the_step(
    site_with_agent: tuple[Site, AgentServer], kind: str, result: Any
) -> None:
    site, agent = site_with_agent
    uuid = sent(site, agent, kind)
    agent.commands[-1] |= {"command_status": "SUCCEEDED", "command_result": result}
    assert site.beat(uuid, agent.url).status == 202
    state, _step, error = told(site, uuid, kind)
    assert state == KINDS[kind].failed
    assert "did not say what it has done" in str(error)


@EACH
@pytest.mark.parametrize("what", ["listing", "starting"])
def test_64_a_busy_agent_is_asked_again_at_the_next_heartbeat(
    site_with_agent: tuple[Site, AgentServer], kind: str, what: str
) -> None:
    site, agent = site_with_agent
    agent.did(f"execute_{kind}_step", result={f"{kind}_step": STEP})
    uuid = in_step(site, kind, [STEP, OTHER])
    busy = (409, b'{"faultcode": "Client", "faultstring": "Agent is busy: executing command"}')
    known = (200, json.dumps({"commands": agent.commands}).encode())
    agent.raw = [busy] if what == "listing" else [known, known, busy]

    assert site.beat(uuid, agent.url).status == 202
    step = "erase" if what == "listing" else "burn"
    assert told(site, uuid, kind) == (KINDS[kind].wait, step, None)

    assert site.beat(uuid, agent.url).status == 202
    assert told(site, uuid, kind) == (KINDS[kind].wait, "burn", None)
    names = [body["name"] for method, _, _, body in agent.requests if method == "POST"]
    assert names.count(f"{kind}.execute_{kind}_step") == (1 if what == "listing" else 2)
    assert site.stored(uuid).reservation is None


@EACH
def test_64_a_command_that_is_lost_on_the_way_is_not_run_twice(
    site_with_agent: tuple[Site, AgentServer], kind: str
) -> None:
    site, agent = site_with_agent
    agent.did(f"execute_{kind}_step", result={f"{kind}_step": STEP})
    agent.hang_up = 1
    uuid = in_step(site, kind, [STEP, OTHER])
    assert site.beat(uuid, agent.url).status == 202
    assert told(site, uuid, kind) == (KINDS[kind].wait, "burn", None)
    assert agent.posted() == [f"{kind}.execute_{kind}_step"]
