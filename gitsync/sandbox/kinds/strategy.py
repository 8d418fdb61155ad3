"""The strategy of a built-in kind: its schema, and the rules of its area."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.client import WriteContext
from gitsync.sandbox.kinds.pods.disabled import without_disabled
from gitsync.sandbox.kinds.rules import KindRules
from gitsync.sandbox.registry.status import ApiError, Cause
from gitsync.sandbox.schema.decode import Codec
from gitsync.sandbox.schema.scalars import DecodeError
from gitsync.sandbox.validation.metadata import (
    validate_known_finalizers,
    validate_metadata,
    validate_metadata_update,
)


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
        if self.pod_spec is not None:
            new = without_disabled(new, self.pod_spec)
        return self.rules.prepare(new, old, env)

    def settle(self, new: Manifest, old: Manifest, env: WriteContext) -> Manifest:
        """Return an object written through a subresource as it is stored, after its managers were found."""
        return self.rules.prepare_status(new, old, env)

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        """Return what is wrong with the object or with the change."""
        if subresource == "status":
            return self.rules.validate_status(new, old)
        if subresource:  # what such a write may change is its own rule
            return self.rules.validate(new, None)
        return self._validate_metadata(new, old) + self.rules.validate(new, old)

    def _validate_metadata(self, new: Manifest, old: Manifest | None) -> list[Cause]:
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
