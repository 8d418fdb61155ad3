"""A status written by an earlier version is read, and written again, unchanged."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from gitsync.merge.schema import Schemas
from gitsync.objects.change import Action, Change, Decision, HoldReason, Plan, Risk, Verdict
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import Manifest
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.sync.input import AnalysisRun, ReconcileInput, Rollback, Target
from gitsync.sync.observe import Observation
from gitsync.sync.operation import operation_from_status, operation_to_status
from gitsync.sync.planner import Planned
from gitsync.sync.status.build import build_status
from gitsync.sync.status.outcome import PhaseOutcome
from gitsync.sync.status.report import Report

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
WEB, SETTINGS = ObjectRef("apps", "Deployment", "shop", "web"), ObjectRef("", "ConfigMap", "shop", "settings")
HOOK = ObjectRef("batch", "Job", "shop", "migrate")
FILE = Path(__file__).parent / "data" / "application-8379f83.json"
"""An Application with the status that commit 8379f83 wrote, with every member that a later reconcile reads."""


def application() -> Manifest:
    manifest: Manifest = json.loads(FILE.read_text(encoding="utf-8"))
    return manifest


def test_everything_that_a_status_keeps_is_read() -> None:
    given = ReconcileInput.parse(application(), NOW)
    state = given.state
    assert dict(state.inventory.entries) == {
        WEB: InventoryEntry("v1", "uid-a"),
        SETTINGS: InventoryEntry("v1", "uid-b"),
    }
    assert (state.fetched, state.applied, state.last_good) == ("c" * 40, "b" * 40, "a" * 40)
    assert state.applied_to(given.app) == "b" * 40, "else everything would be synced again after an upgrade"
    assert state.rollback == Rollback("a" * 40, "d" * 40, "error rate 0.3 is over 0.05")
    assert state.analysis == AnalysisRun("b" * 40, NOW, {"error rate": NOW})
    assert state.requested == "2026-11-20T09:59:00Z"


def test_a_running_operation_is_restored_with_its_hooks() -> None:
    kept = ReconcileInput.parse(application(), NOW).state.operation
    hook = Change(HOOK, Action.HOOK, desired={}, options=Options(hooks=(HookPhase.PRE_SYNC,)))
    plan = Plan("gitsync/shop", "c" * 40, (hook,), "digest", Risk.SAFE)
    operation = operation_from_status(kept, plan, NOW, 100.0)
    assert (operation.id, operation.trigger, operation.began) == ("0f1e2d3c4b5a6978", "commit", 98.0)
    assert operation.hooks[HOOK, HookPhase.PRE_SYNC].uid == "uid-h"
    assert operation_to_status(operation) == kept


def test_the_same_findings_give_the_same_status() -> None:
    manifest = application()
    report = Report.start(manifest, NOW)
    report.inputs = ReconcileInput.parse(manifest, NOW)
    report.commit = commit = Commit("c" * 40, "Ada", message="Use two replicas\n\nbody")
    report.rendered = (2, ())
    health = {
        WEB: HealthStatus(Health.DEGRADED, "pod web-1: CrashLoopBackOff"),
        SETTINGS: HealthStatus(Health.HEALTHY),
    }
    desired: dict[ObjectRef, Manifest] = {WEB: {}, SETTINGS: {}}
    report.observation = Observation(desired, {}, {}, Schemas({}), report.state.inventory, health)
    changes = (Change(WEB, Action.UPDATE, risk=Risk.MODERATE), Change(SETTINGS, Action.NOTHING))
    plan = Plan("gitsync/shop", commit.id, changes, "0123456789abcdef", Risk.MODERATE)
    report.planned = Planned(report.inputs, Target(commit, desired), report.observation, plan)
    reason = "Moderate changes wait for a person"
    report.verdict = Verdict(Decision.HELD, (reason,), holds=(HoldReason.APPROVAL,))
    report.outcome = PhaseOutcome(
        Phase.AWAITING_APPROVAL, HoldReason.APPROVAL.value, reason, {WEB: "its quota is used up"}
    )
    since = {"phaseSince": "2026-11-20T10:00:00Z", "healthSince": "2026-11-20T10:00:00Z"}  # new since then
    assert build_status(report) == manifest["status"] | since


def test_an_unknown_phase_counts_as_pending() -> None:
    assert [Phase.of(status) for status in ({}, {"phase": "Later"}, {"phase": "Synced"})] == [
        Phase.PENDING,
        Phase.PENDING,
        Phase.SYNCED,
    ]
