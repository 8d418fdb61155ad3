"""
Old flags: ``yes``, ``no``, ``on``, ``off``, ``y`` and ``n`` without quotes, in files that configure a build.

Kustomize reads the kustomization file, JSON patches, files of replacements and of transformer configurations by the
rules of YAML 1.1, where these words are flags, and as keys ``true`` or ``false``. Resources are read by newer rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalars import Yaml11Bool

_RAW: Final = YamlLimits(is_raw=True)
_WORDS: Final[dict[str, bool]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}


def read_yaml11(text: bytes, file: str) -> list[Any]:
    """Return the first document of a text, if it has any, with these words as flags."""
    return [with_old_flags(document, text) for document in read_all(text, file, limits=_RAW)[:1]]


def with_old_flags(value: Any, text: bytes) -> Any:
    """Return the value of a text that was read by newer rules, with these words as flags."""
    if not _has_old_flag(value):
        return value
    import yaml  # late: few files have such words

    # Parsed again for its quotes: the value alone does not tell ``"yes"`` from ``yes``.
    loader = yaml.CBaseLoader(text)
    return _flagged(value, loader.get_node()) if loader.check_node() else value


def _has_old_flag(value: Any) -> bool:
    """Return whether a value or a key, which has lost its quotes, is such a word."""
    if isinstance(value, dict):
        return not _WORDS.keys().isdisjoint(value) or any(map(_has_old_flag, value.values()))
    if isinstance(value, list):
        return any(map(_has_old_flag, value))
    return isinstance(value, Yaml11Bool)


def _flagged(value: Any, node: Any) -> Any:
    if node.id == "scalar":
        return _WORDS.get(value, value) if isinstance(value, str) and not node.style else value
    if node.id == "sequence" and isinstance(value, list) and len(node.value) == len(value):
        return [_flagged(item, inner) for item, inner in zip(value, node.value, strict=True)]
    if node.id != "mapping" or not isinstance(value, dict):
        return value
    flagged = dict(value)
    for key_node, inner in node.value:
        key = key_node.value
        if key in value:
            del flagged[key]
            name = str(_WORDS[key]).lower() if key in _WORDS and not key_node.style else key
            flagged[name] = _flagged(value[key], inner)
    return flagged


def reject_ambiguous_bools(manifests: Iterable[Manifest], passed: Iterable[Manifest] = ()) -> None:
    """
    Raise InvalidInput for a ConfigMap with ``yes``, ``no``, ``on``, ``off``, ``y`` or ``n`` without quotes.

    Objects that passed before (the identical ones) are skipped.
    """
    done = set(map(id, passed))
    for manifest in manifests:
        data = manifest.get("data")
        if manifest.get("kind") != "ConfigMap" or id(manifest) in done or not isinstance(data, dict):
            continue
        ambiguous = [f"data.{key} is {value}" for key, value in data.items() if isinstance(value, Yaml11Bool)]
        if ambiguous:
            from gitsync.objects.ref import ref_of  # late: only an error needs it

            raise InvalidInput(
                f"{', '.join(ambiguous)}: a string for some readers of YAML, true or false for others",
                object=str(ref_of(manifest)),
                hint="quote it",
            )
