"""States of pages that need no controller: sign-in, empty, a long plan that waits, disconnected, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference, FieldOwner, Risk
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.ports import MetricSeries, ResourceView
from gitsync.ports.previews import Proposal, ProposalView
from tests.asgi_server import Served, serve
from tests.browser.conftest import SharedPages
from tests.browser.keyboard import walk
from tests.browser.layout import faults
from tests.replicas import still_dashboard
from tests.server.fakes import NOW, access_of, application, changed, edited, engine, resource
from tests.server.pages.test_updates import update
from tests.waiting import until

RISKS = [Risk.SAFE, Risk.MODERATE, Risk.DANGEROUS]
LONG = [
    resource(f"a-generated-name-that-is-long-{n}", sync="OutOfSync", differences=(changed(),), risk=RISKS[n % 3])
    for n in range(16)
]
SHOP = "/apps/gitsync/shop"
STATES = {
    "a plan of 16 steps": ("full", f"{SHOP}/plan"),
    "the same unified": ("full", f"{SHOP}/plan?mode=unified"),
    "its approval": ("full", "/approvals"),
    "the review of its commit": ("full", f"/approvals/{'c' * 40}"),
    "a restart": ("full", "/apps/gitsync/sick/object/action?action=restart&ref=apps/Deployment/shop/web"),
    "its graph": ("full", f"{SHOP}?view=graph&lens=risk"),
    "degraded": ("full", "/apps/gitsync/sick"),
    "two problems on another view": ("full", "/apps/gitsync/sick-and-held/history"),
    "home with problems": ("full", "/"),
    "the wall with problems": ("full", "/wall"),
    "drift": ("full", "/drift"),
    "an application with drift": ("full", "/apps/gitsync/drifted/diff"),
    "drift of the past": ("full", "/drift/history"),
    "an object that differs": ("full", f"{SHOP}/object?ref=/ConfigMap/shop/a-generated-name-that-is-long-0"),
    "changes": ("full", "/changes"),
    "audit": ("full", "/audit"),
    "settings": ("full", "/settings"),
    "updates": ("full", "/updates"),
    "no agents": ("full", "/agents"),
    "agents with an added model": ("agents", "/agents"),
    "an agent with an added model": ("agents", "/agents/prod/triage-of-tickets"),
    "no agents by environment": ("full", "/agents/environments"),
    "agents by environment": ("agents", "/agents/environments"),
    "prompts of an agent": ("agents", "/agents/prod/triage-of-tickets/prompts"),
    "the same side by side": ("agents", "/agents/prod/triage-of-tickets/prompts?mode=split"),
    "applications": ("full", "/apps"),
    "pull requests": ("full", "/pulls"),
    "a sync of chosen objects": ("full", f"{SHOP}/sync?object=/ConfigMap/shop/a-generated-name-that-is-long-0"),
    "a request for several": ("full", "/bulk?action=suspend&app=gitsync/shop&app=gitsync/gone"),
    "objects": ("full", "/objects"),
    "a request by objects": ("full", "/bulk?action=sync&object=gitsync/shop%20/ConfigMap/shop/a"),
    "suspended with a crash": ("full", "/apps/gitsync/sick-and-suspended/diff"),
    "corrected drift in changes": ("full", "/changes"),
    "no page": ("full", "/nothing"),
    "sign-in": ("closed", "/sign-in"),
    "no applications": ("empty", "/"),
    "no approvals": ("empty", "/approvals"),
    "no audit": ("empty", "/audit"),
    "no changes": ("empty", "/changes"),
    "no objects": ("empty", "/objects"),
    "read-only": ("read-only", f"{SHOP}/plan"),
}
PROPOSED = ProposalView(
    Proposal(
        repository="https://git.example.com/team/shop",
        name="change/a-branch-with-a-long-name",
        title="Run a fourth triage agent in production",
        author="ada",
        base_branch="main",
        head_branch="change/a-branch-with-a-long-name",
        head="b" * 40,
        updated=NOW,
    ),
    ("gitsync/shop",),
    "a" * 40,
    None,
    "conflict in overlays/production/kustomization.yaml",
    NOW,
)
ADDED = FieldDifference(
    ".spec.runtime.env.MODEL_ID",
    "/spec/runtime/env/MODEL_ID",
    Difference.FOREIGN,
    ABSENT,
    "rogue",
    (FieldOwner("kubectl-set", "Update", "2026-03-01T11:00:00Z"),),
)


def agent(environment: str, model: str) -> ResourceView:
    """Return an Agent with a prompt of its own, in a namespace for its environment."""
    prompt = "\n".join(["Sort tickets.", *(f"Rule {n} is equal." for n in range(20)), f"Answer as {environment}."])
    spec = {
        "model": {"id": model, "endpoint": "http://gateway.models.svc.cluster.local:8000/v1"},
        "prompt": {"text": prompt},
        "tools": [{"name": "tickets"}, {"name": "mail"}],
    }
    metadata = {"name": "triage-of-tickets", "namespace": environment, "uid": environment}
    live: Manifest = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "metadata": metadata, "spec": spec}
    view = replace(resource("triage"), foreign=(ADDED,) if environment == "prod" else ())
    return replace(view, ref=ref_of(live), change=replace(view.change, ref=ref_of(live), live=live))


IMAGE = '.spec.template.spec.containers[name="agent"].image'
WRONG_IMAGE = FieldDifference(
    IMAGE,
    "/spec/template/spec/containers/0/image",
    Difference.CHANGED,
    "registry.example.com/support/triage:2.1.1",
    "registry.example.com/support/triage:a-hotfix-with-a-long-name",
    (FieldOwner("kubectl-set"),),
)
PAST = [
    ended_link(
        "gitsync/shop", OpenDrift(Change(ref, Action.UPDATE, differences=(WRONG_IMAGE,)), NOW), NOW, EndedBy.SELF_HEAL
    )
    for ref in (ObjectRef("apps", "Deployment", "shop", name) for name in ("front-door", "triage-of-tickets"))
]


def corrected(length: int) -> SyncRecord:
    """Return a sync that set back a variable of a container whose name has a length."""
    name = "n" * length
    path = f".spec.template.spec.containers[name={name}].env[name=LOG_LEVEL].value"
    difference = {"path": path, "live": "debug", "desired": "info", "owners": [{"manager": "kubectl-set"}]}
    step = Step(f"apps/Deployment/shop/{name}", "update", "Safe", "", Outcome.SUCCEEDED, differences=(difference,))
    commit = Commit("c" * 40, "Ada", message="Run a fourth triage agent")
    return SyncRecord("gitsync/shop", commit, "drift", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,))


TROUBLE = resource("web", "Deployment", health=Health.DEGRADED, message="image not found")
WITHOUT_TIME = application(
    "drifted", [edited(resource("note", sync="OutOfSync", differences=(changed(),)))], phase="Drifted"
)
DRIFTED = replace(
    WITHOUT_TIME, status={**WITHOUT_TIME.status, "drift": {"objects": 1, "detectedAt": "2026-03-01T11:00:00Z"}}
)
AGENTS = [agent("dev", "qwen3"), agent("prod", "claude"), agent("test", "qwen3")]


@pytest.fixture(scope="module")
def dashboards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    """Dashboards by name: ``full``, ``empty``, ``closed`` (asks for a token) and ``read-only``."""
    views = [
        application(resources=LONG, held=("5 dangerous steps wait for an approval",)),
        application("sick", [TROUBLE], health="Degraded"),
        application("sick-and-held", [TROUBLE, *LONG[:2]], health="Degraded", held=("2 dangerous steps wait",)),
        application("sick-and-suspended", [TROUBLE], phase="Suspended", sync="OutOfSync", health="Degraded"),
        DRIFTED,
    ]
    kinds: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "full": (views, {}),
        "empty": ([], {}),
        "agents": ([application("desk", AGENTS)], {}),
        "closed": (views, {"token": "t" * 40}),
        "read-only": (views, {"read_only": True}),
    }
    with ExitStack() as stack:
        made = {}
        for name, (shown, access) in kinds.items():
            still = engine(tmp_path_factory.mktemp(name), shown)
            still.pull_requests.views = [PROPOSED]
            still.records.audit(PAST)
            # of many lengths: the variable is at the end of a line at some width
            for length in range(8, 40):
                still.records.save(corrected(length))
            still.updates.views = [update()]
            still.usage.series = {"latency": MetricSeries(((0.0, 0.5), (60.0, 1.25)))}
            stack.callback(still.records.close)
            made[name] = stack.enter_context(serve(still_dashboard(still, access_of(**access))))
        yield made


Show = Callable[..., Page]


@pytest.fixture
def show(dashboards: dict[str, Served], shared_pages: SharedPages) -> Show:
    """Return what shows a state in a page that tests share."""

    def shows(state: str, **options: Any) -> Page:
        name, path = STATES[state]
        page = shared_pages.visit(dashboards[name].url, path, bypass_csp=True, **options).page
        expect(page.locator("main")).to_be_visible()
        return page

    return shows


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_no_state_has_a_violation(show: Show, state: str, scheme: str) -> None:
    found = Axe().run(show(state, media={"color_scheme": scheme}))
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("state", STATES)
def test_forced_colours_and_keys_suffice_in_every_state(show: Show, state: str) -> None:
    page = show(state, media={"forced_colors": "active"})
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert walk(page) == {}


def test_a_walk_finds_what_keys_do_not_reach(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        "<a href=/>Home</a> <button style='outline: none'>Sync</button> <a href=/a tabindex=-1>Audit</a>"
        "<div style='cursor: pointer'>Row</div> <input name=skip style='position: fixed; left: -50px; width: 20px'>"
    )
    found = walk(page)
    page.close()
    assert found == {
        "unreached": ["A Audit"],
        "unseen": ["BUTTON Sync: no outline", "INPUT skip: out of sight"],
        "byPointerAlone": ["DIV Row"],
    }


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_complete_without_javascript(show: Show, state: str) -> None:
    live = show(state)
    heading = live.locator("h1, .title").first.inner_text()
    buttons = live.locator("main form button:not([type=button]):visible")
    names = buttons.all_inner_texts()
    still = show(state, java_script_enabled=False)
    assert still.locator("h1, .title").first.inner_text() == heading
    shown = still.locator("main form button:not([type=button]):visible").all_inner_texts()
    # what forms do in one step with JavaScript may need a button without it, never the reverse
    assert set(names) <= set(shown)


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_sound_layout(show: Show, state: str) -> None:
    page = show(state)
    wrong = {}
    for width in (320, 390, 720, 768, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 700})
        wrong[width] = faults(page)
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize(
    "state",
    [
        "a plan of 16 steps",
        "its graph",
        "degraded",
        "two problems on another view",
        "an application with drift",
        "suspended with a crash",
        "read-only",
    ],
)
def test_the_header_of_an_application_is_small(show: Show, state: str) -> None:
    page = show(state, viewport={"width": 1440, "height": 900})
    height = (
        "Math.max(...[...document.querySelectorAll('.head, .folds')].map(item => item.getBoundingClientRect().bottom))"
    )
    assert page.evaluate(height) - page.locator(".head").evaluate("item => item.getBoundingClientRect().top") <= 64


def test_the_header_of_an_application_has_the_commit_and_its_author(show: Show) -> None:
    page = show("a plan of 16 steps", viewport={"width": 1440, "height": 900})
    expect(page.locator(".newest").get_by_role("link", name="ccccccc")).to_be_visible()
    expect(page.locator(".newest").get_by_role("link", name="Ada")).to_be_visible()


def test_a_phone_shows_problems_on_another_view_as_one_line(show: Show) -> None:
    page = show("two problems on another view", viewport={"width": 390, "height": 844})
    assert page.locator(".bar").evaluate("item => item.getBoundingClientRect().bottom") <= 160
    problems = page.locator("#problems")
    expect(problems.locator("summary")).to_contain_text("image not found")
    # there is room for one of both, and the commit is on the page of the Application
    expect(page.locator(".newest")).to_be_hidden()
    problems.locator("summary").click()
    expect(problems.locator(".alarm")).to_have_count(2)
    expect(problems.get_by_role("link", name="Log")).to_be_visible()


@pytest.mark.parametrize("width", [360, 390, 412])
def test_a_phone_shows_that_a_broken_application_is_suspended(show: Show, width: int) -> None:
    page = show("suspended with a crash", viewport={"width": width, "height": 844})
    states = [text.strip() for text in page.locator(".head .state").all_inner_texts() if text.strip()]
    assert states == ["Degraded", "Suspended"]
    assert page.locator(".bar").evaluate("item => item.getBoundingClientRect().bottom") <= 160


def test_a_review_is_written_by_keyboard_alone(show: Show) -> None:
    page = show("a plan of 16 steps")
    reached = []
    for _ in range(200):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
        if reached[-1] == "Submit review":
            break
    assert {"Skip to content", "step", "by", "reason", "decision", "Submit review"} <= set(reached)


def test_a_key_leads_to_the_review(show: Show) -> None:
    page = show("a plan of 16 steps")
    page.keyboard.press("r")
    expect(page.get_by_label("Your name")).to_be_focused()


def test_a_disconnected_page_says_so_without_violations(browser: Browser, tmp_path: Path) -> None:
    still = engine(tmp_path, [application(resources=LONG)])
    with serve(still_dashboard(still)) as web:
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(f"{web.url}{SHOP}")
        expect(page.locator("h1")).to_have_text("shop")
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_contain_text("Not connected since")
    found = Axe().run(page)
    page.context.close()
    still.records.close()
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("javascript", [True, False])
def test_the_session_of_another_browser_is_ended(browser: Browser, tmp_path: Path, javascript: bool) -> None:
    still = engine(tmp_path, [application()])
    with serve(still_dashboard(still, access_of(token="t" * 40))) as web:
        pages = []
        for _ in range(2):
            page = browser.new_context(bypass_csp=True, java_script_enabled=javascript).new_page()
            page.goto(f"{web.url}/sign-in?next=/settings")
            page.get_by_label("Token").fill("t" * 40)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
            pages.append(page)
        lost, own = pages
        rows = own.locator("#sessions tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("on Linux this browser")
        if javascript:
            for scheme in ("light", "dark"):
                own.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                violations = Axe().run(own)
                assert violations.violations_count == 0, violations.generate_report()
            for width in (320, 390, 768, 1440):
                own.set_viewport_size({"width": width, "height": 700})
                assert faults(own) == []
        rows.last.get_by_role("button").click()
        expect(rows).to_have_count(1)
        lost.reload()
        expect(lost.get_by_label("Token")).to_be_visible()
        own.get_by_role("button", name="End all").click()
        expect(own.get_by_label("Token")).to_be_visible()
        for page in pages:
            page.context.close()
    still.records.close()


BROWSER_WITH_NOTIFICATIONS = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "granted";
  static async requestPermission() { return "granted"; }
  constructor(title, options) { super(); window.shown.push(title + ", " + options.body); }
};
Object.defineProperty(document, "hidden", { get: () => Boolean(window.isOutOfSight) });
"""
"""A headless browser shows no notifications, and its pages are always in sight."""


def test_a_page_out_of_sight_notifies_of_what_fails(browser: Browser, tmp_path: Path) -> None:
    still = engine(tmp_path, [application("calm"), application("sick", [TROUBLE], health="Degraded")])
    with serve(still_dashboard(still)) as web:
        page = browser.new_context().new_page()
        page.add_init_script(BROWSER_WITH_NOTIFICATIONS)
        page.goto(f"{web.url}/settings")
        page.get_by_role("button", name="Turn on").click()
        expect(page.locator("#notifications")).to_contain_text("On in this browser.")
        page.goto(f"{web.url}/apps")
        # what failed before is known when the page has read it
        with page.expect_response(f"{web.url}/"):
            page.evaluate("isOutOfSight = true; document.dispatchEvent(new Event('visibilitychange'))")
        still.view.views["gitsync/calm"] = application("calm", [TROUBLE], health="Degraded")
        still.view.happen("gitsync/calm")
        until(lambda: page.evaluate("shown.length"))
        assert page.evaluate("shown") == ["calm: Degraded, Deployment shop/web: image not found"]
        page.context.close()
    still.records.close()
