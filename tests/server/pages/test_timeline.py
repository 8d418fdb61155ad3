"""The timeline, the comparison of two points in time, and home since the last visit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ref_of
from gitsync.objects.user import User
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, changed, resource

KEY = "gitsync/shop"


def record(app: str = KEY, trigger: str = "commit", minutes: int = 60, **members: Any) -> SyncRecord:
    commit = Commit(members.pop("commit", "c" * 40), "Ada", message=members.pop("message", "Open the shop"))
    started = NOW - timedelta(minutes=minutes)
    return SyncRecord(app, commit, trigger, started, 400, Outcome.SUCCEEDED, "Safe", "d", **members)


def step(name: str, action: str = "update", *differences: dict[str, Any]) -> Step:
    return Step(f"/ConfigMap/shop/{name}", action, "Safe", "why", Outcome.SUCCEEDED, differences=differences)


def edit(live: Any, desired: Any, path: str = ".data.mode", manager: str = "kubectl-edit") -> dict[str, Any]:
    owner = {"manager": manager, "operation": "Update", "time": (NOW - timedelta(minutes=31)).isoformat()}
    return {"path": path, "live": live, "desired": desired, "owners": [owner]}


def titles(site: Site, path: str) -> list[str]:
    text = site.get(path).text
    return re.findall(r'<li class="k-([\w-]+)"', text)


def filled(opened: Site) -> None:
    """Keep a commit in two applications, drift that was corrected, and decisions."""
    records = opened.engine.records
    records.save(record(minutes=60))
    records.save(record("gitsync/other", minutes=59))
    records.save(record(trigger="drift", minutes=30, steps=(step("a", "update", edit("closed", "open")),)))
    action = AuditRecord.by_user(KEY, "suspend", User("Grace"), NOW - timedelta(minutes=20), "maintenance")
    records.audit([action, AuditRecord.by_user(KEY, "resume", User("Grace"), NOW - timedelta(minutes=10), "done")])


class CountedReads:
    """Records that remember which of them were read."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._records, name)


@pytest.mark.parametrize(
    ("query", "shown", "read"),
    [
        ("kind:Suspend", ["suspend"], {"decisions"}),
        ("kind:heal", ["heal"], {"history"}),
        ("kind:heal+kind:resume", ["resume", "heal"], {"decisions", "history"}),
        ("kind:s*", ["suspend", "sync"], {"decisions", "history"}),
        ("-kind:sync", ["resume", "suspend", "heal"], {"decisions", "history"}),
        ("kind:drift", [], {"decisions"}),
    ],
)
def test_a_filter_by_kind_reads_records_that_can_match(
    site: Open, query: str, shown: list[str], read: set[str]
) -> None:
    opened = site([application(), application("other")])
    filled(opened)
    counted = CountedReads(opened.engine.records)
    opened.engine.records = counted  # type: ignore[assignment]
    assert titles(opened, f"/changes?q={query}") == shown
    assert counted.read & {"decisions", "history"} == read


def test_it_has_commits_with_their_syncs_drift_and_decisions(site: Open) -> None:
    opened = site([application(), application("other")])
    filled(opened)
    assert titles(opened, "/changes") == ["resume", "suspend", "heal", "sync"]
    page = opened.get("/changes").text
    assert "kubectl-edit changed .data.mode of ConfigMap a to closed (Git: open)" in page
    assert "maintenance" in page
    commit = page[page.index('class="k-sync"') :]
    assert ">shop</a>" in commit
    assert ">other</a>" in commit
    assert "Open the shop" in commit


def test_it_is_filtered_by_kind_person_time_and_words(site: Open) -> None:
    opened = site([application(), application("other")])
    filled(opened)
    for text, expected in (
        ("kind:heal", ["heal"]),
        ("by:Grace", ["resume", "suspend"]),
        ("by:kubectl*", ["heal"]),
        ("since:25m", ["resume", "suspend"]),
        ("until:25m", ["heal", "sync"]),
        ("app:other", ["sync"]),
        ("app:gitsync/other", ["sync"]),
        ("maintenance", ["suspend"]),
        ("by:Bob", []),
    ):
        assert titles(opened, f"/changes?q={text}") == expected, text


def test_pages_hold_every_change_once(site: Open) -> None:
    opened = site([application()])
    for number in range(90):
        opened.engine.records.save(record(minutes=200 - number, commit=f"{number:040d}", message=f"commit {number}."))
        action = AuditRecord.by_user(
            KEY, "sync", User("Grace"), NOW - timedelta(minutes=200 - number), f"request {number}."
        )
        opened.engine.records.audit([action])
    seen: list[str] = []
    path = "/changes"
    while path:
        text = opened.get(path).text
        seen += re.findall(r"(?:commit|request) \d+\.", text)
        following = re.search(r'<a rel="next" href="([^"]+)"', text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == len(set(seen)) == 180


def test_a_position_that_is_not_valid_is_the_newest(site: Open) -> None:
    opened = site([application()])
    filled(opened)
    for before in ("x", "1-2-nan", "1-2-9e99", "9" * 70, "1-1-"):
        assert opened.get(f"/changes?before={before}").status == 200


def test_drift_that_is_not_corrected_is_in_it(site: Open) -> None:
    view = application(resources=[resource("a", sync="OutOfSync", differences=(changed(),))], phase="Drifted")
    since = (NOW - timedelta(minutes=5)).isoformat()
    view = replace(view, status={**view.status, "drift": {"objects": 1, "detectedAt": since}})
    opened = site([view])
    assert titles(opened, "/changes") == ["drift"]
    assert "ConfigMap shop/a .data.mode" in opened.get("/changes").text
    assert titles(opened, "/changes?q=until:10m") == []


def test_a_refusal_is_not_a_request(site: Open) -> None:
    opened = site([application()])
    refused = AuditRecord(KEY, "sync", "x", Outcome.REFUSED, NOW, "", "PolicyViolation", message="not allowed")
    opened.engine.records.audit([refused])
    assert titles(opened, "/changes") == ["refused"]


def test_a_comparison_has_each_object_once_from_first_to_last(site: Open) -> None:
    opened = site([application()])
    save = opened.engine.records.save
    save(record(minutes=50, steps=(step("a", "update", edit("one", "two")), step("back", "update", edit("x", "y")))))
    whole = {"path": "", "live": None, "desired": {"kind": "ConfigMap", "data": {"new": "yes"}}}
    save(record(minutes=40, steps=(step("b", "create", whole), step("back", "update", edit("y", "x")))))
    save(record(minutes=30, trigger="drift", steps=(step("a", "update", edit("rogue", "two")),)))
    save(record(minutes=20, steps=(step("a", "update", edit("two", "three")),)))
    page = opened.get("/changes/compare?q=since:1h").text
    assert "3 syncs changed 2 objects" in " ".join(page.split())
    assert "one" in page
    assert "three" in page
    assert "rogue" not in page
    assert "new: &#39;yes&#39;" in page or "new: " in page
    assert "ConfigMap back" not in page
    assert "changed 1 object." in " ".join(opened.get("/changes/compare?q=since:25m").text.split())


def test_home_groups_equal_problems(site: Open) -> None:
    views = []
    for number in range(6):
        view = application(f"app-{number}")
        failed = {
            "type": "Rendered",
            "status": "False",
            "message": f"apps/app-{number}/web.yaml:{number}: unknown field `resourcez`",
            "lastTransitionTime": (NOW - timedelta(minutes=number)).isoformat(),
        }
        views.append(replace(view, status={**view.status, "conditions": [failed], "phase": "Failed"}))
    page = site(views).get("/").text
    assert '<a href="/apps?q=state:InvalidManifests">6 applications</a>' in page
    assert page.count('<li class="n-0"') == 1


def test_home_shows_what_happened_since_the_last_visit(site: Open) -> None:
    opened = site([application(), application("other")])
    filled(opened)
    first = opened.get("/")
    assert "In the last 24 hours" in first.text
    (cookie,) = (cookie.partition(";")[0] for cookie in first.cookies if cookie.startswith("gitsync-visit"))
    assert "In the last 24 hours" in opened.get("/", Cookie=cookie).text, "a first visit has several requests"
    assert "Plan" in first.text or "k-suspend" in first.text
    now = NOW.timestamp()
    visited = f"gitsync-visit={now - 9000:.0f}.{now - 40 * 60:.0f}"
    page = opened.get("/", Cookie=visited).text
    assert "Since your last visit" in page
    shown = page[page.index('id="since"') : page.index('id="apps"')]
    assert "k-heal" in shown
    assert "k-sync" not in shown
    same_visit = f"gitsync-visit={now - 15 * 60:.0f}.{now - 60:.0f}"
    page = opened.get("/", Cookie=same_visit).text
    shown = page[page.index('id="since"') : page.index('id="apps"')]
    assert "k-resume" in shown
    assert "k-suspend" not in shown
    for broken in ("x", "1", "-1.5", "9" * 39):
        assert opened.get("/", Cookie=f"gitsync-visit={broken}").status == 200


def happened(opened: Site) -> dict[str, int]:
    """Return the counts of home by their words."""
    return {
        word.strip(): int(count) for count, word in re.findall(r"<b>(\d+)</b> ([a-z ]+)</span>", opened.get("/").text)
    }


def test_home_shows_commits_and_not_the_syncs_of_agents_that_follow(site: Open) -> None:
    opened = site([application()])
    opened.engine.records.save(record(commit="c" * 40))
    opened.engine.records.save(record("shop/agent:triage", trigger="agent", commit="generation-2"))
    home = opened.get("/").text
    assert "/agents/shop/triage" not in home
    assert "<code>ccccccc</code>" in home
    changes = opened.get("/changes").text
    assert 'href="/agents/shop/triage/history' in changes
    assert "<code>generation-2</code>" not in changes


def test_home_counts_commits_and_not_their_syncs(site: Open) -> None:
    opened = site([application(), application("other")])
    save = opened.engine.records.save
    for minutes, app in ((60, KEY), (50, "gitsync/other"), (40, KEY)):
        save(record(app, minutes=minutes))
        save(record(f"shop/agent:a{minutes}", trigger="agent", minutes=minutes - 1, commit="generation-1"))
    assert happened(opened) == {"commit": 1}
    agents = [title for title in titles(opened, "/changes") if title == "sync"]
    assert len(agents) == 6, "syncs of different Agents are not one entry because of equal generations"


VERDICT = {"result": "Failed", "passed": 3, "cases": 4, "message": "refund: the answer promises a refund"}


def test_failed_evaluations_are_in_the_timeline(site: Open) -> None:
    ended = (NOW - timedelta(minutes=20)).isoformat()
    agent = {
        "apiVersion": "agents.gitsync.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "triage", "namespace": "shop", "uid": "uid-agent"},
        "status": {"evaluation": {**VERDICT, "revision": "triage-2", "finishedAt": ended}},
    }
    kept = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "triage-2",
            "namespace": "shop",
            "labels": {"agents.gitsync.dev/revision": "2"},
            "annotations": {"agents.gitsync.dev/evaluation": json.dumps(VERDICT)},
            "creationTimestamp": (NOW - timedelta(minutes=30)).isoformat(),
        },
        "revision": 2,
        "data": {"template": {}, "config": {}},
    }
    view = resource("triage")
    view = replace(view, ref=ref_of(agent), change=replace(view.change, ref=ref_of(agent), live=agent))
    opened = site([application(resources=[view])])
    opened.engine.view.children["uid-agent"] = (kept,)
    page = opened.get("/changes").text
    assert titles(opened, "/changes?q=kind:evaluation") == ["evaluation"]
    assert "Revision triage-2 of Agent shop/triage does not serve: Failed 3/4" in page
    assert "the answer promises a refund" in page
    assert 'href="/agents/shop/triage"' in page
    assert titles(opened, "/changes?q=since:10m") == []
    assert happened(opened) == {"failed evaluation": 1}
