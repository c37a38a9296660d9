"""A machine's whole life by Redfish: the ramdisk from virtual media, UEFI."""

from __future__ import annotations

import pytest

from tests.e2e.life import Life
from tests.harness.cluster import Cluster
from tests.harness.machine_room import Room


@pytest.mark.timeout(7200)
def test_a_machine_lives_by_redfish_and_virtual_media(room: Room, service: Cluster) -> None:
    life = Life(service, room, room.machine("redfish-1", 1))
    with life.stage("enroll"):
        life.enroll(
            driver="redfish",
            boot_interface="redfish-virtual-media",
            driver_info={
                "redfish_address": room.redfish,
                "redfish_system_id": life.machine.system,
                "redfish_username": room.user,
                "redfish_password": room.password,
            },
        )
    with life.stage("inspect out of band"):
        found = life.inspect("redfish")
        assert found["inventory"]["memory"]["physical_mb"] == 2048
    with life.stage("inspect in band"):
        found = life.inspect("agent")
        assert [card["mac_address"] for card in found["inventory"]["interfaces"]] == [
            life.machine.mac
        ]
        assert found["inventory"]["disks"][0]["size"] == 4 * 1024**3
        assert found["inventory"]["boot"]["current_boot_mode"] == "uefi"
    with life.stage("clean"):
        life.act("provide", "available")
    with life.stage("deploy"):
        life.deploy("qcow2")
    with life.stage("rescue"):
        life.rescue()
    with life.stage("unrescue"):
        life.unrescue()
    with life.stage("service"):
        life.modify()
    with life.stage("undeploy"):
        life.undeploy()
    print(life.report())
