"""Chaos by seed: what breaks when, a load of lifecycles meanwhile, and what must hold.

The seed alone decides the schedule and what each node is asked for; the rest is real
time.  Two conductors, an API, a broker, a database server and simulated machines are
real processes.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
import requests
import sqlalchemy

from ironic_rs.domain import states
from tests.harness.cluster import FAST, VERSION, Cluster, Sandbox
from tests.harness.servers import HOST, OwnServer

HOSTS = ("c1", "c2")

#: Seconds within which a survivor has to free what a dead conductor holds, and as much
#: again for a busy machine and servers that are just being restarted.
DEAD_BOUND = 3.0 * (
    FAST["conductor"]["heartbeat_timeout"]
    + FAST["DEFAULT"]["hash_ring_reset_interval"]
    + FAST["conductor"]["check_provision_state_interval"]
)
#: Longest time in seconds in which a node may be on its way.
SETTLE_BOUND = 240.0
#: Options that make waiting short enough for many failures in a few minutes.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {"rpc_response_timeout": 10},
    "conductor": {
        "deploy_callback_timeout": 40,
        "clean_callback_timeout": 40,
        "service_callback_timeout": 40,
        "rescue_callback_timeout": 40,
        "inspect_wait_timeout": 40,
        "check_allocations_interval": 2,
        "check_rescue_state_interval": 2,
    },
    # Long enough for something to happen meanwhile.
    "fake": {
        f"{name}_delay": "0.2,1.5"
        for name in ("deploy", "inspect", "power", "raid", "rescue", "vendor", "boot")
    },
}


@dataclass(frozen=True)
class Event:
    """Something that breaks.

    :param at: seconds after the begin.
    :param action: ``kill`` and ``freeze`` of a conductor, ``restart`` of a server.
    :param target: ``c1``, ``c2``, ``broker`` or ``database``.
    :param seconds: how long it stays away.
    """

    at: float
    action: str
    target: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:6.1f} s: {self.action} {self.target} for {self.seconds:.1f} s"


def schedule(seed: int, seconds: float) -> list[Event]:
    """Return what breaks in so many seconds; the same for the same seed."""
    dice = random.Random(seed)
    timeout = FAST["conductor"]["heartbeat_timeout"]
    events = []
    at = dice.uniform(4, 8)
    while at < seconds:
        action = dice.choices(
            ("kill", "freeze", "broker", "database"), weights=(45, 30, 10, 15), k=1
        )[0]
        if action == "kill":
            # Back before, at about, or long after others hold it for dead.
            away = dice.choice(
                (0.0, dice.uniform(1, timeout), dice.uniform(timeout, 2.5 * timeout))
            )
            events.append(Event(at, "kill", dice.choice(HOSTS), away))
        elif action == "freeze":
            away = dice.choice((dice.uniform(1, 4), dice.uniform(timeout + 1, 2.5 * timeout)))
            events.append(Event(at, "freeze", dice.choice(HOSTS), away))
        else:
            events.append(Event(at, "restart", action, dice.uniform(0, 3)))
        # Mostly one after the other, at times two at once.
        at += dice.choice((dice.uniform(0.5, 3), dice.uniform(5, 15), dice.uniform(8, 20)))
    return events


class Audit:
    """What the database saw: writes by a conductor that did not hold the node.

    Each conductor has a database user of its own, so that a trigger knows who writes.
    """

    _TABLE = "chaos_audit"
    #: Columns that only the holder of a node may change.
    _COLUMNS = (
        "provision_state",
        "target_provision_state",
        "power_state",
        "target_power_state",
        "instance_info",
        "instance_uuid",
        "clean_step",
        "deploy_step",
        "service_step",
        "driver_internal_info",
        "maintenance",
        "last_error",
    )

    def __init__(self, server: OwnServer, database: str) -> None:
        self._server = server
        self.database = database.rsplit("/", 1)[1].split("?", maxsplit=1)[0]

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = pymysql.connect(
            host=HOST, port=self._server.port, user="root", database=self.database, autocommit=True
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            yield cursor

    def url(self, host: str) -> str:
        """Database URL for a conductor."""
        where = f"{HOST}:{self._server.port}/{self.database}"
        return f"mysql+pymysql://{host}@{where}?charset=utf8mb4"

    def install(self) -> None:
        """Make the users and the trigger; the schema is there."""
        changed = " OR ".join(f"NOT (OLD.{name} <=> NEW.{name})" for name in self._COLUMNS)
        with self._cursor() as cursor:
            for host in HOSTS:
                cursor.execute(f"CREATE USER '{host}'@'{HOST}'")
                cursor.execute(f"GRANT ALL ON {self.database}.* TO '{host}'@'{HOST}'")
            cursor.execute(
                f"CREATE TABLE {self._TABLE} (at DATETIME(3), who VARCHAR(80), node VARCHAR(36), "
                "holder VARCHAR(255), old VARCHAR(30), new VARCHAR(30), wrong BOOLEAN)"
            )
            cursor.execute(
                f"CREATE TRIGGER chaos BEFORE UPDATE ON nodes FOR EACH ROW "
                f"IF SUBSTRING_INDEX(USER(), '@', 1) <> 'root' AND ({changed}) THEN "
                f"INSERT INTO {self._TABLE} VALUES (NOW(3), SUBSTRING_INDEX(USER(), '@', 1), "
                "OLD.uuid, OLD.reservation, OLD.provision_state, NEW.provision_state, "
                "NOT (OLD.reservation <=> SUBSTRING_INDEX(USER(), '@', 1) OR "
                "NEW.reservation <=> SUBSTRING_INDEX(USER(), '@', 1))); END IF"
            )

    def prove(self) -> None:
        """Make sure that a write without the lock is seen."""
        engine = sqlalchemy.create_engine(self.url(HOSTS[0]))
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE nodes SET last_error = 'by nobody' LIMIT 1")
        engine.dispose()
        (seen,) = self.violations()
        assert f"{HOSTS[0]} wrote to" in seen
        with self._cursor() as cursor:
            cursor.execute(f"DELETE FROM {self._TABLE}")
            cursor.execute("UPDATE nodes SET last_error = NULL")

    def violations(self) -> list[str]:
        """Return the writes to a node that somebody else, or nobody, held, and bad moves."""
        with self._cursor() as cursor:
            cursor.execute(f"SELECT at, who, node, holder, old, new, wrong FROM {self._TABLE}")
            rows = cursor.fetchall()
        wrong = [
            f"{at} {who} wrote to {node}, held by {holder}: {old} -> {new}"
            for at, who, node, holder, old, new, bad in rows
            if bad
        ]
        return wrong + [
            f"{at} {who} moved {node} from {old} to {new}, which no event does"
            for at, who, node, _holder, old, new, _bad in rows
            if not _is_move(old, new)
        ]

    def moves(self, node: str) -> list[str]:
        """Return the way of a node through the states."""
        with self._cursor() as cursor:
            cursor.execute(
                f"SELECT at, who, old, new FROM {self._TABLE} WHERE node = %s AND old <> new "
                "ORDER BY at",
                (node,),
            )
            return [f"{at} {who}: {old} -> {new}" for at, who, old, new in cursor.fetchall()]

    def locks(self) -> dict[str, str]:
        """Return uuid -> holder of the locked nodes."""
        with self._cursor() as cursor:
            cursor.execute("SELECT uuid, reservation FROM nodes WHERE reservation IS NOT NULL")
            return dict(cursor.fetchall())


def _is_move(old: str, new: str) -> bool:
    """Tell whether an event leads there, or a refused request leads back."""
    return (
        old == new
        or new in states.STATES[old].events.values()
        or old in states.STATES[new].events.values()
    )


@dataclass
class Place:
    """Everything that can break."""

    cluster: Cluster
    sandbox: Sandbox
    servers: Mapping[str, OwnServer]
    audit: Audit
    #: host -> since when it is dead (monotonic), while it is.
    dead: dict[str, float] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)


class Breaker(threading.Thread):
    """Works off the schedule, and starts what ended as a supervisor does."""

    def __init__(self, place: Place, events: Sequence[Event], begun: float) -> None:
        super().__init__(name="breaker", daemon=True)
        self._place, self._events, self._begun = place, events, begun
        self._repairs: list[tuple[float, Callable[[], None]]] = []
        self._busy: set[str] = set()
        self.done = Counter[str]()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            left = list(self._events)
            while left or self._repairs:
                now = time.monotonic() - self._begun
                for repair in [r for r in self._repairs if r[0] <= now]:
                    self._repairs.remove(repair)
                    repair[1]()
                while left and left[0].at <= now:
                    self._break(left.pop(0))
                self._supervise()
                time.sleep(0.05)
        except BaseException as exc:
            self.error = exc

    def _break(self, event: Event) -> None:
        if event.target in self._busy:
            print(f"skipped, {event.target} is away already: {event}", flush=True)
            return
        print(event, flush=True)
        self._busy.add(event.target)
        self.done[f"{event.action} {event.target}"] += 1
        repair = getattr(self, f"_{event.action}")(event.target)
        self._repairs.append((time.monotonic() - self._begun + event.seconds, repair))

    def _kill(self, host: str) -> Callable[[], None]:
        process = self._place.cluster.processes[host]
        process.kill()
        self._place.dead[host] = time.monotonic()

        def back() -> None:
            process.start()
            self._place.dead.pop(host, None)
            self._busy.discard(host)

        return back

    def _freeze(self, host: str) -> Callable[[], None]:
        process = self._place.cluster.processes[host]
        process.signal(signal.SIGSTOP)
        self._place.dead[host] = time.monotonic()

        def back() -> None:
            process.signal(signal.SIGCONT)
            self._place.dead.pop(host, None)
            self._busy.discard(host)

        return back

    def _restart(self, name: str) -> Callable[[], None]:
        server = self._place.servers[name]
        self._place.down.add(name)
        server.stop()

        def back() -> None:
            server.start()
            self._place.down.discard(name)
            self._busy.discard(name)

        return back

    def _supervise(self) -> None:
        """Start a conductor again that ended by itself."""
        for host in HOSTS:
            process = self._place.cluster.processes[host]
            if host not in self._busy and not process.alive:
                print(f"{host} ended by itself, starting it again", flush=True)
                self.done[f"{host} ended by itself"] += 1
                process.start()


class Watch(threading.Thread):
    """Looks at the locks all the time."""

    def __init__(self, place: Place) -> None:
        super().__init__(name="watch", daemon=True)
        self._place = place
        self._stop_it = threading.Event()
        self.violations: list[str] = []
        self.looks = 0

    def run(self) -> None:
        # (node, host) -> seconds for which a dead conductor held it, the database being up.
        held: Counter[tuple[str, str]] = Counter()
        last = time.monotonic()
        while not self._stop_it.wait(0.5):
            now = time.monotonic()
            passed, last = now - last, now
            if self._place.down or len(self._place.dead) == len(HOSTS):
                # There is nobody who could free a lock.
                continue
            try:
                locks = self._place.audit.locks()
            except pymysql.MySQLError:
                continue
            self.looks += 1
            current = {(node, host) for node, host in locks.items() if host in self._place.dead}
            for key in [key for key in held if key not in current]:
                del held[key]
            for key in current:
                before = held[key]
                held[key] = before + passed  # type: ignore[assignment]
                if before < DEAD_BOUND <= held[key]:
                    self.violations.append(
                        f"node {key[0]} is held by {key[1]}, which is dead, for {DEAD_BOUND} s"
                    )

    def stop(self) -> None:
        self._stop_it.set()
        self.join()


_POWER = ("power on", "power off", "rebooting")
_STEP = [{"interface": "vendor", "step": "log_passthrough"}]
#: State -> what may be asked for there, by its weight.
_FAKE: Mapping[str, Mapping[str, int]] = {
    states.ENROLL: {"manage": 1},
    states.MANAGEABLE: {"provide": 4, "inspect": 2, "clean": 2, "power": 2},
    states.AVAILABLE: {"active": 5, "manage": 1},
    states.ACTIVE: {"deleted": 3, "rebuild": 2, "rescue": 2, "service": 2, "power": 2},
    states.RESCUE: {"unrescue": 3, "deleted": 1},
    states.DEPLOYFAIL: {"deleted": 2, "active": 1},
    states.ERROR: {"deleted": 1},
    states.CLEANFAIL: {"manage": 1},
    states.INSPECTFAIL: {"manage": 1, "inspect": 1},
    states.RESCUEFAIL: {"unrescue": 1, "deleted": 1},
    states.UNRESCUEFAIL: {"unrescue": 1, "deleted": 1},
    states.SERVICEFAIL: {"abort": 2, "deleted": 1},
}
_SANDBOX: Mapping[str, Mapping[str, int]] = {
    **_FAKE,
    states.MANAGEABLE: {"provide": 4, "inspect": 1, "power": 1},
    states.ACTIVE: {"deleted": 3, "rebuild": 1, "power": 2},
}
_GOALS: Mapping[str, str] = {
    "manage": states.MANAGEABLE,
    "provide": states.AVAILABLE,
    "inspect": states.MANAGEABLE,
    "clean": states.MANAGEABLE,
    "active": states.ACTIVE,
    "rebuild": states.ACTIVE,
    "deleted": states.AVAILABLE,
    "rescue": states.RESCUE,
    "unrescue": states.ACTIVE,
    "service": states.ACTIVE,
    "abort": states.ACTIVE,
}
_SETTLED = (frozenset(states.STATES) - states.UNSTABLE) | states.FAILED


class Life(threading.Thread):
    """Asks one node for one thing after the other, as a stubborn user does.

    :param patch: put into instance_info before each deployment.
    """

    def __init__(
        self, place: Place, uuid: str, seed: str, table: str, info: Mapping[str, Any]
    ) -> None:
        super().__init__(name=f"life of {uuid}", daemon=True)
        self._url = f"{place.cluster.url}/v1/nodes/{uuid}"
        self._dice = random.Random(seed)
        self._table = _SANDBOX if table == "sandbox" else _FAKE
        self._info = dict(info)
        self._end = threading.Event()
        self._http = requests.Session()
        self._http.headers.update({"X-OpenStack-Ironic-API-Version": VERSION})
        self.uuid = uuid
        self.outcomes = Counter[str]()
        self.violations: list[str] = []
        #: Action -> when its request got no answer, or one that leaves its outcome open.
        self._open: dict[str, float] = {}

    def stop(self) -> None:
        """Ask for nothing more."""
        self._end.set()

    def run(self) -> None:
        try:
            while not self._end.is_set():
                self._turn()
        except Exception as exc:
            self.violations.append(f"{self.uuid}: {type(exc).__name__}: {exc}")

    # Requests

    def _send(self, method: str, path: str = "", body: Any = None) -> requests.Response | None:
        """Send a request; None when there was no answer."""
        try:
            return self._http.request(method, self._url + path, json=body, timeout=60)
        except requests.RequestException:
            return None

    def _node(self, until: float) -> dict[str, Any]:
        """Return the node, as soon as the API can tell."""
        while True:
            answer = self._send("GET")
            if answer is not None and answer.status_code == 200:
                return dict(answer.json())
            if time.monotonic() > until:
                said = "no answer" if answer is None else answer.text
                raise AssertionError(f"the API does not show the node: {said}")
            time.sleep(0.3)

    def settled(self) -> dict[str, Any]:
        """Wait until nobody works on the node; return it."""
        until = time.monotonic() + SETTLE_BOUND
        while True:
            node = self._node(until)
            state = node["provision_state"]
            rests = state in _SETTLED and node["target_power_state"] is None
            if rests and node["reservation"] is None:
                return node
            if time.monotonic() > until:
                raise AssertionError(
                    f"stuck for {SETTLE_BOUND} s: {state}, held by {node['reservation']}, pending "
                    f"{node['target_power_state']}, last_error {node['last_error']}"
                )
            time.sleep(0.2)

    # One thing after the other

    def _turn(self) -> None:
        node = self.settled()
        if node["maintenance"]:
            self._send("DELETE", "/maintenance")
            time.sleep(0.2)
            return
        choices = self._table[node["provision_state"]]
        action = self._dice.choices(list(choices), weights=list(choices.values()), k=1)[0]
        self.ask(node, action)

    def ask(self, node: Mapping[str, Any], action: str) -> None:
        """Ask for an action, and see what comes of it."""
        errors_before = self._errors()
        answer = self._request(action)
        if answer is None or answer.status_code >= 500 or answer.status_code == 409:
            # Nobody knows, or nothing was accepted: either is an honest answer to see.
            self.outcomes[f"{action} not accepted"] += 1
            if answer is None or answer.status_code >= 500:
                self._open[action] = time.monotonic()
            time.sleep(self._dice.uniform(0.2, 0.8))
            return
        if answer.status_code >= 400:
            # The node has moved meanwhile, or is not where it may be asked.
            self.outcomes[f"{action} refused"] += 1
            time.sleep(0.5)
            return
        after = self.settled()
        goal = _GOALS.get(action)
        reached = goal is None or after["provision_state"] == goal
        self.outcomes[f"{action} {'done' if reached else 'failed'}"] += 1
        said = after["last_error"] or (self._errors() or 0) > (errors_before or 0)
        if not reached and not said:
            self.violations.append(
                f"{self.uuid}: '{action}' was accepted in state {node['provision_state']}, ended "
                f"in {after['provision_state']} and nothing says why; requests whose outcome was "
                f"open, by seconds ago: {self._ago()}"
            )

    def _ago(self) -> dict[str, float]:
        """Return the age of the last request of each action that got no clear answer."""
        now = time.monotonic()
        return {action: round(now - at, 1) for action, at in self._open.items()}

    def _request(self, action: str) -> requests.Response | None:
        if action == "power":
            target = self._dice.choice(_POWER)
            return self._send("PUT", "/states/power", {"target": target})
        body: dict[str, Any] = {"target": action}
        if action in ("clean", "service"):
            body[f"{action}_steps"] = _STEP
        elif action == "rescue":
            body["rescue_password"] = "secret"
        elif action in ("active", "rebuild") and self._info:
            patch = [{"op": "add", "path": "/instance_info", "value": self._info}]
            answer = self._send("PATCH", "", patch)
            if answer is None or answer.status_code != 200:
                return answer
        return self._send("PUT", "/states/provision", body)

    def _errors(self) -> int | None:
        """Return how many errors the history has; None when the API does not tell."""
        answer = self._send("GET", "/history")
        if answer is None or answer.status_code != 200:
            return None
        return sum(row["severity"] == "ERROR" for row in answer.json()["history"])

    def bring_to(self, goal: str, route: Mapping[str, str], limit: float) -> None:
        """Drive the node to a state; nothing breaks any more."""
        until = time.monotonic() + limit
        while True:
            node = self.settled()
            if node["provision_state"] == goal and not node["maintenance"]:
                return
            assert time.monotonic() < until, f"it does not get to {goal}: {node}"
            if node["maintenance"]:
                self._send("DELETE", "/maintenance")
            else:
                self.ask(node, route[node["provision_state"]])


#: How a user gets a node to ``available`` from wherever chaos has left it.
HOME: Mapping[str, str] = {
    states.ENROLL: "manage",
    states.MANAGEABLE: "provide",
    states.ACTIVE: "deleted",
    states.RESCUE: "deleted",
    states.DEPLOYFAIL: "deleted",
    states.ERROR: "deleted",
    states.CLEANFAIL: "manage",
    states.INSPECTFAIL: "manage",
    states.RESCUEFAIL: "deleted",
    states.UNRESCUEFAIL: "deleted",
    states.SERVICEFAIL: "deleted",
}
