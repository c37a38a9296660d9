"""The service commands refuse what cannot work, with one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.servers import free_port

_CONFIG = """
[DEFAULT]
host = cond-a
state_path = {folder}
auth_strategy = noauth
enabled_hardware_types = {types}
rpc_transport = {transport}
[database]
connection = sqlite:///{folder}/i.sqlite
[deploy]
http_root = {folder}/httpboot
http_server = false
[api]
host_ip = 127.0.0.1
port = {port}
"""


def run(
    folder: Path, module: str, *, transport: str = "none", types: str = "fake-hardware"
) -> subprocess.CompletedProcess[str]:
    config = folder / "ironic.conf"
    config.write_text(
        _CONFIG.format(folder=folder, transport=transport, types=types, port=free_port())
    )
    program = f"from ironic_rs.cmd.{module} import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "--config-file", str(config)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_conductor_alone_needs_a_bus(tmp_path: Path) -> None:
    done = run(tmp_path, "conductor")
    assert done.returncode == 1
    assert "rpc_transport = none works inside one process only" in done.stderr


@pytest.mark.parametrize(
    ("types", "text"),
    [("fake-hardware", "run the database upgrade first"), ("typo", "typo")],
)
def test_all_in_one_says_why_it_cannot_start(tmp_path: Path, types: str, text: str) -> None:
    done = run(tmp_path, "all_in_one", types=types)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr
