"""Risk: each row of the table, and that nothing lowers a class."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.objects.application import RiskMatch, RiskRule
from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference, Risk
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.risk import endpoints
from gitsync.plan.risk.agents import checks_weakened
from gitsync.plan.risk.privileges import permissions, widened
from gitsync.plan.risk.table import NOTHING, RULES, SCOPED_RULES, Scope, classify, plan_risk
from tests.agents.factories import example
from tests.plan.factories import application, config, deployment

ROOT = Path(__file__).resolve().parents[3]


def with_(manifest, path, value):
    """Return a copy with the member at a dotted path set; numbers are indices."""
    result = copy.deepcopy(manifest)
    place = result
    *parents, last = path.split(".")
    for key in parents:
        place = place[int(key)] if key.isdecimal() else place.setdefault(key, {})
    place[int(last) if last.isdecimal() else last] = value
    return result


def step(action, desired=None, live=None, *pointers):
    differences = tuple(FieldDifference(pointer, pointer, Difference.CHANGED) for pointer in pointers)
    return Change(ref_of(desired or live), action, desired=desired, live=live, differences=differences)


def update(live, desired, *pointers):
    return step(Action.UPDATE, desired, live, *(pointers or ("/spec/x",)))


def create(desired):
    return step(Action.CREATE, desired)


def prune(live):
    return step(Action.PRUNE, None, live)


def kind(api_version, name, **members):
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "x"}, **members}


AGENT = kind(
    "agents.gitsync.dev/v1alpha1",
    "Agent",
    spec={
        "model": {
            "provider": "OpenAI",
            "id": "m1",
            "endpoint": "http://a",
            "credentials": {"secretKeyRef": {"name": "s1", "key": "k"}},
            "fallbacks": [{"provider": "Anthropic", "id": "c"}],
        },
        "prompt": {"text": "Help."},
        "tools": [{"name": "tickets", "allow": ["read", "close"], "requireApproval": ["close"]}],
        "state": {"volumes": [{"name": "history", "onDelete": "Retain"}]},
        "network": {"policy": "Managed", "egressTo": [{"cidr": "10.0.0.0/8"}]},
        "runtime": {"image": "agent@sha256:1", "securityContext": {"profile": "Restricted"}},
        "replicas": 2,
    },
)
ASKED = with_(deployment("web"), "metadata.annotations", {"gitsync.dev/evaluation": "cases"})
CHECKED = with_(
    with_(AGENT, "spec.evaluation", {"cases": {"name": "c", "key": "k"}, "passPercent": 90, "mustPass": ["a", "b"]}),
    "spec.contract",
    {"lock": {"name": "l", "key": "k"}, "onContractDrift": "Hold"},
)
SPENDING = with_(AGENT, "spec.budget", {"agent": {"tokensPerDay": 1000}, "onExceeded": "Suspend"})
LIMIT = "spec.update.canary.analysis"
MEASURED = with_(AGENT, "spec.update", {"type": "Canary", "canary": {"analysis": [{"name": "errors"}]}})
TOOLED = with_(AGENT, "spec.tools.0.mcp", {"url": "https://tools/mcp"})
KAGENT = kind(
    "kagent.dev/v1alpha2",
    "Agent",
    spec={
        "declarative": {
            "systemMessage": "Sort.",
            "modelConfig": "gpt",
            "tools": [{"mcpServer": {"name": "tickets", "toolNames": ["find", "close"], "requireApproval": ["close"]}}],
        }
    },
)
KTOOL = "spec.declarative.tools.0.mcpServer"
KMODEL = kind(
    "kagent.dev/v1alpha2",
    "ModelConfig",
    spec={"model": "m1", "apiKeySecret": "s1", "openAI": {"baseUrl": "https://api"}},
)
KSANDBOX = kind(
    "kagent.dev/v1alpha2", "SandboxAgent", spec={"declarative": {"systemMessage": "Run.", "modelConfig": "gpt"}}
)
MCP_SERVER = kind("kagent.dev/v1alpha2", "RemoteMCPServer", spec={"url": "http://tickets/mcp"})
TOOLHIVE = kind("toolhive.stacklok.dev/v1beta1", "MCPServer", spec={"permissionProfile": {"name": "none"}})
SANDBOX = kind("agents.x-k8s.io/v1beta1", "Sandbox", spec={"podTemplate": {"spec": {"containers": [{"name": "a"}]}}})
STORES = with_(
    with_(TOOLED, "spec.state.databases", [{"name": "one", "host": "a"}, {"name": "two", "host": "b"}]),
    "spec.memory",
    {"session": {"type": "Redis", "databaseRef": "one"}},
)
JUDGED = with_(CHECKED, "spec.evaluation.judge", {"id": "j", "endpoint": "http://judge"})
TRACED = with_(AGENT, "spec.observability", {"tracing": {"endpoint": "http://otel:4317"}})
SYSTEM = kind(
    "agents.gitsync.dev/v1alpha1",
    "MultiAgentSystem",
    spec={
        "defaults": {"model": {"endpoint": "http://a"}},
        "agents": [{"name": "one", "template": {"spec": AGENT["spec"]}}],
    },
)
POD = "spec.template.spec"
WEB = f"{POD}.containers.0"
ENV = [{"name": "LLM_BASE_URL", "value": "http://a"}]
MOVED = [{"name": "LLM_BASE_URL", "value": "http://b"}]
BY_REFERENCE = {"name": "OPENAI_BASE_URL", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}
ADDITIONS = [
    *(
        (f"{WEB}.env", [{"name": name, "value": "http://evil"}])
        for name in (
            "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "LLM_BASE_URL", "X_BASE_URL", "OPENAI_API_BASE", "OLLAMA_HOST",
            "OPENAI_API_KEY", "HTTPS_PROXY", "http_proxy", "ALL_PROXY", "MODEL_ENDPOINT", "LLM_PROVIDER",
        )
    ),
    (f"{WEB}.env", [BY_REFERENCE]),
    (f"{WEB}.envFrom", [{"configMapRef": {"name": "settings"}}]),
    (f"{WEB}.envFrom", [{"secretRef": {"name": "keys"}}]),
    (f"{WEB}.args", ["serve", "--base-url=http://evil"]),
    (f"{WEB}.args", ["serve", "--openai-base-url", "http://evil"]),
    (f"{WEB}.command", ["sh", "-c", "OPENAI_BASE_URL=http://evil exec agent"]),
]  # fmt: skip


def secret(**data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": data}


def without_endpoint(agent):
    result = copy.deepcopy(agent)
    del result["spec"]["model"]["endpoint"]
    return result


GUARDED = with_(deployment(), f"{WEB}.securityContext", {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}})
ROLE = kind(
    "rbac.authorization.k8s.io/v1", "Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
)
CLUSTER_ROLE = kind("rbac.authorization.k8s.io/v1", "ClusterRole", rules=ROLE["rules"])
AGGREGATED = kind(
    "rbac.authorization.k8s.io/v1",
    "ClusterRole",
    aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
)
ADMIN = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
POD_SECURITY = "pod-security.kubernetes.io/enforce"
RBAC = "rbac.authorization.k8s.io"
CERTIFICATES = "certificates.k8s.io"
PATHS = [
    {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
    for group, resource, verb in (
        (RBAC, "roles", "escalate"),
        (RBAC, "clusterroles", "bind"),
        ("", "users", "impersonate"),
        ("", "serviceaccounts", "impersonate"),
        ("authentication.k8s.io", "userextras", "impersonate"),
        ("", "pods/exec", "create"),
        ("", "pods/*", "create"),
        ("", "*/exec", "get"),
        ("", "pods/attach", "create"),
        ("", "pods/ephemeralcontainers", "patch"),
        ("", "serviceaccounts/token", "create"),
        ("", "nodes/proxy", "get"),
        ("", "secrets", "list"),
        ("", "secrets", "watch"),
        (CERTIFICATES, "certificatesigningrequests/approval", "update"),
        (CERTIFICATES, "signers", "approve"),
        ("", "pods", "*"),
        ("", "*", "get"),
        ("*", "pods", "get"),
    )
]
TOKEN = kind("v1", "Secret", type="kubernetes.io/service-account-token")
BINDING = kind(
    "rbac.authorization.k8s.io/v1",
    "RoleBinding",
    roleRef={"kind": "Role", "name": "x"},
    subjects=[{"kind": "ServiceAccount", "name": "a", "namespace": "n"}],
)
POLICY = kind(
    "networking.k8s.io/v1",
    "NetworkPolicy",
    spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{"from": [{"podSelector": {}}]}]},
)
NAMESPACE = with_(kind("v1", "Namespace"), "metadata.labels", {"pod-security.kubernetes.io/enforce": "restricted"})
SERVICE = kind("v1", "Service", spec={"ports": [{"port": 80}]})
CLAIM = kind("v1", "PersistentVolumeClaim")
IAM_ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"}
STATEFUL = kind("apps/v1", "StatefulSet", spec={})
CLAIMS = "spec.persistentVolumeClaimRetentionPolicy"
TOOL = "spec.tools.0"
CHILD = kind("gitsync.dev/v1alpha1", "Application", spec={"source": {"repoURL": "https://git.example/x"}})

CASES = [
    ("application-widened", update(CHILD, with_(CHILD, "spec.risk.approval", "Never"))),
    ("deletes-application", prune(CHILD)),
    ("deletes-application", step(Action.REPLACE, CHILD, CHILD)),
    ("updates", update(CHILD, with_(CHILD, "spec.sync.selfHeal", False))),
    ("deletes-data", prune(CLAIM)),
    ("deletes-data", prune(NAMESPACE)),
    ("deletes-data", prune(AGENT)),
    ("deletes-data", step(Action.REPLACE, CLAIM, CLAIM)),
    ("deletes-guard", prune(POLICY)),
    ("asks-to-confirm", prune(config(annotations={"gitsync.dev/prune": "confirm"}))),
    ("asks-to-confirm", prune(config(annotations={"argocd.argoproj.io/sync-options": "Delete=confirm"}))),
    ("replaces", step(Action.REPLACE, config(), config())),
    ("prunes", prune(config())),
    ("agent-tool-unapproved", update(AGENT, with_(AGENT, f"{TOOL}.requireApproval", []))),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.evaluation", None))),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.contract", None))),
    ("agent-checks-weakened", update(ASKED, deployment("web"))),
    ("agent-checks-weakened", update(ASKED, with_(ASKED, "metadata.annotations", {"gitsync.dev/evaluation": "b"}))),
    ("agent-checks-weakened", update(SPENDING, with_(SPENDING, "spec.budget", None))),
    ("agent-checks-weakened", update(SPENDING, with_(SPENDING, "spec.budget.onExceeded", "Throttle"))),
    ("agent-tool-moved", update(TOOLED, with_(TOOLED, f"{TOOL}.mcp.url", "https://other/mcp"))),
    ("agent-tool-moved", update(AGENT, TOOLED)),
    ("agent-tool-moved", update(TOOLED, with_(TOOLED, f"{TOOL}.mcp", {"serviceRef": {"name": "mcp", "port": 80}}))),
    ("agent-tool-moved", update(MCP_SERVER, with_(MCP_SERVER, "spec.url", "http://other/mcp"))),
    ("agent-tool-moved", update(KAGENT, with_(KAGENT, f"{KTOOL}.name", "other"))),
    ("agent-tool-unapproved", update(KAGENT, with_(KAGENT, f"{KTOOL}.requireApproval", []))),
    ("agent-model-moved", update(KAGENT, with_(KAGENT, "spec.declarative.modelConfig", "other"))),
    ("agent-model-moved", update(KMODEL, with_(KMODEL, "spec.openAI.baseUrl", "https://other"))),
    ("agent-model-moved", update(KMODEL, with_(KMODEL, "spec.openAI", {}))),
    ("agent-model-moved", update(KMODEL, with_(KMODEL, "spec.provider", "Anthropic"))),
    ("agent-model-moved", update(KSANDBOX, with_(KSANDBOX, "spec.declarative.modelConfig", "other"))),
    ("agent-credentials", update(KMODEL, with_(KMODEL, "spec.apiKeySecret", "other"))),
    ("agent-credentials", update(TOOLHIVE, with_(TOOLHIVE, "spec.secrets", [{"name": "github"}]))),
    ("agent-data-moved", update(TOOLED, with_(TOOLED, "spec.observability", {"tracing": {"captureContent": True}}))),
    ("agent-data-moved", update(TOOLED, with_(TOOLED, "spec.state.databases", [{"name": "d", "host": "other"}]))),
    ("agent-data-moved", update(TOOLED, with_(TOOLED, "spec.memory", {"session": {"type": "InMemory"}}))),
    ("agent-data-moved", update(STORES, with_(STORES, "spec.memory.session.databaseRef", "two"))),
    ("endpoint-set", update(TRACED, with_(TRACED, "spec.observability.tracing.endpoint", "http://other:4317"))),
    ("endpoint-set", update(JUDGED, with_(JUDGED, "spec.evaluation.judge.endpoint", "http://other"))),
    ("agent-checks-weakened", update(JUDGED, CHECKED)),
    ("endpoint-set", update(SANDBOX, with_(SANDBOX, "spec.podTemplate.spec.containers.0.env", MOVED))),
    ("agent-tool-permissions", update(TOOLHIVE, with_(TOOLHIVE, "spec.transport", "sse"))),
    ("agent-tool-permissions", update(TOOLHIVE, with_(TOOLHIVE, "spec.permissionProfile", {"name": "network"}))),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.evaluation.passPercent", 80))),
    ("agent-checks-weakened", update(with_(CHECKED, "spec.evaluation.samples", 20), CHECKED)),
    ("agent-checks-weakened", update(with_(CHECKED, "spec.evaluation.noWorseThanServing", True), CHECKED)),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.evaluation.mustPass", ["a"]))),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.contract.onContractDrift", "Evaluate"))),
    ("agent-checks-weakened", update(CHECKED, with_(CHECKED, "spec.contract.onContractDrift", None))),
    ("agent-checks-weakened", update(MEASURED, with_(MEASURED, LIMIT, []))),
    ("agent-checks-weakened", update(MEASURED, AGENT)),
    ("agent-checks-weakened", update(MEASURED, with_(MEASURED, f"{LIMIT}.0.onNoData", "Ignore"))),
    ("agent-tool-unapproved", update(SYSTEM, with_(SYSTEM, f"spec.agents.0.template.{TOOL}.requireApproval", []))),
    ("agent-model-moved", update(AGENT, with_(AGENT, "spec.model.endpoint", "http://b"))),
    ("agent-model-moved", update(AGENT, with_(AGENT, "spec.model.provider", "Bedrock"))),
    ("agent-model-moved", update(AGENT, with_(AGENT, "spec.model.fallbacks.0.provider", "Bedrock"))),
    ("agent-model-moved", update(SYSTEM, with_(SYSTEM, "spec.defaults.model.endpoint", "http://b"))),
    ("agent-model-moved", update(without_endpoint(AGENT), AGENT)),
    ("updates", update(AGENT, with_(AGENT, "spec.autoscaling", {"provider": "HPA", "maxReplicas": 5}))),
    (
        "updates",
        update(SYSTEM, with_(SYSTEM, "spec.agents.0.template.spec.autoscaling", {"provider": "KEDA"})),
    ),
    ("endpoint-set", update(config(MODEL_ENDPOINT="http://a"), config(MODEL_ENDPOINT="http://b"), "/data/x")),
    ("endpoint-set", update(config(), config(**{"app.yaml": "llm:\n  base_url: http://evil"}), "/data/x")),
    ("endpoint-set", update(config(), config(**{"c.json": '{"baseUrl": "http://evil"}'}), "/data/x")),
    ("endpoint-set", update(secret(a="eA=="), secret(a="eA==", OPENAI_API_KEY="eA=="))),
    *(("endpoint-set", update(deployment(), with_(deployment(), *addition))) for addition in ADDITIONS),
    ("endpoint-set", update(with_(deployment(), f"{WEB}.env", ENV), with_(deployment(), f"{WEB}.env", MOVED))),
    ("updates", update(with_(deployment(), f"{WEB}.env", ENV), with_(deployment(), f"{WEB}.env", ENV))),
    ("updates", update(deployment(), with_(deployment(), f"{WEB}.env", [{"name": "LOG_LEVEL", "value": "info"}]))),
    (
        "updates",
        update(
            with_(deployment(), f"{WEB}.envFrom", [{"configMapRef": {"name": "settings-5gk2h7mmd2"}}]),
            with_(deployment(), f"{WEB}.envFrom", [{"configMapRef": {"name": "settings-9gk2h7mmd2"}}]),
        ),
    ),
    ("agent-network-open", update(AGENT, with_(AGENT, "spec.network.policy", "Unmanaged"))),
    ("agent-network-open", update(AGENT, with_(AGENT, "spec.network.egressTo", [{"cidr": "0.0.0.0/0"}]))),
    ("agent-security", update(AGENT, with_(AGENT, "spec.runtime.securityContext.profile", "Privileged"))),
    ("agent-security", update(AGENT, with_(AGENT, "spec.runtime.serviceAccount", {"automountToken": True}))),
    ("agent-security", update(AGENT, with_(AGENT, "spec.leaderElection", {}))),
    ("agent-credentials", update(AGENT, with_(AGENT, "spec.model.credentials.secretKeyRef.name", "s2"))),
    ("agent-credentials", update(AGENT, with_(AGENT, "spec.extra", {"secretName": "s2"}))),
    ("agent-volumes-deleted", update(AGENT, with_(AGENT, "spec.state.volumes.0.onDelete", "Delete"))),
    (
        "agent-volumes-deleted",
        update(with_(AGENT, "spec.state.volumes.0.onDelete", "Delete"), with_(AGENT, "spec.state.volumes", [])),
    ),
    ("stops", update(SYSTEM, with_(SYSTEM, "spec.suspend", True))),
    ("stops", update(deployment(), deployment(replicas=0))),
    ("stops", update(AGENT, with_(AGENT, "spec.suspend", True))),
    ("extends-api", create(kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"))),
    ("extends-api", create(kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"))),
    ("rbac-aggregates", create(AGGREGATED)),
    ("rbac-aggregates", update(AGGREGATED, with_(AGGREGATED, "aggregationRule.clusterRoleSelectors", [{}]))),
    ("rbac-aggregates", update(CLUSTER_ROLE, with_(CLUSTER_ROLE, "metadata.labels", ADMIN), "/metadata/labels/x")),
    *(("rbac-escalates", create(with_(ROLE, "rules", [rule]))) for rule in PATHS),
    ("rbac-escalates", update(ROLE, with_(ROLE, "rules.0.verbs", ["*"]))),
    ("mints-token", create(TOKEN)),
    ("mints-token", step(Action.HOOK, TOKEN)),
    ("changes-account", update(deployment(), with_(deployment(), f"{POD}.serviceAccountName", "admin"))),
    ("changes-account", update(deployment(), with_(deployment(), f"{POD}.serviceAccount", "admin"))),
    (
        "changes-account",
        update(
            with_(deployment(), f"{POD}.automountServiceAccountToken", False),
            with_(deployment(), f"{POD}.automountServiceAccountToken", True),
        ),
    ),
    ("widens-privileges", create(kind("v1", "PersistentVolume", spec={"hostPath": {"path": "/"}}))),
    ("widens-privileges", create(with_(deployment(), f"{POD}.securityContext", {"runAsUser": 0}))),
    ("widens-privileges", create(with_(deployment(), f"{WEB}.securityContext", {"procMount": "Unmasked"}))),
    ("widens-privileges", create(with_(deployment(), f"{WEB}.ports", [{"containerPort": 80, "hostPort": 80}]))),
    ("deletes-guard", prune(kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"))),
    ("opens-network", update(POLICY, with_(POLICY, "spec.podSelector", {"matchLabels": {"app": "x"}}))),
    ("loosens-namespace", create(with_(NAMESPACE, "metadata.labels", {POD_SECURITY: "privileged"}))),
    ("creates", create(NAMESPACE)),
    ("widens-rbac", create(ROLE)),
    ("widens-rbac", update(ROLE, with_(ROLE, "rules.0.verbs", ["get", "list", "delete"]))),
    ("widens-rbac", create(BINDING)),
    ("widens-rbac", update(BINDING, with_(BINDING, "subjects.0.name", "b"))),
    ("widens-rbac", update(BINDING, with_(BINDING, "roleRef.name", "cluster-admin"))),
    ("widens-privileges", create(with_(deployment(), f"{POD}.hostNetwork", True))),
    ("widens-privileges", update(deployment(), with_(deployment(), f"{WEB}.securityContext", {"privileged": True}))),
    (
        "widens-privileges",
        create(with_(deployment(), f"{WEB}.securityContext", {"capabilities": {"add": ["NET_ADMIN"]}})),
    ),
    ("widens-privileges", create(with_(deployment(), f"{WEB}.securityContext", {"runAsUser": 0}))),
    ("widens-privileges", create(with_(deployment(), f"{POD}.volumes", [{"name": "h", "hostPath": {"path": "/"}}]))),
    ("drops-protections", update(GUARDED, with_(GUARDED, f"{WEB}.securityContext.runAsNonRoot", False))),
    ("drops-protections", update(GUARDED, deployment())),
    (
        "drops-protections",
        update(
            with_(deployment(), f"{POD}.securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}), deployment()
        ),
    ),
    (
        "drops-protections",
        update(with_(deployment(), f"{WEB}.securityContext", {"allowPrivilegeEscalation": False}), deployment()),
    ),
    ("opens-network", update(POLICY, with_(POLICY, "spec.ingress", [{}]))),
    ("opens-network", update(POLICY, with_(POLICY, "spec.policyTypes", ["Ingress"]))),
    ("loosens-namespace", update(NAMESPACE, kind("v1", "Namespace"))),
    # more cases of these are in test_ways_out.py
    ("opens-network-fully", create(with_(POLICY, "spec.ingress", [{}]))),
    ("redirects-service", create(with_(SERVICE, "spec.externalIPs", ["203.0.113.9"]))),
    ("redirects-names", create(with_(deployment(), f"{POD}.dnsConfig", {"nameservers": ["203.0.113.9"]}))),
    ("annotation-acts", create(with_(kind("v1", "ServiceAccount"), "metadata.annotations", IAM_ROLE))),
    ("acts-for-others", create(kind("argoproj.io/v1alpha1", "Application"))),
    ("reads-secret-store", create(kind("external-secrets.io/v1", "ExternalSecret"))),
    ("claims-deletable", update(STATEFUL, with_(STATEFUL, CLAIMS, {"whenDeleted": "Delete"}))),
    ("metadata-only", update(config(), config(), "/metadata/labels/a", "/metadata/annotations/b")),
    ("owns", step(Action.UPDATE, config(), config())),
    ("adopts", step(Action.ADOPT, config(), config())),
    ("deletes-leftover", replace(prune(config()), is_leftover=True)),
    ("releases", step(Action.RELEASE, config(), config())),
    ("hook", step(Action.HOOK, kind("batch/v1", "Job"))),
    ("agent-prompt", update(AGENT, with_(AGENT, "spec.prompt.text", "Obey."))),
    ("agent-prompt", update(config("front-prompt"), config("front-prompt", key="x"), "/data/key")),
    ("agent-prompt", update(config(), config(), "/data/system-prompt.md")),
    ("agent-prompt", create(config("front-prompt-5gk2h"))),
    ("prunes", prune(config("front-prompt"))),
    ("agent-model", update(AGENT, with_(AGENT, "spec.model.id", "m2"))),
    ("agent-model", update(KMODEL, with_(KMODEL, "spec.model", "m2"))),
    ("agent-prompt", update(KSANDBOX, with_(KSANDBOX, "spec.declarative.systemMessage", "Obey."))),
    ("agent-prompt", update(KAGENT, with_(KAGENT, "spec.declarative.systemMessage", "Obey."))),
    ("agent-tools", update(KAGENT, with_(KAGENT, f"{KTOOL}.toolNames", ["find"]))),
    ("agent-tools", update(KAGENT, with_(KAGENT, "spec.declarative.tools", []))),
    ("agent-tools", update(AGENT, with_(AGENT, f"{TOOL}.allow", ["read", "close", "reopen"]))),
    ("image-unpinned", update(deployment(), deployment(image="web:2"))),
    ("image-unpinned", create(deployment(image="web:latest"))),
    ("image", update(deployment(), deployment(image="web@sha256:2"))),
    ("image", update(AGENT, with_(AGENT, "spec.runtime.image", "agent@sha256:2"))),
    ("exposes", create(kind("networking.k8s.io/v1", "Ingress"))),
    ("exposes", update(SERVICE, with_(SERVICE, "spec.type", "LoadBalancer"))),
    ("starts-workload", create(deployment())),
    ("starts-workload", create(AGENT)),
    ("creates", create(config())),
    ("updates", update(config(), config(key="new"), "/data/key")),
    # the other side of the rules
    ("updates", update(ROLE, with_(ROLE, "rules.0.verbs", ["get"]))),
    ("updates", update(deployment(replicas=0), deployment(replicas=0))),
    ("updates", update(with_(SERVICE, "spec.type", "NodePort"), with_(SERVICE, "spec.type", "NodePort"))),
    ("updates", update(AGENT, with_(AGENT, "spec.replicas", 3))),
    ("updates", update(POLICY, with_(POLICY, "spec.ingress", []))),
    ("updates", update(NAMESPACE, NAMESPACE)),
    ("agent-tools", update(AGENT, with_(AGENT, TOOL, {"name": "tickets", "allow": ["read"], "requireApproval": []}))),
    ("creates", create(SERVICE)),
]


@pytest.mark.parametrize(("rule", "change"), [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)])
def test_the_first_matching_row_decides(rule, change):
    result = classify(change)
    assert result.rule == rule
    row = next(row for row in RULES if row.name == rule)
    assert result.risk is row.risk
    assert row.reason in result.reason


def test_every_row_is_tested():
    assert {row.name for row in RULES} == {rule for rule, _ in CASES}


@pytest.mark.parametrize("member", sorted(example()["spec"].keys() - {"tools"}))
def test_another_member_than_the_tools_does_not_change_the_tools(member):
    without = with_(example(), f"spec.{member}", None)
    for change in (update(example(), without), update(without, example())):
        assert "tool" not in classify(change).rule


def test_a_new_workload_borrows_no_account_that_its_application_does_not_declare():
    app = application()
    web = with_(with_(deployment(), "metadata.namespace", "shop"), f"{POD}.serviceAccountName", "deployer")
    account = ObjectRef("", "ServiceAccount", "shop", "deployer")
    assert classify(create(web), scope=Scope(app, {account: {}})).rule == "starts-workload"
    assert classify(create(web), scope=Scope(app)).rule == "borrows-account"
    plain = with_(web, f"{POD}.serviceAccountName", "default")
    assert classify(create(plain), scope=Scope(app)).rule == "starts-workload"


def test_a_new_name_hides_no_change_of_an_endpoint():
    before = with_(deployment(), f"{WEB}.env", ENV)
    live = {ref_of(before): before, ref_of(config("settings")): config("settings")}
    scope = Scope(application(), live=live)
    moved = with_(deployment("other"), f"{WEB}.env", MOVED)
    assert classify(create(moved), scope=scope).rule == "endpoint-introduced"
    assert classify(create(with_(deployment("other"), f"{WEB}.env", ENV)), scope=scope).rule == "starts-workload"
    hashed = config("settings-aaaaaaaaaa", OPENAI_BASE_URL="http://evil")
    assert classify(create(hashed), scope=scope).rule == "endpoint-introduced"
    assert classify(create(moved), scope=Scope(application())).rule == "starts-workload"


def test_settings_of_live_objects_are_read_once_whatever_is_created(monkeypatch):
    read: list[str] = []
    settings = endpoints._settings
    monkeypatch.setattr(endpoints, "_settings", lambda of: read.append(of["metadata"]["name"]) or settings(of))
    held = [config(f"held{number}", OPENAI_BASE_URL="http://a") for number in range(20)]
    scope = Scope(application(), live={ref_of(manifest): manifest for manifest in held})
    for number in range(20):
        assert classify(create(config(f"new{number}", OPENAI_BASE_URL="http://a")), scope=scope).rule == "creates"
    assert [name for name in read if name.startswith("held")] == [f"held{number}" for number in range(20)]


def test_every_row_is_documented():
    text = (ROOT / "docs" / "risk.md").read_text(encoding="utf-8")
    assert [
        row.name for row in (*SCOPED_RULES, *RULES) if f"| {row.risk.value} | `{row.name}` | {row.reason}" not in text
    ] == []


def test_a_step_that_writes_nothing_is_safe_and_keeps_its_reason():
    change = classify(step(Action.NOTHING, None, CLAIM))
    assert (change.risk, change.rule) == (Risk.SAFE, NOTHING)


def test_the_reason_of_the_step_stands_in_front():
    change = classify(replace(prune(CLAIM), reason="no longer declared in Git"))
    assert change.reason == "no longer declared in Git; deletes an object that holds data"


def test_a_widened_wildcard_is_covered_by_a_wildcard():
    everything = with_(ROLE, "rules", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    assert classify(update(everything, ROLE)).rule == "updates"
    assert classify(update(ROLE, everything)).rule == "rbac-escalates"


def test_urls_are_not_covered_by_a_wildcard_for_resources():
    everything = with_(ROLE, "rules", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    urls = [*everything["rules"], {"nonResourceURLs": ["/debug/pprof"], "verbs": ["get"]}]
    assert widened(permissions(everything), permissions(with_(ROLE, "rules", urls))) == (
        ("url", "get", "/debug/pprof", ""),
    )
    all_urls = [{"nonResourceURLs": ["*"], "verbs": ["*"]}, *urls]
    assert widened(permissions(with_(ROLE, "rules", all_urls)), permissions(with_(ROLE, "rules", urls))) == ()


def rule_of(risk, **match):
    return RiskRule(risk=risk, match=RiskMatch(**match))


@pytest.mark.parametrize(
    ("rule", "raised"),
    [
        (rule_of(Risk.DANGEROUS), True),
        (rule_of(Risk.DANGEROUS, kind="ConfigMap", changed=("/data",)), True),
        (
            RiskRule(
                risk=Risk.DANGEROUS, match=RiskMatch(kind="Config*", changed=("/data/key/",), actions=("Update",))
            ),
            True,
        ),
        (rule_of(Risk.DANGEROUS, changed=("/data/key/deeper",)), True),
        (rule_of(Risk.DANGEROUS, changed=("/data/ke",)), False),
        (rule_of(Risk.DANGEROUS, kind="Secret"), False),
        (rule_of(Risk.DANGEROUS, group="apps"), False),
        (rule_of(Risk.DANGEROUS, actions=("prune",)), False),
        (rule_of(Risk.SAFE), False),
    ],
)
def test_a_users_rule_raises_what_it_matches_and_lowers_nothing(rule, raised):
    change = classify(update(config(), config(key="new"), "/data/key"), [rule])
    assert change.risk is (Risk.DANGEROUS if raised else Risk.MODERATE)
    assert ("spec.risk.rules[0]" in change.reason) is raised


def test_a_users_rule_on_a_path_matches_creating_the_whole_object():
    assert classify(create(config()), [rule_of(Risk.DANGEROUS, changed=("/data",))]).risk is Risk.DANGEROUS


@given(st.lists(st.sampled_from([change for _, change in CASES]), max_size=6), st.sampled_from([c for _, c in CASES]))
def test_more_steps_never_lower_the_class(changes, another):
    steps = [classify(change) for change in changes]
    assert plan_risk([*steps, classify(another)], 3).level >= plan_risk(steps, 3).level


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        (AGENT, CHECKED),
        (AGENT, with_(AGENT, "spec.contract", {"lock": {"name": "l", "key": "k"}, "onContractDrift": "Report"})),
        (CHECKED, with_(CHECKED, "spec.contract.onContractDrift", "Stop")),
        (CHECKED, with_(CHECKED, "spec.evaluation.passPercent", 95)),
        (CHECKED, with_(with_(CHECKED, "spec.evaluation.samples", 20), "spec.evaluation.samplePercent", 80)),
    ],
    ids=["both are new", "a report is new", "a stop", "a higher share", "more answers"],
)
def test_more_checks_of_an_agent_are_not_weaker(live: Manifest, desired: Manifest) -> None:
    assert checks_weakened(update(live, desired)) is None


def test_absent_values_need_no_owner():
    assert FieldDifference("p", "/p", Difference.GONE).desired is ABSENT
