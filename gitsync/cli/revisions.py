"""Commits as the user names them on the command line."""

from __future__ import annotations

from gitsync.cli.comparison import Evaluator
from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.record import Commit
from gitsync.services.revert import SHORTEST_ID, latest_commits, position_of


def commit_of_sync(manifest: Manifest, text: str) -> str:
    """Return the commit of the sync with this number in the history, else the text itself."""
    for entry in at(manifest, "status", "history", default=[]):
        if str(entry.get("id")) == text:
            return str(entry.get("revision", ""))
    return text


def find_commit(evaluator: Evaluator, manifest: Manifest, text: str, followed: str) -> Commit:
    """
    Return the commit that a text names: the number of a sync, a commit id or its prefix, a branch or a tag.

    A prefix is searched among the latest commits of ``followed``. Raise InvalidInput when there is no such commit.
    """
    app = parse_application(manifest)
    wanted = commit_of_sync(manifest, text)
    source = evaluator.source
    credentials = evaluator.credentials(app)
    if len(wanted) >= SHORTEST_ID:  # shorter ones need no fetch
        commits = latest_commits(source, app.source.model_copy(update={"revision": followed}), credentials)
        position = position_of(commits, wanted)
        if position is not None:
            return commits[position]
    named = app.source.model_copy(update={"revision": wanted})
    try:
        return source.snapshot(named, credentials, source.resolve(named, credentials)).commit
    except InvalidInput as error:
        raise InvalidInput(
            f"{text[:60]!r} does not name a commit",
            object=f"Application {app.key}",
            hint=f"give the number of a sync, a commit id (or {SHORTEST_ID} characters of it), a branch or a tag",
        ) from error
