from __future__ import annotations

import base64
from typing import Any

import pytest

from gitsync.sandbox.kinds import strategy_for
from tests.sandbox.kinds.factories import created, of, refused
from tests.sandbox.kinds.recordings import Allocator

NETWORKING, RBAC = "networking.k8s.io/v1", "rbac.authorization.k8s.io/v1"


def service(**members: Any) -> dict[str, Any]:
    return of("v1", "Service", spec={"ports": [{"port": 80}], **members})


def secret(kind: str, **data: str) -> dict[str, Any]:
    return of(
        "v1", "Secret", type=kind, data={key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    )


def ingress(**path: Any) -> dict[str, Any]:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    return of(
        NETWORKING,
        "Ingress",
        spec={"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend, **path}]}}]},
    )


def autoscaler(**members: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return of("autoscaling/v2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": target, "maxReplicas": 5, **members})


PATH = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("manifest", "causes"),
    [
        (
            service(ports=[{"port": 0}]),
            [
                ("spec.ports[0].port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
                ("spec.ports[0].targetPort", "Invalid value: 0: must be between 1 and 65535, inclusive"),
            ],
        ),
        (
            service(ports=[{"port": 80, "protocol": "ICMP"}]),
            [("spec.ports[0].protocol", 'Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"')],
        ),
        (
            service(sessionAffinity="Some"),
            [("spec.sessionAffinity", 'Unsupported value: "Some": supported values: "ClientIP", "None"')],
        ),
        (
            service(externalTrafficPolicy="Local"),
            [
                (
                    "spec.externalTrafficPolicy",
                    'Invalid value: "Local": may only be set for externally-accessible services',
                )
            ],
        ),
        (
            service(clusterIP="None", type="NodePort"),
            [("spec.clusterIPs[0]", "Invalid value: \"None\": may not be set to 'None' for NodePort services")],
        ),
        (
            of("v1", "Service", spec={"type": "ExternalName", "externalName": "a_b"}),
            [
                (
                    "spec.externalName",
                    'Invalid value: "a_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                    "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                    "'example.com', regex used for validation is "
                    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                )
            ],
        ),
        (
            secret("kubernetes.io/basic-auth"),
            [("data[username]", "Required value"), ("data[password]", "Required value")],
        ),
        (
            secret("kubernetes.io/dockerconfigjson", **{".dockerconfigjson": "nonsense"}),
            [
                (
                    "data[.dockerconfigjson]",
                    "Invalid value: \"<secret contents redacted>\": invalid character 'n' looking for beginning of "
                    "value",
                )
            ],
        ),
        (
            secret("kubernetes.io/service-account-token"),
            [("metadata.annotations[kubernetes.io/service-account.name]", "Required value")],
        ),
        (
            of("v1", "ConfigMap", data={"a": "x" * (1 << 20), "b": "y"}),
            [("[]", "Too long: may not be more than 1048576 bytes")],
        ),
        (ingress(path="x"), [(f"{PATH}.path", 'Invalid value: "x": must be an absolute path')]),
        (ingress(path="/a//b"), [(f"{PATH}.path", "Invalid value: \"/a//b\": must not contain '//'")]),
        (
            ingress(pathType="Regex"),
            [
                (
                    f"{PATH}.pathType",
                    'Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"',
                )
            ],
        ),
        (
            ingress(backend={"service": {"name": "s"}}),
            [(f"{PATH}.backend", "Required value: port name or number is required")],
        ),
        (
            of(NETWORKING, "IngressClass", spec={"controller": "plain"}),
            [("spec.controller", 'Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")')],
        ),
        (
            of(NETWORKING, "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Sideways"]}),
            [("spec.policyTypes[0]", 'Unsupported value: "Sideways": supported values: "Egress", "Ingress"')],
        ),
        (
            of(
                NETWORKING,
                "NetworkPolicy",
                spec={
                    "podSelector": {},
                    "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]}],
                },
            ),
            [
                (
                    "spec.ingress[0].from[0].ipBlock.except[0]",
                    'Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`: "10.0.0.0/8"',
                )
            ],
        ),
        (
            autoscaler(minReplicas=9),
            [("spec.maxReplicas", "Invalid value: 5: must be greater than or equal to `minReplicas`")],
        ),
        (
            autoscaler(metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]),
            [
                (
                    "spec.metrics[0].resource.target.averageUtilization",
                    "Required value: must set either a target raw value or a target utilization",
                )
            ],
        ),
        (
            autoscaler(metrics=[{"type": "Odd"}]),
            [
                (
                    "spec.metrics[0].type",
                    'Unsupported value: "Odd": supported values: "ContainerResource", "External", "Object", "Pods", '
                    '"Resource"',
                )
            ]
            * 2,  # the real server reports an unknown type twice
        ),
        (
            of("policy/v1", "PodDisruptionBudget", spec={"minAvailable": "a lot"}),
            [
                (
                    "spec.minAvailable",
                    'Invalid value: "a lot": a valid percent string must be a numeric string followed by an '
                    "ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                )
            ],
        ),
        (
            of(RBAC, "Role", rules=[{"apiGroups": [""], "resources": ["pods"]}]),
            [("rules[0].verbs", "Required value: verbs must contain at least one value")],
        ),
        (
            of(RBAC, "Role", rules=[{"nonResourceURLs": ["/x"], "verbs": ["get"]}]),
            [("rules[0].nonResourceURLs", 'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs')],
        ),
        (
            of(RBAC, "RoleBinding", roleRef={"kind": "Odd", "name": "r"}),
            [("roleRef.kind", 'Unsupported value: "Odd": supported values: "ClusterRole", "Role"')],
        ),
        (
            of(
                RBAC,
                "ClusterRoleBinding",
                roleRef={"kind": "ClusterRole", "name": "r"},
                subjects=[{"kind": "ServiceAccount", "name": "s"}],
            ),
            [("subjects[0].namespace", "Required value")],
        ),
        (
            of("scheduling.k8s.io/v1", "PriorityClass", value=2_000_000_000),
            [("value", "Forbidden: maximum allowed value of a user defined priority is 1000000000")],
        ),
        (
            of("coordination.k8s.io/v1", "Lease", spec={"leaseDurationSeconds": 0}),
            [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")],
        ),
        (of("node.k8s.io/v1", "RuntimeClass"), [("handler", "Required value")]),
        (
            of("storage.k8s.io/v1", "StorageClass", provisioner="p", volumeBindingMode="Later"),
            [
                (
                    "volumeBindingMode",
                    'Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
                )
            ],
        ),
        (
            of("v1", "ResourceQuota", spec={"hard": {"pods": "-1"}}),
            [("spec.hard[pods]", 'Invalid value: "-1": must be greater than or equal to 0')],
        ),
        (
            of(
                "v1",
                "LimitRange",
                spec={
                    "limits": [
                        {
                            "type": "Container",
                            "min": {"cpu": "2"},
                            "max": {"cpu": "1"},
                            "default": {"cpu": "1"},
                            "defaultRequest": {"cpu": "1"},
                        }
                    ]
                },
            ),
            [
                ("spec.limits[0].min[cpu]", 'Invalid value: "2": min value 2 is greater than max value 1'),
                (
                    "spec.limits[0].defaultRequest[cpu]",
                    'Invalid value: "1": min value 2 is greater than default request value 1',
                ),
                ("spec.limits[0].default[cpu]", 'Invalid value: "1": min value 2 is greater than default value 1'),
            ],
        ),
        (
            of("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["nowhere"]}]),
            [
                (
                    "endpoints[0].addresses[0]",
                    'Invalid value: "nowhere": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                )
            ],
        ),
        (
            of(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                webhooks=[
                    {
                        "name": "short",
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "clientConfig": {"url": "http://a"},
                    }
                ],
            ),
            [
                (
                    "webhooks[0].name",
                    'Invalid value: "short": should be a domain with at least three segments separated by dots',
                ),
                (
                    "webhooks[0].clientConfig.url",
                    'Invalid value: "http://a": \'https\' is the only allowed URL scheme; got "http"; desired '
                    "format: https://host[/path]",
                ),
            ],
        ),
    ],
)
def test_an_object_is_checked(manifest: dict[str, Any], causes: list[tuple[str, str]]) -> None:
    assert refused(manifest) == causes


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("Namespace", "a.b", "must not contain dots"),
        ("Service", "Upper", "a lowercase RFC 1123 label must consist"),
        ("ConfigMap", "x" * 254, "must be no more than 253 characters"),
        ("ConfigMap", "a_b", "a lowercase RFC 1123 subdomain must consist"),
    ],
)
def test_names_have_the_format_of_their_kind(kind: str, name: str, text: str) -> None:
    members: dict[str, Any] = {"spec": {"ports": [{"port": 80}]}} if kind == "Service" else {}
    manifest = {**of("v1", kind, **members), "metadata": {"name": name}}
    assert [(field, message.split(": ", 2)[2][: len(text)]) for field, message in refused(manifest)] == [
        ("metadata.name", text)
    ]


def test_the_base_of_a_generated_name_is_checked_too() -> None:
    good, bad = of("v1", "ConfigMap"), of("v1", "ConfigMap")
    good["metadata"] = {"name": "web-x7", "generateName": "web-"}
    bad["metadata"] = {"name": "Web-x7", "generateName": "Web-"}
    assert refused(good) == []
    assert [field for field, _ in refused(bad)] == ["metadata.generateName", "metadata.name"]


def test_a_binding_may_have_a_name_with_colons() -> None:
    manifest = of(RBAC, "ClusterRoleBinding", roleRef={"kind": "ClusterRole", "name": "system:view"})
    assert refused({**manifest, "metadata": {"name": "team:view"}}) == []


def test_a_service_account_of_a_role_binding_needs_no_namespace() -> None:
    manifest = of(
        RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "ServiceAccount", "name": "s"}]
    )
    assert refused(manifest) == []


def test_labels_annotations_and_owners_are_checked() -> None:
    manifest = of("v1", "ConfigMap")
    manifest["metadata"] = {
        "name": "x",
        "labels": {"a/b/c": "1"},
        "annotations": {"": "1"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}],
        "finalizers": ["plain"],
    }
    assert [field for field, _ in refused(manifest)] == [
        "metadata.labels",
        "metadata.annotations",
        "metadata.annotations",
        "metadata.ownerReferences.uid",
        "metadata.finalizers[0]",
    ]


def test_a_service_that_becomes_headless_or_external_gives_back_what_it_had() -> None:
    strategy = strategy_for("", "v1", "Service")
    old = created(service(type="NodePort", selector={"a": "b"}))
    assert old["spec"]["ports"][0]["nodePort"] == 30001
    new = strategy.prepare({**old, "spec": {**old["spec"], "type": "ClusterIP"}}, old, "", Allocator())
    assert "nodePort" not in new["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in new["spec"]
    assert strategy.validate(new, old, "") == []
    external = {**old["spec"], "type": "ExternalName", "externalName": "a.example.com"}
    gone = strategy.prepare({**old, "spec": external}, old, "", Allocator())
    assert "clusterIP" not in gone["spec"]
    assert strategy.validate(gone, old, "") == []
