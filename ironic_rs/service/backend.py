"""Which kind of threads a process runs: real ones, or eventlet's green ones.

Every console script calls :func:`activate` before it imports anything else, since
eventlet has to replace parts of the standard library first.

Source: design section 5; specification conductor.md section 17.1.
"""

from __future__ import annotations

import logging
import os
import warnings

LOG = logging.getLogger(__name__)

#: Environment variable that chooses.
VARIABLE = "IRONIC_RS_BACKEND"
THREADS = "threads"
EVENTLET = "eventlet"

_active = THREADS


def activate() -> str:
    """Prepare the process for the backend that the environment asks for.

    :returns: ``threads`` or ``eventlet``.
    :raises SystemExit: an unknown backend, or eventlet is not installed.
    """
    global _active
    wanted = os.environ.get(VARIABLE, THREADS) or THREADS
    # Libraries import eventlet wherever it is installed, and each tells that it is
    # deprecated; we say it once, and only to those who use it (announce).
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    if wanted == EVENTLET:
        _patch()
    elif wanted == THREADS:
        _keep_threads()
    else:
        raise SystemExit(f"{VARIABLE} must be {THREADS} or {EVENTLET}, not {wanted!r}")
    _active = wanted
    return wanted


def _keep_threads() -> None:
    # oslo.messaging imports oslo.service, whose own default is eventlet.
    from oslo_service import backend

    backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)


def _patch() -> None:
    try:
        import eventlet
    except ImportError as exc:
        raise SystemExit(
            f"{VARIABLE}={EVENTLET} needs the extra: pip install 'ironic-rs[eventlet]'"
        ) from exc
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="eventlet")
    eventlet.monkey_patch()


def announce() -> None:
    """Warn, once logging is set up, that eventlet is on its way out."""
    if _active == EVENTLET:
        LOG.warning(
            "%s=%s is deprecated and will be removed: eventlet is no longer developed. "
            "Unset it to use threads",
            VARIABLE,
            EVENTLET,
        )
