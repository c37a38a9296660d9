"""Requests to one BMC: kept-alive connection, deadline, retries, no log-in storms.

sushy's connector closes the connection after every request and may retry a dead
BMC for minutes. This one keeps the connection and gives every operation one
budget of silence: as long as the BMC answers, an operation may go on; once it has
been silent (or busy: 503) for the budget, the operation fails. Waits, retries,
queueing behind another request to the same BMC and a new log-in all count.

Source: specification drivers.md sections 6.2 and 18; field cases 29, 31, 38, 39.
"""

from __future__ import annotations

import email.utils
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
import requests.adapters
import requests.utils
import sushy.connector
import sushy.exceptions
import urllib3.exceptions

from ironic_rs.conf import CONF
from ironic_rs.drivers.redfish.driver_info import ConnectionKey
from ironic_rs.integrations import http

#: Longest single wait for a BMC that says it is busy, whatever Retry-After says.
MAX_BUSY_WAIT = 30.0
#: Connect time-out for a BMC that did not answer its last operation.
PROBE_CONNECT_TIMEOUT = 10.0
#: Refused log-ins within a minute after which no more are tried.
MAX_REFUSED_LOGINS = 3
LOGIN_WINDOW = 60.0
_TRANSIENT_READ_ERRORS = (500, 502, 504)


class LoginsRefused(sushy.exceptions.SushyError):
    """The BMC refused the credentials several times: not asked again for a while."""

    message = (
        "the BMC refused the credentials %(count)d times within a minute; no further "
        "log-in is tried for %(seconds)d s, so that the account is not locked"
    )


class Deadline:
    """The budget of silence of one operation, in seconds.

    :param attempts: how often a request is sent when there is no answer.
    """

    def __init__(self, budget: float, attempts: int) -> None:
        self.attempts = attempts
        self._budget = budget
        self._end = time.monotonic() + budget

    def answered(self) -> None:
        """The BMC answered: the budget starts anew."""
        self._end = time.monotonic() + self._budget

    def remaining(self) -> float:
        """Return the seconds that are left, at least a little."""
        return max(self._end - time.monotonic(), 0.01)

    def allows(self, wait: float) -> bool:
        """Tell whether a wait leaves time for another request."""
        return time.monotonic() + wait < self._end


class _Session(requests.Session):
    """A requests session that asks its connector before each request."""

    def __init__(self, connector: Connector) -> None:
        super().__init__()
        self._connector = connector

    def request(self, method: Any, url: Any, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        with self._connector.turn() as timeout:
            self._connector.token_sent = str(self.headers.get("X-Auth-Token", ""))
            return super().request(method, url, **{**kwargs, "timeout": timeout})


class Connector(sushy.connector.Connector):
    """Requests to one BMC with one set of credentials.  Thread-safe.

    At most ``[redfish]connections_per_bmc`` requests are under way at a time; with
    one (the default) there is never more than one connection.
    """

    def __init__(self, key: ConnectionKey) -> None:
        self._local = threading.local()
        super().__init__(
            key.address,
            verify=key.verify_ca is not False,
            server_side_retries=1,
            response_callback=self._on_response,
        )
        size = CONF.redfish.connections_per_bmc
        session = _Session(self)
        # What the environment says about proxies holds for the whole process.
        session.proxies.update(requests.utils.get_environ_proxies(key.address))
        session.trust_env = False
        # One TLS context for all BMCs with the same trust settings: one of its own for
        # each would cost tens of milliseconds and about a megabyte a BMC.
        context = http.context(key.verify_ca, key.tls_min_version or "1.2", key.tls_ciphers)
        pool = {"pool_connections": 2, "pool_maxsize": size}
        session.mount("https://", http.ContextAdapter(context, **pool))
        session.mount("http://", requests.adapters.HTTPAdapter(**pool))
        self._session = session
        self._slots = threading.BoundedSemaphore(size)
        self._refused: list[float] = []
        self._no_answer_at = 0.0
        #: The last operation got no answer at all.
        self.silent = False

    @contextmanager
    def operation(self, budget: float | None = None) -> Iterator[Deadline]:
        """Give all requests of the block one deadline; an inner block joins the outer.

        :param budget: seconds of silence; default ``[redfish]operation_timeout``.
        """
        running: Deadline | None = getattr(self._local, "deadline", None)
        if running is not None:
            yield running
            return
        redfish = CONF.redfish
        if budget is None:
            budget = redfish.operation_timeout or max(redfish.connect_timeout, redfish.read_timeout)
        deadline = Deadline(budget, 1 if self.silent else redfish.connection_attempts)
        self._local.deadline = deadline
        try:
            yield deadline
        finally:
            del self._local.deadline

    @property
    def token_sent(self) -> str | None:
        """The session token that the last request of this thread carried."""
        token: str | None = getattr(self._local, "token", None)
        return token

    @token_sent.setter
    def token_sent(self, token: str | None) -> None:
        self._local.token = token

    def forget_credentials(self) -> None:
        """Send neither password nor token until the next log-in."""
        self._session.auth = None
        self._session.headers.pop("X-Auth-Token", None)

    @contextmanager
    def turn(self) -> Iterator[tuple[float, float]]:
        """Wait for a free slot; yield the (connect, read) time-outs of the request.

        :raises requests.ConnectTimeout: another request found the BMC dead while
            this one was waiting, or the wait used up the deadline.
        """
        with self.operation() as deadline:
            began = time.monotonic()
            if not self._slots.acquire(timeout=deadline.remaining()):
                raise requests.ConnectTimeout("the BMC is busy with other requests of ours")
            try:
                if self._no_answer_at > began:
                    raise requests.ConnectTimeout("the BMC did not answer another request")
                connect = float(CONF.redfish.connect_timeout)
                if self.silent:
                    connect = min(connect, PROBE_CONNECT_TIMEOUT)
                left = deadline.remaining()
                yield min(connect, left), min(float(CONF.redfish.read_timeout), left)
            except requests.RequestException:
                self._no_answer_at = time.monotonic()
                raise
            finally:
                self._slots.release()

    def _on_response(self, response: requests.Response) -> None:
        """Remember what sushy's errors do not carry."""
        self.silent = False
        self._no_answer_at = 0.0
        self._local.retry_after = response.headers.get("Retry-After")
        self._local.accepted = (
            response.headers.get("Location")
            if response.status_code == requests.codes.accepted
            else None
        )
        if response.status_code == requests.codes.unauthorized and self._carried_credentials(
            response.request
        ):
            self._refused.append(time.monotonic())

    def accepted_task(self) -> str | None:
        """Return where to watch the last request of this thread, if it was a 202."""
        uri: str | None = getattr(self._local, "accepted", None)
        self._local.accepted = None
        return uri

    def _carried_credentials(self, request: requests.PreparedRequest) -> bool:
        """Tell a refused password from an expired token."""
        if "Authorization" in request.headers:
            return True
        sessions = self._sessions_uri
        return bool(request.method == "POST" and sessions and sessions in (request.url or ""))

    def _check_refused(self) -> None:
        now = time.monotonic()
        self._refused = [when for when in self._refused if now - when < LOGIN_WINDOW]
        if len(self._refused) >= MAX_REFUSED_LOGINS:
            raise LoginsRefused(
                count=len(self._refused),
                seconds=round(LOGIN_WINDOW - (now - self._refused[-MAX_REFUSED_LOGINS])) or 1,
            )

    def _op(self, method: str, path: str = "", **kwargs: Any) -> requests.Response:
        """Send one request; sushy's handler with our idea of when to try again.

        Errors carry the number of tries in their attribute ``tries``.
        """
        self._check_refused()
        kwargs["server_side_retries_left"] = 0
        with self.operation() as deadline:
            if getattr(self._local, "inside", False):
                # A request within a request, such as a new log-in: one try.
                return super()._op(method, path, **kwargs)
            self._local.inside = True
            try:
                return self._retried(deadline, method, path, kwargs)
            finally:
                self._local.inside = False

    def _retried(
        self, deadline: Deadline, method: str, path: str, kwargs: dict[str, Any]
    ) -> requests.Response:
        tries = 0
        while True:
            tries += 1
            wait: float | None
            try:
                response = super()._op(method, path, **kwargs)
            except sushy.exceptions.ConnectionError as exc:
                error: sushy.exceptions.SushyError = exc
                wait = _wait_after_silence(method, exc, tries, deadline.attempts)
                if wait is None or not deadline.allows(wait):
                    self.silent = not _answered(exc)
                    wait = None
            except sushy.exceptions.HTTPError as exc:
                error = exc
                wait = self._wait_when_busy(method, exc, tries)
                if wait is None:
                    deadline.answered()
                elif not deadline.allows(wait):
                    wait = None
            else:
                deadline.answered()
                return response
            if wait is None:
                error.tries = tries
                raise error
            time.sleep(wait)

    def _wait_when_busy(
        self, method: str, error: sushy.exceptions.HTTPError, tries: int
    ) -> float | None:
        """Return how long to wait before the same request, None when it is final.

        A 503 or 429 says that nothing was done, so any method may be sent again, for
        as long as the deadline allows.  Other server errors are only retried for reads,
        and for writes where the text is a known "not ready yet".
        """
        attempts = CONF.redfish.connection_attempts
        status = error.status_code
        if status not in (
            requests.codes.service_unavailable,
            requests.codes.too_many_requests,
        ):
            again = method == "GET" and status in _TRANSIENT_READ_ERRORS
            if not (again or self.check_retry_on_exception(error)):
                return None
            # A plain 500 mostly is for ever, and inspection reads many resources.
            lasting = status == requests.codes.internal_server_error and method == "GET"
            if tries >= (min(2, attempts) if lasting else attempts):
                return None
        asked = _retry_after(getattr(self._local, "retry_after", None))
        return min(asked if asked is not None else 2.0 ** (tries - 1), MAX_BUSY_WAIT)


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number or an HTTP date."""
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        when = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(when.timestamp() - time.time(), 0.0)


def _cause(error: sushy.exceptions.ConnectionError) -> BaseException | None:
    """Return the error of the HTTP library that sushy made a ConnectionError of."""
    return error.__cause__ or error.__context__


def _answered(error: sushy.exceptions.ConnectionError) -> bool:
    """Tell whether something spoke, if not HTTP: a TLS refusal is not silence."""
    return isinstance(_cause(error), requests.exceptions.SSLError)


def _wait_after_silence(
    method: str, error: sushy.exceptions.ConnectionError, tries: int, attempts: int
) -> float | None:
    """Return how long to wait before the same request, None when it is final.

    A POST that may have reached the BMC is not repeated: its caller looks at what
    became of it.
    """
    cause = _cause(error)
    if isinstance(cause, requests.exceptions.SSLError) or cause is None:
        # Trust settings do not heal by asking again.
        return None
    sent = not _never_sent(cause)
    if tries >= attempts or (sent and method == "POST"):
        return None
    if sent and tries == 1 and not isinstance(cause, requests.exceptions.Timeout):
        # The BMC closed the kept connection at the moment when it was used.
        return 0.0
    return float(CONF.redfish.connection_retry_interval)


def _never_sent(cause: BaseException) -> bool:
    if isinstance(cause, requests.exceptions.ConnectTimeout):
        return True
    inner = cause.args[0] if cause.args else None
    reason = getattr(inner, "reason", None)
    return isinstance(reason, urllib3.exceptions.NewConnectionError)
