"""Pinning of the RPC version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc import versions


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    yield
    CONF.reset()
    CONF.clear()


@pytest.mark.parametrize(
    ("pin", "cap"), [(None, "1.63"), ("2026.2", "1.62"), ("39.0", "1.62"), ("2025.2", "1.61")]
)
def test_cap_of_a_release(pin: str | None, cap: str) -> None:
    CONF.set_override("pin_release_version", pin)
    assert versions.cap(CONF) == cap


def test_release_too_old_to_upgrade_from() -> None:
    CONF.set_override("pin_release_version", "yoga")
    with pytest.raises(errors.IncorrectConfiguration, match="yoga is too old"):
        versions.cap(CONF)


@pytest.mark.parametrize(
    ("version", "highest", "expected"),
    [
        ("1.9", "1.62", True),
        ("1.62", "1.62", True),
        ("1.63", "1.62", False),
        ("2.0", "1.62", False),
    ],
)
def test_fits(version: str, highest: str, expected: bool) -> None:
    assert versions.fits(version, highest) is expected
