"""``gitsync upgrade`` and ``gitsync verify-install`` compare a cluster with this version of gitsync."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from gitsync import __version__
from gitsync.cli.applications import connect
from gitsync.cli.commands.install import IMAGE_NAME, ComponentName, installation, without_wrong_namespace
from gitsync.cli.findings import CheckState, Finding, missing, ok, rejected_applications, warning
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, show
from gitsync.cluster.kubernetes import KubernetesCluster, version_of
from gitsync.crds import (
    Standing,
    definitions,
    lost_fields,
    standing_of,
    unknown_fields,
    version_of_definition,
)
from gitsync.errors import InvalidInput, counted
from gitsync.kube.kinds import POD, defined_kind
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of

_COLUMNS = ("result", "check", "detail", "fix")
_NAMED = 5
"""Fields and objects that a line names."""
_APPLY = "gitsync install | kubectl apply --server-side --field-manager=gitsync --force-conflicts -f -"
_RBAC = "rbac.authorization.k8s.io"
_TENANT_ROLES = frozenset({"gitsync-tenant", "gitsync"})
"""Roles that a tenant's administrator binds to the controller in each namespace (``gitsync install --tenant``)."""
_FIX = "apply what `gitsync install` prints with the same options"


@command
def upgrade(
    place: ClusterTarget,
    check: Annotated[bool, typer.Option("--check", help="Report what would change, and change nothing.")] = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the controller.")] = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """Report whether a cluster can change to this version without losing a field. Exit code 1: it cannot."""
    if not check:
        raise InvalidInput("the manifests change the version", hint=f"check it with --check, then: {_APPLY}")
    client = connect(place.cluster)
    cluster = KubernetesCluster(client)
    deployment = cluster.read(ObjectRef("apps", "Deployment", namespace, "gitsync"), "v1")
    rejected = rejected_applications(cluster, has_own_rights=_has_own_rights(deployment))
    findings = [*_controller(deployment, namespace), *_definitions(cluster), *rejected]
    client.close()
    show([asdict(finding) for finding in findings], _COLUMNS, output, key="check")
    return Exit.DIFFERENT if any(finding.result is CheckState.MISSING for finding in findings) else Exit.OK


def _controller(deployment: Manifest | None, namespace: str) -> Iterator[Finding]:
    """Yield the image that runs, beside the version of this program."""
    if deployment is None:
        yield warning("controller", f"no Deployment {namespace}/gitsync", "name its namespace with -n")
        return
    containers = at(deployment, "spec", "template", "spec", "containers", default=[])
    images = ", ".join(str(container.get("image")) for container in containers)
    yield ok("controller", f"runs {images}; this is {__version__}")


def _has_own_rights(deployment: Manifest | None) -> bool:
    """Return whether Applications may write with the controller's own rights, by the variables of its container."""
    containers = at(deployment, "spec", "template", "spec", "containers", default=[]) or []
    variables = {entry["name"]: entry.get("value") for container in containers for entry in container.get("env") or ()}
    return variables.get("GITSYNC_CONTROLLER_RIGHTS") == "true"


def _definitions(cluster: KubernetesCluster) -> Iterator[Finding]:
    """Yield what becomes of each definition, and which values of stored objects the change would drop."""
    for definition in definitions():
        kind = defined_kind(definition)
        check = f"definition of {kind.kind}"
        live = cluster.read(ref_of(definition), "v1")
        if live is None:
            yield warning(check, "is not installed", _APPLY)
            continue
        installed = version_of_definition(live) or "before 0.5.0"
        match standing_of(live, definition):
            case Standing.CURRENT:
                yield ok(check, f"is of {installed}")
            case Standing.OLDER:
                yield from _losses(cluster, definition, f"{check} of {installed}")
            case Standing.NEWER:
                fields = ", ".join(lost_fields(live, definition)[:_NAMED])
                detail = f"is newer ({installed}) than this program ({__version__}){f': {fields}' if fields else ''}"
                yield missing(
                    check, detail, f"use gitsync {installed} or newer; an older controller leaves it in place"
                )


def _losses(cluster: KubernetesCluster, definition: Manifest, check: str) -> Iterator[Finding]:
    kind = defined_kind(definition)
    items = cluster.objects(kind, VERSION)
    losses = [
        f"{at(item, 'metadata', 'namespace')}/{at(item, 'metadata', 'name')} {field}"
        for item in items
        for field in unknown_fields(item, definition)
    ]
    if not losses:
        yield ok(check, f"becomes {__version__}; no stored {kind.kind} loses a field")
        return
    yield missing(
        check,
        f"would lose {counted(len(losses), 'field')}: {', '.join(losses[:_NAMED])}",
        "remove them, or use a newer version",
    )


@command
def verify_install(
    place: ClusterTarget,
    image: Annotated[
        str, typer.Option(help="The image of the release with its digest: REPOSITORY:TAG@sha256:DIGEST.")
    ] = "",
    component: Annotated[
        list[ComponentName] | None, typer.Option(help="A component that is installed; see `gitsync install`.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the controller.")] = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """Compare an installation with what this version installs: objects, rights and image. Exit code 1: it differs."""
    client = connect(place.cluster)
    cluster = KubernetesCluster(client)
    try:
        manifests = [_moved(item, namespace) for item in installation(image, component or [])]
        findings = [
            *(_compared(cluster, item) for item in manifests),
            *_further_rights(cluster, manifests, namespace),
            *_images(cluster, image, namespace),
        ]
    finally:
        client.close()
    show([asdict(finding) for finding in findings], _COLUMNS, output, key="check")
    return Exit.DIFFERENT if any(finding.result is CheckState.MISSING for finding in findings) else Exit.OK


def _moved(manifest: Manifest, namespace: str) -> Manifest:
    """Return a manifest of the installation as it is in another namespace than the shipped one."""
    manifest = without_wrong_namespace(manifest)
    metadata = manifest["metadata"]
    if "namespace" in metadata:
        metadata = {**metadata, "namespace": namespace}
    elif manifest["kind"] == "Namespace":
        metadata = {**metadata, "name": namespace}
    subjects = [
        {**subject, "namespace": namespace} if "namespace" in subject else subject
        for subject in manifest.get("subjects") or ()
    ]
    return {**manifest, "metadata": metadata, **({"subjects": subjects} if subjects else {})}


def _compared(cluster: KubernetesCluster, declared: Manifest) -> Finding:
    """Return whether a live object has all that is declared for it."""
    ref = ref_of(declared)
    check = str(ref)
    if cluster.resource(ref.group, version_of(declared), ref.kind) is None:
        return missing(check, f"the cluster does not serve {ref.kind}", _FIX)
    live = cluster.read(ref, version_of(declared))
    if live is None:
        return missing(check, "is not installed", _FIX)
    paths = list(_differences(declared, live))
    if paths:
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        return missing(check, f"differs in {', '.join(paths[:3])}{more}", _FIX)
    return ok(check, "is as shipped")


def _differences(declared: Any, live: Any, path: str = "") -> Iterator[str]:
    """Yield the paths whose declared value the live object lacks; lists are compared whole, objects by member."""
    if isinstance(declared, Mapping) and isinstance(live, Mapping):
        for name, value in declared.items():
            if name in live:
                yield from _differences(value, live[name], f"{path}.{name}")
            # an API server drops what is empty
            elif value not in ({}, [], None, ""):
                yield f"{path}.{name}"
    elif isinstance(declared, list) and isinstance(live, list) and len(declared) == len(live):
        for number, (item, other) in enumerate(zip(declared, live, strict=True)):
            yield from _differences(item, other, f"{path}[{number}]")
    elif declared != live:
        yield path


def _further_rights(cluster: KubernetesCluster, manifests: Iterable[Manifest], namespace: str) -> Iterator[Finding]:
    """Yield the bindings that give the controller's ServiceAccount other roles than those of the installation."""
    installed = {ref_of(item) for item in manifests}
    accounts = {item["metadata"]["name"] for item in manifests if item["kind"] == "ServiceAccount"}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in cluster.objects(GroupKind(_RBAC, kind), "v1"):
            # the items of a list have no kind of their own
            ref = ref_of({**binding, "apiVersion": f"{_RBAC}/v1", "kind": kind})
            held = [
                subject["name"]
                for subject in binding.get("subjects") or ()
                if subject.get("kind") == "ServiceAccount"
                and subject.get("namespace") == namespace
                and subject["name"] in accounts
            ]
            role = str(at(binding, "roleRef", "name"))
            is_of_tenant = kind == "RoleBinding" and role in _TENANT_ROLES
            if held and ref not in installed and not is_of_tenant:
                detail = f"gives {', '.join(held)} the {at(binding, 'roleRef', 'kind')} {role}, which is not shipped"
                yield missing(str(ref), detail, "delete it, or name the component that has it")


def _images(cluster: KubernetesCluster, image: str, namespace: str) -> Iterator[Finding]:
    """Yield whether the Pods of the controller run the image that is named by its digest."""
    digest = image.partition("@")[2]
    for pod in cluster.objects(POD, "v1", (namespace,)):
        if labels_of(pod).get("app.kubernetes.io/name") != IMAGE_NAME:
            continue
        for status in at(pod, "status", "containerStatuses", default=[]):
            runs = str(status.get("imageID", ""))
            check = f"image of Pod {at(pod, 'metadata', 'name')}"
            if not digest:
                yield warning(check, f"runs {runs}", "name the image of the release by --image REPOSITORY:TAG@DIGEST")
            elif not runs.endswith(digest):
                yield missing(check, f"runs {runs}, not {digest}", _FIX)
            else:
                yield ok(check, f"runs {digest}")
