"""The folders of a repository that are deployed, and the files that the build of each can read."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application, FolderRender, SourceGroup, parse_application
from gitsync.objects.charts import ChartOptions
from gitsync.objects.keys import GROUP
from gitsync.objects.tree import Entry, Tree
from gitsync.render.kustomize.charts import DEFAULT_HOME
from gitsync.render.kustomize.files import CHART_FILE
from gitsync.render.kustomize.kustomization import FILE_NAMES, read_documents
from gitsync.render.yaml.reader import read_all

_YAML = (".yaml", ".yml")
_MARK = f"{GROUP}/".encode()
"""What a file with an Application contains; other files are not parsed."""
_MAX_LINKS = 40
"""Symbolic links that one path may pass, as many as Linux follows (path_resolution(7))."""
_COMPONENT = "Component"
_MOST_ENTRIES = 200_000
"""Files and folders of a repository that are searched for Applications and kustomizations."""


@dataclass(frozen=True, slots=True)
class Root:
    """
    A folder that is deployed: the path of an Application, or a kustomization that no other one includes.

    The path of an Application with several sources is that of the tree that joins them.
    """

    path: str
    application: Application | None = None

    @property
    def renders(self) -> tuple[FolderRender, ...]:
        """The folder and how it is rendered; of an Application with several sources, those of all."""
        if self.application is None:
            return (FolderRender("", self.path, "Auto", ChartOptions()),)
        if not isinstance(self.application.source, SourceGroup):
            return (FolderRender("", self.path, self.application.source.renderer, self.application.chart),)
        return tuple(render._replace(path=_clean(render.path)) for render in self.application.renders)

    @property
    def key(self) -> str:
        """``namespace/name`` of the Application, empty where none is known."""
        return self.application.key if self.application else ""

    @property
    def places(self) -> str:
        """The paths of what is rendered."""
        return ", ".join(render.path or "." for render in self.renders)

    @property
    def name(self) -> str:
        """``namespace/name`` of the Application with its path, or the path alone."""
        return f"{self.application.key} ({self.places})" if self.application else self.places


def find_roots(tree: Tree, is_own: Callable[[str], bool], sources: BuildSources | None = None) -> tuple[Root, ...]:
    """
    Return the deployed folders of a tree, by path: those of its Applications, then kustomizations that none includes.

    ``is_own`` tells whether the URL in an Application is that of this repository; ``sources``, those of the tree, keep
    what is read of it. A file that cannot be parsed declares nothing here; the build that reads it reports why.
    """
    files = tuple(_files(tree))
    applications = tuple(_applications(tree, files, is_own))
    sources = sources or BuildSources(tree)
    folders = {posixpath.dirname(file) for file in files if posixpath.basename(file) in FILE_NAMES}
    included = {folder for parent in folders for folder in sources.direct(parent).folders if folder != parent}
    known = {root.path for root in applications}
    alone = folders - included - known
    # A Component is built only as a part of another kustomization.
    kustomizations = (Root(folder) for folder in alone if sources.direct(folder).kind != _COMPONENT)
    return tuple(sorted((*applications, *kustomizations), key=lambda root: (root.path, root.name)))


def _files(tree: Tree) -> Iterator[str]:
    """Yield the paths of all regular files; raise InvalidInput for a tree that is too large to search."""
    pending = [""]
    entries = 0
    while pending:
        folder = pending.pop()
        for name in tree.names(folder):
            path = f"{folder}/{name}" if folder else name
            entry = tree.entry(path)
            entries += 1
            if entries > _MOST_ENTRIES:  # equal folders are one object: few objects can be a tree of 10^11 files
                raise InvalidInput(f"the repository has more than {_MOST_ENTRIES} files and folders")
            # A tree may be a folder on disk; what is in its .git is in none of its commits.
            if entry is Entry.FOLDER and name != ".git":
                pending.append(path)
            elif entry is Entry.FILE:
                yield path


def _applications(tree: Tree, files: Iterable[str], is_own: Callable[[str], bool]) -> Iterator[Root]:
    for file in files:
        if not file.endswith(_YAML):
            continue
        try:
            content = tree.read(file)
            documents = read_all(content, file) if _MARK in content else []
        except InvalidInput:  # too large or not YAML: it declares no Application that a controller could read either
            continue
        for document in documents:
            app = _application(document)
            if app is not None and is_own(app.source.repo_url):
                yield Root(_clean(app.source.path), app)


def _application(document: Any) -> Application | None:
    if not isinstance(document, dict) or document.get("kind") != "Application":
        return None
    if not str(document.get("apiVersion")).startswith(f"{GROUP}/"):
        return None
    try:
        return parse_application(document)
    except InvalidInput:  # one that the controller rejects deploys nothing
        return None


@dataclass(frozen=True, slots=True)
class Sources:
    """What a kustomization names: files and absent paths, and the folders that it includes."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    kind: str = ""
    charts: frozenset[str] = frozenset()
    """The folders of its charts, everything below which counts."""


class BuildSources:
    """
    The files that builds of a tree can read, found without building.

    Every text of a kustomization that names a path counts, whatever its field: too many roots cost a build, one too few
    would hide a change.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._direct: dict[str, Sources] = {}

    def reads_any(self, root: Root, changed: Collection[str]) -> bool:
        """Whether the build of a root can read one of the changed paths."""
        return any(self._is_read_by(render, changed) for render in root.renders)

    def _is_read_by(self, render: FolderRender, changed: Collection[str]) -> bool:
        if not _has_kustomization(self._tree, render.path) or render.renderer in ("Plain", "Helm"):
            folders = (render.path, *self._chart_sources(render))
            return any(_is_below(path, folder) for path in changed for folder in folders)
        files: set[str] = set()
        pending = [render.path]
        visited: set[str] = set()
        while pending:
            folder = pending.pop()
            if folder in visited:
                continue
            visited.add(folder)
            sources = self.direct(folder)
            files |= sources.files
            pending.extend(sources.folders)
        # a new kustomization in an included folder counts too: it replaces how the folder is read
        homes = {home for folder in visited for home in self.direct(folder).charts}
        charts = (*homes, *self._linked(homes))
        return any(
            path in files or posixpath.dirname(path) in visited or any(_is_below(path, chart) for chart in charts)
            for path in changed
        )

    def _chart_sources(self, render: FolderRender) -> Iterator[str]:
        """Yield what a chart reads beside the files below its folder: values, and what links lead to."""
        if self._tree.entry(f"{render.path}/{CHART_FILE}".lstrip("/")) is not Entry.FILE:
            return
        for file in render.chart.value_files:
            yield from self._passed("", file if file.startswith("/") else f"{render.path}/{file}")
        yield from self._linked([render.path])

    def _linked(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield what links on the way to some paths, and in and below them, lead to."""
        pending = list(paths)
        visited: set[str] = set()
        while pending:
            path = pending.pop()
            if path in visited:
                continue
            visited.add(path)
            if self._tree.entry(path) is not Entry.FOLDER:
                passed = tuple(self._passed("", path))
                yield from passed
                pending.extend(step for step in passed if self._tree.entry(step) is Entry.FOLDER)
                continue
            inner = (f"{path}/{name}".lstrip("/") for name in self._tree.names(path))
            pending.extend(item for item in inner if self._tree.entry(item) in (Entry.FOLDER, Entry.LINK))

    def direct(self, folder: str) -> Sources:
        """Return what the kustomization of a folder names itself; nothing where it has none."""
        if folder not in self._direct:
            self._direct[folder] = self._read(folder)
        return self._direct[folder]

    def _read(self, folder: str) -> Sources:
        files: set[str] = set()
        folders: set[str] = set()
        charts: set[str] = set()
        kind = ""
        for name in FILE_NAMES:
            file = f"{folder}/{name}" if folder else name
            # Absent ones too: to add one of these files changes how the folder is read.
            files.add(file)
            if self._tree.entry(file) not in (Entry.FILE, Entry.LINK):
                continue
            try:
                # as the build reads it, which accepts a repeated key
                documents, _ = read_documents(file, self._tree.read(file))
            except InvalidInput:  # the build reports it; the folder itself is read
                continue
            kind = next((str(item.get("kind") or "") for item in documents if isinstance(item, dict)), "")
            for text in _texts(documents):
                self._add(folder, text, files, folders)
            charts.update(_clean(f"{folder}/{home}") for home in _chart_homes(documents))
        return Sources(frozenset(files), frozenset(folders), kind, frozenset(charts))

    def _add(self, folder: str, text: str, files: set[str], folders: set[str]) -> None:
        # `files: [key=path]` of generators names a path behind the sign
        for candidate in {text, text.partition("=")[2]}:
            # Neither an inline patch, nor another repository, nor a path that Kustomize would accept.
            if not candidate or "\n" in candidate or "://" in candidate or candidate.startswith("/"):
                continue
            for path in self._passed(folder, candidate):
                (folders if self._tree.entry(path) is Entry.FOLDER else files).add(path)

    def _passed(self, folder: str, candidate: str) -> Iterator[str]:
        """Yield the path that a text names, seen from a folder, and the links that lead there."""
        path = _clean(f"{folder}/{candidate}")
        for _ in range(_MAX_LINKS):
            if path.startswith("..") or path == folder:
                return
            yield path
            link = self._first_link(path)
            if not link:
                return
            yield link
            target = self._tree.read(link).decode(errors="replace")
            path = _clean(f"{posixpath.dirname(link)}/{target}{path[len(link) :]}")

    def _first_link(self, path: str) -> str:
        parts = path.split("/")
        prefixes = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
        return next((prefix for prefix in prefixes if self._tree.entry(prefix) is Entry.LINK), "")


def _has_kustomization(tree: Tree, folder: str) -> bool:
    return any(tree.entry(f"{folder}/{name}" if folder else name) for name in FILE_NAMES)


def _chart_homes(documents: Iterable[Any]) -> Iterator[str]:
    """Yield the folders of charts that kustomizations name; a chart more than is rendered costs a build."""
    for document in documents:
        if isinstance(document, dict) and document.get("helmCharts"):
            options = document.get("helmGlobals")
            home = options.get("chartHome") if isinstance(options, dict) else None
            yield str(home or DEFAULT_HOME)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a parsed document."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _clean(path: str) -> str:
    """Return a path without ``.`` and ``..``; the root is empty."""
    cleaned = posixpath.normpath(path.lstrip("/"))
    return "" if cleaned == "." else cleaned


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")
