"""
Structured text: set a value inside YAML or JSON that is itself the text of a field, such as a file in a ConfigMap.

Only the value is replaced; comments, order and layout of the text stay. Kustomize 5.5 refuses such paths.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from gitsync.errors import InvalidInput
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.writer import write


def with_value(text: str, path: Sequence[str], value: str) -> str | None:
    """Return the text with the plain value at a path replaced, or None where the text has no such value."""
    text = str(text)  # the parser takes nothing that is only like a text
    try:
        documents = read_all(text)  # within limits, so that what follows is
    except InvalidInput:
        return None
    if len(documents) != 1 or not isinstance(documents[0], dict | list):
        return None
    loader = yaml.CBaseLoader(text)
    node: Any = loader.get_node() if loader.check_node() else None
    for part in path:
        node = _inside(node, part)
    if not isinstance(node, yaml.ScalarNode):
        return None
    is_json = text.lstrip().startswith(("{", "["))
    return text[: node.start_mark.index] + _written(value, node.style, is_json) + text[node.end_mark.index :]


def _inside(node: Any, part: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
        return node.value[int(part)]
    if isinstance(node, yaml.SequenceNode) and part.startswith("[") and part.endswith("]"):
        key, _, wanted = part[1:-1].partition("=")
        return next((item for item in node.value if getattr(_inside(item, key), "value", None) == wanted), None)
    return None


def _written(value: str, style: str | None, is_json: bool) -> str:
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    if style == '"' or "\n" in value:
        return json.dumps(value, ensure_ascii=False)
    return value if is_json else write(value).strip()
