"""Diff the inside of an atomic value (list, map, long text) for display."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gitsync.merge.schema import DEDUCED, Schema, builtin
from gitsync.objects.change import ABSENT, Action, Change, Difference, FieldDifference
from gitsync.objects.keys import LAST_APPLIED
from gitsync.objects.manifest import Manifest, annotations_of, group_of, metadata_of, pointer_parts
from gitsync.plan.equality import is_default
from gitsync.plan.mask import mask

# changes of one value that a page lists
_LIMIT = 40
_LARGEST = 2000
"""Plain values in a container, and lines in a text, that are still compared one by one."""
_CONTEXT = 3
_ADDED = ("dictionary_item_added", "iterable_item_added", "attribute_added")
_REMOVED = ("dictionary_item_removed", "iterable_item_removed", "attribute_removed")


@dataclass(frozen=True, slots=True)
class NestedChange:
    """One place inside a value: its path below the value, and both sides; ABSENT where a side has nothing there."""

    path: str
    live: Any
    desired: Any


@dataclass(frozen=True, slots=True)
class TextDiffLine:
    """One line of a long text: ``mark`` is ``-`` (in the cluster), ``+`` (in Git), a space, or ``…`` (skipped)."""

    mark: str
    text: str


def changes_in(difference: FieldDifference, live: Manifest | None) -> tuple[NestedChange, ...]:
    """Return where the two sides of a difference differ inside; empty where only the order does."""
    if difference.kind is Difference.ORDER or difference.live is ABSENT or difference.desired is ABSENT:
        return ()
    return inner_changes(difference.live, difference.desired, _schema_at(live or {}, difference.pointer))


def inner_changes(live: Any, desired: Any, schema: Schema = DEDUCED) -> tuple[NestedChange, ...]:
    """
    Return where two containers differ inside, at most 40 places; texts of JSON are parsed.

    Empty unless both are mappings or both lists, and small enough to read. Items of lists are matched by similarity,
    so one inserted in front does not show all others as changed. Defaults of the API server are not changes.
    """
    live = _container(live)
    desired = _container(desired)
    if type(live) is not type(desired) or not isinstance(live, dict | list):
        return ()
    if max(_size(live), _size(desired)) > _LARGEST:
        return ()
    changes = _changes(_without_defaults(schema, live), _without_defaults(schema, desired))
    return tuple(sorted(changes, key=lambda change: change.path))[:_LIMIT]


def inner_lines(live: Any, desired: Any) -> tuple[TextDiffLine, ...]:
    """Return the lines of a text that differ, with some around them; empty for a text of one line."""
    live_lines, desired_lines = (side.splitlines() if isinstance(side, str) else [] for side in (live, desired))
    if max(len(live_lines), len(desired_lines)) < 2:
        return ()
    if len(live_lines) + len(desired_lines) > _LARGEST:
        return (
            TextDiffLine("-", f"{len(live_lines)} lines"),
            TextDiffLine("+", f"{len(desired_lines)} lines: too many to compare here"),
        )
    return tuple(_lines(live_lines, desired_lines))


def _container(value: Any) -> Any:
    """Return the parsed value of a JSON text, and any other value as it is."""
    if value is ABSENT or not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")):
        return None if value is ABSENT else value
    try:
        return orjson.loads(value)
    # It only begins like JSON, as a template does: shown as a text.
    except orjson.JSONDecodeError:
        return value


def _schema_at(live: Manifest, pointer: str) -> Schema:
    """Return the built-in schema of the field at a JSON Pointer; an empty one for custom resources."""
    api_version = str(live.get("apiVersion") or "")
    schema = builtin().for_kind(group_of(api_version), api_version.rpartition("/")[2], str(live.get("kind") or ""))
    for name in pointer_parts(pointer):
        if schema is None:
            break
        schema = schema.items if schema.is_list else schema.fields[name]
    return schema or DEDUCED


def _without_defaults(schema: Schema, value: Any) -> Any:
    if isinstance(value, list):
        return [_without_defaults(schema.items or DEDUCED, item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_defaults(schema.fields[name] or DEDUCED, item)
        for name, item in value.items()
        if not is_default(schema, name, item, value)
    }


def _size(value: Any) -> int:
    """Return the number of scalars in a value, up to the limit."""
    # Not recursive: authors choose how deep a value is nested.
    waiting = [value]
    size = 0
    while waiting and size <= _LARGEST:
        item = waiting.pop()
        size += 1
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return size


def _changes(live: Any, desired: Any) -> Iterator[NestedChange]:
    from deepdiff import DeepDiff  # late: it takes longer to load than most diffs to show

    # 0: by default DeepDiff reports two mappings with few equal members as one change.
    tree = DeepDiff(live, desired, view="tree", threshold_to_diff_deeper=0)
    for kind, levels in tree.items():
        for level in levels:
            yield NestedChange(
                path=_path(level.path(output_format="list")),
                live=ABSENT if kind in _ADDED else level.t1,
                desired=ABSENT if kind in _REMOVED else level.t2,
            )


def _path(parts: list[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _lines(live: list[str], desired: list[str]) -> Iterator[TextDiffLine]:
    last = 0
    # With autojunk, lines that recur often in a long text would never match.
    for group in difflib.SequenceMatcher(None, live, desired, autojunk=False).get_grouped_opcodes(_CONTEXT):
        yield from _skipped(group[0][1] - last)
        for tag, start, end, from_, to in group:
            if tag == "equal":
                yield from (TextDiffLine(" ", text) for text in live[start:end])
            else:
                yield from (TextDiffLine("-", text) for text in live[start:end])
                yield from (TextDiffLine("+", text) for text in desired[from_:to])
        last = group[-1][2]
    yield from _skipped(len(live) - last)


def _skipped(count: int) -> Iterator[TextDiffLine]:
    if count > 0:
        yield TextDiffLine("…", f"{count} equal {'line' if count == 1 else 'lines'}")


_SERVER_METADATA = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")


def whole_object(change: Change) -> FieldDifference | None:
    """
    Return the object as one difference where a step creates, runs or deletes it, Secret values masked.

    None where its fields tell what changes: for updates, and for generated objects that follow another one.
    """
    if change.action is Action.PRUNE and change.live is not None:
        return FieldDifference("", "", Difference.EXTRA, live=declared_content(change.live))
    is_new = change.action in (Action.CREATE, Action.HOOK) and change.follows is None
    if is_new and change.desired is not None:
        return FieldDifference("", "", Difference.GONE, desired=declared_content(change.desired))
    return None


def declared_content(manifest: Manifest) -> Manifest:
    """Return an object without its status and what only the API server sets, Secret values masked."""
    shown = {key: value for key, value in mask(manifest).items() if key != "status"}
    metadata: dict[str, Any] = {k: v for k, v in metadata_of(shown).items() if k not in _SERVER_METADATA}
    if LAST_APPLIED in annotations_of(shown):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != LAST_APPLIED}
    return {**shown, "metadata": metadata}
