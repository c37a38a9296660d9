"""Kills a conductor at every point of a flow and looks at what a second one makes of it.

A template process imports everything once and forks a child for each life: the victim,
which dies at its point, and then the survivor.  Run as ``python -m
tests.harness.crash.lab fake FOLDER``, it reads one JSON request a line and answers each with
one line::

    {"flow": "deploy", "mode": "survivor", "stride": 1, "offset": 0}
    {"points": 52, "tried": 52, "unreached": 0, "failures": [...], "seconds": 3.2}
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from ironic_rs.conductor.fence import SelfFence
from ironic_rs.conf import CONF
from ironic_rs.db import migration, session
from ironic_rs.drivers.base import INTERFACE_TYPES
from tests.harness.crash import machine, sandbox, verdict
from tests.harness.crash.flows import FLOWS, WITH_BMC, Flow
from tests.harness.crash.points import Points, hook_database, hook_http
from tests.harness.crash.site import Site
from tests.harness.servers import free_port

VICTIM, SURVIVOR, THIRD, FROZEN = "victim", "survivor", "third", "frozen"
#: Who is dead, by who recovers.
_DEAD = {VICTIM: (), SURVIVOR: (VICTIM,), THIRD: (VICTIM, SURVIVOR)}
_IN_TRANSACTION = tuple(f"before {verb} " for verb in ("insert", "update", "delete"))
#: Longest life of a child in seconds.
_LIFE = 300


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
    return os.waitpid(begin(life, result), 0)[1]


def begin(life: Callable[[], Any], result: Path) -> int:
    """Begin what :func:`live` does; return the process id of the child."""
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
    return pid


def outcome(result: Path) -> Any:
    """Return what a child returned.

    :raises AssertionError: it failed or left nothing.
    """
    answer = json.loads(result.read_text()) if result.exists() else {"error": "it left nothing"}
    if "error" in answer:
        raise AssertionError(answer["error"])
    return answer["value"]


def _count_time_from(site: Site, thawed: Path) -> None:
    """Let the frozen time be long for the conductor: it looks at the clock when it thaws."""
    site.conductor.fence = SelfFence(
        lambda: CONF.conductor.heartbeat_timeout,
        lambda: time.monotonic() + (86400 if thawed.exists() else 0),
    )
    site.conductor.fence.beat(site.conductor.fence.now())


def _create_schema() -> None:
    migration.create_schema()
    # Nothing of it may be left in the write-ahead log.
    session.dispose()


class Lab:
    """Flows on fake machines."""

    hardware: ClassVar[dict[str, Any]] = {"driver": "fake-hardware"}
    mac = "52:54:00:00:00:01"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        configure(folder)
        self._set_up()
        self.empty = folder / "empty.sqlite"
        CONF.set_override("connection", f"sqlite:///{self.empty}", group="database")
        live(_create_schema, folder / "schema")
        outcome(folder / "schema")
        self.victim = self._site(VICTIM)
        self.saviours = {host: self._site(host) for host in _DEAD}
        gc.collect()
        gc.freeze()

    # What differs between kinds of machines

    def _set_up(self) -> None:
        machine.install()

    def _site(self, host: str) -> Site:
        return Site(host)

    def _new_machine(self, place: Path, flow: Flow) -> None:
        machine.Ground.folder = place
        machine.set_power(flow.power)

    def _end_machine(self) -> None:
        """Nothing is left of it but files."""

    def _hook(self, points: Points) -> None:
        machine.Ground.points = points

    # Lives

    def _prepare(self, flow: Flow, base: Path) -> None:
        shutil.copy(self.empty, base)
        self.victim.open(base)
        self.victim.conductor._register()
        flow.store(self.hardware, self.mac)
        session.dispose()

    @contextlib.contextmanager
    def _place(self, flow: Flow, base: Path, name: str) -> Iterator[Path]:
        """Make a place of its own for one death: database and machine."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(base, place / "db.sqlite")
        try:
            self._new_machine(place, flow)
            yield place
        finally:
            self._end_machine()

    def _victim(
        self, flow: Flow, place: Path, target: int | None, end: signal.Signals = signal.SIGKILL
    ) -> Any:
        points = Points(place / "trace", target, end)
        self._hook(points)
        site = self.victim
        if end == signal.SIGSTOP:
            _count_time_from(site, place / "thawed")
        site.open(place / "db.sqlite")
        site.serve()
        hook_database(points)
        points.armed = True
        flow.request(site)
        points.armed = False
        return verdict.goal(flow, site.picture(), site.machine.power())

    def _save(self, flow: Flow, place: Path, saviour: str) -> Any:
        site = self.saviours[saviour]
        site.open(place / "db.sqlite")
        return verdict.judge(flow, site, _DEAD[saviour])

    def _die_saving(self, place: Path, target: int | None) -> Any:
        """Recover as the survivor, until its own death."""
        trace = place / "trace of the survivor"
        trace.unlink(missing_ok=True)
        points = Points(trace, target)
        site = self.saviours[SURVIVOR]
        site.open(place / "db.sqlite")
        site.take_over(_DEAD[SURVIVOR])
        self._hook(points)
        hook_database(points)
        points.armed = True
        site.come_to_rest()
        return len(trace.read_text().splitlines()) if trace.exists() else 0

    # Enumeration

    def enumerate(
        self, name: str, mode: str = SURVIVOR, stride: int = 1, offset: int = 0
    ) -> dict[str, Any]:
        """Kill at every ``stride``-th point from ``offset``.

        :param mode: who recovers: ``survivor``, another conductor; ``victim``, the same
            one started again; ``third``, a third one, after the survivor was killed at
            each point of its recovery; ``frozen``: the survivor, and then the victim
            goes on, which did not die but freeze.
        """
        begun = time.monotonic()
        flow = {**FLOWS, **WITH_BMC}[name]
        base = self.folder / "base.sqlite"
        base.unlink(missing_ok=True)
        live(lambda: self._prepare(flow, base), self.folder / "made")
        outcome(self.folder / "made")
        with self._place(flow, base, "dry") as place:
            live(lambda: self._victim(flow, place, None), place / "result")
            wrong = outcome(place / "result")
            assert not wrong, f"undisturbed, {wrong}"
            labels = (place / "trace").read_text().splitlines()
            points = len(labels)
        found: list[str | None] = []
        # SQLite could not be used by others while a transaction is frozen.
        possible = [
            number
            for number, label in enumerate(labels)
            if mode != FROZEN or not label.startswith(_IN_TRANSACTION)
        ]
        for target in possible[offset::stride]:
            with self._place(flow, base, "life") as place:
                if mode == THIRD:
                    found += self._die_twice(flow, place, target)
                elif mode == FROZEN:
                    found.append(self._thaw(flow, place, target))
                else:
                    found.append(self._die(flow, place, target, mode))
        return {
            "points": points,
            "tried": len(found) - found.count(None),
            "unreached": found.count(None),
            "failures": [text for text in found if text],
            "seconds": round(time.monotonic() - begun, 1),
        }

    def _kill(self, life: Callable[[], Any], result: Path) -> bool:
        """Live a life that is to end at a point; False when it did not get there."""
        status = live(life, result)
        if not os.WIFSIGNALED(status):
            return False
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return True

    def _judge(self, flow: Flow, place: Path, saviour: str, point: str) -> str:
        live(lambda: self._save(flow, place, saviour), place / "verdict")
        try:
            found = outcome(place / "verdict")
        except AssertionError as exc:
            found = [str(exc)]
        return f"{point}: " + "; ".join(found) if found else ""

    def _die(self, flow: Flow, place: Path, target: int, saviour: str) -> str | None:
        """Kill at one point and recover; return what is wrong, None when it was not reached."""
        if not self._kill(lambda: self._victim(flow, place, target), place / "result"):
            return None
        return self._judge(flow, place, saviour, f"point {target} ({_last(place / 'trace')})")

    def _thaw(self, flow: Flow, place: Path, target: int) -> str | None:
        """Freeze at one point, recover, thaw; return what the frozen one does then."""

        def rest() -> Any:
            site = self.saviours[SURVIVOR]
            site.open(place / "db.sqlite")
            site.take_over(_DEAD[SURVIVOR])
            site.come_to_rest()
            return [site.dump(), machine.calls()]

        def look() -> Any:
            self.saviours[SURVIVOR].open(place / "db.sqlite")
            return [self.saviours[SURVIVOR].dump(), machine.calls()]

        pid = begin(lambda: self._victim(flow, place, target, signal.SIGSTOP), place / "result")
        try:
            if not os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
                pid = 0
                return None
            live(rest, place / "rested")
            (place / "thawed").touch()
        finally:
            if pid:
                os.kill(pid, signal.SIGCONT)
                os.waitpid(pid, 0)
        live(look, place / "looked")
        (rows, calls), (rows_now, calls_now) = outcome(place / "rested"), outcome(place / "looked")
        wrong = [f"it wrote to {name}" for name in rows if rows[name] != rows_now[name]]
        done = [name for name, number in calls_now.items() if number > calls.get(name, 0)]
        if len(done) > 1:
            # What it was about to do when it froze it may do: nothing can hold it up.
            wrong.append(f"it did {done}")
        return f"point {target} ({_last(place / 'trace')}): {wrong}" if wrong else ""

    def _die_twice(self, flow: Flow, place: Path, target: int) -> list[str | None]:
        """Kill at one point, and then the survivor at each point of its recovery."""
        if not self._kill(lambda: self._victim(flow, place, target), place / "result"):
            return [None]
        dead = self.folder / "dead"
        shutil.rmtree(dead, ignore_errors=True)
        shutil.copytree(place, dead)
        live(lambda: self._die_saving(place, None), place / "saved")
        found: list[str | None] = []
        for second in range(outcome(place / "saved")):
            shutil.rmtree(place)
            shutil.copytree(dead, place)
            if not self._kill(lambda n=second: self._die_saving(place, n), place / "saved"):
                found.append(None)
                continue
            points = f"point {target} ({_last(place / 'trace')}), then {second} of the recovery "
            points += f"({_last(place / 'trace of the survivor')})"
            found.append(self._judge(flow, place, THIRD, points))
        return found


def _last(trace: Path) -> str:
    return trace.read_text().splitlines()[-1]


class SandboxLab(Lab):
    """Flows on a machine with a Redfish BMC and an agent."""

    def _set_up(self) -> None:
        machine.install_network()
        self.machine = sandbox.SandboxMachine(self.folder)
        sandbox.configure(self.machine.options(self.folder, free_port(), free_port()))
        self.hardware = self.machine.hardware()  # type: ignore[misc]
        self.mac = self.machine.spec.macs[0]

    def _site(self, host: str) -> Site:
        return sandbox.SandboxSite(host, self.machine)

    def _new_machine(self, place: Path, flow: Flow) -> None:
        self.machine.start(place)
        self.machine.switch(flow.power)
        self.machine.forget_calls()

    def _end_machine(self) -> None:
        self.machine.stop()

    def _hook(self, points: Points) -> None:
        hook_http(points)


LABS = {"fake": Lab, "sandbox": SandboxLab}


def main() -> None:
    """Serve requests until the end of the input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lab = LABS[sys.argv[1]](Path(sys.argv[2]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = lab.enumerate(request.pop("flow"), **request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
