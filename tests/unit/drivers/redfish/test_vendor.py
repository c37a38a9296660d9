"""Vendor methods at a scripted BMC."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.vendor import RedfishVendor
from tests.harness.bmc import CD, FLOPPY, ROOT, Answer, collection, error, link

SERVICE = f"{ROOT}/EventService"
SUBSCRIPTIONS = f"{SERVICE}/Subscriptions"
DESTINATION = "https://192.0.2.1/events"


@pytest.fixture
def vendor(task):
    return RedfishVendor()


def offer_events(bmc, **properties):
    """Give the BMC an event service that makes subscription 7 of what it is sent."""
    bmc.tree[ROOT]["EventService"] = link(SERVICE)
    bmc.tree[SERVICE] = {
        "Id": "EventService",
        "Name": "events",
        "Subscriptions": link(SUBSCRIPTIONS),
        "Actions": {},
        **properties,
    }
    bmc.tree[SUBSCRIPTIONS] = collection()

    def subscribe(request):
        path = f"{SUBSCRIPTIONS}/7"
        bmc.tree[path] = {**link(path), "Id": "7", "Name": "s", **request.body}
        bmc.tree[SUBSCRIPTIONS] = collection(path)
        return Answer(201, bmc.tree[path], {"Location": path} if bmc.tells else {})

    bmc.tells = True
    bmc.script("POST", f"{SUBSCRIPTIONS}$", subscribe)


def call(vendor, task, method, http_method="POST", **arguments):
    vendor.validate(task, method, http_method=http_method, **arguments)
    return getattr(vendor, method)(task, http_method=http_method, **arguments)


@pytest.mark.parametrize(
    ("boot_device", "left"),
    [(None, []), ("cdrom", [FLOPPY]), ("CD", [FLOPPY]), ("usbstick", [CD]), ("floppy", [CD])],
)
def test_virtual_media_are_ejected_by_kind_or_all(bmc, task, vendor, boot_device, left):
    for path in (CD, FLOPPY):
        bmc.tree[path].update(Image="http://192.0.2.1/image", Inserted=True)
    given = {} if boot_device is None else {"boot_device": boot_device}
    call(vendor, task, "eject_vmedia", **given)
    assert [path for path in (CD, FLOPPY) if bmc.tree[path]["Inserted"]] == left


@pytest.mark.parametrize(
    ("method", "arguments", "told"),
    [
        ("eject_vmedia", {"boot_device": "tape"}, "boot_device is 'tape', expected one of"),
        ("eject_vmedia", {"boot_device": 1}, "boot_device is 1"),
        ("eject_vmedia", {"device": "cdrom"}, "no argument 'device'; it takes boot_device"),
        ("create_subscription", {}, "needs a Destination"),
        ("create_subscription", {"Destination": 5}, "Destination is 5"),
        ("create_subscription", {"Destination": "host/path"}, "expected a URI"),
        ("create_subscription", {"Destination": "https://[::1/"}, "expected a URI"),
        ("create_subscription", {"Destination": DESTINATION, "Protocol": 1}, "Protocol is 1"),
        ("create_subscription", {"Destination": DESTINATION, "Context": None}, "Context is None"),
        ("create_subscription", {"Destination": DESTINATION, "EventTypes": "Alert"}, "EventTypes"),
        ("create_subscription", {"Destination": DESTINATION, "EventTypes": []}, "EventTypes"),
        ("create_subscription", {"Destination": DESTINATION, "HttpHeaders": {}}, "HttpHeaders"),
        ("create_subscription", {"Destination": DESTINATION, "Id": "7"}, "no argument 'Id'"),
        ("get_subscription", {}, "id is None"),
        ("delete_subscription", {"id": 7}, "id is 7"),
        ("get_all_subscriptions", {"id": "7"}, "no argument 'id'; it takes none"),
    ],
)
def test_bad_arguments_are_refused_before_the_bmc_is_asked(
    bmc, task, vendor, method, arguments, told
):
    with pytest.raises(errors.InvalidParameterValue, match=told):
        vendor.validate(task, method, http_method="POST", **arguments)
    assert bmc.asked() == []


def test_a_secret_header_is_not_repeated_by_the_error(task, vendor):
    with pytest.raises(errors.InvalidParameterValue) as caught:
        vendor.validate(
            task,
            "create_subscription",
            Destination=DESTINATION,
            HttpHeaders=[{"Authorization": "Basic hush"}, "Basic hush"],
        )
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("tells", [True, False])
def test_a_subscription_is_made_shown_and_deleted(bmc, task, vendor, tells):
    offer_events(bmc)
    bmc.tells = tells
    headers = [{"X-Token": "hush"}]
    made = call(
        vendor,
        task,
        "create_subscription",
        Destination=DESTINATION,
        EventTypes=["Alert", "Other"],
        HttpHeaders=headers,
    )
    assert made == {
        "Id": "7",
        "Context": "",
        "Protocol": "Redfish",
        "Destination": DESTINATION,
        "EventTypes": ["Alert", "Other"],
    }
    (request,) = bmc.asked("POST", SUBSCRIPTIONS)
    assert request.body["HttpHeaders"] == headers
    assert call(vendor, task, "get_subscription", "GET", id="7") == made
    everything = call(vendor, task, "get_all_subscriptions", "GET")
    assert everything == bmc.tree[SUBSCRIPTIONS]

    bmc.script("DELETE", f"{SUBSCRIPTIONS}/7$", Answer(204))
    assert call(vendor, task, "delete_subscription", "DELETE", id="7") is None
    assert len(bmc.asked("DELETE", f"{SUBSCRIPTIONS}/7$")) == 1


def test_alerts_are_asked_for_when_nothing_is_said(bmc, task, vendor):
    offer_events(bmc)
    made = call(vendor, task, "create_subscription", Destination=DESTINATION)
    assert made["EventTypes"] == ["Alert"]


def test_event_types_that_the_bmc_does_not_offer_are_refused_with_those_that_it_does(
    bmc, task, vendor
):
    offer_events(bmc, EventTypesForSubscription=["StatusChange"])
    with pytest.raises(errors.InvalidParameterValue, match=r"type Alert; it has StatusChange"):
        call(vendor, task, "create_subscription", Destination=DESTINATION)
    assert bmc.asked("POST", SUBSCRIPTIONS) == []


@pytest.mark.parametrize("method", ["get_subscription", "delete_subscription"])
@pytest.mark.parametrize("identity", ["8", "../../Systems/1", "7/..", "/"])
def test_only_a_member_of_the_collection_is_shown_or_deleted(bmc, task, vendor, method, identity):
    offer_events(bmc)
    call(vendor, task, "create_subscription", Destination=DESTINATION)
    with pytest.raises(errors.RedfishError, match="no subscription") as caught:
        call(vendor, task, method, "GET", id=identity)
    assert caught.value.code == 404
    assert bmc.asked("DELETE") == []


def test_a_subscription_that_is_gone_meanwhile_is_not_found(bmc, task, vendor):
    offer_events(bmc)
    call(vendor, task, "create_subscription", Destination=DESTINATION)
    bmc.script("DELETE", SUBSCRIPTIONS, Answer(404, error("gone")))
    with pytest.raises(errors.RedfishError, match="no subscription '7'") as caught:
        call(vendor, task, "delete_subscription", "DELETE", id="7")
    assert caught.value.code == 404


def test_a_refused_subscription_is_told_in_the_words_of_the_bmc(bmc, task, vendor):
    offer_events(bmc)
    bmc.script("DELETE", SUBSCRIPTIONS, Answer(405, error("it is for ever")))
    call(vendor, task, "create_subscription", Destination=DESTINATION)
    with pytest.raises(errors.RedfishError, match="it is for ever") as caught:
        call(vendor, task, "delete_subscription", "DELETE", id="7")
    assert caught.value.code == 500


def test_an_accepted_subscription_that_is_not_shown_is_an_error(bmc, task, vendor):
    offer_events(bmc)
    bmc.tells = False
    bmc.tree[SUBSCRIPTIONS] = collection()
    bmc.script("GET", f"{SUBSCRIPTIONS}$", Answer(200, collection()))
    with pytest.raises(errors.RedfishError, match="does not show it"):
        call(vendor, task, "create_subscription", Destination=DESTINATION)


def test_a_bmc_without_event_service_says_so(task, vendor):
    with pytest.raises(errors.UnsupportedHardwareFeature, match="event subscriptions"):
        call(vendor, task, "get_all_subscriptions", "GET")


def test_methods_need_the_lock(task, vendor):
    task.shared = True
    with pytest.raises(errors.ExclusiveLockRequired):
        vendor.get_all_subscriptions(task, http_method="GET")
