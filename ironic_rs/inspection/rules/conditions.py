"""Whether the conditions of a rule hold.

Source: specification inspection.md section 7, data/inspection-rules.json.
"""

from __future__ import annotations

import ipaddress
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ironic_rs.domain import inspection_rules
from ironic_rs.domain.inspection_rules import Operation
from ironic_rs.inspection.rules import interpolation
from ironic_rs.inspection.rules.interpolation import Scope
from ironic_rs.inspection.rules.rule import RuleError

#: Seconds that one search may take; some expressions would take for ever.
SEARCH_TIMEOUT = 2.0

_EMPTY = ("", "None", "[]", "{}")


def hold(conditions: Iterable[Mapping[str, Any]], scope: Scope) -> bool:
    """Tell whether all of the conditions hold.

    :raises RuleError: one can not be judged.
    :raises InvalidParameterValue: one is malformed.
    """
    return all(_holds(condition, scope) for condition in conditions)


def _holds(condition: Mapping[str, Any], scope: Scope) -> bool:
    operation, inverted = inspection_rules.operator_of(condition["op"])
    args = operation.bind(condition["args"])
    loop = condition.get("loop")
    if loop is None:
        return _judge(operation, args, scope) is not inverted
    results = (
        _judge(operation, args, scope.at(item)) is not inverted for item in items(loop, scope)
    )
    multiple = condition.get("multiple") or "any"
    if multiple == "all":
        return all(results)
    if multiple == "last":
        return [False, *results][-1]
    # The first one that holds, or any: it comes to the same.
    return any(results)


def items(loop: Any, scope: Scope) -> list[Any]:
    """Return what a loop goes over: the items of a list, or an object as one item."""
    filled = interpolation.fill(loop, scope)
    return filled if isinstance(filled, list) else [filled]


def arguments(operation: Operation, args: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return all arguments of an operation with their templates filled in.

    :raises InvalidParameterValue: a value that the operation can not take.
    """
    plain = {a.name for a in operation.arguments if a.plain and not scope.looped}
    filled = {
        name: value if name in plain else interpolation.fill(value, scope)
        for name, value in args.items()
    }
    operation.check(filled, looped=scope.looped)
    return operation.complete(filled)


def _judge(operation: Operation, args: Mapping[str, Any], scope: Scope) -> bool:
    filled = arguments(operation, args, scope)
    if operation.compares and scope.looped:
        filled["force_strings"] = True
    if operation.name == "is-empty":
        filled["value"] = _present(args["value"], filled["value"], scope)
    try:
        return _OPERATORS[operation.name](**filled)
    except RuleError as exc:
        raise RuleError(f"condition {operation.name}: {exc}") from None
    except TypeError as exc:
        raise RuleError(f"condition {operation.name}: {exc}") from exc


def _present(given: Any, filled: Any, scope: Scope) -> Any:
    """Return None for what is not there: for this operator alone it is empty."""
    if isinstance(given, str):
        try:
            interpolation.fill_text(given, scope)
        except interpolation.Missing:
            return None
        except interpolation.Unresolved:
            return filled
    return filled


def _pairs(compare: Callable[[Any, Any], Any]) -> Callable[..., bool]:
    def check(values: list[Any], force_strings: bool) -> bool:
        compared = [str(value) for value in values] if force_strings else values
        return all(compare(one, other) for one, other in itertools.pairwise(compared))

    return check


def _is_empty(value: Any) -> bool:
    return str(value) in _EMPTY


def _in_net(address: Any, subnet: Any) -> bool:
    try:
        network = ipaddress.ip_network(str(subnet), strict=False)
    except ValueError as exc:
        raise RuleError(f"subnet {subnet!r}: {exc}") from None
    try:
        return ipaddress.ip_address(str(address).strip()) in network
    except ValueError:
        # A network card without an address is in no network.
        return False


def _search(value: Any, expression: str, *, whole: bool) -> bool:
    try:
        compiled = inspection_rules.compile_pattern(expression)
        find = compiled.fullmatch if whole else compiled.search
        # concurrent: other threads run while this one searches.
        return find(str(value), concurrent=True, timeout=SEARCH_TIMEOUT) is not None
    except TimeoutError:
        raise RuleError(
            f"the search for {expression!r} took more than {SEARCH_TIMEOUT:g} seconds"
        ) from None
    except ValueError as exc:
        raise RuleError(f"regular expression {expression!r}: {exc}") from None


def _is_true(value: Any) -> bool:
    return _truth(value) is True


def _is_false(value: Any) -> bool:
    return value is None or _truth(value) is False


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0
    if isinstance(value, str):
        return {"yes": True, "true": True, "no": False, "false": False}.get(value.lower())
    return None


_OPERATORS: Mapping[str, Callable[..., bool]] = {
    "eq": _pairs(operator.eq),
    "lt": _pairs(operator.lt),
    "gt": _pairs(operator.gt),
    "is-empty": _is_empty,
    "in-net": _in_net,
    "matches": lambda value, regex: _search(value, regex, whole=True),
    "contains": lambda value, regex: _search(value, regex, whole=False),
    "one-of": lambda value, values: value in values,
    "is-none": lambda value: value is None,
    "is-true": _is_true,
    "is-false": _is_false,
}
