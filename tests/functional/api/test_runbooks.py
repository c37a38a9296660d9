"""Whose runbooks are whose (rest-api.md sections 11.9, 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ironic_rs.api.call import Call, Reply, Services
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import runbooks
from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext
from tests.functional.api.harness import Client
from tests.functional.api.test_policy import Rules

STEPS = [{"interface": "bios", "step": "a", "args": {}, "order": 1}]
BODY = {"name": "r", "steps": STEPS}
ALL = ("list_all", "list", "get", "create", "update", "update:owner", "update:public", "delete")


class Callers:
    """Calls handlers for callers of projects, under rules that a test decides."""

    def __init__(self, services: Services, rules: Rules) -> None:
        self.services = services
        self.rules = rules
        services.enforcer = rules

    def allow(self, *names: str) -> None:
        self.rules.everything = False
        self.rules.allowed = {f"baremetal:runbook:{name}" for name in names}

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        project: str | None = "p1",
        system: bool = False,
        query: Mapping[str, Any] | None = None,
        **parts: str,
    ) -> Any:
        route = next(r for r in ROUTES if (r.method, r.path) == (method, f"/v1/runbooks{path}"))
        context = RequestContext(
            project_id=None if system else project,
            system_scope="all" if system else None,
            overwrite=False,
        )
        call = Call(
            services=self.services,
            route=route,
            path=parts,
            query=query or {},
            body={} if body is None else body,
            minor=115,
            context=context,
            base="",
        )
        answer = route.handler(call)
        return answer.body if isinstance(answer, Reply) and answer.body else answer


@pytest.fixture
def callers(services: Services, lonely: Client) -> Callers:
    made = Callers(services, Rules())
    made.allow(*ALL)
    made.rules.allowed.add("baremetal:step:execute:bios.a")
    return made


def test_a_runbook_of_a_project_belongs_to_it(callers: Callers) -> None:
    assert callers("POST", "", BODY)["owner"] == "p1"
    assert callers("POST", "", {**BODY, "name": "s", "owner": "p1"})["owner"] == "p1"
    for more in ({"owner": "p2"}, {"public": True}):
        with pytest.raises(errors.InvalidParameterValue):
            callers("POST", "", {**BODY, "name": "t", **more})


def test_the_system_makes_runbooks_for_anybody(callers: Callers) -> None:
    made = callers("POST", "", {**BODY, "owner": "p2"}, system=True)
    assert made["owner"] == "p2"
    assert callers("POST", "", {**BODY, "name": "s", "public": True}, system=True)["public"] is True


def test_projects_list_their_own_and_public_ones(callers: Callers) -> None:
    for name, more in (("mine", {"owner": "p1"}), ("other", {"owner": "p2"}), ("all", {})):
        runbooks.create({**BODY, "name": name, "public": name == "all", **more})

    def names(**kwargs: Any) -> list[str]:
        return [row["name"] for row in callers("GET", "", **kwargs)["runbooks"]]

    assert names() == ["mine", "other", "all"]
    assert names(query={"project": "p2"}) == ["other", "all"]
    callers.allow("list")
    assert names() == ["mine", "all"]
    assert names(query={"project": "p1"}) == ["mine", "all"]
    with pytest.raises(errors.OperationNotPermitted):
        names(query={"project": "p2"})
    with pytest.raises(errors.HTTPForbidden):
        names(project=None)


def test_a_public_runbook_may_be_read_but_not_its_traits(callers: Callers) -> None:
    runbooks.create({**BODY, "public": True})
    runbooks.create({**BODY, "name": "private"})
    callers.allow()
    assert callers("GET", "/{runbook}", runbook="r")["name"] == "r"
    for path, name in (("/{runbook}", "private"), ("/{runbook}/traits", "r")):
        with pytest.raises(errors.HTTPForbidden):
            callers("GET", path, runbook=name)


@pytest.mark.parametrize(
    ("patch", "rules"),
    [
        ([], {"update"}),
        ([{"op": "add", "path": "/extra/a", "value": 1}], {"update"}),
        ([{"op": "add", "path": "/owner", "value": "p2"}], {"update:owner"}),
        ([{"op": "remove", "path": "/public"}], {"update:public"}),
        (
            [
                {"op": "remove", "path": "/public"},
                {"op": "add", "path": "/owner", "value": "p2"},
                {"op": "add", "path": "/name", "value": "s"},
            ],
            {"update", "update:owner", "update:public"},
        ),
    ],
)
def test_rules_of_a_patch_by_path(
    callers: Callers, patch: list[dict[str, Any]], rules: set[str]
) -> None:
    runbooks.create({**BODY, "owner": "p1"})
    callers.allow(*rules)
    callers.rules.asked.clear()
    callers("PATCH", "/{runbook}", patch, runbook="r")
    asked = {rule.removeprefix("baremetal:runbook:") for rule, _ in callers.rules.asked}
    assert asked == rules
    assert all(target["runbook.owner"] == "p1" for _, target in callers.rules.asked)
    for missing in rules:
        callers.allow(*(rules - {missing}))
        with pytest.raises(errors.HTTPForbidden):
            callers("PATCH", "/{runbook}", patch, runbook=runbooks.select(["uuid"])[0]["uuid"])


def test_who_may_not_run_a_step_can_not_write_it_into_a_runbook(callers: Callers) -> None:
    callers.allow(*ALL)
    with pytest.raises(errors.HTTPForbidden, match=r"baremetal:step:execute:bios\.a"):
        callers("POST", "", BODY)
    runbooks.create(BODY)
    step = {"interface": "raid", "step": "b", "order": 2}
    patch = [{"op": "add", "path": "/steps/-", "value": step}]
    with pytest.raises(errors.HTTPForbidden, match=r"baremetal:step:execute:"):
        callers("PATCH", "/{runbook}", patch, runbook="r")
    callers("PATCH", "/{runbook}", [{"op": "add", "path": "/extra/a", "value": 1}], runbook="r")


def test_fifty_traits_are_enough(api: Client) -> None:
    assert api.post("/v1/runbooks", BODY).status == 201
    fifty = [f"CUSTOM_{n}" for n in range(50)]
    assert api.put("/v1/runbooks/r/traits", {"traits": [*fifty, "CUSTOM_X"]}).status == 400
    assert api.put("/v1/runbooks/r/traits", {"traits": fifty}).status == 204
    answer = api.put("/v1/runbooks/r/traits/CUSTOM_X")
    assert (answer.status, "50 traits" in answer.text) == (400, True)
    assert api.put("/v1/runbooks/r/traits/CUSTOM_1").status == 204
    assert api.get("/v1/runbooks/r/traits").body["traits"] == sorted(fifty)
