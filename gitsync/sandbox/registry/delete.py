"""Deletion: preconditions, propagation, finalizers, grace periods, and kinds with special rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox import errors
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.registry.contract import Admission, RequestContext
from gitsync.sandbox.registry.conversion import convert
from gitsync.sandbox.registry.metadata import wrong_type
from gitsync.sandbox.registry.resources import Address, ServedResource
from gitsync.sandbox.storage import ObjectStore

ORPHAN = "orphan"
# Seconds; more would overflow the date of the deletion.
MAX_GRACE = 1 << 31
FOREGROUND = "foregroundDeletion"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

_POLICIES = ("Foreground", "Background", "Orphan")
# Strategies from before garbage collection kept the dependents, and batch/v1 still does.
_ORPHANS_BY_DEFAULT = frozenset({("batch", "Job"), ("", "ReplicationController")})
# Kinds whose registry sets ReturnDeletedObject; all others answer with a Status.
_ANSWERS_WITH_OBJECT = frozenset(
    {
        ("", "Pod"),
        ("", "PodTemplate"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("", "ResourceQuota"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("storage.k8s.io", "VolumeAttributesClass"),
        ("resource.k8s.io", "DeviceClass"),
        ("resource.k8s.io", "ResourceClaim"),
        ("resource.k8s.io", "ResourceClaimTemplate"),
        ("resource.k8s.io", "ResourceSlice"),
    }
)
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)
PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a DELETE asks for, from its body or its query."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    grace_seconds: int | None = None
    cascades: bool = False
    """``orphanDependents: false``, by which a deletion that has to wait is answered as accepted only."""


_OPTION_TYPES: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "preconditions": (dict, "v1.Preconditions"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
}


def read_options(body: Manifest, query: dict[str, str]) -> tuple[DeleteOptions, bool]:
    """Return the options and whether it is a dry run; refuse what the API server refuses."""
    kind = body.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        raise errors.bad_request(
            f'no kind "{kind}" is registered for version "{body.get("apiVersion") or "meta.k8s.io/v1"}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    if not body and query:
        body = _from_query(query)
    for member, (wanted, spelled) in _OPTION_TYPES.items():
        value = body.get(member)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool) is not (wanted is bool)):
            raise wrong_type(value, f"DeleteOptions.{member}", spelled)
    causes: list[StatusCause] = []
    policy = body.get("propagationPolicy") or ""
    if policy and policy not in _POLICIES:
        choices = ", ".join(f'"{choice}"' for choice in (*_POLICIES, "nil"))
        causes.append(
            StatusCause(
                "FieldValueNotSupported",
                f'Unsupported value: "{policy}": supported values: {choices}',
                "propagationPolicy",
            )
        )
    orphan = body.get("orphanDependents")
    if policy and orphan is not None:
        causes.append(
            StatusCause(
                "FieldValueInvalid",
                f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set',
                "propagationPolicy",
            )
        )
    dry_run = body.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        listed = " ".join(f'"{value}"' for value in dry_run)
        causes.append(
            StatusCause("FieldValueNotSupported", f'Unsupported value: [{listed}]: supported values: "All"', "dryRun")
        )
    if causes:
        raise errors.invalid_options("DeleteOptions", causes)
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if not policy and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    options = DeleteOptions(
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        propagation=policy,
        grace_seconds=min(max(0, int(grace)), MAX_GRACE) if grace is not None else None,
        cascades=orphan is False,
    )
    return options, bool(dry_run)


def _from_query(query: dict[str, str]) -> Manifest:
    body: Manifest = {}
    if "propagationPolicy" in query:
        body["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        body["orphanDependents"] = query["orphanDependents"] == "true"
    if "dryRun" in query:
        body["dryRun"] = [query["dryRun"]]
    grace = query.get("gracePeriodSeconds", "")
    if grace:
        if not grace.lstrip("-").isdecimal():
            raise errors.bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
        body["gracePeriodSeconds"] = int(grace)
    if "resourceVersion" in query:
        body["preconditions"] = {"resourceVersion": query["resourceVersion"]}
    return body


class Deleter:
    """Carry out deletions."""

    def __init__(self, store: ObjectStore, clock: SandboxClock, admission: Admission) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission

    def delete(self, address: Address, options: DeleteOptions, ctx: RequestContext) -> tuple[Manifest, bool]:
        """Return the object as it is or was last, and whether it is gone."""
        resource = address.resource
        key = address.key
        stored = self._store.collection(resource.storage).objects.get(key)
        if stored is None:
            raise errors.not_found(resource.plural, resource.group, address.name)
        obj = convert(stored.obj, resource)
        self._check_preconditions(resource, obj, options)
        request = {
            "user": ctx.user,
            "resource": resource,
            "subresource": "",
            "dryRun": ctx.dry_run,
            "warnings": ctx.warnings,
        }
        self._admission.admit("DELETE", None, obj, request)
        of = (resource.group, resource.kind)
        last = obj
        if of == ("", "Namespace"):
            after = self._namespace(resource, obj, options)
        elif of == ("apiextensions.k8s.io", "CustomResourceDefinition") and not obj["metadata"].get(
            "deletionTimestamp"
        ):
            after = self._definition(obj)
        else:
            after = self._ordinary(resource, obj, options)
            if of == ("batch", "Job") and not options.propagation:
                ctx.warnings.append(_PODS_STAY)
            if of == ("", "Pod") and after is None:
                last = self._ended(obj)
        # Nothing changes: a second deletion of an object that waits for its finalizers.
        if after is obj or ctx.dry_run:
            return (last if after is None else after), after is None
        if after is not None or last is not obj:
            written = self._store.write(resource.storage, key, convert(after or last, resource, to_storage=True))
        if after is None:
            return convert(self._store.remove(resource.storage, key).obj, resource), True
        return convert(written.obj, resource), False

    def answer(self, resource: ServedResource, obj: Manifest, gone: bool) -> Manifest:
        """Return what a DELETE answers: the object, or a Status that says which is gone."""
        of = (resource.group, resource.kind)
        if not gone or of in _ANSWERS_WITH_OBJECT or of == ("", "Namespace"):
            return obj
        meta = obj["metadata"]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": errors.details(resource.plural, resource.group, meta["name"], uid=meta["uid"]),
        }

    def _check_preconditions(self, resource: ServedResource, obj: Manifest, options: DeleteOptions) -> None:
        meta = obj["metadata"]
        if options.uid and options.uid != meta["uid"]:
            raise errors.conflict(
                resource.kind,
                _group(resource),
                meta["name"],
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated",
            )
        if options.resource_version and options.resource_version != meta["resourceVersion"]:
            raise errors.conflict(
                resource.kind,
                _group(resource),
                meta["name"],
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
            )

    def _namespace(self, resource: ServedResource, obj: Manifest, options: DeleteOptions) -> Manifest | None:
        meta = obj["metadata"]
        if meta["name"] in PROTECTED_NAMESPACES:
            raise errors.forbidden("namespaces", "", meta["name"], "this namespace may not be deleted")
        if meta.get("deletionTimestamp"):
            return obj if at(obj, "spec", "finalizers") or meta.get("finalizers") else None
        wanted = replace(options, propagation="Foreground") if options.cascades else options
        finalizers = _finalizers(resource, meta.get("finalizers") or [], wanted)
        kept = {"finalizers": finalizers} if finalizers else {}
        return {
            **obj,
            "metadata": {**meta, **kept, "deletionTimestamp": self._clock.timestamp()},
            "status": {**(obj.get("status") or {}), "phase": "Terminating"},
        }

    def _definition(self, obj: Manifest) -> Manifest:
        status = obj.get("status") or {}
        terminating = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": self._clock.timestamp(),
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        meta = obj["metadata"]
        finalizers = list(dict.fromkeys([*(meta.get("finalizers") or []), CRD_CLEANUP]))
        return {
            **obj,
            "metadata": {**meta, "deletionTimestamp": self._clock.timestamp(), "finalizers": finalizers},
            "status": {**status, "conditions": [*(status.get("conditions") or []), terminating]},
        }

    def _ordinary(self, resource: ServedResource, obj: Manifest, options: DeleteOptions) -> Manifest | None:
        """Return the object that remains (the same one when nothing changes), None when it is removed at once."""
        meta = obj["metadata"]
        finalizers = _finalizers(resource, meta.get("finalizers") or [], options)
        grace = _grace_seconds(obj, options) if (resource.group, resource.kind) == ("", "Pod") else 0
        if not finalizers and not grace:
            return None
        changed = dict(meta)
        if finalizers:
            changed["finalizers"] = finalizers
        else:
            changed.pop("finalizers", None)
        self._mark(changed, grace)
        return obj if changed == meta else {**obj, "metadata": changed}

    def _ended(self, pod: Manifest) -> Manifest:
        """Return a Pod that goes at once: its deletion is stored with a grace period of zero before."""
        meta = dict(pod["metadata"])
        self._mark(meta, 0)
        return {**pod, "metadata": meta}

    def _mark(self, meta: dict[str, Any], grace: int) -> None:
        """Set the time by which the object should be gone; a second deletion may only shorten it."""
        if meta.get("deletionTimestamp"):
            seconds_left = meta.get("deletionGracePeriodSeconds")
            if seconds_left is None:
                meta["deletionGracePeriodSeconds"] = 0
                return
            if grace >= seconds_left:
                return
            # deletionTimestamp is the end of the grace period, not its begin.
            begun = seconds_of(meta["deletionTimestamp"]) - seconds_left
        else:
            begun = int(self._clock.now())
            # A deletion is a change of the desired state.
            if meta.get("generation"):
                meta["generation"] += 1
        due = datetime.fromtimestamp(begun + grace, UTC)
        meta["deletionTimestamp"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")
        meta["deletionGracePeriodSeconds"] = grace


def _is_event(resource: ServedResource) -> bool:
    """Whether the objects are Events, whose conflicts the real server names by the core resource in both groups."""
    return (resource.group, resource.kind) in (("", "Event"), ("events.k8s.io", "Event"))


def _group(resource: ServedResource) -> str:
    return "" if _is_event(resource) else resource.group


def _finalizers(resource: ServedResource, present: list[str], options: DeleteOptions) -> list[str]:
    """Return the finalizers that the propagation policy leaves; Events are not collected as garbage."""
    policy = options.propagation
    if _is_event(resource):
        return [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if not policy:
        if ORPHAN in present:
            policy = "Orphan"
        elif FOREGROUND in present:
            policy = "Foreground"
        elif (resource.group, resource.kind) in _ORPHANS_BY_DEFAULT:
            policy = "Orphan"
    wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    still = [name for name in present if name in wanted]
    return present if still else kept + wanted


def _grace_seconds(pod: Manifest, options: DeleteOptions) -> int:
    """Return how long a pod may take to stop; one that never ran, or has ended, goes at once."""
    # No kubelet has to confirm the end.
    if not at(pod, "spec", "nodeName") or at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    grace = at(pod, "spec", "terminationGracePeriodSeconds")
    return 30 if grace is None else int(grace)
