"""
The published OpenAPI documents and resources of Kubernetes, from the data that this package ships.

With the values that the API server fills in or encodes, although these documents do not say so.
"""

from __future__ import annotations

import binascii
import functools
import gzip
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

_DATA: Final = "data/kubernetes-1.36.json.gz"


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource such as ``status``; ``group`` and ``version`` are empty where they are the resource's."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A resource as discovery lists it: names, scope, verbs and subresources of one group and version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: tuple[Subresource, ...]

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects: ``apps/v1``, or ``v1`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


@functools.cache
def _data() -> Mapping[str, Any]:
    raw = pkgutil.get_data(__package__, _DATA)
    if raw is None:
        raise FileNotFoundError(f"{__package__} was installed without {_DATA}: install gitsync again")
    data: Mapping[str, Any] = orjson.loads(gzip.decompress(raw))
    return data


def schemas() -> Mapping[str, Any]:
    """Return all schemas of ``components.schemas`` by name, without descriptions."""
    types: Mapping[str, Any] = _data()["schemas"]
    return types


def kubernetes_version() -> str:
    """Return the version of Kubernetes that the shipped types are of, such as ``1.36``."""
    return str(_data()["version"])


@functools.cache
def resources() -> tuple[ResourceType, ...]:
    """Return the built-in resources in the order of discovery."""
    return tuple(_resource(entry) for entry in _data()["resources"])


def misspelt_kind(group: str, kind: str) -> str | None:
    """
    Return how to correct a kind that Kubernetes does not have in a group of its own; None for any other kind.

    Such a kind is a mistake, while one of another group may have a definition that is not known here.
    """
    kinds = {resource.kind for resource in resources() if resource.group == group}
    if not kinds or kind in kinds:
        return None
    from difflib import get_close_matches  # late: only an error needs it

    similar = get_close_matches(kind, sorted(kinds), 1)
    return f"write kind: {similar[0]}" if similar else f"the kinds of this group are {', '.join(sorted(kinds))}"


def openapi_schemas(group_version: str) -> dict[str, Any]:
    """
    Return ``components.schemas`` of the document of ``v1`` or ``apps/v1``, without descriptions.

    Raise KeyError for a group and version without a document.
    """
    document = _data()["documents"][("apis/" if "/" in group_version else "api/") + group_version]
    types = schemas()
    return {name: types[name] for name in document["schemas"]} | dict(document["own"])


def _resource(entry: Mapping[str, Any]) -> ResourceType:
    return ResourceType(
        group=entry["group"],
        version=entry["version"],
        kind=entry["responseKind"]["kind"],
        plural=entry["resource"],
        singular=entry["singularResource"],
        namespaced=entry["scope"] == "Namespaced",
        verbs=tuple(entry["verbs"]),
        short_names=tuple(entry.get("shortNames", ())),
        categories=tuple(entry.get("categories", ())),
        subresources=tuple(
            Subresource(
                name=sub["subresource"],
                kind=sub["responseKind"]["kind"],
                group=sub["responseKind"]["group"],
                version=sub["responseKind"]["version"],
                verbs=tuple(sub["verbs"]),
            )
            for sub in entry.get("subresources", ())
        ),
    )


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
    return {key: binascii.b2a_base64((text or "").encode(), newline=False).decode() for key, text in texts.items()}
