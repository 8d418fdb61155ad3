"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.kinds.pods.env import validate_field_ref
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, forbidden, invalid, not_supported, required
from gitsync.sandbox.validation.names import config_key, dns_label

_SOURCES = (
    "emptyDir",
    "gitRepo",
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
_REQUIRED = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "configMap": ("name",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "csi": ("driver",),
}
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


def validate_volumes(volumes: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    """Check the volumes of a pod spec."""
    causes: list[Cause] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        causes += validate_volume_source(volume, path, _SOURCES)
        name = volume.get("name", "")
        if not name:
            causes.append(required(f"{path}.name"))
        elif problems := dns_label(name):
            causes += [invalid(f"{path}.name", name, text) for text in problems]
        elif name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
    return causes


def validate_volume_source(volume: Mapping[str, Any], field: str, sources: Sequence[str]) -> list[Cause]:
    """Check that a volume has one source, and check that one."""
    given = [name for name in sources if name in volume]
    if not given:
        return [required(field, "must specify a volume type")]
    causes = validate_source(given[0], volume[given[0]], f"{field}.{given[0]}")
    for name in given[1:]:
        causes.append(forbidden(f"{field}.{name}", "may not specify more than 1 volume type"))
    return causes


def validate_source(name: str, source: Mapping[str, Any], field: str) -> list[Cause]:
    """Check one source of a volume."""
    causes = [required(f"{field}.{member}") for member in _REQUIRED.get(name, ()) if not source.get(member)]
    if "defaultMode" in source:
        causes += _mode(source["defaultMode"], f"{field}.defaultMode")
    if name in ("configMap", "secret"):
        causes += _items(source.get("items", ()), f"{field}.items")
    elif name == "downwardAPI":
        causes += _downward(source.get("items", ()), f"{field}.items")
    elif name == "hostPath":
        causes += _host_path(source, field)
    elif name == "projected":
        causes += _projected(source.get("sources", ()), f"{field}.sources")
    elif name == "ephemeral" and "volumeClaimTemplate" not in source:
        causes.append(required(f"{field}.volumeClaimTemplate"))
    elif name == "emptyDir" and str(source.get("sizeLimit", "")).startswith("-"):
        text = "SizeLimit field must be a valid resource quantity"
        causes.append(forbidden(f"{field}.sizeLimit", text))
    return causes


def _mode(mode: int, field: str) -> list[Cause]:
    return [] if 0 <= mode <= 0o777 else [invalid(field, mode, _MODE_TEXT)]


def _items(items: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    causes = []
    for index, item in enumerate(items):
        path = f"{field}[{index}]"
        key = item.get("key", "")
        if not key:
            causes.append(required(f"{path}.key"))
        else:
            causes += [invalid(f"{path}.key", key, text) for text in config_key(key)]
        causes += _item_path(item, path)
    return causes


def _downward(items: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    causes = []
    for index, item in enumerate(items):
        path = f"{field}[{index}]"
        causes += _item_path(item, path)
        if "fieldRef" in item:
            causes += validate_field_ref(item["fieldRef"], f"{path}.fieldRef", in_file=True)
            if "resourceFieldRef" in item:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                causes.append(invalid(path, "resource", text))
        elif "resourceFieldRef" not in item:
            causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return causes


def _item_path(item: Mapping[str, Any], field: str) -> list[Cause]:
    target = item.get("path", "")
    if not target:
        causes = [required(f"{field}.path")]
    else:
        causes = [invalid(f"{field}.path", target, text) for text in local_path_problems(target)]
        if target.split("/")[0].startswith("..") and target.split("/")[0] != "..":
            causes.append(invalid(f"{field}.path", target, "must not start with '..'"))
    if "mode" in item:
        causes += _mode(item["mode"], f"{field}.mode")
    return causes


def local_path_problems(path: str) -> list[str]:
    """Return what is wrong with a path that must stay inside a volume."""
    problems = []
    if path.startswith("/"):
        problems.append("must be a relative path")
    if ".." in path.split("/"):
        problems.append("must not contain '..'")
    return problems


def _host_path(source: Mapping[str, Any], field: str) -> list[Cause]:
    path = source.get("path", "")
    if not path:
        return [required(f"{field}.path")]
    causes = []
    if ".." in path.split("/"):
        causes.append(invalid(f"{field}.path", path, "must not contain '..'"))
    if source.get("type", "") not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{field}.type", source["type"], _HOST_PATH_TYPES))
    return causes


def _projected(sources: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, source in enumerate(sources):
        path = f"{field}[{index}]"
        given = [name for name in _PROJECTED if name in source]
        if not given:
            causes.append(required(path, f"must specify one of: {', '.join(_PROJECTED)}"))
        for number, name in enumerate(given):
            if number:
                causes.append(forbidden(path, "may not specify more than 1 volume type per source"))
            else:
                causes += _projection(name, source[name], f"{path}.{name}")
    return causes


def _projection(name: str, source: Mapping[str, Any], field: str) -> list[Cause]:
    if name in ("secret", "configMap"):
        causes = [] if source.get("name") else [required(f"{field}.name")]
        return causes + _items(source.get("items", ()), f"{field}.items")
    if name == "downwardAPI":
        return _downward(source.get("items", ()), f"{field}.items")
    if name == "serviceAccountToken":
        seconds = source.get("expirationSeconds", 3600)
        causes = []
        if seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            causes.append(invalid(f"{field}.expirationSeconds", seconds, text))
        elif seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid(f"{field}.expirationSeconds", seconds, text))
        if not source.get("path"):
            causes.append(required(f"{field}.path"))
        return causes
    return []
