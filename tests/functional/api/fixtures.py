"""What the declarative tests run against, and how they look into error bodies."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from gabbi import fixture
from gabbi.handlers import base

from ironic_rs.api import app
from ironic_rs.db import bios, firmware, history, inventory, nodes
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import conducted, configured, services_over
from tests.functional.api.described import Described


class Current:
    """The application of the file that runs."""

    empty_database: ClassVar[Path]
    app: ClassVar[Any] = None


class CurrentApplication:
    """A WSGI application that is always the one of the file that runs."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return Current.app(environ, start_response)


class Empty(fixture.GabbiFixture):
    """An application over an empty database, without any conductor."""

    def start_fixture(self) -> None:
        self._stack = contextlib.ExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.conf = self._stack.enter_context(configured(Current.empty_database, folder))
        self.transport = DirectTransport()
        Current.app = Described(app.build(services_over(self.conf, self.transport)))

    def stop_fixture(self) -> None:
        self._stack.close()


class WithConductor(Empty):
    """The same, with a conductor that serves fake hardware."""

    def start_fixture(self) -> None:
        super().start_fixture()
        self._stack.enter_context(conducted(self.transport))


class WithParts(WithConductor):
    """The same, with a node ``full`` that has one of everything that drivers write."""

    def start_fixture(self) -> None:
        super().start_fixture()
        node = nodes.create(
            {
                "uuid": "5c5b3b8e-0e2f-4c6f-8d3f-0f7f0d1a2b3c",
                "name": "full",
                "driver": "fake-hardware",
                "driver_info": {"redfish_password": "canary", "redfish_address": "https://bmc"},
                "instance_info": {"configdrive": "canary", "image_url": "http://canary"},
                "driver_internal_info": {"agent_secret_token": "canary", "agent_url": "https://x"},
                "clean_step": {"step": "s", "args": {"password": "canary"}},
            }
        )
        many = nodes.create({"name": "many", "driver": "fake-hardware"})
        bios.create(node.id, [{"name": "virtualization", "value": "on", "read_only": False}])
        firmware.create(
            {"node_id": node.id, "component": "bmc", "initial_version": "1", "vendor": "acme"}
        )
        inventory.store(node.id, {"cpu": {"count": 4}}, {"logs": None})
        for number in range(4):
            history.create(
                {
                    "uuid": f"2222222{number}-2222-4222-8222-222222222222",
                    "node_id": many.id,
                    "severity": "INFO" if number % 2 else "ERROR",
                    "event_type": "provisioning",
                    "event": f"event {number}",
                    "user": "u",
                    "project": "p",
                    "state": "active",
                    "target_provision_state": "rescue",
                    "duration_seconds": number,
                }
            )
        history.create(
            {
                "uuid": "11111111-1111-4111-8111-111111111111",
                "node_id": node.id,
                "severity": "ERROR",
                "event_type": "cleaning",
                "event": "x" * 300,
                "conductor": "cond-a",
                "state": "cleaning",
                "duration_seconds": 5,
            }
        )


class WithMachines(WithConductor):
    """The same, with nodes to allocate: ``free`` (twice), ``used`` and ``busy``."""

    def start_fixture(self) -> None:
        super().start_fixture()
        machines = {
            "free": {"provision_state": "available"},
            "free-2": {"provision_state": "available"},
            "used": {
                "provision_state": "active",
                "instance_uuid": "cccccccc-cccc-4ccc-8ccc-cccccccccccc",
            },
            "busy": {"provision_state": "active"},
        }
        for number, (name, values) in enumerate(machines.items()):
            node = nodes.create(
                {
                    "uuid": f"00000000-0000-4000-8000-00000000000{number}",
                    "name": name,
                    "driver": "fake-hardware",
                    "resource_class": "gold",
                    "power_state": "power off",
                    **values,
                }
            )
            nodes.set_traits(node.id, ["CUSTOM_A"])


class FaultHandler(base.ResponseHandler):
    """``response_fault``: keys of the inner error document; ``/regex/`` searches."""

    test_key_suffix = "fault"
    test_key_value: ClassVar[dict[str, Any]] = {}

    def action(self, test: Any, item: str, value: Any = None) -> None:
        inner = json.loads(json.loads(test.output)["error_message"])
        if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == "/":
            test.assertTrue(
                re.search(value[1:-1], str(inner[item])), f"{value} not in {inner[item]!r}"
            )
        else:
            test.assertEqual(value, inner[item])
