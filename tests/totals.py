"""Add up the JUnit reports of a directory: the last line of ./run-tests.

``python tests/totals.py DIRECTORY`` exits 1 when a test failed, and with CI=true
also when one was skipped: there nothing may be left out for the lack of a server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree


def main(directory: str) -> int:
    """Print the skipped tests and the totals; return the exit code."""
    total = failed = 0
    skipped: list[str] = []
    for report in sorted(Path(directory).glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            total += 1
            failed += any(case.find(kind) is not None for kind in ("failure", "error"))
            skip = case.find("skipped")
            if skip is not None:
                name = f"{case.get('classname')}::{case.get('name')}"
                skipped.append(f"{name}: {skip.get('message')}")
    for line in skipped:
        print(f"SKIPPED: {line}")
    in_ci = os.environ.get("CI") == "true"
    if total:
        counts = f"{total - failed - len(skipped)} passed, {failed} failed"
        print(counts + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed or (in_ci and skipped) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
