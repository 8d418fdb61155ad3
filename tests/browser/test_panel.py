"""The side panel: an object of a list opens beside it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, Watched
from tests.browser.keyboard import walk
from tests.flow.factories import config_map

Opens = Callable[..., Watched]
OBJECT = "/apps/gitsync/shop/object?ref=/ConfigMap/shop/settings"
PANEL = re.compile(r"/objects\?panel=%2Fapps%2Fgitsync%2Fshop%2Fobject%3Fref%3D")
OPENED = f"/objects?panel={OBJECT.replace('?', '%3F')}"
WIDE: Any = {"width": 1280, "height": 800}


def open_settings(page: Page) -> None:
    page.locator("table.resources").get_by_role("link", name="settings", exact=True).click()
    expect(page.locator("#panel h2")).to_have_text("ConfigMap settings")


def test_an_object_opens_beside_its_list_which_keeps_its_selection(open_page: Opens) -> None:
    page = open_page("/objects", viewport=WIDE).page
    page.evaluate("window.stayed = true")
    page.get_by_role("checkbox", name="Select Deployment web").check()
    open_settings(page)
    expect(page).to_have_url(PANEL)
    expect(page.locator("#panel")).to_be_focused()
    expect(page.locator("#panel")).to_contain_text("mode: open")
    expect(page.locator("tr.at")).to_contain_text("settings")
    table, panel = page.locator("table.resources").bounding_box(), page.locator("#panel").bounding_box()
    assert table is not None
    assert panel is not None
    assert table["x"] + table["width"] <= panel["x"]
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(page).to_have_url(re.compile("/objects$"))
    expect(page.get_by_role("checkbox", name="Select Deployment web")).to_be_checked()
    assert page.evaluate("window.stayed && document.activeElement.textContent") == "settings"


def test_keys_open_it_and_the_history_of_the_browser_has_it(open_page: Opens) -> None:
    page = open_page("/apps/gitsync/shop", viewport=WIDE).page
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#panel h2")).to_be_visible()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    expect(page.locator("#panel h2")).to_be_visible()
    page.locator("#panel").get_by_role("link", name="Kubernetes Events").click()
    expect(page.locator("#panel [aria-current]")).to_have_text("Kubernetes Events")
    page.go_back()
    expect(page.locator("#panel [aria-current]")).to_have_text("Summary")
    page.go_back()
    expect(page.locator("#panel")).to_be_hidden()
    page.go_forward()
    expect(page.locator("#panel h2")).to_be_visible()
    page.get_by_role("button", name="Close").last.click()
    expect(page.locator("tr.at a")).to_be_focused()


def test_its_url_opens_it_and_it_leads_to_the_page(open_page: Opens) -> None:
    page = open_page(OPENED.replace("/ConfigMap/shop/settings", "apps/Deployment/shop/web"), viewport=WIDE).page
    expect(page.locator("#panel h2")).to_have_text("Deployment web")
    expect(page.locator("tr.at a").first).to_have_text("web")
    page.get_by_role("link", name="Open its page").click()
    expect(page).to_have_url(re.compile("/apps/gitsync/shop/object"))
    page.get_by_role("link", name="ReplicaSet web").click()
    expect(page.locator("main h2").first).to_contain_text("ReplicaSet web")
    expect(page.locator("#panel")).to_be_hidden()


@pytest.mark.parametrize(
    "options",
    [{"java_script_enabled": False, "viewport": WIDE}, {"viewport": {"width": 720, "height": 800}}],
    ids=["without JavaScript", "without room"],
)
def test_elsewhere_a_link_leads_to_the_page(open_page: Opens, options: dict[str, Any]) -> None:
    page = open_page("/objects", **options).page
    page.locator("table.resources").get_by_role("link", name="settings", exact=True).click()
    expect(page).to_have_url(re.compile("/apps/gitsync/shop/object"))
    expect(page.locator("h2").first).to_contain_text("ConfigMap settings")


def test_a_url_for_the_panel_without_room_leads_to_the_page(open_page: Opens) -> None:
    page = open_page(OPENED, viewport={"width": 720, "height": 800}).page
    expect(page).to_have_url(re.compile("/apps/gitsync/shop/object"))


@pytest.mark.parametrize("path", ["//example.invalid/object?ref=a", "https://example.invalid/", "/sign-out?", "x"])
def test_only_objects_open_in_it(open_page: Opens, path: str) -> None:
    page = open_page(f"/objects?panel={path}", viewport=WIDE).page
    page.wait_for_timeout(300)
    expect(page.locator("#panel")).to_be_hidden()
    expect(page).to_have_url(re.compile(r"/objects\?panel="))


def test_a_page_with_other_parts_waits_for_rows_that_are_selected(open_page: Opens, site: Site) -> None:
    """It is rendered as a whole, which would take the selection away."""
    page = open_page("/objects", viewport=WIDE).page
    box = page.get_by_role("checkbox", name="Select Deployment web")
    box.check()
    page.evaluate("document.querySelector('nav[data-live]').removeAttribute('data-live')")
    with page.expect_response(lambda answer: answer.url.endswith("/objects")):
        site.world.synced(site.world.repo.commit("Add a lamp", {"shop/lamp.yaml": config_map("lamp", lit="yes")}))
    page.wait_for_timeout(500)
    expect(box).to_be_checked()
    box.uncheck()
    with page.expect_event("load"):
        site.world.synced(site.world.repo.commit("Remove the lamp", {"shop/lamp.yaml": None}))


def test_it_is_live_beside_a_live_list(open_page: Opens, site: Site) -> None:
    watched = open_page(OPENED, viewport=WIDE)
    page = watched.page
    expect(page.locator("#panel h2")).to_be_visible()
    page.evaluate("window.stayed = true")
    patch = {"metadata": {"name": "settings", "namespace": "shop", "labels": {"owner": "bob"}}}
    site.world.apply({"apiVersion": "v1", "kind": "ConfigMap", **patch}, "kubectl-label")
    expect(page.locator("#panel")).to_contain_text(".metadata.labels.owner")
    site.world.repo.commit("Add a lamp", {"shop/lamp.yaml": config_map("lamp", lit="yes")})
    expect(page.locator("table.resources")).to_contain_text("lamp")
    page.locator("table.resources").get_by_role("link", name="lamp", exact=True).click()
    expect(page.locator("#panel h2")).to_have_text("ConfigMap lamp")
    site.world.synced(site.world.repo.commit("Remove the lamp", {"shop/lamp.yaml": None}))
    expect(page.locator("#panel h1")).to_have_text("ConfigMap shop/lamp")
    expect(page.locator("#panel")).to_contain_text("ConfigMap shop/lamp was pruned at ")
    assert page.evaluate("window.stayed")


def test_a_row_that_comes_later_is_marked_as_the_opened_one(open_page: Opens, site: Site) -> None:
    page = open_page(f"{OPENED}&q=lantern", viewport=WIDE).page
    expect(page.locator("#panel h2")).to_have_text("ConfigMap settings")
    expect(page.locator("tr.at")).to_have_count(0)
    page.evaluate("history.replaceState(null, '', location.href.replace('lantern', ''))")
    site.world.synced(site.world.repo.commit("Light it", {"shop/lamp.yaml": config_map("lamp", lit="yes")}))
    expect(page.locator("tr.at a").first).to_have_text("settings")
    site.world.synced(site.world.repo.commit("Put it out", {"shop/lamp.yaml": None}))


def test_a_form_in_it_stays_in_it(open_page: Opens) -> None:
    page = open_page("/objects", viewport=WIDE).page
    page.locator("table.resources").get_by_role("link", name="web", exact=True).click()
    page.locator("#panel").get_by_role("link", name="Logs").click()
    page.locator("#panel").get_by_label("Lines").fill("5")
    page.locator("#panel").get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("/objects.*lines%3D5"))
    expect(page.locator("#panel").get_by_label("Lines")).to_have_value("5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_excludes_nobody(open_page: Opens, scheme: str) -> None:
    page = open_page(OPENED, viewport=WIDE, color_scheme=scheme, bypass_csp=True).page
    expect(page.locator("#panel h2")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"]


def test_forced_colours_and_keys_suffice_in_it(open_page: Opens) -> None:
    page = open_page(OPENED, viewport=WIDE, forced_colors="active", bypass_csp=True).page
    expect(page.locator("#panel h2")).to_be_visible()
    page.locator(".skip").focus()
    page.keyboard.press("Shift+Tab")
    found = Axe().run(page)
    assert walk(page) == {}
    assert found.violations_count == 0, found.generate_report()
