"""IPMI BMCs for tests: processes at the loopback, and a network that loses packets."""

from __future__ import annotations

import contextlib
import json
import random
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tests.harness.servers import HOST, missing, wait_until

USER, PASSWORD = "admin", "password"
KG = b"0123456789"
ROOT = Path(__file__).resolve().parents[2]


def free_udp_port() -> int:
    """Return a UDP port of the loopback that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])


class Sdr:
    """Three sensors, as records of a sensor data repository and with their readings."""

    #: Number -> data of "get sensor reading".
    READINGS: ClassVar[dict[int, list[int]]] = {
        1: [42, 0xC0, 0x00],
        2: [48, 0xC0, 0x08],
        3: [0, 0xC0, 0x01, 0x80],
    }

    @classmethod
    def records(cls) -> list[list[int]]:
        """Return a temperature, a fan of 75 RPM a step, and the presence of a supply."""
        return [
            cls._full(1, "Inlet Temp", entity=0x37, kind=0x01, unit=1, factor=1),
            cls._full(2, "Fan1A", entity=0x1D, kind=0x04, unit=18, factor=75),
            cls._compact(3, "PS1 Status", entity=0x0A, kind=0x08),
        ]

    @classmethod
    def _full(
        cls, number: int, name: str, *, entity: int, kind: int, unit: int, factor: int
    ) -> list[int]:
        body = [0x20, 0, number, entity, 1, 0x67, 0x68, kind, 0x01]
        body += [0, 0, 0, 0, 0, 0]  # masks of events and thresholds
        body += [0x00, unit, 0]  # unsigned
        body += [0, factor, 0, 0, 0, 0, 0, 0]  # linear, M, B, exponents
        body += [0, 0, 0, 0xFF, 0, *([0] * 6), 0, 0, 0, 0, 0]
        return cls._record(number, 0x01, body, name)

    @classmethod
    def _compact(cls, number: int, name: str, *, entity: int, kind: int) -> list[int]:
        body = [0x20, 0, number, entity, 1, 0x67, 0x40, kind, 0x6F]
        body += [0, 0, 0, 0, 0, 0]
        body += [0xC0, 0, 0]
        body += [0, 0, 0, 0, 0, 0, 0, 0]
        return cls._record(number, 0x02, body, name)

    @staticmethod
    def _record(number: int, kind: int, body: list[int], name: str) -> list[int]:
        body = [*body, 0xC0 | len(name), *name.encode()]
        return [number & 0xFF, number >> 8, 0x51, kind, len(body), *body]


class PyBmc:
    """A BMC of the library's own class, as a process."""

    def __init__(self, *options: str) -> None:
        self.port = free_udp_port()
        self._events: list[dict[str, Any]] = []
        self._done = threading.Semaphore(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.ipmi_bmc", str(self.port), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        threading.Thread(target=self._read, daemon=True).start()
        assert self._done.acquire(timeout=60), "the BMC did not start"

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            event = json.loads(line)
            if "control" in event:
                self._done.release()
            else:
                self._events.append(event)

    def set(self, **values: Any) -> None:
        """Change the state of the BMC, see ``tests.harness.ipmi_bmc.State``."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(values) + "\n")
        self._process.stdin.flush()
        assert self._done.acquire(timeout=60)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that it told until now."""
        # An event is told before the request is answered, so an answer to this comes later.
        self.set()
        return self._events

    def asked(self, name: str) -> list[str]:
        """Return the data, in hexadecimal, of the requests with this name."""
        return [event["data"] for event in self.events if event.get("request") == name]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


#: What becomes of a packet: seconds of delay for each copy of it that arrives.
Fate = list[float]


class Network:
    """A UDP port whose packets go to another one, by way of ``fate``.

    :param fate: gets ("to" or "from", number of the packet in that direction, packet).
    """

    def __init__(self, port: int, fate: Callable[[str, int, bytes], Fate]) -> None:
        self.fate = fate
        self.seen: list[str] = []
        #: What becomes of the content of a packet.
        self.change: Callable[[str, bytes], bytes] = lambda _way, packet: packet
        self._target = (HOST, port)
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind((HOST, 0))
        self.port = int(self._front.getsockname()[1])
        self._backs: dict[tuple[str, int], socket.socket] = {}
        self._waiting: list[tuple[float, socket.socket, bytes, tuple[str, int]]] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        counts = {"to": 0, "from": 0}
        while not self._closed.is_set():
            sockets = [self._front, *self._backs.values()]
            for ready in select.select(sockets, [], [], 0.01)[0]:
                try:
                    packet, sender = ready.recvfrom(4096)
                except OSError:
                    continue
                way = "to" if ready is self._front else "from"
                if way == "to":
                    back = self._backs.get(sender)
                    if back is None:
                        back = self._backs[sender] = socket.socket(
                            socket.AF_INET, socket.SOCK_DGRAM
                        )
                    out, address = back, self._target
                else:
                    client = next(a for a, sock in self._backs.items() if sock is ready)
                    out, address = self._front, client
                counts[way] += 1
                self.seen.append(way)
                packet = self.change(way, packet)
                for delay in self.fate(way, counts[way], packet):
                    self._waiting.append((time.monotonic() + delay, out, packet, address))
            now = time.monotonic()
            due = [item for item in self._waiting if item[0] <= now]
            self._waiting = [item for item in self._waiting if item[0] > now]
            for _when, out, packet, address in due:
                with contextlib.suppress(OSError):
                    out.sendto(packet, address)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for sock in (self._front, *self._backs.values()):
            sock.close()


def perfect(_way: str, _number: int, _packet: bytes) -> Fate:
    """Every packet arrives."""
    return [0.0]


def lossy(share: float, seed: int) -> Callable[[str, int, bytes], Fate]:
    """Return a fate by which this share of packets is lost, and some answers come twice."""
    chance = random.Random(seed)

    def fate(way: str, _number: int, _packet: bytes) -> Fate:
        draw = chance.random()
        if draw < share:
            return []
        return [0.0, 0.05] if way == "from" and draw > 0.9 else [0.0]

    return fate


def need_ipmitool() -> None:
    """Skip the test where the program is not installed."""
    if shutil.which("ipmitool") is None:
        missing("ipmitool is not installed (Debian package ipmitool)")


@contextlib.contextmanager
def ipmi_sim(directory: Path, sol: str | None = None) -> Iterator[tuple[int, Path]]:
    """Debian's BMC simulator, written in C; yields its port and its chassis directory.

    :param sol: terminal that is the machine's serial port.

    The chassis is a directory with files ``power`` and ``boot``, and a ``log``.
    """
    if shutil.which("ipmi_sim") is None:
        missing("ipmi_sim is not installed (Debian package openipmi)")
    chassis = directory / "chassis"
    (directory / "state").mkdir()
    chassis.mkdir()
    (chassis / "power").write_text("0")
    (chassis / "boot").write_text("none")
    script = directory / "chassis.sh"
    script.write_text(
        f"""#!/bin/sh
cd {chassis} || exit 1
echo "$@" >>log
verb=$1; shift
while [ $# -gt 0 ]; do
    case $verb in
    get) echo "$1:$(cat "$1")"; shift;;
    set) [ -e "$1" ] && echo "$2" >"$1"; shift; shift;;
    *) shift;;
    esac
done
"""
    )
    script.chmod(0o755)
    port, log = free_udp_port(), directory / "sim.log"
    (directory / "lan.conf").write_text(
        f"""name "sim"
set_working_mc 0x20
  startlan 1
    addr {HOST} {port}
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{script}"
{f'  sol "{sol}" 115200' if sol else ""}
  user 2 true "{USER}" "{PASSWORD}" admin 10 none md2 md5 straight
"""
    )
    lines = [
        "mc_setbmc 0x20",
        "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x2a7c 0xf02 persist_sdr",
        "sel_enable 0x20 1000 0x0a",
    ]
    for record in Sdr.records():
        number, kind, reading = record[7], record[12], record[13]
        lines.append(f"sensor_add 0x20 0 {number} {kind} {reading}")
        lines.append(f"main_sdr_add 0x20 {' '.join(f'0x{byte:02x}' for byte in record)}")
        if record[3] == 1:
            lines.append(f"sensor_set_value 0x20 0 {number} {Sdr.READINGS[number][0]} 0")
        else:
            lines.append(f"sensor_set_bit 0x20 0 {number} 0 1 0")
    lines.append("mc_enable 0x20")
    (directory / "sim.emu").write_text("\n".join(lines) + "\n")
    with log.open("w") as output:
        process = subprocess.Popen(
            ["ipmi_sim", "-n", "-c", "lan.conf", "-f", "sim.emu", "-s", "state"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: _answers(port), f"ipmi_sim answers: {log.read_text()}")
        yield port, chassis
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()


#: "Get channel authentication capabilities", which needs no session.
_PING = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")


def _answers(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.3)
        try:
            sock.sendto(_PING, (HOST, port))
            return bool(sock.recv(100))
        except OSError:
            return False
