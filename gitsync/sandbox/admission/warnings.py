"""Warnings about valid but probably unintended fields."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.sandbox.admission.attributes import CREATE, UPDATE, Attributes
from gitsync.sandbox.admission.pod_templates import pod_spec_of
from gitsync.sandbox.kinds.pods.resources import amount

_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
_BYTES = ("memory", "ephemeral-storage", "storage")


def warn(attributes: Attributes) -> None:
    """Add the warnings of the object to the request's."""
    obj = attributes.obj
    if obj is None or attributes.subresource or attributes.operation not in (CREATE, UPDATE):
        return
    if attributes.is_of("", "PersistentVolumeClaim"):
        attributes.warnings.extend(_fractions(obj["spec"].get("resources") or {}, "spec.resources"))
    if attributes.is_of("", "Secret") and obj.get("type") == "kubernetes.io/tls":
        attributes.warnings.extend(_key_pair(obj.get("data") or {}))
    if attributes.is_new("storage.k8s.io", "CSIDriver"):
        spec = obj.get("spec") or {}
        if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
            attributes.warnings.append(_TOKENS_IN_ATTRIBUTES)
    found = pod_spec_of(obj, attributes)
    if found is not None:
        attributes.warnings.extend(_pod(*found))


def _key_pair(data: Mapping[str, str]) -> Iterator[str]:
    """Yield what crypto/tls says of a certificate or a key without any PEM block."""
    for member, name in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in base64.b64decode(data.get(member) or ""):
            yield f"tls: failed to find any PEM data in {name} input"
            return


def _fractions(resources: Mapping[str, Any], field: str) -> Iterator[str]:
    """Amounts of bytes must be whole."""
    for member in ("limits", "requests"):
        for name, text in (resources.get(member) or {}).items():
            if name in _BYTES and amount(text).nanos % 10**9:
                path = f"{field}.{member}[{name}]"
                yield f'{path}: fractional byte value "{text}" is invalid, must be an integer'


def _pod(spec: Mapping[str, Any], field: str) -> Iterator[str]:
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"{field}.{group}[{index}]"
            yield from _fractions(container.get("resources") or {}, f"{path}.resources")
            yield from _hidden(container.get("env") or (), f"{path}.env")


def _hidden(variables: Any, field: str) -> Iterator[str]:
    names: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in names:
            yield f'{field}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        names.add(name)
