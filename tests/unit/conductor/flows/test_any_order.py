"""Whatever is asked of a node in whatever order, and whatever its machine does then.

Each seed is one life of a node: requests that are possible and impossible ones, step
results and failures of the driver at random.  After each request the node must be
where the table of facts says that nodes may rest.
"""

from __future__ import annotations

import random

import pytest

from ironic_rs.domain import errors, steps
from tests.unit.conductor import tablekit
from tests.unit.conductor.flowkit import steps as user_steps

FACTS = tablekit.load("provision_states")
RUNNING = {
    "verifying",
    "deploying",
    "cleaning",
    "deleting",
    "inspecting",
    "adopting",
    "rescuing",
    "unrescuing",
    "servicing",
}
ACTION = "do_provisioning_action"
#: Event -> RPC method and its arguments, but for steps.
REQUESTS = {
    "deploy": ("do_node_deploy", {}),
    "rebuild": ("do_node_deploy", {"rebuild": True}),
    "delete": ("do_node_tear_down", {}),
    "inspect": ("inspect_hardware", {}),
    "clean": ("do_node_clean", {}),
    "service": ("do_node_service", {}),
    "rescue": ("do_node_rescue", {"rescue_password": "secret"}),
    "unrescue": ("do_node_unrescue", {}),
    **{verb: (ACTION, {"action": verb}) for verb in ("manage", "provide", "adopt", "abort")},
    "unhold": (ACTION, {"action": "unhold"}),
}
#: What a driver is asked in a flow -> what it may answer besides None.
DRIVER = {
    "deploy.prepare": [],
    "deploy.prepare_cleaning": ["clean wait"],
    "deploy.tear_down_cleaning": [],
    "deploy.prepare_service": ["service wait"],
    "deploy.tear_down_service": [],
    "deploy.clean_up": [],
    "deploy.tear_down": [],
    "deploy.take_over": [],
    "boot.prepare_instance": [],
    "rescue.rescue": ["rescue wait", "rescue"],
    "rescue.unrescue": ["active"],
    "rescue.clean_up": [],
    "inspect.inspect_hardware": ["manageable", "inspect wait"],
    "inspect.continue_inspection": [],
    "inspect.abort": [],
    "power.reboot": [],
    "network.configure_tenant_networks": [],
}
FAILURES = [
    errors.NetworkError("the network is down"),
    errors.PowerStateFailure("the BMC does not answer"),
    RuntimeError("a defect of the driver"),
    OSError("no space left"),
]
INSTANCE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
NAMES = ("raid.a", "bios.b", "deploy.c")
RESERVED = ("hold", "wait", "reboot", "power_off", "power_on")


#: Error -> columns of the node in which it leaves its trace.
TOLD = {
    "InvalidStateRequested": set(),
    "NodeInMaintenance": set(),
    "InvalidState": set(),
    "InstanceDeployFailure": set(),
    "NoFreeConductorWorker": {"last_error", "updated_at"},
    # An inspection that the driver can not stop.
    "NetworkError": {"last_error", "updated_at"},
    "PowerStateFailure": {"last_error", "updated_at"},
    "RuntimeError": {"last_error", "updated_at"},
    "OSError": {"last_error", "updated_at"},
}


class Life:
    """One node, what is asked of it, and what answers."""

    def __init__(self, table, seed):
        self.table = table
        self.world = table.world
        self.random = random.Random(seed)
        for kind in steps.KINDS:
            for number, name in enumerate(NAMES):
                self.world.kit.offer(
                    kind,
                    name,
                    10 + number,
                    abortable=self.random.random() < 0.5,
                    requires_ramdisk=self.random.random() < 0.7,
                )
        self.node = table.node("enroll", instance_uuid=INSTANCE)
        self.log = []
        self.manual = False
        self.aborted = False

    def answers(self):
        return {
            name: self._answer([None, *also]) if not also else self._answer(also)
            for name, also in DRIVER.items()
        }

    def _answer(self, usual):
        if self.random.random() < 0.08:
            return self.random.choice(FAILURES)
        return self.random.choice(usual)

    def script_steps(self):
        for name in NAMES:
            self.world.kit.results[name] = self._step_result

    def _step_result(self, task):
        chance = self.random.random()
        if chance < 0.05:
            raise self.random.choice(FAILURES)
        if chance < 0.07:
            return "no result at all"
        if chance < 0.35:
            return steps.kind_of(task.node).wait
        return None

    def wanted_steps(self, kind):
        names = self.random.choices([*NAMES, *RESERVED], k=self.random.randint(1, 4))
        wanted = user_steps(*names)
        if kind == "deploy":
            unique = {steps.step_id(step): step for step in wanted}
            return [{**step, "args": {}, "priority": 50} for step in unique.values()]
        return wanted

    def request(self, event):
        method, arguments = REQUESTS[event]
        arguments = dict(arguments)
        kind = {"do_node_clean": "clean", "do_node_service": "service"}.get(method)
        if kind is not None:
            arguments[f"{kind}_steps"] = self.wanted_steps(kind)
            arguments["disable_ramdisk"] = self.random.random() < 0.2
        elif method == "do_node_deploy" and self.random.random() < 0.5:
            arguments["deploy_steps"] = self.wanted_steps("deploy")
        return self.table.answer(method, self.node, **arguments)

    def go_on(self, state):
        """Be the agent, or the driver, that a waiting flow waits for."""
        kind = next((k for k in steps.KINDS.values() if k.wait == state), None)
        if state == "inspect wait":
            return self.table.answer("continue_inspection", self.node, inventory={})
        with self.world.task(self.node) as task:
            if kind is None:
                task.flows.resume("rescue")
            elif self.random.random() < 0.1:
                task.flows.fail(kind.name, "the agent says: disk gone")
            elif getattr(task.node, kind.field) or kind is steps.DEPLOY:
                task.flows.resume(kind.name)
            else:
                task.flows.start(kind.name)
        return {}

    def turn(self):
        [before] = self.table.rows()["nodes"]
        state = before["provision_state"]
        legal = [event for event in FACTS[state]["events"] if event in REQUESTS]
        waiting = state.endswith("wait") or state == "wait call-back"
        what = self.random.random()
        self.script_steps()
        with self.table.scripted(self.answers()):
            if waiting and what < 0.6:
                done, answer = "go on", self.go_on(state)
            elif what < 0.1 or not legal:
                done = self.random.choice(sorted(REQUESTS))
                answer = self.request(done)
            else:
                done = self.random.choice(sorted(legal))
                self.table.workers.full = self.random.random() < 0.05
                answer = self.request(done)
                self.table.workers.full = False
            self.table.workers.run()
        after = self.world.read(self.node)
        error = answer.get("error", {}).get("class")
        self.log.append((state, done, error, after.provision_state))
        self.check(after)
        if error is not None:
            [now] = self.table.rows()["nodes"]
            changed = {name for name in now if now[name] != before[name]}
            assert changed <= TOLD[error], (error, changed, self.log[-8:])
        self.check_memory(state, done, error, after)
        if after.maintenance:
            on = [{"op": "replace", "path": "/maintenance", "value": False}]
            assert "error" not in self.table.answer("update_node", self.node, patch=on)

    def check_memory(self, state, done, error, node):
        """Check what depends on earlier requests."""
        new, trace = node.provision_state, self.log[-8:]
        if done in ("clean", "provide", "delete") and error is None:
            self.manual = done == "clean"
        if new.startswith("clean") and self.manual:
            assert node.target_provision_state == "manageable", trace
        if self.manual and state.startswith("clean"):
            assert new != "available", trace
        if self.aborted:
            assert new == state or new.endswith("failed") or done in ("delete", "abort"), trace
        waits = new.endswith("wait") or new == "wait call-back"
        self.aborted = (
            waits and done != "delete" and (self.aborted or (done == "abort" and error is None))
        )
        gone = state != "available" and new == "available" and done != "go on"
        if new in ("active", "rescue", "error", "deploy failed", "service failed", "rescue failed"):
            assert node.instance_uuid == INSTANCE, trace
        if gone or node.instance_uuid is None:
            on = [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}]
            if node.instance_uuid is None:
                self.table.answer("update_node", self.node, patch=on)

    def check(self, node):
        state, info = node.provision_state, node.driver_internal_info
        trace = "\n".join(map(str, self.log[-8:]))
        assert state not in RUNNING, trace
        assert node.reservation is None, trace
        assert node.target_power_state is None, trace
        assert len(self.world.tasks.book) == 0, trace
        row = FACTS[state]
        if row["stable"]:
            assert node.target_provision_state is None, trace
        elif state.startswith("clean"):
            assert node.target_provision_state in ("available", "manageable"), trace
        else:
            assert node.target_provision_state == row["target"], trace
        if state.endswith("failed") or state == "error":
            assert node.last_error, trace
        if node.fault is not None:
            assert node.maintenance, trace
        if not (state.endswith("wait") or state.endswith("hold") or state == "wait call-back"):
            for kind in steps.KINDS.values():
                assert not getattr(node, kind.field), (kind.name, trace)
                flags = (kind.index_key, kind.polling_flag, kind.skip_flag)
                left = [flag for flag in flags if flag in info]
                assert not left, (left, trace)
        if state != "rescue wait":
            assert "hashed_rescue_password" not in node.instance_info, trace


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_requests_leaves_a_node_where_nobody_cares_for_it(table, monkeypatch, seed):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    life = Life(table, seed)
    for _ in range(60):
        life.turn()
    assert len({after for *_, after in life.log}) > 3
