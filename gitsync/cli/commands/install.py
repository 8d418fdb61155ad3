"""``gitsync install`` and ``gitsync verify-install``."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.applications import connect
from gitsync.cli.findings import CheckState, Finding, missing, ok, warning
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, show
from gitsync.cluster.kubernetes import KubernetesCluster, version_of
from gitsync.errors import InvalidInput
from gitsync.files import shipped_folder
from gitsync.kube.kinds import POD
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.objects.tree import Entry
from gitsync.render.build import build
from gitsync.render.yaml.writer import write, write_all
from gitsync.services.policies import read_files
from gitsync.source.local import FolderTree

_CLUSTER_SCOPED = (
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
)
_IMAGE = "gitsync"
"""The name of the image in the Deployment."""
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_REPOSITORY = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._/-]+)?", re.ASCII)
"""A host with its port, and a path. Source: the grammar of distribution/reference."""
_OVERLAY = "install"
"""A folder that does not exist on disk: it has the kustomization of the options."""


class ComponentName(StrEnum):
    """An optional part of the installation, a folder of ``manifests/gitsync/components``."""

    CLUSTER_ADMIN = "cluster-admin"
    READ_SECRETS = "read-secrets"
    POD_MONITOR = "podmonitor"
    MONITORING = "monitoring"
    AGENTS = "agents"
    WEBHOOK = "webhook"
    HIGH_AVAILABILITY = "ha"
    NAMESPACED = "namespaced"


CLUSTER_WIDE = tuple(component for component in ComponentName if component is not ComponentName.NAMESPACED)
"""What an installation for the whole cluster may have."""
_OF_THE_CLUSTER = (
    ComponentName.CLUSTER_ADMIN,
    ComponentName.READ_SECRETS,
    ComponentName.AGENTS,
    ComponentName.WEBHOOK,
)
"""Components with cluster-scoped objects, which a namespaced installation has not; it has what Agents need anyway."""
_NAMESPACED = "../gitsync/components/namespaced"
_COLUMNS = ("result", "check", "detail", "fix")
_RBAC = "rbac.authorization.k8s.io"
_TENANT_ROLES = frozenset({"gitsync-tenant", "gitsync"})
"""Roles that a tenant's administrator binds to the controller in each namespace (``gitsync install --tenant``)."""
_FIX = "apply what `gitsync install` prints with the same options"


@command
def install(
    image: Annotated[
        str, typer.Option(help="The image of the controller, such as registry.example.com/gitsync:0.4.0.")
    ] = "",
    component: Annotated[
        list[ComponentName] | None,
        typer.Option(
            help="Add agents, webhook, ha, cluster-admin, read-secrets, podmonitor, monitoring or namespaced."
        ),
    ] = None,
    namespaces: Annotated[
        str,
        typer.Option(help="With the component namespaced: further namespaces of the controller, comma-separated."),
    ] = "",
    policies: Annotated[
        Path | None, typer.Option(help="A folder with Policy files, for the ConfigMap that the controller reads.")
    ] = None,
    crds: Annotated[bool, typer.Option("--crds", help="Print only the CustomResourceDefinitions.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Print only what Applications of this namespace need.")
    ] = "",
) -> Exit:
    """Print the manifests that install the controller, for `kubectl apply -f -`."""
    components = component or []
    tenants = [name.strip() for name in namespaces.split(",") if name.strip()]
    _check_components(components, tenants)
    is_namespaced = ComponentName.NAMESPACED in components
    if crds:
        manifests = rendered({"resources": ["../gitsync/crds"]})
    elif tenant:
        manifests = rendered(_tenant(tenant, is_namespaced=is_namespaced))
    else:
        patches = [_policies(policies)] if policies is not None else []
        patches += [_watching(tenants)] if tenants else []
        manifests = installation(image, components, patches)
        for name in tenants:
            manifests += rendered(_tenant(name, is_namespaced=True))
    sys.stdout.write(write_all(manifests))
    return Exit.OK


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
        if labels_of(pod).get("app.kubernetes.io/name") != _IMAGE:
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


def installation(image: str, components: Collection[ComponentName], patches: Iterable[Manifest] = ()) -> list[Manifest]:
    """
    Return the manifests of the controller with these components; raise InvalidInput for an image without a tag.

    They are those of a kustomization over the shipped ones, so that ``kubectl apply -k`` installs the same bytes.
    """
    # last: it deletes the cluster-scoped objects
    ordered = sorted(components, key=lambda name: name is ComponentName.NAMESPACED)
    return rendered(
        {
            "resources": ["../gitsync"],
            "components": [f"../gitsync/components/{name.value}" for name in ordered],
            "images": [{"name": _IMAGE, **_image(image)}] if image else [],
            "patches": [{"patch": write(patch)} for patch in patches],
        }
    )


def _check_components(components: list[ComponentName], tenants: list[str]) -> None:
    """Raise InvalidInput for components, or namespaces, that do not go with one another."""
    if ComponentName.NAMESPACED not in components:
        if tenants:
            raise InvalidInput(
                "a controller of all namespaces needs no list",
                location="--namespaces",
                hint="add --component namespaced, or use --tenant NAMESPACE",
            )
        return
    for component in components:
        if component in _OF_THE_CLUSTER:
            raise InvalidInput(
                f"{component.value} needs rights of the cluster, and namespaced has none",
                location="--component",
                hint=f"leave out {component.value} or namespaced",
            )


def _tenant(namespace: str, *, is_namespaced: bool) -> dict[str, Any]:
    """Return the kustomization of what Applications of a namespace need."""
    folder = f"{_NAMESPACED}/tenant" if is_namespaced else "../gitsync/tenant"
    return {"resources": [folder], "namespace": namespace}


def _watching(tenants: list[str]) -> Manifest:
    """Return the patch that names the namespaces of a controller: its own, and those of its tenants."""
    env = [{"name": "GITSYNC_NAMESPACES", "value": ",".join(["gitsync", *tenants])}]
    spec = {"template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gitsync"}, "spec": spec}


def rendered(overlay: dict[str, Any]) -> list[Manifest]:
    """Return the manifests of a kustomization beside the shipped folder ``gitsync``."""
    tree = _Overlay(FolderTree(shipped_folder("manifests")), write(overlay).encode())
    return list(build(tree, _OVERLAY).manifests)


def without_wrong_namespace(manifest: Manifest) -> Manifest:
    """Return a manifest without the namespace that Kustomize gives cluster-scoped kinds which its schema lacks."""
    if manifest["kind"] not in _CLUSTER_SCOPED:
        return manifest
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    return {**manifest, "metadata": metadata}


def _policies(folder: Path) -> Manifest:
    """Return the ConfigMap of the Policy files in a folder; raise InvalidInput when one is not valid."""
    data = {name: text.decode() for name, text in read_files(folder).items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gitsync-policies"}, "data": data}


def _image(text: str) -> dict[str, str]:
    """Return name, tag and digest of an image as Kustomize sets them; raise InvalidInput without tag and digest."""
    rest, _, digest = text.partition("@")
    # a registry may have a port: the colon of a tag is in the last part only
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    if not name or not (tag or digest):
        raise InvalidInput(
            f"{text!r} does not name one version", location="--image", hint="add a tag or digest: REPOSITORY:TAG"
        )
    if (tag and not _TAG.fullmatch(tag)) or not _REPOSITORY.fullmatch(f"{head}{slash}{name}"):
        raise InvalidInput(
            f"{text!r} is not a name of an image",
            location="--image",
            hint="write it as REPOSITORY:TAG in small letters",
        )
    members = {"newName": f"{head}{slash}{name}", "newTag": tag, "digest": digest}
    return {key: value for key, value in members.items() if value}


class _Overlay:
    """A tree with one more folder, which holds one kustomization file."""

    def __init__(self, tree: FolderTree, kustomization: bytes) -> None:
        self._tree = tree
        self._files = {f"{_OVERLAY}/kustomization.yaml": kustomization}

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at a path, or None."""
        if path == _OVERLAY:
            return Entry.FOLDER
        return Entry.FILE if path in self._files else self._tree.entry(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return ("kustomization.yaml",) if path == _OVERLAY else self._tree.names(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return self._files[path] if path in self._files else self._tree.read(path)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return path if path in self._files else self._tree.blob_id(path)
