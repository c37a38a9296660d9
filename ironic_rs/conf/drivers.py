"""Options of group [DEFAULT] that choose drivers.

Names and defaults follow the specification (configuration.md, config-options.csv).
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

#: Interface type -> built-in list of enabled ones; None: what the hardware types prefer.
_ENABLED: Mapping[str, list[str] | None] = {
    "bios": ["no-bios", "redfish"],
    "boot": ["ipxe", "pxe", "redfish-virtual-media"],
    "console": ["no-console"],
    "deploy": ["autodetect", "direct", "ramdisk", "bootc"],
    "firmware": ["no-firmware"],
    "inspect": ["no-inspect", "redfish"],
    "management": None,
    "network": ["flat", "noop"],
    "power": None,
    "raid": ["agent", "no-raid", "redfish"],
    "rescue": ["no-rescue"],
    "storage": ["cinder", "noop"],
    "vendor": ["ipmitool", "redfish", "no-vendor"],
}
_DEFAULT: Mapping[str, str] = {"storage": "noop"}


def _of_type(name: str, enabled: list[str] | None) -> list[cfg.Opt]:
    explained = f"Names of the {name} interfaces that a conductor loads. "
    if enabled is None:
        explained += "All that the enabled hardware types prefer are loaded when unset."
    else:
        explained += (
            "Of the built-in default only what is installed is loaded, with what a hardware "
            "type prefers that finds none there; a name that you set must exist."
        )
    return [
        cfg.ListOpt(f"enabled_{name}_interfaces", default=enabled, help=explained),
        cfg.StrOpt(
            f"default_{name}_interface",
            default=_DEFAULT.get(name),
            help=(
                f"The {name} interface of nodes that are created without one. When unset, the "
                "first one enabled that the hardware type prefers."
            ),
        ),
    ]


OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "enabled_hardware_types",
        default=["ipmi", "redfish"],
        help=(
            "Hardware types that a conductor loads. One that cannot be loaded stops the start; of "
            "the built-in default only what is installed is loaded. All conductors of a group "
            "should load the same."
        ),
    ),
    cfg.ListOpt(
        "autodetect_deploy_interfaces",
        default=["ramdisk", "bootc", "direct"],
        help=(
            "What the deploy interface autodetect chooses from: the first that can deploy an "
            "instance, the last when none says so. All must be enabled; of the built-in default "
            "only what is installed and enabled counts."
        ),
    ),
    *(option for name, enabled in _ENABLED.items() for option in _of_type(name, enabled)),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this module."""
    conf.register_opts(OPTS)
