"""Marks on interface methods: steps, vendor passthru, periodics, locks.

A mark is plain data on the function; :class:`ironic_rs.drivers.base.BaseInterface`
collects the marks of its methods once, at construction.  A method may carry
several marks (a clean step may be a service step and a passthru method too).

Source: specification drivers.md sections 1.5 to 1.7.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log

from ironic_rs.domain import errors

LOG = log.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

#: Attributes that carry the marks.
STEP_MARK = "_ironic_rs_steps"
PASSTHRU_MARK = "_ironic_rs_passthru"
DRIVER_PASSTHRU_MARK = "_ironic_rs_driver_passthru"
PERIODIC_MARK = "_ironic_rs_periodic"

ArgsInfo = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Passthru:
    """A vendor passthru route: how the API may call one method.

    :param http_methods: accepted HTTP verbs, upper case.
    :param is_async: 202 at once and a worker, else 200 with the returned value.
    :param attach: the returned value is the raw body of the answer.
    :param require_exclusive_lock: node routes: lock taken for the call.
    """

    name: str
    http_methods: tuple[str, ...]
    is_async: bool
    description: str
    attach: bool
    require_exclusive_lock: bool | None = None

    def metadata(self) -> dict[str, Any]:
        """Return what ``.../vendor_passthru/methods`` shows of the route."""
        data: dict[str, Any] = {
            "http_methods": list(self.http_methods),
            "async": self.is_async,
            "description": self.description,
            "attach": self.attach,
        }
        if self.require_exclusive_lock is not None:
            data["require_exclusive_lock"] = self.require_exclusive_lock
        return data


@dataclass(frozen=True)
class NodePeriodic:
    """A periodic over nodes that an interface asks the conductor to run.

    The conductor calls the method as ``method(task)`` for each node that maps to
    it, passes ``predicate`` and whose interface has exactly the class that
    carries the mark.

    :param purpose: lock purpose, shown in logs.
    :param interval: seconds between runs, read from the configuration at start;
        zero or less switches the periodic off.
    :param filters: node filters (data-model.md section 4.3).
    :param columns: extra node columns that ``predicate`` looks at.
    :param predicate: gets the selected row; false skips the node.
    :param limit: most nodes per run, None for all.
    :param shared: take the node with a shared lock.
    """

    purpose: str
    interval: Callable[[cfg.ConfigOpts], int]
    filters: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    predicate: Callable[[Any], bool] | None = None
    limit: int | None = None
    shared: bool = True


def _check_priority(priority: Any, *, minimum: int | None) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise errors.InvalidParameterValue(f"'priority' must be an integer, not {priority!r}.")
    if minimum is not None and priority < minimum:
        raise errors.InvalidParameterValue(f"'priority' must be at least {minimum}: {priority}.")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise errors.InvalidParameterValue(f"'{name}' must be a boolean, not {value!r}.")


def _check_argsinfo(argsinfo: Any) -> None:
    if argsinfo is None:
        return
    if not isinstance(argsinfo, Mapping):
        raise errors.InvalidParameterValue("'argsinfo' must be a dictionary or None.")
    for name, info in argsinfo.items():
        if not isinstance(info, Mapping):
            raise errors.InvalidParameterValue(f"argsinfo of '{name}' must be a dictionary.")
        unknown = set(info) - {"description", "required"}
        if unknown:
            raise errors.InvalidParameterValue(
                f"argsinfo of '{name}' has unknown keys: {', '.join(sorted(unknown))}."
            )
        if not isinstance(info.get("description"), str) or not info["description"]:
            raise errors.InvalidParameterValue(f"argsinfo of '{name}' needs a description.")
        if not isinstance(info.get("required", False), bool):
            raise errors.InvalidParameterValue(f"'required' of argument '{name}' must be boolean.")


def _mark_step(kind: str, data: dict[str, Any]) -> Callable[[F], F]:
    def decorate(func: F) -> F:
        marks = dict(getattr(func, STEP_MARK, {}))
        marks[kind] = {"step": func.__name__, **data}
        setattr(func, STEP_MARK, marks)
        return func

    return decorate


def clean_step(
    priority: int,
    abortable: bool = False,
    argsinfo: ArgsInfo | None = None,
    requires_ramdisk: bool = True,
) -> Callable[[F], F]:
    """Mark a method as a clean step; priority 0 = manual cleaning only.

    :raises InvalidParameterValue: a value of the wrong type.
    """
    _check_priority(priority, minimum=None)
    _check_flag("abortable", abortable)
    _check_flag("requires_ramdisk", requires_ramdisk)
    _check_argsinfo(argsinfo)
    return _mark_step(
        "clean",
        {
            "priority": priority,
            "abortable": abortable,
            "argsinfo": argsinfo,
            "requires_ramdisk": requires_ramdisk,
        },
    )


def deploy_step(
    priority: int, abortable: bool = True, argsinfo: ArgsInfo | None = None
) -> Callable[[F], F]:
    """Mark a method as a deploy step; priority 0 = only when asked for.

    :raises InvalidParameterValue: a value of the wrong type, a negative priority.
    """
    _check_priority(priority, minimum=0)
    _check_flag("abortable", abortable)
    _check_argsinfo(argsinfo)
    return _mark_step(
        "deploy", {"priority": priority, "abortable": abortable, "argsinfo": argsinfo}
    )


def verify_step(priority: int) -> Callable[[F], F]:
    """Mark a method as a verify step; priority 0 = off unless overridden.

    :raises InvalidParameterValue: a value of the wrong type, a negative priority.
    """
    _check_priority(priority, minimum=0)
    return _mark_step("verify", {"priority": priority})


def service_step(
    priority: int | None = None,
    abortable: bool = False,
    argsinfo: ArgsInfo | None = None,
    requires_ramdisk: bool = True,
) -> Callable[[F], F]:
    """Mark a method as a service step (they run only when asked for).

    :raises InvalidParameterValue: a value of the wrong type.
    """
    if priority is not None:
        _check_priority(priority, minimum=None)
    _check_flag("abortable", abortable)
    _check_flag("requires_ramdisk", requires_ramdisk)
    _check_argsinfo(argsinfo)
    return _mark_step(
        "service",
        {
            "priority": priority or 0,
            "abortable": abortable,
            "argsinfo": argsinfo,
            "requires_ramdisk": requires_ramdisk,
        },
    )


def _passthru(mark: str, make: Callable[[str], Passthru]) -> Callable[[F], F]:
    def decorate(func: F) -> F:
        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return func(*args, **kwargs)
            except errors.IronicError:
                LOG.exception("Vendor passthru method %s failed", func.__name__)
                raise
            except Exception as exc:
                LOG.exception("Vendor passthru method %s failed unexpectedly", func.__name__)
                raise errors.VendorPassthruException(str(exc) or type(exc).__name__) from exc

        setattr(call, mark, make(func.__name__))
        return call  # type: ignore[return-value]

    return decorate


def passthru(
    http_methods: Sequence[str],
    *,
    method: str | None = None,
    async_call: bool = True,
    description: str | None = None,
    attach: bool = False,
    require_exclusive_lock: bool = True,
) -> Callable[[F], F]:
    """Mark a vendor method of a node: ``(self, task, http_method, **kwargs)``."""
    return _passthru(
        PASSTHRU_MARK,
        lambda name: Passthru(
            name=method or name,
            http_methods=tuple(m.upper() for m in http_methods),
            is_async=async_call,
            description=description or "",
            attach=attach,
            require_exclusive_lock=require_exclusive_lock,
        ),
    )


def driver_passthru(
    http_methods: Sequence[str],
    *,
    method: str | None = None,
    async_call: bool = True,
    description: str | None = None,
    attach: bool = False,
) -> Callable[[F], F]:
    """Mark a vendor method of a hardware type: ``(self, context, http_method, **kwargs)``."""
    return _passthru(
        DRIVER_PASSTHRU_MARK,
        lambda name: Passthru(
            name=method or name,
            http_methods=tuple(m.upper() for m in http_methods),
            is_async=async_call,
            description=description or "",
            attach=attach,
        ),
    )


def node_periodic(
    purpose: str,
    interval: Callable[[cfg.ConfigOpts], int],
    *,
    filters: Mapping[str, Any] | None = None,
    columns: Sequence[str] = (),
    predicate: Callable[[Any], bool] | None = None,
    limit: int | None = None,
    shared: bool = True,
) -> Callable[[F], F]:
    """Mark a method ``(self, task)`` as a periodic over nodes (:class:`NodePeriodic`)."""
    mark = NodePeriodic(
        purpose=purpose,
        interval=interval,
        filters=dict(filters or {}),
        columns=tuple(columns),
        predicate=predicate,
        limit=limit,
        shared=shared,
    )

    def decorate(func: F) -> F:
        setattr(func, PERIODIC_MARK, mark)
        return func

    return decorate


def require_exclusive_lock(func: F) -> F:
    """Refuse to run a method ``(self, task, ...)`` on a shared task.

    :raises ExclusiveLockRequired: the task is shared.
    """

    @functools.wraps(func)
    def call(self: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
        if task.shared:
            LOG.error(
                "%s.%s of node %s needs the exclusive lock",
                type(self).__name__,
                func.__name__,
                task.node.uuid,
            )
            raise errors.ExclusiveLockRequired
        return func(self, task, *args, **kwargs)

    return call  # type: ignore[return-value]
