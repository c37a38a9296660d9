"""The WSGI application: Pecan, dispatching into the route table.

Pecan receives the request, runs the hooks, negotiates the content type and calls
the controller; which handler that runs, the route table says.  Hooks negotiate the
version, map errors and add the version headers.  :func:`build` wraps the application
in the middleware, in the order of the specification (rest-api.md section 1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pecan
import webob
from oslo_config import cfg
from oslo_middleware import cors, healthcheck, http_proxy_to_wsgi
from oslo_middleware.healthcheck import opts as healthcheck_opts
from pecan import hooks
from pecan.core import ExplicitPecan

from ironic_rs.api import (
    body,
    call,
    conditions,
    errors,
    microversions,
    middleware,
    notify,
    router,
)
from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.errors import IncorrectConfiguration, NotFound, Unauthorized
from ironic_rs.httpd import identity
from ironic_rs.rpc import transport
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.context import RequestContext
from ironic_rs.rpc.ring import HashRing
from ironic_rs.telemetry import health

WSGIApplication = Any

_JSON = "application/json"
#: What pages of another origin may send and see besides the headers of versions.
_ASKED = ("OpenStack-API-Version", "If-Match", "If-None-Match")
_ANSWERED = ("ETag", "Location", "Retry-After", errors.CODE_HEADER, *middleware.REQUEST_ID_HEADERS)


class ApiRequest(webob.Request):
    """A request whose body is read once, within the limits.

    ``json`` and ``params`` are what Pecan looks at to collect arguments of a
    controller; ours come from the route table, so it gets no body keys.
    """

    @property
    def json(self) -> Any:
        """Nothing, so that Pecan copies no documents."""
        return None

    @property
    def params(self) -> Any:
        """The query string."""
        return self.GET


class Root:
    """The only Pecan controller: runs the handler of the route."""

    def __init__(self, services: call.Services) -> None:
        self._services = services

    @pecan.expose(content_type=_JSON)
    def serve(self, request: ApiRequest, response: webob.Response) -> webob.Response:
        """Run the handler of the routed request and fill the response."""
        conf = self._services.conf
        limit = body.size_limit(conf, request.path_info)
        document = body.parse(body.read(request.environ, limit), conf.api.max_json_body_depth)
        found, *shorter = request.context["routes"]
        try:
            current, answer = self._call(request, found, document)
        except NotFound as exc:
            # Only what the path itself names: a write that failed for the lack of
            # something else must not go to another object.
            if not shorter or not _is_about(exc, found[1]):
                raise
            try:
                current, answer = self._call(request, shorter[0], document)
            except NotFound:
                raise exc from None
        response.status_int = answer.status or current.route.success
        if answer.content is None:
            response.headers.pop("Content-Type", None)
        else:
            response.body = answer.content
            response.headers["Content-Type"] = answer.content_type
        if answer.location is not None:
            response.headers["Location"] = current.url(answer.location)
        if current.route.etag:
            conditions.finish(current, request.environ, response, answer.revision)
        return response

    def _call(
        self, request: ApiRequest, found: router.Found, document: Any
    ) -> tuple[call.Call, call.Reply]:
        route, path = found
        current = call.Call(
            services=self._services,
            route=route,
            path=path,
            query=request.GET.mixed(),
            body=document,
            minor=request.context["minor"],
            context=request.context["context"],
            base=_link_base(self._services.conf, request),
        )
        conditions.prepare(current, request.environ)
        with current.turn(), notify.watching(current) as watch:
            reply = route.handler(current)
            if watch is not None:
                watch.end(reply)
            return current, _encoded(reply)


def _is_about(exc: NotFound, path: Mapping[str, str]) -> bool:
    """Tell whether the last element of the path is what was not found."""
    return bool(path) and list(path.values())[-1] in exc.fields.values()


def _encoded(result: Any) -> call.Reply:
    """Return what a handler returned as bytes; the documents are free from then on."""
    reply = result if isinstance(result, call.Reply) else call.Reply(result)
    if reply.body is None:
        return reply
    return dataclasses.replace(reply, body=None, content=body.dump(reply.body))


class Application(ExplicitPecan):
    """Pecan with the route table in place of the walk over a controller tree.

    Pecan inspects the signature of controllers twice a request; there is one
    controller here, whose signature is known.
    """

    def __init__(self, root: Root, **options: Any) -> None:
        super().__init__(root, **options)
        self._router = router.Router(ROUTES)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        try:
            return super().__call__(environ, start_response)
        finally:
            # Pecan leaves the request and the response in the environment that the
            # request holds: a circle that would keep answers of megabytes until the
            # garbage collector comes by.
            environ.pop("pecan.locals", None)

    def route(self, req: ApiRequest, node: Root, path: str) -> tuple[Any, list[str]]:
        versioned = microversions.requested(req.environ) is not None
        req.context["routes"] = self._router.readings(
            req.method, path, req.context["minor"], versioned=versioned
        )
        return node.serve, []

    def invoke_controller(
        self, controller: Any, args: list[Any], kwargs: dict[str, Any], state: Any
    ) -> None:
        state.response = controller(*args, **kwargs)


def _link_base(conf: cfg.ConfigOpts, request: ApiRequest) -> str:
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        return str(request.application_url).rstrip("/")
    return (conf.api.public_endpoint or str(request.host_url)).rstrip("/")


class ApiHook(hooks.PecanHook):
    """Version negotiation, request context, error answers and version headers."""

    def __init__(self, services: call.Services) -> None:
        self._conf = services.conf

    def on_route(self, state: Any) -> None:
        request = state.request
        environ = request.environ
        highest = microversions.maximum(self._conf.pin_release_version)
        context = request.context
        context["highest"] = highest
        context["minor"] = microversions.negotiate(environ, highest)
        context["context"] = _request_context(environ)
        if identity.is_refused(environ):
            raise Unauthorized()
        if environ.get("HTTP_ACCEPT") and not request.accept.acceptable_offers([_JSON]):
            raise errors.RouterError(406, f"Only {_JSON} is offered.")
        # Pecan need not negotiate it again.
        request.pecan["content_type"] = _JSON

    def on_error(self, state: Any, exc: Exception) -> webob.Response:
        return errors.response(exc, self._conf, state.request.environ)

    def after(self, state: Any) -> None:
        context = state.request.context
        if "minor" in context:
            state.response.headers.extend(
                microversions.headers(context["highest"], context["minor"])
            )


def _request_context(environ: dict[str, Any]) -> RequestContext:
    return RequestContext.from_environ(
        environ,
        is_public_api=bool(environ.get(middleware.PUBLIC_MARK)),
        auth_token_info=identity.token_info(environ),
    )


def _health(app: WSGIApplication, conf: cfg.ConfigOpts) -> WSGIApplication:
    """Return the health check with its backends.

    :raises IncorrectConfiguration: one of them is not there: it would be healthy for ever.
    """
    conf.register_opts(healthcheck_opts.HEALTHCHECK_OPTS, group="healthcheck")
    conf.set_default("backends", list(health.DEFAULT), group="healthcheck")
    try:
        checked = healthcheck.Healthcheck(app, conf)
    except Exception as exc:
        # Plug-ins and addresses are read here, by a library with errors of its own.
        raise IncorrectConfiguration(error=f"[healthcheck] {exc}") from exc
    missing = set(conf.healthcheck.backends) - set(checked._backends.names())
    if missing:
        raise IncorrectConfiguration(
            error=f"[healthcheck]backends: {', '.join(sorted(missing))} can not be loaded"
        )
    return checked


def services(conf: cfg.ConfigOpts) -> call.Services:
    """Return what the application of a process without a conductor works with.

    :raises IncorrectConfiguration: the RPC transport can not be used.
    """
    ring = HashRing()
    return call.Services(conf, ConductorClient(transport.get(), ring), ring)


def build(services: call.Services) -> WSGIApplication:
    """Return the whole WSGI application.

    :raises IncorrectConfiguration: an option of the API can not be used.
    """
    conf = services.conf
    microversions.maximum(conf.pin_release_version)
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.register_opts(cors.OPTS, group="cors")
    app: WSGIApplication = Application(
        Root(services),
        hooks=lambda: [ApiHook(services)],
        force_canonical=False,
        guess_content_type_from_ext=False,
        default_renderer="json",
        request_cls=ApiRequest,
        response_cls=webob.Response,
    )
    app = middleware.authentication(middleware.audited(app, conf), conf)
    if conf.oslo_middleware.enable_proxy_headers_parsing:
        app = http_proxy_to_wsgi.HTTPProxyToWSGI(app, conf)
    if conf.healthcheck.enabled:
        app = middleware.OnPath("/healthcheck", _health(app, conf), app)
    app = middleware.Envelope(app)
    if conf.cors.allowed_origin:
        cors.set_defaults(
            allow_methods=["GET", "PUT", "POST", "DELETE", "PATCH"],
            allow_headers=["X-Auth-Token", *middleware.VERSION_HEADERS, *_ASKED],
            expose_headers=[*middleware.VERSION_HEADERS, *_ANSWERED],
        )
        app = cors.CORS(app, conf)
    return middleware.custom(app, conf)
