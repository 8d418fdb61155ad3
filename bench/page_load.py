"""Load pages of a dashboard of 10,000 objects in Chromium at a quarter of the processor: paint, blocking, shift."""

from __future__ import annotations

import shutil
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from bench._large_dashboard import large_dashboard

PAGES = (
    *("/", "/apps", "/objects", "/agents", "/drift", "/changes", "/approvals", "/audit", "/wall"),
    *("/apps/gitsync/app-1", "/apps/gitsync/app-1/diff", "/apps/gitsync/app-0/plan"),
)
THROTTLE, LOADS, SETTLED = 4, 3, 1500
_LONG = 50
"""Milliseconds from which on a task counts as blocking; what comes before the first paint delays that instead."""
_OBSERVE = """
window.seen = {first: Infinity, paint: 0, tasks: [], shift: 0};
const observe = (type, take) => {
  new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({type, buffered: true});
};
observe("paint", (entry) => { if (entry.name === "first-contentful-paint") seen.first = entry.startTime; });
observe("largest-contentful-paint", (entry) => { seen.paint = entry.startTime; });
observe("longtask", (entry) => { seen.tasks.push([entry.startTime, entry.duration]); });
observe("layout-shift", (entry) => { seen.shift += entry.value; });
"""


def main() -> None:
    """Print the figures of each page, the medians of some loads."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed")
        return
    with large_dashboard() as (web, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for path in PAGES:
            loads = [load(browser, web.url + path) for _ in range(LOADS)]
            paint, blocked, shift = (median(values) for values in zip(*loads, strict=True))
            print(f"{path}: LCP {paint:.0f} ms, TBT {blocked:.0f} ms, CLS {shift:.3f}", flush=True)
        browser.close()


def load(browser: Browser, url: str) -> tuple[float, float, float]:
    """Return largest contentful paint and total blocking time in ms, and the cumulative layout shift, of one load."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.add_init_script(_OBSERVE)
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": THROTTLE})
    page.goto(url)
    page.wait_for_timeout(SETTLED)
    seen = page.evaluate("window.seen")
    context.close()
    blocked = sum(took - _LONG for start, took in seen["tasks"] if start >= seen["first"])
    return seen["paint"], blocked, seen["shift"]


if __name__ == "__main__":
    main()
