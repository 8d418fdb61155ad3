"""
Placeholders: fields that a manifest declares only so that a controller fills them.

Such a field belongs to the controller. Applying the placeholder would remove what the controller wrote, and comparing
it would show drift for ever, so the field is treated as undeclared.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

from gitsync.objects.manifest import Manifest, group_of

_ADMISSION: Final = "admissionregistration.k8s.io"


def without_placeholders(manifest: Manifest) -> Manifest:
    """Return the manifest without placeholders, the very same one where it has none."""
    group = group_of(str(manifest.get("apiVersion") or ""))
    strip = _KINDS.get((group, str(manifest.get("kind") or "")))
    return strip(manifest) if strip is not None else manifest


def _cluster_role(role: Manifest) -> Manifest:
    """The aggregation controller replaces ``rules`` as a whole (RBAC, "Aggregated ClusterRoles")."""
    if not role.get("aggregationRule"):
        return role
    return {name: value for name, value in role.items() if name != "rules"}


def _webhooks(configuration: Manifest) -> Manifest:
    hooks = configuration.get("webhooks")
    if not isinstance(hooks, list):
        return configuration
    stripped = [_at(hook, ("clientConfig",), _without_bundle) if isinstance(hook, dict) else hook for hook in hooks]
    is_same = all(new is old for new, old in zip(stripped, hooks, strict=True))
    return configuration if is_same else {**configuration, "webhooks": stripped}


def _definition(definition: Manifest) -> Manifest:
    return _at(definition, ("spec", "conversion", "webhook", "clientConfig"), _without_bundle)


def _api_service(service: Manifest) -> Manifest:
    return _at(service, ("spec",), _without_bundle)


def _without_bundle(config: Manifest) -> Manifest:
    """Return a client configuration without a ``caBundle`` that holds no certificate."""
    bundle = config.get("caBundle")
    if not isinstance(bundle, str) or not _is_blank(bundle):
        return config
    return {name: value for name, value in config.items() if name != "caBundle"}


def _is_blank(bundle: str) -> bool:
    try:
        return not base64.b64decode(bundle, validate=True).strip()
    except (binascii.Error, ValueError):
        return False  # the API server rejects it, with the reason


def _at(value: Manifest, path: tuple[str, ...], change: Callable[[Manifest], Manifest]) -> Manifest:
    """Return a mapping with a nested mapping changed, the very same one where that is absent or stays as it is."""
    if not path:
        return change(value)
    below: Any = value.get(path[0])
    changed = _at(below, path[1:], change) if isinstance(below, dict) else below
    return value if changed is below else {**value, path[0]: changed}


_KINDS: Final[Mapping[tuple[str, str], Callable[[Manifest], Manifest]]] = {
    ("rbac.authorization.k8s.io", "ClusterRole"): _cluster_role,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _webhooks,
    (_ADMISSION, "MutatingWebhookConfiguration"): _webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
"""How the placeholders of a kind are left out; cert-manager's CA injector and OpenShift fill the bundles."""
