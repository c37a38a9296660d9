"""Errors in the words of machines that no database holds: field case K16/110.

BMCs pad their texts with NUL, and JSON can carry halves of surrogate pairs.  A node must
fail as with any other text: never stay where it was because the error can not be stored.
"""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.domain.steps import KINDS
from tests.functional.cases.test_steps import ask
from tests.functional.defects.site import Site, steps

SAID = "fan \0\0 \ud83d lost"
TOLD = "fan \ufffd\ufffd \ufffd lost"


def fail(*_: Any, **__: Any) -> Any:
    raise errors.RedfishError(error=SAID)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_110_a_step_fails_with_the_words_of_the_machine(site: Site, name: str) -> None:
    kind = KINDS[name]
    site.kit.offer(name, "raid.a", requires_ramdisk=False)
    if name == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)
    site.kit.results["raid.a"] = errors.RedfishError(error=SAID)
    uuid = ask(site, name, steps("raid.a"))
    node = site.shown(uuid)
    assert (node["provision_state"], node["reservation"]) == (kind.failed, None)
    assert TOLD in node["last_error"]
    assert any(TOLD in event["event"] for event in site.history(uuid))


def test_110_a_power_action_ends(site: Site) -> None:
    uuid = site.node(states.ACTIVE)
    site.kit.interfaces["power"].set_power_state = fail
    node = site.power(uuid, states.POWER_OFF)
    assert (node["target_power_state"], node["reservation"]) == (None, None)
    assert TOLD in node["last_error"]


def test_110_an_enrolment_ends(site: Site) -> None:
    uuid = site.node(states.ENROLL)
    site.kit.interfaces["power"].get_power_state = fail
    node = site.provision(uuid, "manage")
    assert (node["provision_state"], node["reservation"]) == (states.ENROLL, None)
    assert TOLD in node["last_error"]


def test_110_a_lost_bmc_is_a_fault(site: Site) -> None:
    uuid = site.node(states.ACTIVE)
    site.kit.interfaces["power"].get_power_state = fail
    for _ in range(4):
        site.tick("_sync_power_states")
        site.settle()
    node = site.shown(uuid)
    assert (node["maintenance"], node["fault"]) == (True, "power failure")
    assert TOLD in node["maintenance_reason"]
