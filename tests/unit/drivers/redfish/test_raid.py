"""RAID volumes, at the wire of a scripted BMC (field case 94)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from oslo_utils import units

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import raid_progress
from ironic_rs.drivers.redfish.raid import RedfishRAID
from ironic_rs.drivers.redfish.raid_progress import PROOF_LIMIT
from tests.harness.bmc import SYSTEM, Answer, Bmc, Request, collection, error, link
from tests.unit.drivers import kit
from tests.unit.drivers.redfish.conftest import Clock

STORAGE = f"{SYSTEM}/Storage"
TASKS = "/redfish/v1/TaskService/Tasks"


class Array:
    """RAID controllers of a scripted BMC.

    ``add`` makes one; what is asked of it is done at once, or when its task ``ends``.
    """

    def __init__(self, bmc: Bmc) -> None:
        self.bmc = bmc
        self.asked: list[Request] = []
        #: False: a request is refused while a task runs.
        self.patient = True
        #: True: the connection breaks in place of an answer to a request.
        self.mute = False
        self._later: list[tuple[str, Callable[[], None]]] = []
        self._with_tasks: dict[str, bool] = {}
        self._numbers = 0
        bmc.system["Storage"] = link(STORAGE)
        bmc.tree[STORAGE] = collection()
        bmc.script("POST", r"/Volumes$", self._create)
        bmc.script("DELETE", r"/Volumes/", self._delete)

    def add(
        self,
        name: str,
        times: tuple[str, ...] = ("Immediate",),
        *,
        disks: int = 4,
        tasks: bool = True,
        volumes: bool = True,
        **controller: Any,
    ) -> None:
        """Add a controller with disks of 100 GiB.

        :param times: apply times that it knows; () means that it tells none.
        :param tasks: False: it has done everything when it answers.
        """
        path = f"{STORAGE}/{name}"
        self._with_tasks[name] = tasks
        drives = [f"{path}/Drives/D{n}" for n in range(disks)]
        for drive in drives:
            self.bmc.tree[drive] = {
                **link(drive),
                "Id": drive.rpartition("/")[2],
                "CapacityBytes": 100 * units.Gi,
                "MediaType": "SSD",
                "Protocol": "SAS",
                "Links": {"Volumes": []},
            }
        types = ["RAID0", "RAID1", "RAID5", "RAID6", "RAID10", "RAID50", "RAID60"]
        self.bmc.tree[path] = {
            **link(path),
            "Id": name,
            "Name": name,
            "Drives": [link(drive) for drive in drives],
            "StorageControllers": [
                {"MemberId": "0", "Name": name, "SupportedRAIDTypes": types, **controller}
            ],
        }
        if volumes:
            self.bmc.tree[path]["Volumes"] = link(f"{path}/Volumes")
            self.bmc.tree[f"{path}/Volumes"] = collection()
            if times:
                support = {"SupportedValues": list(times)}
                self.bmc.tree[f"{path}/Volumes"]["@Redfish.OperationApplyTimeSupport"] = support
        self.bmc.tree[STORAGE]["Members"].append(link(path))

    def volume(self, controller: str, raid_type: str | None = "RAID1", **more: Any) -> str:
        """Have a volume; returns its id."""
        self._numbers += 1
        volumes = f"{STORAGE}/{controller}/Volumes"
        path = f"{volumes}/V{self._numbers}"
        drives = more.pop("drives", [f"{STORAGE}/{controller}/Drives/D{n}" for n in (0, 1)])
        self.bmc.tree[path] = {
            **link(path),
            "Id": f"V{self._numbers}",
            "Name": f"Virtual disk {self._numbers}",
            "RAIDType": raid_type,
            "CapacityBytes": 50 * units.Gi,
            "Links": {"Drives": [link(drive) for drive in drives]},
            **more,
        }
        self.bmc.tree[volumes]["Members"].append(link(path))
        return f"V{self._numbers}"

    def ids(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.bmc.tree if "/Volumes/V" in path)

    def running(self) -> list[str]:
        """Paths of the tasks that have not ended."""
        return [path for path, _do in self._later]

    def ends(
        self, state: str = "Completed", text: str = "", *, gone: bool = False, first: bool = False
    ) -> None:
        """End all tasks, or the first: with success and what they were to do, or as told."""
        count = 1 if first else len(self._later)
        later, self._later = self._later[:count], self._later[count:]
        for path, do in later:
            if state == "Completed":
                do()
            if gone:
                del self.bmc.tree[path]
                continue
            self.bmc.tree[path] |= {
                "TaskState": state,
                "TaskStatus": "OK" if state == "Completed" else "Critical",
                "Messages": [{"MessageId": "X.1.0.Y", "Message": text}] if text else [],
            }

    def _task(self, do: Callable[[], None]) -> Answer:
        self._numbers += 1
        path = f"{TASKS}/{self._numbers}"
        self.bmc.tree[path] = {
            "Id": str(self._numbers),
            "Name": "Volume",
            "TaskState": "Running",
            "TaskStatus": "OK",
        }
        self._later.append((path, do))
        return Answer(202, {}, {"Location": path})

    def _create(self, request: Request) -> Answer:
        self.asked.append(request)
        name = request.path.split("/")[-2]

        def do() -> None:
            self.volume(
                name,
                request.body["RAIDType"],
                drives=[drive["@odata.id"] for drive in request.body["Links"]["Drives"]],
                CapacityBytes=request.body.get("CapacityBytes", 99 * units.Gi),
                **{k: v for k, v in request.body.items() if k == "Name"},
            )

        if self._with_tasks[name]:
            return self._task(do)
        do()
        if self.mute:
            return Answer(close=True)
        return Answer(201, {}, {"Location": f"{request.path}/V{self._numbers}"})

    def _delete(self, request: Request) -> Answer:
        if self._later and not self.patient:
            return Answer(409, error("a job is running"))
        self.asked.append(request)
        volumes, _, _identity = request.path.rpartition("/")

        def do() -> None:
            self.bmc.tree.pop(request.path, None)
            members = self.bmc.tree[volumes]["Members"]
            if link(request.path) in members:
                members.remove(link(request.path))

        if self._with_tasks[request.path.split("/")[-3]]:
            return self._task(do)
        do()
        return Answer(204)


@pytest.fixture
def array(bmc):
    return Array(bmc)


@pytest.fixture
def task(make_task, bmc, clock: Clock, monkeypatch):
    monkeypatch.setattr(raid_progress, "time", clock)
    step = {"interface": "raid", "step": "create_configuration"}
    task = make_task(bmc, service_step=step, provision_state=states.SERVICING)
    task.node.driver_internal_info["service_disable_ramdisk"] = True
    task.driver.raid = RedfishRAID()
    return task


@pytest.fixture
def create(task):
    """Create volumes as the step does; returns what it returned."""

    def run(*disks: dict[str, Any], **arguments: Any) -> str | None:
        task.node.target_raid_config = {"logical_disks": list(disks)}
        return _wait(task, task.driver.raid.create_configuration(task, **arguments))

    return run


@pytest.fixture
def delete(task):
    return lambda: _wait(task, task.driver.raid.delete_configuration(task))


def _wait(task: kit.Task, result: str | None) -> str | None:
    if result is not None:
        assert result == states.SERVICEWAIT
        task.node.provision_state = states.SERVICEWAIT
        assert task.node.driver_internal_info["servicing_polling"] is True
        assert task.node.driver_internal_info["skip_current_service_step"] is True
    return result


@pytest.fixture
def poll(task):
    """Run the periodic; returns what it asked of the flows, a reboot as one call."""

    def run() -> list[Any]:
        task.flows.calls.clear()
        task.shared = True
        task.driver.raid._query_raid_config_status(task)
        return reboots(task) + [
            call[0] for call in task.flows.calls if call[0] in ("resume", "fail", "touch")
        ]

    return run


def reboots(task: kit.Task) -> list[Any]:
    return [call[1] for call in task.flows.calls if call == ("power", states.REBOOT)]


def failure(task: kit.Task) -> str:
    (text,) = [call[2] for call in task.flows.calls if call[0] == "fail"]
    return str(text)


def shown(task: kit.Task) -> list[tuple[Any, ...]]:
    """What raid_config has of each volume."""
    return [
        (disk["controller"], disk["id"], disk["raid_level"], disk["size_gb"])
        for disk in task.node.raid_config["logical_disks"]
    ]


def wish(level: str = "1", size: Any = 50, **more: Any) -> dict[str, Any]:
    return {"raid_level": level, "size_gb": size, **more}


# -- creating -----------------------------------------------------------------------


def test_a_bmc_without_tasks_has_created_all_when_the_step_ends(task, array, create):
    array.add("R1", tasks=False)
    assert create(wish(volume_name="sys", is_root_volume=True), wish("1", 20)) is None
    first, second = array.asked
    drives = [link(f"{STORAGE}/R1/Drives/D{n}") for n in (0, 1)]
    assert first.body == {
        "RAIDType": "RAID1",
        "CapacityBytes": 50 * units.Gi,
        "Name": "sys",
        "Links": {"Drives": drives},
        "@Redfish.OperationApplyTime": "Immediate",
    }
    assert "Name" not in second.body
    assert shown(task) == [("R1", "V1", "1", 50), ("R1", "V2", "1", 20)]
    assert task.node.raid_config["logical_disks"][0]["name"] == "sys"
    assert task.node.raid_config["logical_disks"][0]["is_root_volume"] is True
    assert "is_root_volume" not in task.node.raid_config["logical_disks"][1]
    assert task.node.raid_config["last_updated"]
    assert task.node.properties["local_gb"] == 50
    assert task.node.properties["capabilities"] == "raid_level:1"
    assert "raid_configs" not in task.node.driver_internal_info
    assert not reboots(task)


def test_tasks_are_followed_one_volume_after_the_other(task, array, create, poll):
    array.add("R1")
    assert create(wish(), wish("1", 20)) == states.SERVICEWAIT
    assert len(array.asked) == 1
    assert poll() == []
    array.ends()
    assert poll() == ["touch"]
    assert len(array.asked) == 2
    array.ends()
    assert poll() == ["resume"]
    assert shown(task) == [("R1", "V2", "1", 50), ("R1", "V4", "1", 20)]
    assert "raid_configs" not in task.node.driver_internal_info


def test_a_controller_that_needs_a_boot_gets_one_for_each_volume(task, array, create, poll):
    array.add("R1", ("OnReset",))
    assert create(wish(), wish("1", 20)) == states.SERVICEWAIT
    assert array.asked[0].body["@Redfish.OperationApplyTime"] == "OnReset"
    assert reboots(task) == [states.REBOOT]
    assert poll() == []
    array.ends()
    assert poll() == [states.REBOOT, "touch"]
    array.ends()
    assert poll() == ["resume"]
    assert len(task.node.raid_config["logical_disks"]) == 2


def test_a_size_of_max_is_not_sent(task, array, create):
    array.add("R1", tasks=False)
    disks = {"controller": "R1", "physical_disks": ["D2", "D3"]}
    assert create(wish("1", "MAX", **disks)) is None
    assert "CapacityBytes" not in array.asked[0].body
    assert array.asked[0].body["Links"]["Drives"][0] == link(f"{STORAGE}/R1/Drives/D2")
    assert shown(task) == [("R1", "V1", "1", 99)]


def test_max_volumes_on_shared_disks_are_created_last(array, create):
    array.add("R1", tasks=False)
    disks = {"controller": "R1", "physical_disks": ["D0", "D1"], "share_physical_disks": True}
    assert create(wish("1", "MAX", **disks), wish("1", 40, **disks)) is None
    sizes = [request.body.get("CapacityBytes") for request in array.asked]
    assert sizes == [40 * units.Gi, None]


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ([wish("5", "MAX")], "size MAX needs physical_disks"),
        ([wish("1", is_root_volume=True)] * 2, "2 root volumes"),
        (
            [wish("0", "MAX", controller="R1", physical_disks=["D0"], share_physical_disks=True)]
            * 2,
            "both want all of disk D0",
        ),
        ([wish("5", number_of_physical_disks=0)], "number_of_physical_disks"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(task, bmc, array, wishes, said):
    array.add("R1")
    config = {"logical_disks": wishes}
    for refuse in (
        lambda: task.driver.raid.validate_raid_config(task, config),
        lambda: task.driver.raid.apply_configuration(task, config),
    ):
        with pytest.raises(errors.InvalidParameterValue, match=said):
            refuse()
    task.node.target_raid_config = config
    with pytest.raises(errors.InvalidParameterValue, match=said):
        task.driver.raid.validate(task)
    assert not bmc.requests


def test_levels_are_refused_that_the_controller_does_not_offer(array, create):
    array.add("R1", SupportedRAIDTypes=["RAID0", "RAID1"])
    with pytest.raises(errors.RedfishError, match=r"does not fit node .*RAID 5.*RAID 0, 1\)"):
        create(wish("5"))
    assert not array.asked


def test_controllers_that_cannot_do_raid_have_no_disks(bmc, array, create):
    array.add("Pass", SupportedRAIDTypes=[], disks=8)
    array.add("NoVolumes", volumes=False, disks=8)
    array.add("DeadLink", disks=8)
    del bmc.tree[f"{STORAGE}/DeadLink/Volumes"]
    with pytest.raises(errors.RedfishError, match="no disks at a RAID controller"):
        create(wish("0"))


def test_a_controller_that_does_not_tell_its_levels_is_tried(array, create):
    array.add("R1", SupportedRAIDTypes=None, tasks=False)
    assert create(wish("5")) is None


def test_drives_that_do_not_work_are_not_used(bmc, array, create):
    array.add("R1", disks=5, tasks=False)
    for n, status in enumerate(
        [{"Health": "Critical"}, {"State": "StandbySpare"}, {"State": "Enabled", "Health": "OK"}]
    ):
        bmc.tree[f"{STORAGE}/R1/Drives/D{n}"]["Status"] = status
    del bmc.tree[f"{STORAGE}/R1/Drives/D3"]
    assert create(wish("0", number_of_physical_disks=2)) is None
    drives = array.asked[0].body["Links"]["Drives"]
    assert [drive["@odata.id"][-2:] for drive in drives] == ["D2", "D4"]
    with pytest.raises(errors.RedfishError, match=r"cannot use D0 \(health Critical\), D1 \(st"):
        create(wish("1", controller="R1", physical_disks=["D0", "D1"]))


def test_space_of_existing_volumes_is_left_alone(array, create):
    array.add("R1", disks=2, tasks=False)
    array.volume("R1")
    with pytest.raises(errors.RedfishError, match=r"2 x SSD SAS 100 GiB at R1 \(0 unused"):
        create(wish("1", 10))
    with pytest.raises(errors.RedfishError, match="nothing suits"):
        create(wish("1", 51, share_physical_disks=True))
    assert create(wish("1", 50, share_physical_disks=True)) is None


def test_drives_that_tell_their_volumes_count_as_well(bmc, array, create):
    array.add("R1", disks=2)
    volume = array.volume("R1", drives=[])
    bmc.tree[f"{STORAGE}/R1/Volumes/{volume}"]["Links"] = None
    for n in (0, 1):
        links = bmc.tree[f"{STORAGE}/R1/Drives/D{n}"]["Links"]
        links["Volumes"] = [link(f"{STORAGE}/R1/Volumes/{volume}")]
    with pytest.raises(errors.RedfishError, match="0 unused"):
        create(wish("1", 10))


def test_only_the_wanted_kind_of_volumes_is_created(task, array, create):
    array.add("R1", tasks=False)
    wishes = [wish("1", 10, is_root_volume=True), wish("1", 20)]
    assert create(*wishes, create_root_volume=False) is None
    assert [request.body["CapacityBytes"] for request in array.asked] == [20 * units.Gi]
    assert task.driver.raid.apply_configuration(task, {"logical_disks": wishes}) is None
    assert [request.body["CapacityBytes"] for request in array.asked[1:]] == [10 * units.Gi]
    assert task.node.target_raid_config == {"logical_disks": wishes}


# -- deleting -----------------------------------------------------------------------


def test_all_raid_volumes_of_all_controllers_are_deleted(task, array, delete, poll):
    array.add("R1")
    array.add("R2", ("OnReset",))
    array.add("NoVolumes", volumes=False)
    for controller in ("R1", "R1", "R2", "R2", "R2"):
        array.volume(controller)
    raw = array.volume("R2", None, VolumeType="RawDevice")
    none = array.volume("R2", "None")
    assert delete() == states.SERVICEWAIT
    # Both of the first at once, and one of those that need a boot.
    assert [request.path.split("/")[-3] for request in array.asked] == ["R1", "R1", "R2"]
    assert reboots(task) == [states.REBOOT]
    for _left in range(2):
        array.ends()
        assert poll() == [states.REBOOT, "touch"]
    assert len(array.asked) == 5
    array.ends()
    assert poll() == ["resume"]
    assert array.ids() == sorted([raw, none])
    assert shown(task) == []


def test_a_boot_that_works_on_volumes_is_not_broken_off(array, delete, poll):
    array.add("R1", ("OnReset",))
    array.add("R2", ("OnReset",))
    for controller in ("R1", "R1", "R2"):
        array.volume(controller)
    delete()
    # The first controller is done, and has more to do; the second is still at it.
    array.ends(first=True)
    assert poll() == ["touch"]
    assert len(array.asked) == 3
    array.ends(first=True)
    assert poll() == [states.REBOOT, "touch"]
    array.ends()
    assert poll() == ["resume"]


def test_nothing_to_delete_is_done_at_once(task, array, delete):
    array.add("R1")
    assert delete() is None
    assert not array.asked
    assert task.node.raid_config["logical_disks"] == []


def test_a_controller_that_takes_one_job_at_a_time_gets_the_next_later(array, delete, poll):
    array.add("R1")
    for _number in range(2):
        array.volume("R1")
    array.patient = False
    assert delete() == states.SERVICEWAIT
    assert len(array.asked) == 1
    array.ends()
    assert poll() == ["touch"]
    array.ends()
    assert poll() == ["resume"]
    assert array.ids() == []


def test_delete_existing_makes_room_first(task, array, create, poll):
    array.add("R1", disks=2)
    array.volume("R1")
    assert create(wish("1", 80), delete_existing=True) == states.SERVICEWAIT
    assert [request.method for request in array.asked] == ["DELETE"]
    array.ends()
    assert poll() == ["touch"]
    array.ends()
    assert poll() == ["resume"]
    assert [request.method for request in array.asked] == ["DELETE", "POST"]
    assert [disk[2:] for disk in shown(task)] == [("1", 80)]


def test_nothing_is_deleted_for_what_would_not_fit_either(array, create):
    array.add("R1", disks=2)
    array.volume("R1")
    with pytest.raises(errors.RedfishError, match="does not fit"):
        create(wish("5"), delete_existing=True)
    assert not array.asked


def test_a_bmc_that_shows_no_storage_while_the_machine_boots_has_not_deleted_it(
    bmc, array, delete, poll
):
    array.add("R1", ("OnReset",))
    array.volume("R1")
    delete()
    members = bmc.tree[STORAGE]["Members"]
    bmc.tree[STORAGE]["Members"] = []
    array.ends()
    assert poll() == []
    bmc.tree[STORAGE]["Members"] = members
    assert poll() == ["resume"]


# -- what may go wrong --------------------------------------------------------------


def test_a_task_that_fails_fails_the_step_with_the_words_of_the_bmc(task, array, create, poll):
    array.add("R1")
    create(wish(volume_name="sys"))
    array.ends("Exception", "the battery is empty")
    assert poll() == ["fail"]
    assert failure(task).endswith(
        "creating RAID volume 'sys' (RAID 1, 50 GiB, controller R1) failed: the battery is empty."
    )


@pytest.mark.parametrize("state", ["Cancelled", "Interrupted", "Killed"])
def test_a_task_that_ends_otherwise_is_no_success(task, array, delete, poll, state):
    array.add("R1")
    array.volume("R1")
    delete()
    array.ends(state)
    assert poll() == ["fail"]
    assert f"deleting RAID volume V1 of controller R1 failed: task state {state}" in failure(task)


def test_a_refusal_is_told_in_the_words_of_the_bmc(task, bmc, array, create, poll):
    array.add("R1")
    create(wish(), wish("1", 20))
    bmc.script("POST", r"/Volumes$", Answer(400, error("no licence for RAID")), first=True)
    array.ends()
    assert poll() == ["fail"]
    assert "(RAID 1, 20 GiB, controller R1) is refused by the BMC" in failure(task)
    assert "no licence for RAID" in failure(task)
    with pytest.raises(errors.RedfishError, match="no licence for RAID"):
        create(wish("0", 10))


def test_a_task_that_is_gone_is_believed_when_the_volume_is_there(array, create, poll):
    array.add("R1")
    create(wish())
    array.ends(gone=True)
    assert poll() == ["resume"]


def test_a_task_that_is_gone_without_a_volume_is_a_failure_at_last(
    task, array, create, poll, clock
):
    array.add("R1")
    create(wish())
    array.ends("lost", gone=True)
    assert poll() == []
    clock.skip(PROOF_LIMIT + 1)
    assert poll() == ["fail"]
    assert "there is no task for it, and after 901 s the BMC does not show the volume" in failure(
        task
    )


def test_a_volume_may_show_up_after_its_task(bmc, array, create, poll):
    array.add("R1")
    create(wish())
    volumes = bmc.tree[f"{STORAGE}/R1/Volumes"]
    bmc.tree[f"{STORAGE}/R1/Volumes"] = {**volumes, "Members": []}
    array.ends()
    late = bmc.tree[f"{STORAGE}/R1/Volumes"]
    bmc.tree[f"{STORAGE}/R1/Volumes"] = volumes
    assert poll() == []
    bmc.tree[f"{STORAGE}/R1/Volumes"] = late
    assert poll() == ["resume"]


def test_a_monitor_may_show_the_volume_in_place_of_its_task(bmc, array, create, poll):
    array.add("R1")
    create(wish())
    (monitor,) = array.running()
    array.ends()
    bmc.tree[monitor] = bmc.tree[f"{STORAGE}/R1/Volumes/V2"]
    assert poll() == ["resume"]


def test_a_monitor_may_answer_with_the_error_of_its_task(task, bmc, array, create, poll):
    array.add("R1")
    create(wish())
    (monitor,) = array.running()
    bmc.script("GET", re.escape(monitor), Answer(400, error("too many volumes")))
    assert poll() == ["fail"]
    assert "too many volumes" in failure(task)


def test_a_bmc_that_does_not_answer_is_asked_again(bmc, array, create, poll):
    array.add("R1")
    create(wish())
    bmc.script("GET", r"/Storage$", Answer(500, error("busy")), times=2)
    assert poll() == []
    array.ends()
    assert poll() == ["resume"]


def test_a_request_that_may_have_been_sent_is_not_sent_again(task, array, create, poll, clock):
    """The conductor died between writing it down and writing down the answer."""
    array.add("R1", ("OnReset",))
    create(wish())
    (job,) = task.node.driver_internal_info["raid_configs"]["jobs"]
    job.update(task_monitor_uri=None)
    del job["rebooted"]
    assert poll() == [states.REBOOT]
    assert poll() == []
    array.ends()
    assert poll() == ["resume"]
    assert len(array.asked) == 1


def test_a_lost_answer_is_no_failure_when_the_volume_shows(array, create, poll):
    array.add("R1")
    array.add("R2", tasks=False)
    array.volume("R1")
    create(wish(controller="R2"), delete_existing=True)
    array.ends()
    array.mute = True
    assert poll() == []
    assert poll() == ["resume"]
    assert [request.method for request in array.asked] == ["DELETE", "POST"]


def test_an_answer_lost_within_the_step_fails_it(array, create):
    array.add("R1", tasks=False)
    array.mute = True
    with pytest.raises(errors.RedfishConnectionError, match="No answer while creating RAID"):
        create(wish())


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_user_who_may_not_is_told_at_once(task, bmc, array, create, poll, status):
    array.add("R1")
    create(wish(), wish("1", 20))
    bmc.script("POST", r"/Volumes$", Answer(status, error("ask your boss")), first=True)
    array.ends()
    assert poll() == ["fail"]
    assert "ask your boss" in failure(task)


def test_a_volume_that_vanishes_before_it_is_deleted_is_deleted(bmc, array, delete):
    array.add("R1", tasks=False)
    array.volume("R1")

    def vanish(request: Request) -> Answer:
        del bmc.tree[request.path]
        bmc.tree[f"{STORAGE}/R1/Volumes"]["Members"] = []
        return Answer(404, error("which volume?"))

    bmc.script("DELETE", r"/Volumes/", vanish, first=True)
    assert delete() is None
    assert array.ids() == []


def test_a_reboot_that_fails_fails_the_step(task, array, create, poll):
    array.add("R1", ("OnReset",))
    create(wish(), wish("1", 20))
    array.ends()
    task.flows.errors["power"] = errors.PowerStateFailure(pstate=states.REBOOT)
    assert poll() == [states.REBOOT, "fail"]
    assert "cannot be rebooted for its RAID volumes" in failure(task)


def test_what_other_software_has_begun_is_not_followed(task, array, create, poll):
    array.add("R1")
    create(wish())
    state = {"operation": "create", "pending": {}, "task_monitor_uri": ["/x"]}
    task.node.driver_internal_info["raid_configs"] = state
    assert poll() == ["fail"]
    assert "noted by other software" in failure(task)


def test_a_step_that_is_over_leaves_other_steps_alone(task, array, create, poll):
    array.add("R1")
    create(wish())
    task.node.service_step = {"interface": "deploy", "step": "burnin_cpu"}
    array.ends()
    assert poll() == []


def test_volumes_of_a_failed_flow_are_looked_up(task, bmc, array, create):
    array.add("R1", disks=6)
    create(wish(), wish("1", 20))
    array.ends()
    task.node.provision_state = states.SERVICEFAIL
    task.shared = True
    bmc.script("GET", r"/Storage$", Answer(500, error("oops")), times=2)
    task.driver.raid._query_raid_config_failed(task)
    assert "raid_configs" in task.node.driver_internal_info
    task.driver.raid._query_raid_config_failed(task)
    assert "raid_configs" not in task.node.driver_internal_info
    assert shown(task) == [("R1", "V2", "1", 50)]


def test_raid_config_shows_levels_that_we_do_not_create(task, array, delete):
    array.add("R1")
    array.volume("R1", "RAID1E")
    array.volume("R1", None, VolumeType="Mirrored")
    task.node.provision_state = states.SERVICEFAIL
    task.node.driver_internal_info["raid_configs"] = {"operation": "create"}
    task.driver.raid._query_raid_config_failed(task)
    assert shown(task) == [("R1", "V1", "RAID1E", 50), ("R1", "V2", "1", 50)]


def test_a_machine_without_storage_is_told(task, bmc):
    with pytest.raises(errors.RedfishError, match="Storage"):
        task.driver.raid.delete_configuration(task)
