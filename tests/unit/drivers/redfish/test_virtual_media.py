"""Virtual media at a scripted BMC."""

from __future__ import annotations

import copy

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.virtual_media import EJECT, INSERT
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


def changed(device, **values):
    """A slot with other values; None takes one away."""
    kept = {name: value for name, value in {**device, **values}.items() if value is not ...}
    return kept


#: Slots that take no CD, by what is odd with them: what they show, what they answer, and
#: what is told of them (None: nothing, they are for something else).
ODD_SLOTS = {
    "for sticks": (slot(1, "USBStick"), None, None),
    "for floppies": (slot(1, "Floppy"), None, None),
    "no types": (changed(slot(1), MediaTypes=[]), None, None),
    "null types": (changed(slot(1), MediaTypes=None), None, None),
    "types absent": (changed(slot(1), MediaTypes=...), None, None),
    "unknown types": (slot(1, "Foo"), None, None),
    "no actions": (changed(slot(1, "CD"), Actions={}), None, "no insert action"),
    "null actions": (changed(slot(1, "CD"), Actions=None), None, "no insert action"),
    "actions absent": (changed(slot(1, "CD"), Actions=...), None, "no insert action"),
    "null action": (changed(slot(1, "CD"), Actions={INSERT: None}), None, "no insert action"),
    "empty action": (
        changed(slot(1, "CD"), Actions={INSERT: {}}),
        None,
        "InsertMedia/target is missing",
    ),
    "null target": (
        changed(slot(1, "CD"), Actions={INSERT: {"target": None}}),
        None,
        "no insert action",
    ),
    "only eject": (
        changed(slot(1, "CD"), Actions={EJECT: {"target": "/x"}}),
        None,
        "no insert action",
    ),
    "answers 400": (slot(1, "CD"), Answer(400, error("bad image")), "bad image"),
    "answers 404": (slot(1, "CD"), Answer(404, error("nothing")), "not found"),
    "answers 405": (slot(1, "CD"), Answer(405, error("local only")), "local only"),
    "answers 500": (slot(1, "CD"), Answer(500, error("broken")), "broken"),
    "answers 501": (slot(1, "CD"), Answer(501, error("not made")), "not made"),
}


@pytest.fixture(params=ODD_SLOTS)
def odd(request, bmc):
    """(its document, what is told of it); the other slots are up to the test."""
    document, answer, told = ODD_SLOTS[request.param]
    if answer is not None:
        bmc.script("POST", "VirtualMedia/1/", answer)
    return copy.deepcopy(document), told


@pytest.mark.parametrize("good", [("CD",), ("DVD",), ("CD", "DVD", "Foo"), ("Foo", None, "DVD")])
def test_an_odd_slot_is_passed_over(bmc, task, management, clock, odd, good):
    """K06/46: the first usable slot in order wins, and is the one that is ejected."""
    paths = slots(bmc, odd[0], slot(2, *good), slot(3, "CD"))
    insert(task, management)
    assert [bool(bmc.tree[path].get("Inserted")) for path in paths] == [False, True, False]
    management.detach_virtual_media(task, ["cdrom"])
    assert not any(bmc.tree[path].get("Inserted") for path in paths)
    assert {request.path.split("/")[-3] for request in bmc.asked("POST", "EjectMedia")} == {"2"}


def test_an_odd_slot_alone_is_an_error_that_tells_why(bmc, task, management, clock, odd):
    slots(bmc, odd[0])
    with pytest.raises(errors.InvalidParameterValue) as raised:
        insert(task, management)
    text = str(raised.value)
    assert task.node.uuid in text
    assert URL in text
    if odd[1] is None:
        assert "no slot for it" in text
    else:
        assert f"{SYSTEM}/VirtualMedia/1: " in text
        assert odd[1] in text


@pytest.mark.parametrize("name", ["no actions", "null actions", "actions absent", "null action"])
def test_what_nobody_can_eject_stops_nothing_elsewhere(bmc, task, management, name):
    """A slot for the local console holds something: it is not ours."""
    local = {**copy.deepcopy(ODD_SLOTS[name][0]), "Inserted": True, "Image": "local.iso"}
    paths = slots(bmc, local, slot(2, "CD"))
    insert(task, management)
    assert bmc.tree[paths[1]]["Inserted"] is True
    management.detach_virtual_media(task, ["cdrom"])
    assert [bmc.tree[path]["Inserted"] for path in paths] == [True, False]


@pytest.mark.parametrize("eject", [None, {"target": None}], ids=str)
def test_a_slot_that_takes_media_and_never_gives_them_back_is_an_error(
    bmc, task, management, eject
):
    full = {**slot(1, "CD"), "Inserted": True, "Image": URL}
    full["Actions"][EJECT] = eject
    paths = slots(bmc, full, {**slot(2, "CD"), "Inserted": True, "Image": URL})
    with pytest.raises(errors.RedfishError, match="EjectMedia") as raised:
        management.detach_virtual_media(task, ["cdrom"])
    assert paths[0] in str(raised.value)
    assert bmc.tree[paths[1]]["Inserted"] is False, "the others are ejected all the same"


def test_a_slot_that_is_nonsense_hides_no_other(bmc, task, management):
    """An action without target, a document that is a list."""
    paths = slots(bmc, slot(1, "CD"), slot(2, "CD"), slot(3, "CD"))
    bmc.tree[paths[0]]["Actions"][INSERT] = {}
    bmc.tree[paths[1]] = [1]
    insert(task, management)
    shown = management.get_virtual_media(task)
    assert [device["image"] for device in shown] == [URL]
    management.detach_virtual_media(task)
    assert bmc.tree[paths[2]]["Inserted"] is False


def test_a_bmc_that_means_its_first_slot_only_gets_media_there(bmc, task, management):
    task.node.properties["vendor"] = "Dell Inc."
    bmc.tree[MANAGER]["Model"] = "17G Monolithic"
    paths = slots(bmc, slot(2, "CD"), slot(1, "CD"))
    insert(task, management)
    assert [bmc.tree[path]["Inserted"] for path in paths] == [False, True]
