"""Where inventories are kept."""

from __future__ import annotations

import pytest

from ironic_rs.db import inventory
from ironic_rs.domain import errors
from ironic_rs.inspection.store import store


def test_the_newest_takes_the_place_of_the_one_before(task):
    store(task.node, {"cpu": 1}, {"a": 1})
    store(task.node, {"cpu": 2}, {"b": 2, "logs": "much"})
    found = inventory.get(task.node.id)
    assert found.inventory_data == {"cpu": 2}
    assert found.plugin_data == {"b": 2}


def test_nothing_is_kept_when_configured_so(task, config):
    config("inventory", data_backend="none")
    store(task.node, {"cpu": 1}, {})
    with pytest.raises(errors.NodeInventoryNotFound):
        inventory.get(task.node.id)


def test_a_back_end_that_does_not_exist_is_told(task, config):
    config("inventory", data_backend="swift")
    with pytest.raises(errors.IncorrectConfiguration, match="swift"):
        store(task.node, {}, {})
