"""Secrets that SOPS encrypted in Git reach only the cluster in the clear."""

from __future__ import annotations

import base64
import json
import logging
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.http_service import serve_http
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
    until(lambda: "none of the keys given" in world.condition("Ready").get("message", ""), 10, world.status)
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


TOKEN = "hvs.t0ken-canary"


class _Vault(BaseHTTPRequestHandler):
    """The transit API in small: a ciphertext is the key after a mark."""

    is_open = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_allowed = self.is_open and self.headers["X-Vault-Token"] == TOKEN
        answer = {"data": {"plaintext": body["ciphertext"].removeprefix("vault:v1:")}} if is_allowed else {"errors": []}
        self.send_response(200 if is_allowed else 403)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


def sealed_by_vault(port: int, password: str = CANARY) -> str:
    def wrap(key: bytes) -> dict[str, Any]:
        enc = f"vault:v1:{base64.b64encode(key).decode()}"
        place = {"vault_address": f"http://127.0.0.1:{port}", "engine_path": "sops", "key_name": "shop"}
        return {"hc_vault": [{**place, "enc": enc}]}

    return Sealer(None, ("stringData",), wrap=wrap).file({**SECRET, "stringData": {"password": password}})


def test_a_secret_is_opened_by_vault_and_stays_while_vault_refuses(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    handler = type("Handler", (_Vault,), {})
    with serve_http(handler) as port:
        first = world.repo.commit("sealed", {"shop/s.yaml": sealed_by_vault(port)})
        members = {"sops.vault-token": TOKEN, "sops.vault-address": f"http://127.0.0.1:{port}"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "age", "namespace": NAMESPACE}}
        world.apply({**secret, "stringData": members})
        application(world)
        controller = world.start(git_http_sign_in=f"127.0.0.1:{port}")
        world.synced(first)
        assert password(world) == CANARY
        handler.is_open = False
        second = world.repo.commit("rotated", {"shop/s.yaml": sealed_by_vault(port, "n3w-canary")})
        until(lambda: "Vault did not open" in world.condition("Ready").get("message", ""), 10, world.status)
        assert world.condition("Ready")["message"].startswith("shop/s.yaml: Secret s: ")
        assert password(world) == CANARY
        # another token ends the wait: the Secret is watched
        handler.is_open = True
        world.apply({**secret, "stringData": members | {"sops.vault-token": f"{TOKEN} "}})
        world.synced(second)
        assert password(world) == "n3w-canary"
    shown = repr((world.status(), controller.view.events(), controller.records.audit_records())) + caplog.text
    assert TOKEN not in shown
    assert CANARY not in shown
