"""Loader: what one kustomization folder may load, and how its files become resources."""

from __future__ import annotations

import re
from typing import Final

from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.objects.manifest import Manifest
from gitsync.objects.tree import Entry
from gitsync.render.kustomize.files import Files, is_below, join
from gitsync.render.kustomize.kustomization import FILE_NAMES, Kustomization, read_kustomization
from gitsync.render.resources.internal_annotations import name_history
from gitsync.render.resources.objects import objects_in
from gitsync.render.resources.resource import Origin, Resource, ResourceVersion

_REMOTE: Final = r"(?i)[a-z0-9+.-]+://|[a-z0-9]+::|[^/]+@[^/]+:"
_MAYBE_REMOTE: Final = r"(?i)[a-z0-9-]+(\.[a-z0-9-]+)+[:/]|.*//|.*\?ref="


class Loader:
    """Load files and folders for one kustomization; ``chain`` lists the folders that led here."""

    def __init__(self, files: Files, folder: str, chain: tuple[str, ...] = (), *, is_restricted: bool = True) -> None:
        self.files = files
        self.folder = folder
        self.chain = (*chain, folder)
        self._is_restricted = is_restricted

    def kustomization(self) -> Kustomization | None:
        """Return the folder's kustomization, or None where it has none; reject two, and one that may not be read."""
        files = [(name, path) for name in FILE_NAMES if (path := self._kustomization_file(name))]
        if not files:
            return None
        if len(files) > 1:
            raise InvalidInput(
                f"the folder has {' and '.join(name for name, _ in files)}",
                location=self.folder or ".",
                hint="keep one of them",
            )
        name, path = files[0]
        file = join(self.folder, name)
        return self.files.parsed(
            path,
            f"kustomization {file}",
            lambda: read_kustomization(file, self.folder, self.files.read(path)),
        )

    def _kustomization_file(self, name: str) -> str:
        """
        Return the real path of a kustomization file, empty where the folder has none of that name.

        Reject one that exists and cannot be read: without it, the folder would be applied as plain manifests.
        """
        file = join(self.folder, name)
        path, entry = self.files.resolve(self.folder, name, file)
        is_folder = entry is Entry.FOLDER and path == file
        if is_folder or (entry is None and path == file):
            return ""
        if entry is not Entry.FILE:
            what = {None: "a symlink to a missing file", Entry.FOLDER: "a symlink to a folder"}.get(
                entry, "a submodule"
            )
            raise InvalidInput(f"the kustomization file is {what}", location=file, hint="replace it by a file")
        if self._is_restricted and not is_below(path, self.folder):
            raise InvalidInput(
                f"the kustomization file is a symlink that leaves its folder (to {path})",
                location=file,
                hint="copy the file into the folder, or build without load restrictions",
            )
        return path

    def entry(self, path: str, location: str) -> tuple[str, Entry]:
        """Return the real path and kind of an entry; refuse what is absent, remote or a submodule."""
        remote = self.files.remote(path)
        if remote is None and ":" in path and re.match(_REMOTE, path):
            raise _remote(path, location)
        start, inside = (self.folder, path) if remote is None else (remote, "")
        if remote is not None and _is_remote_file(path):
            start, _, inside = remote.rpartition("/")
        real, entry = self.files.resolve(start, inside, location)
        # Only what is not here may be remote: a folder can be called github.com.
        if entry is None and remote is None and re.match(_MAYBE_REMOTE, path):
            raise _remote(path, location)
        if entry is None:
            raise InvalidInput(
                f"{path} does not exist (its real path is {real})", location=location, hint="correct the path or add it"
            )
        if entry is Entry.SUBMODULE:
            raise InvalidInput(
                f"{path} is a Git submodule, and submodules are not read", location=location, hint="copy what is needed"
            )
        return real, entry

    def file(self, path: str, location: str) -> str:
        """Return the real path of a file that this kustomization may read."""
        return self.own(*self.entry(path, location), path, location)

    def own(self, real: str, entry: Entry, path: str, location: str) -> str:
        """Return a real path; reject a path that does not name a file, or one this kustomization may not read."""
        if entry is not Entry.FILE:
            raise InvalidInput(f"{path} is a folder, but a file is needed", location=location, hint="name a file in it")
        return self.inside(real, path, location)

    def inside(self, real: str, path: str, location: str) -> str:
        """Return a real path; reject one outside this folder, where loads are restricted to it."""
        if self._is_restricted and not is_below(real, self.folder) and not _is_remote_file(path):
            raise InvalidInput(
                f"{path}: the file {real} is not in or below the folder {self.folder or '.'}",
                location=location,
                hint="move the file, or make its folder a base with a kustomization of its own",
            )
        return real

    def read(self, path: str, location: str) -> bytes:
        """Return the bytes of a file that this kustomization may read."""
        return self.files.read(self.file(path, location))

    def enter(self, path: str, location: str) -> Loader:
        """Return the loader of another folder; refuse to enter one that is being built already."""
        real, entry = self.entry(path, location)
        if entry is not Entry.FOLDER:
            raise InvalidInput(f"{path} is a file, but a folder is needed", location=location)
        # Also a folder above one that is being built: it would contain itself.
        for visited in self.chain:
            if is_below(visited, real):
                chain = " -> ".join(folder or "." for folder in (*self.chain, real))
                raise InvalidInput(
                    f"cycle: {path} leads back to a folder that is being built ({chain})",
                    location=location,
                    hint="remove the reference",
                )
        return Loader(self.files, real, self.chain, is_restricted=self._is_restricted)

    def resources(self, path: str, *, generates_names: bool = False) -> list[Resource]:
        """Return the resources of the file at a real path, one for each object in it; see ``objects_in``."""
        # Without a cache a shared version would be copied for nothing.
        if not self.files.is_cached:
            objects = self._objects(path, generates_names=generates_names)
            made = [Resource(manifest, Origin(path, index)) for index, manifest in objects]
            for resource in made:
                resource.previous, resource.prefixes, resource.suffixes = name_history(resource.manifest, path)
            return made
        known = self.files.parsed(
            path,
            f"objects {path} {generates_names}",
            lambda: [
                (ResourceVersion(manifest, *name_history(manifest, path)), Origin(path, index))
                for index, manifest in self._objects(path, generates_names=generates_names)
            ],
        )
        return [Resource(version.manifest, origin, version) for version, origin in known]

    def _objects(self, path: str, *, generates_names: bool) -> list[tuple[int, Manifest]]:
        # names are generated for plain manifests only
        is_plain = generates_names
        return objects_in(self.files.read(path), path, generates_names=is_plain, is_kustomized=not is_plain)


def reject_chart(files: Files, folder: str, alternative: str = "") -> None:
    """Raise InvalidInput where a folder holds a Helm chart, whose templates are not manifests."""
    chart, entry = files.resolve(folder, "Chart.yaml")
    if entry is Entry.FILE:
        raise InvalidInput(
            f"the folder {folder or '.'} is a Helm chart, whose templates are not manifests",
            location=chart,
            hint="name it in helmCharts of a kustomization, or make it the path of an application with renderer: Helm"
            + alternative,
        )


def _remote(path: str, location: str) -> InvalidInput:
    error = RemoteNeeded(
        f"{path} is remote, and remote content is not allowed",
        location=location,
        hint="copy it into the repository, or allow its repository: --remote URL, or spec.allow.remotes of a policy",
    )
    error.reference = path
    return error


def _is_remote_file(path: str) -> bool:
    from gitsync.objects.remote import parse_remote_file  # late: few builds name other repositories

    return parse_remote_file(path) is not None
