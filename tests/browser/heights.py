"""How tall the pages of a running dashboard are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping

from playwright.sync_api import sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM

LISTS = re.compile(
    r"^/(apps|objects|agents|agents/environments|changes|changes/compare|drift|drift/history|audit|pulls|search|updates)"
    r"(\?|$)|/(history|events|logs|audit)(\?|$)"
)
"""Pages that are as long as what they list; each has pages of its own or a bound."""
_NAMED = re.compile(
    r"(?<=^/apps/)[^/?]+/[^/?]+|(?<=^/agents/)(?!systems/)[^/?]+/[^/?]+|(?<=^/agents/systems/)[^/?]+/[^/?]+|\b\d+\b|\b[0-9a-f]{7,64}\b"
)
_KIND = re.compile(r"ref=[^/]*/([A-Za-z]+)/")


def sort_of(path: str) -> str:
    """Return the sort of a page: its path without names, and the kind of its object."""
    place, _, query = path.partition("?")
    kind = _KIND.search(query.replace("%2F", "/"))
    view = re.search(r"(?:view|mode)=\w+", query)
    return " ".join(filter(None, (_NAMED.sub("*", place), kind and kind[1], view and view[0])))


def largest(sizes: Mapping[str, int]) -> list[str]:
    """Return of each sort the page with the most text, without lists."""
    chosen: dict[str, str] = {}
    for path, size in sizes.items():
        sort = sort_of(path)
        if not LISTS.search(path) and size > sizes.get(chosen.get(sort, ""), -1):
            chosen[sort] = path
    return list(chosen.values())


def heights(url: str, token: str, paths: list[str]) -> dict[str, int]:
    """
    Return how many px each page is tall on a screen that is 1,440 px wide.

    In a process of its own: Playwright runs once in a process, and other tests may have it open.
    """
    wanted = json.dumps([url, token, paths])
    command = [sys.executable, "-m", "tests.browser.heights"]
    done = subprocess.run(command, input=wanted, capture_output=True, text=True, check=True, timeout=900)
    measured: dict[str, int] = json.loads(done.stdout)
    return measured


def _main(url: str, token: str, paths: list[str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(
            viewport={"width": 1440, "height": 700}, extra_http_headers={"Authorization": f"Bearer {token}"}
        )
        measured = {}
        for path in paths:
            page.goto(url + path, wait_until="domcontentloaded")
            measured[path] = page.evaluate("document.documentElement.scrollHeight")
        browser.close()
    print(json.dumps(measured))


if __name__ == "__main__":
    _main(*json.load(sys.stdin))
