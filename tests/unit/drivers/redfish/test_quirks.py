"""The table of what some BMCs want otherwise than the standard says."""

from __future__ import annotations

import pytest

from ironic_rs.drivers import quirks as table
from ironic_rs.drivers.quirks import Quirk, Row
from ironic_rs.drivers.redfish import quirks
from ironic_rs.drivers.redfish.sessions import talk
from tests.harness.bmc import MANAGER, ROOT


def found(task) -> set[Quirk]:
    with talk(task, "testing") as bmc:
        return {quirk for quirk in Quirk if quirks.has(quirk, task.node, bmc)}


@pytest.mark.parametrize(
    ("vendor", "firmware", "expected"),
    [
        ("American Megatrends International LLC.", "1.0", {Quirk.WHOLE_BOOT_OBJECT}),
        ("AMI", "1.0", {Quirk.WHOLE_BOOT_OBJECT}),
        ("Miami Dynamics", "1.0", set()),
        ("ASRockRack", "1.0", {Quirk.WHOLE_BOOT_OBJECT}),
        ("redfish_compatible", "1.0", {Quirk.WHOLE_BOOT_OBJECT}),
        ("Super Micro Computer", "1.0", set()),
        (
            "Supermicro",
            "1.0",
            {Quirk.ENABLED_WITH_TARGET, Quirk.DEVICE_CHANGES_MODE, Quirk.OWN_UEFI_DISK},
        ),
        ("Lenovo", "1.0", {Quirk.LOSES_BOOT_ENTRY}),
        ("Dell Inc.", "7.10.30", {Quirk.SERIAL_IS_SKU}),
        ("Dell Inc.", "6", {Quirk.SERIAL_IS_SKU}),
        ("Dell Inc.", "5.00.00", {Quirk.SERIAL_IS_SKU, Quirk.OWN_MEDIA_BOOT}),
        ("Dell Inc.", "60.1", {Quirk.SERIAL_IS_SKU, Quirk.OWN_MEDIA_BOOT}),
        ("Dell Inc.", None, {Quirk.SERIAL_IS_SKU, Quirk.OWN_MEDIA_BOOT}),
        ("HPE", "iLO 5 v2.10", set()),
    ],
)
@pytest.mark.parametrize("place", ["node", "root", "system"])
def test_machines_are_known_by_vendor_and_firmware(bmc, task, vendor, firmware, expected, place):
    if place == "node":
        task.node.properties["vendor"] = vendor
        bmc.tree[ROOT]["Vendor"] = "somebody else"
    elif place == "root":
        bmc.tree[ROOT]["Vendor"] = vendor
    else:
        bmc.system["Manufacturer"] = vendor
    bmc.tree[MANAGER]["FirmwareVersion"] = firmware
    assert found(task) == expected


def test_machines_are_known_by_product(bmc, task, monkeypatch):
    row = Row(frozenset({Quirk.SERIAL_IS_SKU}), vendor="contoso", product="^blade [12]$")
    monkeypatch.setattr(table, "_COMPILED", table.compiled([row]))
    bmc.tree[ROOT]["Product"] = "Blade 2"
    assert found(task) == {Quirk.SERIAL_IS_SKU}


@pytest.mark.parametrize(
    ("model", "expected"), [("17G Monolithic", True), ("16G Monolithic", False), (None, False)]
)
def test_machines_are_known_by_the_model_of_their_bmc(bmc, task, model, expected):
    task.node.properties["vendor"] = "Dell Inc."
    bmc.tree[MANAGER]["Model"] = model
    assert (Quirk.FIRST_MEDIA_SLOT in found(task)) is expected


@pytest.mark.parametrize("strange", [None, 7, {"a": 1}], ids=str)
def test_strange_values_match_nothing_and_stop_nothing(bmc, task, strange):
    bmc.tree[ROOT] |= {"Vendor": strange, "Product": strange}
    bmc.system["Manufacturer"] = strange
    del bmc.system["Links"]
    assert found(task) == set()


def test_what_the_node_knows_of_its_machine_costs_no_request(bmc, task):
    task.node.properties["vendor"] = "HPE"
    found(task)
    bmc.forget()
    assert found(task) == set()
    assert bmc.requests == []


def test_every_quirk_has_a_row():
    assert {quirk for row in table.TABLE for quirk in row.quirks} == set(Quirk)


def test_where_no_bmc_is_asked_the_vendor_of_the_node_counts(bmc, task):
    assert not table.stored(Quirk.LOSES_BOOT_ENTRY, task.node)
    task.node.properties["vendor"] = "LENOVO"
    assert table.stored(Quirk.LOSES_BOOT_ENTRY, task.node)
    task.node.properties["vendor"] = "Dell Inc."
    # Its row asks for a model, which is not known.
    assert not table.stored(Quirk.FIRST_MEDIA_SLOT, task.node)
    assert bmc.requests == []
