"""
``gitsync uninstall``: remove gitsync from a cluster, and by default nothing that it manages.

It needs no controller: finalizers are removed here, and the garbage collector orphans what Agents run, because their
finalizer ``orphan`` tells it to. A controller that still runs sees the definitions go, and deletes nothing either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from gitsync.cli.applications import connect
from gitsync.cli.commands.install import CLUSTER_WIDE, rendered
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster, version_of
from gitsync.errors import ClusterUnavailable, Conflict, counted
from gitsync.kube.kinds import CRD
from gitsync.kube.kinds import NAMESPACE as NAMESPACE_KIND
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, APPLICATION_SET, VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.ports import ApiResource

_COLUMNS = ("action", "object", "why")
_MANAGER: Final = "gitsync-uninstall"
_KINDS: Final = (
    APPLICATION_SET,
    APPLICATION,
    GroupKind(AGENTS_GROUP, "MultiAgentSystem"),
    GroupKind(AGENTS_GROUP, "Agent"),
)
"""Our kinds, owners before what they own: an Application that its set still owns would be created again."""
_ORPHAN: Final = "orphan"
"""The finalizer by which the garbage collector removes owner references instead of dependents. Source: Kubernetes
documentation, "Garbage Collection", and ``shouldOrphanDependents`` of the API server: it counts for a deletion without
a policy, as that of a CustomResourceDefinition deletes its objects."""
_OURS: Final = ("gitsync.dev/", "agents.gitsync.dev/")
_WORKLOADS: Final = (
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
)
_TENANT: Final = "gitsync-tenant"
_DEPLOYER: Final = "gitsync-deployer"
_AGENTS: Final = "gitsync-agents"
_PERIOD = 0.5
"""Seconds between two reads of an object that is being deleted."""
_ROLES = "../gitsync/components/namespaced/role"
_TRIES = 5
"""Attempts to write an object that others write too."""


@command
def uninstall(
    place: ClusterTarget,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, the plan is only printed.")] = False,
    workloads: Annotated[
        bool, typer.Option("--keep-workloads/--delete-workloads", help="Keep what Applications and Agents manage.")
    ] = True,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the controller.")] = NAMESPACE,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for each part to be gone.")] = 120.0,
    output: Output = Format.TABLE,
) -> Exit:
    """Remove the controller, its definitions and its rights; workloads stay. Exit code 1: there is something to do."""
    client = connect(place.cluster)
    uninstaller = Uninstaller(client, namespace, timeout)
    steps = list(uninstaller.plan(keeps_workloads=workloads))
    if not steps:
        say("nothing of gitsync is in the cluster", "green")
        return Exit.OK
    if not yes:
        show([asdict(step) for step in steps], _COLUMNS, output, key="object")
        if output is Format.TABLE:
            say("nothing was changed; to do this: gitsync uninstall --yes", "yellow")
        return Exit.DIFFERENT
    uninstaller.run(say, keeps_workloads=workloads)
    client.close()
    return Exit.OK


class UninstallAction(StrEnum):
    """What happens to an object."""

    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class UninstallStep:
    """What happens to an object, and why."""

    action: UninstallAction
    object: str
    why: str


class Uninstaller:
    """
    Remove the installation in one namespace of a cluster, by the rights of its caller.

    Each part is read when it is its turn, so that a second run continues where the first one ended.
    """

    def __init__(self, client: Client, namespace: str, timeout: float) -> None:
        self._client = client
        self._cluster = KubernetesCluster(client)
        self._namespace = namespace
        self._timeout = timeout

    def plan(self, *, keeps_workloads: bool) -> Iterator[UninstallStep]:
        """Yield what stays and what goes, without changing anything."""
        workloads = UninstallAction.KEEP if keeps_workloads else UninstallAction.DELETE
        for of in _KINDS:
            for owner in self._owners(of):
                count = len(held_by(owner))
                if count:
                    yield UninstallStep(
                        workloads, f"{counted(count, 'object')} of {ref_of(owner)}", "managed by gitsync"
                    )
                yield UninstallStep(UninstallAction.DELETE, str(ref_of(owner)), "deleted with its definition")
        for manifest in self._installed():
            yield UninstallStep(UninstallAction.DELETE, str(ref_of(manifest)), "part of the installation")
        if self._read(self._namespace_ref(), "v1") is not None:
            others = self._others_in_namespace()
            why = f"has other workloads: {', '.join(others[:3])}" if others else "with history, audit and Secrets"
            yield UninstallStep(
                UninstallAction.KEEP if others else UninstallAction.DELETE, str(self._namespace_ref()), why
            )

    def run(self, report: Callable[[str], None], *, keeps_workloads: bool) -> None:
        """Remove everything; raise ClusterUnavailable where something is not gone in time."""
        if not keeps_workloads:
            self._delete_workloads(report)
        installed = list(self._installed())
        # first: while the webhook is gone but still configured, no object of ours can be written
        self._delete_all(
            (manifest for manifest in installed if manifest["kind"].endswith("WebhookConfiguration")), report
        )
        self._delete_managers({ref_of(manifest) for manifest in installed}, report)
        self._wait_for(lambda: self._delete_controller(report), "Pods of the controller")
        keeps_namespace = bool(self._others_in_namespace())  # read while the inventories still exist
        for of in _KINDS:
            for owner in self._owners(of):
                self._release(owner)
                report(f"released {ref_of(owner)}: {counted(len(held_by(owner)), 'object')} left in the cluster")
        definitions = [manifest for manifest in installed if ref_of(manifest).of == CRD]
        self._delete_all(definitions, report)
        self._wait_for(lambda: [manifest for manifest in definitions if self._is_there(manifest)], "definitions")
        self._delete_all(self._installed(), report)
        namespace = self._read(self._namespace_ref(), "v1")
        if namespace is not None and not keeps_namespace:
            self._delete_all([namespace], report)
            self._wait_for(lambda: [manifest for manifest in [namespace] if self._is_there(manifest)], "the namespace")

    def _delete_workloads(self, report: Callable[[str], None]) -> None:
        """Delete Applications and Agents as a user does, and wait until the controller has deleted what they hold."""
        for of in _KINDS:
            self._delete_all(self._owners(of), report)
        remaining = "Applications and Agents whose workloads are deleted by the controller; is it running?"
        self._wait_for(lambda: [owner for of in _KINDS for owner in self._owners(of)], remaining)

    def _delete_managers(self, installed: Collection[ObjectRef], report: Callable[[str], None]) -> None:
        """Delete the Applications that apply the installation: their self-heal would create its Deployments again."""
        managers = [owner for owner in self._owners(APPLICATION) if not held_by(owner).isdisjoint(installed)]
        for manager in managers:
            self._release(manager)
        self._delete_all(managers, report)
        self._wait_for(lambda: [manager for manager in managers if self._is_there(manager)], "Applications of gitsync")

    def _delete_controller(self, report: Callable[[str], None]) -> list[Manifest]:
        """
        Delete the Deployments and the webhooks of the installation; return those that were there, and Pods.

        A controller that has not seen yet that its Application is gone creates them once more.
        """
        parts = [
            manifest
            for manifest in self._installed()
            if manifest["kind"] == "Deployment" or manifest["kind"].endswith("WebhookConfiguration")
        ]
        self._delete_all((part for part in parts if not metadata_of(part).get("deletionTimestamp")), report)
        return [*parts, *self._controller_pods()]

    def _release(self, owner: Manifest) -> None:
        """Remove our finalizers from an object, and have its dependents orphaned when it is deleted."""
        for _ in range(_TRIES):
            metadata = metadata_of(owner)
            finalizers = [name for name in metadata.get("finalizers") or () if not name.startswith(_OURS)]
            if not metadata.get("deletionTimestamp") and _ORPHAN not in finalizers:
                finalizers.append(_ORPHAN)  # the API server takes no new finalizer while an object is being deleted
            # written since it was read: the next attempt has the current object
            with suppress(Conflict):
                released = {**owner, "metadata": {**metadata, "finalizers": finalizers}}
                self._cluster.replace(released, manager=_MANAGER)
                return
            current = self._read(ref_of(owner), version_of(owner))
            if current is None:
                return
            owner = current
        raise ClusterUnavailable("is written by others all the time", object=str(ref_of(owner)), hint="run it again")

    def _installed(self) -> Iterator[Manifest]:
        """Yield the live objects of the installation with all its components, and the bindings of tenants."""
        components = [f"../gitsync/components/{component.value}" for component in CLUSTER_WIDE]
        # the component namespaced deletes cluster-scoped objects, which may be there; its Roles are added instead
        overlay: dict[str, Any] = {
            "resources": ["../gitsync", "../gitsync/bootstrap", _ROLES],
            "components": components,
            "namespace": self._namespace,
        }
        for manifest in rendered(overlay):
            ref = ref_of(manifest)
            if ref.of == NAMESPACE_KIND:
                # decided on at the end, by what else is in it
                continue
            live = self._read(ref, version_of(manifest))
            if live is not None:
                yield live
        yield from self._tenant_objects()

    def _tenant_objects(self) -> Iterator[Manifest]:
        """Yield what ``gitsync install --tenant`` has installed in other namespaces."""
        bindings = self._list("rbac.authorization.k8s.io", "v1", "RoleBinding")
        tenants = {
            str(metadata_of(binding)["namespace"])
            for binding in bindings
            if at(binding, "roleRef", "name") == _TENANT and metadata_of(binding)["namespace"] != self._namespace
        }
        names = {_TENANT, _DEPLOYER, _AGENTS}
        yield from (
            binding
            for binding in bindings
            # only in namespaces with a binding to our role: other objects may have these names
            if metadata_of(binding)["name"] in names and metadata_of(binding)["namespace"] in tenants
        )
        for tenant in sorted(tenants):
            account = self._read(ObjectRef("", "ServiceAccount", tenant, _DEPLOYER), "v1")
            # those of the component namespaced
            roles = [self._read(ref_of(role), "v1") for role in rendered({"resources": [_ROLES], "namespace": tenant})]
            yield from (live for live in (account, *roles) if live is not None)

    def _others_in_namespace(self) -> list[str]:
        """Return the workloads in the controller's namespace that are not the controller's own."""
        own = {ref_of(manifest) for manifest in self._installed()}
        held = [
            str(ref)
            for of in _KINDS
            for owner in self._owners(of)
            for ref in held_by(owner)
            if ref.namespace == self._namespace
        ]
        live = [
            str(ref_of(manifest))
            for kind in _WORKLOADS
            for manifest in self._list(*kind, namespace=self._namespace)
            # what has an owner is counted by it
            if ref_of(manifest) not in own and not metadata_of(manifest).get("ownerReferences")
        ]
        return sorted({*held, *live})

    def _controller_pods(self) -> list[Manifest]:
        pods = self._list("", "v1", "Pod", namespace=self._namespace)
        return [pod for pod in pods if at(pod, "metadata", "labels", "app.kubernetes.io/name") == "gitsync"]

    def _delete_all(self, manifests: Iterable[Manifest], report: Callable[[str], None]) -> None:
        for manifest in manifests:
            # by uid: an object that was created again since is not deleted
            self._cluster.delete(ref_of(manifest), version_of(manifest), uid=uid_of(manifest))
            report(f"deleted {ref_of(manifest)}")

    def _owners(self, of: GroupKind) -> list[Manifest]:
        return self._list(of.group, VERSION, of.kind)

    def _list(self, group: str, version: str, kind: str, namespace: str = "") -> list[Manifest]:
        """Return the objects of a kind, none where it is not served."""
        resource = self._cluster.resource(group, version, kind)
        if resource is None:
            return []
        items: list[Manifest] = self._client.get(_path(resource, namespace))["items"]
        api_version = f"{group}/{version}" if group else version  # which items of a list do not have
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def _read(self, ref: ObjectRef, version: str) -> Manifest | None:
        if self._cluster.resource(ref.group, version, ref.kind) is None:
            return None
        return self._cluster.read(ref, version)

    def _is_there(self, manifest: Manifest) -> bool:
        live = self._read(ref_of(manifest), version_of(manifest))
        return live is not None and uid_of(live) == uid_of(manifest)

    def _namespace_ref(self) -> ObjectRef:
        return ObjectRef(NAMESPACE_KIND.group, NAMESPACE_KIND.kind, "", self._namespace)

    def _wait_for(self, remaining: Callable[[], list[Manifest]], what: str) -> None:
        give_up = time.monotonic() + self._timeout
        while objects := remaining():
            if time.monotonic() > give_up:
                names = ", ".join(str(ref_of(manifest)) for manifest in objects[:5])
                raise ClusterUnavailable(
                    f"not gone after {self._timeout:g} s: {names}: {what}", hint="correct that, and run it again"
                )
            time.sleep(_PERIOD)
            # discovery is cached: it would still list a definition that is gone
            self._cluster.definitions_changed()


def held_by(owner: Manifest) -> frozenset[ObjectRef]:
    """Return what an Application has applied, or the children of an Agent or a system, as the status lists them."""
    status = owner.get("status") or {}
    if ref_of(owner).of == APPLICATION:
        return frozenset(Inventory.from_status(status))
    namespace = ref_of(owner).namespace
    return frozenset(
        ObjectRef(str(child.get("group", "")), str(child.get("kind", "")), namespace, str(child.get("name", "")))
        for child in status.get("children") or ()
    )


def _path(resource: ApiResource, namespace: str) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
