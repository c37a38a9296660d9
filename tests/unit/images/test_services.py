"""Image sources: web servers and files (field cases 74 and 80)."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
from pathlib import Path

import pytest

from ironic_rs.domain import errors
from ironic_rs.images import credentials
from ironic_rs.images.services import FileImages, HTTPImages, redact, service_for
from ironic_rs.integrations import interruption
from tests.unit.image_server import ImageServer

CONTENT = bytes(range(256)) * 5000


@pytest.mark.parametrize(
    "href", [5, [], "", None, "ftp://x/y", "ssh://x/y", "javascript:alert(1)", "plain", "http://["]
)
def test_what_is_no_image_reference_is_refused(config, href):
    with pytest.raises(errors.ImageRefValidationFailed):
        service_for(href)


def test_references_are_shown_without_user_and_query():
    assert redact("https://u:p@h:1/x?token=y") == "https://h:1/x"


def test_size_time_and_cache_control_are_told(server):
    url = server.put(
        "/image",
        CONTENT,
        headers={
            "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT",
            "Cache-Control": "private, no-store",
            "Content-Type": "text/html; charset=x",
        },
    )
    info = HTTPImages().show(url)
    assert info.size == len(CONTENT)
    assert info.updated_at == datetime.datetime(1994, 11, 6, 8, 49, 37, tzinfo=datetime.UTC)
    assert info.no_cache
    assert info.content_type == "text/html"


@pytest.mark.parametrize(
    "text",
    ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 GMT"],
)
def test_all_forms_of_last_modified_are_read(server, text):
    url = server.put("/image", b"x", headers={"Last-Modified": text})
    assert HTTPImages().show(url).updated_at is not None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_and_the_target_is_told(server, status):
    target = server.put("/target", CONTENT)
    url = server.put("/image", status=status, headers={"Location": "/target"})
    assert HTTPImages().show(url).href == target


def test_a_redirect_loop_ends_soon(server):
    url = server.put("/loop", status=302, headers={"Location": "/loop"})
    with pytest.raises(errors.ImageRefValidationFailed, match=r"/loop.*redirects"):
        HTTPImages().show(url)
    assert len(server.requests) < 15


@pytest.mark.parametrize("status", [403, 404, 410, 500])
def test_a_refusal_is_told_with_url_and_code_at_once(server, status):
    url = server.put("/image", status=status)
    with pytest.raises(errors.ImageRefValidationFailed, match=f"/image.*{status}"):
        HTTPImages().show(url)
    assert len(server.requests) == 1


def test_a_directory_closed_for_listing_is_fine(server):
    HTTPImages().show(server.put("/tree/", status=403))


@pytest.mark.parametrize("status", [502, 503, 504, 429])
def test_a_busy_server_is_asked_again(server, status):
    url = server.put("/image", CONTENT, statuses=[status, status])
    assert HTTPImages().show(url).size == len(CONTENT)


def test_a_server_that_stays_busy_is_given_up(server):
    url = server.put("/image", CONTENT, statuses=[503] * 10)
    with pytest.raises(errors.ImageRefValidationFailed, match="503"):
        HTTPImages().show(url)
    assert len(server.requests) == 3


def test_a_server_that_is_not_there_is_given_up(config, monkeypatch, server):
    monkeypatch.setattr("ironic_rs.images.services.RETRY_PAUSE", 0)
    with pytest.raises(errors.ImageRefValidationFailed, match=r"3 times.*refused"):
        HTTPImages().show("http://127.0.0.1:1/image?secret=x")


def test_head_refused_falls_back_to_a_ranged_get(server):
    url = server.put("/image", CONTENT, refuse=("HEAD",))
    assert HTTPImages().show(url).size == len(CONTENT)
    assert server.methods("/image") == ["HEAD", "GET"]


def test_download_hashes_on_the_way(server, tmp_path):
    url = server.put("/image", CONTENT)
    digest = HTTPImages().download(url, tmp_path / "x", "sha256")
    assert digest == hashlib.sha256(CONTENT).hexdigest()
    assert (tmp_path / "x").read_bytes() == CONTENT


def test_a_transfer_that_breaks_off_is_tried_again(server, tmp_path):
    url = server.put("/image", CONTENT, cut=1000, cuts=2)
    digest = HTTPImages().download(url, tmp_path / "x", "sha256")
    assert digest == hashlib.sha256(CONTENT).hexdigest()


def test_a_transfer_that_keeps_breaking_off_fails_and_leaves_nothing(server, tmp_path):
    url = server.put("/image", CONTENT, cut=1000, cuts=9)
    with pytest.raises(errors.ImageDownloadFailed, match="/image"):
        HTTPImages().download(url, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_full_disk_is_told(server, tmp_path):
    url = server.put("/image", CONTENT)
    with pytest.raises(errors.ImageDownloadFailed, match="No such file"):
        HTTPImages().download(url, tmp_path / "nowhere" / "x")


def test_credentials_go_to_permitted_hosts_only(server, config):
    config(
        "deploy",
        image_server_auth_strategy="http_basic",
        image_server_user="user",
        image_server_password="pass",
    )
    url = server.put("/image", CONTENT)
    HTTPImages().show(url)
    assert server.auth("/image") == ("user", "pass")
    config("deploy", image_server_auth_hosts=["elsewhere.example"])
    HTTPImages().show(url)
    assert server.auth("/image") is None


def test_credentials_are_not_forwarded_to_another_host(server, config):
    config(
        "deploy",
        image_server_auth_strategy="http_basic",
        image_server_user="user",
        image_server_password="pass",
    )
    with ImageServer().running() as other:
        target = other.put("/target", CONTENT)
        url = server.put(
            "/image", status=302, headers={"Location": target.replace("127.0.0.1", "localhost")}
        )
        HTTPImages().show(url)
        assert server.auth("/image") == ("user", "pass")
        assert other.auth("/target") is None


@pytest.mark.parametrize(
    ("hosts", "unknown", "host", "permitted"),
    [
        ([], True, "a.example", True),
        ([], False, "a.example", False),
        (["a.example"], True, "a.example", True),
        (["a.example"], True, "b.a.example", False),
        ([".example"], True, "A.Example", True),
        ([".example"], True, "badexample", False),
    ],
)
def test_permitted_hosts(config, hosts, unknown, host, permitted):
    config("deploy", image_server_auth_hosts=hosts, image_server_auth_permit_unknown_hosts=unknown)
    assert credentials.permitted(f"https://{host}/x") is permitted


def test_half_configured_credentials_are_an_error(config):
    config("deploy", image_server_auth_strategy="http_basic", image_server_user="user")
    with pytest.raises(errors.MissingParameterValue, match="image_server_password"):
        credentials.basic_auth("http://x/y")


@pytest.fixture
def allowed(config, tmp_path: Path) -> Path:
    directory = tmp_path / "allowed"
    directory.mkdir()
    return directory


def test_a_file_is_linked_and_hashed(allowed, tmp_path):
    source = allowed / "an image"
    source.write_bytes(CONTENT)
    href = f"file://{allowed}/an%20image"
    info = FileImages().show(href)
    assert (info.size, info.no_cache) == (len(CONTENT), True)
    digest = FileImages().download(href, tmp_path / "x", "sha512")
    assert digest == hashlib.sha512(CONTENT).hexdigest()
    assert (tmp_path / "x").samefile(source)


def test_a_file_is_copied_when_it_can_not_be_linked(allowed, tmp_path, monkeypatch):
    source = allowed / "image"
    source.write_bytes(CONTENT)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    FileImages().download(f"file://{source}", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert not (tmp_path / "x").samefile(source)


def test_files_outside_of_the_allowed_tree_are_refused(allowed, tmp_path):
    (tmp_path / "outside").write_text("x")
    (allowed / "link").symlink_to("/etc/passwd")
    (allowed / "tree").symlink_to(tmp_path)
    (allowed / "directory").mkdir()
    os.mkfifo(allowed / "fifo")
    for path in (
        "/dev/zero",
        "/etc/passwd",
        f"{allowed}/../outside",
        f"{allowed}/link",
        f"{allowed}/tree/outside",
        f"{allowed}/directory",
        f"{allowed}/fifo",
        f"{allowed}/missing",
        "/srv/maybe-missing",
        "relative",
        "%00",
    ):
        with pytest.raises(errors.ImageRefValidationFailed):
            FileImages().show(f"file://{path}")
    with pytest.raises(errors.ImageRefValidationFailed, match="host"):
        FileImages().show(f"file://localhost{allowed}/x")


def test_whether_a_forbidden_file_exists_is_not_told(allowed, tmp_path):
    (tmp_path / "there").write_text("x")
    texts = []
    for name in ("there", "away!"):
        with pytest.raises(errors.ImageRefValidationFailed) as caught:
            FileImages().show(f"file://{tmp_path}/{name}")
        texts.append(str(caught.value).replace(name, ""))
    assert texts[0] == texts[1]


def test_an_empty_allow_list_allows_nothing(allowed, config):
    (allowed / "image").write_text("x")
    config("conductor", file_url_allowed_paths=[])
    with pytest.raises(errors.ImageRefValidationFailed, match="not allowed"):
        FileImages().show(f"file://{allowed}/image")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/image", "gopher://x/"])
def test_a_redirect_leads_to_web_servers_only(server, tmp_path, target):
    url = server.put("/image", status=302, headers={"Location": target})
    with pytest.raises(errors.ImageRefValidationFailed, match="neither http nor https"):
        HTTPImages().show(url)
    with pytest.raises(errors.ImageRefValidationFailed, match="neither http nor https"):
        HTTPImages().download(url, tmp_path / "image")
    with pytest.raises(errors.ImageRefValidationFailed, match="neither http nor https"):
        HTTPImages().read(url, 1000)
    assert list(tmp_path.iterdir()) == []


class Counter:
    """Counts the pieces of a transfer."""

    pieces = 0

    def check(self) -> None:
        self.pieces += 1

    def stoppable(self, _stop):
        return contextlib.nullcontext()


@pytest.mark.parametrize("source", ["http", "file"])
def test_bytes_come_and_are_hashed_in_blocks_of_a_mebibyte(server, allowed, tmp_path, source):
    """K10/81."""
    content = os.urandom(8 * 1024 * 1024)
    (allowed / "image").write_bytes(content)
    counter = Counter()
    with interruption.by(counter):
        if source == "http":
            url = server.put("/image", content)
            digest = HTTPImages().download(url, tmp_path / "image", "sha256")
        else:
            url = f"file://{allowed}/image"
            digest = FileImages().download(url, tmp_path / "image", "sha256")
    assert digest == hashlib.sha256(content).hexdigest()
    assert 8 <= counter.pieces <= 12


@pytest.mark.parametrize("source", ["http", "file"])
@pytest.mark.parametrize("last", [b"", b"end"])
def test_what_is_empty_of_an_image_takes_no_room(
    server, allowed, tmp_path, monkeypatch, source, last
):
    """K10/81: 20 GB that are sparse at their source stay so."""
    content = b"start" + bytes(16 * 1024 * 1024) + last
    (allowed / "image").write_bytes(content)
    if source == "http":
        url = server.put("/image", content)
        digest = HTTPImages().download(url, tmp_path / "image", "sha256")
    else:
        monkeypatch.setattr("ironic_rs.images.services._link", lambda *_args: False)
        url = f"file://{allowed}/image"
        digest = FileImages().download(url, tmp_path / "image", "sha256")
    assert digest == hashlib.sha256(content).hexdigest()
    assert (tmp_path / "image").read_bytes() == content
    assert (tmp_path / "image").stat().st_blocks * 512 < 4 * 1024 * 1024
