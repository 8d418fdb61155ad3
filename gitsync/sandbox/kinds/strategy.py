"""The strategy of a built-in kind: its schema, and the rules that the kind adds to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import ApiError, StatusCause
from gitsync.sandbox.registry.contract import WriteContext
from gitsync.sandbox.schema.decode import Codec
from gitsync.sandbox.schema.scalars import DecodeError
from gitsync.sandbox.validation.metadata import (
    DEFAULT_CHECKS,
    MetadataChecks,
    validate_known_finalizers,
    validate_metadata,
    validate_metadata_update,
)
from gitsync.sandbox.validation.names import Check, dns_subdomain

POD_SPECS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
}
"""The path of the pod spec in each kind that has one."""

# Gate GenericWorkload.
_SPEC = ("schedulingGroup",)
# Gates ClusterTrustBundleProjection and PodCertificateRequest.
_SOURCE = ("clusterTrustBundle", "podCertificate")


def without_disabled(obj: Manifest, path: tuple[str, ...]) -> Manifest:
    """Return an object whose pod spec has none of these members; the very same one when it had none."""
    # Nearly every object has none, and then the deep copy is saved.
    if not any(True for _ in _disabled(_at(obj, path))):
        return obj
    out = copy.deepcopy(obj)
    for holder, member in list(_disabled(_at(out, path))):
        del holder[member]
    return out


def _at(obj: Manifest, path: tuple[str, ...]) -> dict[str, Any]:
    value: Any = obj
    for part in path:
        value = value.get(part) or {}
    spec: dict[str, Any] = value
    return spec


def _disabled(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    yield from ((spec, member) for member in _SPEC if member in spec)
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from ((source, member) for member in _SOURCE if member in source)


Default = Callable[[Manifest], None]
Prepare = Callable[[Manifest, Manifest | None, WriteContext], Manifest]
Validate = Callable[[Manifest, Manifest | None], list[StatusCause]]
FirstStatus = Callable[[Manifest], dict[str, Any]]


def _no_defaults(obj: Manifest) -> None:
    """Default nothing."""


def _unchanged(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    return new


def _no_causes(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    return []


@dataclass(frozen=True, slots=True)
class KindRules:
    """
    The rules of a kind; what is left out adds nothing.

    ``default`` changes a private copy. ``prepare`` sees writes of the main resource and returns what to store,
    ``prepare_status`` the same for writes of the status. ``validate`` sees the object and, on an update, the stored
    one; ``validate_status`` the same for a write of its status. ``first_status`` is the status of a new object, where
    it is not the empty one; ``status_keeps`` the metadata that a write of the status leaves alone. ``name`` checks
    metadata.name; with ``needs_resource_version`` an update must name the version that it replaces;
    ``generation_metadata`` are members of the metadata whose change is a new generation.
    """

    default: Default = _no_defaults
    prepare: Prepare = _unchanged
    validate: Validate = _no_causes
    validate_status: Validate = _no_causes
    prepare_status: Prepare = _unchanged
    first_status: FirstStatus | None = None
    status_keeps: tuple[str, ...] = ()
    name: Check = dns_subdomain
    generation: bool = False
    metadata: MetadataChecks = DEFAULT_CHECKS
    needs_resource_version: bool = False
    generation_metadata: tuple[str, ...] = ()


Kind: TypeAlias = tuple[str, str]
"""Group and kind. Where versions differ, the group of one is written with it: ``autoscaling/v1``."""

RuleTable: TypeAlias = Mapping[Kind, KindRules]


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """
    Strategy of a kind of Kubernetes itself.

    ``default`` decodes as the server does, so a value of the wrong type is a 400 there. ``pod_spec`` is the path of
    its pods' spec, None for a kind without pods.
    """

    kind: str
    version: str
    codec: Codec
    converter: Codec
    schema: str
    rules: KindRules
    namespaced: bool
    has_status: bool
    has_generation: bool
    pod_spec: tuple[str, ...] | None = None

    @property
    def generation_metadata(self) -> tuple[str, ...]:
        """Members of the metadata whose change counts as a new generation."""
        return self.rules.generation_metadata

    @property
    def needs_resource_version(self) -> bool:
        """Whether an update must name the resourceVersion that it replaces."""
        return self.rules.needs_resource_version

    def default(self, obj: Manifest, *, merged: bool = False) -> Manifest:
        """Return the object in canonical form with its defaults; ``merged`` is one that the server made itself."""
        try:
            decoded = (self.converter if merged else self.codec).decode(self.schema, obj)
        except DecodeError as error:
            text = f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {error}'
            raise ApiError(400, "BadRequest", text) from None
        self.rules.default(decoded)
        return decoded

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of members that the schema does not declare, in the order of the object."""
        return self.codec.members.unknown(self.schema, obj)

    def prune(self, obj: Manifest) -> Manifest:
        """Return the object without the members that the schema does not declare."""
        return self.codec.members.prune(self.schema, obj)

    def prepare(self, new: Manifest, old: Manifest | None, subresource: str, env: WriteContext) -> Manifest:
        """Return what is to be stored: status and the rest are kept apart, allocations are made."""
        if subresource == "status":
            return new if old is None else _status_of(new, old, self.rules.status_keeps)
        if subresource:
            return new
        if self.has_status:
            new = self._with_status(new, old)
        # Before the kind's own preparation, which may compare templates.
        if self.pod_spec is not None:
            new = without_disabled(new, self.pod_spec)
        return self.rules.prepare(new, old, env)

    def settle(self, new: Manifest, old: Manifest, env: WriteContext) -> Manifest:
        """Return an object written through a subresource as it is stored, after its managers were found."""
        return self.rules.prepare_status(new, old, env)

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[StatusCause]:
        """Return what is wrong with the object or with the change."""
        if subresource == "status":
            return self.rules.validate_status(new, old)
        if subresource:  # what such a write may change is its own rule
            return self.rules.validate(new, None)
        return self._validate_metadata(new, old) + self.rules.validate(new, old)

    def _validate_metadata(self, new: Manifest, old: Manifest | None) -> list[StatusCause]:
        checks = self.rules.metadata
        if old is not None:
            return validate_metadata_update(new, self.namespaced, checks)
        causes = validate_metadata(new, self.namespaced, self.rules.name)
        return causes + validate_known_finalizers(new) if checks.names else causes

    def _with_status(self, new: Manifest, old: Manifest | None) -> Manifest:
        """Return the object with the stored status, or with the first one of its kind."""
        out = {key: value for key, value in new.items() if key != "status"}
        if old is not None:
            status = old.get("status")
        elif self.rules.first_status is not None:
            status = self.rules.first_status(new)
        else:
            status = self.codec.zero_status(self.schema)
        if status is not None:
            out["status"] = status
        return out


def _status_of(new: Manifest, old: Manifest, keeps: tuple[str, ...]) -> Manifest:
    """Return the stored object with the new status and metadata, but for the metadata that a status write keeps."""
    out = {**old, "metadata": new["metadata"]}
    for member in keeps:
        metadata = {key: value for key, value in out["metadata"].items() if key != member}
        if member in old["metadata"]:
            metadata[member] = old["metadata"][member]
        out["metadata"] = metadata
    if "status" in new:
        out["status"] = new["status"]
    else:
        out.pop("status", None)
    return out
