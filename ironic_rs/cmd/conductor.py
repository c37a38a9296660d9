"""``ironic-rs-conductor``: the conductor alone.

Source: specification operations.md section 1.
"""

from __future__ import annotations

from ironic_rs.service import backend

backend.activate()

from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402

from ironic_rs.conductor import checks  # noqa: E402
from ironic_rs.conductor.service import Conductor  # noqa: E402
from ironic_rs.conf import CONF, loading  # noqa: E402
from ironic_rs.service import process  # noqa: E402

NAME = "ironic-rs-conductor"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the conductor; ends the process."""
    loading.load(argv, NAME)
    backend.announce()
    if CONF.rpc_transport == "none":
        raise SystemExit(
            f"{NAME}: [DEFAULT]rpc_transport = none works inside one process only: run "
            "ironic-rs, or set rpc_transport = oslo"
        )
    checks.warn(CONF, split=True)
    process.main(NAME, Conductor, CONF)
