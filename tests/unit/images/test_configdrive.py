"""Config drives built from meta data (field case 82)."""

from __future__ import annotations

import base64
import gzip
import io
import json
from types import SimpleNamespace
from typing import Any

import pycdlib
import pytest

from ironic_rs.domain import errors
from ironic_rs.images import configdrive
from tests.unit.image_server import ImageServer


def node(drive: Any = None, name: str | None = "n1") -> Any:
    return SimpleNamespace(uuid="u1", name=name, instance_info={"configdrive": drive})


def files_of(text: str) -> dict[str, bytes]:
    """Return path -> content of a config drive, by its Joliet names."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(gzip.decompress(base64.b64decode(text))))
    found = {}
    for directory, _dirs, names in iso.walk(joliet_path="/"):
        for name in names:
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, joliet_path=f"{directory}/{name}".replace("//", "/"))
            found[f"{directory}/{name}"] = content.getvalue()
    iso.close()
    return found


def test_all_parts_are_where_readers_look(config):
    text = configdrive.build(
        node(),
        {
            "meta_data": {"hostname": "h"},
            "user_data": "#!/bin/sh\n",
            "network_data": {"links": []},
            "vendor_data": {"v": 1},
        },
    )
    files = files_of(text)
    for version in ("latest", "2012-08-10"):
        base = f"/openstack/{version}"
        assert json.loads(files[f"{base}/meta_data.json"]) == {
            "uuid": "u1",
            "name": "n1",
            "hostname": "h",
        }
        assert files[f"{base}/user_data"] == b"#!/bin/sh\n"
        assert json.loads(files[f"{base}/network_data.json"]) == {"links": []}
        assert json.loads(files[f"{base}/vendor_data2.json"]) == {"v": 1}


def test_the_volume_is_labelled(config):
    image = gzip.decompress(base64.b64decode(configdrive.build(node(), {})))
    assert image[32768 + 40 : 32768 + 72].strip() == b"config-2"


def test_what_is_given_wins_over_the_defaults_of_meta_data(config):
    files = files_of(configdrive.build(node(), {"meta_data": {"uuid": "x", "name": "y"}}))
    assert json.loads(files["/openstack/latest/meta_data.json"]) == {"uuid": "x", "name": "y"}


def test_empty_parts_are_left_out(config):
    files = files_of(configdrive.build(node(name=None), {"user_data": "", "network_data": {}}))
    assert {path.rpartition("/")[2] for path in files} == {"meta_data.json"}
    assert json.loads(files["/openstack/latest/meta_data.json"]) == {"uuid": "u1"}


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2]])
def test_structured_user_data_becomes_json(config, value):
    files = files_of(configdrive.build(node(), {"user_data": value}))
    assert json.loads(files["/openstack/latest/user_data"]) == value


@pytest.mark.parametrize("key", ["meta_data", "network_data", "vendor_data"])
def test_parts_of_the_wrong_type_are_refused(config, key):
    with pytest.raises(errors.InvalidParameterValue, match=key):
        configdrive.build(node(), {key: "text"})


def test_a_config_drive_that_no_ramdisk_takes_is_refused(config, monkeypatch):
    monkeypatch.setattr(configdrive, "MAX_BYTES", 1000)
    with pytest.raises(errors.InvalidParameterValue, match="at most 1000"):
        configdrive.build(node(), {"user_data": "x" * 600})


def test_the_same_input_gives_the_same_text_but_for_times(config):
    drive = {"user_data": "x"}
    assert files_of(configdrive.build(node(), drive)) == files_of(configdrive.build(node(), drive))


@pytest.mark.parametrize("drive", ["H4sIbase64", "http://x/drive"])
def test_text_and_urls_go_to_the_ramdisk_as_they_are(config, drive):
    assert configdrive.for_agent(node(drive)) == drive


def test_a_dictionary_is_built_for_the_ramdisk(config):
    text = configdrive.for_agent(node({"user_data": "hello"}))
    assert files_of(str(text))["/openstack/latest/user_data"] == b"hello"
    assert configdrive.for_agent(node()) is None
    assert configdrive.for_agent(node("")) is None


# The image in a config drive

IMAGE = b"\x00" * 32769 + b"CD001" + bytes(range(256))
PACKED = gzip.compress(IMAGE)


@pytest.fixture
def server(config, monkeypatch):
    monkeypatch.setattr("ironic_rs.images.services.RETRY_PAUSE", 0)
    with ImageServer().running() as running:
        yield running


@pytest.mark.parametrize(
    "content",
    [IMAGE, PACKED, base64.b64encode(PACKED), base64.encodebytes(PACKED), base64.b64encode(IMAGE)],
    ids=["image", "gzip", "base64", "base64 in lines", "base64 of an image"],
)
def test_the_image_is_found_in_what_a_url_gives(server, content):
    assert configdrive.image_of(server.put("/drive", content)) == IMAGE


def test_the_image_is_found_in_the_text_of_a_request():
    assert configdrive.image_of(base64.b64encode(PACKED).decode()) == IMAGE


def test_a_built_drive_has_an_image():
    assert b"CD001" in configdrive.image_of(configdrive.build(node(), {"user_data": "x"}))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (base64.b64encode(PACKED[:2] + b"junk").decode(), "no valid gzip"),
        (" ", "is empty"),
        (base64.b64encode(gzip.compress(bytes(configdrive.MAX_BYTES + 1))).decode(), "more than"),
    ],
)
def test_a_drive_without_a_usable_image_is_refused(text, match):
    with pytest.raises(errors.InvalidParameterValue, match=match):
        configdrive.image_of(text)


# Network data in a finished config drive.

GOOD = {"links": [{"id": "a", "mtu": 1500}], "networks": [{"id": "n"}], "services": []}
NO_MTU = {"links": [{"id": "a"}], "networks": [{"id": "n"}], "services": []}
EMPTY = {"links": [], "networks": [], "services": []}
OURS = {"links": [{"id": "iface0", "mtu": 9000}], "networks": [], "services": []}
LATEST = "/openstack/latest/network_data.json"


def finished(**parts: Any) -> str:
    return configdrive.build(node(), {"user_data": "hello", **parts})


@pytest.mark.parametrize("given", [{}, EMPTY, NO_MTU], ids=["none", "empty", "without MTU"])
def test_network_data_of_no_use_are_replaced_and_all_else_stays(config, given):
    drive = finished(network_data=given)
    before, after = (
        files_of(drive),
        files_of(configdrive.with_network(drive, lambda: OURS, mtu=True)),
    )
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {path for path in (*before, LATEST) if path.endswith("network_data.json")}
    assert json.loads(after[LATEST]) == OURS
    assert set(before) <= set(after)


def test_good_network_data_stay_and_nobody_is_asked_for_others(config):
    def fail() -> dict[str, Any]:
        raise AssertionError("asked")

    drive = finished(network_data=GOOD)
    assert configdrive.with_network(drive, fail, mtu=True) == drive
    drive = finished(network_data=NO_MTU)
    assert configdrive.with_network(drive, fail, mtu=False) == drive


@pytest.mark.parametrize(
    ("given", "made"), [({}, {}), (EMPTY, EMPTY), (NO_MTU, NO_MTU), (NO_MTU, {})]
)
def test_no_better_network_data_change_nothing(config, given, made):
    drive = finished(network_data=given)
    assert configdrive.with_network(drive, lambda: made, mtu=True) == drive


def test_network_data_without_an_mtu_are_better_than_none(config):
    after = files_of(configdrive.with_network(finished(), lambda: NO_MTU, mtu=True))
    assert json.loads(after[LATEST]) == NO_MTU


@pytest.mark.parametrize("forms", [{"joliet": 3}, {"rock_ridge": "1.09"}, {}])
def test_drives_of_other_makers_are_read(config, forms):
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, vol_ident="config-2", **forms)
    for path in ("openstack", "openstack/latest"):
        plain = path.upper()
        names = {"joliet_path": f"/{path}"} if "joliet" in forms else {}
        names |= {"rr_name": path.rpartition("/")[2]} if "rock_ridge" in forms else {}
        iso.add_directory(f"/{plain}", **names)
    names = {"joliet_path": "/openstack/latest/user_data"} if "joliet" in forms else {}
    names |= {"rr_name": "user_data"} if "rock_ridge" in forms else {}
    iso.add_fp(io.BytesIO(b"hi"), 2, iso_path="/OPENSTACK/LATEST/USER_DATA.;1", **names)
    image = io.BytesIO()
    iso.write_fp(image)
    drive = base64.b64encode(gzip.compress(image.getvalue())).decode()
    after = files_of(configdrive.with_network(drive, lambda: OURS, mtu=True))
    assert json.loads(after[LATEST]) == OURS
    assert b"hi" in after.values()


@pytest.mark.parametrize(
    "drive",
    ["no base64!", "aGVsbG8=", base64.b64encode(gzip.compress(b"no ISO" * 9999)).decode()],
)
def test_what_is_no_config_drive_is_told(config, drive):
    with pytest.raises(errors.InvalidParameterValue, match="onfig drive"):
        configdrive.with_network(drive, lambda: OURS, mtu=True)


def test_a_drive_that_unpacks_to_too_much_is_not_unpacked(config, monkeypatch):
    monkeypatch.setattr(configdrive, "MAX_BYTES", 1000)
    with pytest.raises(errors.InvalidParameterValue, match="more than 1000"):
        configdrive.with_network(finished_large(), lambda: OURS, mtu=True)


def finished_large() -> str:
    return base64.b64encode(gzip.compress(b"0" * 100_000)).decode()
