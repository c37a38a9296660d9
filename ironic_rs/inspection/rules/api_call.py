"""Action ``api-call``: tell a web server, within a time that the server can not stretch.

Source: specification inspection.md section 7; field case K09 (73).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from ironic_rs.domain import errors
from ironic_rs.inspection.rules.rule import RuleError
from ironic_rs.integrations import http

#: Answers that are worth another try.
RETRIED = frozenset({429, 500, 502, 503, 504})
MAX_REDIRECTS = 5
#: Seconds that all tries may take together, whatever a rule says.
LONGEST = 120.0


def get(
    *,
    url: str,
    headers: Mapping[str, Any] | None,
    proxies: Mapping[str, str] | None,
    timeout: float,
    retries: int,
    backoff_factor: float,
) -> None:
    """Send a GET; what the server answers is not read.

    :param timeout: seconds to wait for the server, each time.
    :param retries: further tries while it is away or busy.
    :param backoff_factor: seconds before the first of them; doubled each time.
    :raises RuleError: no good answer in time; without user, password and query of the
        URL.
    """
    shown = _shown(url)
    waits = [backoff_factor * 2**number for number in range(retries)]
    limit = min((retries + 1) * timeout + sum(waits), LONGEST)
    # A server that sends a byte now and then would keep a request for ever: who waits
    # is not who sends.
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    given_up = threading.Event()
    request = {
        "url": url,
        "headers": {str(name): str(value) for name, value in (headers or {}).items()},
        "proxies": dict(proxies or {}),
        "timeout": timeout,
    }

    def work() -> None:
        answers.put(_try(request, waits, given_up))

    threading.Thread(target=work, name="inspection-rule-api-call", daemon=True).start()
    try:
        problem = answers.get(timeout=limit)
    except queue.Empty:
        problem = f"no answer within {limit:g} seconds"
    finally:
        given_up.set()
    if problem is not None:
        raise RuleError(f"{shown}: {problem}")


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise RuleError("the URL is malformed") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RuleError("the URL must begin with http:// or https:// and a host")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _try(request: Mapping[str, Any], waits: list[float], given_up: threading.Event) -> str | None:
    """Return what is wrong after the last try, None for a good answer."""
    problem: str | None = None
    for wait in (0.0, *waits):
        if given_up.wait(wait):
            break
        again, problem = _send(request)
        if not again:
            break
    return problem


def _send(request: Mapping[str, Any]) -> tuple[bool, str | None]:
    """Return whether another try may help, and what is wrong."""
    try:
        with (
            http.server_session(MAX_REDIRECTS) as session,
            session.get(**request, stream=True) as response,
        ):
            status = response.status_code
    except (requests.ConnectionError, requests.Timeout) as exc:
        return True, http.describe(exc)
    except (requests.RequestException, errors.InvalidParameterValue, OSError, ValueError) as exc:
        return False, http.describe(exc)
    if status < requests.codes.bad_request:
        return False, None
    return status in RETRIED, f"the server answered {status}"
