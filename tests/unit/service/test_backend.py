"""The choice between threads and eventlet, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
from ironic_rs.service import backend
print(backend.activate())
import logging, threading, time
logging.basicConfig()
print("patched" if "eventlet" in type(threading.current_thread()).__module__
      or "eventlet" in time.sleep.__module__ else "plain")
import oslo_messaging
backend.announce()
backend.announce
"""


def run(value: str | None) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "IRONIC_RS_BACKEND"}
    if value is not None:
        env["IRONIC_RS_BACKEND"] = value
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("value", [None, "", "threads"])
def test_threads_are_the_default_and_say_nothing(value: str | None) -> None:
    done = run(value)
    assert done.stdout.split() == ["threads", "plain"]
    assert done.stderr == ""
    assert done.returncode == 0


def test_eventlet_patches_and_warns_once() -> None:
    pytest.importorskip("eventlet")
    done = run("eventlet")
    assert done.stdout.split() == ["eventlet", "patched"]
    assert done.stderr.count("deprecated") == 1
    assert "IRONIC_RS_BACKEND=eventlet is deprecated" in done.stderr
    assert done.returncode == 0


def test_unknown_backend_ends_the_process() -> None:
    done = run("asyncio")
    assert done.returncode == 1
    assert "must be threads or eventlet, not 'asyncio'" in done.stderr
