"""Base of all records: common columns, and the shapes that columns are declared with."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, cast

from sqlalchemy import BigInteger, String, Table, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from ironic_rs.db.types import JsonDict, JsonList, UtcDateTime, utcnow

str15 = Annotated[str, 15]
str16 = Annotated[str, 16]
str18 = Annotated[str, 18]
str32 = Annotated[str, 32]
str36 = Annotated[str, 36]
str64 = Annotated[str, 64]
str80 = Annotated[str, 80]
str255 = Annotated[str, 255]
text = Annotated[str, "text"]
bigint = Annotated[int, "bigint"]
json_dict = Annotated[dict[str, Any], mapped_column(JsonDict(), nullable=True, default=dict)]
json_list = Annotated[list[Any], mapped_column(JsonList(), nullable=True, default=list)]
json_dict_long = Annotated[
    dict[str, Any], mapped_column(JsonDict(long=True), nullable=True, default=dict)
]
json_list_long = Annotated[
    list[Any], mapped_column(JsonList(long=True), nullable=True, default=list)
]

TABLE_OPTIONS = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_unicode_ci"),
    )
}


class Base(DeclarativeBase):
    """What every table has.

    A record made by hand gets the defaults of its columns at once; ``id`` and the
    times stay None until it is read from the database.
    """

    __abstract__ = True
    __allow_unmapped__ = True
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str15: String(15),
        str16: String(16),
        str18: String(18),
        str32: String(32),
        str36: String(36),
        str64: String(64),
        str80: String(80),
        str255: String(255),
        text: Text(),
        bigint: BigInteger(),
        datetime.datetime: UtcDateTime(),
    }
    # Version of the upstream object that a row is written as; None where upstream
    # writes none (data-model.md section 5, release 39.0).
    object_version: ClassVar[str | None] = None
    # Attributes that are no columns, with what makes their first value.
    attached: ClassVar[tuple[tuple[str, Callable[[], Any]], ...]] = ()

    created_at: Mapped[datetime.datetime | None] = mapped_column(default=utcnow())
    updated_at: Mapped[datetime.datetime | None] = mapped_column(onupdate=utcnow())
    version: Mapped[str15 | None]

    def __init__(self, **values: Any) -> None:
        for column in self.__table__.columns:
            default = column.default
            first: Any = None
            if isinstance(column.type, JsonDict | JsonList):
                first = column.type.python_type_()
            elif default is not None and default.is_scalar:
                first = default.arg
            setattr(self, column.name, values.pop(column.name, first))
        for name, make in self.attached:
            setattr(self, name, values.pop(name) if name in values else make())
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(values))}")

    def __repr__(self) -> str:
        # Never more than the identity: other columns may hold secrets.
        names = ("id", "uuid", "node_id", "name", "hostname")
        known = {n: self.__dict__[n] for n in names if self.__dict__.get(n) is not None}
        return f"<{type(self).__name__} {' '.join(f'{k}={v}' for k, v in known.items())}>"


def table(model: type[Base]) -> Table:
    """The table of a record class; queries name its columns, not the class's attributes,
    so that Core reads them without the ORM."""
    return cast(Table, model.__table__)
