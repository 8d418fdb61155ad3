"""ApplicationSets: elements and files of Git become Applications, in a real repository and over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitsync.gate.policy import Policy
from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.server.queries.tree import tree
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
API = "gitsync.dev/v1alpha1"
ELEMENTS = 1000 if os.environ.get("GITSYNC_FAULTS") == "all" else 200
SPEC = {"destination": {"namespace": "shop"}, "sync": {"interval": "1s"}}


def declare(world: World, generators: list[dict[str, Any]], name: str = "shops", **spec: Any) -> Manifest:
    given = template(world, "{{path.basename}}", "{{path}}")
    return world.apply(
        {
            "apiVersion": API,
            "kind": "ApplicationSet",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"generators": generators, "template": given, **spec},
        }
    )


def source(world: World, path: str) -> dict[str, str]:
    return {"repoURL": world.repo.url, "path": path}


def folders(world: World, pattern: str = "apps/*") -> list[dict[str, Any]]:
    return [
        {"git": {"repoURL": world.repo.url, "requeueAfterSeconds": 1, "directories": [{"path": pattern}]}},
    ]


def listed(*names: str, **more: str) -> list[dict[str, Any]]:
    elements = [{"path": f"apps/{name}", "path.basename": name, **more} for name in names]
    return [{"list": {"elements": elements}}]


def commit(world: World, *names: str) -> str:
    return world.repo.commit("add", {f"apps/{name}/x.yaml": config_map(f"in-{name}", x="1") for name in names})


def apps(world: World) -> list[str]:
    items = world.sandbox.call(lambda cluster: [*cluster.everything(NAMESPACE)])
    return sorted(
        item["metadata"]["name"]
        for item in items
        if item["kind"] == "Application" and not item["metadata"].get("deletionTimestamp")
    )


def status(world: World, name: str = "shops") -> dict[str, Any]:
    return (world.get("ApplicationSet", name, NAMESPACE, API) or {}).get("status") or {}


def ready(world: World, name: str = "shops") -> dict[str, Any]:
    return next((one for one in status(world, name).get("conditions", []) if one["type"] == "Ready"), {})


def source_ready(world: World, name: str = "shops") -> dict[str, Any]:
    return find_condition(status(world, name), "SourceReady")


def eventually(world: World, expected: list[str], reason: str = "Current") -> None:
    """Wait until there are these Applications, and the set as it is declared now is ready, or not, for this reason."""

    def is_reached() -> bool:
        live = world.get("ApplicationSet", "shops", NAMESPACE, API)
        shown = (live or {}).get("status") or {}
        is_of_now = live is not None and shown.get("observedGeneration") == live["metadata"]["generation"]
        return is_of_now and find_condition(shown, "Ready").get("reason") == reason and apps(world) == expected

    until(is_reached, describe=lambda: (apps(world), json.dumps(status(world), indent=1)))


def test_folders_of_git_become_applications_that_sync(world: World) -> None:
    commit(world, "a", "b")
    declare(world, folders(world))
    world.start()
    eventually(world, ["a", "b"])
    until(lambda: world.get("ConfigMap", "in-a") and world.get("ConfigMap", "in-b"))
    found = world.get("Application", "a", NAMESPACE, API) or {}
    assert found["metadata"]["labels"] == {"gitsync.dev/applicationset": "shops"}
    assert found["metadata"]["ownerReferences"][0]["name"] == "shops"
    assert status(world)["counts"] == {"desired": 2, "current": 2, "failed": 0, "waiting": 0}


def test_a_new_folder_becomes_an_application(world: World) -> None:
    commit(world, "a")
    declare(world, folders(world))
    world.start()
    eventually(world, ["a"])
    commit(world, "b")
    until(lambda: apps(world) == ["a", "b"], 3)


def test_a_push_event_polls_what_a_set_reads(world: World) -> None:
    commit(world, "a")
    slow = [{"git": {"repoURL": world.repo.url, "requeueAfterSeconds": 3600, "directories": [{"path": "apps/*"}]}}]
    declare(world, slow, template=template(world, "{{path.basename}}", "{{path}}", suspend=True))
    world.start()
    eventually(world, ["a"])
    commit(world, "b")
    assert world.controller.sets.repository_changed(lambda url: url == world.repo.url) == 1
    assert world.controller.sets.repository_changed(lambda url: False) == 0
    until(lambda: apps(world) == ["a", "b"], 5)


def test_an_outage_of_git_is_a_condition_and_changes_no_application(world: World) -> None:
    commit(world, "a")
    declare(world, folders(world))
    world.start()
    eventually(world, ["a"])
    until(lambda: source_ready(world).get("status") == "True")
    world.quiet()
    served = world.repo.bare
    before = writes_of_set(world)
    away = served.rename(served.with_name("away"))
    until(lambda: source_ready(world).get("status") == "False")
    condition = source_ready(world)
    assert condition["reason"] == "FetchFailed"
    assert condition["message"].startswith(f"{world.repo.url}: ")
    assert "the Applications stay as the last known commit declares them" in condition["message"]
    assert (ready(world)["status"], apps(world)) == ("True", ["a"])
    assert writes_of_set(world) == before
    away.rename(served)
    world.controller.sets.repository_changed(lambda url: url == world.repo.url)  # else the next poll is later
    until(lambda: source_ready(world).get("status") == "True")
    commit(world, "b")
    eventually(world, ["a", "b"])
    declare(world, listed("a", "b"))
    until(lambda: source_ready(world) == {})


def test_a_branch_that_appears_later_is_read(world: World) -> None:
    commit(world, "a")
    later = {"repoURL": world.repo.url, "revision": "later", "requeueAfterSeconds": 1}
    declare(world, [{"git": {**later, "directories": [{"path": "apps/*"}]}}])
    world.start()
    eventually(world, [], "InvalidInput")
    world.repo.git("push", "-q", "origin", "HEAD:later")
    eventually(world, ["a"])


def test_a_policy_limits_the_repositories_of_generators(world: World) -> None:
    commit(world, "a")
    world.allow(Policy(repositories=("https://git.example.com/*",)))
    declare(world, folders(world))
    world.start()
    eventually(world, [], "InvalidInput")
    assert "is not allowed by policy" in ready(world)["message"]


def test_a_changed_element_changes_only_its_application(world: World) -> None:
    commit(world, "a", "b")
    declare(world, listed("a", "b"))
    world.start()
    eventually(world, ["a", "b"])
    world.quiet()
    requested = writes_of_set(world)
    elements = [{"path": "apps/a", "path.basename": "a"}, {"path": "apps", "path.basename": "b"}]
    for path in ("apps", "apps/b"):
        elements[1]["path"] = path
        declare(world, [{"list": {"elements": elements}}])
        until(lambda path=path: spec(world, "b")["source"]["path"] == path)  # type: ignore[misc]
        world.quiet()
    written = [(record.action, record.resource.rpartition("/")[2]) for record in set_records(world)]
    assert sorted(written) == [("create", "a"), ("create", "b"), ("update", "b"), ("update", "b")]
    refused = len(set_records(world, "Failed"))  # where the status of the Application was written meanwhile
    assert writes_of_set(world) - requested == 3 + refused  # two applies, and one transfer of what the create owns


def test_what_a_template_no_longer_has_is_removed(world: World) -> None:
    commit(world, "a")
    given = template(world, "{{path.basename}}", "{{path}}")
    labelled = {**given, "metadata": {**given["metadata"], "labels": {"team": "blue"}}}
    declare(world, listed("a"), template=labelled)
    world.start()
    eventually(world, ["a"])
    assert labels(world, "a") == {"gitsync.dev/applicationset": "shops", "team": "blue"}
    declare(world, listed("a"), template=given)
    until(lambda: labels(world, "a") == {"gitsync.dev/applicationset": "shops"})


def test_an_application_that_is_not_observed_yet_is_not_taken_over(world: World) -> None:
    commit(world, "shop")
    silent = InjectedFault(FaultKind.HALF_OPEN_WATCH, resource="applications.gitsync.dev")
    world.sandbox.inject(silent)
    world.start()
    world.application("shop", is_observed=False)
    before = world.get("Application", "shop", NAMESPACE, API)
    declare(world, listed("shop"))
    eventually(world, ["shop"], "WriteFailed")
    assert "already exists" in ready(world)["message"]
    assert world.get("Application", "shop", NAMESPACE, API) == before
    records = world.controller.records.audit_records(f"{NAMESPACE}/applicationset:shops")
    assert {(one.action, one.outcome.value) for one in records} == {("create", "Intended"), ("create", "Failed")}


def test_a_removed_element_deletes_its_application(world: World) -> None:
    commit(world, "a", "b", "c", "d")
    declare(world, listed("a", "b", "c", "d"))
    world.start()
    eventually(world, ["a", "b", "c", "d"])
    declare(world, listed("a", "b", "c"))
    eventually(world, ["a", "b", "c"])


def test_deletions_above_the_share_wait_for_approval(world: World) -> None:
    commit(world, "a", "b", "c", "e")
    declare(world, listed("a", "b", "c"))
    world.start()
    eventually(world, ["a", "b", "c"])
    declare(world, listed("a", "e"))
    eventually(world, ["a", "b", "c", "e"], "AwaitingApproval")
    world.quiet()  # then the created one counts too
    held = status(world)["heldDeletions"]
    assert (held["names"], held["count"]) == (["b", "c"], 2)
    assert "2 of 4 Applications would be deleted, more than maxDeletePercent (25)" in held["reason"]
    assert "approve it by `gitsync appset approve shops -n gitsync`" in ready(world)["message"]
    approve(world, "not-the-id")
    world.quiet()
    assert apps(world) == ["a", "b", "c", "e"]
    approve(world, status(world)["heldDeletions"]["id"])
    eventually(world, ["a", "e"])
    assert "heldDeletions" not in status(world)


def test_a_generator_that_yields_nothing_waits(world: World) -> None:
    commit(world, "a", "b")
    declare(world, folders(world), syncPolicy={"maxDeletePercent": 100})
    world.start()
    eventually(world, ["a", "b"])
    world.repo.commit("empty", {"apps/a/x.yaml": None, "apps/b/x.yaml": None, "other": "x"})
    eventually(world, ["a", "b"], "AwaitingApproval")
    assert "spec.generators[0] yields nothing" in ready(world)["message"]
    commit(world, "a", "b")
    eventually(world, ["a", "b"])


def test_an_application_of_others_is_never_taken_over(world: World) -> None:
    commit(world, "a", "shop")
    world.application("shop")
    uid = (world.get("Application", "shop", NAMESPACE, API) or {})["metadata"]["uid"]
    declare(world, listed("shop", "a"))
    world.start()
    eventually(world, ["a", "shop"], "NameTaken")
    found = world.get("Application", "shop", NAMESPACE, API) or {}
    assert found["metadata"]["uid"] == uid
    assert "ownerReferences" not in found["metadata"]
    assert found["spec"]["source"]["path"] == "shop"
    world.client.send("DELETE", f"/apis/{API}/namespaces/{NAMESPACE}/applications/shop", {})
    eventually(world, ["a", "shop"])


def test_what_users_set_stays_and_other_changes_are_reverted(world: World) -> None:
    commit(world, "a")
    declare(world, listed("a"))
    world.start()
    eventually(world, ["a"])
    world.controller.requests.suspend(f"{NAMESPACE}/a", True)
    world.apply({**named("a"), "spec": {"source": {"path": "elsewhere"}}}, manager="ada")
    until(lambda: spec(world, "a")["source"]["path"] == "apps/a")
    assert spec(world, "a")["suspend"] is True


def test_an_update_that_conflicts_is_planned_again_soon(world: World) -> None:
    """Each status write of an Application changes it, and does not reach its set."""
    commit(world, "a")
    declare(world, listed("a"))
    world.start()
    eventually(world, ["a"])
    kind = "applications.gitsync.dev"
    world.sandbox.inject(
        InjectedFault(FaultKind.CONFLICT, verb="patch", resource=kind, agent="gitsync", skip=1, count=1)
    )
    world.apply({**named("a"), "spec": {"source": {"path": "elsewhere"}}}, manager="ada")  # the one that passes
    until(lambda: spec(world, "a")["source"]["path"] == "apps/a")
    updates = [one.outcome for one in world.controller.records.audit_records(action="update")]
    assert Outcome.FAILED in updates


@pytest.mark.parametrize("is_preserved", [True, False])
def test_deleting_the_set_deletes_its_applications(world: World, is_preserved: bool) -> None:
    commit(world, "a")
    declare(world, listed("a"), syncPolicy={"preserveResourcesOnDeletion": is_preserved})
    world.start()
    eventually(world, ["a"])
    until(lambda: world.get("ConfigMap", "in-a"))
    world.client.send("DELETE", f"/apis/{API}/namespaces/{NAMESPACE}/applicationsets/shops", {})
    until(lambda: world.get("Application", "a", NAMESPACE, API) is None)
    assert (world.get("ConfigMap", "in-a") is not None) is is_preserved


@pytest.mark.parametrize(
    ("policy", "names", "path"),
    [
        ("create-only", ["a", "b", "c", "d", "e"], "apps/a"),
        ("create-update", ["a", "b", "c", "d", "e"], "apps"),
        ("create-delete", ["a", "b", "c", "e"], "apps/a"),
    ],
)
def test_the_policy_limits_what_is_changed(world: World, policy: str, names: list[str], path: str) -> None:
    commit(world, "a", "b", "c", "d", "e")
    declare(world, listed("a", "b", "c", "d"))
    world.start()
    eventually(world, ["a", "b", "c", "d"])
    elements = [{"path": "apps", "path.basename": "a"}, *listed("b", "c", "e")[0]["list"]["elements"]]
    declare(world, [{"list": {"elements": elements}}], syncPolicy={"applicationsSync": policy})
    eventually(world, names)
    world.quiet()
    assert spec(world, "a")["source"]["path"] == path


def test_an_application_that_declares_a_set_shows_what_it_generates(world: World) -> None:
    commit(world, "a", "b", "c")
    given = {"apiVersion": API, "kind": "ApplicationSet", "metadata": {"name": "shops", "namespace": NAMESPACE}}
    generators = listed("a", "b", "c")
    found = {**given, "spec": {"generators": generators, "template": template(world, "{{path.basename}}", "{{path}}")}}
    world.repo.commit("set", {"root/set.yaml": json.dumps(found)})
    world.application("root", source={"repoURL": world.repo.url, "path": "root"})
    world.start()
    until(lambda: world.status("root").get("phase") == "AwaitingApproval")
    world.approve(name="root")
    eventually(world, ["a", "b", "c", "root"])

    def shown() -> list[str]:
        groups, _ = tree(world.view("root").resources, world.controller.view.owned_by)
        found = [(one, part) for group in groups for one in group.children for part in one.children]
        return [f"{one.name} {part.name} {part.health}" for one, part in found]

    until(lambda: shown() == [f"shops {name} Healthy" for name in "abc"], 15, shown)


def test_an_error_changes_nothing_and_names_the_element(world: World) -> None:
    commit(world, "a", "b")
    declare(world, listed("a", "b"))
    world.start()
    eventually(world, ["a", "b"])
    declare(world, [{"list": {"elements": [{"path": "apps/a"}]}}])
    eventually(world, ["a", "b"], "InvalidInput")
    assert "spec.generators[0].list.elements[0] has no parameter 'path.basename'" in ready(world)["message"]


def test_idle_sets_and_unrelated_commits_make_no_request(world: World) -> None:
    commit(world, "a")
    files = [{"git": {"repoURL": world.repo.url, "requeueAfterSeconds": 1, "files": [{"path": "set.yaml"}]}}]
    world.repo.commit("set", {"set.yaml": "{name: a}"})
    declare(world, files, template=template(world, "{{name}}", "apps/a"))
    world.start()
    eventually(world, ["a"])
    world.namespace("docs")
    world.application("docs")  # of the same repository, which is polled once for both
    world.synced(world.repo.commit("related", {"docs/x.yaml": config_map("x", x="1")}), "docs")
    world.quiet()
    requested = requests_of_sets(world)
    world.synced(world.repo.commit("unrelated", {"docs/x.yaml": config_map("x", x="2")}), "docs")
    world.quiet()
    assert requests_of_sets(world) == requested


def test_a_restart_writes_nothing(world: World) -> None:
    commit(world, "a", "b")
    declare(world, folders(world))
    world.start()
    eventually(world, ["a", "b"])
    world.quiet()
    world.stop()
    before = writes_of_set(world)
    world.start()
    until(lambda: world.controller.sets.cached() == 1)
    world.quiet()
    assert writes_of_set(world) == before
    assert ready(world)["status"] == "True"


def test_a_lost_answer_ends_the_same_and_is_audited(world: World) -> None:
    commit(world, "a", "b")
    world.sandbox.inject(
        InjectedFault(FaultKind.LOST_REPLY, verb="create", resource="applications.gitsync.dev", count=3)
    )
    declare(world, listed("a", "b"))
    world.start()
    eventually(world, ["a", "b"])
    until(lambda: [*world.controller.records.unresolved()] == [])
    records = set_records(world)
    assert sorted((one.action, one.resource.rpartition("/")[2]) for one in records) == [
        ("create", "a"),
        ("create", "b"),
    ]


def test_a_controller_killed_while_it_creates_ends_the_same(world: World) -> None:
    names = [f"app-{number}" for number in range(60)]
    script = [sys.executable, "-m", "tests.flow.controller_process", str(world.kubeconfig), str(world.folder / "data")]
    running = subprocess.Popen(script, cwd=ROOT)
    try:
        declare(world, [{"list": {"elements": [{"name": name} for name in names]}}], template=idle(world))
        until(lambda: len(apps(world)) >= 20, 30)
    finally:
        running.kill()
        running.wait()
    world.start()
    eventually(world, sorted(names))
    until(lambda: [*world.controller.records.unresolved()] == [])
    assert {one.resource.rpartition("/")[2] for one in set_records(world)} == set(names)


def test_many_elements_take_one_write_each(world: World) -> None:
    world.repo.commit("one", {"apps/x.yaml": config_map("x", y="1")})
    elements = [{"name": f"app-{number}"} for number in range(ELEMENTS)]
    suspended = idle(world)
    declare(world, [{"list": {"elements": elements}}], template=suspended)
    world.start()
    until(lambda: status(world).get("counts", {}).get("current") == ELEMENTS and ready(world)["status"] == "True", 60)
    world.quiet()
    assert writes_of_set(world) == ELEMENTS
    elements[7] = {"name": "another"}
    declare(world, [{"list": {"elements": elements}}], template=suspended)
    until(lambda: "another" in apps(world) and "app-7" not in apps(world), 60)
    world.quiet()
    assert writes_of_set(world) == ELEMENTS + 2


def named(name: str) -> Manifest:
    return {"apiVersion": API, "kind": "Application", "metadata": {"name": name, "namespace": NAMESPACE}}


def labels(world: World, name: str) -> dict[str, str]:
    return (world.get("Application", name, NAMESPACE, API) or {}).get("metadata", {}).get("labels", {})


def spec(world: World, name: str) -> dict[str, Any]:
    return (world.get("Application", name, NAMESPACE, API) or {}).get("spec") or {}


def template(world: World, name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**SPEC, "source": source(world, path), **more}}


def idle(world: World) -> dict[str, Any]:
    """Return a template of Applications that do nothing by themselves."""
    return template(world, "{{name}}", "apps", suspend=True)


def approve(world: World, id: str) -> None:
    marks = {"gitsync.dev/approve-deletions": id}
    metadata = {"name": "shops", "namespace": NAMESPACE, "annotations": marks}
    world.apply({"apiVersion": API, "kind": "ApplicationSet", "metadata": metadata}, manager="approver")


def set_records(world: World, outcome: str = "Succeeded") -> tuple[AuditRecord, ...]:
    """Return what the audit has of the writes of the set that ended so."""
    return world.controller.records.audit_records(f"{NAMESPACE}/applicationset:shops", limit=1000, outcome=outcome)


def writes_of_set(world: World) -> int:
    """Return how many writes of Applications were requested; their own controller updates them."""
    verbs = ("create", "patch", "delete")
    return sum(world.sandbox.requests(verb=verb, resource="applications.gitsync.dev") for verb in verbs)


def requests_of_sets(world: World) -> int:
    requests = world.sandbox.requests
    kinds = ("applicationsets.gitsync.dev", "applicationsets.gitsync.dev/status")
    return sum(requests(verb=verb, resource=one) for verb in ("get", "update", "patch", "list") for one in kinds)
