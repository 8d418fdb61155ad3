"""What is worth a notification: a changed verdict, in the sentence of the dashboard. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gitsync.objects.health import NEAR_BUDGET, OVER_BUDGET, STOPPED_BY_BUDGET
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
    "Unknown": "failed",
}
"""The kind of notification by the state of a verdict; other states are transitions and cause none."""


RECOVERED: Final = "Recovered"
"""The state of a notice that what was reported has ended; its kind is ``recovered``."""
DIGEST: Final = "Digest"
"""The state of a notice that has several messages in it."""
_NAMED = 20
"""Applications that a message about a common cause names."""
_TEXTS = 3
"""Different texts of a common cause that a message has."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POD = re.compile(r"\bpod [^\s:]+")
_PATH = re.compile(r"(https?://[^/\s]+)?[^\s:;,]*/[^\s:;,]*")
"""A path of a URL, whose host is kept, of a file or of a request, or an object as namespace/name."""


_BUDGET_STATES: Final = {
    NEAR_BUDGET: "BudgetNear",
    OVER_BUDGET: "BudgetExceeded",
    STOPPED_BY_BUDGET: "BudgetExceeded",
}
"""The states of the budget of an Agent, by the beginning of its message."""
_DRIFT_STATES: Final = {
    "drift": "DriftDetected",
    "healed": "DriftHealed",
    "heal-failed": "HealFailed",
    "tag-moved": "TagMoved",
}
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
    members: tuple[str, ...] = ()
    """The Applications of a message about a common cause, empty for one Application."""

    @property
    def cause(self) -> tuple[str, str] | None:
        """What several Applications may have in common, None where each message stays its own."""
        if self.kind not in ("failed", "degraded", "recovered"):
            return None
        # which kind or object is observed first differs; what cannot be observed has its cause outside of them
        if self.state == "Unknown":
            return self.state, ""
        # numbers differ between attempts, such as the seconds until the next one; paths between repositories of a
        # server and between objects, and so do the names of Pods
        return self.state, _NUMBER.sub("", _PATH.sub(r"\1", _POD.sub("pod", self.text)))

    @property
    def title(self) -> str:
        """The headline."""
        if self.state == DIGEST:
            return self.application
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


def recovered(application: str, states: Sequence[str]) -> Notice:
    """Return the notice that the reported states of an Application have ended."""
    return Notice(application, "recovered", RECOVERED, f"no longer: {', '.join(map(words, states))}")


def together(notices: Sequence[Notice]) -> Notice:
    """Return one notice for several Applications with one cause: their number, the cause, and their names."""
    first = notices[0]
    names = tuple(sorted(notice.application for notice in notices))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    texts = list(dict.fromkeys(notice.text for notice in notices))[:_TEXTS]
    text = "\n".join([*texts, f"{', '.join(names[:_NAMED])}{more}"])
    return Notice(f"{len(names)} Applications", first.kind, first.state, text, members=names)


def digest(messages: Sequence[Notice]) -> Notice:
    """Return one notice for many messages, a line for each; it is as bad as the worst of them."""
    worst = next((notice for notice in messages if notice.kind in ("failed", "degraded")), messages[0])
    lines = [f"{notice.title}: {notice.text.splitlines()[0] if notice.text else ''}" for notice in messages]
    more = [f"and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    members = tuple(sorted({name for notice in messages for name in notice.members or (notice.application,)}))
    title = f"{len(messages)} messages about {len(members)} Applications"
    return Notice(title, worst.kind, DIGEST, "\n".join([*lines[:_NAMED], *more]), members=members)


def happened(event: StateEvent) -> Notice | None:
    """Return the notice of an event: what others changed, what was restored, moved tags, budgets, classes of syncs."""
    if event.kind in _DRIFT_STATES:
        return Notice(event.application, event.kind, _DRIFT_STATES[event.kind], event.message, ref=event.ref)
    if event.kind == "resource" and (state := budget_state(event)):
        return Notice(event.application, "budget", state, event.message, ref=event.ref)
    outcome, risk = event.states if event.kind == "sync" and len(event.states) == 2 else ("", "")
    # a repair of drift is reported as healed already
    if outcome == Outcome.SUCCEEDED.value and not event.message.endswith("(drift)"):
        return Notice(event.application, risk.lower(), f"Applied{risk}", event.message)
    return None


def budget_state(event: StateEvent) -> str:
    """Return how near the budget of an Agent is, empty for another object and for one that is within it."""
    return next((state for text, state in _BUDGET_STATES.items() if event.message.startswith(text)), "")


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
