"""Rules that the API names are rules that an operator finds in the sample."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_policy import policy

from ironic_rs.api import policy_rules, routes

RULES = {rule.name: rule for rule in policy_rules.list_rules()}
NAMED = sorted({rule for route in routes.ROUTES for rule in route.policy})
SAMPLE = Path(__file__).resolve().parents[3] / "etc" / "ironic" / "policy.yaml.sample"


@pytest.mark.parametrize("name", NAMED)
def test_a_rule_of_the_route_table_has_a_default(name):
    assert name in RULES


def test_all_133_rules_of_the_specification_are_there():
    assert len(RULES) == 133


def test_the_defaults_are_consistent():
    conf = cfg.ConfigOpts()
    conf([], project="ironic", default_config_files=[])
    enforcer = policy.Enforcer(conf, use_conf=False)
    enforcer.register_defaults(list(RULES.values()))
    enforcer.load_rules()
    assert enforcer.check_rules(raise_on_violation=False)


def test_the_sample_shows_the_defaults():
    shown = dict(re.findall(r'^#"([^"]+)": "(.*)"$', SAMPLE.read_text(), re.MULTILINE))
    assert shown == {name: rule.check_str for name, rule in RULES.items()}


def test_the_generator_finds_the_rules_by_the_entry_point():
    parser = configparser.ConfigParser()
    parser.read(SAMPLE.parents[1] / "policy-generator.conf")
    assert parser["DEFAULT"]["namespace"] == "ironic_rs.api"
