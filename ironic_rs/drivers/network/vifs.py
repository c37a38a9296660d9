"""Which VIF is on which port or port group, as their records say.

A VIF is the UUID of a port of the Networking service.  Nothing here asks that service.

Source: specification drivers.md sections 13.1 and 13.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ironic_rs.db import models
from ironic_rs.db import portgroups as db_portgroups
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

#: A port or a port group.
Attachable = models.Port | models.Portgroup

#: Networks of the service, in the order in which their VIF is the current one.
KINDS = ("cleaning", "provisioning", "rescuing", "inspection", "servicing")
_TENANT = "tenant_vif_port_id"
#: Where the VIF was kept before internal_info.
_LEGACY = "vif_port_id"


def key(kind: str) -> str:
    """Return the key of internal_info that holds the VIF of a network of the service."""
    return f"{kind}_vif_port_id"


def tenant(thing: Attachable) -> str | None:
    """Return the VIF of the instance."""
    vif: str | None = thing.internal_info.get(_TENANT)
    return vif


def current(thing: Attachable) -> str | None:
    """Return the VIF in use now: one of the service, else that of the instance."""
    names = [*map(key, KINDS), _TENANT]
    return next((thing.internal_info[name] for name in names if name in thing.internal_info), None)


def things(task: Task) -> list[Attachable]:
    """Return the ports, then the port groups."""
    return [*task.ports, *task.portgroups]


def attached(task: Task) -> Iterator[tuple[Attachable, str]]:
    """Yield what carries a VIF of the instance, ports first."""
    for thing in things(task):
        vif = tenant(thing)
        if vif is not None:
            yield thing, vif


def find(task: Task, vif: str) -> Attachable:
    """Return what carries a VIF of the instance.

    :raises VifNotAttached: nothing of this node does.
    """
    for thing, found in attached(task):
        if found == vif:
            return thing
    raise errors.VifNotAttached(vif=vif, node=task.node.uuid)


def attach(task: Task, thing: Attachable, vif: str) -> None:
    """Write down that a port or port group carries a VIF of the instance."""
    thing.internal_info = {**thing.internal_info, _TENANT: vif}
    save(task, thing)


def detach(task: Task, thing: Attachable) -> None:
    """Write down that a port or port group carries no VIF of the instance.

    A port group that was made for the VIF goes with it.
    """
    _drop(thing, _TENANT)
    if _LEGACY in thing.extra:
        thing.extra = {name: value for name, value in thing.extra.items() if name != _LEGACY}
    if isinstance(thing, models.Portgroup) and thing.dynamic_portgroup:
        for port in members(task, thing):
            port.portgroup_id = None
            save(task, port)
        db_portgroups.destroy(thing, fence=task.node.reservation)
        return
    save(task, thing)


def set_service(task: Task, kind: str, vifs: Mapping[str, str]) -> None:
    """Write down the VIFs of a network of the service.

    :param vifs: uuid of a port -> VIF; ports that are left out have none.
    """
    for port in task.ports:
        vif = vifs.get(str(port.uuid))
        if vif is None:
            _drop(port, key(kind))
        else:
            port.internal_info = {**port.internal_info, key(kind): vif}
        save(task, port)


def save(task: Task, thing: Attachable) -> None:
    """Write what has changed of a port or port group, under the lock of its node."""
    fence = task.node.reservation
    if isinstance(thing, models.Port):
        db_ports.save(thing, fence=fence)
    else:
        db_portgroups.save(thing, fence=fence)


def _drop(thing: Attachable, name: str) -> None:
    info = thing.internal_info
    thing.internal_info = {kept: value for kept, value in info.items() if kept != name}


def members(task: Task, group: models.Portgroup) -> list[models.Port]:
    """Return the ports of a port group."""
    return [port for port in task.ports if port.portgroup_id == group.id]


# Where a new VIF goes


def choose(task: Task, vif_info: Mapping[str, Any], networks: Collection[str]) -> Attachable:
    """Return the free port or port group that fits a VIF best.

    :param vif_info: ``id``, and perhaps the ``port_uuid`` or ``portgroup_uuid`` to use.
    :param networks: physical networks that reach the VIF; empty: any does.
    :raises VifAlreadyAttached: this node has the VIF already.
    :raises NoFreePhysicalPorts: nothing is free, or nothing that is fits.
    :raises PortgroupPhysnetInconsistent: members of a port group are in several
        physical networks.
    """
    vif = vif_info["id"]
    for thing, found in attached(task):
        if found == vif:
            raise errors.VifAlreadyAttached(
                vif=vif, object_type=type(thing).__name__.lower(), object_uuid=thing.uuid
            )
    _check_wish(task, vif_info)
    free = list(_free(task, vif_info, networks))
    if not free:
        raise errors.NoFreePhysicalPorts(vif=vif)
    return max(free, key=lambda thing: _rank(task, thing, networks))


def _check_wish(task: Task, vif_info: Mapping[str, Any]) -> None:
    """Make sure that the port or port group which the user names is one of this node.

    :raises InvalidParameterValue: it is not.
    """
    wishes = (
        ("port_uuid", "port", task.ports),
        ("portgroup_uuid", "port group", task.portgroups),
    )
    for name, what, things in wishes:
        wish = vif_info.get(name)
        if wish is not None and all(thing.uuid != wish for thing in things):
            raise errors.InvalidParameterValue(
                f"VIF {vif_info['id']} can not be attached: {name} is '{wish}', but node "
                f"{task.node.uuid} has no such {what}."
            )


def _free(
    task: Task, vif_info: Mapping[str, Any], networks: Collection[str]
) -> Iterator[Attachable]:
    wanted_port, wanted_group = vif_info.get("port_uuid"), vif_info.get("portgroup_uuid")
    free = [
        port
        for port in task.ports
        if tenant(port) is None
        and wanted_port in (None, port.uuid)
        and is_usable(task, port)
        and _reaches(port, networks)
    ]
    for group in task.portgroups:
        of_group = [port for port in free if port.portgroup_id == group.id]
        if tenant(group) is not None or not of_group:
            continue
        if any(tenant(port) for port in members(task, group)):
            # The bond is broken up already.
            if wanted_group is None:
                yield from of_group
        elif wanted_group in (None, group.uuid):
            yield group
    if wanted_group is None:
        yield from (port for port in free if port.portgroup_id is None)


def _reaches(port: models.Port, networks: Collection[str]) -> bool:
    return not networks or port.physical_network is None or port.physical_network in networks


def _rank(task: Task, thing: Attachable, networks: Collection[str]) -> tuple[bool, bool, bool]:
    if isinstance(thing, models.Port):
        return thing.physical_network in networks, False, bool(thing.pxe_enabled)
    return physical_network(task, thing) in networks, True, True


def physical_network(task: Task, thing: Attachable) -> str | None:
    """Return the physical network of a port, or of the members of a port group.

    :raises PortgroupPhysnetInconsistent: the members are in several.
    """
    if isinstance(thing, models.Port):
        return thing.physical_network
    found = {port.physical_network for port in members(task, thing)}
    if len(found) > 1:
        raise errors.PortgroupPhysnetInconsistent(
            portgroup=thing.uuid,
            physical_networks=", ".join(sorted(name or "none" for name in found)),
        )
    return found.pop() if found else thing.physical_network


def is_usable(task: Task, port: models.Port) -> bool:
    """Tell whether the Networking service can be told where a port is connected."""
    if "client-id" in port.extra:
        return True
    link = port.local_link_connection
    if task.driver.network.configures_switches and not link:
        return False
    on_smart_nic = {"port_id", "hostname"} <= link.keys()
    return bool(port.is_smartnic) == on_smart_nic
