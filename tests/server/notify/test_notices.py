"""Notifications: what is news, to whom it goes, how often; and Kubernetes Events on the Application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import ApiObjectDetails
from gitsync.errors import InvalidInput, TransientError
from gitsync.objects.conditions import CLUSTER_UNAVAILABLE
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView, StateEvent
from gitsync.sandbox.server import Sandbox
from gitsync.server.notify.channels import AppriseChannel, EventChannel
from gitsync.server.notify.notices import Notice, happened, news, notices_of
from gitsync.server.notify.notifier import Notifier
from gitsync.server.notify.rules import NotificationRule, read_rules
from tests.server.fakes import StillView, application
from tests.waiting import until

KEY = "gitsync/shop"


@dataclass(slots=True)
class Inbox:
    """A channel that keeps what it gets."""

    interval: float = 60.0
    settle: float = 0.0
    groups: bool = True
    got: list[Notice] = field(default_factory=list)
    fails: bool = False

    def wants(self, notice: Notice) -> bool:
        return notice.kind != "synced"

    def send(self, notice: Notice) -> None:
        if self.fails:
            raise TransientError("no answer")
        self.got.append(notice)


@dataclass(slots=True)
class HandClock:
    seconds: float = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> Any:
        raise NotImplementedError


def degraded(message: str = "crashes") -> ApplicationView:
    view = application(health="Degraded")
    return replace(view, status={**view.status, "problems": [{"object": "Deployment web", "message": message}]})


def followed(inbox: Inbox, owns: Callable[[str], bool] = lambda key: True) -> tuple[StillView, HandClock, Notifier]:
    view, clock = StillView({KEY: application()}), HandClock()
    notifier = Notifier(view, clock, [inbox], owns)
    notifier.check()
    return view, clock, notifier


def test_a_change_is_told_in_the_sentence_of_the_page_and_only_once() -> None:
    inbox = Inbox()
    view, _, notifier = followed(inbox)
    view.views[KEY] = degraded()
    notifier.check()
    notifier.check()
    (notice,) = inbox.got
    assert (notice.title, notice.text) == ("gitsync/shop: Degraded", "Deployment web: crashes")


def test_messages_about_one_application_are_limited_and_the_last_state_counts() -> None:
    inbox = Inbox()
    view, clock, notifier = followed(inbox)
    for state in (degraded(), application(), degraded(), application(phase="Drifted", ready="replicas changed")):
        view.views[KEY] = state
        notifier.check()
    assert [notice.state for notice in inbox.got] == ["Degraded"]
    clock.seconds = 61
    notifier.check()
    assert [notice.state for notice in inbox.got] == ["Degraded", "Drifted"]
    view.views[KEY] = degraded()
    notifier.check()
    view.views[KEY] = application()  # well again before the message was due
    notifier.check()
    clock.seconds = 200
    notifier.check()
    assert [notice.state for notice in inbox.got] == ["Degraded", "Drifted", "Recovered"]
    assert inbox.got[-1].text == "no longer: Degraded, Drifted"


def unreadable(key: str, text: str = "git.example.com did not answer within 10 s") -> ApplicationView:
    view = application(key.rpartition("/")[2], phase="Failed", ready=text)
    source = {"type": "SourceReady", "status": "False", "reason": "FetchFailed", "message": text}
    return replace(view, status={**view.status, "conditions": [*view.status["conditions"], source]})


def many(count: int, **settings: Any) -> tuple[Inbox, StillView, HandClock, Notifier]:
    """Return the Applications ``gitsync/app-N``, all in sync, and what follows them."""
    names = [f"app-{number}" for number in range(count)]
    inbox, clock = Inbox(**settings), HandClock()
    view = StillView({f"gitsync/{name}": application(name) for name in names})
    notifier = Notifier(view, clock, [inbox], lambda key: True)
    notifier.check()
    return inbox, view, clock, notifier


def test_one_cause_is_one_message_with_one_recovery() -> None:
    inbox, view, clock, notifier = many(50, settle=10.0)
    for number, key in enumerate(list(view.views)):
        view.views[key] = unreadable(key, f"git.example.com did not answer within {number} s")
        clock.seconds += 0.3
        notifier.check()
    clock.seconds += 10
    notifier.check()
    titles = [notice.title for notice in inbox.got]
    assert titles == ["35 Applications: Git cannot be read"], "the others are late, not news"
    assert inbox.got[0].text.endswith("and 15 more")
    clock.seconds += 60
    notifier.check()
    assert inbox.got[1].title == "15 Applications: Git cannot be read"
    assert {name for notice in inbox.got for name in notice.members} == set(view.views)
    inbox.got.clear()
    clock.seconds += 60  # a message about each of them was sent just now
    view.views = {key: application(key.rpartition("/")[2]) for key in view.views}
    notifier.check()
    clock.seconds += 10
    notifier.check()
    (end,) = inbox.got
    assert (end.title, end.kind) == ("50 Applications: Recovered", "recovered")
    assert end.text.startswith("no longer: Git cannot be read")


def unobserved(key: str, text: str) -> ApplicationView:
    view = application(key.rpartition("/")[2], phase="Observing", sync="Unknown", health="Unknown")
    ready = {"type": "Ready", "status": "Unknown", "reason": CLUSTER_UNAVAILABLE, "message": text}
    return replace(view, status={**view.status, "conditions": [ready]})


def test_an_outage_that_each_application_words_is_one_message() -> None:
    """Applications differ in their repositories, objects and kinds, and one server is why none can be read."""
    texts = {
        "FetchFailed": [f"https://git.example.com/{name}.git: 502 by the Git server" for name in ("a/b", "c/d", "e")],
        "Unknown": [f"{kind} may be out of date: no answer" for kind in ("Deployment apps/v1", "ConfigMap v1", "Job")],
    }
    for state, messages in texts.items():
        inbox, view, _, notifier = many(3)
        for key, text in zip(list(view.views), messages, strict=True):
            view.views[key] = unreadable(key, text) if state == "FetchFailed" else unobserved(key, text)
        notifier.check()
        (notice,) = inbox.got
        assert (notice.state, len(notice.members)) == (state, 3)
        assert notice.text.splitlines()[:3] == messages


def test_a_commit_that_breaks_the_workloads_of_several_is_one_message() -> None:
    inbox, view, _, notifier = many(4)
    reasons = ["CrashLoopBackOff (exit code 1)"] * 3 + ["ImagePullBackOff"]
    for key, reason in zip(list(view.views), reasons, strict=True):
        name = key.rpartition("/")[2]
        broken = degraded(f"Deployment shop/{name}: pod {name}-5f6b8c-x7rzk: {reason}")
        view.views[key] = replace(broken, key=key)
    notifier.check()
    assert [(notice.title, len(notice.members)) for notice in inbox.got] == [
        ("gitsync/app-3: Degraded", 0),
        ("3 Applications: Degraded", 3),
    ]


def test_a_message_has_the_cause_of_when_it_is_sent() -> None:
    inbox, view, clock, notifier = many(1, settle=10.0)
    for text in ("the connection broke", "the API server answers 403"):
        view.views["gitsync/app-0"] = unobserved("gitsync/app-0", text)
        notifier.check()
        clock.seconds += 6
    notifier.check()
    assert [notice.text for notice in inbox.got] == ["the API server answers 403"]


def test_failures_of_two_servers_are_two_causes() -> None:
    inbox, view, _, notifier = many(6)
    for number, key in enumerate(list(view.views)):
        view.views[key] = unreadable(key, f"https://git{'ab'[number % 2]}.example.com/repo.git: 502 by the Git server")
    notifier.check()
    assert [len(notice.members) for notice in inbox.got] == [3, 3]


def test_an_outage_that_ends_soon_is_one_message() -> None:
    inbox, view, clock, notifier = many(50, settle=10.0)
    for key in list(view.views):
        view.views[key] = unreadable(key)
        clock.seconds += 0.3
        notifier.check()
    view.views = {key: application(key.rpartition("/")[2]) for key in view.views}
    for _ in range(20):
        clock.seconds += 10
        notifier.check()
    failed, end = inbox.got
    assert (failed.title, failed.kind) == ("35 Applications: Git cannot be read", "failed")
    assert (end.title, end.kind) == ("35 Applications: Recovered", "recovered")


def test_an_outage_that_ends_one_by_one_has_one_end() -> None:
    inbox, view, clock, notifier = many(5, settle=10.0)
    view.views = {key: unreadable(key) for key in view.views}
    notifier.check()
    clock.seconds += 70
    notifier.check()
    for key in list(view.views):
        clock.seconds += 11
        view.views[key] = application(key.rpartition("/")[2])
        notifier.check()
    clock.seconds += 10
    notifier.check()
    assert [notice.title for notice in inbox.got] == [
        "5 Applications: Git cannot be read",
        "5 Applications: Recovered",
    ]


def test_the_end_waits_an_interval_for_one_that_stays() -> None:
    inbox, view, clock, notifier = many(5)
    view.views = {key: unreadable(key) for key in view.views}
    notifier.check()
    inbox.got.clear()
    clock.seconds += 60
    view.views = {key: application(key.rpartition("/")[2]) for key in view.views}
    view.views["gitsync/app-0"] = unreadable("gitsync/app-0")
    notifier.check()
    assert inbox.got == []
    clock.seconds += 60
    notifier.check()
    assert [notice.title for notice in inbox.got] == ["4 Applications: Recovered"]


def test_messages_of_many_causes_are_a_digest() -> None:
    inbox, view, clock, notifier = many(30)
    keys = list(view.views)
    for number, key in enumerate(keys[:28]):
        view.views[key] = unreadable(key, f"{'x' * number}.example.com does not exist")
        notifier.check()
    titles = [notice.title for notice in inbox.got]
    assert titles == [f"{key}: Git cannot be read" for key in keys[:6]]
    clock.seconds = 60
    notifier.check()
    (rest,) = inbox.got[6:]
    assert (rest.title, rest.kind) == ("22 messages about 22 Applications", "failed")
    assert f"{keys[6]}: Git cannot be read: xxxxxx.example.com does not exist" in rest.text.splitlines()
    assert rest.text.endswith("and 2 more")


def test_two_causes_are_two_messages_and_few_applications_stay_their_own() -> None:
    inbox, view, _, notifier = many(5)
    for key in list(view.views)[:3]:
        view.views[key] = unreadable(key)
    for key in list(view.views)[3:]:
        view.views[key] = unreadable(key, "the certificate of git.example.com is not trusted")
    notifier.check()
    titles = sorted(notice.title for notice in inbox.got)
    assert titles[0] == "3 Applications: Git cannot be read"
    assert titles[1:] == ["gitsync/app-3: Git cannot be read", "gitsync/app-4: Git cannot be read"]


def test_a_state_that_does_not_last_is_no_message() -> None:
    inbox, view, clock, notifier = many(1, settle=10.0, interval=0.0)
    for state in (unreadable("gitsync/app-0"), application("app-0")) * 5:
        view.views["gitsync/app-0"] = state
        notifier.check()
        clock.seconds += 9
    notifier.check()
    assert inbox.got == []


def test_a_failure_that_comes_back_before_its_end_was_reported_is_no_news() -> None:
    inbox, view, clock, notifier = many(1, settle=10.0, interval=0.0)
    view.views["gitsync/app-0"] = unreadable("gitsync/app-0")
    notifier.check()
    clock.seconds += 10
    notifier.check()
    for state in (application("app-0"), unreadable("gitsync/app-0")) * 3:
        view.views["gitsync/app-0"] = state
        notifier.check()
        clock.seconds += 5
    notifier.check()
    assert [notice.state for notice in inbox.got] == ["FetchFailed"]


def test_states_at_the_start_and_applications_of_other_replicas_are_not_told() -> None:
    inbox = Inbox()
    notifier = Notifier(StillView({KEY: degraded()}), HandClock(), [inbox], lambda key: True)
    notifier.check()
    assert inbox.got == []
    view, _, notifier = followed(inbox, owns=lambda key: False)
    view.views[KEY] = degraded()
    notifier.check()
    assert inbox.got == []


def test_a_failed_message_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox(fails=True)
    view, _, notifier = followed(inbox)
    view.views[KEY] = degraded()
    notifier.check()
    assert "was not sent: no answer" in caplog.text


def test_a_newly_synced_commit_is_news_and_a_transition_is_not() -> None:
    first = notices_of(application())[0]
    assert first is not None
    assert (first.kind, first.text) == ("synced", "ccccccc Open the shop")
    later = replace(first, commit="d" * 40)
    assert [*news((first,), (later,))] == [later]
    assert [*news((first,), (first,))] == []
    assert notices_of(application(phase="Executing")) == ()


def test_rules_choose_by_application_and_kind(tmp_path: Path) -> None:
    file = tmp_path / "notify.yaml"
    urls = tmp_path / "urls"
    urls.write_text("json://localhost/a\njson://localhost/b\n")
    file.write_text(f"- applications: [prod-*, team/*]\n  kinds: [failed]\n  urlFile: {urls}\n  interval: 5\n")
    (rule,) = read_rules(file)
    assert rule.targets() == ("json://localhost/a", "json://localhost/b")
    for name, kind, expected in (
        ("gitsync/prod-a", "failed", True),
        ("team/x", "failed", True),
        ("gitsync/dev", "failed", False),
        ("team/x", "drifted", False),
    ):
        assert rule.wants(Notice(name, kind, "Failed", "")) is expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [("- kinds: [broken]\n", r"notify\.yaml: \[0\]\.kinds"), ("- {nope: 1}\n", r"\[0\]\.nope"), ("- a: [\n", "notify")],
)
def test_an_invalid_rule_names_its_place(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=problem):
        read_rules(file)
    with pytest.raises(InvalidInput, match="cannot read the file of notifications"):
        read_rules(tmp_path / "none.yaml")


def test_apprise_sends_to_every_url(monkeypatch: pytest.MonkeyPatch) -> None:
    apprise = pytest.importorskip("apprise")
    sent: list[tuple[str, str, Any]] = []

    class Sender:
        def __init__(self) -> None:
            self.urls: list[str] = []

        def add(self, url: str) -> bool:
            self.urls.append(url)
            return True

        def notify(self, title: str, body: str, notify_type: Any, **_: Any) -> bool:
            sent.extend((url, f"{title}|{body}", notify_type) for url in self.urls)
            return "down" not in self.urls[0]

    monkeypatch.setattr(apprise, "Apprise", Sender)
    channel = AppriseChannel(NotificationRule(urls=("json://up",)), "https://gitsync.example/")
    channel.send(Notice(KEY, "failed", "Failed", "render failed"))
    assert sent == [
        (
            "json://up",
            "gitsync/shop: Failed|render failed\nhttps://gitsync.example/apps/gitsync/shop",
            apprise.NotifyType.FAILURE,
        )
    ]
    with pytest.raises(TransientError):
        AppriseChannel(NotificationRule(urls=("json://down",))).send(Notice(KEY, "failed", "Failed", ""))


# of modules that plugins of Apprise import
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_services_that_show_markup_get_it_escaped() -> None:
    decorators = pytest.importorskip("apprise.decorators")
    bodies: list[str] = []

    @decorators.notify(on="gitsynctest")
    def keep(body: str, *_: Any, **__: Any) -> None:
        bodies.append(body)

    AppriseChannel(NotificationRule(urls=("gitsynctest://x?format=html",))).send(
        Notice(KEY, "failed", "Failed", '<a href="https://evil.example">sign in</a>')
    )
    [body] = bodies
    assert "<a" not in body
    assert "&lt;a" in body


def test_the_other_urls_get_the_message_where_one_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    apprise = pytest.importorskip("apprise")
    sent: list[str] = []

    class Sender:
        def add(self, url: str) -> bool:
            return url.startswith("json://")

        def notify(self, title: str, **more: Any) -> bool:
            sent.append(title)
            return True

    monkeypatch.setattr(apprise, "Apprise", Sender)
    channel = AppriseChannel(NotificationRule(urls=("json://127.0.0.1", "jsn://user:secret@127.0.0.1")))
    with pytest.raises(InvalidInput, match="URL 2 of a notification rule") as failed:
        channel.send(Notice(KEY, "failed", "Failed", "render failed"))
    assert sent == ["gitsync/shop: Failed"]
    assert "secret" not in str(failed.value)


def test_an_event_is_written_on_the_application_and_counted(tmp_path: Path) -> None:
    with Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        client.send("POST", "/api/v1/namespaces", {"metadata": {"name": "gitsync"}})
        details = ApiObjectDetails(client)
        channel = EventChannel(details)
        for _ in range(2):
            channel.send(Notice(KEY, "degraded", "Degraded", "Deployment web: crashes"))
        channel.send(Notice(KEY, "synced", "Synced", "abc1234 Repair it"))
        events = details.events(ObjectRef("gitsync.dev", "Application", "gitsync", "shop"))
        client.close()
    assert sorted((event.type, event.reason, event.message, event.count, event.source) for event in events) == [
        ("Normal", "Synced", "abc1234 Repair it", 1, "gitsync"),
        ("Warning", "Degraded", "Deployment web: crashes", 2, "gitsync"),
    ]


def test_it_runs_beside_the_controller_and_stops() -> None:
    inbox = Inbox()
    view = StillView({KEY: application()})
    notifier = Notifier(view, HandClock(), [inbox], lambda key: True)
    notifier.start()
    try:
        until(lambda: notifier.is_ready)
        view.views[KEY] = degraded()
        view.happen(KEY)
        until(lambda: inbox.got)
    finally:
        notifier.stop()


TRIAGE = "agents.gitsync.dev/Agent/support/triage"


def event(kind: str, message: str, *states: str, ref: str = "") -> StateEvent:
    return StateEvent(1, datetime.now(UTC), KEY, kind, message, ref, states)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("drift", "DriftDetected"),
        ("healed", "DriftHealed"),
        ("heal-failed", "HealFailed"),
        ("tag-moved", "TagMoved"),
    ],
)
def test_what_others_change_is_a_notice_about_the_object(kind: str, state: str) -> None:
    notice = happened(event(kind, "set .data.a", ref="/ConfigMap/shop/a"))
    assert notice == Notice(KEY, kind, state, "set .data.a", ref="/ConfigMap/shop/a")


@pytest.mark.parametrize("risk", ["Safe", "Moderate", "Dangerous"])
def test_a_sync_is_a_notice_of_its_class(risk: str) -> None:
    notice = happened(event("sync", "2 changes (commit)", "Succeeded", risk))
    assert notice == Notice(KEY, risk.lower(), f"Applied{risk}", "2 changes (commit)")


@pytest.mark.parametrize(
    "happening",
    [
        event("sync", "1 change (drift)", "Succeeded", "Safe"),
        event("sync", "2 changes (commit)", "Failed", "Safe"),
        event("resource", "gone"),
    ],
)
def test_other_events_are_no_notices(happening: StateEvent) -> None:
    assert happened(happening) is None


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("near its budget; 2 of 2 replicas are ready", "BudgetNear"),
        ("over its budget; 2 of 2 replicas are ready", "BudgetExceeded"),
        ("stopped by its budget: the agent used 9 of 8 tokens today (112 %)", "BudgetExceeded"),
    ],
)
def test_the_budget_of_an_agent_is_a_notice_about_it(message: str, state: str) -> None:
    notice = happened(event("resource", message, "Synced", "Healthy", ref=TRIAGE))
    assert notice == Notice(KEY, "budget", state, message, ref=TRIAGE)


def test_a_budget_is_reported_once_for_each_state() -> None:
    inbox = Inbox(interval=0.0)
    notifier = Notifier(StillView({KEY: application()}), HandClock(), [inbox], lambda key: True)
    messages = (
        *("2 of 2 replicas are ready", "near its budget; 2 of 2", "near its budget; 1 of 2", "over its budget; 2 of 2"),
        *("over its budget; 1 of 2", "2 of 2 replicas are ready", "near its budget; 2 of 2"),
    )
    for message in messages:
        notifier.check([event("resource", message, "Synced", "Healthy", ref=TRIAGE)])
    assert [notice.state for notice in inbox.got] == ["BudgetNear", "BudgetExceeded", "BudgetNear"]


def test_drift_is_reported_once_until_it_is_healed() -> None:
    view = StillView({KEY: application()})
    inbox = Inbox(interval=0.0)
    notifier = Notifier(view, HandClock(), [inbox], lambda key: True)
    drift = event("drift", "set .data.a", ref="/ConfigMap/shop/a")
    for happenings in ([drift], [drift], [event("healed", "restored", ref=drift.ref)], [drift]):
        notifier.check(happenings)
    assert [notice.kind for notice in inbox.got] == ["drift", "healed", "drift"]


def test_what_happens_in_an_application_of_another_replica_is_its_message() -> None:
    inbox = Inbox(interval=0.0)
    notifier = Notifier(StillView({KEY: application()}), HandClock(), [inbox], lambda key: False)
    drift = event("drift", "set .data.a", ref="/ConfigMap/shop/a")
    # each replica observes all Applications, and so has the events of all
    notifier.check([drift, event("resource", "near its budget; 2 of 2", "Synced", "Healthy", ref=TRIAGE)])
    assert inbox.got == []
