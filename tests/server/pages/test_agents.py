"""The list of agents, and the page of one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gitsync.objects.change import ABSENT, Difference, FieldDifference, FieldOwner
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ref_of
from gitsync.ports import ApplicationView, MetricSeries, ResourceView
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, changed, resource

GROUP = "agents.gitsync.dev/v1alpha1"
SPEC = {
    "description": "Sorts tickets.",
    "owner": "team-support",
    "model": {"id": "qwen3"},
    "tools": [{"name": "tickets", "requireApproval": ["close"]}],
}
RESULTS = [{"name": "refund", "before": "passed", "now": "failed", "message": "the answer promises a refund"}]
STATUS = {
    "phase": "Updating",
    "ready": "1/2",
    "url": "http://triage.shop.svc:8080",
    "currentRevision": "triage-1",
    "updateRevision": "triage-2",
    "rollout": {"revision": "triage-2", "weight": 50, "step": 1, "steps": 2},
    "evaluation": {"revision": "triage-2", "result": "Failed", "passed": 3, "cases": 4, "results": RESULTS},
    "children": [{"kind": "Deployment", "name": "triage", "ready": True}],
    "conditions": [{"type": "Ready", "status": "True", "reason": "AllReplicasReady", "message": "1 of 2 are ready"}],
}


def live(kind: str, name: str, api: str = GROUP, **members: Any) -> Manifest:
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", **members.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **members}


def held(manifest: Manifest) -> ResourceView:
    view = resource(manifest["metadata"]["name"])
    return replace(view, ref=ref_of(manifest), change=replace(view.change, ref=ref_of(manifest), live=manifest))


def workload(name: str, container: str = "web", env: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    variables = {"MODEL_ID": "small"} if env is None else env
    containers = [{"name": container, "env": [{"name": key, "value": text} for key, text in variables.items()]}]
    spec = {"replicas": 1, "template": {"spec": {"containers": containers}}}
    return live("Deployment", name, "apps/v1", spec=spec, status={"readyReplicas": 1}, metadata=metadata)


def configured(name: str, **members: Any) -> Manifest:
    """Return a workload without variables, with other members of its Pods."""
    made = workload(name, env={})
    made["spec"]["template"]["spec"] |= members
    return made


def config(name: str, prompt: str, created: str) -> Manifest:
    return live("ConfigMap", name, "v1", data={"prompt.md": prompt}, metadata={"creationTimestamp": created})


FAILED_VERDICT = json.dumps({"result": "Failed", "passed": 3, "cases": 4, "results": RESULTS})
PASSED_VERDICT = json.dumps({"result": "Passed", "passed": 4, "cases": 4})


def judged(name: str, config: str, verdict: str = FAILED_VERDICT, number: int = 2) -> Manifest:
    """Return a kept revision with this configuration, and the verdict on it."""
    volume = {"name": "agent-config", "configMap": {"name": config}}
    marks = {"labels": {"agents.gitsync.dev/revision": "2"}, "annotations": {"agents.gitsync.dev/evaluation": verdict}}
    data = {"template": {"spec": {"volumes": [volume]}}, "config": {}}
    return live("ControllerRevision", name, "apps/v1", revision=number, data=data, metadata=marks)


TRIAGE = live("Agent", "triage", spec=SPEC, status=STATUS)


def listed(site: Open, *manifests: Manifest) -> list[dict[str, Any]]:
    opened = site([application(resources=map(held, manifests))])
    found: list[dict[str, Any]] = json.loads(opened.get("/api/v1/agents").text)["items"]
    return found


def test_the_list_shows_state_model_tools_rollout_and_evaluation(site: Open) -> None:
    opened = site([application(resources=[held(TRIAGE), resource("knobs")])])
    page = opened.get("/agents").text
    for text in ("triage", "qwen3", "1/2", "tickets: close", "50 % new, step 1 of 2", "Failed 3/4"):
        assert text in page
    assert "knobs" not in page
    assert "None of 1 agents matches" in opened.get("/agents?q=phase:Running").text
    assert "None of 1 agents matches" in opened.get("/agents?q=model:other").text
    assert "triage" in opened.get("/agents?q=phase:Updating+model:qwen*").text


def test_the_leader_of_an_agent_is_shown(site: Open) -> None:
    manifest = live("Agent", "triage", status={"phase": "Running", "leader": "triage-<1>"})
    page = site([application("shop", [held(manifest)])])
    assert "<code>triage-&lt;1&gt;</code> leads" in page.get("/agents/shop/triage").text
    (row,) = listed(site, manifest)
    assert row["leader"] == "triage-<1>"


def test_what_was_used_of_a_budget_is_shown(site: Open) -> None:
    row = {"scope": "Agent", "unit": "tokens", "used": "850", "limit": "1000", "percent": 85}
    budget = {"result": "NearLimit", "message": "the agent used 850 of <1000>", "limits": [row, "of another form"]}
    manifest = live("Agent", "triage", status={"phase": "Running", "budget": budget})
    text = site([application("shop", [held(manifest)])]).get("/agents/shop/triage").text
    assert "the agent used 850 of &lt;1000&gt;" in text
    assert "<td>85 %</td>" in text
    other = live("Agent", "triage", status={"phase": "Running"})
    assert "Budget of today" not in site([application("shop", [held(other)])]).get("/agents/shop/triage").text


def test_differences_from_the_locked_contract_are_shown(site: Open) -> None:
    row = {"class": "Dangerous", "place": "tools.tickets.<close>", "difference": "instructs the agent", "details": "Do"}
    contract = {"result": "Drifted", "class": "Dangerous", "differences": [row, "of another form"]}
    manifest = live("Agent", "triage", status={"phase": "Running", "contract": contract})
    text = site([application("shop", [held(manifest)])]).get("/agents/shop/triage").text
    assert "tools.tickets.&lt;close&gt;" in text
    assert "instructs the agent" in text
    unchanged = live("Agent", "triage", status={"phase": "Running", "contract": {"result": "Unchanged"}})
    assert "locked contract" not in site([application("shop", [held(unchanged)])]).get("/agents/shop/triage").text


def test_tokens_are_shown_where_a_metric_has_them(site: Open) -> None:
    page = site([application("shop", [held(live("Agent", "triage")), held(live("Agent", "billing"))])])
    assert "Tokens" not in page.get("/agents").text
    page.engine.usage.known = {("shop", "triage"): 1234567, ("shop", "other"): 5}
    text = page.get("/agents").text
    assert re.findall(r'<td class="num">(.*?)</td>', text) == ["", "1,234,567"]
    assert "1,234,567 tokens in the last day" in page.get("/agents/shop/triage").text
    tokens = {row["name"]: row["tokens"] for row in json.loads(page.get("/api/v1/agents").text)["items"]}
    assert tokens == {"billing": None, "triage": 1234567}


def test_the_pods_of_an_agent_show_node_end_and_usage(site: Open) -> None:
    agent = live("Agent", "triage", spec=SPEC, status=STATUS)
    opened = site([application(resources=[held(agent)])])
    ended = {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-26T10:00:00Z"}}
    statuses = [{"name": "agent", "restartCount": 2, "state": {"running": {}}, "lastState": ended}]
    pod = live("Pod", "triage-1", "v1", spec={"nodeName": "node-a"}, status={"containerStatuses": statuses})
    opened.engine.view.children["uid-triage"] = (pod,)
    opened.engine.pod_usage.known["shop", "triage-1"] = {"containers": [{"usage": {"cpu": "9m", "memory": "50Mi"}}]}
    page = opened.get("/agents/shop/triage").text
    facts = "on node-a, 2 restarts, ended last: OOMKilled 2026-11-26T10:00:00Z, uses 9m cpu and 50Mi memory"
    assert facts in page
    assert '/apps/gitsync/shop/object?ref=/Pod/shop/triage-1"' in page


def test_figures_are_charts_with_a_mark_at_each_commit(site: Open) -> None:
    opened = site([application(resources=[held(live("Agent", "triage", spec=SPEC, status=STATUS))])])
    assert "Figures" not in opened.get("/agents/shop/triage").text
    opened.engine.usage.series = {
        "latency": MetricSeries(((0.0, 0.5), (60.0, 1.25))),
        "toolsOk": MetricSeries(((0.0, 1.0), (60.0, 0.5))),
        "cost": MetricSeries(((0.0, 1.0), (60.0, 0.5))),
    }
    page = opened.get("/agents/shop/triage").text
    assert "<span>Cost" not in page, "no prices are known"
    shown = re.findall(r"<li><span>([^<]*) <b>([^<]*)</b></span>", page)
    assert shown == [("Latency, 95 %", "1.25 s"), ("Tool calls that succeeded", "50.0%")]
    assert "Latency, 95 %: 1.25 s now, between 0.50 s and 1.25 s since 1970-01-01 00:00 UTC" in page


def test_a_commit_is_a_line_in_each_chart_of_an_agent(site: Open) -> None:
    revision = judged("triage-1", "triage-config-a", PASSED_VERDICT, number=1)
    revision["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    opened = site([application(resources=[held(TRIAGE)])])
    opened.engine.view.children["uid-triage"] = (revision,)
    commit = Commit("a" * 40, "Ada", message="Tune the desk")
    started = datetime.fromtimestamp(30, UTC)
    record = SyncRecord("gitsync/shop", commit, "commit", started, 400, Outcome.SUCCEEDED, "Safe", "d")
    opened.engine.records.save(record)
    points = ((0.0, 0.5), (120.0, 1.25))
    opened.engine.usage.series = {"latency": MetricSeries(points), "toolsOk": MetricSeries(points)}
    page = opened.get("/agents/shop/triage").text
    marks = re.findall(
        r'<line class="mark" x1="([\d.]+)" x2="([\d.]+)" y1="0" y2="40"><title>([^<]*)</title></line>', page
    )
    assert marks == [("120.0", "120.0", "aaaaaaa")] * 2


def test_the_cost_is_a_chart_where_the_budget_names_prices(site: Open) -> None:
    budget = {"agent": {"costPerDay": "5"}, "prices": {"name": "prices", "key": "prices.json"}}
    table = live("ConfigMap", "prices", "v1", data={"prices.json": '{"small": {"input": 1, "output": 2}}'})
    agent = live("Agent", "triage", spec={**SPEC, "budget": budget}, status=STATUS)
    opened = site([application(resources=[held(agent), held(table)])])
    opened.engine.usage.series = {"cost": MetricSeries(((0.0, 1.0), (60.0, 0.5)))}
    assert "<span>Cost <b>0.5000</b></span>" in opened.get("/agents/shop/triage").text
    table["data"]["prices.json"] = "not a table"
    assert "<span>Cost" not in opened.get("/agents/shop/triage").text


def test_children_lead_to_their_pages_and_logs(site: Open) -> None:
    children = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "triage", "ready": True},
        {"apiVersion": "v1", "kind": "Service", "name": "triage", "ready": True},
    ]
    agent = live("Agent", "triage", status={"children": children})
    page = site([application("shop", [held(agent), held(live("Deployment", "triage", "apps/v1"))])])
    text = page.get("/agents/shop/triage").text
    object_page = "/apps/gitsync/shop/object"
    links = re.findall(rf'href="({object_page}\S*)"', text)
    assert links == [
        f"{object_page}/logs?ref=apps/Deployment/shop/triage",
        f"{object_page}?ref=apps/Deployment/shop/triage",
    ]
    assert page.get(links[-1]).status == 200
    assert "Service triage" in text, "what is not watched has no page"
    for view in ("prompts", "history"):
        assert f'<a href="{links[0]}">Logs' in page.get(f"/agents/shop/triage/{view}").text, view


def test_a_plan_shows_the_newest_evaluation_of_the_agents_that_it_changes(site: Open) -> None:
    view = resource("triage", sync="OutOfSync", differences=(changed(),))
    view = replace(view, ref=ref_of(TRIAGE), change=replace(view.change, ref=ref_of(TRIAGE), live=TRIAGE))
    opened = site([application(resources=[view, resource("note", sync="OutOfSync", differences=(changed(),))])])
    page = opened.get("/apps/gitsync/shop/plan").text
    assert page.count("Newest evaluation") == 1
    for text in ("Failed 3/4", "refund", "passed", "the answer promises a refund"):
        assert text in page


def evaluated(object: str) -> dict[str, Any]:
    """Return what an Application keeps of an evaluation before the apply."""
    verdict = {"result": "Failed", "passed": 3, "cases": 4, "message": "3 of 4 cases passed", "results": RESULTS}
    return {"object": object, "digest": "d1", "attempt": 1, "at": "2026-01-01T12:00:00Z", **verdict}


def with_evaluations(manifest: Manifest, *evaluations: dict[str, Any]) -> ApplicationView:
    changing = resource("triage", sync="OutOfSync", differences=(changed(),))
    step = replace(changing.change, ref=ref_of(manifest), live=manifest)
    view = application(resources=[replace(changing, ref=ref_of(manifest), change=step)])
    return replace(view, status={**view.status, "evaluations": list(evaluations)})


@pytest.mark.parametrize(
    ("manifest", "object"),
    [
        (workload("triage"), "apps/Deployment/shop/triage"),
        (live("Agent", "triage", "kagent.dev/v1alpha2", spec={"type": "Declarative"}), "kagent.dev/Agent/shop/triage"),
    ],
)
def test_agents_of_other_kinds_show_the_cases_of_their_verdict(site: Open, manifest: Manifest, object: str) -> None:
    running = {"object": object, "digest": "d2", "attempt": 1, "at": "2026-01-01T13:00:00Z"}
    opened = site([with_evaluations(manifest, evaluated(object), running)])
    page = opened.get("/agents/shop/triage").text
    for text in ("Evaluation before the apply", "Failed 3/4: 3 of 4 cases passed", *RESULTS[0].values()):
        assert text in page
    (row,) = json.loads(opened.get("/api/v1/agents").text)["items"]
    assert (row["evaluation"], row["failedEvaluation"]) == ("", "Failed 3/4")
    plan = opened.get("/apps/gitsync/shop/plan").text
    assert plan.count("Newest evaluation") == 1
    assert RESULTS[0]["message"] in plan
    other = site([with_evaluations(manifest, evaluated("/ConfigMap/shop/triage"))])
    assert "Evaluation before the apply" not in other.get("/agents/shop/triage").text


@pytest.mark.parametrize(
    ("members", "data", "is_listed"),
    [
        ({"volumes": [{"name": "v", "configMap": {"name": "texts"}}]}, {"prompt.md": "Sort."}, True),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "texts"}}]}}]},
            {"a-prompt": "x"},
            True,
        ),
        ({"volumes": [{"name": "v", "configMap": {"name": "texts"}}]}, {"readme.md": "Sort."}, False),
        ({"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "texts"}}]}]}, {"MODEL_ID": "m"}, True),
        (
            {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "texts"}, "prefix": "MODEL_"}]}]},
            {"ID": "m"},
            True,
        ),
        ({"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": "texts"}}]}]}, {"MODEL_ID": "m"}, False),
    ],
)
def test_workloads_are_agents_by_their_config_maps(
    site: Open, members: dict[str, Any], data: dict[str, str], is_listed: bool
) -> None:
    texts = live("ConfigMap", "texts", "v1", data=data)
    assert [one["name"] for one in listed(site, configured("web", **members), texts)] == ["web"] * is_listed


def test_a_model_that_another_manager_added_is_marked(site: Open) -> None:
    path = '.spec.template.spec.containers[name="agent"].env[name="MODEL_ID"]'
    owners = (FieldOwner("kubectl-set", "Update", "2026-03-01T11:00:00Z"),)
    env = FieldDifference(path, "/spec/x", Difference.FOREIGN, ABSENT, "rogue", owners)
    altered = replace(held(workload("web", "agent")), foreign=(env,))
    opened = site([application(resources=[altered, held(workload("calm", "agent"))])])
    found = {one["name"]: one["added"] for one in json.loads(opened.get("/api/v1/agents").text)["items"]}
    assert found == {"web": f"kubectl-set adds {path}, which Git does not declare", "calm": ""}
    assert opened.get("/agents").text.count("Settings added") == 1
    assert "kubectl-set adds" in opened.get("/agents/shop/web").text
    assert "Settings added" not in opened.get("/agents/shop/calm").text


def test_members_of_a_system_are_listed(site: Open) -> None:
    system = live("MultiAgentSystem", "desk")
    opened = site([application(resources=[held(system)])])
    owner = {"ownerReferences": [{"kind": "MultiAgentSystem", "name": "desk"}]}
    opened.engine.view.children["uid-desk"] = (live("Agent", "desk-billing", metadata=owner, spec={}),)
    found = json.loads(opened.get("/api/v1/agents").text)["items"]
    assert [(one["name"], one["system"]) for one in found] == [("desk-billing", "desk")]


@pytest.mark.parametrize(
    ("manifest", "is_listed"),
    [
        (workload("by-container", "agent"), True),
        (workload("by-label", labels={"app.kubernetes.io/component": "agent"}), True),
        (workload("by-annotation", annotations={"gitsync.dev/agent": "true"}), True),
        (workload("left-out", "agent", annotations={"gitsync.dev/agent": "false"}), False),
        (workload("by-variable"), True),
        (workload("ordinary", env={"MODEL": "t", "MODEL_PATH": "/models"}), False),
        (workload("a-server", annotations={"gitsync.dev/agent": "false"}), False),
        (live("Agent", "of-kagent", "kagent.dev/v1alpha2", spec={}), True),
        (live("SandboxAgent", "sandboxed", "kagent.dev/v1alpha2", spec={}), True),
        (live("ModelConfig", "a-model", "kagent.dev/v1alpha2", spec={}), False),
        (live("Agent", "of-another", "example.com/v1", spec={}), False),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "listed" if value else "absent",
)
def test_workloads_are_agents_by_rule(site: Open, manifest: Manifest, is_listed: bool) -> None:
    found = listed(site, manifest)
    assert [one["name"] for one in found] == ([manifest["metadata"]["name"]] if is_listed else [])
    if manifest["kind"] == "Deployment" and is_listed:
        assert (found[0]["model"], found[0]["phase"], found[0]["ready"]) == ("small", "Running", "1/1")


def test_the_page_of_an_agent_shows_its_prompts_word_by_word(site: Open) -> None:
    opened = site([application(resources=[held(TRIAGE)])])
    opened.engine.view.children["uid-triage"] = (
        config("triage-config-b", "Sort tickets slowly.", "2026-03-01T11:00:00Z"),
        config("triage-config-a", "Sort tickets quickly.", "2026-03-01T10:00:00Z"),
        live("ConfigMap", "triage-card", "v1", data={"agent-card.json": "{}"}),
        judged("triage-2", "triage-config-b"),
    )
    page = opened.get("/agents/shop/triage").text
    assert "<mark>quickly</mark>" in page
    assert "<mark>slowly</mark>" in page
    assert page.index("triage-config-b") < page.index("triage-config-a")
    for text in (
        "Sorts tickets.",
        "Owner: team-support.",
        "the answer promises a refund",
        "http://triage.shop.svc:8080",
        "evaluation Failed 3/4",
    ):
        assert text in page


SERVED = {"phase": "Running", "currentRevision": "triage-1", "lastGoodRevision": "triage-1"}
FAILED_CHECK = {"revision": "triage-2", "result": "Failed", "passed": 3, "cases": 4, "results": RESULTS}
ENDED = {"weight": 100, "steps": 2, "message": "checks failed: refund"}
ROLES = {
    "tried": (
        {**SERVED, "updateRevision": "triage-2", "rollout": {"revision": "triage-2", "stage": "Preview", "steps": 2}},
        ("triage-1", "Passed 4/4", "triage-2", "Failed 3/4", "", "", "0 % new"),
    ),
    "failed": (
        {**SERVED, "updateRevision": "triage-2", "failedRevision": "triage-2", "rollout": ENDED},
        ("triage-1", "Passed 4/4", "", "", "triage-2", "Failed 3/4", ""),
    ),
    "reverted": (
        {**SERVED, "updateRevision": "triage-1", "rollout": ENDED, "evaluation": FAILED_CHECK},
        ("triage-1", "Passed 4/4", "", "", "triage-2", "Failed 3/4", ""),
    ),
    "first failed": (
        {"currentRevision": "triage-2", "updateRevision": "triage-2", "failedRevision": "triage-2"},
        ("", "", "", "", "triage-2", "Failed 3/4", ""),
    ),
    "replaced": (
        {"currentRevision": "triage-2", "lastGoodRevision": "triage-2", "updateRevision": "triage-2"},
        ("triage-2", "Failed 3/4", "", "", "", "", ""),
    ),
}
_MEMBERS = (
    "serving",
    "evaluation",
    "candidate",
    "candidateEvaluation",
    "failed",
    "failedEvaluation",
    "traffic",
)


@pytest.mark.parametrize("state", ROLES)
def test_revisions_that_serve_are_tried_and_failed_are_told_apart(site: Open, state: str) -> None:
    status, expected = ROLES[state]
    spec = {**SPEC, "prompt": {"text": "Sort tickets quickly."}}
    opened = site([application(resources=[held(live("Agent", "triage", spec=spec, status=status))])])
    opened.engine.view.children["uid-triage"] = (
        config("triage-config-a", "Sort tickets quickly.", "2026-03-01T10:00:00Z"),
        config("triage-config-b", "Promise a refund.", "2026-03-01T11:00:00Z"),
        judged("triage-1", "triage-config-a", PASSED_VERDICT, number=1),
        judged("triage-2", "triage-config-b"),
    )
    (row,) = json.loads(opened.get("/api/v1/agents").text)["items"]
    assert tuple(row[member] for member in _MEMBERS) == expected
    serving, _, candidate, _, failed, _, traffic = expected
    configs = {"triage-1": "triage-config-a", "triage-2": "triage-config-b"}
    roles = {serving: "Serves now", candidate: "Being tried", failed: "Failed last"}
    page = opened.get("/agents/shop/triage").text
    prompts = {name: words.strip() for words, name in re.findall(r"<h3>([^<]*)<small[^>]*><code>([^<]*)", page)}
    assert prompts == {config: roles.get(name, "Kept") for name, config in configs.items()}
    rows = re.findall(r'<th scope="row">([^<]*)</th><td><code>([^<]*)', page)
    assert rows == [(role, name) for name, role in roles.items() if name]
    listed_page = opened.get("/agents").text
    for text in filter(None, expected):
        assert text in listed_page
    assert ("% new" in page) is bool(traffic)
    is_behind = bool(serving) and serving != status["updateRevision"]
    assert (f"declared, but {serving} serves" in opened.get("/agents/environments").text) is is_behind


def test_verdicts_that_others_edited_are_left_out(site: Open) -> None:
    opened = site([application(resources=[held(live("Agent", "triage", status=SERVED))])])
    opened.engine.view.children["uid-triage"] = (judged("triage-1", "a", "{oops", number=1),)
    assert "triage-1" in opened.get("/agents/shop/triage").text


def test_an_unknown_agent_is_not_found(site: Open) -> None:
    opened = site([application(resources=[held(TRIAGE)])])
    assert opened.get("/agents/shop/other").status == 404


MEMBERS = [{"name": "front", "template": {}}, {"name": "triage", "agentRef": {"name": "triage"}}, {"name": "b"}]
CHANNELS = [
    {"name": "ask", "type": "A2A", "from": ["front"], "to": ["triage", "b"]},
    {
        "name": "events",
        "type": "PubSub",
        "from": ["triage"],
        "to": ["front"],
        "broker": {"type": "NATS", "url": "nats://nats.shop.svc"},
        "topic": "tickets",
    },
]


def policy(name: str, **ingress_from: str) -> Manifest:
    peers = [{"podSelector": {"matchLabels": {"agents.gitsync.dev/agent": one}}} for one in ingress_from.values()]
    spec = {
        "podSelector": {"matchLabels": {"agents.gitsync.dev/agent": name}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers, "ports": [{"protocol": "TCP", "port": 8080}]}],
    }
    return live("NetworkPolicy", name, "networking.k8s.io/v1", spec=spec)


def test_a_system_shows_who_may_talk_to_whom_as_declared_and_as_allowed(site: Open) -> None:
    status = {"phase": "Running", "ready": "2/3", "waves": [["triage", "b"], ["front"]]}
    system = live("MultiAgentSystem", "desk", spec={"agents": MEMBERS, "channels": CHANNELS}, status=status)
    opened = site([application(resources=[held(system), held(TRIAGE), held(policy("triage", one="other"))])])
    owner = {"ownerReferences": [{"kind": "MultiAgentSystem", "name": "desk"}]}
    front = live("Agent", "desk-front", metadata=owner, spec={"tools": [{"agentRef": {"name": "desk-b"}}]})
    opened.engine.view.children["uid-desk"] = (front, live("Agent", "desk-b", metadata=owner, spec={}))
    opened.engine.view.children["uid-desk-b"] = (policy("desk-b", one="desk-front"),)
    page = opened.get("/agents/systems/shop/desk").text
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    assert rows[1:] == [
        ["front", "b", "a tool, ask", "allow it"],
        ["front", "triage", "ask", "deny it: ingress of triage"],
        ["b", "front", "nothing", "allow it"],
        ["triage", "front", "nothing", "allow it"],
    ]
    assert "events: triage to front, NATS nats://nats.shop.svc, topic tickets" in page
    assert page.count("<rect") == 3
    assert page.count('class="flow-') == 4
    assert 'href="/agents/systems/shop/desk"' in opened.get("/agents").text
    assert opened.get("/agents/systems/shop/other").status == 404


def test_a_member_that_does_not_exist_is_shown(site: Open) -> None:
    system = live("MultiAgentSystem", "desk", spec={"agents": MEMBERS}, status={"waves": [["triage"]]})
    page = site([application(resources=[held(system)])]).get("/agents/systems/shop/desk").text
    assert page.count("the Agent does not exist") == 3


def synced(*steps: tuple[str, str, str, str], minutes: int = 60, outcome: Outcome = Outcome.SUCCEEDED) -> SyncRecord:
    """Return the record of a sync that changed fields, each as path of the object, path of the field, before, after."""
    made = tuple(
        Step(ref, "update", "Safe", "why", outcome, differences=({"path": path, "live": old, "desired": new},))
        for ref, path, old, new in steps
    )
    commit = Commit("c" * 40, "Ada", message="Tune the desk")
    started = NOW - timedelta(minutes=minutes)
    return SyncRecord("gitsync/shop", commit, "commit", started, 400, Outcome.SUCCEEDED, "Safe", "d", steps=made)


AGENT = "agents.gitsync.dev/Agent/shop/triage"
SYSTEM = "agents.gitsync.dev/MultiAgentSystem/shop/desk"
MEMBER = '.spec.agents[name="triage"].template.spec'
ENVIRONMENT = '.spec.template.spec.containers[name="agent"].env[name="MODEL_ID"].value'


@pytest.mark.parametrize(
    ("ref", "path", "aspect"),
    [
        (AGENT, ".spec.model.id", "model"),
        (AGENT, ".spec.tools", "tools"),
        (AGENT, ".spec.prompt.text", "prompt"),
        (AGENT, ".spec.replicas", ""),
        (AGENT, ".metadata.labels.model", ""),
        ("agents.gitsync.dev/Agent/shop/other", ".spec.model.id", ""),
        (SYSTEM, f"{MEMBER}.model.id", "model"),
        (SYSTEM, ".spec.defaults.tools", "tools"),
        (SYSTEM, MEMBER.replace("triage", "prompter") + ".model.id", ""),
        ("/ConfigMap/shop/triage-prompt-7h2f5k9m4t", '.data["system.md"]', "prompt"),
        ("/ConfigMap/shop/unrelated-prompt", '.data["system.md"]', ""),
        ("/ConfigMap/shop/triage-prompt", ".metadata.labels.prompt", ""),
    ],
)
def test_a_change_of_model_prompt_or_tools_is_listed(site: Open, ref: str, path: str, aspect: str) -> None:
    owner = {"ownerReferences": [{"kind": "MultiAgentSystem", "name": "desk"}]}
    spec = {**SPEC, "prompt": {"configMapKeyRef": {"name": "triage-prompt", "key": "system.md"}}}
    opened = site([application(resources=[held(live("Agent", "triage", spec=spec, status=STATUS, metadata=owner))])])
    opened.engine.records.save(synced((ref, path, "old-value", "new-value")))
    for page in (opened.get("/agents").text, opened.get("/agents/shop/triage").text):
        assert f"{aspect}</span>" in page
        assert ("new-value" in page) == ("Tune the desk, Ada" in page) == bool(aspect)
        # a sync may bring several commits, and an earlier one may have changed the value
        assert ("new commit, up to <code>ccccccc</code>" in page) == bool(aspect)


def test_a_change_of_an_agent_of_another_platform_is_listed(site: Open) -> None:
    sandboxed = live("SandboxAgent", "coder", "kagent.dev/v1alpha2", spec={})
    opened = site([application(resources=[held(sandboxed)])])
    ref = "kagent.dev/SandboxAgent/shop/coder"
    opened.engine.records.save(synced((ref, ".spec.declarative.systemMessage", "old-value", "new-value")))
    assert "new-value" in opened.get("/agents").text


def test_changes_of_an_ordinary_workload_are_those_of_its_environment_and_of_what_it_reads(site: Open) -> None:
    manifest = workload("web", "agent")
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": "settings-7h2f5k9m4t"}}]
    opened = site([application(resources=[held(manifest)])])
    web = "apps/Deployment/shop/web"
    settings = "/ConfigMap/shop/settings-8h2f5k9m4t"
    opened.engine.records.save(synced((web, ENVIRONMENT, "small", "large"), minutes=120))
    opened.engine.records.save(
        synced((settings, ".data.MODEL_ID", "qwen", "sonnet"), (web, ".spec.replicas", "1", "9"))
    )
    opened.engine.records.save(synced((web, ENVIRONMENT, "refused", "never"), outcome=Outcome.FAILED))
    page = opened.get("/agents").text
    assert page.index("sonnet") < page.index("large")
    assert "never" not in page
    assert ".spec.replicas" not in page
    recent = opened.get("/agents?q=since:90m").text
    assert "sonnet" in recent
    assert "large" not in recent
    assert "No model, prompt or tools changed." in opened.get("/agents?q=until:1d").text


def waiting_agent(kind: str = "Agent") -> Manifest:
    """Return an Agent whose tool URL was moved by hand, with the plan that waits."""
    reasons = ["Agent shop/ha: an agent's tool is reached elsewhere"]
    plan = {"digest": "d" * 64, "id": "d" * 12, "class": "Dangerous", "steps": 3, "reasons": reasons}
    return live(kind, "ha", metadata={"generation": 4}, status={"plan": plan})


@pytest.mark.parametrize(("kind", "path"), [("Agent", "shop/ha"), ("MultiAgentSystem", "systems/shop/ha")])
def test_a_plan_of_an_agent_by_hand_is_shown_and_approved(site: Open, kind: str, path: str) -> None:
    opened = site([application("shop", [])])
    opened.engine.view.held = (waiting_agent(kind),)
    listed = opened.get("/approvals").text
    assert f'href="/agents/{path}/plan"' in listed
    assert "tool is reached elsewhere" in listed
    assert "No plan waits for a review" not in listed
    page = opened.get(f"/agents/{path}/plan").text
    assert "Dangerous" in page
    assert "generation-4" in page
    answer = opened.post(f"/agents/{path}/review", {"digest": "d" * 64, "decision": "approve", "by": "grace"})
    assert (answer.status, answer.headers["location"]) == (303, "/approvals")
    review = opened.engine.records.review(f"shop/{kind.lower()}:ha", "d" * 64, NOW)
    assert review is not None
    assert (review.approves, review.by.name) == (True, "grace")
    assert opened.engine.requests.done == [("wake", "ha", "d" * 64)]


def test_a_rejected_plan_of_an_agent_has_to_be_overruled(site: Open) -> None:
    opened = site([application("shop", [])])
    opened.engine.view.held = (waiting_agent(),)
    rejected = {"digest": "d" * 64, "decision": "reject", "by": "grace"}
    assert "a rejection needs a reason" in opened.post("/agents/shop/ha/review", rejected).text
    opened.post("/agents/shop/ha/review", {**rejected, "reason": "wrong host"})
    page = opened.get("/agents/shop/ha/plan").text
    assert "wrong host" in page
    assert "Approve anyway" in page
    approved = {"digest": "d" * 64, "decision": "approve", "by": "grace"}
    assert "approve it with --overrule" in opened.post("/agents/shop/ha/review", approved).text
    assert opened.post("/agents/shop/ha/review", {**approved, "overrule": "yes"}).status == 303


def test_another_plan_than_was_shown_is_not_approved(site: Open) -> None:
    opened = site([application("shop", [])])
    opened.engine.view.held = (waiting_agent(),)
    answer = opened.post("/agents/shop/ha/review", {"digest": "e" * 64, "decision": "approve", "by": "grace"})
    assert answer.status == 409
    assert "the plan changed since it was shown" in answer.text
    assert opened.engine.requests.done == []


def test_the_page_of_an_agent_by_hand_leads_to_its_plan(site: Open) -> None:
    opened = site([application("shop", [])])
    assert opened.get("/agents/shop/ha").status == 404
    opened.engine.view.held = (waiting_agent(),)
    assert opened.get("/agents/shop/ha").headers["location"] == "/agents/shop/ha/plan"
