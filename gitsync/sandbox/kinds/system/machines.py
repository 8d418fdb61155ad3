"""Validation of Nodes, CSINodes and VolumeAttachments (pkg/apis/core/validation, pkg/apis/storage/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds.networking.services import family
from gitsync.sandbox.validation.causes import (
    driver_name,
    duplicate,
    forbidden,
    immutable,
    invalid,
    malformed,
    minimum,
    not_supported,
    required,
)
from gitsync.sandbox.validation.names import cidr, dns_subdomain, label_value, qualified_name

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# pkg/apis/storage/validation: csiNodeIDMaxLength.
_NODE_ID_LENGTH = 192


def validate_node(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check the taints and addresses of a Node; the server names its taints as if they were metadata."""
    spec = new.get("spec") or {}
    causes: list[StatusCause] = []
    effects_and_keys: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        field = f"metadata.taints[{index}]"
        causes += _taint(taint, field)
        pair = (taint.get("effect", ""), taint.get("key", ""))
        if pair in effects_and_keys:
            causes.append(duplicate(field, taint))
        effects_and_keys.add(pair)
    return causes + list(_pod_ranges(spec.get("podCIDRs") or []))


def _pod_ranges(ranges: list[str]) -> Iterator[StatusCause]:
    for index, value in enumerate(ranges):
        yield from malformed(f"spec.podCIDRs[{index}]", value, cidr)
    # Two ranges mean dual stack.
    if len(ranges) > 1 and sorted(map(family, ranges)) != [4, 6]:
        yield invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _taint(taint: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
    yield from malformed(f"{field}.key", taint.get("key", ""), qualified_name)
    value = taint.get("value", "")
    effect = taint.get("effect", "")
    problems = label_value(value)
    if problems:
        yield invalid(f"{field}.value", value, ";".join(problems))
    if not effect:
        yield required(f"{field}.effect")
    elif effect not in _EFFECTS:
        yield not_supported(f"{field}.effect", effect, _EFFECTS)


def validate_csi_node(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a CSINode."""
    drivers = new["spec"].get("drivers") or ()
    causes: list[StatusCause] = []
    names: set[str] = set()
    for index, driver in enumerate(drivers):
        field = f"spec.drivers[{index}]"
        name = driver.get("name", "")
        causes += _driver(driver, field)
        if name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
        causes += _topology_keys(driver.get("topologyKeys") or (), field)
    old_drivers = (
        {driver.get("name"): driver for driver in (old["spec"].get("drivers") or ())} if old is not None else {}
    )
    for driver in drivers:
        stored = old_drivers.get(driver.get("name"))
        if stored is not None:
            # MutableCSINodeAllocatableCount: only the number of attachable volumes may change.
            causes += immutable("spec.drivers", {**driver, "allocatable": None}, {**stored, "allocatable": None})
    return causes


def _driver(driver: Mapping[str, Any], field: str) -> Iterator[StatusCause]:
    node = driver.get("nodeID", "")
    yield from driver_name(f"{field}.name", driver.get("name", ""))
    if not node:
        yield required(f"{field}.nodeID")
    if len(node) > _NODE_ID_LENGTH:
        yield invalid(f"{field}.nodeID", node, f"must be {_NODE_ID_LENGTH} characters or less")
    yield from minimum(f"{field}.allocatable.count", (driver.get("allocatable") or {}).get("count"))


def _topology_keys(keys: list[str] | tuple[str, ...], field: str) -> Iterator[StatusCause]:
    for index, key in enumerate(keys):
        if not key:
            yield required(field)
        if key in keys[:index]:
            yield duplicate(field, key)
        yield from malformed(field, key, qualified_name)


def validate_attachment(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a VolumeAttachment; an inline volume is taken as it is."""
    spec = new["spec"]
    source = spec.get("source") or {}
    volume = source.get("persistentVolumeName")
    inline = source.get("inlineVolumeSpec")
    causes = driver_name("spec.attacher", spec.get("attacher", ""))
    both = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        causes.append(required("spec.source", both))
    elif volume is not None and inline is not None:
        causes.append(forbidden("spec.source", both))
    elif volume == "":
        causes.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    causes += malformed("spec.nodeName", spec.get("nodeName", ""), dns_subdomain)
    if volume is not None:
        causes += malformed("spec.source.persistentVolumeName", volume, dns_subdomain)
    return causes + (immutable("spec", spec, old["spec"]) if old is not None else [])
