"""Metrics as their receivers get them."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.telemetry.metrics import Metrics, Prometheus, Statsd

GAUGE = "ironic.conductor.manager.ConductorManager.NodesInState"


@pytest.fixture
def options() -> Iterator[Any]:
    CONF([], default_config_files=[], default_config_dirs=[])

    def override(**values: Any) -> None:
        for name, value in values.items():
            group = "metrics_statsd" if name.startswith("statsd") else "metrics"
            CONF.set_override(name, value, group=group)

    yield override
    CONF.reset()
    CONF.clear()


def made(host: str = "cond-1.example.org") -> Metrics:
    return Metrics(CONF, host)


def test_by_default_nothing_is_measured(options: Any) -> None:
    metrics = made()
    with metrics.timer("ConductorManager.do_node_deploy"):
        pass
    metrics.gauge("x", 1)
    assert metrics.collected() == {}


class TestCollector:
    def test_timers_are_summed_up_and_gauges_have_their_last_value(self, options: Any) -> None:
        options(backend="collector")
        metrics = made()
        for _ in range(3):
            with metrics.timer("ConductorManager.do_node_deploy"):
                pass
        metrics.gauge("ConductorManager.PowerSyncNodesCount", 5)
        metrics.gauge("ConductorManager.PowerSyncNodesCount", 7)
        found = metrics.collected()
        timer = found.pop("ironic.conductor.manager.ConductorManager.do_node_deploy")
        assert (timer["count"], timer["type"]) == (3, "timer")
        assert timer["sum"] >= 0
        assert found == {
            "ironic.conductor.manager.ConductorManager.PowerSyncNodesCount": {
                "value": 7,
                "type": "gauge",
            }
        }

    def test_work_that_raises_is_not_counted(self, options: Any) -> None:
        options(backend="collector")
        metrics = made()
        with pytest.raises(ValueError, match="no"), metrics.timer("x"):
            raise ValueError("no")
        assert metrics.collected() == {}

    def test_what_a_value_is_of_becomes_a_part_of_the_name(self, options: Any) -> None:
        options(backend="collector")
        metrics = made()
        metrics.gauge("ConductorManager.NodesInState", 2, state="wait call-back")
        assert list(metrics.collected()) == [f"{GAUGE}.wait_call_back"]

    @pytest.mark.parametrize(
        ("values", "begin"),
        [
            ({}, "ironic."),
            ({"global_prefix": "site"}, "site.ironic."),
            ({"prepend_host": True}, "org.example.cond-1.ironic."),
            (
                {"prepend_host": True, "prepend_host_reverse": False, "global_prefix": "site"},
                "site.cond-1.example.org.ironic.",
            ),
        ],
    )
    def test_what_comes_before_a_name(
        self, options: Any, values: dict[str, Any], begin: str
    ) -> None:
        options(backend="collector", **values)
        metrics = made()
        metrics.gauge("x", 1)
        assert list(metrics.collected()) == [f"{begin}conductor.manager.x"]


class TestStatsd:
    @pytest.fixture
    def server(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            udp.settimeout(30)
            yield udp

    def test_each_sample_is_a_datagram(self, options: Any, server: socket.socket) -> None:
        options(backend="statsd", statsd_host="127.0.0.1", statsd_port=server.getsockname()[1])
        metrics = made()
        with metrics.timer("ConductorManager.do_node_deploy"):
            pass
        metrics.gauge("ConductorManager.NodesInState", 2, state="clean wait")
        timer = server.recv(1000).decode()
        name, _, value = timer.partition(":")
        assert name == "ironic.conductor.manager.ConductorManager.do_node_deploy"
        assert value.endswith("|ms")
        assert float(value.removesuffix("|ms")) >= 0
        assert server.recv(1000).decode() == f"{GAUGE}.clean_wait:2|g"
        assert metrics.collected() == {}

    def test_a_server_that_is_not_known_costs_a_line_in_the_log(
        self, options: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def unknown(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror("no such host")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        statsd = Statsd("nowhere.invalid", 8125)
        statsd.took("x", 1.0)
        assert statsd.flush(30)
        assert "could not be sent: no such host" in caplog.text


class TestPrometheus:
    def read(self, metrics: Metrics) -> str:
        assert isinstance(metrics._backend, Prometheus)
        port = metrics._backend.server.server_port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        return text

    def test_a_scrape_tells_timers_and_gauges(self, options: Any) -> None:
        options(backend="prometheus", prometheus_port=0)
        metrics = made()
        for _ in range(2):
            with metrics.timer("ConductorManager.do_node_deploy"):
                pass
        metrics.gauge("ConductorManager.PowerSyncNodesCount", 7)
        metrics.gauge("ConductorManager.NodesInState", 3, state="clean wait")
        text = self.read(metrics)
        timer = "ironic.conductor.manager.ConductorManager.do_node_deploy"
        assert f'ironic_duration_seconds_count{{of="{timer}"}} 2.0' in text
        assert "ironic_conductor_power_sync_nodes_count 7.0" in text
        assert 'ironic_conductor_nodes_in_state{state="clean wait"} 3.0' in text
        assert isinstance(metrics._backend, Prometheus)
        metrics._backend.server.shutdown()
        metrics._backend.server.server_close()

    def test_a_port_in_use_does_not_end_the_start(
        self, options: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            options(backend="prometheus", prometheus_port=other.getsockname()[1])
            metrics = made()
        metrics.gauge("x", 1)
        assert "set [metrics]prometheus_address and prometheus_port" in caplog.text
