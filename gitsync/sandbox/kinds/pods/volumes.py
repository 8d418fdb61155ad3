"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.env import validate_field_ref
from gitsync.sandbox.validation.causes import (
    driver_name,
    duplicate,
    forbidden,
    invalid,
    malformed,
    not_supported,
    required,
)
from gitsync.sandbox.validation.names import config_key, dns_label, local_path_problems

Source = Mapping[str, Any]

# The order of validateVolumeSource: the first source of a volume is checked, the later ones are forbidden.
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
# Plugins that were removed (gitRepo, glusterfs, …) are still validated: stored objects have them.
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
    "scaleIO": ("gateway", "system", "volumeName"),
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
# Their reference is local, with only a name; those of others may name a namespace.
_WITH_SECRET = ("cinder", "storageos")
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


def validate_volumes(volumes: Sequence[Source], field: str) -> tuple[list[StatusCause], dict[str, Source]]:
    """Check the volumes of a pod spec; return those that containers may mount too, the valid ones."""
    causes: list[StatusCause] = []
    valid: dict[str, Source] = {}
    for index, volume in enumerate(volumes):
        path = f"{field}[{index}]"
        name = volume.get("name", "")
        volume_causes = validate_volume_source(volume, path, _SOURCES)
        volume_causes += malformed(f"{path}.name", name, dns_label) if name else [required(f"{path}.name")]
        volume_causes += [duplicate(f"{path}.name", name)] if name in valid else []
        # Go collects only valid volumes, so a mount of an invalid one has a second cause.
        if not volume_causes:
            valid[name] = volume
        causes += volume_causes
    return causes, valid


def validate_volume_source(volume: Mapping[str, Any], field: str, sources: Sequence[str]) -> list[StatusCause]:
    """Check that a volume has one source, and check that one."""
    present = [name for name in sources if name in volume]
    if not present:
        return [required(field, "must specify a volume type")]
    causes = validate_source(present[0], volume[present[0]], f"{field}.{present[0]}")
    for name in present[1:]:
        path = f"{field}.{'downwarAPI' if name == 'downwardAPI' else name}"  # the server's spelling
        causes.append(forbidden(path, "may not specify more than 1 volume type"))
    return causes


def validate_source(name: str, source: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check one source of a volume."""
    causes = [required(f"{field}.{member}") for member in _REQUIRED.get(name, ()) if not source.get(member)]
    reference = source.get("secretRef")
    if name in _WITH_SECRET and reference is not None and not reference.get("name"):
        causes.append(required(f"{field}.secretRef.name"))
    if "defaultMode" in source:
        causes += _mode(source["defaultMode"], f"{field}.defaultMode")
    if name in ("configMap", "secret"):
        causes += _items(source.get("items", ()), f"{field}.items")
    elif name == "downwardAPI":
        causes += [cause for item in source.get("items", ()) for cause in _downward(item, field)]
    elif name == "nfs" and not source.get("path", "").startswith("/"):
        causes.append(invalid(f"{field}.path", source.get("path", ""), "must be an absolute path"))
    elif name == "csi":
        # Replaces the causes so far: the real function returns only this check's.
        causes = driver_name(f"{field}.driver", source.get("driver", ""))
    elif name == "hostPath":
        causes += _host_path(source, field)
    elif name == "projected":
        causes += _projected(source.get("sources", ()), field)
    elif name == "ephemeral" and "volumeClaimTemplate" not in source:
        causes.append(required(f"{field}.volumeClaimTemplate"))
    # Decoding made it a canonical quantity, so the sign is its first character.
    elif name == "emptyDir" and str(source.get("sizeLimit", "")).startswith("-"):
        text = "SizeLimit field must be a valid resource quantity"
        causes.append(forbidden(f"{field}.sizeLimit", text))
    return causes


def _mode(mode: int, field: str) -> list[StatusCause]:
    # Set-user-ID and sticky bits are not for volumes.
    return [] if 0 <= mode <= 0o777 else [invalid(field, mode, _MODE_TEXT)]


def _items(items: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
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


def _downward(item: Source, field: str) -> list[StatusCause]:
    """Check a file of the downward API; the server names no position of it."""
    causes = _item_path(item, field)
    if "fieldRef" in item:
        causes += validate_field_ref(item["fieldRef"], f"{field}.fieldRef", in_file=True)
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid(field, "resource", text))
    elif "resourceFieldRef" not in item:
        causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    return causes


def _item_path(item: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = _local_path(item.get("path", ""), f"{field}.path")
    if "mode" in item:
        causes += _mode(item["mode"], f"{field}.mode")
    return causes


def _local_path(path: str, field: str) -> list[StatusCause]:
    """Check the place of a file in a volume, whose names with leading dots are reserved."""
    if not path:
        return [required(field)]
    causes = malformed(field, path, local_path_problems)
    first = path.split("/")[0]
    # The kubelet swaps versions of a volume by the link ..data. The name ".." alone is reported by the check above.
    if first.startswith("..") and first != "..":
        causes.append(invalid(field, path, "must not start with '..'"))
    return causes


def _host_path(source: Mapping[str, Any], field: str) -> list[StatusCause]:
    path = source.get("path", "")
    if not path:
        return [required(f"{field}.path")]
    causes = []
    # A path that leaves the allowed prefix of a policy.
    if ".." in path.split("/"):
        causes.append(invalid(f"{field}.path", path, "must not contain '..'"))
    if source.get("type", "") not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{field}.type", source["type"], _HOST_PATH_TYPES))
    return causes


def _projected(sources: Sequence[Source], field: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    paths: set[str] = set()
    for index, source in enumerate(sources):
        path = f"{field}.sources[{index}]"
        present = [name for name in _PROJECTED if name in source]
        for name in present:
            causes += _projection(name, source[name], path, field)
            for item in source[name].get("items", ()):
                causes += _taken(item.get("path", ""), source[name].get("name", ""), paths, field)
        if len(present) > 1:
            causes.append(forbidden(path, "may not specify more than 1 volume type per source"))
    return causes


def _taken(target: str, name: str, paths: set[str], field: str) -> list[StatusCause]:
    """Return the cause of a path that another file of the volume has."""
    if not target:
        return []
    causes = [invalid(field, name or target, "conflicting duplicate paths")] if target in paths else []
    paths.add(target)
    return causes


def _projection(name: str, source: Source, field: str, volume: str) -> list[StatusCause]:
    path = f"{field}.{name}"
    if name in ("secret", "configMap"):
        causes = [] if source.get("name") else [required(f"{path}.name")]
        return causes + _items(source.get("items", ()), f"{path}.items")
    if name == "downwardAPI":
        return [cause for item in source.get("items", ()) for cause in _downward(item, path)]
    return _token(source, path, volume) if name == "serviceAccountToken" else []


def _token(source: Source, field: str, volume: str) -> list[StatusCause]:
    """Check the token of a ServiceAccount; the server names its path as one of the volume."""
    seconds = source.get("expirationSeconds", 3600)
    causes = list[StatusCause]()
    # The shortest life of a token, pkg/apis/authentication/validation.
    if seconds < 600:
        causes.append(invalid(f"{field}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid(f"{field}.expirationSeconds", seconds, text))
    return causes + _local_path(source.get("path", ""), f"{volume}.path")
