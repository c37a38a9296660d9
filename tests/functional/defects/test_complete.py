"""Each defect of the reference that the specification lists has a test of its own.

Source: specification conductor.md section 17 (W01 to W51).  A test is named after its
defect, ``test_w03_...``, and lives where users meet it: here, by the REST API, or with
real processes in ``tests/faults`` and ``tests/integration``.

The polls of two drivers that are not part of the service yet (W36 firmware updates of
Redfish, W37 graphical consoles) are tested by interfaces that poll as they will.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
LAYERS = ("functional", "faults", "integration")


def test_every_defect_has_a_test_of_its_own() -> None:
    named = {
        int(number)
        for layer in LAYERS
        for file in (TESTS / layer).rglob("test_*.py")
        for number in re.findall(r"^def test_w(\d\d)_", file.read_text(), re.MULTILINE)
    }

    assert sorted(set(range(1, 52)) - named) == []
