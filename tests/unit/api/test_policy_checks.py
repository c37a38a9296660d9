"""Prepared rules decide as oslo.policy does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import policy

from ironic_rs.api.policy_checks import Prepared

EXPRESSIONS = [
    "@",
    "!",
    "",
    "role:admin",
    "role:ADMIN",
    "role:%(wanted)s",
    "role:%(missing)s",
    "project_id:%(node.owner)s",
    "project_id:%(missing)s",
    "no_such_attribute:x",
    "is_admin_project:True",
    "None:%(node.lessee)s",
    "'p1':%(node.owner)s",
    "True:%(flag)s",
    "token.project.id:p1",
    "token.roles.name:reader",
    "token.roles:reader",
    "groups:g2",
    "token.missing.id:p1",
    "not role:admin",
    "role:admin and project_id:%(node.owner)s",
    "role:admin or role:reader",
    "(role:reader or role:member) and not (project_id:p2 or role:admin)",
    "rule:reader",
    "rule:no_such_rule",
    "rule:reader and rule:own",
    "not rule:own",
]
TARGETS: list[dict[str, Any]] = [
    {},
    {"node.owner": "p1", "node.lessee": None, "wanted": "reader", "flag": True},
    {"node.owner": None, "node.lessee": "p1", "wanted": "x", "flag": False},
]
CALLERS: list[dict[str, Any]] = [
    {},
    {
        "roles": ["Reader"],
        "project_id": "p1",
        "is_admin_project": True,
        "groups": ["g1", "g2"],
        "token": {"project": {"id": "p1"}, "roles": [{"name": "member"}, {"name": "reader"}]},
    },
    {"roles": ["admin", "member"], "project_id": "p2", "groups": [], "token": {"roles": []}},
]


@pytest.fixture(scope="module")
def enforcer() -> policy.Enforcer:
    conf = cfg.ConfigOpts()
    conf([], project="test", default_config_files=[])
    made = policy.Enforcer(conf, use_conf=False)
    made.register_default(policy.RuleDefault("reader", "role:reader"))
    made.register_default(policy.RuleDefault("own", "project_id:%(node.owner)s"))
    made.load_rules()
    return made


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_meaning_is_that_of_oslo_policy(text: str, enforcer: policy.Enforcer) -> None:
    check = policy.RuleDefault("name", text).check
    prepared = Prepared(check)
    assert str(prepared) == str(check)
    for target, caller in itertools.product(TARGETS, CALLERS):
        theirs = bool(check(target, dict(caller), enforcer, "name"))
        assert prepared(target, dict(caller), enforcer) == theirs, (target, caller)


@pytest.mark.parametrize("text", ["project_id.deeper:p1", "2nd.name:p1"])
def test_what_oslo_policy_stumbles_over_is_a_refusal(text: str, enforcer: policy.Enforcer) -> None:
    check = policy.RuleDefault("name", text).check
    with pytest.raises((TypeError, SyntaxError)):
        check({}, {"project_id": "p1"}, enforcer)
    assert not Prepared(check)({}, {"project_id": "p1"}, enforcer)


def test_checks_of_others_are_called(enforcer: policy.Enforcer) -> None:
    class Own(policy.Check):
        def __call__(self, target, creds, enforcer, current_rule=None):
            return creds["ok"]

    check = policy.NotCheck(Own("own", "x"))
    assert Prepared(check)({}, {"ok": False}, enforcer)
    assert not Prepared(check)({}, {"ok": True}, enforcer)
