"""The status of an ApplicationSet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitsync.applicationsets.changes import Changes, HeldDeletions
from gitsync.applicationsets.expand import Expansion
from gitsync.applicationsets.model import ApplicationSet
from gitsync.errors import GitsyncError, SourceUnavailable, TransientError
from gitsync.objects.conditions import SOURCE_READY, Condition, set_conditions
from gitsync.objects.ref import ObjectRef

RECONCILING = "Reconciling"
STALLED = "Stalled"
_FETCH_FAILED = "FetchFailed"
_NAMED = 10
"""Applications that a message names."""
_LISTED = 100
"""Applications whose deletion waits that the status names on their own."""


@dataclass(frozen=True, slots=True)
class Pass:
    """
    What a pass found and did.

    ``failures`` are failed writes by the name of the Application, with the reason; ``writing`` are the Applications
    whose writes the API server has not answered yet. ``sources`` are the URLs that Git generators read, each with the
    error of its last poll.
    """

    application_set: ApplicationSet
    expansion: Expansion
    changes: Changes
    failures: Mapping[str, str]
    writing: frozenset[str] = frozenset()
    sources: Mapping[str, GitsyncError | None] = field(default_factory=dict)


def set_status(done: Pass, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status after a pass; one that found nothing new gives an equal status, whatever the time."""
    application_set = done.application_set
    expansion = done.expansion
    changes = done.changes
    rows = list(_rows(done))
    held = _held(changes.held, previous, now) if changes.held else None
    states = [row["state"] for row in rows]
    status = {
        "observedGeneration": application_set.generation,
        "counts": {
            "desired": len(expansion.applications),
            # counted from the rows, so that the counts and the list cannot differ
            "current": states.count("Current"),
            "failed": states.count("Failed") + states.count("NameTaken"),
            "waiting": states.count("AwaitingApproval"),
        },
        "applications": rows,
        **({"heldDeletions": held} if held else {}),
    }
    conditions = (*_source_condition(done.sources), *_conditions(done, held))
    known = [
        condition
        for condition in previous.get("conditions") or ()
        # A set whose last Git generator is gone has no source whose state could be old.
        if done.sources or condition.get("type") != SOURCE_READY
    ]
    return {**status, "conditions": set_conditions(known, conditions, application_set.generation, now)}


def failed_status(
    ref: ObjectRef, generation: int, error: GitsyncError, previous: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status where the elements are not known: the Applications stay as they are."""
    is_passing = isinstance(error, TransientError)
    reason = "SourceUnavailable" if is_passing else "InvalidInput"
    message = _without_subject(str(error), ref)
    conditions = (
        *([Condition(SOURCE_READY, "False", _FETCH_FAILED, message)] if isinstance(error, SourceUnavailable) else []),
        Condition("Ready", "False", reason, message),
        Condition(RECONCILING, str(is_passing), reason, message if is_passing else ""),
        Condition(STALLED, str(not is_passing), reason, "" if is_passing else message),
    )
    changes = set_conditions(previous.get("conditions") or (), conditions, generation, now)
    # the rows of the last pass stay: the Applications do too
    return {**previous, "observedGeneration": generation, "conditions": changes}


def held_message(ref: ObjectRef, held: Mapping[str, Any]) -> str:
    """Return which deletions wait, why, since when, and how to continue."""
    names = [str(name) for name in held["names"]]
    more = f" and {held['count'] - _NAMED} more" if held["count"] > _NAMED else ""
    return (
        f"the deletion of {', '.join(names[:_NAMED])}{more} waits since {held['since']}, because {held['reason']};"
        f" approve it by `gitsync appset approve {ref.name} -n {ref.namespace}`, or restore the elements"
    )


def _held(held: HeldDeletions, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    earlier = previous.get("heldDeletions") or {}
    # since the same deletions wait: another id is another decision
    since = earlier.get("since", now) if earlier.get("id") == held.id else now
    return {
        "id": held.id,
        "since": since,
        "count": len(held.names),
        # a status has a limit of size, and the count has all
        "names": list(held.names[:_LISTED]),
        "reason": held.reason,
    }


def _rows(done: Pass) -> Iterator[dict[str, str]]:
    """Yield each Application that elements yield, in their order, and then those that no element yields."""
    expansion = done.expansion
    changes = done.changes
    failures = done.failures
    for name, application in expansion.applications.items():
        row = {"name": name, "element": application.element}
        # the failure first: what the API server refuses hides in which state the Application was
        if name in failures:
            yield {**row, "state": "Failed", "message": failures[name]}
        elif name in changes.taken:
            yield {**row, "state": "NameTaken", "message": "an Application of this name is not the set's"}
        elif name in changes.leaving:
            yield {**row, "state": "Deleting"}
        elif name in done.writing:
            yield {**row, "state": "Writing"}
        else:
            yield {**row, "state": "Outdated" if name in changes.outdated else "Current"}
    others = {
        **dict.fromkeys((*changes.leaving, *done.writing), "Deleting"),
        **dict.fromkeys(changes.kept, "Kept"),
        **dict.fromkeys(changes.held.names if changes.held else (), "AwaitingApproval"),
        # last: a deletion that failed is more than one that runs
        **dict.fromkeys((name for name in changes.deletes if name in failures), "Failed"),
    }
    for name in sorted(others.keys() - expansion.applications.keys()):
        message = {"message": failures[name]} if name in failures else {}
        yield {"name": name, "state": others[name], **message}


def _source_condition(sources: Mapping[str, GitsyncError | None]) -> tuple[Condition, ...]:
    """Return whether Git answers; during an outage the Applications stay as its last known commits declare them."""
    failed = [error for error in sources.values() if error is not None]
    if not failed:
        return (Condition(SOURCE_READY, "True", "Fetched"),) if sources else ()
    more = f"; {len(failed) - 1} more repositories failed" if len(failed) > 1 else ""
    message = f"{failed[0]}; the Applications stay as the last known commit declares them{more}"
    return (Condition(SOURCE_READY, "False", _FETCH_FAILED, message),)


def _conditions(done: Pass, held: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """Return the conditions; of several problems the one that a person has to solve first."""
    application_set = done.application_set
    changes = done.changes
    failures = done.failures
    # first of all: no retry solves it
    if changes.taken:
        names = ", ".join(changes.taken[:_NAMED])
        message = f"Applications exist that are not the set's: {names}; rename or delete them"
        return _stalled("NameTaken", message)
    if failures:
        name, reason = next(iter(failures.items()))
        message = f"{len(failures)} Applications could not be written; {name}: {reason}"
        return _busy("WriteFailed", message)
    if held:
        return _busy("AwaitingApproval", held_message(application_set.ref, held))
    if done.writing:
        return _busy("Writing", f"{len(done.writing)} Applications are being written")
    return (Condition("Ready", "True", "Current"), Condition(RECONCILING, "False", "Current"), _not_stalled("Current"))


def _stalled(reason: str, message: str) -> tuple[Condition, ...]:
    return (
        Condition("Ready", "False", reason, message),
        Condition(RECONCILING, "False", reason),
        Condition(STALLED, "True", reason, message),
    )


def _busy(reason: str, message: str) -> tuple[Condition, ...]:
    return (
        Condition("Ready", "False", reason, message),
        Condition(RECONCILING, "True", reason, message),
        _not_stalled(reason),
    )


def _not_stalled(reason: str) -> Condition:
    return Condition(STALLED, "False", reason)


def _without_subject(text: str, ref: ObjectRef) -> str:
    """Return an error without the name of the set, whose status it is."""
    return text.replace(f"{ref}: ", "")
