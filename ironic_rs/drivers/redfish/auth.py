"""How to log in to a BMC; threads that share a session renew it once.

Source: specification drivers.md section 6.2; field case 31.
"""

from __future__ import annotations

import threading
from typing import Any

import sushy.auth

from ironic_rs.drivers.redfish.driver_info import ConnectionKey


class NoAuth(sushy.auth.AuthBase):
    """A BMC without accounts: no log-in, no header."""

    def _do_authenticate(self) -> None:
        pass

    def can_refresh_session(self) -> bool:
        return False


class _OneLogin:
    """Of threads whose requests were refused together, the first logs in for all."""

    _session_key: str | None
    _connector: Any

    def __init__(self, **credentials: Any) -> None:
        self._login = threading.Lock()
        super().__init__(**credentials)

    def _renewed_already(self) -> bool:
        return self._session_key not in (None, self._connector.token_sent)

    def authenticate(self) -> None:
        with self._login:
            if not self._renewed_already():
                super().authenticate()  # type: ignore[misc]

    def refresh_session(self) -> None:
        with self._login:
            if not self._renewed_already():
                super().refresh_session()  # type: ignore[misc]


class SessionAuth(_OneLogin, sushy.auth.SessionAuth):
    """A Redfish session."""


class SessionOrBasicAuth(_OneLogin, sushy.auth.SessionOrBasicAuth):
    """A Redfish session, or HTTP Basic where the BMC gives none at the first log-in."""


def make(key: ConnectionKey, *, had_session: bool) -> sushy.auth.AuthBase:
    """Return a new log-in for a BMC.

    :param had_session: the BMC has given a session before.  BMCs do not lose that:
        there is no way back to sending the password with each request.
    """
    if key.username is None and key.password is None:
        return NoAuth()
    kind: type[sushy.auth.AuthBase]
    if key.auth_type == "basic":
        kind = sushy.auth.BasicAuth
    elif key.auth_type == "session" or had_session:
        kind = SessionAuth
    else:
        kind = SessionOrBasicAuth
    return kind(username=key.username, password=key.password)
