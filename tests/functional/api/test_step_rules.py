"""Rules about single steps, where an operator has written some (rest-api.md 9.3 to 9.5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.db import nodes
from tests.functional.api.conftest import services_over
from tests.functional.api.harness import Client
from tests.harness import keystone as keystones
from tests.harness.personas import OWNER, TOKENS, headers

ERASE = {"interface": "deploy", "step": "erase_devices"}
OTHER = {"interface": "deploy", "step": "other"}
RULE = '"baremetal:step:execute:deploy.erase_devices": "role:admin"\n'


@pytest.fixture
def services(conf: Any, transport: Any, tmp_path: Path) -> Iterator[Services]:
    (tmp_path / "policy.yaml").write_text(RULE)
    with keystones.running() as keystone, keystones.configured(conf, keystone):
        services_over(conf, transport)
        conf.set_override("policy_file", str(tmp_path / "policy.yaml"), group="oslo_policy")
        keystone.tokens.update(TOKENS)
        yield services_over(conf, transport)


@pytest.fixture
def client(services: Services, conductor: Any) -> Client:
    # What passes the policy finds the node locked.
    nodes.create(
        {
            "driver": "fake-hardware",
            "name": "n1",
            "owner": OWNER,
            "provision_state": "manageable",
            "reservation": "another-host",
        }
    )
    nodes.set_traits(1, ["CUSTOM_A"])
    return Client(app.build(services))


def provision(client: Client, persona: str, **body: Any) -> int:
    path = "/v1/nodes/n1/states/provision"
    return client.put(path, body, headers=headers(persona)).status


@pytest.mark.parametrize(("persona", "erasing"), [("OA", 409), ("OG", 403), ("OM", 403)])
def test_a_rule_restricts_its_step_in_requests(persona: str, erasing: int, client: Client) -> None:
    assert provision(client, persona, target="clean", clean_steps=[OTHER]) == 409
    assert provision(client, persona, target="clean", clean_steps=[OTHER, ERASE]) == erasing


@pytest.mark.parametrize("kind", ["service_steps", "deploy_steps"])
def test_it_does_so_for_every_kind_of_steps(kind: str, client: Client) -> None:
    verb = "service" if kind == "service_steps" else "active"
    step = {**ERASE, "args": {}, "priority": 1} if verb == "active" else ERASE
    assert provision(client, "OM", target=verb, **{kind: [step]}) == 403
    # The node is not in the state for it.
    assert provision(client, "OA", target=verb, **{kind: [step]}) == 409


def runbook(client: Client, persona: str, **more: Any) -> int:
    steps = [{**ERASE, "args": {}, "order": 1}]
    body = {"name": "erase", "steps": steps, **more}
    return client.post("/v1/runbooks", body, headers=headers(persona)).status


def test_it_does_so_in_runbooks_that_projects_write(client: Client) -> None:
    assert runbook(client, "OG") == 403
    assert runbook(client, "OA") == 201
    harmless = [{**OTHER, "args": {}, "order": 1}]
    assert runbook(client, "OG", name="harmless", steps=harmless) == 201
    patch = [{"op": "replace", "path": "/steps/0/step", "value": ERASE["step"]}]
    path = "/v1/runbooks/harmless"
    assert client.patch(path, patch, headers=headers("OG")).status == 403
    assert client.patch(path, patch, headers=headers("OA")).status == 200


def test_a_runbook_of_a_project_is_used_by_whoever_may_do_its_steps(client: Client) -> None:
    assert runbook(client, "OA") == 201
    traits = {"traits": ["CUSTOM_A"]}
    put = client.put("/v1/runbooks/erase/traits", traits, headers=headers("OA"))
    assert put.status == 204
    assert provision(client, "OG", target="clean", runbook="erase") == 403
    assert provision(client, "OA", target="clean", runbook="erase") == 409


def test_a_runbook_of_the_system_is_approved(client: Client) -> None:
    assert runbook(client, "SA") == 201
    traits = {"traits": ["CUSTOM_A"]}
    put = client.put("/v1/runbooks/erase/traits", traits, headers=headers("SA"))
    assert put.status == 204
    # Managers may use those of their project alone; services may use all.
    assert provision(client, "OG", target="clean", runbook="erase") == 403
    assert provision(client, "OS", target="clean", runbook="erase") == 409
