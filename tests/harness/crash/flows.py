"""The flows that a conductor is killed in, on fake machines: start, request, goal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor.periodics.local_state import sync_local_state
from ironic_rs.db import allocations, nodes, ports
from ironic_rs.domain import states

if TYPE_CHECKING:
    from tests.harness.crash.site import Site

NODE = "11111111-1111-4111-8111-111111111111"
INSTANCE = "22222222-2222-4222-8222-222222222222"
ALLOCATION = "33333333-3333-4333-8333-333333333333"
VIF = "44444444-4444-4444-8444-444444444444"
INSTANCE_INFO: dict[str, Any] = {
    "image_source": "http://image",
    "capabilities": {"boot_option": "local"},
}


@dataclass(frozen=True)
class Flow:
    """One flow.

    :param request: asks a site for it, and drives it on when it waits.
    :param goal: provision state at its end.
    :param start: provision state before it.
    :param power: power state before it.
    :param power_goal: power state at its end, where the flow changes it.
    :param instance: the node has an instance before it: allocation, VIF and all.
    :param values: further columns of the node.
    :param interfaces: interfaces of the node that this flow needs.
    """

    name: str
    request: Callable[[Site], None]
    goal: str
    start: str
    power: str = states.POWER_OFF
    power_goal: str | None = None
    instance: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    interfaces: Mapping[str, str] = field(default_factory=dict)

    def store(self, hardware: Mapping[str, Any], mac: str) -> None:
        """Store the node of the flow, with all that hangs on it.

        :param hardware: columns that say which machine it is.
        :param mac: address of its port.
        """
        values: dict[str, Any] = {
            "uuid": NODE,
            "resource_class": "gold",
            "provision_state": self.start,
            "target_provision_state": states.STATES[self.start].target,
            "power_state": self.power,
            **self.values,
            **hardware,
            **self.interfaces,
        }
        node = nodes.create(values)
        port = ports.create({"node_id": node.id, "address": mac})
        if not self.instance:
            return
        record = {"uuid": ALLOCATION, "name": "mine", "resource_class": "gold"}
        allocations.create_bound(record, node.id)
        node = nodes.get(node.id)
        node.instance_info = {**INSTANCE_INFO, **node.instance_info}
        nodes.save(node, fence=None)
        port.internal_info = {"tenant_vif_port_id": VIF}
        ports.save(port)


def _out_of_band(*wanted: tuple[str, str, dict[str, Any]]) -> Callable[[Site], None]:
    """Clean by steps that a BMC does while nobody waits for it."""

    def request(site: Site) -> None:
        steps = [{"interface": kind, "step": step, "args": args} for kind, step, args in wanted]
        site.call("do_node_clean", steps)
        site.follow()

    return request


def _action(verb: str, kind: str | None = None) -> Callable[[Site], None]:
    def request(site: Site) -> None:
        site.call("do_provisioning_action", verb)
        if kind is not None:
            site.go_on(kind)

    return request


def _clean_manually(site: Site) -> None:
    site.call("do_node_clean", site.steps("clean"))
    site.go_on("clean")


def _deploy(site: Site) -> None:
    site.call("do_node_deploy", configdrive={"meta_data": {"name": "m1"}})
    site.go_on("deploy")


def _rebuild(site: Site) -> None:
    site.call("do_node_deploy", rebuild=True)
    site.go_on("deploy")


def _undeploy(site: Site) -> None:
    site.call("do_node_tear_down")
    site.go_on("clean")


def _service(site: Site) -> None:
    site.call("do_node_service", site.steps("service"))
    site.go_on("service")


def _inspect(site: Site) -> None:
    site.call("inspect_hardware")


def _inspect_in_band(site: Site) -> None:
    site.call("inspect_hardware")
    site.go_on("inspect")


def _rescue(site: Site) -> None:
    site.call("do_node_rescue", "secret")
    site.go_on("rescue")


def _unrescue(site: Site) -> None:
    site.call("do_node_unrescue")


def _power(state: str) -> Callable[[Site], None]:
    return lambda site: site.call("change_node_power_state", state)


def _take_over(site: Site) -> None:
    sync_local_state(site.conductor)


def _allocate(site: Site) -> None:
    wanted = {"uuid": ALLOCATION, "name": "mine", "resource_class": "gold", "traits": []}
    site.client.create_allocation(site.context, wanted)
    site.settle()


_IMAGES = "http://127.0.0.1"
#: Two at a controller that needs a boot for each, one at a controller that needs none.
_VOLUMES = [
    {"raid_level": "1", "size_gb": 10, "controller": "RAID.1"},
    {"raid_level": "1", "size_gb": 20, "controller": "RAID.2"},
    {"raid_level": "1", "size_gb": 30, "controller": "RAID.2"},
]

_ON, _OFF = states.POWER_ON, states.POWER_OFF
_WITH_INSTANCE: dict[str, Any] = {"instance": True, "power": _ON}

FLOWS = {
    flow.name: flow
    for flow in (
        Flow("verify", _action("manage"), states.MANAGEABLE, states.ENROLL),
        Flow("inspect", _inspect, states.MANAGEABLE, states.MANAGEABLE),
        Flow("clean", _action("provide", "clean"), states.AVAILABLE, states.MANAGEABLE),
        Flow("manual clean", _clean_manually, states.MANAGEABLE, states.MANAGEABLE),
        Flow("deploy", _deploy, states.ACTIVE, states.AVAILABLE, instance=True, power_goal=_ON),
        Flow("rebuild", _rebuild, states.ACTIVE, states.ACTIVE, **_WITH_INSTANCE),
        Flow(
            "undeploy",
            _undeploy,
            states.AVAILABLE,
            states.ACTIVE,
            power_goal=_OFF,
            values={"console_enabled": True},
            **_WITH_INSTANCE,
        ),
        Flow("rescue", _rescue, states.RESCUE, states.ACTIVE, **_WITH_INSTANCE),
        Flow("unrescue", _unrescue, states.ACTIVE, states.RESCUE, **_WITH_INSTANCE),
        Flow("service", _service, states.ACTIVE, states.ACTIVE, **_WITH_INSTANCE),
        Flow(
            "adopt",
            _action("adopt"),
            states.ACTIVE,
            states.MANAGEABLE,
            power=_ON,
            values={"instance_info": INSTANCE_INFO, "instance_uuid": INSTANCE},
        ),
        Flow("power on", _power(_ON), states.MANAGEABLE, states.MANAGEABLE, power_goal=_ON),
        Flow(
            "power off",
            _power(_OFF),
            states.ACTIVE,
            states.ACTIVE,
            power_goal=_OFF,
            **_WITH_INSTANCE,
        ),
        Flow(
            "reboot",
            _power(states.REBOOT),
            states.ACTIVE,
            states.ACTIVE,
            power_goal=_ON,
            **_WITH_INSTANCE,
        ),
        Flow(
            "take-over",
            _take_over,
            states.ACTIVE,
            states.ACTIVE,
            values={"console_enabled": True},
            **_WITH_INSTANCE,
        ),
        Flow("allocation", _allocate, states.AVAILABLE, states.AVAILABLE),
    )
}

#: Flows that only machines with a BMC and an agent have.
WITH_BMC = {
    flow.name: flow
    for flow in (
        Flow(
            "in-band inspect",
            _inspect_in_band,
            states.MANAGEABLE,
            states.MANAGEABLE,
            power_goal=_OFF,
            interfaces={"inspect_interface": "agent"},
        ),
        Flow(
            "BIOS settings",
            _out_of_band(
                (
                    "bios",
                    "apply_configuration",
                    {"settings": [{"name": "SandboxCounter", "value": 7}]},
                )
            ),
            states.MANAGEABLE,
            states.MANAGEABLE,
            interfaces={"bios_interface": "redfish"},
        ),
        Flow(
            "firmware update",
            _out_of_band(
                (
                    "firmware",
                    "update",
                    {
                        "settings": [
                            {"component": "bios", "url": f"{_IMAGES}/bios-2.bin", "wait": 1}
                        ]
                    },
                )
            ),
            states.MANAGEABLE,
            states.MANAGEABLE,
            interfaces={"firmware_interface": "redfish"},
        ),
        Flow(
            "RAID",
            _out_of_band(
                ("raid", "delete_configuration", {}), ("raid", "create_configuration", {})
            ),
            states.MANAGEABLE,
            states.MANAGEABLE,
            interfaces={"raid_interface": "redfish"},
            values={"target_raid_config": {"logical_disks": _VOLUMES}},
        ),
    )
}
