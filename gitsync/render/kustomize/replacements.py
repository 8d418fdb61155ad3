"""Replacements: copy the value of a field of one resource into fields of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.build_cache import CachedSteps, hashable
from gitsync.render.resources.field_path import Slot, key_of, lookup, slots, split
from gitsync.render.resources.resource import Id, Resource, copy_value, refuse_large
from gitsync.render.resources.scopes import Scopes
from gitsync.render.resources.selectors import NameIndex, check_labels, has_labels, is_literal, is_selected, matches_id
from gitsync.render.yaml.scalar_types import put_null, text_of, untyped, with_text

_NAME: Final = "metadata.name"
_ID_MEMBERS: Final = ("group", "version", "kind", "name", "namespace")


def replace(
    resources: Sequence[Resource],
    replacement: Mapping[str, Any],
    scopes: Scopes,
    steps: CachedSteps,
    names: NameIndex,
) -> None:
    """Apply one replacement; raise InvalidInput where source or target cannot be found."""
    source, value, targets = (replacement.get(name) for name in ("source", "sourceValue", "targets"))
    if (source is None and value is None) or targets is None:
        raise InvalidInput("a replacement needs a source or a sourceValue, and targets", hint="add what is missing")
    origin: Resource | None = None
    if source is not None:
        if value is not None:
            raise InvalidInput("a replacement has a source and a sourceValue", hint="keep one of them")
        value = _source_value(names.among(resources, source), source, scopes)
        if not (source.get("options") or {}).get("delimiter"):
            origin, _ = source_of(names.among(resources, source), source, scopes)
    else:
        value = untyped(str(value))
    for target in targets:
        if target.get("select") is None:
            raise InvalidInput("a target of a replacement has no select", hint="say which resources it means")
        # Before anything is selected: a selector that cannot be read is an error even if nothing matches.
        check_labels(target["select"])
        among = (
            names.among(resources, target["select"]) if is_literal(target["select"].get("name") or "") else resources
        )
        if source is not None and origin is not None and _is_target(origin, target, scopes):
            # Kustomize copies the live node, so a source that is a target too has its new value for those that follow.
            for resource in among:
                _put_all([resource], value=value, target=target, scopes=scopes)
                if resource is origin:
                    value = _source_value(names.among(resources, source), source, scopes)
        else:
            act = partial(_put_all, value=value, target=target, scopes=scopes)
            steps.run(("replacement", hashable(value), hashable(target)), among, act)
        # The index by names would miss what has got another one.
        if any(_may_rename(split(path)) for path in target.get("fieldPaths") or (_NAME,)):
            names.forget()


def _may_rename(path: Sequence[str]) -> bool:
    return path[0] in ("metadata", "*") and (len(path) == 1 or path[1] in ("name", "*"))


def _put_all(resources: Sequence[Resource], value: Any, target: Mapping[str, Any], scopes: Scopes) -> None:
    for resource in resources:
        if _is_target(resource, target, scopes):
            for path in target.get("fieldPaths") or (_NAME,):
                _put(resource, path, value, target.get("options") or {})
            resource.sync_shared_entries()


def source_of(resources: Sequence[Resource], source: Mapping[str, Any], scopes: Scopes) -> tuple[Resource, str]:
    """Return the resource that a replacement reads, and the path of the field; raise InvalidInput unless it is one."""
    sources = [resource for resource in resources if any(is_selected(id_, source) for id_ in scopes.all_ids(resource))]
    if len(sources) != 1:
        wanted = " ".join(f"{name}={source[name]}" for name in _ID_MEMBERS if source.get(name))
        what = f"{len(sources)} resources match" if sources else "no resource matches"
        raise InvalidInput(f"{what} the source of a replacement ({wanted})", hint="name exactly one")
    return sources[0], source.get("fieldPath") or _NAME


def _source_value(resources: Sequence[Resource], source: Mapping[str, Any], scopes: Scopes) -> Any:
    resource, path = source_of(resources, source, scopes)
    subject = f"{resource.gvk.kind} {resource.name}"
    try:
        value = lookup(resource.manifest, split(path))
    except InvalidInput as error:
        raise InvalidInput(f"the source field {path}: {error.message}", object=subject, hint=error.hint) from None
    # ``IsNilOrEmpty`` of Kustomize: an empty text is a value, an empty collection is none.
    if value is None or value == {} or value == []:
        raise InvalidInput(
            f"the source field {path} of a replacement is missing", object=subject, hint="correct fieldPath"
        )
    # A few replacements that copy into themselves would fill the memory.
    refuse_large(value)
    return _part(value, source.get("options") or {})


def _part(value: Any, options: Mapping[str, Any]) -> Any:
    """Return the part of a source value that its options pick."""
    delimiter = options.get("delimiter")
    if not delimiter:
        return value
    if isinstance(value, dict | list):
        raise _not_plain()
    parts = text_of(value).split(delimiter)
    index = options.get("index") or 0
    if not 0 <= index < len(parts):
        raise InvalidInput(
            f"options.index {index} is outside the {len(parts)} parts of {text_of(value)}", hint="correct index"
        )
    try:
        return with_text(value, parts[index])
    except ValueError:  # Kustomize refuses it where its type counts, which is only where it replaces a collection
        return parts[index]


def _not_plain() -> InvalidInput:
    return InvalidInput(
        "the delimiter option works on plain values only", hint="remove the option or choose a plain field"
    )


def _is_target(resource: Resource, target: Mapping[str, Any], scopes: Scopes) -> bool:
    select = target["select"]
    if not has_labels(resource, select):
        return False
    rejects = target.get("reject") or ()
    for reject in rejects:
        # Kustomize tests selectors of rejects apart from their ids: either one is enough.
        if (reject.get("labelSelector") or reject.get("annotationSelector")) and has_labels(resource, reject):
            return False
    # the namespace of now counts as it is written, as in Kustomize
    ids = [*scopes.previous_ids(resource), Id(resource.gvk, resource.namespace, resource.name)]
    for reject in rejects:
        if any(reject.get(name) for name in _ID_MEMBERS) and any(matches_id(id_, reject) for id_ in ids):
            return False
    return any(matches_id(id_, select) for id_ in ids)


def _put(resource: Resource, path: str, value: Any, options: Mapping[str, Any]) -> None:
    is_collection = isinstance(value, dict | list)
    create = (type(value) if is_collection else str) if options.get("create") else None
    manifest = resource.editable
    verb = "find or create" if create else "find"
    failed = f"unable to {verb} the field {path} of a replacement's target"
    subject = f"{resource.gvk.kind} {resource.name}"
    # A path that leads into a text, such as a file in a ConfigMap, is tried first, as in Kustomize 5.8.
    if _put_inside(manifest, split(path), value, create, subject):
        return
    try:
        fields = slots(manifest, split(path), create)
    except InvalidInput as error:
        raise InvalidInput(
            f"{failed}: {error.message}", location=resource.origin.file, object=subject, hint=error.hint
        ) from None
    if not fields:
        raise InvalidInput(
            failed, location=resource.origin.file, object=subject, hint="correct fieldPaths, or set options.create"
        )
    for slot in fields:
        replaced = _replaced(slot, value, options, subject, path)
        if replaced is None and isinstance(slot.holder, dict):
            put_null(slot.holder, slot.key, text_of(value))
        else:
            slot.holder[slot.key] = replaced
    resource.check_names()
    # Kustomize keeps its notes in annotations, and has just lost them.
    if split(path) in (("metadata",), ("metadata", "annotations")):
        resource.forget_past()


def _put_inside(
    manifest: Manifest, path: Sequence[str], value: Any, create: Callable[[], Any] | None, subject: str
) -> bool:
    """Set fields inside the text, itself YAML or JSON, that a path leads through; return whether there were any."""
    holder: Any = manifest
    for position, part in enumerate(path[:-1]):
        try:
            key = key_of(holder, part.strip())
        except InvalidInput:
            return False
        if key is None:
            return False
        inner = holder[key]
        if isinstance(inner, str):
            from gitsync.render.kustomize.structured_text import set_inside  # late: it loads PyYAML

            typed = partial(_replaced, value=value, options={}, subject=subject, path=".".join(path))
            changed = set_inside(inner, path[position + 1 :], typed, create)
            if changed is not None:
                holder[key] = changed
            return changed is not None
        holder = inner
    return False


def _replaced(slot: Slot, value: Any, options: Mapping[str, Any], subject: str, path: str) -> Any:
    """Return the new value of a field; a plain one keeps the type it had."""
    present = slot.holder[slot.key]
    delimiter = options.get("delimiter")
    text = text_of(value)
    if delimiter:
        if isinstance(present, dict | list):
            raise _not_plain()
        text = _inserted(text_of(present).split(delimiter), text, options.get("index") or 0, delimiter)
    # A collection is replaced as a whole, tag and all.
    if isinstance(present, dict | list):
        return copy_value(value)
    # The node of a collection has no text of its own.
    if isinstance(value, dict | list):
        text = ""
    if slot.is_new:  # a new node has no type and no style
        return untyped(text)
    try:
        return with_text(present, text)
    except ValueError:
        raise InvalidInput(
            f"the field {path} holds {text_of(present) or 'null'}, which cannot become {text!r}",
            object=subject,
            hint="quote the value in the target, so that it is a text",
        ) from None


def _inserted(parts: list[str], text: str, index: int, delimiter: str) -> str:
    if index < 0:
        parts.insert(0, text)
    elif index >= len(parts):
        parts.append(text)
    else:
        parts[index] = text
    return delimiter.join(parts)
