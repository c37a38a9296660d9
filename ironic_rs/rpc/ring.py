"""The hash ring: which conductor owns a node.

Source: specification conductor.md section 5.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tooz import hashring

from ironic_rs.conf import CONF
from ironic_rs.db import conductors as db_conductors
from ironic_rs.domain import errors

Row = TypeVar("Row", bound=Mapping[Any, Any])

#: (conductor group, hardware type, host name) of each live conductor.
Members = Iterable[tuple[str, str, str]]

#: An unknown key makes the ring look again, but not more often than this (seconds).
_MISS_SECONDS = 1.0


class _Rings:
    """The rings of one set of members, and the owners worked out from them."""

    def __init__(self, members: Members, partitions: int, algorithm: str, born: float) -> None:
        hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
        for group, hardware_type, host in members:
            hosts[group.lower(), hardware_type].add(host)
        self.born = born
        self.rings = {
            key: hashring.HashRing(names, partitions=partitions, hash_function=algorithm)
            for key, names in hosts.items()
        }
        # Hashing is the cost of every scan over nodes; the answer is the same
        # until the members change.
        self._known: dict[tuple[str, str, str], str] = {}

    def owner(self, key: tuple[str, str], uuid: str) -> str | None:
        known = self._known.get((*key, uuid))
        if known is not None:
            return known
        ring = self.rings.get(key)
        if ring is None:
            return None
        (host,) = ring.get_nodes(uuid.encode(), replicas=1)
        self._known[(*key, uuid)] = host
        return str(host)


class HashRing:
    """Rings by conductor group and hardware type, cached for
    ``[DEFAULT]hash_ring_reset_interval`` seconds.

    :param load: returns the live members; replaced in tests.
    :param clock: seconds; replaced in tests.
    """

    def __init__(
        self,
        load: Callable[[], Members] = db_conductors.ring_members,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._rings: _Rings | None = None

    def reset(self) -> None:
        """Forget the members; the next use reads them anew."""
        self._rings = None

    def _current(self, max_age: float | None = None) -> _Rings:
        limit = CONF.hash_ring_reset_interval if max_age is None else max_age
        rings = self._rings
        if rings is not None and self._clock() - rings.born < limit:
            return rings
        with self._lock:
            rings = self._rings
            if rings is not None and self._clock() - rings.born < limit:
                return rings
            fresh = self._build(list(self._load()))
            if rings is not None and rings.rings.keys() == fresh.rings.keys():
                same = all(
                    ring.nodes == fresh.rings[key].nodes for key, ring in rings.rings.items()
                )
                if same:
                    # Keeps the owners that are worked out already.
                    rings.born = fresh.born
                    return rings
            self._rings = fresh
            return fresh

    def _build(self, members: Members) -> _Rings:
        return _Rings(
            members, 2**CONF.hash_partition_exponent, CONF.hash_ring_algorithm, self._clock()
        )

    def host_for(self, driver: str, conductor_group: str | None, node_uuid: str) -> str:
        """Return the host name of the conductor that owns a node.

        :raises TemporaryFailure: no conductor is alive.
        :raises DriverNotFound: none of the group serves the hardware type.
        """
        key = ((conductor_group or "").lower(), driver)
        host = self._current().owner(key, node_uuid)
        if host is None:
            host = self._current(max_age=_MISS_SECONDS).owner(key, node_uuid)
        if host is not None:
            return host
        self._check_alive(self._current())
        raise errors.DriverNotFound(
            driver_name=f"{driver} (in conductor group '{key[0]}')" if key[0] else driver
        )

    def owned(self, host: str, rows: Sequence[Row]) -> list[Row]:
        """Return those of the rows whose nodes ``host`` owns.

        :param rows: mappings with uuid, driver and conductor_group.
        :raises TemporaryFailure: no conductor is alive, not even this one.
        """
        if not rows:
            return []
        rings = self._members()
        return [
            row
            for row in rows
            if rings.owner(((row["conductor_group"] or "").lower(), row["driver"]), row["uuid"])
            == host
        ]

    def _members(self) -> _Rings:
        rings = self._current()
        if not rings.rings:
            rings = self._current(max_age=_MISS_SECONDS)
            self._check_alive(rings)
        return rings

    def hosts_for_driver(self, driver: str) -> Collection[str]:
        """Return the conductors that serve a hardware type in any group, just read.

        :raises DriverNotFound: there is none.
        """
        hosts = {host for _, hardware_type, host in self._load() if hardware_type == driver}
        if not hosts:
            raise errors.DriverNotFound(driver_name=driver)
        return hosts

    def random_host_for_driver(self, driver: str) -> str:
        """Return one of :meth:`hosts_for_driver`."""
        return random.choice(sorted(self.hosts_for_driver(driver)))

    @staticmethod
    def _check_alive(rings: _Rings) -> None:
        if not rings.rings:
            raise errors.TemporaryFailure(
                "No conductor is alive (or none has registered yet). Please retry."
            )
