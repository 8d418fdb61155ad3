"""
What people open the dashboard for, from the home page in a real browser: each in at most three clicks.

A rollback ends on its preview, one click before its effect: no page writes to Git before it has shown what the commit
will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from gitsync.objects.application import Application
from gitsync.objects.change import Risk
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.ports import ApplicationView
from gitsync.server.app import create_app
from tests.asgi_server import Served, serve
from tests.browser.conftest import SharedPages
from tests.server.fakes import NOW, StillEngine, access_of, application, changed, edited, engine, resource
from tests.server.pages.test_agents import SPEC, STATUS, held, live
from tests.server.pages.test_environments import DESK
from tests.server.pages.test_pulls import proposal
from tests.server.pages.test_updates import KEY, update
from tests.waiting import until

MOST = 3
OLD = Commit("a" * 40, "Ada", message="Open the till")
NEW = Commit("b" * 40, "Ada", message="Raise the prices")
WORKLOAD = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triage", "ready": True}


@dataclass(slots=True)
class Visitor:
    """A person who opened the home page, and how often they clicked."""

    page: Page
    clicks: int = 0

    def click(self, target: Locator) -> None:
        """Click what is found; one more than ``MOST`` is a failure."""
        self.clicks += 1
        assert self.clicks <= MOST
        target.click()

    def follow(self, name: str, area: str = "main") -> None:
        """Click the first link with a name in a part of the page."""
        self.click(self.page.locator(area).get_by_role("link", name=name, exact=True).first)

    def press(self, name: str) -> None:
        """Click the first button with a name."""
        self.click(self.page.locator("main").get_by_role("button", name=name, exact=True).first)

    @property
    def details(self) -> Locator:
        """The object that is open: beside the page, or in its place where the link was faster than the scripts."""
        return self.page.locator("[data-detail]")


class OneCommitBack:
    """What a rollback takes back, and its effect: nothing in the cluster."""

    def commits(self, app: Application, after: str) -> Sequence[Commit]:
        return [NEW] if after == OLD.id else []

    def effects(self, app: Application, commits: Sequence[Commit], followers: Sequence[Application]) -> Sequence[Any]:
        return ()


def crashed() -> tuple[ApplicationView, Manifest]:
    """Return an Application whose Deployment crashes, and its Pod."""
    worker = resource("worker", "Deployment", health=Health.DEGRADED, message="Pod worker-1 is in CrashLoopBackOff")
    status = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4}
    ended = {"lastState": {"terminated": {"exitCode": 1}}}
    pod = live(
        "Pod",
        "worker-1",
        "v1",
        spec={"containers": [{"name": "app"}]},
        status={"containerStatuses": [status | ended]},
    )
    deployed = replace(worker, change=replace(worker.change, live=live("Deployment", "worker", "apps/v1")))
    return application("shop", [deployed], health="Degraded"), pod


def drifted() -> ApplicationView:
    """Return an Application with an object that a user changed."""
    web = edited(resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),)))
    view = application("lab", [web], phase="Drifted", sync="OutOfSync")
    plan = view.plan and replace(view.plan, repairs=view.plan.changes)
    return replace(view, plan=plan, status={**view.status, "drift": {"objects": 1}})


def agents() -> ApplicationView:
    """Return an Application with an Agent, and the Deployment that runs it."""
    agent = live("Agent", "triage", spec=SPEC, status={**STATUS, "children": [WORKLOAD]})
    return application("agents", [held(agent), held(live("Deployment", "triage", "apps/v1"))])


def fill(still: StillEngine) -> None:
    """Record two syncs of an Application, and the one that wrote a prompt; propose a change; let an agent run."""
    for hours, commit in ((30, OLD), (2, NEW)):
        started = NOW - timedelta(hours=hours)
        record = SyncRecord("gitsync/till", commit, "commit", started, 9, Outcome.SUCCEEDED, "Safe", "d")
        still.records.save(record)
    text = {"path": '.data["prompt.md"]', "live": "Sort tickets.", "desired": "Sort tickets slowly."}
    prompt = "/ConfigMap/desk/prod-triage-prompt"
    written = Step(prompt, "update", "Safe", "", Outcome.SUCCEEDED, differences=(text,))
    commit = Commit("c" * 40, "Ada", message="Slow down")
    record = SyncRecord("gitsync/desk-prod", commit, "commit", NOW, 4, Outcome.SUCCEEDED, "Safe", "d", steps=(written,))
    still.records.save(record)
    still.pull_requests.views = [proposal()]
    still.updates.views = [update()]
    statuses = [{"name": "agent", "restartCount": 2, "state": {"running": {}}}]
    pod = live(
        "Pod", "triage-1", "v1", spec={"containers": [{"name": "agent"}]}, status={"containerStatuses": statuses}
    )
    still.view.children["uid-triage"] = (pod,)
    still.pod_usage.known["shop", "triage-1"] = {"containers": [{"usage": {"cpu": "9m", "memory": "50Mi"}}]}
    still.usage.known = {("shop", "triage"): 1234567}


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StillEngine]:
    """An engine with an Application in each of the states that the tasks are about."""
    shop, pod = crashed()
    volume = resource("data", "PersistentVolumeClaim", sync="OutOfSync", risk=Risk.DANGEROUS)
    views = [
        shop,
        drifted(),
        application("vault", [volume], held=("1 dangerous step waits",)),
        application("till"),
        agents(),
        *DESK,
    ]
    made = engine(tmp_path_factory.mktemp("tasks"), views)
    made.view.children["uid-worker"] = (pod,)
    made.details.log = "panic: no database"
    made.reverts = made.preview = OneCommitBack()
    fill(made)
    yield made
    made.records.close()


@pytest.fixture(scope="module")
def dashboard(still: StillEngine) -> Iterator[Served]:
    with serve(create_app(still, access_of())) as web:
        yield web


@pytest.fixture
def person(dashboard: Served, shared_pages: SharedPages) -> Visitor:
    """A person in front of the home page."""
    return Visitor(shared_pages.visit(dashboard.url, "/").page)


def test_why_it_is_degraded_down_to_the_line_of_the_log(person: Visitor, still: StillEngine) -> None:
    expect(person.page.locator("#attention")).to_contain_text("CrashLoopBackOff")
    person.follow("shop", "#attention")
    person.follow("Log")
    expect(person.details).to_contain_text("panic: no database")
    # true: of the instance that crashed
    assert ("shop", "worker-1", "app", True) in [request[:4] for request in still.details.asked]


def test_who_changed_it_and_undo(person: Visitor, still: StillEngine) -> None:
    person.follow("Drift", "header")
    drift = person.page.locator("details.object", has_text="in lab")
    expect(drift).to_contain_text("kubectl-edit")
    person.follow("Revert to Git…")
    person.page.get_by_label("Your name").fill("Grace")
    person.page.get_by_label("Reason").fill("by mistake")
    person.press("Revert drift")
    expect(person.page.locator("main")).to_contain_text("Requested for 1 application")
    assert ("repair", "gitsync/lab", "Grace", "apps/Deployment/shop/web") in still.requests.done


def test_who_changed_it_and_keep(person: Visitor, still: StillEngine) -> None:
    person.follow("Drift", "header")
    person.press("Keep this")
    expect(person.page.locator("main")).to_contain_text("Proposed to Git, on a branch of its own")
    ((application_key, values, _),) = still.keeps.kept
    assert application_key == "gitsync/lab"
    assert [(value.path, value.value, value.manager) for value in values] == [(".spec.replicas", 4, "kubectl-edit")]
    assert person.clicks == 2


def test_approve_knowing_what_it_does(person: Visitor, still: StillEngine) -> None:
    person.follow("vault", "#attention")
    expect(person.page.locator("table.steps")).to_contain_text("PersistentVolumeClaim data")
    person.click(person.page.get_by_role("radio", name="Approve the change"))
    person.page.get_by_label("Your name").fill("Grace")
    person.press("Submit review")
    review = until(lambda: still.records.review("gitsync/vault", "d" * 64, NOW))
    assert (review.by.name, review.approves) == ("Grace", True)


def test_roll_back_to_yesterday_by_date(person: Visitor) -> None:
    person.follow("till")
    person.follow("History")
    yesterday = (NOW - timedelta(days=1)).strftime("%Y-%m-%d")
    expect(person.page.get_by_label("Roll back to the state of")).to_have_value(re.compile(yesterday))
    person.press("Preview")
    expect(person.page.locator("main")).to_contain_text("Roll back to aaaaaaa?")
    expect(person.page.locator("main")).to_contain_text("Raise the prices")
    expect(person.page.get_by_role("button", name="Revert bbbbbbb")).to_be_enabled()


def test_which_prompt_runs_where_and_since_when(person: Visitor) -> None:
    person.follow("Agents", "header")
    person.follow("By environment")
    prod = person.page.locator("td", has_text="prod-triage")
    expect(prod).to_contain_text("ccccccc Ada")
    person.click(prod.locator("a", has=person.page.locator("mark")))
    expect(person.page.locator("ins mark")).to_have_text(["slowly"])


def test_what_changed_of_agents_since_last_week(person: Visitor) -> None:
    person.follow("Agents", "header")
    changed = person.page.get_by_role("region", name="Changed in the last 7 days")
    expect(changed).to_contain_text("Slow down")


def test_what_a_pull_request_will_do(person: Visitor) -> None:
    person.follow("Pull requests", "header")
    person.follow("#1 Scale")
    expect(person.page.locator("main")).to_contain_text(".spec.replicas")


def test_promote_what_staging_runs(person: Visitor, still: StillEngine) -> None:
    person.follow("Updates", "header")
    expect(person.page.get_by_role("row", name="web.yaml:1")).to_contain_text("web:2")
    person.press("Promote shop")
    expect(person.page.locator("main .notice")).to_be_visible()
    assert [key for key, *_ in still.updates.proposed] == [KEY]
    assert person.clicks == 2


def test_the_figures_and_logs_of_an_agent(person: Visitor) -> None:
    person.follow("Agents", "header")
    person.click(person.page.get_by_role("row", name="triage shop").get_by_role("link").first)
    for figure in ("1,234,567 tokens in the last day", "Failed 3/4", "2 restarts", "uses 9m cpu and 50Mi memory"):
        expect(person.page.locator("#agent")).to_contain_text(figure)
    person.follow("Logs of Deployment triage")
    expect(person.details).to_contain_text("panic: no database")
