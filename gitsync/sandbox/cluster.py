"""
The cluster: store, registry, pipeline and clock put together.

HTTP handlers call it, and the sandbox's own controllers use it as their ControllerClient.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

from gitsync.kube.openapi import resources
from gitsync.merge.values import merge_patch
from gitsync.objects.manifest import Manifest, group_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox import errors, kinds
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.rbac import GROUP as RBAC_GROUP
from gitsync.sandbox.rbac import Authorizer
from gitsync.sandbox.registry.contract import Admission, EventHandler, RequestContext, Strategy
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.delete import DeleteOptions, Deleter
from gitsync.sandbox.registry.resources import Address, Registry, ServedResource, builtin_resource
from gitsync.sandbox.registry.scale import ScalePaths, with_replicas
from gitsync.sandbox.registry.write import WritePipeline, WriteRules
from gitsync.sandbox.storage import ObjectStore, StoreEvent
from gitsync.sandbox.users import MASTERS, ApiUser

_SYSTEM = ApiUser("system:apiserver", (MASTERS,))


class SandboxCluster:
    """One cluster in memory; everything is called from one thread."""

    def __init__(
        self, store: ObjectStore, clock: SandboxClock, admission: Callable[[SandboxCluster], Admission]
    ) -> None:
        self.store = store
        self.clock = clock
        self.registry = Registry()
        for built_in in resources():
            self.registry.add(builtin_resource(built_in))
        self.authorizer = Authorizer(self._bindings, self.get)
        self.admission = admission(self)
        self.writer = WritePipeline(
            store,
            clock,
            WriteRules(self.strategy, self.registry.schema, self.admission, self.authorizer),
            self.get,
            random.Random(uuid.uuid4().int),
        )
        self.deleter = Deleter(store, clock, self.admission)
        self.scale_paths: Callable[[ServedResource], ScalePaths | None] = lambda resource: None
        """Where a custom resource keeps its scale; the definitions know."""

    def strategy(self, resource: ServedResource) -> Strategy:
        """Return what the resource's kind contributes to a write."""
        defined = self.registry.strategy(resource)
        return defined or kinds.strategy_for(resource.group, resource.version, resource.kind)

    # Api

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        """Return one object at its kind's preferred version, or None."""
        resource = self.registry.preferred(group, kind)
        if resource is None:
            return None
        return self.writer.current(resource, namespace if resource.namespaced else "", name)

    def list(
        self, group: str, kind: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Iterator[Manifest]:
        """Yield the objects of a kind; ``labels`` must all be equal."""
        resource = self.registry.preferred(group, kind)
        if resource is None:
            return
        # A copy: callers write while they iterate.
        for stored in list(self.store.collection(resource.storage).select(namespace)):
            if labels:
                have = stored.obj["metadata"].get("labels") or {}
                if any(have.get(key) != value for key, value in labels.items()):
                    continue
            yield convert(stored.obj, resource)

    def owned_by(self, uid: str) -> Iterable[Manifest]:
        """Return the objects of every kind that have an ownerReference to this uid."""
        return [stored.obj for _, stored in self.store.owned_by(uid)]

    def create(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Create an object as field manager ``manager``."""
        resource, namespace, _ = self._target(manifest)
        return self.writer.create(resource, namespace, manifest, self._context(manager))

    def update(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Replace an object, or one subresource of it."""
        resource, namespace, name = self._target(manifest)
        ctx = self._context(manager)
        if subresource == "finalize":
            return self.finalize(resource, name, manifest, ctx)
        if subresource == "binding":
            return self.bind(manifest)
        if subresource == "scale":
            live = self._live(resource, namespace, name)
            replicas = int((manifest.get("spec") or {}).get("replicas") or 0)
            return self.writer.scale(resource, live, self._with_replicas(resource, live, replicas), ctx)
        if "resourceVersion" not in manifest["metadata"]:
            live = self._live(resource, namespace, name)
            # Some kinds refuse an update without one; controllers that read before have it anyway.
            version = live["metadata"]["resourceVersion"]
            manifest = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}}
        return self.writer.update(Address(resource, namespace, name, subresource), manifest, ctx)

    def patch(self, ref: ObjectRef, patch: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Merge-patch (RFC 7386) an object or a subresource of it."""
        address = Address(self._resource(ref.group, ref.kind), ref.namespace, ref.name, subresource)
        return self.writer.patch(address, lambda live: merge_patch(live, patch), self._context(manager))

    def apply(self, manifest: Manifest, *, manager: str) -> Manifest:
        """Server-side apply with force, as field manager ``manager``."""
        resource, namespace, name = self._target(manifest)
        ctx = self._context(manager)
        ctx.force = True
        return self.writer.apply(Address(resource, namespace, name), manifest, ctx)[0]

    def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object if it has this uid (any when empty); an absent object is ignored."""
        options = DeleteOptions(uid=uid, propagation=propagation, grace_seconds=grace_seconds)
        try:
            address = Address(self._resource(ref.group, ref.kind), ref.namespace, ref.name)
            self.deleter.delete(address, options, self._context(""))
        except ApiError as error:
            # Gone is what the caller wanted; a uid that differs is a 409 and is raised.
            if error.code != 404:
                raise

    def everything(self, namespace: str = "") -> Iterator[Manifest]:
        """Yield the objects of every kind, or those inside one namespace."""
        for collection in self.store.collections():
            for stored in list(collection.select(namespace)):
                yield stored.obj

    def resource(self, group: str, kind: str) -> tuple[str, bool] | None:
        """Return the plural name of a kind and whether it is namespaced; None when no such kind is served."""
        served = self.registry.preferred(group, kind)
        return None if served is None else (served.plural, served.namespaced)

    def subscribe(self, handler: EventHandler) -> None:
        """Call the handler after each commit, in order."""

        def tell(resource: str, event: StoreEvent) -> None:
            old = event.old.obj if event.old is not None else None
            if event.new is None:
                handler("DELETED", event.last.obj, old)
            else:
                handler("ADDED" if old is None else "MODIFIED", event.new.obj, old)

        self.store.observe(tell)

    # subresources that both sides use

    def finalize(self, resource: ServedResource, name: str, body: Manifest, ctx: RequestContext) -> Manifest:
        """Take ``spec.finalizers`` of a Namespace; the last one gone, a terminating namespace goes."""
        return self.writer.update(Address(resource, "", name, "finalize"), body, ctx)

    def bind(self, pod: Manifest) -> Manifest:
        """Take ``spec`` and ``status`` of a Pod as the scheduler's bind does, without field ownership."""
        meta = pod["metadata"]
        resource = self._resource("", "Pod")
        live = self._live(resource, meta["namespace"], meta["name"])
        # Without the write pipeline: a binding is not an update by the user, and owns no fields.
        changed = {**live, "metadata": dict(live["metadata"])}
        for member in ("spec", "status"):
            if member in pod:
                changed[member] = pod[member]
        if changed == live:
            return live
        return self.store.write(resource.storage, f"{meta['namespace']}/{meta['name']}", changed).obj

    # helpers

    def _with_replicas(self, resource: ServedResource, live: Manifest, replicas: int) -> Manifest:
        paths = self.scale_paths(resource)
        return with_replicas(live, replicas, paths[0] if paths else "spec.replicas")

    def _bindings(self, kind: str, namespace: str) -> Iterator[Manifest]:
        return self.list(RBAC_GROUP, kind, namespace)

    def _context(self, manager: str) -> RequestContext:
        return RequestContext(_SYSTEM, manager)

    def _resource(self, group: str, kind: str) -> ServedResource:
        served = self.registry.preferred(group, kind)
        if served is None:
            raise errors.no_such_resource()
        return served

    def _target(self, manifest: Manifest) -> tuple[ServedResource, str, str]:
        group = group_of(manifest["apiVersion"])
        version = manifest["apiVersion"].rpartition("/")[2]
        resource = self.registry.of_kind(group, version, manifest["kind"])
        if resource is None:
            raise errors.no_such_resource()
        meta = manifest["metadata"]
        namespace = (meta.get("namespace") or "default") if resource.namespaced else ""
        return resource, namespace, meta.get("name", "")

    def _live(self, resource: ServedResource, namespace: str, name: str) -> Manifest:
        live = self.writer.current(resource, namespace, name)
        if live is None:
            raise errors.not_found(resource.plural, resource.group, name)
        return live
