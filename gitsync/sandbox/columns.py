"""The columns of the built-in kinds, as ``kubectl get`` shows them."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.printing import Column
from gitsync.sandbox.resources import Resource


def _name(obj: Manifest, now: float) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Manifest, now: float) -> str:
    return str(at(obj, "metadata", "creationTimestamp", default="<unknown>"))


_DEFAULT = (Column("Name", _name, "", format="name"), Column("Age", _age))


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Return the columns of a resource."""
    return _DEFAULT
