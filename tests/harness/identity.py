"""A real Keystone: the released one, over SQLite, in an environment of its own.

:mod:`tests.harness.keystone` is a stand-in for tests that are not about Keystone.
"""

from __future__ import annotations

import contextlib
import datetime
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.harness.servers import HOST, OwnServer, for_this_process, free_port, wait_until
from tests.harness.suites import Environment, environ

REQUIREMENTS = Path(__file__).parents[1] / "integration" / "suites" / "keystone.txt"
REGION = "RegionOne"
PASSWORD = "secret"
#: Project of the services, and our user there.
SERVICE_PROJECT, SERVICE_USER = "service", "ironic"
_ADMIN = "admin"


@dataclass(frozen=True)
class Account:
    """A user with roles in one place.

    :param project: name of the project; None: the roles are on the system.
    """

    name: str
    roles: tuple[str, ...]
    project: str | None = None

    def auth(self, url: str) -> dict[str, Any]:
        """Return the ``auth`` of a cloud, for keystoneauth's plug-in ``password``."""
        if self.project is None:
            scope = {"system_scope": "all"}
        else:
            scope = {"project_name": self.project, "project_domain_id": "default"}
        return {
            "auth_url": url,
            "username": self.name,
            "password": PASSWORD,
            "user_domain_id": "default",
            **scope,
        }


#: Who the tests may be, by what they are: the service users, system users, and users of
#: projects that own (O), rent (L) or have nothing to do (T) with machines.
ACCOUNTS = (
    Account(SERVICE_USER, ("admin", "service"), SERVICE_PROJECT),
    Account("nova", ("service",), SERVICE_PROJECT),
    *(Account(f"system-{role}", (role,)) for role in ("admin", "member", "reader")),
    *(
        Account(f"{project}-{role}", (role,), project)
        for project, roles in {
            "O": ("admin", "manager", "member", "reader", "service"),
            "L": ("admin", "manager", "member", "reader"),
            "T": ("admin", "member"),
        }.items()
        for role in roles
    ),
)


class Identity(OwnServer):
    """The service; ``url`` is its endpoint.

    :param folder: its database, keys and log.
    :ivar projects: name -> id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://{HOST}:{port}/v3"
        self.http = requests.Session()
        self.projects: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._bin = Environment(REQUIREMENTS).make().bin
        self._config = folder / "keystone.conf"
        # One request at a time: two transactions that read and then write the same SQLite
        # file can not both go on.
        serve = f"--bind={HOST}:{port} --worker-class=gthread --threads=1 --keep-alive=60"
        super().__init__(
            # Without arguments: Keystone would take them for its own.
            [str(self._bin / "gunicorn")],
            port,
            folder / "keystone.log",
            {
                "OS_KEYSTONE_CONFIG_FILES": str(self._config),
                "GUNICORN_CMD_ARGS": f"{serve} --no-control-socket --config={folder}/gunicorn.py",
            },
        )

    def start(self) -> None:
        """Make the database and the accounts, and serve."""
        self._configure()
        with self._manage("db_sync"):
            user = ["--keystone-user", str(self.folder.owner())]
            group = ["--keystone-group", str(self.folder.group())]
            with self._manage("fernet_setup", *user, *group):
                pass
        bootstrap = ["--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION]
        for interface in ("public", "internal"):
            bootstrap += [f"--bootstrap-{interface}-url", self.url]
        with self._manage("bootstrap", *bootstrap):
            super().start()
        # It listens before it has loaded the application.
        wait_until(self._answers, f"Keystone answers, see {self.log}")
        self._log_in()
        self.add(ACCOUNTS)

    def _configure(self) -> None:
        for name in ("fernet", "credential"):
            (self.folder / name).mkdir(mode=0o700)
        (self.folder / "gunicorn.py").write_text('wsgi_app = "keystone.wsgi.api:application"\n')
        # bcrypt's least rounds: passwords of tests need no protection, only time.
        self._config.write_text(
            f"""
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{self.folder}/keystone.sqlite
[identity]
password_hash_rounds = 4
[token]
provider = fernet
expiration = 7200
[fernet_tokens]
key_repository = {self.folder}/fernet
[credential]
key_repository = {self.folder}/credential
[cache]
enabled = true
backend = dogpile.cache.memory
"""
        )

    def _manage(self, *args: str) -> _Command:
        program = [str(self._bin / "keystone-manage"), "--config-file", str(self._config)]
        return _Command([*program, *args], self.folder)

    def _answers(self) -> bool:
        try:
            return self.http.get(self.url, timeout=10).ok
        except (requests.ConnectionError, requests.Timeout):
            return False

    # Administration, through the API

    def _log_in(self) -> None:
        # Keystone keeps what it finds out about a token of a project, not of the system.
        admin = Account(_ADMIN, ("admin",), project=_ADMIN)
        self.http.headers["X-Auth-Token"] = self.token(admin)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, self.url + path, json=body, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _make(self, kind: str, **values: Any) -> str:
        return str(self._call("POST", f"/{kind}s", {kind: values})[kind]["id"])

    def add(self, accounts: Iterable[Account]) -> None:
        """Make users with their projects and roles; what exists is kept."""
        roles = {role["name"]: role["id"] for role in self._call("GET", "/roles")["roles"]}
        for account in accounts:
            if account.name not in self._users:
                values = {"name": account.name, "password": PASSWORD, "domain_id": "default"}
                self._users[account.name] = self._make("user", **values)
            place = "/system"
            if account.project is not None:
                if account.project not in self.projects:
                    made = self._make("project", name=account.project, domain_id="default")
                    self.projects[account.project] = made
                place = f"/projects/{self.projects[account.project]}"
            for role in account.roles:
                user = self._users[account.name]
                self._call("PUT", f"{place}/users/{user}/roles/{roles[role]}")

    def offer(self, kind: str, url: str) -> None:
        """Put a service into the catalog, or move it."""
        services = self._call("GET", f"/services?type={kind}")["services"]
        service = services[0]["id"] if services else self._make("service", type=kind, name=kind)
        for old in self._call("GET", f"/endpoints?service_id={service}")["endpoints"]:
            self._call("DELETE", f"/endpoints/{old['id']}")
        for interface in ("public", "internal"):
            self._make(
                "endpoint", service_id=service, interface=interface, url=url, region_id=REGION
            )

    # Users

    def account(self, name: str) -> Account:
        """Return one of the accounts."""
        return next(account for account in ACCOUNTS if account.name == name)

    def token(self, account: Account | str) -> str:
        """Log in; return the token."""
        if isinstance(account, str):
            account = self.account(account)
        scope: Mapping[str, Any] = {"system": {"all": True}}
        if account.project is not None:
            scope = {"project": {"name": account.project, "domain": {"id": "default"}}}
        user = {"name": account.name, "domain": {"id": "default"}, "password": PASSWORD}
        identity = {"methods": ["password"], "password": {"user": user}}
        return self._issue({"identity": identity, "scope": scope})

    def short_token(self, name: str, ends: datetime.datetime) -> str:
        """Return a token of a user that expires at a time."""
        http = requests.Session()
        http.headers["X-Auth-Token"] = self.token(name)
        values = {"name": f"until {ends}", "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%S.%f")}
        answer = http.post(
            f"{self.url}/users/{self._users[name]}/application_credentials",
            json={"application_credential": values},
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
        made = answer.json()["application_credential"]
        credential = {"id": made["id"], "secret": made["secret"]}
        methods = ["application_credential"]
        return self._issue({"identity": {"methods": methods, methods[0]: credential}})

    def _issue(self, auth: Mapping[str, Any]) -> str:
        answer = requests.post(f"{self.url}/auth/tokens", json={"auth": auth}, timeout=60)
        assert answer.status_code == 201, f"{auth}: {answer.status_code} {answer.text}"
        return answer.headers["X-Subject-Token"]

    def is_valid(self, token: str) -> bool:
        """Ask whether a token is good."""
        headers = {"X-Subject-Token": token}
        return self.http.head(f"{self.url}/auth/tokens", headers=headers, timeout=60).ok

    def revoke(self, token: str) -> None:
        """Make a token worthless."""
        headers = {"X-Subject-Token": token}
        answer = self.http.delete(f"{self.url}/auth/tokens", headers=headers, timeout=60)
        assert answer.status_code == 204, answer.text

    # Services

    def options(self) -> dict[str, dict[str, Any]]:
        """Return the options of our service that have it ask this Keystone."""
        log_in = {
            "auth_type": "password",
            "region_name": REGION,
            **self.account(SERVICE_USER).auth(self.url),
        }
        return {
            "DEFAULT": {"auth_strategy": "keystone"},
            "keystone_authtoken": {"www_authenticate_uri": self.url, **log_in},
            "neutron": dict(log_in),
            "service_catalog": dict(log_in),
        }


@contextlib.contextmanager
def own_identity(folder: Path) -> Iterator[Identity]:
    """A Keystone for the life of the block."""
    identity = Identity(folder)
    try:
        identity.start()
        yield identity
    finally:
        identity.stop()


def shared_identity() -> Identity:
    """The Keystone of this test process, started when first asked for."""
    return for_this_process("keystone", own_identity)


class _Command:
    """A command that runs while the block does, and has to succeed."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._popen = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=environ({}),
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        out, _ = self._popen.communicate(timeout=120)
        assert self._popen.returncode == 0, f"{self._command}: {out[-4000:]}"
