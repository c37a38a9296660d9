"""Which RPC version may be spoken while releases are mixed.

Source: specification conductor.md section 1.1, operations.md section 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from ironic_rs.domain import errors
from ironic_rs.rpc.registry import RPC_VERSION, version_tuple

#: RPC version of each release that [DEFAULT]pin_release_version may name and that
#: this release can still talk to.
PINS: Mapping[str, str] = {
    "32.0": "1.61",
    "2025.2": "1.61",
    "33.0": "1.61",
    "34.0": "1.61",
    "35.0": "1.62",
    "2026.1": "1.62",
    "36.0": "1.62",
    "37.0": "1.62",
    "38.0": "1.62",
    "39.0": "1.62",
    "2026.2": "1.62",
}


def cap(conf: cfg.ConfigOpts) -> str:
    """Return the highest RPC version to use, e.g. ``"1.62"``.

    :raises IncorrectConfiguration: pinned to a release that is too old.
    """
    pin = conf.pin_release_version
    if not pin:
        return RPC_VERSION
    try:
        return PINS[pin]
    except KeyError:
        raise errors.IncorrectConfiguration(
            error=(
                f"[DEFAULT]pin_release_version = {pin} is too old to upgrade from; "
                f"supported are {', '.join(PINS)}"
            )
        ) from None


def fits(version: str, highest: str) -> bool:
    """Tell whether ``version`` is not above ``highest`` (same major)."""
    asked, allowed = version_tuple(version), version_tuple(highest)
    return asked[0] == allowed[0] and asked <= allowed


def check(conf: cfg.ConfigOpts, method: str, version: str) -> None:
    """Refuse a call that the pin does not allow.

    :raises IncorrectConfiguration: pinned to a release without it.
    """
    highest = cap(conf)
    if not fits(version, highest):
        raise errors.IncorrectConfiguration(
            error=(
                f"the RPC method '{method}' needs version {version}, and "
                f"[DEFAULT]pin_release_version allows {highest}"
            )
        )
