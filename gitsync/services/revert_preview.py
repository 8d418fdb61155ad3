"""What a revert would change in each Application that follows the branch, before anything is pushed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gitsync.errors import GitsyncError
from gitsync.merge.schema import Schema, builtin
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Risk
from gitsync.objects.manifest import Manifest, group_of
from gitsync.objects.record import Commit
from gitsync.plan.commit_effect import commit_effect, effect_risk
from gitsync.ports import Credentials, Source
from gitsync.sync.remote_bases import RemoteBases


@dataclass(frozen=True, slots=True)
class RevertEffect:
    """What a revert changes in one Application; ``problem`` is why that is not known, empty otherwise."""

    application: str
    steps: tuple[Change, ...] = ()
    problem: str = ""

    @property
    def risk(self) -> Risk:
        """The class of the riskiest step."""
        return effect_risk(self.steps)


class RevertPreview:
    """Render a branch as it is and as it would be after a revert, in the isolated render processes."""

    def __init__(
        self, source: Source, renderer: RemoteBases, credentials_of: Callable[[Application], Credentials]
    ) -> None:
        self._source = source
        self._renderer = renderer
        self._credentials_of = credentials_of

    def effects(
        self, app: Application, commits: Sequence[Commit], followers: Iterable[Application]
    ) -> tuple[RevertEffect, ...]:
        """
        Return the effect of a revert of these commits, newest first, on the Applications that follow the branch.

        Raise Refused when the commits cannot be reverted by themselves.
        """
        head, reverted = self._source.prepare_revert(
            app.source, self._credentials_of(app), [commit.id for commit in commits]
        )
        return tuple(self._effect(follower, head, reverted) for follower in followers)

    def _effect(self, app: Application, head: str, reverted: str) -> RevertEffect:
        try:
            before, after = (self._rendered(app, commit) for commit in (head, reverted))
        except GitsyncError as error:
            return RevertEffect(app.key, problem=str(error))
        return RevertEffect(app.key, commit_effect(before, after, _schema_of))

    def _rendered(self, app: Application, commit: str) -> tuple[Manifest, ...]:
        snapshot = self._source.snapshot(app.source, self._credentials_of(app), commit)
        return self._renderer.render(app, snapshot).manifests


def _schema_of(manifest: Manifest) -> Schema | None:
    api_version = str(manifest.get("apiVersion") or "")
    return builtin().for_kind(group_of(api_version), api_version.rpartition("/")[2], str(manifest.get("kind") or ""))
