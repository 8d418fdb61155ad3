"""Validation of the environment of a container."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import invalid, malformed, not_found, not_supported, required
from gitsync.sandbox.validation.names import (
    config_key,
    dns_label,
    dns_subdomain,
    env_name,
    local_path_problems,
    qualified_name,
)

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
# pkg/fieldpath: SplitMaybeSubscriptedPath.
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
# What the conversion of field labels knows; a known field may still be unsupported here, with another message.
_KNOWN_FIELDS = frozenset({*_ENV_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
# Files can have what changes while the pod runs, variables cannot.
_FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def validate_env(variables: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check environment variables."""
    causes = []
    for index, variable in enumerate(variables):
        path = f"{field}[{index}]"
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{path}.name"))
        else:
            causes += [invalid(f"{path}.name", name, text) for text in env_name(name)]
        if "valueFrom" in variable:
            causes += _value_from(variable, f"{path}.valueFrom")
    return causes


def _value_from(variable: Mapping[str, Any], field: str) -> list[StatusCause]:
    source = variable["valueFrom"]
    sources = [name for name in _SOURCES if name in source]
    causes: list[StatusCause] = []
    for name in sources:
        causes += _SOURCE_CHECKS[name](source[name], f"{field}.{name}")
    if not sources:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        causes.append(invalid(field, "", text))
    # An empty value beside a source is allowed: old clients send it.
    elif variable.get("value"):
        causes.append(invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(sources) > 1:
        causes.append(invalid(field, "", "may not have more than one field specified at a time"))
    return causes


def validate_field_ref(reference: Mapping[str, Any], field: str, *, in_file: bool = False) -> list[StatusCause]:
    """Check a reference to a field of the pod, for a variable or for a file of a volume."""
    path = reference.get("fieldPath", "")
    # Defaulted in stored objects; absent only where the defaults of pods do not run.
    if not reference.get("apiVersion"):
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    subscript = _SUBSCRIPT.fullmatch(path)
    if not subscript and reference["apiVersion"] != "v1":
        text = f"error converting fieldPath: unsupported pod version: {reference['apiVersion']}"
        return [invalid(f"{field}.fieldPath", path, text)]
    if subscript:
        # Keys of annotations are compared without case (ValidateAnnotations).
        key = subscript[2] if subscript[1] == "metadata.labels" else subscript[2].lower()
        return [invalid(field, subscript[2], text) for text in qualified_name(key)]
    known = _KNOWN_FIELDS.union(_FILE_FIELDS) if in_file else _KNOWN_FIELDS
    if path not in known and path not in ("metadata.labels", "metadata.annotations"):
        text = f"error converting fieldPath: field label not supported: {path}"
        return [invalid(f"{field}.fieldPath", path, text)]
    supported = _FILE_FIELDS if in_file else _ENV_FIELDS
    return [] if path in supported else [not_supported(f"{field}.fieldPath", path, supported)]


def _resource_ref(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    resource = reference.get("resource", "")
    if not resource:
        return [required(f"{field}.resource")]
    if resource not in _RESOURCES and not resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        return [not_supported(f"{field}.resource", resource, _RESOURCES)]
    return []


def _config_key_ref(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    key = reference.get("key", "")
    name = reference.get("name", "")
    causes = malformed(f"{field}.name", name, dns_subdomain)
    return causes + (malformed(f"{field}.key", key, config_key) if key else [required(f"{field}.key")])


def _file_key_ref(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = list[StatusCause]()
    for name, check in (("key", env_name), ("volumeName", dns_label), ("path", local_path_problems)):
        value = reference.get(name, "")
        path = f"{field}.{name}"
        causes += malformed(path, value, check) if value else [required(path)]
    return causes


def validate_file_keys(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the volumes of variables that are read from files (validateFileKeyRefVolumes)."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
    causes = list[StatusCause]()
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for number, container in enumerate(spec.get(member) or ()):
            for index, variable in enumerate(container.get("env", ())):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                path = f"{field}.{member}[{number}].env[{index}].valueFrom.fileKeyRef.volumeName"
                if reference is not None:
                    causes += _file_volume(reference.get("volumeName", ""), volumes, path)
    return causes


def _file_volume(name: str, volumes: Mapping[str, Any], field: str) -> list[StatusCause]:
    if name not in volumes:
        return [not_found(field, name)]
    return [] if "emptyDir" in volumes[name] else [invalid(field, name, "referenced volume must be of type emptyDir")]


_SOURCE_CHECKS = {
    "fieldRef": validate_field_ref,
    "resourceFieldRef": _resource_ref,
    "configMapKeyRef": _config_key_ref,
    "secretKeyRef": _config_key_ref,
    "fileKeyRef": _file_key_ref,
}


def validate_env_from(sources: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check sources of whole environments."""
    causes = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        prefix = source.get("prefix", "")
        if prefix:
            causes += [invalid(f"{path}.prefix", prefix, text) for text in env_name(prefix)]
        members = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in members:
            causes += _named(source[name], f"{path}.{name}.name")
        if not members:
            # At the list, without the index of the source, as the server has it.
            causes.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(members) > 1:
            causes.append(invalid(field, "", "may not have more than one field specified at a time"))
    return causes


def _named(reference: Mapping[str, Any], field: str) -> list[StatusCause]:
    name = reference.get("name", "")
    if not name:
        return [required(field)]
    return [invalid(field, name, text) for text in dns_subdomain(name)]
