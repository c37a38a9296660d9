"""GET /v1/openapi.json: the description of the API that programs read.

Public, as the version document is: it holds nothing of the deployment but the
highest version and how to authenticate, which every answer tells as well.
"""

from __future__ import annotations

import functools
from importlib import resources

import orjson

from ironic_rs.api import microversions, openapi
from ironic_rs.api.args import Arg
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.documents import OBJECT, Shape
from ironic_rs.domain.fields.kinds import String

ARGS = (Arg("version", String(pattern=r"1\.[0-9]{1,3}|latest", pattern_text="1.X or latest")),)
DESCRIPTION = Shape("the OpenAPI description of one microversion", OBJECT)
#: Descriptions that are kept, of some 300 kB each.
_KEPT = 16


_NETWORK_DATA = resources.files("ironic_rs.api") / "schemas" / "network_data.json"


def show_description(call: Call) -> Reply:
    """GET /v1/openapi.json."""
    conf = call.conf
    highest = microversions.maximum(conf.pin_release_version)
    wanted = call.args["version"]
    minor = call.minor if wanted is None else microversions.parse(wanted, highest)
    shipped = conf.api.network_data_schema == str(_NETWORK_DATA)
    rest = _encoded(minor, conf.auth_strategy, highest, shipped)
    servers = orjson.dumps({"servers": [{"url": call.base}]})
    return Reply(content=servers[:-1] + b"," + rest[1:])


@functools.lru_cache(maxsize=_KEPT)
def _encoded(minor: int, auth: str, highest: int, shipped: bool) -> bytes:
    # The table names this module.
    from ironic_rs.api.routes import ROUTES

    network_data = _NETWORK_DATA.read_text() if shipped else None
    settings = openapi.Settings(auth, highest, network_data)
    return orjson.dumps(openapi.describe(ROUTES, minor, settings))
