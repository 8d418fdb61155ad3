"""The HTTP application: authenticate, route, authorize, inject faults, dispatch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gitsync.sandbox import errors
from gitsync.sandbox.cluster import Cluster
from gitsync.sandbox.errors import qualified
from gitsync.sandbox.faults import WATCH_KINDS, ActiveFault, FaultKind, Faults, Target
from gitsync.sandbox.http.admin import PREFIX, Admin
from gitsync.sandbox.http.documents import Documents
from gitsync.sandbox.http.endpoints import Endpoints, inject_watch_fault
from gitsync.sandbox.http.options import warning_text
from gitsync.sandbox.http.request_log import RequestKey, RequestLog
from gitsync.sandbox.http.route import Route, parse_route
from gitsync.sandbox.http.transport.messages import (
    Answer,
    Hangup,
    Reply,
    Request,
    Response,
    Stream,
    error_response,
    text_response,
)
from gitsync.sandbox.http.transport.protocol import MAX_BODY
from gitsync.sandbox.http.watching import Watch
from gitsync.sandbox.impersonation import impersonated, required_rights
from gitsync.sandbox.rbac import Attributes
from gitsync.sandbox.registry.resources import Resource
from gitsync.sandbox.registry.status import ApiError
from gitsync.sandbox.users import Tokens, User

_log = logging.getLogger(__name__)

_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})


class Application:
    """Answer requests to one cluster."""

    def __init__(
        self, cluster: Cluster, tokens: Tokens, documents: Documents, endpoints: Endpoints, admin: Admin
    ) -> None:
        self.requests: RequestLog = admin.requests
        self.faults: Faults = admin.faults
        self._cluster = cluster
        self._tokens = tokens
        self._documents = documents
        self._endpoints = endpoints
        self._admin = admin

    def handle(self, request: Request) -> Reply:
        """Return the answer to a request; every refusal becomes a Status."""
        try:
            return self._handle(request)
        except Exception as error:
            return _failure(error, request)

    def _handle(self, request: Request) -> Reply:
        user = self._authenticate(request)
        route = parse_route(request)
        if route is None or not route.resource:
            self._authorize_path(user, request)
            if request.path.startswith(PREFIX):
                return self._admin.answer(request)
            self._record(request.method.lower(), request.path, user, request)
            return self._documents.answer(request, route)
        named = qualified(route.resource, route.group)
        self._record(route.verb, f"{named}/{route.subresource}" if route.subresource else named, user, request)
        resource = self._cluster.registry.at_path(route.group, route.version, route.resource)
        self._authorize(user, request, route)
        if resource is None:
            raise self._unknown(route)
        if request.oversized:
            raise errors.too_large(MAX_BODY)
        agent = request.headers.get("user-agent", "")
        target = Target(route.verb, named, route.namespace, route.name, user.name, agent)
        active = self.faults.matching(target)
        if active:
            return self._with_faults(active, request, route, resource, user)
        return self._answer(request, route, resource, user)

    def _answer(self, request: Request, route: Route, resource: Resource, user: User) -> Reply:
        reply = self._endpoints.answer(request, route, resource, user)
        if resource.deprecation and isinstance(reply, Response):
            others = reply.headers.get("Warning")
            warning = warning_text(resource.deprecation)
            reply.headers["Warning"] = f"{warning}, {others}" if others else warning
        return reply

    # who may

    def _authenticate(self, request: Request) -> User:
        user = self._tokens.user_of(request.headers.get("authorization", ""), self._cluster.clock.now())
        wanted = impersonated(request.headers)
        if wanted is None:
            return user
        for right in required_rights(request.headers):
            self._cluster.authorizer.require(user, right)
        return wanted

    def _authorize_path(self, user: User, request: Request) -> None:
        if request.path not in _OPEN_PATHS:
            self._cluster.authorizer.require(user, Attributes(request.method.lower(), path=request.path))

    def _authorize(self, user: User, request: Request, route: Route) -> None:
        name = route.name
        if not name and route.verb in ("list", "watch", "deletecollection"):
            terms = request.query.get("fieldSelector", "").split("=")
            if len(terms) == 2 and terms[0] == "metadata.name":
                name = terms[1]
        namespace = route.name if route.resource == "namespaces" and route.group == "" else route.namespace
        self._cluster.authorizer.require(
            user, Attributes(route.verb, route.group, route.resource, route.subresource, namespace, name)
        )

    def _record(self, verb: str, resource: str, user: User, request: Request) -> None:
        self.requests.record(RequestKey(verb, resource, user.name, request.headers.get("user-agent", "")))

    def _unknown(self, route: Route) -> ApiError:
        if route.version in self._cluster.registry.group_versions().get(route.group, ()):
            return errors.no_such_resource()
        return PageNotFound()

    # what goes wrong on demand

    def _with_faults(
        self, active: tuple[ActiveFault, ...], request: Request, route: Route, resource: Resource, user: User
    ) -> Reply:
        delay = sum(each.fault.seconds for each in active if each.fault.kind is FaultKind.LATENCY)
        if delay:
            return _late(delay, lambda: self._after_delay(active, request, route, resource, user), request)
        return self._after_delay(active, request, route, resource, user)

    def _after_delay(
        self, active: tuple[ActiveFault, ...], request: Request, route: Route, resource: Resource, user: User
    ) -> Reply:
        for each in active:
            refusal = each.fault.refusal(resource.plural, resource.group, route.name)
            if refusal is not None:
                raise refusal
        stale = [each.revision for each in active if each.fault.kind is FaultKind.STALE_READ]
        self._endpoints.stale_revision = stale[0] if stale else None
        try:
            reply = self._answer(request, route, resource, user)
        finally:
            self._endpoints.stale_revision = None
        for each in active:
            if each.fault.kind is FaultKind.LOST_REPLY:
                return Hangup()
            if each.fault.kind is FaultKind.ERROR_AFTER:
                raise each.fault.failure()
            if each.fault.kind in WATCH_KINDS and isinstance(reply, Stream) and isinstance(reply.source, Watch):
                asyncio.get_running_loop().call_later(each.fault.seconds, inject_watch_fault, each.fault, reply.source)
        return reply


class PageNotFound(ApiError):
    """The 404 in plain text for what no group serves."""

    def __init__(self) -> None:
        super().__init__(404, "", "404 page not found\n")


async def _late(delay: float, answer: Callable[[], Reply], request: Request) -> Answer:
    await asyncio.sleep(delay)
    try:
        reply = answer()
        return await reply if isinstance(reply, Awaitable) else reply
    except Exception as error:
        return _failure(error, request)


def _failure(error: Exception, request: Request) -> Response:
    """Return the answer for a refusal, or for a defect of the sandbox, which is logged."""
    if isinstance(error, PageNotFound):
        return text_response(error.message, 404)
    if isinstance(error, ApiError):
        return error_response(error)
    _log.error("sandbox: %s %s failed", request.method, request.path, exc_info=error)
    return error_response(errors.internal("the sandbox failed: see its log"))
