"""One interface to call conductors, whatever carries the call.

``[DEFAULT]rpc_transport`` alone decides: ``oslo`` is the message bus of
``transport_url``, ``json-rpc`` is HTTP from service to service, ``none`` is direct
dispatch inside this process.  No code outside ``rpc/`` knows which.

Source: specification conductor.md section 1.1.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from ironic_rs.conf import CONF
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import Registry


class RpcServer(ABC):
    """Receives the calls of one conductor."""

    @abstractmethod
    def start(self) -> None:
        """Begin to accept calls; returns when calls are accepted."""

    @abstractmethod
    def stop(self) -> None:
        """Accept no more calls; running ones go on."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for running calls, after :meth:`stop`.

        :param timeout: seconds, None = for ever.
        :returns: False when some still run.
        """


class Transport(ABC):
    """Calls conductors, and serves as one.

    Arguments and results are plain JSON values.
    """

    def identity(self, host: str) -> str:
        """Return the one name of a conductor: in its locks, its row and its address (W28).

        :param host: ``[DEFAULT]host``.
        """
        return host

    @abstractmethod
    def call(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
        timeout: float | None = None,
    ) -> Any:
        """Run a method on a conductor and return its result.

        :param host: name of the conductor.
        :param version: lowest RPC version that the server must speak.
        :param timeout: seconds; default ``rpc_response_timeout``.
        :raises IronicError: what the method raised there, by class name.
        :raises ServiceUnavailable: no answer, or the broker cannot be reached.
        """

    @abstractmethod
    def cast(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
    ) -> None:
        """Ask a conductor to run a method; its end is not waited for.

        :raises ServiceUnavailable: the broker cannot be reached.
        """

    @abstractmethod
    def serve(self, host: str, registry: Registry) -> RpcServer:
        """Make the server of a conductor in this process; not started yet."""

    @abstractmethod
    def close(self) -> None:
        """Give connections and threads back."""


_lock = threading.Lock()
_current: Transport | None = None


def get() -> Transport:
    """Return the transport of this process, made at the first call.

    :raises IncorrectConfiguration: its options cannot be used.
    """
    global _current
    with _lock:
        if _current is None:
            _current = _create()
        return _current


def reset() -> None:
    """Close the transport of this process; the next :func:`get` makes a new one."""
    global _current
    with _lock:
        current, _current = _current, None
    if current is not None:
        current.close()


def is_configured(conf: cfg.ConfigOpts) -> bool:
    """Tell whether ``transport_url`` names a message broker."""
    import oslo_messaging

    return bool(oslo_messaging.TransportURL.parse(conf).hosts)


def _create() -> Transport:
    kind = CONF.rpc_transport
    if kind == "none":
        from ironic_rs.rpc.direct import DirectTransport

        return DirectTransport()
    if kind == "json-rpc":
        from ironic_rs.rpc.json_client import JsonRpcTransport

        return JsonRpcTransport(CONF)
    from ironic_rs.rpc.messaging import MessagingTransport

    return MessagingTransport(CONF)
