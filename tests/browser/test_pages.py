"""Every page in a real browser: complete without JavaScript, live with it, without console errors, accessible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from gitsync.render.yaml.reader import read_all
from tests.browser.conftest import Site, Watched
from tests.browser.keyboard import walk
from tests.flow.factories import config_map
from tests.waiting import until

APP = "/apps/gitsync/shop"
PAGES = {
    "/": "Home",
    "/changes": "Open the shop",
    "/changes?q=kind:revert": "No change matches",
    "/changes/compare": "What changed in total",
    "/objects": "settings",
    "/objects?q=kind:Deployment": "web",
    "/agents": "No agents",
    "/agents/environments": "No agents",
    "/drift": "No object differs because of a change in the cluster",
    "/search?q=settings": "ConfigMap",
    "/wall": "Nothing needs attention",
    "/settings": "What you may do",
    "/apps": "Applications",
    "/apps?q=nothing": "No match",
    APP: "settings",
    f"{APP}?view=tree": "ReplicaSet",
    f"{APP}?view=graph": "ReplicaSet",
    f"{APP}?only=trouble": "None of",
    f"{APP}/plan": "Nothing to do",
    f"{APP}/diff": "Every declared field matches Git",
    f"{APP}/diff?mode=unified": "Every declared field matches Git",
    f"{APP}/history": "Open the shop",
    f"{APP}/history/1": "create",
    f"{APP}/events": "application",
    f"{APP}/policy": "the default, without a policy",
    f"{APP}/revert": "A new commit takes this commit back",
    f"{APP}/suspend": "Suspend shop?",
    "/approvals": "No plan waits for a review",
    "/audit": "Succeeded",
    "/audit?action=prune&outcome=Failed": "No audit records match",
    f"{APP}/object?ref=/ConfigMap/shop/settings": "mode: open",
    f"{APP}/object?ref=apps/Deployment/shop/web": "Conditions",
    f"{APP}/object/events?ref=apps/Deployment/shop/web": "ScalingReplicaSet",
    f"{APP}/object/logs?ref=apps/Deployment/shop/web": "Container",
}
SELECTED = "getSelection().toString().trim()"
"""The selected text; whether that of a row ends with a line break depends on the rows after it."""
Opens = Callable[..., Watched]
Looks = Callable[..., Page]


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"])
@pytest.mark.parametrize(("path", "text"), PAGES.items())
def test_every_page_says_what_it_should(look: Looks, path: str, text: str, javascript: bool) -> None:
    page = look(path, java_script_enabled=javascript)
    expect(page.locator("main")).to_contain_text(text)
    # not counted once: behind replicas, the first page may be loaded again
    expect(page.locator("h1")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_excludes_anybody(look: Looks, path: str, scheme: str) -> None:
    page = look(path, media={"color_scheme": scheme}, bypass_csp=True)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PAGES)
def test_forced_colours_and_keys_suffice_on_every_page(look: Looks, path: str) -> None:
    page = look(path, media={"forced_colors": "active"}, bypass_csp=True)
    found = Axe().run(page)
    assert walk(page) == {}
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_small_screen(look: Looks, path: str) -> None:
    page = look(path, viewport={"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize(("path", "header"), [(APP, ".bar"), ("/changes", ".top"), ("/audit", ".top")])
def test_a_phone_shows_content_below_a_small_header(look: Looks, path: str, header: str) -> None:
    page = look(path, viewport={"width": 390, "height": 844})
    # in one step, before the page is refreshed: what other tests left, such as drift, is content and not the header
    bottom = page.locator(header).evaluate(
        """item => {
            document.querySelectorAll("main .alarm").forEach(part => part.remove());
            document.querySelectorAll("main details").forEach(part => { part.open = false; });
            return item.getBoundingClientRect().bottom;
        }"""
    )
    assert bottom <= 160
    # the row of pages begins at the one that is shown
    link = page.locator(".top nav [aria-current]").evaluate("item => item.getBoundingClientRect().right")
    assert link <= page.locator(".search").evaluate("item => item.getBoundingClientRect().left")


def test_a_commit_is_seen_without_a_reload(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    page.evaluate("window.stayed = true")
    site.world.repo.commit("Add a sign", {"shop/sign.yaml": config_map("sign", text="welcome")})
    expect(page.locator("table.resources")).to_contain_text("sign")
    expect(page.locator(".newest")).to_contain_text("Add a sign")
    assert page.evaluate("window.stayed")


def test_drift_names_the_field_the_manager_and_the_time(open_page: Opens, site: Site) -> None:
    patch = {"metadata": {"name": "settings", "namespace": "shop"}, "data": {"mode": "closed"}}
    site.world.apply({"apiVersion": "v1", "kind": "ConfigMap", **patch}, "kubectl-edit")
    page = open_page(f"{APP}/events").page
    drift = page.locator(".events li", has_text="Git declares").first
    expect(drift).to_contain_text(
        re.compile(r'kubectl-edit.*"closed" at \d{4}-\d\d-\d\d [\d:]{8} UTC; Git declares "open"')
    )
    until(lambda: (site.world.get("ConfigMap", "settings") or {})["data"]["mode"] == "open")


def test_an_invalid_commit_shows_its_file_and_line(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    site.world.repo.commit("Break it", {"shop/broken.yaml": "a: [1\nb: 2\n"})
    expect(page.locator(".alarm").first).to_contain_text(re.compile(r"shop/broken\.yaml:\d+"))
    site.world.repo.commit("Mend it", {"shop/broken.yaml": None})
    expect(page.locator(".alarm")).to_have_count(0)


def test_sync_and_revert_are_buttons(open_page: Opens, site: Site) -> None:
    added = site.world.repo.commit("Add a till", {"shop/till.yaml": config_map("till", open="yes")})
    site.world.synced(added)
    page = open_page(APP, java_script_enabled=False).page
    page.get_by_role("button", name="Sync now").click()
    expect(page).to_have_url(re.compile(f"{APP}$"))
    page.get_by_role("link", name="Revert…").click()
    expect(page.locator(".ask")).to_contain_text("Add a till")
    expect(page.locator(".ask")).to_contain_text("gitsync/shop: 1 change")
    expect(page.locator("details.object")).to_contain_text("prune ConfigMap till")
    page.get_by_label("Your name").fill("Grace")
    page.get_by_role("button", name=re.compile("Revert")).click()
    expect(page).to_have_url(re.compile(f"{APP}$"))
    until(lambda: site.world.get("ConfigMap", "till") is None)
    site.world.repo.git("pull", "-q", "origin", "main")
    assert site.world.repo.git("log", "-1", "--format=%an|%s") == 'Grace|Revert "Add a till"'


def test_a_form_of_another_site_is_refused(site: Site) -> None:
    body = b"token=" + b"x" * 43
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert site.web.ask(f"{APP}/sync", method="POST", body=body, headers=kind).status == 403
    cookie = f"gitsync-form-{site.web.url.rpartition(':')[2]}=" + "x" * 43
    foreign = {**kind, "Origin": "http://evil.example", "Cookie": cookie}
    assert site.web.ask(f"{APP}/sync", method="POST", body=body, headers=foreign).status == 403
    own = {**kind, "Origin": site.web.url, "Cookie": cookie}
    assert site.web.ask(f"{APP}/sync", method="POST", body=body, headers=own).status == 303


def test_keys_search_and_move(open_page: Opens) -> None:
    page = open_page("/apps").page
    page.keyboard.press("j")
    expect(page.locator("tr.at th a")).to_be_focused()
    page.keyboard.press("f")
    expect(page.get_by_role("textbox", name="Filter")).to_be_focused()
    page.keyboard.type("ge")
    page.keyboard.press("Enter")
    # until it is loaded: a key that is pressed before its script runs does nothing
    page.wait_for_url(re.compile(r"/apps\?q=ge$"))
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url(re.compile("/agents$"))
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url(re.compile("/approvals$"))
    page.keyboard.press("/")
    expect(page.get_by_label("Search applications and objects")).to_be_focused()
    page.keyboard.type("sho")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q=sho"))


def test_suspending_asks_who_and_why(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    for word in ("Suspend", "Resume"):
        page.get_by_role("link", name=f"{word}…").click()
        page.get_by_label("Your name").fill("Grace")
        page.get_by_label("Reason").fill("maintenance")
        page.get_by_role("button", name=word).click()
        expect(page).to_have_url(re.compile(f"{APP}$"))
        if word == "Suspend":
            expect(page.locator(".alarm")).to_contain_text("Nothing is synced until it is resumed")
            page.get_by_role("link", name="Resume…").wait_for()
    until(lambda: site.world.status()["phase"] == "Synced")


def test_enter_decides_nothing_and_a_stale_review_keeps_the_text(open_page: Opens, site: Site) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cellar"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    added = site.world.repo.commit("Add a cellar", {"shop/cellar.yaml": json.dumps({**volume, "spec": spec})})
    site.world.synced(added)
    site.world.repo.commit("Drop the cellar", {"shop/cellar.yaml": None})
    watched = open_page("/approvals")
    page = watched.page
    expect(page.locator("article")).to_contain_text("PersistentVolumeClaim")
    page.get_by_role("link", name="Review the changes").click()
    expect(page.locator("table.steps")).to_contain_text("storage: 1Gi")
    expect(page.locator("input:checked")).to_have_count(0)

    page.get_by_label("Your name").fill("Grace")
    page.get_by_label("Your name").press("Enter")
    page.get_by_label("Comment").fill("NO: this deletes customer data")
    page.get_by_label("Comment").press("Enter")
    page.get_by_role("radio", name="Approve the change").check()
    page.get_by_label("Your name").press("Enter")
    page.get_by_role("radio", name="Approve the change").press("Enter")
    page.wait_for_timeout(300)
    expect(page).to_have_url(re.compile("/plan$"))
    assert site.world.controller.records.audit_records(action="approve") == ()
    still = open_page(f"{APP}/plan", java_script_enabled=False)
    still.page.get_by_label("Your name").fill("Grace")
    still.page.get_by_role("radio", name="Approve the change").check()
    still.page.get_by_label("Your name").press("Enter")
    expect(still.page.locator("main")).to_contain_text("no decision was made")
    assert site.world.controller.records.audit_records(action="approve") == ()
    still.errors.clear()  # the answer is 422
    page.get_by_role("radio", name="Reject").check()

    site.world.repo.commit("Add a note", {"shop/note.yaml": config_map("note", text="hello")})
    until(lambda: "Add a note" in site.web.ask("/approvals").text)
    page.wait_for_timeout(800)
    expect(page.get_by_label("Comment")).to_have_value(re.compile("NO: this deletes customer data"))
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator("main")).to_contain_text("the plan changed since it was shown")
    expect(page.locator("main")).to_contain_text("new step: create ConfigMap shop/note")
    expect(page.get_by_label("Comment")).to_have_value(re.compile("NO: this deletes customer data"))
    expect(page.locator("input:checked")).to_have_count(0)
    assert "409" in watched.errors.pop()

    page.get_by_role("radio", name="Reject").check()
    page.get_by_role("button", name="Submit review").click()
    expect(page.locator(".ask").first).to_contain_text("by Grace (name not proven): NO: this deletes customer data")
    page.get_by_label("Your name").fill("Linus")
    page.get_by_role("radio", name="Approve anyway").check()
    page.get_by_label("Overrule Grace").check()
    page.get_by_role("button", name="Submit review").click()
    expect(page).to_have_url(re.compile(f"{APP}$"))
    until(lambda: site.world.get("PersistentVolumeClaim", "cellar") is None)
    assert [link.action for link in site.world.controller.records.audit_records(action="approve")] == ["approve"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_plan_that_waits_excludes_nobody_and_fits(look: Looks, site: Site, scheme: str) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"attic-{scheme}"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    path = f"shop/attic-{scheme}.yaml"
    added = site.world.repo.commit("Add an attic", {path: json.dumps({**volume, "spec": spec})})
    site.world.synced(added)
    site.world.repo.commit("Drop the attic", {path: None})
    until(lambda: site.world.status()["phase"] == "AwaitingApproval")
    for url in (f"{APP}/plan", f"{APP}/diff", "/approvals", "/"):
        page = look(url, media={"color_scheme": scheme}, bypass_csp=True, viewport={"width": 320, "height": 700})
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, url
    back = site.world.repo.commit("Keep the attic", {path: json.dumps({**volume, "spec": spec})})
    site.world.synced(back)


def long_prompt(adjective: str) -> str:
    lines = [f"Rule {number}: answer the question." for number in range(30)]
    lines[14] = f"Rule 14: be {adjective} to the customer."
    return json.dumps({**CONFIG_MAP, "data": {"prompt.md": "\n".join(lines)}})


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompt"}}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_changed_words_of_a_prompt_are_readable(open_page: Opens, site: Site, scheme: str) -> None:
    path = "shop/prompt.yaml"
    site.world.synced(site.world.repo.commit("Add a prompt", {path: long_prompt("kind")}))
    changed = site.world.synced(site.world.repo.commit("Be rude", {path: long_prompt("rude")}))
    assert changed["phase"]
    newest = site.world.controller.records.history("gitsync/shop", limit=1)[0].id
    for url in (f"{APP}/history/{newest}", f"{APP}/revert"):
        page = open_page(url, color_scheme=scheme, bypass_csp=True, viewport={"width": 320, "height": 700}).page
        expect(page.locator(".text-diff mark", has_text="rude").first).to_be_visible()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, url
    wide = open_page(f"{APP}/history/{newest}", viewport={"width": 1440, "height": 900}).page
    expect(wide.locator(".text-diff summary").first).to_contain_text("equal lines")
    wide.keyboard.press("n")
    expect(wide.locator(".hunk-at")).to_have_count(1)
    site.world.synced(site.world.repo.commit("Drop the prompt", {path: None}))


def test_a_field_that_others_added_is_shown_without_a_reload(open_page: Opens, site: Site) -> None:
    page = open_page(f"{APP}/diff").page
    patch = {"metadata": {"name": "settings", "namespace": "shop", "labels": {"owner": "bob"}}}
    site.world.apply({"apiVersion": "v1", "kind": "ConfigMap", **patch}, "kubectl-label")
    expect(page.locator("#diff")).to_contain_text("Set by others, not in Git")
    expect(page.locator("#diff")).to_contain_text(".metadata.labels.owner")
    expect(page.locator("#diff")).to_contain_text("kubectl-label: 1")


def test_ages_go_on_and_a_selection_stays(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    age = page.locator(".facts time[data-age]").last
    expect(age).not_to_have_text(age.text_content() or "")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#resources'))")
    site.world.repo.commit("Add a bell", {"shop/bell.yaml": config_map("bell", rings="yes")})
    until(lambda: "bell" in site.web.ask(APP).text)
    page.wait_for_timeout(800)
    assert page.evaluate("getSelection().toString().length") > 50


def test_a_row_that_changes_leaves_the_others_and_a_selection_in_them(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    row = page.locator("#resources tr", has_text="ConfigMap").first
    page.evaluate("row => { window.kept = row; getSelection().selectAllChildren(row); }", row.element_handle())
    selected = page.evaluate(SELECTED)
    site.world.repo.commit("Add a kettle", {"shop/kettle.yaml": config_map("kettle", boils="yes")})
    expect(page.locator("#resources")).to_contain_text("kettle")
    assert page.evaluate(f"window.kept.isConnected && {SELECTED}") == selected
    site.world.repo.commit("Remove the kettle", {"shop/kettle.yaml": None})
    expect(page.locator("#resources")).not_to_contain_text("kettle")
    assert page.evaluate(f"window.kept.isConnected && {SELECTED}") == selected


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without"])
@pytest.mark.parametrize(
    ("path", "row"), [("/apps", "shop"), ("/objects", "Deployment web")], ids=["applications", "objects"]
)
def test_selected_applications_are_suspended_and_resumed_together(
    open_page: Opens, site: Site, path: str, row: str, javascript: bool
) -> None:
    for action, opposite in (("Suspend", "Resume"), ("Resume", "Suspend")):
        page = open_page(path, java_script_enabled=javascript).page
        page.get_by_role("checkbox", name=f"Select {row}").check()
        page.get_by_role("button", name=f"{action}…").click()
        page.get_by_label("Your name").fill("Grace")
        page.get_by_label("Reason").fill("database move")
        page.get_by_role("button", name=action).click()
        expect(page.locator("main")).to_contain_text("Requested for 1 application")
        until(lambda word=opposite: f">{word}…</a>" in site.web.ask(APP).text, 10, site.world.status)


def test_a_manifest_is_copied_without_numbers_and_with_what_is_folded(open_page: Opens) -> None:
    path = "/apps/gitsync/shop/object?ref=apps/Deployment/shop/web"
    page = open_page(path, permissions=["clipboard-read", "clipboard-write"]).page
    section = page.locator("section[aria-label='In Git']")
    section.locator("summary").first.click()
    button = section.get_by_role("button", name="Copy")
    button.click()
    expect(section.locator("[data-copy]")).to_contain_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("apiVersion: apps/v1\nkind: Deployment\n")
    (manifest,) = read_all(copied)
    assert manifest["metadata"]["name"] == "web"
    assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"


def test_keys_open_a_dialog_and_fold(open_page: Opens) -> None:
    page = open_page(f"{APP}?view=tree").page
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("next, previous row")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator(".tree .at")).to_have_count(1)
    page.keyboard.press("O")
    page.wait_for_function("[...document.querySelectorAll('main details')].every(item => item.open)")


def test_the_palette_goes_to_pages_and_objects(open_page: Opens) -> None:
    page = open_page("/").page
    page.keyboard.press("Control+k")
    page.keyboard.type("settings")
    expect(page.locator("#palette-found a").first).to_contain_text("ConfigMap settings")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h2").first).to_contain_text("ConfigMap settings")
    page.keyboard.press("Control+k")
    page.keyboard.type("drift")
    expect(page.locator("#palette-found a").first).to_contain_text("Drift")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/drift$"))


def test_nothing_scrolls_sideways_at_768(look: Looks) -> None:
    for path in ("/", "/apps", APP, "/audit", f"{APP}/history"):
        page = look(path, viewport={"width": 768, "height": 900})
        assert page.evaluate(
            "[...document.querySelectorAll('.scroll')].every(item => item.scrollWidth <= item.clientWidth)"
        ), path


def test_print_has_no_navigation(open_page: Opens) -> None:
    page = open_page(f"{APP}/history/1").page
    page.emulate_media(media="print")
    for name in (".top", ".tabs", "footer", ".title .actions"):
        expect(page.locator(name)).to_be_hidden()


def test_states_are_told_apart_in_forced_colours(open_page: Opens) -> None:
    page = open_page(APP, forced_colors="active").page
    style = "item => [getComputedStyle(item).borderStyle, parseFloat(getComputedStyle(item).paddingLeft)]"
    border, padding = page.locator("td .state").first.evaluate(style)
    assert border == "solid"
    assert padding > 4
    current = page.locator(".tabs [aria-current]").evaluate("item => getComputedStyle(item).borderTopWidth")
    assert current == "2px"


@pytest.mark.parametrize("width", [1920, 2560, 3840])
def test_a_wide_screen_is_used(look: Looks, width: int) -> None:
    page = look("/apps", viewport={"width": width, "height": 1000})
    assert page.locator("main").evaluate("main => main.clientWidth") >= 0.6 * width


def test_three_states_of_a_tile_are_in_one_row(open_page: Opens) -> None:
    page = open_page("/", viewport={"width": 1440, "height": 900}).page
    rows = (
        page.locator(".tile", has_text="Health")
        .locator("ul")
        .evaluate(
            """list => {
            const [first] = list.children;
            const item = name => {
                const copy = first.cloneNode(true);
                copy.querySelector("b").textContent = "1";
                copy.querySelector("a > :last-child").lastChild.textContent = name;
                return copy;
            };
            list.replaceChildren(...["Healthy", "Progressing", "Degraded"].map(item));
            return [...new Set([...list.children].map(item => item.offsetTop))].length;
        }"""
        )
    )
    assert rows == 1
