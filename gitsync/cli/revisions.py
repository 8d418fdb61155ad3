"""Commits as people name them on the command line."""

from __future__ import annotations

from gitsync.cli.evaluation import Evaluator
from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.record import Commit

_LOOK_BACK = 200
_SHORTEST = 7


def commit_of_sync(manifest: Manifest, text: str) -> str:
    """Return the commit of the sync with this number in the history, else the text as it is."""
    for entry in at(manifest, "status", "history", default=[]):
        if str(entry.get("id")) == text:
            return str(entry.get("revision", ""))
    return text


def find_commit(desk: Evaluator, app: Application, manifest: Manifest, text: str, followed: str) -> Commit:
    """
    Return the commit that a text names: the number of a sync, a commit id or its beginning, a branch or a tag.

    A beginning is looked for among the latest commits of ``followed``. Raise InvalidInput where nothing has the name.
    """
    wanted, credentials = commit_of_sync(manifest, text), desk.credentials(app)
    source = app.source.model_copy(update={"revision": followed})
    if len(wanted) >= _SHORTEST:
        head = desk.source.resolve(source, credentials)
        desk.source.snapshot(source, credentials, head)
        for commit in desk.source.commits(source, head, limit=_LOOK_BACK):
            if commit.id.startswith(wanted):
                return commit
    source = app.source.model_copy(update={"revision": wanted})
    try:
        found = desk.source.resolve(source, credentials)
        return desk.source.snapshot(source, credentials, found).commit
    except InvalidInput as error:
        raise InvalidInput(
            f"{text[:60]!r} names no commit",
            object=f"Application {app.key}",
            hint=f"give the number of a sync, a commit id (or {_SHORTEST} characters of it), a branch or a tag",
        ) from error
