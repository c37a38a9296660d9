"""What the web server of the conductor is given, and when."""

from __future__ import annotations

import stat

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images import publisher


@pytest.fixture(autouse=True)
def root(tmp_path):
    CONF([], project="ironic", default_config_files=[])
    root = tmp_path / "http"
    CONF.set_override("http_root", str(root), group="deploy")
    CONF.set_override("http_url", "http://192.0.2.1:8080/", group="deploy")
    yield root
    for name in ("http_root", "http_url", "external_http_url"):
        CONF.clear_override(name, group="deploy")


def test_a_file_appears_whole(root):
    with publisher.publishing("boot-1.iso", "redfish", 0o640) as path:
        path.write_bytes(b"content")
        assert not (root / "redfish" / "boot-1.iso").exists()
        assert path.name.startswith(".")
    published = root / "redfish" / "boot-1.iso"
    assert published.read_bytes() == b"content"
    assert stat.S_IMODE(published.stat().st_mode) & 0o640 == 0o640
    assert [p.name for p in published.parent.iterdir()] == ["boot-1.iso"]


def test_a_failure_leaves_the_old_file_and_nothing_else(root):
    with publisher.publishing("boot-1.iso", "redfish") as path:
        path.write_bytes(b"old")
    with pytest.raises(RuntimeError), publisher.publishing("boot-1.iso", "redfish") as path:
        path.write_bytes(b"half")
        raise RuntimeError
    assert (root / "redfish" / "boot-1.iso").read_bytes() == b"old"
    assert len(list((root / "redfish").iterdir())) == 1


def test_what_a_crash_left_is_removed_but_only_of_the_same_name(root):
    directory = root / "redfish"
    directory.mkdir(parents=True)
    (directory / ".boot-1.iso.0001.part").write_bytes(b"x")
    (directory / ".boot-1.iso.0002.part").mkdir()
    (directory / ".boot-1.iso.0002.part" / "kernel").write_bytes(b"x")
    (directory / ".boot-11.iso.0001.part").write_bytes(b"x")
    publisher.unpublish("boot-1.iso", "redfish")
    assert [p.name for p in directory.iterdir()] == [".boot-11.iso.0001.part"]


def test_unpublishing_twice_is_no_error(root):
    with publisher.publishing("a", "redfish") as path:
        path.write_bytes(b"x")
    publisher.unpublish("a", "redfish")
    publisher.unpublish("a", "redfish")
    assert not (root / "redfish" / "a").exists()


def test_a_work_directory_is_beside_the_file_hidden_and_temporary(root):
    with (
        publisher.publishing("a", "redfish") as target,
        publisher.work_directory(target) as place,
    ):
        assert place.parent == target.parent
        assert place.name.startswith(".a.")
        (place / "x").write_bytes(b"x")
        target.write_bytes(b"x")
    assert [p.name for p in (root / "redfish").iterdir()] == ["a"]


def test_the_permissions_of_a_linked_original_are_left_alone(root, tmp_path):
    original = tmp_path / "original"
    original.write_bytes(b"x")
    original.chmod(0o600)
    with publisher.publishing("a", "redfish", 0o644) as path:
        path.hardlink_to(original)
    assert stat.S_IMODE(original.stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "redfish" / "a").stat().st_mode) == 0o644


def test_a_directory_that_cannot_be_written_is_told(root):
    root.write_text("not a directory")
    with (
        pytest.raises(errors.ImageCreationFailed, match=str(root)),
        publisher.publishing("a", "redfish"),
    ):
        pass


@pytest.mark.parametrize(
    ("of_node", "external", "expected"),
    [
        (None, None, "http://192.0.2.1:8080/redfish/a%20b"),
        (None, "https://public", "https://public/redfish/a%20b"),
        ("http://near-the-node/x/", "https://public", "http://near-the-node/x/redfish/a%20b"),
    ],
)
def test_urls(of_node, external, expected):
    CONF.set_override("external_http_url", external, group="deploy")
    assert publisher.url_of("a b", "redfish", of_node) == expected


def test_without_a_url_the_options_are_named():
    CONF.set_override("http_url", None, group="deploy")
    with pytest.raises(errors.MissingParameterValue, match=r"\[deploy\]http_url"):
        publisher.url_of("a", "redfish")
