"""The metadata of objects, and label selectors: their syntax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import forbidden, invalid, required, too_long
from gitsync.sandbox.validation.names import Check, dns_label, label_value, qualified_name

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def validate_labels(labels: Mapping[str, str] | None, field: str) -> list[StatusCause]:
    """Check the keys and values of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += [invalid(field, key, text) for text in qualified_name(key)]
        causes += [invalid(field, value, text) for text in label_value(value)]
    return causes


def validate_selector(selector: Mapping[str, Any] | None, field: str) -> list[StatusCause]:
    """Check the syntax of a LabelSelector."""
    if selector is None:
        return []
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        causes += _requirement(requirement, f"{field}.matchExpressions[{index}]")
    return causes


def _requirement(requirement: Mapping[str, Any], field: str) -> list[StatusCause]:
    operator = requirement.get("operator", "")
    values = requirement.get("values") or []
    causes = []
    if operator in ("In", "NotIn") and not values:
        causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(forbidden(f"{field}.values", text))
    elif operator not in _OPERATORS:
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    causes += [invalid(f"{field}.key", key, text) for text in qualified_name(key)]
    for index, value in enumerate(values):
        causes += [invalid(f"{field}.values[{index}]", value, text) for text in label_value(value)]
    return causes


def is_empty(selector: Mapping[str, Any] | None) -> bool:
    """Return whether the selector has no requirement, so that it matches everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "orphan", "kubernetes"})


def validate_metadata(obj: Manifest, namespaced: bool, name_check: Check | None = None) -> list[StatusCause]:
    """
    Return what is wrong with the metadata of an object: name and namespace, labels, annotations, finalizers,
    owners. ``name_check`` is the kind's rule for a new name; what may not change is the pipeline's.
    """
    metadata = metadata_of(obj)
    causes = []
    name = metadata.get("name") or ""
    base = metadata.get("generateName") or ""
    if base and name_check is not None:
        whole = f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base  # the suffix makes it end well
        causes += [invalid("metadata.generateName", base, text) for text in name_check(whole)]
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif name_check is not None:
        causes += [invalid("metadata.name", name, text) for text in name_check(name)]
    namespace = metadata.get("namespace") or ""
    if namespaced and namespace:
        causes += [invalid("metadata.namespace", namespace, text) for text in dns_label(namespace)]
    elif namespaced:
        causes.append(required("metadata.namespace"))
    elif namespace:
        causes.append(forbidden("metadata.namespace", "not allowed on this type"))
    causes += validate_labels(metadata.get("labels"), "metadata.labels")
    causes += validate_annotations(metadata.get("annotations"), "metadata.annotations")
    for owner in metadata.get("ownerReferences") or ():
        causes += _owner(owner, "metadata.ownerReferences")
    causes += _controllers(metadata.get("ownerReferences") or ())
    for finalizer in metadata.get("finalizers") or ():
        causes += [invalid("metadata.finalizers", finalizer, text) for text in qualified_name(finalizer)]
    return causes


@dataclass(frozen=True, slots=True)
class MetadataChecks:
    """
    How often the update validation of a kind checks the metadata again, after the generic validation did.

    Every check reports its own causes. ``update`` counts calls of ValidateObjectMetaUpdate, ``whole`` calls of
    ValidateObjectMeta; ``names`` tells whether they are those of pkg/apis/core/validation, which know finalizers.
    """

    update: int = 1
    whole: int = 1
    names: bool = True


DEFAULT_CHECKS = MetadataChecks()


def validate_metadata_update(obj: Manifest, namespaced: bool, checks: MetadataChecks) -> list[StatusCause]:
    """Return what is wrong with the metadata of a changed object: once for each check of the API server."""
    whole = validate_metadata(obj, namespaced)
    part = [cause for cause in whole if cause.field != "metadata.finalizers"]
    known = validate_known_finalizers(obj) if checks.names else []
    return whole + part + (part + known) * checks.update + (whole + known) * checks.whole


def validate_annotations(annotations: Mapping[str, str] | None, field: str) -> list[StatusCause]:
    """Check the keys of annotations, and their size together."""
    if not annotations:
        return []
    causes = []
    for key in annotations:
        causes += [invalid(field, key, text) for text in qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        causes.append(too_long(field, _ANNOTATIONS_LIMIT))
    return causes


def _owner(owner: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    version = owner.get("apiVersion") or ""
    if not version or version.count("/") > 1 or version.endswith("/"):
        causes.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
    for member in ("kind", "name", "uid"):
        if not owner.get(member):
            causes.append(invalid(f"{field}.{member}", "", "must not be empty"))
    if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
        causes.append(invalid(field, dict(owner), "/v1, Kind=Event is disallowed from being an owner"))
    return causes


def _controllers(owners: Any) -> list[StatusCause]:
    named = [f"{owner.get('kind', '')}/{owner.get('name', '')}" for owner in owners if owner.get("controller")]
    if len(named) < 2:
        return []
    text = (
        f'Only one reference can have Controller set to true. Found "true" in references for {named[0]} and {named[1]}'
    )
    return [invalid("metadata.ownerReferences", list(owners), text)]


def validate_known_finalizers(obj: Manifest) -> list[StatusCause]:
    """Return the finalizers that have no domain and are none of Kubernetes' own."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", finalizer, text)
        for index, finalizer in enumerate(metadata_of(obj).get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]
