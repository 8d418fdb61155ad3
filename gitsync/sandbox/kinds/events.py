"""Validation of events, of the core group and of events.k8s.io (pkg/apis/core/validation/events.go)."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import immutable, invalid, malformed, required
from gitsync.sandbox.validation.names import qualified_name

_IMMUTABLE = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),  # the real server compares it twice
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""What an update of an event may not change, with the names of the internal type that messages have."""
# Lengths of the new API; events of the old one without eventTime are not limited.
_LIMITS = (("reportingInstance", 128), ("action", 128), ("reason", 128))
_NOTE_LIMIT = 1024
# Members kept for conversion from the core group; who writes the new API must not set them.
_UNSET = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource")


def validate_event(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an event of the core group."""
    return _legacy(new, new.get("involvedObject") or {}, "reportingComponent", new.get("message", ""))


def validate_new_event(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check an event of events.k8s.io."""
    causes = _legacy(new, new.get("regarding") or {}, "reportingController", new.get("note", ""))
    if old is not None:
        if new.get("series") != old.get("series"):
            causes += _series(new)
        for member, field in _IMMUTABLE:
            causes += immutable(field, new.get(member), old.get(member))
        return causes
    causes += _series(new)
    if new.get("eventTime") is None:
        causes.append(required("eventTime"))
    if new.get("type", "") not in ("Normal", "Warning"):
        # The value is in the message and the cause's value is empty; the server has it so.
        causes.append(invalid("type", "", f"has invalid value: {new.get('type', '')}"))
    fields = dict(_IMMUTABLE)
    return causes + [invalid(fields[name], "", "needs to be unset") for name in _UNSET if new.get(name)]


def _legacy(event: Manifest, about: Manifest, controller: str, note: str) -> list[StatusCause]:
    mine = metadata_of(event).get("namespace", "")
    theirs = about.get("namespace", "")
    # Without eventTime it is an event of the old recorders, which are only checked for their namespace.
    if event.get("eventTime") is None:
        # Events about cluster-scoped objects are in the namespace default.
        fits = theirs == mine or (not theirs and mine == "default")
        return [] if fits else [_other_namespace(theirs)]
    # New recorders may also use kube-system.
    causes = [] if theirs or mine in ("default", "kube-system") else [_other_namespace(theirs)]
    name = event.get(controller, "")
    causes += [] if name else [required(controller)]
    causes += malformed(controller, name, qualified_name)
    for member, limit in _LIMITS:
        causes += _text(member, event.get(member, ""), limit)
    if len(note) > _NOTE_LIMIT:
        causes.append(invalid("message", "", f"can have at most {_NOTE_LIMIT} characters"))
    return causes


def _other_namespace(namespace: str) -> StatusCause:
    return invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def _text(field: str, value: str, limit: int) -> list[StatusCause]:
    if not value:
        return [required(field)]
    return [invalid(field, "", f"can have at most {limit} characters")] if len(value) > limit else []


def _series(event: Manifest) -> list[StatusCause]:
    series: dict[str, Any] | None = event.get("series")
    if series is None:
        return []
    # A series of one is not a series.
    causes = [] if series.get("count", 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    return causes if series.get("lastObservedTime") else [*causes, required("series.lastObservedTime")]
