"""What is worth a notification: a changed verdict, in the sentence of the dashboard. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gitsync.objects.manifest import at
from gitsync.objects.record import Outcome
from gitsync.ports import ApplicationView, StateEvent
from gitsync.server.queries.verdict import verdict_of
from gitsync.server.queries.words import words

KINDS: Final = {
    "Failed": "failed",
    "InvalidManifests": "failed",
    "FetchFailed": "failed",
    "Degraded": "degraded",
    "Missing": "degraded",
    "Drifted": "drifted",
    "AwaitingApproval": "approval",
    "Synced": "synced",
}
"""The kind of notification by the state of a verdict; other states are transitions and cause none."""


_DRIFT_STATES: Final = {"drift": "DriftDetected", "healed": "DriftHealed", "heal-failed": "HealFailed"}
"""The states of what happened to single objects, by the kind of the event."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One notification: ``kind`` is one of ``rules.Kind``, ``state`` the name in the API, ``text`` the sentence."""

    application: str
    kind: str
    state: str
    text: str
    commit: str = ""
    ref: str = ""
    """The path of the object that it is about, empty for the Application itself."""

    @property
    def title(self) -> str:
        """The headline."""
        return f"{self.application}: {words(self.state)}"


def notices_of(view: ApplicationView) -> tuple[Notice, ...]:
    """Return what could be notified of an application, worst first; nothing while it is in a transition."""
    commit = str(at(view.status, "revision", "applied", default=""))
    subject = str(at(view.status, "revision", "message", default="")).partition("\n")[0]
    worst = verdict_of(view)
    return tuple(
        Notice(
            view.key,
            KINDS[verdict.state],
            verdict.state,
            verdict.reason or (f"{commit[:7]} {subject}".strip() if verdict.state == "Synced" else ""),
            commit,
        )
        for verdict in (worst, *worst.also)
        if verdict.state in KINDS
    )


def happened(event: StateEvent) -> Notice | None:
    """Return the notice of an event: what others changed, what was restored, and the class of what was applied."""
    if event.kind in _DRIFT_STATES:
        return Notice(event.application, event.kind, _DRIFT_STATES[event.kind], event.message, ref=event.ref)
    outcome, risk = event.states if event.kind == "sync" and len(event.states) == 2 else ("", "")
    # a repair of drift is reported as healed already
    if outcome == Outcome.SUCCEEDED.value and not event.message.endswith("(drift)"):
        return Notice(event.application, risk.lower(), f"Applied{risk}", event.message)
    return None


def news(last: tuple[Notice, ...] | None, now: tuple[Notice, ...]) -> Iterator[Notice]:
    """Yield the notices of now that are not known from the last ones: a new state or, once synced, a new commit."""
    if last is None:
        return  # after a start: what was there before is not news
    known = {notice.state: notice for notice in last}
    for notice in now:
        # the reason of a failure may differ at each attempt: the same state is not news
        earlier = known.get(notice.state)
        if earlier is None or (notice.state == "Synced" and earlier.commit != notice.commit):
            yield notice
