"""The strategy of a built-in kind whose schema is not known here: its objects are stored unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.client import WriteContext
from gitsync.sandbox.registry.status import ApiError, Cause
from gitsync.sandbox.schema.decode import metadata_codec
from gitsync.sandbox.schema.scalars import DecodeError
from gitsync.sandbox.validation.metadata import DEFAULT_CHECKS, validate_metadata, validate_metadata_update
from gitsync.sandbox.validation.names import dns_subdomain


@dataclass(frozen=True, slots=True)
class Untyped:
    """Strategy that knows no members, so it refuses none and fills in none."""

    kind: str
    version: str
    namespaced: bool
    has_status: bool
    has_generation: bool = False
    needs_resource_version: bool = False
    generation_metadata: tuple[str, ...] = ()

    def default(self, obj: Manifest, *, merged: bool = False) -> Manifest:
        """Return the object with its metadata in canonical form; 400 when that is not of the right types."""
        try:
            return {**obj, "metadata": metadata_codec().metadata(obj.get("metadata"))}
        except DecodeError as error:
            text = f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {error}'
            raise ApiError(400, "BadRequest", text) from None

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return nothing."""
        return []

    def prune(self, obj: Manifest) -> Manifest:
        """Return the object."""
        return obj

    def prepare(self, new: Manifest, old: Manifest | None, subresource: str, env: WriteContext) -> Manifest:
        """Return the new object, or the stored one with the new status."""
        if subresource != "status" or old is None:
            return new
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        """Return what is wrong with the metadata."""
        if old is not None:
            return validate_metadata_update(new, self.namespaced, DEFAULT_CHECKS)
        return validate_metadata(new, self.namespaced, dns_subdomain)
