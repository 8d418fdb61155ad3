"""A page about drift names the file and line, by a renderer and a repository that are real."""

from __future__ import annotations

import json

from gitsync.server.app import create_app
from tests.asgi_server import serve
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment
from tests.links import prose
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

    by = f" by Ada in {commit[:7]} open"
    assert f"set in shop/mode.yaml:6{by}" in prose(text)
    assert f"Declared in base/a.yaml:1{by}" in prose(text)
    assert "<li>resource <code>base/a.yaml:6</code></li><li>PatchTransformer <code>shop/mode.yaml:6</code></li>" in text


def test_a_plan_that_waits_names_who_wrote_what_it_changes(world: World) -> None:
    before = world.repo.commit("open", {"shop/a.yaml": deployment("a")})
    world.application(risk={"approval": "Moderate"})
    controller = world.start()
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    world.approve()
    world.synced(before)
    commit = world.repo.commit("faster", {"shop/a.yaml": deployment("a", image="web:2")})
    until(lambda: world.status()["phase"] == "AwaitingApproval", 10, world.status)

    api = "/api/v1/applications/gitsync/shop/plan"
    with serve(create_app(controller)) as web:
        text = web.ask("/apps/gitsync/shop/plan").text
        (step,) = json.loads(web.ask(f"{api}?origins=true").text)["steps"]
        (without,) = json.loads(web.ask(api).text)["steps"]

    lines = {line["field"]: (line["where"], line["commit"], line["subject"]) for line in step["origins"]}
    assert lines.pop("") == ("shop/a.yaml:1", before, "open")
    ((where, author, subject),) = lines.values()
    assert (author, subject) == (commit, "faster")
    assert f"set in {where} by Ada in {commit[:7]} faster" in prose(text)
    assert without["origins"] == []
