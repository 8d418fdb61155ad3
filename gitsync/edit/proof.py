"""Proof: what an edit changes in everything that is rendered from a tree, found by rendering it before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.charts import Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Entry, Tree
from gitsync.render.build import Build, build
from gitsync.render.kustomize.kustomization import FILE_NAMES
from gitsync.render.provenance.paths import FieldPath, indexes, leaves_of


class EditedTree:
    """A tree in which some files have another content."""

    def __init__(self, tree: Tree, files: Mapping[str, bytes]) -> None:
        self._tree = tree
        self._files = files

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        return Entry.FILE if path in self._files else self._tree.entry(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return self._tree.names(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file or the target of a link."""
        return self._files[path] if path in self._files else self._tree.read(path)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return f"edited {hash(self._files[path])}" if path in self._files else self._tree.blob_id(path)


@dataclass(frozen=True, slots=True)
class EditTarget:
    """
    The folder of a tree that is edited, and what else is rendered from the tree.

    ``roots`` returns the paths of all deployed folders. ``helm`` renders the charts of kustomizations; without it they
    are refused, and so is always a folder that is a chart itself: an Application may render it with other values.
    """

    tree: Tree
    path: str
    roots: Callable[[], tuple[str, ...]]
    helm: Helm | None = None

    def after(self, files: Mapping[str, bytes]) -> EditTarget:
        """Return the target once some files have another content."""
        return replace(self, tree=EditedTree(self.tree, files))

    def build(self, tree: Tree, path: str, *, provenance: bool = False) -> Build:
        """Render a folder of the tree, or of an edited one; raise InvalidInput where that is not possible."""
        is_chart = path == self.path and not _has_kustomization(tree, path)
        return build(tree, path, provenance=provenance, helm=None if is_chart else self.helm)


def _has_kustomization(tree: Tree, path: str) -> bool:
    prefix = f"{path}/" if path else ""
    return any(tree.entry(prefix + name) is Entry.FILE for name in FILE_NAMES)


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field that has another value after an edit; None where it is absent on a side."""

    root: str
    object: str
    field: FieldPath
    old: Any
    new: Any


class Renders:
    """The builds of a tree's folders before any edit, each made once; that of the edited one with provenance."""

    def __init__(self, target: EditTarget) -> None:
        self._target = target
        self._builds: dict[str, Build | None] = {}

    def before(self, root: str) -> Build | None:
        """Return the build of a folder, or None where it cannot be built."""
        if root not in self._builds:
            self._builds[root] = self._built(root)
        return self._builds[root]

    def differences(self, root: str, edited: Tree) -> list[ChangedField]:
        """Return what a folder renders differently from an edited tree; raise InvalidInput where it no longer does."""
        first = self.before(root)
        if first is None:
            return []
        return list(_differences(root, first, self._target.build(edited, root)))

    def readers(self, file: str) -> list[str]:
        """Return the deployed folders whose builds read a file."""
        return [root for root in self._target.roots() if _reads(self.before(root), file)]

    def _built(self, root: str) -> Build | None:
        try:
            return self._target.build(self._target.tree, root, provenance=root == self._target.path)
        except InvalidInput:  # another folder may have been broken before; the edit cannot break it further
            return None


def _reads(made: Build | None, file: str) -> bool:
    return made is not None and any(
        file == path or (path.endswith("/") and file.startswith(path.removeprefix("/"))) for path in made.files_read
    )


def _differences(root: str, first: Build, second: Build) -> Iterator[ChangedField]:
    for name, old, new in _pairs(first.manifests, second.manifests):
        for path, old_value, new_value in _changed_leaves(old, new):
            yield ChangedField(root, name, path, old_value, new_value)


def _changed_leaves(old: Manifest, new: Manifest) -> list[tuple[FieldPath, Any, Any]]:
    """Return the fields that differ with both values; an item of a list whose key changed is the same item."""
    old_leaves = dict(leaves_of(old))
    new_leaves = dict(leaves_of(new))
    by_key = [
        (path, old_leaves.get(path), new_leaves.get(path))
        for path in dict.fromkeys((*old_leaves, *new_leaves))
        if not same(old_leaves.get(path, _ABSENT), new_leaves.get(path, _ABSENT))
    ]
    # A key is part of the path of all fields of its item, so by keys another key is another item.
    if [indexes(old, path) for path in old_leaves] != [indexes(new, path) for path in new_leaves]:
        return by_key
    by_index = [
        (path, value, new_value)
        for (path, value), new_value in zip(old_leaves.items(), new_leaves.values(), strict=True)
        if not same(value, new_value)
    ]
    return min(by_index, by_key, key=len)


def _pairs(first: Sequence[Manifest], second: Sequence[Manifest]) -> Iterator[tuple[str, Manifest, Manifest]]:
    """Yield the objects on both sides with their names; one whose name changed, as with a hash, keeps its partner."""
    old = {str(ref_of(manifest)): manifest for manifest in first}
    new = {str(ref_of(manifest)): manifest for manifest in second}
    renamed = [manifest for name, manifest in new.items() if name not in old]
    for name, manifest in old.items():
        # A generator's hash is part of the name, so a changed value renames the object.
        partner = new.get(name) or next((item for item in renamed if item["kind"] == manifest["kind"]), {})
        if name not in new and partner:
            renamed.remove(partner)
        yield name, manifest, partner
    for manifest in renamed:
        yield str(ref_of(manifest)), {}, manifest


_ABSENT: Final = object()


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal for an API server: true is not 1, and a text is not a number."""
    is_flag = isinstance(first, bool) or isinstance(second, bool)
    return bool(first == second) and (type(first) is type(second) or not is_flag)
