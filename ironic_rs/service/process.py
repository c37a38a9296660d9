"""The life of a service process: start, signals, watchdog, stop.

===========  ==================================================================
SIGTERM      stop gracefully, exit 0
SIGINT       exit 1 at once
SIGHUP       take over the mutable options of the changed files
SIGUSR1      the coming stop is a planned restart: stay registered
SIGUSR2      drain: as SIGTERM, with [DEFAULT]drain_shutdown_timeout
===========  ==================================================================

The main thread only waits and answers; starting and stopping happen in another
one, so that neither a broker that is away nor a long drain can make the process
deaf.

Source: specification conductor.md section 6.3, operations.md section 1.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol

from oslo_config import cfg

from ironic_rs.conf import loading
from ironic_rs.domain import errors
from ironic_rs.service import memory, notify

LOG = logging.getLogger(__name__)

#: Longest pause of the main thread in seconds.
_TICK = 1.0
#: Seconds that a start gets to end by itself once the process shall stop.
_ABORT_SECONDS = 5.0

_HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Service(Protocol):
    """What a process runs."""

    def start(self) -> None:
        """Start; returns when the service is ready."""

    def stop(self, timeout: float | None) -> bool:
        """Stop gracefully within ``timeout`` seconds (None: no limit).

        :returns: False when work was still running at the end.
        """

    def keep_registered(self) -> None:
        """The coming stop is a planned restart."""

    def reloaded(self) -> None:
        """Mutable options may have changed (SIGHUP)."""

    def healthy(self) -> bool:
        """False makes the watchdog of systemd restart the process."""


class Process:
    """Runs one service in this process until it is told to stop.

    :param name: shown in logs.
    """

    def __init__(self, name: str, service: Service, conf: cfg.ConfigOpts) -> None:
        self._name = name
        self._service = service
        self._conf = conf
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        period = notify.watchdog_seconds()
        self._ping_every = None if period is None else period / 2
        self._next_ping = time.monotonic()
        #: Signals that came during the start and are heeded after it.
        self._early: list[int] = []

    def run(self) -> int:
        """Run from start to stop, in the main thread.

        :returns: the exit code.
        """
        with self._signals():
            code = self._start()
            if code is not None:
                return code
            LOG.info("%s is ready", self._name)
            notify.send("READY=1")
            drain = self._serve()
            return self._stop(drain)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, lambda *_: None) for number in _HANDLED}
        before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: leave(1))
        # Python's handlers run between two instructions of any thread's code; all
        # that ours must do is to wake the main loop up.
        wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._reader.close()
            self._writer.close()

    def _start(self) -> int | None:
        """Start the service; an exit code when the process shall end already."""
        failed: list[BaseException] = []

        def body() -> None:
            try:
                self._service.start()
            except BaseException as exc:
                failed.append(exc)

        starter = threading.Thread(target=body, name="start", daemon=True)
        starter.start()
        while starter.is_alive():
            for number in self._wait():
                if number in (signal.SIGTERM, signal.SIGUSR2):
                    LOG.warning("%s is told to stop while it starts", self._name)
                    starter.join(_ABORT_SECONDS)
                    if not starter.is_alive() and not failed:
                        return self._stop(drain=False)
                    return 0
                self._early.append(number)
        if not failed:
            return None
        (error,) = failed
        if isinstance(error, errors.IronicError):
            LOG.critical("%s cannot start: %s", self._name, error)
        else:
            LOG.critical("%s cannot start", self._name, exc_info=error)
        return 1

    def _serve(self) -> bool:
        """Wait for the signal to stop; true when it asks for a drain."""
        while True:
            early, self._early = self._early, []
            for number in early or self._wait():
                if number == signal.SIGTERM:
                    return False
                if number == signal.SIGUSR2:
                    return True
                if number == signal.SIGUSR1:
                    LOG.info("%s stays registered during the coming stop", self._name)
                    self._service.keep_registered()
                elif number == signal.SIGHUP:
                    notify.send("RELOADING=1")
                    loading.reload(self._conf)
                    self._service.reloaded()
                    notify.send("READY=1")

    def _stop(self, drain: bool) -> int:
        conf = self._conf
        limit = conf.drain_shutdown_timeout if drain else conf.conductor.graceful_shutdown_timeout
        timeout = limit if limit > 0 else None
        notify.send("STOPPING=1")
        LOG.info(
            "%s is told to %s, within %s",
            self._name,
            "drain" if drain else "stop",
            "any time" if timeout is None else f"{timeout} s",
        )

        def body() -> None:
            try:
                self._service.stop(timeout)
            except Exception:
                LOG.exception("%s did not stop in order", self._name)

        stopper = threading.Thread(target=body, name="stop", daemon=True)
        stopper.start()
        while stopper.is_alive():
            for _ in self._wait(0.1):
                LOG.info("%s is stopping already", self._name)
        return 0

    def _wait(self, longest: float = _TICK) -> list[int]:
        """Wait a moment; return the signals that came, and feed the watchdog."""
        self._ping()
        pause = longest if self._ping_every is None else min(longest, self._ping_every)
        readable, _, _ = select.select([self._reader], [], [], pause)
        if not readable:
            return []
        numbers = list(self._reader.recv(64))
        return [number for number in numbers if number != signal.SIGINT]

    def _ping(self) -> None:
        if self._ping_every is None or time.monotonic() < self._next_ping:
            return
        self._next_ping = time.monotonic() + self._ping_every
        if self._service.healthy():
            notify.send("WATCHDOG=1")
        else:
            LOG.error("%s does not work any more, the watchdog is not fed", self._name)


def leave(code: int) -> NoReturn:
    """End the process now: no thread that still runs can hold it up."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(name: str, make: Callable[[], Service], conf: cfg.ConfigOpts) -> NoReturn:
    """Make and run a service, then end the process with its exit code."""
    memory.share_arenas()
    try:
        service = make()
    except errors.IronicError as exc:
        LOG.critical("%s cannot start: %s", name, exc)
        leave(1)
    leave(Process(name, service, conf).run())
