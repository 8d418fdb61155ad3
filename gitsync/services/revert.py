"""Revert commits in Git; the controller then applies the revert as any commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitsync.errors import InvalidInput, Refused
from gitsync.objects.application import Application
from gitsync.objects.record import Commit
from gitsync.objects.signers import Trust
from gitsync.ports import Cluster, LiveCache, RevertResult, Source
from gitsync.services.commits import SHORTEST_ID, latest_commits, position_of
from gitsync.sync.credentials import credentials_of

_HEADS = "refs/heads/"


class RevertService:
    """
    Determine the commits that a rollback reverts, and push their revert.

    ``signers_of`` returns the signers that the policies of an Application require.
    """

    def __init__(
        self, source: Source, cluster: Cluster, live: LiveCache, signers_of: Callable[[Application], Trust]
    ) -> None:
        self._source = source
        self._cluster = cluster
        self._live = live
        self._signers_of = signers_of

    def commits(self, app: Application, after: str = "") -> Sequence[Commit]:
        """
        Return the commits to revert, newest first: all after a commit, or only the newest one.

        ``after`` is a full id or a prefix of at least 7 characters. Raise InvalidInput when it is not among the latest
        commits of the branch, or is the newest itself.
        """
        credentials = credentials_of(app, self._cluster, self._live)
        latest = latest_commits(self._source, app.source, credentials)
        if not after:
            return latest[:1]
        position = position_of(latest, after)
        if position is None:
            raise InvalidInput(
                f"{after[:60]!r} is not among the last {len(latest)} commits of {app.source.revision}",
                hint=f"give at least {SHORTEST_ID} characters of a commit id, or the number of a sync in the history",
            )
        if position == 0:
            raise InvalidInput(f"{after[:12]} is the newest commit, so there is nothing to revert")
        return latest[:position]

    def one_commit(self, app: Application, prefix: str) -> Sequence[Commit]:
        """Return the commit among the latest ones of the branch, to revert it alone; raise InvalidInput otherwise."""
        latest = latest_commits(self._source, app.source, credentials_of(app, self._cluster, self._live))
        position = position_of(latest, prefix)
        if position is None:
            raise InvalidInput(
                f"{prefix[:60]!r} is not among the last {len(latest)} commits of {app.source.revision}",
                hint=f"give at least {SHORTEST_ID} characters of a commit id",
            )
        return latest[position : position + 1]

    def push(self, app: Application, commits: Sequence[Commit], *, author: str, branch: str = "") -> RevertResult:
        """
        Push one commit that reverts these, to the tracked branch or to another one for review.

        Raise Refused when the controller would reject the unsigned revert commit on the tracked branch.
        """
        self._reject_unsigned(app, branch)
        credentials = credentials_of(app, self._cluster, self._live)
        return self._source.revert(
            app.source, credentials, [commit.id for commit in commits], author=author, branch=branch
        )

    def _reject_unsigned(self, app: Application, branch: str) -> None:
        tracked = app.source.revision.removeprefix(_HEADS)
        by_source, by_policy = app.source.verify.mode == "SignedCommits", bool(self._signers_of(app))
        if (by_source or by_policy) and branch.removeprefix(_HEADS) in ("", tracked):
            raise Refused(
                f"the revert commit is not signed, and {app.key} accepts signed commits only: the bad commit would "
                f"stay applied, so nothing was pushed to {tracked}",
                location="spec.source.verify" if by_source else "require.signers of its policy",
                hint="push it to another branch (--branch NAME), and merge it with a signed commit",
            )
