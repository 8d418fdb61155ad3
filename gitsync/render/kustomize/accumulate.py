"""
Accumulate: build one kustomization from what it names, in the order Kustomize works.

Resources and bases, generators, components, then the transformers, validators and vars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.objects.tree import Entry
from gitsync.render.kustomize import generators, plugins
from gitsync.render.kustomize.build_context import BuildContext
from gitsync.render.kustomize.config import DEFAULTS, EMPTY, TransformerConfig, config_from
from gitsync.render.kustomize.kustomization import CONFIGURATION, Kustomization
from gitsync.render.kustomize.loader import Loader, reject_chart
from gitsync.render.kustomize.stages import Stage, Stages
from gitsync.render.patch.merge_keys import BUILT_IN
from gitsync.render.patch.struct_schema import Mismatch, Shape, conform
from gitsync.render.provenance.step_source import FieldChange, SourceFile, StepSource
from gitsync.render.resources.internal_annotations import join_origin
from gitsync.render.resources.objects import objects_in
from gitsync.render.resources.resource import BuildStep, Generation, Id, Origin, Resource, copy_value
from gitsync.render.yaml.reader import place
from gitsync.render.yaml.yaml11 import read_yaml11

if TYPE_CHECKING:  # few kustomizations have vars
    from gitsync.render.kustomize.variables import Variable


class Accumulator:
    """What a kustomization has gathered so far."""

    def __init__(self) -> None:
        self.resources: list[Resource] = []
        self.config: TransformerConfig = EMPTY
        self.variables: dict[str, Variable] = {}

    def drop_deleted(self) -> None:
        """Forget the resources that a patch deleted."""
        self.resources[:] = [resource for resource in self.resources if resource.manifest]


def accumulate(
    context: BuildContext, loader: Loader, kustomization: Kustomization, into: Accumulator, seen_from: str = ""
) -> None:
    """Add to ``into`` all that a kustomization makes; ``seen_from`` is its path for ``buildMetadata``."""
    context.warnings += kustomization.warnings
    _Target(context, loader, kustomization, into, seen_from).build()


class _Target:
    """One kustomization being built."""

    def __init__(
        self, context: BuildContext, loader: Loader, kustomization: Kustomization, into: Accumulator, seen_from: str
    ) -> None:
        self._context = context
        self._loader = loader
        self._file = kustomization
        self._into = into
        self._seen_from = seen_from
        self._scopes = context.scopes
        self._errors = context.errors
        self._positions: dict[Id, list[int]] = {}
        """Positions of the resources by each id they have or had; for generators, of which there may be thousands."""

    def build(self) -> None:
        file = self._file
        into = self._into
        self._add_resources(into, [(name, i, path) for name in ("resources", "bases") for i, path in file.rows(name)])
        configuration = self._configuration()
        with _located(file.where("configurations")):
            into.config = into.config.merge(configuration)
        if file.get("crds"):
            from gitsync.render.kustomize.config import config_from_crds  # late: few kustomizations list definitions

            with _located(file.where("crds")):
                into.config = into.config.merge(config_from_crds(self._loader, file))
        # Generators see the resources of bases, which they may merge into, but not those of components.
        self._generate()
        for index, path in file.rows("components"):
            with self._errors:
                self._enter(path, file.where("components", index), is_component=True)
        stages = Stages(file, self._loader, into.resources, into.config, self._context)
        # Transformers run over everything that is here by now, the objects of components too.
        for together in self._grouped([*stages.all(), *self._plugin_stages("transformers")]):
            with self._errors:
                self._run(together)
        with self._errors:
            self._validate()
        if file.get("vars"):
            self._add_variables()

    def _add_variables(self) -> None:
        from gitsync.render.kustomize.variables import add_variables, variable_from

        into = self._into
        for index, item in self._file.rows("vars"):
            # A var is bound to its object before the parent renames it, so the reference survives prefixes.
            with self._errors:
                variable = variable_from(item, self._file.where("vars", index))
                add_variables(into.variables, (variable,), into.resources, self._scopes)

    # resources

    def _add_resources(self, into: Accumulator, rows: Iterable[tuple[str, int, str]]) -> None:
        """Add the objects of files, and what bases make, in the order listed."""
        index = dict(zip(self._scopes.ids_of(into.resources), into.resources, strict=True))
        for field_name, position, path in rows:
            where = self._file.where(field_name, position)
            with self._errors:
                real, entry = self._loader.entry(path, where)
                if entry is Entry.FOLDER:
                    base = self._enter(path, where, is_component=False)
                    # In the order listed: with sortOptions fifo it is the order of the output.
                    self._append(into, base.resources, index, where)
                    with _located(where):
                        into.config = into.config.merge(base.config)
                    if base.variables:
                        from gitsync.render.kustomize.variables import join_variables

                        join_variables(into.variables, base.variables.values())
                else:
                    file = self._loader.own(real, entry, path, where)
                    self._append(into, self._read(file, path), index, where)

    def _read(self, file: str, path: str) -> list[Resource]:
        """Return the objects of the file at a real path, which the kustomization names as another."""
        added = self._loader.resources(file)
        text = SourceFile(file, self._loader.files.read(file)) if self._context.recorder else None
        source = BuildStep(path=join_origin(self._seen_from, path)) if self._context.build_metadata else None
        for resource in added:
            resource.source = source
            if self._context.recorder and text:
                self._context.recorder.start(resource, "resource", text._replace(document=resource.origin.document))
        return added

    def _append(self, into: Accumulator, added: Sequence[Resource], index: dict[Id, Resource], location: str) -> None:
        ids = self._scopes.ids_of(added)
        if not self._context.uses_built_in:
            self._context.uses_built_in = any(BUILT_IN.root(gvk) is None for gvk in {id_.gvk for id_ in ids})
        for id_, resource in zip(ids, added, strict=True):
            other = index.setdefault(id_, resource)
            if other is not resource:
                raise InvalidInput(
                    f"the object is already there: {resource.origin.file} and {other.origin.file} both define it",
                    location=location,
                    object=str(id_),
                    hint="remove one of them",
                )
            into.resources.append(resource)

    def _enter(self, path: str, location: str, *, is_component: bool) -> Accumulator:
        """Build the kustomization of a folder: a component into what is here, a base on its own."""
        self._context.enter(location)
        loader = self._loader.enter(path, location)
        inner = loader.kustomization()
        if inner is None:
            reject_chart(loader.files, loader.folder)
            raise InvalidInput(
                f"the folder {path} has no kustomization file",
                location=location,
                hint="add a kustomization.yaml, or name the files",
            )
        # Kustomize registers a schema when it reads the file, so that of a base counts for its parents too.
        self._context.use_schema(loader, inner)
        if inner.is_component is not is_component:
            what, field_name = ("a", "components") if inner.is_component else ("not a", "resources")
            raise InvalidInput(f"{path} is {what} Component", location=location, hint=f"list it under {field_name}")
        # A component changes what its parent has gathered; a base knows nothing of it.
        into = self._into if is_component else Accumulator()
        outer = self._context.outer_namespace
        self._context.outer_namespace = self._file.fields.get("namespace") or outer
        try:
            accumulate(self._context, loader, inner, into, join_origin(self._seen_from, path))
        finally:
            self._context.outer_namespace = outer
        return into

    # configuration

    def _configuration(self) -> TransformerConfig:
        # The files are joined before they meet the defaults, as in Kustomize: where one repeats itself for all kinds
        # behind one kind, the second row is dropped here, and contradicts no default.
        additions = EMPTY
        for index, path in self._file.rows("configurations"):
            where = self._file.where("configurations", index)
            text = self._loader.read(path, where)
            for document in read_yaml11(text, path):
                with _located(where):
                    additions = additions.merge(config_from(_conform(document, CONFIGURATION, path, text)))
        with _located(self._file.where("configurations")):
            return DEFAULTS.merge(additions)

    # generators

    def _generate(self) -> None:
        common = self._file.fields.get("generatorOptions") or {}
        for field_name, kind, make in (
            ("configMapGenerator", "ConfigMapGenerator", generators.config_map),
            ("secretGenerator", "SecretGenerator", generators.secret),
        ):
            for index, item in self._file.rows(field_name):
                where = self._file.where(field_name, index)
                arguments = generators.with_options(item, common)
                with self._errors:
                    try:
                        manifest = make(arguments, lambda path, where=where: self._loader.read(path, where))  # type: ignore[misc]
                    except InvalidInput as error:
                        what = f"{field_name} {item.get('name') or ''}: {error.message}"
                        raise InvalidInput(what, location=error.location or where, hint=error.hint) from None
                    # The hash is added at the very end: overlays may still merge into the object.
                    needs_hash = not arguments["options"]["disableNameSuffixHash"]
                    generation = Generation(item.get("behavior") or "create", needs_hash)
                    made = Resource(manifest, Origin(self._file.file, 0), generation=generation)
                    step_source = StepSource(
                        where,
                        data=self._places(field_name, index, arguments),
                        find=partial(self._option_places, field_name, index),
                    )
                    self._absorb(made, step_source, BuildStep(configured_in=self._seen_file, kind=kind))
        for index, item in self._file.rows("helmCharts"):
            with self._errors:
                self._add_chart(item, self._file.where("helmCharts", index))
        for plugin, where in self._plugins("generators"):
            with self._errors:
                made = plugins.generate(plugin, self._plugin_context(where))
                self._absorb(made, self._plugin_source("generators", plugin, where), self._step(plugin))

    def _add_chart(self, item: Mapping[str, Any], where: str) -> None:
        """Add what Helm makes of a chart below this folder."""
        from gitsync.render.kustomize import charts  # late: few kustomizations have charts

        namespace = self._file.fields.get("namespace") or self._context.outer_namespace
        home = (self._file.fields.get("helmGlobals") or {}).get("chartHome") or charts.DEFAULT_HOME
        with _located(where):
            chart = charts.kustomize_chart(self._loader, {"namespace": namespace, **item}, home, where)
            made = charts.generated_resources(self._loader, chart, self._context.helm)
        for resource in made:
            file = resource.origin.file
            source = StepSource(file, find=lambda change, file=file: (file,))  # type: ignore[misc]
            self._absorb(resource, source, BuildStep(configured_in=self._seen_file, kind=charts.GENERATOR))

    def _places(self, field_name: str, index: int, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return where the values of a generated object are written, if the build records that."""
        if self._context.recorder is None:
            return {}
        where = self._file.where(field_name, index)
        return generators.places(
            arguments,
            lambda number: self._file.where(field_name, index, "literals", number),
            lambda path: self._loader.file(path, where),
            lambda path: self._loader.read(path, where),
        )

    def _option_places(self, field_name: str, index: int, change: FieldChange) -> Sequence[str]:
        """Return the line of a generator, or of the options of all, that gives an object its name, labels and so on."""
        item = self._file.fields[field_name][index]
        match change.path:
            case ("metadata", "name" | "namespace" as member) | ("type" as member,) if item.get(member):
                return (self._file.where(field_name, index, member),)
            case ("metadata", "labels" | "annotations" as member, key):
                option: tuple[str, ...] = (member, key)
            case ("immutable",):
                option = ("immutable",)
            case _:
                return ()
        own: Any = item.get("options") or {}
        for part in option:
            own = own.get(part) if isinstance(own, dict) else None
        holder = (field_name, index, "options") if own else ("generatorOptions",)
        return (self._file.where(*holder, *option),)

    def _absorb(self, made: Resource, step_source: StepSource, source: BuildStep) -> None:
        """Add a generated resource, or merge it as its behavior says."""
        id_ = self._scopes.id_of(made)
        where = step_source.place
        if made.behavior not in generators.BEHAVIORS:
            self._context.warnings.append(
                f"{where}: {id_}: the behavior {made.behavior!r} is not known and counts as create"
            )
        made.source = source if self._context.build_metadata else None
        positions = self._positions_of(id_)
        changes = made.behavior in ("merge", "replace")
        if not positions and not changes:
            self._into.resources.append(made)
            # Indexed one by one: a file may have thousands of generators.
            self._index_ids(len(self._into.resources) - 1)
            if self._context.recorder:
                self._context.recorder.start(made, source.kind, step_source)
            return
        if len(positions) != 1 or not changes:
            raise _cannot_absorb(made, len(positions), where, str(id_))
        old = self._into.resources[positions[0]]
        # What merges keeps the origin of the object that it merges into.
        if made.behavior == "merge":
            made.source = old.source
        generators.take_over(made, old)
        self._into.resources[positions[0]] = made
        self._index_ids(positions[0])
        if self._context.recorder:
            self._context.recorder.absorb(made, old, source.kind, step_source)

    def _positions_of(self, id_: Id) -> list[int]:
        """Return the positions of the resources that have, or had, an id."""
        resources = self._into.resources
        if not self._positions:
            for position in range(len(resources)):
                self._index_ids(position)
        known = dict.fromkeys(self._positions.get(id_, ()))
        return [position for position in known if id_ in self._scopes.all_ids(resources[position])]

    def _index_ids(self, position: int) -> None:
        for id_ in dict.fromkeys(self._scopes.all_ids(self._into.resources[position])):
            self._positions.setdefault(id_, []).append(position)

    # transformers

    def _grouped(self, stages: Iterable[Stage]) -> Iterator[list[Stage]]:
        """Yield stages one by one, but grouped where all treat each resource by itself and the build has a cache."""
        together: list[Stage] = []
        for stage in stages:
            # Grouped steps share one entry of the cache, and so one comparison for each resource.
            if together and (stage.key is None or stage.apart != together[-1].apart):
                yield together
                together = []
            together.append(stage)
            if stage.key is None or stage.check is not None or not self._context.steps.is_remembered:
                yield together
                together = []
        if together:
            yield together

    def _run(self, stages: Sequence[Stage]) -> None:
        """Run transformers."""
        self._context.uses_built_in = True
        key = tuple(stage.key for stage in stages)
        if None in key:
            self._run_stages(self._into.resources, stages)
        else:
            self._context.steps.run(key, self._into.resources, partial(self._run_stages, stages=stages))
        # A merge patch that deletes an object leaves it empty until its step ends.
        self._into.drop_deleted()
        for stage in stages:
            if stage.check is not None:
                with _configured(stage):
                    stage.check()
            if self._context.recorder:
                self._context.recorder.after(
                    stage.kind, stage.step_source or StepSource(stage.where), self._into.resources
                )
            if self._context.build_metadata:
                step = BuildStep("", stage.configured_in or self._seen_file, stage.kind, stage.name, stage.namespace)
                for resource in self._into.resources:
                    resource.note(step, stage.times)

    @staticmethod
    def _run_stages(resources: Sequence[Resource], stages: Sequence[Stage]) -> None:
        """Let the stages act on resources, one after the other; what one deletes is nothing to the next."""
        for stage in stages:
            with _configured(stage):
                stage.act(resources)
            if stage is not stages[-1]:
                resources = [resource for resource in resources if resource.manifest]

    def _validate(self) -> None:
        """Run validators, which may read the resources but not change them."""
        for stage in list(self._plugin_stages("validators")):
            # Kustomize compares with a copy as well: a validator that changes anything is an error.
            originals = [copy_value(resource.manifest) for resource in self._into.resources]
            stage.act(self._into.resources)
            if originals != [resource.manifest for resource in self._into.resources]:
                raise InvalidInput(
                    f"the validator {stage.kind} changes the resources",
                    location=stage.where,
                    hint="list it under transformers",
                )

    # plugins

    def _plugin_stages(self, field_name: str) -> Iterator[Stage]:
        for plugin, where in self._plugins(field_name):
            step = self._step(plugin)
            yield Stage(
                plugin.gvk.kind,
                where,
                lambda _, plugin=plugin, where=where: plugins.transform(plugin, self._plugin_context(where)),  # type: ignore[misc]
                name=step.name,
                namespace=step.namespace,
                configured_in=step.configured_in,
                step_source=self._plugin_source(field_name, plugin, where),
            )

    def _plugin_source(self, field_name: str, plugin: Resource, where: str) -> StepSource:
        """Return where the configuration of a plugin has the values that it sets."""
        if self._context.recorder is None:
            return StepSource(where)
        rows = (row for row, _ in self._file.rows(field_name))
        inline = next((row for row in rows if self._file.where(field_name, row) == where), None)
        if inline is not None:
            text = self._file.text_at(field_name, inline)._replace(document=plugin.origin.document)
        else:
            text = SourceFile(plugin.origin.file, self._loader.files.read(plugin.origin.file), plugin.origin.document)
        return StepSource(where, find=partial(plugins.value_places, plugin.manifest, text))

    def _plugins(self, field_name: str) -> list[tuple[Resource, str]]:
        """Return the plugins that a field configures by texts, files or bases, with the place of each."""
        gathered = Accumulator()
        files: list[tuple[str, int, str]] = []
        inline: dict[Id, Resource] = {}
        places: dict[int, str] = {}
        for index, item in self._file.rows(field_name):
            where = self._file.where(field_name, index)
            # Kustomize takes an entry for a text where it parses as YAML objects; a path has no line break.
            if "\n" not in item and not item.lstrip().startswith("{"):
                files.append((field_name, index, item))
                continue
            for document, manifest in objects_in(item, where):
                made = Resource(manifest, Origin(self._file.file, document), source=BuildStep(path=self._seen_file))
                self._append(gathered, [made], inline, where)
                places[id(made)] = where
        self._add_resources(gathered, files)
        return [(plugin, places.get(id(plugin), plugin.origin.file)) for plugin in gathered.resources]

    def _plugin_context(self, location: str) -> plugins.PluginContext:
        context = self._context
        return plugins.PluginContext(
            self._into.resources, context.scopes, context.schema, self._loader, context.steps, location
        )

    @property
    def _seen_file(self) -> str:
        return join_origin(self._seen_from, self._file.file.rpartition("/")[2])

    @staticmethod
    def _step(plugin: Resource) -> BuildStep:
        source = plugin.source.path if plugin.source else ""
        return BuildStep("", source, plugin.gvk.kind, plugin.name, plugin.namespace)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Name the place of a configuration where it is refused."""
    try:
        yield
    except RemoteNeeded:  # has the place, and what is fetched before the build starts again
        raise
    except InvalidInput as error:
        raise InvalidInput(
            error.message, location=error.location or where, object=error.object, hint=error.hint
        ) from None


@contextmanager
def _configured(stage: Stage) -> Iterator[None]:
    """Say where a stage is configured, where it is refused."""
    try:
        yield
    except InvalidInput as error:
        where = stage.where if error.location in ("", stage.where) else f"{stage.where}: {error.location}"
        raise InvalidInput(error.message, location=where, object=error.object, hint=error.hint) from None


def _conform(document: Any, shape: Shape, path: str, text: bytes) -> Any:
    try:
        return conform(document, shape)
    except Mismatch as error:
        raise InvalidInput(error.message, location=place(path, text, error.path), hint=error.hint) from None


def _cannot_absorb(made: Resource, count: int, location: str, subject: str) -> InvalidInput:
    if count > 1:
        return InvalidInput(f"{count} objects could be merged into", location=location, object=subject)
    if count:
        return InvalidInput(
            "the object exists already",
            location=location,
            object=subject,
            hint="use behavior merge or replace, or rename it",
        )
    return InvalidInput(
        f"nothing to {made.behavior}: no base has this object",
        location=location,
        object=subject,
        hint="use behavior create, or correct the name",
    )
