"""``gitsync install``."""

from __future__ import annotations

import re
import sys
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


@command
def install(
    image: Annotated[
        str, typer.Option(help="The image of the controller, such as registry.example.com/gitsync:0.4.0.")
    ] = "",
    component: Annotated[
        list[ComponentName] | None,
        typer.Option(help="Add agents, webhook, ha, cluster-admin, read-secrets, podmonitor or monitoring."),
    ] = None,
    policies: Annotated[
        Path | None, typer.Option(help="A folder with Policy files, for the ConfigMap that the controller reads.")
    ] = None,
    crds: Annotated[bool, typer.Option("--crds", help="Print only the CustomResourceDefinitions.")] = False,
    tenant: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Print only what Applications of this namespace need.")
    ] = "",
) -> Exit:
    """Print the manifests that install the controller, for `kubectl apply -f -`."""
    # a kustomization over the shipped ones, so that `kubectl apply -k` and this command install the same bytes
    overlay: dict[str, Any] = {"resources": ["../gitsync"]}
    if crds:
        overlay["resources"] = ["../gitsync/crds"]
    elif tenant:
        overlay |= {"resources": ["../gitsync/tenant"], "namespace": tenant}
    else:
        overlay["components"] = [f"../gitsync/components/{name.value}" for name in component or ()]
        overlay["images"] = [{"name": _IMAGE, **_image(image)}] if image else []
        overlay["patches"] = [{"patch": write(_policies(policies))}] if policies is not None else []
    sys.stdout.write(write_all(rendered(overlay)))
    return Exit.OK


def rendered(overlay: dict[str, Any]) -> list[Manifest]:
    """Return the manifests of a kustomization beside the shipped folder ``gitsync``."""
    tree = _Overlay(FolderTree(shipped_folder("manifests")), write(overlay).encode())
    return list(build(tree, _OVERLAY).manifests)


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
