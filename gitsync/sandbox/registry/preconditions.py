"""Checks of a write that all kinds share and that need only the objects."""

from __future__ import annotations

from typing import Any

import orjson

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox import errors
from gitsync.sandbox.controllers.client import Strategy
from gitsync.sandbox.registry.resources import Resource


def check_kind(resource: Resource, body: Manifest) -> None:
    """Refuse a body of another kind than the resource's; built-in ones may leave it out."""
    kind, api_version = body.get("kind"), body.get("apiVersion")
    if not resource.custom and not kind and not api_version:
        return
    if (kind or resource.kind, api_version or resource.api_version) != (resource.kind, resource.api_version):
        raise errors.bad_request(wrong_kind(resource, str(kind or ""), str(api_version or "")))
    if resource.custom and (not kind or not api_version):
        missing = "Kind" if not kind else "apiVersion"
        raise errors.bad_request(f"Object '{missing}' is missing in the body")


def check_resource_version(resource: Resource, name: str, given: Any, live: Manifest, unconditional: bool) -> None:
    """Refuse an update of another version than the stored one, or of none where one must be named."""
    if not given or given == "0":
        if unconditional:
            return
        raise errors.needs_resource_version(resource.plural, resource.group, name)
    if not str(given).isdecimal():
        raise errors.internal(
            f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
        )
    if given != live["metadata"]["resourceVersion"]:
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
    before, after = old["metadata"].get("managedFields", []), new["metadata"].get("managedFields", [])
    if [{**entry, "time": None} for entry in before] != [{**entry, "time": None} for entry in after]:
        return False
    return old == {**new, "metadata": {**new["metadata"], "managedFields": before}}


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


def mismatch(resource: Resource, patched: Manifest) -> str:
    """Return why a patched object that became of another kind cannot be decoded."""
    given = (str(patched.get("apiVersion") or ""), str(patched.get("kind") or ""))
    if resource.custom:
        return (
            f"the API version in the data ({given[0]}) does not match the expected API version ({resource.api_version})"
        )
    return wrong_kind(resource, given[1], given[0])


def wrong_kind(resource: Resource, kind: str, api_version: str) -> str:
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
