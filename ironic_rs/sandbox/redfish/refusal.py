"""How a BMC says no."""

from __future__ import annotations


class Refused(Exception):
    """The BMC refuses a request.

    :param status: HTTP status.
    :param message_id: MessageId of the Redfish base registry, without version.
    """

    def __init__(self, status: int, message: str, message_id: str = "GeneralError") -> None:
        super().__init__(message)
        self.status = status
        self.message_id = message_id
