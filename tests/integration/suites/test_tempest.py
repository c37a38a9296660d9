"""The API tests of ironic-tempest-plugin, as released, with a real Keystone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, running
from tests.harness.identity import PASSWORD, REGION, Account, Identity, shared_identity
from tests.harness.networking import NETWORK, Networking
from tests.harness.suites import Environment, stestr

#: Classes that run at a time; they wait for states most of the time.
WORKERS = 4
TESTS = 494
#: name or pattern of tests -> why they do not pass.
DIFFERENT = {
    "setUpClass (*.test_nodes.TestNodeGraphicalConsole)": (
        "needs a graphical console, and connects to an outside address"
    ),
    "setUpClass (*.test_console.TestGraphicalConsole)": (
        "needs a graphical console: fake-graphical is not offered yet"
    ),
}

#: What an operator enables so that no test has to be skipped.
ENABLED = {
    "hardware_types": "fake-hardware,ipmi,manual-management",
    "bios_interfaces": "fake,no-bios",
    "boot_interfaces": "fake,pxe,ipxe",
    "console_interfaces": "fake,no-console",
    "deploy_interfaces": "fake,direct",
    "firmware_interfaces": "fake,no-firmware",
    "inspect_interfaces": "fake,no-inspect",
    "management_interfaces": "fake,ipmitool,noop",
    "network_interfaces": "noop,flat",
    "power_interfaces": "fake,ipmitool",
    "raid_interfaces": "fake,no-raid",
    "rescue_interfaces": "fake,no-rescue",
    "storage_interfaces": "noop,fake,external",
    "vendor_interfaces": "fake,no-vendor,ipmitool",
}
#: What of it Tempest has options for; it skips tests by them.
KNOWN_TO_TEMPEST = (
    "hardware_types",
    *(
        f"{kind}_interfaces"
        for kind in (
            "bios",
            "boot",
            "console",
            "deploy",
            "inspect",
            "management",
            "power",
            "raid",
            "rescue",
        )
    ),
)

ACCOUNTS = [
    account
    for worker in range(WORKERS)
    for account in (
        Account(f"system-admin-{worker}", ("admin",)),
        Account(f"system-reader-{worker}", ("reader",)),
        *(
            Account(f"{role}-{worker}", (role,), f"tempest-{worker}")
            for role in ("admin", "member", "reader")
        ),
    )
]


@pytest.fixture(scope="module")
def keystone() -> Identity:
    keystone = shared_identity()
    keystone.add(ACCOUNTS)
    return keystone


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, keystone: Identity) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("service")
    options = keystone.options()
    options["DEFAULT"] |= {f"enabled_{kind}": names for kind, names in ENABLED.items()}
    with Networking().running() as networking:
        options["neutron"] = {
            "auth_type": "none",
            "endpoint_override": networking.url,
            "cleaning_network": NETWORK,
            "provisioning_network": NETWORK,
        }
        database = f"sqlite:///{folder}/ironic.sqlite"
        with running(Cluster(folder, database, "fake://", options)) as cluster:
            keystone.offer("baremetal", cluster.url)
            keystone.offer("network", networking.url)
            cluster.http.headers["X-Auth-Token"] = keystone.token("system-admin")
            cluster.migrate()
            cluster.start_all_in_one()
            yield cluster


def configure(folder: Path, keystone: Identity) -> None:
    """Write what Tempest has to know."""
    accounts = []
    for account in ACCOUNTS:
        scope = {"system": "all"}
        if account.project is not None:
            scope = {"project_name": account.project, "project_domain_name": "Default"}
        accounts.append(
            {
                "username": account.name,
                "password": PASSWORD,
                "user_domain_name": "Default",
                "roles": list(account.roles),
                **scope,
            }
        )
    (folder / "accounts.yaml").write_text(json.dumps(accounts))
    enabled = "\n".join(f"enabled_{kind} = {ENABLED[kind]}" for kind in KNOWN_TO_TEMPEST)
    (folder / "tempest.conf").write_text(
        f"""
[DEFAULT]
log_file = {folder}/tempest.log
[oslo_concurrency]
lock_path = {folder}/locks
[auth]
use_dynamic_credentials = false
test_accounts_file = {folder}/accounts.yaml
create_isolated_networks = false
[identity]
auth_version = v3
uri_v3 = {keystone.url}
region = {REGION}
[service_available]
ironic = true
neutron = true
nova = false
glance = false
cinder = false
swift = false
[enforce_scope]
ironic = true
[compute]
build_interval = 1
build_timeout = 60
[baremetal]
driver = fake-hardware
{enabled}
"""
    )


@pytest.mark.timeout(1200)
def test_the_api_tests_of_tempest(
    service: Cluster, keystone: Identity, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    environment = Environment(Path(__file__).with_name("tempest.txt")).make()
    configure(tmp_path, keystone)
    results = stestr(
        environment,
        tmp_path,
        environment.packages / "ironic_tempest_plugin" / "tests" / "api",
        environment.packages,
        {"TEMPEST_CONFIG_DIR": str(tmp_path), "TEMPEST_CONFIG": "tempest.conf"},
        workers=WORKERS,
        timeout=1140,
    )
    tell(results.summary("ironic-tempest-plugin 3.2.0 API"))
    results.check(TESTS, DIFFERENT)
