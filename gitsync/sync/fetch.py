"""Fetch: which commit an application follows now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import random

from gitsync.errors import Refused, SourceUnavailable
from gitsync.objects.manifest import at
from gitsync.objects.record import Commit
from gitsync.ports import Clock, Cluster, Credentials, Live, Snapshot, Source
from gitsync.sync.cache import Memory
from gitsync.sync.credentials import credentials_of, secret_of, text_of
from gitsync.sync.reconcile import Stage, Turn

Verify = Callable[[Path, str, Mapping[str, str]], object]
"""Raise Refused unless a commit of a mirror is signed by one of the named keys."""

_NOW = float("-inf")
_RETRY = 30.0
_HINTS = 1.0
"""However often it is said that Git has changed, it is asked once in so many seconds."""


class Fetcher:
    """
    Ask the Git server when a poll is due or a person asks, and remember the answer until then.

    Other credentials are tried, and other trusted keys applied, at the next look.
    """

    def __init__(
        self,
        source: Source,
        verify: Verify,
        cluster: Cluster,
        live: Live,
        clock: Clock,
        *,
        random: Callable[[], float] = random,
    ) -> None:
        self._source = source
        self._verify = verify
        self._cluster = cluster
        self._live = live
        self._clock = clock
        self._random = random

    def fetch(self, turn: Turn, memory: Memory) -> Commit:
        """Return the commit that the application follows; the last good one while the Git server is away."""
        turn.stage = Stage.SOURCE
        source = turn.app.source
        self._source.check(source)
        if memory.source != source:
            memory.source, memory.fetched, memory.next_poll = source, None, _NOW
        now = self._clock.monotonic()
        if turn.app.requested_sync != memory.polled_for:
            memory.hinted, memory.polled_for = now, turn.app.requested_sync
        credentials = self._credentials(turn)
        if credentials != memory.credentials:
            memory.credentials, memory.next_poll = credentials, _NOW
        if self._is_due(turn, memory, now):
            self._poll(turn, memory, now)
        turn.source_error = memory.poll_error
        turn.wake_in(max(memory.next_poll - now, 0.05))
        trusted = self._trusted(turn) if source.verify == "SignedCommits" else None
        if memory.fetched is None or memory.fetched.id != memory.commit or memory.trusted != trusted:
            snapshot = self.snapshot(turn, memory, memory.commit)
            if trusted is not None:
                self._verify(Path(snapshot.git_dir), memory.commit, trusted)
            memory.fetched, memory.trusted = snapshot.commit, trusted
        if not turn.is_requested:
            self._refuse_rewind(turn, memory)
        turn.commit = turn.goal = memory.fetched
        return memory.fetched

    def snapshot(self, turn: Turn, memory: Memory, commit: str) -> Snapshot:
        """Return the files of a commit; the last one asked for is kept until it was rendered."""
        if memory.snapshot is None or memory.snapshot.commit.id != commit:
            memory.snapshot = self._source.snapshot(turn.app.source, self._credentials(turn), commit)
        return memory.snapshot

    def _refuse_rewind(self, turn: Turn, memory: Memory) -> None:
        """Refuse a branch that was rewritten: its new commit does not contain the applied one."""
        before, after = turn.applied_before, memory.commit
        if not before or before == after:
            return
        if memory.moved[:2] != (before, after):
            memory.moved = (before, after, self._source.is_forward(turn.app.source, before, after))
        if not memory.moved[2]:
            raise Refused(
                f"non-fast-forward: {turn.app.source.revision} was moved to {after[:12]}, which does not contain the "
                f"applied commit {before[:12]}; it is held, and {before[:12]} stays applied",
                where="spec.source.revision",
                cure="ask for a sync to take it",
            )

    def _is_due(self, turn: Turn, memory: Memory, now: float) -> bool:
        """Whether to ask now; a push event shortly after the last question waits, a person does not."""
        if now >= memory.next_poll:
            return True
        if memory.hinted is None or turn.is_requested:
            return memory.hinted is not None
        rest = memory.polled + _HINTS - now
        if rest > 0:
            turn.wake_in(rest)
        return rest <= 0

    def _poll(self, turn: Turn, memory: Memory, now: float) -> None:
        interval = turn.app.sync.interval
        # applications of one repository share a poll: what another one heard lately, or since the hint, is as good
        age = interval / 2 if memory.hinted is None else max(now - memory.hinted, 0.0)
        memory.hinted, memory.polled = None, now
        try:
            memory.commit = self._source.resolve(turn.app.source, self._credentials(turn), max_age=age)
            memory.poll_error = None
            memory.next_poll = now + interval * (0.9 + 0.1 * self._random())
        except SourceUnavailable as error:
            memory.commit = memory.commit or str(at(turn.manifest, "status", "revision", "fetched", default=""))
            if not memory.commit:
                raise
            memory.poll_error = error
            memory.next_poll = now + min(interval, _RETRY)

    def _credentials(self, turn: Turn) -> Credentials:
        return credentials_of(turn.app, self._cluster, self._live)

    def _trusted(self, turn: Turn) -> dict[str, str]:
        where = "spec.source.verify.secretRef.name"
        secret = secret_of(turn.app, turn.app.source.verify_keys, where, self._cluster, self._live)
        return {name: text_of(secret, name) for name in secret.get("data") or {}}
