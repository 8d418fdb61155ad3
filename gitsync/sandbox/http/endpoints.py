"""Handlers of each verb on a resource, between HTTP and the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gitsync.merge.schema import DEDUCED
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.http import listing, responses, watching
from gitsync.sandbox.http.decoding import applied_body, delete_options, media_type, object_body, write_context
from gitsync.sandbox.http.metrics import GROUP as METRICS_GROUP
from gitsync.sandbox.http.metrics import MetricsApi
from gitsync.sandbox.http.responses import Accepted, View, accepted, warning_header
from gitsync.sandbox.http.reviews import UNMANAGED, AccessReviews, Review
from gitsync.sandbox.http.route import RequestRoute
from gitsync.sandbox.http.subresources import Subresources, patched_scale
from gitsync.sandbox.http.transport.messages import Answer, HttpRequest, Reply, Response, StreamReply, error_response
from gitsync.sandbox.http.watching import OpenWatch
from gitsync.sandbox.printers.table import Printer
from gitsync.sandbox.rbac import AccessAttributes
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.patching import APPLY, JSON_PATCH, MERGE, STRATEGIC, patch_function
from gitsync.sandbox.registry.resources import Address, ServedResource
from gitsync.sandbox.users import ApiUser, Tokens

MAX_WAIT = 3.0
"""Seconds that a list waits for a resourceVersion that is still to come; the real server waits 3 s."""


class ResourceEndpoints:
    """Answer requests that name a resource."""

    def __init__(
        self,
        cluster: SandboxCluster,
        tokens: Tokens,
        printer: Callable[[ServedResource], Printer],
        selectable: Callable[[ServedResource], tuple[str, ...]],
        runtime: ContainerRuntime | None = None,
    ) -> None:
        self.cluster = cluster
        self.watches: dict[OpenWatch, ServedResource] = {}
        self.stale_revision: int | None = None
        """When set, reads are answered as of this revision: a fault."""
        self._printer = printer
        self._selectable = selectable
        self._reviews = AccessReviews(cluster, tokens)
        self.subresources = Subresources(cluster, tokens, runtime)
        self._metrics = MetricsApi(cluster, runtime)

    def answer(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Reply:
        """Carry out the verb of a request on its resource."""
        if route.subresource:
            return self._subresource(request, route, resource, user)
        self._check_allowed(request, route, resource)
        match route.verb:
            case "get":
                return self._get(request, route, resource)
            case "list":
                return self._list(request, route, resource)
            case "watch":
                return self._watch(request, route, resource)
            case "create":
                return self._create(request, route, resource, user)
            case "update":
                return self._update(request, route, resource, user)
            case "patch":
                return self._patch(request, route, resource, user)
            case "delete":
                return self._delete(request, route, resource, user)
            case "deletecollection":
                return self._delete_collection(request, route, resource, user)
        raise errors.method_not_allowed()

    def _check_allowed(self, request: HttpRequest, route: RequestRoute, resource: ServedResource) -> None:
        """Refuse methods that the URL does not have."""
        # HEAD is routed as a read, but the real server has no handler for it.
        if request.method in ("HEAD", "OPTIONS") or route.verb not in resource.verbs:
            raise errors.method_not_allowed()
        on_collection = route.verb in ("list", "watch", "create", "deletecollection")
        if bool(route.name) is on_collection:
            raise errors.method_not_allowed()
        if resource.namespaced and not route.namespace and route.verb not in ("list", "watch"):
            raise errors.method_not_allowed()
        # The path exists only for namespaced kinds, so this is 404 instead of 405.
        if route.namespace and not resource.namespaced:
            raise errors.no_such_resource()

    # reading

    def _get(self, request: HttpRequest, route: RequestRoute, resource: ServedResource) -> Reply:
        view = self._view(request, resource)
        if resource.group == METRICS_GROUP:
            return _object(self._metrics.get(resource, route), 200, view)
        wanted = listing.wanted_revision(request)
        if wanted > self.cluster.store.revision:
            return self._wait(wanted, lambda: self._got(request, route, resource, view))
        return self._got(request, route, resource, view)

    def _got(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, view: View) -> Response:
        objects = self.cluster.store.collection(resource.storage).objects
        if self.stale_revision is not None:
            objects = self.cluster.store.collection(resource.storage).at_revision(self.stale_revision)
        stored = objects.get(f"{route.namespace}/{route.name}")
        if stored is None:
            raise errors.not_found(resource.plural, resource.group, route.name)
        # The common case: the kept bytes of the object, without building it.
        if view.accept == Accepted() and "pretty" not in request.query:
            return Response(200, listing.item_json(stored, resource, bare=False))
        obj = convert(stored.obj, resource)
        return _object(obj, 200, view)

    def _list(self, request: HttpRequest, route: RequestRoute, resource: ServedResource) -> Reply:
        view = self._view(request, resource)
        listing.check_list_options(request)
        selected = self._select(request, route, resource)
        if resource.group == METRICS_GROUP:
            return responses.list_response(self._metrics.page(resource, selected), resource, view)
        collection = self.cluster.store.collection(resource.storage)
        stale = self.stale_revision

        def answer() -> Response:
            if stale is not None:
                page = listing.stale_page(collection, stale, selected)
            else:
                page = listing.list_page(self.cluster.store, collection, request, selected)
            return responses.list_response(page, resource, view)

        wanted = listing.wanted_revision(request)
        if wanted > self.cluster.store.revision and not request.query.get("continue"):
            return self._wait(wanted, answer)
        return answer()

    async def _wait(self, revision: int, answer: Callable[[], Response]) -> Answer:
        """Answer once the store has the revision, with 504 after ``MAX_WAIT`` seconds without it."""
        store = self.cluster.store
        deadline = asyncio.get_running_loop().time() + MAX_WAIT
        while store.revision < revision:
            if asyncio.get_running_loop().time() > deadline:
                return error_response(errors.too_large_resource_version(revision, store.revision))
            # Polled, because such reads are too rare for a waiting list in the store.
            await asyncio.sleep(0.05)
        try:
            return answer()
        except ApiError as error:
            return error_response(error)

    def _watch(self, request: HttpRequest, route: RequestRoute, resource: ServedResource) -> StreamReply:
        view = self._view(request, resource)
        listing.check_watch_options(request)
        selected = self._select(request, route, resource)
        options = watching.read_watch_options(request.query, resource.kind, resource.api_version)
        watch = OpenWatch(
            self.cluster.store,
            self.cluster.store.collection(resource.storage),
            selected,
            options,
            lambda stored, first: responses.watch_object(stored, resource, view, first),
        )

        def open_watch(sink: Any) -> Callable[[], None]:
            self.watches[watch] = resource
            close = watch.open(sink)

            def closed() -> None:
                self.watches.pop(watch, None)
                close()

            return closed

        return StreamReply(open_watch, source=watch)

    def fail_open_watches(self, fault: InjectedFault) -> int:
        """Apply a fault to the open watches of its resource; return how many."""
        failed = [
            watch
            for watch, resource in self.watches.items()
            if fault.resource in ("", errors.qualified(resource.plural, resource.group))
        ]
        for watch in failed:
            inject_watch_fault(fault, watch)
        return len(failed)

    def _select(self, request: HttpRequest, route: RequestRoute, resource: ServedResource) -> listing.ListSelection:
        return listing.selection(request, resource, route.namespace, self._selectable(resource), route.watched_name)

    # writing

    def _create(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Response:
        view = self._view(request, resource)
        ctx = write_context(request, user, "CreateOptions")
        body, ctx.duplicates = object_body(request, resource.kind)
        review = self._reviews.find(resource.group, resource.kind)
        if review is not None:
            return _written(self._reviewed(route, resource, body, ctx, review), 201, ctx, view)
        obj = self.cluster.writer.create(resource, route.namespace, body, ctx)
        return _written(obj, 201, ctx, view)

    def _reviewed(
        self, route: RequestRoute, resource: ServedResource, body: Manifest, ctx: RequestContext, review: Review
    ) -> Manifest:
        value = self.cluster.writer.unstored(resource, body, ctx, managed=resource.kind not in UNMANAGED)
        value["status"] = review(value, ctx.user, route.namespace)
        return value

    def _update(
        self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser, subresource: str = ""
    ) -> Response:
        view = self._view(request, resource)
        ctx = write_context(request, user, "UpdateOptions")
        body, ctx.duplicates = object_body(request, resource.kind)
        obj = self.cluster.writer.update(Address(resource, route.namespace, route.name, subresource), body, ctx)
        return _written(obj, 200, ctx, view)

    def _patch(
        self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser, subresource: str = ""
    ) -> Response:
        view = self._view(request, resource)
        media = media_type(request)
        ctx = write_context(request, user, "PatchOptions", apply=media == APPLY)
        offered = (JSON_PATCH, MERGE, APPLY) if resource.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
        if media not in offered:
            raise errors.unsupported_media(media, offered) if resource.custom else errors.unsupported_patch()
        address = Address(resource, route.namespace, route.name, subresource)
        if media == APPLY:
            body = applied_body(request, ctx)
            obj, created = self.cluster.writer.apply(
                address,
                body,
                ctx,
                # Asked only when the object is absent: apply is a patch that may create.
                lambda: self.cluster.authorizer.require(
                    user, AccessAttributes("create", route.group, route.resource, "", route.namespace, route.name)
                ),
            )
            return _written(obj, 201 if created else 200, ctx, view)
        change, shown = patch_function(media, request.body, self.cluster.registry.schema(resource), ctx)
        obj = self.cluster.writer.patch(address, change, ctx, shown)
        return _written(obj, 200, ctx, view)

    def _delete(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Response:
        view = self._view(request, resource)
        options, dry_run = delete_options(request)
        ctx = RequestContext(user, "", dry_run=dry_run)
        obj, gone = self.cluster.deleter.delete(Address(resource, route.namespace, route.name), options, ctx)
        answer = self.cluster.deleter.answer(resource, obj, gone)
        # 202 is for requests that named a propagation and have to wait.
        return _written(answer, 202 if options.cascades and not gone else 200, ctx, view)

    def _delete_collection(
        self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser
    ) -> Response:
        view = self._view(request, resource)
        options, dry_run = delete_options(request)
        ctx = RequestContext(user, "", dry_run=dry_run)
        selected = self._select(request, route, resource)
        store = self.cluster.store
        page = listing.list_page(store, store.collection(resource.storage), request, selected)
        # The page is a copy, so deleting while iterating is safe.
        for stored in page.items:
            meta = stored.obj["metadata"]
            self.cluster.deleter.delete(Address(resource, meta.get("namespace", ""), meta["name"]), options, ctx)
        return responses.list_response(page, resource, replace(view, include="Metadata", pretty=False))

    def _subresource(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Reply:
        subresource = resource.subresource(route.subresource)
        if subresource is None:
            # The handler of CRDs answers with the name of the object, the others with the resource.
            if resource.custom:
                raise errors.not_found(resource.plural, resource.group, route.name)
            raise errors.no_such_resource()
        if route.verb not in subresource.verbs or request.method in ("HEAD", "OPTIONS"):
            raise errors.method_not_allowed()
        if route.subresource == "status":
            match route.verb:
                case "get":
                    return self._get(request, route, resource)
                case "update":
                    return self._update(request, route, resource, user, "status")
                case _:
                    return self._patch(request, route, resource, user, "status")
        if route.subresource == "log":
            return self.subresources.log(request, resource, route)
        if route.subresource == "portforward":
            return self.subresources.port_forward(request, resource, route)
        if route.subresource == "scale":
            return self._scale(request, route, resource, user)
        ctx = write_context(request, user, "CreateOptions")
        body, _ = object_body(request, resource.kind)
        sub = self.subresources
        match route.subresource:
            case "eviction":
                answer = sub.evict(body, resource, route, ctx)
            case "binding":
                answer = sub.bind(body, resource, route)
            case "token":
                answer = sub.issue_token(body, resource, route)
            case "finalize":
                answer = self.cluster.finalize(resource, route.name, body, ctx)
                return _written(answer, 200, ctx, self._view(request, resource))
            case _:
                raise ApiError(501, "NotImplemented", f"the sandbox does not have {route.resource}/{route.subresource}")
        return responses.object_response(answer, self._accept(request), 201, request.flag("pretty"))

    def _scale(self, request: HttpRequest, route: RequestRoute, resource: ServedResource, user: ApiUser) -> Response:
        sub = self.subresources
        if route.verb == "get":
            scale = sub.read_scale(resource, route)
        elif route.verb == "update":
            ctx = write_context(request, user, "UpdateOptions")
            body, _ = object_body(request, resource.kind)
            scale = sub.write_scale(resource, route, lambda _: body, ctx)
        else:
            ctx = write_context(request, user, "PatchOptions", apply=media_type(request) == APPLY)
            if media_type(request) == APPLY:
                body = applied_body(request, ctx)
                scale = sub.apply_scale(resource, route, body, ctx)
            else:
                media = media_type(request)
                change, _ = patch_function(MERGE if media == STRATEGIC else media, request.body, DEDUCED, ctx)
                scale = sub.write_scale(resource, route, lambda live: patched_scale(change(live)), ctx)
        return responses.object_response(scale, self._accept(request), 200, request.flag("pretty"))

    # helpers

    def _accept(self, request: HttpRequest) -> Accepted:
        return accepted(request.headers.get("accept", ""))

    def _view(self, request: HttpRequest, resource: ServedResource) -> View:
        """Return the view that the request asks for; 406 when it cannot be given."""
        include = request.query.get("includeObject", "Metadata")
        return View(self._accept(request), lambda: self._printer(resource), include, request.flag("pretty"))


def _written(obj: Manifest, status: int, ctx: RequestContext, view: View) -> Response:
    if obj.get("kind") == "Status":
        response = responses.object_response(obj, view.accept, status, view.pretty)
    else:
        response = _object(obj, status, view)
    if ctx.warnings:
        response.headers["Warning"] = warning_header(ctx.warnings)
    return response


def _object(obj: Manifest, status: int, view: View) -> Response:
    return responses.object_response(responses.shaped(obj, view), view.accept, status, view.pretty)


def inject_watch_fault(fault: InjectedFault, watch: OpenWatch) -> None:
    """Apply a fault to a watch."""
    match fault.kind:
        case FaultKind.DROP_WATCH:
            watch.drop()
        case FaultKind.HALF_OPEN_WATCH:
            watch.mute()
        case FaultKind.EXPIRE_WATCH:
            watch.expire()
