"""The served description of the API, and that nothing can be answered beside it."""

from __future__ import annotations

import json
from typing import Any

import openapi_spec_validator
import pytest

from ironic_rs.api import app, openapi
from ironic_rs.api.microversions import MAXIMUM
from ironic_rs.api.routes import ROUTES
from tests.functional.api import described
from tests.functional.api.harness import Client

VERSIONS = ("1.1", "1.61", "1.115")
PATH = "/v1/openapi.json"


def described_nodes(client: Client) -> set[str]:
    answer = client.get(PATH)
    assert answer.status == 200
    return set(answer.body["components"]["schemas"]["Node"]["properties"])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_description_is_valid_openapi(version: str, lonely: Client) -> None:
    answer = lonely.at(version).get(PATH)
    openapi_spec_validator.validate(answer.body)
    assert answer.body["openapi"].startswith("3.1.")
    assert answer.body["info"]["version"] == version


def test_it_describes_the_version_of_the_request(lonely: Client) -> None:
    assert "name" not in described_nodes(lonely.at(None))
    assert "name" not in described_nodes(lonely.at("1.4"))
    assert "name" in described_nodes(lonely.at("1.5"))
    paths = lonely.at("1.27").get(PATH).body["paths"]
    assert "/v1/nodes/{node}/vifs" not in paths
    assert "/v1/nodes/{node}/vifs" in lonely.at("1.28").get(PATH).body["paths"]


def test_an_argument_asks_for_another_version(lonely: Client) -> None:
    client = lonely.at(None)
    assert client.get(f"{PATH}?version=1.61").body["info"]["version"] == "1.61"
    assert client.get(f"{PATH}?version=latest").body["info"]["version"] == f"1.{MAXIMUM}"
    assert client.get(f"{PATH}?version=1.999").status == 406
    assert client.get(f"{PATH}?version=x").status == 400


def test_arguments_and_values_of_later_versions_are_not_in_it(lonely: Client) -> None:
    def arguments(version: str) -> set[str]:
        operation = lonely.at(version).get(PATH).body["paths"]["/v1/nodes"]["get"]
        return {parameter["name"] for parameter in operation["parameters"]}

    def targets(version: str) -> list[str]:
        paths = lonely.at(version).get(PATH).body["paths"]
        body = paths["/v1/nodes/{node}/states/provision"]["put"]["requestBody"]
        schema = body["content"]["application/json"]["schema"]
        return list(schema["properties"]["target"]["enum"])

    assert "fields" not in arguments("1.7")
    assert "fields" in arguments("1.8")
    assert "inspect" not in targets("1.5")
    assert "inspect" in targets("1.6")


def test_it_names_the_server_that_was_asked(lonely: Client, conf: Any) -> None:
    assert lonely.get(PATH).body["servers"] == [{"url": "http://localhost"}]
    conf.set_override("public_endpoint", "https://api.example/baremetal", group="api")
    assert lonely.get(PATH).body["servers"] == [{"url": "https://api.example/baremetal"}]


def test_it_is_public(services: Any, conf: Any, tmp_path: Any) -> None:
    users = tmp_path / "users"
    users.write_text("")
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(users))
    client = Client(app.build(services))
    assert client.get("/v1/nodes").status == 401
    document = client.get(PATH).body
    assert document["components"]["securitySchemes"] == {
        "http_basic": {"type": "http", "scheme": "basic"}
    }
    assert document["paths"]["/v1/nodes"]["get"]["security"] == [{"http_basic": []}]
    assert document["paths"]["/v1"]["get"]["security"] == []


def test_a_schema_of_the_operator_takes_the_place_of_ours(
    lonely: Client, conf: Any, tmp_path: Any
) -> None:
    def network_data() -> Any:
        return lonely.get(PATH).body["components"]["schemas"]["NetworkData"]

    assert network_data() != {"type": "object"}
    conf.set_override("network_data_schema", str(tmp_path / "own.json"), group="api")
    assert network_data() == {"type": "object"}


def test_every_operation_of_the_version_is_in_it(lonely: Client) -> None:
    for version in VERSIONS:
        paths = lonely.at(version).get(PATH).body["paths"]
        minor = int(version.partition(".")[2])
        for route in openapi.described(ROUTES, minor):
            verb = "get" if route.method == "*" else route.method.lower()
            assert paths[route.path][verb]["x-policy"] == list(route.policy)


def test_operations_have_names_of_their_own(lonely: Client) -> None:
    names = [
        item[verb]["operationId"]
        for item in lonely.get(PATH).body["paths"].values()
        for verb in item
        if verb != "parameters"
    ]
    assert len(names) == len(set(names))


def test_defaults_of_arguments_fit_them(lonely: Client) -> None:
    checked = 0
    for version in VERSIONS:
        for item in lonely.at(version).get(PATH).body["paths"].values():
            for verb in item.keys() - {"parameters"}:
                for parameter in item[verb]["parameters"]:
                    schema = parameter["schema"]
                    if "default" in schema:
                        described.DRAFT(schema).validate(schema["default"])
                        checked += 1
    assert checked


class Fixed:
    """An application that always answers the same."""

    def __init__(self, status: str, body: Any, **headers: str) -> None:
        self.status = status
        self.body = json.dumps(body).encode()
        self.headers = [("Content-Type", "application/json")]
        self.headers += [(name.replace("_", "-"), value) for name, value in headers.items()]

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(self.status, self.headers)
        return [self.body]


GOOD = {
    "X_OpenStack_Ironic_API_Version": "1.115",
    "X_OpenStack_Ironic_API_Minimum_Version": "1.1",
    "X_OpenStack_Ironic_API_Maximum_Version": "1.115",
    "X_OpenStack_Request_Id": "req-1",
}
FAULT = {"faultcode": "Client", "faultstring": "t", "debuginfo": None, "errorcode": "c"}


def answer_of(path: str, status: str, body: Any, **headers: str) -> int:
    return Client(Fixed(status, body, **headers)).get(path).status


def test_what_is_described_passes(conf: Any) -> None:
    assert answer_of("/v1/nodes", "200 OK", {"nodes": []}, **GOOD) == 200
    error = {"error_message": json.dumps(FAULT)}
    assert answer_of("/v1/nodes", "404 Not Found", error, X_OpenStack_Request_Id="r") == 404


@pytest.mark.parametrize(
    ("path", "status", "body", "text"),
    [
        ("/v1/nodes", "200 OK", {"nodes": [], "extra": 1}, "Additional properties"),
        ("/v1/nodes", "200 OK", {"nodes": [{"links": [], "colour": 1}]}, "'colour' was"),
        ("/v1/nodes", "200 OK", {"nodes": [{}]}, "'links' is a required property"),
        ("/v1/nodes/detail", "200 OK", {"nodes": [{"links": []}]}, "is a required property"),
        ("/v1/nodes", "200 OK", {"nodes": [{"links": [], "uuid": 5}]}, "not of type 'string'"),
        ("/v1/nodes", "200 OK", {"nodes": [{"links": [], "uuid": "x"}]}, "not a 'uuid'"),
        ("/v1/nodes", "202 Accepted", {}, "status 202"),
        ("/v1/nodes", "418 I'm a teapot", {}, "status 418"),
        ("/v1/nothing", "200 OK", {}, "no operation"),
        ("/v1/nodes", "404 Not Found", {"error_message": "{}"}, "form RoutingError"),
        (
            "/v1/nodes",
            "404 Not Found",
            {"error_message": json.dumps({"code": 400, "title": "", "description": ""})},
            "form RoutingError: 'errorcode'",
        ),
    ],
)
def test_what_is_not_described_is_an_error(
    path: str, status: str, body: Any, text: str, conf: Any
) -> None:
    with pytest.raises(described.Undescribed, match=text):
        answer_of(path, status, body, **GOOD)


def test_headers_count(conf: Any) -> None:
    with pytest.raises(described.Undescribed, match="no header X-OpenStack-Ironic-API-Version"):
        answer_of("/v1/nodes", "200 OK", {"nodes": []})
    wrong = {**GOOD, "X_OpenStack_Ironic_API_Version": "1.1"}
    with pytest.raises(described.Undescribed, match="API-Version is 1"):
        answer_of("/v1/nodes", "200 OK", {"nodes": []}, **wrong)
