"""What people ask of an application, and what becomes of it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from gitsync.errors import Rejected, TransientError
from gitsync.gate.policy import Policy, Require
from gitsync.objects.change import HoldReason, Review, Risk
from gitsync.objects.holds import FieldHold
from gitsync.objects.record import Outcome
from gitsync.objects.user import User
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.app import create_app
from gitsync.server.auth.sessions import Session, Sessions
from tests.asgi_server import Answer, serve
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, StillView, access_of, application, changed, edited, engine, moved, resource

SHOP = "/apps/gitsync/shop"
KEY = "gitsync/shop"
HELD = application(resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)], held=("1 dangerous step waits",))
DIGEST = "d" * 64


def review(opened: Site, decision: str, **fields: str) -> Answer:
    """Send a review of the plan as its form would."""
    return opened.post(f"{SHOP}/review", {"decision": decision, "digest": DIGEST, **fields})


def test_sync_suspend_and_resume_are_asked_of_the_engine(site: Open) -> None:
    opened = site([application()])
    for action in ("sync", "suspend", "resume"):
        if action == "resume":
            opened.engine.view.views[KEY] = application(phase="Suspended")
        fields = {} if action == "sync" else {"by": "Ada", "reason": "maintenance"}
        answer = opened.post(f"{SHOP}/{action}", fields)
        assert (answer.status, answer.headers["location"]) == (303, SHOP)
    assert opened.engine.requests.done == [("sync", KEY, "dashboard"), ("suspend", KEY), ("resume", KEY)]
    links = [(link.action, link.approver, link.reasoning) for link in opened.engine.records.audit_records(KEY)]
    assert links == [
        ("resume", "Ada", "maintenance"),
        ("suspend", "Ada", "maintenance"),
        ("sync", "dashboard", "Sync now"),
    ]


SCALED = resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),))


def test_a_change_is_kept_from_the_page_of_drift(site: Open) -> None:
    opened = site([application("shop", [edited(SCALED)])])
    assert '<button class="quiet">Keep this</button>' in opened.get("/drift").text
    answer = opened.post(f"{SHOP}/keep", {"ref": SCALED.ref.path, "by": "Ada", "reason": "the queue grew"})
    assert (answer.status, answer.headers["location"]) == (303, SHOP)
    [(key, values, author)] = opened.engine.keeps.kept
    assert (key, author) == (KEY, "Ada")
    assert [(kept.path, kept.value, kept.manager) for kept in values] == [(".spec.replicas", 4, "kubectl-edit")]
    [link] = opened.engine.records.audit_records(KEY)
    assert (link.action, link.approver, link.details["objects"]) == ("adopt", "Ada", ["Deployment shop/web"])


def test_a_corrected_change_is_kept_from_the_audit(site: Open) -> None:
    opened = site([application("shop", [resource("web", "Deployment")])])
    drift = OpenDrift(edited(SCALED).change, NOW - timedelta(minutes=5))
    opened.engine.records.audit([ended_link(KEY, drift, NOW, EndedBy.SELF_HEAL)])
    opened.post(f"{SHOP}/keep", {"ref": SCALED.ref.path, "path": ".spec.replicas"})
    [(_, values, author)] = opened.engine.keeps.kept
    assert [(kept.path, kept.value) for kept in values] == [(".spec.replicas", 4)]
    assert author == "dashboard"


def test_only_an_object_can_be_kept(site: Open) -> None:
    opened = site([application()])
    assert opened.post(f"{SHOP}/keep", {"ref": "web"}).status in (400, 422)
    assert opened.engine.keeps.kept == []


def test_a_sync_can_have_a_person_and_a_reason(site: Open) -> None:
    opened = site([application()])
    assert f'href="/bulk?action=sync&amp;app={KEY}"' in opened.get(SHOP).text
    answer = opened.post("/bulk", {"action": "sync", "app": KEY, "by": "Ada", "reason": "the base changed"})
    assert answer.status == 200
    assert opened.engine.requests.done == [("sync", KEY, "Ada")]
    links = [(link.action, link.approver, link.reasoning) for link in opened.engine.records.audit_records(KEY)]
    assert links == [("sync", "Ada", "the base changed")]


def test_the_page_after_a_request_says_what_was_requested_once(site: Open) -> None:
    opened = site([application()])
    answer = opened.post(f"{SHOP}/sync")
    cookie = answer.headers["set-cookie"].partition(";")[0]
    page = opened.get(SHOP, Cookie=cookie)
    assert '<p class="notice" role="status">Sync requested.' in page.text
    assert 'gitsync-notice=""' in page.headers["set-cookie"]
    assert "notice" not in opened.get(SHOP, Cookie="gitsync-notice=<script>").text.partition("</header>")[2]


def test_a_suspended_application_names_who_suspended_it_and_why(site: Open) -> None:
    opened = site([application()])
    opened.post(f"{SHOP}/suspend", {"by": "Ada", "reason": "database move"})
    opened.engine.view.views[KEY] = application(phase="Suspended")
    assert re.search(
        r"By Ada <em[^>]*>\(name not proven\)</em>\s*, <time[^>]*>[^<]*</time>: database move", opened.get(SHOP).text
    )


@pytest.mark.parametrize("fields", [{}, {"by": "Ada"}, {"reason": "maintenance"}, {"by": " ", "reason": "x"}])
@pytest.mark.parametrize("action", ["suspend", "resume"])
def test_suspending_needs_a_name_and_a_reason(site: Open, action: str, fields: dict[str, str]) -> None:
    opened = site([application(phase="Suspended" if action == "resume" else "Synced")])
    assert opened.post(f"{SHOP}/{action}", fields).status == 422
    assert opened.engine.requests.done == []
    assert opened.engine.records.audit_records() == ()


def suspended(name: str) -> ApplicationView:
    return application(name, phase="Suspended")


def drifting(name: str, *objects: str) -> ApplicationView:
    """Return an Application of which others changed these objects."""
    drifted_objects = [resource(text, sync="OutOfSync") for text in objects or ("a",)]
    view = application(name, drifted_objects, phase="Drifted")
    assert view.plan is not None
    plan = replace(view.plan, repairs=view.plan.changes)
    return replace(view, plan=plan, status={**view.status, "drift": {"objects": len(drifted_objects)}})


@pytest.mark.parametrize(
    ("action", "requested", "refused"),
    [
        ("sync", {"shop": "sync", "drifted": "sync"}, {"asleep": "is suspended, so it is not synced; resume it first"}),
        (
            "revert-drift",
            {"drifted": "repair"},
            {"shop": "has no drift", "asleep": "is suspended, so it is not synced; resume it first"},
        ),
        ("suspend", {"shop": "suspend", "drifted": "suspend"}, {"asleep": "is suspended already"}),
        ("resume", {"asleep": "resume"}, {"shop": "is not suspended", "drifted": "is not suspended"}),
    ],
)
def test_a_request_for_several_is_audited_and_answered_for_each(
    site: Open, action: str, requested: dict[str, str], refused: dict[str, str]
) -> None:
    opened = site([application(), suspended("asleep"), drifting("drifted")])
    keys = ["gitsync/shop", "gitsync/asleep", "gitsync/drifted", "gitsync/gone"]
    refused = {**refused, "gone": "is not known"}
    asked = opened.get(f"/bulk?{urlencode({'action': action, 'app': keys}, doseq=True)}").text
    page = opened.post("/bulk", {"action": action, "app": keys, "by": "Ada", "reason": "release"}).text
    for name, problem in refused.items():
        assert re.search(rf"gitsync/{name}(</a>)?: {problem}", page)
        assert re.search(rf"gitsync/{name}(</a>)?: {problem}", asked)
    hidden = re.findall(r'name="app" value="gitsync/(\w+)"', asked)
    assert (set(hidden), len(hidden)) == (set(requested), len(requested))
    assert {entry[1].partition("/")[2]: entry[0] for entry in opened.engine.requests.done} == requested
    links = opened.engine.records.audit_records()
    actions = {name: "revert-drift" if word == "repair" else word for name, word in requested.items()}
    assert {link.application.partition("/")[2]: link.action for link in links} == actions
    assert {(link.approver, link.reasoning) for link in links} == {("Ada", "release")}
    assert len(links) == len(requested)


def test_objects_of_a_list_select_their_applications_once(site: Open) -> None:
    opened = site([application("a", [resource("x")]), application("b", [resource("y")]), suspended("asleep")])
    of_a, of_b = "gitsync/a /ConfigMap/shop/x", "gitsync/b /ConfigMap/shop/y"
    objects = [of_a, of_b, "gitsync/a apps/Deployment/shop/<web>", of_a, "gitsync/asleep /ConfigMap/shop/z"]
    asked = opened.get(f"/bulk?{urlencode({'action': 'sync', 'object': objects}, doseq=True)}").text
    assert "Sync: 2 applications" in asked
    texts = " ".join(re.sub(r"<[^>]*>", "", asked).split())
    assert "selected by ConfigMap x, Deployment &lt;web&gt;" in texts
    refused = "gitsync/asleep: is suspended, so it is not synced; resume it first"
    assert re.search(rf"{refused} ?selected by ConfigMap z", texts)
    page = opened.post("/bulk", {"action": "sync", "object": objects, "by": "Ada", "reason": "release"}).text
    assert "Requested for 2 applications" in page
    assert opened.engine.requests.done == [("sync", "gitsync/a", "Ada"), ("sync", "gitsync/b", "Ada")]
    links = opened.engine.records.audit_records()
    assert sorted(link.application for link in links) == ["gitsync/a", "gitsync/b"]
    assert {(link.approver, link.reasoning) for link in links} == {("Ada", "release")}


def test_drift_is_reverted_of_the_selected_objects_alone(site: Open) -> None:
    opened = site([drifting("shop", "a", "b")])
    fields = {"action": "revert-drift", "object": [f"{KEY} /ConfigMap/shop/b"]}
    asked = opened.get(f"/bulk?{urlencode(fields, doseq=True)}").text
    assert f'only <a href="/apps/{KEY}/object?ref=/ConfigMap/shop/b">ConfigMap b</a>' in " ".join(asked.split())
    assert '<a class="button quiet" href="/drift">Cancel</a>' in asked
    assert "Nothing else is written: no other object, and no commit." in asked
    opened.post("/bulk", {**fields, "by": "Ada", "reason": "by mistake"})
    assert opened.engine.requests.done == [("repair", KEY, "Ada", "/ConfigMap/shop/b")]
    (link,) = opened.engine.records.audit_records()
    assert (link.action, link.approver, link.reasoning) == ("revert-drift", "Ada", "by mistake")
    assert link.details["objects"] == ["ConfigMap shop/b"]
    assert "Drift reverted on request" in opened.get("/changes?q=kind:revert-drift").text


def test_the_api_reverts_drift_of_named_objects_or_of_all(site: Open) -> None:
    opened = site([drifting("shop", "a", "b"), suspended("asleep")])
    url = f"/api/v1/applications/{KEY}/revert-drift"

    def send(url: str = url, **word: Any) -> int:
        body = orjson.dumps({"by": "Ada", "reason": "by mistake", **word})
        return opened.web.ask(url, method="POST", body=body, headers={"Content-Type": "application/json"}).status

    assert send(objects=["/ConfigMap/shop/b"]) == 200
    assert send() == 200
    assert send(objects=["/ConfigMap/shop/c"]) == 409
    assert send(objects=["c"]) == 422
    assert send(reason="") == 422
    assert send("/api/v1/applications/gitsync/asleep/revert-drift") == 409
    assert opened.engine.requests.done == [
        ("repair", KEY, "Ada", "/ConfigMap/shop/b"),
        ("repair", KEY, "Ada", "/ConfigMap/shop/a", "/ConfigMap/shop/b"),
    ]


@pytest.mark.parametrize("text", ["gitsync/shop", "gitsync/shop ConfigMap", "", "gitsync/shop <b>"])
def test_a_text_that_names_no_object_requests_nothing(site: Open, text: str) -> None:
    opened = site([application()])
    answer = opened.post("/bulk", {"action": "sync", "object": [text], "by": "Ada", "reason": "release"})
    assert answer.status == 422
    assert "is not the application and reference of an object" in answer.text
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("path", ["/apps", "/objects", "/drift"])
def test_rows_are_selected_unless_the_dashboard_is_read_only(site: Open, path: str) -> None:
    item = edited(resource("a", sync="OutOfSync", differences=(changed(),)))
    views = [replace(drifting("drifted"), resources=(item,))]
    assert ">Suspend…</button>" in (page := site(views).get(path).text)
    assert "data-pick" in page
    assert "data-pick" not in (read_only := site(views, read_only=True).get(path).text)
    assert "/bulk" not in read_only


def test_one_failed_request_of_several_does_not_stop_the_others(site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = site([application("a"), application("b"), application("c")])
    suspend = opened.engine.requests.suspend

    def fails_for_b(self: object, key: str, suspended: bool) -> bool:
        if key == "gitsync/b":
            raise TransientError("the API server does not answer")
        return suspend(key, suspended)

    monkeypatch.setattr(type(opened.engine.requests), "suspend", fails_for_b)
    keys = ["gitsync/a", "gitsync/b", "gitsync/c"]
    page = opened.post("/bulk", {"action": "suspend", "app": keys, "by": "Ada", "reason": "release"}).text
    assert "Requested for 2 applications" in page
    assert re.search(r"gitsync/b</a>: .*the API server does not answer", page)
    assert opened.engine.requests.done == [("suspend", "gitsync/a"), ("suspend", "gitsync/c")]


@pytest.mark.parametrize("fields", [{"by": "Ada"}, {"reason": "release"}])
def test_a_request_for_several_needs_a_name_and_a_reason(site: Open, fields: dict[str, str]) -> None:
    opened = site([application()])
    assert opened.post("/bulk", {"action": "sync", "app": [KEY], **fields}).status == 422
    assert opened.post("/bulk", {"action": "delete", "app": [KEY], "by": "Ada", "reason": "x"}).status == 422
    assert opened.engine.requests.done == []


def test_a_request_for_several_is_refused_to_those_who_are_no_operators(site: Open) -> None:
    opened = site([application()])
    require = Require.model_validate({"operators": {"groups": ["operators"]}})
    opened.engine.policies.policy = Policy(name="team", require=(require,))
    page = opened.post("/bulk", {"action": "sync", "app": [KEY], "by": "Ada", "reason": "release"}).text
    assert "not one of the operators" in page
    assert opened.engine.requests.done == []
    assert opened.engine.records.audit_records() == ()


@pytest.mark.parametrize("decision", [{}, {"decision": ""}, {"decision": "yes"}, {"approve": "approve"}])
def test_a_review_without_a_decision_is_rejected(site: Open, decision: dict[str, str]) -> None:
    opened = site([HELD])
    answer = opened.post(f"{SHOP}/review", {"digest": DIGEST, "by": "Ada", "reason": "NO: deletes data", **decision})
    assert answer.status == 422
    assert "no decision was made" in answer.text
    assert "NO: deletes data</textarea>" in answer.text
    assert opened.engine.records.audit_records() == ()
    assert opened.engine.requests.done == []


def test_nothing_is_preselected_and_the_button_that_enter_presses_decides_nothing(site: Open) -> None:
    form = site([HELD]).get(f"{SHOP}/plan").text.partition('class="decide"')[2].partition("</form>")[0]
    assert "checked" not in form
    assert form.count('type="radio" name="decision"') == 2
    assert form.index('<button name="implicit"') < form.index("<button>Submit review")
    opened = site([HELD])
    answer = review(opened, "approve", by="Ada", reason="NO", implicit="yes")
    assert (answer.status, "NO</textarea>" in answer.text) == (422, True)
    assert opened.engine.records.audit_records() == ()


def test_a_stale_review_shows_what_changed_and_keeps_the_text(site: Open) -> None:
    opened = site([HELD])
    shown = re.search(r'name="shown" value="([^"]+)"', opened.get(f"{SHOP}/plan").text)
    assert shown is not None
    other = moved(application(resources=[resource("b", "PersistentVolumeClaim", sync="OutOfSync")], held=("it waits",)))
    opened.engine.view.views[KEY] = other
    fields = {"digest": DIGEST, "decision": "reject", "by": "Grace", "reason": "not on Friday", "shown": shown[1]}
    answer = opened.post(f"{SHOP}/review", fields)
    assert answer.status == 409
    assert "new step: update PersistentVolumeClaim shop/b (Safe)" in answer.text
    assert "no longer planned: update ConfigMap shop/a (Dangerous)" in answer.text
    assert "not on Friday</textarea>" in answer.text
    assert 'value="Grace"' in answer.text
    assert f'value="{"e" * 64}"' in answer.text
    again = opened.get(f"{SHOP}/review")
    assert (again.status, again.headers["location"]) == (303, f"{SHOP}/plan")


def test_what_changed_is_said_by_a_replica_that_never_showed_the_plan(tmp_path: Path) -> None:
    still = engine(tmp_path, [HELD])
    access = access_of(token="t" * 40, sessions=Sessions("k" * 40))
    signed_in = {"Authorization": f"Bearer {'t' * 40}"}
    with serve(create_app(still, access)) as one, serve(create_app(still, access)) as two:
        page = Site(one, still, access).get(f"{SHOP}/plan", **signed_in).text
        shown = re.search(r'name="shown" value="([^"]+)"', page)
        assert shown is not None
        still.view.views[KEY] = moved(HELD)
        other = Site(two, still, access)
        fields = {"digest": DIGEST, "decision": "approve", "by": "Grace"}
        answer = other.post(f"{SHOP}/review", {**fields, "shown": shown[1]}, **signed_in)
        assert (answer.status, "the steps are the same" in answer.text) == (409, True)
        for text in ("", "made up", access.sessions.issue(Session(name="ada"))):
            answer = other.post(f"{SHOP}/review", {**fields, "shown": text}, **signed_in)
            assert (answer.status, "the steps are the same" in answer.text) == (409, False)
        # what is sealed for a form signs no browser in
        assert other.get("/apps", Cookie=f"gitsync-session-{other.port}={shown[1]}").status == 401
    still.records.close()


def test_an_approval_is_stored_audited_and_carried_out(site: Open) -> None:
    opened = site([HELD])
    assert (
        opened.post(
            f"{SHOP}/review", {"decision": "approve", "digest": DIGEST, "by": "Grace", "reason": "looked"}
        ).status
        == 303
    )
    assert opened.engine.records.review(KEY, DIGEST, NOW) == Review(
        User("Grace"), True, "looked", NOW + timedelta(days=1)
    )
    (link,) = opened.engine.records.audit_records(KEY)
    assert (link.action, link.approver, link.reasoning, link.digest) == ("approve", "Grace", "looked", DIGEST)
    assert opened.engine.requests.done == [("look", KEY)]  # the commit starts the sync, not the approver


def test_an_approval_of_a_plan_that_moved_is_refused_and_says_so(site: Open) -> None:
    opened = site([HELD])
    opened.engine.view.views[KEY] = moved(HELD)
    answer = review(opened, "approve", by="Grace")
    assert answer.status == 409
    assert "the plan changed since it was shown" in answer.text
    assert opened.engine.records.review(KEY, DIGEST, NOW) is None
    assert opened.engine.records.audit_records() == ()
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_nothing_is_decided_where_nothing_waits(site: Open, decision: str) -> None:
    fields = {"decision": decision, "digest": DIGEST, "by": "Grace", "reason": "why"}
    answer = site([application()]).post(f"{SHOP}/review", fields)
    assert answer.status == 409


def test_a_decision_needs_a_name_and_a_rejection_a_reason(site: Open) -> None:
    opened = site([HELD])
    assert review(opened, "approve", by="  ").status == 422
    assert review(opened, "reject", by="Grace", reason=" ").status == 422
    assert opened.engine.records.audit_records() == ()


def test_a_rejected_plan_is_not_asked_about_again_and_shows_who_and_why(site: Open) -> None:
    opened = site([HELD])
    assert 'class="badge"' in opened.get("/").text
    assert (
        opened.post(
            f"{SHOP}/review", {"decision": "reject", "digest": DIGEST, "by": "Linus", "reason": "not on Friday"}
        ).status
        == 303
    )
    assert opened.engine.requests.done == [("look", KEY)]
    for page in ("/approvals", f"{SHOP}/plan"):
        text = " ".join(opened.get(page).text.split())
        assert re.search(r"<b>Rejected</b> by Linus <em[^>]*>\(name not proven\)</em> ?: not on Friday", text)
        assert 'value="reject"' not in opened.get(page).text
    overview = opened.get("/").text
    assert 'class="badge"' not in overview
    assert "s-awaitingapproval" in overview  # until the controller has seen the rejection


UNOBSERVED = "gitsync-1 works on it, and this replica cannot observe it: the Git server does not answer"


@pytest.mark.parametrize("shown", [None, "e" * 64])
def test_a_replica_that_cannot_observe_an_application_names_the_one_that_works_on_it(
    site: Open, shown: str | None
) -> None:
    """Without a plan, and with one that was observed before the Git server was lost."""
    plan = replace(HELD.plan, digest=shown) if shown is not None and HELD.plan is not None else None
    opened = site([replace(HELD, plan=plan, unobserved=UNOBSERVED)])
    assert UNOBSERVED in opened.get(f"{SHOP}/plan").text
    answer = review(opened, "approve", by="Grace")
    assert (answer.status, UNOBSERVED in answer.text, "port-forward" in answer.text) == (409, True, True)
    assert opened.engine.records.audit_records() == ()


@pytest.mark.parametrize("request_path", ["revert-drift", "sync"])
def test_drift_and_objects_that_a_replica_cannot_observe_are_for_another_one(site: Open, request_path: str) -> None:
    opened = site([replace(drifting("shop"), plan=None, unobserved=UNOBSERVED)])
    answer = sent(opened, request_path, objects=["/ConfigMap/shop/a"])
    assert (answer.status, UNOBSERVED in answer.text) == (409, True)
    assert opened.engine.requests.done == []


def test_a_plan_that_is_not_known_yet_is_reviewed_later(site: Open) -> None:
    answer = review(site([replace(HELD, plan=None, verdict=None, resources=())]), "approve", by="Grace")
    assert (answer.status, "its plan is not known yet" in answer.text) == (409, True)
    unknown = site([replace(application(), plan=None)]).get(f"{SHOP}/plan").text
    assert "No plan is known here." in unknown
    assert "every object matches Git" not in unknown


def test_a_closed_window_is_no_question_to_a_person(site: Open) -> None:
    closed = {"sync": {"windows": [{"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h"}]}}
    found = [resource("a", sync="OutOfSync")]
    view = application(resources=found, held=("a window is closed",), holds=(HoldReason.WINDOW,), spec=closed)
    page = site([view]).get(f"{SHOP}/plan").text
    assert "a window is closed" in page
    assert "/review" not in page


def test_an_approval_in_a_closed_window_is_taken_but_opens_none(site: Open) -> None:
    found = [resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)]
    held = ("1 dangerous step waits for an approval", "no Allow window is open")
    opened = site([application(resources=found, held=held, holds=(HoldReason.APPROVAL, HoldReason.WINDOW))])
    assert "/review" in opened.get(f"{SHOP}/plan").text
    assert review(opened, "approve", by="Grace").status == 303
    assert opened.engine.requests.done == [("look", KEY)]


def test_a_rejected_plan_is_approved_only_by_overruling(site: Open) -> None:
    opened = site([HELD])
    review(opened, "reject", by="Linus", reason="not on Friday")
    assert "Overrule Linus's rejection" in opened.get(f"{SHOP}/plan").text
    refused = review(opened, "approve", by="Grace")
    assert (refused.status, "rejected by Linus: not on Friday" in refused.text) == (403, True)
    assert (
        opened.post(
            f"{SHOP}/review", {"decision": "approve", "digest": DIGEST, "by": "Grace", "overrule": "yes"}
        ).status
        == 303
    )
    taken = opened.engine.records.review(KEY, DIGEST, NOW)
    assert taken is not None
    assert taken.approves
    newest = opened.engine.records.audit_records(KEY)[0]
    assert (newest.action, newest.message) == ("approve", "overrules: rejected by Linus: not on Friday")


def test_the_audit_shows_both_sides_of_a_dispute_and_what_was_trimmed(site: Open) -> None:
    opened = site([HELD])
    review(opened, "reject", by="Linus", reason="not on Friday")
    opened.post(
        f"{SHOP}/review",
        {"decision": "approve", "digest": DIGEST, "by": "Grace", "reason": "it is urgent", "overrule": "yes"},
    )
    assert "it is urgent; overrules: rejected by Linus: not on Friday" in opened.get("/audit").text
    opened.engine.records.trim(NOW, before=NOW + timedelta(days=1))
    page = opened.get("/audit").text
    assert "records up to 2 were dropped: older than 2026-03-02" in page
    assert "Audit trimmed" in page
    assert 'href="/apps//"' not in page


def test_the_audit_is_filtered_paged_and_exported(site: Open) -> None:
    opened = site([HELD])
    for number in range(101):
        fields = {"decision": "approve", "digest": DIGEST, "by": f"Person {number}"}
        opened.post(f"{SHOP}/review", fields)
    review(opened, "reject", by="Linus", reason="enough")
    rejected = opened.get("/audit?action=reject&app=gitsync%2Fshop").text
    assert "Linus" in rejected
    assert "Person" not in rejected
    first = opened.get("/audit").text
    older = first.partition('<a rel="next" href="')[2].partition('"')[0]
    assert "Person 0 <" not in first
    assert "Person 0 <" in opened.get(older).text
    lines = [orjson.loads(line) for line in opened.get("/audit.jsonl?app=gitsync/shop").text.splitlines()]
    assert [line["id"] for line in lines] == list(range(1, 103))
    assert lines[-1]["previous"] == lines[-2]["hash"]
    assert opened.get("/audit.jsonl?app=gitsync/other").text == ""


def workload(name: str, settings: str) -> ResourceView:
    """Return a Deployment that waits for a step and reads a ConfigMap."""
    item = resource(name, "Deployment", sync="OutOfSync", risk=Risk.DANGEROUS)
    container = {"name": "a", "envFrom": [{"configMapRef": {"name": settings}}]}
    spec = {"spec": {"template": {"spec": {"containers": [container]}}}}
    return replace(item, change=replace(item.change, desired={**(item.change.live or {}), **spec}))


def parts() -> ApplicationView:
    """Return an application whose plan has a ConfigMap that a Deployment reads, and another one."""
    found = [resource(name, sync="OutOfSync") for name in ("settings", "other")]
    return application(resources=[*found, workload("web", "settings")], held=("1 dangerous step waits",))


SETTINGS, OTHER, WEB = "/ConfigMap/shop/settings", "/ConfigMap/shop/other", "apps/Deployment/shop/web"


def test_some_steps_are_approved_and_the_audit_names_them(site: Open) -> None:
    opened = site([parts()])
    page = opened.get(f"{SHOP}/plan").text
    assert page.count('name="step"') == 3
    assert "checked" not in page
    assert "Needs ConfigMap settings, which is used by it" in " ".join(page.split())
    fields = {"decision": "approve-selected", "digest": DIGEST, "by": "Grace", "step": [SETTINGS, WEB]}
    answer = opened.post(f"{SHOP}/review", fields)
    assert (answer.status, answer.headers["location"]) == (303, f"{SHOP}/plan")
    taken = opened.engine.records.review(KEY, DIGEST, NOW)
    assert taken is not None
    assert taken.steps == (SETTINGS, WEB)
    assert "2 of 3 steps: ConfigMap shop/settings, Deployment shop/web" in opened.get("/audit").text


def test_a_selection_without_what_it_needs_is_completed_visibly_and_asked_again(site: Open) -> None:
    opened = site([parts()])
    fields = {"decision": "approve-selected", "digest": DIGEST, "by": "Grace", "reason": "only web", "step": [WEB]}
    answer = opened.post(f"{SHOP}/review", fields)
    assert answer.status == 422
    assert "the selected steps need ConfigMap shop/settings" in answer.text
    assert answer.text.count(" checked") == 2
    assert "only web</textarea>" in answer.text
    assert opened.engine.records.audit_records() == ()


@pytest.mark.parametrize("steps", [[], ["/ConfigMap/shop/unknown"]])
def test_an_approval_of_no_step_is_refused(site: Open, steps: list[str]) -> None:
    opened = site([parts()])
    fields = {"decision": "approve-selected", "digest": DIGEST, "by": "Grace", "step": steps}
    answer = opened.post(f"{SHOP}/review", fields)
    assert (answer.status, "no step is selected" in answer.text) == (422, True)
    assert opened.engine.records.audit_records() == ()


def test_an_approval_of_every_step_is_one_of_the_plan(site: Open) -> None:
    opened = site([parts()])
    fields = {"decision": "approve-selected", "digest": DIGEST, "by": "Grace", "step": [SETTINGS, OTHER, WEB]}
    assert opened.post(f"{SHOP}/review", fields).status == 303
    taken = opened.engine.records.review(KEY, DIGEST, NOW)
    assert taken is not None
    assert taken.steps == ()


def test_the_api_names_what_each_step_needs_and_refuses_a_part_without_it(site: Open) -> None:
    opened = site([parts()])
    steps = orjson.loads(opened.get("/api/v1/applications/gitsync/shop/plan").text)["steps"]
    assert {step["path"]: step["needs"] for step in steps} == {SETTINGS: [], OTHER: [], WEB: [SETTINGS]}

    def send(*chosen: str) -> Answer:
        word = {"digest": DIGEST, "verdict": "approve", "by": "Grace", "steps": chosen}
        kind = {"Content-Type": "application/json"}
        path = "/api/v1/applications/gitsync/shop/review"
        return opened.web.ask(path, method="POST", body=orjson.dumps(word), headers=kind)

    refused = send(WEB)
    assert (refused.status, "depend on ConfigMap shop/settings" in refused.text) == (422, True)
    assert "has no step for" in send("/ConfigMap/shop/unknown").text
    assert send(OTHER).status == 200


POD_OWNER = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}]}


def running() -> list[ResourceView]:
    """Return a Deployment and a Pod that a controller owns, as they are in the cluster."""
    web = resource("web", "Deployment")
    web = replace(web, change=replace(web.change, live={**(web.change.live or {}), "apiVersion": "apps/v1"}))
    pod = resource("web-1-x", "Pod")
    live = {**(pod.change.live or {}), "metadata": {**(pod.change.live or {})["metadata"], **POD_OWNER}}
    return [web, replace(pod, change=replace(pod.change, live=live))]


WORKLOADS = [
    pytest.param("restart", "apps/Deployment/shop/web", "Restart…", "All its Pods are replaced", id="restart"),
    pytest.param("delete-pod", "/Pod/shop/web-1-x", "Delete Pod…", "its controller creates another", id="delete"),
]


@pytest.mark.parametrize(("action", "ref", "link", "effect"), WORKLOADS)
def test_a_workload_is_changed_after_a_question(site: Open, action: str, ref: str, link: str, effect: str) -> None:
    opened = site([application(resources=running(), phase="Suspended")])
    assert link in opened.get(f"{SHOP}/object?ref={ref}").text
    url = f"{SHOP}/object/action?ref={ref}"
    assert effect in opened.get(f"{url}&action={action}").text
    name = ref.rpartition("/")[2]
    form = {"action": action, "uid": f"uid-{name}", "by": "Ada", "reason": "it hangs"}
    assert opened.post(url, {**form, "reason": ""}).status == 422
    assert opened.post(url, {**form, "uid": "another"}).status == 409
    assert opened.engine.records.audit_records() == ()
    answer = opened.post(url, form)
    assert answer.status == 303
    assert opened.get(answer.headers["location"]).status == 200
    assert opened.engine.workloads.done == [(action, KEY, name)]
    after, before = opened.engine.records.audit_records()
    assert (before.outcome, after.outcome) == (Outcome.INTENDED, Outcome.SUCCEEDED)
    assert {(link.action, link.resource, link.approver, link.reasoning) for link in (before, after)} == {
        (action, ref, "Ada", "it hangs")
    }
    changes = opened.get(f"/changes?q=kind:{action}").text
    assert changes.count(f"on request: {ref.split('/')[1]} shop/{name}") == 1


def test_a_refused_write_to_a_workload_is_in_the_audit(site: Open) -> None:
    opened = site([application(resources=running())])
    opened.engine.workloads.error = Rejected("pods is forbidden", code=403)
    form = {"action": "delete-pod", "uid": "uid-web-1-x", "by": "Ada", "reason": "it hangs"}
    answer = opened.post(f"{SHOP}/object/action?ref=/Pod/shop/web-1-x", form)
    assert (answer.status, "pods is forbidden" in answer.text) == (422, True)
    after, before = opened.engine.records.audit_records()
    assert (before.outcome, after.outcome, after.message) == (Outcome.INTENDED, Outcome.FAILED, "pods is forbidden")


def test_only_operators_change_a_workload(site: Open) -> None:
    opened = site([application(resources=running())])
    opened.engine.policies.policy = Policy(
        "team", require=(Require.model_validate({"operators": {"users": ["grace"]}}),)
    )
    ref = "apps/Deployment/shop/web"
    assert "Restart…" not in opened.get(f"{SHOP}/object?ref={ref}").text
    asked = opened.get(f"{SHOP}/object/action?action=restart&ref={ref}").text
    assert "is not one of the operators" in asked
    assert '<form method="post" action="/apps/gitsync/shop/object/action' not in asked
    form = {"action": "restart", "uid": "uid-web", "by": "Ada", "reason": "x"}
    assert opened.post(f"{SHOP}/object/action?ref={ref}", form).status == 403
    assert opened.engine.workloads.done == []
    assert opened.engine.records.audit_records() == ()


def test_an_object_without_pods_has_no_action(site: Open) -> None:
    opened = site([application(resources=[resource("settings")])])
    page = opened.get(f"{SHOP}/object?ref=/ConfigMap/shop/settings").text
    assert "object/action" not in page
    refused = opened.get(f"{SHOP}/object/action?action=restart&ref=/ConfigMap/shop/settings").text
    assert "cannot be the object of restart" in refused
    assert opened.get(f"{SHOP}/object/action?action=restart&ref=/ConfigMap/shop/none").status == 404


def test_the_api_changes_a_workload(site: Open) -> None:
    opened = site([application(resources=running())])

    def send(**word: Any) -> Answer:
        body = orjson.dumps({"by": "Ada", "reason": "it hangs", **word})
        headers = {"Content-Type": "application/json"}
        return opened.web.ask(f"/api/v1/applications/{KEY}/workload", method="POST", body=body, headers=headers)

    answer = send(action="restart", object="apps/Deployment/shop/web")
    assert orjson.loads(answer.text) == {"application": KEY, "action": "restart", "by": "Ada"}
    assert send(action="restart", object="/Pod/shop/web-1-x").status == 409
    assert send(action="delete-pod", object="/Pod/shop/none").status == 404
    assert send(action="exec", object="/Pod/shop/web-1-x").status == 422
    assert send(action="delete-pod", object="/Pod/shop/web-1-x").status == 200
    assert [done[0] for done in opened.engine.workloads.done] == ["restart", "delete-pod"]


CHOSEN = "/ConfigMap/shop/a"
DIFFERING = application(
    resources=[resource("a", sync="OutOfSync"), resource("b", sync="OutOfSync"), resource("c")], phase="Pending"
)


def test_chosen_objects_are_synced_with_their_options(site: Open) -> None:
    opened = site([DIFFERING])
    assert f'href="{SHOP}/sync"' in opened.get(f"{SHOP}/diff").text
    link = f'href="{SHOP}/sync?object=/ConfigMap/shop/a"'
    assert link in opened.get(f"{SHOP}/object?ref={CHOSEN}").text
    form = opened.get(f"{SHOP}/sync?object={CHOSEN}").text
    assert re.findall(r'name="object" value="([^"]*)"( checked)?', form) == [
        (CHOSEN, " checked"),
        (f"{CHOSEN[:-1]}b", ""),
    ]
    fields = {"object": CHOSEN, "replace": "true", "by": "Ada", "reason": "it is stuck"}
    assert opened.post(f"{SHOP}/sync/objects", {**fields, "reason": ""}).status == 422
    assert opened.engine.requests.done == []
    answer = opened.post(f"{SHOP}/sync/objects", fields)
    assert (answer.status, answer.headers["location"]) == (303, SHOP)
    assert opened.engine.requests.done == [("sync-objects", KEY, "Ada", "ConfigMap shop/a", "replace")]
    [link] = opened.engine.records.audit_records(KEY)
    assert (link.action, link.approver, link.message) == ("sync-objects", "Ada", "ConfigMap shop/a; replace")
    assert "Sync of chosen objects requested" in opened.get("/changes?q=kind:sync-objects").text


def test_a_dry_run_of_chosen_objects_shows_answers_and_keeps_the_form(site: Open) -> None:
    opened = site([DIFFERING])
    opened.engine.dry_runs.errors["b"] = Rejected("data: Forbidden: field is immutable", code=422)
    page = opened.post(f"{SHOP}/sync/objects", {"dry_run": "true", "prune": "true", "object": CHOSEN})
    assert (page.status, "Nothing was written." in page.text, "Accepted." in page.text) == (200, True, True)
    assert re.search(rf'value="{CHOSEN}" checked', page.text)
    assert re.search(r'name="prune" value="true" checked', page.text)
    page = opened.post(f"{SHOP}/sync/objects", {"dry_run": "true", "object": f"{CHOSEN[:-1]}b"})
    assert "Refused:</b> data: Forbidden: field is immutable" in page.text
    assert [name for _, name, _ in opened.engine.dry_runs.asked] == ["ConfigMap shop/a", "ConfigMap shop/b"]
    assert opened.engine.requests.done == []
    assert opened.engine.records.audit_records() == ()


def test_only_operators_sync_chosen_objects(site: Open) -> None:
    opened = site([DIFFERING])
    opened.engine.policies.policy = Policy(
        "team", require=(Require.model_validate({"operators": {"users": ["grace"]}}),)
    )
    asked = opened.get(f"{SHOP}/sync").text
    assert "is not one of the operators" in asked
    assert f'action="{SHOP}/sync/objects"' not in asked
    fields = {"object": CHOSEN, "by": "Ada", "reason": "x"}
    for form in (fields, {**fields, "dry_run": "true"}):
        assert opened.post(f"{SHOP}/sync/objects", form).status == 403
    assert (opened.engine.requests.done, opened.engine.dry_runs.asked) == ([], [])
    assert opened.engine.records.audit_records() == ()


def test_the_api_syncs_chosen_objects(site: Open) -> None:
    opened = site([DIFFERING])

    def send(**word: Any) -> tuple[int, dict[str, Any]]:
        body = orjson.dumps({"by": "Ada", "reason": "it is stuck", **word})
        headers = {"Content-Type": "application/json"}
        answer = opened.web.ask(f"/api/v1/applications/{KEY}/sync", method="POST", body=body, headers=headers)
        return answer.status, orjson.loads(answer.text)

    status, answer = send(objects=[CHOSEN], dryRun=True)
    [step] = answer["steps"]
    assert (status, answer["action"], step["path"], step["outcome"]) == (200, "dry-run", CHOSEN, "Succeeded")
    assert opened.engine.requests.done == []
    status, answer = send(objects=[CHOSEN], prune=True)
    assert (status, answer["action"], answer["request"]) == (200, "sync-objects", "request-1")
    # an option without objects is never a sync of all
    status, answer = send(replace=True)
    assert (status, answer["detail"]) == (422, f"Application {KEY}: no object is chosen; choose at least one")
    assert opened.engine.requests.done == [("sync-objects", KEY, "Ada", "ConfigMap shop/a", "prune")]
    assert send()[1]["action"] == "sync"


HOLD = FieldHold(SCALED.ref, ".spec.replicas", NOW + timedelta(minutes=30), "Ada", "the queue <grows>")
HOLD_FORM = {"ref": SCALED.ref.path, "path": "spec.replicas", "minutes": "30", "by": "Ada", "reason": "it grows"}


def holding(*holds: FieldHold) -> ApplicationView:
    view = application("shop", [edited(SCALED)])
    assert view.application is not None
    return replace(view, application=replace(view.application, holds=holds))


def test_a_field_is_held_by_its_form(site: Open) -> None:
    opened = site([holding()])
    link = f"{SHOP}/hold?{urlencode({'ref': SCALED.ref.path, 'path': '.spec.replicas'})}"
    # jinja's urlencode keeps slashes
    assert html.escape(link.replace("%2F", "/")) in opened.get("/drift").text
    assert 'value=".spec.replicas"' in opened.get(link).text
    answer = opened.post(f"{SHOP}/hold", HOLD_FORM)
    assert (answer.status, answer.headers["location"]) == (303, SHOP)
    assert opened.engine.requests.done == [("hold", KEY, HOLD.name)]
    [record] = opened.engine.records.audit_records(KEY)
    assert (record.action, record.approver, record.reasoning) == ("hold", "Ada", "it grows")
    assert (record.resource, record.message.split()[0]) == (SCALED.ref.path, ".spec.replicas")


def test_a_hold_needs_a_field_a_time_a_name_and_a_reason(site: Open) -> None:
    opened = site([holding()])
    for field, value in (*(("minutes", text) for text in ("0", "1441", "soon")), ("path", "spec..["), ("ref", "web")):
        assert opened.post(f"{SHOP}/hold", HOLD_FORM | {field: value}).status in (400, 422), field
    for field in HOLD_FORM:
        assert opened.post(f"{SHOP}/hold", HOLD_FORM | {field: ""}).status in (400, 422), field
    assert (opened.engine.requests.done, opened.engine.records.audit_records(KEY)) == ([], ())


def test_every_page_shows_what_is_held_until_it_ends(site: Open) -> None:
    opened = site([holding(HOLD)])
    for page in ("/", "/apps", "/drift", "/audit", "/changes", SHOP, f"{SHOP}/history", "/settings"):
        text = opened.get(page).text
        assert "Deployment web .spec.replicas" in text, page
        assert "the queue &lt;grows&gt;" in text, page
    opened.engine.view.views[KEY] = holding(replace(HOLD, until=NOW - timedelta(seconds=1)))
    assert "the queue" not in opened.get("/").text


def test_the_sign_in_page_shows_nothing_of_what_is_held_or_waits(site: Open) -> None:
    held = replace(HELD, key="gitsync/other")
    opened = site([holding(HOLD), held], token="t" * 43)
    text = opened.get("/sign-in").text
    assert "Access token" in text
    for secret in ("queue", "Held", "shop", "badge", "Reviews"):
        assert secret not in text, secret
    shown = opened.get("/", Authorization=f"Bearer {'t' * 43}").text
    assert "the queue &lt;grows&gt;" in shown
    assert 'class="badge"' in shown


def test_a_hold_is_ended_from_any_page(site: Open) -> None:
    opened = site([holding(HOLD)])
    assert opened.post(f"{SHOP}/unhold", {"hold": "gitsync.dev/hold-other"}).status == 409
    assert opened.post(f"{SHOP}/unhold", {"hold": HOLD.name}).status == 303
    assert opened.engine.requests.done == [("unhold", KEY, HOLD.name)]
    [record] = opened.engine.records.audit_records(KEY)
    assert (record.action, record.message) == ("unhold", ".spec.replicas")


def test_only_operators_hold_fields(site: Open) -> None:
    require = Require.model_validate({"operators": {"groups": ["operators"]}})
    opened = site([holding(HOLD)])
    opened.engine.policies.policy = Policy(name="team", require=(require,))
    assert opened.post(f"{SHOP}/hold", HOLD_FORM).status == 403
    assert opened.post(f"{SHOP}/unhold", {"hold": HOLD.name}).status == 403
    assert opened.engine.requests.done == []


COMMIT = "c" * 40
TOGETHER = f"/approvals/{COMMIT}"


def held_at_one_commit(*names: str) -> list[ApplicationView]:
    """Return Applications whose plans wait at the same commit, each with a digest of its own."""
    dangerous = resource("a", sync="OutOfSync", differences=(changed(),), risk=Risk.DANGEROUS)
    return [
        application(name, [dangerous], held=(f"1 dangerous step of {name} waits",), digest=name[0] * 64)
        for name in names
    ]


def test_a_commit_that_several_applications_wait_at_is_one_review(site: Open) -> None:
    opened = site([*held_at_one_commit("shop", "blog"), application("calm")])
    assert f'in 2 applications. <a href="{TOGETHER}">Review them together</a>' in opened.get("/approvals").text
    page = opened.get(TOGETHER).text
    for name in ("shop", "blog"):
        assert f"1 dangerous step of {name} waits" in page
        assert f'name="plan" value="gitsync/{name} {name[0] * 64}" checked' in page
    assert page.count("<code>.data.mode</code>") == 2
    assert "calm" not in page
    plans = [f"gitsync/{name} {name[0] * 64}" for name in ("shop", "blog")]
    answer = opened.post(TOGETHER, {"plan": plans, "decision": "approve", "by": "Ada", "reason": "read both"})
    assert answer.status == 200
    assert re.search(r"Approved: .*gitsync/shop</a>.*gitsync/blog</a>", answer.text, re.DOTALL)
    links = opened.engine.records.audit_records(action="approve")
    assert {(link.application, link.digest, link.approver, link.reasoning) for link in links} == {
        ("gitsync/shop", "s" * 64, "Ada", "read both"),
        ("gitsync/blog", "b" * 64, "Ada", "read both"),
    }


def test_a_plan_that_changed_since_is_not_decided_with_the_others(site: Open) -> None:
    opened = site(held_at_one_commit("shop", "blog"))
    plans = [f"gitsync/shop {'0' * 64}", f"gitsync/blog {'b' * 64}", f"gitsync/gone {'g' * 64}"]
    page = opened.post(TOGETHER, {"plan": plans, "decision": "reject", "by": "Ada", "reason": "too much"}).text
    assert "gitsync/shop: the plan changed since it was shown, so nothing was decided; review the new one" in page
    assert "gitsync/gone: is not known" in page
    (link,) = opened.engine.records.audit_records()
    assert (link.action, link.application) == ("reject", "gitsync/blog")
    assert "Rejected</b> by Ada" in opened.get(TOGETHER).text


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "no decision was made"),
        ({"implicit": "yes", "decision": "approve"}, "no decision was made"),
        ({"decision": "reject"}, "a rejection needs a reason"),
        ({"decision": "approve", "plan": ()}, "no plan is selected"),
    ],
)
def test_a_review_of_a_commit_that_says_nothing_decides_nothing(
    site: Open, fields: dict[str, Any], problem: str
) -> None:
    opened = site(held_at_one_commit("shop", "blog"))
    answer = opened.post(TOGETHER, {"plan": [f"gitsync/shop {'s' * 64}"], "by": "Ada", **fields})
    assert (answer.status, problem in answer.text) == (422, True)
    assert opened.engine.records.audit_records() == ()


def test_only_approvers_review_the_plans_of_a_commit(site: Open) -> None:
    opened = site(held_at_one_commit("shop", "blog"))
    require = Require.model_validate({"approvers": {"users": ["grace"]}})
    opened.engine.policies.policy = Policy("team", require=(require,))
    assert '<form method="post" action="/approvals/' not in opened.get(TOGETHER).text
    page = opened.post(TOGETHER, {"plan": [f"gitsync/shop {'s' * 64}"], "decision": "approve", "by": "Ada"}).text
    assert re.search(r"gitsync/shop: only \S*grace\S* may review this plan", page)
    assert opened.engine.records.audit_records() == ()


def test_a_commit_without_plans_that_wait_has_no_review(site: Open) -> None:
    opened = site([application()])
    # not an error: a page that is shown is loaded again when the last plan was decided
    assert "No plan waits at this commit." in opened.get(TOGETHER).text
    assert opened.get(f"/approvals/{'x' * 65}").status == 422


@pytest.mark.parametrize("entrance", ["page", "api", "bulk"])
def test_a_review_waits_for_the_plan_that_another_replica_has_shown(
    site: Open, entrance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(view: StillView, after: int, timeout: float) -> bool:
        view.views[KEY] = HELD
        return timeout > 0

    monkeypatch.setattr(StillView, "wait", wait)
    opened = site([application(digest="e" * 64)])
    opened.engine.is_replica = True
    if entrance == "api":
        word = {"digest": DIGEST, "verdict": "approve", "by": "Grace", "reason": "looked"}
        answer = opened.web.ask(
            "/api/v1/applications/gitsync/shop/review",
            method="POST",
            body=orjson.dumps(word),
            headers={"Content-Type": "application/json"},
        )
    elif entrance == "bulk":
        fields = {"decision": "approve", "plan": f"{KEY} {DIGEST}", "by": "Grace", "reason": "looked"}
        answer = opened.post(TOGETHER, fields)
    else:
        answer = review(opened, "approve", by="Grace", reason="looked")
    assert answer.status in (200, 303), answer.text
    [record] = opened.engine.records.audit_records(KEY)
    assert (record.action, record.digest) == ("approve", DIGEST)


@pytest.mark.parametrize("path", ["", "/plan"])
def test_an_application_of_another_process_is_observed_once_a_user_asks_for_it(
    site: Open, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = site([replace(HELD, plan=None, resources=())])
    opened.engine.others = frozenset({KEY})
    status = {**HELD.status, "revision": {"fetched": "c" * 40}}
    opened.engine.details.applications = {KEY: {"metadata": {"resourceVersion": HELD.version}, "status": status}}

    def wait(view: StillView, after: int, timeout: float) -> bool:
        assert opened.engine.requests.observed == [KEY]
        view.views[KEY] = HELD
        return True

    monkeypatch.setattr(StillView, "wait", wait)
    answer = opened.get(f"{SHOP}{path}")
    assert answer.status == 200
    assert opened.engine.requests.observed[0] == KEY
    assert ("Submit review" in answer.text) is (path == "/plan")


@pytest.fixture
def behind(site: Open, monkeypatch: pytest.MonkeyPatch) -> Callable[[ApplicationView, ApplicationView], Site]:
    """Return what opens the dashboard of a replica that shows an older view at first, of another one's Application."""

    def opens(older: ApplicationView, newer: ApplicationView) -> Site:
        def wait(view: StillView, after: int, timeout: float) -> bool:
            view.views[KEY] = replace(newer, version="2")
            return timeout > 0

        monkeypatch.setattr(StillView, "wait", wait)
        opened = site([replace(older, version="1")])
        opened.engine.is_replica = True
        opened.engine.others = frozenset({KEY})
        plan = {"plan": {"id": newer.plan.digest[:12]}} if newer.plan is not None and newer.plan.writes else {}
        status = {**newer.status, **plan}
        opened.engine.details.applications = {KEY: {"metadata": {"resourceVersion": "2"}, "status": status}}
        return opened

    return opens


def sent(opened: Site, path: str, **word: Any) -> Answer:
    """Send a call of the API about the Application."""
    body = orjson.dumps({"by": "Ada", "reason": "looked", **word})
    headers = {"Content-Type": "application/json"}
    return opened.web.ask(f"/api/v1/applications/{KEY}/{path}", method="POST", body=body, headers=headers)


BY_ADA = {"by": "Ada", "reason": "looked"}
REQUESTS: dict[str, tuple[ApplicationView, Callable[[Site], Answer], tuple[str, ...]]] = {
    "revert drift, page": (
        drifting("shop"),
        lambda opened: opened.post("/bulk", {"action": "revert-drift", "app": KEY, **BY_ADA}),
        ("repair", KEY, "Ada", "/ConfigMap/shop/a"),
    ),
    "revert drift, API": (
        drifting("shop"),
        lambda opened: sent(opened, "revert-drift"),
        ("repair", KEY, "Ada", "/ConfigMap/shop/a"),
    ),
    "chosen objects, page": (
        HELD,
        lambda opened: opened.post(f"{SHOP}/sync/objects", {"object": "/ConfigMap/shop/a", **BY_ADA}),
        ("sync-objects", KEY, "Ada", "ConfigMap shop/a"),
    ),
    "chosen objects, API": (
        HELD,
        lambda opened: sent(opened, "sync", objects=["/ConfigMap/shop/a"]),
        ("sync-objects", KEY, "Ada", "ConfigMap shop/a"),
    ),
    "resume, page": (suspended("shop"), lambda opened: opened.post(f"{SHOP}/resume", BY_ADA), ("resume", KEY)),
    "resume, several": (
        suspended("shop"),
        lambda opened: opened.post("/bulk", {"action": "resume", "app": KEY, **BY_ADA}),
        ("resume", KEY),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_replica_that_is_behind_takes_a_request(behind: Callable[..., Site], name: str) -> None:
    newer, send, done = REQUESTS[name]
    opened = behind(application(), newer)
    answer = send(opened)
    assert answer.status in (200, 303), answer.text
    assert opened.engine.requests.done == [done]


def test_a_replica_that_is_behind_offers_no_older_plan(behind: Callable[..., Site]) -> None:
    opened = behind(moved(HELD), HELD)
    assert orjson.loads(opened.get(f"/api/v1/applications/{KEY}/plan").text)["digest"] == DIGEST


@pytest.mark.parametrize("path", ["plan", "sync"])
def test_a_form_of_a_replica_that_is_behind_is_of_now(behind: Callable[..., Site], path: str) -> None:
    opened = behind(application(), HELD)
    assert "ConfigMap a" in opened.get(f"{SHOP}/{path}").text


def test_a_replica_that_is_behind_takes_no_review_of_an_older_plan(behind: Callable[..., Site]) -> None:
    opened = behind(moved(HELD), HELD)
    answer = sent(opened, "review", digest="e" * 64, verdict="approve")
    assert (answer.status, "the plan changed since it was shown" in answer.text) == (409, True)
    assert opened.engine.records.audit_records() == ()
