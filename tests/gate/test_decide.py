"""The gate: refused, held, or allowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitsync.gate.approvals import approval_message, expires, may_review, needs_approval
from gitsync.gate.decide import decide, decide_deletion
from gitsync.gate.policy import Policy, Require
from gitsync.objects.application import parse_application
from gitsync.objects.change import Action, Change, Decision, HoldReason, Plan, Review, Risk
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DENIED = [{"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h"}]


def application(**spec):
    return parse_application(
        {
            "metadata": {"name": "demo", "namespace": "gitsync"},
            "spec": {"source": {"repoURL": "https://x"}, "destination": {}, **spec},
        }
    )


def step(index, action, kind="ConfigMap", risk=Risk.MODERATE):
    manifest = {"kind": kind}
    return Change(
        ObjectRef("", kind, "n", f"x{index}"),
        action,
        risk,
        desired=None if action is Action.PRUNE else manifest,
        live=None if action is Action.CREATE else manifest,
    )


def plan(*steps, risk=Risk.MODERATE, refusals=(), replaces=""):
    return Plan("gitsync/demo", "commit", steps, "digest", risk, refusals=refusals, replaces=replaces)


def approved_by(name="jane", *groups, known=True):
    return Review(User(name, groups, is_authenticated=known), True, until=NOW + timedelta(hours=1))


def rejected_by(name="joe", reason=""):
    return Review(User(name), False, reason)


def verdict(a_plan, app=None, review=None, policy=None, **options):
    return decide(a_plan, app or application(), policy or Policy(), review, NOW, **options)


UPDATE = step(0, Action.UPDATE)
DANGEROUS = plan(step(0, Action.UPDATE, risk=Risk.DANGEROUS), risk=Risk.DANGEROUS)


def test_an_ordinary_plan_is_allowed():
    assert verdict(plan(UPDATE)).decision is Decision.ALLOWED


def test_a_plan_without_writes_is_allowed_at_any_time():
    assert verdict(plan(step(0, Action.NOTHING)), application(sync={"windows": DENIED})).decision is Decision.ALLOWED


@pytest.mark.parametrize("manual", [False, True])
def test_the_plan_of_a_rewritten_branch_waits_for_an_approver_whatever_its_class(manual):
    rewritten, app = plan(UPDATE, replaces="a" * 40), application(risk={"approval": "Never"})
    held = verdict(rewritten, app, manual=manual)
    assert (held.decision, held.holds) == (Decision.HELD, (HoldReason.APPROVAL,))
    assert "non-fast-forward: commit commit does not contain the applied commit aaaaaaaaaaaa;" in held.reasons[0]
    assert verdict(rewritten, app, approved_by()).approver == "jane"


def test_a_dangerous_plan_waits_for_its_approver():
    app = application(risk={"approvers": {"groups": ["team"]}})
    held = verdict(DANGEROUS, app)
    assert held.decision is Decision.HELD
    assert held.reasons == ("1 dangerous step waits for team",)
    assert held.holds == (HoldReason.APPROVAL,)
    approved = verdict(DANGEROUS, app, approved_by("jane", "team"))
    assert (approved.decision, approved.approver) == (Decision.ALLOWED, "jane")


@pytest.mark.parametrize(
    ("approvers", "review", "is_enough"),
    [
        ({"groups": ["team"]}, approved_by("jane", "others", "team"), True),
        ({"groups": ["team"]}, approved_by("jane", "others"), False),
        ({"groups": ["team"]}, approved_by("team"), False),
        ({"groups": ["team"]}, approved_by("jane", "team", known=False), False),
        ({"users": ["jane"]}, approved_by("jane"), True),
        ({"users": ["jane"]}, approved_by("jane", known=False), False),
        ({"users": ["jane"], "groups": ["team"]}, approved_by("joe", "team"), True),
        ({"users": ["jane"], "groups": ["team"]}, approved_by("joe", "jane"), False),
        ({}, approved_by("anybody", known=False), True),
    ],
)
def test_an_approval_counts_only_by_somebody_known_who_may_give_one(approvers, review, is_enough):
    app = application(risk={"approvers": approvers})
    found = verdict(DANGEROUS, app, review)
    assert may_review(app, review.by) is is_enough
    assert (found.decision is Decision.ALLOWED) is is_enough
    if not is_enough:
        assert found.reasons[0].startswith(f"{review.by.name} approved it, but is not an approver (")
    deletion = decide_deletion(DANGEROUS, app, review, Policy())
    assert deletion.decision is found.decision


def test_a_rejected_plan_is_held_even_where_nobody_had_to_approve():
    for steps, app in (
        (DANGEROUS, None),
        (plan(UPDATE), None),
        (plan(UPDATE), application(risk={"approval": "Never"})),
    ):
        held = verdict(steps, app, rejected_by("joe", "not on Friday"), manual=True)
        assert (held.decision, held.holds) == (Decision.HELD, (HoldReason.REJECTION,))
        assert held.reasons == ("rejected by joe: not on Friday",)
        assert decide_deletion(steps, app or application(), rejected_by(), Policy()).reasons == ("rejected by joe",)


def test_a_plan_can_wait_for_a_person_and_a_window():
    app = application(sync={"windows": DENIED})
    assert verdict(DANGEROUS, app).holds == (HoldReason.APPROVAL, HoldReason.WINDOW)
    assert verdict(DANGEROUS, app, approved_by()).holds == (HoldReason.WINDOW,)
    assert verdict(plan(UPDATE), app).holds == (HoldReason.WINDOW,)
    assert verdict(DANGEROUS, app, rejected_by()).holds == (HoldReason.REJECTION, HoldReason.WINDOW)


def test_deleting_an_application_asks_only_for_what_it_wants_approved():
    app = application(sync={"windows": DENIED}, risk={"maxDeletes": 0})
    assert decide_deletion(plan(step(0, Action.PRUNE)), app, None, Policy()).decision is Decision.ALLOWED
    assert decide_deletion(DANGEROUS, app, None, Policy()).holds == (HoldReason.APPROVAL,)
    assert decide_deletion(DANGEROUS, app, approved_by(), Policy()).approver == "jane"


def test_the_number_of_deletions_holds_no_deletion_of_the_application():
    many = plan(*(step(number, Action.PRUNE) for number in range(12)), risk=Risk.DANGEROUS)
    assert decide_deletion(many, application(), None, Policy()).decision is Decision.ALLOWED
    strict = Policy(require=(Require(approval="Moderate"),))
    assert decide_deletion(many, application(), None, strict).decision is Decision.HELD


@pytest.mark.parametrize(
    ("approval", "risk", "waits"),
    [
        ("Never", Risk.DANGEROUS, False),
        ("Dangerous", Risk.MODERATE, False),
        ("Dangerous", Risk.DANGEROUS, True),
        ("Moderate", Risk.MODERATE, True),
        ("Moderate", Risk.SAFE, False),
    ],
)
def test_the_application_says_which_class_waits(approval, risk, waits):
    assert needs_approval(application(risk={"approval": approval}), risk) is waits


def test_an_approver_who_was_not_needed_is_not_recorded():
    assert verdict(plan(UPDATE), review=approved_by()).approver == ""


@pytest.mark.parametrize("review", [None, approved_by()])
def test_what_is_refused_stays_refused_with_an_approval(review):
    result = verdict(plan(UPDATE), review=review, violations=["ConfigMap n/x: not allowed"])
    assert (result.decision, result.reasons) == (Decision.REFUSED, ("ConfigMap n/x: not allowed",))
    rivals = verdict(plan(UPDATE, refusals=("belongs to another",)), review=review)
    assert rivals.decision is Decision.REFUSED


def test_a_closed_window_holds_and_says_which():
    result = verdict(plan(UPDATE), application(sync={"windows": DENIED}))
    assert result.decision is Decision.HELD
    assert "0 0 * * *" in result.reasons[0]


def test_a_window_without_a_meaning_refuses():
    windows = [{"kind": "Deny", "schedule": "never", "duration": "1h"}]
    assert verdict(plan(UPDATE), application(sync={"windows": windows})).decision is Decision.REFUSED


def prunes(count, start=0):
    return [step(index, Action.PRUNE) for index in range(start, start + count)]


def unchanged(count, start=100):
    return [step(index, Action.NOTHING) for index in range(start, start + count)]


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        pytest.param(prunes(20), "would delete 20 of 20 objects, because the render is empty", id="empty render"),
        pytest.param(prunes(1), "would delete 1 of 1", id="empty render of one object"),
        pytest.param([*prunes(11), *unchanged(89)], "more than maxDeletes (10)", id="too many"),
        pytest.param([*prunes(6), *unchanged(5)], "would delete 6 of 11 objects, more than 50%", id="most of them"),
        pytest.param([*prunes(5), *unchanged(5)], "", id="half"),
        pytest.param([*prunes(1), step(50, Action.CREATE)], "", id="the only one is renamed"),
        pytest.param([*prunes(3), *(step(i, Action.CREATE) for i in range(50, 53)), UPDATE], "", id="new names"),
        pytest.param(
            [*prunes(3), *(step(i, Action.CREATE, "Secret") for i in range(50, 53)), UPDATE], "more than 50%",
            id="replaced by another kind",
        ),
        pytest.param([step(i, Action.REPLACE) for i in range(11)], "more than maxDeletes", id="replacing deletes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("approval", ["Dangerous", "Never"])
def test_deleting_much_waits_for_a_person_whatever_the_class(steps, says, approval):
    app = application(risk={"approval": approval})
    result = verdict(plan(*steps), app)
    assert result.decision is (Decision.HELD if says else Decision.ALLOWED)
    assert says in "".join(result.reasons)
    assert verdict(plan(*steps), app, approved_by()).decision is Decision.ALLOWED


def test_an_approval_lapses():
    assert expires(application(risk={"approvalTTL": "1h"}), NOW) == NOW + timedelta(hours=1)


def test_what_waits_is_counted():
    steps = [step(index, Action.UPDATE, risk=Risk.DANGEROUS) for index in range(2)]
    assert (
        approval_message(application(), plan(*steps, risk=Risk.DANGEROUS)) == "2 dangerous steps wait for an approval"
    )
