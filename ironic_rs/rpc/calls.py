"""Finding the conductor of a call, and calling it.

Source: specification conductor.md section 1.2.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_rs.conf import CONF
from ironic_rs.db import conductors as db_conductors
from ironic_rs.domain import errors
from ironic_rs.rpc import versions
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import CONDITION, CONDITION_SINCE
from ironic_rs.rpc.ring import HashRing
from ironic_rs.rpc.transport import Transport

Json = dict[str, Any]
Patch = Sequence[Mapping[str, Any]]


def field(node: Any, name: str) -> Any:
    """Return a value of a node, be it a record or a row."""
    return node[name] if isinstance(node, Mapping) else getattr(node, name)


class Calls:
    """Routing to conductors: base of the calls by subject.

    A condition of the context (``if_match``) goes along with the next call about a node
    or an allocation.
    """

    def __init__(self, transport: Transport, ring: HashRing) -> None:
        self._transport = transport
        self._ring = ring

    def host_for(self, node: Any, *, code: int = 404) -> str:
        """Return the conductor of a node.

        :param code: HTTP code of the error when there is none.
        :raises NoValidHost: no conductor of the group serves the driver.
        :raises TemporaryFailure: no conductor is alive.
        """
        driver, group = field(node, "driver"), field(node, "conductor_group")
        try:
            return self._ring.host_for(driver, group, field(node, "uuid"))
        except errors.DriverNotFound as exc:
            failed = errors.NoValidHost(
                reason=f"No conductor service registered which supports driver {driver} "
                f"for conductor group '{group or ''}'."
            )
            failed.code = code
            raise failed from exc

    def any_host(self) -> str:
        """Return a conductor that is alive.

        :raises TemporaryFailure: there is none.
        """
        hosts = db_conductors.online_hosts()
        if not hosts:
            raise errors.TemporaryFailure("No conductor is alive. Please retry.")
        return random.choice(hosts)

    def _node(
        self,
        context: RequestContext,
        node: Any,
        method: str,
        version: str,
        /,
        *,
        missing: int = 404,
        **arguments: Any,
    ) -> Any:
        host = self.host_for(node, code=missing)
        arguments["node_id"] = field(node, "uuid")
        return self._write(host, method, arguments, context, version)

    def _write(
        self, host: str, method: str, arguments: Json, context: RequestContext, version: str
    ) -> Any:
        """Call a method that may have a condition."""
        condition = context.take_condition()
        if condition is not None:
            if not versions.fits(CONDITION_SINCE, versions.cap(CONF)):
                raise errors.ServiceUnavailable(
                    "Conditions (If-Match) can not be kept while services of an earlier release "
                    f"run ([DEFAULT]pin_release_version is {CONF.pin_release_version}). Nothing "
                    "was done; retry after the upgrade, or without a condition."
                )
            arguments[CONDITION] = list(condition)
            version = CONDITION_SINCE
        return self._transport.call(host, method, arguments, context, version=version)

    def _driver(
        self,
        context: RequestContext,
        driver_name: str,
        method: str,
        version: str,
        /,
        **arguments: Any,
    ) -> Any:
        host = self._ring.random_host_for_driver(driver_name)
        arguments["driver_name"] = driver_name
        return self._transport.call(host, method, arguments, context, version=version)
