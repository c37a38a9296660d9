"""What all machines share: boot loaders, the first GRUB configuration, the iPXE script.

They are put in place when a conductor starts, where the directories of its servers
are there, and again before a machine is to boot.  A start is not stopped by
directories that cannot be written: their nodes do not pass validation.

Source: specification drivers.md sections 11.1 and 11.3.
"""

from __future__ import annotations

import filecmp
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.pxe import files, rendering
from ironic_rs.drivers.pxe.flavour import below_web_server

if TYPE_CHECKING:
    from ironic_rs.drivers.pxe.flavour import Flavour

LOG = log.getLogger(__name__)

_SUFFIX = ".template"


def _script_name() -> str:
    return Path(CONF.pxe.ipxe_boot_script).name.removesuffix(_SUFFIX)


def boot_script_url() -> str:
    """Return the URL of the first script of iPXE machines."""
    return f"{str(CONF.deploy.http_url).rstrip('/')}/{_script_name()}"


def check_loaders() -> None:
    """Check ``[pxe]loader_file_paths``.

    :raises IncorrectConfiguration: a name with a directory, or a file that is not there.
    """
    for name, source in CONF.pxe.loader_file_paths.items():
        if Path(name).name != name or name in ("", ".", ".."):
            raise errors.IncorrectConfiguration(
                error=(
                    f"[pxe]loader_file_paths: '{name}' must be the bare name of a file, "
                    "without a directory"
                )
            )
        if not Path(source).is_file():
            raise errors.IncorrectConfiguration(
                error=f"[pxe]loader_file_paths: {source} (for {name}) is not a file"
            )


def at_start(flavour: Flavour) -> None:
    """Put everything in place that is possible now.

    :raises IncorrectConfiguration: see :func:`check_loaders`.
    """
    check_loaders()
    for root in flavour.shared_roots:
        if not root.is_dir():
            LOG.warning("Directory %s does not exist yet; boot files for machines go there", root)
            continue
        try:
            _fill(flavour, root)
        except (OSError, errors.InvalidParameterValue) as exc:
            LOG.warning("Boot files cannot be put into %s: %s", root, exc)


def ensure(flavour: Flavour) -> None:
    """Put everything in place that a machine needs to boot.

    :raises IncorrectConfiguration: it cannot be.
    """
    check_loaders()
    try:
        for root in flavour.needed_roots:
            files.make_directory(root)
            _fill(flavour, root)
    except (OSError, errors.InvalidParameterValue) as exc:
        raise errors.IncorrectConfiguration(
            error=f"boot files for network boot cannot be put in place: {exc}"
        ) from exc


def _fill(flavour: Flavour, root: Path) -> None:
    for name, source in CONF.pxe.loader_file_paths.items():
        _copy_if_changed(Path(source), root / name)
    if not flavour.ipxe:
        by_http = root == Path(CONF.deploy.http_root)
        text = rendering.render(
            Path(CONF.pxe.initial_grub_template),
            {"config_directory": below_web_server() if by_http else ""},
        )
        _write_if_changed(root / "grub" / "grub.cfg", text)
    elif root == flavour.root:
        _write_if_changed(root / _script_name(), _boot_script())


def _boot_script() -> str:
    return rendering.render(
        Path(CONF.pxe.ipxe_boot_script),
        {
            "ipxe_for_mac_uri": f"{CONF.pxe.pxe_config_subdir.strip('/')}/",
            "ipxe_fallback_script": CONF.pxe.ipxe_fallback_script,
        },
    )


def _write_if_changed(path: Path, text: str) -> None:
    try:
        if path.read_text() == text:
            return
    except (OSError, UnicodeError):
        pass
    files.write(path, text)


def _copy_if_changed(source: Path, path: Path) -> None:
    if path.is_file() and filecmp.cmp(source, path, shallow=False):
        return
    files.copy(source, path)
