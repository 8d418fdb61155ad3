"""Preview a merge in a render process: without credentials, and within its limits of time and memory."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput, Refused, SourceDenied, SourceUnavailable
from gitsync.objects.application import Application, ChartInputs, ValuesRef, parse_application
from gitsync.objects.charts import Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.urls import matches_url
from gitsync.ports import MergeResult, Snapshot
from gitsync.ports.previews import JoinedChange, PreviewRequest
from gitsync.preview.compare import JoinedRoot, Remotes, Sides, changed_roots, preview, rules_of
from gitsync.preview.report import report_of
from gitsync.preview.roots import Root
from gitsync.source.git import environment, run
from gitsync.source.history import blame
from gitsync.source.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, MeteredTree, SourceLimits, open_remotes
from gitsync.workers import protocol

_MOST_REMOTES = 50
"""References to other repositories that one change may need, as many as one build."""


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
        "readers": list(request.fetchers),
        "remotes": {},
        "unreadable": [],
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


class FetchedRemotes:
    """What a preview has asked for of other repositories, in the message that asks for the preview again."""

    def __init__(self, snapshot: Snapshot, request: PreviewRequest) -> None:
        self.snapshot = snapshot
        self.message = of_preview(request)
        self._fetchers = request.fetchers
        self._count = 0

    def fetch(self, needed: Sequence[tuple[str, str, str]]) -> None:
        """
        Fetch what a preview needs: the key of the Application, the reference, and the place that names it.

        Raise SourceUnavailable where a server does not answer, and the preview is tried again later; InvalidInput
        where one commit names too much.
        """
        self._count += len(needed)
        if self._count > _MOST_REMOTES:
            raise InvalidInput(f"the change needs more than {_MOST_REMOTES} folders of other repositories")
        for key, reference, location in needed:
            try:
                base = self._fetchers[key](reference, location)
            except (Refused, InvalidInput, SourceUnavailable) as error:
                cause = error.__cause__
                # a version that does not exist is reported as unavailable too, with that as its cause
                if isinstance(error, SourceUnavailable) and not isinstance(cause, InvalidInput | SourceDenied):
                    raise
                is_fault = not isinstance(cause, SourceDenied)
                self.message["unreadable"].append([key, reference, str(error), is_fault])
                continue
            wire = [reference, base.mount, base.folder, base.git_dir, base.commit]
            self.message["remotes"].setdefault(key, []).append(wire)
            self.snapshot = replace(self.snapshot, remotes=(*self.snapshot.remotes, base))


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
        self.remotes = self._remotes(message)
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

    def _remotes(self, message: dict[str, Any]) -> Remotes:
        opened = {key: open_remotes(listed, self._limits) for key, listed in message["remotes"].items()}
        return Remotes(
            message["readers"],
            {key: trees for key, (trees, _) in opened.items()},
            {key: folders for key, (_, folders) in opened.items()},
            {(key, reference): (text, is_fault) for key, reference, text, is_fault in message["unreadable"]},
        )

    def needed(self) -> dict[str, Any]:
        """Return the answer that asks for what builds lack of other repositories, empty where they lack nothing."""
        needed = [[key, reference, place] for (key, reference), place in self.remotes.needed.items()]
        return {"needed": needed} if needed else {}

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
    """
    Return the answer with the report about a merge, without the line authors that git cannot tell within a second.

    Where builds lack files of other repositories that may be fetched, the answer is what is needed instead.
    """
    git_dir = request["git_dir"]
    with ExitStack() as closing:
        merge = _OpenMerge(request["merge"], git_dir, request["file_bytes"], helm, closing)
        asked = merge.request
        rules = rules_of(asked.policies, controller_rights=asked.controller_rights)
        comparison = preview(
            merge.sides, merge.is_own, rules, known=merge.known, joined=merge.joined, remotes=merge.remotes
        )
        if needed := merge.needed():
            return needed
        authors = partial(line_authors, git_dir, merge.reader, asked.merge.commit)
        report = report_of(comparison, asked.merge.base, asked.merge.head, authors)
    return {"report": _printable(report.model_dump(mode="json"))}


def rehearsed(request: dict[str, Any], helm: Helm | None = None) -> dict[str, Any]:
    """Return the answer with what a sandbox refuses of a merge, or with what is needed as ``previewed`` does."""
    from gitsync.workers.rehearsals import rehearse_all  # late, with the sandbox: most previews have none

    with ExitStack() as closing:
        merge = _OpenMerge(request["rehearse"], request["git_dir"], request["file_bytes"], helm, closing)
        changed = tuple(
            changed_roots(merge.sides, merge.is_own, known=merge.known, joined=merge.joined, remotes=merge.remotes)
        )
        if needed := merge.needed():
            return needed
        rehearsal = rehearse_all(changed)
    return {"rehearsal": _printable(rehearsal.model_dump(mode="json"))}
