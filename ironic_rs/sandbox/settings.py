"""What a sandbox is made of: sizes, addresses, delays; and the identity of each machine.

Every machine has its own loopback address, as real machines have their own BMC and
agent addresses: its BMC listens there on :attr:`Settings.bmc_port`, and its agent,
while one runs, on :attr:`Settings.agent_port`.  With a network that is too small for the
fleet, such as one single address, the ports are counted up instead.
"""

from __future__ import annotations

import ipaddress
import uuid
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1024**2
GIB = 1024**3

_NAMESPACE = uuid.UUID("6a1c0c1e-5a0d-5f0e-9d53-0c7b7c1f6d11")


class SettingsError(Exception):
    """A setting cannot work; the text says which one and why."""


@dataclass(frozen=True)
class MachineSpec:
    """Identity of one machine; the same for the same index in every run."""

    index: int
    name: str
    uuid: str
    macs: tuple[str, ...]
    address: str
    bmc_address: str
    bmc_port: int
    agent_port: int

    @property
    def system_path(self) -> str:
        return f"/redfish/v1/Systems/{self.uuid}"


@dataclass(frozen=True)
class Settings:
    """Parameters of a fleet.  Times are in seconds, sizes in bytes.

    :param directory: the only place where the sandbox writes.
    :param network: loopback network that the addresses are taken from.
    :param bmc_port: 0 means a free port for each machine.
    :param bmc_tls: BMCs speak HTTPS, each with a self-signed certificate.
    :param bmc_ipv6: BMCs listen on ``::1``, at ports that are counted up.
    :param agent_port: 0 means a free port at each start of an agent.
    :param boot_delay: from power on to the first attempt to boot.
    :param power_delay: from an accepted power request to the new state.
    :param shutdown_delay: a graceful shutdown takes so long.
    :param heartbeat_gap: at least so long between two heartbeats that finished
        commands cause (5 s in the ramdisk agent).
    :param retry_interval: pause of the agent after a failed look-up or heartbeat.
    :param raid: RAID controllers of each machine: kind (see ``raid.KINDS``), number of disks.
    :param session_lifetime: an unused BMC session ends after this time.
    """

    directory: Path
    machines: int = 8
    network: str = "127.77.0.0/16"
    bmc_port: int = 8000
    bmc_tls: bool = False
    bmc_ipv6: bool = False
    agent_port: int = 9999
    username: str = "admin"
    password: str = "password"
    disk_bytes: int = 10 * GIB
    memory_gib: int = 16
    cpus: int = 4
    nics: int = 1
    raid: tuple[tuple[str, int], ...] = ()
    boot_delay: float = 0.5
    power_delay: float = 0.0
    shutdown_delay: float = 0.2
    heartbeat_gap: float = 0.2
    retry_interval: float = 1.0
    session_lifetime: float = 1800.0
    session_limit: int = 16
    addresses: ipaddress.IPv4Network = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            network = ipaddress.IPv4Network(self.network)
        except ValueError as exc:
            raise SettingsError(f"network {self.network!r}: {exc}") from exc
        if not network.is_loopback:
            raise SettingsError(
                f"network {self.network}: simulated machines live on loopback addresses "
                "(127.0.0.0/8) only"
            )
        if self.machines < 1:
            raise SettingsError("a sandbox needs at least one machine")
        object.__setattr__(self, "addresses", network)

    def spec(self, index: int) -> MachineSpec:
        """Identity of machine ``index`` (from 0)."""
        size = self.addresses.num_addresses
        # The first address of a network that has several is left out: it is easily
        # taken for the network itself.
        usable = max(size - 1, 1)
        first = 1 if size > 1 else 0
        number = index + 1
        offset, row = index % usable + first, index // usable
        return MachineSpec(
            index=index,
            name=f"machine-{number:04d}",
            uuid=str(uuid.uuid5(_NAMESPACE, f"machine {number}")),
            macs=tuple(_mac(number, nic) for nic in range(self.nics)),
            address=str(self.addresses[offset]),
            bmc_address="::1" if self.bmc_ipv6 else str(self.addresses[offset]),
            bmc_port=self.bmc_port + (index if self.bmc_ipv6 else row) if self.bmc_port else 0,
            agent_port=self.agent_port + row if self.agent_port else 0,
        )


def _mac(number: int, nic: int) -> str:
    """A locally administered address, different for every machine and NIC."""
    value = bytes((0x52, 0x53, nic)) + number.to_bytes(3, "big")
    return ":".join(f"{byte:02x}" for byte in value)
