"""Rules of a file, which all inspections have: ``[inspection_rules]built_in_rules``.

Source: specification inspection.md section 7; field case K09 (73).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, fields, inspection_rules
from ironic_rs.domain.fields import show
from ironic_rs.inspection.rules.rule import Rule

OPTION = "[inspection_rules]built_in_rules"
#: Rules of the file may come before all that users can store.
MAX_PRIORITY = 2**31 - 1


def load() -> list[Rule]:
    """Return the rules of the configured file, read anew; none without a file.

    :raises ConfigInvalid: the file can not be read, or a rule of it is bad; names the
        file, and the line.
    """
    path = CONF.inspection_rules.built_in_rules
    if not path:
        return []
    try:
        loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
        root = loader.get_single_node()
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        raise _refuse(path, mark, getattr(exc, "problem", None) or exc) from exc
    except (OSError, ValueError, RecursionError) as exc:
        raise _refuse(path, None, exc) from exc
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        raise _refuse(path, root.start_mark, "the file must hold a list of rules")
    return [_rule(path, loader, index, item) for index, item in enumerate(root.value)]


def _refuse(path: str, mark: Any, problem: Any) -> errors.ConfigInvalid:
    line = f", line {mark.line + 1}" if mark is not None else ""
    return errors.ConfigInvalid(error_msg=f"{OPTION}: {path}{line}: {problem}")


def _rule(path: str, loader: yaml.SafeLoader, index: int, item: yaml.Node) -> Rule:
    try:
        # As if it came by the API: dates and the like become text.
        given = json.loads(json.dumps(loader.construct_document(item), default=str))
        return _checked(given, index)
    except (errors.Invalid, yaml.YAMLError, TypeError, ValueError, RecursionError) as exc:
        raise _refuse(path, item.start_mark, exc) from exc


def _checked(given: Any, index: int) -> Rule:
    if not isinstance(given, dict):
        raise errors.InvalidParameterValue(f"{show(given)} is no rule.")
    priority = given.pop("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise errors.InvalidParameterValue(f"priority is {show(priority)}, not a number.")
    if not 0 <= priority <= MAX_PRIORITY:
        raise errors.InvalidParameterValue(
            f"priority is {priority}; accepted: 0 to {MAX_PRIORITY}."
        )
    values = fields.INSPECTION_RULE.check_create(given)
    return Rule(
        uuid=values.get("uuid") or f"00000000-0000-0000-0000-{index:012x}",
        priority=priority,
        phase=values.get("phase") or inspection_rules.PHASES[0],
        sensitive=values.get("sensitive", False),
        conditions=inspection_rules.check_conditions(values.get("conditions", [])),
        actions=inspection_rules.check_actions(values["actions"]),
    )
