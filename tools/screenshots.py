"""
Take the pictures of the documentation from a running demo: ``python tools/screenshots.py URL FOLDER [NAME...]``.

The pictures are public: a page that shows a folder of this machine is rejected. Serve the demo's repository over HTTPS,
and set ``spec.source.repoURL`` of its Applications to it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SUPPORT = "/apps/gitsync/support"
BILLING = f"{SUPPORT}-dev/object?ref=apps/Deployment/support-dev/dev-billing"
PAGES = {
    "home": "/",
    "changes": "/changes",
    "compare": "/changes/compare",
    "reviews": "/approvals",
    "pulls": "/pulls",
    "updates": "/updates",
    "plan": f"{SUPPORT}-prod/plan",
    "agents": "/agents",
    "applications": "/apps",
    "application": f"{SUPPORT}-dev",
    "tree": f"{SUPPORT}-dev?view=tree",
    "graph": f"{SUPPORT}-dev?view=graph",
    "events": f"{SUPPORT}-dev/events",
    "policy": f"{SUPPORT}-prod/policy",
    "suspend": f"{SUPPORT}-dev/suspend",
    "diff": f"{SUPPORT}-staging/diff",
    "history": f"{SUPPORT}-dev/history",
    "sync": f"{SUPPORT}-dev/history",
    "revert": f"{SUPPORT}-dev/revert",
    "objects": "/objects?q=kind:Deployment",
    "panel": f"/objects?q=kind:Deployment&panel={quote(BILLING, safe='')}",
    "search": "/search?q=billing",
    "bulk": "/bulk?action=sync&app=gitsync/support-dev&app=gitsync/support-staging",
    "object": BILLING,
    "object-events": BILLING.replace("object?", "object/events?"),
    "logs": BILLING.replace("object?", "object/logs?"),
    "drift": "/drift",
    "audit": "/audit",
    "wall": "/wall",
    "settings": "/settings",
    "sign-in": "/sign-in",
    "agent": "/agents/support-agents/triage",
    "environments": "/agents/environments",
    "system": "/agents/systems/support-agents/support-desk",
    "prompts": "/agents/support-agents/triage/prompts",
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
QUALITY = 55
PANEL = "#panel:not([hidden]), main [data-detail]"
"""The side panel, or the page of its object on a screen that is too narrow for both."""


def main(url: str, folder: Path, names: list[str]) -> None:
    """Write each page, or the named ones, in every look; pages that the demo does not have are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        signed_in = browser.new_context()
        signed_in.new_page().goto(url)  # the URL that the demo printed signs a browser in
        base = url.partition("/?")[0]
        state = signed_in.storage_state()
        for look, options in LOOKS.items():
            take(browser, base, folder, look, {**options, "storage_state": state}, names)
        browser.close()


def take(browser: Browser, url: str, folder: Path, look: str, options: dict[str, Any], names: list[str]) -> None:
    """Write the pages in one look."""
    context = browser.new_context(**options)
    for name, path in PAGES.items():
        if names and name not in names:
            continue
        page = context.new_page()
        answer = page.goto(url + path)
        if name == "panel":
            page.locator(PANEL).first.wait_for()
        if name == "sync":
            page.locator(".records .when a").first.click()
        if "file://" in page.inner_text("body"):
            raise SystemExit(f"{path} shows a file:// URL of this machine")
        if answer is not None and answer.ok:
            page.screenshot(path=folder / f"{name}-{look}.jpg", type="jpeg", quality=QUALITY)
        page.close()
    context.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
