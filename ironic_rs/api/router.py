"""Finding the route of a request in the route table.

Source: specification rest-api.md sections 1, 2.1, 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ironic_rs.api import args
from ironic_rs.api.documents import Document
from ironic_rs.api.errors import RouterError
from ironic_rs.domain import names

if TYPE_CHECKING:
    from ironic_rs.api.call import Call

Handler = Callable[["Call"], Any]

PREFIX = "v1"
ANY_METHOD = "*"
#: Sub-resources of a node: /v1/nodes/<one of these> is no node.
_NODE_PARTS = frozenset(
    {
        "ports",
        "portgroups",
        "vifs",
        "volume",
        "traits",
        "bios",
        "allocation",
        "history",
        "inventory",
        "children",
        "firmware",
        "vmedia",
    }
)


@dataclass(frozen=True)
class Route:
    """One operation of the API.

    :param path: template; ``{node}``, ``{portgroup}`` are checked while routing.
    :param handler: returns a JSON value, None or a :class:`~.call.Reply`.
    :param since: first minor version of the operation.
    :param below: status before that version: 404, 405 or 406.
    :param success: status of a good answer.
    :param policy: rules, without the visibility of the node, which comes first.
    :param args: arguments of query and (``body="args"``) body.
    :param body: None (refused unless empty), ``args``, or the document that it is.
    :param public: no authentication.
    :param answer: document of a good answer; None is no body.
    :param also: statuses that are answered besides the usual ones of the method.
    :param even_at: minor versions below ``since`` that have the operation as well.
    """

    method: str
    path: str
    handler: Handler
    since: int = 1
    below: int = 404
    success: int = 200
    policy: tuple[str, ...] = ()
    args: Sequence[args.Arg] = ()
    body: str | Document | None = None
    public: bool = False
    answer: Document | None = None
    also: tuple[int, ...] = ()
    even_at: tuple[int, ...] = ()

    def exists(self, minor: int) -> bool:
        """Tell whether microversion 1.``minor`` has the operation."""
        return minor >= self.since or minor in self.even_at


@dataclass
class _Place:
    """A node of the path tree."""

    literals: dict[str, _Place] = field(default_factory=dict)
    parameter: tuple[str, _Place] | None = None
    methods: dict[str, Route] = field(default_factory=dict)


class Router:
    """Maps method and path to a route.

    :param routes: the table; paths start with ``/v1`` or are ``/``.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Place()
        for route in routes:
            place = self._root
            for part in route.path.strip("/").split("/"):
                if part.startswith("{"):
                    if place.parameter is None:
                        place.parameter = (part[1:-1], _Place())
                    if place.parameter[0] != part[1:-1]:
                        raise ValueError(f"{route.path} calls {place.parameter[0]} another name")
                    place = place.parameter[1]
                else:
                    place = place.literals.setdefault(part, _Place())
            if route.method in place.methods:
                raise ValueError(f"{route.method} {route.path} is in the table twice")
            place.methods[route.method] = route

    def find(self, method: str, path: str, minor: int) -> tuple[Route, dict[str, str]]:
        """Return the route and the arguments of its path.

        :raises RouterError: 404 no such path (at this version), 405 no such method,
            400 malformed identifier.
        """
        parts = path.strip("/").split("/")
        if parts != [""] and parts[0] != PREFIX:
            # The prefix may be left out.
            parts.insert(0, PREFIX)
        place = self._root
        arguments: dict[str, str] = {}
        for part in parts:
            literal = place.literals.get(part)
            if literal is not None:
                place = literal
            elif place.parameter is not None and part:
                name, place = place.parameter
                arguments[name] = part
            else:
                raise RouterError(404)
        if not place.methods:
            raise RouterError(404)
        if method == "HEAD" and len(parts) == 1 and "GET" in place.methods:
            method = "GET"  # of the root and version documents only
        route = place.methods.get(method) or place.methods.get(ANY_METHOD)
        if route is None:
            raise RouterError(405, allow=sorted(place.methods))
        _check_idents(arguments)
        if not route.exists(minor):
            raise _gate(route, minor)
        return route, arguments


def _check_idents(arguments: Mapping[str, str]) -> None:
    for name in ("node", "portgroup"):
        ident = arguments.get(name)
        if ident is None:
            continue
        if not names.is_uuid_like(ident) and not names.is_logical_name(ident):
            raise RouterError(
                400,
                f"Expected UUID or name for {name}: {ascii(ident[:255])[1:-1]}",
                "invalid_uuid_or_name",
            )
        if name == "node" and ident in _NODE_PARTS:
            raise RouterError(404)


def _gate(route: Route, minor: int) -> Exception:
    if route.below == 405:
        return RouterError(405)
    return args.too_new(f"{route.method} {route.path}", route.since, minor, route.below)
