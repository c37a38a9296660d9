"""What ``/healthcheck`` looks at: plug-ins of oslo.middleware's health check.

``[healthcheck]backends`` names them.  A reason is shown to anybody, so it names no host,
no address and no user.

Source: specification operations.md section 8, field case K01.
"""

from __future__ import annotations

import logging

from oslo_middleware.healthcheck import pluginbase

from ironic_rs.db import conductors, session
from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

#: Backends that are asked unless the operator names others.
DEFAULT = ("ironic_rs_database", "ironic_rs_conductors")


class DatabaseHealth(pluginbase.HealthcheckBaseExtension):
    """Healthy while the database answers."""

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """Ask the database for nothing but an answer."""
        try:
            session.ping()
        except Exception as exc:
            # Whatever it is: a health check tells it and does not fail itself.
            LOG.warning("Health check: the database does not answer: %s", exc)
            return pluginbase.HealthcheckResult(
                available=False, reason="The database does not answer."
            )
        return pluginbase.HealthcheckResult(available=True, reason="The database answers.")


class ConductorsHealth(pluginbase.HealthcheckBaseExtension):
    """Healthy while at least one conductor is alive."""

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """Look for conductors whose heartbeat is fresh."""
        try:
            alive = len(conductors.online_hosts())
        except errors.IronicError as exc:
            LOG.warning("Health check: conductors can not be looked for: %s", exc)
            return pluginbase.HealthcheckResult(
                available=False, reason="Whether a conductor is alive is not known."
            )
        return pluginbase.HealthcheckResult(
            available=alive > 0,
            reason=f"Conductors alive: {alive}." if alive else "No conductor is alive.",
        )
