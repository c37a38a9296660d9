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
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
import sushy.connector
import sushy.exceptions

from ironic_rs.conf import CONF
from ironic_rs.drivers import patience
from ironic_rs.drivers.redfish import pages, transport
from ironic_rs.drivers.redfish.driver_info import ConnectionKey
from ironic_rs.integrations import healing, http
from ironic_rs.integrations.healing import Partner

#: Longest single wait for a BMC that says it is busy, whatever Retry-After says.
MAX_BUSY_WAIT = 30.0
#: Connect time-out for a BMC that did not answer its last operation.
PROBE_CONNECT_TIMEOUT = 10.0
#: Refused log-ins within a minute after which no more are tried.
MAX_REFUSED_LOGINS = 3
LOGIN_WINDOW = 60.0
_GATEWAY_ERRORS = (502, 504)
_TRANSIENT_READ_ERRORS = (500, *_GATEWAY_ERRORS)
#: Answers that say that nothing was done, for now.
_BUSY = (429, 503)


class LoginsRefused(sushy.exceptions.SushyError):
    """The BMC refused the credentials several times: not asked again for a while."""

    message = (
        "the BMC refused the credentials %(count)d times within a minute; no further "
        "log-in is tried for %(seconds)d s, so that the account is not locked"
    )


class Connector(sushy.connector.Connector):
    """Requests to one BMC with one set of credentials.  Thread-safe.

    At most ``[redfish]connections_per_bmc`` requests are under way at a time; with
    one (the default) there is never more than one connection.
    """

    def __init__(self, key: ConnectionKey) -> None:
        super().__init__(
            key.address,
            verify=key.verify_ca is not False,
            server_side_retries=1,
            response_callback=self._on_response,
        )
        size = CONF.redfish.connections_per_bmc
        self._session = transport.Session(key, size, self._turn, self._sending)
        self._slots = threading.Lock() if size == 1 else threading.BoundedSemaphore(size)
        self._refused: list[float] = []
        self._no_answer_at = 0.0
        #: The last operation got no answer at all.
        self.silent = False

    def operation(
        self, budget: float | None = None, attempts: int | None = None
    ) -> AbstractContextManager[transport.Operation]:
        """Give all requests of the block one deadline; an inner block joins the outer.

        :param budget: seconds of silence; default ``[redfish]operation_timeout``.
        :param attempts: tries without an answer; default
            ``[redfish]connection_attempts``, one for a BMC that was silent last time.
        """

        def make() -> transport.Operation:
            redfish = CONF.redfish
            seconds = budget or redfish.operation_timeout
            if not seconds:
                seconds = max(redfish.connect_timeout, redfish.read_timeout)
            tries = attempts or (1 if self.silent else redfish.connection_attempts)
            allowed = patience.limit(seconds)
            return transport.Operation(allowed, tries, hurried=allowed < seconds)

        return transport.operating(self, make)

    @property
    def token_sent(self) -> str | None:
        """The session token that the last request of this operation carried."""
        operation = transport.running(self)
        return None if operation is None else operation.token_sent

    def _sending(self, token: str | None) -> None:
        operation = transport.running(self)
        if operation is not None:
            operation.token_sent = token

    def forget_credentials(self) -> None:
        """Send neither password nor token until the next log-in."""
        self._session.auth = None
        self._session.headers.pop("X-Auth-Token", None)

    @contextmanager
    def _turn(self) -> Iterator[transport.Limits]:
        """Wait for a free slot; yield the time-outs of the request.

        :raises requests.ConnectTimeout: another request found the BMC dead while
            this one was waiting, or the wait used up the deadline.
        """
        with self.operation() as operation:
            began = time.monotonic()
            if not self._slots.acquire(timeout=operation.remaining()):
                raise requests.ConnectTimeout("the BMC is busy with other requests of ours")
            try:
                if self._no_answer_at > began:
                    raise requests.ConnectTimeout("the BMC did not answer another request")
                connect = float(CONF.redfish.connect_timeout)
                if self.silent:
                    connect = min(connect, PROBE_CONNECT_TIMEOUT)
                left = operation.remaining()
                yield transport.Limits(
                    min(connect, left), min(float(CONF.redfish.read_timeout), left), left
                )
            except requests.RequestException:
                if not operation.hurried:
                    self._no_answer_at = time.monotonic()
                raise
            finally:
                self._slots.release()

    def _on_response(self, response: requests.Response) -> None:
        """Remember what sushy's errors do not carry."""
        self.silent = False
        self._no_answer_at = 0.0
        operation = transport.running(self)
        if operation is not None:
            operation.retry_after = response.headers.get("Retry-After")
            operation.accepted = None
            if response.status_code == requests.codes.accepted:
                operation.accepted = response.headers.get("Location")
        if response.status_code == requests.codes.unauthorized and self._carried_credentials(
            response.request
        ):
            self._refused.append(time.monotonic())

    def accepted_task(self) -> str | None:
        """Return where to watch the last request of this operation, if it was a 202."""
        operation = transport.running(self)
        return None if operation is None else operation.accepted

    def refusal(self) -> sushy.exceptions.HTTPError | None:
        """Return what the last request of this operation was refused with, if it was."""
        operation = transport.running(self)
        return None if operation is None else operation.refusal

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
        path = _of_this_bmc(path)
        kwargs["server_side_retries_left"] = 0
        # The library would wait here for the end of a task; its callers follow it.
        kwargs["blocking"] = False
        with self.operation() as operation:
            if operation.inside:
                # A request within a request, such as a new log-in: one try.
                return super()._op(method, path, **kwargs)
            response = self._outermost(operation, method, path, kwargs)
            if method == "GET":

                def page(path: str) -> requests.Response:
                    only = {"server_side_retries_left": 0}
                    return self._outermost(operation, "GET", path, only)

                return pages.whole(response, page, operation.budget)
            return response

    def _outermost(
        self, operation: transport.Operation, method: str, path: str, kwargs: dict[str, Any]
    ) -> requests.Response:
        operation.inside = True
        try:
            return self._retried(operation, method, path, kwargs)
        finally:
            operation.inside = False

    def _retried(
        self, operation: transport.Operation, method: str, path: str, kwargs: dict[str, Any]
    ) -> requests.Response:
        tries = 0
        while True:
            tries += 1
            wait: float | None
            try:
                response = super()._op(method, path, **kwargs)
            except sushy.exceptions.ConnectionError as exc:
                error: sushy.exceptions.SushyError = exc
                wait = _wait_after_silence(method, exc, tries, operation.attempts)
                if wait is None or not operation.allows(wait):
                    self.silent = self.silent if operation.hurried else not _answered(exc)
                    wait = None
            except sushy.exceptions.HTTPError as exc:
                error = exc
                wait = self._wait_when_busy(operation, method, exc, tries)
                if wait is None:
                    operation.answered()
                elif not operation.allows(wait):
                    wait = None
            else:
                operation.answered()
                operation.refusal = None
                return response
            if wait is None:
                error.tries = tries
                if not (
                    _may_repeat(method, error)
                    and healing.again(Partner.BMC, f"{method} {path}", error)
                ):
                    if isinstance(error, sushy.exceptions.HTTPError):
                        operation.refusal = error
                    raise error
                operation.answered()
                tries = 0
                continue
            time.sleep(wait)

    def _wait_when_busy(
        self,
        operation: transport.Operation,
        method: str,
        error: sushy.exceptions.HTTPError,
        tries: int,
    ) -> float | None:
        """Return how long to wait before the same request, None when it is final.

        A 503 or 429 says that nothing was done, so any method may be sent again, for
        as long as the deadline allows.  Other server errors are only retried for reads,
        and for writes where the text is a known "not ready yet".
        """
        attempts = CONF.redfish.connection_attempts
        status = error.status_code
        if status not in _BUSY:
            again = method == "GET" and status in _TRANSIENT_READ_ERRORS
            if not (again or self.check_retry_on_exception(error)):
                return None
            # A plain 500 mostly is for ever, and inspection reads many resources.
            lasting = status == requests.codes.internal_server_error and method == "GET"
            if tries >= (min(2, attempts) if lasting else attempts):
                return None
        asked = _retry_after(operation.retry_after)
        return min(asked if asked is not None else 2.0 ** (tries - 1), MAX_BUSY_WAIT)


def _of_this_bmc(url: str) -> str:
    """Return a URL without its host, if it has one.

    A BMC behind a proxy gives the name it has itself in Location and links; and what
    it is sent, credentials above all, must not go anywhere else.
    """
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path, parts.query, "")) if parts.netloc else url


def _may_repeat(method: str, error: sushy.exceptions.SushyError) -> bool:
    """Tell whether a request may be sent again later: it met what may pass, with no effect."""
    if isinstance(error, sushy.exceptions.ConnectionError):
        return _wait_after_silence(method, error, tries=0, attempts=1) is not None
    status = getattr(error, "status_code", None)
    return status in _BUSY or (method == "GET" and status in _GATEWAY_ERRORS)


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


def may_have_arrived(error: sushy.exceptions.ConnectionError) -> bool:
    """Tell whether a request may have reached the BMC, and only its answer was lost."""
    cause = _cause(error)
    return not (
        cause is None or isinstance(cause, requests.exceptions.SSLError) or http.never_sent(cause)
    )


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
    if isinstance(cause, requests.ConnectTimeout) and patience.comes_back():
        # The BMC had all of connect_timeout.
        return None
    sent = not http.never_sent(cause)
    if tries >= attempts or (sent and method == "POST"):
        return None
    if sent and tries == 1 and not isinstance(cause, requests.exceptions.Timeout):
        # The BMC closed the kept connection at the moment when it was used.
        return 0.0
    return float(CONF.redfish.connection_retry_interval)
