"""Kills a conductor at every point of a flow and looks at what a second one makes of it.

A template process imports everything once and forks a child for each life: the victim,
which dies at its point, and then the survivor.  Run as ``python -m
tests.harness.crash.lab FOLDER``, it reads one JSON request a line and answers each with
one line::

    {"flow": "deploy", "mode": "survivor", "stride": 1, "offset": 0}
    {"points": 52, "tried": 52, "unreached": 0, "failures": [...], "seconds": 3.2}
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironic_rs.conf import CONF
from ironic_rs.db import migration, session
from ironic_rs.drivers.base import INTERFACE_TYPES
from tests.harness.crash import machine, verdict
from tests.harness.crash.flows import FLOWS, Flow
from tests.harness.crash.points import Points, hook_database
from tests.harness.crash.site import Site

VICTIM, SURVIVOR = "victim", "survivor"
#: Longest life of a child in seconds.
_LIFE = 120


def configure(folder: Path) -> None:
    """Configure this process for fake machines."""
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("state_path", str(folder))
    CONF.set_override("enabled_hardware_types", ["fake-hardware"])
    for kind in INTERFACE_TYPES:
        offered = {"network": ["noop"], "bios": ["no-bios"]}.get(kind, ["fake"])
        CONF.set_override(f"enabled_{kind}_interfaces", offered)
    CONF.set_override("default_storage_interface", "fake")
    CONF.set_override("sqlite_synchronous", False, group="database")
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    CONF.set_override("periodic_max_workers", 1, group="conductor")


def live(life: Callable[[], Any], result: Path) -> int:
    """Run a function in a child of this process; return the child's wait status.

    What the function returns, or its error, is left in ``result`` as JSON.
    """
    pid = os.fork()
    if pid == 0:
        signal.alarm(_LIFE)
        try:
            answer = {"value": life()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        try:
            result.write_text(json.dumps(answer, default=str))
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def outcome(result: Path) -> Any:
    """Return what a child returned.

    :raises AssertionError: it failed or left nothing.
    """
    answer = json.loads(result.read_text()) if result.exists() else {"error": "it left nothing"}
    if "error" in answer:
        raise AssertionError(answer["error"])
    return answer["value"]


def _create_schema() -> None:
    migration.create_schema()
    # Nothing of it may be left in the write-ahead log.
    session.dispose()


class Lab:
    """Flows on fake machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        machine.install()
        configure(folder)
        empty = folder / "empty.sqlite"
        CONF.set_override("connection", f"sqlite:///{empty}", group="database")
        live(_create_schema, folder / "schema")
        outcome(folder / "schema")
        self.empty = empty
        self.victim = Site(VICTIM)
        self.survivor = Site(SURVIVOR)
        self.again = Site(VICTIM)
        gc.collect()
        gc.freeze()

    # Lives

    def _prepare(self, flow: Flow, base: Path) -> None:
        shutil.copy(self.empty, base)
        self.victim.open(base)
        self.victim.conductor._register()
        flow.store()
        session.dispose()

    def _place(self, flow: Flow, base: Path, name: str) -> Path:
        """Make a place of its own for one life: database and machine."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(base, place / "db.sqlite")
        machine.Ground.folder = place
        machine.set_power(flow.power)
        return place

    def _victim(self, flow: Flow, place: Path, target: int | None) -> Any:
        points = Points(place / "trace", target)
        machine.Ground.points = points
        site = self.victim
        site.open(place / "db.sqlite")
        site.serve()
        hook_database(points)
        points.armed = True
        flow.request(site)
        points.armed = False
        return site.picture()

    def _survivor(self, flow: Flow, place: Path, mode: str) -> Any:
        site = self.survivor if mode == SURVIVOR else self.again
        site.open(place / "db.sqlite")
        return verdict.judge(flow, site, mode)

    # Enumeration

    def enumerate(
        self, name: str, mode: str = SURVIVOR, stride: int = 1, offset: int = 0
    ) -> dict[str, Any]:
        """Kill at every ``stride``-th point from ``offset``.

        :param mode: who recovers: ``survivor``, another conductor, or ``victim``, the
            same one started again.
        """
        begun = time.monotonic()
        flow = FLOWS[name]
        base = self.folder / "base.sqlite"
        base.unlink(missing_ok=True)
        made = self.folder / "made"
        live(lambda: self._prepare(flow, base), made)
        outcome(made)
        failures: list[str] = []
        place = self._place(flow, base, "dry")
        live(lambda: self._victim(flow, place, None), place / "result")
        verdict.reached(flow, outcome(place / "result"), machine.power())
        labels = (place / "trace").read_text().splitlines()
        tried = unreached = 0
        for target in range(offset, len(labels), stride):
            place = self._place(flow, base, "life")
            status = live(
                lambda place=place, target=target: self._victim(flow, place, target),
                place / "result",
            )
            if not os.WIFSIGNALED(status):
                unreached += 1
                continue
            assert os.WTERMSIG(status) == signal.SIGKILL, status
            tried += 1
            live(lambda place=place: self._survivor(flow, place, mode), place / "verdict")
            try:
                found = outcome(place / "verdict")
            except AssertionError as exc:
                found = [str(exc)]
            if found:
                last = (place / "trace").read_text().splitlines()[-1]
                failures.append(f"point {target} ({last}): " + "; ".join(found))
        return {
            "points": len(labels),
            "tried": tried,
            "unreached": unreached,
            "failures": failures,
            "seconds": round(time.monotonic() - begun, 1),
        }


def main() -> None:
    """Serve requests until the end of the input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lab = Lab(Path(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = lab.enumerate(request.pop("flow"), **request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
