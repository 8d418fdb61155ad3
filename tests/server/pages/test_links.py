"""Every link of every page leads to a page, in each state of an Application, and for syncs of every kind of owner."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import pytest

from gitsync.objects.change import HoldReason, Risk
from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.user import User
from gitsync.ports import ApplicationView, ResourceView, StateEvent
from gitsync.server.formatting import object_url
from tests.links import follow, links, prose
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, changed, edited, resource
from tests.server.pages.test_agents import SPEC, STATUS, held, live

_OWNERS = ("gitsync/shop", "shop/agent:triage", "shop/multiagentsystem:desk", "gitsync/applicationset:tenants")
_DELETED = ("gitsync/closed", "shop/agent:retired", "shop/multiagentsystem:retired")
"""Owners that are in no cluster any more, and in the history."""
PRUNED = "/ConfigMap/shop/pruned"


def sync(owner: str, trigger: str = "commit") -> SyncRecord:
    """Return a sync that changed a ConfigMap."""
    difference = {"path": ".data.mode", "live": "open", "desired": "closed", "owners": [{"manager": "kubectl-edit"}]}
    step = Step("/ConfigMap/shop/a", "update", "Safe", "why", Outcome.SUCCEEDED, differences=(difference,))
    pruned = replace(step, ref=PRUNED, action="prune", differences=())
    commit = Commit("c" * 40 if owner == "gitsync/shop" else "generation-1", "Ada", message="Open the shop")
    return SyncRecord(owner, commit, trigger, NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step, pruned))


DELETED_POD = AuditRecord("", "delete-pod", "/Pod/shop/web-1", Outcome.SUCCEEDED, NOW, "", approver="ada")


def parts() -> list[ResourceView]:
    agent = held(live("Agent", "triage", spec=SPEC, status={**STATUS, "children": []}))  # they are not in this cluster
    members = {"agents": [{"name": "triage", "agentRef": {"name": "triage"}}]}
    system = held(live("MultiAgentSystem", "desk", spec=members, status={"phase": "Running", "ready": "1/1"}))
    web = edited(resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),)))
    broken = resource("worker", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff", risk=Risk.DANGEROUS)
    return [resource("a"), web, broken, agent, system]


def in_state(name: str, condition: str = "", **options: Any) -> ApplicationView:
    """Return an Application in a phase, with a condition that is False because something failed."""
    view = application("shop", parts(), phase=name, **options)
    status = {**view.status, "drift": {"objects": 1, "detectedAt": "2026-03-01T11:00:00Z"}}
    if condition:
        message = "overlays/prod/web.yaml:3: it failed"
        failed = {"type": condition, "status": "False", "message": message, "lastTransitionTime": NOW.isoformat()}
        status["conditions"] = [*status["conditions"], failed]
    return replace(view, status=status)


STATES = {
    "synced": in_state("Synced"),
    "held": in_state("Synced", held=("1 dangerous step waits",)),
    "in a closed window": in_state("Pending", held=("a window",), holds=(HoldReason.WINDOW,)),
    "failed": in_state("Failed", health="Degraded"),
    "drifted": in_state("Drifted", sync="OutOfSync", health="Degraded"),
    "suspended": in_state("Suspended", sync="OutOfSync"),
    "suspended and degraded": in_state("Suspended", sync="OutOfSync", health="Degraded"),
    "held and degraded": in_state("Synced", health="Degraded", held=("1 dangerous step waits",)),
    "stale": in_state("Failed", "SourceReady"),
    "invalid": in_state("Failed", "Rendered", sync="Unknown", health="Unknown"),
    "rejected": in_state("Rejected", sync="OutOfSync"),
    "executing": in_state("Executing", sync="OutOfSync", health="Progressing"),
    "deleting": in_state("Deleting", health="Progressing"),
    "new": in_state("Pending", sync="Unknown", health="Unknown"),
}


def filled(site: Open, view: ApplicationView) -> Site:
    """Open a dashboard with syncs and decisions of each kind of owner."""
    opened = site([view, application("blog")])
    records = opened.engine.records
    opened.engine.view.kept = [StateEvent(1, NOW, "gitsync/shop", "resource", "changed", PRUNED)]
    records.audit([replace(DELETED_POD, application="gitsync/shop")])
    for owner in (*_OWNERS, *_DELETED):
        records.save(sync(owner))
        records.save(sync(owner, "drift"))
        records.audit([AuditRecord.by_user(owner, "approve", User("ada"), NOW, "good")])
    return opened


@pytest.mark.parametrize("view", STATES.values(), ids=STATES)
def test_every_link_leads_to_a_page(site: Open, view: ApplicationView) -> None:
    opened = filled(site, view)
    reverts = {"/apps/gitsync/shop/revert", "/apps/gitsync/blog/revert"}  # they read Git, which is not here
    followed = follow(lambda path: ((answer := opened.get(path)).status, answer.text), except_for=reverts)
    assert followed.failures == {}
    assert {"/agents/shop/triage/history/3", "/agents/systems/shop/desk/history/5"} <= set(followed.pages)
    gone = {"/apps/gitsync/closed", "/agents/shop/retired", "/agents/systems/shop/retired"}
    assert {*gone, object_url("gitsync/shop", PRUNED), object_url("gitsync/shop", "/Pod/shop/web-1")} <= set(
        followed.pages
    )


def test_no_sync_of_an_agent_is_called_replaced(site: Open) -> None:
    """A later generation does not take the place of its commit."""
    opened = filled(site, STATES["synced"])
    for path in ("/agents/shop/triage/history", "/agents/systems/shop/desk/history"):
        page = opened.get(path).text
        assert "Succeeded" in page
        assert "replaced by a later sync" not in page
    assert "replaced by a later sync" in opened.get("/apps/gitsync/shop/history").text


def test_the_page_of_what_is_gone_says_when_and_by_what(site: Open) -> None:
    opened = filled(site, application("shop", [resource("a")]))

    page = opened.get(object_url("gitsync/shop", PRUNED))
    assert page.status == 200
    assert "ConfigMap shop/pruned was pruned at 2026-03-01 12:00:00 UTC by Ada in commit ccccccc." in prose(page.text)
    assert {"/apps/gitsync/shop/history/2", "/apps/gitsync/shop"} <= set(links(page.text))
    # of a user's action, which belongs to no sync
    pod = prose(opened.get(object_url("gitsync/shop", "/Pod/shop/web-1")).text)
    assert "Pod shop/web-1 was deleted at 2026-03-01 12:00:00 UTC by ada." in pod
    deleted = prose(opened.get("/apps/gitsync/closed").text)
    assert (
        "Application gitsync/closed is not in the cluster; its last sync started at 2026-03-01 12:00:00 UTC" in deleted
    )
    # a call of the API, a file and a form get no page in place of what they asked for
    wanted = f"object?ref={quote(PRUNED, safe='')}"
    answer = opened.get(f"/api/v1/applications/gitsync/shop/{wanted}")
    assert (answer.status, json.loads(answer.text)["detail"]) == (
        410,
        "ConfigMap shop/pruned was pruned at 2026-03-01 12:00:00 UTC.",
    )
    assert opened.get(f"/apps/gitsync/shop/{wanted.replace('?', '/logs.txt?')}").status == 410
    assert opened.get(object_url("gitsync/shop", "/ConfigMap/shop/never")).status == 404
    assert opened.get("/apps/gitsync/never").status == opened.get("/agents/shop/never").status == 404


def links_to_changes(page: str) -> list[str]:
    """Return the filters of the links to commits and people."""
    return [unquote(link) for link in re.findall(r'class="commit" href="/changes\?q=([^"]*)"', page)]


def test_commits_and_authors_of_applications_are_links(site: Open) -> None:
    behind = application("shop", [resource("a")])
    revision = {**behind.status["revision"], "applied": "b" * 40}
    opened = site([replace(behind, status={**behind.status, "revision": revision})])
    wanted = ["commit:ccccccc", 'by:"Ada"', "commit:bbbbbbb"]
    assert links_to_changes(opened.get("/apps").text) == wanted
    # in the header, but not in a summary, which is a control of its own
    for text in (
        opened.get("/apps/gitsync/shop").text,
        opened.get("/apps/gitsync/shop").text.partition("<summary>")[0],
    ):
        assert links_to_changes(text) == wanted
    synced = site([application("shop", [resource("a")])])
    assert links_to_changes(synced.get("/apps/gitsync/shop").text) == ["commit:ccccccc", 'by:"Ada"']


def test_the_review_of_a_commit_names_its_author(site: Open) -> None:
    dangerous = resource("a", sync="OutOfSync", differences=(changed(),), risk=Risk.DANGEROUS)
    page = site([application("shop", [dangerous], held=("it waits",))]).get(f"/approvals/{'c' * 40}").text
    assert links_to_changes(page) == ['by:"Ada"', "commit:ccccccc"]
