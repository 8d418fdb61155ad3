"""The attributes of a request that admission plugins evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.manifest import Manifest, labels_of, metadata_of
from gitsync.sandbox import errors
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.kinds.strategy import POD_SPECS
from gitsync.sandbox.registry.resources import ServedResource
from gitsync.sandbox.users import ApiUser

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """One request; ``obj`` is None for a delete, ``old`` for a create. ``warnings`` collects."""

    operation: str
    obj: Manifest | None
    old: Manifest | None
    resource: ServedResource
    subresource: str
    user: ApiUser
    dry_run: bool
    warnings: list[str]

    @classmethod
    def of(
        cls, operation: str, obj: Manifest | None, old: Manifest | None, request: Mapping[str, Any]
    ) -> AdmissionAttributes:
        """Read the request that the pipeline gives."""
        return cls(
            operation=operation,
            obj=obj,
            old=old,
            resource=request["resource"],
            subresource=request.get("subresource", ""),
            user=request["user"],
            dry_run=bool(request.get("dryRun")),
            warnings=request.get("warnings", []),
        )

    def changed(self, obj: Manifest) -> AdmissionAttributes:
        """Return the same request for a changed object."""
        return replace(self, obj=obj)

    @property
    def subject(self) -> Manifest:
        """The object as it will be, or as it was when it goes."""
        return self.obj if self.obj is not None else self.old or {}

    @property
    def name(self) -> str:
        """The object's name."""
        return str(metadata_of(self.subject).get("name") or "")

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for one of the cluster's."""
        return str(metadata_of(self.subject).get("namespace") or "")

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return labels_of(self.subject)

    def is_new(self, group: str, *kinds: str) -> bool:
        """Return whether an object of one of the kinds is created."""
        return self.operation == CREATE and not self.subresource and self.is_of(group, *kinds)

    def is_of(self, group: str, *kinds: str) -> bool:
        """Return whether the request is about one of the kinds."""
        return self.resource.group == group and self.resource.kind in kinds

    def forbidden(self, why: str, **details: Any) -> ApiError:
        """Return the 403 for this request."""
        return errors.forbidden(self.resource.plural, self.resource.group, self.name, why, **details)


def pod_spec_of(obj: Manifest, attributes: AdmissionAttributes) -> tuple[Mapping[str, Any], str] | None:
    """Return the pod spec of an object and its path, None for a kind without pods."""
    path = POD_SPECS.get((attributes.resource.group, attributes.resource.kind))
    if path is None:
        return None
    value: Any = obj
    for part in path:
        value = value.get(part) or {}
    return value, ".".join(path)
