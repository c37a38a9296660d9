"""The floor under the REST API: the same rows by raw SQL and orjson, and a bare Pecan.

Served by the same HTTP server as the product.  Run by ``rest_api.py``:

    python tests/benchmarks/rest_floor.py --port PORT --database HOST:PORT/NAME
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import orjson
import pecan
import pymysql
from pecan.core import ExplicitPecan

from ironic_rs.conf import CONF
from ironic_rs.service.wsgi import WsgiServer

JSON_COLUMNS = {
    "clean_step",
    "deploy_step",
    "driver_info",
    "driver_internal_info",
    "extra",
    "instance_info",
    "internal_info",
    "local_link_connection",
    "network_data",
    "properties",
    "raid_config",
    "service_step",
    "target_raid_config",
    "health",
}
SHORT = "uuid,name,instance_uuid,maintenance,power_state,provision_state"
NOVA = (
    "uuid,power_state,target_power_state,provision_state,target_provision_state,last_error,"
    "maintenance,properties,instance_uuid,resource_class"
)

WSGIApplication = Callable[..., list[bytes]]


class Database:
    """One PyMySQL connection for each thread."""

    def __init__(self, where: str) -> None:
        address, _, self._name = where.partition("/")
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._local = threading.local()

    def query(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = pymysql.connect(
                host=self._host,
                port=self._port,
                user="root",
                database=self._name,
                autocommit=True,
                charset="utf8mb4",
            )
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        parsed = [name for name in names if name in JSON_COLUMNS]
        for row in rows:
            for name in parsed:
                if row[name] is not None:
                    row[name] = orjson.loads(row[name])
        return rows


def documents(database: Database, path: str, query: dict[str, list[str]]) -> Any:
    """Return the rows that a request of the product shows."""
    limit = int(query.get("limit", ["1000"])[0])
    if path == "/ports":
        return {
            "ports": database.query(
                "SELECT p.*, n.uuid AS node_uuid FROM ports p JOIN nodes n ON n.id = p.node_id "
                "ORDER BY p.id LIMIT %s",
                limit,
            )
        }
    if path.startswith("/node/"):
        ident = path.removeprefix("/node/")
        column = "uuid" if len(ident) == 36 else "name"
        (node,) = database.query(f"SELECT * FROM nodes WHERE {column} = %s", ident)
        traits = database.query("SELECT trait FROM node_traits WHERE node_id = %s", node["id"])
        return {**node, "traits": [row["trait"] for row in traits]}
    columns = {"short": SHORT, "nova": f"id,{NOVA}", "detail": "*"}[path.removeprefix("/nodes/")]
    nodes = database.query(f"SELECT {columns} FROM nodes ORDER BY id LIMIT %s", limit)
    if path != "/nodes/short":
        traits_of: dict[int, list[str]] = {}
        for row in database.query(
            "SELECT node_id, trait FROM node_traits WHERE node_id BETWEEN %s AND %s",
            nodes[0]["id"],
            nodes[-1]["id"],
        ):
            traits_of.setdefault(row["node_id"], []).append(row["trait"])
        for node in nodes:
            node["traits"] = traits_of.get(node["id"], [])
    return {"nodes": nodes}


def raw(database: Database) -> WSGIApplication:
    """Return the application without any framework."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        query = parse_qs(environ["QUERY_STRING"])
        body = orjson.dumps(documents(database, environ["PATH_INFO"], query))
        start_response(
            "200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]

    return application


class Single:
    """A Pecan controller that returns one node, and nothing more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @pecan.expose("json")
    def node(self, request: Any, response: Any, ident: str) -> Any:
        return documents(self._database, f"/node/{ident}", {})


def serve(port: int, database: Database) -> None:
    """Serve ``/pecan/node/<ident>`` by Pecan and everything else without."""
    plain = raw(database)
    bare = ExplicitPecan(Single(database), force_canonical=False)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"].startswith("/pecan/"):
            environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix("/pecan")
            return bare(environ, start_response)
        return plain(environ, start_response)

    CONF([], default_config_files=[], default_config_dirs=[])
    sock = socket.create_server(("127.0.0.1", port), backlog=1024)
    server = WsgiServer(application, CONF, sock)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.stop).start())
    server.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", required=True)
    options = parser.parse_args()
    serve(options.port, Database(options.database))


if __name__ == "__main__":
    main()
