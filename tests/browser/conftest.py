"""A real browser on a real dashboard: Debian's chromium through Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from gitsync.sandbox.server import Sandbox
from tests.asgi_server import Served, serve
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
CHROMIUM = shutil.which("chromium")
VIEWPORT = ViewportSize(width=1280, height=720)
"""What Playwright gives a page by default."""

expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and skip them without a browser."""
    for item in items:
        if "browser" in Path(str(item.fspath)).parts:
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="chromium is not installed"))


@dataclass(slots=True)
class Site:
    """A world with a dashboard in front of it."""

    world: World
    web: Served
    commit: str = ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard with one application that is in sync and healthy."""
    with Sandbox() as sandbox:
        world = World(tmp_path_factory.mktemp("world"), sandbox)
        world.namespace("shop")
        world.start()
        with serve(world.dashboard()) as web:
            world.repo.commit("Start", {"other/note.yaml": config_map("note", text="cannot be reverted")})
            commit = world.repo.commit(
                "Open the shop",
                {"shop/settings.yaml": config_map("settings", mode="open"), "shop/web.yaml": deployment("web")},
            )
            world.application()
            world.synced(commit)
            yield Site(world, web, commit)
        world.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass(slots=True)
class Watched:
    """A page, and what a visitor should never cause: errors in the console, requests to elsewhere."""

    page: Page
    origin: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request",
            lambda request: self.foreign.append(request.url) if not request.url.startswith(self.origin) else None,
        )

    def assert_silent(self) -> None:
        """Fail when the page was not silent or left its origin."""
        assert self.errors == []
        assert self.foreign == []


@pytest.fixture
def open_page(browser: Browser, site: Site, shared_pages: SharedPages) -> Iterator[Callable[..., Watched]]:
    """Open pages in contexts of their own; every one must stay silent and within its origin."""
    shared_pages.leave()
    opened: list[Watched] = []

    def opens(path: str, **options: Any) -> Watched:
        watched = Watched(browser.new_context(**options).new_page(), site.web.url)
        watched.page.goto(site.web.url + path)
        opened.append(watched)
        return watched

    yield opens
    for watched in opened:
        if not watched.page.is_closed():
            # Chromium may never close a context while one of its pages is on the way to another address
            watched.page.goto("about:blank")
        watched.page.context.close()
        watched.assert_silent()


class SharedPages:
    """
    Pages for tests that only look: one for each set of options that a page keeps for its life.

    A context of its own starts a process of the browser, which is most of the cost of such a test.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._pages: dict[frozenset[tuple[str, bool]], Watched] = {}

    def visit(
        self,
        origin: str,
        path: str,
        *,
        media: Mapping[str, Any] = MappingProxyType({}),
        viewport: ViewportSize = VIEWPORT,
        **options: bool,
    ) -> Watched:
        """Load a URL as a first visit, without cookies, in a page of a context with these options."""
        key = frozenset(options.items())
        if key not in self._pages:
            self._pages[key] = Watched(self._browser.new_context(**options).new_page(), origin)  # type: ignore[arg-type]
        watched = self._pages[key]
        watched.origin = origin
        watched.foreign.clear()
        watched.page.context.clear_cookies()
        watched.page.emulate_media(**{"color_scheme": "light", "forced_colors": "none", **media})
        watched.page.set_viewport_size(viewport)
        watched.page.goto(origin + path, wait_until="commit")
        # Only now, since the document before could report errors until it was replaced.
        watched.errors.clear()
        watched.page.wait_for_load_state()
        return watched

    def leave(self) -> None:
        """Close the contexts, so that no page follows what another test changes."""
        for watched in self._pages.values():
            watched.page.context.close()
        self._pages.clear()


@pytest.fixture(scope="module")
def shared_pages(browser: Browser) -> Iterator[SharedPages]:
    """Share pages within a module, whose server ends with it: ask for the server first."""
    pages = SharedPages(browser)
    yield pages
    pages.leave()


@pytest.fixture
def look(site: Site, shared_pages: SharedPages) -> Iterator[Callable[..., Page]]:
    """Show a path of the site to a test that only looks; every page must stay silent and within its origin."""
    visited: list[Watched] = []

    def shows(path: str, **options: Any) -> Page:
        visited.append(shared_pages.visit(site.web.url, path, **options))
        return visited[-1].page

    yield shows
    for watched in visited:
        watched.assert_silent()
