"""Validation of claims, volumes and storage classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.kinds.pods.affinity import validate_node_selector
from gitsync.sandbox.kinds.pods.resources import amount, non_negative
from gitsync.sandbox.kinds.pods.volumes import validate_source
from gitsync.sandbox.kinds.pvc_diff import diff_of
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    malformed,
    minimum,
    not_supported,
    one_of,
    required,
)
from gitsync.sandbox.validation.names import dns_subdomain, qualified_name
from gitsync.sandbox.validation.selectors import validate_selector

_LEAST_SECONDS = 600
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_CLAIM_TEXT = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def validate_claim(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a PersistentVolumeClaim."""
    causes = validate_claim_spec(new["spec"], "spec")
    return causes if old is None else causes + _claim_update(new, old)


def validate_claim_spec(spec: Mapping[str, Any], field: str) -> list[Cause]:
    """Check the spec of a claim, of its own or in a template."""
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [required(f"{field}.accessModes", "at least 1 access mode is required")]
    causes += validate_selector(spec.get("selector"), f"{field}.selector")
    causes += _access_modes(modes, f"{field}.accessModes")
    storage = (spec.get("resources") or {}).get("requests", {}).get("storage")
    path = f"{field}.resources[storage]"
    if storage is None:
        causes.append(required(path))
    else:
        causes += _positive(storage, f"{field}.resources[storage]")
    name = spec.get("storageClassName")
    if name:
        causes += [invalid(f"{field}.storageClassName", name, text) for text in dns_subdomain(name)]
    name = spec.get("volumeAttributesClassName")
    causes += malformed(f"{field}.volumeAttributesClassName", name, dns_subdomain) if name else []
    causes += one_of(f"{field}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
    for member in ("dataSource", "dataSourceRef"):
        source = spec.get(member)
        if source is not None:
            causes += [required(f"{field}.{member}.{part}") for part in ("name", "kind") if not source.get(part)]
            if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
                text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
                causes.append(invalid(f"{field}.{member}", source.get("kind", ""), text))
    return causes


def _access_modes(modes: Any, field: str) -> list[Cause]:
    causes = []
    for mode in modes:
        if mode not in _ACCESS_MODES:
            causes.append(not_supported(field, mode, _ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden(field, text))
    return causes


def _positive(text: str, field: str) -> list[Cause]:
    return [] if amount(text).nanos > 0 else [invalid(field, text, "must be greater than zero")]


def _claim_update(new: Manifest, old: Manifest) -> list[Cause]:
    causes: list[Cause] = []
    status, before = old.get("status") or {}, old["spec"]
    after = _with_free_members(new["spec"], before, bound=status.get("phase") == "Bound")
    if after != before:
        causes.append(forbidden("spec", f"{_CLAIM_TEXT}\n{diff_of(before, after)}"))
    size, held = _request(new["spec"]), _request(before)
    capacity = (status.get("capacity") or {}).get("storage", "0")
    if amount(size) < amount(held) and amount(size) <= amount(capacity):
        text = "field can not be less than status.capacity"
        causes.append(forbidden("spec.resources.requests.storage", text))
    return causes + immutable("volumeMode", new["spec"].get("volumeMode"), before.get("volumeMode"))


def _request(spec: Mapping[str, Any]) -> str:
    storage: str = (spec.get("resources") or {}).get("requests", {}).get("storage", "0")
    return storage


def _with_free_members(new: Mapping[str, Any], old: Mapping[str, Any], *, bound: bool) -> dict[str, Any]:
    """Return the new spec with what may change as it was: names not yet chosen, the request of a bound claim."""
    free = [name for name in ("volumeName", "storageClassName") if name not in old]
    if bound:
        free.append("volumeAttributesClassName")
    spec = {key: value for key, value in new.items() if key not in free}
    spec.update((name, old[name]) for name in free if name in old)
    resources = spec.get("resources") or {}
    if bound and "0" not in (_request(old), _request(new)):
        requests = {**resources.get("requests", {}), "storage": _request(old)}
        spec["resources"] = {**resources, "requests": requests}
    return spec


def validate_volume(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a PersistentVolume."""
    spec = new["spec"]
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [required("spec.accessModes")]
    causes += _access_modes(modes, "spec.accessModes")
    capacity = spec.get("capacity", {})
    if not capacity:
        causes.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        causes.append(not_supported("spec.capacity", _capacity_shown(capacity), ("storage",)))
    for name, text in capacity.items():
        causes += non_negative(text, f"spec.capacity[{name}]") or _positive(text, f"spec.capacity[{name}]")
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    if "nodeAffinity" in spec:
        required_terms = spec["nodeAffinity"].get("required")
        if required_terms is None:
            causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            causes += validate_node_selector(required_terms, "spec.nodeAffinity.required")
    given = [name for name in _SOURCES if name in spec]
    if not given:
        causes.append(required("spec", "must specify a volume type"))
    else:
        causes += validate_source(given[0], spec[given[0]], f"spec.{given[0]}")
    for name in given[1:]:
        causes.append(forbidden(f"spec.{name}", "may not specify more than 1 volume type"))
    if "local" in given and "nodeAffinity" not in spec:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    causes += _volume_names(spec)  # an update is checked twice, as a volume and as a change of one
    return causes if old is None else causes + causes + _volume_update(spec, old["spec"])


def _capacity_shown(capacity: Mapping[str, Any]) -> dict[str, Any]:
    return dict(capacity)


def _volume_names(spec: Mapping[str, Any]) -> list[Cause]:
    name = spec.get("storageClassName", "")
    causes = [invalid("spec.storageClassName", name, text) for text in dns_subdomain(name)] if name else []
    return causes + one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def _volume_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    causes = []
    if {name: new[name] for name in _SOURCES if name in new} != {name: old[name] for name in _SOURCES if name in old}:
        text = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden("spec.persistentvolumesource", text))
    causes += immutable("spec.volumeMode", new.get("volumeMode"), old.get("volumeMode"))
    if "nodeAffinity" in old and new.get("nodeAffinity") != old["nodeAffinity"]:
        text = "field is immutable, except for updating from beta label to GA"
        causes.append(invalid("nodeAffinity", new.get("nodeAffinity"), text))
    return causes


def validate_storage_class(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a StorageClass."""
    if old is not None:
        causes = []
        for member in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            causes += immutable(member, new.get(member), old.get(member))
        return causes + _storage_class(new)
    return _storage_class(new)


def _storage_class(new: Manifest) -> list[Cause]:
    provisioner = new.get("provisioner", "")
    if not provisioner:
        causes = [required("provisioner")]
    else:
        causes = [invalid("provisioner", provisioner, text) for text in qualified_name(provisioner.lower())]
    for name in new.get("parameters", {}):
        if not name:
            causes.append(invalid("parameters", name, "field can not be empty."))
    causes += one_of("reclaimPolicy", new.get("reclaimPolicy") or None, ("Delete", "Retain"))
    causes += one_of("volumeBindingMode", new.get("volumeBindingMode"), _BINDING)
    return causes + _topologies(new.get("allowedTopologies") or ())


def _topologies(terms: Sequence[Mapping[str, Any]]) -> list[Cause]:
    """Check the terms of a StorageClass: each with other expressions, each expression with another key."""
    causes, seen = list[Cause](), list[dict[str, set[str]]]()
    for index, term in enumerate(terms):
        field, values_of = f"allowedTopologies[{index}].matchLabelExpressions", dict[str, set[str]]()
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key", ""), expression.get("values") or ()
            causes += _topology(key, values, f"{field}[{number}]")
            causes += [duplicate(f"{field}[{number}].key", key)] if key in values_of else []
            values_of[key] = set(values)
        causes += [duplicate(field, "")] if not values_of or values_of in seen else []
        seen.append(values_of)
    return causes


def _topology(key: str, values: Sequence[str], field: str) -> list[Cause]:
    causes = [required(f"{field}.values")] if not values else []
    again = (number for number, value in enumerate(values) if value in values[:number])
    causes += [duplicate(f"{field}.values[{number}]", values[number]) for number in again]
    return causes + [invalid(f"{field}.key", key, text) for text in qualified_name(key)]


def validate_capacity(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a CSIStorageCapacity (pkg/apis/storage/validation: ValidateCSIStorageCapacity and its update)."""
    causes = validate_selector(new.get("nodeTopology"), "nodeTopology") if new.get("nodeTopology") else []
    name = new.get("storageClassName", "")
    causes += [invalid("storageClassName", name, text) for text in dns_subdomain(name)]
    causes += non_negative(new["capacity"], "capacity") if "capacity" in new else []
    for member in ("nodeTopology", "storageClassName"):
        causes += immutable(member, new.get(member), old.get(member)) if old is not None else []
    return causes


def validate_csi_driver(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a CSIDriver (pkg/apis/storage/validation: ValidateCSIDriver and its update)."""
    spec = new["spec"]
    causes = []
    if old is not None:
        for member, field in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes",) * 2):
            causes += immutable(f"spec.{field}", spec.get(member), old["spec"].get(member))
    for mode in spec.get("volumeLifecycleModes", ()):
        causes += one_of("spec.volumeLifecycleModes", mode, ("Ephemeral", "Persistent"))
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    causes += one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), policies)
    causes += minimum("spec.nodeAllocatableUpdatePeriodSeconds", spec.get("nodeAllocatableUpdatePeriodSeconds"), 10)
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        causes.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
    return causes + _token_requests(spec.get("tokenRequests") or (), "spec.tokenRequests")


def _token_requests(requests: Sequence[Mapping[str, Any]], field: str) -> list[Cause]:
    """Check that each audience is requested once (pkg/apis/storage/validation: validateTokenRequests)."""
    causes = list[Cause]()
    audiences = [request.get("audience", "") for request in requests]
    for index, request in enumerate(requests):
        seconds, path = request.get("expirationSeconds"), f"{field}[{index}]"
        if audiences[index] in audiences[:index]:
            causes.append(duplicate(f"{path}.audience", audiences[index]))
        elif seconds is not None and seconds < _LEAST_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
        elif seconds is not None and seconds > 2**32:
            text = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    return causes


def validate_attributes_class(new: Manifest, old: Manifest | None) -> list[Cause]:
    """Check a VolumeAttributesClass (pkg/apis/storage/validation: ValidateVolumeAttributesClass and its update)."""
    causes = list[Cause]()
    if old is not None:
        for member in ("driverName", "parameters"):
            if new.get(member) != old.get(member):
                causes.append(forbidden(member, f"updates to {member} are forbidden."))
        return causes + _attributes_class(new)
    return _attributes_class(new)


def _attributes_class(new: Manifest) -> list[Cause]:
    driver = new.get("driverName", "")
    causes = [required("driverName")] if not driver else []
    causes += [invalid("driverName", driver, text) for text in dns_subdomain(driver.lower())] if driver else []
    if not new.get("parameters"):
        causes.append(required("parameters", "must contain at least one key/value pair"))
    return causes
