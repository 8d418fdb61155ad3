"""Reports that the tests of a sync start from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gitsync.merge.schema import Schemas
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.sync.input import Target
from gitsync.sync.observe import Observation
from gitsync.sync.planner import Planned
from gitsync.sync.status.outcome import PhaseOutcome
from gitsync.sync.status.report import Report

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
A = ObjectRef("", "ConfigMap", "shop", "a")


def run(status: dict[str, Any] | None = None, now: datetime = NOW, action: Action = Action.NOTHING) -> Report:
    manifest: Manifest = {"metadata": {"name": "shop", "namespace": "gitsync", "generation": 3, "uid": "u"}}
    if status is not None:
        manifest["status"] = status
    made = Report.start(manifest, now)
    made.commit = commit = Commit("c" * 40, "Ada", message="first\n\nbody")
    made.rendered = (1, ())
    made.observation = Observation({A: {}}, {}, {A: "v1"}, Schemas({}), health={A: HealthStatus(Health.HEALTHY)})
    made.state = replace(made.state, applied=commit.id)
    plan = Plan("gitsync/shop", commit.id, (Change(A, action),), "0123456789abcdef", Risk.SAFE)
    made.planned = Planned(made.inputs, Target(commit, {A: {}}, fetched=commit.id), made.observation, plan)
    made.outcome = PhaseOutcome(Phase.SYNCED)
    return made
