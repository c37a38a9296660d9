"""A machine's whole life by IPMI power: the ramdisk from the network by iPXE, UEFI."""

from __future__ import annotations

import pytest

from tests.e2e.life import Life
from tests.harness.cluster import Cluster
from tests.harness.machine_room import Room


@pytest.mark.timeout(7200)
def test_a_machine_lives_by_ipmi_and_ipxe(room: Room, service: Cluster) -> None:
    life = Life(service, room, room.machine("ipmi-1", 2, ipmi_port=16992))
    with life.stage("enroll"):
        life.enroll(
            driver="ipmi",
            boot_interface="ipxe",
            driver_info={
                "ipmi_address": room.address,
                "ipmi_port": life.machine.ipmi_port,
                "ipmi_username": room.user,
                "ipmi_password": room.password,
            },
        )
    with life.stage("inspect in band"):
        found = life.inspect("agent")
        assert [card["mac_address"] for card in found["inventory"]["interfaces"]] == [
            life.machine.mac
        ]
        assert found["inventory"]["boot"]["pxe_interface"] == life.machine.mac
    with life.stage("clean"):
        life.act("provide", "available")
    with life.stage("deploy"):
        life.deploy("raw")
    with life.stage("rescue"):
        life.rescue()
    with life.stage("unrescue"):
        life.unrescue()
    with life.stage("service"):
        life.modify()
    with life.stage("undeploy"):
        life.undeploy()
    print(life.report())
