"""The HTTP application: authenticate, route, authorize, inject faults, dispatch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gitsync.sandbox import errors
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.errors import ApiError, qualified
from gitsync.sandbox.faults import WATCH_KINDS, ActiveFault, FaultKind, Faults, RequestTarget
from gitsync.sandbox.http.admin import PREFIX, Admin, RequestKey, RequestLog
from gitsync.sandbox.http.discovery import Documents
from gitsync.sandbox.http.endpoints import ResourceEndpoints, inject_watch_fault
from gitsync.sandbox.http.responses import warning_text
from gitsync.sandbox.http.route import RequestRoute, parse_route
from gitsync.sandbox.http.transport.messages import (
    Answer,
    Hangup,
    HttpRequest,
    Reply,
    Response,
    StreamReply,
    error_response,
    text_response,
)
from gitsync.sandbox.http.transport.protocol import MAX_BODY
from gitsync.sandbox.http.watching import OpenWatch
from gitsync.sandbox.rbac import AccessAttributes, impersonated, required_rights
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.users import ApiUser, Tokens

_log = logging.getLogger(__name__)

# What the ClusterRole system:public-info-viewer allows everyone.
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})


class ApiServerApp:
    """Answer requests to one cluster."""

    def __init__(
        self, cluster: SandboxCluster, tokens: Tokens, documents: Documents, endpoints: ResourceEndpoints, admin: Admin
    ) -> None:
        self.requests: RequestLog = admin.requests
        self.faults: Faults = admin.faults
        self._cluster = cluster
        self._tokens = tokens
        self._documents = documents
        self._endpoints = endpoints
        self._admin = admin

    def handle(self, request: HttpRequest) -> Reply:
        """Return the answer to a request; every refusal becomes a Status."""
        try:
            return self._handle(request)
        except Exception as error:
            return _failure(error, request)

    def _handle(self, request: HttpRequest) -> Reply:
        user = self._authenticate(request)
        route = parse_route(request)
        if route is None or not route.resource:
            self._authorize_path(user, request)
            if request.path.startswith(PREFIX):
                return self._admin.answer(request)
            self._record(request.method.lower(), request.path, user, request)
            return self._documents.answer(request, route)
        named = qualified(route.resource, route.group)
        # Counted before the refusal of an unknown resource, so that tests see requests that fail.
        self._record(route.verb, f"{named}/{route.subresource}" if route.subresource else named, user, request)
        resource = self._cluster.registry.at_path(route.group, route.version, route.resource)
        self._authorize(user, request, route)
        if resource is None:
            raise self._unknown(route)
        # After authorization: a client without rights learns no limits.
        if request.oversized:
            raise errors.too_large(MAX_BODY)
        agent = request.headers.get("user-agent", "")
        target = RequestTarget(route.verb, named, route.namespace, route.name, user.name, agent)
        active = self.faults.matching(target)
        if active:
            return self._with_faults(active, request, route, resource, user)
        return self._answer(request, route, resource, user)

    def _answer(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Reply:
        reply = self._endpoints.answer(request, route, resource, user)
        if resource.deprecation and isinstance(reply, Response):
            others = reply.headers.get("Warning")
            warning = warning_text(resource.deprecation)
            reply.headers["Warning"] = f"{warning}, {others}" if others else warning
        return reply

    # who may

    def _authenticate(self, request: HttpRequest) -> ApiUser:
        user = self._tokens.user_of(request.headers.get("authorization", ""), self._cluster.clock.now())
        wanted = impersonated(request.headers)
        if wanted is None:
            return user
        for right in required_rights(request.headers):
            self._cluster.authorizer.require(user, right)
        return wanted

    def _authorize_path(self, user: ApiUser, request: HttpRequest) -> None:
        if request.path not in _OPEN_PATHS:
            self._cluster.authorizer.require(user, AccessAttributes(request.method.lower(), path=request.path))

    def _authorize(self, user: ApiUser, request: HttpRequest, route: RequestRoute) -> None:
        name = route.name
        if not name and route.verb in ("list", "watch", "deletecollection"):
            # A list of one name is authorized by that name, which resourceNames can grant.
            terms = request.query.get("fieldSelector", "").split("=")
            if len(terms) == 2 and terms[0] == "metadata.name":
                name = terms[1]
        # A namespace is authorized as if it were inside itself.
        namespace = route.name if route.resource == "namespaces" and route.group == "" else route.namespace
        self._cluster.authorizer.require(
            user, AccessAttributes(route.verb, route.group, route.resource, route.subresource, namespace, name)
        )

    def _record(self, verb: str, resource: str, user: ApiUser, request: HttpRequest) -> None:
        self.requests.record(RequestKey(verb, resource, user.name, request.headers.get("user-agent", "")))

    def _unknown(self, route: RequestRoute) -> ApiError:
        if route.version in self._cluster.registry.group_versions().get(route.group, ()):
            # A Status within a known group version, plain text outside of one.
            return errors.no_such_resource()
        return PageNotFound()

    # what goes wrong on demand

    def _with_faults(
        self,
        active: tuple[ActiveFault, ...],
        request: HttpRequest,
        route: RequestRoute,
        resource: ServedResource,
        user: ApiUser,
    ) -> Reply:
        delay = sum(entry.fault.seconds for entry in active if entry.fault.kind is FaultKind.LATENCY)
        if delay:
            return _late(delay, lambda: self._after_delay(active, request, route, resource, user), request)
        return self._after_delay(active, request, route, resource, user)

    def _after_delay(
        self,
        active: tuple[ActiveFault, ...],
        request: HttpRequest,
        route: RequestRoute,
        resource: ServedResource,
        user: ApiUser,
    ) -> Reply:
        for entry in active:
            refusal = entry.fault.refusal(resource.plural, resource.group, route.name)
            if refusal is not None:
                raise refusal
        stale = [entry.revision for entry in active if entry.fault.kind is FaultKind.STALE_READ]
        # Handlers run to their end without other requests in between, so an attribute is enough.
        self._endpoints.stale_revision = stale[0] if stale else None
        try:
            reply = self._answer(request, route, resource, user)
        finally:
            self._endpoints.stale_revision = None
        for entry in active:
            if entry.fault.kind is FaultKind.LOST_REPLY:
                return Hangup()
            if entry.fault.kind is FaultKind.ERROR_AFTER:
                raise entry.fault.failure()
            if (
                entry.fault.kind in WATCH_KINDS
                and isinstance(reply, StreamReply)
                and isinstance(reply.source, OpenWatch)
            ):
                asyncio.get_running_loop().call_later(
                    entry.fault.seconds, inject_watch_fault, entry.fault, reply.source
                )
        return reply


class PageNotFound(ApiError):
    """The 404 in plain text for what no group serves."""

    def __init__(self) -> None:
        super().__init__(404, "", "404 page not found\n")


async def _late(delay: float, answer: Callable[[], Reply], request: HttpRequest) -> Answer:
    await asyncio.sleep(delay)
    try:
        reply = answer()
        return await reply if isinstance(reply, Awaitable) else reply
    except Exception as error:
        return _failure(error, request)


def _failure(error: Exception, request: HttpRequest) -> Response:
    """Return the answer for a refusal, or for a defect of the sandbox, which is logged."""
    if isinstance(error, PageNotFound):
        return text_response(error.message, 404)
    if isinstance(error, ApiError):
        return error_response(error)
    _log.error("sandbox: %s %s failed", request.method, request.path, exc_info=error)
    return error_response(errors.internal("the sandbox failed: see its log"))
