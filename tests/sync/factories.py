"""Reconciles that the tests of a sync start from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gitsync.merge.schema import Schemas
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.sync.observe import Observation
from gitsync.sync.reconcile import Reconcile

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


A = ObjectRef("", "ConfigMap", "shop", "a")


def run(status: dict[str, Any] | None = None, now: datetime = NOW, action: Action = Action.NOTHING) -> Reconcile:
    manifest: Manifest = {"metadata": {"name": "shop", "namespace": "gitsync", "generation": 3, "uid": "u"}}
    if status is not None:
        manifest["status"] = status
    made = Reconcile.start(manifest, now)
    made.commit = made.target_commit = Commit("c" * 40, "Ada", message="first\n\nbody")
    made.rendered_count = 1
    made.observation = Observation({A: {}}, {}, {A: "v1"}, Schemas({}))
    made.plan = Plan("gitsync/shop", "c" * 40, (Change(A, action),), "0123456789abcdef", Risk.SAFE)
    made.health = {A: HealthStatus(Health.HEALTHY)}
    made.phase, made.applied = "Synced", "c" * 40
    return made
