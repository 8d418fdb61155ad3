"""Objects, drift and search over all applications."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest

from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, OpenDrift, OpenFinding, ended_finding_link, ended_link
from gitsync.plan.running import RunningFinding, RunningKind
from gitsync.ports import ApplicationView
from gitsync.server.queries.objects import foreign_fields
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, StillView, application, changed, edited, resource

FOREIGN = replace(changed(".metadata.labels.owner", live="bob"), kind=Difference.FOREIGN)


def rows(opened: Site, path: str) -> list[str]:
    return re.findall(r'data-row="[^"]*/([^"/]+)"', opened.get(quote(path, safe="/?=:")).text)


def many(site: Open) -> Site:
    drifted = resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),))
    drifted = replace(drifted, change=replace(drifted.change, desired=drifted.change.live))
    sick = resource("cart", "Deployment", health=Health.DEGRADED, message="crashes")
    touched = replace(resource("labels"), foreign=(FOREIGN,))
    return site([application("shop", [drifted, sick, touched]), application("blog", [resource("posts")])])


def test_objects_of_all_applications_are_found_and_the_worst_come_first(site: Open) -> None:
    opened = many(site)
    assert rows(opened, "/objects") == ["cart", "web", "labels", "posts"]
    for text, expected in (
        ("kind:Deployment", ["cart", "web"]),
        ("kind:deployment health:Degraded", ["cart"]),
        ("is:foreign", ["labels"]),
        ("is:different", ["web"]),
        ("is:trouble", ["cart", "web"]),
        ("by:kubectl-edit", ["web", "labels"]),
        ("app:blog", ["posts"]),
        ("crashes", ["cart"]),
        ("nothing", []),
    ):
        assert rows(opened, f"/objects?q={text}") == expected, text
    assert "risk" in opened.get("/objects?q=since:1h").text


def test_facets_of_both_axes_name_their_axis(site: Open) -> None:
    page = site([application("shop", health="Degraded"), application("blog")]).get("/apps").text
    for axis in ("Sync", "Health"):
        assert re.search(rf'<span class="axis">{axis}</span>\s*<a ', page), axis


def test_facets_count_what_a_click_would_show(site: Open) -> None:
    opened = many(site)
    page = opened.get("/objects?q=kind:Deployment").text
    assert re.search(r'href="/objects\?q=kind%3ADeployment\+kind%3AConfigMap"[^>]*>ConfigMap <b>2</b>', page)
    assert re.search(r'href="/objects" aria-current="true">Deployment <b>2</b>', page)


def test_drift_of_all_applications_shows_what_was_changed_by_whom_and_a_rule_to_ignore_it(site: Open) -> None:
    opened = many(site)
    page = opened.get("/drift").text
    assert "by kubectl-edit" in page
    assert ".spec.replicas" in page
    assert "/bulk?action=revert-drift&amp;object=gitsync/shop%20apps/Deployment/shop/web" in page
    assert "- kind: Deployment\n  group: apps\n  name: web\n  jqPathExpressions:\n  - &#39;.spec.replicas&#39;" in page
    assert "cart" not in page
    assert "No drift matches" in opened.get("/drift?q=by:helm").text


@pytest.mark.parametrize(
    ("managers", "is_shown"),
    [(("gitsync-agents", "gitsync-agents-removal"), False), (("gitsync-agents", "kubectl"), True), ((), True)],
)
def test_finalizers_of_the_operator_are_not_set_by_others(managers: tuple[str, ...], is_shown: bool) -> None:
    owners = tuple(FieldOwner(manager, "Apply") for manager in managers)
    item = replace(resource("a"), foreign=(replace(FOREIGN, path=".metadata.finalizers", owners=owners),))
    assert bool(foreign_fields(item)) is is_shown


@pytest.mark.parametrize(
    ("path", "is_shown"),
    [
        (".metadata.annotations.deployment.kubernetes.io/revision", False),
        ('.metadata.annotations["pv.kubernetes.io/bind-completed"]', False),
        (".metadata.annotations.volume.beta.kubernetes.io/storage-provisioner", False),
        (".metadata.annotations.team", True),
    ],
)
def test_bookkeeping_of_kubernetes_is_not_set_by_others(path: str, is_shown: bool) -> None:
    item = replace(resource("a"), foreign=(replace(FOREIGN, path=path),))
    assert bool(foreign_fields(item)) is is_shown


def test_a_commit_that_waits_is_no_drift(site: Open) -> None:
    ours = replace(changed(".spec.replicas", 3, 0), owners=(FieldOwner("gitsync", "Apply"),))
    item = resource("web", "Deployment", sync="OutOfSync", differences=(ours,))
    item = replace(item, change=replace(item.change, desired=item.change.live), foreign=(FOREIGN,))
    view = application("shop", [item], held=("it waits",))
    view = replace(view, status={**view.status, "revision": {"fetched": "c" * 40, "applied": "b" * 40}})
    assert "No object differs because of a change in the cluster" in site([view]).get("/drift").text


def drift_repair(step: Step, started: datetime) -> SyncRecord:
    """Return a sync of half a second that corrected drift in one step."""
    commit = Commit("c" * 40)
    outcome = Outcome.SUCCEEDED
    return SyncRecord("gitsync/shop", commit, "drift", started, 500, outcome, step.risk, "d", steps=(step,))


def test_corrected_drift_is_counted_by_field_and_manager(site: Open) -> None:
    opened = site([application()])
    owner = {"manager": "kubectl", "operation": "Update", "time": (NOW - timedelta(minutes=6)).isoformat()}
    item = {"path": ".spec.replicas", "live": 4, "desired": 1, "owners": [owner]}
    step = Step("apps/Deployment/shop/web", "update", "Safe", "", Outcome.SUCCEEDED, differences=(item,))
    for minutes in (300, 200, 5):
        opened.engine.records.save(drift_repair(step, NOW - timedelta(minutes=minutes)))
    past = opened.get("/drift").text.partition('id="past"')[2]
    assert re.search(r'<td>kubectl</td><td class="num" data-label="Times">3</td>', past)
    assert "60.5 s" in past
    recent = opened.get("/drift?q=since:1h").text.partition('id="past"')[2]
    assert re.search(r'<td>kubectl</td><td class="num" data-label="Times">1</td>', recent)


def test_a_deletion_that_was_undone_is_corrected_drift(site: Open) -> None:
    opened = site([application()])
    step = Step("apps/Deployment/shop/web", "create", "Moderate", "", Outcome.SUCCEEDED)
    opened.engine.records.save(drift_repair(step, NOW - timedelta(minutes=5)))
    past = opened.get("/drift").text.partition('id="past"')[2]
    assert re.search(r'<th scope="row">\s*deleted\s*</th>', past)
    assert "Deployment web" in past
    assert "Keep this" not in past


def test_a_repair_of_an_edit_without_a_time_lasted_as_its_sync(site: Open) -> None:
    opened = site([application()])
    item = {"path": ".spec.replicas", "live": 4, "desired": 1, "owners": [{"manager": "kubectl"}]}
    step = Step("apps/Deployment/shop/web", "update", "Safe", "", Outcome.SUCCEEDED, differences=(item,))
    opened.engine.records.save(
        SyncRecord("gitsync/shop", Commit("c" * 40), "drift", NOW, 500, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))
    )
    assert 'data-label="Repaired after">500 ms</td>' in opened.get("/drift").text


def test_a_repair_that_failed_is_not_counted_as_corrected(site: Open) -> None:
    opened = site([application()])
    item = {"path": ".spec.replicas", "live": 4, "desired": 1, "owners": [{"manager": "kubectl"}]}
    step = Step("apps/Deployment/shop/web", "update", "Safe", "", Outcome.FAILED, "denied", differences=(item,))
    opened.engine.records.save(
        SyncRecord("gitsync/shop", Commit("c" * 40), "drift", NOW, 5, Outcome.FAILED, "Safe", "d", steps=(step,))
    )
    assert "No drift was corrected" in opened.get("/drift").text


def past(*names: str) -> list[AuditRecord]:
    """Return the links of drift that has ended, an object each."""
    field = FieldDifference(".spec.replicas", "/spec/replicas", Difference.CHANGED, 1, 4, (FieldOwner("kubectl"),))
    refs = [ObjectRef("apps", "Deployment", "shop", name) for name in names]
    steps = [Change(ref, Action.UPDATE, differences=(field,)) for ref in refs]
    drifts = [OpenDrift(step, NOW - timedelta(minutes=2)) for step in steps]
    return [ended_link("gitsync/shop", drift, NOW, EndedBy.SELF_HEAL) for drift in drifts]


def test_the_history_of_drift_has_both_values_and_how_it_ended(site: Open) -> None:
    opened = site([application()])
    assert "No drift has ended yet" in opened.get("/drift/history").text
    opened.engine.records.audit(past("web", "api"))
    page = opened.get("/drift/history").text
    assert page.count(">self-heal<") == 2
    assert "<code>.spec.replicas</code>" in page
    assert "2 min" in page or "120" in page
    assert opened.get("/drift/history?q=name:api").text.count(">self-heal<") == 1
    assert "No drift of the past matches" in opened.get("/drift/history?q=by:helm").text
    assert "/drift/history" in opened.get("/drift").text


def test_the_history_of_drift_has_what_pods_ran(site: Open) -> None:
    opened = site([application()])
    pod = ObjectRef("", "Pod", "shop", "web-1")
    finding = RunningFinding(RunningKind.STALE, pod, "u", "started before ConfigMap shop/a changed", "")
    workload = ObjectRef("apps", "Deployment", "shop", "web")
    detected = OpenFinding(workload, finding, NOW - timedelta(minutes=2), EndedBy.SELF_HEAL)
    opened.engine.records.audit([ended_finding_link("gitsync/shop", detected, NOW)])
    page = opened.get("/drift/history?q=name:web-1").text
    assert "Pod web-1<small>stale</small>" in page
    assert "started before ConfigMap" in page
    (item,) = json.loads(opened.get("/api/v1/drift/history").text)["items"]
    assert (item["object"], item["pod"], item["path"], item["by"]) == (
        *("Deployment shop/web", "web-1"),
        *("stale", "self-heal"),
    )


def test_the_history_of_drift_has_pages(site: Open) -> None:
    opened = site([application()])
    opened.engine.records.audit(past(*(f"web-{index}" for index in range(70))))
    first = opened.get("/drift/history?q=app:shop").text
    (older,) = re.findall(r'href="(/drift/history\?[^"]*before=[^"]*)"', first)
    second = opened.get(older.replace("&amp;", "&")).text
    assert [page.count(">self-heal<") for page in (first, second)] == [60, 10]
    assert "Older drift" not in second


def test_pods_that_run_otherwise_than_declared_are_listed(site: Open) -> None:
    pod = ObjectRef("", "Pod", "shop", "web-1")
    finding = RunningFinding(RunningKind.IMAGE, pod, "u", "runs evil:1 in container web", "/status", NOW.isoformat())
    view = application("shop", [replace(resource("web", "Deployment"), running=(finding,)), resource("api")])
    opened = site([view])
    assert "runs evil:1 in container web" in opened.get("/drift").text
    assert 'id="pods"' in opened.get("/drift?q=name:web-1").text
    assert 'id="pods"' not in opened.get("/drift?q=name:api").text
    assert "web-1 runs evil:1" in opened.get("/apps/gitsync/shop/object?ref=apps/Deployment/shop/web").text
    assert ">api<" not in opened.get("/objects?q=is:running").text


def test_search_finds_applications_objects_and_changes(site: Open) -> None:
    opened = many(site)
    commit = Commit("abcdef1" + "0" * 33, "Ada", message="Add a cart")
    opened.engine.records.save(SyncRecord("gitsync/shop", commit, "commit", NOW, 5, Outcome.SUCCEEDED, "Safe", "d"))
    page = opened.get("/search?q=cart").text
    assert "Deployment</td>" in page
    assert "Add a cart" in page
    assert ">shop</a>" in opened.get("/search?q=shop").text
    assert "Nothing matches zebra" in opened.get("/search?q=zebra").text


@pytest.mark.parametrize("path", ["/changes", "/audit", "/apps/gitsync/shop/history", "/"])
def test_a_commit_is_shown_short_and_the_generation_of_an_agent_as_a_whole(site: Open, path: str) -> None:
    opened = site([application()])
    for revision in ("generation-12", "abcdef1" + "0" * 33, "fedcba9" + "0" * 57):
        commit = Commit(revision, "Ada", message="Add a cart")
        opened.engine.records.save(SyncRecord("gitsync/shop", commit, "commit", NOW, 5, Outcome.SUCCEEDED, "Safe", "d"))
        audited = AuditRecord("gitsync/shop", "sync", "", Outcome.SUCCEEDED, NOW, "s", commit=revision)
        opened.engine.records.audit([audited])
    page = opened.get(path).text
    # titles of the timeline name the generation, and home leaves these syncs out
    generation = () if path in ("/", "/changes") else ("generation-12",)
    for shown in (*generation, "abcdef1", "fedcba9"):
        assert re.search(rf">[^<]*\b{shown}\b[^<]*<", page), shown


def test_self_heal_is_promised_only_where_no_plan_waits(site: Open) -> None:
    item = edited(resource("note", sync="OutOfSync", differences=(changed(),)))
    spec = {"sync": {"selfHeal": True}}
    free = site([application(resources=[item], spec=spec)]).get("/drift").text
    held = site([application(resources=[item], spec=spec, held=("it waits",))]).get("/drift").text
    assert "Self-heal is on, so the controller does it by itself" in free
    assert "by kubectl-edit" in held
    assert "Self-heal" not in held


def test_drift_without_a_known_time_has_no_age(site: Open) -> None:
    owner = FieldOwner("kubectl", "Update", "", subresource="scale")
    difference = replace(changed(), owners=(owner,))
    opened = site([application(resources=[edited(resource("note", sync="OutOfSync", differences=(difference,)))])])
    assert "changed by kubectl, in shop" in opened.get("/drift").text


def test_what_happens_while_a_page_is_made_reaches_it_as_an_event(site: Open) -> None:
    opened = site([application()])
    view = opened.engine.view
    applications = type(view).applications

    def read(self: StillView) -> tuple[ApplicationView, ...]:
        rows = applications(self)
        view.happen("gitsync/shop")
        return rows

    newest = view.bounds[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(view), "applications", read)
        page = opened.get("/apps").text
    assert f'data-last-event="{newest}"' in page


def test_the_page_of_a_history_takes_the_ids_that_the_api_takes(site: Open) -> None:
    opened = site([application()])
    for path in ("/apps/gitsync/shop/history", "/api/v1/applications/gitsync/shop/history"):
        assert opened.get(f"{path}?before={1 << 61}").status == 200
        assert opened.get(f"{path}?before={1 << 62}").status == 422


def test_a_search_shows_the_name_that_is_meant_first(site: Open) -> None:
    sick = resource("cart", "Deployment", health=Health.DEGRADED, message="web does not answer")
    failing = replace(application("shop", [sick, resource("web-b"), resource("web")], health="Degraded"))
    opened = site([failing, application("web")])
    page = opened.get("/search?q=web").text
    assert re.findall(r'data-row="gitsync/(\w+)"', page) == ["web", "shop"]
    assert re.findall(r'data-row="gitsync/shop /[^"]*/([\w-]+)"|data-row="gitsync/shop [^"]*/(cart)"', page) == [
        ("web", ""),
        ("web-b", ""),
        ("", "cart"),
    ]


def test_drift_is_reverted_after_a_question(site: Open) -> None:
    drifted = edited(resource("settings", sync="OutOfSync", differences=(changed(),)))
    view = application("shop", [drifted])
    assert view.plan is not None
    plan = replace(view.plan, repairs=view.plan.changes)
    opened = site([replace(view, plan=plan, status={**view.status, "drift": {"objects": 1}})])
    page = opened.get("/drift").text
    (link,) = re.findall(r'href="(/bulk[^"]*)">Revert to Git', page)
    asked = opened.get(link.replace("&amp;", "&")).text
    for text in ("Revert drift", "ConfigMap settings", "Nothing else is written", 'name="reason" required'):
        assert text in asked


def test_drift_of_a_suspended_application_waits_until_it_is_resumed(site: Open) -> None:
    drifted = edited(resource("settings", sync="OutOfSync", differences=(changed(),)))
    page = site([application("shop", [drifted], phase="Suspended")]).get("/drift").text
    assert "It is reverted when the application is resumed." in page
    assert "Self-heal is on" not in page
    assert "Revert to Git" not in page
