"""Edit the files of an untrusted repository in a render process: what is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gitsync.edit.adopt import AdoptedValue, Adoption, ClusterValue, adopt
from gitsync.edit.proof import EditRoot, EditTarget
from gitsync.objects.application import Application, FolderRender, SourceGroup, joined_file
from gitsync.objects.charts import Helm
from gitsync.objects.ref import ObjectRef
from gitsync.objects.tree import Subtree, Tree
from gitsync.objects.urls import is_artifact, repository_key
from gitsync.ports import Snapshot
from gitsync.preview.roots import Root, find_roots
from gitsync.source.validation import clean_path
from gitsync.workers import protocol


def of_values(values: Sequence[ClusterValue]) -> list[list[Any]]:
    """Return values of the cluster as JSON can hold them."""
    return [[kept.ref.path, kept.path, kept.value, kept.manager, kept.time] for kept in values]


def to_adoption(message: dict[str, Any], values: Sequence[ClusterValue]) -> Adoption:
    """Return the edits that ``adopted`` wrote about these values."""
    return Adoption(
        {protocol.text_as_bytes(name): content.encode("latin-1") for name, content in message["files"].items()},
        tuple(
            AdoptedValue(values[number], protocol.text_as_bytes(where), old) for number, where, old in message["values"]
        ),
        tuple((values[number], reason) for number, reason in message["refused"]),
        manifests=tuple(message["manifests"]),
    )


def of_edit(app: Application, snapshot: Snapshot, values: Sequence[ClusterValue]) -> dict[str, Any]:
    """Return an Application, its sources, and the values that fields shall have, as JSON can hold them."""
    renders = [
        (name, clean_path(path), renderer, protocol.of_chart(chart)) for name, path, renderer, chart in app.renders
    ]
    return {
        "values": of_values(values),
        "application": app.key,
        "namespace": app.destination.namespace,
        "renders": renders,
        "sources": [[part.source.name, part.source.repo_url, part.source.revision] for part in snapshot.parts],
    }


def adopted(tree: Tree, request: dict[str, Any], helm: Helm | None) -> dict[str, Any]:
    """Return the edits by which an Application renders to the values of a request, as JSON can hold them."""
    values = [ClusterValue(ObjectRef.from_path(ref), *rest) for ref, *rest in request["values"]]
    renders = [
        FolderRender(name, path, renderer, protocol.to_chart(chart))
        for name, path, renderer, chart in request["renders"]
    ]
    root = EditRoot(tuple(renders), is_application=True).in_tree(tree)
    sources = {name: _repository(url, revision) for name, url, revision in request["sources"]}
    others = partial(_others, tree, root, request["application"], sources)
    target = EditTarget(tree, root, others, helm, sources, request["namespace"])
    adoption = adopt(target, values, request["namespace"])
    edited = target.after(adoption.files)
    return {
        # by what the edits lead to they are classified; the files alone do not tell
        "manifests": edited.build(edited.tree, root).manifests if adoption.values else (),
        "files": {protocol.bytes_as_text(name): content.decode("latin-1") for name, content in adoption.files.items()},
        "values": [[values.index(item.kept), protocol.bytes_as_text(item.where), item.old] for item in adoption.values],
        "refused": [[values.index(kept), reason] for kept, reason in adoption.refused],
    }


def _repository(url: str, revision: str) -> str:
    """Return a name of a repository at a revision, which takes edits once; empty for an artifact, which takes none."""
    return "" if is_artifact(url) else f"{repository_key(url)} {revision}"


def _others(tree: Tree, own: EditRoot, key: str, sources: Mapping[str, str]) -> tuple[EditRoot, ...]:
    """Return what is deployed from the files of the sources: an edit may not change what other Applications render."""
    roots = {own: None}
    for folder in sources or ("",):
        files = Subtree(tree, folder) if folder else tree
        for root in find_roots(files, lambda _: True):
            app = root.application
            # one in a kustomization may get its namespace there
            if app is not None and key in (app.key, f"{key.partition('/')[0]}{app.key}"):
                continue
            renders = _in_folder(root, folder, sources)
            if renders:
                roots[EditRoot(renders, app is not None).in_tree(tree)] = None
    return tuple(roots)


def _in_folder(root: Root, folder: str, sources: Mapping[str, str]) -> tuple[FolderRender, ...]:
    """Return the folders of a root by their paths in a tree that joins sources; nothing where it lacks one of them."""
    app = root.application
    if app is None or not isinstance(app.source, SourceGroup):
        return tuple(_moved(render, folder) for render in root.renders)
    if not sources:
        return ()
    repositories = {name: place for place, name in sources.items() if name}
    known = {
        member.name: repositories.get(_repository(member.repo_url, member.revision), "")
        for member in app.source.members
    }
    if not all(known.values()):
        return ()
    return tuple(
        render._replace(
            path=render.path.replace(render.name, known[render.name], 1),
            chart=render.chart._replace(value_files=tuple(_renamed(file, known) for file in render.chart.value_files)),
        )
        for render in root.renders
    )


def _moved(render: FolderRender, folder: str) -> FolderRender:
    if not folder:
        return render
    files = tuple(joined_file(file, folder) for file in render.chart.value_files)
    return render._replace(path=f"{folder}/{render.path}".rstrip("/"), chart=render.chart._replace(value_files=files))


def _renamed(file: str, known: Mapping[str, str]) -> str:
    """Return a values file of one of several sources by the folder that the tree has for it."""
    name, _, inside = file.removeprefix("/").partition("/")
    return f"/{known[name]}/{inside}" if file.startswith("/") else file
