"""Who made a machine, by the number that its BMC tells.

The number is asked for along with the first power state and kept in the process: a
log-in of its own for each node and cycle of power sync would take longer than the
cycle may.

Source: specification drivers.md sections 5.4 and 5.5.
"""

from __future__ import annotations

from oslo_log import log

from ironic_rs.db import models
from ironic_rs.drivers.ipmi import turns
from ironic_rs.drivers.ipmi.bmc import Link, operate
from ironic_rs.drivers.ipmi.driver_info import parse
from ironic_rs.drivers.ipmi.errors import BmcError

LOG = log.getLogger(__name__)

_APPLICATION = 0x06
_GET_DEVICE_ID = 0x01

#: Manufacturers by their enterprise number (IANA), as vendors are called elsewhere.
MANUFACTURERS = {
    2: "ibm",
    9: "cisco",
    11: "hewlett-packard",
    42: "sun",
    193: "ericsson",
    343: "intel",
    368: "fujitsu",
    674: "dell",
    2011: "huawei",
    5771: "cisco",
    6653: "tyan",
    7154: "nutanix",
    7244: "quanta",
    8741: "inspur",
    10368: "fujitsu",
    10437: "wiwynn",
    10876: "supermicro",
    15000: "gigabyte",
    15370: "gigabyte",
    19046: "lenovo",
    20301: "ibm",
    20974: "american megatrends",
    37945: "inspur",
    42817: "ibm",
    47196: "hpe",
    47488: "supermicro",
    49622: "asrockrack",
    50673: "nvidia",
}


def _number(link: Link) -> int:
    answer = link.ask(_APPLICATION, _GET_DEVICE_ID)
    if len(answer) < 9:
        raise BmcError(f"its identification has only {len(answer)} bytes")
    return int.from_bytes(answer[6:9], "little")


def note(link: Link, node: models.Node) -> None:
    """Ask for the number if the vendor of the node is not known, and keep it.

    What was asked for before counts, whatever comes of this.
    """
    known = turns.known(parse(node)).manufacturers
    if node.properties.get("vendor") or node.uuid in known:
        return
    try:
        known[node.uuid] = _number(link)
    except BmcError as exc:
        LOG.debug("Node %s: its BMC does not tell who made it: %s", node.uuid, exc)
        if not exc.transient:
            known[node.uuid] = 0


def detect(node: models.Node) -> str | None:
    """Return the vendor of a machine, None when its number means nothing to us.

    :raises IPMIFailure: the BMC did not tell.
    """
    known = turns.known(parse(node)).manufacturers
    if node.uuid not in known:
        known[node.uuid] = operate(node, "reading the vendor", _number, reading=True)
    return MANUFACTURERS.get(known[node.uuid])
