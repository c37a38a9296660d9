"""The periodic tasks that run are those of the documented table, under each launcher.

Source: field case 111; docs/operations.md, section "Periodic tasks".
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from tests.harness import servers
from tests.harness.cluster import FAST, Cluster, Process, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(300)

TABLE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| `(?:\[(\w+)\])?(\w+)` \((\d+)", re.MULTILINE)
OFF = {"_power_failure_recovery", "_clean_up_caches"}
CHANGED: Mapping[str, Mapping[str, Any]] = {
    "conductor": {
        "power_failure_recovery_interval": 0,
        "cache_clean_up_interval": 0,
        "check_rescue_state_interval": 7,
        "conductor_cleanup_interval": 11,
    },
    "sensor_data": {"send_sensor_data": True, "interval": 13},
}


def documented(*changes: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the tasks of the documentation with their intervals under these options."""
    found = {}
    CONF([], default_config_files=[], default_config_dirs=[])
    for name, named_group, option, default in ROW.findall(TABLE):
        group = named_group or "conductor"
        assert CONF[group][option] == int(default), option
        values = {**FAST.get(group, {})}
        for change in changes:
            values.update(change.get(group, {}))
        found[name] = float(values.get(option, default))
    assert len(found) == 15
    if not any(change.get("sensor_data") for change in changes):
        found["_send_sensor_data"] = 0
    return {name: interval for name, interval in found.items() if interval > 0}


def listed(process: Process) -> dict[str, float]:
    """Return the tasks of the conductor itself that the log lists at start."""
    (line,) = re.findall(r"Periodic tasks: (.*)", process.text())
    pairs = re.findall(r"(\S+) every ([\d.]+) s", line)
    # Those of drivers have the name of a class before their own.
    return {name: float(interval) for name, interval in pairs if "." not in name}


def asked(process: Process) -> dict[str, str]:
    """Return what the log says of each task after a SIGHUP."""
    wait_until(lambda: "ironic-rs is ready" in process.text(), "the process heeds signals")
    before = len(process.text())
    process.signal(signal.SIGHUP)

    def told() -> dict[str, str] | None:
        text = process.text()[before:]
        found = dict(re.findall(r"Periodic task (\w+) (every .*|is off)", text))
        return found if len(found) >= 15 else None

    found = wait_until(told, "the log says how the tasks are doing")
    assert isinstance(found, dict)
    return found


def test_in_a_single_process(tmp_path: Path) -> None:
    made = Cluster(tmp_path, f"sqlite:///{tmp_path}/ironic.sqlite", "fake:/")
    with running(made):
        made.migrate()
        process = made.start_all_in_one()
        assert listed(process) == documented()
        wait_until(
            lambda: "last run" in asked(process)["_check_orphan_nodes"], "a task has run", 60
        )
        lines = asked(process)
        assert lines["_send_sensor_data"] == "is off"
        for name, interval in documented().items():
            assert lines[name].startswith(f"every {interval:g} s, ")
        assert re.search(r"took [\d.]+ s, late by [\d.]+ s", lines["_check_orphan_nodes"])


def test_in_a_conductor_of_its_own_and_none_in_the_api(tmp_path: Path) -> None:
    with servers.mariadb_database() as database, servers.rabbit_vhost() as broker:
        made = Cluster(tmp_path, database, broker, CHANGED)
        with running(made):
            made.migrate()
            api = made.start_api()
            process = made.start_conductor("c1")
            assert listed(process) == documented(CHANGED)
            assert not OFF & set(listed(process))
            off = re.findall(r"tasks that the configuration switches off: (.*)", process.text())
            assert set(off[0].split(", ")) >= OFF
            assert "Periodic task" not in api.text()
