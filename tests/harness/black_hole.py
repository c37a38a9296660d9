"""An address that drops every attempt to connect, as one behind a dead switch does."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.harness.bmc import Bmc


class BlackHole:
    """A port of the loopback whose queue of connections is full: Linux drops what comes.

    :param host: a loopback address.
    :param port: 0 for a free one.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.listen(0)
        self._fill: list[socket.socket] = []
        self._relay: threading.Thread | None = None
        name = self._listener.getsockname()
        self.address = f"http://{name[0]}:{name[1]}"
        while True:
            filler = socket.socket()
            self._fill.append(filler)
            filler.settimeout(0.2)
            try:
                filler.connect(name)
            except TimeoutError:
                break

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self, bmc: Bmc) -> None:
        """Be the BMC from now on."""
        for filler in self._fill:
            filler.close()
        host, _, port = bmc.address.removeprefix("http://").rpartition(":")
        self._relay = threading.Thread(target=self._pass_on, args=((host, int(port)),), daemon=True)
        self._relay.start()

    def _pass_on(self, where: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _peer = self._listener.accept()
                there = socket.create_connection(where)
                for source, target in ((here, there), (there, here)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for filler in self._fill:
            filler.close()
        if self._relay is not None:
            self._relay.join(10)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.close()
