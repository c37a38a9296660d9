"""Finding the route of a request in the route table.

Source: specification rest-api.md sections 1, 2.1, 5.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ironic_rs.api import args
from ironic_rs.api.documents import Chosen, Document, Whole
from ironic_rs.api.errors import RouterError
from ironic_rs.api.microversions import V
from ironic_rs.domain import errors, names

if TYPE_CHECKING:
    from ironic_rs.api.call import Call
    from ironic_rs.api.notify import Event

Handler = Callable[["Call"], Any]

PREFIX = "v1"
ANY_METHOD = "*"
_SUFFIX = ".json"
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
    :param late: the handler checks the version, after the policy.
    :param sometimes: rules that are asked besides the policy, by what the body says.
    :param even_at: minor versions below ``since`` that have the operation as well.
    :param etag: the answer carries an entity tag; None: when it shows one resource.
    :param event: what notifications tell about it.
    :param conditional: If-Match is a condition of it; None: when it changes one thing.
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
    late: bool = False
    sometimes: tuple[str, ...] = ()
    even_at: tuple[int, ...] = ()
    etag: bool | None = None
    conditional: bool | None = None
    event: Event | None = None

    def __post_init__(self) -> None:
        if self.etag is None:
            object.__setattr__(self, "etag", isinstance(self.answer, Whole | Chosen))
        if self.conditional is None:
            changes_one = self.method in ("PATCH", "PUT", "DELETE") and "{" in self.path
            object.__setattr__(self, "conditional", changes_one)

    def exists(self, minor: int) -> bool:
        """Tell whether microversion 1.``minor`` has the operation."""
        return minor >= self.since or minor in self.even_at


#: A route and the arguments of the path.
Found = tuple[Route, dict[str, str]]


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

    def readings(self, method: str, path: str, minor: int, *, versioned: bool) -> list[Found]:
        """Return what a request may mean, the exact path first.

        Before 1.91 a ``.json`` at the end of a path may be the format: that counts only
        where the path as it is leads nowhere, or names what does not exist.

        :param versioned: the client names a version.
        :raises RouterError, NotFound, NotAcceptable: as of :meth:`find`.
        """
        if not (versioned and minor < V.LITERAL_JSON and path.endswith(_SUFFIX)):
            return [self.find(method, path, minor)]
        found = []
        with contextlib.suppress(RouterError, errors.IronicError):
            found.append(self.find(method, path, minor))
        try:
            found.append(self.find(method, path.removesuffix(_SUFFIX), minor))
        except (RouterError, errors.IronicError):
            if not found:
                raise
        return found

    def find(self, method: str, path: str, minor: int) -> Found:
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
                # What is no state can not be set.
                of_states = method == "PUT" and parts[-2] == "states"
                status = 405 if of_states and part is parts[-1] else 404
                raise RouterError(status, _nothing_at(path, place))
        if not place.methods:
            raise RouterError(404, _nothing_at(path, place))
        if method == "HEAD" and len(parts) == 1 and "GET" in place.methods:
            method = "GET"  # of the root and version documents only
        route = place.methods.get(method) or place.methods.get(ANY_METHOD)
        if route is None:
            if all(r.below == 404 and not r.exists(minor) for r in place.methods.values()):
                raise RouterError(404)
            missing = place.parameter if arguments else None
            if missing is not None and method in missing[1].methods:
                raise RouterError(400, f"The path ends before the name: {missing[0]} is missing.")
            allow = sorted(place.methods)
            text = f"{method[:20]} is not possible at {_shown(path)}; accepted: {', '.join(allow)}."
            raise RouterError(405, text, allow=allow)
        _check_idents(arguments)
        if not route.exists(minor) and not route.late:
            raise _gate(route, minor)
        return route, arguments


def _nothing_at(path: str, place: _Place) -> str:
    """Say that there is no such path, and what there is where it ends to be known."""
    known = sorted(place.literals)
    hint = f" Accepted after what is known of it: {', '.join(known)}." if known else ""
    return f"There is nothing at {_shown(path)}.{hint}"


def _shown(path: str) -> str:
    return ascii(f"/{path.strip('/')[:255]}")[1:-1]


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
            raise RouterError(
                404, f"'{ident}' is a part of nodes: name the node, as in /v1/nodes/NODE/{ident}."
            )


def _gate(route: Route, minor: int) -> Exception:
    what = f"{route.method} {route.path}"
    if route.below == 405:
        return RouterError(405, str(args.too_new(what, route.since, minor)))
    return args.too_new(what, route.since, minor, route.below)
