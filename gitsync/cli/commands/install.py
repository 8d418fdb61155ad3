"""``gitsync install``."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.options import command
from gitsync.cli.output import Exit
from gitsync.errors import InvalidInput
from gitsync.files import shipped_folder
from gitsync.objects.manifest import Manifest
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
