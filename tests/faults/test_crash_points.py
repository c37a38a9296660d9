"""kill -9 of a conductor at every write and every outbound call of every flow.

A victim dies at a point, then a survivor (or the victim itself, started again)
recovers by its periodic tasks alone.  What has to hold afterwards is in
:mod:`tests.harness.crash.verdict`.

Source: specification conductor.md sections 3, 6, 7, 10, 11 and 16; field-cases.md K03.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.crash import NIGHTLY
from tests.harness.crash.flows import FLOWS, WITH_BMC

pytestmark = pytest.mark.timeout(3600 if NIGHTLY else 600)

#: Flows of many points.
LONG = ("firmware update", "RAID")
#: An allocation needs no machine at all.
SANDBOX = [*(name for name in FLOWS if name != "allocation"), *WITH_BMC]


Check = Callable[[dict[str, Any], str], None]


class LabProcess:
    """The template process that forks the conductors to be killed."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.log = folder / "lab.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.crash.lab", kind, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[2],
            )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Have a flow enumerated."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the lab ended: {self.log.read_text()[-3000:]}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()


#: Flows whose recovery is interrupted too, and the point that CI interrupts them at.
TWICE = {"clean": 13, "deploy": 14, "undeploy": 20, "service": 17, "power off": 5, "allocation": 4}
if NIGHTLY:
    TWICE = dict.fromkeys(FLOWS, 0)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabProcess]:
    process = LabProcess("fake", tmp_path_factory.mktemp("fake"))
    yield process
    process.stop()


@pytest.fixture(scope="module")
def sandbox_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabProcess]:
    process = LabProcess("sandbox", tmp_path_factory.mktemp("sandbox"))
    yield process
    process.stop()


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """Shows the numbers, and fails with the points that went wrong."""

    def show(answer: dict[str, Any], what: str) -> None:
        with capsys.disabled():
            print(
                f"\n{what}: {answer['points']} points, {answer['tried']} tried "
                f"in {answer['seconds']} s, {answer['unreached']} not reached"
            )
        _check(answer)

    return show


def _check(answer: dict[str, Any]) -> None:
    failures = answer["failures"]
    assert not failures, f"{len(failures)} of {answer['tried']} points:\n" + "\n".join(failures[:5])
    assert answer["tried"] > 0


@pytest.mark.parametrize("flow", FLOWS)
def test_another_conductor_recovers_a_fake_machine_from_each_point_of(
    lab: LabProcess, check: Check, flow: str
) -> None:
    answer = lab.ask(flow=flow)

    check(answer, flow)
    assert answer["tried"] == answer["points"]


@pytest.mark.parametrize("number", range(len(FLOWS)), ids=list(FLOWS))
def test_the_same_conductor_recovers_a_fake_machine_when_it_is_back_from(
    lab: LabProcess, check: Check, number: int
) -> None:
    stride = 1 if NIGHTLY else 4
    flow = list(FLOWS)[number]

    answer = lab.ask(flow=flow, mode="victim", stride=stride, offset=number % stride)

    check(answer, f"{flow}, started again")


@pytest.mark.parametrize("number", range(len(FLOWS)), ids=list(FLOWS))
def test_a_conductor_that_was_frozen_too_long_leaves_alone_what_was_recovered_from(
    lab: LabProcess, check: Check, number: int
) -> None:
    stride = 1 if NIGHTLY else 12
    flow = list(FLOWS)[number]

    answer = lab.ask(flow=flow, mode="frozen", stride=stride, offset=number % min(stride, 4))

    check(answer, f"{flow}, frozen")


@pytest.mark.parametrize("flow", TWICE)
def test_a_third_conductor_recovers_when_the_second_dies_in_its_recovery_from(
    lab: LabProcess, check: Check, flow: str
) -> None:
    stride = 3 if NIGHTLY else 1000

    answer = lab.ask(flow=flow, mode="third", stride=stride, offset=TWICE[flow])

    check(answer, f"{flow}, recovery interrupted")


@pytest.mark.parametrize("number", range(len(SANDBOX)), ids=SANDBOX)
def test_another_conductor_recovers_a_sandbox_machine_from_points_of(
    sandbox_lab: LabProcess, check: Check, number: int
) -> None:
    # A flow takes a second or two and has up to 200 points, some take longer and have more.
    flow = SANDBOX[number]
    often, seldom = (4, 250) if flow in LONG else (1, 89)
    stride = often if NIGHTLY else seldom

    answer = sandbox_lab.ask(flow=flow, stride=stride, offset=7 * number % min(stride, 20))

    check(answer, f"{flow} on a sandbox machine")
