"""Checks before an upgrade (specification operations.md section 2).

They only read, and they run on any database: empty, older, half upgraded, newer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import common_checks
from oslo_upgradecheck.upgradecheck import Code, Result, UpgradeCommands

from ironic_rs.db import migration, online, readiness
from ironic_rs.db.readiness import Chosen
from ironic_rs.domain import errors
from ironic_rs.drivers.registry import DriverRegistry, is_installed

#: Nodes that are named for each removed driver or interface.
_NAMED = 20


def _listed(names: list[str], total: int | None = None) -> str:
    total = len(names) if total is None else total
    shown = names[:_NAMED]
    more = f" and {total - len(shown)} more" if total > len(shown) else ""
    return ", ".join(shown) + more


def _of_tables(versions: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {', '.join(found)}" for name, found in versions.items())


def _on_nodes(check: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """A check that has nothing to look at in a database without nodes."""

    def checked(self: Any) -> Result:
        try:
            return check(self)
        except errors.DatabaseVersionTooOld:
            return Result(Code.WARNING, "Not examined: the database has no usable table nodes.")

    return checked


class UpgradeChecks(UpgradeCommands):
    """``ironic-rs-status upgrade check`` for one configuration."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def _schema(self) -> Result:
        try:
            pending = migration.pending()
        except migration.SchemaRefused as refused:
            return Result(Code.FAILURE, str(refused))
        return Result(Code.SUCCESS if pending is None else Code.WARNING, pending)

    def _object_versions(self) -> Result:
        try:
            versions = online.row_versions()
        except errors.DatabaseVersionTooOld:
            return Result(
                Code.FAILURE,
                "The database is too old: its tables have no versions. Upgrade it with the "
                "releases in between first.",
            )
        if versions.unsupported:
            return Result(
                Code.FAILURE,
                "Rows are of versions that this release does not support "
                f"({_of_tables(versions.unsupported)}). Run 'online_data_migrations' of the "
                "release that the database comes from.",
            )
        if versions.older:
            return Result(
                Code.WARNING,
                f"Rows are of older versions ({_of_tables(versions.older)}). This release reads "
                "them; run 'ironic-rs-dbsync online_data_migrations' when all services are of "
                "this release, and before the next upgrade.",
            )
        return Result(Code.SUCCESS)

    @_on_nodes
    def _indexes(self) -> Result:
        missing = readiness.unindexed()
        if not missing:
            return Result(Code.SUCCESS)
        return Result(
            Code.WARNING,
            f"Table nodes has no index on {', '.join(missing)}: queries are slow. Create them "
            "(CREATE INDEX <column>_idx ON nodes (<column>)).",
        )

    def _encoding(self) -> Result:
        bad = readiness.badly_encoded()
        if not bad:
            return Result(Code.SUCCESS)
        return Result(
            Code.WARNING,
            f"Not utf8mb4, or not of the engine InnoDB: {', '.join(bad)}. Convert them "
            "(ALTER TABLE <table> ENGINE = InnoDB; ALTER TABLE <table> CONVERT TO CHARACTER "
            "SET utf8mb4).",
        )

    def _policy_file(self) -> Result:
        return common_checks.check_policy_json(self, self._conf)

    @_on_nodes
    def _drivers(self) -> Result:
        registry = DriverRegistry(self._conf)
        try:
            registry.load()
            registry.registration_rows()
        except errors.IronicError as failed:
            return Result(Code.FAILURE, f"Conductors would not start: {failed}")
        finally:
            registry.close()
        complaints = [
            f"{name} is not supported any more and may be removed from a later release."
            for name in registry.unsupported()
        ]
        unknown: dict[Chosen, str] = {}
        for node in readiness.drivers_in_use():
            unknown |= _unknown(registry, node)
        for choice, (total, first) in readiness.nodes_with(list(unknown), _NAMED).items():
            complaints.append(f"{unknown[choice]} Nodes ({total}): {_listed(first, total)}.")
        return Result(Code.WARNING if complaints else Code.SUCCESS, " ".join(complaints) or None)

    @_on_nodes
    def _owners(self) -> Result:
        children = readiness.children_of_other_owners()
        if not children:
            return Result(Code.SUCCESS)
        return Result(
            Code.WARNING,
            f"Child nodes whose owner is not that of their parent: {_listed(children)}.",
        )

    _upgrade_checks = (
        ("Database Schema", _schema),
        ("Object versions", _object_versions),
        ("Database Index Status", _indexes),
        ("MySQL UTF8MB4 Encoding Check", _encoding),
        ("Policy File JSON to YAML Migration", _policy_file),
        ("Hardware Types and Interfaces Check", _drivers),
        ("Mismatch between Child and Parent Owners", _owners),
    )


def _unknown(registry: DriverRegistry, node: dict[str, str | None]) -> dict[Chosen, str]:
    """What nodes with these columns have that no conductor of this configuration serves."""
    driver = node["driver"]
    if driver is None or driver not in registry.hardware_types:
        return {Chosen(driver): _absent("Hardware type", driver, "hardware_types", None)}
    found = {}
    for field, value in node.items():
        if field == "driver" or value is None:
            continue
        kind = field.removesuffix("_interface")
        try:
            registry.get_interface(driver, kind, value)
        except errors.IncompatibleInterface as exc:
            found[Chosen(driver, field, value)] = str(exc)
        except errors.InterfaceNotFoundInEntrypoint:
            text = _absent(f"{kind.capitalize()} interface", value, f"{kind}_interfaces", kind)
            found[Chosen(driver, field, value)] = f"{text} Hardware type {driver}."
    return found


def _absent(what: str, name: str | None, option: str, kind: str | None) -> str:
    if name is None:
        return f"{what} is not set."
    if is_installed(name, kind):
        return f"{what} '{name}' is not in [DEFAULT]enabled_{option}."
    return (
        f"{what} '{name}' is not part of this release: move its nodes to another one with the "
        "release that has it."
    )
