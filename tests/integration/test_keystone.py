"""Who gets in and who may do what, with tokens of a real Keystone and real clients."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import openstack
import pytest
import requests

from tests.harness.cluster import BIN, VERSION, Cluster, running
from tests.harness.identity import PASSWORD, Identity, shared_identity
from tests.harness.networking import NETWORK, Networking
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(300)

MAC = "52:54:00:00:0c:01"
#: Who may do what with a node that O owns and L rents (specification rest-api.md 13.2).
EVERYBODY = (
    *("system-admin", "system-member", "system-reader"),
    *("O-admin", "O-manager", "O-member", "O-reader", "O-service"),
    *("L-admin", "L-manager", "L-member", "L-reader"),
    *("T-admin", "T-member", "nova"),
)
STRANGERS = ("T-admin", "T-member", "nova")


@pytest.fixture(scope="module")
def keystone() -> Identity:
    return shared_identity()


@pytest.fixture(scope="module")
def networking() -> Iterator[Networking]:
    with Networking().running() as service:
        yield service


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, keystone: Identity, networking: Networking
) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("service")
    options = keystone.options()
    options["DEFAULT"] |= {"enabled_network_interfaces": "noop,flat"}
    options["neutron"] |= {"cleaning_network": NETWORK}
    database = f"sqlite:///{folder}/ironic.sqlite"
    with running(Cluster(folder, database, "fake://", options)) as cluster:
        keystone.offer("baremetal", cluster.url)
        keystone.offer("network", networking.url)
        cluster.http.headers["X-Auth-Token"] = keystone.token("system-admin")
        cluster.migrate()
        cluster.start_all_in_one()
        yield cluster


class User:
    """Somebody with a token."""

    def __init__(self, url: str, token: str | None, **headers: str) -> None:
        self._url = url
        self.token = token
        self._http = requests.Session()
        self._http.headers.update({"X-OpenStack-Ironic-API-Version": VERSION, **headers})
        if token is not None:
            self._http.headers["X-Auth-Token"] = token

    def __call__(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self._http.request(method, self._url + path, json=body, timeout=60)


@pytest.fixture(scope="module")
def users(service: Cluster, keystone: Identity) -> dict[str, User]:
    return {name: User(service.url, keystone.token(name)) for name in EVERYBODY}


@pytest.fixture(scope="module")
def node(service: Cluster, keystone: Identity) -> Iterator[str]:
    """The node that O owns and L rents."""
    body = {
        "owner": keystone.projects["O"],
        "lessee": keystone.projects["L"],
        "driver_info": {"address": "192.0.2.9", "password": "tiger"},
    }
    uuid = service.create(**body)["uuid"]
    yield uuid
    service.send("DELETE", f"/v1/nodes/{uuid}", expect=204)


# Who gets in


def assert_unauthorized(answer: requests.Response, keystone: Identity) -> None:
    assert answer.status_code == 401
    assert answer.json() == {
        "error": {
            "code": 401,
            "title": "Unauthorized",
            "message": "The request you have made requires authentication.",
        }
    }
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 200),
        ("GET", "/v1", None, 200),
        ("GET", f"/v1/lookup?addresses={MAC}", None, 404),
        ("POST", "/v1/heartbeat/3dbf4ca2-98ba-42ff-a8bb-f3f1b8c5b5f5", {}, 400),
        ("POST", "/v1/continue_inspection", {}, 400),
    ],
)
def test_public_routes_ask_for_no_token(
    service: Cluster, method: str, path: str, body: Any, status: int
) -> None:
    assert User(service.url, None)(method, path, body).status_code == status


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/drivers", "/v1/nosuch", "/v2"])
@pytest.mark.parametrize("token", [None, "", "wrong", "gAAAAAB" + "x" * 200])
def test_everything_else_needs_a_good_one(
    service: Cluster, keystone: Identity, path: str, token: str | None
) -> None:
    assert_unauthorized(User(service.url, token)("GET", path), keystone)


def test_a_revoked_token_is_refused(service: Cluster, keystone: Identity) -> None:
    token = keystone.token("system-admin")
    keystone.revoke(token)
    assert_unauthorized(User(service.url, token)("GET", "/v1/nodes"), keystone)


def test_an_expired_token_is_refused_unless_a_service_vouches_for_it(
    service: Cluster, keystone: Identity, node: str
) -> None:
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)
    token = keystone.short_token("O-reader", ends)
    user = User(service.url, token)
    assert user("GET", f"/v1/nodes/{node}").status_code == 200
    wait_until(lambda: not keystone.is_valid(token), "the token is expired", interval=0.2)
    assert_unauthorized(user("GET", f"/v1/nodes/{node}"), keystone)

    vouched = User(service.url, token, **{"X-Service-Token": keystone.token("nova")})
    assert vouched("GET", f"/v1/nodes/{node}").status_code == 200
    # It speaks for the user, and has no rights to add.
    assert vouched("PATCH", f"/v1/nodes/{node}", patch("/extra/a", 1)).status_code == 403

    in_vain = User(service.url, token, **{"X-Service-Token": keystone.token("T-member")})
    assert_unauthorized(in_vain("GET", f"/v1/nodes/{node}"), keystone)


def test_a_bad_service_token_is_refused(service: Cluster, users: Mapping[str, User]) -> None:
    user = User(service.url, users["O-reader"].token, **{"X-Service-Token": "wrong"})
    assert user("GET", "/v1/nodes").status_code == 401


def test_headers_do_not_make_an_administrator(service: Cluster, users: Mapping[str, User]) -> None:
    forged = {"X-Roles": "admin", "OpenStack-System-Scope": "all", "X-Is-Admin-Project": "True"}
    user = User(service.url, users["T-member"].token, **forged)
    assert user("GET", "/v1/nodes").json() == {"nodes": []}
    assert User(service.url, None, **forged)("GET", "/v1/nodes").status_code == 401


# Who may do what


def patch(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


SYSTEM = {"system-admin": 200, "system-member": 200, "system-reader": 403}


def row(**different: int) -> dict[str, int]:
    """Return the status by user: those of the row, 404 to strangers, else 403."""
    given = {name.replace("_", "-"): status for name, status in different.items()}
    return dict.fromkeys(EVERYBODY, 403) | SYSTEM | dict.fromkeys(STRANGERS, 404) | given


OF_OWNER = {"O_admin": 200, "O_manager": 200, "O_member": 200}


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        (
            "GET",
            "",
            None,
            dict.fromkeys(EVERYBODY, 200) | dict.fromkeys(STRANGERS, 404),
        ),
        (
            "GET",
            "/history",
            None,
            row(**OF_OWNER, system_reader=200, O_reader=200, O_service=200),
        ),
        ("GET", "/validate", None, row(**OF_OWNER, O_service=200, L_admin=200, L_manager=200)),
        (
            "PATCH",
            "",
            patch("/extra/a", 1),
            row(**OF_OWNER, L_admin=200, L_manager=200, L_member=200),
        ),
        ("PATCH", "", patch("/driver_info/a", 1), row(**OF_OWNER, O_service=200)),
        ("PATCH", "", patch("/chassis_uuid", None), row(system_member=403)),
        ("PUT", "/maintenance", {"reason": "r"}, None),
    ],
)
def test_users_may_do_what_their_role_allows(
    users: Mapping[str, User],
    node: str,
    method: str,
    path: str,
    body: Any,
    expected: dict[str, int] | None,
) -> None:
    if expected is None:
        allowed = ("O-admin", "O-manager", "O-member", "O-service", "L-admin", "L-manager")
        expected = row() | dict.fromkeys(("system-admin", "system-member", *allowed), 202)
    found = {
        name: user(method, f"/v1/nodes/{node}{path}", body).status_code
        for name, user in users.items()
    }
    assert found == expected


def test_lists_hold_what_the_caller_may_see(
    service: Cluster, users: Mapping[str, User], node: str
) -> None:
    other = service.create()["uuid"]
    seen = {
        name: {row["uuid"] for row in user("GET", "/v1/nodes").json()["nodes"]}
        for name, user in users.items()
    }
    service.send("DELETE", f"/v1/nodes/{other}", expect=204)
    own = {name for name in EVERYBODY if name[:2] in ("O-", "L-")}
    assert seen == {
        name: {node, other} if name.startswith("system") else {node} if name in own else set()
        for name in EVERYBODY
    }


def test_secrets_are_for_nobody_and_the_bmc_is_not_for_lessees(
    users: Mapping[str, User], node: str
) -> None:
    found = {
        name: users[name]("GET", f"/v1/nodes/{node}").json()["driver_info"]
        for name in ("system-admin", "O-reader", "L-admin")
    }
    assert found["O-reader"]["address"] == "192.0.2.9"
    assert found["O-reader"]["password"] == found["system-admin"]["password"] == "******"
    assert "192.0.2.9" not in str(found["L-admin"])
    assert "** Redacted" in str(found["L-admin"])


@pytest.mark.parametrize("path", ["/v1/chassis", "/v1/drivers", "/v1/conductors"])
def test_the_machine_room_is_for_system_users(users: Mapping[str, User], path: str) -> None:
    found = {name: user("GET", path).status_code for name, user in users.items()}
    assert found == {name: 200 if name.startswith("system") else 403 for name in EVERYBODY}


def test_an_administrator_of_a_project_creates_nodes_of_the_project(
    users: Mapping[str, User], keystone: Identity
) -> None:
    body = {"driver": "fake-hardware"}
    assert users["O-member"]("POST", "/v1/nodes", body).status_code == 403
    made = users["O-admin"]("POST", "/v1/nodes", body)
    assert made.status_code == 201, made.text
    assert made.json()["owner"] == keystone.projects["O"]
    foreign = users["O-admin"]("POST", "/v1/nodes", body | {"owner": keystone.projects["T"]})
    assert foreign.status_code == 400
    path = f"/v1/nodes/{made.json()['uuid']}"
    assert users["L-admin"]("DELETE", path).status_code == 404
    assert users["O-admin"]("DELETE", path).status_code == 204


# Clients


def test_openstacksdk_logs_in_as_a_user_of_the_system_and_of_a_project(
    service: Cluster, keystone: Identity, node: str
) -> None:
    def nodes(name: str) -> list[str]:
        auth = keystone.account(name).auth(keystone.url)
        cloud = openstack.connect(
            auth_type="password", auth=auth, load_yaml_config=False, load_envvars=False
        )
        return [found.id for found in cloud.baremetal.nodes()]

    assert nodes("system-admin") == nodes("O-member") == [node]
    assert nodes("T-member") == []


@pytest.fixture
def baremetal(service: Cluster, keystone: Identity) -> Callable[..., Any]:
    """The ``baremetal`` command with a user's credentials in the environment."""

    def run(name: str, *args: str) -> Any:
        auth = keystone.account(name).auth(keystone.url)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
        env = {f"OS_{key.upper()}": value for key, value in auth.items()}
        done = subprocess.run(
            [str(BIN / "baremetal"), *args],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            env={**kept, **env, "OS_IDENTITY_API_VERSION": "3"},
        )
        assert PASSWORD not in done.stderr
        return done.stderr if done.returncode else json.loads(done.stdout)

    return run


def test_the_command_line_client_logs_in(baremetal: Callable[..., Any], node: str) -> None:
    shown = baremetal("system-admin", "node", "show", node, "-f", "json")
    assert shown["uuid"] == node
    assert "could not be found" in baremetal("T-member", "node", "show", node)
    assert "403" in baremetal("O-reader", "node", "set", node, "--extra", "a=1")


# The Networking service


def test_a_vif_is_read_as_the_user_and_bound_as_the_service(
    service: Cluster,
    users: Mapping[str, User],
    keystone: Identity,
    networking: Networking,
) -> None:
    owner = keystone.projects["O"]
    uuid = service.create(owner=owner, network_interface="flat")["uuid"]
    service.send("POST", "/v1/ports", {"node_uuid": uuid, "address": MAC}, 201)
    vif = networking.add("ports", network_id=NETWORK)["id"]
    path = f"/v1/nodes/{uuid}/vifs"
    networking.requests.clear()

    answer = users["O-member"]("POST", path, {"id": vif})
    assert answer.status_code == 204, answer.text
    tokens = {
        f"{method} {target.partition('?')[0]}": (
            headers.get("X-Auth-Token"),
            headers.get("X-Service-Token"),
        )
        for method, target, _, headers in networking.requests
    }
    ours = tokens["GET /v2.0/networks"][0]
    assert keystone.is_valid(ours)
    assert tokens[f"GET /v2.0/ports/{vif}"] == (users["O-member"].token, ours)
    assert tokens[f"PUT /v2.0/ports/{vif}"] == (ours, None)
    assert networking.ports[vif]["binding:host_id"] == uuid

    assert users["O-reader"]("GET", path).json() == {"vifs": [{"id": vif}]}
    assert users["O-reader"]("DELETE", f"{path}/{vif}").status_code == 403
    assert users["O-member"]("DELETE", f"{path}/{vif}").status_code == 204
    service.send("DELETE", f"/v1/nodes/{uuid}", expect=204)
