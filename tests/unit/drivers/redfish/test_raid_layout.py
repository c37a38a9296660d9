"""Which disks become which volumes (field case 94)."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_utils import units

from ironic_rs.domain import errors
from ironic_rs.drivers.redfish import raid_layout
from ironic_rs.drivers.redfish.raid_layout import LEVELS, STRIPE, Disk, DoesNotFit, Volume

GIB = units.Gi


def disks(count: int, size: int = 100, controller: str = "R1", **more: Any) -> list[Disk]:
    """Unused disks D0, D1, ... of a size in GiB."""
    used = more.pop("used", 0)
    start = more.pop("start", 0)
    return [
        Disk(
            path=f"/{controller}/D{n}",
            identity=f"D{n}",
            controller=controller,
            size=size * GIB,
            free=(size - used) * GIB,
            media_type=more.get("media", "SSD"),
            protocol=more.get("protocol", "SAS"),
            levels=more.get("levels"),
        )
        for n in range(start, start + count)
    ]


def wish(level: str, size: Any = 10, **more: Any) -> dict[str, Any]:
    if "disks" in more:
        more["physical_disks"] = [f"D{n}" for n in more.pop("disks")]
        more.setdefault("controller", "R1")
    if more.pop("shared", False):
        more["share_physical_disks"] = True
    return {"raid_level": level, "size_gb": size, **more}


def plan(wishes: list[dict[str, Any]], pool: list[Disk]) -> list[Volume]:
    config = {"logical_disks": wishes}
    raid_layout.check(config)
    return raid_layout.plan(config, pool)


def names(volume: Volume) -> str:
    return " ".join(path.rpartition("/")[2] for path in volume.disks)


@pytest.mark.parametrize(
    ("level", "counts", "data"),
    [
        ("0", [1, 2, 3], [1, 2, 3]),
        ("1", [2], [1]),
        ("5", [3, 4, 5], [2, 3, 4]),
        ("6", [4, 5, 6], [2, 3, 4]),
        ("1+0", [4, 6], [2, 3]),
        ("5+0", [6], [4]),
        ("6+0", [8], [4]),
    ],
)
def test_a_level_takes_these_numbers_of_disks_and_uses_so_many_for_data(level, counts, data):
    known = LEVELS[level]
    assert [n for n in range(counts[-1] + 1) if known.takes(n)] == counts
    assert [known.data_disks(n) for n in counts] == data


def test_space_is_given_out_in_stripes():
    level = LEVELS["5"]
    assert level.use(3, 1) == STRIPE
    assert level.use(3, 2 * STRIPE) == STRIPE
    assert level.use(3, 2 * STRIPE + 1) == 2 * STRIPE
    assert level.largest([10 * STRIPE + 5, 12 * STRIPE, 11 * STRIPE]) == 20 * STRIPE
    # RAID 60 of 8 disks has 4 for data.
    assert LEVELS["6+0"].use(8, 400 * GIB) == 100 * GIB


def bad(*wishes: dict[str, Any]) -> str:
    with pytest.raises(errors.InvalidParameterValue) as caught:
        raid_layout.check({"logical_disks": list(wishes)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ([wish("5", "MAX")], "volume 1: size MAX needs physical_disks"),
        ([wish("1", is_root_volume=True), wish("1", is_root_volume=True)], "2 root volumes"),
        (
            [
                wish("1", "MAX", disks=[0, 1], shared=True),
                wish("0", "MAX", disks=[1], shared=True),
            ],
            "volumes 1 and 2 both want all of disk D1",
        ),
        ([wish("1", disks=[0, 1]), wish("0", disks=[1])], "set share_physical_disks on each"),
        ([wish("JBOD")], "RAID level JBOD is not one of 0, 1, 5, 6, 1+0, 5+0, 6+0"),
        ([wish("2")], "RAID level 2 is not one of"),
        ([wish("1", 0)], "size_gb has to be 1 or more, or MAX"),
        ([wish("1", interface_type="scsi")], "interface_type has to be sata or sas"),
        ([wish("5", number_of_physical_disks=0)], "number_of_physical_disks"),
        ([wish("5", number_of_physical_disks=2)], "RAID 5 cannot be made of 2 disks"),
        ([wish("0", disks=[])], "RAID 0 cannot be made of 0 disks, but of 1, 2, 3, ..."),
        ([wish("1", disks=[0, 1, 2])], "RAID 1 cannot be made of 3 disks, but of 2"),
        ([wish("1+0", disks=[0, 1])], "but of 4, 6, 8, ..."),
        ([wish("1", disks=[1, 1])], "names a disk twice"),
        ([wish("1", disks=[0, 1], number_of_physical_disks=4)], "names 2 disks"),
        (
            [wish("1", controller="R1", physical_disks=[{"size": "> 1"}, {"size": "> 1"}])],
            "has to be a list of ids of drives",
        ),
        ([wish("1", volume_name="a"), wish("1", volume_name="a")], "'a' is there 2 times"),
        ([wish("1"), {"raid_level": "1", "size_gb": 1, "x": 2}], "logical_disks/1"),
    ],
)
def test_what_cannot_be_is_refused_before_the_bmc_is_asked(wishes, said):
    assert said in bad(*wishes)


def test_all_faults_are_named_at_once():
    text = bad(wish("JBOD"), wish("1", 0, interface_type="scsi"))
    assert "volume 1: RAID level" in text
    assert "volume 2: size_gb" in text
    assert "volume 2: interface_type" in text


def test_a_volume_takes_as_few_and_as_alike_disks_as_it_can():
    pool = disks(2, 50) + disks(4, 100, start=2) + disks(3, 100, media="HDD", start=6)
    (volume,) = plan([wish("5", 150)], pool)
    assert names(volume) == "D6 D7 D8"
    (volume,) = plan([wish("5", 150, disk_type="ssd")], pool)
    assert names(volume) == "D2 D3 D4"
    (volume,) = plan([wish("5", 250, disk_type="ssd")], pool)
    assert names(volume) == "D2 D3 D4 D5"
    (volume,) = plan([wish("5", 20, disk_type="ssd", number_of_physical_disks=4)], pool)
    assert names(volume) == "D2 D3 D4 D5"
    assert volume.size == 20 * GIB
    assert volume.controller == "R1"


def test_disks_of_a_volume_are_of_one_controller_and_one_interface():
    pool = disks(1) + disks(1, protocol="SATA", start=1) + disks(1, controller="R2")
    with pytest.raises(DoesNotFit, match="volume 1: nothing suits RAID 1"):
        plan([wish("1")], pool)
    (volume,) = plan([wish("1", interface_type="sata")], pool + disks(1, protocol="SATA", start=5))
    assert names(volume) == "D1 D5"
    # What has another interface is left out, and is no error.
    (volume,) = plan([wish("0", interface_type="sas")], disks(1, protocol="NVMe") + disks(1))
    assert volume.disks == ["/R1/D0"]


def test_a_controller_is_chosen_by_its_id():
    pool = disks(2) + disks(2, controller="R2")
    (volume,) = plan([wish("1", controller="R2", is_root_volume=True, volume_name="sys")], pool)
    assert volume == Volume("R2", "1", 10 * GIB, ["/R2/D0", "/R2/D1"], "sys", is_root=True)
    with pytest.raises(DoesNotFit, match="no RAID controller R3 with disks; there is R1, R2"):
        plan([wish("1", controller="R3")], pool)
    with pytest.raises(DoesNotFit, match="no RAID controller R3"):
        plan([wish("1", disks=[0, 1], controller="R3")], pool)
    with pytest.raises(DoesNotFit, match="controller R2 has no disk D7; it has D0, D1"):
        plan([wish("1", disks=[0, 7], controller="R2")], pool)


def test_a_level_that_the_controller_does_not_offer_is_refused():
    pool = disks(4, levels=frozenset({"0", "1"}))
    with pytest.raises(DoesNotFit, match="R1 does not offer RAID 5; it offers 0, 1"):
        plan([wish("5", disks=[0, 1, 2])], pool)
    with pytest.raises(DoesNotFit, match=r"nothing suits RAID 5 .*R1 \(4 unused, RAID 0, 1\)"):
        plan([wish("5")], pool)
    with pytest.raises(DoesNotFit, match="no disks at a RAID controller"):
        plan([wish("5")], [])


def test_volumes_share_disks_only_when_both_want_it():
    shared = [wish("1", 60, shared=True), wish("1", 40, shared=True)]
    first, second = plan(shared, disks(2))
    assert names(first) == names(second) == "D0 D1"
    with pytest.raises(DoesNotFit, match="volumes 1, 2 do not fit together"):
        plan([wish("1", 60), wish("1", 40)], disks(2))
    with pytest.raises(DoesNotFit, match="volumes 1, 2 do not fit together"):
        plan([wish("1", 60, shared=True), wish("1", 60, shared=True)], disks(2))
    with pytest.raises(DoesNotFit, match="nothing suits RAID 1"):
        plan([wish("1")], disks(2, used=20))
    (volume,) = plan([wish("1", 80, shared=True)], disks(2, used=20))
    assert names(volume) == "D0 D1"
    with pytest.raises(DoesNotFit, match="D0, D1 is in use by another volume"):
        plan([wish("1", disks=[0, 1])], disks(2, used=20))


def test_a_volume_of_size_max_comes_last_and_takes_what_is_left():
    wishes = [
        wish("1", "MAX", disks=[0, 1], shared=True, volume_name="data"),
        wish("1", 60, disks=[0, 1], shared=True, volume_name="system", is_root_volume=True),
        wish("0", 20),
    ]
    pool = disks(3)
    found = plan(wishes, pool)
    assert [(v.name, v.size) for v in found] == [
        ("system", 60 * GIB),
        (None, 20 * GIB),
        ("data", None),
    ]
    # The disks that are to be used up are left alone while there are others.
    assert [names(v) for v in found] == ["D0 D1", "D2", "D0 D1"]


def test_disks_for_a_shared_max_are_used_when_there_are_no_others():
    wishes = [wish("1", "MAX", disks=[0, 1], shared=True), wish("1", 30, shared=True)]
    assert [names(v) for v in plan(wishes, disks(2))] == ["D0 D1", "D0 D1"]
    with pytest.raises(DoesNotFit, match=r"room for 0 GiB in RAID 1, not for MAX"):
        plan([wishes[0], wish("1", 100, shared=True)], disks(2))
    with pytest.raises(DoesNotFit, match="volume 2: nothing suits"):
        plan([wish("1", "MAX", disks=[0, 1]), wish("1", 30, shared=True)], disks(2))


def test_a_size_that_the_named_disks_do_not_hold_is_refused():
    with pytest.raises(DoesNotFit, match="have room for 100 GiB in RAID 1, not for 101"):
        plan([wish("1", 101, disks=[0, 1])], disks(2))


def test_a_later_volume_makes_an_earlier_one_move():
    # The first would take two of the three disks that the second needs.
    pool = disks(3, 100) + disks(2, 200, start=3)
    first, second = plan([wish("1", 50), wish("5", 150)], pool)
    assert names(first) == "D3 D4"
    assert names(second) == "D0 D1 D2"


def test_a_search_that_would_never_end_gives_up():
    wishes = [wish("0", 37 + n, shared=True) for n in range(16)]
    with pytest.raises(DoesNotFit, match="do not fit together"):
        plan(wishes, disks(7))
