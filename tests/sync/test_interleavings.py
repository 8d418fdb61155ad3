"""
Random interleavings of edits, commits, reviews, windows, suspensions, restarts and faults, on fakes.

GITSYNC_INTERLEAVINGS is how many run, 10 by default; each is named by its seed, which repeats it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from gitsync.errors import ClusterUnavailable, GitsyncError, Rejected
from gitsync.objects.change import Review
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import AuditHead
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.plan.drift_history import DRIFT_ACTION
from gitsync.sync.status.report import Report
from tests.fakes.engine import KEY, Engine, config_map
from tests.fakes.ports import FakeCluster, FakeRecords

RUNS = int(os.environ.get("GITSYNC_INTERLEAVINGS", "10"))
STEPS = 40
NAMES = ("a", "b", "c")
DENY = [{"kind": "Deny", "schedule": "* * * * *", "duration": "1h"}]
ENDPOINT = "OPENAI_BASE_URL"
"""Another value of it is Dangerous, so that its commit waits for an approval."""

Objects = dict[str, dict[str, str]]
"""The data of the ConfigMaps by name."""


class ReviewedRecords(FakeRecords):
    """Records with reviews of single plans."""

    approved: set[str]

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Any:
        return Review(User("ada"), approves=True) if digest in self.approved else None


class Run:
    """One interleaving: the world, what was permitted so far, and what a reconcile wrote."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.records = ReviewedRecords()
        self.records.approved = set()
        self.engine = Engine(history=self.records, risk={"approval": "Dangerous"})
        self.log: list[str] = []
        self.count = 0
        self.declared: Objects = {name: {"x": "0", ENDPOINT: "http://model-0/v1"} for name in NAMES}
        self.permitted: set[tuple[str, str, str]] = set()
        self.spec: dict[str, Any] = {}
        self._commit()
        self.permit(self.declared)  # the first commit has no endpoint that another one replaces
        self.settle()

    # --- what happens ---

    def edit(self) -> None:
        """Set a field by hand: to a value that no commit has, or to one of the newest commit, which may be held."""
        name = self.random.choice(NAMES)
        live = self.live(name)
        if live is None:
            return
        key = self.random.choice(["x", ENDPOINT])
        wanted = self.declared.get(name, {}).get(key, "")
        value = wanted if wanted and self.random.random() < 0.3 else f"evil-{self.next()}"
        self.engine.cluster.put({**live, "data": {**live["data"], key: value}})

    def delete(self) -> None:
        self.engine.cluster.objects.pop(_ref(self.random.choice(NAMES)), None)

    def commit_safe(self) -> None:
        name = self.random.choice(NAMES)
        self.declared = {**self.declared, name: {**self.declared.get(name, {}), "x": f"v{self.next()}"}}
        self._commit()

    def commit_dangerous(self) -> None:
        name = self.random.choice(NAMES)
        changed = {**self.declared.get(name, {"x": "0"}), ENDPOINT: f"http://model-{self.next()}/v1"}
        self.declared = {**self.declared, name: changed}
        self._commit()

    def approve(self) -> None:
        """Approve the plan that is shown now; it permits what the newest commit declares."""
        report = self._pass()
        if report.planned is not None and report.outcome.phase.value == "AwaitingApproval":
            self.records.approved.add(report.planned.plan.digest)
            self.permit(self.declared)

    def window(self) -> None:
        self.spec = {**self.spec, "sync": {} if self.spec.get("sync") else {"windows": DENY}}
        self.engine.edit(**{"suspend": False, "sync": {}, **self.spec})

    def suspend(self) -> None:
        self.spec = {**self.spec, "suspend": not self.spec.get("suspend", False)}
        self.engine.edit(**{"suspend": False, "sync": {}, **self.spec})

    def restart(self) -> None:
        self.engine.restart()

    def fault(self) -> None:
        errors: list[Callable[[], GitsyncError]] = [
            lambda: Rejected("denied by a webhook", code=403),
            lambda: ClusterUnavailable("the connection was reset"),
        ]
        self.engine.cluster.failures[self.random.choice(NAMES)].append(self.random.choice(errors)())

    def slow(self) -> None:
        self.engine.pool.slow.add(self.random.choice(NAMES))

    def answer(self) -> None:
        self.engine.pool.answer()

    def reconcile(self) -> None:
        self.engine.clock.seconds += self.random.choice([0, 1, 30, 3600])
        self._pass()

    # --- what holds ---

    def settle(self) -> Report:
        """End all faults, and reconcile until nothing changes by itself; return the last report."""
        self.engine.cluster.failures.clear()
        self.engine.pool.answer()
        for _ in range(11):
            self.engine.clock.seconds += 3600  # past each backoff
            self._pass()
        return self._pass()

    def check(self) -> None:
        """What runs is permitted, edits are undone, and what is permitted is live, while nothing is suspended."""
        report = self.settle()
        assert report.planned is not None
        reported = {step.ref.name for step in (*report.planned.plan.repairs, *report.planned.plan.outstanding)}
        known = {ref.name for ref, entry in report.state.inventory.entries.items() if entry.applied}
        for name in NAMES:
            live = self.live(name)
            values = {(name, key, value) for key, value in live["data"].items()} if live is not None else set()
            if live is not None and values <= self.permitted:
                continue
            assert name in reported, (name, "is edited, and neither restored nor reported")
            # a write whose answer was lost with the process leaves the last state unknown: that asks for approval
            assert self.spec.get("suspend") or name not in known, (name, "is edited and not restored")

    def finish(self) -> None:
        self.spec = {}
        self.engine.edit(suspend=False, sync={})
        self.settle()
        self.approve()
        self.settle()
        live = {name: dict((self.live(name) or {"data": {}})["data"]) for name in NAMES}
        assert live == self.declared
        assert self.records.unresolved(KEY) == ()
        assert all(link.details["detected"] for link in self.records.links if link.action == DRIFT_ACTION)
        self.engine.written()
        self._pass()
        assert self.engine.written() == []

    def live(self, name: str) -> Manifest | None:
        return self.engine.cluster.objects.get(_ref(name))

    def next(self) -> int:
        self.count += 1
        return self.count

    def permit(self, objects: Objects) -> None:
        self.permitted |= {(name, key, value) for name, data in objects.items() for key, value in data.items()}

    def _commit(self) -> None:
        manifests = [config_map(name, **data) for name, data in sorted(self.declared.items())]
        self.engine.declare(f"c{self.next()}", *manifests)
        self.permitted |= {(name, "x", data["x"]) for name, data in self.declared.items()}

    def _pass(self) -> Report:
        """Reconcile once, and check each write: an endpoint was approved, any other value at least committed."""
        report = self.engine.reconcile()
        for manifest in _applied(self.engine.cluster):
            for key, value in (manifest.get("data") or {}).items():
                written = (metadata_of(manifest)["name"], key, value)
                assert written in self.permitted, (*written, "was written and never permitted")
        return report


def _ref(name: str) -> ObjectRef:
    return ObjectRef("", "ConfigMap", "prod", name)


def _applied(cluster: FakeCluster) -> list[Manifest]:
    """Return the manifests that were applied since the last call."""
    manifests = [manifest for manifest in cluster.applied if manifest["kind"] == "ConfigMap"]
    cluster.applied.clear()
    return manifests


HAPPENINGS = (
    *(Run.edit, Run.edit, Run.edit, Run.delete, Run.commit_safe, Run.commit_dangerous, Run.approve),
    *(Run.window, Run.suspend, Run.restart, Run.fault, Run.slow, Run.answer, Run.reconcile, Run.reconcile),
    Run.check,
)


@pytest.mark.parametrize("seed", range(RUNS))
def test_edits_and_commits_delay_and_permit_nothing_of_each_other(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        happening = run.random.choice(HAPPENINGS)
        run.log.append(happening.__name__)
        happening(run)
    run.finish()
