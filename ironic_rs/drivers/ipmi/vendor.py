"""Vendor methods of IPMI: raw requests, and a reset of the BMC.

Source: specification drivers.md section 5.4.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.domain import errors
from ironic_rs.drivers.base import Properties, VendorInterface
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    passthru,
    require_exclusive_lock,
    service_step,
)
from ironic_rs.drivers.ipmi.bmc import Link, operate
from ironic_rs.drivers.ipmi.driver_info import PROPERTIES, validate
from ironic_rs.drivers.ipmi.errors import BmcError

LOG = log.getLogger(__name__)

_APPLICATION = 0x06
_COLD_RESET = 0x02
_WARM_RESET = 0x03

_RAW_ARGS = {
    "raw_bytes": {
        "description": (
            "Bytes of the request, separated by blanks, decimal or hexadecimal: network "
            "function, command, data. Example: 0x00 0x01."
        ),
        "required": True,
    }
}


def parse_raw_bytes(text: Any) -> bytes:
    """Return the bytes of a raw request.

    :raises MissingParameterValue: there is none.
    :raises InvalidParameterValue: less than two, or something that is no byte.
    """
    if text in (None, ""):
        raise errors.MissingParameterValue("send_raw needs 'raw_bytes', such as '0x00 0x01'.")
    words = text.split() if isinstance(text, str) else []
    numbers = []
    for word in words:
        try:
            number = int(word, 0)
        except ValueError:
            number = -1
        if not 0 <= number <= 255:
            raise errors.InvalidParameterValue(
                f"raw_bytes has '{word}', expected numbers from 0 to 255 or 0x00 to 0xff."
            )
        numbers.append(number)
    if len(numbers) < 2:
        raise errors.InvalidParameterValue(
            f"raw_bytes is {text!r}, expected text with network function, command and data, "
            "such as '0x00 0x01'."
        )
    return bytes(numbers)


def parse_warm(value: Any) -> bool:
    """Return whether a reset is warm.

    :raises InvalidParameterValue: not a boolean.
    """
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError as exc:
        raise errors.InvalidParameterValue(f"warm is {value!r}, expected true or false.") from exc


class IPMIVendor(VendorInterface):
    """Raw requests to the BMC, and its reset."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task, method: str | None = None, **kwargs: Any) -> None:
        if method == "send_raw":
            parse_raw_bytes(kwargs.get("raw_bytes"))
        elif method == "bmc_reset":
            parse_warm(kwargs.get("warm", True))
        validate(task.node)

    @clean_step(priority=0, abortable=False, argsinfo=_RAW_ARGS, requires_ramdisk=False)
    @deploy_step(priority=0, argsinfo=_RAW_ARGS)
    @service_step(priority=0, argsinfo=_RAW_ARGS, requires_ramdisk=True)
    @passthru(["POST"], description="Send raw bytes to the BMC. Required argument: raw_bytes.")
    @require_exclusive_lock
    def send_raw(
        self, task: Task, http_method: str | None = None, raw_bytes: str | None = None
    ) -> None:
        """Send a raw request; its answer is logged."""
        request = parse_raw_bytes(raw_bytes)
        answer = operate(
            task.node,
            f"sending raw bytes {raw_bytes}",
            lambda link: link.ask(request[0], request[1], request[2:]),
        )
        LOG.info("Node %s: answer to the raw request: %s", task.node.uuid, answer.hex(" "))

    @passthru(["POST"], description="Reset the BMC. Optional argument: warm, a boolean (true).")
    @require_exclusive_lock
    def bmc_reset(self, task: Task, http_method: str, warm: Any = True) -> None:
        """Reset the BMC, warm or cold; some never answer to that."""
        command = _WARM_RESET if parse_warm(warm) else _COLD_RESET

        def reset(link: Link) -> None:
            try:
                link.tell(_APPLICATION, command)
            except BmcError as exc:
                if exc.code is not None:
                    raise
                LOG.info("Node %s: no answer to the reset of its BMC: %s", task.node.uuid, exc)

        operate(task.node, f"a {'warm' if command == _WARM_RESET else 'cold'} reset", reset)
