"""One schedule: a scenario, one failure at one call, and what must be true in the end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from gitsync.errors import GitsyncError
from gitsync.gate.policy import Policy
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.user import User
from gitsync.ports import ApplicationView, Renderer
from gitsync.record.records import SqlRecords
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.services.reviews import Approval
from tests.faults.injector import Call, Crashed, FaultInjector
from tests.faults.scenarios import Scenario
from tests.faults.stepped_controller import SteppedClock, SteppedController, records_of
from tests.flow.environment import World

FAILURES = {
    "api": (
        "crash-before",
        "crash-after",
        "lost-reply",
        "conflict",
        "throttled",
        "unavailable",
        "failed-after",
        "rejected",
        "defect-before",
        "defect-after",
    ),
    "database": ("crash-before", "crash-after", "lost-reply", "refused", "defect-before", "defect-after"),
    "git": ("crash-before", "crash-after", "lost-reply", "refused", "defect-before", "defect-after"),
    "render": ("crash-before", "crash-after", "defect-before", "defect-after"),
    "watch": ("lost", "duplicated", "stale"),
}


def failures_of(call: Call) -> tuple[str, ...]:
    """
    Return how a call can fail.

    A refused hook after a sync is its end, which only a new input takes up again. The check of a source touches nothing
    outside.
    """
    never = {"rejected"} if "/Job/" in call.target else {"refused", "lost-reply"} if call.method == "check" else set()
    return tuple(name for name in FAILURES[call.edge] if name not in never)


_AT_THE_SERVER: dict[str, dict[str, Any]] = {
    "lost-reply": {"kind": FaultKind.LOST_REPLY},
    "conflict": {"kind": FaultKind.CONFLICT},
    "throttled": {"kind": FaultKind.THROTTLE, "seconds": 1.0},
    "unavailable": {"kind": FaultKind.ERROR, "code": 503},
    "failed-after": {"kind": FaultKind.ERROR_AFTER, "code": 500},
    "rejected": {"kind": FaultKind.ERROR, "code": 422},
}
_VERBS = {"delete": "delete", "replace": "update", "read": "get"}
"""Verbs of requests; all others are patches."""
_ROUNDS = 1500
_QUIET = 3
"""Rounds for which the desired state has to last: events of the last write may come late."""
_APPROVER = User("grace", is_authenticated=True)
_HERE = "@"
"""Replaces the namespace of a run in the targets of calls."""


class ScheduleRunner:
    """Run a scenario in a namespace and on a branch of its own."""

    def __init__(self, world: World, renderer: Renderer, scenario: Scenario, name: str, commits: list[str]) -> None:
        self.scenario = scenario
        self.name = name
        self.policies: Sequence[Policy] = ()
        self.writes: list[tuple[str, str, str]] = []
        self.asked: list[str] = []
        self._world = world
        self._renderer = renderer
        self._commits = commits
        self._clock = SteppedClock()

    def run(self, at: Call | None = None, failure: str = "", times: int = 1) -> FaultInjector:
        """Sync the files before without faults and those after with the failure; return the injector."""
        self._declare()
        if self.scenario.before:
            self._point(self._commits[0])
            self._drive(FaultInjector(), self._commits[0], is_before=True)
            self.writes.clear()
            self.asked.clear()
        for manager, manifest in self.scenario.existing:
            here = {**manifest["metadata"], "namespace": self.name}
            self._world.apply({**manifest, "metadata": here}, manager=manager)
        self._point(self._commits[1])
        injector = self._injector(at, failure, times)
        self._drive(injector, self._commits[1])
        self._world.sandbox.clear_faults()
        return injector

    def _injector(self, at: Call | None, failure: str, times: int) -> FaultInjector:
        if at is None:
            return FaultInjector()
        here = Call(at.edge, at.method, at.target.replace(_HERE, self.name), at.nth)
        if at.edge != "api" or failure not in _AT_THE_SERVER:
            return FaultInjector(here, failure, times)
        group, kind, namespace, name = here.target.split("/")
        resource = {"Application": "applications.gitsync.dev", "Deployment": "deployments.apps"}.get(
            kind, "jobs.batch" if kind == "Job" else "configmaps"
        )
        assert group in resource
        fault = InjectedFault(
            verb=_VERBS.get(here.method, "patch"),
            resource=resource,
            namespace=namespace,
            name=name,
            count=times,
            **_AT_THE_SERVER[failure],
        )
        return FaultInjector(here, failure, times, lambda: self._world.sandbox.inject(fault))

    def _controller(self, injector: FaultInjector) -> SteppedController:
        return SteppedController(self._world, self._renderer, self._clock, injector, tuple(self.policies))

    def calls(self, injector: FaultInjector) -> list[Call]:
        """Return the calls that were made, with the namespace left out."""
        ours = [call for call in injector.calls if call.edge != "watch" or f"/{self.name}/" in call.target]
        return [Call(c.edge, c.method, c.target.replace(self.name, _HERE), c.nth) for c in ours]

    def _drive(self, injector: FaultInjector, commit: str, *, is_before: bool = False) -> None:
        """Reconcile, with a new controller after each crash, until the desired state lasts."""
        engine, quiet = self._controller(injector), 0
        try:
            for _ in range(_ROUNDS):
                with suppress(Crashed):
                    for name in self.scenario.objects:
                        self._reconcile(engine, name)
                if engine.injector.is_dead:  # also where a thread that queries Git met the crash
                    self.writes += engine.injector.writes
                    engine.stop()
                    engine = self._controller(FaultInjector())
                is_done = all(self._is_done(engine, name, commit, is_before) for name in self.scenario.objects)
                is_done = is_done and not self._open(engine.records)  # what is left of a hook is deleted later
                quiet = quiet + 1 if is_done else 0
                if quiet == _QUIET:
                    self.writes += engine.injector.writes
                    return
                self._clock.tick()
                time.sleep(0.002)
            raise AssertionError({name: self._status(engine, name) for name in self.scenario.objects})
        finally:
            engine.stop()

    def _reconcile(self, engine: SteppedController, name: str) -> None:
        key = f"{self.name}/{name}"
        try:
            engine.applications.reconcile(key)
        except (GitsyncError, ZeroDivisionError):
            return  # the queue retries after an error, also after a defect that the status cannot be written for
        view = engine.state.views.application(key)
        if view is not None and view.status.get("phase") == "AwaitingApproval" and view.plan is not None:
            assert self.scenario.needs_approval, view.status
            self._approve(engine, view)

    def _approve(self, engine: SteppedController, view: ApplicationView) -> None:
        """Approve a plan as the dashboard does; a user whose request failed sends it again."""
        assert view.application is not None
        assert view.plan is not None
        with suppress(GitsyncError, ZeroDivisionError):
            engine.reviews.approve(view.application, view.plan, Approval(_APPROVER, "checked"))
            self.asked.append(view.plan.digest)

    def _is_done(self, engine: SteppedController, name: str, commit: str, is_before: bool) -> bool:
        status = self._status(engine, name)
        revision = status.get("revision") or {}
        if self.scenario.is_rolled_back:
            wanted = commit if is_before else self._commits[0]
            pinned = (status.get("pinned") or {}).get("commit", "")
            is_there = revision.get("good") == wanted and pinned == ("" if is_before else wanted)
            held = {entry["id"].rpartition("/")[2] for entry in status.get("inventory") or ()}
            is_clean = is_before or held == self.scenario.objects[name]  # news of a prune may come late
            return is_there and is_clean and status.get("health") == "Healthy" and revision.get("applied") == wanted
        return status.get("phase") == "Synced" and revision.get("applied") == commit and "operation" not in status

    def _status(self, engine: SteppedController, name: str) -> dict[str, Any]:
        resource = self._world.cluster.resource("gitsync.dev", "v1alpha1", "Application")
        assert resource is not None
        return (engine.live.get(resource, self.name, name) or {}).get("status") or {}

    def check(self, what: str, *, is_crash: bool) -> None:
        """The cluster holds what Git says and no more, the inventories hold that, and the audit all that was done."""
        scenario, wanted = self.scenario, frozenset[str]().union(*self.scenario.objects.values())
        found = self._named("api/v1", "configmaps") | self._named("apis/apps/v1", "deployments")
        assert found == wanted | scenario.released, what
        for name, objects in scenario.objects.items():
            status = (self._world.get("Application", name, self.name, "gitsync.dev/v1alpha1") or {})["status"]
            held = {entry["id"].rpartition("/")[2] for entry in status["inventory"]}
            assert held - scenario.hooks == objects, what
        deleted = {target.rpartition("/")[2] for method, target, _ in self.writes if method == "delete"}
        assert deleted <= scenario.deleted | (set() if is_crash else scenario.hooks), what
        if is_crash:
            assert len(self.asked) == len(set(self.asked)), f"{what}: the same plan had to be approved twice"
            for hook in scenario.hooks:
                uids = {uid for _, target, uid in self.writes if target.endswith(f"/{hook}") and uid}
                assert len(uids) == 1, f"{what}: hook {hook} ran {len(uids)} times"
        self._check_audit(what)

    def _check_audit(self, what: str) -> None:
        kept = records_of(self._world)
        try:
            ours = [f"{self.name}/{name}" for name in self.scenario.objects]
            records = [record for key in ours for record in kept.audit_records(key, limit=10000)]
            assert self._open(kept) == [], what
        finally:
            kept.close()
        audited = {record.resource for record in records if record.outcome is Outcome.SUCCEEDED}
        written = {target for _, target, _ in self.writes}
        assert written <= audited, f"{what}: {written - audited} is not in the audit"
        if self.scenario.needs_approval:
            approved = {
                record.resource for record in records if record.action == "prune" and record.approver == "grace"
            }
            assert {target for method, target, _ in self.writes if method == "delete"} <= approved, what

    def _open(self, records: SqlRecords) -> list[AuditRecord]:
        """Return our writes without an outcome."""
        return [record for record in records.unresolved() if record.application.startswith(f"{self.name}/")]

    def _named(self, root: str, plural: str) -> set[str]:
        answer = self._world.client.get(f"/{root}/namespaces/{self.name}/{plural}")
        return {item["metadata"]["name"] for item in answer["items"]} - {"kube-root-ca.crt"}

    def _declare(self) -> None:
        self._world.namespace(self.name)
        for name in self.scenario.objects:
            spec = dict(self.scenario.spec)
            self._world.apply(
                {
                    "apiVersion": "gitsync.dev/v1alpha1",
                    "kind": "Application",
                    "metadata": {"name": name, "namespace": self.name},
                    "spec": {
                        **spec,
                        "source": {"repoURL": self._world.repo.url, "path": name, "revision": self.name},
                        "sync": {"interval": "1h", **spec.get("sync", {})},
                    },
                }
            )

    def _point(self, commit: str) -> None:
        """Set the branch of this run to a commit."""
        subprocess.run(["git", "update-ref", f"refs/heads/{self.name}", commit], cwd=self._world.repo.bare, check=True)

    def clean_up(self) -> None:
        """Delete the Applications without their finalizers, and then the namespace."""
        for name in self.scenario.objects:
            path = f"/apis/gitsync.dev/v1alpha1/namespaces/{self.name}/applications/{name}"
            found = self._world.client.get(path)
            found["metadata"]["finalizers"] = []
            self._world.client.send("PUT", path, found)
            self._world.client.send("DELETE", path, {})
        self._world.client.send("DELETE", f"/api/v1/namespaces/{self.name}", {})
