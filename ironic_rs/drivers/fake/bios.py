"""Fake BIOS interface: settings that exist only in the database.

Source: specification drivers.md section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.db import bios as db_bios
from ironic_rs.drivers import base
from ironic_rs.drivers.decorators import clean_step, require_exclusive_lock
from ironic_rs.drivers.fake.delay import pause

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class FakeBIOS(base.BIOSInterface):
    """Stores the settings it is given."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    @clean_step(
        priority=0,
        argsinfo={
            "settings": {
                "description": "List of {name, value} of the wanted settings.",
                "required": True,
            }
        },
    )
    @require_exclusive_lock
    def apply_configuration(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        pause("bios")
        node_id = task.node.id
        wanted = {row.name: row.value for row in db_bios.of_node(node_id)}
        wanted |= {setting["name"]: setting.get("value") for setting in settings}
        db_bios.sync(node_id, [{"name": name, "value": value} for name, value in wanted.items()])
        return None

    @clean_step(priority=0)
    @require_exclusive_lock
    def factory_reset(self, task: Task) -> str | None:
        pause("bios")
        db_bios.sync(task.node.id, [])
        return None

    @clean_step(priority=0)
    def cache_bios_settings(self, task: Task) -> None:
        pass
