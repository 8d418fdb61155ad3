"""Self-heal backoff: how long the correction of a field waits that another controller sets back each time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsync.objects.change import DRIFT, Change, FieldDifference, FieldOwner
from gitsync.objects.manifest import Manifest, at, group_of
from gitsync.objects.ref import ObjectRef, ref_of

_AT_ONCE = 3
"""How many corrections of one field are made without a delay: a user may edit an object a few times."""
_FIRST = 5.0
"""Seconds before the first correction that is delayed."""
_FACTOR = 2.0
"""Growth of the delay with each further correction."""
_LONGEST = 3600.0
"""Longest delay in seconds."""
_FORGET = 600.0
"""Seconds after which a field that nothing set back counts from zero; twice its delay where that is longer."""
_REPLICAS = ".spec.replicas"


@dataclass(frozen=True, slots=True)
class _Contest:
    """The corrections of one field so far, and when the last one was made, in monotonic seconds."""

    corrections: int
    last: float

    @property
    def delay(self) -> float:
        """The seconds between the last correction and the next one."""
        further = self.corrections - _AT_ONCE
        # 64: long past the longest delay, and far from the exponent at which a float overflows
        return min(_FIRST * _FACTOR ** min(further, 64), _LONGEST) if further >= 0 else 0.0

    def is_over(self, now: float) -> bool:
        """Whether the field kept its declared value for long enough."""
        return now - self.last > max(_FORGET, 2 * self.delay)


class SelfHeals:
    """Count the corrections of each field of one Application; a deleted object counts as a field of its own."""

    def __init__(self) -> None:
        self._contests: dict[tuple[ObjectRef, str], _Contest] = {}

    def record(self, changes: Iterable[Change], now: float) -> None:
        """Count corrections that were carried out."""
        # Bounds the memory to fields that were corrected lately: objects come and go for months.
        self._contests = {key: contest for key, contest in self._contests.items() if not contest.is_over(now)}
        for change in changes:
            for field in _fields(change):
                previous = self._contests.get((change.ref, field))
                self._contests[change.ref, field] = _Contest(previous.corrections + 1 if previous else 1, now)

    def remaining(self, change: Change, now: float) -> float:
        """
        Return the seconds until a correction may be made, not positive when it may be made now.

        An apply corrects a whole object, so one field without a delay is enough.
        """
        return min((self._due(change.ref, field, now) - now for field in _fields(change)), default=0.0)

    def explain(self, change: Change, live: Iterable[Manifest]) -> str:
        """Return which field of an object is set back by which manager, and how to stop that."""
        field = max(_fields(change), key=lambda field: self._corrections(change.ref, field))
        contest = self._contests[change.ref, field]
        difference = next((item for item in change.differences if item.path == field), None)
        if difference is None:
            return (
                f"{change.ref}: was deleted again after {contest.corrections} times of creating it; the next attempt "
                f"waits {contest.delay:.0f} s; stop what deletes it, or remove it from Git"
            )
        owner = next((item for item in difference.owners if item.manager), FieldOwner("another field manager"))
        return (
            f"{change.ref}: another controller writes the same fields: {owner.manager} set {field} back after "
            f"{contest.corrections} corrections; the next one waits {contest.delay:.0f} s; "
            f"{_fix(change, difference, live)}"
        )

    def _due(self, ref: ObjectRef, field: str, now: float) -> float:
        contest = self._contests.get((ref, field))
        return now if contest is None or contest.is_over(now) else contest.last + contest.delay

    def _corrections(self, ref: ObjectRef, field: str) -> int:
        contest = self._contests.get((ref, field))
        return contest.corrections if contest is not None else 0


def _fields(change: Change) -> tuple[str, ...]:
    """Return the fields that a step corrects; empty text is the object itself."""
    return tuple(difference.path for difference in change.differences if difference.kind in DRIFT) or ("",)


def _fix(change: Change, difference: FieldDifference, live: Iterable[Manifest]) -> str:
    scaler = _autoscaler(change.ref, live) if difference.path == _REPLICAS else None
    if scaler is not None:
        return f"remove spec.replicas from Git, {scaler} owns it"
    by_scale = any(owner.subresource == "scale" for owner in difference.owners)
    hint = ", an autoscaler owns it" if by_scale and difference.path == _REPLICAS else ""
    return f"remove {difference.path} from Git{hint}, or list it in spec.sync.ignoreDifferences"


def _autoscaler(ref: ObjectRef, live: Iterable[Manifest]) -> ObjectRef | None:
    """Return the autoscaler among these objects that scales a workload."""
    for manifest in live:
        scaler = ref_of(manifest)
        target = at(manifest, "spec", "scaleTargetRef")
        if scaler.namespace == ref.namespace and isinstance(target, dict):
            # KEDA leaves kind and group out for a Deployment
            kind = target.get("kind", "Deployment")
            group = group_of(str(target.get("apiVersion", "apps/v1")))
            if (group, kind, target.get("name")) == (ref.group, ref.kind, ref.name):
                return scaler
    return None
