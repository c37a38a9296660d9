"""Virtual media on request: what is staged, refused and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ironic_rs.conductor.flows import virtual_media
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.noop import NoopManagement

URL = "http://images/live.iso"
MEDIA = [{"media_types": ["CD"], "inserted": False, "image": None}]


class Slots:
    """The virtual media of a machine, and what the conductor published meanwhile."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = []
        self.published = []
        self.error = None

    def staged(self):
        return {
            str(path.relative_to(self.root)): path.read_text()
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def _call(self, *call):
        self.published.append(self.staged())
        if self.error:
            raise self.error
        self.calls.append(call)

    def attach(self, task, device_type, image_url):
        self._call(device_type, image_url)

    def detach(self, task, device_types=None):
        self._call(device_types)


@pytest.fixture
def slots(world, tmp_path, monkeypatch):
    root = tmp_path / "http"
    CONF.set_override("http_root", str(root), group="deploy")
    CONF.set_override("http_url", "http://conductor/", group="deploy")
    found = Slots(root)
    management = world.driver.management
    management.attach_virtual_media = found.attach
    management.detach_virtual_media = found.detach

    class Cache:
        def fetch(self, href, target):
            target.write_text(f"content of {href}")

    monkeypatch.setattr(virtual_media.cache, "boot_isos", Cache)
    return found


def attach(world, node, device_type="cdrom", image_url=URL, **kwargs):
    world.call("attach_virtual_media", node, device_type=device_type, image_url=image_url, **kwargs)
    return world.read(node)


@pytest.mark.parametrize(
    ("device_type", "name"), [("cdrom", "cdrom-{}.iso"), ("disk", "disk-{}.img")]
)
def test_an_image_is_fetched_and_shown_to_the_bmc_from_here(world, slots, device_type, name):
    node = world.node(last_error="old")
    stored = attach(world, node, device_type)
    file = f"redfish/{name.format(node.uuid)}"
    assert slots.calls == [(device_type, f"http://conductor/{file}")]
    assert slots.published == [{file: f"content of {URL}"}]
    assert (stored.last_error, stored.reservation) == (None, None)


def test_the_node_s_own_url_of_the_conductor_counts(world, slots):
    node = world.node(driver_info={"external_http_url": "http://outside"})
    attach(world, node)
    assert slots.calls[0][1].startswith("http://outside/redfish/cdrom-")


@pytest.mark.parametrize("url", [URL, "nfs://server/share/a.iso", "cifs://server/share/a.iso"])
def test_w33_the_bmc_fetches_it_itself_when_asked(world, slots, url):
    attach(world, world.node(), image_url=url, image_download_source="http")
    assert slots.calls == [("cdrom", url)]
    assert slots.staged() == {}


@pytest.mark.parametrize(
    ("url", "source", "text"),
    [
        ("nfs://server/share/a.iso", "local", "accepted with it: image_download_source http"),
        (URL, "swift", "accepted: local, http"),
    ],
)
def test_what_can_not_be_brought_to_the_bmc_is_refused_at_once(world, slots, url, source, text):
    with pytest.raises(errors.InvalidParameterValue, match=text):
        attach(world, world.node(), image_url=url, image_download_source=source)
    assert slots.calls == []


def test_a_failure_is_recorded_and_nothing_stays_staged(world, slots):
    slots.error = errors.RedfishError(error="no slot")
    node = world.node()
    stored = attach(world, node, image_url="http://user:secret@images/live.iso")
    assert "no slot" in stored.last_error
    assert "cdrom http://images/live.iso" in stored.last_error
    assert "secret" not in stored.last_error
    assert world.events(node) == [("UNKNOWN", "ERROR")]
    assert slots.staged() == {}
    assert stored.reservation is None


def test_an_image_that_can_not_be_fetched_is_told(world, slots, monkeypatch):
    def gone():
        raise errors.ImageDownloadFailed(image_href=URL, reason="404")

    monkeypatch.setattr(virtual_media.cache, "boot_isos", gone)
    assert "404" in attach(world, world.node()).last_error
    assert slots.calls == []


def test_an_unexpected_error_is_recorded_as_well(world, slots):
    slots.error = ZeroDivisionError("by zero")
    assert "ZeroDivisionError: by zero" in attach(world, world.node()).last_error


def test_detaching_takes_away_what_was_staged(world, slots):
    node = world.node()
    for device_type in ("cdrom", "disk", "floppy"):
        attach(world, node, device_type)
    assert len(slots.staged()) == 3
    world.call("detach_virtual_media", node, device_types=["disk", "floppy"])
    assert list(slots.staged()) == [f"redfish/cdrom-{node.uuid}.iso"]
    world.call("detach_virtual_media", node)
    assert slots.staged() == {}
    assert slots.calls[-2:] == [(["disk", "floppy"],), (None,)]


def test_what_could_not_be_detached_stays_staged(world, slots):
    node = world.node()
    attach(world, node)
    slots.error = errors.RedfishError(error="it is in use")
    world.call("detach_virtual_media", node)
    assert "it is in use" in world.read(node).last_error
    assert len(slots.staged()) == 1


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("attach_virtual_media", {"device_type": "cdrom", "image_url": URL}),
        ("detach_virtual_media", {}),
    ],
)
class TestRefusals:
    def test_a_driver_without_virtual_media(self, world, method, arguments):
        node = world.node(last_error="old")
        world.kit.interfaces["management"] = NoopManagement()
        with pytest.raises(errors.UnsupportedDriverExtension) as caught:
            world.call(method, node, **arguments)
        assert caught.value.code == 400
        assert world.read(node).last_error == "old"

    def test_a_management_interface_that_is_not_set_up(self, world, slots, method, arguments):
        def refuse(task):
            raise errors.MissingParameterValue("redfish_address is missing")

        world.driver.management.validate = refuse
        with pytest.raises(errors.MissingParameterValue):
            world.call(method, world.node(), **arguments)

    def test_a_bmc_that_is_known_not_to_answer(self, world, slots, method, arguments):
        node = world.node(maintenance=True, fault=states.FAULT_POWER)
        with pytest.raises(errors.TemporaryFailure) as caught:
            world.call(method, node, **arguments)
        assert caught.value.code == 503
        world.call(method, world.node(maintenance=True), **arguments)

    def test_a_locked_node(self, world, slots, method, arguments):
        node = world.node()
        with world.task(node), pytest.raises(errors.NodeLocked):
            world.call(method, node, **arguments)

    def test_no_free_worker(self, world, slots, method, arguments):
        node = world.node()
        world.workers.full = True
        with pytest.raises(errors.NoFreeConductorWorker):
            world.call(method, node, **arguments)
        stored = world.read(node)
        assert stored.reservation is None
        assert "No free conductor workers" in stored.last_error


def test_an_unknown_device_type_is_refused(world, slots):
    with pytest.raises(errors.InvalidParameterValue, match="cdrom, disk, floppy"):
        attach(world, world.node(), "tape")
    with pytest.raises(errors.InvalidParameterValue):
        world.call("detach_virtual_media", world.node(), device_types=["tape"])


def test_the_devices_are_read_while_the_node_is_locked(world):
    world.driver.management.get_virtual_media = lambda task: MEDIA
    node = world.node()
    with world.task(node):
        assert world.call("get_virtual_media", node) == MEDIA
