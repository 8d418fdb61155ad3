"""Several Applications of one repository: renamed, moved and broken ones, and none of their objects is recreated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gitsync.objects.manifest import Manifest, uid_of
from tests.contract.manifests import config_map
from tests.contract.stage import APPLICATION, Stage, eventually

LABEL = "gitsync.dev/application"
SLOW = config_map("large", **{f"key-{number}": "v" for number in range(8_000)})
"""An object that takes a while to render, so that its Application declares it late."""


def application(stage: Stage, name: str, path: str = "") -> Manifest:
    """Return the Application of a folder, as an app of apps declares it."""
    return {
        "apiVersion": APPLICATION,
        "kind": "Application",
        "metadata": {"name": name, "namespace": stage.system},
        "spec": spec_of(stage, path or name),
    }


def spec_of(stage: Stage, path: str) -> dict[str, Any]:
    account = {"serviceAccountName": stage.account} if stage.account else {}
    return {
        "source": {"repoURL": stage.repo.url, "path": path},
        "destination": {"namespace": stage.namespace, **account},
        "sync": {"interval": "1s"},
        "risk": {"approval": "Never"},
    }


def commit(stage: Stage, files: Mapping[str, Manifest | None]) -> str:
    """Commit manifests by their path in the repository."""
    return stage.repo.commit({path: content and json.dumps(content) for path, content in files.items()})


def start(stage: Stage, files: Mapping[str, Manifest | None], *names: str) -> None:
    """Commit an app of apps with the Applications of its folder ``root``, and wait until all are synced."""
    commit(stage, files)
    stage.application("root", source={"path": "root"})
    stage.start()
    for name in ("root", *names):
        stage.phase("Synced", name)


def uids(stage: Stage, *names: str) -> list[str]:
    return [uid_of(stage.live("ConfigMap", name)) for name in names]


def is_of(stage: Stage, name: str, owner: str) -> bool:
    """Whether an Application has taken an object over."""
    labels = (stage.get("ConfigMap", name) or {"metadata": {}})["metadata"].get("labels") or {}
    return bool(labels.get(LABEL) == owner)


def is_absent(stage: Stage, name: str) -> bool:
    return stage.get("Application", name, namespace=stage.system, api=APPLICATION) is None


def test_a_renamed_child_keeps_its_objects(stage: Stage) -> None:
    small = config_map("small", a="1")
    former = {"old/large.yaml": SLOW, "old/small.yaml": small}
    start(stage, {"root/child.yaml": application(stage, "old"), **former}, "old")
    before = uids(stage, "large", "small")
    latter = {"new/large.yaml": SLOW, "new/small.yaml": small}
    commit(stage, {"root/child.yaml": application(stage, "new"), **dict.fromkeys(former), **latter})
    eventually(stage, lambda: is_of(stage, "small", "new") and is_of(stage, "large", "new"))
    eventually(stage, lambda: is_absent(stage, "old"))
    stage.phase("Synced", "new")
    assert uids(stage, "large", "small") == before


def test_an_object_of_a_deleted_child_moves_to_another(stage: Stage) -> None:
    children = {f"root/{name}.yaml": application(stage, name) for name in ("a", "b")}
    start(stage, {**children, "a/large.yaml": SLOW, "b/small.yaml": config_map("small", a="1")}, "a", "b")
    before = uids(stage, "large", "small")
    changed = {**SLOW, "data": {**SLOW["data"], "key-1": "w"}}
    moved = {"a/large.yaml": changed, "a/small.yaml": config_map("small", a="1")}
    commit(stage, {"root/b.yaml": None, "b/small.yaml": None, **moved})
    eventually(stage, lambda: is_of(stage, "small", "a") and is_absent(stage, "b"))
    assert uids(stage, "large", "small") == before


def test_a_renamed_element_of_a_set_keeps_the_objects(stage: Stage) -> None:
    def set_of(*names: str) -> Manifest:
        elements = [{"name": name, "path": path} for name, path in zip(names, ("one", "two"), strict=True)]
        template = {"metadata": {"name": "{{name}}"}, "spec": spec_of(stage, "{{path}}")}
        return {
            "apiVersion": APPLICATION,
            "kind": "ApplicationSet",
            "metadata": {"name": "set", "namespace": stage.system},
            "spec": {
                "generators": [{"list": {"elements": elements}}],
                "template": template,
                "syncPolicy": {"maxDeletePercent": 100},
            },
        }

    folders = {f"{name}/{name}.yaml": config_map(name, a="1") for name in ("one", "two")}
    start(stage, {"root/set.yaml": set_of("old", "kept"), **folders})
    for name in ("old", "kept"):
        stage.phase("Synced", name)
    before = uids(stage, "one", "two")
    commit(stage, {"root/set.yaml": set_of("new", "kept")})
    eventually(stage, lambda: is_of(stage, "one", "new") and is_absent(stage, "old"))
    stage.phase("Synced", "new")
    assert uids(stage, "one", "two") == before


def test_a_broken_peer_holds_no_prune_elsewhere(stage: Stage) -> None:
    elsewhere = f"{stage.namespace}-b"
    stage.make_namespace(elsewhere)
    files = {
        "a/keep.yaml": config_map("keep", a="1"),
        "a/gone.yaml": config_map("gone", a="1"),
        "b/b.yaml": config_map("b", a="1"),
    }
    commit(stage, files)
    confined = {"allowClusterScoped": False}
    stage.application("a", source={"path": "a"}, destination=confined)
    stage.application("b", source={"path": "b"}, destination={"namespace": elsewhere, **confined})
    stage.start()
    for name in ("a", "b"):
        stage.phase("Synced", name)
    broken = {**config_map("b"), "data": {"a": [1]}}
    newest = commit(stage, {"a/gone.yaml": None, "b/b.yaml": broken})
    stage.synced(newest, "a")
    assert stage.get("ConfigMap", "gone") is None
    stage.phase("Failed", "b")


def test_a_broken_peer_of_the_namespace_holds_a_prune_until_it_is_suspended(stage: Stage) -> None:
    files = {
        "a/keep.yaml": config_map("keep", a="1"),
        "a/gone.yaml": config_map("gone", a="1"),
        "b/b.yaml": config_map("b", a="1"),
    }
    commit(stage, files)
    for name in ("a", "b"):
        stage.application(name, source={"path": name})
    stage.start()
    for name in ("a", "b"):
        stage.phase("Synced", name)
    broken = {**config_map("b"), "data": {"a": [1]}}
    newest = commit(stage, {"a/gone.yaml": None, "b/b.yaml": broken})
    # it may have declared the object in the commit that cannot be rendered
    eventually(stage, lambda: f"{stage.system}/b" in json.dumps(stage.status("a").get("conditions")))
    assert stage.live("ConfigMap", "gone")
    stage.application("b", source={"path": "b"}, suspend=True)
    stage.synced(newest, "a")
    assert stage.get("ConfigMap", "gone") is None
