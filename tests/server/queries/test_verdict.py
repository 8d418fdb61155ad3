"""One verdict, reason and age of an application, what it waits for, and the words for states."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from gitsync.objects.change import ABSENT, Action, Difference, FieldDifference, FieldOwner, HoldReason, Risk
from gitsync.objects.conditions import GROUP_UNAVAILABLE
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.formatting import breakable, day_and_time, duration, yaml_parts
from gitsync.server.notify.notices import notices_of
from gitsync.server.queries.applications import HEALTH_STATES, SYNC_STATES
from gitsync.server.queries.verdict import verdict_of
from gitsync.server.queries.words import WORDS, words
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, changed, edited, resource

SINCE = {"phaseSince": "2026-03-01T11:59:53Z", "healthSince": "2026-03-01T11:50:00Z"}
SHOP = "/apps/gitsync/shop"
CONTAINER = (".spec.", "containers", "[name=", '"agent"].')
CRASH = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")


def view(*, message: str = "", **options: Any) -> ApplicationView:
    made = application(ready=message, **options)
    return replace(made, status={**made.status, **SINCE})


def test_the_age_is_that_of_the_phase(site: Open) -> None:
    held = application(resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)], held=("it waits",))
    held = replace(held, status={**held.status, **SINCE})
    assert "waits for <time" in site([held]).get("/approvals").text
    assert re.search(r"waits for <time [^>]*data-age>7s<", site([held]).get("/approvals").text)


def test_the_reason_belongs_to_the_state() -> None:
    sick = resource("web", "Deployment", health=Health.DEGRADED, message="a pod cannot be scheduled")
    executing = view(resources=[sick], phase="Executing", health="Degraded", message="waits for PVC x to be gone")
    verdict = verdict_of(executing)
    assert (verdict.state, verdict.reason) == ("Degraded", "Deployment shop/web: a pod cannot be scheduled")
    assert verdict.since == SINCE["healthSince"]


def test_a_plan_that_waits_does_not_hide_a_crash(site: Open) -> None:
    crash = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")
    item = resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)
    both = view(resources=[crash, item], held=("it waits",), health="Degraded", message="1 dangerous step waits")
    verdict = verdict_of(both)
    assert (verdict.state, [other.state for other in verdict.also]) == ("Degraded", ["AwaitingApproval"])
    opened = site([both])
    for path in ("/", "/wall", "/apps", SHOP):
        text = opened.get(path).text
        assert "CrashLoopBackOff" in text, path
        assert "1 dangerous step waits" in text, path
    assert f'href="{SHOP}/plan"' in opened.get("/").text.partition('class="needs"')[2]
    assert f'href="{SHOP}/plan">Review the changes' in opened.get(SHOP).text
    for state in ("Degraded", "AwaitingApproval"):
        assert SHOP in opened.get(f"/apps?q=state:{state}").text
        assert SHOP in opened.get(f"/apps?q=state:{state}+ns:gitsync").text
    answer = orjson.loads(opened.get("/api/v1/applications/gitsync/shop").text)
    assert (answer["state"], answer["also"][0]["state"]) == ("Degraded", "AwaitingApproval")
    assert [notice.kind for notice in notices_of(both)] == ["degraded", "approval"]


def test_problems_are_one_line_on_other_views_of_an_application(site: Open) -> None:
    crash = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")
    both = view(resources=[crash], health="Degraded", held=("it waits",), message="1 dangerous step waits")
    opened = site([both, application("calm")])
    for path in (SHOP, f"{SHOP}/plan"):
        text = opened.get(path).text
        assert (text.count('class="alarm'), 'id="problems"' in text) == (2, False), path
    for path in ("/history", "/events", "/diff", "/policy", "?view=tree"):
        _, found, text = opened.get(SHOP + path).text.partition('<details class="problems urgent" id="problems">')
        assert found, path
        summary, _, problems = text.partition("</summary>")
        assert "CrashLoopBackOff" in summary
        assert problems.partition("</details>")[0].count('class="alarm') == 2
        assert "problems" not in opened.get(f"/apps/gitsync/calm{path}").text


@pytest.mark.parametrize("sync", ["OutOfSync", "Unknown"])
@pytest.mark.parametrize("phase", ["Suspended", "Drifted", "Synced"])
def test_no_page_of_an_object_that_differs_claims_that_all_match(site: Open, phase: str, sync: str) -> None:
    drifted = edited(resource("web", "Deployment", sync=sync, differences=(changed(".spec.replicas", 4, 1),)))
    still = resource("a")
    shown = application("shop", [drifted, still], phase=phase, sync=sync)
    assert shown.plan is not None
    opened = site([replace(shown, plan=replace(shown.plan, changes=())), application("calm")])
    claims = re.compile("every object matches|Every declared field matches|nothing to do|up to date", re.IGNORECASE)
    for path in ("", "/plan", "/diff"):
        assert not claims.search(opened.get(SHOP + path).text.partition("<footer")[0]), path
        assert claims.search(opened.get(f"/apps/gitsync/calm{path}").text), path
    assert "1 object does not match Git" in opened.get(f"{SHOP}/plan").text


def test_a_failure_leads_to_its_log_events_commit_and_revert(site: Open) -> None:
    crash = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")
    broken = view(resources=[crash], health="Degraded")
    ref = "?ref=apps/Deployment/shop/web"
    opened = site([broken])
    banner = opened.get(SHOP).text.partition('class="causes"')[2].partition("</span>")[0]
    assert re.findall(r'href="([^"]*)"', banner) == [
        f"{SHOP}/object/logs{ref}",
        f"{SHOP}/object/events{ref}",
        f"{SHOP}/object{ref}",
        f"/changes?q=app:gitsync/shop+commit:{broken.status['revision']['applied'][:7]}",
        f"{SHOP}/revert?commit={broken.status['revision']['applied'][:7]}",
    ]
    claim = replace(resource("data"), health=HealthStatus(Health.DEGRADED, "lost"))
    other = site([view(resources=[claim], health="Degraded")]).get(SHOP).text.partition('class="causes"')[2]
    assert "/object/logs" not in other.partition("</span>")[0], "a ConfigMap has no log"


@pytest.mark.parametrize(
    ("crash", "started", "is_offered"),
    [
        pytest.param(CRASH, "2026-03-01T11:49:58Z", True, id="after its sync"),
        pytest.param(CRASH, "2026-03-01T11:55:00Z", False, id="before its sync"),
        pytest.param(
            edited(replace(CRASH, change=replace(CRASH.change, action=Action.UPDATE, differences=(changed(),)))),
            "2026-03-01T11:49:58Z",
            False,
            id="after an edit by hand",
        ),
    ],
)
def test_a_crash_offers_the_revert_of_a_commit_that_may_be_why(
    site: Open, crash: ResourceView, started: str, is_offered: bool
) -> None:
    broken = view(resources=[crash], health="Degraded")
    applied = broken.status["revision"]["applied"]
    # a later sync of the commit, of drift, is not when it was applied
    syncs = [{"revision": applied, "startedAt": "2026-03-01T11:58:00Z"}, {"revision": applied, "startedAt": started}]
    page = site([replace(broken, status={**broken.status, "history": syncs})]).get(SHOP).text
    banner = page.partition('class="causes"')[2].partition("</span>")[0]
    assert "/object/logs" in banner
    assert (f"/revert?commit={applied[:7]}" in banner) == is_offered


@pytest.mark.parametrize(
    ("options", "main"),
    [({}, "Sync now"), ({"held": ("it waits",)}, "Review…"), ({"phase": "Suspended"}, "Resume…")],
)
def test_the_main_button_is_what_helps_now(site: Open, options: dict[str, Any], main: str) -> None:
    item = resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)
    head = site([application(resources=[item], **options)]).get(SHOP).text.partition('class="actions"')[2]
    primary = re.findall(r'<(?:a class="button"|button>)(?: href="[^"]*">)?([^<]*)<', head.partition("</form>")[0])
    assert primary == [main]
    assert ("Sync now" in head) == (main != "Resume…")


def test_a_suspended_application_shows_its_problems(site: Open) -> None:
    sick = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")
    suspended = view(resources=[sick], phase="Suspended", health="Degraded", message="spec.suspend is true")
    calm = replace(view(phase="Suspended", message="spec.suspend is true"), key="gitsync/calm")
    assert (verdict_of(suspended).state, verdict_of(suspended).is_suspended) == ("Degraded", True)
    assert verdict_of(calm).state == "Suspended"
    opened = site([suspended, calm])
    overview = opened.get("/").text
    assert "CrashLoopBackOff (suspended)" in overview
    assert '<a href="/apps?q=is:suspended"><b>2</b>' in overview
    assert "spec.suspend is true" not in overview


DIFFERS = "spec.suspend is true; 2 objects differ from Git: Deployment shop/web and 1 more"


def test_a_suspended_application_says_in_what_it_differs(site: Open) -> None:
    apart = view(phase="Suspended", sync="OutOfSync", message=DIFFERS)
    verdict = verdict_of(apart)
    reason = "Nothing is synced until it is resumed; 2 objects differ from Git: Deployment shop/web and 1 more"
    assert (verdict.state, verdict.reason) == ("Suspended", reason)
    sick = resource("web", "Deployment", health=Health.DEGRADED, message="CrashLoopBackOff")
    broken = view(resources=[sick], phase="Suspended", sync="OutOfSync", health="Degraded", message=DIFFERS)
    for shown in (apart, broken):
        opened = site([shown])
        for path in (SHOP, "/apps"):
            text = opened.get(path).text
            assert reason in text, path
            assert text.count("Suspended</span>") <= 2, path  # the chip of the filter, and one badge
        answer = orjson.loads(opened.get("/api/v1/applications/gitsync/shop").text)
        assert reason in [answer["reason"], *(other["reason"] for other in answer["also"])]


def test_settings_that_others_added_need_attention_although_all_is_synced(site: Open) -> None:
    owner = FieldOwner("kubectl-set", "Update", "2026-03-01T11:00:00Z")
    path = '.spec.template.spec.containers[name="a"].env[name="MODEL_ID"]'
    env = FieldDifference(path, "/spec/x", Difference.FOREIGN, ABSENT, "rogue", (owner,))
    replicas = replace(env, path=".spec.replicas")
    ours = [replace(resource(name, "Deployment"), foreign=(env,)) for name in ("one", "two")]
    altered = view(resources=[*ours, replace(resource("three", "Deployment"), foreign=(replicas,))])
    verdict = verdict_of(altered)
    assert (verdict.state, verdict.rank, verdict.since) == ("SettingsAdded", 1, owner.time)
    assert verdict.reason == (f"Deployment shop/one: kubectl-set adds {path}, which Git does not declare; and 1 more")
    assert "The application matches Git" not in site([altered]).get("/").text
    assert "Settings added" in site([altered]).get("/").text
    assert '/diff">Show the fields</a>' in site([altered]).get(SHOP).text
    assert verdict_of(view(resources=[replace(resource("web", "Deployment"), foreign=(replicas,))])).rank == 3
    drifted = verdict_of(replace(altered, status={**altered.status, "phase": "Drifted"}))
    assert (drifted.state, drifted.reason.startswith(f"{verdict.reason}; ")) == ("SettingsAdded", True)
    expected = replace(resource("web", "Deployment"), foreign=(replace(env, kind=Difference.IGNORED),))
    assert verdict_of(view(resources=[expected])).state == "Synced"


def test_an_unavailable_group_needs_attention_and_is_not_shown_as_work_under_way() -> None:
    waiting = view(phase="Observing")
    ready = {"type": "Ready", "status": "Unknown", "reason": GROUP_UNAVAILABLE, "message": "Widget shop/w: it is down"}
    hidden = verdict_of(replace(waiting, status={**waiting.status, "conditions": [ready]}))
    assert (hidden.state, hidden.rank, hidden.reason) == ("Unknown", 1, "Widget shop/w: it is down")
    assert verdict_of(waiting).state == "Observing"


def test_an_object_that_was_never_created_is_not_sick() -> None:
    item = resource("new", sync="Missing", health=Health.MISSING)
    item = replace(item, change=replace(item.change, action=Action.CREATE))
    pending = view(resources=[item], phase="Rejected", health="Missing", message="rejected by Linus: no")
    assert (verdict_of(pending).state, verdict_of(pending).rank) == ("Rejected", 1)


@pytest.mark.parametrize("action", [Action.PRUNE, Action.CREATE])
def test_a_deletion_that_is_stuck_says_what_keeps_it_and_the_way_out(site: Open, action: Action) -> None:
    claim = resource("knowledge", "PersistentVolumeClaim", sync="ToPrune")
    meta = {"deletionTimestamp": "2026-03-01T11:44:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}
    live = {**(claim.change.live or {}), "metadata": {"name": "knowledge", "namespace": "shop", "uid": "c", **meta}}
    claim = replace(claim, change=replace(claim.change, action=action, live=live, desired=None))
    volumes = [{"persistentVolumeClaim": {"claimName": "knowledge"}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "uid": "p"}}
    stuck = view(resources=[claim, resource("web", "Deployment")], phase="Executing", message="waits for it")
    opened = site([stuck])
    opened.engine.view.children["uid-web"] = ({**pod, "spec": {"volumes": volumes}},)
    text = " ".join(opened.get(SHOP).text.split())
    assert "still mounted by Pod web-1" in text
    assert "remove or restart the workloads that mount it" in text
    assert ">16m</time>" in text


def test_an_object_is_named_once_in_a_reason() -> None:
    named = {"object": "ConfigMap shop/big", "message": "ConfigMap shop/big: is larger than 1 MiB"}
    unnamed = {"object": "ConfigMap shop/big", "message": "is larger than 1 MiB"}
    for problem in (named, unnamed):
        failed = view(phase="Failed", message="failed")
        failed = replace(failed, status={**failed.status, "problems": [problem]})
        assert verdict_of(failed).reason == "ConfigMap shop/big: is larger than 1 MiB"
    for message in ("has no Pods", "Deployment shop/web: has no Pods"):
        sick = resource("web", "Deployment", health=Health.DEGRADED, message=message)
        assert verdict_of(view(resources=[sick], health="Degraded")).reason == "Deployment shop/web: has no Pods"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(12, "12 ms"), (3400, "3.4 s"), (300_000, "5 min"), (86_400_000, "24 h"), (604_800_000, "7 days")],
)
def test_a_duration_has_the_unit_that_reads_best(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [(2, "today 14:00 UTC"), (12, "tomorrow 00:00 UTC"), (24, "tomorrow 12:00 UTC"), (168, "2026-03-08 12:00 UTC")],
)
def test_a_time_to_come_is_named_by_its_day(hours: int, text: str) -> None:
    assert day_and_time(NOW + timedelta(hours=hours), NOW) == text


def test_the_members_of_a_manifest_keep_their_lines_and_numbers() -> None:
    text = "kind: ConfigMap\nmetadata:\n  name: web\ndata:\n  a: |\n    one\n\n    two\nrules:\n- a\nspec: {}\n"
    parts = yaml_parts(text)
    assert [(part.number, part.head, part.body and part.numbers) for part in parts] == [
        (1, "kind: ConfigMap", ""),
        (2, "metadata:", "3"),
        (4, "data:", "5\n6\n7\n8"),
        (9, "rules:", "10"),
        (11, "spec: {}", ""),
    ]
    assert "\n".join(line for part in parts for line in (part.head, part.body) if line) + "\n" == text


def test_every_state_has_words_and_pages_show_no_enum() -> None:
    states = {*SYNC_STATES, *HEALTH_STATES, *(item.value for item in (*Phase, *Outcome, *Risk, *HoldReason))}
    states |= {"Pending", "Failed", "Drifted", "Suspended", "ToPrune", "Missing"}
    assert states <= WORDS.keys()
    assert [text for text in WORDS.values() if re.search(r"[a-z][A-Z]", text)] == []
    assert words("AwaitingApproval") == "Needs approval"
    assert words("of-another-version") == "of-another-version"


@pytest.mark.parametrize("path", [SHOP, f"{SHOP}/plan", "/", "/apps", "/approvals"])
def test_pages_show_words(site: Open, path: str) -> None:
    item = resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)
    text = site([application(resources=[item], held=("it waits",), sync="OutOfSync")]).get(path).text
    visible = re.sub(r"<[^>]*>", " ", text)
    assert not re.search(r"OutOfSync|AwaitingApproval|ToPrune|InvalidManifests", visible)


def test_each_tab_has_its_title_with_the_state(site: Open) -> None:
    opened = site([application()])
    titles = [re.findall("<title>(.*?)</title>", opened.get(f"{SHOP}{tab}").text)[0] for tab in ("", "/plan", "/diff")]
    assert titles == [f"{name} · shop (Synced) · gitsync" for name in ("Resources", "Plan", "Diff")]


def test_facets_combine_and_pages_have_a_range(site: Open) -> None:
    many = [application(f"app-{n:03}", sync="OutOfSync", health="Degraded" if n % 2 else "Healthy") for n in range(120)]
    opened = site(many)
    first = opened.get("/apps?sync=OutOfSync&sort=name").text
    assert "1\u201350 of 120" in first
    assert 'href="/apps?q=sync%3AOutOfSync+health%3ADegraded&amp;sort=name"' in first
    last = opened.get("/apps?sync=OutOfSync&sort=name&start=100").text
    assert "101\u2013120 of 120" in last
    assert 'rel="prev" href="/apps?q=sync%3AOutOfSync&amp;sort=name&amp;start=50"' in last


def test_the_audit_takes_a_bare_name(site: Open) -> None:
    opened = site([application()])
    opened.post(f"{SHOP}/sync")
    assert "Sync now" in opened.get("/audit?app=shop").text
    assert "namespace/name" in opened.get("/audit?app=other").text


def test_history_says_what_became_of_a_sync(site: Open) -> None:
    opened = site(
        [application(health="Degraded", resources=[resource("web", health=Health.DEGRADED, message="crashes")])]
    )
    for _ in range(2):
        opened.engine.records.save(
            SyncRecord("gitsync/shop", Commit("c" * 40), "commit", NOW, 5, Outcome.SUCCEEDED, "Safe", "d")
        )
    page = " ".join(opened.get("/apps/gitsync/shop/history").text.partition("<tbody>")[2].split())
    newest, older = page.split("<tr ")[1:3]
    assert 'Succeeded</span></td><td data-label="Since then:"><span class="state s-degraded">' in newest
    assert "replaced by a later sync" in older
    head = opened.get("/apps/gitsync/shop").text
    # the sync itself succeeded, and was recorded; what runs now is the health
    assert re.findall(r'class="p-(\w+)"', head) == ["done"] * 5


def test_a_write_without_a_time_shows_when_it_was_first_seen(site: Open) -> None:
    owner = FieldOwner("kubectl", "Update", subresource="scale")
    difference = replace(changed(".spec.replicas", 4, 1), owners=(owner,))
    shown = application(resources=[resource("web", "Deployment", sync="OutOfSync", differences=(difference,))])
    shown = replace(shown, status={**shown.status, "drift": {"objects": 1, "detectedAt": "2026-03-01T11:50:00Z"}})
    page = " ".join(site([shown]).get("/apps/gitsync/shop/diff").text.split())
    assert 'Update of scale, first seen <time datetime="2026-03-01T11:50:00+00:00">' in page
    timed = replace(difference, owners=(replace(difference.owners[0], time="2026-03-01T11:40:00Z"),))
    shown = application(resources=[resource("web", "Deployment", sync="OutOfSync", differences=(timed,))])
    page = " ".join(site([shown]).get("/apps/gitsync/shop/diff").text.split())
    assert 'Update of scale <time datetime="2026-03-01T11:40:00+00:00">' in page


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("registry.example.com/support/triage:2.1.1", ["registry.", "example.", "com/", "support/", "triage:2.1.1"]),
        ('.spec.containers[name="agent"].image', [*CONTAINER, "image"]),
        (
            '.spec.containers[name="agent"].env[name=LOG_LEVEL].value',
            [*CONTAINER, "env", "[name=", "LOG_LEVEL].", "value"],
        ),
        (".spec.replicas", [".spec.replicas"]),
        ("a-name-without-separators-that-is-long", ["a-name-without-separators-that-is-long"]),
        ("a\u202e/text-that-would-turn-around", ["a\\u202e/", "text-that-would-turn-around"]),
    ],
)
def test_a_long_name_breaks_after_its_separators(text: str, parts: list[str]) -> None:
    assert breakable(text) == parts
