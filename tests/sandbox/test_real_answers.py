"""Answers that a real 1.36.2 control plane gave to the same requests: one case for each rule."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.sandbox.http_client import APPLY, MERGE, Client

LABELS = "metadata.labels"
BAD_LABEL = {"metadata": {"labels": {"a": "b c"}}}


def causes(answer: Any) -> list[tuple[str, str]]:
    """Return field and reason of the causes."""
    return [(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in answer.json["details"]["causes"]]


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def deployments(api: Client) -> str:
    return api.namespace().replace("/api/v1", "/apis/apps/v1").replace("configmaps", "deployments")


@pytest.mark.parametrize(
    ("path", "resource", "stored"),
    [
        ("/api/v1", "configmaps", "/v1/ConfigMap"),
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "autoscaling/v2/HorizontalPodAutoscaler"),
        ("/apis/events.k8s.io/v1", "events", "/v1/Event"),
        (
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "apiextensions.k8s.io/v1beta1/CustomResourceDefinition",
        ),
    ],
)
def test_a_storage_version_hash_is_of_the_stored_version(api: Client, path: str, resource: str, stored: str) -> None:
    found = {entry["name"]: entry for entry in api.get(path).json["resources"]}
    wanted = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    assert found[resource]["storageVersionHash"] == wanted


def test_a_path_under_watch_watches(api: Client) -> None:
    path = api.namespace()
    api.create(path, "a")
    api.create(path, "b")
    watched = path.replace("/api/v1/", "/api/v1/watch/")
    for suffix, names in (("", ["a", "b"]), ("/b", ["b"])):
        with api.watch(f"{watched}{suffix}?timeoutSeconds=1") as watch:
            assert [event["object"]["metadata"]["name"] for event in watch.events()] == names


@pytest.mark.parametrize("query", ["limit=x", "timeoutSeconds=x"])
@pytest.mark.parametrize("verb", ["", "watch=1&"])
def test_numbers_are_checked_in_lists_and_watches(api: Client, verb: str, query: str) -> None:
    answer = api.get(f"/api/v1/configmaps?{verb}{query}")
    assert answer.status == 400
    assert answer.json["message"] == 'strconv.ParseInt: parsing "x": invalid syntax'


def test_apply_through_scale_conflicts_with_the_owner_of_the_replicas(api: Client) -> None:
    path = deployments(api)
    assert api.apply(f"{path}/d", workload("Deployment", "d", replicas=2), "a").status == 201
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}}
    refused = api.apply(f"{path}/d/scale", scale, "b")
    assert (refused.status, refused.json["message"]) == (
        409,
        'Apply failed with 1 conflict: conflict with "a": .spec.replicas',
    )
    assert api.apply(f"{path}/d/scale", scale, "b", "&force=true").json["spec"] == {"replicas": 3}
    owners = {
        (entry["manager"], entry.get("subresource", ""))
        for entry in api.get(f"{path}/d").json["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }
    assert owners == {("b", "scale")}
    wrong = api.apply(f"{path}/d/scale", {**scale, "spec": {"replicas": "x"}}, "b")
    assert wrong.status == 500
    assert "Kind=Scale): .spec.replicas: expected numeric" in wrong.json["message"]


def test_an_access_review_is_answered_with_its_managed_fields(api: Client) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answer = api.ask("POST", f"{path}?fieldManager=m", body).json
    (entry,) = answer["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("m", "Update")
    assert entry["fieldsV1"] == {"f:spec": {"f:resourceAttributes": {".": {}, "f:resource": {}, "f:verb": {}}}}
    assert answer["status"] == {"allowed": True}


@pytest.mark.parametrize(
    ("media", "status", "text"),
    [
        ("application/json", 400, 'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal'),
        (MERGE, 422, ' "" is invalid: patch: Invalid value: '),
        ("application/json-patch+json", 422, ' "" is invalid: patch: Invalid value: '),
        (APPLY, 500, "failed to create typed patch object ("),
    ],
)
def test_metadata_of_a_wrong_type_is_refused_like_any_value(api: Client, media: str, status: int, text: str) -> None:
    path = api.namespace()
    api.create(path, "c")
    body: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": "x"}}
    if media == "application/json-patch+json":
        body = [{"op": "add", "path": "/metadata/labels", "value": "x"}]
    method = "PUT" if media == "application/json" else "PATCH"
    answer = api.ask(method, f"{path}/c?fieldManager=m" if method == "PATCH" else f"{path}/c", body, Content_Type=media)
    assert answer.status == status
    assert answer.json["message"].startswith(text)


def test_bad_base64_is_refused_by_each_verb_in_its_way(api: Client) -> None:
    path = api.namespace().replace("configmaps", "secrets")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "***"}}
    assert api.ask("POST", path, secret).status == 400
    applied = api.apply(f"{path}/s", secret)
    assert applied.status == 500
    assert applied.json["message"].startswith("failed to convert new object (")


@pytest.mark.parametrize(
    ("resource", "body", "times"),
    [
        ("api/v1/namespaces/{ns}/configmaps", {}, 4),
        ("api/v1/namespaces/{ns}/services", {"spec": {"ports": [{"port": 80}]}}, 3),
        ("apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", {"spec": {"minAvailable": 1}}, 2),
    ],
)
def test_each_validation_of_the_metadata_reports_its_causes(
    api: Client, resource: str, body: dict[str, Any], times: int
) -> None:
    path = "/" + resource.format(ns=api.namespace().split("/")[4])
    assert api.ask("POST", path, {"metadata": {"name": "x"}, **body}).status == 201
    assert causes(api.merge(f"{path}/x", BAD_LABEL)) == [(LABELS, "Invalid")] * times


@pytest.mark.parametrize("path", ["apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"])
def test_an_update_that_must_name_a_version_is_refused_without(api: Client, path: str) -> None:
    path = "/" + path.format(ns=api.namespace().split("/")[4])
    body = {"metadata": {"name": "x"}, "spec": {"minAvailable": 1}}
    assert api.ask("POST", path, body).status == 201
    assert causes(api.ask("PUT", f"{path}/x", body)) == [("metadata.resourceVersion", "Invalid")]


def test_a_patch_of_an_unsupported_type_has_empty_details(api: Client) -> None:
    path = api.namespace()
    api.create(path, "c")
    answer = api.ask("PATCH", f"{path}/c", {}, Content_Type="text/plain")
    assert (answer.status, answer.json["message"], answer.json["details"]) == (415, "415: Unsupported Media Type", {})


def test_annotations_of_a_deployment_are_a_new_generation(api: Client) -> None:
    path = deployments(api)
    assert api.ask("POST", path, workload("Deployment", "d")).json["metadata"]["generation"] == 1
    assert api.merge(f"{path}/d", {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 1
    assert api.merge(f"{path}/d", {"metadata": {"annotations": {"a": "b"}}}).json["metadata"]["generation"] == 2


def test_a_selector_that_cannot_be_read_is_reported_instead_of_the_template(api: Client) -> None:
    path = deployments(api)
    bad = {"matchLabels": {"a": "c d"}}
    found = causes(api.ask("POST", path, workload("Deployment", "d", selector=bad)))
    assert found == [("spec.selector.matchLabels", "Invalid"), ("spec.selector", "Invalid")]
    found = causes(api.ask("POST", path, workload("Deployment", "d", strategy={"type": "Bad"})))
    assert found == [("spec.strategy", "NotSupported")]


def test_owner_references_are_reported_without_their_index(api: Client) -> None:
    owner = {"apiVersion": "a/b/c", "kind": "", "name": "n", "uid": "u"}
    answer = api.ask("POST", api.namespace(), {"metadata": {"name": "c", "ownerReferences": [owner]}})
    assert causes(answer) == [
        ("metadata.ownerReferences.apiVersion", "Invalid"),
        ("metadata.ownerReferences.kind", "Invalid"),
    ]


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        ({"tls.crt": "YQ==", "tls.key": "YQ=="}, "tls: failed to find any PEM data in certificate input"),
        (
            {"tls.crt": base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode(), "tls.key": "YQ=="},
            "tls: failed to find any PEM data in key input",
        ),
    ],
)
def test_a_tls_secret_without_pem_data_is_warned_about(api: Client, data: dict[str, str], warning: str) -> None:
    path = api.namespace().replace("configmaps", "secrets")
    answer = api.ask("POST", path, {"metadata": {"name": "s"}, "type": "kubernetes.io/tls", "data": data})
    assert answer.status == 201
    assert answer.headers["Warning"] == f'299 - "{warning}"'


def test_a_volume_attributes_class_is_protected_and_needs_parameters(api: Client) -> None:
    path = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    body = {"metadata": {"name": "v"}, "driverName": "d.example.com", "parameters": {"a": "b"}}
    assert api.ask("POST", path, body).json["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    body["parameters"] = {}
    assert causes(api.ask("POST", path, body)) == [("parameters", "Required")]


def test_a_kind_without_a_schema_has_its_metadata_checked(api: Client) -> None:
    body = {"metadata": {"name": "d", "labels": {"a": 1}}, "spec": {}}
    answer = api.ask("POST", "/apis/resource.k8s.io/v1/deviceclasses", body)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


def test_the_role_column_quotes_the_field_as_a_real_server_does(api: Client) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = api.get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?limit=1", Accept=table)
    role = next(column for column in answer.json["columnDefinitions"] if column["name"] == "Role")
    assert role["description"].endswith("the Authorizer must return an error.")


MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
TERM = {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://a.example.com"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"provisioner": "a.b", "allowedTopologies": [TERM, TERM]},
            [("allowedTopologies[1].matchLabelExpressions", "Duplicate")],
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "provisioner": "a.b",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["x", "x"]}, {"key": "a"}]}],
            },
            [
                ("allowedTopologies[0].matchLabelExpressions[0].values[1]", "Duplicate"),
                ("allowedTopologies[0].matchLabelExpressions[1].values", "Required"),
                ("allowedTopologies[0].matchLabelExpressions[1].key", "Duplicate"),
            ],
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
            {"storageClassName": "a", "capacity": "-1"},
            [("capacity", "Invalid")],
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"handler": "h", "scheduling": {"tolerations": [{"effect": "x"}]}},
            [("scheduling.tolerations[0].operator", "Invalid"), ("scheduling.tolerations[0].effect", "NotSupported")],
        ),
        (
            MUTATING,
            {"webhooks": [{**HOOK, "reinvocationPolicy": "x"}]},
            [("webhooks[0].reinvocationPolicy", "NotSupported")],
        ),
        (
            VALIDATING,
            {"webhooks": [{**HOOK, "objectSelector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}]},
            [("webhooks[0].objectSelector.matchExpressions[0].operator", "Invalid")],
        ),
        (
            VALIDATING,
            {
                "webhooks": [
                    {
                        **HOOK,
                        "rules": [{"apiGroups": [""], "apiVersions": [""], "operations": ["*"], "resources": [""]}],
                    }
                ]
            },
            [("webhooks[0].rules[0].apiVersions[0]", "Required"), ("webhooks[0].rules[0].resources[0]", "Required")],
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            {"spec": {"maxReplicas": 1, "scaleTargetRef": {**TARGET, "apiVersion": "v1"}}},
            [("spec.scaleTargetRef.apiVersion", "Invalid")],
        ),
    ],
)
def test_fields_of_rarer_kinds_are_checked(api: Client, path: str, body: dict[str, Any], found: Any) -> None:
    answer = api.ask("POST", f"{path}?dryRun=All", {"metadata": {"name": "x"}, **body})
    assert (answer.status, causes(answer)) == (422, found)


def test_an_event_cannot_be_changed(api: Client) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "R",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    assert api.ask("POST", path, body).status == 201
    answer = api.ask("PATCH", f"{path}/e", {"action": "Redo", "note": "n"}, Content_Type=MERGE)
    assert sorted(causes(answer)) == [("action", "Invalid"), ("message", "Invalid")]
    assert "group" not in answer.json["details"]


def test_only_changes_of_a_csi_driver_are_counted(api: Client) -> None:
    path = "/apis/storage.k8s.io/v1/csidrivers"
    made = api.ask("POST", path, {"metadata": {"name": "d.example.com"}, "spec": {}})
    assert "generation" not in made.json["metadata"]
    spec = {"spec": {"requiresRepublish": True}}
    changed = api.ask("PATCH", f"{path}/d.example.com", spec, Content_Type=MERGE)
    assert changed.json["metadata"]["generation"] == 1


@pytest.mark.parametrize(("replicas", "found"), [("x", "string"), (2**31, f"number {2**31}")])
def test_a_patched_scale_that_cannot_be_decoded_is_invalid(api: Client, replicas: Any, found: str) -> None:
    path = deployments(api)
    assert api.ask("POST", path, workload("Deployment", "d")).status == 201
    answer = api.ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": replicas}}, Content_Type=MERGE)
    assert (answer.status, causes(answer)) == (422, [("patch", "Invalid")])
    assert answer.json["message"].endswith(
        f"json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"
    )


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({}, [("action", "Required"), ("", "Invalid")]),
        (
            {"action": "x", "onPodConditions": [{"type": "Ready", "status": "x"}]},
            [("action", "NotSupported"), ("onPodConditions[0].status", "NotSupported")],
        ),
        ({"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1]}}, [("action", "Invalid")]),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "containerName": "z", "values": [2, 0, 2]}},
            [
                ("onExitCodes.containerName", "Invalid"),
                ("onExitCodes.values[1]", "Invalid"),
                ("onExitCodes.values[2]", "Duplicate"),
                ("onExitCodes.values", "Invalid"),
            ],
        ),
    ],
)
def test_the_failure_policy_of_a_job_is_checked(api: Client, rule: dict[str, Any], found: Any) -> None:
    path = api.namespace().replace("/api/v1", "/apis/batch/v1").replace("configmaps", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    body = {"metadata": {"name": "j"}, "spec": {"template": template, "podFailurePolicy": {"rules": [rule]}}}
    prefix = "spec.podFailurePolicy.rules[0]"
    answer = api.ask("POST", path, body)
    assert causes(answer) == [(f"{prefix}.{field}" if field else prefix, reason) for field, reason in found]


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([], [("spec.cidrs", "Required")]),
        (["x"], [("spec.cidrs[0]", "Invalid")]),
        (["10.99.0.1/24"], [("spec.cidrs[0]", "Invalid")]),
        (["10.98.0.0/24", "10.99.0.0/24"], [("spec.cidrs", "Invalid")]),
        (["a", "b", "c"], [("spec.cidrs", "Invalid")]),
    ],
)
def test_the_ranges_of_a_service_cidr_are_checked(api: Client, ranges: list[str], found: Any) -> None:
    path = "/apis/networking.k8s.io/v1/servicecidrs"
    assert causes(api.ask("POST", path, {"metadata": {"name": "s"}, "spec": {"cidrs": ranges}})) == found


def test_a_service_cidr_may_only_get_a_range_of_the_other_family(api: Client) -> None:
    path = "/apis/networking.k8s.io/v1/servicecidrs"
    made = api.ask("POST", path, {"metadata": {"name": "s"}, "spec": {"cidrs": ["10.99.0.0/24"]}}).json
    for ranges, found in (
        (["10.98.0.0/24"], "spec.cidrs[0]"),
        ([], "spec.cidrs"),
        (["10.98.0.0/24", "fd00::/64"], "spec.cidrs[0]"),
    ):
        answer = api.ask("PUT", f"{path}/s", {**made, "spec": {"cidrs": ranges}})
        assert causes(answer) == [(found, "Invalid")]
    answer = api.ask("PUT", f"{path}/s", {**made, "spec": {"cidrs": ["10.99.0.0/24", "fd00::/64"]}})
    assert answer.status == 200


def test_a_new_node_is_tainted_and_its_ranges_agree(api: Client) -> None:
    spec = {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.8.0.0/24"], "externalID": "x", "configSource": {}}
    made = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": spec})
    assert made.headers["Warning"].startswith('299 - "spec.externalID: this field is deprecated')
    assert made.json["spec"] == {
        "podCIDR": "10.9.0.0/24",
        "podCIDRs": ["10.9.0.0/24"],
        "externalID": "x",
        "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
    }
    answer = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "m"}, "spec": {"podCIDR": "x"}})
    assert causes(answer) == [("spec.podCIDRs[0]", "Invalid")]
    two = {"podCIDRs": ["10.8.0.0/24", "10.9.0.0/24"]}
    answer = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "m"}, "spec": two})
    assert causes(answer) == [("spec.podCIDRs", "Invalid")]


def test_a_class_of_load_balancers_is_refused_twice_in_an_update_of_another_service(api: Client) -> None:
    path = api.namespace().replace("configmaps", "services")
    made = api.ask("POST", path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).json
    body = {**made, "spec": {**made["spec"], "loadBalancerClass": "x"}}
    assert causes(api.ask("PUT", f"{path}/s", body)) == [("spec.loadBalancerClass", "Forbidden")] * 2


def test_a_deletion_that_waits_is_only_accepted_where_dependents_go_with_it(api: Client) -> None:
    path = api.namespace()
    body = {"metadata": {"name": "c", "finalizers": ["example.com/x"]}}
    assert api.ask("POST", path, body).status == 201
    dry = {"dryRun": ["All"]}
    assert api.ask("DELETE", f"{path}/c", {"orphanDependents": False, **dry}).status == 202
    assert api.ask("DELETE", f"{path}/c", dry).status == 200
    api.create(path, "d")
    assert api.ask("DELETE", f"{path}/d", {"orphanDependents": False}).status == 200


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"maxFailedIndexes": 1}, [("spec.backoffLimitPerIndex", "Required")]),
        ({"maxFailedIndexes": 3, "backoffLimitPerIndex": 1}, [("spec.maxFailedIndexes", "Invalid")]),
    ],
)
def test_the_limit_of_failed_indexes_is_checked(api: Client, spec: dict[str, Any], found: Any) -> None:
    path = api.namespace().replace("/api/v1", "/apis/batch/v1").replace("configmaps", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    indexed = {"completionMode": "Indexed", "completions": 2, "template": template}
    assert causes(api.ask("POST", path, {"metadata": {"name": "j"}, "spec": {**indexed, **spec}})) == found


def test_finished_pods_of_a_job_are_not_uncounted(api: Client) -> None:
    path = api.namespace().replace("/api/v1", "/apis/batch/v1").replace("configmaps", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    made = api.ask("POST", path, {"metadata": {"name": "j"}, "spec": {"template": template}})
    assert made.status == 201
    for count, status in ((2, 200), (1, 422)):
        patch = {"status": {"failed": count, "succeeded": count}}
        answer = api.ask("PATCH", f"{path}/j/status", patch, Content_Type=MERGE)
        assert answer.status == status
    assert causes(answer) == [("status.failed", "Invalid"), ("status.succeeded", "Invalid")]


@pytest.mark.parametrize(
    ("member", "found"),
    [
        ({"validations": [{"expression": "1"}]}, [("validations[0].expression", "Invalid")]),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            [("validations[0].messageExpression", "Invalid")],
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            [("auditAnnotations[0].valueExpression", "Invalid")],
        ),
        ({"matchConditions": [{"name": "c", "expression": "1"}]}, [("matchConditions[0].expression", "Invalid")]),
    ],
)
def test_an_expression_of_a_policy_has_a_type(api: Client, member: dict[str, Any], found: Any) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"validations": [{"expression": "object.x"}], "matchConstraints": {"resourceRules": [rule]}, **member}
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    answer = api.ask("POST", path, {"metadata": {"name": "p"}, "spec": spec})
    assert causes(answer) == [(f"spec.{field}", reason) for field, reason in found]


def definition(schema: Any = None, version: Any = None, **spec: Any) -> dict[str, Any]:
    properties = {
        "spec": {"type": "object", "properties": {"color": {"type": "string"}, "list": schema or {"type": "string"}}}
    }
    root = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    first = {"name": "v1", "served": True, "storage": True, "schema": root, **(version or {})}
    names = {"plural": "colors", "singular": "color", "kind": "Color", "listKind": "ColorList"}
    return {
        "metadata": {"name": "colors.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [first], **spec},
    }


LISTED = "spec.validation.openAPIV3Schema.properties[spec].properties[list]"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            definition(
                version={"selectableFields": [{"jsonPath": path} for path in (".spec.color", ".spec.x", "", ".spec")]}
            ),
            [
                (f"spec.selectableFields[{at}].jsonPath", why)
                for at, why in ((1, "Invalid"), (2, "Required"), (3, "Invalid"))
            ],
        ),
        (
            definition(version={"selectableFields": [{"jsonPath": ".metadata.name"}, {"jsonPath": ".metadata.name"}]}),
            [
                (f"spec.selectableFields[{at}].jsonPath", why)
                for at, why in ((0, "Invalid"), (1, "Invalid"), (1, "Duplicate"))
            ],
        ),
        (definition({"type": "array", "items": []}), [(f"{LISTED}.items", "Required")]),
        (definition({"type": "string", "x-kubernetes-map-type": "atomic"}), [(f"{LISTED}.type", "Invalid")]),
        (
            definition(
                version={"additionalPrinterColumns": [{"name": "C", "type": "string", "format": "x", "jsonPath": ".a"}]}
            ),
            [("spec.additionalPrinterColumns[0].format", "Invalid")],
        ),
        (definition(conversion={"strategy": "x"}), [("spec.conversion.strategy", "NotSupported")]),
    ],
)
def test_a_definition_is_checked_in_detail(api: Client, body: dict[str, Any], found: Any) -> None:
    answer = api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert causes(answer) == found


@pytest.mark.parametrize(
    "schema", [{"items": {"type": "array", "items": {"properties": "x"}}}, {"additionalProperties": "x"}]
)
def test_a_schema_inside_a_schema_is_decoded(api: Client, schema: dict[str, Any]) -> None:
    answer = api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(schema))
    assert answer.status == 400


def test_percentages_of_a_rollout_may_be_numbers_in_a_text(api: Client) -> None:
    path = deployments(api).replace("deployments", "daemonsets")
    rolling = {"rollingUpdate": {"maxUnavailable": "1"}}
    answer = api.ask("POST", path, workload("DaemonSet", "d", updateStrategy=rolling))
    assert causes(answer) == [("spec.updateStrategy.rollingUpdate.maxUnavailable", "Invalid")]


def test_a_deleted_namespace_gets_the_finalizer_of_its_policy(api: Client) -> None:
    assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "waits"}}).status == 201
    gone = api.ask("DELETE", "/api/v1/namespaces/waits", {"propagationPolicy": "Foreground"}).json
    assert (gone["metadata"]["finalizers"], gone["status"]["phase"]) == (["foregroundDeletion"], "Terminating")


def test_the_tolerance_of_an_autoscaler_is_not_negative(api: Client) -> None:
    path = api.namespace().replace("/api/v1", "/apis/autoscaling/v2").replace("configmaps", "horizontalpodautoscalers")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    spec = {"maxReplicas": 2, "scaleTargetRef": target, "behavior": {"scaleUp": {"tolerance": "-1"}}}
    answer = api.ask("POST", path, {"metadata": {"name": "h"}, "spec": spec})
    assert causes(answer) == [("spec.behavior.scaleUp.tolerance", "Invalid")]


def test_a_policy_has_two_types_at_most(api: Client) -> None:
    path = api.namespace().replace("/api/v1", "/apis/networking.k8s.io/v1").replace("configmaps", "networkpolicies")
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress", "Ingress"]}
    assert causes(api.ask("POST", path, {"metadata": {"name": "n"}, "spec": spec})) == [("spec.policyTypes", "Invalid")]


def test_an_empty_policy_of_reclaiming_is_none(api: Client) -> None:
    body = {"metadata": {"name": "s"}, "provisioner": "x.example.com", "reclaimPolicy": ""}
    assert api.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body).status == 201


def test_a_status_without_the_count_of_templates_is_a_change_of_it(api: Client) -> None:
    path, counted = deployments(api).replace("deployments", "daemonsets"), "deprecated.daemonset.template.generation"
    made = api.ask("POST", f"{path}?fieldManager=a", workload("DaemonSet", "d")).json
    body = {**workload("DaemonSet", "d"), "status": made["status"]}
    written = api.ask("PUT", f"{path}/d/status?fieldManager=s", body).json["metadata"]
    assert written["annotations"] == {counted: "1"}
    (entry,) = (entry for entry in written["managedFields"] if entry["manager"] == "s")
    assert entry["fieldsV1"] == {"f:metadata": {"f:annotations": {f"f:{counted}": {}}}}


def test_a_namespace_without_orphans_is_deleted_in_the_foreground(api: Client) -> None:
    assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "alone"}}).status == 201
    options = {"orphanDependents": False, "dryRun": ["All"]}
    assert api.ask("DELETE", "/api/v1/namespaces/alone", options).json["metadata"]["finalizers"] == [
        "foregroundDeletion"
    ]


def test_names_in_claims_and_metrics_are_checked(api: Client) -> None:
    path = api.namespace()
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {**claim, "volumeAttributesClassName": "A"}
    answer = api.ask(
        "POST", path.replace("configmaps", "persistentvolumeclaims"), {"metadata": {"name": "c"}, "spec": spec}
    )
    assert causes(answer) == [("spec.volumeAttributesClassName", "Invalid")]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "a/b"}, "target": {"type": "AverageValue", "averageValue": 1}},
    }
    spec = {"maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]}
    scalers = path.replace("/api/v1", "/apis/autoscaling/v2").replace("configmaps", "horizontalpodautoscalers")
    answer = api.ask("POST", scalers, {"metadata": {"name": "h"}, "spec": spec})
    assert causes(answer) == [("spec.metrics[0].pods.metric.name", "Invalid")]


def test_the_default_metric_of_an_autoscaler_is_its_creators(api: Client) -> None:
    path = api.namespace().replace("/api/v1", "/apis/autoscaling/v1").replace("configmaps", "horizontalpodautoscalers")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    made = api.ask("POST", path, {"metadata": {"name": "h"}, "spec": {"maxReplicas": 2, "scaleTargetRef": target}}).json
    assert made["spec"]["targetCPUUtilizationPercentage"] == 80
    assert "f:targetCPUUtilizationPercentage" in made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]


def test_a_binding_says_what_absent_parameters_mean(api: Client) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "n"}}
    answer = api.ask("POST", path, {"metadata": {"name": "b"}, "spec": spec})
    assert causes(answer) == [("spec.paramRef.parameterNotFoundAction", "Required")]


def test_a_limit_is_for_a_standard_or_a_qualified_type(api: Client) -> None:
    path = api.namespace().replace("configmaps", "limitranges")
    limits = [{"type": kind, "max": {"cpu": 1}} for kind in ("Other", "example.com/Other", "Container")]
    answer = api.ask("POST", path, {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    assert causes(answer) == [("spec.limits[0].type", "Invalid")]


def test_two_mounts_without_a_path_are_not_unique_either(api: Client) -> None:
    body = workload("Deployment", "d")
    body["spec"]["template"]["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}]}
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "v"}, {"name": "v"}]
    prefix = "spec.template.spec.containers[0].volumeMounts"
    assert causes(api.ask("POST", deployments(api), body)) == [
        (f"{prefix}[0].mountPath", "Required"),
        (f"{prefix}[1].mountPath", "Required"),
        (f"{prefix}[1].mountPath", "Invalid"),
    ]


def test_true_is_not_the_number_that_may_not_change(api: Client) -> None:
    path = deployments(api).replace("deployments", "controllerrevisions")
    body = {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}}
    assert api.ask("POST", path, body).status == 201
    answer = api.ask("PATCH", f"{path}/r", {"data": {"a": True}}, Content_Type=MERGE)
    assert causes(answer) == [("data", "Invalid")]
