"""Secrets that SOPS encrypted in Git reach only the cluster in the clear."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.sops_encryption import Sealer, new_key
from tests.waiting import until

CANARY = "c4n4ry-sealed-in-git"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": CANARY}}
IDENTITY, KEY_FILE = new_key()
KUSTOMIZATION = "resources: [s.yaml, a.yaml]\nnamespace: shop\nlabels: [{pairs: {team: blue}}]\n"


def sealed(manifest: dict[str, Any] = SECRET) -> str:
    return Sealer(IDENTITY.to_public(), ("data", "stringData")).file(manifest)


def keys(world: World, text: str = KEY_FILE) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "age", "namespace": NAMESPACE}}
    world.apply({**secret, "stringData": {"me.agekey": text}})


def application(world: World) -> None:
    world.application(source={"decryption": {"provider": "sops", "secretRef": {"name": "age"}}})


def password(world: World) -> str:
    found = world.get("Secret", "s")
    return base64.b64decode(found["data"]["password"]).decode() if found else ""


def test_a_sealed_secret_is_applied_and_shown_nowhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    files = {"shop/kustomization.yaml": KUSTOMIZATION, "shop/a.yaml": config_map("a", x="1"), "shop/s.yaml": sealed()}
    first = world.repo.commit("sealed", dict(files))
    keys(world)
    application(world)
    controller = world.start()
    world.synced(first)
    assert password(world) == CANARY
    assert "sops" not in (world.get("Secret", "s") or {})
    second = world.repo.commit("again", {"shop/s.yaml": sealed({**SECRET, "stringData": {"password": f"{CANARY}-2"}})})
    world.synced(second)
    assert password(world) == f"{CANARY}-2"
    view = controller.view
    seen = repr((world.status(), view.applications(), view.events(), controller.records.history()))
    seen += repr(controller.records.audit_records()) + caplog.text
    database = b"".join(path.read_bytes() for path in Path(world.folder / "data").glob("history.db*"))
    for form in (CANARY, base64.b64encode(CANARY.encode()).decode()):
        assert form not in seen
        assert form.encode() not in database


def test_a_secret_without_its_key_is_refused_until_the_key_comes(world: World) -> None:
    commit = world.repo.commit("sealed", {"shop/s.yaml": sealed()})
    keys(world, new_key()[1])
    application(world)
    world.start()
    until(lambda: "none of the age keys" in world.condition("Ready").get("message", ""), 10, world.status)
    assert world.condition("Ready")["message"].startswith("shop/s.yaml: Secret s: ")
    keys(world)
    world.synced(commit)
    assert password(world) == CANARY


def test_without_keys_named_the_setting_is_at_fault(world: World) -> None:
    world.repo.commit("sealed", {"shop/s.yaml": sealed()})
    world.application()
    world.start()
    until(lambda: "names no keys" in world.condition("Ready").get("message", ""), 10, world.status)
    assert world.get("Secret", "s") is None


def test_only_secrets_may_be_sealed(world: World) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"x": CANARY}}
    world.repo.commit("sealed", {"shop/s.yaml": sealed(manifest)})
    keys(world)
    application(world)
    world.start()
    until(lambda: "a ConfigMap is encrypted by SOPS" in world.condition("Ready").get("message", ""), 10, world.status)
