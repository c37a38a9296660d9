"""Heartbeats and tokens."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states

TOKEN = "x" * 43
GOOD = {"callback_url": "https://10.0.0.5:9999", "agent_version": "13.0.0", "agent_token": TOKEN}


def certificate() -> str:
    """Make a self-signed certificate, as an agent does at its start."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "agent")])
    now = datetime.datetime(2026, 1, 1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=9))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture
def beats(world):
    seen = []

    def heartbeat(task, *args, **kwargs):
        seen.append((task.shared, args, kwargs))

    world.driver.deploy.heartbeat = heartbeat
    return seen


def waiting(world, **info):
    return world.node(states.DEPLOYWAIT, driver_internal_info={"agent_secret_token": TOKEN} | info)


def test_a_good_heartbeat_reaches_the_driver_under_the_lock(world, beats):
    node = waiting(world)
    world.call("heartbeat", node, **GOOD)
    [(shared, args, kwargs)] = beats
    assert shared is False
    assert args == ("https://10.0.0.5:9999", "13.0.0")
    assert kwargs == {
        "agent_verify_ca": None,
        "agent_status": None,
        "agent_status_message": None,
    }
    assert world.read(node).reservation is None


def test_heartbeats_never_take_the_workers_of_users(world, beats):
    world.call("heartbeat", waiting(world), **GOOD)
    assert world.workers.reserved_ok == [False]


def test_without_a_worker_the_agent_tries_again(world, beats):
    world.workers.full = True
    node = waiting(world)
    with pytest.raises(errors.NoFreeConductorWorker):
        world.call("heartbeat", node, **GOOD)
    stored = world.read(node)
    assert stored.reservation is None
    assert stored.last_error is None


@pytest.mark.parametrize(
    "change",
    [
        {"agent_token": None},
        {"agent_token": "wrong"},
        {"agent_token": "******"},
        {"agent_version": None},
        {"callback_url": "http://10.0.0.5:9999"},
    ],
)
def test_a_bad_heartbeat_is_refused(world, beats, change):
    node = waiting(world)
    with pytest.raises(errors.InvalidParameterValue):
        world.call("heartbeat", node, **(GOOD | change))
    assert beats == []
    assert world.read(node).reservation is None


def test_a_node_without_a_token_accepts_no_heartbeat(world, beats):
    node = world.node(states.DEPLOYWAIT)
    for token in (None, "", TOKEN):
        with pytest.raises(errors.InvalidParameterValue):
            world.call("heartbeat", node, **(GOOD | {"agent_token": token}))


def test_plain_http_is_accepted_when_tls_is_not_required(world, beats):
    CONF.set_override("require_tls", False, group="agent")
    world.call("heartbeat", waiting(world), **(GOOD | {"callback_url": "http://10.0.0.5"}))
    assert len(beats) == 1


def test_an_installer_without_an_address_sends_its_status(world, beats):
    args = {"callback_url": "", "agent_token": TOKEN, "agent_status": "start"}
    world.call("heartbeat", waiting(world), **args)
    assert beats[0][2]["agent_status"] == "start"


def test_the_first_heartbeat_of_a_busy_node_is_to_be_repeated(world, beats):
    node = waiting(world)
    with world.task(node), pytest.raises(errors.NodeLocked):
        world.call("heartbeat", node, **GOOD)


def test_a_later_heartbeat_of_a_busy_node_is_dropped(world, beats):
    node = waiting(world, agent_url="https://10.0.0.5:9999")
    with world.task(node):
        world.call("heartbeat", node, **GOOD)
        with pytest.raises(errors.InvalidParameterValue):
            world.call("heartbeat", node, **(GOOD | {"agent_token": "wrong"}))
    assert beats == []


@pytest.fixture
def certificates(tmp_path):
    path = tmp_path / "certificates"
    CONF.set_override("certificates_path", str(path), group="agent")
    return path


def test_w46_the_certificate_is_kept_and_may_not_change(world, beats, certificates):
    node, first = waiting(world), certificate()
    world.call("heartbeat", node, **GOOD, agent_verify_ca=first)
    path = Path(beats[0][2]["agent_verify_ca"])
    assert path == certificates / f"{node.uuid}.crt"
    assert path.read_text() == first

    node = world.node(
        states.DEPLOYWAIT,
        driver_internal_info={"agent_secret_token": TOKEN, "agent_verify_ca": str(path)},
    )
    world.call("heartbeat", node, **GOOD, agent_verify_ca=first)
    with pytest.raises(errors.InvalidParameterValue, match="another TLS certificate"):
        world.call("heartbeat", node, **GOOD, agent_verify_ca=certificate())
    assert len(beats) == 2


def test_w46_a_refused_heartbeat_writes_no_file(world, beats, certificates):
    with pytest.raises(errors.InvalidParameterValue):
        world.call(
            "heartbeat", waiting(world), **(GOOD | {"agent_token": "no"}), agent_verify_ca="PEM"
        )
    assert not certificates.exists()


def test_a_certificate_shown_to_another_conductor_is_stored_here_too(world, beats, certificates):
    node, shown = waiting(world, agent_verify_ca="/elsewhere/node.crt"), certificate()
    world.call("heartbeat", node, **GOOD, agent_verify_ca=shown)
    assert (certificates / f"{node.uuid}.crt").read_text() == shown


def test_what_is_no_certificate_is_refused(world, beats, certificates):
    with pytest.raises(errors.InvalidParameterValue, match="not a certificate"):
        world.call("heartbeat", waiting(world), **GOOD, agent_verify_ca="PEM")
    assert not certificates.exists()


def test_the_token_is_told_once(world):
    node = world.node(states.DEPLOYWAIT)
    first = world.call("get_node_with_token", node)
    assert first["uuid"] == node.uuid
    assert len(first["agent_secret_token"]) == 43
    stored = world.read(node)
    assert stored.driver_internal_info["agent_secret_token"] == first["agent_secret_token"]
    second = world.call("get_node_with_token", node)
    assert second["agent_secret_token"] == "******"


def test_the_token_of_a_busy_node_is_asked_for_again(world):
    node = world.node(states.DEPLOYWAIT)
    with world.task(node), pytest.raises(errors.NodeLocked):
        world.call("get_node_with_token", node)
    known = waiting(world)
    with world.task(known):
        assert world.call("get_node_with_token", known)["agent_secret_token"] == "******"
