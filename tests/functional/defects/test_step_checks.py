"""What is known of a step before it runs (W22, W23, W48, W49)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import states
from ironic_rs.domain.steps import KINDS
from tests.functional.defects.site import Site, steps


def prepared(site: Site) -> list[str]:
    """Record when the ramdisk is booted; the machine then waits for it."""
    calls: list[str] = []

    def boot(kind: str) -> Any:
        def prepare(task: Any) -> str:
            calls.append(kind)
            return KINDS[kind].wait

        return prepare

    deploy = site.kit.interfaces["deploy"]
    deploy.prepare_service, deploy.prepare_cleaning = boot("service"), boot("clean")
    return calls


@pytest.mark.parametrize(
    ("details", "booted"),
    [({}, True), ({"requires_ramdisk": True}, True), ({"requires_ramdisk": False}, False)],
)
@pytest.mark.parametrize("kind", ["clean", "service"])
def test_w22_the_ramdisk_is_booted_for_the_steps_that_need_it(
    site: Site, kind: str, details: dict[str, Any], booted: bool
) -> None:
    calls = prepared(site)
    site.kit.offer(kind, "raid.a", **details)
    start = states.ACTIVE if kind == "service" else states.MANAGEABLE
    uuid = site.node(start)

    node = site.provision(uuid, kind, **{f"{kind}_steps": steps("raid.a")})

    assert calls == ([kind] if booted else [])
    assert site.kit.ran == ([] if booted else ["raid.a"])
    assert node["provision_state"] == (KINDS[kind].wait if booted else start)


@pytest.mark.parametrize("priority", ["90", 90])
def test_w23_the_priority_of_a_deploy_step_may_be_a_string_of_digits(
    site: Site, priority: Any
) -> None:
    site.kit.offer("deploy", "raid.a")
    site.kit.offer("deploy", "raid.b", 95)
    site.kit.offer("deploy", "deploy.deploy", 80)
    uuid = site.node(states.AVAILABLE)
    asked = [{**steps("raid.a")[0], "args": {}, "priority": priority}]

    node = site.provision(uuid, "active", deploy_steps=asked)

    assert site.kit.ran == ["raid.b", "raid.a", "deploy.deploy"]
    assert node["provision_state"] == states.ACTIVE


def test_w23_deploy_steps_can_run_on_child_nodes(site: Site) -> None:
    site.kit.offer("deploy", "deploy.deploy", 80)
    parent = site.node(states.AVAILABLE)
    first, second = (site.node(states.ACTIVE, parent_node=parent) for _ in range(2))
    asked = {
        **steps("raid.a")[0],
        "args": {},
        "priority": 90,
        "execute_on_child_nodes": True,
        "limit_child_node_execution": [second],
    }

    node = site.provision(parent, "active", deploy_steps=[asked])

    assert site.kit.ran_on == [(second, "raid.a"), (parent, "deploy.deploy")]
    assert first not in dict(site.kit.ran_on)
    assert node["provision_state"] == states.ACTIVE


def test_w23_a_network_step_can_be_asked_for_in_servicing(site: Site) -> None:
    site.kit.offer("service", "network.reattach_networking", requires_ramdisk=False)
    uuid = site.node(states.ACTIVE)

    node = site.provision(uuid, "service", service_steps=steps("network.reattach_networking"))

    assert site.kit.ran == ["network.reattach_networking"]
    assert node["provision_state"] == states.ACTIVE


def test_w48_overrides_and_requests_do_not_change_what_drivers_offer(conf: Any, site: Site) -> None:
    """The interfaces are shared by all nodes: the next one must get them as they are."""
    site.kit.offer("clean", "raid.a", 10, abortable=True, requires_ramdisk=False)
    site.kit.offer("verify", "raid.v", 10)
    site.kit.offer("service", "raid.a", argsinfo=None, requires_ramdisk=False)
    before = copy.deepcopy(site.kit.offered)
    CONF.set_override("clean_step_priority_override", [{"raid.a": "99"}], group="conductor")
    CONF.set_override("verify_step_priority_override", [{"raid.v": "98"}], group="conductor")
    uuid = site.enroll()

    site.provision(uuid, "manage")
    site.provision(uuid, "clean", clean_steps=steps("raid.a"))
    site.provision(uuid, "provide")
    site.provision(site.node(states.ACTIVE), "service", service_steps=steps("raid.a"))

    assert site.kit.ran == ["raid.v", "raid.a", "raid.a", "raid.a"]
    assert site.kit.offered == before


def test_w48_the_steps_of_a_real_interface_stay_as_they_are(conf: Any, site: Site) -> None:
    real = site.conductor.drivers.enabled("firmware")["fake"]
    before = copy.deepcopy(real.clean_steps)
    site.kit.interfaces.pop("firmware")
    CONF.set_override(
        "clean_step_priority_override", [{"firmware.update": "99"}], group="conductor"
    )
    uuid = site.node(states.MANAGEABLE)
    wanted = steps(
        "firmware.update", args={"settings": [{"component": "bmc", "url": "http://h/f"}]}
    )

    node = site.provision(uuid, "clean", clean_steps=wanted)

    assert node["provision_state"] == states.MANAGEABLE, node["last_error"]
    assert real.clean_steps == before


def test_w49_an_unknown_step_of_a_servicing_without_ramdisk_fails_it(site: Site) -> None:
    uuid = site.node(states.ACTIVE)

    node = site.provision(
        uuid, "service", service_steps=steps("raid.nothing"), disable_ramdisk=True
    )

    assert node["provision_state"] == states.SERVICEFAIL
    assert "raid.nothing" in node["last_error"]
    assert node["reservation"] is None
