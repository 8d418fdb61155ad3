"""Checks of a write that all kinds share and that need only the objects."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox import errors
from gitsync.sandbox.registry.contract import Strategy
from gitsync.sandbox.registry.resources import ServedResource


def check_kind(resource: ServedResource, body: Manifest) -> None:
    """Refuse a body of another kind than the resource's; built-in ones may leave it out."""
    kind = body.get("kind")
    api_version = body.get("apiVersion")
    if not resource.custom and not kind and not api_version:
        return
    if (kind or resource.kind, api_version or resource.api_version) != (resource.kind, resource.api_version):
        raise errors.bad_request(wrong_kind(resource, str(kind or ""), str(api_version or "")))
    if resource.custom and (not kind or not api_version):
        missing = "Kind" if not kind else "apiVersion"
        raise errors.bad_request(f"Object '{missing}' is missing in the body")


def check_resource_version(resource: ServedResource, name: str, sent: Any, live: Manifest, unconditional: bool) -> None:
    """Refuse an update of another version than the stored one, or of none where one must be named."""
    # 0 means: whatever is stored.
    if not sent or sent == "0":
        if unconditional:
            return
        raise errors.needs_resource_version(resource.plural, resource.group, name)
    if not str(sent).isdecimal():
        raise errors.internal(
            f'resourceVersion: Invalid value: "{sent}": strconv.ParseUint: parsing "{sent}": invalid syntax'
        )
    if sent != live["metadata"]["resourceVersion"]:
        raise errors.conflict(resource.plural, resource.group, name, errors.MODIFIED)


def changed(old: Manifest, new: Manifest, strategy: Strategy) -> bool:
    """Tell whether something changed that generation counts: all but metadata, and status when it is apart."""
    apart = {"metadata", "status"} if strategy.has_status else {"metadata"}
    for member in strategy.generation_metadata:
        if (old["metadata"].get(member) or {}) != (new["metadata"].get(member) or {}):
            return True
    keys = (old.keys() | new.keys()) - apart
    return any(old.get(key) != new.get(key) for key in keys)


def same_but_times(old: Manifest, new: Manifest) -> bool:
    """
    Tell whether an update changes nothing but times of managedFields, so that nothing is written.

    The rule is IgnoreManagedFieldsTimestampsTransformer of k8s.io/apiserver: changes that the kind drops or normalizes
    (an applied status, ``stringData``) are known only after the merge set the time of their manager.
    """
    if old == new:
        return True
    old_entries = old["metadata"].get("managedFields", [])
    new_entries = new["metadata"].get("managedFields", [])
    if [{**entry, "time": None} for entry in old_entries] != [{**entry, "time": None} for entry in new_entries]:
        return False
    return old == {**new, "metadata": {**new["metadata"], "managedFields": old_entries}}


def is_finished(obj: Manifest) -> bool:
    """Tell whether nothing holds a terminating object any longer."""
    meta = obj["metadata"]
    return bool(
        meta.get("deletionTimestamp")
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not at(obj, "spec", "finalizers")
    )


def quoted(patched: Manifest) -> str:
    """Return the JSON of a patched object as a refusal quotes it; its members come sorted."""
    return orjson.dumps(orjson.dumps(dict(sorted(patched.items()))).decode()).decode()


def mismatch(resource: ServedResource, patched: Manifest) -> str:
    """Return why a patched object that became of another kind cannot be decoded."""
    sent = (str(patched.get("apiVersion") or ""), str(patched.get("kind") or ""))
    if resource.custom:
        return (
            f"the API version in the data ({sent[0]}) does not match the expected API version ({resource.api_version})"
        )
    return wrong_kind(resource, sent[1], sent[0])


def wrong_kind(resource: ServedResource, kind: str, api_version: str) -> str:
    """Return why an object of another kind cannot be taken."""
    group, _, version = api_version.rpartition("/")
    if resource.custom or (kind == resource.kind and group != resource.group):
        return (
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({resource.api_version})"
        )
    internal = resource.group.partition(".")[0] or "core"
    return (
        f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
        f"converting ({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
    )
