"""Kubernetes: the ports Cluster and ObjectDetails by requests to an API server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from gitsync.cluster.client import Client, segment
from gitsync.cluster.discovery import ClusterSchemas, Discovery
from gitsync.cluster.errors import forbidden_hint
from gitsync.errors import Conflict, GroupUnavailable, InvalidInput, Rejected, Terminating, one_line
from gitsync.kube.messages import is_misfit
from gitsync.kube.openapi import misspelt_kind
from gitsync.merge.schema import Schemas
from gitsync.objects.change import Change
from gitsync.objects.keys import API_VERSION, FORCE
from gitsync.objects.manifest import Manifest, metadata_of, pointer_parts, resource_version_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.ports import ApiResource, Capabilities, KubernetesEvent, LogRequest


class KubernetesCluster:
    """Read and write objects of a cluster; see the port ``Cluster`` for what each method promises."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._discovery = Discovery(client)
        self._schemas = ClusterSchemas(client)

    def resource(self, group: str, version: str, kind: str) -> ApiResource | None:
        """Return the resource of a kind, None when the cluster does not serve it."""
        return self._discovery.resource(group, version, kind)

    def find(self, group: str, version: str, kind: str) -> ApiResource | GroupUnavailable | None:
        """Return the resource of a kind, or why it is unknown whether it is served; None when it is not."""
        return self._discovery.find(group, version, kind)

    def any_version(self, of: GroupKind) -> ApiResource | None:
        """Return the resource of a kind at the version that the server prefers."""
        return self._discovery.any_version(of.group, of.kind)

    def schemas(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these groups and versions."""
        return self._schemas.of(group_versions)

    def definitions_changed(self) -> None:
        """Ask again which kinds are served, and for their schemas."""
        self._discovery.forget()
        self._schemas.forget()

    def capabilities(self) -> Capabilities:
        """Return the version of the server and what it serves."""
        return self._discovery.capabilities()

    def read(self, ref: ObjectRef, version: str, *, user: str = "") -> Manifest | None:
        """Return the object as it is now, by a request."""
        resource = self._resource(ref.group, version, ref.kind)
        try:
            live: Manifest = self._client.get(object_path(resource, ref), user=user)
        except Rejected as error:
            if error.code == 404:
                return None
            raise _explained(error, ref) from error
        return live

    def objects(self, of: GroupKind, version: str, namespaces: Sequence[str] = ("",)) -> list[Manifest]:
        """Return the objects of a kind in these namespaces (empty: in all), none where it is not served."""
        resource = self.resource(of.group, version, of.kind)
        if resource is None:
            return []
        return [item for name in namespaces for item in self._client.get(collection_path(resource, name))["items"]]

    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        """Create an object by POST, which never changes one that exists, and return it."""
        ref = ref_of(manifest)
        resource = self._resource(ref.group, version_of(manifest), ref.kind)
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        try:
            created: Manifest = self._client.send(
                "POST", collection_path(resource, ref.namespace), manifest, query, user=user
            )
        except Rejected as error:
            raise _explained(error, ref) from error
        except Conflict as error:
            raise type(error)(error.message, object=str(ref)) from error
        return created

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply server-side and return the object as it is then."""
        ref = ref_of(manifest)
        resource = self._resource(ref.group, version_of(manifest), ref.kind)
        query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        try:
            applied: Manifest = self._client.apply(object_path(resource, ref), manifest, query, user=user)
        except Rejected as error:
            raise _explained(error, ref) from error
        except Conflict as error:
            raise Conflict(error.message, object=str(ref)) from error
        return applied

    def set_managed_fields(
        self, live: Manifest, managed_fields: Sequence[Mapping[str, Any]], *, manager: str, user: str = ""
    ) -> Manifest:
        """
        Transfer field ownership without changing a value, and return the object with its new resourceVersion.

        Raise Conflict when the object changed since ``live``, or is another one by now.
        """
        operation = {"op": "replace", "path": "/metadata/managedFields", "value": list(managed_fields) or [{}]}
        return self._patch(live, [operation], manager, user)

    def remove_fields(self, live: Manifest, pointers: Sequence[str], *, manager: str, user: str = "") -> Manifest:
        """
        Remove fields by JSON Pointer in one patch; raise Conflict as ``set_managed_fields`` does.

        Of a list, later items go first, so that the indexes of the others stay valid.
        """
        order = sorted(pointers, key=_position, reverse=True)
        return self._patch(live, [{"op": "remove", "path": pointer} for pointer in order], manager, user)

    def release(self, released: Change, *, manager: str, user: str = "") -> Manifest:
        """
        Remove our marks and our ownership of fields in one patch; raise Conflict as ``set_managed_fields`` does.

        An apply of nothing would not do: with the last field that we own of a map, it removes the map.
        """
        if released.live is None:
            raise ValueError(f"{released.ref}: a release needs the live object")
        owned = {
            "op": "replace",
            "path": "/metadata/managedFields",
            "value": list(released.managed_fields or ()) or [{}],
        }
        marks = [{"op": "remove", "path": pointer} for pointer in released.removed]
        return self._patch(released.live, [*marks, owned], manager, user)

    def _patch(self, live: Manifest, operations: Sequence[dict[str, Any]], manager: str, user: str) -> Manifest:
        """Send a JSON patch that is only accepted for this uid and resourceVersion; return the object then."""
        ref = ref_of(live)
        resource = self._resource(ref.group, version_of(live), ref.kind)
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": uid_of(live)},
            *operations,
            {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version_of(live)},
        ]
        try:
            patched: Manifest = self._client.patch(
                object_path(resource, ref), patch, {"fieldManager": manager}, user=user
            )
        except Rejected as error:
            if error.code in (404, 422):  # deleted, or recreated under the same name
                raise Conflict(error.message, object=str(ref)) from error
            raise _explained(error, ref) from error
        except Conflict as error:
            raise Conflict(error.message, object=str(ref)) from error
        return patched

    def delete(
        self,
        ref: ObjectRef,
        version: str,
        *,
        uid: str,
        user: str = "",
        foreground: bool = False,
        dry_run: bool = False,
    ) -> Manifest | None:
        """
        Delete the object if it still has this uid; an object that is already gone is ignored.

        Return the object while finalizers or a grace period keep it, None once it is gone. The API server answers
        with a Status then, or, for some kinds such as Service, with the deleted object.
        """
        resource = self._resource(ref.group, version, ref.kind)
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            # named also for the default: that of batch/v1 Jobs orphans their pods
            "propagationPolicy": "Foreground" if foreground else "Background",
            "preconditions": {"uid": uid},
            **({"dryRun": ["All"]} if dry_run else {}),
        }
        try:
            answer: Manifest = self._client.send("DELETE", object_path(resource, ref), options, user=user)
        except Rejected as error:
            if error.code == 404:
                return None
            raise _explained(error, ref) from error
        except Conflict as error:
            raise Conflict(error.message, object=str(ref)) from error
        return answer if metadata_of(answer).get("deletionTimestamp") else None

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or one subresource of it, if its resourceVersion is still the newest."""
        ref = ref_of(manifest)
        resource = self._resource(ref.group, version_of(manifest), ref.kind)
        path = object_path(resource, ref) + (f"/{subresource}" if subresource else "")
        query: Mapping[str, str] = {"fieldManager": manager}
        try:
            replaced: Manifest = self._client.send("PUT", path, manifest, query)
        except Rejected as error:
            raise _explained(error, ref) from error
        return replaced

    def _resource(self, group: str, version: str, kind: str) -> ApiResource:
        resource = self._discovery.resource(group, version, kind)
        if resource is None:
            where = f"{group}/{version}" if group else version
            raise InvalidInput(f"the cluster does not serve {kind} of {where}", hint=self._replacement(group, kind))
        return resource

    def _replacement(self, group: str, kind: str) -> str:
        """Return what to write instead of a version that is not served, or what to install."""
        served = self._discovery.any_version(MOVED_KINDS.get((group, kind), group), kind)
        if served is not None:
            return f"the cluster serves {kind} as {served.api_version}; write apiVersion: {served.api_version}"
        if (group, kind) in REMOVED_KINDS:
            return f"Kubernetes {REMOVED_KINDS[group, kind]}"
        return misspelt_kind(group, kind) or "install its CustomResourceDefinition first"


def version_of(manifest: Manifest) -> str:
    """Return the version of an apiVersion: ``apps/v1`` and ``v1`` both give ``v1``."""
    return str(manifest.get("apiVersion") or "").rpartition("/")[2]


def collection_path(resource: ApiResource, namespace: str = "") -> str:
    """Return the URL path of a collection; of all namespaces when none is named."""
    root = f"/apis/{segment(resource.group)}" if resource.group else "/api"
    inside = f"/namespaces/{segment(namespace)}" if resource.namespaced and namespace else ""
    return f"{root}/{segment(resource.version)}{inside}/{segment(resource.plural)}"


def object_path(resource: ApiResource, ref: ObjectRef) -> str:
    """Return the URL path of an object."""
    return f"{collection_path(resource, ref.namespace)}/{segment(ref.name)}"


def _position(pointer: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort JSON Pointers of one list by index."""
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in pointer_parts(pointer))


def _explained(error: Rejected, ref: ObjectRef) -> Rejected | Conflict:
    """Return the refusal with the object, with a hint where there is one."""
    hint = ""
    if error.code == 404 and error.message.startswith("namespaces "):
        hint = "declare the Namespace in Git, or create it"
    elif error.code == 403 and "being terminated" in error.message:
        return Terminating(error.message, object=str(ref), hint="it is tried again when the namespace is gone")
    elif error.code == 403:
        hint = forbidden_hint(error.message)
    elif is_misfit(error):
        hint = f'correct it with kubectl edit, or set {FORCE}: "true" to recreate it'
    return Rejected(error.message, object=str(ref), hint=hint, code=error.code, refusal=error.refusal)


def with_type(item: dict[str, Any], resource: ApiResource) -> Manifest:
    """Return a list item with the kind and apiVersion that lists leave out."""
    return {**item, "apiVersion": resource.api_version, "kind": resource.kind}


_NETWORKING: Final = "networking.k8s.io"

MOVED_KINDS: Final = {
    ("extensions", "Ingress"): _NETWORKING,
    ("extensions", "NetworkPolicy"): _NETWORKING,
    ("extensions", "Deployment"): "apps",
    ("extensions", "DaemonSet"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("", "Event"): "events.k8s.io",
}
"""The group in which a kind is served now."""

REMOVED_KINDS: Final = {
    (
        "policy",
        "PodSecurityPolicy",
    ): "1.25 removed it; label namespaces with pod-security.kubernetes.io/enforce instead",
    ("extensions", "PodSecurityPolicy"): "1.25 removed it; label namespaces with pod-security.kubernetes.io/enforce "
    "instead",
    ("settings.k8s.io", "PodPreset"): "1.20 removed it; set the fields in the pod template instead",
}
"""What replaced a kind that no version serves any more."""


_EVENTS = 100
_LOG_BYTES = 512 * 1024
# characters of a message, the limit of the API server
_MESSAGE = 1024


class ApiObjectDetails:
    """Read Events, logs and Applications, write Events; see the ports ``ObjectDetails`` and ``EventWriter``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def events(self, ref: ObjectRef) -> tuple[KubernetesEvent, ...]:
        """Return the latest Events about an object, newest first."""
        namespace = ref.namespace or "default"  # where the API server keeps Events about cluster-scoped objects
        fields = f"involvedObject.kind={ref.kind},involvedObject.name={ref.name}"
        query = {"fieldSelector": fields, "limit": str(_EVENTS)}
        items = self._client.get(f"/api/v1/namespaces/{segment(namespace)}/events", query).get("items") or ()
        return tuple(sorted(map(_event, items), key=lambda event: event.last, reverse=True))

    def logs(self, request: LogRequest) -> str:
        """Return the last lines of the log of a container."""
        query = {"tailLines": str(request.lines), "limitBytes": str(_LOG_BYTES)}
        query |= {"container": request.container} if request.container else {}
        query |= {"previous": "true"} if request.is_previous else {}
        query |= {"timestamps": "true"} if request.has_times else {}
        pod = f"/api/v1/namespaces/{segment(request.namespace)}/pods/{segment(request.pod)}"
        return self._client.text(f"{pod}/log", query)

    def application(self, key: str) -> Manifest:
        """Return an Application as the API server has it now."""
        namespace, _, name = key.partition("/")
        path = f"/apis/{API_VERSION}/namespaces/{segment(namespace)}/applications/{segment(name)}"
        application: Manifest = self._client.get(path)
        return application

    def write_event(self, application: str, type: str, reason: str, message: str, ref: ObjectRef | None = None) -> None:
        """Write one Event about an Application or an object of it; an equal one within the hour counts up."""
        namespace, _, name = application.partition("/")
        about = {"apiVersion": API_VERSION, "kind": "Application", "namespace": namespace, "name": name}
        if ref is not None:
            # Events of objects without a namespace belong into the namespace default (core/v1 Event)
            namespace = ref.namespace or "default"
            name = ref.name
            about = {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = one_line(message, _MESSAGE)
        # the name is derived from the content, so that the same Event is found again and counted up
        mark = hashlib.sha256(f"{application} {ref} {reason} {text}".encode()).hexdigest()[:16]
        path = f"/api/v1/namespaces/{segment(namespace)}/events"
        try:
            known = self._client.get(f"{path}/{segment(f'{name}.{mark}')}")
        except Rejected as error:
            if error.code != 404:
                raise
            known = {}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{mark}", "namespace": namespace},
            "involvedObject": about,
            "type": type,
            "reason": reason,
            "message": text,
            "source": {"component": "gitsync"},
            "count": int(known.get("count") or 0) + 1,
            "firstTimestamp": known.get("firstTimestamp") or now,
            "lastTimestamp": now,
        }
        self._client.apply(f"{path}/{segment(f'{name}.{mark}')}", body, {"fieldManager": "gitsync", "force": "true"})


def _event(item: dict[str, Any]) -> KubernetesEvent:
    # events.k8s.io/v1 counts in series and reports eventTime; core/v1 writers such as the kubelet use the older members
    series = item.get("series") or {}
    source = item.get("reportingComponent") or (item.get("source") or {}).get("component") or ""
    times = (
        series.get("lastObservedTime"),
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item.get("firstTimestamp"),
    )
    return KubernetesEvent(
        type=str(item.get("type") or ""),
        reason=str(item.get("reason") or ""),
        message=str(item.get("message") or ""),
        count=int(series.get("count") or item.get("count") or 1),
        last=str(next(filter(None, times), "")),
        source=str(source),
    )
