"""Value types of options that oslo.config does not have.

The grammar of kernel parameters is specification auxiliary.md section 10; the
types are listed in configuration.md, section Loading. All raise ``ValueError``
for a bad value, which oslo.config turns into a refusal to start.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from oslo_config import types

SYSTEM_DIRECTORIES = ("/dev", "/sys", "/proc", "/boot", "/etc", "/run")
"""No image is ever read from below these, whatever the configuration says."""

_LINE_BREAKERS = str.maketrans("", "", "\r\n\0")
_PARAMETER = re.compile(r'[ \t]*([A-Za-z0-9_.-]+)(?:=("[^"]*"|[^\s"]*))?(?=[ \t]|$)')
_INIT_ARGUMENTS = re.compile(r"(?:^|[ \t])--(?:[ \t]|$)")


def clean_kernel_parameters(text: str) -> str:
    """Return the text without line feeds, carriage returns and NULs.

    A line break would end the kernel line of a boot configuration file and start
    a statement of the writer's choice.
    """
    return text.translate(_LINE_BREAKERS)


def parse_kernel_parameters(text: str) -> dict[str, str | None]:
    """Parse a kernel command line into a map, ``None`` for a bare key.

    Of a repeated key the first value is kept. Arguments for init (behind `` -- ``)
    are accepted and not part of the map.

    :raises ValueError: naming the first place that breaks the grammar
    """
    text = clean_kernel_parameters(text)
    start_of_init = _INIT_ARGUMENTS.search(text)
    parameters = (text[: start_of_init.start()] if start_of_init else text).rstrip(" \t")
    found: dict[str, str | None] = {}
    position = 0
    while position < len(parameters):
        match = _PARAMETER.match(parameters, position)
        if match is None:
            raise ValueError(
                f"malformed kernel parameters at {parameters[position:].strip()!r}: expected "
                'key, key=value or key="value with blanks", separated by blanks'
            )
        key, value = match.groups()
        found.setdefault(key, value.strip('"') if value is not None else None)
        position = match.end()
    return found


class KernelParameters(types.ConfigType):
    """A kernel command line that keeps to the grammar; the value stays text."""

    def __init__(self) -> None:
        super().__init__(type_name="kernel parameters")

    def __call__(self, value: Any) -> str:
        text = clean_kernel_parameters(str(value))
        parse_kernel_parameters(text)
        return text

    def _formatter(self, value: Any) -> str:
        return str(value)


class ImageDirectory(types.ConfigType):
    """An absolute directory without ``..`` and outside of the system directories."""

    def __init__(self) -> None:
        super().__init__(type_name="absolute path")

    def __call__(self, value: Any) -> str:
        text = str(value)
        path = PurePosixPath(text)
        if not path.is_absolute():
            raise ValueError(f"{text!r} is not an absolute path")
        if ".." in path.parts:
            raise ValueError(f"{text!r} must not contain '..'")
        # Two leading slashes are kept by pathlib, as POSIX has it.
        plain = PurePosixPath("/" + str(path).lstrip("/"))
        for system in SYSTEM_DIRECTORIES:
            if plain.is_relative_to(system):
                raise ValueError(f"{text!r} is under the system directory {system}")
        return text

    def _formatter(self, value: Any) -> str:
        return str(value)


class FileMode(types.ConfigType):
    """Permission bits in octal: ``0o644``, ``0644`` or ``644``."""

    def __init__(self) -> None:
        super().__init__(type_name="octal number")

    def __call__(self, value: Any) -> int:
        if isinstance(value, int):
            return value
        try:
            return int(str(value), 8)
        except ValueError:
            raise ValueError(f"{value!r} is not an octal number such as 0o644") from None

    def _formatter(self, value: Any) -> str:
        return oct(value) if isinstance(value, int) else str(value)


class PortRange(types.ConfigType):
    """Port numbers, ``FIRST:LAST`` with both ends; the value is a ``range``."""

    def __init__(self) -> None:
        super().__init__(type_name="port range")

    def __call__(self, value: Any) -> range:
        if isinstance(value, range):
            return value
        first, colon, last = str(value).strip().partition(":")
        try:
            found = range(int(first), int(last) + 1)
        except ValueError:
            found = range(0)
        if not colon or not found or found[0] < 1 or found[-1] > 65535:
            raise ValueError(
                f"{value!r} is not a range of ports such as 10000:20000, from 1 to 65535"
            )
        return found

    def _formatter(self, value: Any) -> str:
        return f"{value[0]}:{value[-1]}" if isinstance(value, range) else str(value)
