"""Privileges granted by pods, roles and network policies, as comparable sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gitsync.objects.manifest import Manifest, at

_POD_PATHS = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE = ("spec", "template", "spec")
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_spec(manifest: Manifest | None) -> dict[str, Any]:
    """Return the pod spec of a workload, empty where the object has none."""
    if manifest is None:
        return {}
    spec = at(manifest, *_POD_PATHS.get(str(manifest.get("kind")), _TEMPLATE))
    return spec if isinstance(spec, dict) else {}


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all containers of a pod spec."""
    for name in _CONTAINER_LISTS:
        yield from _items(spec.get(name))


def privileges(spec: dict[str, Any]) -> frozenset[str]:
    """Return the privileges of a pod outside its sandbox, as descriptions."""
    descriptions = {name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name) is True}
    descriptions |= {
        f"hostPath {at(volume, 'hostPath', 'path')}" for volume in _items(spec.get("volumes")) if "hostPath" in volume
    }
    if at(spec, "securityContext", "runAsUser") == 0:
        descriptions.add("root in the pod")
    for container in containers(spec):
        name = container.get("name")
        context = container.get("securityContext") or {}
        descriptions |= {
            f"{key} in container {name}"
            for key in ("privileged", "allowPrivilegeEscalation")
            if context.get(key) is True
        }
        if context.get("procMount") == "Unmasked" or at(context, "windowsOptions", "hostProcess") is True:
            descriptions.add(f"the host's processes in container {name}")
        if any(port.get("hostPort") for port in _items(container.get("ports"))):
            descriptions.add(f"hostPort in container {name}")
        if context.get("runAsUser") == 0:
            descriptions.add(f"root in container {name}")
        descriptions |= {
            f"capability {capability} in container {name}"
            for capability in at(context, "capabilities", "add", default=[]) or []
        }
    return frozenset(descriptions)


def protections(spec: dict[str, Any]) -> frozenset[str]:
    """Return the security restrictions that a pod declares, as descriptions."""
    descriptions = _restrictions(spec.get("securityContext") or {}, "the pod")
    for container in containers(spec):
        descriptions |= _restrictions(container.get("securityContext") or {}, f"container {container.get('name')}")
    return frozenset(descriptions)


def _restrictions(context: dict[str, Any], location: str) -> set[str]:
    descriptions = {
        f"{key} of {location}" for key in ("runAsNonRoot", "readOnlyRootFilesystem") if context.get(key) is True
    }
    if context.get("allowPrivilegeEscalation") is False:
        descriptions.add(f"allowPrivilegeEscalation: false of {location}")
    if "ALL" in (at(context, "capabilities", "drop", default=[]) or []):
        descriptions.add(f"dropped capabilities of {location}")
    if at(context, "seccompProfile", "type", default="Unconfined") != "Unconfined":
        descriptions.add(f"seccompProfile of {location}")
    return descriptions


def permissions(role: Manifest | None) -> frozenset[tuple[str, str, str, str]]:
    """Return what a Role or ClusterRole grants: (verb, group, resource, name), with ``*`` as written."""
    grants: set[tuple[str, str, str, str]] = set()
    for rule in _items((role or {}).get("rules")):
        names = rule.get("resourceNames") or ["*"]
        for verb in rule.get("verbs") or []:
            grants |= {("url", verb, url, "") for url in rule.get("nonResourceURLs") or []}
            for group in rule.get("apiGroups") or []:
                grants |= {(verb, group, resource, name) for resource in rule.get("resources") or [] for name in names}
    return frozenset(grants)


def widened(
    granted: frozenset[tuple[str, str, str, str]], wanted: frozenset[tuple[str, str, str, str]]
) -> tuple[tuple[str, str, str, str], ...]:
    """Return the grants in ``wanted`` that nothing in ``granted`` covers."""
    return tuple(
        sorted(
            grant
            for grant in wanted - granted
            if not any(all(had in ("*", has) for had, has in zip(old, grant, strict=True)) for old in granted)
        )
    )


def subjects(binding: Manifest | None) -> frozenset[tuple[str, str, str, str, str]]:
    """Return whom a binding grants what: (kind, namespace, name, role kind, role name)."""
    role = (binding or {}).get("roleRef") or {}
    return frozenset(
        (
            str(subject.get("kind")),
            str(subject.get("namespace", "")),
            str(subject.get("name")),
            str(role.get("kind")),
            str(role.get("name")),
        )
        for subject in _items((binding or {}).get("subjects"))
    )


def secret_refs(value: Any) -> frozenset[str]:
    """Return the names of all Secrets that a value refers to."""
    names: set[str] = set()
    for key, member in _members(value):
        if key in ("secretKeyRef", "secretRef", "caSecretKeyRef") and isinstance(member, dict):
            names.add(str(member.get("name")))
        elif key == "secretName" and isinstance(member, str):
            names.add(member)
        names |= secret_refs(member)
    return frozenset(names)


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list):
        return (("", item) for item in value)
    return ()


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
