"""One log-in to a BMC by the library pyghmi, with a deadline and a socket of its own.

The library's usual sessions share sockets, tables and an event loop in the process:
a thread may find itself waiting for another thread's BMC, and some log-ins never
return.  Its "simple" session keeps nothing outside of itself, but sends everything
once and waits for ever.  This class adds what that lacks: packets are sent again,
everything ends at a deadline, and a BMC that answers with another cipher suite than
the proposed one is understood.

Source: specification drivers.md section 5.5.
"""

from __future__ import annotations

import hashlib
import random
import select
import socket
import struct
import time
from typing import Any

import pyghmi.exceptions
from oslo_log import log
from pyghmi.ipmi.private import simplesession

from ironic_rs.drivers.ipmi.driver_info import BUILT_IN_SUITES, PRIVILEGES, BmcTarget
from ironic_rs.drivers.ipmi.errors import TRANSIENT_CODES, BmcError, is_transient

LOG = log.getLogger(__name__)

#: Seconds before a packet without answer is sent again: at least, and at most.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 2.0
_GROWTH = 1.5
#: How many times as long as the last answer took the next one may take.
_MARGIN = 2.0
#: Seconds that the answer to a log-out is waited for; the BMC forgets by itself, too.
LOGOUT_PATIENCE = 0.5
#: Seconds that the answer to a request is waited for that is sent once only.
ONCE_PATIENCE = 3.0

#: Numbers of the authentication algorithms in the open-session answer.
_SHA1 = 1
_SHA256 = 3
#: The library's name for what it proposes, by cipher suite.
_HASHES = {"3": 1, "17": 256}

_PACKET_SIZE = 3000
_RMCP_HEADER = b"\x06\x00\xff\x07"

#: What the library raises when a packet is not what it should be.
MALFORMED = (struct.error, IndexError, KeyError, ValueError, TypeError, AttributeError)


class Session(simplesession.Session):
    """A session that is logged in when the constructor returns.

    Use it as a context manager: it logs out.  Not for use by several threads.

    :param deadline: end of everything, by ``time.monotonic()``; may be moved.
    :param patience: seconds after which a BMC that has sent nothing at all is given up.
    :raises BmcError: no session.
    """

    # Of the library.
    lastpayload: Any

    def __init__(self, target: BmcTarget, deadline: float, patience: float) -> None:
        self.target = target
        self.deadline = deadline
        self._give_up_silent = time.monotonic() + patience
        self._heard = False
        self._pause = FIRST_PAUSE
        self._sent_at = 0.0
        self._repeated = False
        self._send_error: OSError | None = None
        self._once = False
        self._proposals = [s for s in target.suites or BUILT_IN_SUITES if s in _HASHES]
        self._peers: list[socket.socket] = []
        self._poll = select.poll()
        try:
            self._connect()
            super().__init__(
                bmc=target.address,
                userid=(target.username or "").encode(),
                password=target.password.encode(),
                port=target.port,
                kg=target.kg,
                privlevel=PRIVILEGES[target.privilege],
            )
        except pyghmi.exceptions.IpmiException as exc:
            self.close()
            raise self._explained(exc) from exc
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_exc_info: object) -> None:
        try:
            if self.logged:
                self.deadline = min(self.deadline, time.monotonic() + LOGOUT_PATIENCE)
                self._end()
        finally:
            self.close()

    def _end(self) -> None:
        """Close the session of the BMC: it has only a few of them."""
        try:
            self.raw_command(netfn=6, command=0x3C, data=struct.pack("<I", self.sessionid))
        except (BmcError, pyghmi.exceptions.PyghmiException, OSError, *MALFORMED) as exc:
            LOG.debug("BMC %s did not answer to the log-out: %s", self.target, exc)

    def close(self) -> None:
        """Close the sockets, without a word to the BMC."""
        self.logged = 0
        # The one table of the process that the library puts such a session into.
        simplesession.Session.keepalive_sessions.pop(self, None)
        for peer in self._peers:
            peer.close()
        self._peers = []

    # What the BMC is asked

    def ask(self, netfn: int, command: int, data: bytes = b"", lun: int = 0) -> bytes:
        """Send a request; return the data of its answer.

        :raises BmcError: no answer, or one with an error.
        """
        try:
            answer = self.raw_command(netfn, command, data=data, rslun=lun)
        except pyghmi.exceptions.IpmiException as exc:
            raise self._explained(exc) from exc
        code = answer["code"]
        if code:
            text = str(answer.get("error") or "unknown error")
            raise BmcError(
                f"{text} (completion code 0x{code:02x})",
                transient=code in TRANSIENT_CODES,
                code=code,
            )
        return bytes(answer["data"])

    def tell(self, netfn: int, command: int) -> None:
        """Send a request once only; the BMC may not live to answer it.

        :raises BmcError: no answer soon, or one with an error.
        """
        self._once = True
        self.deadline = min(self.deadline, time.monotonic() + ONCE_PATIENCE)
        self.ask(netfn, command)

    def _explained(self, exc: pyghmi.exceptions.IpmiException) -> BmcError:
        text = str(exc)
        if text in ("", "None"):
            text = "the session has ended"
        return BmcError(text, transient=is_transient(text), code=exc.ipmicode or None)

    # What the library calls, and what it lacks

    @classmethod
    def _assignsocket(cls, server: Any = None) -> None:
        """Sockets are opened by :meth:`_connect`."""

    def _connect(self) -> None:
        """Open a socket to each address of the BMC; the first that answers is it."""
        target = self.target
        try:
            found = socket.getaddrinfo(target.address, target.port, 0, socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as exc:
            raise BmcError(f"its address is not known: {exc}", transient=True) from exc
        for family, kind, protocol, _name, address in found:
            try:
                peer = socket.socket(family, kind, protocol)
            except OSError as exc:
                self._send_error = exc
                continue
            self._peers.append(peer)
            try:
                peer.setblocking(False)
                peer.connect(address)
            except OSError as exc:
                self._send_error = exc
                self._peers.pop().close()
                continue
            self._poll.register(peer, select.POLLIN)
        if not self._peers:
            raise BmcError(f"it cannot be reached: {self._send_error}", transient=True, silent=True)

    def _initsession(self) -> None:
        super()._initsession()
        # Answers to somebody else's log-in are not taken for ours.
        self.localsid = random.getrandbits(31) | 1
        self.remseqnumber = 0
        self.attemptedhash = _HASHES[self._proposals[0]]

    def _got_rmcp_response(self, data: bytearray) -> Any:
        if data[0] == self.rmcptag and data[1] and self.sessioncontext == "OPENSESSION":
            if len(self._proposals) > 1:
                self._proposals.pop(0)
                self.attemptedhash = _HASHES[self._proposals[0]]
                self._open_rmcpplus_request()
                return None
            # The library would propose SHA-1 by itself, which may not be wanted.
            self.attemptedhash = 1
        elif data[0] == self.rmcptag and data[1] == 0 and len(data) > 16:
            self._take_algorithm(data[16])
        return super()._got_rmcp_response(data)

    def _take_algorithm(self, algorithm: int) -> None:
        """Go on with the hash that the BMC has chosen, when it may be used.

        Some BMCs answer with another one than was proposed.
        """
        if algorithm == _SHA1 and self.attemptedhash != 1 and "3" in self._proposals:
            self.attemptedhash = 1
            self.currhashlib, self.currhashlen = hashlib.sha1, 12
        expected = _SHA1 if self.attemptedhash == 1 else _SHA256
        if algorithm != expected:
            raise BmcError(
                f"it chose authentication algorithm {algorithm}, which was not proposed "
                f"(cipher suite {', '.join(self._proposals)})"
            )

    def _xmit_packet(
        self, retry: bool = True, delay_xmit: float | None = None, timeout: float | None = None
    ) -> None:
        if self.sequencenumber:
            self.sequencenumber += 1
        self._sent_at = time.monotonic()
        for peer in self._peers:
            try:
                peer.send(self.netpacket)
            except OSError as exc:
                # The network may be back at the next try.
                self._send_error = exc

    def wait_for_rsp(self, timeout: float | None = None, callout: bool = True) -> None:
        """Take what has come; send again when it is time to.

        :raises BmcError: the deadline has passed.
        """
        now = time.monotonic()
        end = self.deadline if self._heard else min(self.deadline, self._give_up_silent)
        if now >= end:
            raise self._no_answer()
        pause = max(0.0, min(end, self._sent_at + self._pause) - now)
        if self._poll.poll(pause * 1000 + 1):
            self.process_pktqueue()
        elif time.monotonic() >= self._sent_at + self._pause:
            self._pause = min(self._pause * _GROWTH, LONGEST_PAUSE)
            self._repeated = True
            self._timedout()

    def process_pktqueue(self) -> None:
        """Take the packets that have come."""
        for peer in list(self._peers):
            while True:
                try:
                    packet = bytearray(peer.recv(_PACKET_SIZE))
                except BlockingIOError:
                    break
                except OSError as exc:
                    # Nobody listens there, says its network: perhaps not yet.
                    self._send_error = exc
                    break
                if len(packet) > 4 and packet.startswith(_RMCP_HEADER):
                    self._prefer(peer)
                    self._take(packet)

    def _prefer(self, peer: socket.socket) -> None:
        self._heard = True
        for other in self._peers:
            if other is not peer:
                self._poll.unregister(other)
                other.close()
        self._peers = [peer]

    def _take(self, packet: bytearray) -> None:
        if not self._repeated:
            took = time.monotonic() - self._sent_at
            self._pause = min(max(FIRST_PAUSE, _MARGIN * took), LONGEST_PAUSE)
        # Else nobody knows which of the packets is answered; the longer pause stays.
        self._repeated = False
        try:
            self._handle_ipmi_packet(packet)
        except MALFORMED as exc:
            LOG.debug("BMC %s sent a malformed packet: %s", self.target, exc)

    def awaitresponse(self, retry: bool) -> None:
        while retry and self.lastresponse is None and self.logged:
            self.wait_for_rsp()

    def _timedout(self) -> None:
        """Send again what got no answer, in the way that its phase wants."""
        if self.sessioncontext == "OPENSESSION":
            self._open_rmcpplus_request()
        elif self.sessioncontext in ("EXPECTINGRAKP2", "EXPECTINGRAKP4"):
            # Which of the messages got lost is not known: begin anew.
            self.lastpayload = None
            self._relog()
        elif self.lastpayload and not self._once:
            self.hasretried = 1
            self.send_payload()
        else:
            self._sent_at = time.monotonic()

    def _no_answer(self) -> BmcError:
        what = {
            None: "no answer",
            "OPENSESSION": "no answer to the request for a session",
            "EXPECTINGRAKP2": "no answer to the log-in; many BMCs ignore unknown users",
            "EXPECTINGRAKP4": "no answer to the proof of the password",
        }.get(self.sessioncontext, "no answer to the request")
        if not self._heard:
            what = "no answer"
        if self._send_error is not None:
            what = f"{what} ({self._send_error.strerror or self._send_error})"
        return BmcError(what, transient=True, silent=not self._heard)

    def logout(self, sessionok: bool = True) -> dict[str, bool]:
        """Called by the library for a session that broke; there is nobody to talk to."""
        self.logged = 0
        self.logging = False
        self.broken = True
        return {"success": True}
