"""Preview a merge in a render process: without credentials, and within its limits of time and memory."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gitsync.objects.application import Application, parse_application
from gitsync.objects.charts import Helm
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.urls import matches_url
from gitsync.ports import MergeResult
from gitsync.ports.previews import JoinedChange, PreviewRequest
from gitsync.preview.compare import JoinedRoot, Sides, preview, rules_of
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
    }


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


def previewed(request: dict[str, Any], helm: Helm | None = None) -> dict[str, Any]:
    """Return the report about a merge, without the line authors that git cannot tell within a second."""
    asked = to_preview(request["merge"])
    merged = asked.merge
    git_dir = request["git_dir"]
    limits = SourceLimits(file_bytes=request["file_bytes"])
    with contextlib.ExitStack() as stack:

        def sides_of(git_dir: str, reader: ObjectReader, merge: MergeResult) -> Sides:
            trees = (GitTree(git_dir, commit, limits, reader) for commit in (merge.base, merge.commit))
            base, result = (MeteredTree(tree, limits.read_bytes) for tree in trees)
            return Sides(base, result, merge.changed, helm)

        def opened(git_dir: str) -> ObjectReader:
            reader = ObjectReader(git_dir)
            stack.callback(reader.close)
            return reader

        reader = opened(git_dir)
        comparison = preview(
            sides_of(git_dir, reader, merged),
            lambda url: any(matches_url(own, url) for own in asked.urls),
            rules_of(asked.policies, controller_rights=asked.controller_rights),
            known=[Root(app.source.path, app) for app in map(_known_application, asked.applications)],
            joined=[
                JoinedRoot(
                    Root("", parse_application(change.application)),
                    sides_of(change.git_dir, opened(change.git_dir), change.merge) if change.merge else None,
                    change.problem,
                )
                for change in asked.joined
            ],
        )
        report = report_of(comparison, merged.base, merged.head, partial(line_authors, git_dir, reader, merged.commit))
    printed: dict[str, Any] = _printable(report.model_dump(mode="json"))
    return printed


def _known_application(manifest: Manifest) -> Application:
    app = parse_application(manifest)
    path = posixpath.normpath(app.source.path)
    return replace(app, source=app.source.model_copy(update={"path": "" if path == "." else path}))
