"""The smallest patch of a kustomization that sets one field, for fields that no place in a file sets by itself."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.locations import Node, Path, nodes

_ITEM: Final = re.compile(r"\[(.+)\]")
_PATCHES: Final = "patches"


def merge_patch(manifest: Manifest, name: str, path: Sequence[str], value: Any) -> dict[str, Any]:
    """
    Return the strategic merge patch that sets a field of the object that had a name before the kustomization.

    Raise InvalidInput where an item of a list on the way has no key.
    """
    patch: dict[str, Any] = {member: manifest[member] for member in ("apiVersion", "kind")}
    patch["metadata"] = {"name": name}
    holder: Any = patch
    for position, part in enumerate(path):
        following = path[position + 1] if position + 1 < len(path) else None
        item = _ITEM.fullmatch(part)
        if item:
            pairs = (pair.partition("=") for pair in item[1].split(","))
            holder.append({key: int(text) if text.isdecimal() else text for key, _, text in pairs})
            holder = holder[-1]
        elif part.isdecimal():
            raise InvalidInput("an item of a list has no key by which a patch can name it", hint="edit the base")
        elif following is None:
            holder[part] = value
        else:
            holder = holder.setdefault(part, [] if _ITEM.fullmatch(following) else {})
    return patch


def with_patch(content: bytes, patch: dict[str, Any]) -> bytes:
    """Return a kustomization file with a patch added to the end of its ``patches``; all its bytes stay."""
    text = content.decode()
    known = nodes(text.removeprefix("\ufeff"))
    root = known.get(())
    if root is None or root.style != ":":
        raise InvalidInput("the kustomization is not a mapping in block style", hint="edit it by hand")
    present = known.get((_PATCHES,))
    if present is None:
        separator = "" if text.endswith("\n") or not text else "\n"
        return (text + separator + f"{_PATCHES}:\n" + _item(patch, "")).encode()
    # A list in brackets stays one: JSON is YAML on a single line.
    if present.style == "[":
        inside = text[present.start : present.end - 1].rstrip()
        comma = "" if inside == "[" else ", "
        entry = json.dumps({"patch": json.dumps(patch)})
        return (text[: present.start] + inside + comma + entry + text[present.end - 1 :]).encode()
    if present.style != "-":
        raise InvalidInput("patches is not a list", hint="edit the kustomization by hand")
    items = [node for path, node in known.items() if len(path) == 2 and path[0] == _PATCHES]
    # The items' own column: lists may be indented or not.
    dash = text.rfind("-", 0, items[0].start)
    indent = " " * (dash - (text.rfind("\n", 0, dash) + 1))
    end = _end_of_lines(text, max(_ends(known, (_PATCHES,))))
    separator = "" if text[:end].endswith("\n") else "\n"
    return (text[:end] + separator + _item(patch, indent) + text[end:]).encode()


def _ends(known: dict[Path, Node], path: Path) -> Iterator[int]:
    """Yield the ends of the scalars, aliases and brackets below a path; a block collection ends later than its text."""
    for other, node in known.items():
        if other[: len(path)] == path and node.style not in (":", "-"):
            yield node.end


def _end_of_lines(text: str, end: int) -> int:
    """Return the start of the line behind a value."""
    if text[end - 1 : end] == "\n":
        return end
    following = text.find("\n", end)
    return len(text) if following < 0 else following + 1


def _item(patch: dict[str, Any], indent: str) -> str:
    lines = _yaml(patch).splitlines()
    return f"{indent}- patch: |-\n" + "".join(f"{indent}    {line}\n" for line in lines)


def _yaml(value: dict[str, Any]) -> str:
    from ruamel.yaml import YAML  # late: few edits add anything

    writer = YAML()
    writer.default_flow_style = False
    writer.width = 10_000  # a line that is folded may read differently inside a block
    stream = io.StringIO()
    writer.dump(value, stream)
    return stream.getvalue()
