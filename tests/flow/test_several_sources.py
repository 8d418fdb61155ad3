"""An Application with several sources on the sandbox: one sync of all, pinned to what it was, and followed again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.cli.applications import pinned_from
from gitsync.cli.requests import ClusterWriter, find_joined_commit
from gitsync.errors import InvalidInput
from gitsync.integrations.artifacts import FLUX_LAYER
from gitsync.objects.application import parse_application
from gitsync.services.requests import Pin
from tests.fakes.artifacts import artifact_web, packed
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until


def test_several_sources_are_synced_and_pinned_together(world: World) -> None:
    def data(name: str) -> Any:
        return (world.get("ConfigMap", name) or {}).get("data")

    def has(version: str, text: str) -> bool:
        live = data("web") == {"version": version} and data("extra") == {"text": text}
        return live and world.status().get("phase") == "Synced"

    def commits() -> dict[str, str]:
        return {part["name"]: part["commit"] for part in world.status()["revision"]["sources"]}

    with artifact_web() as web:
        web.push((FLUX_LAYER, packed({"deploy/web.yaml": config_map("web", version="1")})), tag="1.0.0")
        first_commit = world.repo.commit("Add extra", {"extra/extra.yaml": config_map("extra", text="a")})
        artifact = {"name": "web", "repoURL": f"oci://127.0.0.1:{web.port}/team/web", "path": "deploy"}
        web.put("/v2/team/web/tags/list", json.dumps({"tags": ["1.0.0"]}))
        sources = [
            {**artifact, "revision": ">=1 <2"},
            {"name": "extra", "repoURL": world.repo.url, "revision": "main", "path": "extra"},
        ]
        world.application(sources=sources)
        world.start(git_http_hosts=f"127.0.0.1:{web.port}")
        until(lambda: has("1", "a"), describe=world.status)
        first = commits()
        assert first["extra"] == first_commit
        entry = world.status()["history"][-1]
        assert {part["name"]: part["commit"] for part in entry["sources"]} == first

        # a commit of either source is another commit of the Application
        second_commit = world.repo.commit("Change extra", {"extra/extra.yaml": config_map("extra", text="b")})
        second = {"web": first["web"], "extra": second_commit}
        until(lambda: has("1", "b") and commits() == second, describe=world.status)
        web.push((FLUX_LAYER, packed({"deploy/web.yaml": config_map("web", version="2")})), tag="1.1.0")
        web.put("/v2/team/web/tags/list", json.dumps({"tags": ["1.0.0", "1.1.0"]}))
        until(lambda: has("2", "b"), describe=world.status)

        # the commits of the first sync bring all of it back
        manifest = world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1") or {}
        oldest = world.status()["history"][-1]
        commit, joined = find_joined_commit(manifest, str(oldest["id"]))
        assert (commit.id, joined) == (oldest["revision"], first)
        assert find_joined_commit(manifest, commit.id[:8]) == (commit, joined)
        writer = ClusterWriter(world.client)
        followed = parse_application(manifest).source.revision
        writer.pin("gitsync/shop", Pin(commit, followed, joined))
        until(lambda: has("1", "a") and commits() == first, describe=world.status)
        pinned = world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1") or {}
        assert pinned_from(pinned) == followed
        with pytest.raises(InvalidInput, match="names no sync in the history"):
            find_joined_commit(pinned, "main")
        writer.unpin("gitsync/shop", followed)
        until(lambda: has("2", "b"), describe=world.status)

        # an object of both is an error that names both, and nothing is changed
        world.repo.commit("Add web", {"extra/web.yaml": config_map("web", version="3")})
        until(lambda: world.status().get("phase") == "Failed", describe=world.status)
        message = world.condition("Rendered")["message"]
        assert "ConfigMap" in message
        assert "the sources web and extra both have it" in message
        assert data("web") == {"version": "2"}
