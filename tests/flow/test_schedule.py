"""
Whatever goes wrong with any one request of a sync, the end is the same.

Each case is an application of its own in one world, with one fault of its own: a kind of failure at one request
of three commits that create, change and prune.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.objects.record import Outcome
from gitsync.sandbox.faults import Fault, FaultKind
from gitsync.sandbox.server import Sandbox
from tests.flow.world import NAMESPACE, World, config_map, deployment, is_synced, until

FAILURES = {
    "conflict": {"kind": FaultKind.CONFLICT},
    "throttled": {"kind": FaultKind.THROTTLE, "seconds": 1.0},
    "unavailable": {"kind": FaultKind.ERROR, "code": 503},
    "internal": {"kind": FaultKind.ERROR, "code": 500},
    "failed-after": {"kind": FaultKind.ERROR_AFTER, "code": 503},
    "lost-reply": {"kind": FaultKind.LOST_REPLY},
}
REQUESTS = {
    # Each write of the three syncs: in the application's namespace, or to the Application itself.
    "create": {"verb": "patch", "resource": "configmaps", "name": "kept"},
    "create-other": {"verb": "patch", "resource": "deployments.apps", "name": "web"},
    "change": {"verb": "patch", "resource": "configmaps", "name": "kept", "skip": 1},
    "prune": {"verb": "delete", "resource": "configmaps", "name": "gone"},
    # The finalizer, the inventory before the first write, and the statuses after each sync.
    "finalizer": {"verb": "update", "resource": "applications.gitsync.dev"},
    "hold": {"verb": "update", "resource": "applications.gitsync.dev", "skip": 1},
    "status": {"verb": "update", "resource": "applications.gitsync.dev", "skip": 2},
    "status-of-change": {"verb": "update", "resource": "applications.gitsync.dev", "skip": 3},
    "status-of-prune": {"verb": "update", "resource": "applications.gitsync.dev", "skip": 4},
}
COUNTS = (1, 3)
"""Once, and oftener than a step tries by itself."""


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[World]:
    with Sandbox(workloads=False) as sandbox:
        world = World(tmp_path, sandbox, workers=8)
        yield world
        world.close()


def test_any_failure_at_any_write_ends_in_the_same_state(crowd: World) -> None:
    world = crowd
    world.repo.commit(
        "create",
        {
            "shop/kept.yaml": config_map("kept", x="1"),
            "shop/gone.yaml": config_map("gone", x="1"),
            "shop/other.yaml": config_map("other", x="1"),
            "shop/web.yaml": deployment("web"),
        },
    )
    cases = {}
    for number, (failure, request, count) in enumerate(itertools.product(FAILURES, REQUESTS, COUNTS)):
        name = f"case{number}"
        cases[name] = f"{failure} at {request}, {count} times"
        world.namespace(name)
        world.application(
            name,
            source={"path": "shop"},
            sync={"retry": {"limit": 20, "backoff": {"initial": "1s", "factor": 1.0, "max": "1s"}}},
        )
        target = dict(REQUESTS[request])
        if "applications" in str(target["resource"]):
            target |= {"namespace": NAMESPACE, "name": name}
        else:
            target["namespace"] = name
        world.sandbox.inject(Fault(**target, **FAILURES[failure], count=count))  # type: ignore[arg-type]
    world.start()
    reach(world, cases, world.repo.git("rev-parse", "HEAD"))
    reach(world, cases, world.repo.commit("change", {"shop/kept.yaml": config_map("kept", x="2")}))
    reach(world, cases, world.repo.commit("prune", {"shop/gone.yaml": None}))
    for name, case in cases.items():
        check(world, name, case)
    fitted = world.client.get("/sandbox/faults")["faults"]
    missed = [cases[f"case{number}"] for number, fault in enumerate(fitted) if fault["fitted"] <= fault["skip"]]
    assert missed == [], "these faults struck nothing"
    assert world.controller.records.unfinished() == ()
    assert world.controller.records.verify() == ()


def reach(world: World, cases: dict[str, str], commit: str) -> None:
    def behind() -> list[str]:
        return [case for name, case in cases.items() if not is_synced(world.status(name), commit)]

    until(lambda: not behind(), 60, behind)


def check(world: World, name: str, case: str) -> None:
    """The cluster holds what Git says, the inventory holds exactly that, and every write is in the audit."""
    answer = world.client.get(f"/api/v1/namespaces/{name}/configmaps")
    found = {item["metadata"]["name"]: item["data"] for item in answer["items"]}
    found.pop("kube-root-ca.crt", None)
    assert found == {"kept": {"x": "2"}, "other": {"x": "1"}}, case
    assert {entry["id"] for entry in world.status(name)["inventory"]} == {
        f"/ConfigMap/{name}/kept",
        f"/ConfigMap/{name}/other",
        f"apps/Deployment/{name}/web",
    }, case
    audit = world.controller.records.audit_records(f"{NAMESPACE}/{name}", limit=1000)
    done = {
        (record.action, record.resource.rpartition("/")[2]) for record in audit if record.outcome is Outcome.SUCCEEDED
    }
    assert {("create", "kept"), ("create", "gone"), ("create", "other"), ("create", "web"), ("prune", "gone")} <= done
    assert all(record.resource.endswith("/gone") for record in audit if record.action == "prune"), case
