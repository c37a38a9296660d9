"""Rules of in-band inspection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals
from ironic_rs.db.resource import Change, Resource
from ironic_rs.domain import errors

InspectionRule = models.InspectionRule

_rules = table(InspectionRule)

LISTING = Listing(
    InspectionRule,
    missing=lambda ident: errors.RuleNotFound(rule=ident),
    filters={
        "uuid": equals(_rules.c.uuid),
        "phase": equals(_rules.c.phase),
        "scope": equals(_rules.c.scope),
    },
)
select = LISTING.select
_resource = Resource(InspectionRule, LISTING)


@session.reads
def get(connection: Connection, ident: int | str) -> InspectionRule:
    """Rule by its integer id or uuid.

    :raises InvalidIdentity, RuleNotFound: as named.
    """
    return _resource.one(connection, _resource.where(ident), ident)


@session.reads
def in_phase(connection: Connection, phase: str | None = None) -> list[InspectionRule]:
    """Rules (of one phase), highest priority first."""
    where = [] if phase is None else [_rules.c.phase == phase]
    found = _resource.all(connection, *where)
    return sorted(found, key=lambda rule: -rule.priority)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> InspectionRule:
    """Store a rule.

    :raises InspectionRuleAlreadyExists: the uuid is taken.
    """
    return _resource.insert(connection, given)


@session.writes
def change(
    connection: Connection, ident: int | str, make: Change[InspectionRule]
) -> InspectionRule:
    """Change a rule by what it is under the lock of its row.

    :param make: gets the rule, returns the columns to write; may be called again
        after a deadlock.
    :raises RuleNotFound: no such rule.
    """
    return _resource.change(connection, ident, make)


@session.writes
def destroy(
    connection: Connection, ident: int | str, if_match: Iterable[str] | None = None
) -> None:
    """Delete a rule.

    :param if_match: revisions that it may have; None for any.
    :raises RuleNotFound, PreconditionFailed: as named.
    """
    _resource.require(connection, ident, if_match)
    _resource.delete(connection, ident)
