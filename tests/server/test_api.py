"""The JSON API: what pages show, filtered and paged, with problem details for errors and a description in OpenAPI."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest

from gitsync.gate.policy import Policy
from gitsync.objects.change import Action, Change, Difference, FieldDifference, FieldOwner
from gitsync.objects.health import Health
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.ports import EndedReconcile, KubernetesEvent
from gitsync.runtime.work_costs import Interval
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, application, changed, resource, stored_set

V1 = "/api/v1"
SHOP = f"{V1}/applications/gitsync/shop"
WEB = "apps/Deployment/shop/web"


def filled(site: Open) -> Site:
    web = resource("web", "Deployment", sync="OutOfSync", differences=(changed(".spec.replicas", 4, 1),))
    web = replace(web, change=replace(web.change, desired=web.change.live))
    opened = site([application("shop", [web, resource("a")]), application("blog", [resource("b")], health="Degraded")])
    step = Step(WEB, "update", "Safe", "why", Outcome.SUCCEEDED, differences=({"path": ".a", "live": 1, "desired": 2},))
    record = SyncRecord(
        "gitsync/shop", Commit("c" * 40, "Ada"), "commit", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,)
    )
    for _ in range(3):
        opened.engine.records.save(record)
    return opened


def get(opened: Site, path: str) -> Any:
    answer = opened.get(path)
    assert answer.status == 200, answer.text
    return orjson.loads(answer.text)


def test_sets_are_listed_and_shown_one_by_one(site: Open) -> None:
    opened = site([application()])
    opened.engine.sets.known = [stored_set("good", "Current", "True"), stored_set("held", "AwaitingApproval")]
    page = get(opened, f"{V1}/applicationsets?limit=1")
    assert [(one["name"], one["state"], one["applications"]) for one in page["items"]] == [
        ("held", "AwaitingApproval", 3)
    ]
    assert page["total"] == 2
    assert [one["name"] for one in get(opened, page["next"])["items"]] == ["good"]
    assert [one["name"] for one in get(opened, f"{V1}/applicationsets?q=state:Current")["items"]] == ["good"]
    assert opened.get(f"{V1}/applicationsets?q=kind:Pod").status == 422
    one = get(opened, f"{V1}/applicationsets/gitsync/held")
    assert (one["reason"], one["waiting"]) == ("AwaitingApproval of <held>", 1)
    assert one["status"] == opened.engine.sets.known[1]["status"]
    assert opened.get(f"{V1}/applicationsets/gitsync/absent").status == 404


def post(opened: Site, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    answer = opened.web.ask(path, method="POST", body=orjson.dumps(body), headers=headers)
    return answer.status, orjson.loads(answer.text)


def test_lists_are_filtered_and_paged(site: Open) -> None:
    opened = filled(site)
    names = [item["name"] for item in get(opened, f"{V1}/applications")["items"]]
    assert names == ["blog", "shop"]
    assert [item["name"] for item in get(opened, f"{V1}/applications?q=health:Healthy")["items"]] == ["shop"]
    seen: list[str] = []
    path = f"{V1}/objects?limit=2"
    while path:
        page = get(opened, path)
        assert page["total"] == 3
        seen += [item["name"] for item in page["items"]]
        path = page["next"]
    assert seen == ["web", "a", "b"]
    assert [item["kind"] for item in get(opened, f"{V1}/objects?q=is:different")["items"]] == ["Deployment"]


def test_an_application_has_its_status_history_and_syncs(site: Open) -> None:
    opened = filled(site)
    found = get(opened, SHOP)
    assert (found["state"], found["isSuspended"], found["status"]["sync"]) == ("Synced", False, "Synced")
    first = get(opened, f"{SHOP}/history?limit=2")
    assert [item["id"] for item in first["items"]] == [3, 2]
    assert [item["id"] for item in get(opened, first["next"])["items"]] == [1]
    sync = get(opened, f"{SHOP}/history/1")
    assert (sync["durationMs"], sync["steps"][0]["differences"]) == (9, [{"path": ".a", "live": 1, "desired": 2}])


def test_changes_and_drift_are_those_of_the_pages(site: Open) -> None:
    opened = filled(site)
    (entry,) = get(opened, f"{V1}/changes?q=kind:sync")["items"]
    assert [result["application"] for result in entry["results"]] == ["gitsync/shop"] * 3
    (item,) = get(opened, f"{V1}/drift")["items"]
    assert (item["object"], item["managers"], item["fields"][0]["live"]) == (
        "Deployment shop/web",
        ["kubectl-edit"],
        "4",
    )


def test_the_drift_of_the_past_is_that_of_the_audit(site: Open) -> None:
    opened = filled(site)
    field = FieldDifference(".spec.replicas", "/spec/replicas", Difference.CHANGED, 1, 4, (FieldOwner("kubectl"),))
    step = Change(ObjectRef("apps", "Deployment", "shop", "web"), Action.UPDATE, differences=(field,))
    drift = OpenDrift(step, NOW - timedelta(seconds=90))
    opened.engine.records.audit([ended_link("gitsync/shop", drift, NOW, EndedBy.SYNC)] * 2)
    page = get(opened, f"{V1}/drift/history?limit=1")
    (item,) = page["items"]
    assert (item["object"], item["path"], item["from"], item["to"]) == ("Deployment shop/web", ".spec.replicas", 1, 4)
    assert (item["manager"], item["by"], item["seconds"]) == ("kubectl", "sync", 90)
    assert len(get(opened, page["next"])["items"]) == 1


def test_the_effective_policy_is_the_same_in_api_and_page(site: Open) -> None:
    opened = filled(site)
    opened.engine.policies.policy = Policy(name="team", repositories=("https://git.example.com/*",))
    opened.engine.policies.problem = "team.yaml: <invalid>"
    found = get(opened, f"{SHOP}/policy")
    assert {"name": "repositories", "value": "https://git.example.com/*", "source": "policy team"} in found["settings"]
    assert found["problem"] == "team.yaml: <invalid>"
    page = opened.get("/apps/gitsync/shop/policy").text
    assert "policy team" in page
    assert "team.yaml: &lt;invalid&gt;" in page


def test_an_object_has_differences_manifests_events_and_logs(site: Open) -> None:
    opened = filled(site)
    opened.engine.details.found = [KubernetesEvent("Warning", "BackOff", "restarting", 3)]
    opened.engine.details.log = "started"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop"}, "spec": {}}
    opened.engine.view.children["uid-web"] = (pod,)
    found = get(opened, f"{SHOP}/object?ref={WEB}")
    assert found["fields"][0]["path"] == ".spec.replicas"
    assert found["liveManifest"]["metadata"]["name"] == "web"
    assert found["gitManifest"]["metadata"]["name"] == "web"
    assert get(opened, f"{SHOP}/events?ref={WEB}")[0]["reason"] == "BackOff"
    assert opened.get(f"{SHOP}/logs?ref={WEB}").text == "started"
    assert opened.get(f"{SHOP}/logs?ref={WEB}&pod=other").status == 404
    assert opened.engine.details.asked[0] == (ObjectRef("apps", "Deployment", "shop", "web"),)
    assert {node["kind"] for node in get(opened, f"{SHOP}/tree")} == {"Deployment", "ConfigMap"}
    assert [item["name"] for item in get(opened, f"{SHOP}/diff")["items"]] == ["web"]


def test_requests_have_a_person_and_a_reason(site: Open) -> None:
    opened = filled(site)
    status, problem = post(opened, f"{SHOP}/suspend", {"by": "Ada"})
    assert (status, problem["title"]) == (422, "Unprocessable Entity")
    assert post(opened, f"{SHOP}/suspend", {"by": "Ada", "reason": "move"})[0] == 200
    opened.engine.view.views["gitsync/shop"] = application(phase="Suspended")
    assert post(opened, f"{SHOP}/resume", {"by": "Ada", "reason": "moved"})[0] == 200
    opened.engine.view.views["gitsync/shop"] = application()
    assert post(opened, f"{SHOP}/sync", {})[1] == {
        "application": "gitsync/shop",
        "action": "sync",
        "by": "api",
        "request": "",
        "steps": [],
    }
    assert opened.engine.requests.done == [
        ("suspend", "gitsync/shop"),
        ("resume", "gitsync/shop"),
        ("sync", "gitsync/shop", "api"),
    ]
    links = opened.engine.records.decisions("gitsync/shop")
    assert [(link.action, link.approver, link.reasoning) for link in links] == [
        ("sync", "api", "Sync now"),
        ("resume", "Ada", "moved"),
        ("suspend", "Ada", "move"),
    ]


def test_a_form_of_another_site_cannot_use_it(site: Open) -> None:
    opened = filled(site)
    answer = opened.post(f"{SHOP}/sync", {}, Cookie=opened.form_cookie, Origin="http://evil.example")
    assert answer.status in (403, 415, 422)
    assert opened.engine.requests.done == []


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/applications/gitsync/none", 404, "Application gitsync/none not found"),
        ("/objects?q=since:1h", 422, "since: is not a filter of this list"),
        ("/objects?limit=0", 422, "limit"),
        ("/applications/gitsync/shop/history/99", 404, "There is no such sync"),
        ("/applications/gitsync/shop/object?ref=x", 404, "not a valid object reference"),
        ("/nothing", 404, "not found"),
    ],
)
def test_errors_are_problem_details(site: Open, path: str, status: int, text: str) -> None:
    answer = filled(site).get(V1 + path)
    found = orjson.loads(answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, found["status"], found["instance"]) == (status, status, (V1 + path).partition("?")[0])
    assert text in found["detail"]


def test_the_description_has_every_route_and_only_those(site: Open) -> None:
    found = get(filled(site), f"{V1}/openapi.json")
    assert found["openapi"].startswith("3.")
    assert f"{V1}/applications/{{namespace}}/{{name}}/plan" in found["paths"]
    assert all(path.startswith(V1) for path in found["paths"])
    for path in found["paths"].values():
        for operation in path.values():
            assert operation["description"]
            assert "422" in operation["responses"]


def test_states_are_the_names_of_the_custom_resource(site: Open) -> None:
    view = application("shop", [resource("a", health=Health.DEGRADED)], health="Degraded", phase="AwaitingApproval")
    found = get(site([view]), SHOP)
    assert (found["phase"], found["health"]) == ("AwaitingApproval", "Degraded")


def test_costs_are_listed_by_cpu_time_with_their_stages(site: Open) -> None:
    opened = site([application("a"), application("b", resources=[resource("x")])])
    stages = (Interval("source", 0.0, 0.25, 0.125), Interval("plan", 0.25, 2.25, 1.0))
    opened.engine.view.costs.add(EndedReconcile("gitsync/b", NOW, stages))
    opened.engine.view.costs.add(
        EndedReconcile("gitsync/b", NOW, (Interval("changed", 0.0, 0.5, 0.5),), is_partial=True)
    )
    opened.engine.view.costs.requests_of("gitsync/b").increment()
    answer = get(opened, f"{V1}/costs?limit=1")
    (item,) = answer["items"]
    assert (item["name"], item["objects"], item["reconciles"], item["partial"]) == ("b", 1, 1, 1)
    assert item["apiRequests"] == 1
    assert (item["seconds"], item["cpuSeconds"], item["slowest"]) == (2.75, 1.625, "plan")
    assert item["stages"]["source"] == {"seconds": 0.25, "cpuSeconds": 0.125}
    (other,) = get(opened, answer["next"])["items"]
    assert (other["name"], other["reconciles"], other["slowest"]) == ("a", 0, "")


def test_costs_that_another_replica_knows_are_no_zeros(site: Open) -> None:
    opened = site([application("ours"), application("theirs")], are_two=False)
    opened.engine.is_replica = True
    opened.engine.others = frozenset({"gitsync/theirs"})
    items = get(opened, f"{V1}/costs")["items"]
    assert {item["name"]: item["elsewhere"] for item in items} == {"ours": False, "theirs": True}
