"""One API call, as handlers see it, and what a handler returns."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from oslo_config import cfg

from ironic_rs.api import args as args_module
from ironic_rs.api import policy
from ironic_rs.db import revision
from ironic_rs.domain import errors, names
from ironic_rs.domain.fields import show
from ironic_rs.rpc.context import RequestContext
from ironic_rs.telemetry.notifications import Emitter

if TYPE_CHECKING:
    from ironic_rs.api.router import Route
    from ironic_rs.rpc.conductor_client import ConductorClient
    from ironic_rs.rpc.ring import HashRing


_LARGE_PAGE = 100
_LARGE_PAGES_AT_ONCE = 2


@dataclass
class Services:
    """What handlers use of the rest of the product.

    :ivar enforcer: decides by the policy; that of the configured ``auth_strategy``.
    :param driver_cache: answers of conductors about drivers, for the life of the
        process, by (method, driver).
    :ivar emitter: sends notifications.
    :param pages: held while a large page is made: many at once would only wait for
        each other's CPU time, each with its rows in memory.
    """

    conf: cfg.ConfigOpts
    conductors: ConductorClient
    ring: HashRing
    enforcer: policy.Enforcer = field(init=False)
    emitter: Emitter = field(init=False)
    driver_cache: dict[tuple[str, str], Any] = field(default_factory=dict)
    pages: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(_LARGE_PAGES_AT_ONCE)
    )

    def __post_init__(self) -> None:
        self.enforcer = policy.enforcer(self.conf)
        self.emitter = Emitter(self.conf, "api")


@dataclass(frozen=True)
class Reply:
    """An answer that is not just the route's status with a JSON document.

    :param body: a JSON value; None is an empty body, or ``content``.
    :param content: bytes to send as they are.
    :param location: path below the link base for the Location header.
    :param revision: that of the record that the answer shows, for the entity tag.
    """

    body: Any = None
    status: int | None = None
    content: bytes | None = None
    content_type: str = "application/json"
    location: str | None = None
    revision: str | None = None


class Call:
    """One request, routed and parsed.

    :ivar path: arguments of the path by name.
    :ivar query: query string; repeated keys are lists.
    :ivar body: the JSON body (``{}`` when there is none).
    :ivar minor: minor part of the microversion.
    :ivar args: checked arguments of the route, see :mod:`ironic_rs.api.args`.
    :ivar batch: what was read once for all rows of the answer, by field.
    :ivar on_authorized: called when the caller turns out to be allowed.
    """

    __slots__ = (
        "_decided",
        "_quoted_base",
        "args",
        "base",
        "batch",
        "body",
        "context",
        "minor",
        "on_authorized",
        "path",
        "query",
        "route",
        "services",
    )

    def __init__(
        self,
        *,
        services: Services,
        route: Route,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        body: Any,
        minor: int,
        context: RequestContext,
        base: str,
    ) -> None:
        self.services = services
        self.route = route
        self.path = path
        self.query = query
        self.body = body
        self.minor = minor
        self.context = context
        self.base = base
        # The name of the host is the client's.
        self._quoted_base = json.dumps(base)[1:-1]
        self.batch: dict[str, Any] = {}
        self._decided: dict[tuple[Any, ...], bool] = {}
        self.on_authorized: Callable[[], None] | None = None
        self.args: dict[str, Any] = self._arguments()

    def _arguments(self) -> dict[str, Any]:
        given = dict(self.query)
        if self.route.body == "args":
            if not isinstance(self.body, dict):
                raise errors.InvalidParameterValue("The request body must be a JSON object.")
            given.update(self.body)
        elif self.route.body is None and self.body:
            raise errors.InvalidParameterValue(
                f"{self.route.method} {self.route.path} takes no request body."
            )
        return args_module.parse(self.route.args, given, self.minor)

    @property
    def conf(self) -> cfg.ConfigOpts:
        return self.services.conf

    @property
    def conductors(self) -> ConductorClient:
        return self.services.conductors

    def turn(self) -> contextlib.AbstractContextManager[Any]:
        """Return what has to be held while the answer is made."""
        if "limit" in self.args and (self.args["limit"] or _LARGE_PAGE + 1) > _LARGE_PAGE:
            return self.services.pages
        return contextlib.nullcontext()

    def ident(self, name: str) -> str:
        """Return an argument of the path that must be a UUID or a name.

        :raises InvalidUuidOrName: it can be neither.
        """
        text = self.path[name]
        if not names.is_uuid_like(text) and not names.is_logical_name(text):
            raise errors.InvalidUuidOrName(name=show(text))
        return text

    def has(self, minor: int) -> bool:
        """Tell whether the request's microversion is at least 1.``minor``."""
        return self.minor >= minor

    def require(self, minor: int, what: str, status: int = 406) -> None:
        """Refuse what is newer than the request's microversion.

        :raises NotAcceptable: (or the error of another status).
        """
        if self.minor < minor:
            raise args_module.too_new(what, minor, self.minor, status)

    def guarded(self, make: Callable[[Any], Mapping[str, Any]]) -> Any:
        """Return a change of a record that is made under the condition of the request."""
        return revision.guarded(make, self.context.take_condition())

    def allows(self, rule: str, target: Mapping[str, Any] | None = None) -> bool:
        """Tell whether policy allows the caller this; asked once for each target."""
        target = target or {}
        key = (rule, *target.items())
        if key not in self._decided:
            self._decided[key] = self.services.enforcer.allows(self.context, rule, target)
        return self._decided[key]

    def authorize(self, target: Mapping[str, Any] | None = None, *rules: str) -> None:
        """Require all of the route's rules (or of ``rules``) for the target.

        :raises HTTPForbidden: one of them refuses.
        """
        for rule in rules or self.route.policy:
            if not self.allows(rule, target):
                raise errors.HTTPForbidden(resource=rule)
        self._authorized()

    def authorize_any(self, target: Mapping[str, Any] | None = None, *rules: str) -> None:
        """Require one of the route's rules (or of ``rules``) for the target.

        :raises HTTPForbidden: all refuse.
        """
        rules = rules or self.route.policy
        if not any(self.allows(rule, target) for rule in rules):
            raise errors.HTTPForbidden(resource=rules[-1])
        self._authorized()

    def _authorized(self) -> None:
        if self.on_authorized is not None:
            self.on_authorized()

    def project_filter(self) -> str | None:
        """Authorise a list by the first rules of its route: ``<x>:list_all``, ``<x>:list``.

        :returns: the project to whose rows the list is limited, None for all rows.
        :raises HTTPForbidden: neither rule passes, or the caller is in no project.
        """
        list_all, own = self.route.policy[:2]
        if self.allows(list_all):
            return None
        project = self.context.project_id
        if not project or not self.allows(own):
            raise errors.HTTPForbidden(resource=own)
        return project

    def url(self, path: str) -> str:
        """Return the URL of a path below ``/v1/``."""
        return f"{self.base}/v1/{path}"

    def links(self, path: str, bookmark: bool = True) -> orjson.Fragment:
        """Return the self and bookmark links of a path below ``/v1/``, as JSON.

        :param path: plain, or of segments made by :func:`segment`: nothing in it
            needs an escape in JSON.
        """
        own = f'{{"href":"{self._quoted_base}/v1/{path}","rel":"self"}}'
        if not bookmark:
            return orjson.Fragment(f"[{own}]")
        return orjson.Fragment(f'[{own},{{"href":"{self._quoted_base}/{path}","rel":"bookmark"}}]')


def segment(text: str) -> str:
    """Return a path segment that stands for the text."""
    return quote(text, safe="-._~:@[]")
