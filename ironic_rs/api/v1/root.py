"""Root and version documents.

Source: specification rest-api.md section 1.1.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api import microversions
from ironic_rs.api.call import Call
from ironic_rs.api.documents import ANYTHING, LINKS, TEXT, Schema, Shape, one_of, record
from ironic_rs.api.microversions import V

_DOCUMENTATION = "https://docs.openstack.org/api-ref/baremetal/"

#: Collections of the version document, with the version that shows them.
_COLLECTIONS: tuple[tuple[str, int], ...] = (
    ("chassis", 1),
    ("nodes", 1),
    ("ports", 1),
    ("drivers", 1),
    ("lookup", V.RAMDISK),
    ("heartbeat", V.RAMDISK),
    ("portgroups", V.PORTGROUPS),
    ("volume", V.VOLUMES),
    ("conductors", V.CONDUCTORS),
    ("allocations", V.ALLOCATIONS),
    ("events", V.EVENTS),
    ("deploy_templates", V.DEPLOY_TEMPLATES),
    ("shards", V.SHARDS),
    ("continue_inspection", V.CONTINUE_INSPECTION),
    ("runbooks", V.RUNBOOKS),
    ("inspection_rules", V.INSPECTION_RULES),
)

_URI: Schema = {"type": "string", "format": "uri"}
_VERSION: Schema = record(
    {
        "id": TEXT,
        "links": LINKS,
        "status": one_of(("CURRENT",)),
        "min_version": TEXT,
        "version": TEXT,
    }
)
ANY_BODY = Shape("anything, unread", ANYTHING)
ROOT = Shape(
    "the versions of the API",
    record(
        {
            "name": TEXT,
            "description": TEXT,
            "default_version": _VERSION,
            "versions": {"type": "array", "items": _VERSION},
        }
    ),
)


def _version_document(minor: int) -> Schema:
    described = {"type": "array", "items": record({"href": _URI, "rel": TEXT}, type=TEXT)}
    fixed = {
        "id": TEXT,
        "links": described,
        "media_types": record({"base": TEXT, "type": TEXT}),
        "version": _VERSION,
    }
    return record({**fixed, **{name: LINKS for name, since in _COLLECTIONS if since <= minor}})


VERSION = Shape("version 1 of the API and its collections", _version_document)


def _version(call: Call) -> dict[str, Any]:
    highest = microversions.maximum(call.conf.pin_release_version)
    return {
        "id": "v1",
        "links": [{"href": call.url(""), "rel": "self"}],
        "status": "CURRENT",
        "min_version": microversions.text(microversions.MINIMUM),
        "version": microversions.text(highest),
    }


def show_root(call: Call) -> dict[str, Any]:
    """Any method on /."""
    version = _version(call)
    return {
        "name": "OpenStack Ironic API",
        "description": (
            "Provisions bare metal machines: enrols, inspects, cleans, deploys and tears them down."
        ),
        "default_version": version,
        "versions": [version],
    }


def show_version(call: Call) -> dict[str, Any]:
    """GET /v1."""
    document: dict[str, Any] = {
        "id": "v1",
        "links": [
            {"href": call.url(""), "rel": "self"},
            {"href": _DOCUMENTATION, "rel": "describedby", "type": "text/html"},
        ],
        "media_types": {
            "base": "application/json",
            "type": "application/vnd.openstack.ironic.v1+json",
        },
        "version": _version(call),
    }
    for name, since in _COLLECTIONS:
        if call.has(since):
            document[name] = call.links(f"{name}/")
    return document
