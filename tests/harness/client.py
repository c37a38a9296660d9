"""The real ``baremetal`` client, without the cost of starting it."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shlex
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from ironicclient import shell


class Baremetal:
    """``baremetal`` against one API, each command line in this very process.

    A start of the program takes more than a second of CPU, most of it imports; its
    ``main`` takes a tenth of that and is the same code.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, line: str) -> tuple[int, str, str]:
        """Run a command line; return exit status, output and errors."""
        argv = ["--os-auth-type", "none", "--os-endpoint", self.url, *shlex.split(line)]
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["baremetal", *argv]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _logging_restored(),
        ):
            try:
                status = int(shell.main(argv))
            except SystemExit as exc:  # argparse refuses the command line
                status = int(exc.code or 0)
        return status, out.getvalue(), err.getvalue()

    def __call__(self, line: str) -> str:
        """Run a command line that must succeed; return its output."""
        status, out, err = self.run(line)
        assert status == 0, f"baremetal {line}: {status}\n{out}\n{err}"
        return out

    def json(self, line: str) -> Any:
        """Run a command line that must succeed; return its output as JSON."""
        return json.loads(self(f"{line} -f json"))

    def values(self, line: str) -> list[str]:
        """Run a command line that must succeed; return the lines of its output."""
        return self(f"{line} -f value").splitlines()

    def refused(self, line: str) -> str:
        """Run a command line that must fail; return what it says about that.

        Conflicts are not tried again.
        """
        status, out, err = self.run(f"--max-retries 0 {line}")
        assert status != 0, f"baremetal {line}: {status}\n{out}\n{err}"
        return err

    def create(self, name: str, options: str = "") -> dict[str, Any]:
        """Create a node of fake hardware."""
        return dict(self.json(f"node create --driver fake-hardware --name {name} {options}"))

    def state(self, name: str, *fields: str) -> Any:
        """The values of some fields of a node, of its provision state when none are named."""
        shown = self.json(f"node show {name} --fields {' '.join(fields or ('provision_state',))}")
        return [shown[field] for field in fields] if fields else shown["provision_state"]


@contextlib.contextmanager
def _logging_restored() -> Iterator[None]:
    """Undo what the client does to logging, as if its process had ended."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    named = {
        name: logging.getLogger(name) for name in ("openstack", "keystoneauth", "ironicclient")
    }
    kept = {name: (log.level, log.propagate, log.handlers[:]) for name, log in named.items()}
    try:
        yield
    finally:
        root.level, root.handlers[:] = level, handlers
        for name, log in named.items():
            log.level, log.propagate, log.handlers[:] = kept[name]
