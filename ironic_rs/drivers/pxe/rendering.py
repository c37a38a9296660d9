"""Boot configurations from templates, and the switch between their entries.

Source: specification drivers.md section 11.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import sandbox

from ironic_rs.domain import errors
from ironic_rs.drivers.pxe.flavour import GRUB, IPXE, PXELINUX

#: Entries of a configuration.
DEPLOY = "deploy"
WHOLE_DISK = "boot_whole_disk"
RAMDISK = "boot_ramdisk"
ISCSI = "boot_iscsi"
ANACONDA = "boot_anaconda"

#: How each syntax names the entry that is booted, in a line of its own.
_DEFAULTS = {
    IPXE: re.compile(r"^goto[ \t]+\S+[ \t]*$", re.MULTILINE),
    PXELINUX: re.compile(r"^default[ \t]+\S+[ \t]*$", re.MULTILINE),
    GRUB: re.compile(r"^set default=\S+[ \t]*$", re.MULTILINE),
}
_LINES = {IPXE: "goto {}", PXELINUX: "default {}", GRUB: "set default={}"}
#: Marks that some templates put where the root partition and the disk go.
_ROOT = {GRUB: "(( ROOT ))"}
_DISK = {GRUB: "(( DISK_IDENTIFIER ))"}


def source(path: Path) -> str:
    """Return a template of the conductor as it is.

    :raises InvalidParameterValue: it cannot be read.
    """
    try:
        return path.read_text()
    except (OSError, UnicodeError) as exc:
        raise errors.InvalidParameterValue(f"Template {path} is not usable: {exc}") from exc


def render(path: Path, values: Mapping[str, Any]) -> str:
    """Render a template of the conductor; it can reach nothing but its values.

    :raises InvalidParameterValue: it cannot be read, or is faulty.
    """
    environment = sandbox.ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(path.parent),
        autoescape=jinja2.select_autoescape(),
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["enumerate"] = enumerate
    try:
        return environment.get_template(path.name).render(values)
    except jinja2.TemplateNotFound as exc:
        raise errors.InvalidParameterValue(f"Template {path} does not exist.") from exc
    except (OSError, UnicodeError, jinja2.TemplateError) as exc:
        raise errors.InvalidParameterValue(f"Template {path} is not usable: {exc}") from exc


def config(path: Path, syntax: str, options: Mapping[str, Any], entry: str) -> str:
    """Render a boot configuration that boots ``entry``.

    :raises InvalidParameterValue: see :func:`render`; no such entry can be chosen.
    """
    text = render(
        path,
        {
            "pxe_options": options,
            "ROOT": _ROOT.get(syntax, "{{ ROOT }}"),
            "DISK_IDENTIFIER": _DISK.get(syntax, "{{ DISK_IDENTIFIER }}"),
        },
    )
    found, count = _DEFAULTS[syntax].subn(_LINES[syntax].format(entry), text, count=1)
    if not count:
        raise errors.InvalidParameterValue(
            f"Template {path} has no line '{_LINES[syntax].format(DEPLOY)}', by which the entry "
            "to boot is chosen."
        )
    return found
