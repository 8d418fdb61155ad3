"""
Schemas of kinds that discovery names and the recorded OpenAPI documents lack, written from their documentation.

Only what the merge core and a server need: members, types, list kinds and keys, defaults. ``make_schemas``
puts them beside the recorded ones. Those of ``resource.k8s.io`` are the OpenAPI document of Kubernetes 1.36.2
without descriptions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

REFERENCE = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
STRING = {"type": "string"}
NAME = {"type": "string", "default": ""}
INTEGER = {"type": "integer", "format": "int32"}
COUNT = {"type": "integer", "format": "int32", "default": 0}
FLAG = {"type": "boolean"}
BYTES = {"type": "string", "format": "byte"}
Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"allOf": [{"$ref": REFERENCE + name}]}


def struct(name: str) -> Schema:
    """Return a member that is a struct: it is there even when nothing in it is set."""
    return {**ref(name), "default": {}}


def listed(items: Schema, kind: str = "atomic") -> Schema:
    return {"type": "array", "items": items, "x-kubernetes-list-type": kind}


def record(required: str = "", **properties: Schema) -> Schema:
    """Return the schema of a struct; ``required`` lists its required members."""
    out: Schema = {"type": "object", "properties": properties}
    return {**out, "required": required.split()} if required else out


def conditions(name: str) -> Schema:
    return {
        **listed({**ref(name), "default": {}}, "map"),
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-patch-merge-key": "type",
        "x-kubernetes-patch-strategy": "merge",
    }


TIME = ref(META + "Time")
CONDITION = record("type status", lastTransitionTime=TIME, message=STRING, reason=STRING, status=NAME, type=NAME)


def kind(package: str, group: str, name: str) -> Schema:
    return {
        **record(
            apiVersion=STRING,
            kind=STRING,
            metadata=struct(META + "ObjectMeta"),
            spec=struct(f"{package}{name}Spec"),
            status=struct(f"{package}{name}Status"),
        ),
        "x-kubernetes-group-version-kind": [{"group": group, "kind": name, "version": "v1"}],
    }


def api_registration() -> dict[str, Schema]:
    package = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."
    return {
        f"{package}APIService": kind(package, "apiregistration.k8s.io", "APIService"),
        f"{package}APIServiceSpec": record(
            "groupPriorityMinimum versionPriority",
            caBundle=BYTES,
            group=STRING,
            groupPriorityMinimum=COUNT,
            insecureSkipTLSVerify=FLAG,
            service=ref(f"{package}ServiceReference"),
            version=STRING,
            versionPriority=COUNT,
        ),
        f"{package}ServiceReference": record(name=STRING, namespace=STRING, port=INTEGER),
        f"{package}APIServiceStatus": record(conditions=conditions(f"{package}APIServiceCondition")),
        f"{package}APIServiceCondition": CONDITION,
    }


def flow_control() -> dict[str, Schema]:
    package = "io.k8s.api.flowcontrol.v1."
    group = "flowcontrol.apiserver.k8s.io"
    names = listed(NAME, "set")
    status = record(conditions=conditions(f"{package}Condition"))
    return {
        f"{package}FlowSchema": kind(package, group, "FlowSchema"),
        f"{package}FlowSchemaSpec": record(
            "priorityLevelConfiguration",
            distinguisherMethod=ref(f"{package}FlowDistinguisherMethod"),
            matchingPrecedence=COUNT,
            priorityLevelConfiguration=struct(f"{package}PriorityLevelConfigurationReference"),
            rules=listed(struct(f"{package}PolicyRulesWithSubjects")),
        ),
        f"{package}FlowSchemaStatus": status,
        f"{package}FlowDistinguisherMethod": record("type", type=NAME),
        f"{package}PriorityLevelConfigurationReference": record("name", name=NAME),
        f"{package}PolicyRulesWithSubjects": record(
            "subjects",
            nonResourceRules=listed(struct(f"{package}NonResourcePolicyRule")),
            resourceRules=listed(struct(f"{package}ResourcePolicyRule")),
            subjects=listed(struct(f"{package}Subject")),
        ),
        f"{package}NonResourcePolicyRule": record("verbs nonResourceURLs", nonResourceURLs=names, verbs=names),
        f"{package}ResourcePolicyRule": record(
            "verbs apiGroups resources",
            apiGroups=names,
            clusterScope=FLAG,
            namespaces=names,
            resources=names,
            verbs=names,
        ),
        f"{package}Subject": record(
            "kind",
            group=ref(f"{package}NamedSubject"),
            kind=NAME,
            serviceAccount=ref(f"{package}ServiceAccountSubject"),
            user=ref(f"{package}NamedSubject"),
        ),
        f"{package}NamedSubject": record("name", name=NAME),
        f"{package}ServiceAccountSubject": record("namespace name", name=NAME, namespace=NAME),
        f"{package}PriorityLevelConfiguration": kind(package, group, "PriorityLevelConfiguration"),
        f"{package}PriorityLevelConfigurationSpec": record(
            "type",
            exempt=ref(f"{package}ExemptPriorityLevelConfiguration"),
            limited=ref(f"{package}LimitedPriorityLevelConfiguration"),
            type=NAME,
        ),
        f"{package}PriorityLevelConfigurationStatus": status,
        f"{package}ExemptPriorityLevelConfiguration": record(lendablePercent=INTEGER, nominalConcurrencyShares=INTEGER),
        f"{package}LimitedPriorityLevelConfiguration": record(
            borrowingLimitPercent=INTEGER,
            lendablePercent=INTEGER,
            limitResponse=struct(f"{package}LimitResponse"),
            nominalConcurrencyShares=INTEGER,
        ),
        f"{package}LimitResponse": record("type", queuing=ref(f"{package}QueuingConfiguration"), type=NAME),
        f"{package}QueuingConfiguration": record(handSize=COUNT, queueLengthLimit=COUNT, queues=COUNT),
        f"{package}Condition": record(
            lastTransitionTime=TIME, message=STRING, reason=STRING, status=STRING, type=STRING
        ),
    }


def certificates() -> dict[str, Schema]:
    package = "io.k8s.api.certificates.v1."
    return {
        f"{package}CertificateSigningRequest": kind(package, "certificates.k8s.io", "CertificateSigningRequest"),
        f"{package}CertificateSigningRequestSpec": record(
            "request signerName",
            expirationSeconds=INTEGER,
            extra={"type": "object", "additionalProperties": {"type": "array", "items": NAME}},
            groups=listed(NAME),
            request=BYTES,
            signerName=NAME,
            uid=STRING,
            usages=listed(NAME),
            username=STRING,
        ),
        f"{package}CertificateSigningRequestStatus": record(
            certificate=BYTES, conditions=conditions(f"{package}CertificateSigningRequestCondition")
        ),
        f"{package}CertificateSigningRequestCondition": record(
            "type status",
            lastTransitionTime=TIME,
            lastUpdateTime=TIME,
            message=STRING,
            reason=STRING,
            status=NAME,
            type=NAME,
        ),
    }


def documents() -> dict[str, dict[str, Schema]]:
    """Return the schemas of each document, by its path."""
    return {
        "apis/apiregistration.k8s.io/v1": api_registration(),
        "apis/certificates.k8s.io/v1": certificates(),
        "apis/flowcontrol.apiserver.k8s.io/v1": flow_control(),
        "apis/resource.k8s.io/v1": json.loads(Path(__file__).with_name("resource_schemas.json").read_text()),
    }
