"""A BMC that speaks IPMI, as a process: ``python -m tests.harness.ipmi_bmc PORT``.

It is the library's own BMC class with a machine behind it.  Each request is printed
as a line of JSON; each line of JSON on standard input changes its state, see
``State``.  Use it by :mod:`tests.harness.ipmi`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from pyghmi.ipmi import bmc
from pyghmi.ipmi.private import serversession

from tests.harness.ipmi import KG, PASSWORD, USER, Sdr

REQUEST_OPEN_SHA1 = 1
NO_CIPHER_SUITE_MATCH = 0x11


class State:
    """What the BMC is like; the names are those of the control lines.

    :ivar power: is the machine on.
    :ivar slow: seconds from a request for a power state until it is reached.
    :ivar deaf: soft power-off is ignored.
    :ivar codes: "netfn.command" -> [completion code, how many times].
    :ivar mute: "netfn.command" -> how many requests get no answer.
    :ivar vendor: manufacturer number, None for an answer that ends before it.
    :ivar refuses_sha256: says so, as the standard wants; else it answers by SHA-1.
    :ivar flags: parameter 5 of the boot options.
    """

    def __init__(self) -> None:
        self.power = False
        self.slow = 0.0
        self.deaf = False
        self.codes: dict[str, list[int]] = {}
        self.mute: dict[str, int] = {}
        self.vendor: int | None = 674
        self.refuses_sha256 = False
        self.flags = [0, 0, 0, 0, 0]
        self.sensors: list[list[int]] = Sdr.records()

    def read_control(self) -> None:
        for line in sys.stdin:
            for name, value in json.loads(line).items():
                setattr(self, name, value)
            say({"control": "done"})


def say(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


class Machine(bmc.Bmc):
    """The BMC; answers from its state."""

    def __init__(self, port: int, state: State) -> None:
        super().__init__({USER: PASSWORD}, port=port, address="::")
        self.state = state
        self._target: tuple[float, bool] | None = None

    def handle_raw_request(self, request: dict[str, Any], session: Any) -> None:
        data = bytes(request["data"])
        name = f"{request['netfn']}.{request['command']}"
        say({"request": name, "data": data.hex(), "lun": session.rqlun or 0})
        if self.state.mute.get(name):
            self.state.mute[name] -= 1
            return
        code, left = self.state.codes.get(name, [0, 0])
        if left:
            self.state.codes[name][1] -= 1
            session.send_ipmi_response(code=code)
            return
        handler = getattr(self, f"on_{request['netfn']}_{request['command']}", None)
        if handler is None:
            session.send_ipmi_response(code=0xC1)
            return
        answer = handler(data)
        if isinstance(answer, int):
            session.send_ipmi_response(code=answer)
        else:
            session.send_ipmi_response(data=list(answer))

    def _settle(self) -> None:
        if self._target and time.monotonic() >= self._target[0]:
            self.state.power = self._target[1]
            self._target = None

    def on_0_1(self, _data: bytes) -> bytes:
        self._settle()
        return bytes([self.state.power, 0, 0])

    def on_0_2(self, data: bytes) -> bytes | int:
        self._settle()
        wanted = {0: False, 1: True, 5: False}.get(data[0])
        if data[0] in (3, 4) and not self.state.power:
            return 0xD5
        if wanted is not None and wanted == self.state.power:
            return 0xD5
        if wanted is not None and not (data[0] == 5 and self.state.deaf):
            self._target = (time.monotonic() + self.state.slow, wanted)
        return b""

    def on_0_8(self, data: bytes) -> bytes | int:
        if data[0] == 5:
            self.state.flags = list(data[1:])
        elif data[0] != 3:
            return 0x80
        return b""

    def on_0_9(self, data: bytes) -> bytes | int:
        if data[0] != 5:
            return 0x80
        return bytes([1, 5, *self.state.flags])

    def on_6_1(self, _data: bytes) -> bytes:
        if self.state.vendor is None:
            return bytes(4)
        vendor = self.state.vendor.to_bytes(3, "little")
        return bytes([0x20, 0x01, 0x01, 0x02, 0x02, 0x03, *vendor, 0x34, 0x12, 0, 0, 0, 0])

    def on_6_2(self, _data: bytes) -> bytes:
        return b""

    on_6_3 = on_6_2

    def on_44_65(self, data: bytes) -> bytes:
        return data[::-1]

    def on_10_32(self, _data: bytes) -> bytes:
        count = len(self.state.sensors)
        return bytes([0x51, count, 0, 0xFF, 0xFF, *([0] * 8), 0x02])

    def on_10_34(self, _data: bytes) -> bytes:
        return bytes([1, 0])

    def on_10_35(self, data: bytes) -> bytes | int:
        number = data[2] + (data[3] << 8)
        number = 0 if number == 0 else number - 1
        if number >= len(self.state.sensors):
            return 0xCB
        record = self.state.sensors[number]
        following = number + 2 if number + 1 < len(self.state.sensors) else 0xFFFF
        offset, size = data[4], data[5]
        part = record[offset:] if size == 0xFF else record[offset : offset + size]
        return bytes([following & 0xFF, following >> 8, *part])

    def on_4_45(self, data: bytes) -> bytes | int:
        found = Sdr.READINGS.get(data[0])
        return bytes(found) if found else 0xCB


def refusing(state: State) -> None:
    """Make sessions refuse proposals other than SHA-1 when the state says so."""
    original = serversession.ServerSession.create_open_session_response

    def answer(self: Any, request: bytearray) -> bytearray:
        found: bytearray = original(self, request)
        say({"proposal": request[12]})
        if state.refuses_sha256 and request[12] != REQUEST_OPEN_SHA1:
            return bytearray([request[0], NO_CIPHER_SUITE_MATCH, 0, 0]) + self.clientsessionid
        return found

    serversession.ServerSession.create_open_session_response = answer


def main() -> None:
    state = State()
    refusing(state)
    machine = Machine(int(sys.argv[1]), state)
    if "--kg" in sys.argv:
        machine.set_kg(KG.decode())
    threading.Thread(target=state.read_control, daemon=True).start()
    say({"control": "ready"})
    while True:
        # The library sleeps for as long as it is told to; a packet wakes it.
        machine.listen(timeout=0.2)


if __name__ == "__main__":
    main()
