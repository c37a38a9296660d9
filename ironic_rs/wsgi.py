"""The API for WSGI containers (uWSGI, gunicorn, mod_wsgi): ``ironic_rs.wsgi:application``.

Importing this reads no file and opens nothing: the configuration is read when the first
request comes, or by ``application.prepare()``, which a container calls to hear of a bad
configuration while it starts (see ``etc/wsgi``).  A container that forks afterwards is
fine: each process makes its own application.

The configuration comes from the files that OS_IRONIC_RS_CONFIG_FILES names (with
semicolons between them) and the directory OS_IRONIC_RS_CONFIG_DIR; else from those that
IRONIC_CONFIG_FILE and IRONIC_CONFIG_DIR name; else from the usual places.

Source: specification operations.md sections 1 and 10.
"""

from __future__ import annotations

from ironic_rs.service import backend

# Has to come before all else: with eventlet it replaces parts of the standard library.
backend.activate()

import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterable  # noqa: E402
from typing import Any  # noqa: E402

LOG = logging.getLogger(__name__)

NAME = "ironic-rs-api"
FILES_VARIABLE = "OS_IRONIC_RS_CONFIG_FILES"
DIR_VARIABLE = "OS_IRONIC_RS_CONFIG_DIR"
#: Seconds between two tries to start with a configuration that was refused.
_RETRY_SECONDS = 10.0

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def _arguments() -> list[str]:
    files = [name.strip() for name in os.environ.get(FILES_VARIABLE, "").split(";")]
    folder = os.environ.get(DIR_VARIABLE)
    found = [f"--config-file={name}" for name in files if name]
    return [*found, *([f"--config-dir={folder}"] if folder else [])]


class Application:
    """The API, configured when it is first needed in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: WSGIApplication | None = None
        self._pid: int | None = None
        self._refused_at: float | None = None

    def prepare(self) -> None:
        """Read the configuration, set up logging and make the application of this process.

        :raises ConfigurationError, IncorrectConfiguration, oslo_config.cfg.Error: the
            configuration can not be used; the text says what is wrong.
        """
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._app = self._make()
                self._pid = os.getpid()

    def _make(self) -> WSGIApplication:
        from ironic_rs.api import app
        from ironic_rs.conf import loading
        from ironic_rs.rpc import transport

        conf = loading.read(_arguments(), NAME)
        if conf.rpc_transport == "none":
            raise loading.ConfigurationError(
                "[DEFAULT]rpc_transport = none works inside one process only: run ironic-rs "
                "instead of a WSGI container, or set rpc_transport = oslo"
            )
        backend.announce()
        # Of the process that this one was forked from.
        transport.reset()
        made: WSGIApplication = app.build(app.services(conf))
        return made

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if self._pid != os.getpid() and not self._prepared():
            return _unavailable(start_response)
        assert self._app is not None
        return self._app(environ, start_response)

    def _prepared(self) -> bool:
        """Try to prepare; a refusal is logged, and not tried again at every request."""
        refused_at = self._refused_at
        if refused_at is not None and time.monotonic() - refused_at < _RETRY_SECONDS:
            return False
        try:
            self.prepare()
        except (Exception, SystemExit) as exc:
            # oslo.config ends the process for some values.  Logging may not be set up yet:
            # then this goes to stderr, which containers keep.
            self._refused_at = time.monotonic()
            LOG.critical("%s cannot start: %s", NAME, exc)
            return False
        self._refused_at = None
        return True


def _unavailable(start_response: Callable[..., Any]) -> Iterable[bytes]:
    fault = {
        "faultcode": "Server",
        "faultstring": "The API can not be used with its configuration; its log tells why.",
        "debuginfo": None,
        "errorcode": "service_unavailable",
    }
    body = json.dumps({"error_message": json.dumps(fault)}).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Retry-After", str(round(_RETRY_SECONDS))),
        ("X-OpenStack-Ironic-Error-Code", "service_unavailable"),
    ]
    start_response("503 Service Unavailable", headers)
    return [body]


application = Application()
