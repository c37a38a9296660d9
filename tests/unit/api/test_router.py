"""The route table and how requests find their row."""

from __future__ import annotations

import inspect
import re

import pytest

from ironic_rs.api import routes
from ironic_rs.api.documents import ARGUMENTS, PATH_ARGUMENTS, Document, Refused
from ironic_rs.api.errors import RouterError
from ironic_rs.api.microversions import MAXIMUM
from ironic_rs.api.router import ANY_METHOD, Route, Router
from ironic_rs.domain import errors

ROUTER = Router(routes.ROUTES)


def find(method: str, path: str, minor: int = MAXIMUM):
    return ROUTER.find(method, path, minor)


def test_literal_elements_win_over_parameters():
    assert find("GET", "/v1/nodes/detail")[0].path == "/v1/nodes/detail"
    route, arguments = find("GET", "/v1/nodes/n1")
    assert route.path == "/v1/nodes/{node}"
    assert arguments == {"node": "n1"}


@pytest.mark.parametrize("path", ["/v1/nodes/n1", "/nodes/n1", "/v1/nodes/n1/", "//v1/nodes/n1"])
def test_prefix_and_slashes_do_not_matter(path):
    assert find("GET", path)[0].path == "/v1/nodes/{node}"


@pytest.mark.parametrize(
    "path", ["/v2", "/v1/x", "/v1/nodes/n1/x", "/v1/nodes//n1", "/v1/nodes/ports"]
)
def test_unknown_paths_are_404(path):
    with pytest.raises(RouterError) as caught:
        find("GET", path)
    assert caught.value.status == 404


def test_wrong_methods_are_405_and_tell_the_right_ones():
    with pytest.raises(RouterError) as caught:
        find("PUT", "/v1/nodes")
    assert caught.value.status == 405
    assert caught.value.allow == ["GET", "POST"]


def test_head_is_for_the_two_documents_only():
    assert find("HEAD", "/v1")[0].path == "/v1"
    assert find("HEAD", "/")[0].path == "/"
    with pytest.raises(RouterError):
        find("HEAD", "/v1/lookup")


@pytest.mark.parametrize("ident", ["a b", "ü", "a,b", "x" * 256])
def test_malformed_idents_are_400_while_routing(ident):
    for path in (f"/v1/nodes/{ident}", f"/v1/portgroups/{ident}"):
        with pytest.raises(RouterError, match="Expected UUID or name") as caught:
            find("GET", path)
        assert caught.value.status == 400


@pytest.mark.parametrize(
    ("method", "path", "minor", "status"),
    [
        ("GET", "/v1/nodes/n/traits", 36, 406),
        ("PUT", "/v1/nodes/n/traits", 36, 405),
        ("DELETE", "/v1/nodes/n/traits", 36, 404),
        ("PUT", "/v1/nodes/n/states/raid", 11, 406),
        ("GET", "/v1/conductors", 48, 404),
    ],
)
def test_what_a_version_does_not_have(method, path, minor, status):
    with pytest.raises((RouterError, errors.IronicError)) as caught:
        find(method, path, minor)
    assert getattr(caught.value, "status", None) or caught.value.code == status
    assert find(method, path, minor + 1)


def test_no_route_is_in_the_table_twice():
    route = Route("GET", "/v1/x", lambda call: None)
    with pytest.raises(ValueError, match="twice"):
        Router([route, route])


def test_a_parameter_has_one_name():
    rows = [Route("GET", p, lambda call: None) for p in ("/v1/{a}", "/v1/{b}/c")]
    with pytest.raises(ValueError, match="another name"):
        Router(rows)


@pytest.mark.parametrize("route", routes.ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_each_row_is_complete(route):
    assert route.method in {"GET", "POST", "PUT", "PATCH", "DELETE", ANY_METHOD}
    assert route.below in (404, 405, 406)
    assert isinstance(route.body, Document | None) or route.body == ARGUMENTS, (
        "say which document the body is: api/documents.py"
    )
    if route.success in (200, 201) and not isinstance(route.body, Refused):
        assert isinstance(route.answer, Document), "say which document is answered"
    if not isinstance(route.body, Refused):
        assert set(re.findall(r"{(\w+)}", route.path)) <= set(PATH_ARGUMENTS)
    names = [arg.name for arg in route.args]
    assert len(names) == len(set(names))
    assert all(rule.startswith("baremetal:") for rule in route.policy)
    doc = inspect.getdoc(route.handler)
    assert doc, route.handler


def test_only_these_need_no_authentication():
    assert {r.path for r in routes.ROUTES if r.public} == {
        "/",
        "/v1",
        "/v1/openapi.json",
        "/v1/lookup",
        "/v1/heartbeat/{node}",
        "/v1/continue_inspection",
    }
