"""Warnings about valid but probably unintended fields."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.sandbox.admission.attributes import CREATE, UPDATE, Attributes
from gitsync.sandbox.admission.pod_templates import pod_spec_of
from gitsync.sandbox.admission.pod_warnings import fractions, pod_warnings

_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def warn(attributes: Attributes) -> None:
    """Add the warnings of the object to the request's."""
    obj = attributes.obj
    if obj is None or attributes.subresource or attributes.operation not in (CREATE, UPDATE):
        return
    if attributes.is_of("", "PersistentVolumeClaim"):
        attributes.warnings.extend(fractions(obj["spec"].get("resources") or {}, "spec.resources"))
    if attributes.is_of("", "Secret") and obj.get("type") == "kubernetes.io/tls":
        attributes.warnings.extend(_key_pair(obj.get("data") or {}))
    if attributes.is_of("", "Node"):
        attributes.warnings.extend(_node(obj["spec"]))
    if attributes.is_of("", "Service"):
        attributes.warnings.extend(_service(obj))
    if attributes.is_of("storage.k8s.io", "CSIDriver"):
        attributes.warnings.extend(_tokens(obj, attributes.old))
    found = pod_spec_of(obj, attributes)
    if found is not None:
        attributes.warnings.extend(pod_warnings(*found))


def _key_pair(data: Mapping[str, str]) -> Iterator[str]:
    """Yield what crypto/tls says of a certificate or a key without any PEM block."""
    for member, name in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(member) or ""):
            yield f"tls: failed to find any PEM data in {name} input"
            return


def _node(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings of a Node (pkg/registry/core/node/strategy.go: fieldIsDeprecatedWarnings)."""
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _service(service: Mapping[str, Any]) -> Iterator[str]:
    """Yield the warnings of a Service (pkg/api/service/warnings.go: GetWarningsForService)."""
    spec = service["spec"]
    kind, outside = spec.get("type", ""), spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if outside:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if outside and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if outside and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and kind != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _tokens(driver: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the warning of new token requests (pkg/registry/storage/csidriver: WarningsOnCreate, WarningsOnUpdate)."""
    spec, before = driver.get("spec") or {}, (old or {}).get("spec") or {}
    requests = spec.get("tokenRequests")
    if requests and requests != before.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        yield _TOKENS_IN_ATTRIBUTES
