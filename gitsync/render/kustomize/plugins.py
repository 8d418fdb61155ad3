"""
Built-in transformers and generators that a file, or a text, configures; external ones are refused.

Every kind is a row: the shape of its configuration, and what it does to the resources.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.build_cache import CachedSteps
from gitsync.render.kustomize import generators, replacements, transformers
from gitsync.render.kustomize.config import spec_from
from gitsync.render.kustomize.kustomization import (
    CONFIG_MAP,
    FIELD_SPEC,
    IMAGE,
    PATCH,
    REPLACEMENT,
    REPLICA,
    SECRET,
    SELECTOR,
)
from gitsync.render.kustomize.loader import Loader
from gitsync.render.patch.merge_keys import MergeSchema
from gitsync.render.patch.patches import Patcher, read_patch
from gitsync.render.patch.struct_schema import FLAG, NUMBER, TEXT, TEXT_MAP, TEXTS, ListOf, Shape, Struct, conform
from gitsync.render.provenance.step_source import FieldChange, SourceFile
from gitsync.render.resources.field_path import slots
from gitsync.render.resources.field_spec import FieldSpec, split_path
from gitsync.render.resources.resource import Generation, Resource
from gitsync.render.resources.scopes import Scopes
from gitsync.render.resources.selectors import NameIndex, select
from gitsync.render.yaml.reader import read_all
from gitsync.render.yaml.scalar_types import text_of, untyped
from gitsync.render.yaml.yaml11 import read_yaml11

_FUNCTION: Final = ("config.kubernetes.io/function", "config.k8s.io/function")
_SPECS: Final[dict[str, Shape]] = {"fieldSpecs": ListOf(FIELD_SPEC)}


class PluginContext(NamedTuple):
    """What a transformer works on."""

    resources: list[Resource]
    scopes: Scopes
    schema: MergeSchema
    loader: Loader
    steps: CachedSteps
    where: str

    def read(self, path: str) -> bytes:
        """Return the bytes of a file that the configuration names."""
        return self.loader.read(path, self.where)


def _field_specs(config: Mapping[str, Any]) -> tuple[FieldSpec, ...]:
    return tuple(spec_from(item) for item in config.get("fieldSpecs") or ())


def _annotations(config: Mapping[str, Any], context: PluginContext) -> None:
    transformers.set_entries(context.resources, config.get("annotations") or {}, _field_specs(config))


def _labels(config: Mapping[str, Any], context: PluginContext) -> None:
    transformers.set_entries(context.resources, config.get("labels") or {}, _field_specs(config))


def _namespace(config: Mapping[str, Any], context: PluginContext) -> None:
    namespace = (config.get("metadata") or {}).get("namespace")
    subjects = config.get("setRoleBindingSubjects") or "defaultOnly"
    if subjects not in ("defaultOnly", "allServiceAccounts", "none"):
        raise InvalidInput(
            f"setRoleBindingSubjects {subjects!r} is not known", hint="use defaultOnly, allServiceAccounts or none"
        )
    if namespace:
        transformers.set_namespace(
            context.resources,
            transformers.NamespaceRule(namespace, _field_specs(config), bool(config.get("unsetOnly")), subjects),
            context.scopes,
        )
        transformers.refuse_duplicates(context.resources, namespace, context.scopes)


def _affix(member: str) -> Callable[[Mapping[str, Any], PluginContext], None]:
    def transform(config: Mapping[str, Any], context: PluginContext) -> None:
        # Unlike other transformers, Kustomize has no default for this one's fields.
        if config.get("fieldSpecs") is None:
            raise InvalidInput("fieldSpecs is missing", hint="add - path: metadata/name")
        affix = config.get(member)
        if affix:
            transformers.add_affix(
                context.resources, affix, _field_specs(config), context.scopes, is_prefix=member == "prefix"
            )

    return transform


def _affixes(config: Mapping[str, Any], context: PluginContext) -> None:
    # The old kind is both new ones in a row.
    for member in ("prefix", "suffix"):
        _affix(member)(config, context)


def _replicas(config: Mapping[str, Any], context: PluginContext) -> None:
    replica = config.get("replica") or {}
    transformers.set_replicas(
        context.resources,
        transformers.ReplicaRule(replica.get("name") or "", replica.get("count") or 0, _field_specs(config)),
        context.scopes,
        context.steps,
    )


def _images(config: Mapping[str, Any], context: PluginContext) -> None:
    transformers.set_images(context.resources, [(config.get("imageTag") or {}, _field_specs(config))])


def _patch(config: Mapping[str, Any], context: PluginContext) -> None:
    _apply_patches([config], context, may_be_empty=True)


def _json_patch(config: Mapping[str, Any], context: PluginContext) -> None:
    if not (config.get("target") or {}).get("name"):
        raise InvalidInput("the target has no name", hint="name the target")
    _apply_patches([{"path": config.get("path"), "patch": config.get("jsonOp"), "target": config["target"]}], context)


def _merge_patches(config: Mapping[str, Any], context: PluginContext) -> None:
    entries = [{"patch" if "\n" in path else "path": path} for path in config.get("paths") or ()]
    if config.get("patches"):
        entries.append({"patch": config["patches"]})
    if not entries:
        raise InvalidInput("neither paths nor patches are set", hint="add one of them")
    _apply_patches(entries, context, is_legacy=True)


def _apply_patches(
    entries: Sequence[Mapping[str, Any]], context: PluginContext, *, is_legacy: bool = False, may_be_empty: bool = False
) -> None:
    patcher = Patcher(context.resources, context.scopes, context.schema, context.steps)
    for entry in entries:
        path = entry.get("path")
        inline = (entry.get("patch") or "").strip()
        if bool(path) is bool(inline):
            what = "path and patch are both set" if path else "neither path nor patch is set"
            raise InvalidInput(what, hint="set one of them")
        text: bytes | str = context.read(path) if path else inline
        patch = read_patch(
            text, path or context.where, entry, context.where, is_legacy=is_legacy, may_be_empty=may_be_empty
        )
        patcher.apply(patch, context.resources)


def _replacements(config: Mapping[str, Any], context: PluginContext) -> None:
    names = NameIndex(context.scopes)
    for item in config.get("replacements") or ():
        for replacement in read_replacement(item, context.read, context.where):
            replacements.replace(context.resources, replacement, context.scopes, context.steps, names)


def read_replacement(item: Mapping[str, Any], read: Callable[[str], bytes], location: str) -> list[Mapping[str, Any]]:
    """Return the replacements of an item, which may name a file with one or more of them."""
    path = item.get("path")
    if not path:
        return [item]
    if any(item.get(name) is not None for name in ("source", "sourceValue")) or item.get("targets"):
        raise InvalidInput("a replacement has a path and a source", location=location, hint="keep one of them")
    replacement_rows: list[Mapping[str, Any]] = []
    documents = read_yaml11(read(path), path)
    if not documents:
        raise InvalidInput("the file holds no replacement", location=path, hint="add a source and targets")
    for document in documents:
        shape = ListOf(REPLACEMENT) if isinstance(document, list) else REPLACEMENT
        checked = conform(document, shape, is_open=True)
        replacement_rows += checked if isinstance(checked, list) else [checked]
    return replacement_rows


_TARGET: Final = Struct({"selector": SELECTOR, "fieldPath": TEXT, "filePathPosition": NUMBER}, is_open=True)


def _add_value(config: Mapping[str, Any], context: PluginContext) -> None:
    # Without a value, the name of the folder: that is what the transformer was made for.
    value = (config.get("value") or "").strip() or posixpath.basename(context.loader.folder)
    targets = list(config.get("targets") or ())
    if config.get("targetFilePath"):
        for document in read_all(context.read(config["targetFilePath"]), config["targetFilePath"])[:1]:
            shape = Struct({"targets": ListOf(_TARGET)}, is_open=True)
            targets += conform(document, shape).get("targets") or ()
    if not targets:
        raise InvalidInput("targets is empty", hint="add targets")
    for target in targets:
        selector = target.get("selector")
        path = target.get("fieldPath")
        if not path:
            raise InvalidInput("a target has no fieldPath", hint="add one")
        chosen = context.resources if selector is None else select(context.resources, selector, context.scopes)
        for resource in chosen:
            if path == "metadata/namespace":
                rule = transformers.NamespaceRule(value, (), subjects="none")
                transformers.put_namespace(resource, rule, context.scopes)
            else:
                for slot in slots(resource.editable, split_path(path), str):
                    present = slot.holder[slot.key]
                    if isinstance(present, dict | list):
                        raise InvalidInput(f"{path} is not a plain value", hint="correct fieldPath")
                    text = _in_path(text_of(present), value, target.get("filePathPosition") or 0)
                    slot.holder[slot.key] = untyped(text) if slot.is_new else text
                resource.check_names()


def _in_path(path: str, value: str, position: int) -> str:
    """Return a file path with a part inserted at a position from 1; position 0 replaces the whole."""
    if position <= 0 or not path:
        return value
    parts = path.strip("/").split("/") if path.strip("/") else []
    parts.insert(min(position - 1, len(parts)), value)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _add_hashes(config: Mapping[str, Any], context: PluginContext) -> None:
    transformers.add_hashes(context.resources, context.scopes, context.steps)


class _Transformer(NamedTuple):
    shape: dict[str, Shape]
    act: Callable[[Mapping[str, Any], PluginContext], None]


_TRANSFORMERS: Final[dict[str, _Transformer]] = {
    "AnnotationsTransformer": _Transformer({"annotations": TEXT_MAP, **_SPECS}, _annotations),
    "HashTransformer": _Transformer({}, _add_hashes),
    "ImageTagTransformer": _Transformer({"imageTag": IMAGE, **_SPECS}, _images),
    "LabelTransformer": _Transformer({"labels": TEXT_MAP, **_SPECS}, _labels),
    "NamespaceTransformer": _Transformer(
        {
            "metadata": Struct({"namespace": TEXT}, is_open=True),
            "unsetOnly": FLAG,
            "setRoleBindingSubjects": TEXT,
            **_SPECS,
        },
        _namespace,
    ),
    "PatchJson6902Transformer": _Transformer({"target": SELECTOR, "path": TEXT, "jsonOp": TEXT}, _json_patch),
    "PatchStrategicMergeTransformer": _Transformer({"paths": TEXTS, "patches": TEXT}, _merge_patches),
    "PatchTransformer": _Transformer(dict(PATCH.members), _patch),
    "PrefixSuffixTransformer": _Transformer({"prefix": TEXT, "suffix": TEXT, **_SPECS}, _affixes),
    "PrefixTransformer": _Transformer({"prefix": TEXT, **_SPECS}, _affix("prefix")),
    "ReplacementTransformer": _Transformer({"replacements": ListOf(REPLACEMENT)}, _replacements),
    "ReplicaCountTransformer": _Transformer({"replica": REPLICA, **_SPECS}, _replicas),
    "SuffixTransformer": _Transformer({"suffix": TEXT, **_SPECS}, _affix("suffix")),
    "ValueAddTransformer": _Transformer(
        {"value": TEXT, "targets": ListOf(_TARGET), "targetFilePath": TEXT}, _add_value
    ),
}


def value_places(manifest: Manifest, text: SourceFile, change: FieldChange) -> Sequence[str]:
    """Return the lines of a plugin's configuration that hold the value of a change; none where no line does."""
    return tuple(text.where(path) for path in _value_paths(manifest, change))


def _value_paths(manifest: Manifest, change: FieldChange) -> Sequence[tuple[str, ...]]:
    # the object as a whole, which a plugin generates
    if not change.path:
        return (("metadata", "name"),)
    match manifest.get("kind"):
        case "LabelTransformer":
            return (("labels", change.path[-1]),)
        case "AnnotationsTransformer":
            return (("annotations", change.path[-1]),)
        case "NamespaceTransformer":
            return (("metadata", "namespace"),)
        case "ReplicaCountTransformer":
            return (("replica", "count"),)
        case "ImageTagTransformer":
            decisive = transformers.image_members([manifest.get("imageTag") or {}], text_of(change.old))
            return tuple(("imageTag", member) for member in decisive[1]) if decisive else ()
        case "PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer":
            return tuple((member,) for member in ("prefix", "suffix") if manifest.get(member))
        case "ValueAddTransformer":
            return (("value",),)
        case "PatchTransformer":
            return (("patch",) if manifest.get("patch") else ("path",),)
        case "ConfigMapGenerator" | "SecretGenerator":
            return _literal_paths(manifest, change)
    return ()


def _literal_paths(manifest: Manifest, change: FieldChange) -> Sequence[tuple[str, ...]]:
    """Return the literal of a generator that gives a key its value."""
    literals = manifest.get("literals")
    return [
        ("literals", str(position))
        for position, literal in enumerate(literals if isinstance(literals, list) else ())
        if change.path[0] in ("data", "binaryData") and text_of(literal).partition("=")[0] == change.path[-1]
    ]


_GENERATORS: Final = frozenset({"ConfigMapGenerator", "IAMPolicyGenerator", "SecretGenerator"})
KINDS: Final = _GENERATORS | _TRANSFORMERS.keys()
"""Every built-in kind."""


def transform(plugin: Resource, context: PluginContext) -> None:
    """Run the transformer that a resource configures; raise InvalidInput where it is not a built-in one."""
    kind = _builtin_kind(plugin, context.where)
    row = _TRANSFORMERS.get(kind)
    if row is None:
        raise InvalidInput(
            f"{kind} is not a built-in transformer", location=context.where, hint=f"use {', '.join(_TRANSFORMERS)}"
        )
    try:
        row.act(conform(plugin.manifest, Struct(row.shape, is_open=True)), context)
    except InvalidInput as error:
        where = (
            context.where
            if not error.location or error.location == context.where
            else f"{context.where}: {error.location}"
        )
        raise InvalidInput(f"{kind}: {error.message}", location=where, object=error.object, hint=error.hint) from None


def generate(plugin: Resource, context: PluginContext) -> Resource:
    """Return what the generator that a resource configures makes."""
    kind = _builtin_kind(plugin, context.where)
    try:
        if kind == "IAMPolicyGenerator":
            return Resource(_iam_policy(plugin.manifest), plugin.origin)
        shapes = {"ConfigMapGenerator": CONFIG_MAP, "SecretGenerator": SECRET}
        if kind not in shapes:
            raise InvalidInput(f"{kind} is not a built-in generator", hint="use ConfigMapGenerator or SecretGenerator")
        arguments = conform(plugin.manifest, Struct(shapes[kind].members, is_open=True))
        arguments = {
            **arguments,
            "name": arguments.get("name") or plugin.name,
            "namespace": arguments.get("namespace") or plugin.namespace,
        }
        make = generators.config_map if kind == "ConfigMapGenerator" else generators.secret
        options = arguments.get("options") or {}
        return Resource(
            make(arguments, context.read),
            plugin.origin,
            generation=Generation(
                arguments.get("behavior") or "create", needs_hash=not options.get("disableNameSuffixHash")
            ),
        )
    except InvalidInput as error:
        raise InvalidInput(
            f"{kind}: {error.message}", location=error.location or context.where, object=error.object, hint=error.hint
        ) from None


def _builtin_kind(plugin: Resource, location: str) -> str:
    annotations = plugin.labels("annotations")
    # These annotations make Kustomize run a container or a program.
    if any(name in annotations for name in _FUNCTION):
        raise InvalidInput(
            f"{plugin.gvk.kind} {plugin.name} runs a function, and running programs is not supported",
            location=location,
            hint="use a built-in transformer, or commit what the function makes",
        )
    if text_of(plugin.manifest.get("apiVersion")) != "builtin":
        raise InvalidInput(
            f"{plugin.gvk.kind} {plugin.name} is an external plugin, and running programs is not supported",
            location=location,
            hint="use a built-in one (apiVersion: builtin), or commit what the plugin makes",
        )
    return plugin.gvk.kind


_NAMED: Final = Struct({"name": TEXT, "namespace": TEXT, "projectId": TEXT}, is_open=True)


def _iam_policy(manifest: Manifest) -> Manifest:
    """Return the ServiceAccount that represents a Google Cloud account."""
    config = conform(
        manifest, Struct({"cloud": TEXT, "kubernetesService": _NAMED, "serviceAccount": _NAMED}, is_open=True)
    )
    if config.get("cloud") != "gke":
        raise InvalidInput(f"the cloud {config.get('cloud')!r} is not known", hint="use gke")
    service = config.get("kubernetesService") or {}
    account = config.get("serviceAccount") or {}
    email = f"{account.get('name', '')}@{account.get('projectId', '')}.iam.gserviceaccount.com"
    meta: dict[str, Any] = {"annotations": {"iam.gke.io/gcp-service-account": email}, "name": service.get("name", "")}
    if service.get("namespace"):
        meta["namespace"] = service["namespace"]
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
