"""The application: from a request to its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

from gitsync.merge.schema import DEDUCED
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import refusals
from gitsync.sandbox.bodies import Malformed, parse_yaml, require_object
from gitsync.sandbox.cluster import Cluster
from gitsync.sandbox.context import Context
from gitsync.sandbox.conversion import convert
from gitsync.sandbox.deletion import DeleteOptions, read_options
from gitsync.sandbox.http import checks, discovery, listing, views, watching
from gitsync.sandbox.http.message import (
    Answer,
    Reply,
    Request,
    Response,
    Stream,
    error_response,
    json_response,
    text_response,
)
from gitsync.sandbox.http.negotiation import Accepted, accepted, discovery_version
from gitsync.sandbox.http.openapi import OpenApi
from gitsync.sandbox.http.protocol import MAX_BODY
from gitsync.sandbox.http.route import Route, route
from gitsync.sandbox.http.subresources import Subresources
from gitsync.sandbox.http.watching import Watch
from gitsync.sandbox.patching import APPLY, JSON_PATCH, MERGE, STRATEGIC, patch_function
from gitsync.sandbox.printers.table import Printer
from gitsync.sandbox.rbac import Attributes
from gitsync.sandbox.resources import Resource
from gitsync.sandbox.status import ApiError, Cause
from gitsync.sandbox.users import Tokens, User, impersonated

_log = logging.getLogger(__name__)

MAX_WAIT = 3.0
"""How long a list waits for a resourceVersion that is still to come."""

_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
_YAML_TYPES = frozenset({"application/yaml", "application/json", ""})


class Application:
    """Answer requests to one cluster. ``address`` is where it is served, as discovery tells it."""

    def __init__(
        self,
        cluster: Cluster,
        tokens: Tokens,
        openapi: OpenApi,
        printer: Callable[[Resource], Printer],
        selectable: Callable[[Resource], tuple[str, ...]],
    ) -> None:
        self.cluster = cluster
        self.address = ""
        self.watches: set[Watch] = set()
        self._tokens = tokens
        self._openapi = openapi
        self._printer = printer
        self._selectable = selectable
        self.subresources = Subresources(cluster, tokens)

    def handle(self, request: Request) -> Reply:
        """Return the answer to a request; every refusal becomes a Status."""
        try:
            return self._handle(request)
        except PageNotFound:
            return text_response("404 page not found\n", 404)
        except ApiError as error:
            return error_response(error)
        except Exception:
            _log.exception("sandbox: %s %s failed", request.method, request.path)
            return error_response(refusals.internal("the sandbox failed: see its log"))

    def _handle(self, request: Request) -> Reply:
        user = self._authenticate(request)
        where = route(request)
        if where is None or not where.resource:
            self._authorize_path(user, request)
            return self._plain(request, where)
        resource = self.cluster.registry.at_path(where.group, where.version, where.resource)
        self._authorize(user, request, where)
        if resource is None:
            raise self._unknown(where)
        if request.oversized:
            raise refusals.too_large(MAX_BODY)
        reply = self._answer(request, where, resource, user)
        if resource.deprecation and isinstance(reply, Response):
            others = reply.headers.get("Warning")
            warning = f"299 - {_warning(resource.deprecation)}"
            reply.headers["Warning"] = f"{warning}, {others}" if others else warning
        return reply

    def _answer(self, request: Request, where: Route, resource: Resource, user: User) -> Reply:
        if where.subresource:
            return self._subresource(request, where, resource, user)
        self._check_allowed(request, where, resource)
        match where.verb:
            case "get":
                return self._get(request, where, resource)
            case "list":
                return self._list(request, where, resource)
            case "watch":
                return self._watch(request, where, resource)
            case "create":
                return self._create(request, where, resource, user)
            case "update":
                return self._update(request, where, resource, user)
            case "patch":
                return self._patch(request, where, resource, user)
            case "delete":
                return self._delete(request, where, resource, user)
            case "deletecollection":
                return self._delete_collection(request, where, resource, user)
        raise refusals.method_not_allowed()

    # who may

    def _authenticate(self, request: Request) -> User:
        user = self._tokens.user_of(request.headers.get("authorization", ""), self.cluster.clock.now())
        wanted = impersonated(request.headers)
        if wanted is None:
            return user
        self.cluster.authorizer.require(user, Attributes("impersonate", "", "users", name=wanted.name))
        return wanted

    def _authorize_path(self, user: User, request: Request) -> None:
        if request.path not in _OPEN_PATHS:
            self.cluster.authorizer.require(user, Attributes(request.method.lower(), path=request.path))

    def _authorize(self, user: User, request: Request, where: Route) -> None:
        name = where.name
        if not name and where.verb in ("list", "watch", "deletecollection"):
            terms = request.query.get("fieldSelector", "").split("=")
            if len(terms) == 2 and terms[0] == "metadata.name":
                name = terms[1]
        namespace = where.name if where.resource == "namespaces" and where.group == "" else where.namespace
        self.cluster.authorizer.require(
            user, Attributes(where.verb, where.group, where.resource, where.subresource, namespace, name)
        )

    # paths that are no resources

    def _plain(self, request: Request, where: Route | None) -> Response:
        path = request.path
        registry = self.cluster.registry
        if path in checks.PATHS:
            self._require_get(request)
            return text_response(checks.verbose(path) if "verbose" in request.query else "ok")
        if path.rstrip("/") == "/version":
            self._require_get(request)
            return json_response(VERSION)
        wants = discovery_version(request.headers.get("accept", ""))
        if path.rstrip("/") in ("/api", "/apis"):
            core = path.rstrip("/") == "/api"
            if wants:
                document = discovery.aggregated(registry, wants, core=core)
                return json_response(document, content_type=discovery.AGGREGATED.format(wants))
            return json_response(discovery.core_versions(self.address) if core else discovery.group_list(registry))
        if path == "/":
            return json_response(discovery.paths(registry))
        if path.startswith("/openapi/v3"):
            return self._openapi_document(request)
        found: dict[str, Any] | None = None
        if where is not None:
            found = discovery.resource_list(registry, where.group, where.version)
        elif path.startswith("/apis/") and path.count("/") in (2, 3):
            found = discovery.group(registry, path.split("/")[2])
        if found is None:
            return text_response("404 page not found\n", 404)
        self._require_get(request)
        return json_response(found)

    def _openapi_document(self, request: Request) -> Response:
        path = request.path.removeprefix("/openapi/v3").strip("/")
        if not path:
            return Response(200, orjson.dumps(self._openapi.index()), "text/plain; charset=utf-8")
        document = self._openapi.document(path)
        if document is None:
            return Response(404, b"", "text/plain; charset=utf-8")
        wanted = request.query.get("hash")
        if wanted is not None and wanted != self._openapi.hash_of(path):
            return Response(301, b"", "text/plain; charset=utf-8", {"Location": self._openapi.url(path)})
        return Response(200, document)

    def _require_get(self, request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            raise refusals.method_not_allowed()

    def _unknown(self, where: Route) -> ApiError:
        if where.version in self.cluster.registry.group_versions().get(where.group, ()):
            return ApiError(404, "NotFound", "the server could not find the requested resource", refusals.Empty())
        return PageNotFound()

    def _check_allowed(self, request: Request, where: Route, resource: Resource) -> None:
        """Refuse methods that the URL does not have."""
        if request.method in ("HEAD", "OPTIONS") or where.verb not in resource.verbs:
            raise refusals.method_not_allowed()
        on_collection = where.verb in ("list", "watch", "create", "deletecollection")
        if bool(where.name) is on_collection:
            raise refusals.method_not_allowed()
        if resource.namespaced and not where.namespace and where.verb not in ("list", "watch"):
            raise refusals.method_not_allowed()
        if where.namespace and not resource.namespaced:
            raise ApiError(404, "NotFound", "the server could not find the requested resource", refusals.Empty())

    # reading

    def _get(self, request: Request, where: Route, resource: Resource) -> Response:
        accept = self._accept(request)
        stored = self.cluster.store.collection(resource.storage).objects.get(f"{where.namespace}/{where.name}")
        if stored is None:
            raise refusals.not_found(resource.plural, resource.group, where.name)
        if accept == Accepted() and "pretty" not in request.query:
            return Response(200, listing.item_json(stored, resource, bare=False))
        obj = convert(stored.obj, resource)
        return self._object(request, resource, obj, 200)

    def _list(self, request: Request, where: Route, resource: Resource) -> Reply:
        accept = self._accept(request)
        listing.check_list_options(request)
        selected = self._select(request, where, resource)
        collection = self.cluster.store.collection(resource.storage)

        def answer() -> Response:
            page = listing.list_page(self.cluster.store, collection, request, selected)
            include = request.query.get("includeObject", "Metadata")
            return views.list_response(
                page, resource, accept, lambda: self._printer(resource), include, request.flag("pretty")
            )

        try:
            return answer()
        except listing.Future as future:
            return self._wait(future.revision, answer)

    async def _wait(self, revision: int, answer: Callable[[], Response]) -> Answer:
        """Answer when the revision has come, or say after a while that it has not."""
        store = self.cluster.store
        deadline = asyncio.get_running_loop().time() + MAX_WAIT
        while store.revision < revision and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        try:
            return answer()
        except listing.Future:
            return error_response(refusals.too_large_resource_version(revision, store.revision))
        except ApiError as error:
            return error_response(error)

    def _watch(self, request: Request, where: Route, resource: Resource) -> Stream:
        accept = self._accept(request)
        listing.check_watch_options(request)
        selected = self._select(request, where, resource)
        options = watching.read_watch_options(request.query, resource.kind, resource.api_version)
        include = request.query.get("includeObject", "Metadata")
        watch = Watch(
            self.cluster.store,
            self.cluster.store.collection(resource.storage),
            selected,
            options,
            lambda stored, first: views.watch_object(
                stored, resource, accept, lambda: self._printer(resource), include, first
            ),
        )

        def open_watch(sink: Any) -> Callable[[], None]:
            self.watches.add(watch)
            close = watch.open(sink)

            def closed() -> None:
                self.watches.discard(watch)
                close()

            return closed

        return Stream(open_watch)

    def _select(self, request: Request, where: Route, resource: Resource) -> listing.Selection:
        return listing.selection(request, resource, where.namespace, self._selectable(resource))

    # writing

    def _create(self, request: Request, where: Route, resource: Resource, user: User) -> Response:
        accept = self._accept(request)
        ctx = self._context(request, user, "CreateOptions")
        body, ctx.duplicates = self._body(request, resource)
        obj = self.cluster.writer.create(resource, where.namespace, body, ctx)
        return self._written(request, resource, obj, 201, ctx, accept)

    def _update(
        self, request: Request, where: Route, resource: Resource, user: User, subresource: str = ""
    ) -> Response:
        accept = self._accept(request)
        ctx = self._context(request, user, "UpdateOptions")
        body, ctx.duplicates = self._body(request, resource)
        obj = self.cluster.writer.update(resource, where.namespace, where.name, body, ctx, subresource)
        return self._written(request, resource, obj, 200, ctx, accept)

    def _patch(self, request: Request, where: Route, resource: Resource, user: User, subresource: str = "") -> Response:
        accept = self._accept(request)
        media = _media_type(request)
        ctx = self._context(request, user, "PatchOptions", apply=media == APPLY)
        offered = (JSON_PATCH, MERGE, APPLY) if resource.custom else (JSON_PATCH, MERGE, STRATEGIC, APPLY)
        if media not in offered:
            raise refusals.unsupported_media(media, offered)
        if media == APPLY:
            body = self._applied(request, resource, ctx)
            obj, created = self.cluster.writer.apply(
                resource,
                where.namespace,
                where.name,
                body,
                ctx,
                subresource,
                lambda: self.cluster.authorizer.require(
                    user, Attributes("create", where.group, where.resource, "", where.namespace, where.name)
                ),
            )
            return self._written(request, resource, obj, 201 if created else 200, ctx, accept)
        change, shown = patch_function(media, request.body, self.cluster.registry.schema(resource), ctx)
        obj = self.cluster.writer.patch(resource, where.namespace, where.name, change, ctx, subresource, shown)
        return self._written(request, resource, obj, 200, ctx, accept)

    def _applied(self, request: Request, resource: Resource, ctx: Context) -> Manifest:
        try:
            body, ctx.duplicates = parse_yaml(request.body)
        except Malformed as error:
            raise refusals.bad_request(f"error decoding YAML: {error}") from None
        if body is None:
            body = {}
        if not isinstance(body, dict):
            raise refusals.bad_request(
                "error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}"
            )
        if ctx.duplicates:
            if ctx.validation == "Strict":
                listed = "\n  ".join(ctx.duplicates)
                raise refusals.bad_request(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  " + listed
                )
            if ctx.validation == "Warn":
                ctx.warnings.extend(ctx.duplicates)
            ctx.duplicates = []
        return body

    def _delete(self, request: Request, where: Route, resource: Resource, user: User) -> Response:
        accept = self._accept(request)
        options, dry_run = self._delete_options(request)
        ctx = Context(user, "", dry_run=dry_run)
        obj, gone = self.cluster.deleter.delete(resource, where.namespace, where.name, options, ctx)
        answer = self.cluster.deleter.answer(resource, obj, gone)
        return self._written(request, resource, answer, 200, ctx, accept)

    def _delete_collection(self, request: Request, where: Route, resource: Resource, user: User) -> Response:
        accept = self._accept(request)
        options, dry_run = self._delete_options(request)
        ctx = Context(user, "", dry_run=dry_run)
        selected = self._select(request, where, resource)
        store = self.cluster.store
        page = listing.list_page(store, store.collection(resource.storage), request, selected)
        for stored in page.items:
            meta = stored.obj["metadata"]
            self.cluster.deleter.delete(resource, meta.get("namespace", ""), meta["name"], options, ctx)
        return views.list_response(page, resource, accept, lambda: self._printer(resource), "Metadata", False)

    def _delete_options(self, request: Request) -> tuple[DeleteOptions, bool]:
        body: Manifest = {}
        if request.body.strip():
            body, _ = require_object(request.body, "DeleteOptions")
        return read_options(body, request.query)

    def _subresource(self, request: Request, where: Route, resource: Resource, user: User) -> Reply:
        found = resource.subresource(where.subresource)
        if found is None:
            if resource.custom:
                raise refusals.not_found(resource.plural, resource.group, where.name)
            raise ApiError(404, "NotFound", "the server could not find the requested resource", refusals.Empty())
        if where.verb not in found.verbs or request.method in ("HEAD", "OPTIONS"):
            raise refusals.method_not_allowed()
        if where.subresource == "status":
            match where.verb:
                case "get":
                    return self._get(request, where, resource)
                case "update":
                    return self._update(request, where, resource, user, "status")
                case _:
                    return self._patch(request, where, resource, user, "status")
        if where.subresource == "log":
            return self.subresources.log(request, resource, where)
        if where.subresource == "scale":
            return self._scale(request, where, resource, user)
        ctx = self._context(request, user, "CreateOptions")
        body, _ = self._body(request, resource)
        sub = self.subresources
        match where.subresource:
            case "eviction":
                answer = sub.evict(body, resource, where, ctx)
            case "binding":
                answer = sub.bind(body, resource, where)
            case "token":
                answer = sub.issue_token(body, resource, where)
            case "finalize":
                answer = self.cluster.finalize(resource, where.name, body, ctx)
                return self._written(request, resource, answer, 200, ctx, self._accept(request))
            case _:
                raise ApiError(501, "NotImplemented", f"the sandbox does not have {where.resource}/{where.subresource}")
        return views.object_response(answer, self._accept(request), 201, request.flag("pretty"))

    def _scale(self, request: Request, where: Route, resource: Resource, user: User) -> Response:
        sub = self.subresources
        if where.verb == "get":
            scale = sub.read_scale(resource, where)
        elif where.verb == "update":
            ctx = self._context(request, user, "UpdateOptions")
            body, _ = self._body(request, resource)
            scale = sub.write_scale(resource, where, lambda _: body, ctx)
        else:
            ctx = self._context(request, user, "PatchOptions", apply=_media_type(request) == APPLY)
            if _media_type(request) == APPLY:
                body = self._applied(request, resource, ctx)
                scale = sub.write_scale(resource, where, lambda live: {**live, **body}, ctx)
            else:
                media = _media_type(request)
                change, _ = patch_function(MERGE if media == STRATEGIC else media, request.body, DEDUCED, ctx)
                scale = sub.write_scale(resource, where, change, ctx)
        return views.object_response(scale, self._accept(request), 200, request.flag("pretty"))

    # helpers

    def _accept(self, request: Request) -> Accepted:
        return accepted(request.headers.get("accept", ""))

    def _body(self, request: Request, resource: Resource) -> tuple[Manifest, list[str]]:
        media = _media_type(request)
        if media not in _YAML_TYPES:
            raise refusals.unsupported_media(media, ("application/json", "application/yaml"))
        return require_object(request.body, resource.kind)

    def _context(self, request: Request, user: User, options: str, *, apply: bool = False) -> Context:
        query = request.query
        causes: list[Cause] = []
        dry_run = query.get("dryRun", "")
        if dry_run not in ("", "All"):
            message = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
            causes.append(Cause("FieldValueNotSupported", message, "dryRun"))
        manager = query.get("fieldManager", "")
        if options == "PatchOptions" and "force" in query and not apply:
            causes.append(Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"))
        if apply and not manager:
            causes.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
        if len(manager.encode()) > 128:
            causes.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
        validation = query.get("fieldValidation", "") or "Warn"
        if validation not in ("Ignore", "Warn", "Strict"):
            message = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
            causes.append(Cause("FieldValueNotSupported", message, "fieldValidation"))
        if causes:
            raise refusals.invalid_options(options, causes)
        if not manager:
            manager = request.headers.get("user-agent", "").partition("/")[0][:128] or "unknown"
        return Context(user, manager, bool(dry_run), validation, request.flag("force"))

    def _written(
        self, request: Request, resource: Resource, obj: Manifest, status: int, ctx: Context, accept: Accepted
    ) -> Response:
        if obj.get("kind") == "Status":
            response = views.object_response(obj, accept, status, request.flag("pretty"))
        else:
            response = self._object(request, resource, obj, status)
        if ctx.warnings:
            response.headers["Warning"] = ", ".join(f"299 - {_warning(text)}" for text in dict.fromkeys(ctx.warnings))
        return response

    def _object(self, request: Request, resource: Resource, obj: Manifest, status: int) -> Response:
        accept = self._accept(request)
        include = request.query.get("includeObject", "Metadata")
        value = views.shaped(obj, accept, lambda: self._printer(resource), include)
        return views.object_response(value, accept, status, request.flag("pretty"))


class PageNotFound(ApiError):
    """The 404 in plain text for what no group serves."""

    def __init__(self) -> None:
        super().__init__(404, "", "404 page not found\n")


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+gitsync",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""What ``/version`` says: the API it speaks, and that it is this sandbox."""
