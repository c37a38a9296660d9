"""The Networking service: a thin client of its API v2.0.

Requests are made with the credentials of ``[neutron]``.  What a user may not see is
not ours to give away: :func:`port_for` reads with the user's own token.

All functions raise ``NetworkError``, whose text names the request and what went wrong;
a thing that is not there is None or left out of the list, not an error.

Source: specification drivers.md section 13.4.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import requests
from keystoneauth1 import exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, secrets
from ironic_rs.integrations import keystone
from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

Document = dict[str, Any]

_GROUP = "neutron"
_LONGEST_REASON = 500
#: Seconds before the first repetition; doubled for each further one.
_FIRST_PAUSE = 0.5
#: Several identifiers in one query; more would make URLs that servers refuse.
_PER_QUERY = 50


def port(port_id: str) -> Document | None:
    """Return a port."""
    return _show("port", port_id)


def port_for(context: RequestContext, port_id: str) -> Document | None:
    """Return a port if the user may see it.

    A user of a project is asked for by the user's token; the service itself and system
    users may see every port.
    """
    return _show("port", port_id, _as_user(context))


def ports(filters: Mapping[str, str | Sequence[str]]) -> list[Document]:
    """Return the ports that match all filters; of a list, any of its values."""
    return _list("ports", filters)


def create_port(values: Mapping[str, Any]) -> Document:
    """Make a port."""
    answer = _request("POST", "/ports", json={"port": values})
    return _content(answer, "port", dict)


def update_port(port_id: str, values: Mapping[str, Any]) -> Document | None:
    """Change a port; None when it does not exist."""
    answer = _request("PUT", _path("ports", port_id), (404,), json={"port": values})
    return None if answer.status_code == 404 else _content(answer, "port", dict)


def delete_port(port_id: str) -> None:
    """Delete a port, if it is still there."""
    _request("DELETE", _path("ports", port_id), (404,))


def network(network_id: str) -> Document | None:
    """Return a network."""
    return _show("network", network_id)


def networks(filters: Mapping[str, str | Sequence[str]]) -> list[Document]:
    """Return the networks that match all filters."""
    return _list("networks", filters)


def subnets(ids: Iterable[str]) -> list[Document]:
    """Return those of the subnets that exist."""
    return _by_id("subnets", ids)


def segments(filters: Mapping[str, str | Sequence[str]]) -> list[Document]:
    """Return the segments that match all filters."""
    return _list("segments", filters)


def security_groups(ids: Iterable[str]) -> list[Document]:
    """Return those of the security groups that exist."""
    return _by_id("security-groups", ids)


def agents(host: str) -> list[Document]:
    """Return the agents of a host."""
    return _list("agents", {"host": host})


# Requests


def _path(collection: str, ident: str) -> str:
    return f"/{collection}/{urllib.parse.quote(ident, safe='')}"


def _show(kind: str, ident: str, headers: Mapping[str, str] | None = None) -> Document | None:
    answer = _request("GET", _path(f"{kind}s", ident), (404,), headers=headers)
    return None if answer.status_code == 404 else _content(answer, kind, dict)


def _list(collection: str, filters: Mapping[str, str | Sequence[str]]) -> list[Document]:
    answer = _request("GET", f"/{collection}", params=filters)
    return _content(answer, collection.replace("-", "_"), list)


def _by_id(collection: str, ids: Iterable[str]) -> list[Document]:
    wanted = sorted(set(ids))
    found: list[Document] = []
    for start in range(0, len(wanted), _PER_QUERY):
        found += _list(collection, {"id": wanted[start : start + _PER_QUERY]})
    return found


def _as_user(context: RequestContext) -> dict[str, str] | None:
    """Return the headers of a request on behalf of a user; None for one of our own."""
    if not context.auth_token or context.system_scope or CONF.neutron.auth_type == "none":
        return None
    try:
        ours = keystone.adapter(_GROUP).get_token()
    except (exceptions.ClientException, exceptions.MissingRequiredOptions) as exc:
        raise _failed("a token of the service", _explained(exc)) from exc
    # With a token of the service beside it, one that has just expired is accepted.
    return {"X-Auth-Token": context.auth_token, "X-Service-Token": ours or ""}


def _request(
    method: str,
    path: str,
    accepted: Sequence[int] = (),
    *,
    headers: Mapping[str, str] | None = None,
    **arguments: Any,
) -> requests.Response:
    """Send one request, again when the connection fails and that does no harm.

    :param accepted: statuses besides 2xx that are no error.
    :param headers: with credentials, which replace those of the service.
    :raises NetworkError: no usable answer.
    """
    what = f"{method} {path}"
    # A repeated POST could make a second port that nobody knows of.
    tries = 1 if method == "POST" else 1 + CONF.neutron.retries
    for attempt in range(tries):
        try:
            answer = _send(method, path, headers, arguments)
            break
        except exceptions.ConnectTimeout as exc:
            raise _failed(what, f"no answer within {CONF.neutron.request_timeout} s") from exc
        except exceptions.ConnectFailure as exc:
            if attempt + 1 == tries:
                raise _failed(what, _explained(exc)) from exc
            LOG.warning("Networking service: %s: %s; trying again", what, _explained(exc))
            time.sleep(_FIRST_PAUSE * 2**attempt)
        except (exceptions.ClientException, exceptions.MissingRequiredOptions) as exc:
            raise _failed(what, _explained(exc)) from exc
    if answer.ok or answer.status_code in accepted:
        return answer
    raise _failed(what, f"HTTP {answer.status_code}: {_reason(answer)}")


def _send(
    method: str, path: str, headers: Mapping[str, str] | None, arguments: Mapping[str, Any]
) -> requests.Response:
    adapter = keystone.adapter(_GROUP)
    endpoint = adapter.get_endpoint()
    if not endpoint:
        raise exceptions.EndpointNotFound(
            "the service catalog has no endpoint of the Networking service"
        )
    endpoint = endpoint.rstrip("/").removesuffix("/v2.0")
    return adapter.request(
        f"{endpoint}/v2.0{path}",
        method,
        headers={"Accept": "application/json", **(headers or {})},
        authenticated=headers is None,
        raise_exc=False,
        timeout=CONF.neutron.request_timeout,
        **arguments,
    )


def _content(answer: requests.Response, name: str, kind: type) -> Any:
    what = f"{answer.request.method} {answer.request.path_url}"
    try:
        found = answer.json()[name]
    except (ValueError, KeyError, TypeError) as exc:
        raise _failed(what, f"the answer is no JSON object with '{name}'") from exc
    if not isinstance(found, kind):
        raise _failed(what, f"'{name}' in the answer is not of the expected type")
    return found


# Texts


def _failed(what: str, reason: str) -> errors.NetworkError:
    return errors.NetworkError(f"Networking service: {what} failed: {reason}")


def _explained(exc: Exception) -> str:
    """Return the text of an error of keystoneauth, with what to look at."""
    text = secrets.mask_text(str(exc))[:_LONGEST_REASON].rstrip(".")
    if isinstance(exc, exceptions.ConnectFailure | exceptions.SSLError):
        return text
    return f"{text}. Check the credentials and the endpoint in [neutron]"


def _reason(answer: requests.Response) -> str:
    """Return what the service says about its refusal."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    text = ""
    for inner in document.values() if isinstance(document, dict) else ():
        text = str(inner.get("message", "") if isinstance(inner, dict) else inner)
    text = secrets.mask_text(text or answer.text or str(answer.reason))[:_LONGEST_REASON]
    if answer.status_code in (401, 403):
        text += " (the credentials in [neutron], or the user's token, do not allow it)"
    return text
