"""Inspection rules: which operations there are, and what a good rule looks like.

The API checks rules with this module when they are stored, the engine those of the
built-in file; what it can not know before an inspection (values with ``{...}`` in
them) is checked when the rule runs.

Source: specification inspection.md section 7, data/inspection-rules.json,
rest-api.md section 11.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from ironic_rs.domain import errors, fields
from ironic_rs.domain.fields import show

PHASES = ("main",)
MULTIPLE = ("any", "all", "first", "last")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
#: Prefix of an operator that turns its result round.
INVERT = "!"
#: Argument that the reference writes into stored rules by itself; no operation has it.
INJECTED = "plugin_data"

#: Fields that rules may write: what users may patch, but what names other records or
#: decides over the inspection itself.
NODE_FIELDS = tuple(
    name
    for name in (*fields.NODE.names("P"), "maintenance_reason")
    if name not in ("chassis_uuid", "parent_node")
)
PORT_FIELDS = tuple(
    name for name in fields.PORT.names("P") if name not in ("node_uuid", "portgroup_uuid")
)

#: Longest time that an api-call may be given, in seconds, and its other limits.
MAX_TIMEOUT = 60
MAX_RETRIES = 10
MAX_BACKOFF = 10

#: What is escaped, or a brace that begins no number of repetitions.
_BRACE = re.compile(r"(\\.)|\{(?!(?:\d+(?:,\d*)?|,\d*)\})", re.DOTALL)

#: Says what is wrong with a value, None where nothing is.
Check = Callable[[Any], str | None]


@dataclass(frozen=True)
class Argument:
    """An argument of an operation.

    :param check: what its values must be.
    :param default: value where it is left out; None for required ones.
    :param template: it may be text with ``{...}`` in it, which is checked when the
        rule runs.
    :param plain: its braces are its own: interpolated in loops only.
    """

    name: str
    required: bool = True
    check: Check | None = None
    default: Any = None
    template: bool = True
    plain: bool = False


@dataclass(frozen=True)
class Operation:
    """An operator of conditions, or an action.

    :param compares: ``force_strings`` is on in loops.
    """

    name: str
    arguments: tuple[Argument, ...]
    compares: bool = False

    @property
    def accepted(self) -> str:
        return ", ".join(a.name if a.required else f"[{a.name}]" for a in self.arguments)

    def bind(self, args: Any) -> dict[str, Any]:
        """Return arguments by name, the deprecated form of a list included.

        :raises InvalidParameterValue: missing or unexpected ones.
        """
        names = [a.name for a in self.arguments]
        if isinstance(args, list):
            if self.compares and not any(isinstance(value, list) for value in args[:1]):
                args = [args]  # what is compared, one after the other
            if len(args) > len(names):
                raise errors.InvalidParameterValue(
                    f"{self.name} has {len(args)} arguments; accepted: {self.accepted}"
                )
            args = dict(zip(names, args, strict=False))
        elif not isinstance(args, dict):
            raise errors.InvalidParameterValue(
                f"args of {self.name} is {show(args)}; accepted: an object or a list"
            )
        else:
            args = {name: value for name, value in args.items() if name != INJECTED}
        unexpected = [name for name in args if name not in names]
        if unexpected:
            raise errors.InvalidParameterValue(
                f"{self.name} has the unexpected argument {show(unexpected[0])}; "
                f"accepted: {self.accepted}"
            )
        missing = [a.name for a in self.arguments if a.required and a.name not in args]
        if missing:
            raise errors.InvalidParameterValue(
                f"{self.name} lacks the argument(s) {', '.join(missing)}"
            )
        return args

    def complete(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return bound arguments with the defaults of those left out."""
        return {a.name: args.get(a.name, a.default) for a in self.arguments}

    def check(self, args: Mapping[str, Any], *, looped: bool = False) -> None:
        """Check bound arguments.

        :param looped: all of them may be templates.
        :raises InvalidParameterValue: a value that the operation can never take.
        """
        for argument in self.arguments:
            if argument.check is None or argument.name not in args:
                continue
            value = args[argument.name]
            template = argument.template and (looped or not argument.plain)
            if template and isinstance(value, str) and "{" in value:
                continue
            problem = argument.check(value)
            if problem is not None:
                raise errors.InvalidParameterValue(
                    f"{argument.name} of {self.name} is {show(value)}; accepted: {problem}"
                )


def _is(kind: type | tuple[type, ...], accepted: str) -> Check:
    return lambda value: None if isinstance(value, kind) else accepted


def _number(maximum: int, *, whole: bool = False) -> Check:
    what = "an integer" if whole else "a number"

    def check(value: Any) -> str | None:
        good = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        return None if good and 0 <= value <= maximum else f"{what} from 0 to {maximum}"

    return check


def compile_pattern(expression: str) -> regex.Pattern[str]:
    """Return a regular expression, compiled by a library that can end a search in time.

    :raises ValueError: it is none.
    """
    # To that library other braces than those of a number of repetitions say how many
    # errors are allowed; to everybody else they are braces.
    plain = _BRACE.sub(lambda match: match[1] or "\\{", expression)
    try:
        return regex.compile(plain)
    except (regex.error, OverflowError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc


def _pattern(value: Any) -> str | None:
    if not isinstance(value, str):
        return "a regular expression"
    try:
        compile_pattern(value)
    except ValueError as exc:
        return f"a regular expression ({exc})"
    return None


def _level(value: Any) -> str | None:
    return None if value in LOG_LEVELS else f"one of {', '.join(LOG_LEVELS)}"


def split_path(path: Any) -> list[str]:
    """Return the keys of a path: ``a/b``, ``/a/b`` or ``a.b``.

    :raises InvalidParameterValue: not a path.
    """
    keys: list[str] = []
    if isinstance(path, str):
        keys = path.removeprefix("/").split("/") if "/" in path else path.split(".")
    if not all(keys) or not keys:
        raise errors.InvalidParameterValue(
            f"path is {show(path)}; accepted: keys with '/' or '.' between them"
        )
    return keys


def _path(known: Sequence[str]) -> Check:
    def check(value: Any) -> str | None:
        try:
            root = split_path(value)[0]
        except errors.InvalidParameterValue as exc:
            return str(exc).partition("accepted: ")[2]
        return None if root in known else f"a path that begins with one of {', '.join(known)}"

    return check


def _data_path(value: Any) -> str | None:
    good = isinstance(value, str) and value and all(value.split("."))
    return None if good else "keys with '.' between them"


_TEXT = _is(str, "a string")
_LIST = _is(list, "a list")
_FLAG = _is(bool, "true or false")
_OBJECT = _is((dict, type(None)), "an object, or null")

_VALUE = Argument("value")
_VALUES = Argument("values", check=_LIST, template=False)
_STRINGS = Argument("force_strings", False, _FLAG, False, template=False)
_REGEX = Argument("regex", check=_pattern, plain=True)
_UNIQUE = Argument("unique", False, _FLAG, False, template=False)
_NAME = Argument("name", check=_TEXT)
_NODE_PATH = Argument("path", check=_path(NODE_FIELDS))
_PORT_PATH = Argument("path", check=_path(PORT_FIELDS))
_DATA_PATH = Argument("path", check=_data_path)
_PORT = Argument("port_id", check=_TEXT)
_MESSAGE = Argument("msg")


def _named(*operations: Operation) -> dict[str, Operation]:
    return {operation.name: operation for operation in operations}


OPERATORS: Mapping[str, Operation] = _named(
    Operation("eq", (_VALUES, _STRINGS), compares=True),
    Operation("lt", (_VALUES, _STRINGS), compares=True),
    Operation("gt", (_VALUES, _STRINGS), compares=True),
    Operation("is-empty", (_VALUE,)),
    Operation("in-net", (Argument("address"), Argument("subnet"))),
    Operation("matches", (_VALUE, _REGEX)),
    Operation("contains", (_VALUE, _REGEX)),
    Operation("one-of", (_VALUE, Argument("values", False, default=()))),
    Operation("is-none", (_VALUE,)),
    Operation("is-true", (_VALUE,)),
    Operation("is-false", (_VALUE,)),
)

ACTIONS: Mapping[str, Operation] = _named(
    Operation("fail", (_MESSAGE,)),
    Operation("log", (_MESSAGE, Argument("level", False, _level, "info"))),
    Operation("set-attribute", (_NODE_PATH, _VALUE)),
    Operation("extend-attribute", (_NODE_PATH, _VALUE, _UNIQUE)),
    Operation("del-attribute", (_NODE_PATH,)),
    Operation("set-capability", (_NAME, _VALUE)),
    Operation("unset-capability", (_NAME,)),
    Operation("add-trait", (_NAME,)),
    Operation("remove-trait", (_NAME,)),
    Operation("set-plugin-data", (_DATA_PATH, _VALUE)),
    Operation("extend-plugin-data", (_DATA_PATH, _VALUE, _UNIQUE)),
    Operation("unset-plugin-data", (_DATA_PATH,)),
    Operation("set-port-attribute", (_PORT, _PORT_PATH, _VALUE)),
    Operation("extend-port-attribute", (_PORT, _PORT_PATH, _VALUE, _UNIQUE)),
    Operation("del-port-attribute", (_PORT, _PORT_PATH)),
    Operation(
        "api-call",
        (
            Argument("url", check=_TEXT),
            Argument("headers", False, _OBJECT, template=False),
            Argument("proxies", False, _OBJECT, template=False),
            Argument("timeout", False, _number(MAX_TIMEOUT), 5, template=False),
            Argument("retries", False, _number(MAX_RETRIES, whole=True), 3, template=False),
            Argument("backoff_factor", False, _number(MAX_BACKOFF), 0.3, template=False),
        ),
    ),
)


def operator_of(op: str) -> tuple[Operation, bool]:
    """Return the operator of a condition's ``op``, and whether it is inverted."""
    return OPERATORS[op.removeprefix(INVERT).strip()], op.startswith(INVERT)


def check_actions(actions: Any) -> list[dict[str, Any]]:
    """Return actions with what counts of each: op, args, loop.

    :raises InvalidParameterValue: names the action, the key, and what is accepted.
    """
    if not isinstance(actions, list) or not actions:
        raise errors.InvalidParameterValue(
            f"actions of an inspection rule is {show(actions)}; accepted: a list of at least one "
            "action."
        )
    return [_checked(f"action {number}", item, ACTIONS) for number, item in enumerate(actions)]


def check_conditions(conditions: Any) -> list[dict[str, Any]]:
    """Return conditions with what counts of each: op, args, and with a loop multiple.

    :raises InvalidParameterValue: names the condition, the key, and what is accepted.
    """
    if not isinstance(conditions, list):
        raise errors.InvalidParameterValue(
            f"conditions of an inspection rule is {show(conditions)}; accepted: a list."
        )
    known = {**OPERATORS, **{INVERT + name: o for name, o in OPERATORS.items()}}
    checked = []
    for number, item in enumerate(conditions):
        condition = _checked(f"condition {number}", item, known)
        multiple = item.get("multiple", MULTIPLE[0])
        if multiple not in MULTIPLE:
            raise _refuse(
                f"condition {number}",
                f"multiple is {show(multiple)}; accepted: {', '.join(MULTIPLE)}",
            )
        if "loop" in condition:
            condition["multiple"] = multiple
        checked.append(condition)
    return checked


def _checked(where: str, item: Any, known: Mapping[str, Operation]) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _refuse(where, f"{show(item)} is not an object with op and args")
    op, loop = item.get("op"), item.get("loop")
    if not isinstance(op, str) or op not in known:
        raise _refuse(where, f"op is {show(op)}; accepted: {', '.join(known)}")
    if "args" not in item:
        raise _refuse(where, f"args is missing; accepted: {known[op].accepted}")
    if not isinstance(loop, list | dict | None):
        raise _refuse(where, f"loop is {show(loop)}; accepted: a list or an object")
    try:
        args = known[op].bind(item["args"])
        known[op].check(args, looped=loop is not None)
    except errors.InvalidParameterValue as exc:
        raise _refuse(where, str(exc)) from None
    checked = {"op": op, "args": item["args"] if isinstance(item["args"], list) else args}
    return checked if loop is None else {**checked, "loop": loop}


def _refuse(where: str, problem: str) -> errors.InvalidParameterValue:
    return errors.InvalidParameterValue(f"Invalid {where} of an inspection rule: {problem}.")
