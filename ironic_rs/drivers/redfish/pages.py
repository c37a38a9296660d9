"""Collections that come in pages, made whole.

A BMC may show a part of the members of a collection and a link to the next ones.
sushy reads the first page only: a drive, a network card or a system of a later one
would not exist for anybody.

Source: DMTF DSP0266, partial results (Members@odata.nextLink).
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import sushy.exceptions

#: Members of the longest collection that is read.  The largest of BMCs, logs, have a
#: few thousand.
MOST_MEMBERS = 20_000

_NEXT = "Members@odata.nextLink"


class BrokenCollection(sushy.exceptions.SushyError):
    """A page of a collection is none, or the pages go in a circle, or on and on."""

    message = "the collection at %(url)s cannot be read whole: %(why)s"


def whole(
    response: requests.Response, get: Callable[[str], requests.Response], seconds: float
) -> requests.Response:
    """Return an answer with the members of all its pages; itself when it is all there is.

    :param get: reads one more page, by its path and query on this BMC.
    :param seconds: in which all pages have to be there.
    :raises BrokenCollection: a page is none, or the pages do not end.
    """
    if _NEXT.encode() not in response.content:
        return response
    document = _object(response)
    if document is None or not isinstance(document.get("Members"), list):
        return response
    end = time.monotonic() + seconds
    url = here = str(response.url)
    seen = {_on_this_bmc(url, url)}
    members = list(document["Members"])
    link = document.pop(_NEXT)
    while link:
        path = _on_this_bmc(here, link)
        why = None
        if path in seen:
            why = f"{path} comes again"
        elif len(members) > MOST_MEMBERS:
            why = f"it has more than {MOST_MEMBERS} members"
        elif time.monotonic() > end:
            why = f"{len(seen)} pages took {seconds:g} s and are not all"
        if why is not None:
            raise BrokenCollection(url=url, why=why)
        seen.add(path)
        answer = get(path)
        here = str(answer.url)
        page = _object(answer)
        more = None if page is None else page.get("Members")
        if page is None or not isinstance(more, list):
            raise BrokenCollection(url=url, why=f"{path} is no page of it")
        members += more
        link = page.get(_NEXT)
    return _answer_of(response, {**document, "Members": members})


def _on_this_bmc(here: str, link: Any) -> str:
    """Return path and query of a link; where else it leads does not matter.

    Whoever a BMC names must not get what is for the BMC alone, such as the token.
    """
    parts = urlsplit(urljoin(here, link if isinstance(link, str) else _reference(link)))
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _reference(link: Any) -> str:
    """Return the target of a link that is written as a reference, as some BMCs do."""
    target = link.get("@odata.id") if isinstance(link, dict) else None
    return target if isinstance(target, str) else ""


def _object(response: requests.Response) -> dict[str, Any] | None:
    try:
        found = response.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _answer_of(first: requests.Response, document: dict[str, Any]) -> requests.Response:
    made = requests.Response()
    made.status_code = first.status_code
    made.headers = first.headers
    made.url = first.url
    made.request = first.request
    made.encoding = "utf-8"
    made.raw = io.BytesIO(json.dumps(document).encode())
    return made
