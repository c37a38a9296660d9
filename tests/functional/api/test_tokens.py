"""Tokens of Keystone: who gets in, as whom, and what the others are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app, audit
from ironic_rs.api.call import Services
from ironic_rs.domain import errors
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import services_over
from tests.functional.api.harness import Client
from tests.harness import keystone as keystones
from tests.harness.keystone import Keystone, token

AUDIT = "audit_middleware_notifications"
#: Registered by the library that this one loads.
assert audit


@pytest.fixture
def keystone(conf: Any) -> Iterator[Keystone]:
    """A Keystone that the API is configured to ask."""
    with keystones.running() as server, keystones.configured(conf, server):
        yield server


@pytest.fixture
def guarded(keystone: Keystone, services: Services) -> Client:
    return Client(app.build(services))


def with_token(value: str, service: str | None = None, **more: str) -> dict[str, str]:
    headers = {"X-Auth-Token": value, **more}
    return headers if service is None else {**headers, "X-Service-Token": service}


def test_without_a_token_401_says_where_to_get_one(guarded: Client, keystone: Keystone) -> None:
    answer = guarded.get("/v1/nodes")
    assert answer.status == 401
    assert answer.body == {
        "error": {
            "code": 401,
            "title": "Unauthorized",
            "message": "The request you have made requires authentication.",
        }
    }
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'
    assert answer.headers["openstack-request-id"]


def test_www_authenticate_names_the_public_url_of_keystone(
    conf: Any, keystone: Keystone, services: Services
) -> None:
    app.build(services)
    conf.set_override("www_authenticate_uri", "https://id.example.com", keystones.GROUP)
    answer = Client(app.build(services)).get("/v1/nodes")
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="https://id.example.com"'


def test_bad_and_expired_tokens_get_401(guarded: Client, keystone: Keystone) -> None:
    keystone.tokens["old"] = token("admin", system=True, expired=True)
    for value in ("unknown", "old", "", "\xff", "x" * 9000):
        assert guarded.get("/v1/nodes", headers=with_token(value)).status == 401


def test_a_good_token_is_asked_for_once(guarded: Client, keystone: Keystone) -> None:
    keystone.tokens["t"] = token("admin", system=True)
    for _ in range(3):
        assert guarded.get("/v1/nodes", headers=with_token("t")).status == 200
    assert keystone.asked == ["t"]


def test_headers_of_the_client_say_nothing_about_him(guarded: Client, keystone: Keystone) -> None:
    keystone.tokens["t"] = token("reader", project="p1")
    forged = {
        "X-Roles": "admin",
        "X-Project-Id": "p2",
        "OpenStack-System-Scope": "all",
        "X-Identity-Status": "Confirmed",
        "X-Is-Admin-Project": "true",
    }
    assert guarded.get("/v1/conductors", headers=with_token("t", **forged)).status == 403
    assert guarded.get("/v1/nodes", headers=forged).status == 401


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/lookup?addresses=52:54:00:00:00:01", "/v1/heartbeat/abc"]
)
def test_public_routes_need_no_token(path: str, guarded: Client, keystone: Keystone) -> None:
    method = "POST" if "heartbeat" in path else "GET"
    answer = guarded.request(method, path, headers={"X-Auth-Token": "unknown"})
    assert answer.status not in (401, 403, 500)
    assert keystone.asked == []


@pytest.mark.parametrize("path", ["/nodes", "/lookup", "/v1/nodes/", "/v1/heartbeat/A.b", "/v2"])
def test_all_other_paths_need_one(path: str, guarded: Client) -> None:
    assert guarded.get(path).status == 401


def test_the_context_of_a_public_request_names_nobody(
    services: Services, keystone: Keystone, conductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(
        services.enforcer, "allows", lambda context, *_: seen.append(context) or True
    )
    forged = {"X-Roles": "admin", "X-User-Id": "me", "OpenStack-System-Scope": "all"}
    client = Client(app.build(services))
    client.get("/v1/lookup?addresses=52:54:00:00:00:01", headers=with_token("t", **forged))
    (context,) = seen
    assert context.is_public_api
    assert (context.user_id, context.roles, context.system_scope) == (None, [], None)
    assert context.auth_token is None


def test_keystone_that_does_not_answer_gives_503(guarded: Client, keystone: Keystone) -> None:
    keystone.broken = True
    answer = guarded.get("/v1/nodes", headers=with_token("t"))
    assert answer.status == 503
    assert answer.body["error"]["code"] == 503
    assert answer.headers["Retry-After"] == "5"


def test_keystone_that_is_away_gives_503(conf: Any) -> None:
    with keystones.running() as server:
        pass
    with keystones.configured(conf, server):
        client = Client(app.build(services_over(conf, DirectTransport())))
        assert client.get("/v1/nodes", headers=with_token("t")).status == 503
        assert client.get("/v1/nodes").status == 401
        assert client.get("/v1/").status == 200


def context_of(guarded: Client, services: Services, headers: dict[str, str]) -> Any:
    """Return the context that the policy is asked with."""
    seen: list[Any] = []
    before = services.enforcer.allows
    services.enforcer.allows = lambda c, *a: seen.append(c) or before(c, *a)  # type: ignore
    guarded.get("/v1/nodes", headers=headers)
    return seen[0]


def test_the_context_has_scope_and_roles_of_the_token(
    guarded: Client, services: Services, keystone: Keystone
) -> None:
    keystone.tokens["t"] = token("manager", project="p1", project_name="one")
    context = context_of(guarded, services, with_token("t"))
    assert context.roles == ["manager", "member", "reader"]
    assert (context.project_id, context.project_name) == ("p1", "one")
    assert (context.user_id, context.user_name) == ("user-id", "user")
    assert context.project_domain_id == "default"
    assert context.system_scope is None
    assert context.auth_token == "t"
    assert context.auth_token_info["token"]["project"]["id"] == "p1"
    assert context.from_dict(context.to_dict()).roles == context.roles


def test_a_service_token_does_not_change_the_scope_of_the_user(
    guarded: Client, services: Services, keystone: Keystone
) -> None:
    keystone.tokens["user"] = token("reader", project="p1")
    keystone.tokens["service"] = token("service", system=True)
    context = context_of(guarded, services, with_token("user", "service"))
    assert (context.project_id, context.system_scope) == ("p1", None)
    assert context.service_roles == ["service"]

    keystone.tokens["user"] = token("reader", system=True)
    keystone.tokens["user2"] = token("reader", system=True)
    keystone.tokens["service2"] = token("service", project="service-id")
    context = context_of(guarded, services, with_token("user2", "service2"))
    assert context.system_scope == "all"


def test_a_service_token_keeps_an_expired_token_of_a_user_alive(
    guarded: Client, keystone: Keystone
) -> None:
    keystone.tokens["user"] = token("reader", project="p1", expired=True)
    keystone.tokens["service"] = token("service", project="service-id")
    keystone.tokens["other"] = token("member", project="service-id")
    assert guarded.get("/v1/nodes", headers=with_token("user")).status == 401
    assert guarded.get("/v1/nodes", headers=with_token("user", "service")).status == 200
    assert guarded.get("/v1/nodes", headers=with_token("user", "other")).status == 401
    assert guarded.get("/v1/nodes", headers=with_token("user", "unknown")).status == 401


def test_a_delayed_decision_is_a_refusal_too(
    conf: Any, keystone: Keystone, services: Services
) -> None:
    app.build(services)
    conf.set_override("delay_auth_decision", True, keystones.GROUP)
    client = Client(app.build(services))
    for headers in ({}, with_token("unknown"), {"X-Identity-Status": "Confirmed"}):
        answer = client.get("/v1/nodes", headers=headers)
        assert answer.status == 401
        assert answer.fault["errorcode"] == "unauthorized"
        assert answer.headers["WWW-Authenticate"].startswith("Keystone uri=")
    keystone.tokens["t"] = token("reader", project="p1")
    assert client.get("/v1/nodes", headers=with_token("t")).status == 200


@pytest.mark.parametrize("scope", [{"domain": "d1"}, {}], ids=["domain", "no scope"])
def test_scopes_without_a_meaning_here_get_403(
    scope: dict[str, str], guarded: Client, keystone: Keystone
) -> None:
    keystone.tokens["t"] = token("admin", **scope)  # type: ignore[arg-type]
    for path in ("/v1/nodes", "/v1/ports", "/v1/chassis", "/v1/drivers"):
        assert guarded.get(path, headers=with_token("t")).status == 403


def test_an_application_credential_may_do_what_its_access_rules_say(
    guarded: Client, keystone: Keystone
) -> None:
    rule = {"id": "r", "service": "baremetal", "method": "GET", "path": "/v1/nodes"}
    catalog = [{"type": "baremetal", "name": "ironic", "id": "b", "endpoints": []}]
    keystone.tokens["t"] = token(
        "reader",
        project="p1",
        catalog=catalog,
        application_credential={"id": "a", "access_rules": [rule]},
    )
    assert guarded.get("/v1/nodes", headers=with_token("t")).status == 200
    assert guarded.get("/v1/ports", headers=with_token("t")).status == 401


def test_keystone_without_credentials_of_the_service_stops_the_start(conf: Any) -> None:
    conf.set_override("auth_strategy", "keystone")
    with pytest.raises(errors.IncorrectConfiguration, match=r"\[keystone_authtoken\]auth_type"):
        app.build(services_over(conf, DirectTransport()))


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("auth_type", "nonsense", "nonsense"),
        ("memcache_security_strategy", "ENCRYPT", "memcache_secret_key"),
    ],
)
def test_options_of_keystone_that_can_not_work_stop_the_start(
    option: str, value: str, named: str, conf: Any, keystone: Keystone, services: Services
) -> None:
    app.build(services)
    conf.set_override(option, value, keystones.GROUP)
    with pytest.raises(errors.IncorrectConfiguration, match=named):
        app.build(services)


def test_memcached_without_its_library_stops_the_start(
    conf: Any, keystone: Keystone, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.build(services)
    conf.set_override("memcached_servers", ["192.0.2.1:11211"], keystones.GROUP)
    app.build(services)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(errors.IncorrectConfiguration, match=r"ironic-rs\[memcached\]"):
        app.build(services)


class Events:
    """Audit events, as the notifier gets them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def info(self, message: str, values: dict[str, Any]) -> None:
        self.seen.append((values["event_type"], values["payload"]))


@pytest.fixture
def audit_map(conf: Any, tmp_path: Path) -> Path:
    path = tmp_path / "map.conf"
    sample = Path(__file__).resolve().parents[3] / "etc" / "ironic" / "api_audit_map.conf.sample"
    path.write_text(sample.read_text())
    conf.set_override("enabled", True, group="audit")
    conf.set_override("audit_map_file", str(path), group="audit")
    conf.set_override("use_oslo_messaging", False, group=AUDIT)
    return path


def events_of(client: Client, monkeypatch: pytest.MonkeyPatch) -> Events:
    from keystonemiddleware import audit

    events = Events()
    monkeypatch.setattr(audit._LOG, "info", events.info)
    return events


def test_each_request_is_audited_with_its_caller(
    conf: Any,
    audit_map: Path,
    keystone: Keystone,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(app.build(services))
    events = events_of(client, monkeypatch)
    keystone.tokens["t-e-s-t-token"] = token("reader", system=True)
    assert client.get("/v1/nodes", headers=with_token("t-e-s-t-token")).status == 200
    assert client.get("/v1/chassis/x", headers=with_token("t-e-s-t-token")).status == 400
    assert [kind for kind, _ in events.seen] == ["audit.http.request", "audit.http.response"] * 2
    _, listed = events.seen[1]
    assert listed["action"] == "read/list"
    assert listed["initiator"]["id"] == "user-id"
    assert listed["outcome"] == "success"
    assert listed["requestPath"] == "/v1/nodes"
    assert events.seen[3][1]["outcome"] == "failure"
    assert "t-e-s-t-token" not in json.dumps(events.seen)


def test_what_gets_no_further_than_authentication_is_not_audited(
    audit_map: Path, keystone: Keystone, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(app.build(services))
    events = events_of(client, monkeypatch)
    assert client.get("/v1/nodes").status == 401
    assert events.seen == []


def test_audit_leaves_out_the_methods_of_the_list(
    conf: Any, audit_map: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.set_override("ignore_req_list", "GET, delete", group="audit")
    client = Client(app.build(services))
    events = events_of(client, monkeypatch)
    client.get("/v1/nodes")
    client.delete("/v1/nodes/x")
    assert events.seen == []
    client.post("/v1/nodes", {})
    assert events.seen


def test_audit_does_not_believe_names_that_nobody_checked(
    audit_map: Path, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(app.build(services))
    events = events_of(client, monkeypatch)
    client.get("/v1/nodes", headers={"X-User-Id": "forged", "X-Project-Id": "forged"})
    assert "forged" not in json.dumps(events.seen)


def test_audit_sends_events_over_oslo_messaging_by_default(
    conf: Any, audit_map: Path, services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    group = AUDIT
    conf.clear_override("use_oslo_messaging", group=group)
    conf.set_override("driver", "log", group=group)
    client = Client(app.build(services))
    with caplog.at_level("INFO"):
        assert client.get("/v1/nodes").status == 200
    kinds = [r.name for r in caplog.records if r.name.startswith("oslo.messaging.notification.")]
    assert kinds == [f"oslo.messaging.notification.audit.http.{k}" for k in ("request", "response")]


@pytest.mark.parametrize("content", [None, "[custom_actions\nx"])
def test_an_audit_map_that_can_not_be_used_stops_the_start(
    content: str | None, audit_map: Path, services: Services
) -> None:
    if content is None:
        audit_map.unlink()
    else:
        audit_map.write_text(content)
    with pytest.raises(errors.IncorrectConfiguration, match=str(audit_map)):
        app.build(services)
