"""Take the pictures of the README from a running demo: ``python tools/screenshots.py URL FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PAGES = {
    "overview": "/",
    "application": "/apps/gitsync/support-dev",
    "tree": "/apps/gitsync/support-dev?view=tree",
    "plan": "/apps/gitsync/support-prod/plan",
    "diff": "/apps/gitsync/support-staging/diff",
}


def main(url: str, folder: Path) -> None:
    """Write each page in light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 860})
            for name, path in PAGES.items():
                page = context.new_page()
                page.goto(url + path)
                page.screenshot(path=folder / f"{name}{'' if scheme == 'light' else '-dark'}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
