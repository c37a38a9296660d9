"""Cases of operators about SQLite under load and in trouble (field-cases.md K16/106).

``IRONIC_RS_CASES_SECONDS=600`` makes the load last as long as the case says; by default
it is seconds.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conductor import outage
from ironic_rs.db import session
from ironic_rs.domain import states
from tests.functional.api.harness import Answer
from tests.functional.defects.site import Site

SECONDS = float(os.environ.get("IRONIC_RS_CASES_SECONDS", "3"))
FLEET = 200 if SECONDS > 60 else 30


def patch(site: Site, uuid: str, key: str, value: Any) -> Answer:
    change = [{"op": "add", "path": f"/extra/{key}", "value": value}]
    return site.api.patch(f"/v1/nodes/{uuid}", change)


def file_of(conf: Any) -> str:
    return str(conf.database.connection.removeprefix("sqlite:///"))


def test_106_load_of_all_kinds_gets_no_500_and_loses_nothing(site: Site, conf: Any) -> None:
    conf.set_override("sqlite_synchronous", True, group="database")
    session.configure()
    nodes = [site.node(states.ACTIVE) for _ in range(FLEET)]
    waiting = [site.node(states.CLEANWAIT) for _ in range(FLEET)]
    end = time.monotonic() + SECONDS
    codes: Counter[tuple[str, int]] = Counter()
    written: dict[str, set[str]] = {uuid: set() for uuid in nodes}
    failed: list[BaseException] = []

    def loop(name: str, work: Callable[[int], int | None]) -> threading.Thread:
        def run() -> None:
            turn = 0
            try:
                while time.monotonic() < end:
                    status = work(turn)
                    if status is not None:
                        codes[name, status] += 1
                    turn += 1
            except BaseException as exc:
                failed.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def write(part: int) -> Callable[[int], int]:
        def work(turn: int) -> int:
            uuid, key = nodes[(turn * 4 + part) % FLEET], f"k{part}x{turn}"
            answer = patch(site, uuid, key, turn)
            if answer.status == 200:
                written[uuid].add(key)
            return answer.status

        return work

    def beat(turn: int) -> int:
        body = {"callback_url": "https://192.0.2.5", "agent_version": "13", "agent_token": "t" * 43}
        return site.api.post(f"/v1/heartbeat/{waiting[turn % FLEET]}", body).status

    threads = [loop("patch", write(part)) for part in range(4)]
    threads += [loop("heartbeat", beat)]
    threads += [loop("list", lambda turn: site.api.get("/v1/nodes?detail=true").status)]
    threads += [loop("sync", lambda turn: site.tick("_sync_power_states"))]
    for thread in threads:
        thread.join()
    site.settle()
    assert failed == []
    print({f"{name} {status}": count for (name, status), count in sorted(codes.items())})
    assert {status for _, status in codes} <= {200, 202, 409, 503}, codes
    assert codes["patch", 200] and codes["list", 200] and codes["heartbeat", 202]
    for uuid, keys in written.items():
        assert keys <= set(site.shown(uuid)["extra"]), "an acknowledged change is lost"
    assert {site.shown(uuid)["reservation"] for uuid in nodes} == {None}


def test_106_the_service_switches_a_file_to_wal(site: Site, conf: Any) -> None:
    session.dispose()
    with contextlib.closing(sqlite3.connect(file_of(conf))) as plain:
        plain.execute("PRAGMA journal_mode=DELETE")
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    uuid = site.enroll()
    with contextlib.closing(sqlite3.connect(file_of(conf))) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert patch(site, uuid, "a", 1).status == 200


@contextlib.contextmanager
def locked(conf: Any) -> Iterator[Callable[[], None]]:
    """Another process has the write lock; yields what gives it back."""
    with contextlib.closing(
        sqlite3.connect(file_of(conf), isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        yield lambda: other.execute("ROLLBACK") and None


def test_106_a_writer_waits_for_another_process(site: Site, conf: Any) -> None:
    uuid = site.enroll()
    with locked(conf) as release:
        timer = threading.Timer(0.5, release)
        timer.start()
        assert patch(site, uuid, "a", 1).status == 200
        timer.join()
    assert site.shown(uuid)["extra"] == {"a": 1}


def test_106_a_lock_that_stays_is_a_503_and_reads_go_on(conf: Any, site: Site) -> None:
    uuid = site.enroll()
    conf.set_override("sqlite_max_wait_for_retry", 1, group="database")
    session.configure()
    with locked(conf) as release:
        refused = patch(site, uuid, "a", 1)
        assert (refused.status, int(refused.headers["Retry-After"]) >= 1) == (503, True)
        assert site.api.get(f"/v1/nodes/{uuid}").status == 200
        release()
    assert patch(site, uuid, "a", 2).status == 200
    assert site.shown(uuid)["reservation"] is None


@pytest.mark.parametrize(
    ("trouble", "over"),
    [
        ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1073741823"),
        ("PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
    ],
    ids=["disk full", "read-only"],
)
def test_106_a_file_that_can_not_be_written_is_a_503_until_it_can(
    site: Site, monkeypatch: pytest.MonkeyPatch, trouble: str, over: str
) -> None:
    """SQLite itself says that the disk is full, or the file read-only."""
    # What is being written waits for so long for the end of the trouble.
    monkeypatch.setattr(outage, "OUTAGE_SECONDS", 0.2)

    def tell(pragma: str) -> None:
        # Writers share one connection.
        shared = session.database().transactions.raw_connection()
        shared.cursor().execute(pragma)
        shared.close()

    uuid = site.enroll()
    tell(trouble)
    for number in range(3):
        refused = patch(site, uuid, f"k{number}", "x" * 50_000)
        assert (refused.status, "Retry-After" in refused.headers) == (503, True), refused.body
        assert "disk full or read-only" in refused.text
        assert (
            site.api.post(
                "/v1/nodes", {"driver": "fake-hardware", "extra": {"a": "x" * 50_000}}
            ).status
            == 503
        )
        assert site.api.get(f"/v1/nodes/{uuid}").status == 200
    tell(over)
    assert patch(site, uuid, "a", "x" * 50_000).status == 200
    assert site.shown(uuid)["reservation"] is None
    assert site.provision(uuid, "manage")["provision_state"] == states.MANAGEABLE
