"""Validation of claims, volumes and storage classes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.pods.resources import amount, non_negative
from gitsync.sandbox.kinds.pods.scheduling import validate_node_selector
from gitsync.sandbox.kinds.pods.volumes import validate_source
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
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_subdomain, qualified_name

# The shortest life of a token, as in pods.
_LEAST_SECONDS = 600
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
# A volume may still be Recycle, a StorageClass may not.
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


def validate_claim(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PersistentVolumeClaim."""
    causes = validate_claim_spec(new["spec"], "spec")
    return causes if old is None else causes + _claim_update(new, old)


def validate_claim_spec(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the spec of a claim, of its own or in a template."""
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [required(f"{field}.accessModes", "at least 1 access mode is required")]
    causes += validate_selector(spec.get("selector"), f"{field}.selector")
    causes += _access_modes(modes, f"{field}.accessModes")
    storage = (spec.get("resources") or {}).get("requests", {}).get("storage")
    # Not spec.resources.requests: the server builds the path from the resource alone.
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


def _access_modes(modes: Any, field: str) -> list[StatusCause]:
    causes = []
    for mode in modes:
        if mode not in _ACCESS_MODES:
            causes.append(not_supported(field, mode, _ACCESS_MODES))
    # One pod in the whole cluster: no other mode agrees with that.
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(forbidden(field, text))
    return causes


def _positive(text: str, field: str) -> list[StatusCause]:
    return [] if amount(text).nanos > 0 else [invalid(field, text, "must be greater than zero")]


def _claim_update(new: Manifest, old: Manifest) -> list[StatusCause]:
    causes: list[StatusCause] = []
    status = old.get("status") or {}
    stored_spec = old["spec"]
    after = _with_free_members(new["spec"], stored_spec, bound=status.get("phase") == "Bound")
    if after != stored_spec:
        causes.append(forbidden("spec", f"{_CLAIM_TEXT}\n{diff_of(stored_spec, after)}"))
    size = _request(new["spec"])
    held = _request(stored_spec)
    capacity = (status.get("capacity") or {}).get("storage", "0")
    # KEP-1790: a failed expansion may be lowered, but not below what the volume has.
    if amount(size) < amount(held) and amount(size) <= amount(capacity):
        text = "field can not be less than status.capacity"
        causes.append(forbidden("spec.resources.requests.storage", text))
    return causes + immutable("volumeMode", new["spec"].get("volumeMode"), stored_spec.get("volumeMode"))


def _request(spec: Mapping[str, Any]) -> str:
    storage: str = (spec.get("resources") or {}).get("requests", {}).get("storage", "0")
    return storage


def _with_free_members(new: Mapping[str, Any], old: Mapping[str, Any], *, bound: bool) -> dict[str, Any]:
    """Return the new spec with what may change as it was: names not yet chosen, the request of a bound claim."""
    # The binder writes the volume, the admission plugin the default class, once.
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


def validate_volume(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a PersistentVolume."""
    spec = new["spec"]
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [required("spec.accessModes")]
    causes += _access_modes(modes, "spec.accessModes")
    capacity = spec.get("capacity", {})
    if not capacity:
        causes.append(required("spec.capacity"))
    # Both cases have the one message, with the whole map as its value.
    if "storage" not in capacity or len(capacity) > 1:
        causes.append(not_supported("spec.capacity", _capacity_shown(capacity), ("storage",)))
    for name, text in capacity.items():
        causes += non_negative(text, f"spec.capacity[{name}]") or _positive(text, f"spec.capacity[{name}]")
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    if "nodeAffinity" in spec:
        # A volume has no preferences of nodes, only where it is.
        required_terms = spec["nodeAffinity"].get("required")
        if required_terms is None:
            causes.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            causes += validate_node_selector(required_terms, "spec.nodeAffinity.required")
    sources = [name for name in _SOURCES if name in spec]
    if not sources:
        causes.append(required("spec", "must specify a volume type"))
    else:
        causes += validate_source(sources[0], spec[sources[0]], f"spec.{sources[0]}")
    for name in sources[1:]:
        causes.append(forbidden(f"spec.{name}", "may not specify more than 1 volume type"))
    if "local" in sources and "nodeAffinity" not in spec:
        causes.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    causes += _volume_names(spec)  # an update is checked twice, as a volume and as a change of one
    return causes if old is None else causes + causes + _volume_update(spec, old["spec"])


def _capacity_shown(capacity: Mapping[str, Any]) -> dict[str, Any]:
    return dict(capacity)


def _volume_names(spec: Mapping[str, Any]) -> list[StatusCause]:
    name = spec.get("storageClassName", "")
    causes = [invalid("spec.storageClassName", name, text) for text in dns_subdomain(name)] if name else []
    return causes + one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def _volume_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[StatusCause]:
    causes = []
    if {name: new[name] for name in _SOURCES if name in new} != {name: old[name] for name in _SOURCES if name in old}:
        text = "spec.persistentvolumesource is immutable after creation"
        causes.append(forbidden("spec.persistentvolumesource", text))
    causes += immutable("spec.volumeMode", new.get("volumeMode"), old.get("volumeMode"))
    # It may be added to a volume without one.
    if "nodeAffinity" in old and new.get("nodeAffinity") != old["nodeAffinity"]:
        text = "field is immutable, except for updating from beta label to GA"
        causes.append(invalid("nodeAffinity", new.get("nodeAffinity"), text))
    return causes


def validate_storage_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a StorageClass."""
    if old is not None:
        causes = []
        for member in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            causes += immutable(member, new.get(member), old.get(member))
        return causes + _storage_class(new)
    return _storage_class(new)


def _storage_class(new: Manifest) -> list[StatusCause]:
    provisioner = new.get("provisioner", "")
    if not provisioner:
        causes = [required("provisioner")]
    else:
        # Names of provisioners were never case-sensitive.
        causes = [invalid("provisioner", provisioner, text) for text in qualified_name(provisioner.lower())]
    for name in new.get("parameters", {}):
        if not name:
            causes.append(invalid("parameters", name, "field can not be empty."))
    causes += one_of("reclaimPolicy", new.get("reclaimPolicy") or None, ("Delete", "Retain"))
    causes += one_of("volumeBindingMode", new.get("volumeBindingMode"), _BINDING)
    return causes + _topologies(new.get("allowedTopologies") or ())


def _topologies(terms: Sequence[Mapping[str, Any]]) -> list[StatusCause]:
    """Check the terms of a StorageClass: each with other expressions, each expression with another key."""
    causes = list[StatusCause]()
    earlier_terms = list[dict[str, set[str]]]()
    for index, term in enumerate(terms):
        field = f"allowedTopologies[{index}].matchLabelExpressions"
        values_of = dict[str, set[str]]()
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key = expression.get("key", "")
            values = expression.get("values") or ()
            causes += _topology(key, values, f"{field}[{number}]")
            causes += [duplicate(f"{field}[{number}].key", key)] if key in values_of else []
            values_of[key] = set(values)
        causes += [duplicate(field, "")] if not values_of or values_of in earlier_terms else []
        earlier_terms.append(values_of)
    return causes


def _topology(key: str, values: Sequence[str], field: str) -> list[StatusCause]:
    causes = [required(f"{field}.values")] if not values else []
    again = (number for number, value in enumerate(values) if value in values[:number])
    causes += [duplicate(f"{field}.values[{number}]", values[number]) for number in again]
    return causes + [invalid(f"{field}.key", key, text) for text in qualified_name(key)]


def validate_capacity(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a CSIStorageCapacity (pkg/apis/storage/validation: ValidateCSIStorageCapacity and its update)."""
    causes = validate_selector(new.get("nodeTopology"), "nodeTopology") if new.get("nodeTopology") else []
    name = new.get("storageClassName", "")
    causes += [invalid("storageClassName", name, text) for text in dns_subdomain(name)]
    causes += non_negative(new["capacity"], "capacity") if "capacity" in new else []
    for member in ("nodeTopology", "storageClassName"):
        causes += immutable(member, new.get(member), old.get(member)) if old is not None else []
    return causes


def validate_csi_driver(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a CSIDriver (pkg/apis/storage/validation: ValidateCSIDriver and its update)."""
    spec = new["spec"]
    causes = []
    if old is not None:
        # The server's path has this misspelling.
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


def _token_requests(requests: Sequence[Mapping[str, Any]], field: str) -> list[StatusCause]:
    """Check that each audience is requested once (pkg/apis/storage/validation: validateTokenRequests)."""
    causes = list[StatusCause]()
    audiences = [request.get("audience", "") for request in requests]
    for index, request in enumerate(requests):
        seconds = request.get("expirationSeconds")
        path = f"{field}[{index}]"
        if audiences[index] in audiences[:index]:
            causes.append(duplicate(f"{path}.audience", audiences[index]))
        elif seconds is not None and seconds < _LEAST_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
        # 136 years: a bound against overflow of durations.
        elif seconds is not None and seconds > 2**32:
            text = "may not specify a duration larger than 2^32 seconds"
            causes.append(invalid(f"{path}.expirationSeconds", seconds, text))
    return causes


def validate_attributes_class(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a VolumeAttributesClass (pkg/apis/storage/validation: ValidateVolumeAttributesClass and its update)."""
    causes = list[StatusCause]()
    if old is not None:
        for member in ("driverName", "parameters"):
            if new.get(member) != old.get(member):
                causes.append(forbidden(member, f"updates to {member} are forbidden."))
        return causes + _attributes_class(new)
    return _attributes_class(new)


def _attributes_class(new: Manifest) -> list[StatusCause]:
    driver = new.get("driverName", "")
    causes = [required("driverName")] if not driver else []
    causes += [invalid("driverName", driver, text) for text in dns_subdomain(driver.lower())] if driver else []
    if not new.get("parameters"):
        causes.append(required("parameters", "must contain at least one key/value pair"))
    return causes


Spec = Mapping[str, Any]


def diff_of(old: Spec, new: Spec) -> str:
    """Return the hunks of a unified diff, each line ended."""
    # The server uses go-cmp's text form through pretty-printed JSON, which difflib equals line by line.
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="")
    # Without the two lines that name the files.
    return "".join(f"{line}\n" for line in list(lines)[2:])


def _lines(spec: Spec) -> list[str]:
    resources = spec.get("resources") or {}
    shown = {
        "AccessModes": spec.get("accessModes"),
        "Selector": spec.get("selector"),
        "Resources": {
            "Limits": _sorted(resources.get("limits")),
            "Requests": _sorted(resources.get("requests")),
        },
        "VolumeName": spec.get("volumeName", ""),
        "StorageClassName": spec.get("storageClassName"),
        "VolumeMode": spec.get("volumeMode"),
        "DataSource": _source(spec.get("dataSource")),
        "DataSourceRef": _source(spec.get("dataSourceRef"), "namespace"),
        "VolumeAttributesClassName": spec.get("volumeAttributesClassName"),
    }
    # Names and order of the Go struct core.PersistentVolumeClaimSpec.
    return json.dumps(shown, indent=1, ensure_ascii=False).splitlines()


def _sorted(amounts: Mapping[str, str] | None) -> dict[str, str] | None:
    # Go's encoder sorts the keys of maps.
    return dict(sorted(amounts.items())) if amounts else None


def _source(source: Mapping[str, Any] | None, *more: str) -> dict[str, Any] | None:
    if source is None:
        return None
    shown = {"APIGroup": source.get("apiGroup"), "Kind": source.get("kind", ""), "Name": source.get("name", "")}
    return shown | {name.title(): source.get(name) for name in more}
