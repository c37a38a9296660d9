"""``/healthcheck`` (field case K01, 11): it answers for itself alone, to anybody, and truly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import session
from ironic_rs.domain.errors import IncorrectConfiguration
from tests.functional.api.harness import Client


@pytest.fixture
def health(conf: Any, services: Any) -> Client:
    """A client of an application with a health check, which wants passwords elsewhere."""
    conf.set_override("enabled", True, group="healthcheck")
    return Client(app.build(services))


def test_it_is_well_with_a_database_and_a_conductor(health: Client, conductor: Conductor) -> None:
    answer = health.get("/healthcheck", headers={"Accept": "application/json"})
    assert answer.status == 200
    assert answer.body["reasons"] == ["The database answers.", "Conductors alive: 1."]
    assert health.request("HEAD", "/healthcheck").status == 204


def test_without_a_conductor_it_is_not_well_and_says_why(health: Client) -> None:
    answer = health.get("/healthcheck", headers={"Accept": "application/json"})
    assert answer.status == 503
    assert "No conductor is alive." in json.loads(answer.raw)["reasons"]
    assert answer.headers["Retry-After"] == "5"
    assert answer.headers["X-OpenStack-Ironic-Error-Code"] == "service_unavailable"
    assert b"No conductor is alive." in health.get("/healthcheck").raw
    assert health.request("HEAD", "/healthcheck").status == 503


def test_without_a_database_it_is_not_well_and_tells_no_address(
    health: Client, conductor: Conductor, conf: Any
) -> None:
    conf.set_override("connection", "sqlite:////nothing/secret/x.sqlite", group="database")
    session.configure(reconnect_seconds=0)
    answer = health.get("/healthcheck", headers={"Accept": "application/json"})
    assert answer.status == 503
    assert "The database does not answer." in json.loads(answer.raw)["reasons"]
    assert b"secret" not in answer.raw


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nodes", 200),
        ("/v1", 200),
        ("/healthcheckx", 404),
        ("/healthcheck/x", 404),
        ("/v1/healthcheck", 404),
        ("/healthcheck", 200),
        ("/healthcheck/", 200),
    ],
)
def test_it_swallows_no_other_path(
    health: Client, conductor: Conductor, path: str, status: int
) -> None:
    assert health.get(path).status == status


def test_every_method_is_answered(health: Client, conductor: Conductor) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        assert health.request(method, "/healthcheck").status == 200


def test_it_needs_no_credentials(
    conf: Any, services: Any, conductor: Conductor, tmp_path: Any
) -> None:
    users = tmp_path / "htpasswd"
    users.write_text("u:$2y$05$abcdefghijklmnopqrstuuJ3mA0Yl1m1hYb3nG6m0b0b0b0b0b0b0\n")
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(users))
    conf.set_override("enabled", True, group="healthcheck")
    client = Client(app.build(services))
    assert client.get("/v1/nodes").status == 401
    assert client.get("/healthcheck").status == 200


def test_the_operator_chooses_what_is_looked_at(conf: Any, services: Any) -> None:
    conf.set_override("enabled", True, group="healthcheck")
    app.build(services)  # registers the options of the library
    conf.set_override("backends", ["ironic_rs_database"], group="healthcheck")
    assert Client(app.build(services)).get("/healthcheck").status == 200
    conf.set_override("backends", ["ironic_rs_databse"], group="healthcheck")
    with pytest.raises(IncorrectConfiguration, match="ironic_rs_databse can not be loaded"):
        app.build(services)
