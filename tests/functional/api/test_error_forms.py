"""The forms of error bodies that clients parse, to the key (rest-api.md section 3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.errors import CODE_HEADER
from ironic_rs.db import nodes
from tests.functional.api.harness import Client
from tests.harness import keystone as keystones

FAULT = {"faultcode", "faultstring", "debuginfo", "errorcode"}
ROUTED = {"code", "title", "description", "errorcode"}


def coded(answer: Any, inner: dict[str, Any]) -> str:
    """Return the stable code, which header and body agree about."""
    assert answer.headers[CODE_HEADER] == inner["errorcode"]
    return str(inner["errorcode"])


def test_a_errors_of_operations_are_faults_in_a_string(lonely: Client) -> None:
    answer = lonely.get("/v1/nodes/nosuch")
    assert (answer.status, set(answer.body)) == (404, {"error_message"})
    assert set(answer.fault) == FAULT
    assert (answer.fault["faultcode"], answer.fault["debuginfo"]) == ("Client", None)
    assert coded(answer, answer.fault) == "node_not_found"


@pytest.mark.parametrize("told", [False, True])
def test_a_errors_of_the_service_are_faults_of_the_server(
    told: bool, conf: Any, lonely: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(nodes, "select", fail)
    conf.set_override("debug_tracebacks_in_api", told)
    answer = lonely.get("/v1/nodes")
    assert (answer.status, set(answer.body)) == (500, {"error_message"})
    assert set(answer.fault) == FAULT
    assert answer.fault["faultcode"] == "Server"
    assert coded(answer, answer.fault) == "internal_error"
    assert ("Traceback" in (answer.fault["debuginfo"] or "")) == told
    assert "secret" not in answer.fault["faultstring"]


@pytest.mark.parametrize(
    ("method", "path", "version", "status", "code"),
    [
        ("GET", "/v1/nothing", "1.115", 404, "not_found"),
        ("GET", "/v1/nodes/a b", "1.115", 400, "invalid_uuid_or_name"),
        ("PATCH", "/v1/nodes", "1.115", 405, "method_not_allowed"),
        ("GET", "/v1/nodes", "1.999", 406, "unsupported_version"),
        ("GET", "/v1/nodes", "x", 406, "unsupported_version"),
        ("POST", "/v1/runbooks", "1.91", 405, "method_not_allowed"),
    ],
)
def test_b_errors_of_routing_have_code_title_and_description(
    method: str, path: str, version: str, status: int, code: str, lonely: Client
) -> None:
    answer = lonely.at(version).request(method, path)
    assert (answer.status, set(answer.body)) == (status, {"error_message"})
    assert set(answer.fault) == ROUTED
    assert answer.fault["code"] == status
    assert coded(answer, answer.fault) == code


def test_b_whoever_can_not_read_json_gets_text_in_the_string(lonely: Client) -> None:
    answer = lonely.get("/v1/nodes", headers={"Accept": "text/html"})
    assert (answer.status, set(answer.body)) == (406, {"error_message"})
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body["error_message"])
    assert answer.headers[CODE_HEADER] == "not_acceptable"


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"[" * 40 + b"]" * 40, 400, "body_too_deep"),
        (b'"' + b"x" * 1024 * 1024 + b'"', 413, "body_too_large"),
    ],
)
def test_c_refused_bodies_are_flat(raw: bytes, status: int, code: str, lonely: Client) -> None:
    answer = lonely.post("/v1/nodes", raw=raw)
    assert (answer.status, set(answer.body)) == (
        status,
        {"faultcode", "faultstring", "errorcode"},
    )
    assert answer.body["faultcode"] == "Client"
    assert coded(answer, answer.body) == code


@pytest.mark.parametrize(("header", "status"), [(None, 401), ("Basic !!!", 400), ("Bearer x", 400)])
def test_d_basic_authentication_answers_flat(
    header: str | None, status: int, conf: Any, services: Any, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text("")
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(users))
    headers = {} if header is None else {"Authorization": header}
    answer = Client(app.build(services)).get("/v1/nodes", headers=headers)
    assert (answer.status, set(answer.body)) == (status, {"error"})
    assert set(answer.body["error"]) == {"message", "code"}
    assert answer.body["error"]["code"] == status
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="Baremetal API"'


def test_e_keystone_authentication_answers_flat(conf: Any, services: Any) -> None:
    with keystones.running() as server, keystones.configured(conf, server):
        answer = Client(app.build(services)).get("/v1/nodes")
    assert (answer.status, set(answer.body)) == (401, {"error"})
    assert set(answer.body["error"]) == {"code", "title", "message"}
    assert answer.headers["WWW-Authenticate"].startswith("Keystone uri=")
