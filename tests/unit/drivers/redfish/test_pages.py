"""Collections that a BMC shows in pages are whole, and what goes wrong with that."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import nics, pages
from ironic_rs.drivers.redfish.sessions import talk
from tests.harness.bmc import ROOT, SYSTEM, Answer, Bmc, collection, media, paged

SYSTEMS = f"{ROOT}/Systems"
NEXT = "Members@odata.nextLink"
URL = "http://192.0.2.1/boot.iso"


def listed(task):
    with talk(task, "listing the systems") as bmc:
        return list(bmc.root.get_system_collection().members_identities)


@pytest.fixture
def thousand(bmc):
    """The paths of a thousand systems, which the BMC shows by fifty."""
    paths = [f"{SYSTEMS}/{n}" for n in range(1000)]
    bmc.script("GET", "Systems$", paged(collection(*paths), 50))
    return paths


def test_a_collection_of_a_thousand_members_is_read_whole(bmc, task, thousand):
    assert listed(task) == thousand
    asked = bmc.asked("GET", "Systems$")
    assert [request.query for request in asked] == [
        "",
        *(f"$skip={n}" for n in range(50, 1000, 50)),
    ]
    assert bmc.connections == 1


def test_the_pages_need_the_session_as_the_first(make_task):
    bmc = Bmc("session")
    paths = [f"{SYSTEMS}/{n}" for n in range(3)]
    give = paged(collection(*paths), 1)

    def ends_in_the_middle(request):
        if request.query and len(bmc.asked("GET", "Systems$")) == 2:
            bmc.sessions.clear()
        return give(request) if request.headers.get("x-auth-token") in bmc.sessions else None

    bmc.script("GET", "Systems$", ends_in_the_middle)
    assert listed(make_task(bmc)) == paths
    assert bmc.logins == 2
    bmc.close()


def test_parts_of_a_later_page_are_used(bmc, task):
    paths = [f"{SYSTEM}/VirtualMedia/{n}" for n in range(5)]
    for path in paths:
        bmc.tree[path] = media(path, "CD" if path == paths[-1] else "USBStick")
    bmc.script("GET", "VirtualMedia$", paged(collection(*paths), 2))
    task.driver.management.attach_virtual_media(task, "cdrom", URL)
    assert bmc.tree[paths[-1]]["Image"] == URL


def test_network_cards_of_a_later_page_are_found(bmc, task):
    bmc.tree[f"{SYSTEM}/EthernetInterfaces/2"]["Status"] = {"State": "Enabled", "Health": "OK"}
    cards = bmc.tree[f"{SYSTEM}/EthernetInterfaces"]
    bmc.script("GET", "EthernetInterfaces$", paged(cards, 1))
    with talk(task, "looking") as here:
        assert nics.enabled_macs(task.node, here) == ["aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02"]


@pytest.mark.parametrize(
    "link",
    [
        f"{SYSTEMS}?page=2",
        "?page=2",
        "Systems?page=2",
        "http://192.0.2.66/redfish/v1/Systems?page=2",
        {"@odata.id": f"{SYSTEMS}?page=2"},
    ],
    ids=str,
)
def test_however_the_link_is_written_it_leads_to_the_same_bmc(bmc, task, link):
    first, second = collection(f"{SYSTEMS}/1"), collection(f"{SYSTEMS}/2")

    def answer(request):
        return Answer(200, second if request.query == "page=2" else {**first, NEXT: link})

    bmc.script("GET", "Systems$", answer)
    assert listed(task) == [f"{SYSTEMS}/1", f"{SYSTEMS}/2"]


@pytest.mark.parametrize("link", [None, ""], ids=str)
def test_no_link_is_no_page(bmc, task, link):
    bmc.tree[SYSTEMS][NEXT] = link
    assert listed(task) == [SYSTEM]
    assert len(bmc.asked("GET", "Systems$")) == 1


@pytest.mark.parametrize("query", ["", "page=2"])
def test_pages_that_go_in_a_circle_are_an_error(bmc, task, query):
    link = f"{SYSTEMS}?{query}" if query else SYSTEMS
    bmc.tree[SYSTEMS][NEXT] = link
    with pytest.raises(errors.RedfishError, match="comes again") as raised:
        listed(task)
    assert task.node.uuid in str(raised.value)
    assert SYSTEMS in str(raised.value)


def endless(request):
    number = int(request.query or 0)
    return Answer(200, {**collection(f"{SYSTEMS}/{number}"), NEXT: f"{SYSTEMS}?{number + 1}"})


def test_pages_without_end_are_an_error_at_the_last_that_is_taken(bmc, task, monkeypatch):
    monkeypatch.setattr(pages, "MOST_MEMBERS", 5)
    bmc.script("GET", "Systems$", endless)
    with pytest.raises(errors.RedfishError, match="more than 5 members"):
        listed(task)
    assert len(bmc.asked("GET", "Systems$")) == 6


def test_pages_without_end_keep_nobody_longer_than_an_operation(
    bmc, task, config, clock, monkeypatch
):
    monkeypatch.setattr(pages, "time", clock)
    config("redfish", operation_timeout=30)

    def slow(request):
        clock.skip(10)
        return endless(request)

    bmc.script("GET", "Systems$", slow)
    with pytest.raises(errors.RedfishError, match="pages took 30 s"):
        listed(task)
    assert len(bmc.asked("GET", "Systems$")) <= 5


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"Members": null}'], ids=str)
def test_a_page_that_is_none_is_an_error(bmc, task, body):
    bmc.tree[SYSTEMS][NEXT] = f"{SYSTEMS}?page=2"
    bmc.script("GET", "Systems$", lambda r: Answer(200, body) if r.query else None)
    with pytest.raises(errors.RedfishError, match="is no page of it"):
        listed(task)


def test_a_page_that_is_missing_is_an_error(bmc, task):
    bmc.tree[SYSTEMS][NEXT] = f"{SYSTEMS}?page=2"
    bmc.script("GET", "Systems$", lambda r: Answer(404) if r.query else None)
    with pytest.raises(errors.RedfishError, match="page=2"):
        listed(task)


def test_a_system_of_a_later_page_is_counted(bmc, make_task, thousand):
    with pytest.raises(errors.RedfishError, match="1000 systems"):
        make_task(bmc).driver.power.get_power_state(make_task(bmc))


def test_a_document_that_mentions_pages_of_other_things_is_left_alone(bmc, task):
    bmc.system["Oem"] = {"Note": NEXT}
    bmc.script("GET", "Systems/1$", lambda _r: None)
    assert task.driver.power.get_power_state(task) == states.POWER_OFF
