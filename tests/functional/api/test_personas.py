"""Every operation for everybody: 401, 403 and 404 as the policy says, never 406 or 500.

The operations are those of the route table, the personas and what they pass those of
tests/harness/personas.py; field case K14/98.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.api import app
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.api.v1 import node_update, provision
from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api import test_policy
from tests.functional.api.conftest import conducted, configured, services_over
from tests.functional.api.harness import Answer, Client
from tests.harness import keystone as keystones
from tests.harness.personas import ANONYMOUS, LESSEE, OWNER, PASSES, TOKENS, headers

PERSONAS = (ANONYMOUS, *TOKENS)
#: A part of the path names an object that is hidden from whoever fails the rule.
HIDDEN_BY = {
    "{node}": "baremetal:node:get",
    "{port}": "baremetal:node:get",
    "{portgroup}": "baremetal:node:get",
    "{connector}": "baremetal:node:get",
    "{target}": "baremetal:node:get",
    "{allocation}": "baremetal:allocation:get",
}
#: There the node of the path is not looked at.
NOT_HIDDEN = ("/v1/nodes/{node}/volume",)
#: There a node that is not visible is a mistake in the request.
MISTAKEN = ("/v1/nodes/{node}/allocation",)
#: Rules that the bodies of the tests need, where that depends on the body.
BY_BODY = {
    "update_node": ("baremetal:node:update_extra",),
    "update_runbook": ("baremetal:runbook:update",),
    "create_allocation": ("baremetal:allocation:create",),
}
#: What decides about a part of the answer only.
OF_ANSWERS = {"baremetal:volume:view_target_properties"}
#: Rules about the owner of a node, where no node is asked about.
WITHOUT_NODE = {"show_volume", "show_node_volume"}
NOT_FOUND = ("node_not_found", "port_not_found", "portgroup_not_found", "allocation_not_found")


class World:
    """One of each thing, owned and leased, behind tokens of Keystone.

    :ivar client: of an application that checks tokens.
    """

    def __init__(self, client: Client, conductor: Any, path: Path) -> None:
        self.client = client
        self._conductor = conductor
        self._path = path
        self._kept = path.with_suffix(".kept")
        session.dispose()
        shutil.copy(path, self._kept)

    def restore(self) -> None:
        """Take back what requests have changed."""
        assert self._conductor.workers.wait(30)
        session.dispose()
        shutil.copy(self._kept, self._path)

    def call(self, route: Route, persona: str) -> Answer:
        """Send a good request of a persona."""
        client = Client(self.client.app, headers=headers(persona))
        answer: Answer = test_policy.call(client, route)
        if route.method != "GET" and answer.status < 300:
            self.restore()
        return answer


def give(owner: str, lessee: str) -> None:
    """Make everything that has one an owner's, and lock the node elsewhere.

    What only answers that the node is locked has passed the policy.
    """
    with session.writer() as connection:
        connection.execute(
            sa.update(table(models.Node)).values(
                owner=owner, lessee=lessee, reservation="another-host"
            )
        )
        for model in (models.Runbook, models.Allocation):
            connection.execute(sa.update(table(model)).values(owner=owner))


@pytest.fixture(scope="module")
def world(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("personas")
    transport = DirectTransport()
    with (
        configured(empty_database, folder) as conf,
        conducted(transport) as conductor,
        keystones.running() as keystone,
    ):
        test_policy.fill(Client(app.build(services_over(conf, transport))))
        give(OWNER, LESSEE)
        with keystones.configured(conf, keystone):
            keystone.tokens.update(TOKENS)
            client = Client(app.build(services_over(conf, transport)))
            yield World(client, conductor, folder / "api.sqlite")


def passes(route: Route, persona: str) -> bool:
    """Tell whether a persona passes the rules of the route."""
    name = route.handler.__name__
    rules = [rule for rule in BY_BODY.get(name, route.policy) if rule not in OF_ANSWERS]
    if name in WITHOUT_NODE and not persona.startswith("S"):
        return False
    passed = [persona in PASSES[rule] for rule in rules]
    alternatives = rules and rules[-1].endswith((":list", ":self_owned_node"))
    return any(passed) if alternatives else all(passed)


def expected(route: Route, persona: str) -> int | None:
    """Return the status of a refusal, None for whoever may."""
    if persona == ANONYMOUS:
        return 401
    if route.path not in NOT_HIDDEN:
        hidden = [rule for part, rule in HIDDEN_BY.items() if part in route.path]
        if route.path == "/v1/nodes/validate":
            hidden = ["baremetal:node:get"]
        if any(persona not in PASSES[rule] for rule in hidden):
            return 400 if route.path in MISTAKEN else 404
    return None if passes(route, persona) else 403


@pytest.mark.parametrize("route", test_policy.enforced())
def test_who_gets_what(route: Route, world: World) -> None:
    wrong = {}
    for persona in PERSONAS:
        answer = world.call(route, persona)
        wanted = expected(route, persona)
        if wanted is None:
            code = answer.headers.get("X-OpenStack-Ironic-Error-Code")
            good = answer.status < 500 and answer.status not in (401, 403, 406)
            good = good and code not in NOT_FOUND
        else:
            good = answer.status == wanted
        if not good:
            wrong[persona] = (wanted, answer.status, answer.raw[:200])
    assert wrong == {}


#: Rule of a patch by what it changes (rest-api.md section 8.4), with a good value.
PATCHES: Mapping[str, tuple[str, Any]] = {
    "automated_clean": ("disable_cleaning", False),
    "automated_clean ": ("update", True),
    "bios_interface": ("update:driver_interfaces", "no-bios"),
    "boot_interface": ("update:driver_interfaces", "fake"),
    "chassis_uuid": ("update:chassis_uuid", test_policy.UUID),
    "conductor_group": ("update:conductor_group", ""),
    "console_interface": ("update:driver_interfaces", "no-console"),
    "deploy_interface": ("update:driver_interfaces", "fake"),
    "description": ("update", "x"),
    "disable_power_off": ("update:disable_power_off", True),
    "driver": ("update:driver_interfaces", "fake-hardware"),
    "driver_info": ("update:driver_info", {"a": 1}),
    "extra": ("update_extra", {"a": 1}),
    "firmware_interface": ("update:driver_interfaces", "no-firmware"),
    "inspect_interface": ("update:driver_interfaces", "no-inspect"),
    "instance_info": ("update_instance_info", {"a": 1}),
    "instance_name": ("update_instance_info", "x"),
    "instance_uuid": ("update:instance_uuid", test_policy.UUID),
    "lessee": ("update:lessee", "x"),
    "maintenance": ("update", True),
    "management_interface": ("update:driver_interfaces", "fake"),
    "name": ("update:name", "other"),
    "network_data": ("update:network_data", {}),
    "network_interface": ("update:driver_interfaces", "noop"),
    "owner": ("update:owner", "x"),
    "parent_node": ("update:parent_node", None),
    "power_interface": ("update:driver_interfaces", "fake"),
    "properties": ("update:properties", {"a": 1}),
    "protected": ("update", False),
    "protected_reason": ("update", None),
    "raid_interface": ("update:driver_interfaces", "no-raid"),
    "rescue_interface": ("update:driver_interfaces", "no-rescue"),
    "resource_class": ("update", "x"),
    "retired": ("update:retired", False),
    "retired_reason": ("update:retired", None),
    "shard": ("update:shard", "s"),
    "storage_interface": ("update:driver_interfaces", "noop"),
    "vendor_interface": ("update:driver_interfaces", "no-vendor"),
}
NODE = f"/v1/nodes/{test_policy.UUID}"


def refusal(*rules: str, persona: str, hidden: str = "node:get") -> int | None:
    """Return the status of a refusal by rules (without ``baremetal:``), None without one."""
    if persona == ANONYMOUS:
        return 401
    if persona not in PASSES[f"baremetal:{hidden}"]:
        return 404
    return None if all(persona in PASSES[f"baremetal:{rule}"] for rule in rules) else 403


def agrees(answer: Answer, wanted: int | None) -> bool:
    """Tell whether an answer is the refusal, or none."""
    if wanted is not None:
        return answer.status == wanted
    return answer.status < 500 and answer.status not in (401, 403, 404, 406)


def test_every_field_that_can_be_patched_is_in_the_table() -> None:
    assert {name.strip() for name in PATCHES} == set(node_update.PATCHABLE)


@pytest.mark.parametrize("name", PATCHES)
def test_who_may_patch_what(name: str, world: World) -> None:
    rule, value = PATCHES[name]
    operation = {"op": "replace", "path": f"/{name.strip()}", "value": value}
    for persona in PERSONAS:
        answer = world.client.patch(NODE, [operation], headers=headers(persona))
        assert agrees(answer, refusal(f"node:{rule}", persona=persona)), (persona, answer.raw)


def test_a_patch_of_several_fields_needs_all_of_their_rules(world: World) -> None:
    operations = [
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "add", "path": "/driver_info/a", "value": 1},
        {"op": "add", "path": "/instance_info/a", "value": 1},
    ]
    rules = ("node:update_extra", "node:update:driver_info", "node:update_instance_info")
    for persona in PERSONAS:
        answer = world.client.patch(NODE, operations, headers=headers(persona))
        assert agrees(answer, refusal(*rules, persona=persona)), (persona, answer.raw)


@pytest.mark.parametrize("value", [0, "no", "OFF", "f", "n", "False", False])
def test_switching_cleaning_off_is_seen_in_every_spelling(value: Any, world: World) -> None:
    operation = {"op": "add", "path": "/automated_clean", "value": value}
    assert world.client.patch(NODE, [operation], headers=headers("OA")).status == 403


SET_STATE = "node:set_provision_state"
STEPS = [{"interface": "raid", "step": "delete_configuration"}]


@pytest.mark.parametrize("verb", sorted(provision._ACTIONS))
@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ({}, ()),
        ({"runbook": test_policy.UUID}, ()),
        ({"clean_steps": STEPS}, (f"{SET_STATE}:clean_steps",)),
        ({"service_steps": STEPS}, (f"{SET_STATE}:service_steps",)),
        ({"deploy_steps": [{**STEPS[0], "args": {}, "priority": 1}]}, ()),
        ({"rescue_password": "x"}, ()),
        ({"configdrive": {}}, ()),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_who_may_provision(
    verb: str, more: dict[str, Any], rules: tuple[str, ...], world: World
) -> None:
    path = f"{NODE}/states/provision"
    for persona in PERSONAS:
        answer = world.client.put(path, {"target": verb, **more}, headers=headers(persona))
        if "runbook" in more and verb == "manage":
            # The one verb here that the state of the node allows.
            rules = ("runbook:use",)
        wanted = refusal(SET_STATE, *rules, persona=persona)
        assert agrees(answer, wanted), (persona, answer.raw)


@pytest.mark.parametrize(
    "route", [r for r in ROUTES if r.public], ids=lambda r: f"{r.method} {r.path}"
)
def test_public_operations_are_for_everybody(route: Route, world: World) -> None:
    for persona in PERSONAS:
        answer = world.call(route, persona)
        assert answer.status not in (401, 403, 406), persona
        assert answer.status < 500, persona


def test_every_operation_is_tested() -> None:
    tested = [param.values[0] for param in test_policy.enforced()]
    rest = [route for route in ROUTES if not any(route is other for other in tested)]
    assert all(r.public or r.handler.__name__ == "refuse_below_node" for r in rest)
