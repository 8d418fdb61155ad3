"""
The history of drift: what others changed, when it was detected, and how it ended, as links of the audit chain.

What Pods ran otherwise than declared is part of it.

A link is written when drift ends, so that it has both times; drift that lasts is in the status and on the pages.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson

from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import to_record
from gitsync.plan.running import RunningFinding, RunningKind

DRIFT_ACTION: Final = "drift"
"""The action of the links."""
_NO_SYNC: Final = "drift"
"""The links belong to no sync; those without any are decisions of users, see ``Records.decisions``."""


class EndedBy(StrEnum):
    """How drift ended."""

    SELF_HEAL = "self-heal"
    SYNC = "sync"
    """A sync wrote the object: of a commit, or requested by a user."""
    OTHERS = "others"
    """The field has the declared value again, or Git declares the other one, without a write of ours."""


@dataclass(frozen=True, slots=True)
class OpenDrift:
    """An object that others changed: the step that would restore it, and when it was detected."""

    step: Change
    detected: datetime


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """A Pod of a workload that runs otherwise than declared, when that was detected, and what will have ended it."""

    workload: ObjectRef
    finding: RunningFinding
    detected: datetime
    by: EndedBy = EndedBy.OTHERS


@dataclass(frozen=True, slots=True)
class PastField:
    """
    One field that others changed, or what a Pod ran otherwise, and how that ended; secret values are masked.

    ``path`` is empty where the whole object was deleted, which ``declared`` then names. ``edited`` is when it was
    changed, None where the API server does not know it. ``seconds`` is the time from the edit, else from its detection,
    to the end. Where ``pod`` names a Pod of the object, ``path`` is the kind of the finding, and ``changed_to`` its
    message.
    """

    application: str
    ref: ObjectRef
    path: str
    declared: Any
    changed_to: Any
    manager: str
    edited: datetime | None
    detected: datetime
    ended: datetime
    by: EndedBy
    pod: str = ""
    person: str = ""
    """Who did it, where the audit sink received that."""

    @property
    def seconds(self) -> float:
        """How long the field had another value."""
        # the clock of the API server may be ahead of ours
        return max((self.ended - (self.edited or self.detected)).total_seconds(), 0.0)


def ended_link(application: str, drift: OpenDrift, now: datetime, by: EndedBy) -> AuditRecord:
    """Return the link for drift that has ended."""
    step = drift.step
    differences = [
        record for record, difference in zip(to_record(step), step.differences, strict=True) if difference.kind in DRIFT
    ]
    details: dict[str, Any] = {"differences": differences}
    if step.action is Action.CREATE:
        details["deleted"] = True
    link = _ended(application, step.ref, drift.detected, now, by, details)
    return replace(link, reasoning=step.reason, risk_level=step.risk.value)


def ended_finding_link(application: str, ended: OpenFinding, now: datetime) -> AuditRecord:
    """Return the link for a Pod that no longer runs otherwise than declared, or that is gone."""
    finding = ended.finding
    # a Pod starts long before a newer one shows that its tag was moved
    since = "" if finding.kind is RunningKind.IMAGE else finding.since
    details = {"pod": finding.pod.name, "kind": finding.kind.value, "message": finding.message, "since": since}
    return _ended(application, ended.workload, ended.detected, now, ended.by, details)


def _ended(
    application: str, ref: ObjectRef, detected: datetime, now: datetime, by: EndedBy, details: Mapping[str, Any]
) -> AuditRecord:
    return AuditRecord(
        application=application,
        action=DRIFT_ACTION,
        resource=ref.path,
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync=_NO_SYNC,
        duration_ms=round((now - detected).total_seconds() * 1000),
        details={"detected": detected.isoformat(), "by": by.value, **details},
    )


def past_fields(links: Iterable[AuditRecord]) -> Iterator[PastField]:
    """Yield the fields of links with the action ``DRIFT_ACTION``, in their order."""
    for link in links:
        details = link.details
        if details.get("pod"):
            yield _past_finding(link)
            continue
        ref = ObjectRef.from_path(link.resource)
        differences: list[dict[str, Any]] = details.get("differences") or []
        if details.get("deleted"):
            # a deleted object has no field left, and nothing says who deleted it
            differences = [{"desired": str(ref)}]
        for item in differences:
            owner: dict[str, Any] = next(iter(item.get("owners") or ()), {})
            edited = str(owner.get("time") or "")
            yield PastField(
                link.application,
                ref,
                str(item.get("path", "")),
                item.get("desired"),
                item.get("live"),
                str(owner.get("manager") or ""),
                datetime.fromisoformat(edited) if edited else None,
                datetime.fromisoformat(str(details["detected"])),
                link.timestamp,
                EndedBy(details["by"]),
            )


def _past_finding(link: AuditRecord) -> PastField:
    details = link.details
    since = str(details.get("since") or "")
    return PastField(
        link.application,
        ObjectRef.from_path(link.resource),
        str(details["kind"]),
        None,
        str(details["message"]),
        "",
        datetime.fromisoformat(since) if since else None,
        datetime.fromisoformat(str(details["detected"])),
        link.timestamp,
        EndedBy(details["by"]),
        str(details["pod"]),
    )


EDIT_ACTION: Final = "edit"
"""The action of links about what a person did in the cluster, as the audit sink received it."""
_CLOCKS: Final = timedelta(seconds=2)
"""How far the time of a managed field, in whole seconds, and that of an event may be from each other."""
_UNTIMED: Final = timedelta(minutes=1)
"""How long before its detection a write may be that has no time, such as one of a subresource or a delete."""
_WRITES: Final = frozenset({"create", "delete", "patch", "update"})
_IN_PODS: Final = frozenset({"attach", "exec"})
"""Subresources of Pods by which a user runs something in one; ``kubectl cp`` is an exec."""
_BY_CONTROLLERS: Final = frozenset({"status", "finalize", "binding", "log", "proxy", "portforward"})
"""Subresources whose writes change nothing that Git declares."""


@dataclass(frozen=True, slots=True)
class AuditedWrite:
    """
    A write that the API server answered with success, from its audit log: by whom, to what, when.

    ``verb`` is ``exec`` or ``attach`` for what ran in a Pod.
    """

    person: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    manager: str
    time: datetime

    @property
    def is_in_pod(self) -> bool:
        """Whether something ran in a Pod, which changed no object."""
        return self.verb in _IN_PODS

    def is_about(self, ref: ObjectRef) -> bool:
        """Whether this is a write to an object."""
        # the plural of a kind begins with it but for its last letter: NetworkPolicy, networkpolicies
        is_kind = self.group == ref.group and self.resource.startswith(ref.kind.lower()[:-1])
        return is_kind and (self.namespace, self.name) == (ref.namespace, ref.name)

    def made(self, edit: ClusterEdit) -> bool:
        """Whether this write may have changed a field, or have deleted its object."""
        if self.is_in_pod or not self.is_about(edit.ref):
            return False
        if edit.is_deletion and self.verb != "delete":
            return False
        if edit.time is not None:
            return self.manager == edit.manager and abs(self.time - edit.time) <= _CLOCKS
        is_manager = not edit.manager or self.manager == edit.manager
        return is_manager and -_CLOCKS <= edit.detected - self.time <= _UNTIMED


@dataclass(frozen=True, slots=True)
class ClusterEdit:
    """What is known of a change that others made: ``time`` is None where the API server does not know it."""

    ref: ObjectRef
    manager: str
    time: datetime | None
    detected: datetime
    is_deletion: bool = False


def audited_writes(lines: Iterable[bytes], names: Container[tuple[str, str]]) -> Iterator[AuditedWrite]:
    """
    Yield the writes to objects of some namespaces and names from an audit log of an API server.

    It has one event of audit.k8s.io/v1 a line (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/). What is
    not such an event is skipped: a rotated file may begin or end within one.
    """
    for line in lines:
        # most events are reads, and need not be parsed
        if b'"ResponseComplete"' not in line or b'"verb":"get"' in line or b'"verb":"watch"' in line:
            continue
        with suppress(ValueError):
            for write in sent_writes([orjson.loads(line)]):
                if (write.namespace, write.name) in names:
                    yield write


def sent_writes(events: Iterable[Any]) -> Iterator[AuditedWrite]:
    """Yield the writes among events of audit.k8s.io/v1, and what ran in Pods; others are skipped."""
    for event in events:
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            write = _audited_write(event)
            if write is not None:
                yield write


def _audited_write(event: dict[str, Any]) -> AuditedWrite | None:
    target = event.get("objectRef") or {}
    code = int((event.get("responseStatus") or {}).get("code", 0))
    subresource = str(target.get("subresource", ""))
    is_in_pod = target.get("resource") == "pods" and subresource in _IN_PODS
    # A session in a Pod completes when it ends, which may be hours later.
    stages = ("ResponseStarted", "ResponseComplete") if is_in_pod else ("ResponseComplete",)
    if event["stage"] not in stages or subresource in _BY_CONTROLLERS:
        return None
    # A session in a Pod is a GET where it is a WebSocket, and succeeds by switching protocols.
    is_success = code == 101 if is_in_pod else event["verb"] in _WRITES
    if not (is_success and (is_in_pod or 200 <= code < 300)):
        return None
    # as the API server derives the manager of a write that names none
    manager = parse_qs(urlsplit(event["requestURI"]).query).get("fieldManager", [""])[0]
    return AuditedWrite(
        _person(event),
        subresource if is_in_pod else event["verb"],
        str(target.get("apiGroup", "")),
        str(target["resource"]),
        str(target.get("namespace", "")),
        str(target.get("name", "")),
        manager or str(event.get("userAgent", "")).partition("/")[0],
        datetime.fromisoformat(event["requestReceivedTimestamp"]),
    )


def _person(event: dict[str, Any]) -> str:
    user = str(event["user"]["username"])
    impersonated = str((event.get("impersonatedUser") or {}).get("username", ""))
    return f"{impersonated} (by {user})" if impersonated else user


def person_of(field: PastField, writes: Iterable[AuditedWrite]) -> str:
    """Return who changed a field, the newest of several that may have; empty where the log does not tell."""
    return editor_of(ClusterEdit(field.ref, field.manager, field.edited, field.detected, not field.path), writes)


def editor_of(edit: ClusterEdit, writes: Iterable[AuditedWrite]) -> str:
    """Return who made an edit, the newest of several that may have; empty where no write tells."""
    newest = max((write for write in writes if write.made(edit)), key=lambda write: write.time, default=None)
    return newest.person if newest is not None else ""


def edit_link(application: str, ref: ObjectRef, write: AuditedWrite, now: datetime) -> AuditRecord:
    """Return the link for what a person did to an object of an Application, or in one of its Pods."""
    details = {"person": write.person, "verb": write.verb, "manager": write.manager, "time": write.time.isoformat()}
    if write.is_in_pod:
        details["pod"] = write.name
    # of no sync, as for drift
    return AuditRecord(application, EDIT_ACTION, ref.path, Outcome.SUCCEEDED, now, EDIT_ACTION, details=details)


def writes_of(links: Iterable[AuditRecord]) -> Iterator[AuditedWrite]:
    """Yield the writes of links with the action ``EDIT_ACTION``."""
    for link in links:
        details = link.details
        ref = ObjectRef.from_path(link.resource)
        pod = str(details.get("pod") or "")
        yield AuditedWrite(
            str(details["person"]),
            str(details["verb"]),
            "" if pod else ref.group,
            "pods" if pod else ref.kind.lower(),
            ref.namespace,
            pod or ref.name,
            str(details["manager"]),
            datetime.fromisoformat(str(details["time"])),
        )
