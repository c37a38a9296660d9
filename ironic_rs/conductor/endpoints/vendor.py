"""RPC: vendor passthru of nodes and of hardware types.

Source: specification conductor.md section 1.3, drivers.md section 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor import failures
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.domain import errors, fields
from ironic_rs.drivers.noop import NoVendor
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.drivers.base import BaseInterface, VendorInterface, VendorRoute
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)


def _find(routes: Mapping[str, VendorRoute], method: str, http_method: str) -> VendorRoute:
    """Return the route of a call.

    :raises InvalidParameterValue: no such method, or not by this HTTP verb.
    """
    found = routes.get(method)
    if found is None:
        raise errors.InvalidParameterValue(
            f"No handler for vendor method {fields.show(method)}; accepted: "
            f"{', '.join(sorted(routes)) or 'none'}."
        )
    if http_method.upper() not in found.route.http_methods:
        raise errors.InvalidParameterValue(
            f"The method '{method}' does not support HTTP {http_method}; accepted: "
            f"{', '.join(found.route.http_methods)}."
        )
    return found


def _require_support(vendor: BaseInterface, driver: str | None) -> None:
    """Refuse the interface that stands for "no vendor methods".

    :raises UnsupportedDriverExtension: it is that one.
    """
    if isinstance(vendor, NoVendor):
        raise errors.UnsupportedDriverExtension(driver=driver, extension="vendor passthru")


def _answer(found: VendorRoute, value: Any) -> dict[str, Any]:
    return {"return": value, "async": found.route.is_async, "attach": found.route.attach}


def _in_worker(task: Task, found: VendorRoute, info: dict[str, Any]) -> None:
    """Run an asynchronous method; the one place that hears of its failure."""
    try:
        found.func(task, **info)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.error("Node %s: vendor method %s failed: %s", task.node.uuid, found.route.name, exc)
        if not task.shared:
            task.history(f"Vendor method {found.route.name} failed: {exc}", "UNKNOWN")
            task.save()


class VendorEndpoint(Endpoint):
    """Vendor methods."""

    @rpc_method("vendor_passthru", since="1.20")
    def vendor_passthru(
        self,
        context: RequestContext,
        node_id: str,
        driver_method: str,
        http_method: str,
        info: dict[str, Any],
    ) -> dict[str, Any]:
        """Call a vendor method of a node.

        :returns: {return, async, attach}; ``return`` is null when asynchronous.
        :raises InvalidParameterValue: unknown method or verb, bad arguments.
        :raises UnsupportedDriverExtension: the driver has no vendor methods.
        """
        with self.acquire(context, node_id, shared=True, purpose="calling vendor passthru") as task:
            vendor = task.driver.vendor
            _require_support(vendor, task.node.driver)
            found = _find(vendor.vendor_routes, driver_method, http_method)
            if found.route.require_exclusive_lock is not False:
                task.upgrade_lock()
            vendor.validate(task, method=driver_method, http_method=http_method, **info)
            call = {**info, "http_method": http_method}
            if not found.route.is_async:
                return _answer(found, found.func(task, **call))
            if not task.shared:
                task.set_spawn_error_hook(failures.work_refused, task)
            task.spawn_after(_in_worker, task, found, call)
            return _answer(found, None)

    @rpc_method("driver_vendor_passthru", since="1.20")
    def driver_vendor_passthru(
        self,
        context: RequestContext,
        driver_name: str,
        driver_method: str,
        http_method: str,
        info: dict[str, Any],
    ) -> dict[str, Any]:
        """Call a vendor method of a hardware type, by its default vendor interface."""
        vendor = self._driver_vendor(driver_name)
        found = _find(vendor.driver_routes, driver_method, http_method)
        vendor.driver_validate(method=driver_method, **info)
        call = {**info, "http_method": http_method}
        if not found.route.is_async:
            return _answer(found, found.func(context, **call))
        self.conductor.workers.submit(self._driver_worker, found, context, call)
        return _answer(found, None)

    @staticmethod
    def _driver_worker(found: VendorRoute, context: RequestContext, call: dict[str, Any]) -> None:
        try:
            found.func(context, **call)
        except Exception:
            LOG.exception("Vendor method %s of a hardware type failed", found.route.name)

    @rpc_method("get_node_vendor_passthru_methods", since="1.21")
    def get_node_vendor_passthru_methods(
        self, context: RequestContext, node_id: str
    ) -> dict[str, dict[str, Any]]:
        """Return method -> {http_methods, async, description, attach, ...} of a node."""
        with self.acquire(
            context, node_id, shared=True, purpose="listing vendor passthru methods"
        ) as task:
            vendor = task.driver.vendor
            _require_support(vendor, task.node.driver)
            return {name: found.route.metadata() for name, found in vendor.vendor_routes.items()}

    @rpc_method("get_driver_vendor_passthru_methods", since="1.21")
    def get_driver_vendor_passthru_methods(
        self, context: RequestContext, driver_name: str
    ) -> dict[str, dict[str, Any]]:
        """Return method -> {http_methods, async, description, attach} of a hardware type."""
        routes = self._driver_vendor(driver_name).driver_routes
        return {name: found.route.metadata() for name, found in routes.items()}

    def _driver_vendor(self, driver_name: str) -> VendorInterface:
        drivers = self.conductor.drivers
        name = drivers.default_interface(driver_name, "vendor")
        vendor: Any = drivers.get_interface(driver_name, "vendor", name)
        _require_support(vendor, driver_name)
        checked: VendorInterface = vendor
        return checked
