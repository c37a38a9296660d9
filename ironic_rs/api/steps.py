"""Steps as clients send them: clean, deploy and service steps of a provision request,
steps of runbooks and of deploy templates.

Source: specification rest-api.md section 9.4; field case K01 (4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ironic_rs.domain import errors, names, secrets
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import Schema

#: How the optional rules about single steps are called.
STEP_RULE = "baremetal:step:execute:<interface>.<step>"
INTERFACES = ("vendor", "power", "management", "firmware", "deploy", "bios", "raid")


@dataclass(frozen=True)
class StepForm:
    """What steps of one kind look like.

    :param label: name in texts.
    :param keys: all keys that are accepted.
    :param required: those that must be there.
    :param interfaces: kinds of interfaces that may have such steps.
    """

    label: str
    keys: tuple[str, ...]
    required: tuple[str, ...]
    interfaces: tuple[str, ...] = INTERFACES

    @property
    def schema(self) -> Schema:
        """JSON schema of one such step."""
        schemas: dict[str, Schema] = {
            "interface": {"type": "string", "enum": list(self.interfaces)},
            "step": {"type": "string", "minLength": 1},
            "args": {"type": "object"},
            "priority": _NUMBER,
            "order": _NUMBER,
            "execute_on_child_nodes": {"type": "boolean"},
            "limit_child_node_execution": {
                "type": "array",
                "items": {"type": "string", "format": "uuid"},
            },
        }
        return {
            "type": "object",
            "properties": {key: schemas[key] for key in self.keys},
            "required": list(self.required),
            "additionalProperties": False,
        }

    @property
    def schemas(self) -> Schema:
        """JSON schema of a stored list of such steps."""
        return {"type": "array", "items": self.schema, "minItems": 1}


#: A number, or a string of digits.
_NUMBER: Schema = {
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": 2**31 - 1,
    "pattern": "^[0-9]{1,9}$",
}
_COMMON = ("interface", "step", "args")
_CHILDREN = ("execute_on_child_nodes", "limit_child_node_execution")

CLEAN = StepForm("clean step", (*_COMMON, "order", *_CHILDREN), ("interface", "step"))
SERVICE = StepForm(
    "service step",
    (*_COMMON, "order", *_CHILDREN),
    ("interface", "step"),
    (*INTERFACES, "network"),
)
DEPLOY = StepForm(
    "deploy step",
    (*_COMMON, "priority", *_CHILDREN),
    ("interface", "step", "args", "priority"),
)
RUNBOOK = StepForm("runbook step", (*_COMMON, "order"), ("interface", "step", "order"))
TEMPLATE = StepForm(
    "deploy template step", (*_COMMON, "priority"), ("interface", "step", "args", "priority")
)


def check(steps: Any, form: StepForm) -> list[dict[str, Any]]:
    """Check a list of steps and return it with numbers as numbers.

    :raises InvalidParameterValue: names the step, the key, the value and what would
        be accepted.
    """
    if not isinstance(steps, list):
        raise errors.InvalidParameterValue(
            f"{form.label.capitalize()}s must be a list of objects, not {show(steps)}."
        )
    return [_checked(number, step, form) for number, step in enumerate(steps)]


def check_list(steps: Any, form: StepForm) -> list[dict[str, Any]]:
    """Check the steps of a stored list, where each may be only once.

    :raises InvalidParameterValue: as of :func:`check`; none at all, or one twice.
    """
    checked = check(steps, form)
    if not checked:
        raise errors.InvalidParameterValue(f"At least one {form.label} is needed.")
    seen = set()
    for step in checked:
        name = f"{step['interface']}.{step['step']}"
        if name in seen:
            raise errors.InvalidParameterValue(
                f"Invalid {form.label}s: {name} is there more than once."
            )
        seen.add(name)
    return checked


def shown(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stored steps with the secrets of their arguments masked."""
    return [{**step, "args": secrets.mask(step["args"])} for step in steps]


def _checked(number: int, step: Any, form: StepForm) -> dict[str, Any]:
    where = f"Invalid {form.label} {number}"
    if not isinstance(step, dict):
        raise errors.InvalidParameterValue(f"{where}: {show(step)} is not an object.")
    unknown = [key for key in step if key not in form.keys]
    if unknown:
        raise errors.InvalidParameterValue(
            f"{where}: unknown key {show(unknown[0])}; accepted: {', '.join(form.keys)}."
        )
    for key in form.required:
        if key not in step:
            raise errors.InvalidParameterValue(
                f"{where}: {key} is missing; required: {', '.join(form.required)}."
            )
    checked = dict(step)
    for key, value in step.items():
        checked[key] = _value(where, form, key, value)
    return checked


def _value(where: str, form: StepForm, key: str, value: Any) -> Any:
    if key == "interface" and value not in form.interfaces:
        raise _bad(where, key, value, f"one of {', '.join(form.interfaces)}")
    if key == "step" and not (isinstance(value, str) and value and names.is_storable(value)):
        raise _bad(where, key, value, "a non-empty string")
    if key == "args" and not isinstance(value, dict):
        raise _bad(where, key, value, "an object")
    if key == "execute_on_child_nodes" and not isinstance(value, bool):
        raise _bad(where, key, value, "true or false")
    if key == "limit_child_node_execution" and not (
        isinstance(value, list)
        and all(isinstance(item, str) and names.is_uuid_like(item) for item in value)
    ):
        raise _bad(where, key, value, "a list of UUIDs of nodes")
    if key in ("priority", "order"):
        return _number(where, key, value)
    return value


def _number(where: str, key: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise _bad(where, key, value, "an integer from 0, or a string of digits")
    return value


def _bad(where: str, key: str, value: Any, accepted: str) -> errors.InvalidParameterValue:
    return errors.InvalidParameterValue(f"{where}: {key} is {show(value)}; accepted: {accepted}.")


def check_disallowed(steps: list[dict[str, Any]], refused: Collection[str], option: str) -> None:
    """Refuse steps that the operator does not allow.

    :param refused: ``interface.step`` names.
    :raises StepNotAllowed: one of them is asked for.
    """
    for step in steps:
        name = f"{step['interface']}.{step['step']}"
        if name in refused:
            raise errors.StepNotAllowed(
                f"Step {name} is not allowed by this deployment's configuration ([api]{option})."
            )


def policy_rules(steps: Any) -> tuple[str, ...]:
    """Return the optional rules about single steps; malformed steps have none."""
    if not isinstance(steps, list):
        return ()
    return tuple(
        f"baremetal:step:execute:{step.get('interface')}.{step.get('step')}"
        for step in steps
        if isinstance(step, Mapping)
    )
