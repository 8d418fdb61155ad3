"""
Decoding of protobuf bodies, which some kubectl commands send; responses are never protobuf.

Only the kinds that kubectl creates imperatively are known. The numbers are those of Kubernetes' published
message definitions.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator
from typing import Any

from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest

MAGIC = b"k8s\x00"
# Messages that kubectl sends have at most ten levels.
MAX_DEPTH = 40


class Undecodable(ValueError):
    """Bytes that are not a valid message of a known kind."""


_MESSAGES = {
    # number name:type; [] repeated, {} map from text, ? present even when zero, ^ for members put one level up
    "ObjectMeta": "1 name:text 2 generateName:text 3 namespace:text 5 uid:text 6 resourceVersion:text "
    "7 generation:int 8 creationTimestamp:Time 9 deletionTimestamp:Time 10 deletionGracePeriodSeconds:int? "
    "11 labels:{}text 12 annotations:{}text 13 ownerReferences:[]OwnerReference 14 finalizers:[]text",
    "OwnerReference": "1 kind:text 3 name:text 4 uid:text 5 apiVersion:text 6 controller:bool? "
    "7 blockOwnerDeletion:bool?",
    "LabelSelector": "1 matchLabels:{}text 2 matchExpressions:[]Requirement",
    "Requirement": "1 key:text 2 operator:text 3 values:[]text",
    "Namespace": "1 metadata:ObjectMeta 2 spec:NamespaceSpec",
    "NamespaceSpec": "1 finalizers:[]text",
    "ConfigMap": "1 metadata:ObjectMeta 2 data:{}text 3 binaryData:{}bytes 4 immutable:bool?",
    "Secret": "1 metadata:ObjectMeta 2 data:{}bytes 3 type:text 4 stringData:{}text 5 immutable:bool?",
    "ServiceAccount": "1 metadata:ObjectMeta 2 secrets:[]ObjectReference 3 imagePullSecrets:[]LocalReference "
    "4 automountServiceAccountToken:bool?",
    "ObjectReference": "1 kind:text 2 namespace:text 3 name:text 4 uid:text 5 apiVersion:text "
    "6 resourceVersion:text 7 fieldPath:text",
    "LocalReference": "1 name:text",
    "Deployment": "1 metadata:ObjectMeta 2 spec:DeploymentSpec",
    "DeploymentSpec": "1 replicas:int? 2 selector:LabelSelector 3 template:PodTemplateSpec "
    "4 strategy:DeploymentStrategy 5 minReadySeconds:int 6 revisionHistoryLimit:int? 7 paused:bool "
    "9 progressDeadlineSeconds:int?",
    "DeploymentStrategy": "1 type:text 2 rollingUpdate:RollingUpdate",
    "RollingUpdate": "1 maxUnavailable:IntOrString 2 maxSurge:IntOrString",
    "PodTemplateSpec": "1 metadata:ObjectMeta 2 spec:PodSpec",
    "PodSpec": "2 containers:[]Container 3 restartPolicy:text 4 terminationGracePeriodSeconds:int? "
    "5 activeDeadlineSeconds:int? 6 dnsPolicy:text 7 nodeSelector:{}text 8 serviceAccountName:text "
    "10 nodeName:text 11 hostNetwork:bool 12 hostPID:bool 13 hostIPC:bool 15 imagePullSecrets:[]LocalReference "
    "16 hostname:text 17 subdomain:text 19 schedulerName:text 20 initContainers:[]Container "
    "21 automountServiceAccountToken:bool? 24 priorityClassName:text 29 runtimeClassName:text?",
    "Container": "1 name:text 2 image:text 3 command:[]text 4 args:[]text 5 workingDir:text "
    "6 ports:[]ContainerPort 7 env:[]EnvVar 8 resources:ResourceRequirements 13 terminationMessagePath:text "
    "14 imagePullPolicy:text 16 stdin:bool 17 stdinOnce:bool 18 tty:bool 20 terminationMessagePolicy:text",
    "ContainerPort": "1 name:text 2 hostPort:int 3 containerPort:int 4 protocol:text 5 hostIP:text",
    "EnvVar": "1 name:text 2 value:text",
    "ResourceRequirements": "1 limits:{}Quantity 2 requests:{}Quantity",
    "Job": "1 metadata:ObjectMeta 2 spec:JobSpec",
    "JobSpec": "1 parallelism:int? 2 completions:int? 3 activeDeadlineSeconds:int? 4 selector:LabelSelector "
    "5 manualSelector:bool? 6 template:PodTemplateSpec 7 backoffLimit:int? 8 ttlSecondsAfterFinished:int? "
    "9 completionMode:text? 10 suspend:bool? 14 podReplacementPolicy:text?",
    "CronJob": "1 metadata:ObjectMeta 2 spec:CronJobSpec",
    "CronJobSpec": "1 schedule:text 2 startingDeadlineSeconds:int? 3 concurrencyPolicy:text 4 suspend:bool? "
    "5 jobTemplate:JobTemplateSpec 6 successfulJobsHistoryLimit:int? 7 failedJobsHistoryLimit:int? 8 timeZone:text?",
    "JobTemplateSpec": "1 metadata:ObjectMeta 2 spec:JobSpec",
    "Service": "1 metadata:ObjectMeta 2 spec:ServiceSpec",
    "ServiceSpec": "1 ports:[]ServicePort 2 selector:{}text 3 clusterIP:text 4 type:text 5 externalIPs:[]text "
    "7 sessionAffinity:text 8 loadBalancerIP:text 9 loadBalancerSourceRanges:[]text 10 externalName:text "
    "11 externalTrafficPolicy:text 12 healthCheckNodePort:int 13 publishNotReadyAddresses:bool",
    "ServicePort": "1 name:text 2 protocol:text 3 port:int 4 targetPort:IntOrString 5 nodePort:int 6 appProtocol:text?",
    "Role": "1 metadata:ObjectMeta 2 rules:[]PolicyRule",
    "ClusterRole": "1 metadata:ObjectMeta 2 rules:[]PolicyRule 3 aggregationRule:AggregationRule",
    "AggregationRule": "1 clusterRoleSelectors:[]LabelSelector",
    "PolicyRule": "1 verbs:[]text 2 apiGroups:[]text 3 resources:[]text 4 resourceNames:[]text "
    "5 nonResourceURLs:[]text",
    "RoleBinding": "1 metadata:ObjectMeta 2 subjects:[]Subject 3 roleRef:RoleRef",
    "ClusterRoleBinding": "1 metadata:ObjectMeta 2 subjects:[]Subject 3 roleRef:RoleRef",
    "Subject": "1 kind:text 2 apiGroup:text 3 name:text 4 namespace:text",
    "RoleRef": "1 apiGroup:text 2 kind:text 3 name:text",
    "PodDisruptionBudget": "1 metadata:ObjectMeta 2 spec:BudgetSpec",
    "BudgetSpec": "1 minAvailable:IntOrString 2 selector:LabelSelector 3 maxUnavailable:IntOrString",
    "PriorityClass": "1 metadata:ObjectMeta 2 value:int 3 globalDefault:bool 4 description:text "
    "5 preemptionPolicy:text?",
    "ResourceQuota": "1 metadata:ObjectMeta 2 spec:QuotaSpec",
    "QuotaSpec": "1 hard:{}Quantity 2 scopes:[]text",
    "Ingress": "1 metadata:ObjectMeta 2 spec:IngressSpec",
    "IngressSpec": "1 defaultBackend:IngressBackend 2 tls:[]IngressTls 3 rules:[]IngressRule 4 ingressClassName:text?",
    "IngressTls": "1 hosts:[]text 2 secretName:text",
    "IngressRule": "1 host:text 2 ^:IngressRuleValue",
    "IngressRuleValue": "1 http:IngressHttp",
    "IngressHttp": "1 paths:[]IngressPath",
    "IngressPath": "1 path:text 2 backend:IngressBackend 3 pathType:text?",
    "IngressBackend": "3 resource:TypedReference 4 service:IngressService",
    "IngressService": "1 name:text 2 port:IngressPort",
    "IngressPort": "1 name:text 2 number:int",
    "TypedReference": "1 apiGroup:text? 2 kind:text 3 name:text",
    "autoscaling/v1 HorizontalPodAutoscaler": "1 metadata:ObjectMeta 2 spec:ScalerSpec1",
    "autoscaling/v2 HorizontalPodAutoscaler": "1 metadata:ObjectMeta 2 spec:ScalerSpec2",
    "ScalerSpec1": "1 scaleTargetRef:ScaleTarget 2 minReplicas:int? 3 maxReplicas:int "
    "4 targetCPUUtilizationPercentage:int?",
    "ScalerSpec2": "1 scaleTargetRef:ScaleTarget 2 minReplicas:int? 3 maxReplicas:int 4 metrics:[]Metric",
    "ScaleTarget": "1 kind:text 2 name:text 3 apiVersion:text",
    "Metric": "1 type:text 4 resource:ResourceMetric",
    "ResourceMetric": "1 name:text 2 target:MetricTarget",
    "MetricTarget": "1 type:text 2 value:Quantity 3 averageValue:Quantity 4 averageUtilization:int?",
    "SelfSubjectAccessReview": "1 metadata:ObjectMeta 2 spec:AccessSpec",
    "AccessSpec": "1 resourceAttributes:ResourceAttributes 2 nonResourceAttributes:PathAttributes",
    "ResourceAttributes": "1 namespace:text 2 verb:text 3 group:text 4 version:text 5 resource:text "
    "6 subresource:text 7 name:text",
    "PathAttributes": "1 path:text 2 verb:text",
    "SelfSubjectRulesReview": "1 metadata:ObjectMeta 2 spec:RulesSpec",
    "RulesSpec": "1 namespace:text",
    "SelfSubjectReview": "1 metadata:ObjectMeta",
    "TokenRequest": "1 metadata:ObjectMeta 2 spec:TokenSpec",
    "TokenSpec": "1 audiences:[]text 4 expirationSeconds:int?",
    "DeleteOptions": "1 gracePeriodSeconds:int? 2 preconditions:Preconditions 3 orphanDependents:bool? "
    "4 propagationPolicy:text? 5 dryRun:[]text",
    "Preconditions": "1 uid:text? 2 resourceVersion:text?",
}

Field = tuple[str, str, str, bool]
"""Name; ``[]``, ``{}`` or nothing; type; whether a zero value counts."""


@functools.cache
def _fields(message: str) -> dict[int, Field]:
    words = _MESSAGES[message].split()
    fields = {}
    for number, declared in zip(words[::2], words[1::2], strict=True):
        name, _, kind = declared.partition(":")
        shape = kind[:2] if kind[:2] in ("[]", "{}") else ""
        fields[int(number)] = (name, shape, kind.removeprefix(shape).rstrip("?"), kind.endswith("?"))
    return fields


def decode(body: bytes) -> Manifest:
    """Return the object in a body that begins with ``k8s\\0``; raise Undecodable when it cannot be read."""
    if not body.startswith(MAGIC):
        raise Undecodable("the body is not protobuf as Kubernetes frames it")
    api_version = kind = ""
    raw = b""
    for number, value in _members(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            type_meta = {inner: text for inner, text in _members(value) if isinstance(text, bytes)}
            api_version = type_meta.get(1, b"").decode()
            kind = type_meta.get(2, b"").decode()
        elif number == 2 and isinstance(value, bytes):
            raw = value
    name = f"{api_version} {kind}" if f"{api_version} {kind}" in _MESSAGES else kind
    if name not in _MESSAGES:
        raise Undecodable(f"the sandbox does not read {kind or 'this kind'} in protobuf: send JSON")
    return {"apiVersion": api_version, "kind": kind, **_message(name, raw, 0)}


def _message(name: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise Undecodable("the message is nested too deeply")
    out: dict[str, Any] = {}
    fields = _fields(name)
    for number, value in _members(data):
        field = fields.get(number)
        # Members that are not in the table: newer clients may send more than the sandbox knows.
        if field is None:
            continue
        member, shape, kind, keeps_zero = field
        if shape == "{}":
            key, item = _entry(value, kind, depth)
            out.setdefault(member, {})[key] = item
            continue
        item = _value(kind, value, depth)
        if member == "^":
            out.update(item)
        elif shape == "[]":
            out.setdefault(member, []).append(item)
        elif keeps_zero or item:
            out[member] = item
    return out


def _entry(value: int | bytes, kind: str, depth: int) -> tuple[str, Any]:
    pair = dict(_members(_bytes(value)))
    default = b"" if kind != "int" else 0
    return _bytes(pair.get(1, b"")).decode(), _value(kind, pair.get(2, default), depth)


def _value(kind: str, value: int | bytes, depth: int) -> Any:
    match kind:
        case "text":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "bool":
            return bool(value)
        case "int":
            number = _number(value)
            # Negative numbers are sent as 64-bit two's complement.
            return number - (1 << 64) if number >= 1 << 63 else number
        case "Time":
            parts = dict(_members(_bytes(value)))
            seconds = parts.get(1, 0)
            return timestamp(_number(seconds)) if seconds else ""
        case "Quantity":
            return _bytes(dict(_members(_bytes(value))).get(1, b"")).decode()
        case "IntOrString":
            parts = dict(_members(_bytes(value)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _value("int", parts.get(2, 0), depth)
    return _message(kind, _bytes(value), depth + 1)


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise Undecodable("a field has the wrong wire type")
    return value


def _number(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise Undecodable("a field has the wrong wire type")
    return value


def _members(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise Undecodable(f"wire type {wire} is not used by Kubernetes")
        if at + size > len(data):
            raise Undecodable("the message ends early")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Undecodable("the message ends early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
