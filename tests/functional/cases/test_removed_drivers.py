"""Nodes whose driver is gone from this release or configuration (field-cases.md K17/112)."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.api.routes import ROUTES
from ironic_rs.domain import states
from tests.functional.defects.site import Site, steps


@pytest.fixture
def old(site: Site) -> str:
    """A node of a hardware type that was removed, as its last release left it."""
    return site.node(
        states.ACTIVE,
        driver="ilo",
        power_interface="ilo",
        management_interface="ilo",
        deploy_interface="direct",
        driver_info={"ilo_address": "192.0.2.9"},
        name="old",
    )


#: Reads below a node that need something else than the node itself.
ELSEWHERE = {"allocation", "inventory", "{setting}", "{uuid}", "{indicator}", "{ident}"}


def test_112_all_that_is_stored_can_be_read(site: Site, old: str) -> None:
    for path in (
        "/v1/nodes",
        "/v1/nodes/detail",
        "/v1/nodes?driver=ilo",
        "/v1/nodes?fields=driver",
    ):
        answer = site.api.get(path)
        assert answer.status == 200
        assert len(answer.body["nodes"]) == 1
    node = site.shown(old)
    assert (node["driver"], node["power_interface"], node["conductor"]) == ("ilo", "ilo", None)
    asked = 0
    for route in ROUTES:
        last = route.path.rsplit("/", 1)[1]
        if route.method != "GET" or "{node}" not in route.path or last in ELSEWHERE:
            continue
        if "{method}" in route.path:
            continue
        status = site.api.get(route.path.format(node="old")).status
        # What only a BMC knows is not known; nothing is the fault of the server.
        assert status == 200 or 400 <= status < 500, (route.path, status)
        asked += 1
    assert asked > 20
    for path in ("ports", "portgroups", "traits", "history", "bios", "firmware", "states"):
        assert site.api.get(f"/v1/nodes/old/{path}").status == 200, path


def operations() -> list[tuple[str, str, Any]]:
    verbs = ("deleted", "rebuild", "rescue", "service", "manage", "abort")
    return [
        ("PUT", "states/power", {"target": "power off"}),
        *(("PUT", "states/provision", {"target": verb}) for verb in verbs),
        ("PUT", "states/provision", {"target": "service", "service_steps": steps("raid.a")}),
        ("PUT", "management/boot_device", {"boot_device": "pxe"}),
        ("PUT", "states/boot_mode", {"target": "uefi"}),
        ("PUT", "management/inject_nmi", {}),
        ("POST", "vifs", {"id": "0f5bd2f0-0000-4000-8000-000000000001"}),
        ("PATCH", "", [{"op": "add", "path": "/extra/a", "value": 1}]),
        ("DELETE", "", None),
    ]


def test_112_operations_are_refused_and_name_the_driver(site: Site, old: str) -> None:
    before = site.stored(old)
    for method, path, body in operations():
        answer = site.api.request(method, f"/v1/nodes/old/{path}".rstrip("/"), body)
        assert 400 <= answer.status < 500, (method, path, body, answer.status, answer.body)
        if path == "states/power":
            assert "ilo" in answer.text
    after = site.stored(old)
    assert (after.provision_state, after.reservation) == (before.provision_state, None)


def test_112_the_periodic_tasks_leave_them_alone(site: Site, old: str) -> None:
    site.tick_all()
    site.settle()
    node = site.shown(old)
    assert (node["provision_state"], node["maintenance"], node["reservation"]) == (
        states.ACTIVE,
        False,
        None,
    )
