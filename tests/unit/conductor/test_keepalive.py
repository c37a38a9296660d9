"""The heartbeat: recorded, retried, registered anew, and going on while stopping."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.fence import SelfFence
from ironic_rs.conductor.keepalive import KeepAlive
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, session
from ironic_rs.domain import errors


def age(conductor: Conductor, seconds: int) -> None:
    with session.writer() as connection:
        connection.execute(
            sa.text(
                "UPDATE conductors SET updated_at = "
                f"datetime('now', '-{seconds} seconds') WHERE hostname = '{conductor.host}'"
            )
        )


def test_heartbeat_makes_the_conductor_alive_again(conductor: Conductor) -> None:
    age(conductor, 3600)
    assert conductors.online_hosts() == []
    assert conductors.offline_hosts() == ["cond-a"]
    assert conductor.keepalive.beat()
    assert conductors.online_hosts() == ["cond-a"]
    assert conductor.fence.silence < 60


def test_vanished_row_is_registered_anew(conductor: Conductor) -> None:
    before = conductor.conductor_id
    age(conductor, 3600)
    assert conductors.destroy("cond-a", 60)
    assert conductor.keepalive.beat()
    assert conductors.online_hosts() == ["cond-a"]
    assert conductors.ring_members() == [("", "fake-hardware", "cond-a")]
    assert conductor.conductor_id == conductors.get("cond-a").id
    assert before is not None


def test_heartbeat_goes_on_offline_once_the_conductor_has_left_the_ring(
    conductor: Conductor,
) -> None:
    conductor._unregister()
    age(conductor, 3600)
    assert conductor.keepalive.beat()
    assert conductors.online_hosts() == []
    assert conductors.offline_hosts() == [], "others must not take its locks"


def test_row_that_vanished_after_leaving_is_not_made_again(conductor: Conductor) -> None:
    conductor._unregister()
    age(conductor, 3600)
    assert conductors.destroy("cond-a", 60)
    assert conductor.keepalive.beat()
    with pytest.raises(errors.ConductorNotFound):
        conductors.get("cond-a")


def test_failed_heartbeat_does_not_count_and_the_fence_is_logged_once(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [conductor.fence.now()]
    monkeypatch.setattr(conductor.fence, "_clock", lambda: now[0])
    conductor.fence.beat(now[0])

    def touch(*args: Any, **kwargs: Any) -> bool:
        now[0] += 31
        raise errors.ServiceUnavailable("The database cannot be reached")

    monkeypatch.setattr("ironic_rs.conductor.keepalive.db_conductors.touch", touch)
    assert not conductor.keepalive.beat()
    assert not conductor.fence.tripped
    for _ in range(3):
        assert not conductor.keepalive.beat()
    assert conductor.fence.tripped
    assert caplog.text.count("LockLost: conductor cond-a") == 1
    monkeypatch.undo()


def test_the_end_of_an_interruption_is_logged(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [conductor.fence.now()]
    monkeypatch.setattr(conductor.fence, "_clock", lambda: now[0])
    conductor.fence.beat(now[0])
    now[0] += 100
    assert conductor.keepalive.beat()
    assert "is back after 100 s without a heartbeat" in caplog.text
    assert conductor.fence.epoch == 1
    assert not conductor.fence.tripped


def test_thread_beats_until_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("heartbeat_interval", 0.001, group="conductor")
    beats = threading.Semaphore(0)
    results = iter([True, False, True, True])

    def touch(host: str, online: bool) -> bool:
        beats.release()
        if not next(results, True):
            raise ValueError("a bad moment")
        return True

    monkeypatch.setattr("ironic_rs.conductor.keepalive.db_conductors.touch", touch)
    keepalive = KeepAlive("h", SelfFence(lambda: 60), lambda: True, lambda: None)
    keepalive.start()
    for _ in range(6):
        assert beats.acquire(timeout=30)
    assert keepalive.alive
    keepalive.stop()
    assert not keepalive.alive
    CONF.reset()
    CONF.clear()
