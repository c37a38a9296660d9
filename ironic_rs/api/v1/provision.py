"""PUT /v1/nodes/{node}/states/provision.

The order of the checks is part of the interface: clients see which one failed.

Source: specification rest-api.md sections 9.3 to 9.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ironic_rs.api import configdrive, policy, steps
from ironic_rs.api.args import BOOLEAN, ITEMS, TEXT, Arg
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.documents import Schema, one_of
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_view
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db import runbooks as db_runbooks
from ironic_rs.domain import errors, state_since, states
from ironic_rs.domain.fields import show


def _targets(minor: int) -> Schema:
    since = {**_VERB_SINCE, "unhold": V.UNHOLD, "service": V.SERVICE}
    return one_of([verb for verb in _ACTIONS if since.get(verb, 1) <= minor])


def _steps(form: steps.StepForm) -> Callable[[int], Schema]:
    return lambda minor: {"type": "array", "items": form.schema}


ARGS = (
    Arg("target", TEXT, required=True, form=_targets),
    Arg("configdrive", configdrive.ConfigDrive(), form=configdrive.form),
    Arg("clean_steps", ITEMS, late=V.CLEAN, form=_steps(steps.CLEAN)),
    Arg("deploy_steps", ITEMS, late=V.DEPLOY_STEPS, form=_steps(steps.DEPLOY)),
    Arg("service_steps", ITEMS, late=V.SERVICE, form=_steps(steps.SERVICE)),
    Arg("rescue_password", TEXT, late=V.RESCUE),
    Arg("disable_ramdisk", BOOLEAN, late=V.CLEAN_DISABLE_RAMDISK),
    Arg("runbook", TEXT, late=V.RUNBOOKS),
)

#: Rules for requests with steps or a runbook.
RULES = (
    "baremetal:node:set_provision_state:clean_steps",
    "baremetal:node:set_provision_state:service_steps",
    "baremetal:runbook:use",
    steps.STEP_RULE,
)
#: First version of the verbs that are checked before the state of the node.
_VERB_SINCE: Mapping[str, int] = {
    "manage": V.MANAGEABLE,
    "provide": V.MANAGEABLE,
    "inspect": V.INSPECT,
    "abort": V.ABORT_CLEAN,
    "clean": V.CLEAN,
    "adopt": V.ADOPT,
    "rescue": V.RESCUE,
    "unrescue": V.RESCUE,
    "deploy": V.DEPLOY_VERBS,
    "delete": V.DEPLOY_VERBS,
}
_ABORT_SINCE: Mapping[str, int] = {
    states.INSPECTWAIT: V.ABORT_INSPECT,
    states.DEPLOYWAIT: V.ABORT_DEPLOY,
}
_DEPLOYING = ("active", "rebuild")
_WITH_STEPS = ("clean", "service")
_COLUMNS = (
    "provision_state",
    "provision_updated_at",
    "reservation",
    "maintenance",
    "protected",
)
#: States that last until somebody asks for another one.
_SETTLED = states.STABLE | states.FAILED
#: Keys of the steps of a runbook that a conductor gets.
_RUNBOOK_STEP = ("interface", "step", "args", "order")
#: Nodes that steps of one request may name; a statement takes no endless list.
_MOST_CHILDREN = 1000


@dataclass
class _Request:
    """A provision request, while it is checked."""

    node: Mapping[Any, Any]
    target: str
    configdrive: Any = None
    clean_steps: list[Any] | None = None
    deploy_steps: list[Any] | None = None
    service_steps: list[Any] | None = None
    rescue_password: str | None = None
    disable_ramdisk: bool | None = None
    from_runbook: Any = None


def set_provision(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/states/provision."""
    args = call.args
    # Approval of a runbook is a matter of the node's traits.
    columns = _COLUMNS if args["runbook"] is None else (*_COLUMNS, "traits_json")
    node = node_view.load(call, columns)
    request = _Request(
        node,
        args["target"],
        clean_steps=args["clean_steps"],
        deploy_steps=args["deploy_steps"],
        service_steps=args["service_steps"],
        rescue_password=args["rescue_password"],
        disable_ramdisk=args["disable_ramdisk"],
    )
    _check_verb_version(call, request.target)
    if args["runbook"] is None:
        _check_step_policies(call, request)
    _check_state(request, with_runbook=args["runbook"] is not None)
    request.configdrive = configdrive.check(call, args["configdrive"], request.target)
    if args["runbook"] is not None:
        _use_runbook(call, request, args["runbook"])
    _check_disable_ramdisk(call, request)
    _check_clean_and_deploy(call, request)
    _check_rescue(request)
    _check_late_versions(call, request)
    _check_steps(call, request)
    state = node["provision_state"]
    if state in _SETTLED:
        # A broker or a frozen conductor may keep the call, whose user is told 503, until
        # the node has been through something else.
        call.context.node_seen = state_since.stamp(state, node["provision_updated_at"])
    _ACTIONS[request.target](call, request)
    return Reply(location=node_view.state_path(call))


def _check_verb_version(call: Call, target: str) -> None:
    since = _VERB_SINCE.get(target)
    if since is not None:
        call.require(since, f"Target '{target}'")
    if target not in _ACTIONS:
        raise errors.InvalidParameterValue(
            f"Invalid target {show(target)}; accepted: {', '.join(sorted(_ACTIONS))}."
        )


def _check_step_policies(call: Call, request: _Request) -> None:
    target = policy.node_target(request.node)
    for name in ("clean_steps", "service_steps"):
        given = getattr(request, name)
        if given is not None:
            rules = (f"baremetal:node:set_provision_state:{name}", *steps.policy_rules(given))
            call.authorize(target, *rules)
    if request.deploy_steps:
        call.authorize(target, *steps.policy_rules(request.deploy_steps))


def _check_state(request: _Request, *, with_runbook: bool) -> None:
    node, target = request.node, request.target
    if target in _DEPLOYING and node["maintenance"]:
        raise errors.NodeInMaintenance(op="provisioning", node=node["uuid"])
    event = "rebuild" if target == "rebuild" else states.VERBS[target]
    if states.is_allowed(node["provision_state"], event):
        return
    if node["reservation"]:
        if not with_runbook and (target == "abort" or _may_break_off(node, event)):
            # Its conductor knows whether the work can be broken off.
            return
        # What runs now may well lead to a state that allows the verb.
        raise db_nodes.locked(node)
    raise errors.InvalidStateRequested(
        action=target, node=node["uuid"], state=node["provision_state"]
    )


def _may_break_off(node: Mapping[Any, Any], event: str) -> bool:
    """Tell whether an undeployment may end a deployment: it may fetch an image for hours."""
    return event == "delete" and node["provision_state"] == states.DEPLOYING


def _use_runbook(call: Call, request: _Request, ident: str) -> None:
    call.require(V.RUNBOOKS, "A runbook")
    runbook = db_runbooks.get_by_ident(ident)
    target = policy.runbook_target(runbook.owner, bool(runbook.public))
    call.authorize(target, "baremetal:runbook:use")
    traits = set(db_nodes.traits_in(request.node))
    if not call.has(V.RUNBOOK_TRAITS):
        approved = {runbook.name}
    else:
        approved = set(runbook.traits)
        if not approved:
            raise errors.InvalidParameterValue(
                f"Runbook {ident} has no traits: it is approved for no node."
            )
    if not approved & traits:
        raise errors.InvalidParameterValue(
            f"Runbook {ident} is not approved for node {request.node['uuid']}: the node has none "
            f"of the traits {', '.join(sorted(approved))}."
        )
    if request.clean_steps or request.service_steps:
        raise errors.InvalidParameterValue(
            "Either a runbook or explicit steps can be given, not both."
        )
    if request.target not in _WITH_STEPS:
        raise errors.InvalidParameterValue(
            f"A runbook can not be given with target '{request.target}'; it is for targets "
            f"{' and '.join(_WITH_STEPS)}."
        )
    if runbook.owner and not runbook.public:
        call.authorize(policy.node_target(request.node), *steps.policy_rules(runbook.steps))
    ordered = sorted(runbook.steps, key=lambda step: step["order"])
    chosen = [{k: step[k] for k in _RUNBOOK_STEP} for step in ordered]
    if request.target == "clean":
        request.clean_steps = chosen
    else:
        request.service_steps = chosen
    request.from_runbook = runbook


def _check_disable_ramdisk(call: Call, request: _Request) -> None:
    """Check what the request says; what its runbook says has no version, and wins."""
    if request.disable_ramdisk is not None:
        _check_own_disable_ramdisk(call, request)
    if request.from_runbook is not None:
        request.disable_ramdisk = request.from_runbook.disable_ramdisk


def _check_own_disable_ramdisk(call: Call, request: _Request) -> None:
    if request.target not in _WITH_STEPS:
        raise errors.InvalidParameterValue(
            f"disable_ramdisk can not be given with target '{request.target}'; it is for targets "
            f"{' and '.join(_WITH_STEPS)}."
        )
    if request.target == "clean":
        call.require(V.CLEAN_DISABLE_RAMDISK, "disable_ramdisk with target 'clean'")
    else:
        call.require(V.SERVICE_DISABLE_RAMDISK, "disable_ramdisk with target 'service'")


def _check_clean_and_deploy(call: Call, request: _Request) -> None:
    if request.clean_steps is not None and request.target != "clean":
        raise _only_with("clean_steps", "clean", request.target)
    if request.deploy_steps is not None:
        call.require(V.DEPLOY_STEPS, "deploy_steps")
        if request.target not in _DEPLOYING:
            raise _only_with("deploy_steps", "active or rebuild", request.target)


def _check_rescue(request: _Request) -> None:
    password = request.rescue_password
    if password is not None and request.target != "rescue":
        raise _only_with("rescue_password", "rescue", request.target)
    if request.target == "rescue" and not (password and password.strip()):
        raise errors.InvalidParameterValue(
            "Target 'rescue' needs a rescue_password that is not blank."
        )


def _check_late_versions(call: Call, request: _Request) -> None:
    state = request.node["provision_state"]
    if request.target == "abort" and state in _ABORT_SINCE:
        call.require(_ABORT_SINCE[state], f"Target 'abort' in state '{state}'")
    if request.target == "unhold":
        call.require(V.UNHOLD, "Target 'unhold'")
    if request.service_steps is not None and request.target != "service":
        raise _only_with("service_steps", "service", request.target)
    if request.target == "service":
        call.require(V.SERVICE, "Target 'service'")


def _check_steps(call: Call, request: _Request) -> None:
    api = call.conf.api
    if request.target == "clean":
        request.clean_steps = _checked_steps(
            request, "clean_steps", steps.CLEAN, api.disallow_clean_steps, "disallow_clean_steps"
        )
        _check_children(call, request, request.clean_steps)
    elif request.target == "service":
        request.service_steps = _checked_steps(
            request,
            "service_steps",
            steps.SERVICE,
            api.disallow_service_steps,
            "disallow_service_steps",
        )
        _check_children(call, request, request.service_steps)
    elif request.deploy_steps:
        request.deploy_steps = steps.check(request.deploy_steps, steps.DEPLOY)
        steps.check_disallowed(
            request.deploy_steps, api.disallow_deploy_steps, "disallow_deploy_steps"
        )
        _check_children(call, request, request.deploy_steps)


def _checked_steps(
    request: _Request, name: str, form: steps.StepForm, refused: list[str], option: str
) -> list[dict[str, Any]]:
    given = getattr(request, name)
    if not given:
        raise errors.MissingParameterValue(
            f"Target '{request.target}' needs {name}: a list of at least one step, or a runbook."
        )
    if request.from_runbook is not None:
        checked: list[dict[str, Any]] = given
    else:
        checked = steps.check(given, form)
    steps.check_disallowed(checked, refused, option)
    return checked


def _check_children(call: Call, request: _Request, checked: list[dict[str, Any]]) -> None:
    """Steps may run on children that the caller may provision, on no other node.

    :raises NodeNotFound: a step names one that does not exist, or not for this caller.
    :raises HTTPForbidden: the caller may not provision one of them.
    """
    limits = [step.get("limit_child_node_execution") or () for step in checked]
    uuids = list(dict.fromkeys(uuid for limit in limits for uuid in limit))
    if len(uuids) > _MOST_CHILDREN:
        raise errors.InvalidParameterValue(
            f"limit_child_node_execution names {len(uuids)} nodes; accepted: at most "
            f"{_MOST_CHILDREN}."
        )
    rows = list(node_view.find_all(call, uuids)) if uuids else []
    if any(
        step.get("execute_on_child_nodes") and not limit
        for step, limit in zip(checked, limits, strict=True)
    ):
        # All children there are, those that the caller does not see included.
        mine = {"parent_node": request.node["uuid"]}
        rows += db_nodes.select(node_view.BASE_COLUMNS, mine)
    for child in rows:
        call.authorize(policy.node_target(child))


def _only_with(name: str, accepted: str, target: str) -> errors.InvalidParameterValue:
    return errors.InvalidParameterValue(
        f"{name} can not be given with target '{target}'; it is for target {accepted}."
    )


def _deploy(call: Call, request: _Request) -> None:
    call.conductors.do_node_deploy(
        call.context,
        request.node,
        rebuild=request.target == "rebuild",
        configdrive=request.configdrive,
        deploy_steps=request.deploy_steps,
    )


def _tear_down(call: Call, request: _Request) -> None:
    call.conductors.do_node_tear_down(call.context, request.node)


def _inspect(call: Call, request: _Request) -> None:
    call.conductors.inspect_hardware(call.context, request.node)


def _clean(call: Call, request: _Request) -> None:
    call.conductors.do_node_clean(
        call.context, request.node, request.clean_steps or [], bool(request.disable_ramdisk)
    )


def _service(call: Call, request: _Request) -> None:
    call.conductors.do_node_service(
        call.context, request.node, request.service_steps or [], bool(request.disable_ramdisk)
    )


def _rescue(call: Call, request: _Request) -> None:
    call.conductors.do_node_rescue(call.context, request.node, request.rescue_password or "")


def _unrescue(call: Call, request: _Request) -> None:
    call.conductors.do_node_unrescue(call.context, request.node)


def _verb(call: Call, request: _Request) -> None:
    call.conductors.do_provisioning_action(call.context, request.node, request.target)


_ACTIONS: Mapping[str, Callable[[Call, _Request], None]] = {
    "active": _deploy,
    "deploy": _deploy,
    "rebuild": _deploy,
    "deleted": _tear_down,
    "undeploy": _tear_down,
    "manage": _verb,
    "provide": _verb,
    "adopt": _verb,
    "abort": _verb,
    "unhold": _verb,
    "inspect": _inspect,
    "clean": _clean,
    "service": _service,
    "rescue": _rescue,
    "unrescue": _unrescue,
}
