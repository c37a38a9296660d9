"""Names that look like file types, or like IPv6 addresses (field case K01, 12)."""

from __future__ import annotations

import pytest

from ironic_rs.db import conductors
from tests.functional.api.harness import Client

VERSIONS = ("1.10", "1.50", "1.90", "1.91", "1.115")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_exact_name_wins(api: Client, version: str) -> None:
    for name in ("a", "a.json", "x.json", "x.xml", "y.html"):
        assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": name}).status == 201
    client = api.at(version)
    for name in ("a", "a.json", "x.json", "x.xml", "y.html"):
        assert client.get(f"/v1/nodes/{name}").body["name"] == name
    for name in ("x", "y"):
        assert client.get(f"/v1/nodes/{name}").status == 404


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_goes_to_the_exact_name(api: Client, version: str) -> None:
    for name in ("a", "a.json"):
        assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": name}).status == 201
    client = api.at(version)
    patch = [{"op": "add", "path": "/extra/k", "value": 1}]
    assert client.patch("/v1/nodes/a.json", patch).body["name"] == "a.json"
    assert api.get("/v1/nodes/a").body["extra"] == {}
    assert client.delete("/v1/nodes/a.json").status == 204
    assert api.get("/v1/nodes/a").status == 200


def test_a_write_that_fails_does_not_go_to_another_object(api: Client) -> None:
    for name in ("a", "a.json"):
        assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": name}).status == 201
    answer = api.at("1.50").delete("/v1/nodes/a.json/traits/CUSTOM_NOSUCH")
    assert answer.status == 404
    assert api.get("/v1/nodes/a").status == 200


@pytest.mark.parametrize("name", ["[2001:db8::1]:8090", "[::1]:1", "host.json", "10.0.0.1:8089"])
def test_conductors_are_found_by_addresses(api: Client, name: str) -> None:
    conductors.register(name, ["fake-hardware"], "")
    quoted = name.replace("[", "%5B").replace("]", "%5D").replace(":", "%3A")
    for path in (name, quoted):
        answer = api.get(f"/v1/conductors/{path}")
        assert (answer.status, answer.body.get("hostname")) == (200, name), answer.body
    # The link leads back.
    link = answer.body["links"][0]["href"].partition("/v1/")[2]
    assert api.get(f"/v1/{link}").body["hostname"] == name
