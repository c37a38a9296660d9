"""Applies inspection rules to a node.

Source: specification inspection.md section 7.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import inspection_rules as db_rules
from ironic_rs.db import models, records
from ironic_rs.domain import errors
from ironic_rs.inspection.hooks.base import InspectionTask
from ironic_rs.inspection.rules import actions, builtin, conditions
from ironic_rs.inspection.rules.interpolation import Scope
from ironic_rs.inspection.rules.rule import Rule, RuleError

LOG = log.getLogger(__name__)

MAIN = "main"


def apply(
    task: InspectionTask,
    inventory: dict[str, Any],
    plugin_data: dict[str, Any],
    phase: str = MAIN,
) -> None:
    """Apply the rules of a phase, highest priority first; each sees what those before did.

    The node is saved after each rule.  Of a rule that fails, what it did to the node
    until then stays, as far as it can be stored.

    :param inventory: not changed.
    :param plugin_data: rules may change it.
    :raises HardwareInspectionFailure: a rule says so, or can not be applied.
    :raises ConfigInvalid: the file of built-in rules is bad.
    :raises LockLost: as of the node.
    """
    for rule in _rules(phase):
        _apply(task, rule, inventory, plugin_data)


def _rules(phase: str) -> list[Rule]:
    """Return the rules of a phase; of equal ones those of the database come first."""
    stored = [_of_record(record) for record in db_rules.in_phase(phase)]
    of_file = [rule for rule in builtin.load() if rule.phase == phase]
    return sorted([*stored, *of_file], key=lambda rule: -rule.priority)


def _of_record(record: models.InspectionRule) -> Rule:
    return Rule(
        uuid=record.uuid,
        priority=record.priority,
        phase=record.phase or MAIN,
        sensitive=bool(record.sensitive),
        conditions=record.conditions,
        actions=record.actions,
    )


def _is_masked(rule: Rule) -> bool:
    option = CONF.inspection_rules.mask_secrets
    return option == "always" or (option == "sensitive" and not rule.sensitive)


def _apply(
    task: InspectionTask, rule: Rule, inventory: dict[str, Any], plugin_data: dict[str, Any]
) -> None:
    node = task.node
    scope = Scope(node, inventory, plugin_data, masked=_is_masked(rule))
    try:
        if not conditions.hold(rule.conditions, scope):
            LOG.debug("Node %s: inspection rule %s does not apply", node.uuid, rule.uuid)
            return
        LOG.debug("Node %s: inspection rule %s applies", node.uuid, rule.uuid)
        before = records.clone(node)
        try:
            for action in rule.actions:
                actions.run(action, actions.Target(node, plugin_data), scope)
        except errors.LockLost:
            raise
        except Exception:
            _keep(task, before)
            raise
        _save(task, before)
    except (errors.LockLost, errors.HardwareInspectionFailure):
        raise
    except Exception as exc:
        raise _failure(rule, node, exc) from exc


def _save(task: InspectionTask, before: models.Node) -> None:
    """Save the node, or put back what can not be stored.

    Whoever records the failure saves the node again, and must be able to.
    """
    try:
        task.save()
    except errors.LockLost:
        raise
    except Exception:
        _restore(task.node, before)
        raise


def _keep(task: InspectionTask, before: models.Node) -> None:
    """Save what a rule did before it failed; the failure itself counts more than this."""
    try:
        _save(task, before)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.warning("Node %s: changes of a failed rule are not kept: %s", task.node.uuid, exc)


def _restore(node: models.Node, before: models.Node) -> None:
    for name, value in records.as_dict(before).items():
        setattr(node, name, value)


def _failure(rule: Rule, node: models.Node, exc: Exception) -> errors.HardwareInspectionFailure:
    reason = str(exc)
    if rule.sensitive:
        # The reason may tell what the rule holds.
        reason = f"{type(exc).__name__}; the rule is sensitive"
    elif not isinstance(exc, errors.IronicError | RuleError):
        LOG.exception("Node %s: inspection rule %s", node.uuid, rule.uuid)
        reason = f"{type(exc).__name__}: {exc}"
    return errors.HardwareInspectionFailure(
        f"Failed to apply rule {rule.uuid} to node {node.uuid}: {reason.rstrip('.')}."
    )
