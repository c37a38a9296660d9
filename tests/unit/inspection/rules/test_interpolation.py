"""Templates in the arguments of rules."""

from __future__ import annotations

import datetime

import pytest

from ironic_rs.inspection.rules import interpolation
from ironic_rs.inspection.rules.interpolation import Scope, fill

INVENTORY = {
    "cpu": {"count": 4, "flags": ["a", "b"], "none": None},
    "bmc_password": "canary",
    "users": [{"name": "root", "password": {"of": "canary"}}],
    "0": "zero",
}
DATA = {"auth_token": "canary", "deep": {"password": "canary", "port": 5}}


@pytest.fixture
def scope(task):
    task.node.driver_info = {"address": "10.0.0.1", "password": "known"}
    task.node.name = "n1"
    return Scope(task.node, INVENTORY, DATA)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{node.driver}", "redfish"),
        ("{node.name}-{node.driver_info[address]}", "n1-10.0.0.1"),
        ("{inventory[cpu][count]}", "4"),
        ("{inventory[cpu][count]:>3}!", "  4!"),
        ("{inventory[cpu][flags][1]}", "b"),
        ("{inventory[cpu][flags]}", "['a', 'b']"),
        ("{inventory[cpu][none]}", "None"),
        ("{inventory[0]}", "zero"),
        ("{plugin_data[deep][port]!r}", "5"),
        ("{{{node.driver}}}", "{redfish}"),
        # What can not be filled in stays.
        ("{inventory[cpu][bogus]}", "{inventory[cpu][bogus]}"),
        ("{inventory[cpu][flags][2]}", "{inventory[cpu][flags][2]}"),
        ("{inventory[cpu][flags][-1]}", "{inventory[cpu][flags][-1]}"),
        ("{inventory[cpu][count][x]}", "{inventory[cpu][count][x]}"),
        ("{inventory.cpu}", "{inventory.cpu}"),
        ("{bogus}", "{bogus}"),
        ("{item}", "{item}"),
        ("{}", "{}"),
        ("{0}", "{0}"),
        ("[0-9]{2}", "[0-9]{2}"),
        ("{", "{"),
        ("}", "}"),
        ("{node", "{node"),
        ("{node}", "{node}"),
        ("{inventory[cpu][count]:{node.name}}", "{inventory[cpu][count]:{node.name}}"),
        ("{inventory[cpu][count]:99999}", "{inventory[cpu][count]:99999}"),
        ("{inventory[cpu][count]:zz}", "{inventory[cpu][count]:zz}"),
        ("{inventory[cpu][count]!x}", "{inventory[cpu][count]!x}"),
    ],
)
def test_templates(scope, template, text):
    assert fill(template, scope) == text


@pytest.mark.parametrize(
    "template",
    [
        "{node.__class__}",
        "{node.__dict__}",
        "{node.save}",
        "{node.get_interface}",
        "{node._sa_instance_state}",
        "{node.driver.__class__}",
        "{inventory.__class__.__init__.__globals__}",
        "{node.metadata}",
    ],
)
def test_only_data_can_be_reached(scope, template):
    assert fill(template, scope) == template


def test_values_of_any_depth_are_filled_in(scope):
    value = {"{node.name}": ["{node.driver}", {"a": "{inventory[cpu][count]}"}], "n": 5}
    assert fill(value, scope) == {"n1": ["redfish", {"a": "4"}], "n": 5}


def test_loops_name_their_item(scope):
    assert fill("{item[a]}-{item[b][0]}", scope.at({"a": 1, "b": [2]})) == "1-2"
    assert fill("{item}", scope.at(None)) == "None"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{inventory[bmc_password]}", "***"),
        ("{plugin_data[auth_token]}", "***"),
        ("{plugin_data[deep]}", "{'password': '***', 'port': 5}"),
        ("{inventory[users]}", "[{'name': 'root', 'password': '***'}]"),
        ("{inventory[users][0][password]}", "***"),
        # There is nothing below a mask.
        ("{inventory[users][0][password][of]}", "{inventory[users][0][password][of]}"),
    ],
)
def test_secrets_of_the_data_are_masked(scope, template, text):
    assert fill(template, scope) == text
    open_scope = Scope(scope.node, INVENTORY, DATA, masked=False)
    assert "***" not in fill(template, open_scope)


def test_missing_is_told_from_malformed(scope):
    with pytest.raises(interpolation.Missing):
        interpolation.fill_text("{inventory[x]}", scope)
    with pytest.raises(interpolation.Unresolved) as malformed:
        interpolation.fill_text("{x", scope)
    assert not isinstance(malformed.value, interpolation.Missing)


def test_times_are_texts(scope):
    scope.node.provision_updated_at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert fill("{node.provision_updated_at:%Y}", scope) == "2026"
