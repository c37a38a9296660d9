"""Services that call each other without a broker: field cases K17/114 and K03/21, W28.

Two conductors on one host, told apart by their ports, and an API; HTTPS between
them with a name and a password.  Nothing of the tests but the options knows which
transport it is.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from tests.harness.certificates import certificate
from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, running
from tests.harness.servers import HOST, free_port, mariadb_database

pytestmark = pytest.mark.timeout(600)

NAME = "localhost"


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [f"{NAME}:{free_port()}" for _ in range(2)]


def own(name: str, **fake: int) -> dict[str, dict[str, object]]:
    """Return the options of one conductor."""
    host, _, port = name.partition(":")
    return {"DEFAULT": {"host": host}, "json_rpc": {"port": port}, "fake": dict(fake)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("json-rpc")
    cert_file, key_file = certificate(folder)
    users = folder / "users"
    users.write_text(f"ironic:{bcrypt.hashpw(b'pass word', bcrypt.gensalt(4)).decode()}\n")
    options = {
        "DEFAULT": {"rpc_transport": "json-rpc", "rpc_response_timeout": 20},
        "json_rpc": {
            "host_ip": HOST,
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": users,
            "username": "ironic",
            "password": "pass word",
            "use_ssl": True,
            "client_use_ssl": True,
            "cert_file": cert_file,
            "key_file": key_file,
            "cafile": cert_file,
        },
    }
    # A broker that nobody must ask for anything.
    broker = f"rabbit://guest:guest@{HOST}:1/"
    with (
        mariadb_database() as database,
        running(Cluster(folder, database, broker, options)) as made,
    ):
        made.migrate()
        made.start_api()
        for name in names:
            made.start_conductor(name, own(name))
        yield made


def test_a_whole_life_through_the_client_on_both_conductors(
    cluster: Cluster, names: list[str]
) -> None:
    cli = Baremetal(cluster.url)
    assert {row.split()[0] for row in cli.values("conductor list -c Hostname")} == set(names)
    for number, name in enumerate(names):
        node = f"life-{number}"
        cluster.create(host=name, name=node)
        for verb, state in (
            ("manage", "manageable"),
            ("provide", "available"),
            ("deploy", "active"),
            ("undeploy", "available"),
        ):
            cli(f"node {verb} {node}")
            cluster.wait_state(node, state)
        cli(f"node power off {node}")
        cluster.wait_power(node, "power off")
        cli(f"node delete {node}")
        assert "could not be found" in cli.refused(f"node show {node}")


def test_errors_keep_their_class_and_details(cluster: Cluster, names: list[str]) -> None:
    cluster.create(host=names[0], name="e1")
    refused = cluster.send("PUT", "/v1/nodes/e1/states/provision", {"target": "active"})
    assert (refused.status_code, "enroll" in refused.text) == (400, True)
    patch = [{"op": "replace", "path": "/driver", "value": "no-such-driver"}]
    assert cluster.send("PATCH", "/v1/nodes/e1", patch).status_code == 400
    cluster.send("DELETE", "/v1/nodes/e1", expect=204)


def test_w28_a_restarted_conductor_frees_its_own_locks(cluster: Cluster, names: list[str]) -> None:
    # Several conductors of one host: the name in the lock has the port as well (W28).
    name = names[0]
    cluster.processes[name].signal(signal.SIGTERM)
    assert cluster.processes[name].wait(90) == 0
    cluster.start_conductor(name, own(name, power_delay=3600))
    held = cluster.create(host=name, name="held")["uuid"]
    cluster.send("PUT", f"/v1/nodes/{held}/states/power", {"target": "power on"}, expect=202)
    assert cluster.node(held)["reservation"] == name
    cluster.processes[name].kill()
    lost = cluster.send("PUT", f"/v1/nodes/{held}/states/power", {"target": "power off"})
    assert lost.status_code in (409, 503), lost.text
    cluster.start_conductor(name, own(name))
    record = cluster.wait_state("held", "enroll")
    assert record["target_power_state"] is None
    assert "abort" in record["last_error"]
    cluster.send("PATCH", f"/v1/nodes/{held}", [{"op": "add", "path": "/extra/a", "value": 1}], 200)


@pytest.mark.parametrize("place", [0, 1])
def test_sigterm_is_an_orderly_end(cluster: Cluster, names: list[str], place: int) -> None:
    process = cluster.processes[names[place]]
    process.signal(signal.SIGTERM)
    cluster.wait_conductor(names[place], alive=False)
    assert process.wait(90) == 0
    if place == 1:
        nobody = cluster.send("POST", "/v1/nodes", {"driver": "fake-hardware"})
        assert nobody.status_code in (400, 503), nobody.text


def test_a_port_in_use_ends_the_start_with_the_reason(cluster: Cluster, names: list[str]) -> None:
    config = cluster.config("busy", {**own(names[0]), "api": {}})
    text = config.read_text().replace(
        f"port = {names[0].partition(':')[2]}", f"port = {cluster.port}"
    )
    config.write_text(text)
    process = cluster._launch("busy", "ironic-rs-conductor", config)
    assert process.wait(60) == 1
    assert "Cannot listen on [json_rpc]host_ip" in process.text()
    assert "Traceback" not in process.text()
