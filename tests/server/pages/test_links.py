"""Every link of every page leads to a page, in each state of an Application, and for syncs of every kind of owner."""

from __future__ import annotations

import html
import re
from collections import deque
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from gitsync.objects.change import HoldReason, Risk
from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.user import User
from gitsync.ports import ApplicationView, ResourceView
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, changed, edited, resource
from tests.server.pages.test_agents import SPEC, STATUS, held, live

_LINK = re.compile(r'(?:href|action)="(/[^"#]*)')
_OBJECT = re.compile(r"/object[/?]")
_NOT_FOLLOWED = re.compile(r"^/(static/|sign-out|apps/[^?]*/(sync|review|resume|keep|rollback)$|bulk$|audit\.jsonl)")
"""Files, and forms that are sent by POST or need what a user types."""
_OWNERS = ("gitsync/shop", "shop/agent:triage", "shop/multiagentsystem:desk", "gitsync/applicationset:tenants")


def sync(owner: str, trigger: str = "commit") -> SyncRecord:
    """Return a sync that changed a ConfigMap."""
    difference = {"path": ".data.mode", "live": "open", "desired": "closed", "owners": [{"manager": "kubectl-edit"}]}
    step = Step("/ConfigMap/shop/a", "update", "Safe", "why", Outcome.SUCCEEDED, differences=(difference,))
    commit = Commit("c" * 40 if owner == "gitsync/shop" else "generation-1", "Ada", message="Open the shop")
    return SyncRecord(owner, commit, trigger, NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))


def parts() -> list[ResourceView]:
    agent = held(live("Agent", "triage", spec=SPEC, status={**STATUS, "children": []}))  # they are not in this cluster
    members = {"agents": [{"name": "triage", "agentRef": {"name": "triage"}}]}
    system = held(live("MultiAgentSystem", "desk", spec=members, status={"phase": "Running", "ready": "1/1"}))
    web = edited(resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),)))
    broken = resource("worker", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff", risk=Risk.DANGEROUS)
    return [resource("a"), web, broken, agent, system]


def in_state(name: str, **options: Any) -> ApplicationView:
    view = application("shop", parts(), phase=name, **options)
    return replace(view, status={**view.status, "drift": {"objects": 1, "detectedAt": "2026-03-01T11:00:00Z"}})


STATES = {
    "synced": in_state("Synced"),
    "held": in_state("Synced", held=("1 dangerous step waits",)),
    "in a closed window": in_state("Pending", held=("a window",), holds=(HoldReason.WINDOW,)),
    "failed": in_state("Failed", health="Degraded"),
    "drifted": in_state("Drifted", sync="OutOfSync", health="Degraded"),
    "suspended": in_state("Suspended", sync="OutOfSync"),
}


def filled(site: Open, view: ApplicationView) -> Site:
    """Open a dashboard with syncs and decisions of each kind of owner."""
    opened = site([view, application("blog")])
    records = opened.engine.records
    for owner in _OWNERS:
        records.save(sync(owner))
        records.save(sync(owner, "drift"))
        records.audit([AuditRecord.by_user(owner, "approve", User("ada"), NOW, "good")])
    return opened


@pytest.mark.parametrize("view", STATES.values(), ids=STATES)
def test_every_link_leads_to_a_page(site: Open, view: ApplicationView) -> None:
    opened = filled(site, view)
    reverts = {"/apps/gitsync/shop/revert", "/apps/gitsync/blog/revert"}  # they read Git, which is not here
    followed = dict.fromkeys(("/", "/wall", "/changes/compare"), "the menu")
    waiting = deque(followed)
    failures = {}
    while waiting:
        path = waiting.popleft()
        answer = opened.get(path)
        if answer.status >= 400:
            failures[path] = (answer.status, followed[path])
        is_filtered = "?" in path and not _OBJECT.search(path)  # facets combine without end
        for link in map(html.unescape, () if is_filtered else _LINK.findall(answer.text)):
            if link not in followed and not _NOT_FOLLOWED.match(link) and link.partition("?")[0] not in reverts:
                followed[link] = path
                waiting.append(link)
    assert failures == {}
    assert {"/agents/shop/triage/history/3", "/agents/systems/shop/desk/history/5"} <= set(followed)


def links_to_changes(page: str) -> list[str]:
    """Return the filters of the links to commits and people."""
    return [unquote(link) for link in re.findall(r'class="commit" href="/changes\?q=([^"]*)"', page)]


def test_commits_and_authors_of_applications_are_links(site: Open) -> None:
    behind = application("shop", [resource("a")])
    revision = {**behind.status["revision"], "applied": "b" * 40}
    opened = site([replace(behind, status={**behind.status, "revision": revision})])
    wanted = ["commit:ccccccc", 'by:"Ada"', "commit:bbbbbbb"]
    title, _, folds = opened.get("/apps/gitsync/shop").text.partition('<div class="folds">')
    assert links_to_changes(opened.get("/apps").text) == wanted
    assert links_to_changes(title) == ["commit:bbbbbbb", "commit:ccccccc"]
    assert links_to_changes(folds) == wanted
    assert links_to_changes(folds.partition("</summary>")[0]) == []
    synced = site([application("shop", [resource("a")])])
    title = synced.get("/apps/gitsync/shop").text.partition('<div class="folds">')[0]
    assert links_to_changes(title) == ["commit:ccccccc"]


def test_the_review_of_a_commit_names_its_author(site: Open) -> None:
    dangerous = resource("a", sync="OutOfSync", differences=(changed(),), risk=Risk.DANGEROUS)
    page = site([application("shop", [dangerous], held=("it waits",))]).get(f"/approvals/{'c' * 40}").text
    assert links_to_changes(page) == ['by:"Ada"', "commit:ccccccc"]
