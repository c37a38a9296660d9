"""Several worker processes on one listening socket, and the process that minds them.

The first process opens the socket and starts workers: fresh interpreters that run
the same command and inherit the socket, so that nothing of threads, database or
broker connections is ever shared by a fork.  A worker that ends is started again.
Workers stop when the first process is gone, however it ended.

Source: specification operations.md section 1 (the sharing that upstream lacks).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence

from oslo_config import cfg

from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

#: Environment of a worker: descriptors of the shared socket, and of a pipe that
#: breaks when the first process is gone.
SOCKET_VARIABLE = "IRONIC_RS_LISTEN_FD"
LIFELINE_VARIABLE = "IRONIC_RS_LIFELINE_FD"

#: Seconds within which a new worker must be ready.
START_SECONDS = 120.0
#: A worker that lived shorter (seconds) is started again after a pause.
_SHORT_LIFE = 5.0
_LONGEST_PAUSE = 30.0
_POLL = 0.2


def inherited_socket() -> socket.socket | None:
    """Return the shared socket when this process is a worker, else None.

    Also ties the life of the worker to that of the first process.
    """
    number = os.environ.get(SOCKET_VARIABLE)
    if number is None:
        return None
    lifeline = int(os.environ[LIFELINE_VARIABLE])
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()
    return socket.socket(fileno=int(number))


def _end_with(lifeline: int) -> None:
    # Nobody ever writes: it becomes readable when the other end closes.  select()
    # waits for this thread alone, with green threads as well.
    select.select([lifeline], [], [])
    LOG.warning("The process that minds this worker is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)


class _Worker:
    """One place among the workers: a process, and its successors."""

    def __init__(self, owner: Workers, number: int) -> None:
        self._owner = owner
        self._number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._mind, name=f"worker-{number}", daemon=True)

    def _mind(self) -> None:
        pause = 0.0
        while not self._owner.stopping.wait(pause):
            started = time.monotonic()
            code = self._run()
            if self._owner.stopping.is_set():
                return
            self.ready.clear()
            lived = time.monotonic() - started
            pause = min(_LONGEST_PAUSE, pause * 2 or 1.0) if lived < _SHORT_LIFE else 0.0
            LOG.error(
                "API worker %d ended with code %s after %.1f s; it is started again%s",
                self._number,
                code,
                lived,
                f" in {pause:.0f} s" if pause else "",
            )

    def _run(self) -> int | None:
        """Start the process and wait for its end; its exit code."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            # Workers report as a service reports to systemd, here to us.
            notices.bind("")
            notices.settimeout(_POLL)
            with self._owner.lock:
                if self._owner.stopping.is_set():
                    return None
                self.process = self._owner.launch(notices.getsockname())
            while True:
                code = self.process.poll()
                if code is not None:
                    return code
                if not self.ready.is_set():
                    self._listen(notices)
                else:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return self.process.wait(_POLL * 5)

    def _listen(self, notices: socket.socket) -> None:
        with contextlib.suppress(TimeoutError):
            if b"READY=1" in notices.recv(4096):
                self.ready.set()


class Workers:
    """The first process: owns the socket and the workers.

    A service for :class:`ironic_rs.service.process.Process`.

    :param command: what a worker runs.
    :param number: how many workers.
    :param sock: the listening socket, not used by this process itself.
    """

    def __init__(
        self, command: Sequence[str], number: int, sock: socket.socket, conf: cfg.ConfigOpts
    ) -> None:
        self._command = list(command)
        self._socket = sock
        self._lifeline, self._other_end = os.pipe()
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self._workers = [_Worker(self, n) for n in range(number)]
        # Called when this process has taken over changed options.
        conf.register_mutate_hook(lambda *_: self._signal(signal.SIGHUP))

    def launch(self, notify_address: bytes) -> subprocess.Popen[bytes]:
        """Start one worker process.

        :param notify_address: abstract unix socket that hears ``READY=1``.
        """
        fds = (self._socket.fileno(), self._lifeline)
        environment = {
            # Large answers of many threads would each leave a heap of their own behind.
            "MALLOC_ARENA_MAX": "2",
            **{k: v for k, v in os.environ.items() if not k.startswith("WATCHDOG_")},
            SOCKET_VARIABLE: str(fds[0]),
            LIFELINE_VARIABLE: str(fds[1]),
            "NOTIFY_SOCKET": "@" + notify_address[1:].decode(),
        }
        return subprocess.Popen(self._command, env=environment, pass_fds=fds)

    def start(self) -> None:
        """Start all workers; returns when each of them serves.

        :raises IronicError: one does not come up; the log says why.
        """
        for worker in self._workers:
            worker.thread.start()
        deadline = time.monotonic() + START_SECONDS
        for worker in self._workers:
            while not worker.ready.wait(_POLL):
                if self.stopping.is_set():
                    return
                if time.monotonic() > deadline:
                    self.stop(5)
                    raise errors.IronicError(
                        f"A worker of the API was not ready after {START_SECONDS:.0f} s."
                    )
        LOG.info("%d API workers share one socket", len(self._workers))

    def stop(self, timeout: float | None) -> bool:
        """Stop the workers gracefully; those that run on are killed.

        :returns: False when one had to be killed.
        """
        with self.lock:
            self.stopping.set()
        self._signal(signal.SIGTERM)
        deadline = None if timeout is None else time.monotonic() + timeout
        in_time = True
        for worker in self._workers:
            if worker.process is None:
                continue
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) + 1
            try:
                worker.process.wait(left)
            except subprocess.TimeoutExpired:
                in_time = False
                LOG.warning("API worker with pid %d is killed", worker.process.pid)
                worker.process.kill()
                worker.process.wait()
        if self._socket.family == socket.AF_UNIX:
            with contextlib.suppress(OSError):
                os.unlink(self._socket.getsockname())
        self._socket.close()
        return in_time

    def keep_registered(self) -> None:
        """Nothing is registered."""

    def reloaded(self) -> None:
        """Options are read where they are needed."""

    def healthy(self) -> bool:
        """Tell whether at least one worker serves."""
        return any(worker.ready.is_set() for worker in self._workers)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            process = worker.process
            if process is not None and process.poll() is None:
                process.send_signal(number)
