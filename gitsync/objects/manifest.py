"""Reading helpers for manifests. A manifest is a plain dict, read-only once parsed."""

from __future__ import annotations

from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]


def metadata_of(manifest: Manifest) -> dict[str, Any]:
    """Return ``metadata``, or an empty dict where it is absent or not a mapping."""
    value = manifest.get("metadata")
    return value if isinstance(value, dict) else {}


def labels_of(manifest: Manifest) -> dict[str, str]:
    """Return the labels, empty where absent."""
    # ``labels:`` without a value is null in YAML
    return metadata_of(manifest).get("labels") or {}


def annotations_of(manifest: Manifest) -> dict[str, str]:
    """Return the annotations, empty where absent."""
    return metadata_of(manifest).get("annotations") or {}


def has_generated_name(manifest: Manifest) -> bool:
    """Whether the manifest was written with ``metadata.generateName``: each of its objects is meant to be another."""
    return bool(metadata_of(manifest).get("generateName"))


def uid_of(manifest: Manifest) -> str:
    """Return the uid the cluster gave, empty for a manifest that was not read from one."""
    return str(metadata_of(manifest).get("uid") or "")


def resource_version_of(manifest: Manifest) -> str:
    """Return the resourceVersion, empty for a manifest that was not read from a cluster."""
    return str(metadata_of(manifest).get("resourceVersion") or "")


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: ``apps/v1`` gives ``apps``, ``v1`` gives the empty core group."""
    return api_version.rpartition("/")[0]


def at(value: Any, *path: str | int, default: Any = None) -> Any:
    """Return the member at a path of keys and indices, or ``default`` where any part is absent."""
    for part in path:
        if isinstance(part, int):
            # a wrong type is absent too: manifests are read before their schema is checked
            if not isinstance(value, list) or not -len(value) <= part < len(value):
                return default
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return default
    return value


def content_hash(value: Any) -> str:
    """Return a SHA-256 in hex of the value's canonical JSON: key order does not matter."""
    import hashlib  # both late: they are 8 ms of every start, and rendering needs no hash

    import orjson

    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def escaped_name(name: str) -> str:
    """Return a name as one part of a JSON Pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def unescaped_name(part: str) -> str:
    """Return the name that one part of a JSON Pointer encodes."""
    return part.replace("~1", "/").replace("~0", "~")


def pointer_parts(pointer: str) -> tuple[str, ...]:
    """Return the names in a JSON Pointer; the empty one has none."""
    return tuple(map(unescaped_name, pointer.split("/")[1:]))
