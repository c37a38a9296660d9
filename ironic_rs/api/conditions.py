"""Conditional requests: entity tags, If-Match and If-None-Match (RFC 9110 sections 8.8.3, 13).

An entity tag has two parts, ``"<revision>.<view>"``.  The view is a digest of the answer's
bytes: two answers with the same tag are the same, whatever version or ``fields`` they were
asked in, so that 304 is always right.  The revision is that of the record
(:mod:`ironic_rs.db.revision`), the same in every view of it.  A write compares the revision
alone: a tag read in one version, of some fields, or of a part such as the traits of a node,
guards a write in any other.

What has no record of its own (drivers, settings of a machine, ...) has tags without a
revision: they answer If-None-Match and are no condition of a write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironic_rs.api.router import ANY_METHOD
from ironic_rs.domain import errors
from ironic_rs.domain.fields import show

if TYPE_CHECKING:
    import webob

    from ironic_rs.api.call import Call

_VIEW_BYTES = 8
_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
_REVISION = re.compile(r"([0-9a-f]{24})\.[0-9a-f]{16}")

#: A stored answer may be used after asking, and only by who got it.
_CACHING = {
    "Cache-Control": "private, no-cache",
    "Vary": "OpenStack-API-Version, X-OpenStack-Ironic-API-Version, X-Auth-Token, Authorization",
}


@dataclass(frozen=True)
class Tags:
    """The entity tags of one header field.

    :param any: the field was ``*``.
    :param strong: opaque parts of the strong tags.
    :param weak: opaque parts of the weak ones.
    """

    any: bool = False
    strong: Sequence[str] = ()
    weak: Sequence[str] = ()


def entity_tag(revision: str | None, content: bytes) -> str:
    """Return the opaque part of the tag of an answer."""
    view = hashlib.blake2b(content, digest_size=_VIEW_BYTES).hexdigest()
    return view if revision is None else f"{revision}.{view}"


def parse(header: str, value: str) -> Tags:
    """Return the tags of a header field.

    :raises InvalidParameterValue: not ``*`` and not a list of entity tags.
    """
    if value.strip() == "*":
        return Tags(any=True)
    strong: list[str] = []
    weak: list[str] = []
    place = 0
    while place < len(value):
        found = _TAG.match(value, place)
        end = found.end() if found else place
        if found is None or (end < len(value) and value[end] != ","):
            raise errors.InvalidParameterValue(
                f"Invalid value {show(value)} of the header {header}; accepted: *, or entity tags "
                'in double quotes, with commas between them, such as "a", "b".'
            )
        (weak if found[1] else strong).append(found[2])
        place = end + 1
    return Tags(strong=strong, weak=weak)


def prepare(call: Call, environ: Mapping[str, Any]) -> None:
    """Take the condition of a request that changes something; who writes looks at it.

    :raises InvalidParameterValue: a header can not be understood, or If-None-Match.
    :raises PreconditionFailed: a condition on what has no entity tag.
    """
    if call.route.method in ("GET", ANY_METHOD):
        return
    if "HTTP_IF_NONE_MATCH" in environ:
        raise errors.InvalidParameterValue(
            f"The header If-None-Match is a condition of GET, not of {call.route.method}; "
            "accepted here: If-Match."
        )
    given = environ.get("HTTP_IF_MATCH")
    if given is None:
        return
    tags = parse("If-Match", given)
    if tags.any:
        # That it exists is looked at in any case.
        return
    if not call.route.conditional:
        raise errors.PreconditionFailed(
            f"{call.route.method} {call.route.path} can not have the condition If-Match: "
            f"{show(given)}, for what it changes has no entity tag. Nothing was done."
        )
    # Strong comparison: a weak tag is equal to none.
    found = (_REVISION.fullmatch(tag) for tag in tags.strong)
    call.context.if_match = tuple(match[1] for match in found if match)


def finish(
    call: Call, environ: Mapping[str, Any], response: webob.Response, revision: str | None
) -> None:
    """Give the answer its entity tag, and leave its body out where the client has it.

    :raises InvalidParameterValue: a header can not be understood.
    :raises PreconditionFailed: GET with an If-Match that names other tags.
    """
    tag = entity_tag(revision, response.body)
    if call.route.method == "GET":
        if "HTTP_IF_MATCH" in environ:
            wanted = parse("If-Match", environ["HTTP_IF_MATCH"])
            if not wanted.any and tag not in wanted.strong:
                raise errors.PreconditionFailed(
                    f'What is here has the entity tag "{tag}", none of the tags of If-Match.'
                )
        if "HTTP_IF_NONE_MATCH" in environ:
            known = parse("If-None-Match", environ["HTTP_IF_NONE_MATCH"])
            if known.any or tag in known.strong or tag in known.weak:
                response.status_int = 304
                response.body = b""
                response.headers.pop("Content-Type", None)
                response.headers.pop("Content-Length", None)
    response.headers["ETag"] = f'"{tag}"'
    response.headers.update(_CACHING)
