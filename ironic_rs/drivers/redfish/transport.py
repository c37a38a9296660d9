"""How requests to one BMC travel: deadline, turns, one lean pool of connections.

A conductor keeps a connection to each BMC of its nodes, ten thousand or so, and
reads each every two minutes: both the memory of an idle connection and the CPU of a
request count.

Source: specification drivers.md section 6.2, design section 7; field case 39.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import requests
import requests.adapters
import requests.utils
import sushy.exceptions
import urllib3

from ironic_rs.drivers.redfish.driver_info import ConnectionKey
from ironic_rs.integrations import bounded, http

_NO_RETRIES = urllib3.Retry(0, read=False)

#: Bytes of the longest answer that is read.  The largest documents of BMCs (registries
#: of attributes) have a few MiB.
LONGEST_ANSWER = 32 * 1024 * 1024


class AnswerTooLong(sushy.exceptions.SushyError):
    """The BMC goes on and on; asking again would not help."""

    message = "the answer is longer than %(mib)d MiB"


def _too_long(longest: int) -> AnswerTooLong:
    return AnswerTooLong(mib=longest // 1024**2)


class Limits(NamedTuple):
    """Seconds for the connection, for a silence, and for all of the answer."""

    connect: float
    read: float
    whole: float


class Operation:
    """What one thread does with one BMC: its budget of silence, and what it heard.

    :param budget: seconds that the BMC may stay silent.
    :param attempts: how often a request is sent when there is no answer.
    :param hurried: the budget is too small to tell that the BMC is silent.
    """

    __slots__ = (
        "_end",
        "accepted",
        "attempts",
        "budget",
        "hurried",
        "inside",
        "refusal",
        "retry_after",
        "token_sent",
    )

    def __init__(self, budget: float, attempts: int, hurried: bool = False) -> None:
        self.attempts = attempts
        self.hurried = hurried
        self.budget = budget
        self._end = time.monotonic() + budget
        #: A request is under way; others are part of it.
        self.inside = False
        #: Headers of the last answer.
        self.retry_after: str | None = None
        self.accepted: str | None = None
        #: What the last request was refused with, None when it was not.
        self.refusal: sushy.exceptions.HTTPError | None = None
        #: Session token of the last request.
        self.token_sent: str | None = None

    def answered(self) -> None:
        """The BMC answered: the budget starts anew."""
        self._end = time.monotonic() + self.budget

    def remaining(self) -> float:
        """Return the seconds that are left, at least a little."""
        return max(self._end - time.monotonic(), 0.01)

    def allows(self, wait: float) -> bool:
        """Tell whether a wait leaves time for another request."""
        return time.monotonic() + wait < self._end


class _Threads(threading.local):
    """Operations of this thread by the identity of their connector.

    One for all connectors: of one each, every thread would keep a dictionary for
    every BMC that it ever spoke to.
    """

    def __init__(self) -> None:
        self.operations: dict[int, Operation] = {}


_threads = _Threads()


def running(owner: object) -> Operation | None:
    """Return the operation of this thread with a connector."""
    return _threads.operations.get(id(owner))


@contextmanager
def operating(owner: object, make: Callable[[], Operation]) -> Iterator[Operation]:
    """Make the operation of this thread with a connector, or join the one that runs."""
    operations = _threads.operations
    found = operations.get(id(owner))
    if found is not None:
        yield found
        return
    operation = operations[id(owner)] = make()
    try:
        yield operation
    finally:
        del operations[id(owner)]


class Session(requests.Session):
    """A requests session that waits for its turn before each request.

    Settings are merged plainly: the general way of requests costs as much again as
    the request.

    :param size: connections that are kept.
    :param turn: yields the time-outs of a request.
    :param sending: told the token that a request is about to carry.
    :raises ValueError: the TLS settings are not understood.
    :raises OSError: the trust store cannot be read.
    """

    def __init__(
        self,
        key: ConnectionKey,
        size: int,
        turn: Callable[[], AbstractContextManager[Limits]],
        sending: Callable[[str | None], None],
    ) -> None:
        super().__init__()
        self._turn = turn
        self._sending = sending
        self._size = size
        # One TLS context for all BMCs with the same trust settings: one of its own for
        # each would cost tens of milliseconds and about a megabyte a BMC.
        self._tls = http.context(key.verify_ca, key.tls_min_version or "1.2", key.tls_ciphers)
        self.adapters.clear()
        # What the environment says about proxies holds for the whole process.
        self.proxies.update(requests.utils.get_environ_proxies(key.address))
        self.trust_env = False

    def get_adapter(self, url: str | bytes) -> requests.adapters.BaseAdapter:
        scheme = "https://" if str(url).lower().startswith("https://") else "http://"
        adapter = self.adapters.get(scheme)
        if adapter is None:
            if scheme == "https://":
                adapter = bounded.TlsAdapter(
                    self._tls,
                    pool_connections=2,
                    pool_maxsize=self._size,
                    max_retries=_NO_RETRIES,
                )
            else:
                adapter = bounded.PlainAdapter(2, self._size, _NO_RETRIES)
            self.mount(scheme, adapter)
        return adapter

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str],
        verify: bool,
        json: Any = None,
        timeout: Any = None,
        allow_redirects: bool = True,
    ) -> requests.Response:
        with self._turn() as limits:
            bounded.allow(limits.whole, LONGEST_ANSWER, _too_long)
            token = self.headers.get("X-Auth-Token")
            self._sending(None if token is None else str(token))
            prepared = requests.PreparedRequest()
            prepared.prepare(
                method=method.upper(),
                url=url,
                headers={**self.headers, **headers},
                json=json,
                auth=self.auth,
                cookies=self.cookies,
            )
            return self.send(
                prepared,
                timeout=(limits.connect, limits.read),
                verify=verify,
                allow_redirects=allow_redirects,
                proxies=self.proxies,
                stream=False,
                cert=None,
            )
