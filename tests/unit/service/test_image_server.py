"""The server of [deploy]http_root, over real connections."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_rs.conf import deploy, pxe
from ironic_rs.domain import errors
from ironic_rs.service import image_server

CONTENT = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("served")
    root = tmp_path / "http root"
    (root / "redfish").mkdir(parents=True)
    (root / "redfish" / "boot-1.iso").write_bytes(CONTENT)
    (root / "redfish" / ".boot-1.iso.0011.part").write_bytes(b"unfinished")
    (root / "a b").write_bytes(b"with a blank")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "disk").write_bytes(b"image")
    (root / "linked").symlink_to(tmp_path / "images" / "disk")
    (root / "leak").symlink_to(tmp_path / "secret")
    (root / "broken").symlink_to(tmp_path / "nothing")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[image_server.ImageServer]:
    server = image_server.ImageServer(root, "127.0.0.1", 0, also=[root.parent / "images"])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def connection(server: image_server.ImageServer) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    yield connection
    connection.close()


def ask(
    connection: http.client.HTTPConnection, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = connection.getresponse()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()


def test_gives_a_whole_file_and_keeps_the_connection(connection):
    status, headers, body = ask(connection, "/redfish/boot-1.iso?filename=x")
    assert (status, body) == (200, CONTENT)
    assert headers["content-length"] == str(len(CONTENT))
    assert headers["accept-ranges"] == "bytes"
    used = connection.sock
    assert ask(connection, "/a%20b")[2] == b"with a blank"
    assert connection.sock is used


def test_head_has_the_headers_alone(connection):
    status, headers, body = ask(connection, "/redfish/boot-1.iso", "HEAD")
    assert (status, headers["content-length"], body) == (200, str(len(CONTENT)), b"")
    assert "last-modified" in headers


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("bytes=0-0", CONTENT[:1]),
        ("bytes=100-199", CONTENT[100:200]),
        ("bytes=10000-", CONTENT[10000:]),
        ("bytes=-16", CONTENT[-16:]),
        ("bytes=-999999", CONTENT),
        ("bytes=10200-99999", CONTENT[10200:]),
    ],
)
def test_gives_a_byte_range(connection, wanted, expected):
    status, headers, body = ask(connection, "/redfish/boot-1.iso", Range=wanted)
    assert (status, body) == (206, expected)
    first = len(CONTENT) - len(expected) if wanted.startswith("bytes=-") else None
    if first is not None:
        assert headers["content-range"] == f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}"


@pytest.mark.parametrize(
    "wanted", ["bytes=-", "bytes=5-2", "bytes=0-1,4-5", "lines=1-2", "bytes=x-"]
)
def test_a_range_that_is_none_gives_the_whole(connection, wanted):
    status, _headers, body = ask(connection, "/redfish/boot-1.iso", Range=wanted)
    assert (status, body) == (200, CONTENT)


def test_a_range_behind_the_end_is_refused(connection):
    status, headers, body = ask(connection, "/redfish/boot-1.iso", Range="bytes=99999-")
    assert (status, body) == (416, b"")
    assert headers["content-range"] == f"bytes */{len(CONTENT)}"


def test_a_range_of_another_version_gives_the_whole(connection):
    tag = ask(connection, "/redfish/boot-1.iso", "HEAD")[1]["etag"]
    resumed = ask(connection, "/redfish/boot-1.iso", Range="bytes=5-9", If_Range=tag)
    assert resumed[0] == 206
    changed = ask(connection, "/redfish/boot-1.iso", Range="bytes=5-9", If_Range='"other"')
    assert (changed[0], changed[2]) == (200, CONTENT)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/redfish",
        "/redfish/",
        "/nothing",
        "/../secret",
        "/redfish/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "//redfish//boot-1.iso",
        "/redfish/.boot-1.iso.0011.part",
        "/leak",
        "/broken",
        "/pipe",
        "/redfish/boot-1.iso%00",
        "/" + "x" * 5000,
    ],
)
def test_gives_nothing_else(connection, path):
    status, _headers, body = ask(connection, path)
    assert (status, body) == (404, b"")


def test_follows_links_into_the_image_directory(connection):
    assert ask(connection, "/linked")[2] == b"image"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_takes_nothing(connection, method):
    status, headers, _body = ask(connection, "/redfish/boot-1.iso", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_a_client_that_goes_away_harms_nobody(connection, root):
    (root / "large").write_bytes(b"x" * 8_000_000)
    with socket.create_connection((connection.host, connection.port)) as other:
        other.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        other.recv(100)
    assert ask(connection, "/a%20b")[0] == 200


def configuration(tmp_path: Path, **options: object) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    deploy.register(conf)
    pxe.register(conf)
    conf.register_opt(cfg.StrOpt("my_ip", default="127.0.0.1"))
    conf([], project="ironic")
    defaults = {"http_root": str(tmp_path / "made"), "http_server_port": 0}
    for name, value in {**defaults, **options}.items():
        conf.set_override(name, value, group="deploy")
    return conf


@pytest.mark.parametrize(
    ("choice", "url", "single_process", "expected"),
    [
        (None, None, True, True),
        (None, None, False, False),
        (None, "http://192.0.2.1", True, False),
        (True, "http://192.0.2.1", False, True),
        (False, None, True, False),
    ],
)
def test_runs_where_it_is_wanted(tmp_path, choice, url, single_process, expected):
    conf = configuration(tmp_path, http_server=choice, http_url=url)
    assert image_server.wanted(conf, single_process=single_process) is expected


def test_becomes_the_http_url_when_there_is_none(tmp_path):
    conf = configuration(tmp_path, http_server=True)
    server = image_server.start_if_wanted(conf, single_process=False)
    assert server is not None
    try:
        assert conf.deploy.http_url == f"http://127.0.0.1:{server.port}"
        assert (tmp_path / "made").is_dir()
    finally:
        server.stop()


def test_a_taken_port_is_told_with_the_options(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.ConfigInvalid, match=rf"http_server_port {port}"):
            image_server.ImageServer(tmp_path, "127.0.0.1", port)
