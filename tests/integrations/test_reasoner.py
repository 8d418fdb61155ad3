"""The advisor asks once, within its budget, rejects malformed answers, and blocks no sync."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitsync.integrations.reasoner import Advisor, question
from gitsync.objects.application import Application, OpenAI, parse_application
from gitsync.objects.change import Action, Change, Difference, FieldDifference, Plan, Risk
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Advice
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.sync.decision import with_advice
from tests.fakes.ports import FakeClock
from tests.integrations.fake_endpoint import Endpoint, endpoint, said, wrapped

CANARY = "canary-that-must-stay"


def plan_of(*changes: Change, digest: str = "d1", risk: Risk = Risk.SAFE) -> Plan:
    return Plan("gitsync/shop", "c" * 40, changes or (update(),), digest, risk, "Update 1 object.")


def update(kind: str = "ConfigMap", risk: Risk = Risk.SAFE, **difference: Any) -> Change:
    one = FieldDifference(
        **{"path": ".data.x", "pointer": "/data/x", "desired": "2", "live": "1", **difference},
        kind=next(iter(Difference)),
    )
    return Change(ObjectRef("", kind, "shop", "a"), Action.UPDATE, risk, "rule", "changes", differences=(one,))


def app_of(server: Endpoint, **more: Any) -> Application:
    manifest = {
        "metadata": {"name": "shop", "namespace": "gitsync"},
        "spec": {"source": {"repoURL": "https://x.example/r"}},
    }
    # not validated: a test sets a shorter time limit than users may
    openai = OpenAI.model_construct(endpoint=server.url, model="tiny", **{"timeout": 60.0, **more})
    return replace(parse_application(manifest), openai=openai)


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[SqlRecords]:
    records = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path}/records.db"))
    yield records
    records.close()


@pytest.fixture
def advisor(server: Endpoint, answers: SqlRecords) -> Iterator[Advisor]:
    made = Advisor([server.host], SystemClock(), answers)
    yield made
    made.close()


def heard(advisor: Advisor, app: Application, plan: Plan, key: str = "") -> Advice:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = advisor.advise(app, plan, key)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("no advice")


def test_a_plan_is_asked_about_once(advisor: Advisor, server: Endpoint) -> None:
    server.replies = [said("It is fine.", "Moderate", "a new value")]
    app = app_of(server)
    for _ in range(3):
        assert heard(advisor, app, plan_of(), "s3cret") == Advice(
            "tiny adds: It is fine.", Risk.MODERATE, "a new value"
        )
    (request,) = server.requests
    assert (request["model"], request["temperature"]) == ("tiny", 0)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    heard(advisor, app, plan_of(digest="d2"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "bad",
    [(500, b""), (429, b"slow down"), (200, b"no json"), (200, b"{}"), wrapped("Sure! It is safe."), wrapped(None)],
)
def test_one_failure_is_tried_again(advisor: Advisor, server: Endpoint, bad: tuple[int, bytes]) -> None:
    server.replies = [bad, said()]
    assert heard(advisor, app_of(server), plan_of()).explanation == "tiny adds: It grows."
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ((500, CANARY.encode()), "answered 500"),
        ((401, CANARY.encode()), "answered 401"),
        ((302, b""), "answered 302"),
        ((200, b"x" * 300_000), "more than the limit"),
        ((200, b'{"choices": []}'), "not a chat completion"),
        (wrapped(CANARY), "not JSON"),
        (wrapped("[]"), "does not have the requested form"),
        (said(steps=[{"delete": "all"}]), "does not have the requested form"),
        (said(risk="Harmless"), "names an unknown class"),
        (said(reason=7), "not a string"),  # type: ignore[arg-type]
    ],
)
def test_a_failure_leaves_the_rules_and_a_note(
    advisor: Advisor, server: Endpoint, bad: tuple[int, bytes], why: str
) -> None:
    server.replies = [bad]
    advice = heard(advisor, app_of(server), plan_of())
    assert why in advice.explanation
    assert CANARY not in advice.explanation
    assert advice.risk is Risk.SAFE
    assert len(server.requests) <= 2
    assert with_advice(plan_of(), advice).explanation.startswith("Update 1 object. (Explained by rules alone")


def test_an_answer_outlasts_a_restart(advisor: Advisor, server: Endpoint, answers: SqlRecords) -> None:
    server.replies = [said("It is odd.", "Dangerous", "why now"), (500, b"")]
    app = app_of(server, calls_per_hour=1)
    first = heard(advisor, app, plan_of())
    again = Advisor([server.host], SystemClock(), answers)
    assert again.advise(app, plan_of(), "") == first
    assert again.advise(replace(app, name="other"), plan_of(), "") == first  # it costs no budget
    assert len(server.requests) == 1
    other_model = replace(app, openai=OpenAI(endpoint=server.url, model="large", timeout="5s"))
    assert "was not heard" in heard(again, other_model, plan_of()).explanation
    moved = Advisor(["elsewhere.example"], SystemClock(), answers)
    assert "is not in GITSYNC_REASONER_HOSTS" in heard(moved, app, plan_of()).explanation
    moved.close()
    again.close()


def test_what_was_not_answered_is_asked_again_after_a_restart(
    advisor: Advisor, server: Endpoint, answers: SqlRecords
) -> None:
    server.replies = [(401, b""), said("It is fine.")]
    assert "was not heard" in heard(advisor, app_of(server), plan_of()).explanation
    again = Advisor([server.host], SystemClock(), answers)
    assert heard(again, app_of(server), plan_of()).explanation == "tiny adds: It is fine."
    again.close()


def test_answers_that_cannot_be_kept_count_all_the_same(server: Endpoint, tmp_path: Path) -> None:
    database = RecordDatabase(f"sqlite:///{tmp_path}/broken.db")
    with database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE advice")
    advisor = Advisor([server.host], SystemClock(), SqlRecords(database))
    assert heard(advisor, app_of(server), plan_of()).explanation == "tiny adds: It grows."
    advisor.close()
    database.close()


def test_an_endpoint_that_trickles_or_is_gone_is_given_up(
    server: Endpoint, advisor: Advisor, answers: SqlRecords
) -> None:
    server.trickles = True
    began = time.monotonic()
    advice = heard(advisor, app_of(server, timeout=0.3), plan_of())
    assert "within 0.3 s" in advice.explanation
    assert time.monotonic() - began < 60
    gone = Advisor(["127.0.0.1:9"], SystemClock(), answers)
    away = replace(app_of(server), openai=OpenAI(endpoint="http://127.0.0.1:9/v1", model="tiny", timeout="2s"))
    assert "cannot be reached" in heard(gone, away, plan_of()).explanation
    gone.close()


def test_a_budget_is_kept(advisor: Advisor, server: Endpoint) -> None:
    few = app_of(server, calls_per_hour=2)
    answers = [heard(advisor, few, plan_of(digest=f"d{number}")).explanation for number in range(4)]
    assert ["budget" in answer for answer in answers] == [False, False, True, True]
    small = replace(app_of(server, tokens_per_hour=100), name="other")
    answers = [heard(advisor, small, plan_of(digest=f"e{number}")).explanation for number in range(2)]
    assert ["budget" in answer for answer in answers] == [False, True]


def test_the_budget_of_an_application_that_is_gone_is_forgotten(server: Endpoint, answers: SqlRecords) -> None:
    clock = FakeClock()
    advisor = Advisor([server.host], clock, answers)
    for name in ("gone", "kept"):
        heard(advisor, replace(app_of(server), name=name), plan_of(digest=name))
        clock.seconds += 4000
    assert list(advisor._spent) == ["gitsync/kept"]
    advisor.close()


@pytest.mark.parametrize(
    "url", ["http://other.example/v1", "file:///etc/passwd", "http://me@127.0.0.1/v1", "http://[", ""]
)
def test_only_hosts_of_the_operator_are_asked(
    advisor: Advisor, server: Endpoint, answers: SqlRecords, url: str
) -> None:
    app = replace(app_of(server), openai=OpenAI.model_construct(endpoint=url, model="tiny"))
    assert "is not in GITSYNC_REASONER_HOSTS" in heard(advisor, app, plan_of()).explanation
    closed = Advisor([""], SystemClock(), answers)
    assert "is not in GITSYNC_REASONER_HOSTS" in heard(closed, app, plan_of()).explanation
    closed.close()
    assert not server.requests


@pytest.mark.parametrize("own", list(Risk))
@pytest.mark.parametrize("advice", list(Risk))
def test_advice_raises_a_class_and_never_lowers_one(own: Risk, advice: Risk) -> None:
    plan = plan_of(
        update(risk=own), replace(update(), ref=ObjectRef("", "ConfigMap", "shop", "b"), risk=Risk.SAFE), risk=own
    )
    found = with_advice(plan, Advice("x", advice, "since"))
    assert found.risk.level == max(own.level, advice.level)
    assert found.digest == plan.digest
    assert [(c.ref, c.action, c.desired) for c in found.changes] == [(c.ref, c.action, c.desired) for c in plan.changes]
    assert all(new.risk.level >= old.risk.level for new, old in zip(found.changes, plan.changes, strict=True))


@pytest.mark.parametrize(
    "change",
    [
        update("Secret", desired=CANARY, live="old"),
        update(path=".data.password", desired=CANARY),
        update(path=".spec.env", desired=[{"name": "API_TOKEN", "value": CANARY}]),
        update(path=".spec.url", desired=f"https://me:{CANARY}@db.example/x"),
        update(path=".spec", desired={"apiKey": {"deep": CANARY}}),
        replace(
            update(desired=f"prefix {CANARY}"),
            desired={"apiVersion": "v1", "kind": "Secret", "stringData": {"x": CANARY}},
        ),
    ],
)
def test_secrets_are_not_sent(change: Change) -> None:
    assert CANARY not in question(plan_of(change))


def test_the_question_is_bounded() -> None:
    many = tuple(
        replace(update(desired="v" * 500), ref=ObjectRef("", "ConfigMap", "shop", f"c{n}")) for n in range(500)
    )
    assert len(question(plan_of(*many))) <= 24_000


def test_values_that_json_lacks_are_no_failure(advisor: Advisor, server: Endpoint) -> None:
    advice = heard(advisor, app_of(server), plan_of(update(desired=2**70)))
    assert "without a JSON form" in advice.explanation
    assert not server.requests
