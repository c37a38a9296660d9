"""Finds, loads and checks hardware types and interfaces; builds drivers of nodes.

Source: specification drivers.md sections 1.1 to 1.4.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_log import log
from stevedore import named

from ironic_rs.domain import errors
from ironic_rs.drivers.base import INTERFACE_TYPES, BareDriver, BaseInterface, Properties
from ironic_rs.drivers.hardware.base import HardwareType

if TYPE_CHECKING:
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

HARDWARE_GROUP = "ironic_rs.hardware.types"
INTERFACE_GROUP = "ironic_rs.hardware.interfaces"

#: What is the same for all nodes with equal interface fields: driver and names.
_Key = tuple[str | None, ...]

_FIELDS = tuple(f"{interface_type}_interface" for interface_type in INTERFACE_TYPES)
_driver_and_fields = operator.attrgetter("driver", *_FIELDS)

_BUILT_IN = (cfg.Locations.opt_default, cfg.Locations.set_default)


@functools.cache
def _entry_points() -> Any:
    # Reading the metadata of every installed package takes a while.
    return metadata.entry_points()


def _installed(group: str) -> set[str]:
    return set(_entry_points().select(group=group).names)


def is_installed(name: str, interface_type: str | None = None) -> bool:
    """Whether a hardware type, or an interface of a type, is there to be enabled."""
    group = HARDWARE_GROUP if interface_type is None else f"{INTERFACE_GROUP}.{interface_type}"
    return name in _installed(group)


def _tidy(option: str, names: Iterable[str]) -> list[str]:
    """Drop empty and repeated names, with a warning."""
    tidy: list[str] = []
    for raw in names:
        name = raw.strip()
        if not name:
            LOG.warning("Option %s has an empty item, ignored", option)
        elif name in tidy:
            LOG.warning("Option %s names %s more than once", option, name)
        else:
            tidy.append(name)
    return tidy


def _load(group: str, names: list[str]) -> dict[str, Any]:
    """Load and instantiate the named plug-ins of a group, in this order."""

    def missing(absent: Iterable[str]) -> None:
        raise errors.DriverNotFoundInEntrypoint(names=", ".join(sorted(absent)), entrypoint=group)

    def failed(_manager: object, entry_point: Any, exc: BaseException) -> None:
        raise errors.DriverLoadError(driver=entry_point.name, reason=exc) from exc

    manager: Any = named.NamedExtensionManager(
        group,
        names,
        invoke_on_load=True,
        name_order=True,
        on_missing_entrypoints_callback=missing,
        on_load_failure_callback=failed,
    )
    plugins = {extension.name: extension.obj for extension in manager}
    for name, plugin in plugins.items():
        if not plugin.supported:
            LOG.warning("%s '%s' is not supported any more and may be removed", group, name)
    return plugins


class DriverRegistry:
    """The hardware types and interfaces of this conductor.

    Load once at start; afterwards everything is read-only and cheap, whatever
    the number of nodes: a driver is computed once per distinct combination of
    driver and interface names.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._hardware: dict[str, HardwareType] = {}
        self._interfaces: dict[str, dict[str, BaseInterface]] = {}
        self._checked: dict[_Key, dict[str, BaseInterface]] = {}
        self._defaults: dict[tuple[str, str], str] = {}

    def load(self) -> None:
        """Load what the configuration enables.

        :raises NoDriversLoaded: no hardware type.
        :raises DriverNotFoundInEntrypoint: the operator named something not installed.
        :raises DriverLoadError: a plug-in could not be imported or instantiated.
        """
        self._hardware = _load(HARDWARE_GROUP, self._enabled("enabled_hardware_types"))
        if not self._hardware:
            raise errors.NoDriversLoaded(conductor=self._conf.host)
        self._interfaces = {
            interface_type: _load(
                f"{INTERFACE_GROUP}.{interface_type}", self._enabled_interfaces(interface_type)
            )
            for interface_type in INTERFACE_TYPES
        }
        self._checked = {}
        self._defaults = {}
        LOG.info("Loaded hardware types: %s", ", ".join(self._hardware))
        for interface_type, plugins in self._interfaces.items():
            LOG.info("Loaded %s interfaces: %s", interface_type, ", ".join(plugins))

    def _is_built_in(self, option: str) -> bool:
        """Tell whether the operator left an option at its default."""
        where = self._conf.get_location(option)
        return where is None or where.location in _BUILT_IN

    def _enabled(self, option: str) -> list[str]:
        """Return the names in an option; a built-in default only offers what is installed."""
        names = _tidy(option, self._conf[option] or ())
        if not self._is_built_in(option):
            return names
        group = HARDWARE_GROUP
        if option != "enabled_hardware_types":
            group = f"{INTERFACE_GROUP}.{option.split('_')[1]}"
        installed = _installed(group)
        return [name for name in names if name in installed]

    def _enabled_interfaces(self, interface_type: str) -> list[str]:
        """Return the enabled names of a type.

        An empty list, and a built-in default that does not serve some enabled
        hardware type, are completed with the best installed interface of each
        hardware type that has none yet.
        """
        option = f"enabled_{interface_type}_interfaces"
        names = self._enabled(option)
        if names and not self._is_built_in(option):
            return names
        installed = _installed(f"{INTERFACE_GROUP}.{interface_type}")
        for hardware in self._hardware.values():
            fitting = [name for name in hardware.supports(interface_type) if name in installed]
            if fitting and not set(fitting) & set(names):
                names.append(str(fitting[0]))
        return names

    @property
    def hardware_types(self) -> Mapping[str, HardwareType]:
        """Enabled hardware types by name."""
        return self._hardware

    def enabled(self, interface_type: str) -> Mapping[str, BaseInterface]:
        """Enabled interfaces of a type by name."""
        return self._interfaces[interface_type]

    def all_interfaces(self) -> list[BaseInterface]:
        """Return every enabled interface once (the conductor collects periodics from them)."""
        return [plugin for plugins in self._interfaces.values() for plugin in plugins.values()]

    def unsupported(self) -> list[str]:
        """Say which enabled plug-ins are supported no more, as "<kind> '<name>'"."""
        enabled = {"Hardware type": self._hardware} | {
            f"{kind.capitalize()} interface": plugins for kind, plugins in self._interfaces.items()
        }
        return [
            f"{what} '{name}'"
            for what, plugins in enabled.items()
            for name, plugin in plugins.items()
            if not plugin.supported
        ]

    def close(self) -> None:
        """Let the interfaces let go of what they keep; the process ends."""
        for interface in self.all_interfaces():
            interface.close()

    def hardware_type(self, name: str) -> HardwareType:
        """Return an enabled hardware type.

        :raises DriverNotFound: not enabled here.
        """
        try:
            return self._hardware[name]
        except KeyError:
            raise errors.DriverNotFound(driver_name=name) from None

    def get_interface(self, hardware_type: str, interface_type: str, name: Any) -> BaseInterface:
        """Return an enabled interface that fits the hardware type.

        :raises DriverNotFound: the hardware type is not enabled.
        :raises InterfaceNotFoundInEntrypoint: the interface is not enabled.
        :raises IncompatibleInterface: it does not fit the hardware type.
        """
        hardware = self.hardware_type(hardware_type)
        plugins = self._interfaces[interface_type]
        # instance_info may hold a name that is not even text.
        interface = plugins.get(name) if isinstance(name, str) else None
        if interface is None:
            raise errors.InterfaceNotFoundInEntrypoint(
                iface=name,
                entrypoint=f"{INTERFACE_GROUP}.{interface_type}",
                valid=", ".join(sorted(plugins)) or "none",
            )
        if not hardware.accepts_any and not self._fits(hardware, interface_type, name):
            raise errors.IncompatibleInterface(
                interface_type=interface_type, interface_impl=name, hardware_type=hardware_type
            )
        return interface

    def _fits(self, hardware: HardwareType, interface_type: str, name: str) -> bool:
        """Match by name or by exact class; a subclass is another interface."""
        supported = hardware.supports(interface_type)
        return name in supported or type(self._interfaces[interface_type][name]) in supported

    def default_interface(
        self, hardware_type: str, interface_type: str, node: models.Node | None = None
    ) -> str:
        """Return the name of the default interface of a type for a hardware type.

        :param node: only named in the error.
        :raises DriverNotFound: the hardware type is not enabled.
        :raises InterfaceNotFoundInEntrypoint: the operator's default is not enabled.
        :raises NoValidDefaultForInterface: nothing enabled fits.
        """
        key = (hardware_type, interface_type)
        if key not in self._defaults:
            self._defaults[key] = self._find_default(*key, node)
        return self._defaults[key]

    def _find_default(
        self, hardware_type: str, interface_type: str, node: models.Node | None
    ) -> str:
        hardware = self.hardware_type(hardware_type)
        none_fits = errors.NoValidDefaultForInterface(
            interface_type=interface_type,
            driver=hardware_type,
            node_info=f" of node {node.uuid}" if node is not None else "",
        )
        option = f"default_{interface_type}_interface"
        chosen: str | None = self._conf[option]
        plugins = self._interfaces[interface_type]
        if chosen and (chosen in plugins or not self._is_built_in(option)):
            try:
                self.get_interface(hardware_type, interface_type, chosen)
            except errors.IncompatibleInterface as exc:
                raise none_fits from exc
            return chosen
        for supported in hardware.supports(interface_type):
            for name, plugin in plugins.items():
                if supported == name or supported is type(plugin):
                    return name
        raise none_fits

    def enabled_supported_interfaces(self, hardware_type: str) -> dict[str, list[str]]:
        """Return interface type -> sorted names that are enabled and fit."""
        hardware = self.hardware_type(hardware_type)
        return {
            interface_type: sorted(
                name for name in plugins if self._fits(hardware, interface_type, name)
            )
            for interface_type, plugins in self._interfaces.items()
        }

    def registration_rows(self) -> list[dict[str, Any]]:
        """Return the rows of conductor_hardware_interfaces of this conductor.

        :returns: [{hardware_type, interface_type, interface_name, default}]
        :raises NoValidDefaultForInterface: an enabled hardware type lacks an interface.
        """
        rows: list[dict[str, Any]] = []
        for hardware_type in self._hardware:
            for interface_type, names in self.enabled_supported_interfaces(hardware_type).items():
                default = self.default_interface(hardware_type, interface_type)
                rows.extend(
                    {
                        "hardware_type": hardware_type,
                        "interface_type": interface_type,
                        "interface_name": name,
                        "default": name == default,
                    }
                    for name in names
                )
        return rows

    def properties(self, hardware_type: str) -> Properties:
        """Return the properties of the default interfaces of a hardware type.

        :raises DriverNotFound: not enabled here.
        """
        self.hardware_type(hardware_type)
        properties: Properties = {}
        for interface_type in INTERFACE_TYPES:
            try:
                name = self.default_interface(hardware_type, interface_type)
            except errors.InvalidParameterValue:
                continue
            properties.update(
                self.get_interface(hardware_type, interface_type, name).get_properties()
            )
        return properties

    def check_and_update_node_interfaces(self, node: models.Node) -> bool:
        """Check the interfaces of a node and fill in the defaults (not saved).

        instance_info ``<type>_interface`` and the node's own field are both
        checked when set; a node that has neither gets the default.

        :returns: whether the node was changed.
        :raises DriverNotFound: the hardware type is not enabled.
        :raises InvalidParameterValue: an interface is not enabled, or does not fit.
        """
        if self._key(node) in self._checked:
            return False
        driver = str(node.driver)
        self.hardware_type(driver)
        changed = False
        for interface_type in INTERFACE_TYPES:
            field = f"{interface_type}_interface"
            override = node.instance_info.get(field)
            own = getattr(node, field)
            for name in (override, own):
                if name is not None:
                    self.get_interface(driver, interface_type, name)
            if override is None and own is None:
                setattr(node, field, self.default_interface(driver, interface_type, node))
                changed = True
        return changed

    @staticmethod
    def _key(node: models.Node) -> _Key:
        key: _Key = _driver_and_fields(node)
        info = node.instance_info
        # Anything at all may be in there, also what can not be part of a key.
        return key + tuple(f"{name}={info[name]!r}" for name in _FIELDS if name in info)

    def build(self, node: models.Node) -> BareDriver:
        """Return the driver of a node; interfaces not set get defaults on the record.

        :raises DriverNotFound: the hardware type is not enabled.
        :raises InvalidParameterValue: an interface is not enabled, or does not fit.
        """
        key = self._key(node)
        interfaces = self._checked.get(key)
        if interfaces is None:
            if self.check_and_update_node_interfaces(node):
                key = self._key(node)
            interfaces = {
                interface_type: self.get_interface(
                    str(node.driver), interface_type, str(node.get_interface(interface_type))
                )
                for interface_type in INTERFACE_TYPES
            }
            self._checked[key] = interfaces
        find = functools.partial(self.get_interface, str(node.driver))
        return BareDriver(self._hardware[str(node.driver)], interfaces, find)
