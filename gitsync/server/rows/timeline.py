"""The timeline of changes: commits with their syncs, corrected and open drift, decisions of users. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.ports import ApplicationView
from gitsync.server.formatting import app_url, duration, parse_time, value, visible
from gitsync.server.rows.objects import drifted
from gitsync.server.rows.words import words

KINDS: Final = (
    *("sync", "heal", "drift", "approve", "reject", "suspend", "resume", "request", "revert", "pin", "unpin"),
    *("refused", "post-sync", "trim", "policy", "users", "sign-in"),
)
"""The kinds of entries, which ``kind:`` filters."""
_SHORT = 80


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an entry in one application: ``state`` by its name in the API, and a link to the details."""

    application: str
    state: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One entry of the timeline.

    ``people`` are who did it: authors, approvers, or the field managers of a drift. ``history`` and ``audit`` are the
    ids of the newest and oldest records that it was made from, 0 for none.
    """

    time: datetime
    kind: str
    title: str
    people: tuple[str, ...] = ()
    commit: str = ""
    reason: str = ""
    results: tuple[Result, ...] = ()
    history: int = 0
    audit: int = 0

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications that it concerns."""
        return tuple(result.application for result in self.results)

    @property
    def text(self) -> str:
        """What words of a filter are searched in."""
        results = " ".join(f"{result.application} {result.text}" for result in self.results)
        return f"{self.kind} {self.title} {' '.join(self.people)} {self.commit} {self.reason} {results}"


def sync_entry(record: SyncRecord) -> Entry:
    """Return the entry of a sync, or of drift that it corrected."""
    url = f"{app_url(record.application)}/history/{record.id}"
    end = record.started + timedelta(milliseconds=record.duration_ms)
    count = len(record.steps)
    changes = f"{count} {'change' if count == 1 else 'changes'}"
    if record.trigger == "drift":
        result = Result(record.application, record.outcome.value, f"corrected {changes}", url)
        managers = dict.fromkeys(name for _, _, name in changed_fields(record))
        return Entry(end, "heal", _healed(record), tuple(managers), record.commit.id, "", (result,), record.id)
    text = f"{changes} in {duration(record.duration_ms)}"
    if record.message:
        text += f": {visible(record.message)}"
    people = [record.commit.author, *([record.initiator] if record.initiator not in ("automated", "") else [])]
    approved = f"approved by {visible(record.approver)}" if record.approver else ""
    result = Result(record.application, record.outcome.value, text, url)
    shown = tuple(visible(name) for name in dict.fromkeys([*people, record.approver]) if name)
    return Entry(end, "sync", visible(record.commit.subject), shown, record.commit.id, approved, (result,), record.id)


def changed_fields(record: SyncRecord) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the object, the recorded difference and the field manager of each field that a sync changed back."""
    for step in record.steps:
        for item in step.differences:
            owner: Mapping[str, Any] = next(iter(item.get("owners") or ()), {})
            if item.get("path") and owner.get("manager") != FIELD_MANAGER:
                yield step.ref, item, visible(owner.get("manager", ""))


def decision_entry(link: AuditRecord) -> Entry:
    """Return the entry of a decision or a request."""
    url = app_url(link.application) if link.application else "/audit"
    if link.digest and link.action in ("approve", "reject"):
        url += "/plan"
    kind, title = link.action, _TITLES.get(link.action, link.action)
    if link.action == "sync" and link.outcome is not Outcome.SUCCEEDED:
        kind, title = "refused", "Refused"
    elif link.action == "sync":
        kind = "request"
    person = (visible(link.approver),) if link.approver else ()
    reason = "; ".join(visible(text) for text in (link.reasoning, link.message) if text)
    result = Result(link.application, link.outcome.value, "", url)
    return Entry(link.timestamp, kind, title, person, link.commit, reason, (result,), audit=link.id)


_TITLES: Final = {
    "approve": "Plan approved",
    "reject": "Plan rejected",
    "suspend": "Suspended",
    "resume": "Resumed",
    "sync": "Sync requested",
    "revert": "Revert pushed",
    "pin": "Pinned",
    "unpin": "Unpinned",
    "post-sync": "Limits after the sync",
    "trim": "Audit trimmed",
    "policy": "Policies changed",
    "users": "Users changed",
    "sign-in": "Signed in",
}


def drift_entries(views: Iterable[ApplicationView]) -> Iterator[Entry]:
    """Yield an entry for each application that differs from Git now because of changes in the cluster."""
    for view in views:
        drift = view.status.get("drift") or {}
        since = parse_time(str(drift.get("detectedAt", "")))
        if not drift.get("objects") or since is None:
            continue
        found = [(item, difference) for item in view.resources if item.sync != "Synced" for difference in drifted(item)]
        owners = (owner.manager for _, difference in found for owner in difference.owners)
        people = dict.fromkeys(visible(name) for name in owners if name != FIELD_MANAGER)
        first = "".join(f"{visible(item.ref)} {visible(difference.path)}" for item, difference in found[:1])
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        result = Result(view.key, "Drifted", "not corrected", app_url(view.key) + "/diff")
        yield Entry(since, "drift", f"{first}{more}" or "Objects differ", tuple(people), results=(result,))


def grouped(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with neighbouring syncs of one commit as one entry, which has a result for each."""
    found: list[Entry] = []
    for entry in entries:
        before = found[-1] if found else None
        if before is not None and entry.kind == before.kind == "sync" and entry.commit == before.commit:
            people = tuple(dict.fromkeys((*before.people, *entry.people)))
            found[-1] = replace(before, results=(*before.results, *entry.results), people=people, history=entry.history)
        else:
            found.append(entry)
    return found


def _healed(record: SyncRecord) -> str:
    """Return what was changed in the cluster, as a sentence."""
    found = list(changed_fields(record))
    if not found:
        steps = [f"{words(step.action)} {_name(step.ref)}" for step in record.steps[:1]]
        return visible("".join(steps) or "Drift")
    ref, item, manager = found[0]
    live, desired = (_side(item.get(side)) for side in ("live", "desired"))
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    who = f"{manager} changed " if manager else ""
    return f"{who}{visible(item['path'])} of {visible(_name(ref))} to {live} (Git: {desired}){more}"


def _side(item: Any) -> str:
    text = "absent" if item is None else value(item).replace("\n", " ")
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _name(path: str) -> str:
    _, kind, _, name = path.split("/", 3) if path.count("/") >= 3 else ("", path, "", "")
    return f"{kind} {name}"
