"""Causes of a real API server (1.36) that generated requests showed the sandbox did not have."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from tests.sandbox.kinds.factories import Manifest, created, of, pod_spec, refused, refused_change, workload

INVALID, DUPLICATE, REQUIRED = "Invalid value", "Duplicate value", "Required value"
UNSUPPORTED, FORBIDDEN = "Unsupported value", "Forbidden"
SPEC = "spec.template.spec"


def endpoints(**address: Any) -> Manifest:
    return of("v1", "Endpoints", subsets=[{"addresses": [{"ip": "10.1.2.3", **address}], "ports": [{"port": 80}]}])


def endpoint_slice(port: Manifest | None = None, **endpoint: Any) -> Manifest:
    item = {"addresses": ["10.1.2.3"], **endpoint}
    ports = [{"name": "a", "port": 80, **(port or {})}]
    return of("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[item], ports=ports)


def runtime_class(*tolerations: Manifest) -> Manifest:
    return of("node.k8s.io/v1", "RuntimeClass", handler="h", scheduling={"tolerations": list(tolerations)})


def deployment(**members: Any) -> Manifest:
    return workload("Deployment", {**pod_spec(), **members})


def spread(**members: Any) -> Manifest:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **members}


def job(policy: str) -> Manifest:
    return of("batch/v1", "Job", spec={"template": {"spec": {**pod_spec(), "restartPolicy": policy}}})


def ingress(backend: Manifest) -> Manifest:
    return of("networking.k8s.io/v1", "Ingress", spec={"defaultBackend": backend})


def ingress_class(**parameters: Any) -> Manifest:
    spec = {"controller": "example.com/x", "parameters": {"kind": "K", "name": "n", **parameters}}
    return of("networking.k8s.io/v1", "IngressClass", spec=spec)


def storage_class(*expressions: Manifest) -> Manifest:
    topologies = [{"matchLabelExpressions": list(expressions)}]
    return of("storage.k8s.io/v1", "StorageClass", provisioner="a.b", allowedTopologies=topologies)


def driver(*requests: Manifest) -> Manifest:
    return of("storage.k8s.io/v1", "CSIDriver", spec={"tokenRequests": list(requests)})


def limit_range(kind: str, name: str) -> Manifest:
    return of("v1", "LimitRange", spec={"limits": [{"type": kind, "max": {name: "1"}}]})


def binding(**members: Any) -> Manifest:
    spec = {"policyName": "p", "validationActions": ["Audit"], **members}
    return of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", spec=spec)


def policy(**param_kind: Any) -> Manifest:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    whole = {**spec, "paramKind": {"apiVersion": "v1", "kind": "ConfigMap", **param_kind}}
    return of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", spec=whole)


def event(**members: Any) -> Manifest:
    about = {"kind": "Pod", "name": "x", "namespace": "ns"}
    names = {"reportingController": "a.b/c", "reportingInstance": "i", "action": "Do", "reason": "Test"}
    time = "2024-01-01T00:00:00.000000Z"
    whole = {"eventTime": time, "regarding": about, "type": "Normal", **names, **members}
    return {**of("events.k8s.io/v1", "Event", **whole), "metadata": {"name": "x", "namespace": "ns"}}


def metric(**members: Any) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": 50}
    whole = {"type": "Resource", "resource": {"name": "cpu", "target": target}, **members}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": reference, "maxReplicas": 5, "metrics": [whole]}
    return of("autoscaling/v2", "HorizontalPodAutoscaler", spec=spec)


def hook(**members: Any) -> Manifest:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    client = {"service": {"name": "s", "namespace": "n"}}
    whole = {"name": "a.b.c", "sideEffects": "None", "rules": [rule], "clientConfig": client, **members}
    whole.setdefault("admissionReviewVersions", ["v1"])
    return of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[whole])


@pytest.mark.parametrize(
    ("manifest", "causes"),
    [
        (endpoints(hostname="Bad_Value!"), [("subsets[0].addresses[0].hostname", INVALID)]),
        (endpoints(nodeName="-1"), [("subsets[0].addresses[0].nodeName", INVALID)]),
        (endpoints(ip="127.0.0.1"), [("subsets[0].addresses[0].ip", INVALID)]),
        (endpoints(ip="x"), [("subsets[0].addresses[0].ip", INVALID)] * 2),
        (endpoint_slice(hostname="Bad_Value!"), [("endpoints[0].hostname", INVALID)]),
        (endpoint_slice(nodeName="-1"), [("endpoints[0].nodeName", INVALID)]),
        (
            endpoint_slice(addresses=["::1"]),
            [("endpoints[0].addresses", INVALID), ("endpoints[0].addresses[0]", INVALID)],
        ),
        (endpoint_slice(hints={"forZones": [{"name": "a"}] * 2}), [("endpoints[0].hints.forZones[1].name", DUPLICATE)]),
        (endpoint_slice({"appProtocol": "*"}), [("ports[0].appProtocol", INVALID)]),
        (endpoint_slice({"port": 70000}), []),
        (
            runtime_class({"key": "k", "value": "v"}, {"key": "k", "value": "v"}),
            [("scheduling.tolerations[1]", DUPLICATE)],
        ),
        (runtime_class({"key": "k", "value": "v"}, {"key": "k", "value": "w"}), []),
        (deployment(schedulingGates=[{"name": "*"}]), [(f"{SPEC}.schedulingGates[0]", INVALID)]),
        (deployment(readinessGates=[{"conditionType": "*"}]), [(f"{SPEC}.readinessGates[0].conditionType", INVALID)]),
        (
            deployment(resourceClaims=[{}]),
            [(f"{SPEC}.resourceClaims[0].name", REQUIRED), (f"{SPEC}.resourceClaims[0]", INVALID)],
        ),
        (deployment(terminationGracePeriodSeconds=-1), []),
        (deployment(imagePullSecrets=[{}]), []),
        (workload("Deployment", pod_spec(ports=[{"containerPort": 80, "hostIP": "a"}])), []),
        (
            deployment(topologySpreadConstraints=[spread(), spread()]),
            [(f"{SPEC}.topologySpreadConstraints[0].{{topologyKey, whenUnsatisfiable}}", DUPLICATE)],
        ),
        (
            deployment(topologySpreadConstraints=[spread(whenUnsatisfiable="ScheduleAnyway", minDomains=1)]),
            [(f"{SPEC}.topologySpreadConstraints[0].minDomains", INVALID)],
        ),
        (
            deployment(topologySpreadConstraints=[spread(matchLabelKeys=["a"])]),
            [(f"{SPEC}.topologySpreadConstraints[0].matchLabelKeys", FORBIDDEN)],
        ),
        (job("other"), [(f"{SPEC}.restartPolicy", UNSUPPORTED)] * 2),
        (job("Always"), [(f"{SPEC}.restartPolicy", REQUIRED)]),
        (ingress({}), [("spec.defaultBackend", INVALID)]),
        (ingress({"resource": {"kind": "a/b", "name": "n"}}), [("spec.defaultBackend.resource.kind", INVALID)]),
        (ingress_class(apiGroup="@daily"), [("spec.parameters.apiGroup", INVALID)]),
        (storage_class(), [("allowedTopologies[0].matchLabelExpressions", DUPLICATE)]),
        (driver({"audience": "a", "expirationSeconds": 0}), [("spec.tokenRequests[0].expirationSeconds", INVALID)]),
        (driver({"audience": "a"}, {"audience": "a"}), [("spec.tokenRequests[1].audience", DUPLICATE)]),
        (
            limit_range("Container", "other"),  # the maximum is the default, too
            [
                (f"spec.limits[0].{member}[other]", INVALID)
                for member in ("max", "default", "defaultRequest")
                for _ in "ab"
            ],
        ),
        (limit_range("PersistentVolumeClaim", "storage"), []),
        (binding(policyName="-1"), [("spec.policyName", INVALID)]),
        (binding(validationActions=["Warn", "Audit", "Audit"]), [("spec.validationActions[2]", DUPLICATE)]),
        (
            binding(paramRef={"parameterNotFoundAction": "x"}),
            [("spec.paramRef", REQUIRED), ("spec.paramRef.parameterNotFoundAction", UNSUPPORTED)],
        ),
        (event(), []),
        (event(reason="x" * 129), [("reason", INVALID)]),
        (event(series={"count": 1}), [("series.count", INVALID), ("series.lastObservedTime", REQUIRED)]),
        (event(deprecatedCount=1, type="Odd"), [("type", INVALID), ("count", INVALID)]),
        (metric(type="Odd"), [("spec.metrics[0].type", UNSUPPORTED)] * 2),
        (metric(type="Pods"), [("spec.metrics[0].pods", REQUIRED)]),
        (
            metric(pods={"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}),
            [("spec.metrics[0].pods", FORBIDDEN)],
        ),
        (policy(apiVersion="None"), [("spec.paramKind.apiVersion", INVALID)]),
        (
            policy(apiVersion="a/b/c", kind=""),
            [("spec.paramKind.apiVersion", INVALID), ("spec.paramKind.kind", REQUIRED)],
        ),
        (policy(kind="A_b"), [("spec.paramKind.kind", INVALID)]),
        (hook(admissionReviewVersions=["v1", ""]), [("webhooks[0].admissionReviewVersions[1]", INVALID)]),
        (
            hook(matchConditions=[{"name": "c", "expression": "true"}] * 2),
            [("webhooks[0].matchConditions[1].name", DUPLICATE)],
        ),
        (
            hook(clientConfig={"service": {"name": "s", "namespace": "n", "port": 0}}),
            [("webhooks[0].clientConfig.service.port", INVALID)],
        ),
    ],
)
def test_a_new_object_has_the_causes_of_a_real_server(manifest: Manifest, causes: list[tuple[str, str]]) -> None:
    assert [(field, message.partition(":")[0]) for field, message in refused(manifest)] == causes


@pytest.mark.parametrize(
    ("api_version", "kind", "before", "after", "fields"),
    [
        ("apps/v1", "DaemonSet", {}, {"numberReady": -1}, ["numberReady"]),
        ("apps/v1", "Deployment", {"collisionCount": 2}, {"collisionCount": 1}, ["collisionCount"]),
        ("apps/v1", "Deployment", {}, {"collisionCount": -1}, ["collisionCount"]),
        ("apps/v1", "ReplicaSet", {}, {"fullyLabeledReplicas": 1}, ["fullyLabeledReplicas"]),
        ("apps/v1", "StatefulSet", {}, {"replicas": 2, "currentReplicas": 3}, ["currentReplicas"]),
        ("autoscaling/v2", "HorizontalPodAutoscaler", {}, {"desiredReplicas": -1}, ["desiredReplicas"]),
        ("policy/v1", "PodDisruptionBudget", {}, {"expectedPods": -1}, ["expectedPods"]),
        ("batch/v1", "Job", {}, {"ready": 1}, ["ready"]),
        ("batch/v1", "Job", {}, {"failed": -1}, ["failed"]),
    ],
)
def test_counts_of_a_status_are_checked(
    api_version: str, kind: str, before: Manifest, after: Manifest, fields: list[str]
) -> None:
    group, _, version = api_version.rpartition("/")
    old, new = (of(api_version, kind, spec={}, status=status) for status in (before, after))
    causes = strategy_for(group, version, kind).validate(new, old, "status")
    assert [cause.field for cause in causes] == [f"status.{field}" for field in fields]


def test_unchanged_endpoints_are_valid_whatever_they_are() -> None:
    strategy = strategy_for("", "v1", "Endpoints")
    old = strategy.default(endpoints(hostname="Bad_Value!"))
    old["metadata"]["namespace"] = "ns"
    assert not strategy.validate({**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old, "")


def test_the_affinity_of_a_volume_is_immutable() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "hostPath": {"path": "/x"}}
    volume = of("v1", "PersistentVolume", spec={**spec, "nodeAffinity": affinity})
    causes = refused_change(volume, "spec", "nodeAffinity", value={"required": {"nodeSelectorTerms": [term, term]}})
    assert [field for field, _ in causes] == ["nodeAffinity"]


def test_numbers_of_a_merged_object_wrap_around_as_a_cast_does() -> None:
    strategy = strategy_for("apps", "v1", "Deployment")
    large = workload("Deployment", minReadySeconds=2**31)
    assert strategy.default(large, merged=True)["spec"]["minReadySeconds"] == -(2**31)
    small = strategy.default(workload("Deployment", minReadySeconds=-5), merged=True)
    assert small["spec"]["minReadySeconds"] == -5


def test_a_service_keeps_its_families_when_an_update_names_none() -> None:
    headless = of("v1", "Service", spec={"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]})
    old = created(headless)
    bare = {**headless, "spec": {"ports": [{"port": 80}]}}
    strategy = strategy_for("", "v1", "Service")
    new = strategy.prepare(strategy.default(bare), old, "", None)  # type: ignore[arg-type]
    assert new["spec"]["ipFamilyPolicy"] == "SingleStack"
    assert new["spec"]["ipFamilies"] == ["IPv4"]


def test_empty_lists_of_an_endpoint_slice_are_null() -> None:
    empty = created(of("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[]))
    assert (empty["endpoints"], empty["ports"]) == (None, None)


def test_an_empty_name_of_a_secret_is_left_out() -> None:
    account = of("v1", "ServiceAccount", imagePullSecrets=[{}])
    assert created(account)["imagePullSecrets"] == [{}]
