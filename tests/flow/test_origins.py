"""A page about drift names the file and line, by a renderer and a repository that are real."""

from __future__ import annotations

from gitsync.server.app import create_app
from tests.asgi_server import serve
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until

OVERLAY = "resources: [../base]\npatches:\n- path: mode.yaml\n"


def test_a_drifted_field_is_shown_with_the_patch_that_set_it(world: World) -> None:
    commit = world.repo.commit(
        "open",
        {
            "base/kustomization.yaml": "resources: [a.yaml]\n",
            "base/a.yaml": config_map("a", mode="slow", door="open"),
            "shop/kustomization.yaml": OVERLAY,
            "shop/mode.yaml": config_map("a", mode="fast"),
        },
    )
    world.application(sync={"selfHeal": False})
    controller = world.start()
    world.synced(commit)
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "shop"},
            "data": {"mode": "off"},
        }
    )
    until(lambda: world.status()["phase"] == "Drifted", 10, world.status)

    with serve(create_app(controller)) as web:
        text = web.ask("/apps/gitsync/shop/diff").text

    assert "set in <code>shop/mode.yaml:6</code>" in text
    assert "Declared in <code>base/a.yaml:1</code>" in text
    assert "<li>resource <code>base/a.yaml:6</code></li><li>PatchTransformer <code>shop/mode.yaml:6</code></li>" in text
