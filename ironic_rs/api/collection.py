"""Lists: paging, sorting, the choice of fields, and the link to the next page.

Source: specification rest-api.md section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Resource, Row, View
from ironic_rs.domain import errors
from ironic_rs.domain.fields import Table, show

Select = Callable[..., Sequence[Row]]

_NOT_KEPT = frozenset({"limit", "marker", "fields", "sort_key", "sort_dir", "detail"})


class Page:
    """What a list request asks for, checked.

    :param detail: the request is for the detailed documents whatever its arguments.
    :ivar view: how rows are shown.
    """

    def __init__(
        self,
        call: Call,
        resource: Resource,
        *,
        detail: bool = False,
    ) -> None:
        args = call.args
        self._call = call
        self._resource = resource
        maximum = call.conf.api.max_limit
        self.limit = min(args["limit"] or maximum, maximum)
        self.marker = args["marker"]
        self.sort_key = args["sort_key"]
        self.sort_dir = args["sort_dir"]
        check_sort_key(resource.table, self.sort_key, call.minor)
        self._asked = args.get("fields")
        wants_detail = args.get("detail")
        if self._asked is not None and wants_detail:
            raise errors.InvalidParameterValue(
                "The arguments fields and detail can not be given together."
            )
        if self._asked is not None:
            self.view: View = resource.view(resource.choose(self._asked, call.minor), call.minor)
        elif detail or wants_detail:
            self.view = resource.detail(call.minor)
        else:
            self.view = resource.short(call.minor)
        self._short = self._asked is None and not (detail or wants_detail)

    def read(
        self, select: Select, filters: Mapping[str, Any], more: Sequence[str] = ()
    ) -> Sequence[Row]:
        """Return the rows of the page.

        :param more: columns besides those of the view.
        """
        return select(
            dict.fromkeys((*self.view.columns, *more)),
            filters,
            limit=self.limit,
            marker=self.marker,
            sort_key=self.sort_key,
            sort_dir=self.sort_dir,
            stored=self.view.stored,
        )

    def answer(
        self,
        documents: list[dict[str, Any]],
        rows: Sequence[Row],
        path: str,
        marker: str = "uuid",
    ) -> dict[str, Any]:
        """Return the collection document.

        :param rows: the rows as read, before any filter of the API itself.
        :param path: path of this list below ``/v1/``.
        :param marker: column that identifies a row for the next page.
        """
        answer: dict[str, Any] = {self._resource.table.collection: documents}
        if len(rows) == self.limit and rows:
            answer["next"] = self._next(path, rows[-1][marker])
        return answer

    def _next(self, path: str, marker: str) -> str:
        query: list[tuple[str, Any]] = [
            ("sort_key", self.sort_key),
            ("sort_dir", self.sort_dir),
        ]
        for name, value in self._call.query.items():
            if name not in _NOT_KEPT:
                values = value if isinstance(value, list) else [value]
                query.extend((name, item) for item in values)
        if self._call.args.get("detail") is not None:
            query.append(("detail", self._call.args["detail"]))
        fields = self._asked
        if self._short and "fields" in {spec.name for spec in self._call.route.args}:
            # Versions that do not know the argument could not follow the link.
            fields = self.view.fields if self._call.has(V.FIELDS) else None
        if fields is not None:
            query.append(("fields", ",".join(n for n in fields if n != "links")))
        query += [("limit", self.limit), ("marker", marker)]
        return f"{self._call.url(path)}?{urlencode(query, safe=',')}"


def check_sort_key(table: Table, name: str, minor: int) -> None:
    """Refuse keys that can not be sorted by.

    :raises InvalidParameterValue: not a sortable field (400).
    :raises NotAcceptable: newer than the version (406).
    """
    accepted = table.sort_keys(minor)
    if name in accepted:
        return
    if name not in table.sort_keys():
        raise errors.InvalidParameterValue(
            f"Cannot sort by {show(name)} (argument 'sort_key'); accepted: {', '.join(accepted)}."
        )
    raise errors.NotAcceptable(
        f"Sorting by {name} needs API version 1.{table.by_name[name].since} or newer; "
        f"the request uses 1.{minor}."
    )
