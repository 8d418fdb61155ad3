"""Kinds without a schema in the data: kept as they come, as a custom resource that preserves everything."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.api import Environment
from gitsync.sandbox.status import Cause


@dataclass(frozen=True, slots=True)
class Schemaless:
    """A strategy that knows nothing of the kind but whether it has a status."""

    has_status: bool
    has_generation: bool = True

    def default(self, obj: Manifest) -> Manifest:
        """Return the object as it is."""
        return obj

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return nothing: no member is known, so none is unknown."""
        return []

    def prune(self, obj: Manifest) -> Manifest:
        """Return the object as it is."""
        return obj

    def prepare(self, new: Manifest, old: Manifest | None, subresource: str, env: Environment) -> Manifest:
        """Return the stored object with the new status for a write of the status, else the object as it is."""
        if subresource != "status" or old is None:
            return new
        rest = {key: value for key, value in old.items() if key != "status"}
        status = {"status": new["status"]} if "status" in new else {}
        return {**rest, "metadata": new["metadata"], **status}

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        """Return nothing: no rule is known."""
        return []
