"""The report of a period: what drifted and how soon it ended, what was decided, and what is not as it should be."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import AGENTS_GROUP
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.drift_history import DRIFT_ACTION, PastField, past_fields

WORKLOADS: Final = (
    *(GroupKind("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
    *(GroupKind("batch", kind) for kind in ("CronJob", "Job")),
    GroupKind(AGENTS_GROUP, "Agent"),
)
"""The kinds whose images are checked."""
SOON: Final = 60.0
"""Seconds within which drift has to end to count in the score."""
FORMULA: Final = (
    "40 x drift that ended within 60 s + 30 x images with a digest + 20 x agents with an evaluation"
    " + 10 x writes and decisions that were neither refused nor failed, each as a share, 1 where there is none"
)
_WEIGHTS: Final = (40, 30, 20, 10)
_DECISIONS: Final = ("approve", "reject")


@dataclass(frozen=True, slots=True)
class Share:
    """How many of some things are as they should be."""

    good: int = 0
    total: int = 0

    @property
    def value(self) -> float:
        """The share, 1 where there is nothing."""
        return self.good / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class ImageUse:
    """An image without a digest, and the object and container that name it."""

    application: str
    ref: ObjectRef
    container: str
    image: str


@dataclass(frozen=True, slots=True)
class UserDecision:
    """Who approved or rejected which plan, and when."""

    application: str
    action: str
    person: str
    time: datetime
    plan: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplicationScore:
    """How well one Application did: the shares of the formula, and their sum of 0 to 100."""

    application: str
    drift: Share
    images: Share
    evaluations: Share
    decisions: Share

    @property
    def score(self) -> int:
        """The score, see ``FORMULA``."""
        shares = (self.drift, self.images, self.evaluations, self.decisions)
        return round(sum(weight * share.value for weight, share in zip(_WEIGHTS, shares, strict=True)))


@dataclass(frozen=True, slots=True)
class PeriodReport:
    """What a report has. ``drift`` is what ended in the period; all else is as described there."""

    since: datetime
    until: datetime
    drift: tuple[PastField, ...] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """How many decisions and writes ended how: ``approve``, ``reject``, ``refused``, ``failed``."""
    decisions: tuple[UserDecision, ...] = ()
    images: tuple[ImageUse, ...] = ()
    """Images without a digest, as they are now."""
    unevaluated: tuple[ObjectRef, ...] = ()
    """Agents without an evaluation, as they are now."""
    scores: tuple[ApplicationScore, ...] = ()

    @property
    def by_object(self) -> list[tuple[str, int]]:
        """The objects with the number of fields that drifted and Pods that ran otherwise, the most first."""
        return Counter(str(item.ref) for item in self.drift).most_common()

    @property
    def by_manager(self) -> list[tuple[str, int]]:
        """The field managers with the number of fields that they changed, the most first."""
        return Counter(item.manager or "unknown" for item in self.drift if not item.pod).most_common()

    def seconds(self, share: float) -> float | None:
        """
        Return the time to the end of drift that a share of it did not exceed (0.5: the median); None without any.

        What Pods ran does not count: a report of it is all that happens by default.
        """
        times = sorted(item.seconds for item in self.drift if not item.pod)
        # the nearest rank: a value that occurred, also of few
        return times[max(math.ceil(share * len(times)) - 1, 0)] if times else None


def period_report(
    since: datetime,
    until: datetime,
    links: Iterable[AuditRecord],
    applications: Sequence[Manifest],
    objects: Iterable[Manifest],
) -> PeriodReport:
    """
    Return the report of a period.

    ``links`` are those of the audit, newest first; ``objects`` are the live workloads and Agents, of which those count
    that an Application holds.
    """
    in_period = [link for link in links if since <= link.timestamp < until]
    holders = _holders(applications)
    held = [manifest for manifest in objects if ref_of(manifest) in holders]
    drift = tuple(past_fields(link for link in in_period if link.action == DRIFT_ACTION))
    images = [use for manifest in held for use in _images(holders[ref_of(manifest)], manifest)]
    agents = [manifest for manifest in held if ref_of(manifest).group == AGENTS_GROUP]
    names = sorted({_key(application) for application in applications})

    def score(name: str) -> ApplicationScore:
        fields = (item for item in drift if item.application == name and not item.pod)
        uses = (use for use in images if use.application == name)
        own_agents = (agent for agent in agents if holders[ref_of(agent)] == name)
        decided = (link for link in in_period if link.application == name and _is_decided(link))
        return ApplicationScore(
            name,
            _share(fields, lambda item: item.seconds <= SOON),
            _share(uses, lambda use: "@" in use.image),
            _share(own_agents, lambda agent: bool(at(agent, "spec", "evaluation"))),
            _share(decided, lambda link: link.outcome is Outcome.SUCCEEDED),
        )

    return PeriodReport(
        since,
        until,
        drift,
        dict(_verdicts(in_period)),
        tuple(_decision(link) for link in in_period if link.action in _DECISIONS),
        tuple(use for use in images if "@" not in use.image),
        tuple(ref_of(agent) for agent in agents if not at(agent, "spec", "evaluation")),
        tuple(score(name) for name in names),
    )


def _share(items: Iterable[Any], is_good: Callable[[Any], bool]) -> Share:
    results = [is_good(item) for item in items]
    return Share(sum(results), len(results))


def _holders(applications: Iterable[Manifest]) -> dict[ObjectRef, str]:
    """Return the Application that holds each object."""
    return {
        ref: _key(application)
        for application in applications
        for ref in Inventory.from_status(application.get("status") or {}).entries
    }


def _key(application: Manifest) -> str:
    metadata = metadata_of(application)
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _images(application: str, manifest: Manifest) -> Iterator[ImageUse]:
    """Yield the images of a workload or an Agent."""
    ref = ref_of(manifest)
    image = at(manifest, "spec", "runtime", "image")
    if ref.group == AGENTS_GROUP and image:
        yield ImageUse(application, ref, "agent", str(image))
    template = at(manifest, "spec", "jobTemplate") or manifest
    spec = at(template, "spec", "template", "spec", default={})
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        yield ImageUse(application, ref, str(container.get("name")), str(container.get("image")))


def _is_decided(link: AuditRecord) -> bool:
    """Whether a link is the outcome of a write or a decision, and not its intent or the end of drift."""
    return link.outcome is not Outcome.INTENDED and link.action != DRIFT_ACTION


def _verdicts(links: Iterable[AuditRecord]) -> Mapping[str, int]:
    counts = defaultdict[str, int](int)
    for link in links:
        if link.action in _DECISIONS:
            counts[link.action] += 1
        elif link.outcome is Outcome.REFUSED:
            counts["refused"] += 1
        elif link.outcome is Outcome.FAILED:
            counts["failed"] += 1
    return counts


def _decision(link: AuditRecord) -> UserDecision:
    return UserDecision(
        link.application, link.action, link.approver, link.timestamp, link.digest[:12], link.reasoning or link.message
    )
