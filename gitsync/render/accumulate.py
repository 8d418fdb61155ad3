"""
Accumulate: build one kustomization from what it names, in the order Kustomize works.

Resources and bases, generators, components, then the transformers, validators and vars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.render import generators, replacements, transformers
from gitsync.render.config import EMPTY, TransformerConfig, config_from, spec_from
from gitsync.render.config_defaults import DEFAULTS
from gitsync.render.crds import config_from_crds
from gitsync.render.fieldspec import FieldSpec, merge_specs
from gitsync.render.kustomization import CONFIGURATION, REPLACEMENT, Kustomization, place
from gitsync.render.loader import Loader
from gitsync.render.merge_keys import BuiltInSchema, OpenApiSchema, Schema
from gitsync.render.patches import Patcher, read_patch
from gitsync.render.resource import Gvk, Id, Origin, Resource
from gitsync.render.scopes import Scopes
from gitsync.render.shapes import ListOf, Mismatch, Shape, conform
from gitsync.render.variables import Variable, add_variables, join_variables, variable_from
from gitsync.render.yaml_reader import read_all

_METADATA_LABELS = FieldSpec(Gvk("", "", ""), "metadata/labels", create=True)


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

    def __init__(self, kustomization: Kustomization) -> None:
        self.scopes = Scopes()
        self.schema: Schema = BuiltInSchema()
        self.warnings: list[str] = []
        self.build_metadata = frozenset(kustomization.get("buildMetadata"))
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
        schema = OpenApiSchema(documents[0])
        self.schema = schema
        self.scopes.learn(schema.scopes())

    def build(self, loader: Loader, kustomization: Kustomization, into: Accumulator) -> Accumulator:
        """Add to ``into`` all that a kustomization makes, and return it."""
        self.warnings += kustomization.warnings
        return _Target(self, loader, kustomization, into).build()


class _Target:
    """One kustomization being built."""

    def __init__(self, builder: Builder, loader: Loader, kustomization: Kustomization, into: Accumulator) -> None:
        self._builder = builder
        self._loader = loader
        self._file = kustomization
        self._into = into
        self._scopes = builder.scopes

    def build(self) -> Accumulator:
        file, into = self._file, self._into
        for name in ("resources", "bases"):
            self._add_resources(into, file.get(name), name)
        into.config = into.config.merge(self._configuration())
        into.config = into.config.merge(config_from_crds(self._loader, file))
        self._generate()
        for index, path in enumerate(file.get("components")):
            self._component(path, file.where("components", index))
        self._transform()
        self._validate()
        add_variables(
            into.variables,
            (variable_from(item, file.where("vars", index)) for index, item in enumerate(file.get("vars"))),
            into.resources,
            self._scopes,
        )
        return into

    # resources ------------------------------------------------------------------------------------------------

    def _add_resources(self, into: Accumulator, paths: Sequence[str], field_name: str) -> None:
        index = _ids(into.resources, self._scopes)
        for position, path in enumerate(paths):
            where = self._file.where(field_name, position)
            real, entry = self._loader.entry(path, where)
            if entry is Entry.FILE:
                added = self._loader.resources(self._loader.file(path, where))
                for resource in added:
                    self._note_origin(resource, real)
                self._append(into, added, index, where)
                continue
            base = self._enter(path, where, is_component=False)
            self._append(into, base.resources, index, where)
            into.config = into.config.merge(base.config)
            join_variables(into.variables, base.variables.values())

    def _append(self, into: Accumulator, added: Iterable[Resource], index: dict[Id, Resource], where: str) -> None:
        for resource in added:
            one = self._scopes.id_of(resource)
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
            wanted, place_name = ("a Component", "components") if inner.is_component else ("no Component", "resources")
            raise InvalidInput(f"{path} is {wanted}", where=where, cure=f"list it under {place_name}")
        return self._builder.build(loader, inner, self._into if is_component else Accumulator())

    def _component(self, path: str, where: str) -> None:
        self._enter(path, where, is_component=True)
        _ids(self._into.resources, self._scopes)

    # configuration --------------------------------------------------------------------------------------------

    def _configuration(self) -> TransformerConfig:
        config = DEFAULTS
        for index, path in enumerate(self._file.get("configurations")):
            where = self._file.where("configurations", index)
            text = self._loader.read(path, where)
            for document in read_all(text, path)[:1]:
                config = config.merge(config_from(_conform(document, CONFIGURATION, path, text)))
        return config

    # generators -----------------------------------------------------------------------------------------------

    def _generate(self) -> None:
        common = self._file.fields.get("generatorOptions") or {}
        for field_name, make in (
            ("configMapGenerator", generators.config_map),
            ("secretGenerator", generators.secret),
        ):
            for index, item in enumerate(self._file.get(field_name)):
                where = self._file.where(field_name, index)
                self.generate(field_name, generators.with_options(item, common), make, where)

    def generate(self, kind: str, arguments: dict[str, Any], make: Callable[..., dict[str, Any]], where: str) -> None:
        """Make the object of one generator and add it, or merge it into the one it names."""
        behavior = arguments.get("behavior") or ""
        name = arguments.get("name") or ""
        if behavior not in generators.BEHAVIORS:
            raise InvalidInput(
                f"the behavior {behavior!r} of {kind} {name} is not known",
                where=where,
                cure="use create, replace or merge",
            )
        try:
            manifest = make(arguments, lambda path: self._loader.read(path, where))
        except InvalidInput as error:
            raise InvalidInput(f"{kind} {name}: {error.what}", where=error.where or where, cure=error.cure) from None
        resource = Resource(manifest, Origin(self._file.file, 0), behavior=behavior, is_marked=True)
        resource.needs_hash = not (arguments.get("options") or {}).get("disableNameSuffixHash")
        self._absorb(resource, where)

    def _absorb(self, made: Resource, where: str) -> None:
        """Add a generated resource, or merge it as its behavior says."""
        one = self._scopes.id_of(made)
        matching = [
            (position, old)
            for position, old in enumerate(self._into.resources)
            if old.name and one in self._scopes.all_ids(old)
        ]
        changes = made.behavior in ("merge", "replace")
        if not matching:
            if changes:
                raise InvalidInput(
                    f"nothing to {made.behavior}: no base has this object",
                    where=where,
                    subject=str(one),
                    cure="use behavior create, or correct the name",
                )
            self._into.resources.append(made)
            return
        if len(matching) > 1:
            raise InvalidInput(f"{len(matching)} objects could be merged into", where=where, subject=str(one))
        if not changes:
            raise InvalidInput(
                "the object exists already",
                where=where,
                subject=str(one),
                cure="use behavior merge or replace, or another name",
            )
        position, old = matching[0]
        _take_over(made, old)
        self._into.resources[position] = made

    # transformers ---------------------------------------------------------------------------------------------

    def _transform(self) -> None:
        file, into, scopes = self._file, self._into, self._scopes
        fields, config = file.fields, into.config
        patcher = Patcher(into.resources, scopes, self._builder.schema)
        for patch in [*self._legacy_merges(), *self._patches()]:
            patcher.apply(patch)
        into.drop_deleted()
        resources = into.resources
        if fields.get("namespace"):
            transformers.set_namespace(resources, fields["namespace"], config.namespace, scopes)
        for name, is_prefix in (("namePrefix", True), ("nameSuffix", False)):
            if fields.get(name):
                specs = config.name_prefix if is_prefix else config.name_suffix
                transformers.add_affix(resources, fields[name], specs, scopes, is_prefix=is_prefix)
        for label in file.get("labels"):
            transformers.set_entries(resources, label.get("pairs") or {}, _label_specs(label, config))
        if fields.get("commonLabels"):
            transformers.set_entries(resources, fields["commonLabels"], config.common_labels)
        if fields.get("commonAnnotations"):
            transformers.set_entries(resources, fields["commonAnnotations"], config.common_annotations)
        self._json_patches()
        for index, replica in enumerate(file.get("replicas")):
            self._at(
                ("replicas", index),
                lambda replica=replica: transformers.set_replicas(  # type: ignore[misc]
                    resources, replica.get("name") or "", replica.get("count") or 0, config.replicas, scopes
                ),
            )
        images = [*file.get("images"), *file.get("imageTags")]
        if images:
            transformers.set_images(resources, [(image, config.images) for image in images])
        self._replace()

    def _at(self, path: tuple[str | int, ...], act: Callable[[], None]) -> None:
        """Run what a field asks for, and say where the field is when it is refused."""
        try:
            act()
        except InvalidInput as error:
            where = self._file.where(*path)
            if error.where:
                where = f"{where}: {error.where}"
            raise InvalidInput(error.what, where=where, subject=error.subject, cure=error.cure) from None

    def _legacy_merges(self) -> list[Any]:
        found = []
        for index, item in enumerate(self._file.get("patchesStrategicMerge")):
            where = self._file.where("patchesStrategicMerge", index)
            text: bytes | str = item
            name = where
            if "\n" not in item:
                text = self._loader.read(item, where)
                name = item
            found.append(read_patch(text, name, {}, where))
        return found

    def _patches(self) -> list[Any]:
        found = []
        for index, item in enumerate(self._file.get("patches")):
            where = self._file.where("patches", index)
            text, name = self._patch_text(item, where)
            found.append(read_patch(text, name, item, where))
        return found

    def _patch_text(self, item: dict[str, Any], where: str) -> tuple[bytes | str, str]:
        path, inline = item.get("path"), (item.get("patch") or "").strip()
        if bool(path) is bool(inline):
            raise InvalidInput(
                "a patch needs either path or patch" + (", not both" if path else ""),
                where=where,
                cure="keep one of them" if path else "add one of them",
            )
        return (self._loader.read(path, where), path) if path else (inline, where)

    def _json_patches(self) -> None:
        patcher = Patcher(self._into.resources, self._scopes, self._builder.schema)
        for index, item in enumerate(self._file.get("patchesJson6902")):
            where = self._file.where("patchesJson6902", index)
            text, name = self._patch_text(item, where)
            patch = read_patch(text, name, item, where)
            patcher.apply(patch)

    def _replace(self) -> None:
        for index, item in enumerate(self._file.get("replacements")):
            where = self._file.where("replacements", index)
            for one in self._replacement(item, where):
                self._at(
                    ("replacements", index),
                    lambda one=one: replacements.replace(self._into.resources, one, self._scopes),  # type: ignore[misc]
                )

    def _replacement(self, item: dict[str, Any], where: str) -> list[dict[str, Any]]:
        path = item.get("path")
        if not path:
            return [item]
        if item.get("source") is not None or item.get("targets"):
            raise InvalidInput("a replacement has a path and a source", where=where, cure="keep one of them")
        text = self._loader.read(path, where)
        documents = read_all(text, path)[:1]
        shape: Shape = ListOf(REPLACEMENT) if documents and isinstance(documents[0], list) else REPLACEMENT
        found = [_conform(document, shape, path, text) for document in documents]
        return found[0] if found and isinstance(found[0], list) else found

    def _validate(self) -> None:
        pass

    def _note_origin(self, resource: Resource, path: str) -> None:
        pass


def _conform(document: Any, shape: Shape, path: str, text: bytes) -> Any:
    try:
        return conform(document, shape)
    except Mismatch as error:
        raise InvalidInput(error.what, where=place(path, text, error.path), cure=error.cure) from None


def _ids(resources: Iterable[Resource], scopes: Scopes) -> dict[Id, Resource]:
    return {scopes.id_of(resource): resource for resource in resources}


def _label_specs(label: dict[str, Any], config: TransformerConfig) -> tuple[FieldSpec, ...]:
    specs = tuple(spec_from(one) for one in label.get("fields") or ())
    if label.get("includeSelectors"):
        return merge_specs(specs, config.common_labels)
    if label.get("includeTemplates"):
        specs = merge_specs(specs, config.template_labels)
    return merge_specs(specs, (_METADATA_LABELS,))


def _take_over(made: Resource, old: Resource) -> None:
    """Give a generated resource the identity of the one it merges with or replaces, and merge their data."""
    manifest = made.manifest
    for member in ("labels", "annotations"):
        values = {**old.labels(member), **made.labels(member)}
        if values:
            manifest["metadata"][member] = values
    if made.behavior == "merge":
        for member in ("data", "binaryData"):
            merged = {**(old.manifest.get(member) or {}), **(manifest.get(member) or {})}
            if merged:
                manifest[member] = merged
    made.set_meta("name", old.name)
    made.set_meta("namespace", old.namespace)
    made.previous, made.prefixes, made.suffixes = old.previous, old.prefixes, old.suffixes
    made.behavior, made.variables = old.behavior, old.variables
    made.needs_hash = made.needs_hash and old.needs_hash
