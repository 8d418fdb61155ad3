"""One request has one outcome, audit record and refusal, whether a page, the API, a form for several or a command."""

from __future__ import annotations

import html
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest

from gitsync.objects.record import AuditRecord
from tests.asgi_server import Served, serve
from tests.cli.conftest import Shop
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, deployment
from tests.server.fakes import FORM
from tests.waiting import until

KEY = "gitsync/shop"
CLOSED = {"kind": "Deny", "schedule": "0 0 * * *", "duration": "24h", "manualSync": True}
DONE, REFUSED, IMPOSSIBLE, INVALID = "done", "refused", "impossible", "invalid"
STATUS = {200: DONE, 303: DONE, 403: REFUSED, 409: IMPOSSIBLE, 422: INVALID}


@dataclass(frozen=True, slots=True)
class UserRequest:
    """What a user requests, and with which words."""

    action: str
    reason: str = "because"
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """How an entrance answered: the outcome, where it tells, and the text that a user reads."""

    outcome: str
    text: str


@dataclass(frozen=True, slots=True)
class Entrances:
    """The entrances of one controller."""

    shop: Shop
    web: Served

    def page(self, wanted: UserRequest) -> Answer:
        fields = {"by": "grace", "reason": wanted.reason}
        path = wanted.action
        if wanted.action in ("approve", "reject"):
            path, fields = "review", {**fields, "decision": wanted.action, "digest": self.digest()}
        if wanted.action == "revert":
            fields = {**fields, "newest": self.shop.second, "branch": "undo-page", **wanted.more}
        return self._form(f"/apps/{KEY}/{path}", fields)

    def bulk(self, wanted: UserRequest) -> Answer:
        answer = self._form("/bulk", {"action": wanted.action, "app": KEY, "by": "grace", "reason": wanted.reason})
        return answer if "Requested for 1 application" in answer.text else replace(answer, outcome="")

    def api(self, wanted: UserRequest) -> Answer:
        body: dict[str, Any] = {"by": "grace", "reason": wanted.reason}
        path = wanted.action
        if wanted.action in ("approve", "reject"):
            path, body = "review", {**body, "verdict": wanted.action, "digest": self.digest()}
        headers = {"Content-Type": "application/json"}
        answer = self.web.ask(
            f"/api/v1/applications/{KEY}/{path}", method="POST", body=orjson.dumps(body), headers=headers
        )
        return Answer(STATUS[answer.status], orjson.loads(answer.text).get("detail", ""))

    def command(self, wanted: UserRequest) -> Answer:
        """Run the command beside the controller, without a dashboard."""
        name = "rollback" if wanted.action == "revert" else wanted.action
        arguments = ["--reason", wanted.reason] if wanted.reason else []
        if wanted.action == "sync":
            arguments.append("--no-wait")
        if wanted.action == "revert":
            arguments += ["--branch", "undo-command", "--author", "grace", *wanted.more.get("arguments", ())]
        else:
            arguments += ["--by", "grace"]
        done = self.shop(name, "shop", *arguments)
        return Answer(DONE if done.code == 0 else "", done.err.removeprefix("gitsync: ").strip())

    def command_at_dashboard(self, wanted: UserRequest) -> Answer:
        """Run the command with the URL of the dashboard."""
        arguments = ["--reason", wanted.reason] if wanted.reason else []
        done = self.shop(wanted.action, "shop", "--by", "grace", "--server", self.web.url, *arguments)
        text = done.err.removeprefix(f"gitsync: {self.web.url}: ").strip()
        return Answer(DONE if done.code == 0 else "", text)

    def digest(self) -> str:
        plan = self.shop.world.view().plan
        assert plan is not None
        return plan.digest

    def _form(self, path: str, fields: dict[str, str]) -> Answer:
        port = self.web.url.rpartition(":")[2]
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.web.url,
            "Cookie": f"gitsync-form-{port}={FORM}",
        }
        body = urlencode({"token": FORM, **fields}).encode()
        answer = self.web.ask(path, method="POST", body=body, headers=headers)
        return Answer(STATUS[answer.status], html.unescape(answer.text))


@pytest.fixture
def entrances(shop: Shop) -> Iterator[Entrances]:
    with serve(shop.world.dashboard()) as web:
        yield Entrances(shop, web)


Entrance = Callable[[Entrances, UserRequest], Answer]
ALL: tuple[Entrance, ...] = (Entrances.page, Entrances.api, Entrances.bulk, Entrances.command)
REVIEWS: tuple[Entrance, ...] = (Entrances.page, Entrances.api, Entrances.command, Entrances.command_at_dashboard)


def suspend(entrances: Entrances, suspended: bool) -> None:
    """Set the state that a request needs, past every entrance."""
    world = entrances.shop.world

    def is_shown(as_declared: bool) -> bool:
        application = world.view().application
        return application is not None and application.suspend is as_declared

    # what the request before changed may not be shown yet, and would be taken for the answer to this one
    until(lambda: is_shown(is_suspended(world)))
    world.controller.requests.suspend(KEY, suspended)
    until(lambda: is_shown(suspended))


def is_suspended(world: World) -> bool:
    """Whether the Application in the cluster is suspended."""
    application = world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") or {}
    return bool(application["spec"].get("suspend"))


def record_of(entrances: Entrances, action: str, known: int) -> AuditRecord:
    """Return the audit record of a request, which has to be one, without what differs between two requests."""
    records = entrances.shop.world.controller.records.audit_records(KEY, action=action)
    assert len(records) == known + 1
    details = {name: value for name, value in records[0].details.items() if name != "until"}
    epoch = records[0].timestamp.replace(year=2000, month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return replace(records[0], id=0, previous="", hash="", timestamp=epoch, details=details)


def count(entrances: Entrances, action: str) -> int:
    return len(entrances.shop.world.controller.records.audit_records(KEY, action=action))


def assert_same_record(
    entrances: Entrances, through: tuple[Entrance, ...], wanted: UserRequest, prepare: Callable[[], None]
) -> None:
    """Make a request through each entrance; require success and equal audit records."""
    made = []
    for entrance in through:
        prepare()
        known = count(entrances, wanted.action)
        answer = entrance(entrances, wanted)
        assert answer.outcome == DONE, (entrance.__name__, answer.text)
        made.append(record_of(entrances, wanted.action, known))
    assert made == [made[0]] * len(through)
    assert (made[0].approver, made[0].reasoning) == ("grace", wanted.reason)


def assert_refused(
    entrances: Entrances, through: tuple[Entrance, ...], wanted: UserRequest, outcome: str, text: str
) -> None:
    """Make a request through each entrance; require the same refusal word for word, and no audit record."""
    known = count(entrances, wanted.action)
    for entrance in through:
        answer = entrance(entrances, wanted)
        assert answer.outcome in (outcome, ""), (entrance.__name__, answer.text)
        # a form for several names the Application in front of the problem, as a link
        expected = text.removeprefix(f"Application {KEY}: ") if entrance is Entrances.bulk else text
        if entrance in (Entrances.page, Entrances.bulk):
            assert expected in answer.text, entrance.__name__
        else:
            assert answer.text == expected, entrance.__name__
    assert count(entrances, wanted.action) == known


@pytest.mark.parametrize("action", ["sync", "suspend", "resume"])
def test_a_request_is_recorded_alike_by_each_entrance(entrances: Entrances, action: str) -> None:
    assert_same_record(entrances, ALL, UserRequest(action), lambda: suspend(entrances, action == "resume"))


@pytest.mark.parametrize(
    ("action", "is_suspended", "text"),
    [
        ("sync", True, "is suspended, so it is not synced; resume it first"),
        ("suspend", True, "is suspended already"),
        ("resume", False, "is not suspended"),
    ],
)
def test_a_request_that_would_do_nothing_is_refused_alike(
    entrances: Entrances, action: str, is_suspended: bool, text: str
) -> None:
    suspend(entrances, is_suspended)
    assert_refused(entrances, ALL, UserRequest(action), IMPOSSIBLE, f"Application {KEY}: {text}")


@pytest.mark.parametrize("action", ["suspend", "resume"])
def test_suspend_and_resume_need_a_reason_at_each_entrance(entrances: Entrances, action: str) -> None:
    suspend(entrances, action == "resume")
    through = (Entrances.page, Entrances.api, Entrances.command)
    text = f"Application {KEY}: to {action} needs a name and a reason"
    assert_refused(entrances, through, UserRequest(action, reason=""), INVALID, text)
    assert entrances.bulk(UserRequest(action, reason="")).outcome in (INVALID, "")
    assert count(entrances, action) == 0


def test_a_sync_needs_no_reason_and_has_the_same_one(entrances: Entrances) -> None:
    for entrance in (Entrances.page, Entrances.api, Entrances.command):
        known = count(entrances, "sync")
        assert entrance(entrances, UserRequest("sync", reason="")).outcome == DONE
        assert record_of(entrances, "sync", known).reasoning == "Sync now"


def hold(entrances: Entrances, **spec: Any) -> None:
    """Commit what stops all replicas, which waits for an approval."""
    world = entrances.shop.world
    world.application(risk={"approval": "Dangerous"}, **spec)
    world.repo.commit("close", {"shop/web.yaml": deployment("web", replicas=0)})
    until(lambda: world.shows("AwaitingApproval"), 10, world.status)


def test_an_approval_in_a_closed_window_waits_at_each_entrance(entrances: Entrances) -> None:
    world = entrances.shop.world
    hold(entrances, sync={"windows": [CLOSED]})

    def wait_again() -> None:
        world.controller.records.end_approval(KEY, entrances.digest())
        world.controller.requests.poll_now([KEY])
        until(lambda: world.condition("Ready").get("reason") == "AwaitingApproval", 10, world.status)

    def check_it_waits(entrance: Entrance) -> Entrance:
        def checked(entrances: Entrances, wanted: UserRequest) -> Answer:
            answer = entrance(entrances, wanted)
            until(lambda: world.condition("Ready").get("reason") == "OutsideWindow", 10, world.status)
            until(lambda: not world.controller.requests.queue_length(), 10)
            live = world.get("Deployment", "web", api="apps/v1")
            assert live is not None
            assert (live["spec"]["replicas"], world.status()["phase"]) == (2, "Pending")
            return answer

        checked.__name__ = entrance.__name__
        return checked

    through = tuple(map(check_it_waits, REVIEWS))
    assert_same_record(entrances, through, UserRequest("approve"), wait_again)


def test_a_rejection_is_recorded_and_refused_alike(entrances: Entrances) -> None:
    hold(entrances)
    text = f"Application {KEY}: a rejection needs a reason; give a reason"
    assert_refused(entrances, REVIEWS, UserRequest("reject", reason=""), INVALID, text)
    assert_same_record(entrances, REVIEWS, UserRequest("reject"), lambda: None)
    text = f"Application {KEY}: the plan was rejected by grace: because; approve it with --overrule, or change Git"
    assert_refused(entrances, REVIEWS, UserRequest("approve"), REFUSED, text)


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_review_of_nothing_is_refused_alike(entrances: Entrances, action: str) -> None:
    text = f"Application {KEY}: no plan waits for approval"
    assert_refused(entrances, REVIEWS, UserRequest(action), IMPOSSIBLE, text)


CHOSEN = "/ConfigMap/shop/first"


def choose_on_page(entrances: Entrances, wanted: UserRequest) -> Answer:
    more = {name: value for name, value in wanted.more.items() if value}
    return entrances._form(f"/apps/{KEY}/sync/objects", {"by": "grace", "reason": wanted.reason, **more})


def choose_by_api(entrances: Entrances, wanted: UserRequest) -> Answer:
    options = {name: value == "true" for name, value in wanted.more.items() if name != "object"}
    body = {"by": "grace", "reason": wanted.reason, "objects": [wanted.more["object"]], **options}
    headers = {"Content-Type": "application/json"}
    answer = entrances.web.ask(
        f"/api/v1/applications/{KEY}/sync", method="POST", body=orjson.dumps(body), headers=headers
    )
    return Answer(STATUS[answer.status], orjson.loads(answer.text).get("detail", ""))


def choose_by_command(entrances: Entrances, wanted: UserRequest) -> Answer:
    options = [f"--{name}" for name, value in wanted.more.items() if name != "object" and value]
    arguments = ["--object", wanted.more["object"], "--reason", wanted.reason, "--by", "grace", "--no-wait", *options]
    done = entrances.shop("sync", "shop", *arguments, "--server", entrances.web.url)
    return Answer(DONE if done.code == 0 else "", done.err.removeprefix(f"gitsync: {entrances.web.url}: ").strip())


def wait_for_choice(entrances: Entrances, **files: str | None) -> None:
    """Commit changes of two objects, which are not synced by themselves."""
    world = entrances.shop.world
    suspend(entrances, False)
    world.application(sync={"automated": False})
    changed = {"shop/first.yaml": config_map("first", text=uuid.uuid4().hex), "shop/second.yaml": config_map("second")}
    commit = world.repo.commit("change", {**changed, **files})
    world.controller.requests.poll_now([KEY])

    def is_planned() -> bool:
        plan = world.view().plan
        return plan is not None and plan.revision == commit and len(plan.writes) > 1

    until(is_planned, 10, world.status)


CHOOSERS: tuple[Entrance, ...] = (choose_on_page, choose_by_api, choose_by_command)


def assert_same_refusal(entrances: Entrances, wanted: UserRequest, outcome: str, text: str) -> None:
    for entrance in CHOOSERS:
        answer = entrance(entrances, wanted)
        assert answer.outcome in (outcome, ""), (entrance.__name__, answer.text)
        assert text in answer.text, entrance.__name__
    assert count(entrances, "sync-objects") == 0


def test_a_sync_of_chosen_objects_is_recorded_alike(entrances: Entrances) -> None:
    wanted = UserRequest("sync-objects", more={"object": CHOSEN, "replace": "true"})
    assert_same_record(entrances, CHOOSERS, wanted, lambda: wait_for_choice(entrances))
    (record, *_) = entrances.shop.world.controller.records.audit_records(KEY, action="sync-objects")
    assert record.message == "ConfigMap shop/first; replace"


def test_a_sync_of_chosen_objects_is_refused_alike(entrances: Entrances) -> None:
    wait_for_choice(entrances)
    wanted = UserRequest("sync-objects", more={"object": CHOSEN})
    text = f"Application {KEY}: to sync chosen objects needs a name and a reason"
    assert_same_refusal(entrances, replace(wanted, reason=""), INVALID, text)
    text = f"Application {KEY}: the plan has no step for Deployment shop/web; it is as Git declares it"
    other = replace(wanted, more={"object": "apps/Deployment/shop/web"})
    assert_same_refusal(entrances, other, IMPOSSIBLE, text)
    suspend(entrances, True)
    text = f"Application {KEY}: is suspended, so it is not synced; resume it first"
    assert_same_refusal(entrances, wanted, IMPOSSIBLE, text)


def test_a_dry_run_of_chosen_objects_leaves_no_record(entrances: Entrances) -> None:
    wait_for_choice(entrances)
    wanted = UserRequest("sync-objects", reason="", more={"object": CHOSEN, "dry_run": "true"})
    assert choose_on_page(entrances, wanted).outcome == DONE
    assert choose_by_api(entrances, replace(wanted, more={"object": CHOSEN, "dryRun": "true"})).outcome == DONE
    done = entrances.shop("sync", "shop", "--object", "ConfigMap/first", "--dry-run", "--server", entrances.web.url)
    assert (done.code, done.out.strip()) == (
        0,
        "create ConfigMap shop/first  [Safe] succeeded: creates an object",
    )
    assert entrances.shop.world.get("ConfigMap", "first") is None
    assert count(entrances, "sync-objects") == 0


@pytest.mark.parametrize("is_range", [False, True])
def test_a_revert_names_its_newest_commit_at_each_entrance(entrances: Entrances, is_range: bool) -> None:
    shop = entrances.shop
    third = shop.world.repo.commit("a third prompt", {"shop/note.yaml": deployment("note")})
    shop.world.synced(third)
    more: dict[str, Any] = {"newest": third}
    more |= {"after": shop.first, "arguments": ["--to", shop.first]} if is_range else {}
    wanted = UserRequest("revert", more=more)
    assert_same_record(entrances, (Entrances.page, Entrances.command), wanted, lambda: None)
    (record, *_) = shop.world.controller.records.audit_records(KEY, action="revert")
    assert record.commit == third
    assert record.details["commits"] == ([third, shop.second] if is_range else [third])
