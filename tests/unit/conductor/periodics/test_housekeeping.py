"""Cached images, old history and conductors that are gone."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.periodics import housekeeping
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, history, models, nodes, session
from ironic_rs.images import cache
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]


# Images


@pytest.fixture
def masters(conductor: Conductor, tmp_path: Path) -> dict[str, Path]:
    """The directories of the three caches, each with an old and a new image in them."""
    found = {}
    for name, group, option in (
        ("boot files", "pxe", "tftp_master_path"),
        ("instance images", "pxe", "instance_master_path"),
        ("boot ISOs", "deploy", "iso_master_path"),
    ):
        directory = tmp_path / name
        directory.mkdir()
        CONF.set_override(option, str(directory), group=group)
        for age, file in ((30 * 86400, "old"), (0, "new")):
            path = directory / file
            path.write_bytes(b"x")
            os.utime(path, (time.time() - age, time.time() - age))
        found[name] = directory
    assert set(found) == set(cache.all_caches())
    return found


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_is_too_old_goes_from_every_cache(
    conductor: Conductor, masters: dict[str, Path]
) -> None:
    housekeeping.clean_up_caches(conductor)
    assert {name: left(directory) for name, directory in masters.items()} == {
        name: ["new"] for name in masters
    }


def test_a_cache_that_can_not_be_read_does_not_keep_the_others_from_it(
    conductor: Conductor,
    masters: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    clean_up = cache.ImageCache.clean_up

    def broken(self: cache.ImageCache) -> None:
        if self._directory == masters["boot ISOs"]:
            raise PermissionError("no entry")
        clean_up(self)

    monkeypatch.setattr(cache.ImageCache, "clean_up", broken)
    housekeeping.clean_up_caches(conductor)
    assert left(masters["boot ISOs"]) == ["new", "old"]
    assert left(masters["boot files"]) == left(masters["instance images"]) == ["new"]
    assert "boot ISOs" in caplog.text
    assert "no entry" in caplog.text


# History


def remember(node: models.Node, number: int) -> None:
    for count in range(number):
        history.create({"node_id": node.id, "event": f"event {count}"})


def test_history_of_all_nodes_that_map_here_is_cut_whatever_their_affinity(
    make_conductor: Callable[..., Conductor], make_node: MakeNode
) -> None:
    mine, other = make_conductor("cond-a"), make_conductor("cond-b")
    CONF.set_override("node_history_max_entries", 2, group="conductor")
    made = [
        make_node(conductor_affinity=affinity)
        for _ in range(6)
        for affinity in (None, mine.conductor_id, other.conductor_id)
    ]
    for node in made:
        remember(node, 4)
    housekeeping.purge_history(mine)
    for node in made:
        owner = mine.ring.host_for(node.driver, "", node.uuid)
        assert len(history.of_node(node.id)) == (2 if owner == "cond-a" else 4)
    housekeeping.purge_history(other)
    assert {len(history.of_node(node.id)) for node in made} == {2}


def test_a_backlog_is_worked_off_in_one_run_batch_by_batch(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    CONF.set_override("node_history_max_entries", 1, group="conductor")
    CONF.set_override("node_history_cleanup_batch_count", 5, group="conductor")
    CONF.set_override("hash_ring_reset_interval", 3600)
    made = [make_node() for _ in range(10)]
    for node in made:
        remember(node, 4)
    conductor.ring.host_for("fake-hardware", "", made[0].uuid)
    with session.count_statements() as seen:
        housekeeping.purge_history(conductor)
    # One that looks; two nodes of three entries to a batch, of two statements each.
    assert seen.count == 1 + 5 * 2
    assert {len(history.of_node(node.id)) for node in made} == {1}
    assert "30 old entries" in caplog.text


@pytest.mark.parametrize("option", ["node_history_max_entries", "node_history_cleanup_batch_count"])
def test_0_removes_nothing(conductor: Conductor, make_node: MakeNode, option: str) -> None:
    node = make_node()
    remember(node, 3)
    CONF.set_override("node_history_max_entries", 1, group="conductor")
    CONF.set_override(option, 0, group="conductor")
    housekeeping.purge_history(conductor)
    assert len(history.of_node(node.id)) == 3


def test_a_stop_ends_the_removal_between_two_batches(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    remember(node, 3)
    CONF.set_override("node_history_max_entries", 1, group="conductor")
    conductor.stopping.set()
    housekeeping.purge_history(conductor)
    assert len(history.of_node(node.id)) == 3


# Conductors


def let_die(hostname: str, seconds: int) -> None:
    with session.writer() as connection:
        connection.execute(
            sa.text(
                f"UPDATE conductors SET updated_at = datetime('now', '-{seconds} seconds') "
                f"WHERE hostname = '{hostname}'"
            )
        )


def hosts() -> list[str]:
    return sorted(row["hostname"] for row in conductors.select(["hostname"]))


DAY = 86400


@pytest.mark.parametrize("was_stopped", [False, True])
def test_a_conductor_that_is_gone_for_long_is_removed(
    make_conductor: Callable[..., Conductor], make_node: MakeNode, was_stopped: bool
) -> None:
    mine, other, third = (make_conductor(f"cond-{letter}") for letter in "abc")
    node = make_node(conductor_affinity=other.conductor_id)
    if was_stopped:
        conductors.unregister("cond-b")
    let_die("cond-b", 15 * DAY)
    let_die("cond-c", 13 * DAY)
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a", "cond-c"]
    assert nodes.get(node.id).conductor_affinity is None
    assert third.conductor_id == conductors.get("cond-c").id


def test_a_conductor_that_is_gone_stays_while_it_holds_a_node(
    make_conductor: Callable[..., Conductor],
    make_node: MakeNode,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mine = make_conductor("cond-a")
    make_conductor("cond-b")
    node = make_node(reservation="cond-b", driver="another-type")
    let_die("cond-b", 15 * DAY)
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a", "cond-b"]
    assert nodes.get(node.id).reservation == "cond-b"
    assert "cond-b" in caplog.text
    assert "1 nodes" in caplog.text
    nodes.release(node.id, "cond-b")
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a"]


def test_only_one_batch_at_a_time(make_conductor: Callable[..., Conductor]) -> None:
    mine = make_conductor("cond-a")
    for number in range(5):
        conductors.register(f"gone-{number}", [])
        let_die(f"gone-{number}", 15 * DAY + number)
    CONF.set_override("conductor_cleanup_batch_size", 3, group="conductor")
    with session.count_statements() as seen:
        housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a", "gone-0", "gone-1"]
    # One that looks; five each.
    assert seen.count == 1 + 3 * 5


@pytest.mark.parametrize(("dead_after", "gone_after"), [(0, 1209600), (-1, 1209600), (100, 299)])
def test_times_that_do_not_fit_remove_nothing_and_are_told(
    make_conductor: Callable[..., Conductor],
    caplog: pytest.LogCaptureFixture,
    dead_after: int,
    gone_after: int,
) -> None:
    mine = make_conductor("cond-a")
    conductors.register("gone", [])
    let_die("gone", 900 * DAY)
    CONF.set_override("heartbeat_timeout", dead_after, group="conductor")
    CONF.set_override("conductor_cleanup_timeout", gone_after, group="conductor")
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a", "gone"]
    assert "conductor_cleanup_timeout" in caplog.text


def test_a_conductor_never_removes_itself(make_conductor: Callable[..., Conductor]) -> None:
    mine = make_conductor("cond-a")
    let_die("cond-a", 15 * DAY)
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a"]


def test_two_conductors_may_look_at_the_same_time(
    make_conductor: Callable[..., Conductor], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_conductor("cond-a")
    conductors.register("gone", [])
    let_die("gone", 15 * DAY)
    destroy = conductors.destroy

    def late(hostname: str, seconds: int) -> Any:
        destroy(hostname, seconds)
        return destroy(hostname, seconds)

    monkeypatch.setattr(housekeeping.db_conductors, "destroy", late)
    housekeeping.remove_stale_conductors(mine)
    assert hosts() == ["cond-a"]


@pytest.mark.parametrize(
    ("option", "value"), [("node_history", False), ("node_history_max_entries", 0)]
)
def test_no_history_is_recorded_where_none_is_kept_but_the_error_is(
    conductor: Conductor, make_node: MakeNode, option: str, value: Any
) -> None:
    CONF.set_override(option, value, group="conductor")
    node = make_node()
    with conductor.tasks.acquire(admin_context(), node.uuid, purpose="test") as task:
        task.history("it broke", "deploying")
        task.save()
    assert history.of_node(node.id) == []
    assert nodes.get(node.id).last_error == "it broke"
