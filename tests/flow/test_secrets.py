"""No value of a Secret leaves the process: not in status, views, events, history, audit or logs."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from tests.flow.environment import World
from tests.waiting import until

CANARY = "c4n4ry-value-of-a-secret"
OTHER = "another-c4n4ry-by-hand"
SECRET = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: {CANARY}\n"


def forms(value: str) -> tuple[bytes, bytes]:
    return value.encode(), base64.b64encode(value.encode())


def test_no_secret_value_is_shown_or_kept(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    first = world.repo.commit("secret", {"shop/s.yaml": SECRET})
    world.application()
    controller = world.start()
    world.synced(first)
    found = world.get("Secret", "s")
    assert found is not None
    assert base64.b64decode(found["data"]["password"]).decode() == CANARY
    world.client.apply(
        "/api/v1/namespaces/shop/secrets/s",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": OTHER}},
        {"fieldManager": "hand", "force": "true"},
    )
    until(lambda: (world.status().get("drift") or {}).get("correctedTotal") == 1, 5, world.status)
    wrong = SECRET.replace("stringData:", "data:")  # the value is no base64
    world.repo.commit("wrong", {"shop/s.yaml": wrong})
    until(lambda: world.condition("Rendered").get("status") == "False", 5, world.status)
    record = controller.records.history()[0]
    assert record.steps[0].differences, "the drift is kept, without the values"
    view = controller.view
    seen = repr((view.applications(), view.events(), controller.records.history(), controller.records.audit_records()))
    database = b"".join(path.read_bytes() for path in Path(world.folder / "data").glob("history.db*"))
    for value in (CANARY, OTHER):
        for form in forms(value):
            assert form.decode() not in repr(world.status())
            assert form.decode() not in seen
            assert form.decode() not in caplog.text
            assert form not in database
