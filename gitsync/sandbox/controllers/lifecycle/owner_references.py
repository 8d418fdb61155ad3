"""The ConfigMaps and Secrets that a pod needs before it can start, and the messages for missing ones."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.client import ControllerClient

_SOURCES = {"configMap": "ConfigMap", "secret": "Secret"}
_SELECTORS = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}
_FROM = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


def missing_volume(api: ControllerClient, pod: Manifest) -> str | None:
    """Return why a volume of the pod cannot be mounted, None when all can."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for kind, name in _volume_sources(volume):
            if api.get("", kind, namespace, name) is None:
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {kind.lower()} "{name}" not found'
    return None


def _volume_sources(volume: Manifest) -> Iterator[tuple[str, str]]:
    """Return the kinds and names of the objects that a volume needs."""
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for member, kind in _SOURCES.items():
            reference = source.get(member)
            if reference and not reference.get("optional"):
                yield kind, reference.get("secretName") or reference.get("name") or ""


def missing_environment(api: ControllerClient, namespace: str, container: Manifest) -> str | None:
    """Return why the environment of a container cannot be made, None when it can."""
    for source in container.get("envFrom") or ():
        for member, kind in _FROM.items():
            reference = source.get(member)
            if reference and not reference.get("optional"):
                found = api.get("", kind, namespace, reference["name"])
                if found is None:
                    return f'{kind.lower()} "{reference["name"]}" not found'
    for variable in container.get("env") or ():
        for member, kind in _SELECTORS.items():
            reference = (variable.get("valueFrom") or {}).get(member)
            if reference and not reference.get("optional"):
                missing = _missing_key(api, namespace, kind, reference)
                if missing:
                    return missing
    return None


def _missing_key(api: ControllerClient, namespace: str, kind: str, reference: Manifest) -> str | None:
    name, key = reference["name"], reference["key"]
    found = api.get("", kind, namespace, name)
    if found is None:
        return f'{kind.lower()} "{name}" not found'
    if key in (found.get("data") or {}) or key in (found.get("binaryData") or {}):
        return None
    return f"couldn't find key {key} in {kind} {namespace}/{name}"
