"""``ironic-rs-api``: the REST API alone, in one or several worker processes.

Source: specification rest-api.md section 1, operations.md section 1.
"""

from __future__ import annotations

from ironic_rs.service import backend

backend.activate()

import gc  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import NoReturn  # noqa: E402

from ironic_rs.conf import CONF, loading  # noqa: E402
from ironic_rs.service import prefork, process, wsgi  # noqa: E402

NAME = "ironic-rs-api"
_MOST_WORKERS = 4


class ApiProcess:
    """The API in this process.

    :param sock: listening socket to share; None opens the configured one.
    """

    def __init__(self, sock: socket.socket | None = None) -> None:
        from ironic_rs.api import app

        self._server = wsgi.WsgiServer(app.build(app.services(CONF)), CONF, sock)

    def start(self) -> None:
        """Serve from now on."""
        # What was loaded lives as long as the process: the collector, which large
        # answers wake up often, need not look at it.
        gc.collect()
        gc.freeze()
        self._server.start()

    def stop(self, timeout: float | None) -> bool:
        """Let running requests end within ``timeout`` seconds."""
        return self._server.stop(60.0 if timeout is None else timeout)

    def keep_registered(self) -> None:
        """Nothing is registered."""

    def reloaded(self) -> None:
        """Options are read where they are needed."""

    def healthy(self) -> bool:
        """Tell whether requests are accepted."""
        return self._server.serving


def worker_count() -> int:
    """Return the number of worker processes: ``[api]api_workers``, or one per CPU, at most 4."""
    configured: int | None = CONF.api.api_workers
    if configured is not None:
        return max(1, configured)
    return min(_MOST_WORKERS, os.cpu_count() or 1)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the API; ends the process."""
    loading.load(argv, NAME)
    if CONF.rpc_transport == "none":
        raise SystemExit(
            f"{NAME}: [DEFAULT]rpc_transport = none works inside one process only: run "
            "ironic-rs, or set rpc_transport to oslo or json-rpc"
        )
    shared = prefork.inherited_socket()
    if shared is not None:
        process.main(NAME, lambda: ApiProcess(shared), CONF)
    backend.announce()
    count = worker_count()
    if count == 1:
        process.main(NAME, ApiProcess, CONF)
    arguments = sys.argv[1:] if argv is None else list(argv)
    command = [sys.executable, "-P", "-m", "ironic_rs.cmd.api", *arguments]
    process.main(NAME, lambda: _workers(command, count), CONF)


def _workers(command: Sequence[str], count: int) -> prefork.Workers:
    # Workers that can not start are started again and again: what they would stumble
    # over is looked at before.
    wsgi.tls_context(CONF)
    return prefork.Workers(command, count, wsgi.listen(CONF), CONF)


if __name__ == "__main__":
    main()
