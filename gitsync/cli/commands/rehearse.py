"""``gitsync rehearse``: a change is applied to a cluster that has the state before it, and then reverted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer

from gitsync.cli.applications import connect
from gitsync.cli.change import PreviewedChange, local_change
from gitsync.cli.options import ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cluster.kubernetes import KubernetesCluster, collection_path
from gitsync.errors import GitsyncError, InvalidInput, Rejected, one_line
from gitsync.kube.kinds import SERVICE
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.mask import is_secret
from gitsync.preview.compare import ChangedRoot, Sides, changed_roots
from gitsync.workers.helm import HelmProgram
from gitsync.workers.rehearsals import Surroundings, masked_secret, rehearse_all

_COLUMNS: Final = ("folder", "object", "step", "problem", "where")
_UNKNOWN: Final = "not known here: images, probes, nodes, load, and what webhooks and rights of your cluster refuse"


@command
def rehearse(
    cluster: ClusterTarget,
    change: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BASE..HEAD] [PATH]...",
            help="The commits to merge, by default the branch of the remote and HEAD; and the folders to cover.",
        ),
    ] = None,
    from_cluster: Annotated[
        bool,
        typer.Option(
            "--from-cluster",
            help="Begin with the objects, definitions, quotas and policies of the cluster; reads only.",
        ),
    ] = False,
    output: Output = Format.TABLE,
) -> Exit:
    """
    Apply a change and its revert to a sandbox cluster, and list what is refused. Exit code 2: something is refused,
    or a revert does not bring it back.
    """
    spans = [item for item in change or () if ".." in item.split("/")[-1] or "..." in item]
    if len(spans) > 1:
        raise InvalidInput("name one range of commits")
    paths = [item for item in change or () if item not in spans]
    previewed = local_change(spans[0] if spans else "", paths, None, staged=False)
    live = _LiveState(cluster) if from_cluster else None
    rehearsal = rehearse_all(_built(changes_of(previewed)), live.around if live else None)
    rows = [refusal.model_dump(mode="json") for refusal in rehearsal.refusals]
    if rows or output is not Format.TABLE:
        show(rows, _COLUMNS, output, key="object")
    else:
        say("nothing is refused, and a revert brings everything back", "green")
    if rehearsal.not_judged:
        say(f"not judged: {', '.join(rehearsal.not_judged)}", "yellow", is_warning=True)
    say(_UNKNOWN, is_warning=True)
    return Exit.INVALID if rows else Exit.OK


def changes_of(previewed: PreviewedChange) -> Iterator[ChangedRoot]:
    """Yield what a change does to each deployed folder that it reaches."""
    sides = Sides(previewed.base, previewed.result, previewed.merge.changed, HelmProgram())
    return changed_roots(sides, previewed.is_own, previewed.below)


def _built(changes: Iterable[ChangedRoot]) -> Iterator[ChangedRoot]:
    """Yield changes; raise InvalidInput for a folder that cannot be built: a preview would report it instead."""
    for changed in changes:
        if changed.problem:
            raise InvalidInput(changed.problem)
        yield changed


_CLUSTER_WIDE: Final = (
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    GroupKind("", "Namespace"),
    GroupKind("scheduling.k8s.io", "PriorityClass"),
    GroupKind("storage.k8s.io", "StorageClass"),
    GroupKind("networking.k8s.io", "IngressClass"),
    GroupKind("node.k8s.io", "RuntimeClass"),
    GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
)
_IN_NAMESPACES: Final = tuple(GroupKind("", kind) for kind in ("ServiceAccount", "ResourceQuota", "LimitRange"))
_OF_SERVER: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "ownerReferences"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"),
)
_ADDRESSES: Final = ("clusterIP", "clusterIPs", "healthCheckNodePort")
"""What an API server allocates for a Service; another server has other addresses."""


class _LiveState:
    """Read what an API server decides by, and the live objects of folders; nothing is written."""

    def __init__(self, target: ClusterTarget) -> None:
        self._client = connect(target.cluster)
        self._cluster = KubernetesCluster(self._client)
        self._unread: list[str] = []
        self._shared = tuple(item for of in _CLUSTER_WIDE for item in self._list(of))

    def around(self, changed: ChangedRoot) -> Surroundings:
        """Return the surroundings of a folder in the cluster."""
        refs = {**changed.old, **changed.new}
        namespaces = sorted({ref.namespace for ref in refs} - {""})
        local = (item for of in _IN_NAMESPACES for name in namespaces for item in self._list(of, name))
        objects = (*self._shared, *local)
        live = {ref: manifest for ref in refs if (manifest := self._live(ref, refs[ref])) is not None}
        return Surroundings(objects, live, unread=tuple(dict.fromkeys(self._unread)))

    def _list(self, of: GroupKind, namespace: str = "") -> list[Manifest]:
        resource = self._cluster.any_version(of)
        if resource is None:
            return []
        try:
            items = self._client.get(collection_path(resource, namespace))["items"]
        except Rejected as error:
            if error.code != 404:  # a namespace that the change creates has nothing yet
                self._unread.append(f"{of} of the cluster: {one_line(error.message, 200)}")
            return []
        # the items of a list name neither their version nor their kind
        return [_without_server({"apiVersion": resource.api_version, "kind": of.kind, **item}) for item in items]

    def _live(self, ref: ObjectRef, declared: Manifest) -> Manifest | None:
        version = str(declared["apiVersion"]).rpartition("/")[2]
        if self._cluster.resource(ref.group, version, ref.kind) is None:
            return None
        try:
            manifest = self._cluster.read(ref, version)
        except GitsyncError as error:
            self._unread.append(f"{ref} of the cluster: {one_line(error.message, 200)}")
            return declared
        return _without_server(manifest) if manifest is not None else None


def _without_server(manifest: Manifest) -> Manifest:
    """Return a live object as a user could apply it to another cluster; of a Secret without its values."""
    metadata = {key: value for key, value in metadata_of(manifest).items() if key not in _OF_SERVER}
    annotations = {key: value for key, value in annotations_of(manifest).items() if key != LAST_APPLIED}
    metadata |= {"annotations": annotations} if "annotations" in metadata else {}
    plain = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}
    ref = ref_of(plain)
    if is_secret(ref):
        return masked_secret(plain)
    if ref.of == SERVICE:
        spec = {key: value for key, value in plain["spec"].items() if key not in _ADDRESSES}
        return {**plain, "spec": spec}
    return plain
