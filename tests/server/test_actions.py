"""What people ask of an application, and what becomes of it."""

from __future__ import annotations

import orjson
import pytest

from gitsync.objects.change import Risk
from tests.server.conftest import Open
from tests.server.material import NOW, application, moved, resource

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
    assert opened.engine.records.approval(KEY, DIGEST, NOW) == "Grace"
    (link,) = opened.engine.records.audit_records(KEY)
    assert (link.action, link.approver, link.reasoning, link.digest) == ("approve", "Grace", "looked", DIGEST)
    assert opened.engine.requests.done == [("sync", KEY, "Grace")]


def test_an_approval_of_a_plan_that_moved_is_refused_and_says_so(site: Open) -> None:
    opened = site([HELD])
    opened.engine.view.views[KEY] = moved(HELD)
    answer = opened.post(f"{SHOP}/approve", {"digest": DIGEST, "by": "Grace"})
    assert answer.status == 409
    assert "The plan changed since the page was shown" in answer.text
    assert opened.engine.records.approval(KEY, DIGEST, NOW) == ""
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
    assert opened.engine.requests.done == []
    for page in ("/approvals", f"{SHOP}/plan"):
        text = " ".join(opened.get(page).text.split())
        assert "<b>Rejected</b> by Linus: not on Friday" in text
    assert "/reject" not in opened.get("/approvals").text
    overview = opened.get("/").text
    assert 'class="badge"' not in overview
    assert "Nothing. Every application" in overview


def test_a_closed_window_is_no_question_to_a_person(site: Open) -> None:
    closed = {"sync": {"windows": [{"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h"}]}}
    view = application(resources=[resource("a", sync="OutOfSync")], held=("a window is closed",), spec=closed)
    page = site([view]).get(f"{SHOP}/plan").text
    assert "a window is closed" in page
    assert "/approve" not in page


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
