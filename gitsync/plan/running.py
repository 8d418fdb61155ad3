"""
What the Pods of a workload run otherwise than it declares, which no manifest shows.

A Pod runs another image where its tag was moved, or where a user set one. It runs with an old configuration where a
Secret or ConfigMap changed after its containers had read it. A user who debugs may have added a container to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from gitsync.objects.application import IgnoreRule
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.field_owners import is_interactive
from gitsync.plan.ignored_fields import applies_to

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""The annotation by which ``kubectl rollout restart`` replaces Pods (k8s.io/kubectl/pkg/polymorphichelpers)."""
POD: Final = GroupKind("", "Pod")
RESTARTABLE: Final = frozenset({GroupKind("apps", kind) for kind in ("DaemonSet", "Deployment", "StatefulSet")})
"""Workloads whose Pods a change of the template replaces; a Job reads its configuration once, and ends."""
_HASHED_NAME: Final = re.compile(r"-[24-9bcdfghkmt]{10}$")
"""Kustomize appends a hash in this alphabet (api/hasher): another content has another name, so Pods are replaced."""
_DIGEST: Final = re.compile(r"@(sha256:[0-9a-f]{64})$")
_ENDED: Final = ("Failed", "Succeeded")


class RunningKind(Enum):
    """What a Pod has otherwise than its workload declares."""

    IMAGE = "image"
    """A container runs another image than the one that is declared, or than the other Pods run by the same tag."""
    STALE = "stale"
    """A container started before a Secret or ConfigMap that it reads had its content of now."""
    MODIFIED = "modified"
    """A user changed the Pod itself: it has an ephemeral container, or something was run in it."""


FindingKey = tuple[str, RunningKind, str, ObjectRef | None]
"""The uid of the Pod, and what it has otherwise."""


@dataclass(frozen=True, slots=True)
class RunningFinding:
    """One Pod that runs otherwise than declared; ``since`` is RFC 3339, empty when unknown."""

    kind: RunningKind
    pod: ObjectRef
    uid: str
    message: str
    pointer: str
    """Where in the Pod it is, as an ignore rule names it."""
    since: str = ""
    source: ObjectRef | None = None
    """The Secret or ConfigMap that changed."""

    @property
    def key(self) -> FindingKey:
        """What tells it from the others; not its times: a container that crashes starts often."""
        return (self.uid, self.kind, self.pointer, self.source)


@dataclass(frozen=True, slots=True)
class ContentVersion:
    """A content of a Secret or ConfigMap by its digest, and since when it has it."""

    digest: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Execution:
    """What a user ran in a Pod, by ``exec`` or ``attach``, as the audit sink received it."""

    person: str
    verb: str
    time: datetime


ExecutionsOf = Callable[[ObjectRef], Sequence[Execution]]
"""Return what was run in a Pod of a name, the oldest first; an earlier Pod may have had the name."""
ContentsOf = Callable[[ObjectRef, bool], Sequence[ContentVersion]]
"""
Return the contents that a Secret or ConfigMap had, the oldest first; none where it is not known, or does not matter.

The flag tells that the containers have it in a volume only, which the kubelet keeps current.
"""


def running_findings(
    workload: Manifest,
    pods: Iterable[Manifest],
    contents_of: ContentsOf,
    rules: Sequence[IgnoreRule] = (),
    executions_of: ExecutionsOf = lambda pod: (),
) -> tuple[RunningFinding, ...]:
    """
    Return what the Pods of a workload run otherwise than declared, without what an ignore rule for Pods covers.

    Pods that ended or are being deleted do not count. Configuration is compared once the workload is rolled out: until
    then its old Pods are replaced anyway.
    """
    current = sorted((pod for pod in pods if is_current(pod)), key=lambda pod: str(metadata_of(pod).get("name")))
    findings = [*_images(workload, current), *_ephemeral(current), *_executed(current, executions_of)]
    if ref_of(workload).of in RESTARTABLE and is_rolled_out(workload):
        findings += _stale(current, contents_of)
    return tuple(item for item in findings if not _is_ignored(item, rules))


def references_of(pod_spec: Any) -> tuple[ObjectRef, ...]:
    """
    Return the Secrets and ConfigMaps whose content the containers of a Pod read, without a namespace, sorted.

    Those for pulling images are not among them, and neither are those whose name has a hash of their content.
    """
    return _references({*_variables(pod_spec), *_volumes(pod_spec)})


def mounted_of(pod_spec: Any) -> frozenset[ObjectRef]:
    """
    Return those of the references that are in volumes only, whose files follow the object while a container runs.

    A variable does not, and neither does a file that is mounted by ``subPath``
    (https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod).
    """
    containers = _containers_of(pod_spec)
    mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
    fixed = {mount.get("name") for mount in mounts if mount.get("subPath") or mount.get("subPathExpr")}
    read_at_start = {*_variables(pod_spec), *_volumes(pod_spec, fixed.__contains__)}
    return frozenset(_references({*_volumes(pod_spec)} - read_at_start))


def _references(names: Iterable[tuple[str, str]]) -> tuple[ObjectRef, ...]:
    wanted = (pair for pair in names if pair[1] and not _HASHED_NAME.search(pair[1]))
    return tuple(ObjectRef("", kind, "", name) for kind, name in sorted(wanted))


def content_digest(manifest: Manifest) -> str:
    """Return the digest of what a Secret or ConfigMap holds; labels and annotations do not count."""
    return content_hash([manifest.get("data") or {}, manifest.get("binaryData") or {}])


def changed_at(manifest: Manifest) -> datetime | None:
    """
    Return when a Secret or ConfigMap may have got its content, the newest time at which a manager wrote some of it.

    It may have got it earlier: Kubernetes keeps one time for each manager, whichever field it wrote.
    """
    metadata = metadata_of(manifest)
    times = [
        str(entry.get("time"))
        for entry in metadata.get("managedFields") or ()
        if entry.get("time") and {"f:data", "f:binaryData"} & (entry.get("fieldsV1") or {}).keys()
    ]
    newest = max(times, default="") or str(metadata.get("creationTimestamp") or "")
    return datetime.fromisoformat(newest) if newest else None


def is_current(pod: Manifest) -> bool:
    """Whether a Pod has not ended and is not being deleted."""
    return not metadata_of(pod).get("deletionTimestamp") and at(pod, "status", "phase") not in _ENDED


def _images(workload: Manifest, pods: Sequence[Manifest]) -> Iterator[RunningFinding]:
    """Yield the containers that run another image than is declared, or than the newest Pod runs by the same tag."""
    declared = _declared_images(workload)
    newest = newest_digests(pods)
    for pod in pods:
        editor = _editor_of(pod, "f:image")
        for pointer, container, status in _containers(pod):
            name = str(container.get("name"))
            image = str(container.get("image"))
            running = _digest(str(status.get("imageID") or ""))
            wanted = _digest(declared.get(name, ""))
            message = ""
            if editor and name in declared and image != declared[name]:
                message = f"runs {image} in container {name}, set by {editor}; declared is {declared[name]}"
            elif wanted and running and running != wanted:
                message = f"runs {running} in container {name}; declared is {wanted}"
            elif not wanted and running and running != newest[image]:
                message = (
                    f"runs {image} in container {name} as {running}, a newer Pod as {newest[image]}: the tag moved"
                )
            if message:
                yield RunningFinding(RunningKind.IMAGE, ref_of(pod), uid_of(pod), message, pointer, _started(status))


def _declared_images(workload: Manifest) -> dict[str, str]:
    """Return the images of the containers of a workload by name; of a Pod that is declared nothing differs."""
    spec = at(workload, "spec", "template", "spec", default={})
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {str(item.get("name")): str(item.get("image")) for item in containers}


def newest_digests(pods: Sequence[Manifest]) -> dict[str, str]:
    """Return the digest that each image, as its Pod names it, has in the Pod that started last."""
    digests: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: str(at(pod, "status", "startTime", default=""))):
        for _, container, status in _containers(pod):
            if digest := _digest(str(status.get("imageID") or "")):
                digests[str(container.get("image"))] = digest
    return digests


def _digest(image: str) -> str:
    # An image that was loaded into the node has the digest of its configuration as id, which no registry knows.
    match = _DIGEST.search(image)
    return match[1] if match is not None else ""


def _containers(pod: Manifest) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the pointer to the status, the spec and the status of each container that has a status."""
    for specs, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        by_name = {item.get("name"): item for item in at(pod, "spec", specs, default=None) or ()}
        for index, status in enumerate(at(pod, "status", statuses, default=None) or ()):
            if status.get("name") in by_name:
                yield f"/status/{statuses}/{index}/imageID", by_name[status["name"]], status


def _ephemeral(pods: Iterable[Manifest]) -> Iterator[RunningFinding]:
    """Yield the Pods to which a user added containers; the API allows no other way back than another Pod."""
    for pod in pods:
        containers = at(pod, "spec", "ephemeralContainers", default=None) or ()
        if not containers:
            continue
        names = ", ".join(f"{item.get('name')} ({item.get('image')})" for item in containers)
        entry = _entry_of(pod, "ephemeralcontainers")
        by = f", added by {entry['manager']}" if entry.get("manager") else ""
        message = f"has the ephemeral container {names}{by}"
        since = str(entry.get("time") or "")
        yield RunningFinding(
            RunningKind.MODIFIED, ref_of(pod), uid_of(pod), message, "/spec/ephemeralContainers", since
        )


def _executed(pods: Iterable[Manifest], executions_of: ExecutionsOf) -> Iterator[RunningFinding]:
    """Yield the Pods in which a user ran something: what that changed in its containers, no object shows."""
    for pod in pods:
        ref = ref_of(pod)
        created = str(metadata_of(pod).get("creationTimestamp") or "")
        # the Pods of a StatefulSet have the names of those before them
        executions = [item for item in executions_of(ref) if created and item.time >= datetime.fromisoformat(created)]
        if not executions:
            continue
        persons = ", ".join(dict.fromkeys(item.person for item in executions))
        verbs = " and ".join(sorted({item.verb for item in executions}))
        message = f"was entered by {verbs} of {persons}"
        since = f"{executions[0].time:%Y-%m-%dT%H:%M:%SZ}"
        # no field of the Pod: the name by which an ignore rule can cover it
        yield RunningFinding(RunningKind.MODIFIED, ref, uid_of(pod), message, "/exec", since)


def _stale(pods: Iterable[Manifest], contents_of: ContentsOf) -> Iterator[RunningFinding]:
    """Yield the Pods whose containers read another content of a Secret or ConfigMap than it has now."""
    for pod in pods:
        started = _read_at(pod)
        if started is None:
            continue  # no container runs: the next one reads what is there then
        namespace = str(metadata_of(pod).get("namespace") or "")
        mounted = mounted_of(pod.get("spec"))
        for reference in references_of(pod.get("spec")):
            source = reference._replace(namespace=namespace)
            versions = contents_of(source, reference in mounted)
            if not versions or _digest_at(versions, started) == versions[-1].digest:
                continue
            since = f"{versions[-1].since:%Y-%m-%dT%H:%M:%SZ}"
            message = f"started at {started:%Y-%m-%dT%H:%M:%SZ}, before {source} changed at {since}"
            yield RunningFinding(
                RunningKind.STALE, ref_of(pod), uid_of(pod), message, "/status/startTime", since, source
            )


def _digest_at(versions: Sequence[ContentVersion], time: datetime) -> str:
    """Return the content at a time, empty where it is not known any more."""
    return next((version.digest for version in reversed(versions) if version.since <= time), "")


def _read_at(pod: Manifest) -> datetime | None:
    """Return when the containers of a Pod read their configuration, None where none runs."""
    # Variables are read at each start of a container; what is mounted may be read then only.
    statuses = at(pod, "status", "containerStatuses", default=None) or ()
    times = [str(at(status, "state", "running", "startedAt", default="")) for status in statuses]
    starts = [datetime.fromisoformat(time) for time in times if time]
    # The clock of the node may be behind that of the API server; the restart of a workload ends the matter anyway.
    restarted = annotations_of(pod).get(RESTARTED_AT, "")
    if not starts:
        return None
    first = min(starts)
    try:
        return max(first, datetime.fromisoformat(restarted)) if restarted else first
    except ValueError:  # users may write anything into an annotation
        return first


def is_rolled_out(workload: Manifest) -> bool:
    """Whether the Pods of a workload are those of its template of now."""
    status = workload.get("status") or {}
    if status.get("observedGeneration", 0) < metadata_of(workload).get("generation", 0):
        return False
    if workload.get("kind") == "DaemonSet":
        return bool(status.get("updatedNumberScheduled", 0) == status.get("desiredNumberScheduled", 0))
    if workload.get("kind") == "StatefulSet":
        return bool(status.get("currentRevision") == status.get("updateRevision"))
    return bool(status.get("updatedReplicas", 0) == status.get("replicas", 0))


def _containers_of(spec: Any) -> Sequence[Mapping[str, Any]]:
    return (*(at(spec, "initContainers", default=None) or ()), *(at(spec, "containers", default=None) or ()))


def _variables(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each Secret and ConfigMap of which the containers of a Pod have variables."""
    for container in _containers_of(spec):
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            yield "Secret", str(at(source, "secretKeyRef", "name", default=""))
            yield "ConfigMap", str(at(source, "configMapKeyRef", "name", default=""))
        for source in container.get("envFrom") or ():
            yield "Secret", str(at(source, "secretRef", "name", default=""))
            yield "ConfigMap", str(at(source, "configMapRef", "name", default=""))


def _volumes(spec: Any, is_wanted: Callable[[str], bool] = lambda name: True) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each Secret and ConfigMap in those volumes of a Pod that are wanted, by their names."""
    for volume in at(spec, "volumes", default=None) or ():
        if not is_wanted(str(volume.get("name"))):
            continue
        yield "Secret", str(at(volume, "secret", "secretName", default=""))
        yield "ConfigMap", str(at(volume, "configMap", "name", default=""))
        for source in at(volume, "projected", "sources", default=None) or ():
            yield "Secret", str(at(source, "secret", "name", default=""))
            yield "ConfigMap", str(at(source, "configMap", "name", default=""))


def _editor_of(pod: Manifest, field: str) -> str:
    """Return the user who set the image of a container of a Pod, empty where none did."""
    # A webhook that rewrites images does so when the Pod is created, under the manager that creates it.
    for entry in metadata_of(pod).get("managedFields") or ():
        containers = at(entry, "fieldsV1", "f:spec", "f:containers", default={})
        if is_interactive(str(entry.get("manager"))) and any(field in item for item in containers.values()):
            return str(entry["manager"])
    return ""


def _entry_of(pod: Manifest, subresource: str) -> Mapping[str, Any]:
    """Return the newest entry of the field managers of a subresource, empty where there is none."""
    entries = [
        entry for entry in metadata_of(pod).get("managedFields") or () if entry.get("subresource") == subresource
    ]
    return max(entries, key=lambda entry: str(entry.get("time") or ""), default={})


def _started(status: Mapping[str, Any]) -> str:
    return str(at(status, "state", "running", "startedAt", default=""))


def _is_ignored(finding: RunningFinding, rules: Sequence[IgnoreRule]) -> bool:
    """Whether a rule for Pods covers where a finding is."""
    return any(
        applies_to(rule, finding.pod) and any(_is_inside(finding.pointer, pointer) for pointer in rule.json_pointers)
        for rule in rules
        # a rule for every kind is about declared fields
        if rule.kind == POD.kind
    )


def _is_inside(pointer: str, above: str) -> bool:
    return pointer == above or pointer.startswith(f"{above}/")
