"""One machine, the API double, and a way to boot the ramdisk on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.ramdisk_api import TOKEN, Conductor, RamdiskApi, make_iso
from tests.harness.sandbox import Sandbox, running


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RamdiskApi]:
    files = tmp_path / "files"
    files.mkdir()
    with RamdiskApi(files) as double:
        yield double


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with running(tmp_path / "sandbox") as started:
        yield started


class Bench:
    """A machine that boots the ramdisk against the API double."""

    def __init__(self, sandbox: Sandbox, api: RamdiskApi) -> None:
        self.sandbox, self.api = sandbox, api
        self.machine = sandbox.machine
        self.parameters = {
            "ipa-api-url": api.url,
            "ipa-agent-token": TOKEN,
            "boot_method": "vmedia",
        }

    def insert(self, **iso: Any) -> None:
        make_iso(self.api.directory / "boot.iso", self.parameters, **iso)
        medium = self.machine.virtual_media["Cd"]
        medium.image, medium.inserted = f"{self.api.url}/boot.iso", True
        self.machine.boot.enabled, self.machine.boot.target = "Once", "Cd"

    def power(self, reset_type: str) -> None:
        self.sandbox.call(self.machine.reset, reset_type)

    def boot(self, **iso: Any) -> Conductor:
        """Boot the ramdisk; returns when its first heartbeat is there."""
        self.insert(**iso)
        self.power("On")
        return Conductor(self.api.heartbeat())

    def wait_for(self, software: str) -> str:
        self.sandbox.wait(lambda: self.machine.software == software, software)
        return self.machine.detail


@pytest.fixture
def bench(sandbox: Sandbox, api: RamdiskApi) -> Bench:
    return Bench(sandbox, api)
