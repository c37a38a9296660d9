"""Base class, families of errors, and re-creation by class name."""

from __future__ import annotations

import re
from typing import Any, ClassVar

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class IronicError(Exception):
    """Base of all errors that a user may see.

    :param message: the whole text; default is the template of the class
        filled in from ``fields``.
    :param fields: values of the template, kept for programs in ``fields``.
    :ivar details: what programs get beside the text, as plain JSON: keys of the inner
        document of the answer; goes along over RPC.
    """

    #: HTTP status; an instance may carry another one than its class.
    code: int = 500
    template: ClassVar[str] = "An unknown error occurred."

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        self.fields = fields
        self.details: dict[str, Any] = {}
        if message is None:
            try:
                message = self.template.format(**fields)
            except (KeyError, IndexError):
                # A missing field must not hide the error itself.
                details = ", ".join(f"{k}={v}" for k, v in sorted(fields.items()))
                message = f"{self.template} ({details})" if details else self.template
        super().__init__(message)

    @classmethod
    def machine_code(cls) -> str:
        """Stable name of the condition for programs, e.g. ``node_locked``."""
        return _WORD_START.sub("_", cls.__name__).lower()


def reason(error: BaseException) -> str:
    """Return what an error says, for other texts: of a foreign one its class, too."""
    text = str(error)
    if isinstance(error, IronicError):
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name


class Invalid(IronicError):
    code = 400
    template = "Unacceptable parameters."


class Conflict(IronicError):
    code = 409
    template = "Conflict."


class NotFound(IronicError):
    code = 404
    template = "Resource could not be found."


class NotAuthorized(IronicError):
    code = 403
    template = "Not authorized."


class OperationNotPermitted(NotAuthorized):
    code = 403
    template = "Operation not permitted."


class HTTPForbidden(NotAuthorized):
    code = 403
    template = "Access was denied to the following resource: {resource}"


class Unauthorized(IronicError):
    code = 401
    template = "The request requires authentication."


class NotAcceptable(IronicError):
    code = 406
    template = "Request not acceptable."


class PreconditionFailed(IronicError):
    """The condition of a request (RFC 9110 section 13) does not hold; nothing was done."""

    code = 412
    template = (
        "The {resource} {ident} is not as any entity tag of If-Match says: it was changed since. "
        "Nothing was done; read it again and decide anew."
    )


class TemporaryFailure(IronicError):
    code = 503
    template = "Resource temporarily unavailable, please retry."


class ServiceUnavailable(IronicError):
    code = 503
    template = "The service is currently unavailable."


class InvalidParameterValue(Invalid):
    code = 400
    template = "{err}"


class MissingParameterValue(InvalidParameterValue):
    code = 400
    template = "{err}"


class InvalidInput(Invalid):
    code = 400
    template = "{err}"


class InvalidUUID(Invalid):
    code = 400
    template = "Expected a UUID but received {uuid}."


class InvalidUuidOrName(Invalid):
    code = 400
    template = "Expected UUID or name but received {name}."


class InvalidName(Invalid):
    code = 400
    template = "Expected name but received {name}."


class InvalidIdentity(Invalid):
    code = 400
    template = "Expected a UUID or integer id but received {identity}."


class InvalidMAC(Invalid):
    code = 400
    template = "Expected a MAC address but received {mac}."


class InvalidSwitchID(Invalid):
    code = 400
    template = "Expected a MAC address or OpenFlow datapath id but received {switch_id}."


class MalformedRequestURI(Invalid):
    code = 400
    template = "Malformed request URI."


class PatchError(Invalid):
    code = 400
    template = "Could not apply patch '{patch}'. Reason: {reason}"


class InvalidStateRequested(Invalid):
    code = 400
    template = (
        'The requested action "{action}" can not be performed on node "{node}" '
        'while it is in state "{state}".'
    )


class InvalidState(Conflict):
    code = 409
    template = "Invalid resource state."


def _collect(cls: type[IronicError], into: dict[str, type[IronicError]]) -> None:
    into[cls.__name__] = cls
    for sub in cls.__subclasses__():
        _collect(sub, into)


def classes() -> dict[str, type[IronicError]]:
    """Return all error classes by name; those of drivers once their module is imported."""
    found: dict[str, type[IronicError]] = {}
    _collect(IronicError, found)
    return found


def by_name(name: str) -> type[IronicError] | None:
    """Return the error class called ``name``, or None."""
    return classes().get(name)


def rebuild(name: str, message: str) -> IronicError | None:
    """Re-create an error that came over the wire; None for a foreign class."""
    cls = by_name(name)
    if cls is None:
        return None
    return cls(message)
