"""``gitsync images`` and ``gitsync promote``: newer tags, and what staging has, as a branch of Git."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.integrations.registry import Registries
from gitsync.services.updates import waiting_reason
from tests.cli.conftest import Shop
from tests.flow.factories import deployment
from tests.waiting import until

NAME = "registry.example.com/web"


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """No registry is asked when its images were built."""
    monkeypatch.setattr(Registries, "created", lambda self, image, reference: "2020-01-02T03:04:05Z")


def pushed(shop: Shop, branch: str) -> str:
    repo = shop.world.repo
    repo.git("fetch", "--quiet", "origin")
    return repo.git("diff", "origin/main", f"origin/{branch}")


def test_newer_images_and_a_promotion_become_branches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    world = shop.world
    monkeypatch.setattr(Registries, "tags", lambda self, image: ("1.0.0", "1.1.0", "1.2.0\nevil: true"))
    policy = {"images": [{"name": NAME, "semver": ">=1"}]}
    world.application("prod", promotion={"from": "shop", "take": ["images"]}, **policy)
    # what is proposed is read from Git, whether it is deployed yet or not
    world.repo.commit("Prod", {"prod/web.yaml": deployment("api", image=f"{NAME}:1.0.0", replicas=7)})

    listed = shop("images", "prod", "-o", "json")
    assert listed.code == 1, listed.err
    [row] = listed.json
    assert (row["declared"], row["newest"], row["state"]) == ("1.0.0", "1.1.0", "newer")
    assert row["age"].endswith("d")
    dry = shop("images", "prod", "--update", "--dry-run")
    assert f"{NAME}:1.0.0 -> {NAME}:1.1.0 (prod/web.yaml:" in dry.err
    assert dry.code == 1
    done = shop("images", "prod", "--update", "--branch", "gitsync/images-prod")
    assert done.code == 0, done.err
    difference = pushed(shop, "gitsync/images-prod")
    assert f"+        image: {NAME}:1.1.0" in difference or f"image: {NAME}:1.1.0" in difference

    new = {"shop/api.yaml": deployment("api", image=f"{NAME}:1.1.0", replicas=1)}
    world.synced(world.repo.commit("Staging", new), timeout=60.0)
    until(lambda: not waiting_reason(world.status(), 0.0, BEGIN), 60, world.status)
    promoted = shop("promote", "prod", "--branch", "promote/prod", "--reason", "it works")
    assert promoted.code == 0, promoted.err
    difference = pushed(shop, "promote/prod")
    assert f"image: {NAME}:1.1.0" in difference
    changed = [line[1:].strip() for line in difference.splitlines() if line[:1] in ("+", "-")]
    assert not any(line.startswith("replicas") for line in changed)


def test_a_policy_bounds_the_images(shop: Shop, tmp_path: Any) -> None:
    world = shop.world
    world.application("prod", images=[{"name": "web", "semver": ">=1"}])
    world.repo.commit("Prod", {"prod/web.yaml": deployment("api")})
    (tmp_path / "policies").mkdir()
    spec = {"applications": ["*"], "allow": {"images": ["registry.example.com/*"], "controllerRights": True}}
    (tmp_path / "policies" / "a.yaml").write_text(
        f"{{apiVersion: gitsync.dev/v1alpha1, kind: Policy, metadata: {{name: a}}, spec: {spec}}}"
    )
    done = shop("images", "prod", "--policies", tmp_path / "policies")
    assert (done.code, "image web is not allowed by the policy" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"maxClass": "Safe"}, "the update is Moderate, and policy a allows at most Safe"),
        ({"paths": ["prod/images/*"]}, "prod/web.yaml is not allowed for updates by policy a"),
        ({"branches": ["staging"]}, "branch main is not allowed for updates by policy a"),
    ],
)
def test_a_policy_bounds_what_an_update_may_change(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, Any], reason: str
) -> None:
    world = shop.world
    monkeypatch.setattr(Registries, "tags", lambda self, image: ("1.0.0", "1.1.0"))
    world.application("prod", images=[{"name": NAME, "semver": ">=1"}])
    world.repo.commit("Prod", {"prod/web.yaml": deployment("api", image=f"{NAME}:1.0.0")})
    folder = tmp_path / "policies"
    folder.mkdir()
    spec = {"applications": ["*"], "allow": {"controllerRights": True}, "require": {"updates": bounds}}
    text = {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "a"}, "spec": spec}
    (folder / "a.yaml").write_text(json.dumps(text))
    done = shop("images", "prod", "--update", "--branch", "gitsync/images-prod", "--policies", folder)
    assert (done.code, reason in done.err) == (2, True), done.err
    # nothing was pushed
    assert "gitsync/images-prod" not in world.repo.git("ls-remote", "origin")


STATUS = {
    "phase": "Synced",
    "health": "Healthy",
    "revision": {"applied": "a" * 40, "fetched": "a" * 40},
    "phaseSince": "2026-11-26T00:00:00Z",
    "healthSince": "2026-11-26T00:10:00Z",
}
BEGIN = 1795651800.0  # 2026-11-26T00:10:00Z


@pytest.mark.parametrize(
    ("status", "seconds", "reason"),
    [
        ({}, 1800, ""),
        ({}, 1799, "for 1 s more"),
        ({"phaseSince": "2026-11-26T00:11:00Z"}, 1859, "for 1 s more"),
        ({"health": "Degraded"}, 9999, "it is Synced and Degraded"),
        ({"phase": "Drifted"}, 9999, "it is Drifted and Healthy"),
        ({"revision": {"applied": "a" * 40, "fetched": "b" * 40}}, 9999, "does not run the newest commit"),
        ({"pinned": {"commit": "a" * 40}}, 9999, "does not run the newest commit"),
        ({"revision": {}}, 9999, "nothing was applied"),
    ],
)
def test_a_promotion_waits_until_its_source_was_good_for_long(
    status: dict[str, Any], seconds: float, reason: str
) -> None:
    found = waiting_reason({**STATUS, **status}, 1800.0, BEGIN + seconds)
    assert (reason in found, bool(found)) == (True, bool(reason))


def test_a_declared_tag_that_moved_is_listed_with_what_runs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (f"sha256:{digit * 64}" for digit in "ab")
    monkeypatch.setattr(Registries, "tags", lambda self, image: ("1",))
    monkeypatch.setattr(Registries, "named_digest", lambda self, image, tag: new)
    monkeypatch.setattr(Registries, "manifest", lambda self, image, reference: (reference, {}))
    # no Pod of the sandbox has a digest: its node pulls nothing
    monkeypatch.setattr("gitsync.cli.edits.newest_digests", lambda pods: {"web:1": old} if len(pods) == 2 else {})
    shop.world.application(images=[{"name": "web", "number": "*"}])
    listed = shop("images", "shop", "-o", "json")
    assert listed.code == 0, listed.err
    [row] = listed.json
    assert (row["declared"], row["running"], row["newest"]) == ("1", old[:19], "1")
    assert row["state"] == f"newest; the declared tag moved to {new[:19]}"
