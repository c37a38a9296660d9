"""Virtual media at a scripted BMC."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from tests.harness.bmc import CD, FLOPPY, MANAGER, SYSTEM, Answer, collection, error, link, media

URL = "http://192.0.2.1:8080/redfish/boot-1.iso"


@pytest.fixture
def management(task):
    return task.driver.management


def slots(bmc, *devices):
    """Replace the slots of the system; a slot is what :func:`media` makes."""
    paths = [device["@odata.id"] for device in devices]
    bmc.tree[f"{SYSTEM}/VirtualMedia"] = collection(*paths)
    for device in devices:
        bmc.tree[device["@odata.id"]] = device
    return paths


def slot(number, *types, action=True):
    return media(f"{SYSTEM}/VirtualMedia/{number}", *types, action=action)


def insert(task, management, kind="cdrom"):
    management.attach_virtual_media(task, kind, URL)


@pytest.mark.parametrize(("kind", "path"), [("cdrom", CD), ("disk", FLOPPY), ("floppy", FLOPPY)])
def test_insert_show_eject(bmc, task, management, kind, path):
    insert(task, management, kind)
    assert bmc.tree[path]["Image"] == URL
    assert {"media_types", "inserted", "image"} == set(management.get_virtual_media(task)[0])
    assert [d["image"] for d in management.get_virtual_media(task) if d["inserted"]] == [URL]
    management.detach_virtual_media(task)
    assert not any(d["inserted"] for d in management.get_virtual_media(task))


def test_only_the_named_types_are_ejected(bmc, task, management):
    insert(task, management, "cdrom")
    insert(task, management, "disk")
    management.detach_virtual_media(task, ["cdrom"])
    assert (bmc.tree[CD]["Inserted"], bmc.tree[FLOPPY]["Inserted"]) == (False, True)


def test_eject_comes_before_insert_even_for_the_same_url(bmc, task, management):
    insert(task, management)
    # This BMC goes on saying that the old medium is in.
    bmc.script("POST", "EjectMedia", Answer(204))
    insert(task, management)
    actions = [request.path.rpartition(".")[2] for request in bmc.asked("POST")]
    assert actions == ["InsertMedia", "EjectMedia", "InsertMedia"]


def test_a_failing_eject_does_not_stop_the_insert(bmc, task, management):
    insert(task, management)
    bmc.script("POST", "EjectMedia", Answer(500, error("stuck")))
    insert(task, management)
    assert len(bmc.asked("POST", "InsertMedia")) == 2


def test_a_dvd_drive_takes_a_cd(bmc, task, management):
    (path,) = slots(bmc, slot(1, "DVD"))
    insert(task, management)
    assert bmc.tree[path]["Image"] == URL


def test_the_first_usable_slot_in_order_wins(bmc, task, management):
    paths = slots(
        bmc,
        slot(1, "USBStick"),
        slot(2, "CD", action=False),
        slot(3, "CD"),
        slot(4, "CD", "DVD", "Foo"),
        slot(5, "CD"),
    )
    bmc.script("POST", "VirtualMedia/3/", Answer(405, error("not this one")))
    insert(task, management)
    assert [bmc.tree[path]["Inserted"] for path in paths] == [False, False, False, True, False]
    management.detach_virtual_media(task, ["cdrom"])
    assert bmc.asked("POST", "VirtualMedia/4/Actions/VirtualMedia.EjectMedia")


@pytest.mark.parametrize("types", [None, [], ["Foo"]], ids=str)
def test_a_slot_of_no_known_type_is_passed_over(bmc, task, management, types):
    strange = slot(1)
    strange["MediaTypes"] = types
    paths = slots(bmc, strange, slot(2, "CD"))
    insert(task, management)
    assert bmc.tree[paths[1]]["Inserted"] is True


def test_when_no_slot_takes_it_each_reason_is_told(bmc, task, management):
    slots(bmc, slot(1, "CD", action=False), slot(2, "CD"), slot(3, "USBStick"))
    bmc.script("POST", "VirtualMedia/2/", Answer(400, error("bad image")))
    with pytest.raises(errors.InvalidParameterValue) as raised:
        insert(task, management)
    text = str(raised.value)
    assert task.node.uuid in text
    assert URL in text
    assert "VirtualMedia/1: it has no insert action" in text
    assert "VirtualMedia/2: " in text and "bad image" in text
    assert "VirtualMedia/3" not in text


def test_credentials_of_an_image_are_in_no_text(bmc, task, management, caplog):
    caplog.set_level("INFO")
    url = "http://user:canary@images/live.iso?token=canary"
    management.attach_virtual_media(task, "cdrom", url)
    assert bmc.tree[CD]["Image"] == url
    assert "http://images/live.iso inserted" in caplog.text
    bmc.script("POST", "InsertMedia", Answer(400, error("no")))
    with pytest.raises(errors.InvalidParameterValue) as caught:
        management.attach_virtual_media(task, "cdrom", url)
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("ironic_rs")]
    assert "canary" not in f"{caught.value} {ours}"


def test_a_bmc_without_such_a_slot(bmc, task, management):
    slots(bmc, slot(1, "USBStick"))
    with pytest.raises(errors.InvalidParameterValue, match="no slot for it"):
        insert(task, management)


def test_a_server_error_is_tried_again(bmc, task, management, clock):
    bmc.script("POST", "InsertMedia", Answer(500, error("later")), times=2)
    insert(task, management)
    assert clock.slept == [3, 3]
    assert bmc.tree[CD]["Inserted"] is True


def test_server_errors_for_ever_end(bmc, task, management, clock):
    bmc.script("POST", "InsertMedia", Answer(500, error("never")))
    with pytest.raises(errors.InvalidParameterValue, match="never"):
        insert(task, management)
    assert len(bmc.asked("POST", "InsertMedia")) == 3


def test_other_refusals_end_at_once(bmc, task, management):
    bmc.script("POST", "InsertMedia", Answer(403, error("licence")))
    with pytest.raises(errors.RedfishError, match="licence"):
        insert(task, management)


def test_media_of_the_manager_are_used_when_the_system_shows_none(bmc, task, management):
    path = f"{MANAGER}/VirtualMedia/1"
    del bmc.system["VirtualMedia"]
    bmc.tree[MANAGER]["VirtualMedia"] = link(f"{MANAGER}/VirtualMedia")
    bmc.tree[f"{MANAGER}/VirtualMedia"] = collection(path)
    bmc.tree[path] = media(path, "CD")
    insert(task, management)
    assert bmc.tree[path]["Inserted"] is True
    management.detach_virtual_media(task, ["cdrom"])
    assert bmc.tree[path]["Inserted"] is False


def test_what_the_manager_shows_is_ejected_too(bmc, task, management):
    path = f"{MANAGER}/VirtualMedia/1"
    bmc.tree[MANAGER]["VirtualMedia"] = link(f"{MANAGER}/VirtualMedia")
    bmc.tree[f"{MANAGER}/VirtualMedia"] = collection(path)
    bmc.tree[path] = {**media(path, "CD"), "Inserted": True}
    management.detach_virtual_media(task, ["cdrom"])
    assert bmc.tree[path]["Inserted"] is False


class TestPolling:
    @pytest.fixture(autouse=True)
    def polling(self, config):
        config("redfish", enable_vmedia_insert_polling=True)

    def test_waits_until_the_bmc_says_so(self, bmc, task, management, clock):
        def late(_request):
            bmc.tree[CD]["Inserted"] = bool(bmc.tree[CD]["Image"]) and len(clock.slept) >= 3

        bmc.script("GET", "Cd$", late)
        insert(task, management)
        assert clock.slept == [2, 2, 2]

    def test_ends_at_the_timeout(self, bmc, task, management, clock):
        bmc.script("POST", "InsertMedia", Answer(204))
        with pytest.raises(errors.RedfishError, match="not inserted after 60 s"):
            insert(task, management)
        assert sum(clock.slept) == 60

    def test_tells_what_the_task_of_the_bmc_says(self, bmc, task, management, clock):
        monitor = "/redfish/v1/TaskService/Tasks/7"
        bmc.script("POST", "InsertMedia", Answer(202, {}, {"Location": monitor}))

        def progress(_request):
            failed = len(clock.slept) >= 2
            return Answer(
                200,
                {
                    "Id": "7",
                    "Name": "insert",
                    "TaskState": "Exception" if failed else "Running",
                    "Messages": [{"MessageId": "x", "Message": "image not reachable"}],
                },
            )

        bmc.script("GET", "Tasks/7$", progress)
        with pytest.raises(errors.RedfishError, match="image not reachable"):
            insert(task, management)
        assert clock.slept == [2, 2]


def test_an_unknown_type_is_refused(task, management):
    with pytest.raises(errors.InvalidParameterValue, match="tape"):
        management.attach_virtual_media(task, "tape", URL)


@pytest.mark.parametrize("status", [403, 409, 500])
def test_a_refused_eject_is_an_error_that_quotes_the_bmc(bmc, task, management, status):
    insert(task, management)
    bmc.script("POST", "EjectMedia", Answer(status, error("medium is in use")))
    with pytest.raises(errors.RedfishError, match="medium is in use"):
        management.detach_virtual_media(task, ["cdrom"])


def test_an_eject_that_is_refused_because_nothing_is_there_is_none(bmc, task, management):
    insert(task, management)

    def empty(_request):
        bmc.tree[CD].update(Inserted=False, Image="")
        return Answer(409, error("no medium"))

    bmc.script("POST", "EjectMedia", empty)
    management.detach_virtual_media(task, ["cdrom"])
