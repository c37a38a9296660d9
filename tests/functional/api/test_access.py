"""Authentication, health check, proxies, errors, options of the API."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from ironic_rs.api import app, middleware
from ironic_rs.api.call import Services
from ironic_rs.conductor.service import Conductor
from ironic_rs.domain import errors
from tests.functional.api.harness import Client


@pytest.fixture
def passwords(conf: Any, tmp_path: Path) -> Path:
    """A user file with the user ``admin``, password ``secret``."""
    path = tmp_path / "htpasswd"
    path.write_text(f"other:x\nadmin:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    path.write_text(path.read_text().split("\n", 1)[1])
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(path))
    return path


def basic(user: str, password: str) -> dict[str, str]:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


@pytest.fixture
def guarded(passwords: Path, services: Services) -> Client:
    return Client(app.build(services))


def test_without_credentials_401_says_how(guarded: Client) -> None:
    answer = guarded.get("/v1/nodes")
    assert answer.status == 401
    assert answer.body["error"]["code"] == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="Baremetal API"'
    assert answer.headers["openstack-request-id"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (basic("admin", "secret"), 200),
        (basic("admin", "wrong"), 401),
        (basic("admin", ""), 401),
        (basic("nobody", "secret"), 401),
        (basic("", "secret"), 401),
        (basic("admin", "s" * 200), 401),
        ({"Authorization": "Basic ???"}, 400),
        ({"Authorization": "Basic"}, 400),
        ({"Authorization": "Bearer x"}, 400),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:x").decode()}, 400),
    ],
)
def test_credentials(guarded: Client, headers: dict[str, str], status: int) -> None:
    assert guarded.get("/v1/nodes", headers=headers).status == status
    # The second time, from memory.
    assert guarded.get("/v1/nodes", headers=headers).status == status


def test_a_changed_password_counts_at_once(guarded: Client, passwords: Path) -> None:
    assert guarded.get("/v1/nodes", headers=basic("admin", "secret")).status == 200
    new = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
    passwords.write_text(f"admin:{new}\n")
    assert guarded.get("/v1/nodes", headers=basic("admin", "secret")).status == 401
    assert guarded.get("/v1/nodes", headers=basic("admin", "other")).status == 200


@pytest.mark.parametrize(
    ("path", "public"),
    [
        ("/", True),
        ("/v1", True),
        ("/v1/", True),
        ("/v1/lookup", True),
        ("/v1/lookup/", True),
        ("/v1/heartbeat/abc-1", True),
        ("/v1/continue_inspection", True),
        ("/lookup", False),
        ("/v1/heartbeat/Abc", False),
        ("/v1/heartbeat/a/../../nodes", False),
        ("/v1/nodes", False),
        ("/v1/lookupx", False),
        ("/v1/lookup\n", False),
    ],
)
def test_public_routes(path: str, public: bool) -> None:
    assert middleware.is_public(path) is public


def test_public_routes_need_no_credentials(guarded: Client) -> None:
    assert guarded.get("/").status == 200
    assert guarded.get("/v1").status == 200
    assert guarded.get("/v1/lookup").status == 400
    assert guarded.post("/v1/continue_inspection", {}).status == 400


def test_a_client_can_not_name_himself(conf: Any, services: Services) -> None:
    seen = {}

    def inner(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [])
        return [b""]

    middleware.authentication(inner, conf)(
        {"PATH_INFO": "/v1/nodes", "REQUEST_METHOD": "GET", "HTTP_X_USER": "root"}, lambda *_: None
    )
    assert "HTTP_X_USER" not in seen


@pytest.mark.parametrize("content", ["admin:{SHA}x\n", None])
def test_a_bad_user_file_stops_the_start(
    conf: Any, services: Services, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "users"
    if content is not None:
        path.write_text(content)
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(path))
    with pytest.raises(errors.IncorrectConfiguration, match="http_basic_auth_user_file"):
        app.build(services)


def test_health_check_is_off_by_default(lonely: Client) -> None:
    assert lonely.get("/healthcheck").status == 404


def test_health_check_answers_its_path_only(
    passwords: Path, conf: Any, services: Services, conductor: Conductor
) -> None:
    conf.set_override("enabled", True, group="healthcheck")
    client = Client(app.build(services))
    assert client.get("/healthcheck").status == 200
    assert client.get("/healthcheck/").status == 200
    assert client.get("/healthcheck").headers["x-openstack-request-id"]
    assert client.get("/healthcheckx").status == 401
    assert client.get("/v1/nodes", headers=basic("admin", "secret")).body == {"nodes": []}


def test_links_come_from_the_request(lonely: Client) -> None:
    body = lonely.get("/", headers={"Host": "api.example.com:99"}).body
    assert body["versions"][0]["links"][0]["href"] == "http://api.example.com:99/v1/"


def test_links_come_from_the_public_endpoint(conf: Any, lonely: Client) -> None:
    conf.set_override("public_endpoint", "https://public.example.com/baremetal/", group="api")
    href = lonely.get("/").body["versions"][0]["links"][0]["href"]
    assert href == "https://public.example.com/baremetal/v1/"


PROXY = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "front.example.com",
    "X-Forwarded-Prefix": "/baremetal",
}


def test_proxies_are_not_believed_by_default(lonely: Client) -> None:
    href = lonely.get("/", headers=PROXY).body["versions"][0]["links"][0]["href"]
    assert href == "http://localhost/v1/"


def test_proxies_are_believed_by_option(conf: Any, services: Services, lonely: Client) -> None:
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    client = Client(app.build(services))
    href = client.get("/", headers=PROXY).body["versions"][0]["links"][0]["href"]
    assert href == "https://front.example.com/baremetal/v1/"


def test_cors_is_answered_by_option(conf: Any, services: Services, lonely: Client) -> None:
    conf.set_override("allowed_origin", ["https://ui.example.com"], group="cors")
    client = Client(app.build(services))
    answer = client.get("/", headers={"Origin": "https://ui.example.com"})
    assert answer.headers["Access-Control-Allow-Origin"] == "https://ui.example.com"
    preflight = client.request(
        "OPTIONS",
        "/v1/nodes",
        headers={
            "Origin": "https://ui.example.com",
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": "X-Auth-Token",
        },
    )
    assert preflight.status == 200
    assert preflight.headers["Access-Control-Allow-Methods"] == "PATCH"


def test_pages_of_another_origin_may_use_conditions_and_see_codes(
    conf: Any, services: Services, lonely: Client
) -> None:
    origin = "https://ui.example.com"
    conf.set_override("allowed_origin", [origin], group="cors")
    client = Client(app.build(services))
    for header in ("If-Match", "If-None-Match", "OpenStack-API-Version", "X-Auth-Token"):
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": header,
        }
        preflight = client.request("OPTIONS", "/v1/nodes/x", headers=asked)
        assert header.lower() in preflight.headers["Access-Control-Allow-Headers"].lower()
    answer = client.get("/v1/nodes/nosuch", headers={"Origin": origin})
    assert answer.status == 404
    exposed = answer.headers["Access-Control-Expose-Headers"].lower()
    for header in (
        "etag",
        "retry-after",
        "x-openstack-ironic-error-code",
        "x-openstack-request-id",
        "x-openstack-ironic-api-version",
    ):
        assert header in exposed
    other = client.get("/v1/nodes", headers={"Origin": "https://evil.example.com"})
    assert "Access-Control-Allow-Origin" not in other.headers


def test_links_behind_a_proxy_lead_back_on_every_object(
    conf: Any, services: Services, api: Client
) -> None:
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    client = Client(app.build(services))
    created = client.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}, headers=PROXY)
    base = "https://front.example.com/baremetal/v1/"
    assert created.headers["Location"].startswith(f"{base}nodes/")
    assert created.body["links"][0]["href"].startswith(f"{base}nodes/")
    client.post("/v1/nodes", {"driver": "fake-hardware", "name": "n2"})
    assert client.get("/v1/nodes?limit=1", headers=PROXY).body["next"].startswith(base)


@pytest.mark.parametrize(
    ("given", "kept"),
    [("req-00000000-0000-4000-8000-000000000000", True), ("req-junk\nforged", False), ("x", False)],
)
def test_the_global_request_id_goes_to_the_conductor(
    api: Client, conductor: Conductor, monkeypatch: pytest.MonkeyPatch, given: str, kept: bool
) -> None:
    seen: list[Any] = []
    dispatch = conductor.registry.dispatch

    def watch(name: str, context: Any, arguments: Any) -> Any:
        seen.append(context)
        return dispatch(name, context, arguments)

    monkeypatch.setattr(conductor.registry, "dispatch", watch)
    body = {"driver": "fake-hardware"}
    headers = {"X-OpenStack-Request-ID": given.replace("\n", " ")}
    answer = api.post("/v1/nodes", body, headers=headers)
    assert answer.status == 201
    assert seen[0].request_id == answer.headers["x-openstack-request-id"]
    assert seen[0].global_request_id == (given if kept else None)


def test_global_request_ids_are_kept_apart(lonely: Client) -> None:
    given = "req-00000000-0000-4000-8000-000000000000"
    answer = lonely.get("/", headers={"X-OpenStack-Request-ID": given})
    assert answer.headers["x-openstack-request-id"] != given
    assert answer.headers["x-openstack-request-id"] == answer.headers["openstack-request-id"]


def test_each_request_is_one_line_of_the_log(
    lonely: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ironic_rs.api.requests"):
        lonely.get("/v1/nodes?limit=1%0aforged", headers={"X-Forwarded-For": "192.0.2.7, x"})
    (record,) = [r for r in caplog.records if r.name == "ironic_rs.api.requests"]
    assert record.getMessage().startswith("192.0.2.7 - GET /v1/nodes?limit=1%0aforged - 400 (")


def test_secrets_of_the_query_are_not_logged(
    lonely: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ironic_rs.api.requests"):
        lonely.put("/v1/nodes/n1/states/provision?target=rescue&rescue_password=canary")
    assert "canary" not in caplog.text
    assert "PUT /v1/nodes/n1/states/provision" in caplog.text


def test_ramdisk_endpoints_can_be_closed(conf: Any, api: Client) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, group="api")
    assert api.get("/v1/lookup?addresses=x").status == 403
    heartbeat = {"callback_url": "", "agent_token": "x"}
    assert api.post("/v1/heartbeat/n1", heartbeat).status == 403
    assert api.post("/v1/continue_inspection", {}).status == 403


def test_a_pin_lowers_the_maximum(conf: Any, lonely: Client) -> None:
    conf.set_override("pin_release_version", "2025.2")
    assert lonely.get("/").status == 406
    answer = lonely.at("latest").get("/v1")
    assert answer.headers["X-OpenStack-Ironic-API-Version"] == "1.101"
    assert answer.body["version"]["version"] == "1.101"


def test_a_pin_that_is_too_old_stops_the_start(conf: Any, services: Services) -> None:
    conf.set_override("pin_release_version", "9.2")
    with pytest.raises(errors.IncorrectConfiguration, match=r"9\.2"):
        app.build(services)


def test_unexpected_errors_tell_no_secrets(
    api: Client, conf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ironic_rs.db import conductors

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(conductors, "interfaces", fail)
    answer = api.get("/v1/drivers")
    assert answer.status == 500
    assert answer.fault["faultcode"] == "Server"
    assert answer.fault["debuginfo"] is None
    assert "canary" not in answer.raw.decode()
    assert answer.headers["x-openstack-request-id"] in answer.text
    conf.set_override("debug_tracebacks_in_api", True)
    assert "RuntimeError" in api.get("/v1/drivers").fault["debuginfo"]


def test_disallowed_boot_modes_are_not_enrolled(conf: Any, api: Client) -> None:
    conf.set_override("disallowed_enrollment_boot_modes", ["bios"], group="api")
    bad = {"driver": "fake-hardware", "properties": {"capabilities": "boot_mode:bios,a:b"}}
    assert api.post("/v1/nodes", bad).fault["errorcode"] == "boot_mode_not_allowed"
    good = {"driver": "fake-hardware", "name": "n1", "properties": {"capabilities": "a:b"}}
    assert api.post("/v1/nodes", good).status == 201
    patch = [{"op": "add", "path": "/properties/capabilities", "value": "boot_mode:bios"}]
    assert api.patch("/v1/nodes/n1", patch).status == 400


def test_defaults_of_new_nodes(conf: Any, api: Client) -> None:
    conf.set_override("default_resource_class", "std")
    assert api.post("/v1/nodes", {"driver": "fake-hardware"}).body["resource_class"] == "std"


def test_a_discovered_machine_is_enrolled(conf: Any, api: Client) -> None:
    conf.set_override("enabled", True, group="auto_discovery")
    conf.set_override("driver", "fake-hardware", group="auto_discovery")
    body = {"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:07"}]}}
    answer = api.at(None).post("/v1/continue_inspection", body)
    assert answer.status == 202
    assert api.get(f"/v1/nodes/{answer.body['uuid']}").body["driver"] == "fake-hardware"


def test_big_integers_of_the_database_are_shown(api: Client) -> None:
    from ironic_rs.db import nodes

    nodes.create({"driver": "fake-hardware", "name": "n1", "extra": {"big": 10**30}})
    assert json.loads(api.get("/v1/nodes/n1").raw)["extra"]["big"] == 10**30
