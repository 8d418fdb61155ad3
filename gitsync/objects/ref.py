"""ObjectRef: which object, without its API version."""

from __future__ import annotations

from typing import NamedTuple

from gitsync.objects.manifest import Manifest, group_of, metadata_of


class GroupKind(NamedTuple):
    """A kind of object: API group (empty for the core group) and kind."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class ObjectRef(NamedTuple):
    """
    Name one object of a cluster; ``namespace`` is empty for cluster-scoped kinds.

    The version is left out on purpose: ``apps/v1`` and ``apps/v1beta1`` are the same object. A tuple, because refs are
    the keys of most mappings, and a tuple is hashed and compared without running Python code.
    """

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def of(self) -> GroupKind:
        """The kind of the object."""
        return GroupKind(self.group, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        """The ref as ``group/kind/namespace/name``, for URLs, keys and the inventory."""
        return f"{self.group}/{self.kind}/{self.namespace}/{self.name}"

    @classmethod
    def from_path(cls, path: str) -> ObjectRef:
        """Read what ``path`` wrote; raise ValueError when it is not of that form."""
        group, kind, namespace, name = path.split("/", 3)
        return cls(group, kind, namespace, name)


def ref_of(manifest: Manifest) -> ObjectRef:
    """Return the ref of a manifest; members that are absent count as empty."""
    meta = metadata_of(manifest)
    return ObjectRef(
        group_of(str(manifest.get("apiVersion") or "")),
        str(manifest.get("kind") or ""),
        str(meta.get("namespace") or ""),
        str(meta.get("name") or ""),
    )
