"""A storm of push events: Git is asked a few times."""

from __future__ import annotations

import threading
import time

from gitsync.controllers.application import ApplicationController
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.git_http_server import GitServer

POSTS = 10_000


def test_a_storm_of_push_events_fetches_what_is_new_once(
    world: World, server: GitServer, engine: ApplicationController
) -> None:
    first = world.repo.commit("first", {"one/a.yaml": config_map("a", x="1"), "two/b.yaml": config_map("b", x="1")})
    names = ("one", "two")
    for name in names:
        source = {"repoURL": server.url("origin.git")}
        world.application(name, source=source, destination={"namespace": "shop"}, sync={"interval": "1h"})
    for name in names:
        world.synced(first, name)
    second = world.repo.commit("second", {"one/a.yaml": config_map("a", x="2"), "two/b.yaml": config_map("b", x="2")})
    server.listings = server.packs = 0
    began = time.monotonic()

    def post() -> None:
        for _ in range(POSTS // 4):
            engine.repository_changed(lambda url: url.endswith("/origin.git"))

    posts = [threading.Thread(target=post) for _ in range(4)]
    for thread in posts:
        thread.start()
    for thread in posts:
        thread.join()
    for name in names:
        world.synced(second, name, timeout=5)
    third = world.repo.commit("third", {"one/a.yaml": config_map("a", x="3"), "two/b.yaml": config_map("b", x="3")})
    engine.repository_changed(lambda url: url.endswith("/origin.git"))
    for name in names:
        world.synced(third, name, timeout=5)
    seconds = time.monotonic() - began
    assert server.packs == 2, "one fetch for each commit"
    # each application asks at most once a second; a fetch lists too
    assert server.listings <= len(names) * (seconds + 2) + server.packs
