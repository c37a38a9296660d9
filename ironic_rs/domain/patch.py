"""JSON patch (RFC 6902) as the REST API takes it: add, replace and remove only.

The REST layer validates a patch and sends it on; the conductor applies it under
the node's lock to the record as it is then, so that no acknowledged change of
somebody else is lost.  Both use this module.

A patch is a list of ``{"op": ..., "path": ..., "value": ...}``.

Source: specification rest-api.md section 6; field cases K01, K02, K18.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironic_rs.domain import errors
from ironic_rs.domain.fields.table import Table, show

Operation = dict[str, Any]

OPS = ("add", "replace", "remove")
#: Deepest path that a client may name; keeps records within what JSON writers take.
MAX_PATH_DEPTH = 32

_KEYS = frozenset({"op", "path", "value"})
_PATH = re.compile(r"(?:/[\w-]+)+")
_PATH_WITH_ESCAPES = re.compile(r"(?:/(?:[\w-]|~[01])+)+")
#: Any pointer of RFC 6901 but the empty one.
_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*)+", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def validate(patch: Any, *, escapes: bool = True, any_pointer: bool = False) -> list[Operation]:
    """Check the form of a patch document; roots and values are the caller's business.

    :param patch: the parsed request body.
    :param escapes: accept the RFC 6901 escapes ``~0`` and ``~1`` in paths
        (microversion 1.98).
    :param any_pointer: accept every path of RFC 6901 (allocations, inspection rules).
    :returns: the operations, each with exactly the keys that count.
    :raises PatchError: not an array of operations, or one is malformed; the text
        names the operation and what would be accepted.
    """
    if not isinstance(patch, list):
        raise errors.PatchError(
            "The body must be a JSON patch: an array of {op, path, value} objects."
        )
    pattern = _POINTER if any_pointer else _PATH_WITH_ESCAPES if escapes else _PATH
    return [_checked(number, op, pattern) for number, op in enumerate(patch)]


def _checked(number: int, op: Any, pattern: re.Pattern[str]) -> Operation:
    where = f"Invalid JSON patch, operation {number}"
    if not isinstance(op, dict):
        raise errors.PatchError(
            f"{where}: {show(op)} is not an object with the keys op, path and value."
        )
    unknown = sorted(set(op) - _KEYS)
    if unknown:
        raise errors.PatchError(
            f"{where}: unknown key {show(unknown[0])}; accepted: op, path, value."
        )
    name, path = op.get("op"), op.get("path")
    if name not in OPS:
        raise errors.PatchError(f"{where}: op is {show(name)}; accepted: {', '.join(OPS)}.")
    if not isinstance(path, str) or not pattern.fullmatch(path):
        raise errors.PatchError(
            f"{where}: path is {show(path)}; accepted: /<field> or /<field>/<key>... of letters, "
            "digits, '_' and '-'."
        )
    if path.count("/") > MAX_PATH_DEPTH:
        raise errors.PatchError(f"{where}: the path has more than {MAX_PATH_DEPTH} elements.")
    if name == "remove":
        return {"op": name, "path": path}
    if "value" not in op:
        raise errors.PatchError(f"{where}: {name} {path} needs a value.")
    return {"op": name, "path": path, "value": op["value"]}


def root(op: Mapping[str, Any]) -> str:
    """Return the field that an operation touches: ``extra`` of ``/extra/a``."""
    return _unescape(op["path"].split("/", 2)[1])


def is_root(op: Mapping[str, Any]) -> bool:
    """Tell whether an operation is about the whole field, not about a part of it."""
    return op["path"].count("/") == 1


def check_roots(patch: Iterable[Operation], allowed: Sequence[str]) -> None:
    """Refuse operations on fields that can not be patched.

    :raises PatchError: names the path and the fields that can be patched.
    """
    for number, op in enumerate(patch):
        if root(op) not in allowed:
            raise errors.PatchError(
                f"Operation {number} of the JSON patch: '{op['path']}' can not be changed; "
                f"accepted: {', '.join(sorted(allowed))}."
            )


def values(patch: Iterable[Operation], path: str) -> list[Any]:
    """Return the values that add and replace operations give to exactly this path."""
    return [op["value"] for op in patch if op["path"] == path and op["op"] != "remove"]


def convert(patch: Iterable[Operation], table: Table) -> list[Operation]:
    """Return the patch with the values of whole fields checked and converted.

    :raises InvalidParameterValue: a value is not of the kind of its field.
    """
    return [
        {**op, "value": table.by_name[root(op)].convert(op["value"], table.resource)}
        if is_root(op) and op["op"] != "remove"
        else op
        for op in patch
    ]


def apply(document: Mapping[str, Any], patch: Iterable[Operation], table: Table) -> dict[str, Any]:
    """Apply a validated patch to a record and return the new values.

    ``document`` holds the present value of every column (or field) that may be
    patched, by the name that the paths use; it is not changed.  Values are not
    checked here: call :func:`ironic_rs.domain.fields.check_values` on the result.

    Rules: an operation on a field works on any field of the document, null or not;
    removing a field sets it to its empty value; below a field, add creates or
    overwrites a key (``-`` appends to a list), replace and remove need it.

    :param table: field table of the resource, gives the empty values.
    :returns: a new dict with all keys of ``document``.
    :raises PatchError: an operation does not apply; names it and the reason.
    """
    result = dict(document)
    copied: set[str] = set()
    for number, op in enumerate(patch):
        tokens = [_unescape(token) for token in op["path"].split("/")[1:]]
        field = tokens[0]
        if field not in result:
            raise _refuse(number, op, f"the {table.resource} has no field '{field}'")
        if len(tokens) == 1:
            copied.add(field)
            if op["op"] == "remove":
                row = table.by_column.get(field) or table.by_name.get(field)
                if row is not None and row.required:
                    raise _refuse(number, op, "the field is mandatory")
                result[field] = row.null() if row is not None else None
            else:
                result[field] = copy.deepcopy(op["value"])
            continue
        if field not in copied:
            copied.add(field)
            result[field] = copy.deepcopy(result[field])
        _apply_below(number, op, result[field], tokens[1:])
    return result


def changed(
    document: Mapping[str, Any], patch: Sequence[Operation], table: Table
) -> dict[str, Any]:
    """Apply a validated patch and return the fields that it touches, checked.

    Fields without a column (steps) are not checked here.

    :raises PatchError: as of :func:`apply`.
    :raises InvalidParameterValue: a value is not of the kind of its field.
    """
    after = apply(document, patch, table)
    return table.check_values({name: after[name] for name in dict.fromkeys(map(root, patch))})


def _apply_below(number: int, op: Operation, container: Any, tokens: list[str]) -> None:
    for token in tokens[:-1]:
        container = _member(number, op, container, token)
    last, name = tokens[-1], op["op"]
    if isinstance(container, list):
        if name == "add" and last in ("-", str(len(container))):
            container.append(copy.deepcopy(op["value"]))
            return
        index = _index(number, op, container, last)
        if name == "add":
            container.insert(index, copy.deepcopy(op["value"]))
        elif name == "replace":
            container[index] = copy.deepcopy(op["value"])
        else:
            del container[index]
    elif isinstance(container, dict):
        if name != "add" and last not in container:
            raise _refuse(number, op, f"can't {name} a non-existent object '{last}'")
        if name == "remove":
            del container[last]
        else:
            container[last] = copy.deepcopy(op["value"])
    else:
        raise _refuse(number, op, f"'{last}' can not be a part of {show(container)}")


def _member(number: int, op: Operation, container: Any, token: str) -> Any:
    if isinstance(container, list):
        return container[_index(number, op, container, token)]
    if not isinstance(container, dict) or token not in container:
        raise _refuse(number, op, f"there is no key '{token}'")
    return container[token]


def _index(number: int, op: Operation, container: list[Any], token: str) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= len(container):
        raise _refuse(number, op, f"the list has {len(container)} items and no index '{token}'")
    return int(token)


def _refuse(number: int, op: Operation, reason: str) -> errors.PatchError:
    return errors.PatchError(
        f"Could not apply operation {number} of the JSON patch ({op['op']} {op['path']}). "
        f"Reason: {reason}."
    )


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
