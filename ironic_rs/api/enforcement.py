"""The policy of ``auth_strategy = keystone``: our defaults and the operator's files.

oslo.policy reads and evaluates the rules.  A set of rules is loaded as a whole and
never changes; when a file changes, another set takes its place.  So a request sees
either the old rules or the new ones from its beginning to its end, and a file that can
not be used changes nothing.

Source: specification rest-api.md section 13, data/policies.json.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from oslo_config import cfg
from oslo_policy import opts as policy_opts
from oslo_policy import policy

from ironic_rs.api import policy_rules
from ironic_rs.api.policy_checks import Prepared
from ironic_rs.conf import loading, opts
from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext

LOG = logging.getLogger(__name__)

#: ``baremetal:step:execute:<interface>.<step>``: no rule, no restriction.
_OPTIONAL = "baremetal:step:execute:"
#: Target of the rule ``service_role``; without it nobody has that role.
_SERVICE_PROJECT = "config.service_project_name"

#: Path, time of change, size and inode of each file, as they were read.
_Stamp = tuple[tuple[str, int, int, int], ...]


class _Rules(policy.Enforcer):
    """Rules as they were when they were loaded; files are not looked at again."""

    def load_rules(self, force_reload: bool = False) -> None:
        """Load once, when asked explicitly; evaluations ask without."""
        if force_reload:
            super().load_rules(force_reload=True)


def load(conf: cfg.ConfigOpts) -> policy.Enforcer:
    """Return our defaults under the rules of the operator's files.

    :raises Exception: of many kinds, when a file can not be used.
    """
    rules = _Rules(conf)
    rules.suppress_default_change_warnings = True
    rules.register_defaults(policy_rules.list_rules(scoped=conf.oslo_policy.enforce_scope))
    rules.load_rules(force_reload=True)
    for name, check in rules.rules.items():
        rules.rules[name] = Prepared(check)
    return rules


def get_enforcer() -> policy.Enforcer:
    """Return the rules in force with the configuration of this host.

    Entry point ``ironic_rs`` of the group ``oslo.policy.enforcer``, for the oslopolicy
    tools, whose own arguments stay out of it.
    """
    conf = cfg.ConfigOpts()
    opts.register_all(conf)
    conf([], project=loading.PROJECT)
    return load(conf)


class RoleBased:
    """Enforcer of the rules, with the role assignments that a token brings.

    :raises IncorrectConfiguration: a policy file can not be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._lock = threading.Lock()
        self._of_request: WeakKeyDictionary[RequestContext, policy.Enforcer]
        self._of_request = WeakKeyDictionary()
        policy_opts.set_defaults(conf)
        try:
            # Looked at before they are read: what changes in between is read again.
            self._stamp = self._look()
            self._rules = load(conf)
        except Exception as exc:
            raise errors.IncorrectConfiguration(
                error=f"[oslo_policy] the policy can not be read: {exc}"
            ) from exc
        self._warn_of_missing_file()

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        """Tell whether a rule passes; a wrong scope is a refusal as any other.

        :raises TemporaryFailure: the rule can not be evaluated, as it asks a server that
            does not answer.
        """
        rules = self._of_request.get(context)
        if rules is None:
            rules = self._of_request[context] = self._current()
        if rule.startswith(_OPTIONAL) and rule not in rules.rules:
            return True
        caller = context.to_policy_values()
        # Rules of operators may compare what is asked for with the caller's own values.
        known = {**caller, **target}
        if self._conf.rbac_service_role_elevated_access:
            known[_SERVICE_PROJECT] = self._conf.rbac_service_project_name
        try:
            return bool(rules.enforce(rule, known, caller))
        except Exception as exc:
            LOG.exception("Policy rule %s can not be evaluated", rule)
            raise errors.TemporaryFailure(
                f"The policy rule {rule} can not be evaluated now."
            ) from exc

    def _current(self) -> policy.Enforcer:
        try:
            stamp = self._look()
        except OSError as exc:
            LOG.error("Policy files not looked at, the old rules stay in force: %s", exc)
            return self._rules
        if stamp != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    self._reload(stamp)
        return self._rules

    def _reload(self, stamp: _Stamp) -> None:
        try:
            self._rules = load(self._conf)
            LOG.info("Policy files have changed: rules loaded anew")
        except Exception as exc:
            LOG.error("Policy not loaded anew, the old rules stay in force: %s", exc)
        self._stamp = stamp

    def _look(self) -> _Stamp:
        return tuple(
            (str(path), found.st_mtime_ns, found.st_size, found.st_ino)
            for path in self._files()
            if (found := _stat(path)) is not None
        )

    def _files(self) -> Iterator[Path]:
        options = self._conf.oslo_policy
        for name in (options.policy_file, *options.policy_dirs):
            place = self._conf.find_file(name)
            if place:
                path = Path(place)
                yield path
                if path.is_dir():
                    yield from sorted(path.iterdir())

    def _warn_of_missing_file(self) -> None:
        name = self._conf.oslo_policy.policy_file
        where = self._conf.get_location("policy_file", group="oslo_policy")
        by_operator = where is not None and where.location.is_user_controlled
        if by_operator and not self._conf.find_file(name):
            LOG.warning(
                "[oslo_policy]policy_file %s does not exist: the default rules are in force", name
            )


def _stat(path: Path) -> Any:
    try:
        return path.stat()
    except OSError:
        # It went away between the two looks.
        return None
