"""
Check plain values against a declared shape, as Go decodes JSON into a struct: names without case, nothing unknown.

What is wrong is said with the path to it, so that the caller can give file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.render.yaml.scalar_types import text_of

Path: TypeAlias = tuple[str | int, ...]


class Mismatch(InvalidInput):
    """A value does not have the declared shape; ``path`` leads to it."""

    def __init__(self, what: str, path: Path, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.path = path


class Scalar(NamedTuple):
    """A plain value of one type, or of any where ``kind`` is object."""

    kind: type
    name: str


class ListOf(NamedTuple):
    """A list of values of one shape."""

    item: Shape


class MapOf(NamedTuple):
    """A mapping from any names to values of one shape."""

    item: Shape


class Struct(NamedTuple):
    """A mapping with known members; unknown ones are refused unless ``is_open``."""

    members: Mapping[str, Shape]
    is_open: bool = False


Shape: TypeAlias = "Scalar | ListOf | MapOf | Struct"

TEXT: Final = Scalar(str, "a text")
NUMBER: Final = Scalar(int, "a whole number")
FLAG: Final = Scalar(bool, "true or false")
ANY: Final = Scalar(object, "anything")
TEXTS: Final = ListOf(TEXT)
TEXT_MAP: Final = MapOf(TEXT)


def conform(value: Any, shape: Shape, path: Path = (), *, is_open: bool = False) -> Any:
    """
    Return the value with the declared spelling of names and without nulls.

    Raise Mismatch where it does not have the shape; an unknown name comes with the nearest known one. With
    ``is_open``, unknown names are skipped, and plain values become texts where texts are needed.
    """
    if isinstance(shape, Scalar):
        if is_open and shape.kind is str and not isinstance(value, dict | list):
            return text_of(value)
        return _scalar(value, shape, path)
    if isinstance(shape, ListOf):
        if not isinstance(value, list):
            raise _wrong(value, "a list", path)
        return [
            conform(item, shape.item, (*path, index), is_open=is_open)
            for index, item in enumerate(value)
            if item is not None
        ]
    if not isinstance(value, dict):
        raise _wrong(value, "a mapping", path)
    if isinstance(shape, MapOf):
        return {
            key: conform(item, shape.item, (*path, key), is_open=is_open)
            for key, item in value.items()
            if item is not None
        }
    return _struct(value, shape, path, is_open or shape.is_open)


def _scalar(value: Any, shape: Scalar, path: Path) -> Any:
    is_right = isinstance(value, shape.kind) and (shape.kind is not int or not isinstance(value, bool))
    if not is_right:
        hint = "write it in quotes" if shape.kind is str and not isinstance(value, dict | list) else ""
        raise _wrong(value, shape.name, path, hint)
    return value


def _struct(value: dict[str, Any], shape: Struct, path: Path, is_open: bool) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, item in value.items():
        # encoding/json matches names without regard to case.
        name = key if key in shape.members else _same_letters(key, shape.members)
        if name is None:
            if is_open:
                continue
            raise _unknown(key, shape.members, (*path, key))
        if item is not None:
            members[name] = conform(item, shape.members[name], (*path, key), is_open=is_open)
    return members


def _same_letters(key: str, members: Mapping[str, Shape]) -> str | None:
    return next((name for name in members if name.lower() == key.lower()), None)


def _unknown(key: str, members: Mapping[str, Shape], path: Path) -> Mismatch:
    import difflib  # late: few files have mistakes

    near = difflib.get_close_matches(key, members, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(members))}"
    return Mismatch(f"unknown field {key!r}", path, hint)


def _wrong(value: Any, wanted: str, path: Path, hint: str = "") -> Mismatch:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "a flag", type(None): "null", object: "a number"}
    place = ".".join(str(part) for part in path) or "the file"
    return Mismatch(
        f"{place} must be {wanted}, not {next(name for kind, name in names.items() if isinstance(value, kind))}",
        path,
        hint,
    )
