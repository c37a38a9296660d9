"""Calls over the message bus (oslo.messaging).

oslo.messaging connects for ever before the first call; here a thread does that,
and a call made meanwhile gets ServiceUnavailable after a few seconds instead of
hanging, and is certainly not sent later.

Make the transport after the last fork of a process.

Source: specification conductor.md section 1.1.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.rpc import client as oslo_client

from ironic_rs.domain import errors
from ironic_rs.rpc import dispatch, versions
from ironic_rs.rpc.casts import CastRunner
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import CASTS, CONDUCTOR_TOPIC, RPC_VERSION, Registry
from ironic_rs.rpc.transport import RpcServer, Transport

LOG = logging.getLogger(__name__)

oslo_messaging.set_transport_defaults("ironic")

#: Seconds that a call waits for the first connection to the broker.
CONNECT_SECONDS = 5.0
#: Repetitions of a send whose connection broke.
SEND_RETRIES = 1

#: Seconds that oslo.messaging gets to stop listening and to send the last answers.
STOP_SECONDS = 3.0

_PROBE_SERVER = "nobody"


class MessagingServer(RpcServer):
    """Receives the calls of one conductor from its queue."""

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        host: str,
        registry: Registry,
        retry_seconds: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._retry_seconds = retry_seconds
        self._casts: CastRunner | None = None
        self._idle = threading.Condition()
        self._running = 0
        self._stopper: threading.Thread | None = None
        endpoint = SimpleNamespace(
            target=oslo_messaging.Target(version=RPC_VERSION),
            **{name: self._exposed(name) for name in registry.names},
        )
        self._server = oslo_messaging.get_rpc_server(
            transport,
            oslo_messaging.Target(topic=CONDUCTOR_TOPIC, server=host),
            [endpoint],
            access_policy=oslo_messaging.ExplicitRPCAccessPolicy,
        )

    def _exposed(self, name: str) -> Callable[..., dict[str, Any]]:
        def receive(context: Any, **arguments: Any) -> dict[str, Any]:
            values = context if isinstance(context, dict) else context.to_dict()
            if name in CASTS and self._casts is not None:
                self._casts.submit(name, arguments, values)
                return {}
            with self._idle:
                self._running += 1
            try:
                return dispatch.answer(self._registry, name, arguments, values)
            finally:
                with self._idle:
                    self._running -= 1
                    self._idle.notify_all()

        exposed: Callable[..., dict[str, Any]] = oslo_messaging.expose(receive)
        return exposed

    def start(self) -> None:
        self._casts = CastRunner(self._registry, self._retry_seconds)
        self._server.start()

    def stop(self) -> None:
        # While the broker is away oslo.messaging stops when it is back; we do not wait.
        self._stopper = threading.Thread(target=self._close, daemon=True, name="rpc-stop")
        self._stopper.start()
        self._stopper.join(STOP_SECONDS)

    def _close(self) -> None:
        try:
            self._server.stop()
            self._server.wait()
        except Exception:
            LOG.exception("The server of RPC calls did not stop in order")

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        if self._casts is not None:
            self._casts.close(timeout)
        left = None if end is None else max(0.0, end - time.monotonic())
        with self._idle:
            idle = self._idle.wait_for(lambda: not self._running, left)
        if idle and self._stopper is not None:
            # The last answers are sent after their handlers have ended.
            self._stopper.join(STOP_SECONDS)
        return idle


class MessagingTransport(Transport):
    """Calls conductors over ``transport_url``.

    :raises IncorrectConfiguration: ``transport_url`` names an unknown driver.
    """

    def __init__(self, conf: cfg.ConfigOpts, url: str | None = None) -> None:
        self._conf = conf
        try:
            self._transport = oslo_messaging.get_rpc_transport(conf, url=url)
        except (oslo_messaging.DriverLoadFailure, oslo_messaging.InvalidTransportURL) as exc:
            raise errors.IncorrectConfiguration(error=f"transport_url: {exc}") from exc
        self._client = oslo_messaging.get_rpc_client(
            self._transport,
            oslo_messaging.Target(topic=CONDUCTOR_TOPIC, version="1.0"),
            retry=SEND_RETRIES,
        )
        self._connected = threading.Event()
        self._connecting = threading.Lock()
        self._closed = False

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
        versions.check(self._conf, method, version)
        self._connect(method)
        wait = self._conf.rpc_response_timeout if timeout is None else timeout
        client = self._client.prepare(server=host, version=version, timeout=wait)
        try:
            reply = client.call(context.to_dict(), method, **arguments)
        except oslo_messaging.MessagingTimeout as exc:
            raise errors.ServiceUnavailable(
                f"Conductor {host} did not answer the request '{method}' within {wait} s. It may "
                "still carry it out: look at the object before you retry."
            ) from exc
        except oslo_messaging.MessagingException as exc:
            raise self._unusable(host, method, exc) from exc
        return dispatch.unpack(reply)

    def cast(
        self,
        host: str,
        method: str,
        arguments: Mapping[str, Any],
        context: RequestContext,
        *,
        version: str = "1.0",
    ) -> None:
        versions.check(self._conf, method, version)
        client = self._client.prepare(server=host, version=version)
        try:
            client.cast(context.to_dict(), method, **arguments)
        except oslo_messaging.MessagingException as exc:
            raise self._unusable(host, method, exc) from exc

    def serve(self, host: str, registry: Registry) -> MessagingServer:
        return MessagingServer(
            self._transport,
            host,
            registry,
            lambda: self._conf.conductor.node_locked_retry_interval,
        )

    def close(self) -> None:
        self._closed = True
        if self._connected.is_set():
            self._transport.cleanup()

    def _connect(self, method: str) -> None:
        """Wait for the first connection, for a short while.

        :raises ServiceUnavailable: there is none yet.
        """
        if self._connected.is_set():
            return
        # One thread at a time tries; it ends once there is a connection.
        if self._connecting.acquire(blocking=False):
            threading.Thread(target=self._probe, daemon=True, name="rpc-connect").start()
        if not self._connected.wait(CONNECT_SECONDS):
            raise errors.ServiceUnavailable(
                f"The message broker (transport_url) cannot be reached; the request '{method}' "
                "was not sent. Please retry."
            )

    def _probe(self) -> None:
        """Open the reply queue by a call that nobody receives; connects for ever."""
        try:
            while not self._closed and not self._connected.is_set():
                try:
                    self._client.prepare(server=_PROBE_SERVER, timeout=0.01).call({}, "ping")
                except oslo_messaging.MessagingTimeout:
                    self._connected.set()
                except Exception:
                    LOG.exception("Connecting to the message broker failed")
                    time.sleep(1.0)
                else:
                    self._connected.set()
        finally:
            self._connecting.release()

    @staticmethod
    def _unusable(host: str, method: str, exc: Exception) -> errors.IronicError:
        if isinstance(exc, oslo_client.RemoteError):
            return errors.IronicError(
                f"Conductor {host} could not run the request '{method}': {exc.exc_type}: "
                f"{exc.value}"
            )
        return errors.ServiceUnavailable(
            f"The message broker (transport_url) cannot be used; the request '{method}' to "
            f"conductor {host} failed: {exc}. Please retry."
        )
