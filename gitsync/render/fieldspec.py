"""FieldSpec: a field that a transformer changes, in the kinds it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resource import Gvk

Slot: TypeAlias = "Callable[[Any, Any], None]"
"""Called with the collection that holds a field, and the field's key or index in it."""

_FIRST = (
    *("Namespace", "ResourceQuota", "StorageClass", "CustomResourceDefinition", "ServiceAccount"),
    *("PodSecurityPolicy", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret"),
    *("Endpoints", "Service", "LimitRange", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim"),
    *("Deployment", "StatefulSet", "CronJob", "PodDisruptionBudget"),
)
_LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
KIND_ORDER: dict[str, int] = {
    **{kind: index - len(_FIRST) for index, kind in enumerate(_FIRST)},
    **{kind: index + 1 for index, kind in enumerate(_LAST)},
}
"""Negative for kinds that come first, positive for kinds that come last."""


class FieldSpec(NamedTuple):
    """A path such as ``spec/template/metadata/labels``, the kinds that have it, and whether to create it."""

    gvk: Gvk
    path: str
    create: bool = False


class NameReference(NamedTuple):
    """The fields that hold the name of an object of a kind."""

    target: Gvk
    referrers: tuple[FieldSpec, ...]


def gvk_order(gvk: Gvk) -> tuple[int, str]:
    """Return the key by which Kustomize orders kinds."""
    text = f"{gvk.group or '~G'}_{gvk.version or '~V'}_{gvk.kind or '~K'}"
    return KIND_ORDER.get(gvk.kind, 0), text


def merge_specs(specs: tuple[FieldSpec, ...], incoming: Iterable[FieldSpec]) -> tuple[FieldSpec, ...]:
    """Return the specs and those incoming ones that no present one covers; refuse contradictions."""
    merged = list(specs)
    for spec in incoming:
        same = next((one for one in merged if one.path == spec.path and spec.gvk.selects(one.gvk)), None)
        if same is None:
            merged.append(spec)
        elif same.create != spec.create:
            raise InvalidInput(
                f"two configurations disagree on 'create' for the field {spec.path} of {spec.gvk}",
                cure="give both the same value",
            )
    return tuple(merged)


@lru_cache(maxsize=1024)
def split_path(path: str, separator: str = "/") -> tuple[str, ...]:
    r"""Split a path at its separators; ``\/`` is a literal one."""
    parts: list[str] = []
    for piece in path.split(separator):
        if parts and parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1] + separator + piece
        else:
            parts.append(piece)
    return tuple(parts)


def visit(manifest: Manifest, spec: FieldSpec, leaf: Slot, make: Callable[[], Any] | None = None) -> None:
    """
    Call ``leaf`` for each field that the spec's path leads to, through all items of lists.

    Missing fields are created when the spec says so and ``make`` gives the value of the last one.
    """
    _Visit(spec, leaf, make if spec.create else None).enter({"": manifest}, "", 0)


class _Visit:
    __slots__ = ("leaf", "make", "parts", "path")

    def __init__(self, spec: FieldSpec, leaf: Slot, make: Callable[[], Any] | None) -> None:
        self.parts = split_path(spec.path)
        self.path = spec.path
        self.leaf = leaf
        self.make = make

    def enter(self, holder: Any, key: Any, index: int) -> None:
        if index == len(self.parts):
            self.leaf(holder, key)
            return
        node = holder[key]
        if isinstance(node, dict):
            self._field(node, index)
        elif isinstance(node, list):
            for position in range(len(node)):
                self.enter(node, position, index)
        elif node is not None:
            raise InvalidInput(
                f"the path {self.path} leads through {'/'.join(self.parts[:index])}, which is a plain value",
                cure="correct the field, which must be a mapping or a list",
            )

    def _field(self, node: dict[str, Any], index: int) -> None:
        name = self.parts[index]
        is_list = name.endswith("[]")
        if is_list:
            name = name[:-2]
        if node.get(name) is None:
            if is_list or self.make is None:
                if name not in node:
                    return
            else:
                node[name] = self.make() if index == len(self.parts) - 1 else {}
        self.enter(node, name, index + 1)
