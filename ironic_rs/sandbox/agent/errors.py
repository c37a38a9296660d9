"""Errors that the agent reports to the conductor."""

from __future__ import annotations

from typing import Any


class AgentError(Exception):
    """An error of a command.

    :param type_: class name on the wire; the conductor looks at some of them.
    :param details: what went wrong, in full.
    :param code: HTTP status, when the request itself is refused.
    """

    def __init__(self, type_: str, message: str, details: str, code: int = 500) -> None:
        super().__init__(f"{message}: {details}")
        self.type = type_
        self.message = message
        self.details = details
        self.code = code

    def to_json(self) -> dict[str, Any]:
        """``command_error`` of a result."""
        return {
            "type": self.type,
            "code": self.code,
            "message": self.message,
            "details": f"{self.message}: {self.details}",
        }


def invalid(details: str) -> AgentError:
    """Bad name or parameters of a command: 400."""
    return AgentError("InvalidContentError", "Invalid request body", details, 400)


def unsupported(what: str) -> AgentError:
    """Something that the simulated agent deliberately cannot do."""
    return AgentError("DeploymentError", "Not supported by the simulated agent", what)


class FatalAgentError(Exception):
    """The agent cannot go on: it stays up but does not serve."""
