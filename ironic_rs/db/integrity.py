"""Database errors as errors of the product (data-model.md section 4.1), in one place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import ColumnElement, Connection
from sqlalchemy import exc as sa_exc

from ironic_rs.db import models
from ironic_rs.db.base import Base, table
from ironic_rs.domain import errors

Maker = Callable[[Mapping[str, Any]], errors.IronicError]


def _maker(cls: type[errors.IronicError], **fields: str) -> Maker:
    """Error class whose template fields come from the columns being written."""

    def make(values: Mapping[str, Any]) -> errors.IronicError:
        return cls(**{field: values.get(column) for field, column in fields.items()})

    return make


# Table -> a column of the violated constraint -> error; "" is any other constraint.
_DUPLICATES: dict[type[Base], dict[str, Maker]] = {
    models.Node: {
        "name": _maker(errors.DuplicateName, name="name"),
        "instance_uuid": _maker(
            errors.InstanceAssociated, instance_uuid="instance_uuid", node="uuid"
        ),
        "": _maker(errors.NodeAlreadyExists, uuid="uuid"),
    },
    models.Port: {
        "address": _maker(errors.MACAlreadyExists, mac="address"),
        "name": _maker(errors.PortDuplicateName, name="name"),
        "": _maker(errors.PortAlreadyExists, uuid="uuid"),
    },
    models.Portgroup: {
        "name": _maker(errors.PortgroupDuplicateName, name="name"),
        "address": _maker(errors.PortgroupMACAlreadyExists, mac="address"),
        "": _maker(errors.PortgroupAlreadyExists, uuid="uuid"),
    },
    models.Chassis: {"": _maker(errors.ChassisAlreadyExists, uuid="uuid")},
    models.VolumeConnector: {
        "connector_id": _maker(
            errors.VolumeConnectorTypeAndIdAlreadyExists, type="type", connector_id="connector_id"
        ),
        "": _maker(errors.VolumeConnectorAlreadyExists, uuid="uuid"),
    },
    models.VolumeTarget: {
        "boot_index": _maker(errors.VolumeTargetBootIndexAlreadyExists, boot_index="boot_index"),
        "": _maker(errors.VolumeTargetAlreadyExists, uuid="uuid"),
    },
    models.DeployTemplate: {
        "name": _maker(errors.DeployTemplateDuplicateName, name="name"),
        "": _maker(errors.DeployTemplateAlreadyExists, uuid="uuid"),
    },
    models.Runbook: {
        "name": _maker(errors.RunbookDuplicateName, name="name"),
        "": _maker(errors.RunbookAlreadyExists, uuid="uuid"),
    },
    models.InspectionRule: {"": _maker(errors.InspectionRuleAlreadyExists, uuid="uuid")},
    models.Allocation: {
        "name": _maker(errors.AllocationDuplicateName, name="name"),
        "": _maker(errors.AllocationAlreadyExists, uuid="uuid"),
    },
    models.BIOSSetting: {"": _maker(errors.BIOSSettingAlreadyExists, name="name", node="node_id")},
    models.FirmwareComponent: {
        "": _maker(errors.FirmwareComponentAlreadyExists, name="component", node="node_id")
    },
    models.Conductor: {"": _maker(errors.ConductorAlreadyRegistered, conductor="hostname")},
    models.ConductorHardwareInterface: {
        "": _maker(errors.ConductorHardwareInterfacesAlreadyRegistered, row="row")
    },
}


def refuse_other_case(
    connection: Connection,
    model: type[Base],
    given: Mapping[str, Any],
    own: ColumnElement[bool] | None = None,
) -> None:
    """Refuse a name that another record has in other letter case (1 SELECT, with a name).

    The unique indexes of MySQL and MariaDB do so themselves.

    :param given: columns being written.
    :param own: condition of the record itself, on an update.
    """
    name = given.get("name")
    make = _DUPLICATES.get(model, {}).get("name")
    if name is None or make is None or connection.dialect.name in ("mysql", "mariadb"):
        return
    rows = table(model)
    query = sa.select(rows.c.name).where(sa.func.lower(rows.c.name) == name.lower()).limit(1)
    found = connection.execute(query if own is None else query.where(sa.not_(own))).scalar()
    if found is not None:
        raise make({**given, "name": found})


@contextlib.contextmanager
def translated(model: type[Base], values: Mapping[str, Any]) -> Iterator[None]:
    """Turn a violated constraint of ``model`` into the error that names the condition.

    :param values: columns being written (and ``uuid`` of the record on an update).
    """
    try:
        yield
    except db_exc.DBDuplicateEntry as e:
        makers = _DUPLICATES.get(model)
        if makers is None:
            raise
        for column in e.columns or ():
            if column in makers:
                raise makers[column](values) from e
        raise makers[""](values) from e
    except db_exc.DBReferenceError as e:
        raise errors.InvalidParameterValue(
            err=f"A {model.__tablename__} record refers to a record that does not exist, or is "
            f"still referred to ({e.key or 'foreign key'})."
        ) from e
    except (db_exc.DBDataError, sa_exc.DataError) as e:
        raise errors.InvalidParameterValue(
            err=f"A value does not fit its column in {model.__tablename__}: {_reason(e)}"
        ) from e


def _reason(error: db_exc.DBDataError | sa_exc.DataError) -> str:
    """What the server said, without the statement and its (maybe secret) values."""
    inner = error.inner_exception if isinstance(error, db_exc.DBDataError) else error
    return str(getattr(inner, "orig", None) or "invalid data").splitlines()[0]
