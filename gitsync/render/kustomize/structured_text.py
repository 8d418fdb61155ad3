"""
Structured text: set fields inside YAML or JSON that is itself the text of a field, such as a file in a ConfigMap.

JSON is written as Kustomize 5.8 writes it, with sorted keys. In YAML only the values are replaced; comments, order and
layout stay, where Kustomize may change the layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import yaml

from gitsync.errors import InvalidInput
from gitsync.render.resources.field_path import Slot, slots
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalar_types import plain, text_of
from gitsync.render.yaml.writer import write

_STYLED: Final = YamlLimits(styles=True)
_HTML: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""What Go escapes in JSON."""
_FLOW_INDICATORS: Final = frozenset(",?[]{}:")


def set_inside(
    text: str, path: Sequence[str], new_value: Callable[[Slot], Any], create: Callable[[], Any] | None
) -> str | None:
    """Return the text with the fields at a path set, or None where it is not structured or has no such field."""
    text = str(text)  # the parser rejects subclasses
    try:
        documents = read_all(text, limits=_STYLED)
        if len(documents) != 1 or not isinstance(documents[0], dict | list):
            return None
        document = documents[0]
        fields = slots(document, path, create)
        changed = [(slot, new_value(slot)) for slot in fields]
    except InvalidInput:
        return None
    if not changed:
        return None
    is_json = text.lstrip()[0] in "{["
    edited = None if is_json else _edited(text, document, changed)
    if edited is not None:
        return edited.strip()
    for slot, value in changed:
        slot.holder[slot.key] = value
    return _json(plain(document), text) if is_json else _dumped(plain(document))


def _json(value: Any, original: str) -> str:
    is_pretty = "\n" in original and "  " in original
    separators = (",", ": ") if is_pretty else (",", ":")
    written = json.dumps(
        value, indent=2 if is_pretty else None, separators=separators, sort_keys=True, ensure_ascii=False
    )
    return written.translate(_HTML)


def _dumped(value: Any) -> str:
    dumped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=float("inf"))
    return dumped.strip()


def _edited(text: str, document: Any, changed: Sequence[tuple[Slot, Any]]) -> str | None:
    """Return YAML with plain values replaced in their place, or None where a change is not of that kind."""
    loader = yaml.CBaseLoader(text)
    nodes = dict(_nodes(document, loader.get_node(), is_flow=False)) if loader.check_node() else {}
    edits = []
    for slot, value in changed:
        node, is_flow = nodes.get((id(slot.holder), slot.key), (None, False))
        written = _written(value, node, is_flow, text)
        if written is None:
            return None
        edits.append((node.start_mark.index, node.end_mark.index, written))
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _nodes(value: Any, node: Any, *, is_flow: bool) -> Iterator[tuple[tuple[int, Any], tuple[Any, bool]]]:
    """Yield holder and key of each value with its node and whether it is in a flow collection."""
    is_flow = is_flow or bool(getattr(node, "flow_style", False))
    items: list[tuple[Any, Any]] = []
    if isinstance(node, yaml.MappingNode) and isinstance(value, dict):
        items = [(key.value, item) for key, item in node.value if key.value in value]
    elif isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        items = list(enumerate(node.value))
    for key, item in items:
        yield (id(value), key), (item, is_flow)
        yield from _nodes(value[key], item, is_flow=is_flow)


def _written(value: Any, node: Any, is_flow: bool, text: str) -> str | None:
    """Return a value in the style of the node that it replaces, or None where that has to be written differently."""
    if not isinstance(node, yaml.ScalarNode) or isinstance(value, dict | list):
        return None
    if node.style in ("|", ">") or text[node.start_mark.index : node.start_mark.index + 1] in "&!*":
        return None
    content = text_of(value)
    if node.style == '"' or "\n" in content:
        return json.dumps(content, ensure_ascii=False)
    if node.style == "'" or (is_flow and not _FLOW_INDICATORS.isdisjoint(content)):
        return "'" + content.replace("'", "''") + "'"
    return write(value).strip() if isinstance(value, str) else content
