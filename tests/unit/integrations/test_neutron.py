"""The client of the Networking service: credentials, repetitions, odd answers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from keystoneauth1 import loading

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.integrations import keystone, neutron
from ironic_rs.rpc.context import RequestContext, admin_context
from tests.harness.networking import NETWORK, Networking


@pytest.fixture
def options(monkeypatch):
    """Configure ``[neutron]``; pauses between repetitions are written down, not made."""
    CONF([], default_config_files=[], default_config_dirs=[])
    of_plugin = loading.get_auth_plugin_conf_options("v3password")
    CONF.register_opts(of_plugin, "neutron")
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    overridden = []

    def override(**values):
        for name, value in values.items():
            CONF.set_override(name, value, "neutron")
            overridden.append(name)

    override.pauses = pauses
    yield override
    for name in overridden:
        CONF.clear_override(name, "neutron")
    # Some are required: other tests could not read a configuration without them.
    CONF.reset()
    CONF.unregister_opts(of_plugin, "neutron")
    keystone.adapter.cache_clear()


@pytest.fixture
def networking():
    with Networking().running() as service:
        yield service


@pytest.fixture
def open_service(options, networking):
    options(auth_type="none", endpoint_override=networking.url)
    return networking


class Identity:
    """As much of Keystone as a service needs to log in."""

    def __init__(self, catalog_url):
        self.status = 201
        identity = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(200, {})

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                endpoint = {"interface": "internal", "url": catalog_url, "region_id": "R"}
                kind = "network" if catalog_url else "image"
                catalog = [{"type": kind, "name": "n", "endpoints": [endpoint]}]
                token = {
                    "expires_at": "2999-01-01T00:00:00.000000Z",
                    "issued_at": "2020-01-01T00:00:00.000000Z",
                    "methods": ["password"],
                    "user": {"id": "u", "name": "ironic", "domain": {"id": "d", "name": "D"}},
                    "catalog": catalog,
                }
                self.answer(identity.status, {"token": token})

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("X-Subject-Token", "ours")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v3"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()


def log_in(options, identity):
    options(
        auth_type="v3password",
        auth_url=identity.url,
        username="ironic",
        password="secret",
        project_name="service",
        user_domain_name="Default",
        project_domain_name="Default",
    )


def token_of(networking):
    headers = networking.requests[-1][3]
    return headers.get("X-Auth-Token"), headers.get("X-Service-Token")


# Credentials


@pytest.mark.parametrize("suffix", ["", "/", "/v2.0", "/v2.0/"])
def test_the_endpoint_may_come_with_and_without_the_version(options, networking, suffix):
    options(auth_type="none", endpoint_override=networking.url + suffix)
    assert neutron.network(NETWORK)["id"] == NETWORK
    assert token_of(networking) == ("notused", None)


def test_the_catalog_tells_the_endpoint(options, networking):
    with Identity(networking.url) as identity:
        log_in(options, identity)
        assert neutron.network(NETWORK)["id"] == NETWORK
        assert token_of(networking) == ("ours", None)


@pytest.fixture
def port_id(networking):
    return networking.add("ports", network_id=NETWORK)["id"]


def test_a_user_of_a_project_is_asked_for_with_the_own_token(options, networking, port_id):
    context = RequestContext(auth_token="theirs", project_id="p")
    with Identity(networking.url) as identity:
        log_in(options, identity)
        assert neutron.port_for(context, port_id)["id"] == port_id
    assert token_of(networking) == ("theirs", "ours")


@pytest.mark.parametrize(
    "context",
    [admin_context(), RequestContext(auth_token="theirs", system_scope="all")],
    ids=["no token", "system scope"],
)
def test_the_service_may_see_everything(options, networking, port_id, context):
    with Identity(networking.url) as identity:
        log_in(options, identity)
        assert neutron.port_for(context, port_id)["id"] == port_id
    assert token_of(networking) == ("ours", None)


def test_without_authentication_no_token_is_handed_on(open_service, port_id):
    context = RequestContext(auth_token="theirs", project_id="p")
    assert neutron.port_for(context, port_id)["id"] == port_id
    assert token_of(open_service) == ("notused", None)


@pytest.mark.parametrize("call", ["port", "port_for"])
def test_refused_credentials_are_told(options, networking, call):
    with Identity(networking.url) as identity:
        identity.status = 401
        log_in(options, identity)
        arguments = (RequestContext(auth_token="t"), "p") if call == "port_for" else ("p",)
        with pytest.raises(errors.NetworkError, match=r"401.*Check the credentials .* \[neutron\]"):
            getattr(neutron, call)(*arguments)


@pytest.mark.parametrize(
    "values", [{}, {"auth_type": "none"}, {"auth_type": "v3password"}, {"auth_type": "bogus"}]
)
def test_missing_options_are_told(options, values):
    options(**values)
    with pytest.raises(errors.NetworkError, match=r"GET /ports/p failed: .* \[neutron\]"):
        neutron.port("p")


def test_a_catalog_without_the_service_is_told(options):
    with Identity(None) as identity:
        log_in(options, identity)
        with pytest.raises(errors.NetworkError, match=r"not found. Check .* \[neutron\]"):
            neutron.port("p")


# Repetitions


def test_a_failed_connection_is_tried_again_with_growing_pauses(options):
    options(auth_type="none", endpoint_override="http://127.0.0.1:9")
    with pytest.raises(errors.NetworkError, match="Unable to establish connection"):
        neutron.port("p")
    assert options.pauses == [0.5, 1.0, 2.0]


def test_what_makes_something_is_sent_once(options):
    options(auth_type="none", endpoint_override="http://127.0.0.1:9")
    with pytest.raises(errors.NetworkError, match="Unable to establish connection"):
        neutron.create_port({})
    assert options.pauses == []


def test_a_time_out_is_not_tried_again(options, open_service):
    options(request_timeout=1)
    open_service.fail("GET", "/v2.0/ports/p", None)
    with pytest.raises(errors.NetworkError, match="no answer within 1 s"):
        neutron.port("p")
    assert len(open_service.requests) == 1


def test_statuses_are_tried_again_when_the_operator_says_so(options, open_service, port_id):
    options(status_code_retries=2, status_code_retry_delay=0)
    open_service.fail("GET", f"/v2.0/ports/{port_id}", 503, times=2)
    assert neutron.port(port_id)["id"] == port_id


# Answers


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"port": []}', b'{"ports": {}}', b"\xff", b"null"]
)
def test_an_answer_of_something_else_is_an_error(open_service, monkeypatch, body):
    monkeypatch.setattr(open_service, "_answer", lambda *args: (200, None))
    monkeypatch.setattr("tests.harness.networking.EMPTY", body)
    with pytest.raises(errors.NetworkError, match=r"GET /v2.0/ports/p failed: .*answer"):
        neutron.port("p")


@pytest.mark.parametrize("length", [10, 5000])
def test_what_the_service_says_is_told_in_part(open_service, length):
    open_service.fail("GET", "/v2.0/ports/p", 500, message="x" * length)
    with pytest.raises(errors.NetworkError, match=r"HTTP 500: x+$") as caught:
        neutron.port("p")
    assert len(str(caught.value)) < 600


def test_a_secret_in_an_answer_is_masked(open_service):
    open_service.fail("GET", "/v2.0/ports/p", 500, message="'adminPass': 'tiger'")
    with pytest.raises(errors.NetworkError) as caught:
        neutron.port("p")
    assert "tiger" not in str(caught.value)


def test_many_identifiers_are_asked_for_in_parts(open_service):
    wanted = [open_service.add("subnets")["id"] for _ in range(60)]
    assert sorted(subnet["id"] for subnet in neutron.subnets(wanted)) == sorted(wanted)
    assert len(open_service.requests) == 2


def test_nothing_is_asked_for_nothing(open_service):
    assert neutron.security_groups([]) == []
    assert open_service.requests == []


def test_what_does_not_exist_is_no_error(open_service):
    assert neutron.port("p") is None
    assert neutron.network("n") is None
    assert neutron.update_port("p", {}) is None
    neutron.delete_port("p")


def test_an_identifier_can_not_leave_its_place(open_service):
    assert neutron.port("../networks/" + NETWORK) is None
    assert open_service.asked() == [f"GET /v2.0/ports/..%2Fnetworks%2F{NETWORK}"]
