"""One session and one connection for each BMC, counted at the BMC."""

from __future__ import annotations

import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers import patience
from ironic_rs.drivers.redfish import connector, sessions
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import ROOT, SYSTEM, Answer, Bmc, collection, error

power = RedfishPower()


def after(wait):
    """Answer as usual, after a wait."""

    def answer(_request):
        wait(30)

    return answer


@pytest.fixture(params=["none", "basic", "session", "both"])
def any_bmc(request):
    bmc = Bmc(request.param)
    yield bmc
    bmc.close()


@pytest.fixture
def session_bmc():
    bmc = Bmc("session")
    yield bmc
    bmc.close()


def test_a_power_read_is_one_get_on_the_kept_connection(any_bmc, make_task):
    task = make_task(any_bmc)
    for _cycle in range(5):
        assert power.get_power_state(task) == states.POWER_OFF
    assert any_bmc.connections == 1
    assert any_bmc.logins == (1 if any_bmc.auth in ("session", "both") else 0)
    any_bmc.forget()
    power.get_power_state(task)
    assert [str(request) for request in any_bmc.requests] == [f"GET {SYSTEM}"]
    assert any_bmc.connections == 0


def test_many_threads_share_session_and_connection(session_bmc, make_task):
    tasks = [make_task(session_bmc, uuid=f"node-{n}") for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(power.get_power_state, tasks)) == {states.POWER_OFF}
    assert (session_bmc.connections, session_bmc.logins) == (1, 1)
    assert sessions.session_count() == 1


def test_more_connections_only_when_configured(session_bmc, make_task, config):
    config("redfish", connections_per_bmc=2)
    tasks = [make_task(session_bmc, uuid=f"node-{n}") for n in range(2)]
    power.get_power_state(tasks[0])
    together = threading.Barrier(2, timeout=10)
    session_bmc.script("GET", "Systems/1$", after(together.wait), times=2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(power.get_power_state, tasks))
    assert (session_bmc.connections, session_bmc.logins) == (2, 1)


def test_a_shared_bmc_keeps_its_systems_apart(bmc, make_task):
    bmc.tree[f"{ROOT}/Systems"] = collection(SYSTEM, f"{ROOT}/Systems/2")
    bmc.tree[f"{ROOT}/Systems/2"] = {"Id": "2", "PowerState": "On"}
    first = make_task(bmc, driver_info={"redfish_system_id": SYSTEM})
    second = make_task(bmc, driver_info={"redfish_system_id": f"{ROOT}/Systems/2"})
    assert power.get_power_state(first) == states.POWER_OFF
    assert power.get_power_state(second) == states.POWER_ON
    assert bmc.connections == 1


def test_the_only_system_is_found_and_remembered(bmc, make_task):
    task = make_task(bmc)
    power.get_power_state(task)
    power.get_power_state(task)
    assert len(bmc.asked("GET", "Systems$")) == 1


def test_several_systems_need_a_choice(bmc, make_task):
    bmc.tree[f"{ROOT}/Systems"] = collection(SYSTEM, f"{ROOT}/Systems/2")
    with pytest.raises(errors.RedfishError, match=r"2 systems.*redfish_system_id.*Systems/2"):
        power.get_power_state(make_task(bmc))


def test_a_thousand_systems_are_told_in_a_short_text(bmc, make_task):
    paths = [f"{ROOT}/Systems/{n}" for n in range(1000)]
    bmc.tree[f"{ROOT}/Systems"] = collection(*paths)
    with pytest.raises(errors.RedfishError, match="1000 systems; name one") as raised:
        power.get_power_state(make_task(bmc))
    assert f"{paths[0]}, {paths[1]}" in str(raised.value)
    assert "and 990 more" in str(raised.value)
    assert len(str(raised.value)) < 1000
    # A chosen one is read without a look at the others.
    bmc.tree[paths[700]] = {**bmc.system, "PowerState": "On"}
    bmc.forget()
    task = make_task(bmc, driver_info={"redfish_system_id": paths[700]})
    assert power.get_power_state(task) == states.POWER_ON
    assert [str(request) for request in bmc.requests] == [f"GET {paths[700]}"]


def test_an_expired_session_costs_one_login(session_bmc, make_task):
    task = make_task(session_bmc)
    power.get_power_state(task)
    session_bmc.sessions.clear()
    session_bmc.forget()
    assert power.get_power_state(task) == states.POWER_OFF
    assert session_bmc.logins == 1
    assert len(session_bmc.asked("GET", "Systems/1$")) == 2
    assert session_bmc.connections == 0


def test_concurrent_users_of_an_expired_session_log_in_once(session_bmc, make_task, config):
    config("redfish", connections_per_bmc=4)
    tasks = [make_task(session_bmc, uuid=f"node-{n}") for n in range(4)]
    power.get_power_state(tasks[0])
    together = threading.Barrier(4, timeout=10)
    session_bmc.script("GET", "Systems/1$", after(together.wait), times=4)
    session_bmc.sessions.clear()
    session_bmc.forget()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(power.get_power_state, tasks)) == {states.POWER_OFF}
    assert session_bmc.logins == 1


def test_refused_credentials_cause_no_login_storm(make_task, clock):
    for auth in ("basic", "session"):
        bmc = Bmc(auth)
        task = make_task(bmc, driver_info={"redfish_password": "wrong"})
        for _attempt in range(6):
            with pytest.raises(errors.RedfishError):
                power.get_power_state(task)
        assert bmc.refused == connector.MAX_REFUSED_LOGINS
        clock.skip(connector.LOGIN_WINDOW + 1)
        bmc.password = "wrong"
        assert power.get_power_state(task) == states.POWER_OFF
        bmc.close()


def test_new_credentials_take_effect_at_once(session_bmc, make_task):
    task = make_task(session_bmc, driver_info={"redfish_password": "wrong"})
    for _attempt in range(4):
        with pytest.raises(errors.RedfishError):
            power.get_power_state(task)
    task.node.driver_info["redfish_password"] = session_bmc.password
    assert power.get_power_state(task) == states.POWER_OFF


def test_a_bmc_with_sessions_is_never_sent_the_password_again(make_task):
    bmc = Bmc("session")
    task = make_task(bmc)
    power.get_power_state(task)
    bmc.password, bmc.auth = "changed", "both"
    bmc.sessions.clear()
    bmc.forget()
    for _attempt in range(2):
        with pytest.raises(errors.RedfishError, match="Access denied"):
            power.get_power_state(task)
    assert [request for request in bmc.requests if "authorization" in request.headers] == []
    bmc.close()


def test_the_password_is_never_logged(session_bmc, make_task, caplog):
    caplog.set_level(logging.DEBUG)
    task = make_task(session_bmc)
    power.get_power_state(task)
    session_bmc.script("GET", "Systems/1$", Answer(403, error("no")))
    with pytest.raises(errors.RedfishError) as raised:
        power.get_power_state(task)
    assert session_bmc.password not in caplog.text + str(raised.value)
    assert not any(token in caplog.text for token in session_bmc.sessions)


def test_idle_sessions_are_closed_and_those_in_use_kept(make_task, clock, config):
    config("redfish", connection_cache_size=1)
    bmcs = [Bmc("session") for _n in range(3)]
    tasks = [make_task(bmc) for bmc in bmcs]
    for task in tasks:
        power.get_power_state(task)
    # More than the cache size, but all are in use.
    clock.skip(sessions.FRESH + 1)
    power.get_power_state(tasks[0])
    assert sessions.session_count() == 3
    clock.skip(400)
    power.get_power_state(tasks[0])
    assert sessions.session_count() == 1
    closer = next(t for t in threading.enumerate() if t.name == "redfish-logout")
    closer.join(10)
    assert [len(bmc.sessions) for bmc in bmcs] == [1, 0, 0]
    for bmc in bmcs:
        bmc.close()


def test_the_end_of_the_process_logs_out(session_bmc, make_task):
    power.get_power_state(make_task(session_bmc))
    assert len(session_bmc.sessions) == 1
    sessions.close_all()
    assert session_bmc.sessions == set()
    assert sessions.session_count() == 0


def test_without_a_cache_each_operation_logs_out(session_bmc, make_task, config):
    config("redfish", connection_cache_size=0)
    power.get_power_state(make_task(session_bmc))
    assert session_bmc.sessions == set()
    assert sessions.session_count() == 0


def test_a_dropped_connection_is_opened_again(bmc, make_task, clock):
    task = make_task(bmc)
    power.get_power_state(task)
    bmc.script("GET", "Systems/1$", Answer(close=True), times=1)
    assert power.get_power_state(task) == states.POWER_OFF
    assert bmc.connections == 2
    assert clock.slept == [0.0]


def test_a_refused_port_fails_after_the_configured_attempts(make_task, clock, config):
    config("redfish", connection_attempts=3, connection_retry_interval=7)
    bmc = Bmc()
    task = make_task(bmc)
    bmc.close()
    with pytest.raises(errors.RedfishConnectionError) as raised:
        power.get_power_state(task)
    assert clock.slept == [7, 7]
    assert task.node.uuid in str(raised.value)
    assert bmc.address in str(raised.value)
    assert "3 tries" in str(raised.value)


def test_one_deadline_bounds_an_operation_on_a_dead_bmc(make_task, clock, config):
    config("redfish", connection_attempts=100, connection_retry_interval=20, operation_timeout=50)
    bmc = Bmc()
    task = make_task(bmc)
    bmc.close()
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(task)
    assert clock.slept == [20, 20]


def test_a_bmc_known_to_be_dead_is_asked_once(make_task, clock):
    bmc = Bmc()
    task = make_task(bmc)
    bmc.close()
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(task)
    clock.slept.clear()
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(task)
    assert clock.slept == []


def test_a_silent_bmc_ends_at_the_read_timeout(make_task, config):
    config("redfish", read_timeout=1, connect_timeout=1, connection_attempts=1)
    bmc = Bmc()
    task = make_task(bmc)
    answer = threading.Event()
    bmc.script("GET", "", after(answer.wait))
    with pytest.raises(errors.RedfishConnectionError, match="timed out"):
        power.get_power_state(task)
    answer.set()
    bmc.close()


def test_a_dead_bmc_keeps_no_other_waiting(make_task, config):
    dead, alive = Bmc(), Bmc()
    release = threading.Event()
    arrived = threading.Event()

    def hang(_request):
        arrived.set()
        release.wait(30)

    dead.script("GET", "", hang)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(power.get_power_state, make_task(dead))
        assert arrived.wait(10)
        assert power.get_power_state(make_task(alive)) == states.POWER_OFF
        assert not stuck.done()
        release.set()
        assert stuck.result() == states.POWER_OFF
    dead.close()
    alive.close()


def test_those_who_wait_for_a_dead_bmc_fail_with_the_first(make_task, config):
    config("redfish", connection_attempts=1)
    bmc = Bmc()
    tasks = [make_task(bmc, uuid=f"node-{n}") for n in range(4)]
    power.get_power_state(tasks[0])
    release = threading.Event()
    arrived = threading.Event()

    def die(_request):
        arrived.set()
        release.wait(30)
        return Answer(close=True)

    bmc.script("GET", "Systems/1$", die)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(power.get_power_state, tasks[0])
        assert arrived.wait(10)
        others = [pool.submit(power.get_power_state, task) for task in tasks[1:]]
        release.set()
        for future in [first, *others]:
            assert isinstance(future.exception(30), errors.RedfishConnectionError)
    bmc.close()


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"Retry-After": "3"}, [3, 3]),
        ({}, [1, 2]),
        ({"Retry-After": "nonsense"}, [1, 2]),
        ({"Retry-After": "3600"}, [connector.MAX_BUSY_WAIT]),
    ],
)
def test_a_busy_bmc_is_asked_again_when_it_says(bmc, task, clock, headers, waits):
    bmc.script("GET", "Systems/1$", Answer(503, error("busy"), headers), times=len(waits))
    assert power.get_power_state(task) == states.POWER_OFF
    assert clock.slept == waits


def test_retry_after_may_be_a_date(bmc, task, clock):
    date = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    bmc.script("GET", "Systems/1$", Answer(503, error("busy"), date), times=1)
    assert power.get_power_state(task) == states.POWER_OFF
    assert clock.slept == [0]


def test_busy_for_ever_ends_at_the_deadline_with_code_and_tries(bmc, task, clock):
    bmc.script("GET", "Systems/1$", Answer(503, error("busy", "Base.1.0.ServiceInUnknownState")))
    with pytest.raises(errors.RedfishError, match=r"tries.*503.*ServiceInUnknownState"):
        power.get_power_state(task)
    assert sum(clock.slept) <= 60


def test_a_lasting_server_error_is_given_up_soon(bmc, task, clock):
    bmc.script("GET", "Systems/1$", Answer(500, error("bug")))
    with pytest.raises(errors.RedfishError, match="500"):
        power.get_power_state(task)
    assert clock.slept == [1]


@pytest.mark.parametrize(
    "body", [b"<html>welcome</html>", b"[]", b'"text"', b"null", b"12", b"{"], ids=str
)
def test_nonsense_is_an_error_that_names_node_and_address(bmc, task, body):
    power.get_power_state(task)
    bmc.script("GET", "Systems/1$", Answer(200, body))
    with pytest.raises(errors.RedfishError) as raised:
        power.get_power_state(task)
    assert task.node.uuid in str(raised.value)
    assert bmc.address in str(raised.value)


def test_a_bmc_with_other_paths_is_found_after_an_error(bmc, task):
    power.get_power_state(task)
    moved = bmc.tree.pop(SYSTEM)
    bmc.tree[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems/moved")
    bmc.tree[f"{ROOT}/Systems/moved"] = moved
    with pytest.raises(errors.RedfishError, match="not found"):
        power.get_power_state(task)
    assert power.get_power_state(task) == states.POWER_OFF


def test_requests_offer_no_compression(bmc, task):
    power.get_power_state(task)
    assert {request.headers["accept-encoding"] for request in bmc.requests} == {"identity"}


def test_errors_of_ours_are_not_taken_for_nonsense_of_the_bmc(task):
    with pytest.raises(KeyError), sessions.talk(task, "testing"):
        raise KeyError("ours")


@pytest.fixture
def timeouts(bmc, monkeypatch):
    """The BMC drops every attempt to connect: the seconds that each was given."""
    seen = []

    def connect(address, timeout=None, *args, **kwargs):
        seen.append(round(timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    return seen


def test_a_black_hole_costs_one_connect_timeout_each(task, config, timeouts):
    config("redfish", connect_timeout=30, connection_attempts=1)
    for _attempt in range(2):
        with pytest.raises(errors.RedfishConnectionError):
            power.get_power_state(task)
    # Once it is known to be silent, a look at it is short.
    assert timeouts == [30, connector.PROBE_CONNECT_TIMEOUT]


def test_who_is_in_a_hurry_waits_less_and_learns_nothing_of_the_bmc(task, config, timeouts):
    config("redfish", connect_timeout=30, connection_attempts=1)
    with pytest.raises(errors.RedfishConnectionError), patience.at_most(7):
        power.get_power_state(task)
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(task)
    assert timeouts == [7, 30]


@pytest.mark.parametrize(("comes_back", "expected"), [(False, [30, 30, 10]), (True, [30, 10])])
def test_who_asks_again_soon_does_not_try_again_what_was_silent_for_so_long(
    task, config, timeouts, monkeypatch, comes_back, expected
):
    """K04/39: a dead BMC has a worker for one time-out, not for all of an operation."""
    config("redfish", connect_timeout=30, connection_attempts=2, connection_retry_interval=1)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    for _look in range(2):
        with (
            pytest.raises(errors.RedfishConnectionError),
            patience.at_most(None, comes_back=comes_back),
        ):
            power.get_power_state(task)
    assert timeouts == expected


def test_proxies_of_the_environment_are_used(make_task, monkeypatch):
    bmc = Bmc()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert power.get_power_state(make_task(bmc)) == states.POWER_OFF
    bmc.close()


def test_the_interface_logs_out_when_the_process_ends(session_bmc, make_task):
    power.get_power_state(make_task(session_bmc))
    power.close()
    assert session_bmc.sessions == set()
