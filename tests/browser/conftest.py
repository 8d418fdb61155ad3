"""A real browser on a real dashboard: Debian's chromium through Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from gitsync.sandbox.server import Sandbox
from gitsync.server.app import create_app
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
        with serve(create_app(world.start())) as web:
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
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(browser: Browser, site: Site) -> Iterator[Callable[..., Watched]]:
    """Open pages in contexts of their own; every one must stay silent and within its origin."""
    opened: list[Watched] = []

    def opens(path: str, **options: Any) -> Watched:
        context = browser.new_context(**options)
        page = context.new_page()
        watched = Watched(page)
        page.on("console", lambda message: watched.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: watched.errors.append(str(error)))
        page.on(
            "request",
            lambda request: watched.foreign.append(request.url) if not request.url.startswith(site.web.url) else None,
        )
        page.goto(site.web.url + path)
        opened.append(watched)
        return watched

    yield opens
    for watched in opened:
        watched.page.context.close()
        assert watched.errors == []
        assert watched.foreign == []
