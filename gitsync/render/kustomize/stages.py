"""Stages: the transformers that a kustomization file asks for, in the order Kustomize runs them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.build_cache import Act, hashable
from gitsync.render.kustomize import plugins, replacements, transformers
from gitsync.render.kustomize.build_context import BuildContext
from gitsync.render.kustomize.config import TransformerConfig, spec_from
from gitsync.render.kustomize.files import join
from gitsync.render.kustomize.kustomization import Kustomization
from gitsync.render.kustomize.loader import Loader
from gitsync.render.patch.patches import Patch, Patcher, read_patch
from gitsync.render.provenance.step_source import BUILD_STEP, FieldChange, SourceFile, StepSource
from gitsync.render.resources.field_spec import FieldSpec, merge_specs
from gitsync.render.resources.resource import Gvk, Resource
from gitsync.render.resources.selectors import NameIndex
from gitsync.render.yaml.scalar_types import text_of

METADATA_LABELS: Final = FieldSpec(Gvk("", "", ""), "metadata/labels", create=True)


class Stage(NamedTuple):
    """One transformer with the place of its configuration."""

    kind: str
    where: str
    act: Act
    key: Hashable = None
    """Its whole configuration, where it treats each resource by itself; None for one that depends on several."""
    check: Callable[[], None] | None = None
    """A check of all resources afterwards."""
    name: str = ""
    namespace: str = ""
    configured_in: str = ""
    times: int = 1
    """How often ``buildMetadata`` names it."""
    apart: str = ""
    """Where set, the cache stores it apart from other steps: it changes often, and then concerns few resources."""
    step_source: StepSource | None = None
    """The source of each field that it sets, where that is known."""


class Stages:
    """Read what a kustomization's transformers need, and make a stage of each."""

    def __init__(
        self,
        file: Kustomization,
        loader: Loader,
        resources: list[Resource],
        config: TransformerConfig,
        context: BuildContext,
    ) -> None:
        self._file = file
        self._loader = loader
        self._resources = resources
        self._config = config
        self._context = context
        self._by_name = NameIndex(context.scopes)
        self._patcher = Patcher(resources, context.scopes, context.schema, context.steps)

    def all(self) -> list[Stage]:
        """Return the transformers in the order of Kustomize; their files have been read."""
        return [
            # The order of ``kusttarget_configplugin.go``; it does not depend on the order in the file.
            *self._legacy_merges(),
            *self._patches("patches", "PatchTransformer"),
            *self._names(),
            *self._labels(),
            *self._patches("patchesJson6902", "PatchJson6902Transformer"),
            *self._replicas(),
            *self._images(),
            *self._replacements(),
        ]

    def _legacy_merges(self) -> Iterator[Stage]:
        for index, item in self._file.rows("patchesStrategicMerge"):
            where = self._file.where("patchesStrategicMerge", index)
            with self._context.errors:
                text, name = (item, where) if "\n" in item else self._read(item, where)
                source = self._text_at("patchesStrategicMerge", index) if "\n" in item else None
                patch = read_patch(text, name, {}, where, is_legacy=True, source=source)
                yield self._patch_stage("PatchStrategicMergeTransformer", patch, times=0 if index else 1)

    def _patches(self, field: str, kind: str) -> Iterator[Stage]:
        for index, item in self._file.rows(field):
            with self._context.errors:
                yield self._patch_stage(kind, self._patch(field, index, item))

    def _patch(self, field: str, index: int, item: Mapping[str, Any]) -> Patch:
        location = self._file.where(field, index)
        path = item.get("path")
        inline = (item.get("patch") or "").strip()
        # Also where both are empty.
        if bool(path) is bool(inline):
            raise InvalidInput(
                "the patch has path and patch" if path else "the patch has neither path nor patch",
                location=location,
                hint="keep one of them" if path else "add one of them",
            )
        text, name = self._read(path, location) if path else (inline, location)
        source = None if path else self._text_at(field, index, "patch")
        return read_patch(text, name, item, location, may_be_empty=field == "patches", source=source)

    def _text_at(self, *path: str | int) -> SourceFile | None:
        """Return a text in the file with its lines, if the build records provenance."""
        return self._file.text_at(*path) if self._context.recorder else None

    def _members(self, *path: str | int) -> StepSource:
        """Return the source of fields that a mapping in the file sets by the last part of their paths."""
        where = self._file.where
        return StepSource(where(*path), find=lambda change: (where(*path, change.path[-1]),))

    def _read(self, path: str, location: str) -> tuple[bytes, str]:
        return self._loader.read(path, location), join(self._file.folder, path)

    def _patch_stage(self, kind: str, patch: Patch, times: int = 1) -> Stage:
        # Without a target the patch finds its object by id, among all resources: no function of one.
        key = ("patch", patch.key) if patch.target is not None else None
        return Stage(
            kind,
            patch.where,
            partial(self._patcher.apply, patch),
            key,
            times=times,
            apart="patches",
            step_source=patch.step_source,
        )

    def _names(self) -> Iterator[Stage]:
        fields = self._file.fields
        config = self._config
        scopes = self._context.scopes
        if fields.get("namespace"):
            namespace = fields["namespace"]
            act = partial(
                transformers.set_namespace, rule=transformers.NamespaceRule(namespace, config.namespace), scopes=scopes
            )
            check = partial(transformers.refuse_duplicates, self._resources, namespace, scopes)
            key = ("namespace", hashable(namespace), config.namespace)
            yield Stage("NamespaceTransformer", self._file.where("namespace"), act, key, check)
        for field, kind, specs in (
            ("namePrefix", "PrefixTransformer", config.name_prefix),
            ("nameSuffix", "SuffixTransformer", config.name_suffix),
        ):
            if fields.get(field):
                is_prefix = field == "namePrefix"
                act = partial(
                    transformers.add_affix, affix=fields[field], specs=specs, scopes=scopes, is_prefix=is_prefix
                )
                yield Stage(kind, self._file.where(field), act, (field, hashable(fields[field]), specs))

    def _labels(self) -> Iterator[Stage]:
        rows = self._file.rows("labels")
        for index, label in rows:
            specs = _label_specs(label, self._config)
            stage = self._entries("LabelTransformer", label.get("pairs") or {}, specs, ("labels", index))
            stage = stage._replace(step_source=self._members("labels", index, "pairs"))
            # Kustomize goes over commonLabels too where there are labels
            is_last = index == len(rows) - 1 and not self._file.fields.get("commonLabels")
            yield stage._replace(times=2) if is_last else stage
        for field, kind, specs in (
            ("commonLabels", "LabelTransformer", self._config.common_labels),
            ("commonAnnotations", "AnnotationsTransformer", self._config.common_annotations),
        ):
            if self._file.fields.get(field):
                yield self._entries(kind, self._file.fields[field], specs, (field,))

    def _entries(
        self, kind: str, entries: Mapping[str, str], specs: tuple[FieldSpec, ...], path: tuple[str | int, ...]
    ) -> Stage:
        act = partial(transformers.set_entries, entries=entries, specs=specs)
        key = ("entries", hashable(entries), specs)
        return Stage(kind, self._file.where(*path), act, key, step_source=self._members(*path))

    def _replicas(self) -> Iterator[Stage]:
        for index, replica in self._file.rows("replicas"):
            act = partial(
                self._scale,
                rule=transformers.ReplicaRule(
                    replica.get("name") or "", replica.get("count") or 0, self._config.replicas
                ),
            )
            where = self._file.where("replicas", index)
            count = StepSource(self._file.where("replicas", index, "count"))
            yield Stage("ReplicaCountTransformer", where, act, step_source=count)

    def _scale(self, resources: Sequence[Resource], rule: transformers.ReplicaRule) -> None:
        workloads = self._by_name.among(resources, {"name": rule.name})
        transformers.set_replicas(workloads, rule, self._context.scopes, self._context.steps)

    def _images(self) -> Iterator[Stage]:
        # One stage for all: each image is visited once, however many entries there are.
        images = [(image, self._config.images) for field in ("images", "imageTags") for image in self._file.get(field)]
        if images:
            act = partial(transformers.set_images, images=images)
            key = ("images", hashable([image for image, _ in images]), self._config.images)
            where = self._file.where("images")
            source = StepSource(where, find=self._image_places)
            yield Stage("ImageTagTransformer", where, act, key, times=len(images), apart="images", step_source=source)

    def _image_places(self, change: FieldChange) -> Sequence[str]:
        """Return the lines of the new name, tag and digest that an image has got."""
        rows = [(field, index, image) for field in ("images", "imageTags") for index, image in self._file.rows(field)]
        decisive = transformers.image_members([image for _, _, image in rows], text_of(change.old))
        if decisive is None:
            return ()
        field, index, _ = rows[decisive[0]]
        return tuple(self._file.where(field, index, member) for member in decisive[1])

    def _replacements(self) -> Iterator[Stage]:
        for index, item in self._file.rows("replacements"):
            where = self._file.where("replacements", index)
            with self._context.errors:
                replacement_rows = plugins.read_replacement(item, partial(self._loader.read, location=where), where)
                act = partial(self._replace, replacement_rows, index)
                yield Stage("ReplacementTransformer", where, act, times=0 if index else 1)

    def _replace(
        self, replacement_rows: Sequence[Mapping[str, Any]], index: int, resources: Sequence[Resource]
    ) -> None:
        recorder = self._context.recorder
        for position, item in enumerate(replacement_rows):
            places = self._value_places(item, index, position, resources) if recorder else ()
            replacements.replace(resources, item, self._context.scopes, self._context.steps, self._by_name)
            if recorder:  # row by row: each takes its value from another place
                source = StepSource(self._file.where("replacements", index), find=lambda _, places=places: places)  # type: ignore[misc]
                recorder.after("ReplacementTransformer", source, resources)

    def _value_places(
        self, item: Mapping[str, Any], index: int, position: int, resources: Sequence[Resource]
    ) -> tuple[str, ...]:
        """Return where a replacement is written, and where the value that it copies is."""
        source = self._replacement_source(index, position)
        if item.get("source") is None:
            return (source(("sourceValue",)),)
        resource, path = replacements.source_of(resources, item["source"], self._context.scopes)
        assert self._context.recorder is not None
        setters = self._context.recorder.history(resource).of(path)
        return (source(()), *(setter.where for setter in setters[-1:] if setter.where != BUILD_STEP))

    def _replacement_source(self, index: int, position: int) -> Callable[[tuple[str, ...]], str]:
        """Return how to locate a field of a replacement, which may be one of several in a file of its own."""
        path = self._file.fields["replacements"][index].get("path")
        if not path:
            return lambda below: self._file.where("replacements", index, *below)
        content, name = self._read(path, self._file.where("replacements", index))
        source = SourceFile(name, content)
        is_list = content.lstrip().startswith((b"-", b"["))
        return lambda below: source.where((position, *below) if is_list else below)


def _label_specs(label: dict[str, Any], config: TransformerConfig) -> tuple[FieldSpec, ...]:
    specs = merge_specs(tuple(spec_from(item) for item in label.get("fields") or ()), config.labels)
    if label.get("includeSelectors"):
        specs = merge_specs(specs, config.common_labels)
    elif label.get("includeTemplates"):
        specs = merge_specs(specs, config.template_labels)
    # Kustomize adds this one last, so a field of the file with the same path wins.
    return merge_specs(specs, (METADATA_LABELS,))
