"""Ways to a right or to data that rules by kind would miss: nested, new, by annotation, encoded, by adoption."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from gitsync.objects.change import Action, Change, Difference, FieldDifference
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.plan.risk.annotation_rules import REMOVES, SETS
from gitsync.plan.risk.table import Scope, classify
from gitsync.plan.tracking import marked
from tests.plan.factories import application

PINNED = {"name": "c", "image": "i@sha256:" + "0" * 64}
POD = {"containers": [PINNED]}
PRIVILEGED = {"containers": [{**PINNED, "securityContext": {"privileged": True}}]}
NESTED = [
    ("ray.io/v1", "RayCluster", lambda pod: {"headGroupSpec": {"template": {"spec": pod}}}),
    ("ray.io/v1", "RayService", lambda pod: {"rayClusterConfig": {"workerGroupSpecs": [{"template": {"spec": pod}}]}}),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", lambda pod: {"a": {"workerTemplate": {"spec": pod}}}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", lambda pod: {"jobs": [{"template": {"spec": {"template": {"spec": pod}}}}]}),
    ("agents.x-k8s.io/v1alpha1", "Sandbox", lambda pod: {"podTemplate": {"spec": pod}}),
    ("unknown.example/v1", "Anything", lambda pod: {"deep": [{"er": {"podSpec": pod}}]}),
    ("batch/v1", "CronJob", lambda pod: {"jobTemplate": {"spec": {"template": {"spec": pod}}}}),
    ("batch/v1", "Job", lambda pod: {"template": {"spec": pod}}),
    ("apps/v1", "DaemonSet", lambda pod: {"template": {"spec": pod}}),
    ("apps/v1", "Deployment", lambda pod: {"template": {"spec": pod}}),
    ("apps/v1", "ReplicaSet", lambda pod: {"template": {"spec": pod}}),
    ("apps/v1", "StatefulSet", lambda pod: {"template": {"spec": pod}}),
    ("v1", "ReplicationController", lambda pod: {"template": {"spec": pod}}),
    ("v1", "Pod", lambda pod: pod),
]


def manifest(api_version: str, kind: str, name: str = "x", **members: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **members}


def rule(desired: Manifest, live: Manifest | None = None, *others: Manifest) -> str:
    """Return the rule for a change in an Application that declares the object and others, which exist."""
    differences = () if live is None else (FieldDifference("/spec/x", "/spec/x", Difference.CHANGED),)
    action = Action.CREATE if live is None else Action.UPDATE
    declared = {ref_of(item): item for item in (desired, *others)}
    existing = {ref_of(item): item for item in (*others, *((live,) if live else ()))}
    change = Change(ref_of(desired), action, desired=desired, live=live, differences=differences)
    return classify(change, scope=Scope(application(), declared, existing)).rule


@pytest.mark.parametrize(("api_version", "kind", "spec"), NESTED, ids=[kind for _, kind, _ in NESTED])
def test_pods_are_judged_wherever_they_are(api_version: str, kind: str, spec: Any) -> None:
    harmless = manifest(api_version, kind, spec=spec(POD))
    privileged = manifest(api_version, kind, spec=spec(PRIVILEGED))
    as_another = manifest(api_version, kind, spec=spec({**POD, "serviceAccountName": "admin"}))

    assert rule(harmless) == "starts-workload"
    assert (rule(privileged), rule(privileged, harmless)) == ("widens-privileges", "widens-privileges")
    assert (rule(as_another), rule(as_another, harmless)) == ("borrows-account", "changes-account")
    assert rule(privileged, privileged) == "updates"


def test_a_privilege_that_moves_to_other_pods_is_new() -> None:
    def cluster(head: Any, worker: Any) -> Manifest:
        groups = {"headGroupSpec": {"template": {"spec": head}}, "worker": {"template": {"spec": worker}}}
        return manifest("ray.io/v1", "RayCluster", spec=groups)

    assert rule(cluster(POD, PRIVILEGED), cluster(PRIVILEGED, POD)) == "widens-privileges"


def test_an_account_that_others_made_is_not_the_applications_by_declaring_it() -> None:
    web = manifest("apps/v1", "Deployment", spec={"template": {"spec": {**POD, "serviceAccountName": "operator"}}})
    account = manifest("v1", "ServiceAccount", "operator")
    own = marked(application(), ref_of(account), account)

    assert rule(web, None, account) == "borrows-account"
    assert rule(web, None, own) == "starts-workload"


def container(**members: Any) -> Manifest:
    return {"containers": [{**PINNED, **members}]}


def volume(source: Manifest) -> Manifest:
    return {**POD, "volumes": [{"name": "v", **source}]}


READS_SECRET = [
    container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "bank-db", "key": "k"}}}]),
    container(envFrom=[{"secretRef": {"name": "bank-db"}}]),
    {**POD, "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "bank-db", "optional": True}}]}]},
    volume({"secret": {"secretName": "bank-db"}}),
    volume({"projected": {"sources": [{"secret": {"name": "bank-db"}}]}}),
    volume({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "bank-db"}}}),
    volume({"cephfs": {"secretRef": {"name": "bank-db"}}}),
]


@pytest.mark.parametrize("pod", READS_SECRET, ids=str)
@pytest.mark.parametrize(("api_version", "kind", "spec"), NESTED, ids=[kind for _, kind, _ in NESTED])
def test_pods_that_read_another_secret_ask(api_version: str, kind: str, spec: Any, pod: Manifest) -> None:
    reads = manifest(api_version, kind, spec=spec(pod))
    plain = manifest(api_version, kind, spec=spec(POD))
    own = applied_by_us(manifest("v1", "ConfigMap", "settings"))

    assert (rule(reads, None, own), rule(reads, applied_by_us(plain))) == ("reads-secret", "reads-secret")
    assert rule(reads, applied_by_us(reads)) == "updates"


def applied_by_us(item: Manifest) -> Manifest:
    return marked(application(), ref_of(item), item)


JOB = manifest("batch/v1", "Job", spec={"template": {"spec": volume({"secret": {"secretName": "bank-db"}})}})


def test_a_secret_is_the_applications_only_where_it_made_it() -> None:
    own = applied_by_us(manifest("v1", "ConfigMap", "settings"))
    secret = manifest("v1", "Secret", "bank-db")
    reader = manifest("apps/v1", "Deployment", "bank", spec=JOB["spec"])

    assert rule(JOB, None, own, applied_by_us(secret)) == "starts-workload"
    assert rule(JOB, None, own, applied_by_us(reader)) == "starts-workload"
    assert rule(JOB, None, own, secret) == "reads-secret"
    assert rule(JOB, None, own, reader) == "reads-secret"


def test_a_secret_of_another_namespace_is_another_one() -> None:
    elsewhere = manifest("v1", "Secret", "bank-db")
    elsewhere["metadata"]["namespace"] = "bank"

    assert rule(JOB, None, applied_by_us(elsewhere)) == "reads-secret"


def test_the_first_sync_asks_only_in_a_managed_application() -> None:
    change = Change(ref_of(JOB), Action.CREATE, desired=JOB)
    child = replace(application(), owner="gitsync/root")

    assert classify(change, scope=Scope(application(), {ref_of(JOB): JOB})).rule == "starts-workload"
    assert classify(change, scope=Scope(child, {ref_of(JOB): JOB})).rule == "reads-secret"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    with_namespace = Scope(application(), {ref_of(JOB): JOB}, {ref_of(namespace): namespace})
    assert classify(change, scope=with_namespace).rule == "starts-workload"


@pytest.mark.parametrize("holder", ["gitsync/shop", "gitsync/other", ""])
def test_a_commit_cannot_make_a_sync_the_first_one(holder: str) -> None:
    """Objects that are renamed all at once, that another Application took over, or that lost their marks."""
    former = manifest("v1", "ConfigMap", "former")
    if holder:
        path = ref_of(former).path
        former["metadata"]["annotations"] = {"gitsync.dev/tracking-id": f"{holder}:{path}"}
    change = Change(ref_of(JOB), Action.CREATE, desired=JOB)
    scope = Scope(application(), {ref_of(JOB): JOB}, {ref_of(former): former})

    assert classify(change, scope=scope).rule == "reads-secret"


def test_a_secret_that_only_the_platform_reads_does_not_ask() -> None:
    own = applied_by_us(manifest("v1", "ConfigMap", "settings"))
    pulls = manifest("apps/v1", "Deployment", spec={"template": {"spec": {**POD, "imagePullSecrets": [{"name": "r"}]}}})
    ingress = manifest("networking.k8s.io/v1", "Ingress", spec={"tls": [{"secretName": "tls"}]})

    assert [rule(item, None, own) for item in (pulls, ingress)] == ["starts-workload", "exposes"]


@pytest.mark.parametrize(
    "pod",
    [
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
        {"securityContext": {"seLinuxOptions": {"user": "system_u"}}},
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        {"nodeName": "control-plane"},
        {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
    ],
    ids=str,
)
def test_pods_that_leave_their_sandbox_ask(pod: dict[str, Any]) -> None:
    assert rule(manifest("apps/v1", "Deployment", spec={"template": {"spec": {**POD, **pod}}})) == "widens-privileges"


@pytest.mark.parametrize(
    "pod",
    [
        {"hostAliases": [{"ip": "203.0.113.9", "hostnames": ["models.corp"]}]},
        {"dnsConfig": {"nameservers": ["203.0.113.9"]}},
    ],
    ids=str,
)
def test_pods_that_resolve_names_otherwise_ask(pod: dict[str, Any]) -> None:
    plain = manifest("apps/v1", "Deployment", spec={"template": {"spec": POD}})
    other = manifest("apps/v1", "Deployment", spec={"template": {"spec": {**POD, **pod}}})

    assert (rule(other), rule(other, plain), rule(other, other)) == ("redirects-names", "redirects-names", "updates")


SERVICE = manifest("v1", "Service", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})


@pytest.mark.parametrize(
    "spec",
    [
        {"externalIPs": ["203.0.113.9"]},
        {"type": "ExternalName", "externalName": "evil.example"},
    ],
    ids=str,
)
def test_services_that_lead_elsewhere_ask(spec: dict[str, Any]) -> None:
    redirected = manifest("v1", "Service", spec={**SERVICE["spec"], **spec})

    assert (rule(redirected), rule(redirected, SERVICE)) == ("redirects-service", "redirects-service")
    assert rule(redirected, redirected) == "updates"


def test_wider_source_ranges_and_own_endpoints_ask() -> None:
    ranges = manifest("v1", "Service", spec={"loadBalancerSourceRanges": ["10.0.0.0/8"]})
    wider = manifest("v1", "Service", spec={"loadBalancerSourceRanges": ["0.0.0.0/0"]})
    endpoints = manifest("discovery.k8s.io/v1", "EndpointSlice", endpoints=[{"addresses": ["10.0.0.1"]}])
    moved = manifest("discovery.k8s.io/v1", "EndpointSlice", endpoints=[{"addresses": ["10.0.0.2"]}])

    assert rule(wider, ranges) == rule(SERVICE, ranges) == "redirects-service"
    assert rule(endpoints) == rule(moved, endpoints) == "redirects-service"
    assert rule(manifest("v1", "Endpoints", subsets=[])) == "redirects-service"
    assert rule(endpoints, endpoints) == "updates"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"ingress": [{}]}, "opens-network-fully"),
        ({"egress": [{"to": []}]}, "opens-network-fully"),
        ({"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}, "opens-network-fully"),
        ({"ingress": [{"from": [{"namespaceSelector": {}}]}]}, "opens-network-fully"),
        ({"egress": [{"ports": [{"port": 53}]}]}, "creates"),
        ({"ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]}, "creates"),
        ({"podSelector": {}, "policyTypes": ["Ingress"]}, "creates"),
    ],
    ids=str,
)
def test_a_new_policy_that_allows_everything_asks(spec: dict[str, Any], expected: str) -> None:
    assert rule(manifest("networking.k8s.io/v1", "NetworkPolicy", spec=spec)) == expected


@pytest.mark.parametrize("row", SETS, ids=lambda row: row.pattern)
def test_an_annotation_that_is_set_asks(row: Any) -> None:
    name = row.pattern.replace("*", "x")
    plain = manifest("v1", "ServiceAccount")
    changed = {**plain, "metadata": {**plain["metadata"], "annotations": {name: "v"}}}
    template = {"metadata": {"annotations": {name: "v"}}, "spec": POD}
    nested = manifest("apps/v1", "Deployment", spec={"template": template})

    assert rule(changed) == rule(changed, plain) == rule(nested) == "annotation-acts"
    assert rule(changed, changed) == "updates"


@pytest.mark.parametrize("row", REMOVES, ids=lambda row: row.pattern)
def test_an_annotation_that_is_removed_asks(row: Any) -> None:
    plain = manifest("v1", "Service", spec={})
    changed = {**plain, "metadata": {**plain["metadata"], "annotations": {row.pattern.replace("*", "x"): "v"}}}

    assert rule(plain, changed) == "annotation-acts"


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("argoproj.io/v1alpha1", "Application", "acts-for-others"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "acts-for-others"),
        ("external-secrets.io/v1", "ExternalSecret", "reads-secret-store"),
        ("secrets-store.csi.x-k8s.io/v1", "SecretProviderClass", "reads-secret-store"),
    ],
)
def test_objects_of_other_controllers_ask(api_version: str, kind: str, expected: str) -> None:
    item = manifest(api_version, kind, spec={"a": 1})

    assert rule(item) == rule(item, manifest(api_version, kind, spec={"a": 2})) == expected
    assert rule(item, item) == "updates"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(("kind", "member"), [("ConfigMap", "binaryData"), ("Secret", "data")])
def test_an_endpoint_in_an_encoded_file_asks(kind: str, member: str) -> None:
    old, new = (
        manifest("v1", kind, **{member: {"app.yaml": encoded(f"base_url: {url}")}})
        for url in ("https://a", "https://b")
    )

    assert rule(new, old) == "endpoint-set"
    assert rule(manifest("v1", kind, **{member: {"f": "not base64"}}), old) == "updates"


def agent(name: str, endpoint: str, **runtime: Any) -> Manifest:
    model = {"provider": "OpenAI", "id": "m", "endpoint": endpoint}
    spec = {"model": model, "prompt": {"text": "x"}, "runtime": {"image": PINNED["image"], **runtime}}
    return manifest("agents.gitsync.dev/v1alpha1", "Agent", name, spec=spec)


def test_a_new_agent_or_member_with_another_endpoint_or_account_asks() -> None:
    known = agent("x", "https://models.corp/v1")
    foreign = agent("y", "https://models.corp/v1", serviceAccount={"create": False, "name": "operator"})
    system = manifest("agents.gitsync.dev/v1alpha1", "MultiAgentSystem", spec={"agents": [{"name": "a"}]})
    member = {"name": "b", "template": {"spec": agent("b", "https://evil.example")["spec"]}}
    larger = manifest("agents.gitsync.dev/v1alpha1", "MultiAgentSystem", spec={"agents": [{"name": "a"}, member]})

    assert rule(agent("y", "https://evil.example"), None, known) == "endpoint-introduced"
    assert rule(agent("y", "https://models.corp/v1"), None, known) == "starts-workload"
    assert rule(foreign) == "borrows-account"
    assert rule(larger, system) in ("endpoint-set", "agent-model-moved")


def web_with(variable: str, value: str, name: str = "web") -> Manifest:
    pod = {"containers": [{**PINNED, "env": [{"name": variable, "value": value}]}]}
    return manifest("apps/v1", "Deployment", name, spec={"template": {"spec": pod}})


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/v1",
        "HTTPS://EVIL.example.",
        " https://evil.example",
        "//evil.example",
        "evil.example:3128",
        "http:evil.example",
        "http://user:password@evil.example",
        "http://models.shop.svc@evil.example",
        "http://models.shop.svc.evil.example",
        "http://evil.example#.svc",
        "http://evil.example?.svc",
        "http://127.0.0.1.evil.example",
        "http://models,evil.example",
        "10.0.0.3:80",
        "http://3405803785",
        "http://0xcb007109",
        "http://[2001:db8::1]:80",
        "$(OTHER)",
    ],
)
def test_a_new_object_with_an_address_outside_the_cluster_asks(address: str) -> None:
    new = web_with("OPENAI_BASE_URL", address)
    other = manifest("v1", "ConfigMap", "other", data={"a": "b"})

    assert rule(new, None, other) == "endpoint-introduced"
    assert rule(new, None, other, web_with("OPENAI_BASE_URL", address, name="same")) == "starts-workload"
    assert rule(new) == "starts-workload"  # nothing exists that used another one
    assert rule(new, None, manifest("v1", "Namespace", "prod")) == "starts-workload"


@pytest.mark.parametrize(
    "container",
    [
        {"env": [{"name": "OPENAI_BASE_URL", "valueFrom": {"configMapKeyRef": {"name": "new", "key": "a"}}}]},
        {"env": [{"name": "HTTPS_PROXY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}}]},
        {"envFrom": [{"prefix": "OPENAI_BASE", "configMapRef": {"name": "new"}}]},
        {"args": ["--openai-base-url", "https://evil.example"]},
    ],
)
def test_a_new_object_that_takes_its_address_from_elsewhere_asks(container: Any) -> None:
    new = manifest("apps/v1", "Deployment", spec={"template": {"spec": {"containers": [{**PINNED, **container}]}}})

    assert rule(new, None, manifest("v1", "ConfigMap", "other", data={"a": "b"})) == "endpoint-introduced"


def test_a_new_object_that_takes_all_variables_of_a_source_asks_nothing() -> None:
    pod = {"containers": [{**PINNED, "envFrom": [{"configMapRef": {"name": "new"}}]}]}
    new = manifest("apps/v1", "Deployment", spec={"template": {"spec": pod}})

    # the source is judged itself
    assert rule(new, None, manifest("v1", "ConfigMap", "other", data={"a": "b"})) == "starts-workload"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", "http://models"),
        ("OPENAI_BASE_URL", "http://models:8000/v1?from=a.b"),
        ("OPENAI_BASE_URL", "http://models.shop.svc/v1"),
        ("OPENAI_BASE_URL", "http://models.shop.svc.cluster.local.:8000"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:11434"),
        ("OPENAI_BASE_URL", ""),
        ("MODEL_PROVIDER", "OpenAI"),
        ("NO_PROXY", "10.0.0.0/8,.corp.example"),
        ("OPENAI_API_KEY", "a.b_c"),
    ],
)
def test_a_new_object_that_sends_nothing_out_of_the_cluster_asks_nothing(name: str, value: str) -> None:
    other = manifest("v1", "ConfigMap", "other", data={"a": "b"})

    assert rule(web_with(name, value), None, other) == "starts-workload"


@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("kagent.dev/v1alpha2", "ModelConfig", lambda url: {"openAI": {"baseUrl": url}}),
        ("serving.kserve.io/v1alpha1", "LLMInferenceService", lambda url: {"model": {"endpoint": url}}),
        ("ark.mckinsey.com/v1alpha1", "Model", lambda url: {"config": {"openai": {"baseUrl": url}}}),
    ],
)
def test_the_endpoint_of_another_platform_asks(api_version: str, kind: str, spec: Any) -> None:
    old, new = (manifest(api_version, kind, spec=spec(url)) for url in ("https://a", "https://b"))

    assert rule(new, old) in ("endpoint-set", "agent-model-moved")


def test_claims_that_will_be_deleted_ask() -> None:
    kept = manifest("apps/v1", "StatefulSet", spec={"template": {"spec": POD}})
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    deleted = manifest(
        "apps/v1", "StatefulSet", spec={"template": {"spec": POD}, "persistentVolumeClaimRetentionPolicy": policy}
    )

    assert (rule(deleted, kept), rule(kept, deleted), rule(deleted)) == (
        "claims-deletable",
        "updates",
        "starts-workload",
    )


def test_a_commit_that_hides_fields_from_its_review_asks() -> None:
    web = manifest("apps/v1", "Deployment", spec={"template": {"spec": POD}})
    image = {"gitsync.dev/masked-fields": "/spec/template/spec/containers/*/image"}
    hidden = {**web, "metadata": {**web["metadata"], "annotations": image}}

    assert rule(hidden) == rule(hidden, web) == "hides-fields"
    assert rule(hidden, hidden) != "hides-fields"
    assert rule(web, hidden) != "hides-fields"
