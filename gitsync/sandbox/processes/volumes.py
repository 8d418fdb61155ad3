"""Volumes of a Pod that runs: folders with the files of ConfigMaps and Secrets, and folders that keep data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gitsync.files import PRIVATE, write_file
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of, uid_of
from gitsync.sandbox.processes.api_access import ApiAccess, token_of

Get = Callable[[str, str, str, str], Manifest | None]
"""Reads an object: group, kind, namespace, name."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where Pods and claims have their files."""

    pods: Path
    claims: Path


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of a container and the folder or file of this machine that it means."""

    path: str
    place: Path


def write_volumes(pod: Manifest, folders: Folders, get: Get, api: ApiAccess) -> None:
    """Make the folders of a Pod's volumes, and write the files of ConfigMaps, Secrets, tokens and the Pod's fields."""
    for volume in pod["spec"].get("volumes") or ():
        folder = folder_of(pod, volume, folders)
        folder.mkdir(parents=True, exist_ok=True)
        if _is_projected(volume):
            _write(folder, dict(_files(pod, volume, get, api)))


def mounts_of(pod: Manifest, container: Manifest, folders: Folders) -> list[Mount]:
    """Return the mounts of a container, the longest path first."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    mounts = [
        Mount(
            declared["mountPath"].rstrip("/"),
            folder_of(pod, volumes[declared["name"]], folders) / declared.get("subPath", ""),
        )
        for declared in container.get("volumeMounts") or ()
    ]
    return sorted(mounts, key=lambda mount: -len(mount.path))


def translate(text: str, mounts: list[Mount]) -> str:
    """Return a value with the mount path that it begins with replaced by the place of this machine."""
    for mount in mounts:
        if text == mount.path or text.startswith(f"{mount.path}/"):
            return f"{mount.place}{text.removeprefix(mount.path)}"
    return text


def refers_to(pod: Manifest, kind: str, name: str) -> bool:
    """Return whether a volume of the Pod has files of this ConfigMap or Secret."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume, *(at(volume, "projected", "sources") or ())):
            projection = source.get("configMap" if kind == "ConfigMap" else "secret") or {}
            if name and name in (projection.get("name"), projection.get("secretName")):
                return True
    return False


def folder_of(pod: Manifest, volume: Manifest, folders: Folders) -> Path:
    """Return the folder that has the files of a volume."""
    claim = at(volume, "persistentVolumeClaim", "claimName")
    if claim:
        # Claims outlive their Pods, and in the data folder also the sandbox.
        return folders.claims / f"{pod['metadata']['namespace']}_{claim}"
    return folders.pods / uid_of(pod) / "volumes" / str(volume["name"])


def _is_projected(volume: Manifest) -> bool:
    return any(member in volume for member in ("configMap", "secret", "projected", "downwardAPI"))


def _files(pod: Manifest, volume: Manifest, get: Get, api: ApiAccess) -> Iterator[tuple[str, bytes]]:
    for source in (volume, *(at(volume, "projected", "sources") or ())):
        for member, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if projection := source.get(member):
                source_object = get(
                    "", kind, pod["metadata"]["namespace"], projection.get("secretName") or projection.get("name") or ""
                )
                yield from _selected(_contents(source_object), projection.get("items"))
        if asked := token_of(source):
            yield asked.path, api.token(pod, asked).encode()
        for item in at(source, "downwardAPI", "items") or ():
            yield item["path"], _own_field(pod, at(item, "fieldRef", "fieldPath", default="")).encode()


def _contents(source: Manifest | None) -> dict[str, bytes]:
    """Return the members of a ConfigMap or Secret as bytes."""
    if source is None:
        return {}
    data = source.get("data") or {}
    if source["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary = {key: base64.b64decode(value) for key, value in (source.get("binaryData") or {}).items()}
    return {key: value.encode() for key, value in data.items()} | binary


def _selected(contents: dict[str, bytes], items: list[Manifest] | None) -> Iterator[tuple[str, bytes]]:
    if items is None:
        yield from contents.items()
        return
    for item in items:
        if item["key"] in contents:
            yield item["path"], contents[item["key"]]


def _own_field(pod: Manifest, path: str) -> str:
    if path in ("metadata.labels", "metadata.annotations"):
        members = labels_of(pod) if path == "metadata.labels" else annotations_of(pod)
        return "".join(f'{key}="{value}"\n' for key, value in sorted(members.items()))
    return str(at(pod, *path.split("."), default=""))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files that differ, each replaced at once, and delete others."""
    for name, content in files.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == content:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content, PRIVATE)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
