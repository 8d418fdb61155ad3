"""Server-set metadata of an object, on create and on update."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import ApiError, StatusCause, bad_request, internal
from gitsync.sandbox.registry.resources import ServedResource

# apiserver/pkg/storage/names: 63 for a label value, less the five random characters.
MAX_NAME_BASE = 58

_SERVER_OWNED = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def object_member(value: Manifest, member: str) -> Manifest:
    """Return a member that must be an object, empty where it is absent; 400 for anything else."""
    value_of_member = value.get(member) or {}
    if not isinstance(value_of_member, dict):
        raise wrong_type(value_of_member, member, "object")
    return value_of_member


def wrong_type(value: Any, member: str, wanted: str) -> ApiError:
    """Return the 400 for a JSON value that does not fit a member, in the words of Go."""
    type_name = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    return bad_request(f"json: cannot unmarshal {type_name} into Go struct field {member} of type {wanted}")


def arranged(resource: ServedResource, obj: Manifest, meta: dict[str, Any]) -> Manifest:
    """
    Return the object with kind, apiVersion and metadata first, and metadata in its usual order.

    Lists rely on the order of the first two to leave them out.
    """
    ordered = {key: meta[key] for key in _ORDER if key in meta}
    if len(ordered) != len(meta):
        ordered.update(meta)
    arranged: Manifest = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": ordered}
    arranged.update((key, value) for key, value in obj.items() if key not in arranged)
    return arranged


def check_namespace(resource: ServedResource, namespace: str, meta: dict[str, Any]) -> None:
    """Refuse a body for another namespace than the URL's, else fill it in."""
    namespace_in_body = meta.get("namespace") or ""
    if resource.namespaced:
        if namespace_in_body not in ("", namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta["namespace"] = namespace
    else:
        if namespace_in_body:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        meta.pop("namespace", None)


def check_name(name: str, meta: dict[str, Any]) -> None:
    """Refuse a body for another name than the URL's, else fill it in."""
    name_in_body = meta.get("name") or name
    if name_in_body != name:
        raise bad_request(f"the name of the object ({name_in_body}) does not match the name on the URL ({name})")
    meta["name"] = name


def prepare_create(meta: dict[str, Any], *, uid: str, now: str, suffix: str, generation: bool) -> list[StatusCause]:
    """Fill in what a new object gets; return the cause when it has no name."""
    if meta.get("resourceVersion"):
        # A 500, as the real server answers an error that is not an API error.
        raise internal("resourceVersion should not be set on objects to be created")
    for member in _SERVER_OWNED:
        meta.pop(member, None)
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    if generation:
        meta["generation"] = 1
    if not meta.get("name"):
        base = meta.get("generateName")
        if not base:
            meta.pop("name", None)
            meta.pop("generateName", None)
            return [
                StatusCause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
            ]
        meta["name"] = f"{base[:MAX_NAME_BASE]}{suffix}"
    return []


def prepare_update(meta: dict[str, Any], old: dict[str, Any]) -> list[StatusCause]:
    """Take over what an update cannot change; return a cause for each member it tried to."""
    causes: list[StatusCause] = []
    for member in ("uid", "creationTimestamp", "deletionTimestamp"):
        sent = meta.get(member)
        if sent is not None and sent != "" and sent != old.get(member):
            # the generic and the kind's own validation both report it
            causes += [
                StatusCause("FieldValueInvalid", f'Invalid value: "{sent}": field is immutable', f"metadata.{member}")
            ] * 2
    for member in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        if member in old:
            meta[member] = old[member]
        else:
            meta.pop(member, None)
    meta.pop("selfLink", None)
    if "generateName" in old:
        meta["generateName"] = old["generateName"]
    if meta.get("deletionTimestamp"):
        causes += _new_finalizers(meta.get("finalizers") or [], old.get("finalizers") or [])
    return causes


def _new_finalizers(new: list[str], old: list[str]) -> list[StatusCause]:
    added = [name for name in new if name not in old]
    if not added:
        return []
    listed = ", ".join(f'"{name}"' for name in added)
    cause = StatusCause(
        "FieldValueForbidden",
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}",
        "metadata.finalizers",
    )
    return [cause, cause]  # the generic and the kind\'s own validation both report it
