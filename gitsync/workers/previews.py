"""Preview a merge in a render process: without credentials, and within its limits of time and memory."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gitsync.objects.application import Application, ChartInputs, ValuesRef, parse_application
from gitsync.objects.charts import Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.urls import matches_url
from gitsync.ports import MergeResult
from gitsync.ports.previews import JoinedChange, PreviewRequest
from gitsync.preview.compare import JoinedRoot, Sides, changed_roots, preview, rules_of
from gitsync.preview.report import report_of
from gitsync.preview.roots import Root
from gitsync.source.git import environment, run
from gitsync.source.history import blame
from gitsync.source.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, MeteredTree, SourceLimits
from gitsync.workers import protocol


def of_preview(request: PreviewRequest) -> dict[str, Any]:
    """Return a merge to preview as JSON can hold it."""
    return {
        **_of_merge(request.merge),
        "urls": list(request.urls),
        "applications": list(request.applications),
        "controller_rights": request.controller_rights,
        "policies": {name: content.decode("latin-1") for name, content in request.policies.items()},
        "joined": [
            [change.application, change.git_dir, change.merge and _of_merge(change.merge), change.problem]
            for change in request.joined
        ],
        "chart_inputs": {key: _of_inputs(inputs) for key, inputs in request.chart_inputs.items()},
    }


def _of_inputs(inputs: ChartInputs) -> list[Any]:
    values = [[ref.model_dump(), text] for ref, text in inputs.values]
    return [inputs.kube_version, list(inputs.api_versions), values]


def _to_inputs(message: list[Any]) -> ChartInputs:
    version, apis, values = message
    return ChartInputs(version, tuple(apis), tuple((ValuesRef.model_validate(ref), text) for ref, text in values))


def _of_merge(merge: MergeResult) -> dict[str, Any]:
    return {
        "commits": [merge.base, merge.head, merge.commit],
        "changed": [protocol.bytes_as_text(path) for path in sorted(merge.changed)],
    }


def _to_merge(message: dict[str, Any]) -> MergeResult:
    base, head, commit = message["commits"]
    return MergeResult(base, head, commit, frozenset(map(protocol.text_as_bytes, message["changed"])))


def to_preview(message: dict[str, Any]) -> PreviewRequest:
    """Return the merge to preview that ``of_preview`` wrote."""
    return PreviewRequest(
        _to_merge(message),
        tuple(message["urls"]),
        tuple(message["applications"]),
        {name: text.encode("latin-1") for name, text in message["policies"].items()},
        message["controller_rights"],
        tuple(
            JoinedChange(application, git_dir, _to_merge(merge) if merge else None, problem)
            for application, git_dir, merge, problem in message["joined"]
        ),
        {key: _to_inputs(inputs) for key, inputs in message["chart_inputs"].items()},
    )


def _printable(value: Any) -> Any:
    """Return a value of JSON in which bytes of paths that are not UTF-8 are escaped, since JSON holds none."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(member) for key, member in value.items()}
    return [_printable(member) for member in value] if isinstance(value, list) else value


class _MirrorGit:
    """A mirror as ``blame`` reads it."""

    def __init__(self, git_dir: str) -> None:
        self._git_dir = Path(git_dir)

    def git(self, *arguments: str, timeout: float) -> bytes:
        return run(self._git_dir, *arguments, env=environment(()), timeout=timeout)


def line_authors(git_dir: str, reader: ObjectReader, merge: str, places: Collection[str]) -> dict[str, Commit]:
    """Return the commits that wrote lines of a merge, by ``file:line``, as far as git tells within a second."""
    writers = blame(_MirrorGit(git_dir), merge, places)
    # a line of the merge itself is one that no commit has yet
    return {place: reader.commit(id).commit for place, id in writers.items() if id != merge}


class _OpenMerge:
    """A merge with its trees open until ``closing`` ends."""

    def __init__(
        self, message: dict[str, Any], git_dir: str, file_bytes: int, helm: Helm | None, closing: ExitStack
    ) -> None:
        self._limits = SourceLimits(file_bytes=file_bytes)
        self._helm = helm
        self._closing = closing
        self.request = to_preview(message)
        self.reader = self._opened(git_dir)
        self.sides = self._sides_of(git_dir, self.reader, self.request.merge)
        self.known = [Root(app.source.path, app) for app in map(self._application, self.request.applications)]
        self.joined = [
            JoinedRoot(
                Root("", self._with_inputs(parse_application(change.application))),
                self._sides_of(change.git_dir, self._opened(change.git_dir), change.merge) if change.merge else None,
                change.problem,
            )
            for change in self.request.joined
        ]

    def _application(self, manifest: Manifest) -> Application:
        app = self._with_inputs(parse_application(manifest))
        path = posixpath.normpath(app.source.path)
        return replace(app, source=app.source.model_copy(update={"path": "" if path == "." else path}))

    def _with_inputs(self, app: Application) -> Application:
        return replace(app, chart_inputs=self.request.chart_inputs.get(app.key, app.chart_inputs))

    def is_own(self, url: str) -> bool:
        """Whether a URL is that of the repository."""
        return any(matches_url(own, url) for own in self.request.urls)

    def _opened(self, git_dir: str) -> ObjectReader:
        reader = ObjectReader(git_dir)
        self._closing.callback(reader.close)
        return reader

    def _sides_of(self, git_dir: str, reader: ObjectReader, merge: MergeResult) -> Sides:
        trees = (GitTree(git_dir, commit, self._limits, reader) for commit in (merge.base, merge.commit))
        base, result = (MeteredTree(tree, self._limits.read_bytes) for tree in trees)
        return Sides(base, result, merge.changed, self._helm)


def previewed(request: dict[str, Any], helm: Helm | None = None) -> dict[str, Any]:
    """Return the report about a merge, without the line authors that git cannot tell within a second."""
    git_dir = request["git_dir"]
    with ExitStack() as closing:
        merge = _OpenMerge(request["merge"], git_dir, request["file_bytes"], helm, closing)
        asked = merge.request
        rules = rules_of(asked.policies, controller_rights=asked.controller_rights)
        comparison = preview(merge.sides, merge.is_own, rules, known=merge.known, joined=merge.joined)
        authors = partial(line_authors, git_dir, merge.reader, asked.merge.commit)
        report = report_of(comparison, asked.merge.base, asked.merge.head, authors)
    printed: dict[str, Any] = _printable(report.model_dump(mode="json"))
    return printed


def rehearsed(request: dict[str, Any], helm: Helm | None = None) -> dict[str, Any]:
    """Return what a sandbox refuses of a merge."""
    from gitsync.workers.rehearsals import rehearse_all  # late, with the sandbox: most previews have none

    with ExitStack() as closing:
        merge = _OpenMerge(request["rehearse"], request["git_dir"], request["file_bytes"], helm, closing)
        rehearsal = rehearse_all(changed_roots(merge.sides, merge.is_own, known=merge.known, joined=merge.joined))
    printed: dict[str, Any] = _printable(rehearsal.model_dump(mode="json"))
    return printed
