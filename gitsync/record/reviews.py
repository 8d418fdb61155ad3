"""Reviews of plans: the table finds them, the audit chain says what they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, select

from gitsync.errors import AuditMismatch
from gitsync.objects.change import APPROVE, REJECT, Review, review_of
from gitsync.objects.record import AuditHead, AuditRecord, Outcome
from gitsync.record.audit_chain import AUDIT_COLUMNS, broken, lost, record_of
from gitsync.record.tables import AUDIT, REVIEWS

_LINKS = (
    select(REVIEWS.c.link)
    .where(REVIEWS.c.application == bindparam("application"), REVIEWS.c.digest == bindparam("digest"))
    .order_by(REVIEWS.c.link)
)

_PLANS = (
    select(REVIEWS.c.application, REVIEWS.c.digest)
    .where(REVIEWS.c.digest.in_(bindparam("digests", expanding=True)))
    .distinct()
)


def keep(connection: Connection, link: AuditRecord) -> None:
    """Store the review of a link: a rejection replaces the approvals of its plan, an approval the rejection."""
    approves = int(link.action == APPROVE)
    until = review_of(link).until
    # an approval and a rejection of one plan exclude each other; the last decision counts
    connection.execute(delete(REVIEWS).where(_of_plan(link.application, link.digest), REVIEWS.c.approves != approves))
    # expired approvals of all plans, so that the table stays as small as what waits
    connection.execute(delete(REVIEWS).where(REVIEWS.c.approves == 1, REVIEWS.c.until <= _stamp(link.timestamp)))
    connection.execute(
        insert(REVIEWS).values(
            link=link.id,
            application=link.application,
            digest=link.digest,
            approves=approves,
            until=_stamp(until) if until else "",
        )
    )


def end(connection: Connection, application: str, digest: str) -> None:
    """Drop the approvals of a plan."""
    connection.execute(delete(REVIEWS).where(_of_plan(application, digest), REVIEWS.c.approves == 1))


def drop_dangling(connection: Connection) -> None:
    """Drop the reviews whose links were cut off by age."""
    connection.execute(delete(REVIEWS).where(REVIEWS.c.link < select(func.min(AUDIT.c.id)).scalar_subquery()))


def find(connection: Connection, application: str, digest: str, heads: Iterable[AuditHead]) -> list[AuditRecord]:
    """
    Return the links of the reviews of a plan that count, oldest first.

    Raise AuditMismatch where the chain from the first of them on, or from a head, is not as it was written.
    """
    ids = connection.execute(_LINKS, {"application": application, "digest": digest})
    links = [_link(connection, int(id), application, digest) for id in ids.scalars()]
    problems = [*broken(connection, links[0].id), *lost(connection, heads)] if links else []
    if problems:
        raise _mismatch(problems[0])
    return links


def plans_of(connection: Connection, digests: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return Application and digest of the plans that have rows, with one of these digests."""
    rows = connection.execute(_PLANS, {"digests": list(digests)})
    return frozenset((application, digest) for application, digest in rows)


def last_review(connection: Connection, links: list[AuditRecord], now: datetime, sync: str) -> Review | None:
    """
    Return the last of these reviews, with the users who approved the same or more before it; None where none is valid.
    """
    if not links or links[-1].action == REJECT:
        # a rejection stays until it is replaced: it neither expires nor is used up
        return review_of(links[-1]) if links else None
    # an approval is for one sync, and one that wrote something has used those before its writes; where a crash
    # interrupted it, they are still here, and must not use up the next one
    used = _last_use(connection, links[0], sync)
    unused = [review_of(link) for link in links if link.id > used]
    valid = [review for review in unused if review.until is not None and review.until > now]
    if not valid:
        return None
    last = valid[-1]
    others = {
        review.by.name: review.by for review in valid if review.by.name != last.by.name and _includes(review, last)
    }
    return replace(last, also=tuple(others.values()))


def _includes(review: Review, last: Review) -> bool:
    """Whether a review approved every step that the last one approved."""
    return not review.steps or (bool(last.steps) and set(last.steps) <= set(review.steps))


def _link(connection: Connection, id: int, application: str, digest: str) -> AuditRecord:
    row = connection.execute(select(*AUDIT_COLUMNS).where(AUDIT.c.id == id)).first()
    link = record_of(row) if row is not None else None
    # the row finds the link, and the link must confirm it: a row that was written by hand must not approve anything
    if link is None or (link.application, link.digest) != (application, digest) or link.action not in (APPROVE, REJECT):
        raise _mismatch(f"record {id} is not a review of it")
    return link


def _last_use(connection: Connection, review: AuditRecord, sync: str) -> int:
    """Return the last intent by which another sync used approvals of a plan after a review, 0 where none did."""
    query = select(*AUDIT_COLUMNS).where(AUDIT.c.application == review.application, AUDIT.c.id > review.id)
    links = [link for link in map(record_of, connection.execute(query)) if link.digest == review.digest]
    # a sync that was interrupted before its first write has not used the approval
    wrote = {link.sync for link in links if link.outcome is Outcome.SUCCEEDED} - {sync}
    intents = (link for link in links if link.outcome is Outcome.INTENDED and link.approver and link.sync in wrote)
    return max((intent.id for intent in intents), default=0)


def _mismatch(problem: str) -> AuditMismatch:
    return AuditMismatch(
        f"the audit chain does not confirm the review of this plan: {problem}",
        hint="`gitsync audit verify` lists what was changed; `gitsync audit accept` continues in spite of it",
    )


def _of_plan(application: str, digest: str) -> ColumnElement[bool]:
    return and_(REVIEWS.c.application == application, REVIEWS.c.digest == digest)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
