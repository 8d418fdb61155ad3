"""
The write pipeline: one way for every verb.

    decode -> strict checks -> patch or apply -> defaults -> ownership -> admission -> prepare -> validate
           -> (a dry run returns here) -> compare and set -> publish

What differs between kinds is the Strategy's; what every kind shares is here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gitsync.merge.field_manager import Write, update_object
from gitsync.merge.fieldset import FieldSet
from gitsync.merge.schema import Schema
from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.rbac import GROUP as RBAC_GROUP
from gitsync.sandbox.rbac import Authorizer
from gitsync.sandbox.registry import managed_fields
from gitsync.sandbox.registry.allocators import Allocators, GetObject, RequestEnvironment
from gitsync.sandbox.registry.contract import Admission, RequestContext, Strategy
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.metadata import (
    arranged,
    check_name,
    check_namespace,
    object_member,
    prepare_create,
    prepare_update,
)
from gitsync.sandbox.registry.preconditions import (
    changed,
    check_kind,
    check_resource_version,
    is_finished,
    mismatch,
    quoted,
    same_but_times,
)
from gitsync.sandbox.registry.resources import Address, ServedResource
from gitsync.sandbox.storage import ObjectStore, Stored

Outcome = tuple[Manifest, bool]
"""The object as it is now, and whether the request created it."""


@dataclass(frozen=True, slots=True)
class WriteRules:
    """What decides on a write: the kind's strategy and schema, admission, and the user's grants."""

    strategy: Callable[[ServedResource], Strategy]
    schema: Callable[[ServedResource], Schema]
    admission: Admission
    authorizer: Authorizer


class WritePipeline:
    """Carry out creates, updates, patches and applies."""

    def __init__(
        self, store: ObjectStore, clock: SandboxClock, rules: WriteRules, get: GetObject, rng: random.Random
    ) -> None:
        self._store = store
        self._clock = clock
        self._strategy = rules.strategy
        self._schema = rules.schema
        self._admission = rules.admission
        self._authorizer = rules.authorizer
        self._get = get
        self._rng = rng
        self._allocations = Allocators(store)

    def environment(self) -> RequestEnvironment:
        """Return a fresh environment for one write."""
        return RequestEnvironment(self._clock, self._allocations, self._rng, self._get)

    def current(self, resource: ServedResource, namespace: str, name: str) -> Manifest | None:
        """Return the stored object at the resource's version, or None."""
        stored = self._stored(resource, namespace, name)
        return None if stored is None else convert(stored.obj, resource)

    def create(self, resource: ServedResource, namespace: str, body: Manifest, ctx: RequestContext) -> Manifest:
        """Create an object from the body of a POST."""
        check_kind(resource, body)
        obj = self._decode(resource, dict(body), ctx)
        check_namespace(resource, namespace, obj["metadata"])
        return self._create(resource, obj, ctx, applied=False)

    def unstored(self, resource: ServedResource, body: Manifest, ctx: RequestContext, *, managed: bool) -> Manifest:
        """Return an object that is only answered, a review, in canonical form and with its managedFields."""
        check_kind(resource, body)
        obj = self._decode(resource, dict(body), ctx)
        obj.pop("status", None)
        if managed:
            obj = managed_fields.created(obj, self._schema(resource), ctx, self._clock.timestamp())
        return arranged(resource, obj, obj["metadata"])

    def update(self, address: Address, body: Manifest, ctx: RequestContext) -> Manifest:
        """Replace an object, or its status, by the body of a PUT."""
        resource = address.resource
        namespace = address.namespace
        name = address.name
        check_kind(resource, body)
        obj = self._decode(resource, dict(body), ctx)
        check_name(name, obj["metadata"])
        check_namespace(resource, namespace, obj["metadata"])
        live = self._require(resource, namespace, name)
        uid = obj["metadata"].get("uid")
        if uid and uid != live["metadata"]["uid"]:
            key = (
                f"/registry/{resource.plural}/{namespace}/{name}"
                if namespace
                else f"/registry/{resource.plural}/{name}"
            )
            raise errors.conflict(
                resource.plural,
                resource.group,
                name,
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}",
            )
        unconditional = not self._strategy(resource).needs_resource_version
        check_resource_version(resource, name, obj["metadata"].get("resourceVersion"), live, unconditional)
        return self._update(address, live, obj, ctx)

    def patch(
        self, address: Address, change: Callable[[Manifest], Manifest], ctx: RequestContext, shown: str = ""
    ) -> Manifest:
        """
        Change an object by a function that returns the patched copy.

        ``shown`` is how a refusal quotes a patch that was merged as an object; empty for one merged as JSON, whose
        result is quoted instead.
        """
        resource = address.resource
        namespace = address.namespace
        name = address.name
        live = self._require(resource, namespace, name)
        patched = change(live)
        if patched is live:
            return live
        for member in ("apiVersion", "kind"):
            if patched.get(member) != live[member]:
                raise errors.invalid_patch(quoted(patched), mismatch(resource, patched))
        try:
            obj = self._decode(resource, patched, ctx, merged=bool(shown))
        except ApiError as error:
            _, _, why = error.message.partition(f"cannot be handled as a {resource.kind}: ")
            if error.code != 400 or not why:
                raise
            raise errors.invalid_patch(f'"{shown}"' if shown else quoted(patched), why) from None
        check_name(name, obj["metadata"])
        check_namespace(resource, namespace, obj["metadata"])
        # A patch that sets it is ignored, while an update is refused.
        obj["metadata"]["creationTimestamp"] = live["metadata"]["creationTimestamp"]
        check_resource_version(resource, name, obj["metadata"].get("resourceVersion"), live, True)
        return self._update(address, live, obj, ctx)

    def apply(
        self, address: Address, body: Manifest, ctx: RequestContext, may_create: Callable[[], None] = lambda: None
    ) -> Outcome:
        """Server-side apply; ``may_create`` raises when the user may not create the object that is absent."""
        resource = address.resource
        namespace = address.namespace
        name = address.name
        sent = (str(body.get("apiVersion") or ""), str(body.get("kind") or ""))
        if sent != (resource.api_version, resource.kind):
            group, _, version = sent[0].rpartition("/")
            raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={sent[1]}")
        meta = dict(object_member(body, "metadata"))
        if not meta.get("name"):
            raise errors.bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        check_name(name, meta)
        if meta.get("namespace") not in (None, "", namespace):
            check_namespace(resource, namespace, meta)
        if meta.get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        live = self.current(resource, namespace, name)
        if live is None and address.subresource:
            raise errors.not_found(resource.plural, resource.group, name)
        self._check_applied_version(resource, name, meta, live)
        part = managed_fields.applied_part({**body, "metadata": meta}, address)
        merged = managed_fields.applied(live, part, self._schema(resource), self._apply(address, ctx), force=ctx.force)
        # The merge core returns the live object itself when nothing changes: no admission, no write, no event.
        if live is not None and merged is live:
            return live, False
        meta = dict(merged["metadata"])
        uid = meta.get("uid")
        if live is None:
            may_create()
            if uid:
                cause = errors.immutable_uid(str(uid))
                raise errors.invalid(resource.kind, resource.group, name, [cause, cause])
            meta.pop("resourceVersion", None)
            check_namespace(resource, namespace, meta)
        obj = self._converted(resource, {**merged, "metadata": meta})
        if live is None:
            return self._create(resource, obj, ctx, applied=True), True
        obj["metadata"] = {**obj["metadata"], "managedFields": merged["metadata"].get("managedFields", [])}
        check_resource_version(resource, name, obj["metadata"].get("resourceVersion"), live, True)
        return self._update(address, live, obj, ctx, applied=True), False

    def _apply(self, address: Address, ctx: RequestContext) -> Write:
        """Return who applies, when, and which fields an apply through this address does not own."""
        ignores_status = self._strategy(address.resource).has_status and not address.subresource
        ignored = managed_fields.NO_STATUS if ignores_status else FieldSet({})
        return Write(ctx.manager, self._clock.timestamp(), address.subresource, ignored)

    def _converted(self, resource: ServedResource, merged: Manifest) -> Manifest:
        """Return an applied object in canonical form; a value of a wrong type is a 500, as on a real server."""
        try:
            return self._strategy(resource).default(merged, merged=True)
        except ApiError as error:
            raise managed_fields.conversion_failed(resource, merged["metadata"], error) from None

    def _check_applied_version(
        self, resource: ServedResource, name: str, meta: dict[str, Any], live: Manifest | None
    ) -> None:
        version = meta.get("resourceVersion")
        if version and live is not None and version != live["metadata"]["resourceVersion"]:
            raise errors.conflict(resource.plural, resource.group, name, errors.MODIFIED)

    def _create(self, resource: ServedResource, obj: Manifest, ctx: RequestContext, *, applied: bool) -> Manifest:
        strategy = self._strategy(resource)
        env = self.environment()
        meta = dict(obj["metadata"])
        namespace = meta.get("namespace", "")
        causes = prepare_create(
            meta, uid=env.new_uid(), now=env.now(), suffix=env.random_suffix(), generation=strategy.has_generation
        )
        if causes:
            raise errors.invalid(resource.kind, resource.group, "", causes)
        name = meta["name"]
        if resource.namespaced:
            # Before admission, whose plugins read the namespace.
            self._require_namespace(namespace)
        obj = {**obj, "metadata": meta}
        if strategy.has_status:
            obj.pop("status", None)
        if not applied:
            obj = managed_fields.created(obj, self._schema(resource), ctx, env.now())
        obj = self._admit(resource, obj, None, ctx, "")
        obj = self._prepare(resource, obj, None, "", env)
        causes = strategy.validate(obj, None, "")
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)
        # After validation: an invalid role is refused as invalid, not as an escalation.
        self._check_grant(resource, obj, None, ctx)
        # As late as a real server notices it: a create over an existing object is validated and admitted before the
        # 409.
        existing = self._stored(resource, namespace, name)
        if existing is not None:
            terminating = "deletionTimestamp" in existing.obj["metadata"]
            raise errors.already_exists(resource.plural, resource.group, name, terminating=terminating)
        if ctx.dry_run:
            return arranged(resource, obj, dict(obj["metadata"]))
        obj = arranged(resource, obj, {**obj["metadata"], "resourceVersion": ""})  # the store fills it in
        stored = self._store.write(resource.storage, f"{namespace}/{name}", convert(obj, resource, to_storage=True))
        return convert(stored.obj, resource)

    def _update(
        self, address: Address, live: Manifest, obj: Manifest, ctx: RequestContext, *, applied: bool = False
    ) -> Manifest:
        resource = address.resource
        subresource = address.subresource
        strategy = self._strategy(resource)
        old_meta = live["metadata"]
        name = old_meta["name"]
        meta = dict(obj["metadata"])
        causes = prepare_update(meta, old_meta)
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)
        meta["resourceVersion"] = old_meta["resourceVersion"]
        obj = {**obj, "metadata": meta}
        if strategy.has_status and subresource != "status":
            if "status" in live:
                obj["status"] = live["status"]
            else:
                obj.pop("status", None)
        env = self.environment()
        if subresource:  # what it may not change is put back before anybody is said to own it
            managed = obj["metadata"].get("managedFields")
            obj = strategy.prepare(obj, live, subresource, env)
            if applied:
                obj = {**obj, "metadata": {**obj["metadata"], "managedFields": managed}}
        if not applied:
            obj = update_object(live, obj, self._schema(resource), Write(ctx.manager, env.now(), subresource))
        return self._finish(resource, live, obj, ctx, subresource)

    def _finish(
        self, resource: ServedResource, live: Manifest, obj: Manifest, ctx: RequestContext, subresource: str
    ) -> Manifest:
        """Take an update whose owners are known through admission and validation to the store."""
        strategy = self._strategy(resource)
        env = self.environment()
        old_meta = live["metadata"]
        name = old_meta["name"]
        namespace = old_meta.get("namespace", "")
        obj = self._admit(resource, obj, live, ctx, subresource)
        obj = strategy.settle(obj, live, env) if subresource else self._prepare(resource, obj, live, subresource, env)
        meta = dict(obj["metadata"])
        if not meta.get("managedFields"):
            meta.pop("managedFields", None)
        if strategy.has_generation and not subresource and changed(live, obj, strategy):
            meta["generation"] = old_meta.get("generation", 0) + 1
        obj = arranged(resource, obj, meta)
        causes = strategy.validate(obj, live, subresource)
        if causes:
            raise errors.invalid(resource.kind, resource.group, name, causes)
        self._check_grant(resource, obj, live, ctx)
        if same_but_times(live, obj):
            return live
        if ctx.dry_run:
            return obj
        key = f"{namespace}/{name}"
        if is_finished(obj):
            self._store.remove(resource.storage, key)  # the change itself is never stored
            return obj
        stored = self._store.write(resource.storage, key, convert(obj, resource, to_storage=True))
        return convert(stored.obj, resource)

    def scale(self, resource: ServedResource, live: Manifest, scaled: Manifest, ctx: RequestContext) -> Manifest:
        """Store an object with other replicas, owned through the subresource ``scale``."""
        obj = self._strategy(resource).default(scaled)
        obj = managed_fields.scaled(live, obj, self._schema(resource), ctx)
        return self._finish(resource, live, obj, ctx, "")

    def apply_scale(
        self,
        resource: ServedResource,
        live: Manifest,
        applied: Manifest,
        ctx: RequestContext,
        check: Callable[[Manifest], None],
    ) -> Manifest:
        """Store an object whose replicas, the only field of ``applied``, were applied through ``scale``."""
        now = self._clock.timestamp()
        obj = managed_fields.scale_applied(live, applied, self._schema(resource), ctx, now)
        check(obj)
        return self._finish(resource, live, obj, ctx, "")

    # steps

    def _stored(self, resource: ServedResource, namespace: str, name: str) -> Stored | None:
        return self._store.collection(resource.storage).objects.get(f"{namespace}/{name}")

    def _require(self, resource: ServedResource, namespace: str, name: str) -> Manifest:
        live = self.current(resource, namespace, name)
        if live is None:
            raise errors.not_found(resource.plural, resource.group, name)
        return live

    def _require_namespace(self, namespace: str) -> None:
        if self._get("", "Namespace", "", namespace) is None:
            raise errors.not_found("namespaces", "", namespace)

    def _decode(
        self, resource: ServedResource, obj: Manifest, ctx: RequestContext, *, merged: bool = False
    ) -> Manifest:
        """Return the canonical object with defaults; unknown and duplicate fields cause a warning or an error."""
        strategy = self._strategy(resource)
        obj.setdefault("kind", resource.kind)
        obj.setdefault("apiVersion", resource.api_version)
        unknown = strategy.unknown_fields(obj)
        decoded = strategy.default(strategy.prune(obj) if unknown else obj, merged=merged)
        if ctx.validation != "Ignore" and (unknown or ctx.duplicates):
            problems = [f'duplicate field "{path}"' for path in ctx.duplicates]
            problems += [f'unknown field "{path}"' for path in unknown]
            if ctx.validation == "Strict":
                raise errors.strict(resource.kind, resource.version, problems)
            ctx.warnings.extend(problems)
        return decoded

    def _admit(
        self, resource: ServedResource, obj: Manifest, old: Manifest | None, ctx: RequestContext, subresource: str
    ) -> Manifest:
        return self._admission.admit(
            "CREATE" if old is None else "UPDATE",
            obj,
            old,
            {
                "user": ctx.user,
                "resource": resource,
                "subresource": subresource,
                "dryRun": ctx.dry_run,
                "warnings": ctx.warnings,
                "manager": ctx.manager,
            },
        )

    def _prepare(
        self, resource: ServedResource, obj: Manifest, old: Manifest | None, subresource: str, env: RequestEnvironment
    ) -> Manifest:
        try:
            return self._strategy(resource).prepare(obj, old, subresource, env)
        except ApiError as error:
            if error.reason == "Invalid" and not error.details.get("name"):
                raise errors.renamed(error, resource.kind, resource.group, obj["metadata"]["name"]) from None
            raise

    def _check_grant(self, resource: ServedResource, obj: Manifest, old: Manifest | None, ctx: RequestContext) -> None:
        if resource.group == RBAC_GROUP:
            self._authorizer.check_grant(ctx.user, resource.plural, obj, old)
