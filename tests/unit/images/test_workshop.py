"""Unfinished files go with whoever makes them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ironic_rs.images import cache, workshop

#: Makes a file in a workshop below its argument, tells, and waits to be killed.
WORKER = """
import sys
from pathlib import Path
from ironic_rs.images import workshop

with workshop.opened(Path(sys.argv[1])) as place:
    (place / "image").write_bytes(b"half")
    print(place, flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_of_good_work_and_of_bad_work(tmp_path):
    with workshop.opened(tmp_path) as place:
        (place / "image").write_bytes(b"x")
    with pytest.raises(ZeroDivisionError), workshop.opened(tmp_path) as place:
        (place / "image").write_bytes(b"x")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_and_what_a_live_one_makes_stays(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    assert workshop.sweep(tmp_path) == 0
    assert (left / "image").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert (left / "image").exists()
    with workshop.opened(tmp_path) as mine:
        assert workshop.sweep(tmp_path) == 1
        assert [mine] == list(tmp_path.iterdir())


def test_a_place_that_is_not_there_is_empty(tmp_path):
    assert workshop.sweep(tmp_path / "none") == 0


def test_all_places_of_unfinished_images_are_swept(config, tmp_path):
    node = "11111111-2222-4333-8444-555555555555"
    config("pxe", tftp_root=str(tmp_path / "tftp"), tftp_master_path=str(tmp_path / "boot"))
    config("deploy", http_root=str(tmp_path / "http"))
    places = ["masters", "isos", "boot", f"images/{node}", f"http/{node}", f"tftp/{node}"]
    for place in places:
        left = tmp_path / place / "0123.part"
        left.mkdir(parents=True)
        (left / "image").write_bytes(b"half")
    (tmp_path / "http" / "operators.part").mkdir()
    cache.sweep()
    assert sorted(path.name for path in tmp_path.rglob("*.part")) == ["operators.part"]
