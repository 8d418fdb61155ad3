"""Proof: what an edit changes in everything that is rendered from a tree, found by rendering it before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.application import FolderRender
from gitsync.objects.charts import ChartOptions, Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.objects.tree import Entry, MountedTree, Tree
from gitsync.render.build import Build, build, joined_build
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


class EditRoot(NamedTuple):
    """
    What is rendered from a tree together: the folders of an Application, or one folder of which none is known.

    A folder that is a chart itself is rendered only for an Application, which has its values.
    """

    renders: tuple[FolderRender, ...]
    is_application: bool = False

    @classmethod
    def folder(cls, path: str) -> EditRoot:
        """Return a folder that is rendered by itself."""
        return cls((FolderRender("", path, "Auto", ChartOptions()),))

    @property
    def places(self) -> str:
        """The paths of what is rendered."""
        return ", ".join(render.path or "." for render in self.renders)

    def in_tree(self, tree: Tree) -> EditRoot:
        """Return it without what a kustomization does not depend on, so that one folder is equal to itself."""
        if any(not _is_kustomization(tree, render) for render in self.renders):
            return self
        if len(self.renders) == 1:
            return EditRoot.folder(self.renders[0].path)
        return EditRoot(tuple(render._replace(renderer="Auto", chart=ChartOptions()) for render in self.renders))


def _is_kustomization(tree: Tree, render: FolderRender) -> bool:
    prefix = f"{render.path}/" if render.path else ""
    is_file = (tree.entry(prefix + name) is Entry.FILE for name in FILE_NAMES)
    return render.renderer in ("Auto", "Kustomize") and any(is_file)


@dataclass(frozen=True, slots=True)
class EditTarget:
    """
    What is edited of a tree, and what else is rendered from it.

    ``roots`` returns all that is deployed. ``helm`` renders charts; without it they are refused. Of a tree that joins
    several sources, ``repositories`` names the repository of each folder, empty for an artifact, which takes no edits;
    objects without a namespace are in ``namespace``.
    """

    tree: Tree
    root: EditRoot
    roots: Callable[[], tuple[EditRoot, ...]]
    helm: Helm | None = None
    repositories: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""

    def after(self, files: Mapping[str, bytes]) -> EditTarget:
        """Return the target once some files have another content."""
        return replace(self, tree=self.edited(files))

    def edited(self, files: Mapping[str, bytes]) -> Tree:
        """Return the tree with other contents of some files, in each folder that has the files of their repository."""
        contents = {copy: content for file, content in files.items() for copy in self._copies(file)}
        # a build finds what it names of other repositories only in a tree that has them
        if isinstance(self.tree, MountedTree):
            return self.tree.edited(lambda tree: EditedTree(tree, contents))
        return EditedTree(self.tree, contents)

    def _copies(self, file: str) -> Iterator[str]:
        yield file
        source, _, inside = file.partition("/")
        repository = self.repository_of(file)
        yield from (
            f"{other}/{inside}"
            for other, name in self.repositories.items()
            if other != source and name and name == repository
        )

    def repository_of(self, file: str) -> str:
        """Return the repository of a file, empty for the only one, and for a file of an artifact."""
        return self.repositories.get(file.partition("/")[0], "")

    def first_copy(self, file: str) -> str:
        """Return the path of a file in the first folder that has the files of its repository."""
        repository = self.repository_of(file)
        first = next((source for source, name in self.repositories.items() if name == repository), "")
        return f"{first}/{file.partition('/')[2]}" if repository else file

    def is_editable(self, file: str) -> bool:
        """Return whether a file is in a repository that takes edits."""
        if isinstance(self.tree, MountedTree) and self.tree.mount_of(file):
            return False
        return not self.repositories or bool(self.repository_of(file))

    def build(self, tree: Tree, root: EditRoot, *, provenance: bool = False) -> Build:
        """Render the tree, or an edited one; raise InvalidInput where that is not possible."""
        builds = [(render.name, self._build(tree, render, root, provenance)) for render in root.renders]
        if len(builds) == 1:
            return builds[0][1]
        return joined_build(builds, self.namespace, ChartOptions())

    def _build(self, tree: Tree, render: FolderRender, root: EditRoot, provenance: bool) -> Build:
        is_unknown = root == self.root and not root.is_application and not _is_kustomization(tree, render)
        return build(
            tree,
            render.path,
            renderer=render.renderer,
            provenance=provenance,
            chart=render.chart,
            helm=None if is_unknown else self.helm,
        )

    def render_of(self, position: int) -> FolderRender:
        """Return which folder of the root renders to the object at a position in its build."""
        remaining = position
        for render in self.root.renders[:-1]:
            count = len(self._build(self.tree, render, self.root, False).manifests)
            if remaining < count:
                return render
            remaining -= count
        return self.root.renders[-1]


@dataclass(frozen=True, slots=True)
class ChangedField:
    """
    A field that has another value after an edit; None where it is absent on a side. ``root`` has the paths of what is
    rendered.
    """

    root: str
    object: str
    field: FieldPath
    old: Any
    new: Any


class Renders:
    """The builds of a tree's folders before any edit, each made once; that of the edited one with provenance."""

    def __init__(self, target: EditTarget) -> None:
        self._target = target
        self._builds: dict[EditRoot, Build | None] = {}

    def before(self, root: EditRoot) -> Build | None:
        """Return the build of a root, or None where it cannot be built."""
        if root not in self._builds:
            self._builds[root] = self._built(root)
        return self._builds[root]

    def differences(self, root: EditRoot, edited: Tree) -> list[ChangedField]:
        """Return what a root renders differently from an edited tree; raise InvalidInput where it no longer does."""
        first = self.before(root)
        if first is None:
            return []
        return list(_differences(root.places, first, self._target.build(edited, root)))

    def readers(self, file: str) -> list[EditRoot]:
        """Return what is deployed and reads a file."""
        return [root for root in self._target.roots() if _reads(self.before(root), file)]

    def _built(self, root: EditRoot) -> Build | None:
        try:
            return self._target.build(self._target.tree, root, provenance=root == self._target.root)
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
