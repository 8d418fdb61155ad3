"""Defaults of the kinds that need a few lines each. Every function changes the private copy it is given."""

from __future__ import annotations

from typing import Any

from gitsync.kube.openapi import default_limits, encode_texts
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.kinds.defaults.pods import default_host_path

_RBAC = "rbac.authorization.k8s.io"
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
# pkg/apis/autoscaling/v2: scaleUpRules; the scaleDown rules there have no stabilization window, the controller supplies
# 300 s.
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def default_service(obj: Manifest) -> None:
    """Fill in a Service; an ExternalName one gets next to nothing."""
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    else:
        # A Service without affinity drops the configuration of one, also when the client sent it.
        spec.pop("sessionAffinityConfig", None)
    for port in spec.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        # All three are the zero value of Go's IntOrString.
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    # It is a DNS alias: no traffic passes the cluster, so no policies of traffic.
    if kind == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj["status"].get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                # Written only beside an IP address: a host name has no mode.
                ingress.setdefault("ipMode", "VIP")


def default_endpoints(obj: Manifest) -> None:
    """Fill in Endpoints."""
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def default_endpoint_slice(obj: Manifest) -> None:
    """Fill in an EndpointSlice; absent lists are written as null."""
    for member in ("endpoints", "ports"):
        # Both lists lack omitempty in Go, so an absent one is printed as null.
        obj.setdefault(member, None)
    for port in obj["ports"] or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def default_network_policy(obj: Manifest) -> None:
    """Fill in a NetworkPolicy: Egress is a type of one that has egress rules."""
    spec = obj["spec"]
    if "policyTypes" not in spec:
        # An empty list of egress rules selects no type: only an explicit policyTypes can deny all egress.
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def default_ingress_class(obj: Manifest) -> None:
    """Fill in an IngressClass."""
    parameters = obj["spec"].get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def default_autoscaler(obj: Manifest) -> None:
    """Fill in a HorizontalPodAutoscaler of autoscaling/v2."""
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    for name, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
        # A direction that is named keeps its own rules and gets the members it lacks.
        mine = behavior.setdefault(name, {})
        for member, value in rules.items():
            # Lists are copied: the object may be changed later, the table may not.
            mine.setdefault(member, [dict(item) for item in value] if isinstance(value, list) else value)


def default_autoscaler_v1(obj: Manifest) -> None:
    """Fill in a HorizontalPodAutoscaler of autoscaling/v1, with the default metric of v2, the stored version."""
    spec = obj["spec"]
    spec.setdefault("minReplicas", 1)
    # Version 1 keeps metrics other than CPU in an annotation; with it, v2 has metrics and needs no default.
    if spec.get("targetCPUUtilizationPercentage") is None and _METRICS not in (
        obj["metadata"].get("annotations") or {}
    ):
        spec["targetCPUUtilizationPercentage"] = 80


def default_claim(obj: Manifest) -> None:
    """Fill in a PersistentVolumeClaim; the data source is written in both its forms."""
    spec = obj["spec"]
    spec.setdefault("volumeMode", "Filesystem")
    obj["status"].setdefault("phase", "Pending")


def default_volume(obj: Manifest) -> None:
    """Fill in a PersistentVolume."""
    spec = obj["spec"]
    # A volume written by a person is kept; provisioners write the policy of their StorageClass.
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    obj["status"].setdefault("phase", "Pending")
    default_host_path(spec)


def default_storage_class(obj: Manifest) -> None:
    """Fill in a StorageClass."""
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(obj: Manifest) -> None:
    """Fill in a CSIDriver."""
    spec = obj["spec"]
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    # Drivers from before the member existed rely on this policy.
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def default_secret(obj: Manifest) -> None:
    """Fill in a Secret: ``stringData`` is encoded into ``data``."""
    obj.setdefault("type", "Opaque")
    # Write-only: it is never stored. Who applied it still owns f:stringData, see the managers of a write.
    plain = obj.pop("stringData", None)
    if plain:
        obj.setdefault("data", {}).update(encode_texts(plain))


def default_namespace(obj: Manifest) -> None:
    """Fill in a Namespace: the label with its own name, the finalizer, the phase."""
    metadata = obj["metadata"]
    name = metadata.get("name")
    labels = metadata.get("labels") or {}
    # NetworkPolicies select namespaces by this label, so a client cannot give it another value.
    if name and labels.get("kubernetes.io/metadata.name") != name:
        obj["metadata"] = {**metadata, "labels": {**labels, "kubernetes.io/metadata.name": name}}
    obj["status"].setdefault("phase", "Active")


def default_node(obj: Manifest) -> None:
    """Fill in the other of the two members for the addresses of a Node's pods; ``podCIDR`` is the one that counts."""
    spec = obj["spec"]
    first = spec.get("podCIDR")
    ranges = spec.get("podCIDRs")
    # The conversion to the internal type, not the defaulting, does this: pkg/apis/core/v1/conversion.go.
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def default_limit_range(obj: Manifest) -> None:
    """Fill in a LimitRange: ``default`` from ``max``, ``defaultRequest`` from ``default`` or ``min``."""
    for item in obj["spec"].get("limits") or ():
        item.update(default_limits(item))


def default_binding(obj: Manifest) -> None:
    """Fill in a RoleBinding or ClusterRoleBinding."""
    if not obj["roleRef"].get("apiGroup"):
        obj["roleRef"]["apiGroup"] = _RBAC
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            # A ServiceAccount is of the core group, whose name is empty.
            subject.setdefault("apiGroup", _RBAC)


def default_priority_class(obj: Manifest) -> None:
    """Fill in a PriorityClass."""
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def default_webhooks(obj: Manifest) -> None:
    """Fill in a ValidatingWebhookConfiguration."""
    for hook in obj.get("webhooks", ()):
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        # 30 s in v1beta1, 10 s since v1.
        hook.setdefault("timeoutSeconds", 10)
        _default_scopes(hook.get("rules", ()))
        # clientConfig is a struct without omitempty: decoding has added it.
        service = hook["clientConfig"].get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_mutating_webhooks(obj: Manifest) -> None:
    """Fill in a MutatingWebhookConfiguration."""
    default_webhooks(obj)
    for hook in obj.get("webhooks", ()):
        hook.setdefault("reinvocationPolicy", "Never")


def _default_scopes(rules: Any) -> None:
    for rule in rules:
        rule.setdefault("scope", "*")


def default_policy(obj: Manifest) -> None:
    """Fill in a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy."""
    spec = obj["spec"]
    spec.setdefault("failurePolicy", "Fail")
    _default_match(spec.get("matchConstraints"))


def default_policy_binding(obj: Manifest) -> None:
    """Fill in the binding of an admission policy."""
    _default_match(obj["spec"].get("matchResources"))


def _default_match(match: dict[str, Any] | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    # Empty selectors match everything, absent ones would match nothing.
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    _default_scopes((*match.get("resourceRules", ()), *match.get("excludeResourceRules", ())))


def default_flow_schema(obj: Manifest) -> None:
    """Fill in a FlowSchema."""
    # Zero counts as absent: the member is an int without pointer in Go.
    obj["spec"]["matchingPrecedence"] = obj["spec"].get("matchingPrecedence") or 1000


def default_priority_level(obj: Manifest) -> None:
    """Fill in a PriorityLevelConfiguration."""
    exempt = obj["spec"].get("exempt")
    limited = obj["spec"].get("limited")
    if exempt is not None:
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = limited["limitResponse"].get("queuing")
        if queuing is not None:
            for member, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                # As above, zeros are replaced too.
                queuing[member] = queuing.get(member) or value


def default_api_service(obj: Manifest) -> None:
    """Fill in an APIService."""
    service = obj["spec"].get("service")
    if service is not None:
        service.setdefault("port", 443)


def default_definition(obj: Manifest) -> None:
    """Fill in a CustomResourceDefinition."""
    spec = obj["spec"]
    names = spec["names"]
    if names.get("kind"):
        # apiextensions/v1: SetDefaults_CustomResourceDefinitionSpec and …Names.
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    # Only as a whole: a conversion without strategy is refused.
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    client = conversion.get("webhook", {}).get("clientConfig") or {}
    if "service" in client:
        client["service"].setdefault("port", 443)
    # The member has omitempty, and false is the only value that v1 allows.
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]
