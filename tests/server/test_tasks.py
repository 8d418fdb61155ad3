"""
What people open the dashboard for, from the home page: each in at most three clicks.

A click follows the link with a text, or sends a form. Promotion between environments has no page: `gitsync promote`
proposes it as a commit, which is then a pull request like the others.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote, urljoin

from gitsync.objects.change import Risk
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.ports import ApplicationView
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, changed, edited, resource
from tests.server.pages.test_environments import DESK
from tests.server.pages.test_pulls import proposal

MOST = 3
SHOP = "/apps/gitsync/shop"
_LINK = re.compile(r'<a (?:[^>]* )?href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


@dataclass(slots=True)
class Visitor:
    """A person who opened the home page, and what they see."""

    site: Site
    path: str = "/"
    clicks: int = 0

    @property
    def page(self) -> str:
        """The HTML of the page that they see."""
        answer = self.site.get(self.path)
        assert answer.status == 200, self.path
        return answer.text

    def click(self, text: str) -> None:
        """Follow the first link with a text."""
        links = {
            " ".join(re.sub(r"<[^>]*>", "", label).split()): url for url, label in reversed(_LINK.findall(self.page))
        }
        assert text in links, (self.path, text, sorted(links))
        self.clicks += 1
        self.path = urljoin(self.path, html.unescape(links[text]))
        assert self.clicks <= MOST


def crashed() -> tuple[ApplicationView, Manifest]:
    """Return an Application whose Deployment crashes, and its Pod."""
    worker = resource("worker", "Deployment", health=Health.DEGRADED, message="Pod worker-1 is in CrashLoopBackOff")
    status = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4}
    ended = {"lastState": {"terminated": {"exitCode": 1}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "worker-1", "namespace": "shop", "uid": "pod"},
        "spec": {"containers": [{"name": "app"}]},
        "status": {"containerStatuses": [status | ended]},
    }
    live = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "worker", "namespace": "shop", "uid": "w"},
    }
    held = replace(worker, change=replace(worker.change, live=live))
    return application(resources=[held], health="Degraded"), pod


def test_why_it_is_degraded_down_to_the_line_of_the_log(site: Open) -> None:
    view, pod = crashed()
    opened = site([view])
    opened.engine.view.children["w"] = (pod,)
    opened.engine.details.log = "panic: no database"
    person = Visitor(opened)
    assert "CrashLoopBackOff" in person.page
    person.click("shop")
    person.click("Log")
    assert "panic: no database" in person.page
    (asked,) = opened.engine.details.asked
    assert asked[:4] == ("shop", "worker-1", "app", True), "the log of the instance that crashed"


def test_who_changed_it_and_undo_or_keep(site: Open) -> None:
    web = edited(resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),)))
    person = Visitor(site([application(resources=[web], phase="Drifted", sync="OutOfSync")]))
    person.click("Drift")
    page = person.page
    assert "kubectl-edit" in page
    assert f'action="{SHOP}/keep"' in page
    assert "Keep this" in page
    assert "Revert to Git" in page


def test_approve_knowing_what_it_does(site: Open) -> None:
    volume = resource("data", "PersistentVolumeClaim", sync="OutOfSync", risk=Risk.DANGEROUS)
    person = Visitor(site([application(resources=[volume], held=("1 dangerous step waits",))]))
    person.click("shop")
    assert person.path == f"{SHOP}/plan"
    assert "PersistentVolumeClaim data" in person.page
    assert f'action="{SHOP}/review"' in person.page


def test_roll_back_to_yesterday_by_date(site: Open) -> None:
    opened = site([application()])
    for hours, commit in ((30, "a" * 40), (2, "b" * 40)):
        started = NOW - timedelta(hours=hours)
        record = SyncRecord("gitsync/shop", Commit(commit, "Ada"), "commit", started, 9, Outcome.SUCCEEDED, "Safe", "d")
        opened.engine.records.save(record)
    person = Visitor(opened)
    person.click("shop")
    person.click("History")
    (yesterday,) = re.findall(r'name="at" required [^>]*value="([^"]*)"', person.page)
    answer = opened.get(f"{SHOP}/rollback?at={quote(yesterday)}")
    assert answer.headers["location"] == f"{SHOP}/revert?after={'a' * 40}"


def test_which_prompt_runs_where_and_since_when(site: Open) -> None:
    opened = site(DESK)
    written = Step("/ConfigMap/desk/prod-triage-prompt", "create", "Safe", "", Outcome.SUCCEEDED)
    commit = Commit("c" * 40, "Ada", message="Slow down")
    record = SyncRecord("gitsync/desk-prod", commit, "commit", NOW, 4, Outcome.SUCCEEDED, "Safe", "d", steps=(written,))
    opened.engine.records.save(record)
    person = Visitor(opened)
    person.click("Agents")
    person.click("By environment")
    assert "<code>ccccccc</code> Ada" in person.page
    (digest,) = re.findall(r"<mark>([0-9a-f]{8})</mark>", person.page)
    person.click(digest)
    assert "<mark> slowly</mark>" in person.page


def test_what_a_pull_request_will_do(site: Open) -> None:
    opened = site([application()])
    opened.engine.pull_requests.views = [proposal()]
    person = Visitor(opened)
    person.click("Pull requests")
    person.click("#1 Scale")
    assert ".spec.replicas" in person.page


def test_the_logs_of_an_agent(site: Open) -> None:
    opened = site(DESK)
    opened.engine.view.children["uid-prod-triage"] = ()
    person = Visitor(opened)
    person.click("Agents")
    person.click("prod-triage")
    assert "0/1 replicas are ready" in person.page
    person.click("Logs")
    assert "No Pods." in person.page
