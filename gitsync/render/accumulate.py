"""
Accumulate: build one kustomization from what it names, in the order Kustomize works.

Resources and bases, generators, components, then the transformers, validators and vars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render import generators, plugins, replacements, transformers
from gitsync.render.config import EMPTY, TransformerConfig, config_from, spec_from
from gitsync.render.config_defaults import DEFAULTS
from gitsync.render.crds import config_from_crds
from gitsync.render.fieldspec import FieldSpec, merge_specs
from gitsync.render.files import join
from gitsync.render.kustomization import CONFIGURATION, Kustomization, place
from gitsync.render.loader import Loader, objects_in
from gitsync.render.merge_keys import BUILT_IN, OpenApiSchema, Schema
from gitsync.render.origins import join as join_origin
from gitsync.render.patches import Patch, Patcher, read_patch
from gitsync.render.provenance import Recorder, Text, Told
from gitsync.render.resource import Gvk, Id, Origin, Resource, Step, copy_value
from gitsync.render.scopes import Scopes
from gitsync.render.shapes import Mismatch, Shape, conform
from gitsync.render.variables import Variable, add_variables, join_variables, variable_from
from gitsync.render.yaml_reader import read_all

METADATA_LABELS: Final = FieldSpec(Gvk("", "", ""), "metadata/labels", create=True)


@dataclass(slots=True)
class Accumulator:
    """What a kustomization has gathered so far."""

    resources: list[Resource] = field(default_factory=list)
    config: TransformerConfig = EMPTY
    variables: dict[str, Variable] = field(default_factory=dict)

    def drop_deleted(self) -> None:
        """Forget the resources that a patch deleted."""
        self.resources[:] = [resource for resource in self.resources if resource.manifest]


class Builder:
    """The state of one build, shared by all its kustomizations."""

    def __init__(
        self, kustomization: Kustomization, recorder: Recorder | None = None, *, by_regex: bool = False
    ) -> None:
        self.by_regex = by_regex
        self.recorder = recorder
        self.scopes = Scopes()
        self.schema: Schema = BUILT_IN
        self.warnings: list[str] = []
        self.build_metadata = frozenset(kustomization.get("buildMetadata"))
        self.uses_built_in = False
        """Whether something was looked up in the built-in schema, which then stays beneath one that comes later."""
        self._has_schema = False

    def use_schema(self, loader: Loader, kustomization: Kustomization) -> None:
        """Take the schema of an ``openapi`` field; the first of a build holds."""
        choice = kustomization.fields.get("openapi") or {}
        path, version = choice.get("path"), choice.get("version")
        where = kustomization.where("openapi")
        text = loader.read(path, where) if path is not None else None
        if self._has_schema or (path is None and not version):
            return
        self._has_schema = True
        if text is None:
            if version != "v1.21.2":
                raise InvalidInput(
                    f"the OpenAPI version {version} is not built in", where=where, cure="use v1.21.2, or a path"
                )
            return
        if version:
            raise InvalidInput("openapi names a version and a path", where=where, cure="keep one of them")
        documents = read_all(text, path or "")
        if not documents or not isinstance(documents[0], dict):
            raise InvalidInput("the OpenAPI file is not a mapping", where=str(path), cure="name an OpenAPI v2 file")
        schema = OpenApiSchema(documents[0], BUILT_IN if self.uses_built_in else None)
        self.schema = schema
        self.scopes.learn(schema.scopes())

    def build(self, loader: Loader, kustomization: Kustomization, into: Accumulator, seen_from: str = "") -> None:
        """Add to ``into`` all that a kustomization makes; ``seen_from`` is its path for ``buildMetadata``."""
        self.warnings += kustomization.warnings
        _Target(self, loader, kustomization, into, seen_from).build()


class _Stage(NamedTuple):
    """One transformer with the place of its configuration."""

    kind: str
    where: str
    act: Callable[[], None]
    name: str = ""
    namespace: str = ""
    configured_in: str = ""
    times: int = 1
    told: Told | None = None
    """What says field by field what is set, where something does."""


class _Target:
    """One kustomization being built."""

    def __init__(
        self, builder: Builder, loader: Loader, kustomization: Kustomization, into: Accumulator, seen_from: str
    ) -> None:
        self._builder = builder
        self._loader = loader
        self._file = kustomization
        self._into = into
        self._seen_from = seen_from
        self._scopes = builder.scopes

    def build(self) -> None:
        file, into = self._file, self._into
        self._add_resources(into, [(name, i, path) for name in ("resources", "bases") for i, path in _rows(file, name)])
        configuration = self._configuration()
        into.config = (
            configuration if into.config is EMPTY and configuration is DEFAULTS else into.config.merge(configuration)
        )
        into.config = into.config.merge(config_from_crds(self._loader, file))
        self._generate()
        for index, path in _rows(file, "components"):
            self._enter(path, file.where("components", index), is_component=True)
        for stage in list(self._stages()):
            self._run(stage)
        self._validate()
        add_variables(
            into.variables,
            (variable_from(item, file.where("vars", index)) for index, item in _rows(file, "vars")),
            into.resources,
            self._scopes,
        )

    # resources

    def _add_resources(self, into: Accumulator, rows: Iterable[tuple[str, int, str]]) -> None:
        """Add the objects of files, and what bases make, in the order listed."""
        index = {self._scopes.id_of(resource): resource for resource in into.resources}
        for field_name, position, path in rows:
            where = self._file.where(field_name, position)
            if self._loader.entry(path, where)[1] is Entry.FOLDER:
                base = self._enter(path, where, is_component=False)
                self._append(into, base.resources, index, where)
                into.config = into.config.merge(base.config)
                join_variables(into.variables, base.variables.values())
                continue
            added = self._loader.resources(self._loader.file(path, where))
            source = Step(path=join_origin(self._seen_from, path)) if self._builder.build_metadata else None
            for resource in added:
                resource.source = source
                if self._builder.recorder:
                    text = Text(resource.origin.file, self._loader.files.read(resource.origin.file))
                    self._builder.recorder.start(resource, "resource", text._replace(document=resource.origin.document))
            self._append(into, added, index, where)

    def _append(self, into: Accumulator, added: Iterable[Resource], index: dict[Id, Resource], where: str) -> None:
        for resource in added:
            one = self._scopes.id_of(resource)
            if BUILT_IN.root(one.gvk) is None:
                self._builder.uses_built_in = True
            other = index.setdefault(one, resource)
            if other is not resource:
                raise InvalidInput(
                    f"the object is already there: {resource.origin.file} and {other.origin.file} both define it",
                    where=where,
                    subject=str(one),
                    cure="remove one of them",
                )
            into.resources.append(resource)

    def _enter(self, path: str, where: str, *, is_component: bool) -> Accumulator:
        """Build the kustomization of a folder: a component into what is here, a base on its own."""
        loader = self._loader.enter(path, where)
        inner = loader.kustomization()
        if inner is None:
            raise InvalidInput(
                f"the folder {path} has no kustomization file",
                where=where,
                cure="add a kustomization.yaml, or name the files",
            )
        self._builder.use_schema(loader, inner)
        if inner.is_component is not is_component:
            what, field_name = ("a", "components") if inner.is_component else ("not a", "resources")
            raise InvalidInput(f"{path} is {what} Component", where=where, cure=f"list it under {field_name}")
        into = self._into if is_component else Accumulator()
        self._builder.build(loader, inner, into, join_origin(self._seen_from, path))
        return into

    # configuration

    def _configuration(self) -> TransformerConfig:
        config = DEFAULTS
        for index, path in _rows(self._file, "configurations"):
            text = self._loader.read(path, self._file.where("configurations", index))
            for document in read_all(text, path)[:1]:
                config = config.merge(config_from(_conform(document, CONFIGURATION, path, text)))
        return config

    # generators

    def _generate(self) -> None:
        common = self._file.fields.get("generatorOptions") or {}
        for field_name, kind, make in (
            ("configMapGenerator", "ConfigMapGenerator", generators.config_map),
            ("secretGenerator", "SecretGenerator", generators.secret),
        ):
            for index, item in _rows(self._file, field_name):
                where = self._file.where(field_name, index)
                arguments = generators.with_options(item, common)
                try:
                    manifest = make(arguments, lambda path, where=where: self._loader.read(path, where))  # type: ignore[misc]
                except InvalidInput as error:
                    what = f"{field_name} {item.get('name') or ''}: {error.what}"
                    raise InvalidInput(what, where=error.where or where, cure=error.cure) from None
                made = Resource(manifest, Origin(self._file.file, 0), behavior=item.get("behavior") or "create")
                made.needs_hash = not arguments["options"]["disableNameSuffixHash"]
                self._absorb(made, where, Step(configured_in=self._seen_file, kind=kind))
        for plugin, where in self._plugins("generators"):
            made = plugins.generate(plugin, self._scene(where))
            self._absorb(made, where, self._step(plugin))

    def _absorb(self, made: Resource, where: str, source: Step) -> None:
        """Add a generated resource, or merge it as its behavior says."""
        one = self._scopes.id_of(made)
        if made.behavior not in generators.BEHAVIORS:
            raise InvalidInput(
                f"the behavior {made.behavior!r} is not known",
                where=where,
                subject=str(one),
                cure="use create, replace or merge",
            )
        made.source = source if self._builder.build_metadata else None
        found = [index for index, old in enumerate(self._into.resources) if one in self._scopes.all_ids(old)]
        changes = made.behavior in ("merge", "replace")
        if not found and not changes:
            self._into.resources.append(made)
            if self._builder.recorder:
                self._builder.recorder.start(made, source.kind, Text(where, b""))
            return
        if len(found) != 1 or not changes:
            raise _cannot_absorb(made, len(found), where, str(one))
        old = self._into.resources[found[0]]
        if made.behavior == "merge":
            made.source = old.source
        generators.take_over(made, old)
        self._into.resources[found[0]] = made
        if self._builder.recorder:
            self._builder.recorder.absorb(made, old, source.kind, where)

    # transformers

    def _run(self, stage: _Stage) -> None:
        """Run one transformer, and say where it is configured when it is refused."""
        self._builder.uses_built_in = True
        try:
            stage.act()
        except InvalidInput as error:
            where = stage.where if error.where in ("", stage.where) else f"{stage.where}: {error.where}"
            raise InvalidInput(error.what, where=where, subject=error.subject, cure=error.cure) from None
        self._into.drop_deleted()
        if self._builder.recorder:
            self._builder.recorder.after(stage.kind, stage.told or Told(stage.where), self._into.resources)
        if self._builder.build_metadata:
            step = Step("", stage.configured_in or self._seen_file, stage.kind, stage.name, stage.namespace)
            for resource in self._into.resources:
                resource.steps += [step] * stage.times

    def _stages(self) -> Iterator[_Stage]:
        """Yield the transformers in the order of Kustomize, with their files already read."""
        file, into, scopes = self._file, self._into, self._scopes
        fields, resources = file.fields, into.resources
        patcher = Patcher(resources, scopes, self._builder.schema)
        merges = [self._legacy_merge(index, item) for index, item in _rows(file, "patchesStrategicMerge")]
        patches = [self._patch("patches", index, item) for index, item in _rows(file, "patches")]
        json_patches = [self._patch("patchesJson6902", index, item) for index, item in _rows(file, "patchesJson6902")]
        replaced = [
            (one, file.where("replacements", index))
            for index, item in _rows(file, "replacements")
            for one in self._replacements(item, file.where("replacements", index))
        ]
        for number, patch in enumerate(merges):
            kind, times = "PatchStrategicMergeTransformer", 1 if number == 0 else 0
            yield _Stage(kind, patch.where, partial(patcher.apply, patch), times=times, told=patch.told)
        for patch in patches:
            yield _Stage("PatchTransformer", patch.where, partial(patcher.apply, patch), told=patch.told)
        if fields.get("namespace"):
            yield _Stage(
                "NamespaceTransformer",
                file.where("namespace"),
                lambda: transformers.set_namespace(resources, fields["namespace"], into.config.namespace, scopes),
            )
        if fields.get("namePrefix"):
            yield _Stage(
                "PrefixTransformer",
                file.where("namePrefix"),
                lambda: transformers.add_affix(
                    resources, fields["namePrefix"], into.config.name_prefix, scopes, is_prefix=True
                ),
            )
        if fields.get("nameSuffix"):
            yield _Stage(
                "SuffixTransformer",
                file.where("nameSuffix"),
                lambda: transformers.add_affix(
                    resources, fields["nameSuffix"], into.config.name_suffix, scopes, is_prefix=False
                ),
            )
        yield from self._label_stages()
        for patch in json_patches:
            yield _Stage("PatchJson6902Transformer", patch.where, partial(patcher.apply, patch))
        for index, replica in _rows(file, "replicas"):
            yield _Stage(
                "ReplicaCountTransformer",
                file.where("replicas", index),
                lambda replica=replica: transformers.set_replicas(  # type: ignore[misc]
                    resources, replica.get("name") or "", replica.get("count") or 0, into.config.replicas, scopes
                ),
            )
        images = [*file.get("images"), *file.get("imageTags")]
        if images:
            yield _Stage(
                "ImageTagTransformer",
                file.where("images"),
                lambda: transformers.set_images(resources, [(image, into.config.images) for image in images]),
                times=len(images),
            )
        if replaced:
            yield _Stage(
                "ReplacementTransformer",
                file.where("replacements"),
                lambda: _each(
                    lambda row: replacements.replace(resources, row[0], scopes, by_regex=self._builder.by_regex),
                    replaced,
                ),
            )
        yield from self._plugin_stages("transformers")

    def _label_stages(self) -> Iterator[_Stage]:
        file, config, resources = self._file, self._into.config, self._into.resources
        labels = [
            ("LabelTransformer", file.where("labels", index), label.get("pairs") or {}, _label_specs(label, config))
            for index, label in _rows(file, "labels")
        ]
        common = [
            ("LabelTransformer", "commonLabels", config.common_labels),
            ("AnnotationsTransformer", "commonAnnotations", config.common_annotations),
        ]
        labels += [
            (kind, file.where(name), file.fields[name], specs) for kind, name, specs in common if file.fields.get(name)
        ]
        for kind, where, pairs, specs in labels:
            yield _Stage(
                kind,
                where,
                lambda pairs=pairs, specs=specs: transformers.set_entries(resources, pairs, specs),  # type: ignore[misc]
            )

    def _legacy_merge(self, index: int, item: str) -> Patch:
        where = self._file.where("patchesStrategicMerge", index)
        if "\n" in item:
            return read_patch(item, where, {}, where, is_legacy=True)
        return read_patch(self._loader.read(item, where), join(self._file.folder, item), {}, where, is_legacy=True)

    def _patch(self, field_name: str, index: int, item: dict[str, Any]) -> Patch:
        where = self._file.where(field_name, index)
        path, inline = item.get("path"), (item.get("patch") or "").strip()
        if bool(path) is bool(inline):
            raise InvalidInput(
                "the patch has path and patch" if path else "the patch has neither path nor patch",
                where=where,
                cure="keep one of them" if path else "add one of them",
            )
        if path:
            return read_patch(self._loader.read(path, where), join(self._file.folder, path), item, where)
        return read_patch(inline, where, item, where)

    def _validate(self) -> None:
        """Run validators, which may look at the resources but not change them."""
        for stage in list(self._plugin_stages("validators")):
            before = [copy_value(resource.manifest) for resource in self._into.resources]
            stage.act()
            if before != [resource.manifest for resource in self._into.resources]:
                raise InvalidInput(
                    f"the validator {stage.kind} changes the resources",
                    where=stage.where,
                    cure="list it under transformers",
                )

    # plugins

    def _plugin_stages(self, field_name: str) -> Iterator[_Stage]:
        for plugin, where in self._plugins(field_name):
            step = self._step(plugin)
            yield _Stage(
                plugin.gvk.kind,
                where,
                lambda plugin=plugin, where=where: plugins.transform(plugin, self._scene(where)),  # type: ignore[misc]
                step.name,
                step.namespace,
                step.configured_in,
            )

    def _plugins(self, field_name: str) -> list[tuple[Resource, str]]:
        """Return the plugins that a field configures by texts, files or bases, with the place of each."""
        gathered = Accumulator()
        files: list[tuple[str, int, str]] = []
        found: list[tuple[Resource, str]] = []
        for index, item in _rows(self._file, field_name):
            where = self._file.where(field_name, index)
            if "\n" not in item and not item.lstrip().startswith("{"):
                files.append((field_name, index, item))
                continue
            for document, manifest in objects_in(item, where):
                inline = Resource(manifest, Origin(self._file.file, document), source=Step(path=self._seen_file))
                found.append((inline, where))
        self._add_resources(gathered, files)
        return found + [(plugin, place_of(plugin)) for plugin in gathered.resources]

    def _scene(self, where: str) -> plugins.Scene:
        return plugins.Scene(self._into.resources, self._scopes, self._builder.schema, self._loader, where)

    def _replacements(self, item: dict[str, Any], where: str) -> list[Mapping[str, Any]]:
        return plugins.read_replacement(item, lambda path: self._loader.read(path, where), where)

    @property
    def _seen_file(self) -> str:
        return join_origin(self._seen_from, self._file.file.rpartition("/")[2])

    @staticmethod
    def _step(plugin: Resource) -> Step:
        source = plugin.source.path if plugin.source else ""
        return Step("", source, plugin.gvk.kind, plugin.name, plugin.namespace)


def place_of(resource: Resource) -> str:
    """Return the file that a resource was read from."""
    return resource.origin.file


def _rows(file: Kustomization, name: str) -> list[tuple[int, Any]]:
    return list(enumerate(file.get(name)))


def _each(act: Callable[[Any], None], items: Sequence[Any]) -> None:
    for item in items:
        act(item)


def _conform(document: Any, shape: Shape, path: str, text: bytes) -> Any:
    try:
        return conform(document, shape)
    except Mismatch as error:
        raise InvalidInput(error.what, where=place(path, text, error.path), cure=error.cure) from None


def _label_specs(label: dict[str, Any], config: TransformerConfig) -> tuple[FieldSpec, ...]:
    specs = tuple(spec_from(one) for one in label.get("fields") or ())
    if label.get("includeSelectors"):
        return merge_specs(specs, config.common_labels)
    if label.get("includeTemplates"):
        specs = merge_specs(specs, config.template_labels)
    return merge_specs(merge_specs(specs, config.labels), (METADATA_LABELS,))


def _cannot_absorb(made: Resource, count: int, where: str, subject: str) -> InvalidInput:
    if count > 1:
        return InvalidInput(f"{count} objects could be merged into", where=where, subject=subject)
    if count:
        return InvalidInput(
            "the object exists already",
            where=where,
            subject=subject,
            cure="use behavior merge or replace, or rename it",
        )
    return InvalidInput(
        f"nothing to {made.behavior}: no base has this object",
        where=where,
        subject=subject,
        cure="use behavior create, or correct the name",
    )
