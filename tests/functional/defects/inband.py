"""Nodes whose steps are run by an agent on the wire."""

from __future__ import annotations

from typing import Any

from ironic_rs.domain.steps import KINDS
from tests.functional.defects.site import Site
from tests.unit.drivers.agent_server import AgentServer

STEP = {"interface": "deploy", "step": "erase", "priority": 10}
OTHER = {"interface": "deploy", "step": "burn", "priority": 20}


def lists(agent: AgentServer, kind: str, *found: dict[str, Any]) -> None:
    """What the agent answers when it is asked for its steps."""
    answer = {
        "hardware_manager_version": {"generic": "2"},
        f"{kind}_steps": {"Generic": list(found)},
    }
    agent.answers[f"{kind}.get_{kind}_steps"] = lambda _: {"status": "SUCCEEDED", "result": answer}


def in_step(site: Site, kind: str, plan: list[dict[str, Any]], **values: Any) -> str:
    """A node that waits for the first step of its plan, which the agent runs."""
    site.kit.interfaces.pop("deploy", None)
    data = KINDS[kind]
    info = {
        data.steps_key: plan,
        data.index_key: 0,
        data.cached_key: {"deploy": plan},
        "steps_validated": True,
    }
    row = {data.field: plan[0], "deploy_interface": "custom-agent", "driver_internal_info": info}
    return site.node(data.wait, **(row | values))
