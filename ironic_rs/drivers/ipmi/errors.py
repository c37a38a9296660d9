"""What can go wrong when a BMC is asked, before it is told to anybody outside."""

from __future__ import annotations

#: Texts and completion codes after which the same may succeed a little later.
_TRANSIENT_TEXTS = (
    "insufficient resources",
    "node busy",
    "out of space",
    "initialization in progress",
    "timeout",
)
TRANSIENT_CODES = frozenset({0xC0, 0xC3, 0xC4, 0xD2})


class BmcError(Exception):
    """An operation on a BMC failed; the text is for people.

    :ivar transient: it may succeed a little later.
    :ivar silent: the BMC has not sent a single packet.
    :ivar code: completion code, None when there was no answer.
    """

    def __init__(
        self,
        text: str,
        *,
        transient: bool = False,
        silent: bool = False,
        code: int | None = None,
    ) -> None:
        super().__init__(text)
        self.transient = transient
        self.silent = silent
        self.code = code


class UnreadableSensors(BmcError):
    """A listing of sensors makes no sense."""


def is_transient(text: str) -> bool:
    """Tell whether an error with this text may go away by itself."""
    lower = text.lower()
    return any(phrase in lower for phrase in _TRANSIENT_TEXTS)
