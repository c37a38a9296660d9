"""The whole WSGI application in this process, over SQLite, with or without a conductor."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import webob

from ironic_rs.api.microversions import HEADER
from tests.functional.api.described import Described

LATEST = "1.115"


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: webob.headers.ResponseHeaders
    raw: bytes
    body: Any = None

    @property
    def fault(self) -> dict[str, Any]:
        """The inner document of an error."""
        inner = json.loads(self.body["error_message"])
        assert isinstance(inner, dict)
        return inner

    @property
    def text(self) -> str:
        """The text of an error."""
        fault = self.fault
        return str(fault.get("faultstring", fault.get("description")))


@dataclass
class Client:
    """Sends requests to the application.

    :param version: microversion; None sends no header.
    """

    app: Any
    version: str | None = LATEST
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.app, Described):
            self.app = Described(self.app)

    def at(self, version: str | None) -> Client:
        """Return a client that speaks another microversion."""
        return Client(self.app, version, self.headers)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        # As clients do: everything but ASCII is percent-encoded.
        encoded = "".join(c if " " < c < "\x7f" else quote(c) for c in path)
        request = webob.Request.blank(encoded, method=method)
        if self.version is not None:
            request.headers[HEADER] = self.version
        request.headers.update(self.headers)
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = "application/json"
        if raw is not None:
            request.body = raw
            request.content_type = "application/json"
        request.headers.update(headers or {})
        response = request.get_response(self.app)
        answer = Answer(response.status_int, response.headers, response.body)
        if response.body and response.content_type == "application/json":
            answer.body = json.loads(response.body)
        return answer

    def get(self, path: str, **kwargs: Any) -> Answer:
        return self.request("GET", path, **kwargs)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self.request("POST", path, body, **kwargs)

    def put(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self.request("PUT", path, body, **kwargs)

    def patch(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self.request("PATCH", path, body, **kwargs)

    def delete(self, path: str, body: Any = None, **kwargs: Any) -> Answer:
        return self.request("DELETE", path, body, **kwargs)
