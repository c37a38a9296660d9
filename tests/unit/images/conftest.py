"""Fixtures of the image tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.images import services
from tests.unit.image_server import ImageServer


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Override options: ``config("group", name=value)``."""
    CONF([], default_config_files=[], default_config_dirs=[])
    overridden: list[tuple[str, str | None]] = []

    def override(group: str | None = None, **options: Any) -> None:
        for name, value in options.items():
            CONF.set_override(name, value, group)
            overridden.append((name, group))

    override(
        "pxe",
        instance_master_path=str(tmp_path / "masters"),
        images_path=str(tmp_path / "images"),
    )
    override("deploy", iso_master_path=str(tmp_path / "isos"))
    override("conductor", file_url_allowed_paths=[str(tmp_path / "allowed")])
    yield override
    for name, group in overridden:
        CONF.clear_override(name, group)


@pytest.fixture
def server(config: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageServer]:
    """A web server, and no pauses between tries."""
    monkeypatch.setattr(services, "RETRY_PAUSE", 0)
    with ImageServer().running() as running:
        yield running
