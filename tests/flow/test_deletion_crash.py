"""A deletion that fails at any call resumes: each hook runs once, in order, all is recorded, and nothing is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import GitsyncError
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Renderer
from gitsync.sandbox.server import Sandbox
from gitsync.workers.pool import RenderPool
from tests.faults.injector import Call, Crashed, FaultInjector
from tests.faults.runner import failures_of
from tests.faults.stepped_controller import SteppedClock, SteppedController, records_of
from tests.flow.environment import World
from tests.flow.factories import config_map, job
from tests.waiting import PATIENCE, until

FILES = {
    "shop/a.yaml": config_map("a", x="1"),
    "shop/before.yaml": job("before", "PreDelete"),
    "shop/after.yaml": job("after", "PostDelete", policy="HookSucceeded"),
}
IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
EVERY = 1 if IS_COMPLETE else 5
"""The schedules of which the suite runs one; ``make faults`` runs all."""
INJECTED = ("crash-before", "crash-after", "refused", "lost-reply", "defect-before", "defect-after")
"""Failures that need nothing of the API server."""
ENDS = ("save", "end_approval")
"""The calls at the end of a sync, which are always made to fail in each way."""
INTERRUPTIONS = {
    "apply": ("crash-before", "crash-after"),
    "delete": ("crash-before", "crash-after"),
    "replace": ("crash-before", "crash-after", "refused"),
    "audit": ("lost-reply",),
}
"""The failures of other calls in a run that is not complete."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox() as sandbox:
        sandbox.set_speed(40.0)
        made = World(tmp_path, sandbox)
        yield made
        made.close()


@pytest.fixture(scope="module")
def renderer() -> Iterator[RenderPool]:
    pool = RenderPool(1, 60.0, 1024)
    yield pool
    pool.close()


class Deletion:
    """One application in a namespace of its own, synced in peace and then deleted with one crash."""

    def __init__(self, world: World, renderer: Renderer, name: str) -> None:
        self.world, self.renderer, self.name = world, renderer, name
        self.clock = SteppedClock()
        self.writes: list[tuple[str, str, str]] = []
        world.namespace(name)
        source = {"repoURL": world.repo.url, "path": "shop", "revision": "main"}
        manifest = {
            "apiVersion": "gitsync.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "shop", "namespace": name},
            "spec": {"source": source, "sync": {"interval": "1h"}},
        }
        world.apply(manifest)
        self.drive(
            FaultInjector(), lambda found: len(found["metadata"].get("finalizers") or []) == 3 and is_synced(found)
        )
        world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{name}/applications/shop", {})

    def drive(self, injector: FaultInjector, is_over: Any) -> None:
        """Reconcile, with a new controller after a crash, until the deletion is over."""
        engine = SteppedController(self.world, self.renderer, self.clock, injector)
        give_up = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < give_up:
                try:
                    engine.applications.reconcile(f"{self.name}/shop")
                except GitsyncError:
                    pass
                except Crashed:
                    engine.stop()
                    self.writes += engine.injector.writes
                    engine = SteppedController(self.world, self.renderer, self.clock, FaultInjector())
                ref = ObjectRef("gitsync.dev", "Application", self.name, "shop")
                if is_over(self.world.cluster.read(ref, "v1alpha1")):
                    self.writes += engine.injector.writes
                    return
                self.clock.tick()
                time.sleep(0.002)
        finally:
            engine.stop()
        raise AssertionError(f"{self.name}: {injector.calls}")

    def run(self, at: Call | None, failure: str) -> FaultInjector:
        self.writes.clear()
        here = None
        if at is not None:
            here = Call(at.edge, at.method, at.target.replace("@", self.name), at.nth)
        injector = FaultInjector(here, failure)
        self.drive(injector, lambda found: found is None)
        return injector

    def check(self, what: str) -> None:
        order = [target.rpartition("/")[2] for method, target, uid in self.writes if uid or method == "delete"]
        for hook in ("before", "after"):
            uids = {uid for method, target, uid in self.writes if method == "apply" and target.endswith(f"/{hook}")}
            assert len(uids) == 1, f"{what}: hook {hook} ran {len(uids)} times"
        assert {"before", "a", "after"} <= set(order), f"{what}: {self.writes}"
        assert order.index("before") < order.index("a") < order.index("after"), what
        is_in_audit_only = "crash" in what or ("defect" in what and "edge='api'" in what)
        if not is_in_audit_only:
            recorded = [record.trigger for record in records_of(self.world).history(f"{self.name}/shop")]
            assert recorded == ["PostDelete", "delete", "PreDelete", "commit"], f"{what}: recorded {recorded}"
        for kind, name, api in (("ConfigMap", "a", "v1"), ("Job", "before", "batch/v1"), ("Job", "after", "batch/v1")):
            assert self.world.get(kind, name, self.name, api) is None, f"{what}: {kind} {name} is left"


def is_synced(found: dict[str, Any]) -> bool:
    return (found.get("status") or {}).get("phase") == "Synced"


def schedules(calls: set[Call]) -> list[tuple[Call, str]]:
    """Return each call with its failures, in a run that is not complete with some of them."""
    return [
        (call, failure)
        for call in sorted(calls)
        for failure in failures_of(call)
        if call.edge in ("api", "database")
        and failure in INJECTED
        and (IS_COMPLETE or call.method in ENDS or failure in INTERRUPTIONS.get(call.method, ()))
    ]


@pytest.mark.timeout(900)
def test_a_failure_at_any_call_ends_in_the_same_state(world: World, renderer: RenderPool) -> None:
    world.repo.commit("hooks", dict(FILES))
    clean = Deletion(world, renderer, "clean")
    made = {Call(c.edge, c.method, c.target.replace("clean", "@"), c.nth) for c in clean.run(None, "").calls}
    clean.check("clean")
    planned = schedules(made)
    assert len(planned) >= 30, "a call was renamed, or is not made any more"
    sample = planned[::EVERY]
    struck = 0
    for number, (call, failure) in enumerate(sample):
        case = Deletion(world, renderer, f"case-{number}")
        struck += case.run(call, failure).has_struck
        case.check(f"{failure} at {call}")
    assert struck >= 30 // EVERY, f"{struck} of {len(sample)} schedules struck"


@pytest.mark.parametrize("failure", ["crash-before", "crash-after"])
def test_writes_of_an_application_that_was_deleted_meanwhile_get_an_outcome(
    world: World, renderer: RenderPool, failure: str
) -> None:
    world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    world.namespace("shop")
    world.application(sync={"prune": False})
    injector = FaultInjector(Call("api", "apply", "/ConfigMap/shop/a", 0), failure)
    engine, clock = SteppedController(world, renderer, SteppedClock(), injector), time.monotonic()
    while not injector.has_struck and time.monotonic() < clock + PATIENCE:
        with suppress(Crashed, GitsyncError):
            engine.applications.reconcile("gitsync/shop")
    engine.stop()
    (intent,) = records_of(world).unresolved()
    world.client.send("DELETE", "/apis/gitsync.dev/v1alpha1/namespaces/gitsync/applications/shop", {})
    world.start()
    until(lambda: not records_of(world).unresolved(), 30)
    newest, *_ = records_of(world).audit_records("gitsync/shop")
    assert (newest.sync, newest.resource) == (intent.sync, intent.resource)
    assert newest.outcome is (Outcome.SUCCEEDED if failure == "crash-after" else Outcome.FAILED)


@pytest.mark.parametrize(("method", "nth"), [*(("audit", nth) for nth in range(4)), ("save", 0)])
def test_a_failed_hook_stops_its_sync_although_the_end_was_interrupted(
    world: World, renderer: RenderPool, method: str, nth: int
) -> None:
    hook = job("before", "PreSync", image="tool:crash", policy="HookFailed")
    world.repo.commit("hooks", {"shop/a.yaml": config_map("a", x="1"), "shop/before.yaml": hook})
    world.namespace("shop")
    world.application()
    injector = FaultInjector(Call("database", method, "", nth), "refused")
    clock, give_up = SteppedClock(), time.monotonic() + PATIENCE
    engine = SteppedController(world, renderer, clock, injector)
    while not (injector.has_struck and is_over(world.status())) and time.monotonic() < give_up:
        with suppress(GitsyncError):
            engine.applications.reconcile("gitsync/shop")
        clock.tick()
        time.sleep(0.002)
    engine.stop()
    assert injector.has_struck
    assert world.status()["phase"] == "Failed", world.status()
    assert world.get("ConfigMap", "a") is None


def is_over(status: dict[str, Any]) -> bool:
    """Whether the sync failed by its hook, or did not stop at it."""
    return status.get("phase") == "Synced" or any("/before" in each["object"] for each in status.get("problems") or ())
