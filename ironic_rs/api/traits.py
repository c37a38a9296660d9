"""Traits as clients send them: of nodes and of runbooks.

Source: specification rest-api.md sections 10.3, 11.9; field case K18 (118).
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api.call import Call
from ironic_rs.api.documents import TEXT, TRAIT, Shape, listing, record
from ironic_rs.db.traits import MAX_TRAITS
from ironic_rs.domain import errors, names
from ironic_rs.domain.fields import show

SHOWN = Shape("list of traits", listing("traits", TEXT))
WANTED = Shape(
    "all traits that there are to be",
    record({"traits": {"type": "array", "items": TRAIT, "maxItems": MAX_TRAITS}}),
)


def check(trait: Any) -> str:
    """Return the trait.

    :raises InvalidParameterValue: it is none.
    """
    if not isinstance(trait, str) or not names.is_valid_trait(trait, names.standard_traits()):
        raise errors.InvalidParameterValue(
            f"Invalid trait {show(trait)}: it does not match; accepted: a standard trait, or "
            f"CUSTOM_ and characters of A-Z 0-9 _, {names.MAX_TRAIT_LENGTH} characters in all."
        )
    return trait


def check_number(number: int, resource: str) -> None:
    """Refuse more traits than one thing may have.

    :param resource: ``node`` or ``runbook``, for the text.
    :raises InvalidParameterValue: more than 50.
    """
    if number > MAX_TRAITS:
        raise errors.InvalidParameterValue(
            f"A {resource} can not have more than {MAX_TRAITS} traits, these are {number}."
        )


def of_body(call: Call, resource: str) -> list[str]:
    """Return the different traits of a body ``{"traits": [...]}``.

    :raises InvalidParameterValue: another form, a bad trait, or too many.
    """
    wanted = call.body.get("traits") if isinstance(call.body, dict) else None
    if not isinstance(wanted, list) or set(call.body) != {"traits"}:
        raise errors.InvalidParameterValue(
            'The request body must be {"traits": [...]}, a list of traits.'
        )
    unique = list(dict.fromkeys(check(trait) for trait in wanted))
    check_number(len(unique), resource)
    return unique


def of_path(call: Call) -> str:
    """Return the trait that a path ends with.

    :raises InvalidParameterValue: a bad trait.
    """
    return check(call.path["trait"])
