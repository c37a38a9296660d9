"""Parents and children: power in any order, with machines that fail and nodes that are busy."""

from __future__ import annotations

import random

import pytest

from ironic_rs.db import nodes
from ironic_rs.domain import errors, states
from tests.unit.conductor.flowkit import steps as user_steps
from tests.unit.conductor.tablekit import OTHER_HOST

REQUESTS = ("power on", "power off", "rebooting", "soft power off", "soft rebooting")
ON_CHILDREN = ("power_on", "power_off", "reboot", "raid.a")


class Family:
    """A parent, a child that lives from its power, and one that does not."""

    def __init__(self, table, seed):
        self.table, self.world = table, table.world
        self.random = random.Random(seed)
        self.world.kit.offer("clean", "raid.a", requires_ramdisk=False)
        self.parent = table.node("manageable", power_state=states.POWER_OFF)
        own = {"has_dedicated_power_supply": True}
        self.child = self._born()
        self.free = self._born(driver_info=own)
        self.everybody = (self.parent, self.child, self.free)
        #: What is really the case, by node.
        self.real = {node.uuid: states.POWER_OFF for node in self.everybody}
        self.log = []
        self.violations = []

    def _born(self, **values):
        row = {"power_state": states.POWER_OFF, "parent_node": self.parent.uuid}
        return self.table.node("manageable", **(row | values))

    def machines(self):
        """Machines that fail at times, and that have no power when their parent has none."""

        def get(task):
            return self.real[task.node.uuid]

        def put(task, state, timeout=None):
            if self.random.random() < 0.05:
                raise errors.PowerStateFailure("the BMC does not answer")
            self._switch(task.node.uuid, states.POWER_TARGET[state])

        return {
            "power.get_power_state": get,
            "power.set_power_state": put,
            "power.reboot": lambda task, timeout=None: put(task, states.POWER_ON),
        }

    def _switch(self, uuid, state):
        self.real[uuid] = state
        on = {name for name, power in self.real.items() if power == states.POWER_ON}
        # Remembered, for the flow would take an error for one of the machine.
        if self.child.uuid in on and self.parent.uuid not in on:
            self.violations.append((uuid, state))

    def turn(self):
        node = self.random.choice(self.everybody)
        busy = None
        if self.random.random() < 0.2:
            busy = self.random.choice([other for other in self.everybody if other is not node])
            nodes.update(busy, {"reservation": OTHER_HOST}, fence=None)
        with self.table.scripted(self.machines()):
            if node is self.parent and self.random.random() < 0.3:
                done = self._steps()
            else:
                done = self.random.choice(REQUESTS)
                answer = self.table.answer("change_node_power_state", node, new_state=done)
                assert "error" not in answer, answer
            self.table.workers.run()
        if busy is not None:
            assert self.world.read(busy).reservation == OTHER_HOST
            nodes.update(busy, {"reservation": None}, fence=None)
        self.log.append((node is self.parent, done, busy and busy.uuid, dict(self.real)))
        self.check()

    def _steps(self):
        names = self.random.choices(ON_CHILDREN, k=2)
        limit = self.random.choice([None, [self.child.uuid], [self.free.uuid]])
        wanted = user_steps(*names, execute_on_child_nodes=True)
        for step in wanted if limit else ():
            step["limit_child_node_execution"] = limit
        answer = self.table.answer(
            "do_node_clean", self.parent, clean_steps=wanted, disable_ramdisk=True
        )
        assert "error" not in answer, answer
        return names

    def check(self):
        assert self.violations == [], self.log[-4:]
        for node in self.everybody:
            stored = self.world.read(node)
            assert stored.reservation is None, self.log[-4:]
            assert stored.target_power_state is None, self.log[-4:]
            assert stored.power_state == self.real[node.uuid], self.log[-4:]
            if stored.provision_state == states.CLEANFAIL:
                assert stored.last_error
                self._forgive(stored)
            else:
                assert stored.provision_state == states.MANAGEABLE, self.log[-4:]
        assert len(self.world.tasks.book) == 0

    def _forgive(self, node):
        self.table.answer("do_provisioning_action", node, action="manage")
        on = [{"op": "replace", "path": "/maintenance", "value": False}]
        assert "error" not in self.table.answer("update_node", node, patch=on)


@pytest.mark.parametrize("seed", range(12))
def test_no_child_is_ever_without_the_power_it_lives_from(table, seed):
    family = Family(table, seed)
    for _ in range(40):
        family.turn()
