"""Fixtures of the IPMI tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_rs.drivers.ipmi import turns


@pytest.fixture(autouse=True)
def options(config: Callable[..., None]) -> None:
    """Load the configuration, with defaults; know no BMC."""
    turns._bmcs.clear()
