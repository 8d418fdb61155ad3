"""
In-memory implementations of the ports: a test of the engine takes milliseconds and names what the outside does.

They know nothing of defaults, admission or ownership; the sandbox does, for the tests that are about those.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gitsync.errors import AlreadyExists, Conflict, GitsyncError, Refused, Rejected
from gitsync.kube.kinds import CRD, SERVICE, defined_kind, is_established
from gitsync.merge.schema import Schemas
from gitsync.objects.change import Change
from gitsync.objects.keys import APPLICATION, VERSION
from gitsync.objects.manifest import Manifest, metadata_of, resource_version_of, uid_of
from gitsync.objects.record import AuditHead, AuditRecord, Outcome, SyncRecord
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator.kinds import AGENT, CHILD_KINDS, SYSTEM
from gitsync.ports import ApiResource, Capabilities, Scope

CONFIG_MAP = GroupKind("", "ConfigMap")
NAMESPACE = GroupKind("", "Namespace")
DEPLOYMENT = GroupKind("apps", "Deployment")
JOB = GroupKind("batch", "Job")
POD = GroupKind("", "Pod")
SECRET = GroupKind("", "Secret")
ENDPOINT_SLICE = GroupKind("discovery.k8s.io", "EndpointSlice")
_V1 = (CONFIG_MAP, ENDPOINT_SLICE, NAMESPACE, DEPLOYMENT, JOB, POD, SECRET, SERVICE, CRD)
_OF_OTHER_PROJECTS = (
    "gateway.networking.k8s.io",
    "keda.sh",
    "monitoring.coreos.com",
    "snapshot.storage.k8s.io",
)
_CHILDREN = {GroupKind(group, kind): version for group, version, kind in CHILD_KINDS if group not in _OF_OTHER_PROJECTS}
_VERSIONS = {**_CHILDREN, **dict.fromkeys(_V1, "v1"), APPLICATION: VERSION, AGENT: VERSION, SYSTEM: VERSION}
_CLUSTER_SCOPED = frozenset({NAMESPACE, CRD})
START = datetime(2026, 11, 20, 10, tzinfo=UTC)


class FakeClock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class FakePool(Executor):
    """Writes are answered at once, except those of ``slow`` objects: ``answer`` runs them."""

    def __init__(self) -> None:
        self.slow: set[str] = set()
        self._held: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        # dry runs use the pool too, and a reconcile waits for those
        if args and isinstance(args[0], Change) and args[0].ref.name in self.slow:
            self._held.append(run)
        else:
            run()
        return future

    def answer(self) -> None:
        """Answer every write that was held."""
        self.slow.clear()
        held, self._held = self._held, []
        for run in held:
            run()


class FakeCluster:
    """
    Objects by ref. Each write is in ``writes`` as verb and name, and fails with the next error of ``failures``.

    Deleting an object of ``finalized`` only marks it. A definition serves its kind once it is Established.
    """

    def __init__(self) -> None:
        self.objects: dict[ObjectRef, Manifest] = {}
        self.writes: list[tuple[str, str]] = []
        self.applied: list[Manifest] = []
        self.failures: defaultdict[str, list[GitsyncError]] = defaultdict(list)
        self.finalized: set[str] = set()
        self.dry_runs = 0
        self.capable = Capabilities()
        self.refused: set[str] = set()
        """Users who may read nothing."""
        self._numbers = Counter[str]()
        self._schemas = Schemas({})  # the identical one, as while no definition changes

    def resource(self, group: str, version: str, kind: str) -> ApiResource | None:
        resource = self.any_version(GroupKind(group, kind))
        return resource if resource is not None and resource.version == version else None

    def find(self, group: str, version: str, kind: str) -> ApiResource | None:
        return self.resource(group, version, kind)

    def any_version(self, of: GroupKind) -> ApiResource | None:
        version = _VERSIONS.get(of) or self._served(of)
        if not version:
            return None
        return ApiResource(of.group, version, of.kind, f"{of.kind.lower()}s", of not in _CLUSTER_SCOPED)

    def schemas(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        return self._schemas

    def definitions_changed(self) -> None: ...

    def capabilities(self) -> Capabilities:
        return self.capable

    def read(self, ref: ObjectRef, version: str, *, user: str = "") -> Manifest | None:
        if user in self.refused:
            raise Rejected(f"user {user} cannot get {ref}", object=str(ref), code=403)
        return self.objects.get(ref)

    def create(self, manifest: Manifest, *, manager: str, user: str = "") -> Manifest:
        ref = self._begin("create", manifest)
        if ref in self.objects:
            raise AlreadyExists(f"{ref} exists", object=str(ref))
        return self.put(manifest)

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        if dry_run:
            self.dry_runs += 1
            self._fail(f"dry-run {metadata_of(manifest)['name']}")
            return _merged(self.objects.get(ref_of(manifest), {}), manifest)
        self._begin("apply", manifest)
        self.applied.append(manifest)
        return self.put(_merged(self.objects.get(ref_of(manifest), {}), manifest))

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        ref = self._begin(f"replace {subresource}".strip(), manifest)
        if resource_version_of(self.objects[ref]) != resource_version_of(manifest):
            raise Conflict("the object has been modified", object=str(ref))
        return self.put(manifest)

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
        if dry_run:
            self.dry_runs += 1
            self._fail(f"dry-run {ref.name}")
            return None
        self._begin("delete", {"metadata": {"name": ref.name}})
        live = self.objects.get(ref)
        if live is None or uid_of(live) != uid:
            return None
        if ref.name in self.finalized:
            leaving = {**live, "metadata": {**metadata_of(live), "deletionTimestamp": "2026-11-20T10:00:00Z"}}
            return self.put(leaving)
        del self.objects[ref]
        return None

    def set_managed_fields(self, live: Manifest, managed_fields: Any, *, manager: str, user: str = "") -> Manifest:
        self._begin("transfer", live)
        return live

    def remove_fields(self, live: Manifest, pointers: Any, *, manager: str, user: str = "") -> Manifest:
        self._begin("remove", live)
        return live

    def release(self, released: Any, *, manager: str, user: str = "") -> Manifest:
        self._begin("release", released.live)
        metadata = {name: value for name, value in metadata_of(released.live).items() if name != "annotations"}
        return self.put({**released.live, "metadata": metadata})

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object as another client would."""
        ref = ref_of(manifest)
        self._numbers["version"] += 1
        uid = uid_of(self.objects.get(ref, {})) or uid_of(manifest)
        if not uid:
            self._numbers["uid"] += 1
            uid = f"uid-{self._numbers['uid']}"
        metadata = {**metadata_of(manifest), "uid": uid, "resourceVersion": str(self._numbers["version"])}
        self.objects[ref] = {**manifest, "metadata": metadata}
        return self.objects[ref]

    def _served(self, of: GroupKind) -> str:
        for ref, manifest in self.objects.items():
            if ref.of == CRD and defined_kind(manifest) == of and is_established(manifest):
                return str(manifest["spec"]["versions"][0]["name"])
        return ""

    def _begin(self, verb: str, manifest: Manifest) -> ObjectRef:
        name = str(metadata_of(manifest)["name"])
        self.writes.append((verb, name))
        self._fail(name)
        return ref_of(manifest) if "kind" in manifest else ObjectRef("", "", "", name)

    def _fail(self, name: str) -> None:
        if self.failures[name]:
            raise self.failures[name].pop(0)


class FakeLive:
    """
    The local copies of a cluster, which are never late; ``error`` is why nothing can be observed.

    With ``namespaces``, following another one is refused, as with GITSYNC_NAMESPACES.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.error: GitsyncError | None = None
        self.namespaces: frozenset[str] | None = None
        self.finished: dict[ObjectRef, Manifest] = {}

    def follow(self, scopes: Iterable[Scope], timeout: float, *, only: bool = False) -> None:
        if self.error is not None:
            raise self.error
        for resource, namespace in scopes:
            if self.namespaces is not None and namespace and namespace not in self.namespaces:
                raise Refused(f"{resource.kind} of {namespace} are not watched")

    def follow_available(
        self, scopes: Iterable[Scope], timeout: float, *, only: bool = False
    ) -> Mapping[ApiResource, Any]:
        self.follow(scopes, timeout)
        return {}

    def forget(self, of: GroupKind) -> None: ...

    def relist(self, of: GroupKind, delay: float) -> None: ...

    def get(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        return self._cluster.objects.get(ObjectRef(resource.group, resource.kind, namespace, name))

    def find(self, resource: ApiResource, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Manifest]:
        return {ref: self._cluster.objects[ref] for ref in refs if ref in self._cluster.objects}

    def all(self, resource: ApiResource) -> tuple[Manifest, ...]:
        of = GroupKind(resource.group, resource.kind)
        return tuple(manifest for ref, manifest in self._cluster.objects.items() if ref.of == of)

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        return tuple(item for item in self._cluster.objects.values() if uid in _owner_uids(item))

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        uids = _owner_uids(manifest)
        return (manifest, *(item for item in self._cluster.objects.values() if uid_of(item) in uids))

    def last_finished(self, ref: ObjectRef) -> Manifest | None:
        return self.finished.get(ref)

    def observe_write(self, resource: ApiResource, manifest: Manifest) -> None: ...

    def observe_delete(self, resource: ApiResource, manifest: Manifest) -> None: ...


class FakeReaderPorts:
    """The two ports that readers of live objects need."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.live = FakeLive(cluster)


@dataclass(slots=True)
class FakeRecords:
    """Audit and history in lists; ``error`` is raised instead of a link, ``reviewed`` is the review of any plan."""

    links: list[AuditRecord] = field(default_factory=list)
    syncs: list[SyncRecord] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    reviewed: Any = None
    error: GitsyncError | None = None
    record_error: GitsyncError | None = None
    save_error: GitsyncError | None = None
    failed: list[str] = field(default_factory=list)
    """Commits that an analysis found to be bad."""

    def audit(self, records: Iterable[AuditRecord]) -> None:
        if self.error is not None:
            raise self.error
        self.links += records

    def unresolved(self, application: str = "") -> tuple[AuditRecord, ...]:
        latest = {(link.application, link.sync, link.resource): link for link in self.links}
        wanted = (link for link in latest.values() if application in ("", link.application))
        return tuple(link for link in wanted if link.outcome is Outcome.INTENDED)

    def save(self, record: SyncRecord, *, keep: int = 0) -> SyncRecord:
        if self.save_error is not None:
            raise self.save_error
        known = [saved for saved in self.syncs if record.sync and saved.sync == record.sync]
        if known:
            return known[0]
        self.syncs.append(replace(record, id=len(self.syncs) + 1))
        return self.syncs[-1]

    def history(self, application: str = "", *, limit: int = 20, before: int = 0) -> tuple[SyncRecord, ...]:
        return tuple(reversed(self.syncs))[:limit]

    def record(self, id: int) -> SyncRecord | None:
        if self.record_error is not None:
            raise self.record_error
        return next((saved for saved in self.syncs if saved.id == id), None)

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Any:
        return self.reviewed

    def mark_failed(self, application: str, commit: str, message: str) -> None:
        self.failed.append(commit)

    def end_approval(self, application: str, digest: str) -> None:
        self.ended.append(digest)

    def head(self, application: str, kept: AuditHead | None = None) -> AuditHead | None:
        return kept

    def outcomes(self) -> Iterator[tuple[str, str]]:
        """Yield outcome and name of each link."""
        for link in self.links:
            yield link.outcome.value, link.resource.rpartition("/")[2]


def _owner_uids(manifest: Manifest) -> list[Any]:
    return [owner.get("uid") for owner in metadata_of(manifest).get("ownerReferences") or ()]


def _merged(live: Any, applied: Any) -> Any:
    """Return a live value with an applied one in it; lists are replaced."""
    if not isinstance(live, Mapping) or not isinstance(applied, Mapping):
        return applied
    return {**live, **{name: _merged(live.get(name), value) for name, value in applied.items()}}
