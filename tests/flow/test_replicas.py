"""Two controllers, each its own process, divide Applications; one that dies or freezes is followed by the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.change import Decision
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.runtime.membership import owner
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.services.reviews import Approval
from gitsync.settings import Settings
from gitsync.wiring import Engine, build_controller
from tests.asgi_server import Answer, serve
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map
from tests.replicas import new_database
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LEASE = 5.0
"""Seconds; a loaded machine must not lose the Lease of a replica that runs."""
STEADY_LEASE = 15.0
"""Seconds, as in production: of replicas that keep what they own for the whole test, on a machine of any load."""
NAMES = tuple(f"app{number}" for number in range(12))
IS_COMPLETE = os.environ.get("GITSYNC_FAULTS") == "all"
MANY = tuple(f"app{number}" for number in range(1000 if IS_COMPLETE else 40))
PATIENCE = 600.0 if IS_COMPLETE else 90.0
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"

Replica = subprocess.Popen[bytes]


class Start(Protocol):
    """Start a replica by its name, whose Lease lasts ``lease`` seconds."""

    def __call__(self, name: str, lease: float = LEASE) -> Replica: ...


@pytest.fixture
def database(postgres_url: str) -> str:
    """An empty database on the one PostgreSQL of the session."""
    return new_database(postgres_url)


@pytest.fixture
def start(world: World, database: str) -> Iterator[Start]:
    """Start a replica with a data folder of its own; all end with the test."""
    running: list[Replica] = []

    def begin(name: str, lease: float = LEASE) -> Replica:
        script = [
            sys.executable,
            "-m",
            "tests.flow.controller_process",
            str(world.kubeconfig),
            str(world.folder / name),
        ]
        settings = {
            "GITSYNC_REPLICAS": "true",
            "GITSYNC_LEASE_SECONDS": str(lease),
            "GITSYNC_DATABASE": database,
        }
        running.append(subprocess.Popen(script, cwd=ROOT, env={**os.environ, **settings}))
        return running[-1]

    yield begin
    for process in running:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def commit(world: World, x: str, names: tuple[str, ...] = NAMES) -> str:
    files: dict[str, str | None] = {f"{name}/a.yaml": config_map(f"{name}-a", x=x) for name in names}
    return world.repo.commit(f"x is {x}", files)


def declare(world: World, names: tuple[str, ...] = NAMES) -> None:
    # a write that failed is tried again at once, however long the outage was
    retry = {"backoff": {"initial": "1s", "factor": 1, "max": "1s"}}
    for name in names:
        world.application(name, destination={"namespace": "shop"}, sync={"retry": retry})


def members(world: World) -> list[str]:
    answer = world.client.get(LEASES, {"labelSelector": "gitsync.dev/member"})
    return sorted(item["spec"]["holderIdentity"] for item in answer["items"])


def synced(world: World, revision: str) -> set[str]:
    """Return the names of the Applications that are synced to a commit."""
    return {name for name, status in world.statuses().items() if is_synced(status, revision)}


def are_synced(world: World, revision: str, names: tuple[str, ...] = ()) -> bool:
    return synced(world, revision) >= set(names or world.statuses())


def is_divided(world: World) -> bool:
    """Whether two members go by each other."""
    answer = world.client.get(LEASES, {"labelSelector": "gitsync.dev/member"})
    views = {item["metadata"]["annotations"].get("gitsync.dev/members", "") for item in answer["items"]}
    return len(answer["items"]) == 2 and views == {",".join(members(world))}


def shares(world: World) -> dict[str, tuple[str, ...]]:
    view = tuple(members(world))
    return {member: tuple(name for name in NAMES if owner(view, f"{NAMESPACE}/{name}") == member) for member in view}


def is_held(view: ApplicationView) -> bool:
    """Whether a plan of an Application waits for an approval."""
    return view.verdict is not None and view.verdict.decision is Decision.HELD


def worked_on(controller: Engine) -> set[str]:
    """Return the names of the Applications that a replica works on."""
    return {view.key.partition("/")[2] for view in controller.view.applications() if controller.owns(view.key)}


def objects(controller: Engine) -> dict[str, list[str]]:
    """Return the states of the objects that a replica shows, by Application."""
    views = controller.view.applications()
    return {view.key.partition("/")[2]: [str(resource.sync) for resource in view.resources] for view in views}


def check_audit(database: str) -> None:
    records = SqlRecords(RecordDatabase(database))
    try:
        assert records.verify() == ()
        assert records.unresolved() == ()
    finally:
        records.close()


def check_written_once(database: str, commits: tuple[str, ...], names: tuple[str, ...] = NAMES) -> None:
    """Assert that each object was written once for each commit, by one of the replicas."""
    records = SqlRecords(RecordDatabase(database))
    try:
        written = [
            (record.application, record.commit, record.resource)
            for record in records.audit_records(limit=10 * len(names) * len(commits))
            if record.outcome.value == "Succeeded"
        ]
    finally:
        records.close()
    assert sorted(written) == sorted(
        (f"{NAMESPACE}/{app}", id, f"/ConfigMap/shop/{app}-a") for app in names for id in commits
    )


def two(world: World, start: Start) -> tuple[Replica, str, Replica, str]:
    """Start two replicas that have found each other; return each with its name, the one with more to do first."""
    first = start("one")
    until(lambda: len(members(world)) == 1, PATIENCE)
    (known,) = members(world)
    second = start("two")
    until(lambda: is_divided(world), PATIENCE, lambda: members(world))
    other = next(name for name in members(world) if name != known)
    found = ((first, known), (second, other))
    (more, name), (less, rest) = sorted(found, key=lambda pair: -len(shares(world)[pair[1]]))
    return more, name, less, rest


@pytest.mark.timeout(3 * PATIENCE)
def test_both_work_and_one_takes_over_what_a_killed_one_leaves(world: World, start: Start, database: str) -> None:
    declare(world)
    first = commit(world, "1")
    killed, name, _, other = two(world, start)
    until(lambda: are_synced(world, first), PATIENCE)
    second = commit(world, "2")
    until(lambda: are_synced(world, second), PATIENCE)
    killed.kill()
    killed.wait()
    third = commit(world, "3")
    # how long it takes is tested with a clock in tests/runtime/test_membership.py
    until(lambda: are_synced(world, third), PATIENCE, lambda: shares(world))
    until(lambda: members(world) == [other], PATIENCE, lambda: members(world))
    assert name != other
    check_audit(database)


@pytest.mark.timeout(3 * PATIENCE)
def test_a_replica_killed_in_the_middle_of_many_syncs_leaves_none_undone_or_written_twice(
    world: World, start: Start, database: str
) -> None:
    declare(world, MANY)
    first = commit(world, "1", MANY)
    killed, _, _, other = two(world, start)
    until(lambda: are_synced(world, first), PATIENCE)
    # from the middle on, writes fail: so some are not done when the replica is killed, however fast the machine is
    fault = InjectedFault(FaultKind.ERROR, verb="patch", resource="configmaps", skip=len(MANY) // 8, code=503)
    world.sandbox.inject(fault)
    second = commit(world, "2", MANY)
    # what stays while the fault lasts: the phase Failed passes between two attempts
    until(lambda: any("injected" in str(status["conditions"]) for status in world.statuses().values()), PATIENCE)
    killed.kill()
    killed.wait()
    assert len(synced(world, second)) < len(MANY)
    world.sandbox.clear_faults()
    until(lambda: are_synced(world, second), PATIENCE, lambda: len(synced(world, second)))
    until(lambda: members(world) == [other], PATIENCE, lambda: members(world))
    check_audit(database)
    check_written_once(database, (first, second), MANY)


def set_status(world: World, name: str) -> dict[str, Any]:
    return (world.get("ApplicationSet", name, NAMESPACE, "gitsync.dev/v1alpha1") or {}).get("status") or {}


@pytest.mark.timeout(3 * PATIENCE)
def test_a_set_that_changes_while_its_replica_is_gone_is_reconciled_by_the_other(world: World, start: Start) -> None:
    """Nothing about it changes when it moves: no event of a watch says it to the new replica."""
    names = tuple(f"set{number}" for number in range(6))

    def write(elements: str) -> None:
        for name in names:
            source = {"repoURL": world.repo.url, "path": "absent"}
            template = {"metadata": {"name": f"{name}-{{{{name}}}}"}, "spec": {"source": source, "suspend": True}}
            world.apply(
                {
                    "apiVersion": "gitsync.dev/v1alpha1",
                    "kind": "ApplicationSet",
                    "metadata": {"name": name, "namespace": NAMESPACE},
                    "spec": {
                        "generators": [{"list": {"elements": [{"name": item} for item in elements]}}],
                        "template": template,
                    },
                }
            )

    def observed(generation: int) -> bool:
        return all(set_status(world, name).get("observedGeneration") == generation for name in names)

    killed, name, _, other = two(world, start)
    write("a")
    until(lambda: observed(1), PATIENCE)
    view = tuple(members(world))
    moved = [item for item in names if owner(view, f"{NAMESPACE}/applicationset:{item}") == name]
    killed.kill()
    killed.wait()
    write("ab")
    until(lambda: members(world) == [other], PATIENCE, lambda: members(world))
    until(lambda: observed(2), PATIENCE, lambda: (moved, {item: set_status(world, item) for item in names}))


@pytest.mark.timeout(3 * PATIENCE)
def test_a_frozen_replica_is_followed_and_writes_nothing_when_it_wakes_without_its_lease(
    world: World, start: Start, database: str
) -> None:
    declare(world)
    first = commit(world, "1")
    frozen, name, _, other = two(world, start)
    until(lambda: are_synced(world, first), PATIENCE)
    theirs = shares(world)[name]
    frozen.send_signal(signal.SIGSTOP)
    second = commit(world, "2")
    until(lambda: are_synced(world, second), PATIENCE, lambda: shares(world))
    until(lambda: members(world) == [other], PATIENCE, lambda: members(world))
    frozen.send_signal(signal.SIGCONT)
    until(lambda: is_divided(world), PATIENCE, lambda: members(world))
    third = commit(world, "3")
    until(lambda: are_synced(world, third), PATIENCE)
    # it joins again, as itself
    until(lambda: shares(world).get(name) == theirs and other in shares(world), PATIENCE, lambda: shares(world))
    check_audit(database)
    check_written_once(database, (first, second, third))


def test_a_dashboard_shows_what_the_other_replica_works_on_and_passes_requests_on(
    world: World, start: Start, database: str
) -> None:
    declare(world)
    first = commit(world, "1")
    start("one")
    until(lambda: len(members(world)) == 1, PATIENCE)
    world.start(replicas=True, lease_seconds=LEASE, database=database)
    until(lambda: is_divided(world), PATIENCE)
    until(lambda: are_synced(world, first), PATIENCE)
    here = world.controller
    until(
        lambda: worked_on(here) in [set(names) for names in shares(world).values()], PATIENCE, lambda: worked_on(here)
    )
    until(lambda: objects(here) == {name: ["Synced"] for name in NAMES}, PATIENCE, lambda: objects(here))
    ours = worked_on(here)
    theirs = tuple(name for name in NAMES if name not in ours)
    assert theirs
    assert ours
    for name in theirs:
        world.application(name, destination={"namespace": "shop"}, sync={"interval": "1h"})
    time.sleep(1.5)  # a poll that was due before has been made
    second = commit(world, "2")
    here.requests.poll_now([f"{NAMESPACE}/{name}" for name in theirs])
    until(lambda: are_synced(world, second, theirs), PATIENCE)
    assert here.requests.request_sync(f"{NAMESPACE}/{theirs[0]}", "ada")
    until(lambda: world.status(theirs[0]).get("requestedSync"), PATIENCE)


@pytest.mark.timeout(6 * PATIENCE)
def test_a_plan_is_approved_at_a_replica_that_does_not_own_it(world: World, start: Start, database: str) -> None:
    for name in NAMES:
        world.application(name, destination={"namespace": "shop"}, risk={"approval": "Moderate"})
    first = world.repo.commit(
        "first", {f"{name}/{part}.yaml": config_map(f"{name}-{part}", x="1") for name in NAMES for part in "ab"}
    )
    start("one", STEADY_LEASE)
    until(lambda: len(members(world)) == 1, PATIENCE)
    world.start(replicas=True, lease_seconds=STEADY_LEASE, database=database)
    here = world.controller
    until(lambda: is_divided(world), PATIENCE)
    until(lambda: are_synced(world, first), PATIENCE)
    until(lambda: worked_on(here) in [set(names) for names in shares(world).values()], PATIENCE)
    theirs = next(name for name in NAMES if not here.owns(f"{NAMESPACE}/{name}"))
    second = world.repo.commit("second", {f"{name}/b.yaml": None for name in NAMES})
    approved: set[str] = set()

    def is_applied() -> bool:
        view = here.view.application(f"{NAMESPACE}/{theirs}")
        # a plan that changes after its approval, such as by a late event, waits again
        if view is not None and view.plan is not None and is_held(view) and view.plan.digest not in approved:
            world.requests.approve(view, view.plan.digest, Approval(User("ada"), "checked"))
            approved.add(view.plan.digest)
        return are_synced(world, second, (theirs,))

    until(is_applied, PATIENCE, lambda: (members(world), here.owns(f"{NAMESPACE}/{theirs}"), world.status(theirs)))
    assert approved
    assert world.get("ConfigMap", f"{theirs}-b") is None
    check_audit(database)


@pytest.mark.timeout(6 * PATIENCE)
def test_drift_is_reverted_and_objects_are_chosen_at_a_replica_that_does_not_own_them(
    world: World, start: Start, database: str
) -> None:
    """Each request is sent at once after what it is about is in the status, whether this replica observed it or not."""
    by_hand = {"selfHeal": {"enabled": False}}
    for name in NAMES:
        world.application(name, destination={"namespace": "shop"}, sync=by_hand)
    first = world.repo.commit(
        "first", {f"{name}/{part}.yaml": config_map(f"{name}-{part}", x="1") for name in NAMES for part in "ab"}
    )
    start("one", STEADY_LEASE)
    until(lambda: len(members(world)) == 1, PATIENCE)
    world.start(replicas=True, lease_seconds=STEADY_LEASE, database=database)
    here = world.controller
    until(lambda: is_divided(world), PATIENCE)
    until(lambda: are_synced(world, first), PATIENCE)
    until(lambda: worked_on(here) in [set(names) for names in shares(world).values()], PATIENCE)
    theirs = next(name for name in NAMES if not here.owns(f"{NAMESPACE}/{name}"))
    key = f"{NAMESPACE}/{theirs}"

    def value(part: str) -> str:
        return str((world.get("ConfigMap", f"{theirs}-{part}") or {})["data"]["x"])

    with serve(world.dashboard()) as web:

        def send(request: str, **word: Any) -> Answer:
            body = orjson.dumps({"by": "Ada", "reason": "because", **word})
            headers = {"Content-Type": "application/json"}
            return web.ask(f"/api/v1/applications/{key}/{request}", method="POST", body=body, headers=headers)

        named = {"name": f"{theirs}-a", "namespace": "shop"}
        edited = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"x": "by hand"}}
        world.cluster.apply(edited, manager="kubectl-edit", force=True)
        until(lambda: (world.status(theirs).get("drift") or {}).get("objects"), PATIENCE, lambda: world.status(theirs))
        answer = send("revert-drift")
        assert answer.status == 200, answer.text
        until(lambda: value("a") == "1", PATIENCE, lambda: world.status(theirs))
        until(lambda: not world.status(theirs)["drift"]["objects"], PATIENCE, lambda: world.status(theirs))
        [link] = here.records.audit_records(key, action="revert-drift")
        assert (link.approver, link.reasoning) == ("Ada", "because")
        record = here.records.history(key)[0]
        assert (record.trigger, record.initiator) == ("manual", "Ada")
        answer = send("revert-drift")
        assert (answer.status, "has no drift" in answer.text) == (409, True)

        world.application(theirs, destination={"namespace": "shop"}, sync={**by_hand, "automated": False})
        second = world.repo.commit(
            "second", {f"{theirs}/{part}.yaml": config_map(f"{theirs}-{part}", x="2") for part in "ab"}
        )
        until(
            lambda: (world.status(theirs).get("plan") or {}).get("steps") == 2, PATIENCE, lambda: world.status(theirs)
        )
        answer = send("sync", objects=[f"/ConfigMap/shop/{theirs}-a"])
        assert answer.status == 200, answer.text
        request = orjson.loads(answer.text)["request"]
        until(lambda: world.status(theirs).get("requestedSync") == request, PATIENCE, lambda: world.status(theirs))
        assert (value("a"), value("b")) == ("2", "1")
        assert here.records.history(key)[0].commit.id == second

        def planned() -> list[str]:
            view = here.view.application(key)
            return [step.ref.name for step in view.plan.writes] if view is not None and view.plan is not None else []

        # on a busy machine a replica may be behind for longer than a request waits
        until(lambda: planned() == [f"{theirs}-b"], PATIENCE, planned)
        answer = send("sync", objects=[f"/ConfigMap/shop/{theirs}-a"])
        assert (answer.status, "the plan has no step" in answer.text) == (409, True)
    check_audit(database)


def test_replicas_without_a_shared_database_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"GITSYNC_DATABASE: replicas need a shared database.*postgresql://"):
        build_controller(Settings(data=tmp_path / "data", replicas=True))
    assert not (tmp_path / "data").exists()
