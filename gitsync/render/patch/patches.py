"""
Patches: read strategic merge and JSON patches, find their targets, and apply them.

JSON patches follow RFC 6902, with the rules of Kustomize where they differ from the library's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, unescaped_name
from gitsync.render.build_cache import CachedSteps, hashable
from gitsync.render.patch import strategic_merge
from gitsync.render.patch.merge_keys import MergeSchema
from gitsync.render.provenance.paths import indexes
from gitsync.render.provenance.step_source import FieldChange, SourceFile, StepSource, is_at, value_at
from gitsync.render.resources.internal_annotations import may_change_kind, may_rename
from gitsync.render.resources.objects import objects_in
from gitsync.render.resources.resource import Id, Resource, copy_value, gvk_of, refuse_large
from gitsync.render.resources.scopes import Scopes
from gitsync.render.resources.selectors import select
from gitsync.render.yaml.limits import YamlLimits
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalar_types import REWRITTEN, Quoted, is_plain, plain, spelled, text_of, texts_of
from gitsync.render.yaml.scalars import as_written, whole
from gitsync.render.yaml.writer import write
from gitsync.render.yaml.yaml11 import with_old_flags

_LARGE: Final = 10**6
"""From here on, Go spells a number that was a float with an exponent."""


def read_operations(text: bytes | str, document: Any, file: str) -> list[dict[str, Any]] | None:
    """
    Return the operations of a JSON patch whose first document is given, or None where it is none.

    A text that begins with ``[`` must be JSON to the letter, else InvalidInput is raised; any other is YAML, with
    ``yes`` and the like as flags.
    """
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        return None
    source = text if isinstance(text, bytes) else text.encode()
    # Kustomize decides by the first character, without skipping spaces.
    if not source.startswith(b"["):
        return [as_written(item) for item in with_old_flags(document, source)]
    try:
        import json  # late: most patches are YAML

        operations: list[dict[str, Any]] = json.loads(source, parse_constant=_refuse_constant)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InvalidInput(
            f"a patch that begins with [ must be JSON, and this is not ({error})",
            hint="put names and texts in double quotes, or write a YAML list with - before each operation",
            location=f"{file}:{line}" if isinstance(text, bytes) else file,
        ) from None
    return operations


_STYLES: Final = "'\"|"
"""What begins a scalar that is not plain."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _read_again(value: Any) -> Any:
    """Return a value as it is after a way through JSON: no braces, and floats of 64 bits, spelled as Go does."""
    if isinstance(value, dict):
        # each patch makes the same names again for each object
        return {intern(str(key)): _read_again(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_read_again(item) for item in value]
    if isinstance(value, str):
        return _short_text(value) if len(value) <= _SHORT else _text(value)
    if isinstance(value, bool) or value is None:
        return value
    number = float(value)
    if not number.is_integer() or abs(number) >= 1e21:
        return number
    return int(number) if abs(number) < _LARGE else spelled(whole(number), write(number).rstrip())


_SHORT: Final = 64
"""Characters of a text whose style is remembered: each of many patches reads all texts of an object again."""


def _text(value: str) -> str:
    # go-yaml quotes more than what would be of another type, such as yes, and writes lines as a block
    return Quoted(value) if write(value)[0] in _STYLES else str(value)


# by type: a text that was quoted stays quoted
_short_text = lru_cache(maxsize=4096, typed=True)(_text)


def apply(manifest: Manifest, operations: Sequence[dict[str, Any]]) -> Manifest:
    """Change the manifest by the operations in order and return it; raise InvalidInput where one fails."""
    import jsonpatch  # only where a JSON patch is used

    if not is_plain(manifest, REWRITTEN):
        manifest = plain(manifest)  # Kustomize writes the object as JSON first
    for number, operation in enumerate(operations):
        name = operation.get("op")
        path = operation.get("path")
        if "" in (path, operation.get("from")):
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name}) means the whole object", hint="name a field in its path"
            )
        # Each copy may double the object.
        if name == "copy":
            refuse_large(manifest)
        try:
            patch = jsonpatch.JsonPatch([_lenient(rooted(copy_value(operation)), manifest)])
            manifest = patch.apply(manifest, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            # The library quotes values, even the whole object, which may be a Secret.
            if isinstance(error, jsonpatch.InvalidJsonPatch):
                why = str(error)
            elif isinstance(error, jsonpatch.JsonPatchTestFailed):
                why = "another value is there"
            else:
                why = "the object has no such place"
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name} {path}) failed: {why}",
                hint="correct the path or the object",
            ) from None
    return {str(key): _read_again(value) for key, value in manifest.items()}


def rooted(operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation whose pointers begin with a slash: Kustomize ignores what precedes the first one."""
    pointers = {name: operation.get(name) for name in ("path", "from")}
    shortened = {
        name: pointer[pointer.index("/") :]
        for name, pointer in pointers.items()
        if isinstance(pointer, str) and "/" in pointer and pointer[0] != "/"
    }
    return {**operation, **shortened} if shortened else operation


def replaces_annotations(operations: Sequence[dict[str, Any]]) -> bool:
    """Return whether operations take away all annotations that were there."""
    means = ("/metadata", "/metadata/annotations")
    return any(
        operation.get("from" if operation.get("op") == "move" else "path") in means or operation.get("path") in means
        for operation in map(rooted, operations)
        if operation.get("op") != "test"
    )


def _lenient(operation: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """
    Return an operation as the library takes it.

    Kustomize counts from the end, replaces what is absent, and takes no value, or what is absent in a test, for null.
    """
    for member in ("path", "from"):
        if isinstance(operation.get(member), str) and "/-" in operation[member]:
            inserts = member == "path" and operation.get("op") in ("add", "copy", "move")
            operation[member] = _from_start(operation[member], manifest, inserts)
    name = operation.get("op")
    path = operation.get("path")
    if name in ("add", "replace"):
        operation.setdefault("value", None)
    # evanphx/json-patch adds a missing member of a mapping instead of failing.
    if name == "replace" and _is_missing(manifest, path):
        operation["op"] = "add"
    if name == "copy" and _is_missing(manifest, operation.get("from")):
        return {"op": "add", "path": path, "value": None}
    # A missing member equals null there.
    if name == "test" and _is_missing(manifest, path) and operation.get("value", 0) is None:
        return {"op": "test", "path": "", "value": manifest}
    return operation


def _is_missing(manifest: Manifest, pointer: Any) -> bool:
    """Return whether a pointer leads to a mapping that lacks the last name."""
    if not isinstance(pointer, str):
        return False
    *parents, last = [unescaped_name(part) for part in pointer.split("/")[1:]] or [""]
    holder = _at(manifest, parents)
    return isinstance(holder, dict) and last not in holder


def _from_start(pointer: str, manifest: Manifest, inserts: bool) -> str:
    """Return a pointer with indexes that count from the end turned round; an inserted item may follow the last."""
    parts = pointer.split("/")
    for index, part in enumerate(parts):
        if part.startswith("-") and part[1:].isdecimal():
            holder = _at(manifest, [unescaped_name(parent) for parent in parts[1:index]])
            length = len(holder) + (inserts and index == len(parts) - 1) if isinstance(holder, list) else 0
            # A negative index counts from the end (SupportNegativeIndices).
            if int(part) + length >= 0:
                parts[index] = str(int(part) + length)
    return "/".join(parts)


def _at(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


_RAW: Final = YamlLimits(is_raw=True)
_WRITES: Final = ("add", "replace", "copy", "move")


class Patch(NamedTuple):
    """What one entry of ``patches`` holds: merge patches, or the operations of one JSON patch."""

    merges: tuple[Manifest, ...]
    operations: tuple[dict[str, Any], ...]
    target: Mapping[str, Any] | None
    may_rename: bool
    may_change_kind: bool
    where: str
    key: Hashable
    """Its whole configuration, for the cache."""
    is_legacy: bool = False
    texts: tuple[tuple[SourceFile, Manifest], ...] = ()
    """The merge patches with the text of each, where its lines are those of a file."""
    source: SourceFile | None = None
    """The text of the operations, likewise."""

    @property
    def step_source(self) -> StepSource:
        """The fields that the patch sets, for provenance."""
        pointers = dict(self._pointers())
        return StepSource(
            self.where,
            self.texts,
            merges=self.merges,
            pointers=tuple(pointers.values()),
            find=self._operation if pointers and self.source else None,
        )

    def _pointers(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the operations that write, by their positions, with the parts of their paths."""
        for position, operation in enumerate(self.operations):
            path = operation.get("path")
            if operation.get("op") in _WRITES and isinstance(path, str):
                yield position, tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])

    def _operation(self, change: FieldChange) -> Sequence[str]:
        """Return the line of the value that the last operation on a field wrote."""
        assert self.source is not None
        lines: list[str] = []
        for position, pointer in reversed(tuple(self._pointers())):
            value = self.operations[position].get("value")
            if not is_at(change.position, pointer):
                continue
            below = change.position[len(pointer) :]
            if len(indexes(value, below)) < len(below):
                continue
            member = ("value",) if "value" in self.operations[position] else ()
            lines.append(self.source.where((position, *member, *(below if member else ()))))
            # "-" may be any item of the list; the one that the operation added is equal to its value
            if "-" not in pointer or value_at(change.manifest, change.position[: len(pointer)]) == value:
                return lines[-1:]
        return lines[:1]


def read_patch(
    text: bytes | str,
    file: str,
    entry: Mapping[str, Any],
    location: str,
    *,
    is_legacy: bool = False,
    may_be_empty: bool = False,
    source: SourceFile | None = None,
) -> Patch:
    """
    Return the patch of an entry; raise InvalidInput where the text is neither kind of patch.

    ``source`` locates the lines of a text that is not a file.

    A text without any object, such as a file of comments, is a patch that changes nothing where it ``may_be_empty``.
    """
    documents = read_all(text, file, limits=_RAW)
    # Kustomize reads only the first document of a JSON patch
    operations = read_operations(text, documents[0], file) if documents else None
    # Kustomize tries both readings, and fails where neither works.
    if operations is None and not all(isinstance(document, dict) for document in documents):
        raise InvalidInput(
            "the patch is neither a strategic merge patch nor a JSON patch",
            location=location,
            hint="write an object with apiVersion, kind and metadata.name, or a list of operations",
        )
    if not documents and not may_be_empty:
        raise InvalidInput("the patch is empty", location=location, hint="write a patch, or remove the entry")
    objects = [] if operations is not None else objects_in(text, file)
    merges = tuple(manifest for _, manifest in objects)
    target = entry.get("target")
    if target is None and not merges and documents:
        raise InvalidInput("the patch has no target", location=location, hint="add a target")
    # Kustomize 5.8 refuses it too: a target would not tell which of the patches it means
    if target is not None and len(merges) > 1:
        raise InvalidInput(
            "one entry of patches holds several strategic merge patches, which cannot share a target",
            location=location,
            hint="remove the target, or give each patch an entry of its own",
        )
    options = entry.get("options") or {}
    if isinstance(text, bytes):
        source = SourceFile(file, text)
    return Patch(
        merges,
        tuple(operations or ()),
        target,
        bool(options.get("allowNameChange")) or any(map(may_rename, merges)),
        bool(options.get("allowKindChange")) or any(map(may_change_kind, merges)),
        location,
        (text, hashable(target), hashable(options), is_legacy),
        is_legacy,
        tuple((source._replace(document=document), manifest) for document, manifest in objects) if source else (),
        source,
    )


class Patcher:
    """Apply patches to the resources of one kustomization, finding targets by index."""

    def __init__(self, resources: list[Resource], scopes: Scopes, schema: MergeSchema, steps: CachedSteps) -> None:
        self._resources = resources
        self._scopes = scopes
        self._schema = schema
        self._steps = steps
        self._by_id: dict[Id, list[Resource]] | None = None

    def apply(self, patch: Patch, resources: Sequence[Resource]) -> None:
        """
        Apply one patch to its targets; raise InvalidInput, with its place, where it does not fit.

        A patch that names its target searches all resources, one that selects targets only the given ones.
        """
        try:
            if patch.target is None:
                for position, merge in enumerate(patch.merges):
                    act = partial(self._merge_all, merge=merge, patch=patch)
                    self._steps.run((patch.key, position), [self._named(merge)], act)
                    # Later patches find the object by its new id as well.
                    if patch.may_rename or patch.may_change_kind:
                        self._by_id = None
                return
            for merge in patch.merges:
                self._merge_all(select(resources, patch.target, self._scopes), merge, patch)
            if patch.operations:
                for target in select(resources, patch.target, self._scopes):
                    self._scopes.remember(target)
                    self.operate(target, patch.operations)
        except InvalidInput as error:
            raise InvalidInput(
                error.message, location=error.location or patch.where, object=error.object, hint=error.hint
            ) from None

    def operate(self, target: Resource, operations: Sequence[dict[str, Any]]) -> None:
        """Apply the operations of a JSON patch to one resource."""
        # An operation may add below annotations only because Kustomize has notes there.
        if target.previous or target.behavior:  # Kustomize then has notes of its own in the annotations
            meta = target.editable.get("metadata")
            if isinstance(meta, dict) and meta.get("annotations") is None:
                meta["annotations"] = {}
        subject = str(self._scopes.id_of(target))
        try:
            target.put(apply(target.editable, operations))
            target.shared_entries = ()
            target.check_names()
            if replaces_annotations(operations):
                target.forget_origin()
                meta = target.editable.get("metadata")
                if meta and not isinstance(meta.get("annotations", {}), dict):
                    meta["annotations"] = {}  # where Kustomize writes its notes again
        except InvalidInput as error:
            raise InvalidInput(error.message, object=subject, hint=error.hint) from None

    def _named(self, merge: Manifest) -> Resource:
        """Return the one resource that has, or had, the id that a merge patch names."""
        if self._by_id is None:
            self._by_id = {}
            for resource in self._resources:
                for id_ in dict.fromkeys(self._scopes.all_ids(resource)):
                    self._by_id.setdefault(id_, []).append(resource)
        meta = merge.get("metadata") or {}
        gvk = gvk_of(merge)
        wanted = Id(gvk, self._scopes.effective(gvk, text_of(meta.get("namespace"))), text_of(meta.get("name")))
        # What an earlier patch deleted is still in the index.
        resources = [resource for resource in self._by_id.get(wanted) or () if resource.manifest]
        if len(resources) != 1:
            what = f"{len(resources)} resources match" if resources else "no resource matches"
            raise InvalidInput(
                f"{what} the patch for {gvk} {wanted.name}",
                object=str(wanted),
                hint="correct apiVersion, kind, name and namespace, or give the patch a target",
            )
        return resources[0]

    def _merge_all(self, targets: Sequence[Resource], merge: Manifest, patch: Patch) -> None:
        for target in targets:
            self._merge(target, merge, patch)

    def _merge(self, target: Resource, merge: Manifest, patch: Patch) -> None:
        if not target.manifest:
            return
        name = target.name
        namespace = target.namespace
        kind = text_of(target.manifest.get("kind"))
        if patch.may_rename or patch.may_change_kind:
            self._scopes.remember(target)
        if patch.target is not None or patch.is_legacy:
            merge = _retargeted(merge, target.manifest)
        try:
            merged = strategic_merge.merge(target.editable, merge, self._schema)
        except InvalidInput as error:
            raise InvalidInput(error.message, object=str(self._scopes.id_of(target)), hint=error.hint) from None
        target.put(merged or {})
        if merged is None:
            return
        if strategic_merge.replaces_annotations(merge):
            target.forget_past()
        if not patch.may_change_kind:
            merged["kind"] = kind
        passed = merge.get("metadata") or {}
        if not patch.may_rename:
            target.set_meta("name", name, is_settled="name" not in passed)
        target.set_meta("namespace", namespace, is_settled="namespace" not in passed)
        target.sync_shared_entries()


def _retargeted(merge: Manifest, manifest: Manifest) -> Manifest:
    """Return a patch for another object: of its version, and with labels and annotations as texts."""
    meta = dict(merge.get("metadata") or {})
    for member in ("labels", "annotations"):
        values = meta.pop(member, None)
        if values and isinstance(values, dict):
            meta[member] = texts_of(values)
    changed = {**merge, "metadata": meta}
    # The patch may name any version; the target decides which schema merges its lists.
    changed.pop("apiVersion", None)
    if manifest.get("apiVersion") is not None:
        changed["apiVersion"] = manifest["apiVersion"]
    return changed
