"""Doubtful settings are named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_rs.conductor import checks
from ironic_rs.conf import CONF


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", "mysql+pymysql://h/db", group="database")
    yield
    CONF.reset()
    CONF.clear()


def test_defaults_are_not_doubtful() -> None:
    assert checks.doubts(CONF, split=True) == []


@pytest.mark.parametrize(
    ("group", "values", "named"),
    [
        ("database", {"connection": "sqlite:////tmp/x"}, "SQLite"),
        (
            "conductor",
            {"max_conductor_wait_step_seconds": 60, "clean_callback_timeout": 60},
            "clean_callback_timeout",
        ),
        ("conductor", {"check_provision_state_interval": 0}, "stay locked"),
        ("conductor", {"deploy_kernel_by_arch": {"x86_64": "k"}}, "x86_64"),
        (
            "deploy",
            {"shred_random_overwrite_iterations": 0, "shred_final_overwrite_with_zeros": False},
            "erases nothing",
        ),
        ("conductor", {"heartbeat_timeout": 10}, "heartbeat_timeout"),
    ],
)
def test_doubts(
    caplog: pytest.LogCaptureFixture, group: str, values: dict[str, object], named: str
) -> None:
    for name, value in values.items():
        CONF.set_override(name, value, group=group)
    checks.warn(CONF, split=True)
    assert len(caplog.records) == 1
    assert named in caplog.text


def test_sqlite_is_fine_in_one_process() -> None:
    CONF.set_override("connection", "sqlite:////tmp/x", group="database")
    assert checks.doubts(CONF, split=False) == []
