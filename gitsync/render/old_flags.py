"""
Old flags: ``yes``, ``no``, ``on``, ``off``, ``y`` and ``n`` without quotes, in a kustomization file alone.

Kustomize reads that one file by the rules of YAML 1.1, where these words are flags, and as keys ``true`` or ``false``.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_WORDS: Final[dict[str, bool]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_MAYBE: Final = re.compile(rb"(?i)(^|[\s,{\[:-])(y|yes|on|n|no|off)\s*($|[:,}\]#])", re.MULTILINE)


def with_old_flags(value: Any, text: bytes) -> Any:
    """Return the value of a text that was read by newer rules, with these words as flags."""
    if not _MAYBE.search(text):
        return value
    loader = yaml.CBaseLoader(text)
    return _flagged(value, loader.get_node() if loader.check_node() else None)


def _flagged(value: Any, node: yaml.Node | None) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return _WORDS.get(value, value) if isinstance(value, str) and not node.style else value
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list) and len(node.value) == len(value):
        return [_flagged(item, inner) for item, inner in zip(value, node.value, strict=True)]
    if not isinstance(node, yaml.MappingNode) or not isinstance(value, dict):
        return value
    found = dict(value)
    for key_node, inner in node.value:
        key = key_node.value
        if key in value:
            del found[key]
            name = str(_WORDS[key]).lower() if key in _WORDS and not key_node.style else key
            found[name] = _flagged(value[key], inner)
    return found
