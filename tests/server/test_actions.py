"""What people ask of an application, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from gitsync.objects.change import HoldReason, Review, Risk
from gitsync.objects.user import User
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, moved, resource

SHOP = "/apps/gitsync/shop"
KEY = "gitsync/shop"
HELD = application(resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)], held=("1 dangerous step waits",))
DIGEST = "d" * 64


def test_sync_suspend_and_resume_are_asked_of_the_engine(site: Open) -> None:
    opened = site([application()])
    for action in ("sync", "suspend", "resume"):
        answer = opened.post(f"{SHOP}/{action}")
        assert (answer.status, answer.headers["location"]) == (303, SHOP)
    assert opened.engine.requests.done == [("sync", KEY, "dashboard"), ("suspend", KEY), ("resume", KEY)]


def test_an_approval_is_stored_audited_and_carried_out(site: Open) -> None:
    opened = site([HELD])
    assert opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace", "reason": "looked"}).status == 303
    assert opened.engine.records.review(KEY, DIGEST, NOW) == Review(
        User("Grace"), True, "looked", NOW + timedelta(days=1)
    )
    (link,) = opened.engine.records.audit_records(KEY)
    assert (link.action, link.approver, link.reasoning, link.digest) == ("approve", "Grace", "looked", DIGEST)
    assert opened.engine.requests.done == [("sync", KEY, "Grace")]


def test_an_approval_of_a_plan_that_moved_is_refused_and_says_so(site: Open) -> None:
    opened = site([HELD])
    opened.engine.view.views[KEY] = moved(HELD)
    answer = opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace"})
    assert answer.status == 409
    assert "The plan changed since the page was shown" in answer.text
    assert opened.engine.records.review(KEY, DIGEST, NOW) is None
    assert opened.engine.records.audit_records() == ()
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_nothing_is_decided_where_nothing_waits(site: Open, action: str) -> None:
    answer = site([application()]).post(f"{SHOP}/{action}", {"digest": DIGEST, "by": "Grace", "reason": "why"})
    assert answer.status == 409


def test_a_decision_needs_a_name_and_a_rejection_a_reason(site: Open) -> None:
    opened = site([HELD])
    assert opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "  "}).status == 422
    assert opened.post(f"{SHOP}/reject", {"digest": DIGEST, "by": "Grace", "reason": " "}).status == 422
    assert opened.engine.records.audit_records() == ()


def test_a_rejected_plan_is_not_asked_about_again_and_shows_who_and_why(site: Open) -> None:
    opened = site([HELD])
    assert 'class="badge"' in opened.get("/").text
    assert opened.post(f"{SHOP}/reject", {"digest": DIGEST, "by": "Linus", "reason": "not on Friday"}).status == 303
    assert opened.engine.requests.done == [("look", KEY)]
    for page in ("/approvals", f"{SHOP}/plan"):
        text = " ".join(opened.get(page).text.split())
        assert "<b>Rejected</b> by Linus: not on Friday" in text
        assert "/reject" not in opened.get(page).text
    overview = opened.get("/").text
    assert 'class="badge"' not in overview
    assert "Nothing. Every application" in overview


def test_a_plan_of_another_replica_is_reviewed_there(site: Open) -> None:
    opened = site([replace(HELD, plan=None, verdict=None, resources=())])
    assert "another replica works on this application" in opened.get(f"{SHOP}/plan").text
    answer = opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace"})
    assert (answer.status, "Another replica works on this application" in answer.text) == (409, True)
    unknown = site([replace(application(), plan=None)]).get(f"{SHOP}/plan").text
    assert "No plan is known here." in unknown
    assert "every object is as Git says" not in unknown


def test_a_closed_window_is_no_question_to_a_person(site: Open) -> None:
    closed = {"sync": {"windows": [{"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h"}]}}
    found = [resource("a", sync="OutOfSync")]
    view = application(resources=found, held=("a window is closed",), holds=(HoldReason.WINDOW,), spec=closed)
    page = site([view]).get(f"{SHOP}/plan").text
    assert "a window is closed" in page
    assert "/approve" not in page


def test_an_approval_in_a_closed_window_is_taken_but_opens_none(site: Open) -> None:
    found = [resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)]
    held = ("1 dangerous step waits for an approver", "no Allow window is open")
    opened = site([application(resources=found, held=held, holds=(HoldReason.APPROVAL, HoldReason.WINDOW))])
    assert "/approve" in opened.get(f"{SHOP}/plan").text
    assert opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace"}).status == 303
    assert opened.engine.requests.done == [("look", KEY)]


def test_a_rejected_plan_is_approved_only_by_overruling(site: Open) -> None:
    opened = site([HELD])
    opened.post(f"{SHOP}/reject", {"digest": DIGEST, "by": "Linus", "reason": "not on Friday"})
    assert "Overrule Linus" in opened.get(f"{SHOP}/plan").text
    refused = opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace"})
    assert (refused.status, "rejected by Linus: not on Friday" in refused.text) == (403, True)
    assert opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace", "overrule": "yes"}).status == 303
    review = opened.engine.records.review(KEY, DIGEST, NOW)
    assert review is not None
    assert review.approves
    newest = opened.engine.records.audit_records(KEY)[0]
    assert (newest.action, newest.message) == ("approve", "overrules: rejected by Linus: not on Friday")


def test_the_audit_shows_both_sides_of_a_dispute_and_what_was_trimmed(site: Open) -> None:
    opened = site([HELD])
    opened.post(f"{SHOP}/reject", {"digest": DIGEST, "by": "Linus", "reason": "not on Friday"})
    opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace", "reason": "it is urgent", "overrule": "yes"})
    assert "it is urgent; overrules: rejected by Linus: not on Friday" in opened.get("/audit").text
    opened.engine.records.trim(NOW + timedelta(days=1), NOW)
    page = opened.get("/audit").text
    assert "records up to 2 are older than 2026-03-02 and were dropped" in page
    assert "the audit itself" in page
    assert 'href="/apps//"' not in page


def test_the_audit_is_filtered_paged_and_exported(site: Open) -> None:
    opened = site([HELD])
    for number in range(101):
        fields = {"digest": DIGEST, "by": f"Person {number}"}
        opened.post(f"{SHOP}/approve", fields)
    opened.post(f"{SHOP}/reject", {"digest": DIGEST, "by": "Linus", "reason": "enough"})
    rejected = opened.get("/audit?action=reject&app=gitsync%2Fshop").text
    assert "Linus" in rejected
    assert "Person" not in rejected
    first = opened.get("/audit").text
    older = first.partition('<a rel="next" href="')[2].partition('"')[0]
    assert "Person 0<" not in first
    assert "Person 0<" in opened.get(older).text.replace(",", "<")
    lines = [orjson.loads(line) for line in opened.get("/audit.jsonl?app=gitsync/shop").text.splitlines()]
    assert [line["id"] for line in lines] == list(range(1, 103))
    assert lines[-1]["previous"] == lines[-2]["hash"]
    assert opened.get("/audit.jsonl?app=gitsync/other").text == ""
