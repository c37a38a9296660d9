"""What happens on both sides of a call, whatever carries it.

An answer is one JSON object: ``{"result": ...}`` or ``{"error": {"class": ...,
"message": ..., "code": ..., "details": {...}}}``.  Exceptions never travel as objects: the caller
re-creates the class by its name, and what it does not know becomes a plain error
with the same text and code.

Source: specification conductor.md section 1.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from oslo_context import context as oslo_context

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.registry import Registry

LOG = logging.getLogger(__name__)


def run(
    registry: Registry, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
) -> Any:
    """Run a method on the server's side, under the caller's context.

    :param context: what :meth:`RequestContext.to_dict` gave.
    :raises Exception: what the handler raises, logged.
    """
    previous = oslo_context.get_current()
    try:
        return registry.dispatch(method, RequestContext.from_dict(dict(context)), arguments)
    except errors.IronicError as exc:
        LOG.info("RPC %s refused: %s: %s", method, type(exc).__name__, exc)
        raise
    except Exception:
        LOG.exception("RPC %s failed unexpectedly", method)
        raise
    finally:
        # In one process the caller's own context lives in the same thread.
        if previous is not None:
            previous.update_store()


def answer(
    registry: Registry, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a method and return the answer object; never raises an Exception."""
    try:
        return {"result": run(registry, method, arguments, context)}
    except Exception as exc:
        return failure(exc)


def failure(exc: Exception) -> dict[str, Any]:
    """Return the answer object of an error."""
    return {
        "error": {
            "class": type(exc).__name__,
            "message": str(exc) or type(exc).__name__,
            "code": exc.code if isinstance(exc, errors.IronicError) else 500,
            "details": exc.details if isinstance(exc, errors.IronicError) else {},
        }
    }


def unpack(reply: Mapping[str, Any]) -> Any:
    """Return the result of an answer object, or raise its error.

    :raises IronicError: re-created by class name; a plain one for a foreign class.
    """
    error = reply.get("error")
    if error is None:
        return reply.get("result")
    name, message = error["class"], error["message"]
    known = errors.rebuild(name, message)
    if known is None:
        known = errors.IronicError(f"Unexpected error: {name}: {message}")
    known.code = error["code"]
    # A conductor of an earlier release sends none.
    known.details = error.get("details", {})
    raise known
