"""Privileges granted by pods, roles and network policies, as comparable sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest, at, group_of

_POD_PATHS = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_TEMPLATE = ("spec", "template", "spec")
_BUILTIN_PATHS: Mapping[tuple[Any, Any], tuple[str, ...]] = {
    ("v1", "Pod"): ("spec",),
    ("v1", "ReplicationController"): _TEMPLATE,
    ("apps/v1", "DaemonSet"): _TEMPLATE,
    ("apps/v1", "Deployment"): _TEMPLATE,
    ("apps/v1", "ReplicaSet"): _TEMPLATE,
    ("apps/v1", "StatefulSet"): _TEMPLATE,
    ("batch/v1", "CronJob"): _POD_PATHS["CronJob"],
    ("batch/v1", "Job"): _TEMPLATE,
}
"""The only pod spec of the kinds of Kubernetes, by apiVersion and kind."""
_NESTING = frozenset({dict, list})
"""Values that may have a pod spec in them; most members of an object are scalars."""
_SECRET_NAMES = {"secretKeyRef": "name", "secretRef": "name", "secret": "secretName", "nodePublishSecretRef": "name"}
"""Members that refer to a Secret, in pods and in most custom resources, with the member that has its name."""
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_spec(manifest: Manifest | None) -> dict[str, Any]:
    """Return the pod spec of a workload, empty where the object has none."""
    if manifest is None:
        return {}
    spec = at(manifest, *_POD_PATHS.get(str(manifest.get("kind")), _TEMPLATE))
    return spec if isinstance(spec, dict) else {}


def pod_specs(manifest: Manifest | None) -> dict[str, dict[str, Any]]:
    """
    Return the pod specs anywhere in an object, by their path; names of list items are part of it.

    A pod spec is known by its shape, a mapping with a list of containers: operators run pods by hundreds of kinds (Ray,
    JobSet, LeaderWorkerSet, Sandbox, …), and a list of them would miss the next one.
    """
    if not manifest:
        return {}
    # Nearly all pods; many rules ask for them, and to search every member takes ten times as long.
    path = _BUILTIN_PATHS.get((manifest.get("apiVersion"), manifest.get("kind")))
    if path is None:
        return dict(_shaped(manifest.get("spec"), "spec"))
    spec = at(manifest, *path)
    return {".".join(path): spec} if isinstance(spec, dict) and _runs_images(spec) else {}


def pod_templates(manifest: Manifest | None) -> dict[str, dict[str, Any]]:
    """Return what has a pod spec as its member ``spec`` anywhere in an object, by path; not the object itself."""
    return {
        path.removesuffix(".spec"): template
        for path in pod_specs(manifest)
        if path != "spec" and isinstance(template := _at_path(manifest, path.removesuffix(".spec")), dict)
    }


def _shaped(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    # A stack of its own instead of recursion: authors choose the depth.
    pending = [(value, path)]
    while pending:
        item, place = pending.pop()
        if isinstance(item, dict):
            if _runs_images(item):
                yield place, item
            pending.extend((member, f"{place}.{key}") for key, member in item.items() if type(member) in _NESTING)
        elif isinstance(item, list):
            pending.extend(
                (entry, f"{place}.{_key_of(entry, index)}")
                for index, entry in enumerate(item)
                if type(entry) in _NESTING
            )


def _runs_images(item: dict[str, Any]) -> bool:
    """Whether a mapping has the shape of a pod spec."""
    listed = item.get("containers")
    return isinstance(listed, list) and any(isinstance(entry, dict) and "image" in entry for entry in listed)


def _key_of(entry: Any, index: int) -> str:
    """Return what identifies a list item in a path: its name, else its position."""
    # Ray names its groups of workers by ``groupName``.
    name = (entry.get("name") or entry.get("groupName")) if isinstance(entry, dict) else None
    # without dots, at which the path is split
    return str(name or index).replace(".", "-")


def _at_path(manifest: Manifest | None, path: str) -> Any:
    value: Any = manifest
    for part in path.split("."):
        if isinstance(value, list):
            value = next((entry for index, entry in enumerate(value) if _key_of(entry, index) == part), None)
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def service_accounts(manifest: Manifest | None) -> frozenset[str]:
    """
    Return the ServiceAccounts that anything in an object runs as, without ``default``.

    Of an Application none: that of its writes has a rule of its own.
    """
    names: set[str] = set()
    is_ours = group_of(str((manifest or {}).get("apiVersion"))) == GROUP
    pending: list[Any] = [None if is_ours else (manifest or {}).get("spec")]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for key, member in item.items():
                if key in ("serviceAccountName", "serviceAccount") and isinstance(member, str):
                    names.add(member)
                elif key == "serviceAccount" and isinstance(member, dict) and member.get("create") is False:
                    names.add(str(member.get("name") or ""))  # of an Agent
                elif type(member) in _NESTING:
                    pending.append(member)
        elif isinstance(item, list):
            pending.extend(entry for entry in item if type(entry) in _NESTING)
    return frozenset(names - {"", "default"})


def secrets_read(manifest: Manifest | None) -> frozenset[str]:
    """
    Return the Secrets whose values reach a program by anything in an object: variables, volumes, references.

    Of an Application none, whose credentials have rules of their own. Secrets that only the platform reads, such as
    those for pulling images and certificates of an Ingress, are none of them.
    """
    is_ours = group_of(str((manifest or {}).get("apiVersion"))) == GROUP
    names: set[str] = set()
    pending: list[Any] = [None if is_ours else (manifest or {}).get("spec")]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for key, member in item.items():
                if key in _SECRET_NAMES and isinstance(member, dict):
                    names.add(str(member.get(_SECRET_NAMES[key]) or ""))
                # of a projected volume, whose source has another member for the name than a volume
                if key == "secret" and isinstance(member, dict):
                    names.add(str(member.get("name") or ""))
                if type(member) in _NESTING:
                    pending.append(member)
        elif isinstance(item, list):
            pending.extend(entry for entry in item if type(entry) in _NESTING)
    return frozenset(names - {""})


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
    if spec.get("nodeName"):  # the scheduler chooses, and taints keep pods off the control plane
        descriptions.add(f"nodeName {spec['nodeName']}")
    descriptions |= _profiles(spec.get("securityContext") or {}, "the pod")
    descriptions |= {
        "a token of its ServiceAccount in a volume"
        for volume in _items(spec.get("volumes"))
        for source in _items(at(volume, "projected", "sources", default=[]))
        if "serviceAccountToken" in source
    }
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
        descriptions |= _profiles(context, f"container {name}")
        descriptions |= {
            f"capability {capability} in container {name}"
            for capability in at(context, "capabilities", "add", default=[]) or []
        }
    return frozenset(descriptions)


def _profiles(context: dict[str, Any], location: str) -> set[str]:
    """Return the security profiles that a context switches off or replaces."""
    if not context:
        return set()
    descriptions = {
        f"{profile} Unconfined of {location}"
        for profile in ("seccompProfile", "appArmorProfile")
        if at(context, profile, "type") == "Unconfined"
    }
    options = context.get("seLinuxOptions") or {}
    # the types that Pod Security's baseline level permits
    if options.get("type", "container_t") not in ("", "container_t", "container_init_t", "container_kvm_t"):
        descriptions.add(f"SELinux type {options['type']} of {location}")
    if options.get("user") or options.get("role"):
        descriptions.add(f"SELinux user or role of {location}")
    descriptions |= {f"sysctl {item.get('name')} of {location}" for item in _items(context.get("sysctls"))}
    return descriptions


def protections(spec: dict[str, Any]) -> frozenset[str]:
    """Return the security restrictions that a pod declares, as descriptions."""
    descriptions = _restrictions(spec.get("securityContext") or {}, "the pod")
    for container in containers(spec):
        descriptions |= _restrictions(container.get("securityContext") or {}, f"container {container.get('name')}")
    return frozenset(descriptions)


def _restrictions(context: dict[str, Any], location: str) -> set[str]:
    if not context:
        return set()
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
        # without names, a rule is for all objects
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
            # a URL is covered by a URL only: ``*`` means all groups and resources, and not any URL
            if not any(
                ("url" in (old[0], grant[0])) <= (old[0] == grant[0])
                and all(had in ("*", has) for had, has in zip(old, grant, strict=True))
                for old in granted
            )
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
