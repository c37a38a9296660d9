"""Explicit registry of RPC methods: nothing else of the conductor can be called.

Source: specification conductor.md sections 1.1, 1.3 and 17 (W27).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext

#: Version of the conductor RPC interface that this release speaks.
RPC_VERSION = "1.63"
#: First version in which methods about a node take a condition (CONDITION).
CONDITION_SINCE = "1.63"
#: Argument of any method about a node: revisions of the record that the caller accepts.
CONDITION = "if_match"
#: Topic of the conductors on the message bus.
CONDUCTOR_TOPIC = "ironic.conductor_manager"
#: Methods that are cast: the caller does not wait for their end.
CASTS = frozenset({"continue_node_clean", "continue_node_deploy", "continue_node_service"})

Handler = TypeVar("Handler", bound=Callable[..., Any])
_MARK = "__rpc_method__"


def version_tuple(version: str) -> tuple[int, int]:
    """Return ``"1.62"`` as ``(1, 62)``."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def rpc_method(name: str, since: str = "1.0") -> Callable[[Handler], Handler]:
    """Offer a method of an endpoint class over RPC.

    The handler is called as ``handler(context, **arguments)`` with plain JSON
    values and returns a plain JSON value.

    :param name: name on the wire.
    :param since: RPC version that introduced the method.
    """

    def mark(handler: Handler) -> Handler:
        setattr(handler, _MARK, (name, since))
        return handler

    return mark


@dataclass(frozen=True)
class Method:
    """One callable method: wire name, first version, handler."""

    name: str
    since: str
    handler: Callable[..., Any]
    signature: inspect.Signature


class Registry:
    """The RPC methods of one conductor, by name.

    :param timer: measures a call of the method of a name.
    """

    def __init__(
        self,
        endpoints: Iterable[object] = (),
        timer: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext(),
    ) -> None:
        self._timer = timer
        self._methods: dict[str, Method] = {}
        for endpoint in endpoints:
            self.add(endpoint)

    def add(self, endpoint: object) -> None:
        """Register every :func:`rpc_method` of ``endpoint``.

        :raises ValueError: a name is offered twice.
        """
        for attribute in dir(type(endpoint)):
            mark = getattr(getattr(type(endpoint), attribute), _MARK, None)
            if mark is None:
                continue
            name, since = mark
            if name in self._methods:
                raise ValueError(f"RPC method {name} is offered twice")
            handler = getattr(endpoint, attribute)
            self._methods[name] = Method(name, since, handler, inspect.signature(handler))

    def __contains__(self, name: object) -> bool:
        return name in self._methods

    @property
    def names(self) -> list[str]:
        """Names of all methods, sorted."""
        return sorted(self._methods)

    def dispatch(self, name: str, context: RequestContext, arguments: Mapping[str, Any]) -> Any:
        """Run one method.

        :raises IronicError: the method or one of the arguments is unknown here
            (another release), or what the handler raises.
        :raises RuntimeError: the handler did not look at the condition of the call.
        """
        method = self._methods.get(name)
        if method is None:
            raise errors.IronicError(
                f"This conductor does not offer the RPC method '{name}' "
                f"(RPC version {RPC_VERSION}): services of different releases are running; "
                "set [DEFAULT]pin_release_version during an upgrade."
            )
        given = dict(arguments)
        context.if_match = given.pop(CONDITION, None)
        try:
            method.signature.bind(context, **given)
        except TypeError as exc:
            raise errors.IronicError(
                f"Arguments of the RPC method '{name}' do not fit this conductor "
                f"(RPC version {RPC_VERSION}): {exc}."
            ) from exc
        with self._timer(name):
            result = method.handler(context, **given)
        if context.if_match is not None:
            raise RuntimeError(f"{name} does not look at the condition of its call")
        return result
