"""Power of parents and children, virtual media (W33, W34)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.flows import virtual_media
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from tests.functional.defects.site import Site, steps

ISO = "http://images/live.iso"


@pytest.fixture
def published(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the conductor puts what BMCs fetch."""
    CONF.set_override("http_root", str(tmp_path / "http"), group="deploy")
    CONF.set_override("http_url", "http://conductor", group="deploy")

    class Cache:
        def fetch(self, href: str, target: Path) -> None:
            target.write_text(f"content of {href}")

    monkeypatch.setattr(virtual_media.cache, "boot_isos", Cache)
    return tmp_path / "http"


def staged(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def attach(site: Site, uuid: str, url: str = ISO, **more: Any) -> Any:
    body = {"device_type": "cdrom", "image_url": url, **more}
    answer = site.api.post(f"/v1/nodes/{uuid}/vmedia", body)
    site.settle()
    return answer


@pytest.mark.parametrize("url", [ISO, "nfs://server/share/a.iso", "cifs://server/share/a.iso"])
def test_w33_the_source_of_the_download_reaches_the_conductor(
    site: Site, published: Path, url: str
) -> None:
    uuid = site.node(states.MANAGEABLE)

    assert attach(site, uuid, url, image_download_source="http").status == 204

    media = site.api.get(f"/v1/nodes/{uuid}/vmedia").body
    assert [slot["image"] for slot in media if slot["inserted"]] == [url]
    assert staged(published) == []


def test_w33_what_was_staged_goes_with_the_detachment(site: Site, published: Path) -> None:
    uuid = site.node(states.MANAGEABLE)
    assert attach(site, uuid).status == 204
    assert staged(published) == [f"cdrom-{uuid}.iso"]

    assert site.api.delete(f"/v1/nodes/{uuid}/vmedia").status == 204
    site.settle()

    assert staged(published) == []


def test_w33_a_detachment_that_the_bmc_refuses_is_no_unexpected_error(
    site: Site, published: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(task: Any, device_types: Any = None) -> None:
        raise errors.RedfishError(error="the slot is locked")

    site.kit.interfaces["management"].detach_virtual_media = refuse
    uuid = site.node(states.MANAGEABLE)

    with caplog.at_level(logging.INFO):
        site.api.delete(f"/v1/nodes/{uuid}/vmedia")
        site.settle()

    assert "the slot is locked" in site.shown(uuid)["last_error"]
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.fixture
def family(site: Site) -> tuple[str, str, str]:
    """A machine that is on, a child on its power supply, and one with its own."""
    parent = site.node(states.ACTIVE)
    child = site.node(states.ACTIVE, parent_node=parent)
    own = site.node(
        states.ACTIVE, parent_node=parent, driver_info={"has_dedicated_power_supply": True}
    )
    return parent, child, own


def powers(site: Site, *uuids: str) -> list[str]:
    return [site.shown(uuid)["power_state"] for uuid in uuids]


@pytest.mark.parametrize("target", ["power off", "soft power off"])
def test_w34_children_go_off_with_their_parent(
    site: Site, family: tuple[str, str, str], target: str
) -> None:
    site.power(family[0], target)

    assert powers(site, *family) == ["power off", "power off", "power on"]


def test_w34_children_go_off_when_the_parent_is_off_already(
    site: Site, family: tuple[str, str, str]
) -> None:
    parent, child, own = family
    site.kit.interfaces["power"].get_power_state = lambda task: (
        "power off" if task.node.uuid == parent else task.node.power_state
    )

    site.power(parent, "power off")

    assert powers(site, parent, child, own) == ["power off", "power off", "power on"]


@pytest.mark.parametrize("target", ["rebooting", "soft rebooting"])
def test_w34_children_are_off_while_their_parent_reboots_and_come_back(
    site: Site, family: tuple[str, str, str], target: str
) -> None:
    seen: list[list[str]] = []

    def reboot(task: Any, *args: Any, **kwargs: Any) -> None:
        if task.node.uuid == family[0]:
            seen.append(powers(site, *family[1:]))
        task.node.power_state = "power on" if len(args) == 0 else states.POWER_TARGET[args[0]]

    power = site.kit.interfaces["power"]
    power.reboot = reboot
    power.set_power_state = reboot

    site.power(family[0], target)

    assert seen == [["power off", "power on"]]
    assert powers(site, *family) == ["power on", "power on", "power on"]


def test_w34_a_power_off_refused_in_the_worker_is_not_left_pending(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = site.node(states.ACTIVE)
    submit = site.conductor.workers.submit

    def protected(work: Any, *args: Any, **kwargs: Any) -> Any:
        # Everything before the worker has found that the node may be powered off.
        work.__self__.node.disable_power_off = True
        return submit(work, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(site.conductor.workers, "submit", protected)
        node = site.power(uuid, "power off")

    assert (node["power_state"], node["target_power_state"]) == ("power on", None)
    assert "disable_power_off" in node["last_error"]
    read: list[str] = []
    site.kit.interfaces["power"].get_power_state = lambda task: read.append(task.node.uuid)
    site.tick("_sync_power_states")
    assert read == [uuid], "power sync looks after it again"


def test_w34_a_power_off_step_that_is_refused_is_not_left_pending(site: Site) -> None:
    uuid = site.node(states.MANAGEABLE, disable_power_off=True)

    node = site.provision(uuid, "clean", clean_steps=steps("power_off"))

    assert node["provision_state"] == states.CLEANFAIL
    assert "disable_power_off" in node["last_error"]
    assert (node["power_state"], node["target_power_state"]) == ("power on", None)
