"""Commands to an agent, on the wire."""

from __future__ import annotations

import json
import logging

import pytest

from ironic_rs.db import models
from ironic_rs.domain import errors, steps
from ironic_rs.drivers.agent import client
from ironic_rs.drivers.agent.client import AgentClient
from tests.unit.drivers import kit
from tests.unit.drivers.agent_server import AgentServer, make_certificate

TOKEN = "very-secret-token-of-the-agent"


def node_of(agent: AgentServer, **internal: object) -> models.Node:
    return kit.node(
        driver_internal_info={"agent_url": agent.url, "agent_secret_token": TOKEN, **internal}
    )


def test_every_request_carries_the_token_and_the_api_version(agent):
    client = AgentClient(node_of(agent))
    client.commands()
    client.sync()
    client.reboot()
    assert [
        (method, path, query.get("wait"), query["agent_token"])
        for method, path, query, _ in agent.requests
    ] == [
        ("GET", "/v1/commands/", None, TOKEN),
        ("POST", "/v1/commands/", "true", TOKEN),
        ("POST", "/v1/commands/", "false", TOKEN),
    ]
    assert agent.posted() == ["standby.sync", "standby.run_image"]


def test_one_connection_is_kept_for_all_requests(agent):
    for _ in range(3):
        AgentClient(node_of(agent)).commands()
    assert agent.connections == 1


def test_connections_are_kept_to_many_agents_and_closed_when_they_are_gone(agent, monkeypatch):
    def others(number):
        for place in range(number):
            client._session(kit.node(), f"http://192.0.2.1:{place + 1}")

    AgentClient(node_of(agent)).commands()
    others(1500)
    AgentClient(node_of(agent)).commands()
    assert agent.connections == 1
    monkeypatch.setattr(client, "_MAX_IDLE", 0.0)
    others(1)
    assert len(client._sessions) == 1
    AgentClient(node_of(agent)).commands()
    assert agent.connections == 2


def test_an_agent_that_never_called_is_not_reachable(config):
    with pytest.raises(errors.AgentConnectionFailed, match="has not called yet"):
        AgentClient(kit.node()).commands()


def test_the_certificate_that_the_agent_sent_is_pinned(tls_agent, tmp_path):
    agent, certificate = tls_agent
    client = AgentClient(node_of(agent, agent_verify_ca=str(certificate)))
    assert client.commands() == []
    other = make_certificate(tmp_path, "other")
    with pytest.raises(errors.AgentConnectionFailed, match="certificate"):
        AgentClient(node_of(agent, agent_verify_ca=str(other))).commands()


def test_an_unknown_certificate_is_refused_by_default(tls_agent):
    agent, _ = tls_agent
    with pytest.raises(errors.AgentConnectionFailed, match="certificate"):
        AgentClient(node_of(agent)).commands()


def test_driver_info_may_switch_verification_off(tls_agent):
    agent, _ = tls_agent
    node = node_of(agent)
    node.driver_info = {"agent_verify_ca": "false"}
    assert AgentClient(node).commands() == []


def test_a_certificate_that_is_on_another_host_is_named(tls_agent):
    agent, _ = tls_agent
    with pytest.raises(errors.InvalidParameterValue, match=r"/nowhere/x\.crt"):
        AgentClient(node_of(agent, agent_verify_ca="/nowhere/x.crt")).commands()


def test_a_lost_connection_is_tried_again(agent):
    agent.drop = 1
    assert AgentClient(node_of(agent)).run("standby.sync", {}, wait=True)
    assert agent.posted() == ["standby.sync"] * 2


def test_a_lost_answer_does_not_start_the_command_twice(agent):
    agent.hang_up = 1
    command = AgentClient(node_of(agent)).run("deploy.execute_deploy_step", {})
    assert command["command_status"] == "RUNNING"
    assert len(agent.commands) == 1


def test_a_lost_answer_does_not_start_a_step_twice_that_has_ended_meanwhile(agent):
    agent.answers["clean.execute_clean_step"] = lambda _: {"status": "SUCCEEDED"}
    agent.hang_up = 1
    node = node_of(agent)
    step = {"interface": "deploy", "step": "erase_devices_metadata", "args": {}}
    command = AgentClient(node).execute_step(steps.CLEAN, step, [])
    assert command["command_status"] == "SUCCEEDED"
    assert len(agent.commands) == 1


def test_the_same_step_at_another_index_is_sent_again_after_a_lost_connection(agent):
    agent.answers["clean.execute_clean_step"] = lambda _: {"status": "SUCCEEDED"}
    node = node_of(agent)
    step = {"interface": "deploy", "step": "erase_devices_metadata", "args": {}}
    for index in range(2):
        node.driver_internal_info["clean_step_index"] = index
        agent.lost = 1
        AgentClient(node).execute_step(steps.CLEAN, step, [])
    assert len(agent.commands) == 2


def test_a_waited_for_command_that_still_runs_is_in_progress(agent):
    agent.answers["deploy.get_deploy_steps"] = lambda _: {"status": "RUNNING"}
    agent.hang_up = 1
    with pytest.raises(errors.AgentInProgress, match=r"deploy\.get_deploy_steps"):
        AgentClient(node_of(agent)).get_steps(steps.DEPLOY, [])


def test_tries_are_bounded(agent, config):
    config("agent", max_command_attempts=2)
    agent.drop = 100
    with pytest.raises(errors.AgentConnectionFailed, match=r"standby\.sync"):
        AgentClient(node_of(agent)).sync()
    assert agent.posted() == ["standby.sync"] * 2


@pytest.mark.parametrize(
    ("status", "text"), [(409, "whatever"), (500, "Agent is busy: executing command x")]
)
def test_a_busy_agent_is_in_progress(agent, status, text):
    agent.raw = [(status, json.dumps({"faultstring": text}).encode())]
    with pytest.raises(errors.AgentInProgress, match=r"standby\.sync.*" + text):
        AgentClient(node_of(agent)).sync()


@pytest.mark.parametrize(
    ("status", "body", "match"),
    [
        (400, b'{"faultstring": "no such command"}', "400.*no such command"),
        (401, b"who are you", "401"),
        (503, b"", "503"),
        (302, b"", "302.*not a JSON object"),
        (200, b"<html>", "not a JSON object"),
        (200, b"[]", "not a JSON object"),
        (200, b"[" * 100_000, "not a JSON object"),
        (200, b'{"command_error": {"type": "TypeError", "message": "unexpected"}}', "too old"),
    ],
)
def test_nonsense_is_an_api_error_without_another_try(agent, status, body, match):
    agent.raw = [(status, body)]
    with pytest.raises(errors.AgentAPIError, match=match):
        AgentClient(node_of(agent)).run("standby.sync", {})
    assert len(agent.requests) == 1


@pytest.mark.parametrize("body", [b"{}", b'{"commands": null}', b'{"commands": [1]}'])
def test_a_command_list_that_is_none_is_an_api_error(agent, body):
    agent.raw = [(200, body)]
    with pytest.raises(errors.AgentAPIError, match="no list of commands"):
        AgentClient(node_of(agent)).commands()


def test_an_endless_answer_is_cut_off(agent, monkeypatch):
    monkeypatch.setattr(client, "MAX_ANSWER", 1000)
    agent.raw = [(200, b"{" + b" " * 5000 + b"}")]
    with pytest.raises(errors.AgentAPIError, match="more than 1000 bytes"):
        AgentClient(node_of(agent)).commands()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = pytest.mark.parametrize(
    "drip",
    [
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"X-Long: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "chunks", "head", "continue"],
)


@DRIPS
def test_an_answer_that_drips_ends_at_the_time_out(agent, config, drip):
    config("agent", command_timeout=1, max_command_attempts=1)
    agent.drips = [drip]
    with pytest.raises(errors.AgentConnectionFailed, match=r"in time|timed out"):
        AgentClient(node_of(agent)).commands()
    assert AgentClient(node_of(agent)).commands() == []


def test_an_answer_that_drips_ends_at_the_time_out_with_tls_too(tls_agent, config):
    config("agent", command_timeout=1, max_command_attempts=1)
    agent, certificate = tls_agent
    agent.drips = [(HEAD + b"Content-Length: 1000000\r\n\r\n", b" ")]
    with pytest.raises(errors.AgentConnectionFailed, match=r"in time|timed out"):
        AgentClient(node_of(agent, agent_verify_ca=str(certificate))).commands()


def test_the_token_is_in_no_error_and_no_log(agent, config, caplog):
    caplog.set_level(logging.DEBUG, logger="ironic_rs")
    config("agent", max_command_attempts=1)
    agent.drop = 100
    with pytest.raises(errors.AgentConnectionFailed) as caught:
        AgentClient(node_of(agent)).sync()
    error: BaseException | None = caught.value
    while error is not None:
        assert TOKEN not in str(error)
        error = error.__cause__
    assert TOKEN not in caplog.text


def test_a_command_is_followed_to_its_end(agent):
    class EndsAtTheThirdLook(list):
        looks = 0

        def __iter__(self):
            self.looks += 1
            if self.looks == 3:
                self[0]["command_status"] = "SUCCEEDED"
            return super().__iter__()

    agent.commands = EndsAtTheThirdLook()
    command = AgentClient(node_of(agent)).run_to_end("image.install_bootloader", {})
    assert command["command_status"] == "SUCCEEDED"
    assert agent.posted() == ["image.install_bootloader"]


def test_a_command_that_never_ends_times_out(agent, config):
    config("agent", command_wait_attempts=3)
    with pytest.raises(errors.AgentCommandTimeout, match="install_bootloader"):
        AgentClient(node_of(agent)).run_to_end("image.install_bootloader", {})


def test_an_old_ramdisk_gets_the_boot_loader_call_without_boot_mode(agent):
    def answer(params: dict) -> dict:
        if "target_boot_mode" in params:
            return {"status": "FAILED", "error": {"type": "TypeError", "message": "unexpected"}}
        return {"status": "SUCCEEDED"}

    agent.answers["image.install_bootloader"] = answer
    command = AgentClient(node_of(agent)).install_bootloader(
        "root",
        efi_system_part_uuid=None,
        prep_boot_part_uuid=None,
        target_boot_mode="uefi",
        software_raid=False,
    )
    assert command["command_status"] == "SUCCEEDED"


def test_steps_are_sent_with_masked_secrets_and_the_version(agent):
    node = node_of(agent, hardware_manager_version={"generic": "1.2"})
    node.driver_info = {"redfish_password": "hunter2"}
    node.instance_info = {"configdrive": "drive", "image_source": "http://x/y"}
    AgentClient(node).execute_step(steps.CLEAN, {"interface": "deploy", "step": "x"}, [])
    AgentClient(node).execute_step(steps.DEPLOY, {"interface": "deploy", "step": "x"}, [])
    clean = agent.params("clean.execute_clean_step")
    deploy = agent.params("deploy.execute_deploy_step")
    assert clean["clean_version"] == deploy["deploy_version"] == {"generic": "1.2"}
    for params in (clean, deploy):
        assert params["node"]["uuid"] == node.uuid
        assert params["node"]["driver_info"]["redfish_password"] == "******"
        assert params["node"]["driver_internal_info"]["agent_secret_token"] == "******"
    assert clean["node"]["instance_info"]["configdrive"] == "******"
    assert deploy["node"]["instance_info"]["configdrive"] == "drive"
    assert node.instance_info["configdrive"] == "drive"


def test_lockdown_waits_until_the_agent_is_gone(agent):
    def vanish(_params: dict) -> dict:
        agent.drop = 1
        return {"status": "SUCCEEDED"}

    agent.answers["system.lockdown"] = vanish
    agent.drop = 0
    agent.answers["standby.sync"] = lambda _: {"status": "SUCCEEDED"}
    AgentClient(node_of(agent)).lockdown()
    assert agent.posted() == ["standby.sync", "system.lockdown"]


def test_lockdown_may_take_the_network_down_before_it_is_answered(agent):
    def vanish(_params: dict) -> dict:
        agent.hang_up, agent.drop = 1, 100
        return {"status": "SUCCEEDED"}

    agent.answers["system.lockdown"] = vanish
    agent.answers["standby.sync"] = lambda _: {"status": "SUCCEEDED"}
    AgentClient(node_of(agent)).lockdown()


def test_lockdown_of_an_agent_that_stays_is_an_error(agent):
    with pytest.raises(errors.AgentCommandTimeout):
        AgentClient(node_of(agent)).lockdown()


def test_lockdown_may_accept_an_agent_that_is_gone_already(agent):
    agent.drop = 1
    AgentClient(node_of(agent)).lockdown(fail_if_unavailable=False)
    assert agent.posted() == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, "no reason"),
        ({"details": "d", "message": "m"}, "d"),
        ({"message": "m"}, "m"),
        ("plain", "plain"),
    ],
)
def test_the_reason_of_a_failure_is_the_most_detailed_one(error, text):
    assert text in client.error_text({"command_error": error})


def test_the_http_library_logs_no_token(caplog: pytest.LogCaptureFixture) -> None:
    line = '"POST /v1/commands/?wait=true&agent_token=%s HTTP/1.1" %s'
    for name in ("urllib3.connectionpool", "urllib3.util.retry", "urllib3.poolmanager"):
        with caplog.at_level(logging.DEBUG, logger=name):
            logging.getLogger(name).debug(line, "canary-token", 200)
    assert "canary" not in caplog.text
    assert caplog.text.count("agent_token=******") == 3
