"""Every page in a real browser: complete without JavaScript, live with it, silent, and for everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Site, Watched
from tests.flow.factories import config_map
from tests.waiting import until

APP = "/apps/gitsync/shop"
PAGES = {
    "/": "Overview",
    "/apps": "Applications",
    "/apps?q=nothing": "No match",
    APP: "settings",
    f"{APP}?view=tree": "ReplicaSet",
    f"{APP}?only=trouble": "None of",
    f"{APP}/plan": "Nothing to do",
    f"{APP}/diff": "Every object is as Git says",
    f"{APP}/diff?mode=unified": "Every object is as Git says",
    f"{APP}/history": "Open the shop",
    f"{APP}/history/1": "create",
    f"{APP}/events": "application",
    f"{APP}/revert": "Revert the last commit?",
    "/approvals": "Nothing waits",
    "/audit": "Succeeded",
    "/audit?action=prune&outcome=Failed": "No records",
    f"{APP}/object?ref=/ConfigMap/shop/settings": "mode: open",
}
Opens = Callable[..., Watched]


@pytest.mark.parametrize("javascript", [True, False], ids=["with JavaScript", "without JavaScript"])
@pytest.mark.parametrize(("path", "text"), PAGES.items())
def test_every_page_says_what_it_should(open_page: Opens, path: str, text: str, javascript: bool) -> None:
    page = open_page(path, java_script_enabled=javascript).page
    expect(page.locator("main")).to_contain_text(text)
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_excludes_anybody(open_page: Opens, path: str, scheme: str) -> None:
    page = open_page(path, color_scheme=scheme, bypass_csp=True).page
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_a_small_screen(open_page: Opens, path: str) -> None:
    page = open_page(path, viewport={"width": 320, "height": 700}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_commit_is_seen_without_a_reload(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    page.evaluate("window.stayed = true")
    site.world.repo.commit("Add a sign", {"shop/sign.yaml": config_map("sign", text="welcome")})
    expect(page.locator("table.resources")).to_contain_text("sign", timeout=8000)
    expect(page.locator(".facts")).to_contain_text("Add a sign")
    assert page.evaluate("window.stayed")


def test_drift_names_the_field_the_manager_and_the_time(open_page: Opens, site: Site) -> None:
    patch = {"metadata": {"name": "settings", "namespace": "shop"}, "data": {"mode": "closed"}}
    site.world.apply({"apiVersion": "v1", "kind": "ConfigMap", **patch}, "kubectl-edit")
    page = open_page(f"{APP}/events").page
    drift = page.locator(".events li", has_text=".data.mode").first
    expect(drift).to_contain_text(re.compile(r"'closed'.*'open'.*kubectl-edit.*\d{4}-\d\d-\d\dT"), timeout=8000)
    until(lambda: (site.world.get("ConfigMap", "settings") or {})["data"]["mode"] == "open")


def test_an_invalid_commit_shows_its_file_and_line(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    site.world.repo.commit("Break it", {"shop/broken.yaml": "a: [1\nb: 2\n"})
    expect(page.locator(".alarm").first).to_contain_text(re.compile(r"shop/broken\.yaml:\d+"), timeout=8000)
    site.world.repo.commit("Mend it", {"shop/broken.yaml": None})
    expect(page.locator(".alarm")).to_have_count(0, timeout=8000)


def test_sync_and_revert_are_buttons(open_page: Opens, site: Site) -> None:
    added = site.world.repo.commit("Add a till", {"shop/till.yaml": config_map("till", open="yes")})
    site.world.synced(added)
    page = open_page(APP, java_script_enabled=False).page
    page.get_by_role("button", name="Sync now").click()
    expect(page).to_have_url(re.compile(f"{APP}$"))
    page.get_by_role("link", name="Revert…").click()
    expect(page.locator(".ask")).to_contain_text("Add a till")
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
    foreign = {**kind, "Origin": "http://evil.example", "Cookie": "gitsync-form=" + "x" * 43}
    assert site.web.ask(f"{APP}/sync", method="POST", body=body, headers=foreign).status == 403
    own = {**kind, "Origin": site.web.url, "Cookie": "gitsync-form=" + "x" * 43}
    assert site.web.ask(f"{APP}/sync", method="POST", body=body, headers=own).status == 303


def test_keys_search_and_move(open_page: Opens) -> None:
    page = open_page("/apps").page
    page.keyboard.press("j")
    expect(page.locator("tr.at a")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile("/approvals$"))
    page.keyboard.press("/")
    expect(page.get_by_label("Search applications")).to_be_focused()
    page.keyboard.type("sho")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/apps\?q=sho"))


def test_suspend_and_resume_are_buttons(open_page: Opens, site: Site) -> None:
    page = open_page(APP).page
    page.get_by_role("button", name="Suspend").click()
    expect(page.locator(".alarm")).to_contain_text("Nothing is synced until it is resumed", timeout=8000)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Suspend")).to_be_visible(timeout=8000)
    until(lambda: site.world.status()["phase"] == "Synced")


def test_a_held_plan_is_decided_on_the_page_and_keeps_what_is_typed(open_page: Opens, site: Site) -> None:
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cellar"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    added = site.world.repo.commit("Add a cellar", {"shop/cellar.yaml": json.dumps({**volume, "spec": spec})})
    site.world.synced(added)
    site.world.repo.commit("Drop the cellar", {"shop/cellar.yaml": None})
    watched = open_page("/approvals")
    page = watched.page
    expect(page.locator("article")).to_contain_text("PersistentVolumeClaim", timeout=8000)
    page.get_by_label("Your name").fill("Grace")
    page.get_by_label("Why").fill("not yet")
    site.world.repo.commit("Add a note", {"shop/note.yaml": config_map("note", text="hello")})
    until(lambda: "Add a note" in site.web.ask("/approvals").text)
    page.wait_for_timeout(800)
    expect(page.get_by_label("Why")).to_have_value("not yet")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("main")).to_contain_text("The plan changed since the page was shown")
    assert "409" in watched.errors.pop()
    page.goto(f"{site.web.url}{APP}/plan")
    page.get_by_label("Your name").fill("Grace")
    page.get_by_label("Why").fill("we still need it")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".ask")).to_contain_text("by Grace: we still need it")
    page.get_by_label("Your name").fill("Linus")
    page.get_by_label("Overrule Grace").check()
    page.get_by_role("button", name="Approve all the same").click()
    until(lambda: site.world.get("PersistentVolumeClaim", "cellar") is None)
    assert [link.action for link in site.world.controller.records.audit_records(action="approve")] == ["approve"]
