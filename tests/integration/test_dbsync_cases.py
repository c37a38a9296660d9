"""Databases that are newer or older than the code: field case K17/112, with real processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_rs.db import migration, nodes
from tests.database_suite.setup import configured, create_upstream, make_node
from tests.harness import servers

DBSYNC = Path(sys.executable).parent / "ironic-rs-dbsync"


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            yield f"sqlite:///{tmp_path}/ironic.sqlite"
        else:
            yield stack.enter_context(getattr(servers, f"{request.param}_database")())


def start(folder: Path, url: str, *command: str) -> subprocess.Popen[str]:
    config = folder / "ironic.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {folder}\n[database]\nconnection = {url}\n")
    return subprocess.Popen(
        [DBSYNC, "--config-file", config, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def test_112_two_at_the_same_time_are_safe(tmp_path: Path, url: str) -> None:
    with configured(url):
        create_upstream()
        kept = make_node(name="kept").id
    both = [end(process) for process in [start(tmp_path, url, "upgrade") for _ in range(2)]]
    assert [code for code, _, _ in both] == [0, 0], both
    with configured(url):
        assert migration.version() == migration.head()
        assert nodes.get(kept).name == "kept"
        assert make_node(name="new").id
