"""Metrics of a service: how long its work takes, and how much there is of what.

Where they go is up to ``[metrics]backend``: nowhere, to a statsd server, into the memory of
the process (``collector``: the conductor sends them with its sensor data), or to whoever
reads ``/metrics`` (``prometheus``).  Nothing waits for a metric, and none fails a piece of work.

Names begin with the modules that collectors of this field know (``ironic.conductor.manager``),
whatever the modules are called here.

Source: specification operations.md section 7, auxiliary.md section 5.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import prometheus_client
from oslo_config import cfg

from ironic_rs.telemetry.outbox import Outbox

LOG = logging.getLogger(__name__)

MANAGER = "ironic.conductor.manager"
#: Seconds for which the address of the statsd server is kept.
_ADDRESS_SECONDS = 60.0
#: Samples that wait to be sent; more are dropped.
_CAPACITY = 10_000

Labels = Mapping[str, str]


class Backend(Protocol):
    """Where samples go."""

    def took(self, name: str, seconds: float) -> None:
        """Take how long something took."""

    def is_now(self, name: str, value: float, labels: Labels) -> None:
        """Take a value that goes up and down."""

    def collected(self) -> dict[str, dict[str, Any]]:
        """Return what was gathered in memory, by name."""


class Metrics:
    """The metrics of one service.

    :param conf: with ``[metrics]`` and ``[metrics_statsd]``.
    :param host: name that ``prepend_host`` puts before names.
    """

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self._prefix = _prefix(conf.metrics, host)
        self._backend = _backend(conf)

    def timer(self, name: str, module: str = MANAGER) -> AbstractContextManager[None]:
        """Measure a block; one that raises is not counted.

        :param name: such as ``ConductorManager.do_node_deploy``.
        """
        if self._backend is None:
            return contextlib.nullcontext()
        return self._measure(self._backend, f"{self._prefix}{module}.{name}")

    @contextlib.contextmanager
    def _measure(self, backend: Backend, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        backend.took(name, time.perf_counter() - begun)

    def gauge(self, name: str, value: float, module: str = MANAGER, **labels: str) -> None:
        """Tell a value.

        :param labels: what the value is of; in backends without labels their values become
            the last parts of the name.
        """
        if self._backend is not None:
            self._backend.is_now(f"{self._prefix}{module}.{name}", value, labels)

    def collected(self) -> dict[str, dict[str, Any]]:
        """Return what backend ``collector`` has gathered: name to {type, and its figures}.

        Timers have ``count`` and ``sum`` (milliseconds), gauges ``value``.  Empty with any
        other backend.
        """
        return {} if self._backend is None else self._backend.collected()


def _prefix(group: Any, host: str) -> str:
    parts = [group.global_prefix] if group.global_prefix else []
    if group.prepend_host:
        names = host.split(".")
        parts += reversed(names) if group.prepend_host_reverse else names
    return "".join(f"{part}." for part in parts)


def _backend(conf: cfg.ConfigOpts) -> Backend | None:
    kind = conf.metrics.backend
    if kind == "statsd":
        return Statsd(conf.metrics_statsd.statsd_host, conf.metrics_statsd.statsd_port)
    if kind == "collector":
        return Collector()
    if kind == "prometheus":
        return Prometheus(conf.metrics.prometheus_address, conf.metrics.prometheus_port)
    return None


def _flat(name: str, labels: Labels) -> str:
    """Return a name with its labels in it."""
    parts = (re.sub("[^A-Za-z0-9]", "_", value) for value in labels.values())
    return ".".join([name, *parts])


class Statsd:
    """Sends each sample in a datagram, from a thread: looking up the server may take long."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._socket: socket.socket | None = None
        self._address: Any = None
        self._known_until = 0.0
        self._outbox: Outbox[str] = Outbox("metrics", self._send, str, _CAPACITY)

    def took(self, name: str, seconds: float) -> None:
        """Send a timer, in milliseconds."""
        self._outbox.put(f"{name}:{seconds * 1000:.3f}|ms")

    def is_now(self, name: str, value: float, labels: Labels) -> None:
        """Send a gauge."""
        self._outbox.put(f"{_flat(name, labels)}:{value:g}|g")

    def collected(self) -> dict[str, dict[str, Any]]:
        """Nothing stays here."""
        return {}

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent, at most ``timeout`` seconds."""
        return self._outbox.flush(timeout)

    def _send(self, sample: str) -> None:
        if self._socket is None or time.monotonic() > self._known_until:
            self._look_up()
        assert self._socket is not None
        self._socket.sendto(sample.encode(), self._address)

    def _look_up(self) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(
            *self._server, type=socket.SOCK_DGRAM
        )[0]
        if self._socket is not None:
            self._socket.close()
        self._socket = socket.socket(family, kind, protocol)
        self._address = address
        self._known_until = time.monotonic() + _ADDRESS_SECONDS


class Collector:
    """Gathers in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, Any]] = {}

    def took(self, name: str, seconds: float) -> None:
        """Count one, and add its milliseconds."""
        with self._lock:
            timer = self._found.setdefault(name, {"count": 0, "sum": 0.0, "type": "timer"})
            timer["count"] += 1
            timer["sum"] += seconds * 1000

    def is_now(self, name: str, value: float, labels: Labels) -> None:
        """Remember the last value."""
        with self._lock:
            self._found[_flat(name, labels)] = {"value": value, "type": "gauge"}

    def collected(self) -> dict[str, dict[str, Any]]:
        """Return a copy of all that was gathered."""
        with self._lock:
            return {name: dict(metric) for name, metric in self._found.items()}


class Prometheus:
    """Offers what it knows at ``http://<address>:<port>/metrics``.

    All timers are one summary, ``ironic_duration_seconds``, with the name as label ``of``;
    each gauge is a metric of its own.
    """

    def __init__(self, address: str, port: int) -> None:
        self._lock = threading.Lock()
        self._registry = prometheus_client.CollectorRegistry()
        self._durations = prometheus_client.Summary(
            "ironic_duration_seconds", "How long work took.", ["of"], registry=self._registry
        )
        self._gauges: dict[str, prometheus_client.Gauge] = {}
        try:
            self.server, _ = prometheus_client.start_http_server(port, address, self._registry)
        except OSError as exc:
            LOG.error(
                "Metrics can not be offered at %s port %d, set [metrics]prometheus_address and "
                "prometheus_port to what is free here: %s",
                address,
                port,
                exc,
            )

    def took(self, name: str, seconds: float) -> None:
        """Add to the summary."""
        self._durations.labels(name).observe(seconds)

    def is_now(self, name: str, value: float, labels: Labels) -> None:
        """Set a gauge."""
        with self._lock:
            gauge = self._gauges.get(name)
            if gauge is None:
                gauge = self._gauges[name] = prometheus_client.Gauge(
                    _snake(name), f"{name}.", list(labels), registry=self._registry
                )
        (gauge.labels(**labels) if labels else gauge).set(value)

    def collected(self) -> dict[str, dict[str, Any]]:
        """It is read over HTTP, not here."""
        return {}


def _snake(name: str) -> str:
    """``ironic.conductor.manager.X.NodesCount`` is ``ironic_conductor_nodes_count``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2]).lower()
    return f"ironic_conductor_{words}"
