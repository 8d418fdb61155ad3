"""
The timeline of changes: commits with their syncs, corrected and open drift, decisions of users. Pure.

What a period changed in total is each object once, from its first state to its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import merge
from typing import Any, Final

from gitsync.objects.change import ABSENT
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import AGENTS_GROUP, FIELD_MANAGER
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.phase import SyncStatus
from gitsync.objects.record import AuditRecord, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.display import inner_changes
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import app_url, duration, object_url, parse_time, sync_url, value, visible
from gitsync.server.queries.agents import Live, Owned, evaluation_verdict, kept_revisions
from gitsync.server.queries.differences import Content, recorded_content
from gitsync.server.queries.fields import FieldRow, recorded_field
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.objects import drifted
from gitsync.server.queries.words import words

KINDS: Final = (
    *("sync", "heal", "drift", "approve", "reject", "suspend", "resume", "request", "revert", "revert-drift"),
    *("restart", "delete-pod", "pin", "unpin", "hold", "unhold", "evaluation", "refused", "post-sync", "trim"),
    *("sync-objects", "policy", "users", "sign-in", "sign-out"),
)
"""The kinds of entries, which ``kind:`` filters."""
_SHORT = 80


@dataclass(frozen=True, slots=True)
class EntryResult:
    """What became of an entry in one application: ``state`` by its name in the API, and a link to the details."""

    application: str
    state: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class TimelineEntry:
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
    results: tuple[EntryResult, ...] = ()
    history: int = 0
    audit: int = 0

    @property
    def is_of_commit(self) -> bool:
        """Whether it is a sync of a commit; Agents are synced to a generation of their spec."""
        return self.kind == "sync" and not self.commit.startswith("generation-")

    @property
    def applications(self) -> tuple[str, ...]:
        """The applications that it concerns."""
        return tuple(result.application for result in self.results)

    @property
    def text(self) -> str:
        """What words of a filter are searched in."""
        results = " ".join(f"{result.application} {result.text}" for result in self.results)
        return f"{self.kind} {self.title} {' '.join(self.people)} {self.commit} {self.reason} {results}"


def sync_entry(record: SyncRecord) -> TimelineEntry:
    """Return the entry of a sync, or of drift that it corrected."""
    url = sync_url(record.application, record.id)
    end = record.started + timedelta(milliseconds=record.duration_ms)
    count = len(record.steps)
    changes = f"{count} {'change' if count == 1 else 'changes'}"
    if record.trigger == "drift":
        result = EntryResult(record.application, record.outcome.value, f"corrected {changes}", url)
        managers = dict.fromkeys(name for _, _, name in changed_fields(record))
        return TimelineEntry(end, "heal", _healed(record), tuple(managers), record.commit.id, "", (result,), record.id)
    text = f"{changes} in {duration(record.duration_ms)}"
    if record.message:
        text += f": {visible(record.message)}"
    people = [record.commit.author, *([record.initiator] if record.initiator not in ("automated", "") else [])]
    approved = f"approved by {visible(record.approver)}" if record.approver else ""
    result = EntryResult(record.application, record.outcome.value, text, url)
    shown = tuple(visible(name) for name in dict.fromkeys([*people, record.approver]) if name)
    return TimelineEntry(
        end, "sync", visible(record.commit.subject), shown, record.commit.id, approved, (result,), record.id
    )


def changed_fields(record: SyncRecord) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the object, the recorded difference and the field manager of each field that a sync changed back."""
    for step in record.steps:
        for item in step.differences:
            owner: Mapping[str, Any] = next(iter(item.get("owners") or ()), {})
            # what this controller wrote is not what others changed
            if item.get("path") and owner.get("manager") != FIELD_MANAGER:
                yield step.ref, item, visible(owner.get("manager", ""))


def decision_entry(link: AuditRecord) -> TimelineEntry:
    """Return the entry of a decision or a request."""
    url = app_url(link.application) if link.application else "/audit"
    if link.digest and link.action in ("approve", "reject") and url.startswith("/apps/"):
        url += "/plan"  # only an Application has one
    kind = link.action
    title = _TITLES.get(link.action, link.action)
    if link.action in ("restart", "delete-pod"):
        url = object_url(link.application, link.resource)
        title = f"{title}: {visible(ObjectRef.from_path(link.resource))}"
    if link.action == "sync" and link.outcome is not Outcome.SUCCEEDED:
        kind = "refused"
        title = "Refused"
    elif link.action == "sync":
        kind = "request"
    person = (visible(link.approver),) if link.approver else ()
    unproven = "name not proven" if link.has_typed_name else ""
    reason = "; ".join(visible(text) for text in (link.reasoning, link.message, unproven) if text)
    result = EntryResult(link.application, link.outcome.value, "", url)
    return TimelineEntry(link.timestamp, kind, title, person, link.commit, reason, (result,), audit=link.id)


_TITLES: Final = {
    "approve": "Plan approved",
    "reject": "Plan rejected",
    "suspend": "Suspended",
    "resume": "Resumed",
    "sync": "Sync requested",
    "revert": "Revert pushed",
    "revert-drift": "Drift reverted on request",
    "sync-objects": "Sync of chosen objects requested",
    "restart": "Restarted on request",
    "delete-pod": "Pod deleted on request",
    "pin": "Pinned",
    "unpin": "Unpinned",
    "hold": "Field held",
    "unhold": "Hold ended",
    "post-sync": "Limits after the sync",
    "trim": "Audit trimmed",
    "policy": "Policies changed",
    "users": "Users changed",
    "sign-in": "Signed in",
    "sign-out": "Sessions ended",
}


def drift_entries(views: Iterable[ApplicationView]) -> Iterator[TimelineEntry]:
    """Yield an entry for each application that differs from Git now because of changes in the cluster."""
    for view in views:
        drift = view.status.get("drift") or {}
        since = parse_time(str(drift.get("detectedAt", "")))
        if not drift.get("objects") or since is None:
            continue
        differences = [
            (item, difference)
            for item in view.resources
            if item.sync != SyncStatus.SYNCED
            for difference in drifted(item)
        ]
        owners = (owner.manager for _, difference in differences for owner in difference.owners)
        people = dict.fromkeys(visible(name) for name in owners if name != FIELD_MANAGER)
        first = "".join(f"{visible(item.ref)} {visible(difference.path)}" for item, difference in differences[:1])
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        result = EntryResult(view.key, "Drifted", "not corrected", app_url(view.key) + "/diff")
        yield TimelineEntry(since, "drift", f"{first}{more}" or "Objects differ", tuple(people), results=(result,))


def evaluation_entries(views: Iterable[ApplicationView], live: Live, owned: Owned) -> Iterator[TimelineEntry]:
    """Yield an entry for each revision of an Agent that its evaluation stopped, as far as the cluster keeps them."""
    for view in views:
        for item in view.resources:
            # other kinds are not read: an Application may have thousands of objects
            holder = live(view.key, item.ref) if item.ref.group == AGENTS_GROUP else None
            if holder is None:
                continue
            # the members of a system are its children
            agents = [holder] if item.ref.kind == "Agent" else owned(uid_of(holder))
            for agent in agents:
                yield from _stopped_revisions(view.key, agent, owned) if ref_of(agent).kind == "Agent" else ()


def _stopped_revisions(application: str, agent: Manifest, owned: Owned) -> Iterator[TimelineEntry]:
    ref = ref_of(agent)
    newest = evaluation_verdict(agent)
    url = app_url(str(OwnerKey.of_ref(ref)))
    for kept in kept_revisions(owned(uid_of(agent))):
        verdict = kept.revision.evaluation_verdict
        # only the newest one has the time at which it ended
        time = newest.get("finishedAt") if newest.get("revision") == kept.revision.name else kept.created
        ended = parse_time(str(time))
        if verdict.get("result") != "Failed" or ended is None:
            continue
        result = EntryResult(application, "Failed", visible(str(verdict.get("message", ""))), url)
        title = f"Revision {kept.revision.name} of {ref} does not serve: {kept.evaluation}"
        yield TimelineEntry(ended, "evaluation", visible(title), results=(result,))


def grouped(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """Return the entries with neighbouring syncs of one commit as one entry, which has a result for each."""
    groups: list[TimelineEntry] = []
    for entry in entries:
        last = groups[-1] if groups else None
        # neighbours only: a later sync of the same commit is shown where it was
        if last is not None and entry.is_of_commit and last.is_of_commit and entry.commit == last.commit:
            people = tuple(dict.fromkeys((*last.people, *entry.people)))
            # the oldest record: the next page begins below it
            groups[-1] = replace(last, results=(*last.results, *entry.results), people=people, history=entry.history)
        else:
            groups.append(entry)
    return groups


def _healed(record: SyncRecord) -> str:
    """Return what was changed in the cluster, as a sentence."""
    fields = list(changed_fields(record))
    if not fields:
        steps = [f"{words(step.action)} {_name(step.ref)}" for step in record.steps[:1]]
        return visible("".join(steps) or "Drift")
    ref, item, manager = fields[0]
    live, desired = (_side(item.get(side)) for side in ("live", "desired"))
    more = f"; and {len(fields) - 1} more" if len(fields) > 1 else ""
    who = f"{manager} changed " if manager else ""
    return f"{who}{visible(item['path'])} of {visible(_name(ref))} to {live} (Git: {desired}){more}"


def _side(item: Any) -> str:
    text = "absent" if item is None else value(item).replace("\n", " ")
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _name(path: str) -> str:
    _, kind, _, name = path.split("/", 3) if path.count("/") >= 3 else ("", path, "", "")
    return f"{kind} {name}"


NAMES = ("app", "ns", "kind", "by", "commit", "state", "since", "until")
"""The members of a filter that the timeline accepts."""
_SYNC_KINDS = frozenset({"sync", "heal"})
"""The kinds of entries that are made from records of syncs."""
_BATCH = 50
SYNCS = 400
"""Syncs that a comparison reads at most."""
_SCANNED = 400
"""Records that one page reads at most; the next page continues there."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of the timeline begins: the ids and the time that everything on it is below; 0 and None: newest."""

    history: int = 0
    audit: int = 0
    time: datetime | None = None

    def __str__(self) -> str:
        return f"{self.history}-{self.audit}-{self.time.timestamp() if self.time else ''}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Return the position that ``str`` wrote, the newest for what is not valid."""
        history, _, rest = text.partition("-")
        audit, _, time = rest.partition("-")
        # not isdigit, which accepts digits that int() refuses
        if not (history.isdecimal() and audit.isdecimal() and len(text) < 80):
            return cls()
        try:
            moment = datetime.fromtimestamp(float(time)).astimezone() if time else None
        # NaN, infinity, and years that the platform does not know
        except (ValueError, OverflowError, OSError):
            return cls()
        # ids are integers of SQLite, which have 64 bits
        return cls(int(history) % (1 << 62), int(audit) % (1 << 62), moment)


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """One page of the timeline; ``older`` is where the next page begins, None at the end."""

    entries: list[TimelineEntry] = field(default_factory=list)
    older: Position | None = None


def changes(backend: Backend, query: Filter, position: Position, limit: int) -> TimelinePage:
    """Return a page of the entries that match, newest first."""
    matches = query.matcher(_READ, lambda entry: entry.text)
    matched: list[TimelineEntry] = []
    for read, entry in enumerate(_entries(backend, position, query)):
        # entries are sorted: no later one can match
        if query.since is not None and entry.time < query.since:
            return TimelinePage(grouped(matched))
        # before the position moves: the next page begins with this entry
        if len(matched) >= limit or read >= _SCANNED:
            return TimelinePage(grouped(matched), position)
        position = _below(position, entry)
        if query.is_in_time(entry.time) and matches(entry):
            matched.append(entry)
    return TimelinePage(grouped(matched))


def records_between(backend: Backend, query: Filter) -> list[SyncRecord]:
    """Return the records of the syncs in the period of a filter, newest first, without corrected drift."""
    only = query.application
    matched: list[SyncRecord] = []
    oldest = 0
    while len(matched) < SYNCS:
        records = backend.records.history(only, limit=_BATCH, before=oldest)
        matched += [item for item in records if item.trigger != "drift" and query.is_in_time(item.started)]
        if len(records) < _BATCH or (query.since is not None and records[-1].started < query.since):
            break
        oldest = records[-1].id
    return matched


def _entries(backend: Backend, position: Position, query: Filter) -> Iterator[TimelineEntry]:
    only = query.application
    kinds = query.exact("kind")
    views = backend.view.applications()
    observed = [
        entry
        for entry in (*drift_entries(views), *evaluation_entries(views, backend.view.live, backend.view.owned_by))
        # what is observed has no record, and so no id: its time decides on which page it is
        if (position.time is None or entry.time < position.time) and only in ("", *entry.applications)
    ]
    observed.sort(key=_time, reverse=True)
    syncs = _syncs(backend, position.history, only, kinds)
    decisions = _decisions(backend, position.audit, only, kinds)
    # lazy: batches are read as far as the page needs them
    return merge(syncs, decisions, observed, key=_time, reverse=True)


def _syncs(backend: Backend, oldest: int, only: str, kinds: frozenset[str]) -> Iterator[TimelineEntry]:
    if kinds and not kinds & _SYNC_KINDS:
        return
    for limit in _batches():
        records = backend.records.history(only, limit=limit, before=oldest)
        yield from map(sync_entry, records)
        # fewer than were requested: the end of the history
        if len(records) < limit:
            return
        oldest = records[-1].id


def _decisions(backend: Backend, oldest: int, only: str, kinds: frozenset[str]) -> Iterator[TimelineEntry]:
    # of two kinds the audit has one action: a sync that was requested, or refused
    actions = {"sync" if kind in ("request", "refused") else kind for kind in kinds - _SYNC_KINDS}
    if kinds and not actions:
        return
    for limit in _batches():
        links = backend.records.decisions(only, actions=actions, limit=limit, before=oldest)
        # of a write that a user requested, the record after it tells how it ended
        yield from (decision_entry(link) for link in links if link.outcome is not Outcome.INTENDED)
        if len(links) < limit:
            return
        oldest = links[-1].id


def _batches() -> Iterator[int]:
    """Yield how many records to read next: a page is mostly full after a few, and a search reads many."""
    limit = _BATCH
    while True:
        yield limit
        limit = min(2 * limit, _SCANNED)


def _below(position: Position, entry: TimelineEntry) -> Position:
    """Return the position after an entry was read."""
    return Position(entry.history or position.history, entry.audit or position.audit, entry.time)


def _time(entry: TimelineEntry) -> datetime:
    return entry.time


_READ = {
    "app": lambda entry: [name for key in entry.applications for name in (key, key.rpartition("/")[2])],
    "ns": lambda entry: [key.partition("/")[0] for key in entry.applications],
    "kind": lambda entry: (entry.kind,),
    "by": lambda entry: entry.people,
    "commit": lambda entry: (entry.commit, entry.commit[:7], entry.commit[:12]),
    "state": lambda entry: [result.state for result in entry.results],
}


@dataclass(frozen=True, slots=True)
class NetChange:
    """
    An object that the syncs of a period changed.

    ``step`` has the action of the whole period and, as differences, the first value before and the last one after.
    ``syncs`` counts the syncs that wrote it, ``record`` is the id of the last.
    """

    application: str
    step: Step
    syncs: int
    record: int

    def fields(self, limit: int, objects: int) -> list[FieldRow]:
        """Return the rows of at most ``limit`` fields that changed, on a page of ``objects``."""
        return [recorded_field(item, objects) for item in self.step.differences if item.get("path")][:limit]

    def content(self, objects: int) -> Content | None:
        """Return the whole object where the period created or deleted it."""
        return recorded_content(self.step, objects)


def net_changes(records: Iterable[SyncRecord]) -> list[NetChange]:
    """Return the objects that these syncs, oldest first, changed; one that ended as it began is left out."""
    changes: dict[tuple[str, str], NetChange] = {}
    for record in records:
        for step in record.steps:
            if step.outcome is not Outcome.SUCCEEDED or step.action == "hook":
                continue
            key = (record.application, step.ref)
            earlier = changes.get(key)
            if earlier is None:
                changes[key] = NetChange(record.application, step, 1, record.id)
            else:
                merged = _merged(earlier.step, step)
                changes[key] = replace(earlier, step=merged, syncs=earlier.syncs + 1, record=record.id)
    changed = [item for item in changes.values() if item.step.differences]
    return sorted(changed, key=lambda item: (item.application, item.step.ref))


def _merged(earlier: Step, later: Step) -> Step:
    """Return the step that has the effect of two on one object."""
    old = _whole(earlier)
    new = _whole(later)
    if old is None and new is None:
        return replace(later, differences=tuple(_fields(earlier, later)))
    live = old.get("live") if old is not None else new.get("live") if new is not None else None
    desired = new.get("desired") if new is not None else old.get("desired") if old is not None else None
    if live == desired:
        return replace(later, differences=())
    whole = {"path": "", "live": live, "desired": desired}
    if live is not None and desired is not None:
        # deleted and created again: fields as in an update, or the whole object where it is too large to compare
        return replace(later, action="update", differences=tuple(_changed_fields(live, desired)) or (whole,))
    return replace(later, action="create" if live is None else "prune", differences=(whole,))


def _changed_fields(live: Manifest, desired: Manifest) -> Iterable[dict[str, Any]]:
    """Yield the fields in which two states of an object differ, as history keeps them."""
    for change in inner_changes(live, desired):
        # history has null for a field that is not there
        sides = {"live": change.live, "desired": change.desired}
        yield {"path": change.path, **{side: None if value is ABSENT else value for side, value in sides.items()}}


def _fields(earlier: Step, later: Step) -> Iterable[dict[str, Any]]:
    fields = {item["path"]: item for item in earlier.differences}
    for item in later.differences:
        first = fields.get(item["path"])
        fields[item["path"]] = {**item, "live": first.get("live")} if first is not None else item
    return (item for item in fields.values() if item.get("live") != item.get("desired"))


def _whole(step: Step) -> dict[str, Any] | None:
    return next((item for item in step.differences if not item.get("path")), None)
