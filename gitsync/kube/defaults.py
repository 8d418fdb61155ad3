"""Values that the API server fills in or encodes, although its OpenAPI documents do not say so."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_CORE = "io.k8s.api.core.v1."
_ADMISSION = "io.k8s.api.admissionregistration.v1."
DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    (f"{_CORE}EndpointPort", "protocol"): "TCP",
    (f"{_CORE}ObjectFieldSelector", "apiVersion"): "v1",
    (f"{_CORE}PersistentVolumeClaim", "apiVersion"): "v1",
    (f"{_CORE}PersistentVolumeClaim", "kind"): "PersistentVolumeClaim",
    (f"{_CORE}PersistentVolumeClaim", "status"): {"phase": "Pending"},
    (f"{_CORE}PersistentVolumeClaimSpec", "volumeMode"): "Filesystem",
    (f"{_CORE}PodCertificateProjection", "maxExpirationSeconds"): 86400,
    (f"{_CORE}ResourceFieldSelector", "divisor"): "0",
    (f"{_CORE}ServiceAccountTokenProjection", "expirationSeconds"): 3600,
    (f"{_ADMISSION}MatchResources", "matchPolicy"): "Equivalent",
    (f"{_ADMISSION}MatchResources", "namespaceSelector"): {},
    (f"{_ADMISSION}MatchResources", "objectSelector"): {},
    (f"{_ADMISSION}NamedRuleWithOperations", "scope"): "*",
    (f"{_ADMISSION}ParamRef", "parameterNotFoundAction"): "Deny",
    (f"{_ADMISSION}RuleWithOperations", "scope"): "*",
    ("io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", "status"): "True",
    ("io.k8s.api.discovery.v1.EndpointPort", "name"): "",
    ("io.k8s.api.discovery.v1.EndpointPort", "protocol"): "TCP",
    ("io.k8s.api.networking.v1.NetworkPolicyPort", "protocol"): "TCP",
    ("io.k8s.api.rbac.v1.RoleRef", "apiGroup"): RBAC_GROUP,
}
"""Defaults inside lists and maps that are replaced as a whole, by schema and member."""


def default_limits(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a LimitRange item with ``default`` filled from ``max`` and ``defaultRequest`` from both and ``min``."""
    if item.get("type") != "Container":
        return dict(item)
    default = dict(item.get("default") or {})
    for name, value in (item.get("max") or {}).items():
        default.setdefault(name, value)
    request = dict(item.get("defaultRequest") or {})
    for name, value in (*default.items(), *(item.get("min") or {}).items()):
        request.setdefault(name, value)
    filled = {name: values for name, values in (("default", default), ("defaultRequest", request)) if values}
    return {**item, **filled}


def encode_texts(texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the ``data`` with this ``stringData``."""
    return {key: base64.b64encode((text or "").encode()).decode() for key, text in texts.items()}
