"""FieldSpec: a field that a transformer changes, in the kinds it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.resource import Gvk

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
    """Return the specs and those incoming ones that no present one covers; refuse to contradict the first of these."""
    merged = list(specs)
    for spec in incoming:
        same = next(
            (present for present in merged if present.path == spec.path and spec.gvk.selects(present.gvk)),
            None,
        )
        if same is None:
            merged.append(spec)
        elif same.create != spec.create:
            raise InvalidInput(
                f"two configurations disagree on 'create' for the field {spec.path} of {spec.gvk}",
                hint="give both the same value",
            )
    return tuple(merged)


@lru_cache(maxsize=1024)
def split_path(path: str, separator: str = "/") -> tuple[str, ...]:
    r"""Split a path at its separators, of which one may come first; ``\/`` is a literal one."""
    parts: list[str] = []
    for piece in path.removeprefix(separator).split(separator):
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
    steps, end = _route(spec.path)
    # Kustomize treats such parts as list selectors, and fails on the object that has the field.
    if end is not None:
        _refuse_at(manifest, steps, end, dict if spec.create and make else None)
        return
    _descend(manifest, steps, 0, leaf, make if spec.create else None)


class _Step(NamedTuple):
    """A part of a path."""

    name: str
    is_list: bool
    """Whether the part ends in ``[]``: the field is a list, so it is never created."""

    def __str__(self) -> str:
        return f"{self.name}[]" if self.is_list else self.name


@lru_cache(maxsize=1024)
def _route(path: str) -> tuple[tuple[_Step, ...], int | None]:
    """Return a path's steps, and the position of the first that Kustomize reads as an index or selection of an item."""
    steps = tuple(_Step(part.removesuffix("[]"), part.endswith("[]")) for part in split_path(path))
    names = enumerate(step.name for step in steps)
    return steps, next((at for at, name in names if name in ("", "-", "*") or name[0] == "[" or name.isdecimal()), None)


def _joined(steps: Iterable[_Step]) -> str:
    return "/".join(map(str, steps))


def _refuse_at(manifest: Manifest, steps: tuple[_Step, ...], end: int, make: Callable[[], Any] | None) -> None:
    """Refuse a path where it leads to a part that cannot be a name; one that does not get there changes nothing."""

    def refuse(holder: Any, key: Any) -> None:
        if holder[key] or isinstance(holder[key], dict):
            raise InvalidInput(
                f"{str(steps[end]) or 'an empty part'} in the path {_joined(steps)} is not the name of a field",
                hint="correct the path; it leads through all items of a list by itself",
            )

    if end:
        _descend(manifest, steps[:end], 0, refuse, make)
    else:
        refuse((manifest,), 0)


def _descend(node: Any, steps: tuple[_Step, ...], index: int, leaf: Slot, make: Callable[[], Any] | None) -> None:
    """Follow the steps from ``index`` on: a loop through mappings, and a call for each item of a list."""
    last = len(steps) - 1
    while isinstance(node, dict):
        name, is_list = steps[index]
        value = node.get(name)
        if value is None:
            if is_list and name in node:
                value = node[name] = []
            elif is_list or make is None:
                if name not in node:
                    return
            else:
                value = node[name] = make() if index == last else {}
        if index == last:
            leaf(node, name)
            return
        node = value
        index += 1
    # Lists need no part of the path of their own.
    if isinstance(node, list):
        for item in node:
            _descend(item, steps, index, leaf, make)
    elif node is not None:
        raise InvalidInput(
            f"the path {_joined(steps)} leads through {_joined(steps[:index])}, which is a plain value",
            hint="correct the field, which must be a mapping or a list",
        )
