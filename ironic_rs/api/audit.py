"""The audit of requests by keystonemiddleware.

The options are those of ``[audit_middleware_notifications]``, read from our
configuration.

Source: specification rest-api.md section 1 (order of middleware).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keystonemiddleware import audit
from oslo_config import cfg

from ironic_rs.domain import errors

WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def audited(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Wrap the application in the audit of ``[audit]``.

    :raises IncorrectConfiguration: the map or the notifier can not be used.
    """
    options = conf.audit
    more = {"ignore_req_list": options.ignore_req_list} if options.ignore_req_list else {}
    try:
        wrapped: WSGIApplication = audit.AuditMiddleware(
            app, oslo_config_config=conf, audit_map_file=options.audit_map_file, **more
        )
    except Exception as exc:
        # The map is read here and the notifier loaded, by libraries with their own errors.
        raise errors.IncorrectConfiguration(
            error=f"[audit] enabled, but it can not start with audit_map_file "
            f"{options.audit_map_file}: {exc}"
        ) from exc
    return wrapped
