"""The program ipmitool, played by a script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCRIPT = """#!{python} -IS
import json, os, stat, sys
here = os.path.dirname(os.path.abspath(__file__))
args = sys.argv[1:]
run = {{"args": args, "env": os.environ.get("IPMI_PASSWORD")}}
if "-f" in args:
    path = args[args.index("-f") + 1]
    run["password"] = open(path).read()
    run["mode"] = stat.S_IMODE(os.stat(path).st_mode)
    run["file"] = path
with open(os.path.join(here, "runs"), "a") as runs:
    runs.write(json.dumps(run) + "\\n")
{body}
"""


class FakeProgram:
    """``ipmitool`` in a directory that is to be on the path; its runs are written down.

    Each run has ``args``, the ``password`` with the ``file`` that it was in and its
    ``mode``, and the password of the environment, ``env``.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "ipmitool"
        self._runs = directory / "runs"

    def write(self, body: str) -> None:
        """Let it do this, in Python: ``args`` are its arguments."""
        self.path.write_text(SCRIPT.format(python=sys.executable, body=body))
        self.path.chmod(0o755)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """All runs until now."""
        if not self._runs.exists():
            return []
        return [json.loads(line) for line in self._runs.read_text().splitlines()]
