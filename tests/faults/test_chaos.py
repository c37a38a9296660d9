"""Random kills, freezes and restarts under a load of lifecycles: everything settles.

The seed is printed first; ``IRONIC_RS_CHAOS_SEED`` chooses it and
``IRONIC_RS_CHAOS_SECONDS`` how long things break.

Source: specification conductor.md sections 3, 6, 7, 16 and 17 (W08 to W10, W42).
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import chaos, servers
from tests.harness.chaos import Audit, Breaker, Life, Place, Watch
from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.crash import NIGHTLY

SECONDS = float(os.environ.get("IRONIC_RS_CHAOS_SECONDS") or (1800 if NIGHTLY else 120))
_GIVEN = os.environ.get("IRONIC_RS_CHAOS_SEED")
SEED = int(_GIVEN) if _GIVEN else (random.SystemRandom().randrange(10**6) if NIGHTLY else 1)
FAKES = 6

pytestmark = pytest.mark.timeout(SECONDS + 1200)


@pytest.fixture
def place(folder: Path, sandbox: Sandbox) -> Iterator[Place]:
    """Conductors, API, broker, database and machines of this test's own."""
    with contextlib.ExitStack() as stack:
        mariadb = stack.enter_context(servers.own_mariadb(folder))
        rabbit = stack.enter_context(servers.own_rabbit(folder))
        database = stack.enter_context(servers.mariadb_database(mariadb.port))
        transport = stack.enter_context(servers.rabbit_vhost(own=rabbit))
        options = {group: dict(values) for group, values in sandbox.options().items()}
        for group, values in chaos.OPTIONS.items():
            options.setdefault(group, {}).update(values)
        cluster = stack.enter_context(running(Cluster(folder, database, transport, options)))
        cluster.migrate()
        audit = Audit(mariadb, database)
        audit.install()
        cluster.start_api()
        for host in chaos.HOSTS:
            cluster.start_conductor(host, {"database": {"connection": audit.url(host)}})
        yield Place(cluster, sandbox, {"broker": rabbit, "database": mariadb}, audit)


def lives(place: Place) -> list[Life]:
    made = []
    for number in range(FAKES):
        node = place.cluster.create(
            rescue_interface="fake",
            vendor_interface="fake",
            deploy_interface="fake",
            boot_interface="fake",
            inspect_interface="fake",
            raid_interface="fake",
        )
        made.append(Life(place, node["uuid"], f"{SEED} fake {number}", "fake", {}))
    for number, machine in enumerate(place.sandbox.machines()):
        node = place.sandbox.enroll(place.cluster, machine)
        info = place.sandbox.instance_info()
        made.append(Life(place, node["uuid"], f"{SEED} sandbox {number}", "sandbox", info))
    return made


def test_all_nodes_settle_and_every_outcome_is_honest(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    events = chaos.schedule(SEED, SECONDS)
    with capsys.disabled():
        # Known also when the run is broken off.
        print(f"\nIRONIC_RS_CHAOS_SEED={SEED} IRONIC_RS_CHAOS_SECONDS={SECONDS:.0f}", flush=True)
    users = lives(place)
    place.audit.prove()
    watch, breaker = Watch(place), Breaker(place, events, time.monotonic())
    for thread in (watch, breaker, *users):
        thread.start()

    breaker.join()
    for user in users:
        user.stop()
    for user in users:
        user.join()
    watch.stop()

    outcomes = sum((user.outcomes for user in users), Counter[str]())
    with capsys.disabled():
        print(f"broken: {dict(breaker.done)}; locks looked at {watch.looks} times")
        print(f"outcomes: {dict(sorted(outcomes.items()))}", flush=True)
    if breaker.error is not None:
        raise breaker.error
    violations = [*watch.violations, *place.audit.violations()]
    for user in users:
        if user.violations:
            violations += [*user.violations, *place.audit.moves(user.uuid)[-20:]]
    assert not violations, "\n".join(violations)
    for host in chaos.HOSTS:
        place.cluster.wait_conductor(host)
    for user in users:
        user.bring_to("available", chaos.HOME, 240)
    assert not place.audit.violations()
    assert all(place.audit.moves(user.uuid) for user in users)
