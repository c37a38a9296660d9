"""A whole life with ``debug = true`` and a marked secret of every kind (field case K14, 100).

None of them may be found in a log, an answer, the history, a notification, the command line
of a process or a file that others can read.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import psutil
import pytest
import sqlalchemy as sa

from tests.harness import servers
from tests.harness.cluster import Cluster, Sandbox, running

CANARY = "canarY7x"
BMC, WRONG_BMC, USER, DRIVE, REFUSED = (
    f"{CANARY}{what}" for what in ("bmc", "wrong", "user", "drive", "refused")
)
SECRETS = (BMC, WRONG_BMC, USER, DRIVE, REFUSED)


class Ears:
    """Listens wherever a secret could be told."""

    def __init__(self, cluster: Cluster, secrets: list[str]) -> None:
        self.cluster = cluster
        self.secrets = secrets
        self.heard: list[str] = []

    def hear(self, where: str, text: str) -> None:
        for secret in self.secrets:
            place = text.find(secret)
            if place >= 0:
                around = text[max(0, place - 300) : place + 60]
                self.heard.append(f"{where}: {secret}: ...{around}")

    def answers(self) -> None:
        """Look at what the API says of everything."""
        for path in ("/v1/nodes/detail", "/v1/ports/detail", "/v1/conductors", "/v1/drivers"):
            self.hear(path, self.cluster.send("GET", path).text)
        for node in self.cluster.get("/v1/nodes")["nodes"]:
            for part in ("states", "history?detail=true", "validate", "inventory"):
                path = f"/v1/nodes/{node['uuid']}/{part}"
                self.hear(path, self.cluster.send("GET", path).text)

    def command_lines(self) -> None:
        """Look at the processes of the services and what they have started."""
        for process in self.cluster.processes.values():
            for member in (
                psutil.Process(process.pid),
                *psutil.Process(process.pid).children(recursive=True),
            ):
                with contextlib.suppress(psutil.Error):
                    self.hear(f"command line of {process.name}", " ".join(member.cmdline()))

    def logs(self) -> None:
        for process in self.cluster.processes.values():
            self.hear(f"log of {process.name}", process.text())

    def files(self) -> None:
        """Look at files that other users can read; what machines fetch is theirs."""
        for path in self.cluster.folder.rglob("*"):
            served = any(part.startswith(("httpboot", "sandbox", "files")) for part in path.parts)
            if served or path.suffix == ".log" or not path.is_file():
                continue
            if path.stat().st_mode & stat.S_IROTH:
                self.hear(str(path), path.read_bytes().decode(errors="replace"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Cluster, Sandbox, str]]:
    """A machine, and services that log all they can and want a password."""
    users = tmp_path / "htpasswd"
    users.write_text(f"admin:{bcrypt.hashpw(USER.encode(), bcrypt.gensalt(4)).decode()}\n")
    users.chmod(0o600)
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(running(Sandbox(tmp_path, 1, f"--password={BMC}")))
        fleet.start()
        options: dict[str, dict[str, Any]] = {
            **fleet.options(),
            "DEFAULT": {
                "auth_strategy": "http_basic",
                "http_basic_auth_user_file": users,
                "notification_level": "debug",
                # The library's and ours alike: everything is told.
                "default_log_levels": "ironic_rs=DEBUG,oslo_messaging=DEBUG,urllib3=DEBUG,"
                "sushy=DEBUG,oslo.messaging.notification=DEBUG,requests=DEBUG",
            },
            "oslo_messaging_notifications": {"driver": "log"},
        }
        database = stack.enter_context(servers.mariadb_database())
        transport = stack.enter_context(servers.rabbit_vhost())
        cluster = stack.enter_context(running(Cluster(tmp_path, database, transport, options)))
        cluster.http.auth = ("admin", USER)
        cluster.migrate()
        cluster.start_api()
        cluster.start_conductor("c1")
        yield cluster, fleet, database


def tokens(database: str) -> list[str]:
    """Return the tokens of agents, which only the database and the agents know."""
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT driver_internal_info FROM nodes")).all()
    engine.dispose()
    found = [json.loads(row[0] or "{}").get("agent_secret_token") for row in rows]
    return [token for token in found if token]


@pytest.mark.timeout(900)
def test_no_secret_is_told_in_a_whole_life(site: tuple[Cluster, Sandbox, str]) -> None:
    cluster, fleet, database = site
    ears = Ears(cluster, list(SECRETS))
    (machine,) = fleet.machines()
    node = fleet.enroll(cluster, machine)
    uuid = node["uuid"]
    path = f"/v1/nodes/{uuid}"

    # Refused requests that carry secrets.
    for body in (
        [{"op": "replace", "path": "/driver_info/nosuch_password", "value": REFUSED}],
        [{"op": "add", "path": "/driver_info/a_password/x", "value": REFUSED}],
    ):
        answer = cluster.send("PATCH", path, body)
        assert answer.status_code == 400, answer.text
        ears.hear("a refused patch", answer.text)
    bad = {"driver": "redfish", "driver_info": {"password": REFUSED}, "bogus": 1}
    ears.hear("a refused node", cluster.send("POST", "/v1/nodes", bad).text)

    # A password that the BMC does not take.
    secret = [{"op": "add", "path": "/driver_info/redfish_password", "value": WRONG_BMC}]
    cluster.send("PATCH", path, secret, 200)
    cluster.provision(uuid, "manage")
    failed = cluster.wait_state(uuid, "enroll")
    assert failed["last_error"]
    ears.answers()
    secret[0]["value"] = BMC
    cluster.send("PATCH", path, secret, 200)

    # The life.
    cluster.provision(uuid, "manage")
    cluster.wait_state(uuid, "manageable")
    cluster.provision(uuid, "provide")
    seen: set[str] = set()

    def there(state: str) -> bool:
        seen.update(tokens(database))
        ears.command_lines()
        now = cluster.node(uuid)
        assert "fail" not in now["provision_state"], now["last_error"]
        return now["provision_state"] == state and now["reservation"] is None

    servers.wait_until(lambda: there("available"), "it is cleaned", 200, 0.3)
    drive = {"meta_data": {"name": "x"}, "user_data": DRIVE}
    cluster.provision(uuid, "active", configdrive=drive)
    servers.wait_until(lambda: there("active"), "it is deployed", 200, 0.3)
    ears.answers()
    cluster.provision(uuid, "deleted")
    servers.wait_until(lambda: there("available"), "it is torn down", 200, 0.3)
    cluster.send("DELETE", path, None, 204)

    assert seen, "no token of an agent was seen: the test looks at nothing"
    ears.secrets += sorted(seen)
    ears.logs()
    ears.files()
    log = cluster.processes["api"].text()
    # It would have been heard: payloads are in the log, and so is what was asked for.
    assert "baremetal.node.create.end" in log
    assert '"redfish_password": "***"' in log
    assert ears.heard == []
