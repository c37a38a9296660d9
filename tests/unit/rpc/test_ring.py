"""The hash ring: who owns a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc.ring import HashRing

UUIDS = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(8)]


class Members:
    """A changing set of members; counts how often it is read."""

    def __init__(self, *members: tuple[str, str, str]) -> None:
        self.members = list(members)
        self.reads = 0

    def __call__(self) -> list[tuple[str, str, str]]:
        self.reads += 1
        return list(self.members)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    yield
    CONF.reset()
    CONF.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def is_mine(ring: HashRing, host: str, driver: str, group: str | None, uuid: str) -> bool:
    row = {"uuid": uuid, "driver": driver, "conductor_group": group}
    return ring.owned(host, [row]) == [row]


def members(*hosts: str, group: str = "", driver: str = "redfish") -> Members:
    return Members(*((group, driver, host) for host in hosts))


def test_vectors_of_the_specification(clock: Clock) -> None:
    ring = HashRing(members("cond-a", "cond-b", "cond-c"), clock)
    owners = [ring.host_for("redfish", "", uuid)[-1] for uuid in UUIDS]
    assert owners == list("acbbabab")
    odd = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    assert ring.host_for("redfish", None, odd) == "cond-c"
    ring = HashRing(members("cond-a", "cond-c"), clock)
    assert ring.host_for("redfish", "", odd) == "cond-c"


def test_groups_and_drivers_have_rings_of_their_own(clock: Clock) -> None:
    source = Members(("", "redfish", "a"), ("Rack1", "redfish", "b"), ("rack1", "ipmi", "c"))
    ring = HashRing(source, clock)
    assert {ring.host_for("redfish", "", uuid) for uuid in UUIDS} == {"a"}
    assert {ring.host_for("redfish", "RACK1", uuid) for uuid in UUIDS} == {"b"}
    assert ring.host_for("ipmi", "rack1", UUIDS[0]) == "c"
    assert is_mine(ring, "b", "redfish", "rack1", UUIDS[0])
    assert not is_mine(ring, "a", "redfish", "rack1", UUIDS[0])
    assert not is_mine(ring, "a", "ipmi", "", UUIDS[0])


def test_membership_is_read_once_per_interval(clock: Clock) -> None:
    source = members("a", "b")
    ring = HashRing(source, clock)
    for _ in range(100):
        for uuid in UUIDS:
            ring.host_for("redfish", "", uuid)
            is_mine(ring, "a", "redfish", "", uuid)
    assert source.reads == 1
    clock.now = 14.9
    ring.host_for("redfish", "", UUIDS[0])
    assert source.reads == 1
    clock.now = 15
    ring.host_for("redfish", "", UUIDS[0])
    assert source.reads == 2
    ring.reset()
    ring.host_for("redfish", "", UUIDS[0])
    assert source.reads == 3


def test_a_dead_member_loses_its_nodes_and_nobody_else_theirs(clock: Clock) -> None:
    source = members("cond-a", "cond-b", "cond-c")
    ring = HashRing(source, clock)
    before = {uuid: ring.host_for("redfish", "", uuid) for uuid in UUIDS}
    source.members.pop()
    clock.now = 15
    after = {uuid: ring.host_for("redfish", "", uuid) for uuid in UUIDS}
    for uuid in UUIDS:
        assert after[uuid] != "cond-c"
        assert before[uuid] in (after[uuid], "cond-c")


def test_unknown_driver_looks_again_at_once_but_not_all_the_time(clock: Clock) -> None:
    source = members("a")
    ring = HashRing(source, clock)
    ring.host_for("redfish", "", UUIDS[0])
    clock.now = 2
    for _ in range(10):
        with pytest.raises(errors.DriverNotFound, match="ipmi"):
            ring.host_for("ipmi", "", UUIDS[0])
    assert source.reads == 2
    source.members.append(("", "ipmi", "b"))
    clock.now = 4
    assert ring.host_for("ipmi", "", UUIDS[0]) == "b"


def test_group_without_conductor_is_named(clock: Clock) -> None:
    with pytest.raises(errors.DriverNotFound, match=r"redfish \(in conductor group 'rack9'\)"):
        HashRing(members("a"), clock).host_for("redfish", "rack9", UUIDS[0])


def test_no_conductor_at_all(clock: Clock) -> None:
    source = Members()
    ring = HashRing(source, clock)
    with pytest.raises(errors.TemporaryFailure, match="No conductor is alive"):
        ring.host_for("redfish", "", UUIDS[0])
    with pytest.raises(errors.TemporaryFailure):
        is_mine(ring, "a", "redfish", "", UUIDS[0])
    source.members.append(("", "redfish", "a"))
    clock.now = 2
    assert is_mine(ring, "a", "redfish", "", UUIDS[0])


def test_hosts_of_a_driver_are_read_every_time_and_in_all_groups(clock: Clock) -> None:
    source = Members(("", "redfish", "a"), ("g", "redfish", "b"), ("", "ipmi", "c"))
    ring = HashRing(source, clock)
    assert set(ring.hosts_for_driver("redfish")) == {"a", "b"}
    assert ring.random_host_for_driver("redfish") in {"a", "b"}
    assert source.reads == 2
    with pytest.raises(errors.DriverNotFound):
        ring.hosts_for_driver("snmp")


def test_partitions_and_algorithm_follow_the_configuration(clock: Clock) -> None:
    CONF.set_override("hash_ring_algorithm", "sha256")
    CONF.set_override("hash_partition_exponent", 3)
    ring = HashRing(members("cond-a", "cond-b", "cond-c"), clock)
    rings = ring._current()
    assert len(rings.rings["", "redfish"]._partitions) == 3 * 8
    owners = [ring.host_for("redfish", "", uuid)[-1] for uuid in UUIDS]
    assert owners != list("acbbabab")
