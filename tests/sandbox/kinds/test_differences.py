"""Causes of a real API server (1.36) that generated requests showed the sandbox did not have."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from tests.sandbox.kinds.factories import Manifest, created, of, pod_spec, refused, refused_change, workload
from tests.sandbox.kinds.recordings import Allocator

INVALID, DUPLICATE, REQUIRED = "Invalid value", "Duplicate value", "Required value"
UNSUPPORTED, FORBIDDEN, TOO_LONG = "Unsupported value", "Forbidden", "Too long"
SPEC = "spec.template.spec"
NO_VERSION = {"apiVersion": "None", "fieldPath": "metadata.name"}
MOUNT = {"name": "v", "mountPath": "/v", "recursiveReadOnly": "v1"}


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


def claim(**members: Any) -> Manifest:
    resources = {"requests": {"storage": "1"}}
    return of("v1", "PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "resources": resources, **members})


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


def policy_with(**members: Any) -> Manifest:
    whole = policy()
    return {**whole, "spec": {**whole["spec"], **members}}


def cluster_binding(subject: Manifest) -> Manifest:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    return of("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", roleRef=role, subjects=[subject])


def controller_of_class(controller: str) -> Manifest:
    return of("networking.k8s.io/v1", "IngressClass", spec={"controller": controller})


def stateful_set(storage: str = "1", **metadata: str) -> Manifest:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return workload("StatefulSet", volumeClaimTemplates=[{"metadata": metadata, "spec": spec}])


def indexed(**success: Any) -> Manifest:
    template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
    spec = {"template": template, "completions": 4, "completionMode": "Indexed", "successPolicy": success}
    return of("batch/v1", "Job", spec=spec)


def quota(**members: Any) -> Manifest:
    return of("v1", "ResourceQuota", spec={"hard": {"count/jobs.batch": "1"}, **members})


def service(**members: Any) -> Manifest:
    return of("v1", "Service", spec={"ports": [{"port": 80}], **members})


def external_name(**members: Any) -> Manifest:
    return of("v1", "Service", spec={"type": "ExternalName", "externalName": "a.b", **members})


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
            hook(matchConditions=[{}]),
            [
                ("webhooks[0].matchConditions[0].expression", REQUIRED),
                ("webhooks[0].matchConditions[0].name", REQUIRED),
            ],
        ),
        (
            hook(matchConditions=[{"name": "c", "expression": "other"}]),
            [("webhooks[0].matchConditions[0].expression", INVALID)],
        ),
        (
            hook(clientConfig={"service": {"name": "s", "namespace": "n", "port": 1, "path": "a//b"}}),
            [("webhooks[0].clientConfig.service.path", INVALID)] * 3,
        ),
        (policy_with(variables=[{"name": "a-b", "expression": "1"}]), [("spec.variables[0].name", INVALID)]),
        (
            policy_with(auditAnnotations=[{"key": "A b"}]),
            [("spec.auditAnnotations[0].key", INVALID), ("spec.auditAnnotations[0].valueExpression", REQUIRED)],
        ),
        (
            policy_with(auditAnnotations=[{"key": "k", "valueExpression": "'a'"}] * 2),
            [("spec.auditAnnotations[1].key", DUPLICATE)],
        ),
        (
            hook(clientConfig={"service": {"name": "s", "port": 1}}),
            [("webhooks[0].clientConfig.service.name", REQUIRED)],
        ),
        (
            of("networking.k8s.io/v1", "Ingress", spec={**ingress({})["spec"], "tls": [{"secretName": "-1"}]}),
            [("spec.defaultBackend", INVALID), ("spec.tls[0].secretName", INVALID)],
        ),
        (cluster_binding({"kind": "Group", "name": "g", "namespace": "a"}), []),
        (cluster_binding({"kind": "ServiceAccount", "name": "g"}), [("subjects[0].namespace", REQUIRED)]),
        (
            of("storage.k8s.io/v1", "CSIDriver", spec={"serviceAccountTokenInSecrets": False}),
            [("spec.serviceAccountTokenInSecrets", INVALID)],
        ),
        (
            of("storage.k8s.io/v1", "CSIDriver", spec={"nodeAllocatableUpdatePeriodSeconds": 9}),
            [("spec.nodeAllocatableUpdatePeriodSeconds", INVALID)],
        ),
        (controller_of_class("x" * 251), [("spec.controller", TOO_LONG), ("spec.controller", INVALID)]),
        (controller_of_class("A.b/c d"), [("spec.controller", INVALID)] * 2),
        (controller_of_class(""), [("spec.controller", REQUIRED)]),
        (of("storage.k8s.io/v1", "CSIStorageCapacity", storageClassName="s", maximumVolumeSize="-1"), []),
        (of("apps/v1", "ControllerRevision", revision=-1, data={}), [("revision", INVALID)]),
        (of("scheduling.k8s.io/v1", "PriorityClass", value=1, preemptionPolicy=""), [("preemptionPolicy", REQUIRED)]),
        (
            of("node.k8s.io/v1", "RuntimeClass", handler="h", overhead={"podFixed": {"odd": "1"}}),
            [("overhead.limits[odd]", INVALID)] * 2,
        ),
        (deployment(overhead={"cpu": "-1"}), [(f"{SPEC}.overhead.limits[cpu]", INVALID)]),
        (
            deployment(securityContext={"sysctls": [{"name": ""}, {"name": "A"}, {"name": "a.b"}, {"name": "a.b"}]}),
            [
                (f"{SPEC}.securityContext.sysctls[{index}].name", kind)
                for index, kind in ((0, REQUIRED), (1, INVALID), (3, DUPLICATE))
            ],
        ),
        (
            deployment(securityContext={"appArmorProfile": {"type": "Localhost"}}),
            [(f"{SPEC}.securityContext.appArmorProfile.localhostProfile", REQUIRED)],
        ),
        (
            workload("Deployment", pod_spec(securityContext={"appArmorProfile": {"type": "Odd"}})),
            [(f"{SPEC}.containers[0].securityContext.appArmorProfile.type", UNSUPPORTED)],
        ),
        (
            workload("Deployment", pod_spec(resources={"claims": [{"name": "a"}, {"name": "a", "request": "r"}, {}]})),
            [
                (f"{SPEC}.containers[0].resources.claims[{index}]", kind)
                for index, kind in ((0, "Not found"), (1, DUPLICATE), (1, "Not found"), (2, REQUIRED))
            ],
        ),
        (
            workload("Deployment", pod_spec(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "Odd"}, {}])),
            [
                (f"{SPEC}.containers[0].resizePolicy", UNSUPPORTED),
                (f"{SPEC}.containers[0].resizePolicy", REQUIRED),
                (f"{SPEC}.containers[0].resizePolicy", REQUIRED),
            ],
        ),
        (stateful_set(name="Bad_Value!"), [(f"{SPEC}.volumes[0].name", INVALID)]),
        (
            stateful_set(),
            [(f"{SPEC}.volumes[0].persistentVolumeClaim.claimName", REQUIRED), (f"{SPEC}.volumes[0].name", REQUIRED)],
        ),
        (stateful_set("-1", name="d"), [("spec.volumeClaimTemplates[0].spec.resources[storage]", INVALID)]),
        (workload("StatefulSet", revisionHistoryLimit=-1), []),
        (indexed(rules=[]), [("spec.successPolicy.rules", REQUIRED)]),
        (indexed(rules=[{}]), [("spec.successPolicy.rules[0]", REQUIRED)]),
        (indexed(rules=[{"succeededIndexes": "0,2-3", "succeededCount": 3}]), []),
        (
            indexed(rules=[{"succeededIndexes": "0-9", "succeededCount": 5}]),
            [
                ("spec.successPolicy.rules[0].succeededIndexes", INVALID),
                ("spec.successPolicy.rules[0].succeededCount", INVALID),
                ("spec.successPolicy.rules[0].succeededCount", INVALID),
            ],
        ),
        (quota(scopes=["a", "b"]), [("spec.scopes", INVALID)] * 2),
        (
            quota(scopeSelector={"matchExpressions": [{"scopeName": "BestEffort", "operator": "In"}]}),
            [
                ("spec.scopeSelector.matchExpressions.operator", INVALID),
                ("spec.scopeSelector.matchExpressions.values", REQUIRED),
            ],
        ),
        (
            quota(scopeSelector={"matchExpressions": [{"scopeName": "Odd"}]}),
            [
                ("spec.scopeSelector.matchExpressions.scopeName", INVALID),
                ("spec.scopeSelector.matchExpressions.operator", INVALID),
            ],
        ),
        (external_name(clusterIPs=["10.0.0.0/8", ""]), [("spec.clusterIPs", FORBIDDEN)]),
        (service(trafficDistribution="a"), [("spec.trafficDistribution", UNSUPPORTED)]),
        (
            service(loadBalancerSourceRanges=["a"]),
            [("spec.LoadBalancerSourceRanges", FORBIDDEN), ("spec.LoadBalancerSourceRanges[0]", INVALID)],
        ),
        (service(clusterIPs=["None", "10.96.0.9"], clusterIP="None", type="Odd"), [("spec.clusterIPs", INVALID)]),
        (
            workload("StatefulSet", template={"metadata": {"labels": {"app": "x", "b": "?"}}, "spec": pod_spec()}),
            [("spec.template.labels", INVALID)] * 2,
        ),
        (claim(dataSource={"kind": "VolumeSnapshot", "name": "x", "apiGroup": "snapshot.storage.k8s.io"}), []),
        (claim(dataSourceRef={"kind": "Odd", "name": "x"}), [("spec.dataSourceRef", INVALID)]),
        (of("storage.k8s.io/v1", "VolumeAttributesClass", driverName="x" * 64, parameters={"a": "b"}), []),
        (
            of("batch/v1", "Job", spec={**indexed(rules=[{"succeededCount": 1}])["spec"], "managedBy": "@daily"}),
            [("spec.managedBy", INVALID)],
        ),
        (
            workload("Deployment", pod_spec(env=[{"name": "A", "valueFrom": {"fieldRef": NO_VERSION}}])),
            [(f"{SPEC}.containers[0].env[0].valueFrom.fieldRef.fieldPath", INVALID)],
        ),
        (
            workload("Deployment", {**pod_spec(volumeMounts=[MOUNT]), "volumes": [{"name": "v", "emptyDir": {}}]}),
            [(f"{SPEC}.containers[0].volumeMounts.recursiveReadOnly", UNSUPPORTED)],
        ),
        (external_name(internalTrafficPolicy=""), [("spec.internalTrafficPolicy", UNSUPPORTED)]),
        (
            metric(
                type="Object",
                object={"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}},
                resource=None,
            ),
            [
                ("spec.metrics[0].object.describedObject.kind", REQUIRED),
                ("spec.metrics[0].object.describedObject.name", REQUIRED),
            ],
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
        ("batch/v1", "Job", {}, {"failed": -1}, ["failed", "failed"]),
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


@pytest.mark.parametrize(
    ("manifest", "path", "value"),
    [
        (
            workload("StatefulSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 1}}),
            "spec.updateStrategy.rollingUpdate.maxUnavailable",
            None,
        ),
        (of("v1", "ServiceAccount", secrets=[{"name": "s", "kind": "Odd"}]), "secrets", [{"name": "s"}]),
        (of("coordination.k8s.io/v1", "Lease", spec={"strategy": "OldestEmulationVersion"}), "spec.strategy", None),
        (claim(dataSource={"kind": "Odd", "name": "x"}), "spec.dataSource", None),
        (endpoint_slice(deprecatedTopology={"a": "b"}), "endpoints", [{"addresses": ["10.1.2.3"], "conditions": {}}]),
        (
            of("storage.k8s.io/v1", "CSIDriver", spec={"preventPodSchedulingIfMissing": True}),
            "spec.preventPodSchedulingIfMissing",
            None,
        ),
        (
            of("autoscaling/v1", "HorizontalPodAutoscaler", spec={"maxReplicas": 3}),
            "spec.targetCPUUtilizationPercentage",
            80,
        ),
        (of("v1", "Secret", data={"a": [], "b": [1, 2, None]}), "data", {"a": "", "b": "AQIA"}),
        (
            of("v1", "PodTemplate", template={"spec": pod_spec(image="x" * 300)}),
            "template.spec.containers.0.imagePullPolicy",
            "IfNotPresent",
        ),
    ],
)
def test_a_new_object_is_stored_as_by_a_real_server(manifest: Manifest, path: str, value: Any) -> None:
    found: Any = created(manifest)
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else (found or {}).get(part)
    assert found == value


def test_labels_that_a_job_generated_are_required() -> None:
    causes = refused_change(job("Never"), "spec", "template", "metadata", "labels", value=None)
    expected = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
    required = [field for field, message in causes if message.startswith(REQUIRED)]
    assert required == [f"spec.template.metadata.labels[{key}]" for key in expected]


@pytest.mark.parametrize(
    ("annotations", "count"), [({"deprecated.daemonset.template.generation": "7"}, "1"), ({}, "1")]
)
def test_templates_of_a_daemon_set_are_counted_whatever_a_body_says(annotations: Manifest, count: str) -> None:
    old = created(workload("DaemonSet"))
    strategy = strategy_for("apps", "v1", "DaemonSet")
    body = {**workload("DaemonSet"), "metadata": {"name": "x", "annotations": annotations}}
    decoded = strategy.default(body)
    assert decoded["metadata"]["annotations"] == (annotations or {"deprecated.daemonset.template.generation": "0"})
    for subresource in ("", "status"):
        stored = strategy.prepare(decoded, old, subresource, Allocator())
        stored = strategy.settle(stored, old, Allocator()) if subresource else stored
        assert stored["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == count


def test_empty_lists_of_an_endpoint_slice_are_null() -> None:
    empty = created(of("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[]))
    assert (empty["endpoints"], empty["ports"]) == (None, None)


def test_an_empty_name_of_a_secret_is_left_out() -> None:
    account = of("v1", "ServiceAccount", imagePullSecrets=[{}])
    assert created(account)["imagePullSecrets"] == [{}]
