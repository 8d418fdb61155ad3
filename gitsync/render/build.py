"""
Build: from a folder of a tree to its desired manifests.

Pure: the same tree and options give the same result, byte for byte; ``files_read`` says what it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gitsync.errors import EmptyRender, InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.tree import Entry, Tree
from gitsync.render.build_cache import CachedSteps
from gitsync.render.errors import ErrorCollector
from gitsync.render.kustomize import transformers
from gitsync.render.kustomize.accumulate import Accumulator, accumulate
from gitsync.render.kustomize.build_context import BuildContext
from gitsync.render.kustomize.files import CHART_FILE, Files, ParseCache, is_chart
from gitsync.render.kustomize.kustomization import FILE_NAMES, Kustomization
from gitsync.render.kustomize.loader import Loader, reject_chart
from gitsync.render.kustomize.references import fix_references
from gitsync.render.kustomize.stages import METADATA_LABELS
from gitsync.render.provenance.step_source import BUILD_STEP, SourceFile, StepSource
from gitsync.render.resources.field_spec import KIND_ORDER, gvk_order
from gitsync.render.resources.internal_annotations import INTERNAL, MANAGED_BY, annotate
from gitsync.render.resources.resource import Gvk, Id, Origin, Resource
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.scalar_types import Quoted, is_plain, plain

if TYPE_CHECKING:  # few builds need them, and start-up is most of the time of a small one
    from gitsync.objects.charts import ChartOptions, Helm
    from gitsync.objects.ref import ObjectRef
    from gitsync.render.provenance.recorder import History, Recorder

RENDERERS: Final = ("Auto", "Kustomize", "Helm", "Plain")
_NO_FOLDER: Final = {
    None: (EmptyRender, "does not exist"),
    Entry.SUBMODULE: (InvalidInput, "is a Git submodule, whose files are in another repository"),
}
_LOCAL_CONFIG: Final = "config.kubernetes.io/local-config"
_ABSENT: Final = object()
_SETTLED: Final = frozenset({str, Quoted})
"""The types of annotations that are texts, whatever happens to them next."""


class Build(NamedTuple):
    """
    What a folder renders to.

    ``files_read`` holds every path the result depends on, also those that were absent; one
    that ends in ``/`` means everything below it. A change to none of them cannot change the result.
    """

    manifests: tuple[Manifest, ...]
    files_read: frozenset[str]
    warnings: tuple[str, ...] = ()
    sources: tuple[Origin, ...] = ()
    """The file and document that each manifest comes from."""
    provenance: tuple[History, ...] = ()
    """The history of each manifest's fields, where it was asked for."""
    remotes: tuple[tuple[str, str], ...] = ()
    """References to other repositories, and the commits that they named."""
    chart: ChartOptions | None = None
    """The options that the result depends on, where the folder is a chart."""


def memo_of(folder: str, renderer: str) -> str:
    """Return the name under which a cache keeps what the last build of a folder made."""
    return f"{folder} as {renderer}"


def check_count(manifests: Iterable[Manifest], limit: int) -> None:
    """Raise InvalidInput for more objects than the policies of an Application allow; those of Lists count each."""
    count = _count(manifests)
    if count > limit:
        raise InvalidInput(
            f"has {count:,} objects, the limit is {limit:,}",
            hint="divide it between several applications, or raise limits.maxObjects of its policy",
        )


def _count(manifests: Iterable[Manifest]) -> int:
    # the items of a List that holds something else are an error that names it, later
    lists = (
        manifest["items"]
        if str(manifest.get("kind") or "").endswith("List") and isinstance(manifest.get("items"), list)
        else None
        for manifest in manifests
    )
    return sum(1 if items is None else len(items) for items in lists)


def build(
    tree: Tree,
    path: str,
    *,
    cache: ParseCache | None = None,
    renderer: str = "Auto",
    load_restrictions: bool = True,
    provenance: bool = False,
    faults: list[InvalidInput] | None = None,
    chart: ChartOptions | None = None,
    helm: Helm | None = None,
) -> Build:
    """
    Render a folder: as Kustomize does where it has a kustomization file, as Helm does where it is a chart, else as
    plain manifests. ``helm`` renders charts; without it they are refused.

    Raise InvalidInput, with ``file:line`` and what to do, for any error in the input. Given a list of ``faults``,
    errors that do not prevent further checks are appended to it instead, and the result is what is left without them.
    With a ``cache``, unchanged results of the last build of the folder are reused: such a manifest is the identical
    object.
    """
    files = Files(tree, cache)
    recorder = _recorder() if provenance else None
    folder, entry = files.resolve("", path)
    if entry is not Entry.FOLDER:
        kind, what = _NO_FOLDER.get(entry, (InvalidInput, "is not a folder"))
        raise kind(f"the path {path or '.'} {what}", hint=_similar_paths(tree, path))
    is_observed = recorder is not None or faults is not None  # then each step has to run
    steps = CachedSteps(cache.memo(memo_of(folder, renderer)) if cache is not None and not is_observed else None)
    loader = Loader(files, folder, is_restricted=load_restrictions)
    errors = ErrorCollector(faults)
    kustomization = loader.kustomization() if renderer in ("Auto", "Kustomize") else None
    if kustomization is not None:
        return _build_kustomization(loader, kustomization, BuildContext(kustomization, recorder, errors, steps, helm))
    if renderer in ("Auto", "Helm") and is_chart(files, folder):
        return _build_chart(loader, chart, helm, _Run(files, steps, recorder))
    if renderer == "Helm":
        raise InvalidInput(
            f"the folder has no {CHART_FILE}", location=path or ".", hint="correct the path, or the renderer"
        )
    if renderer == "Kustomize":
        reject_chart(files, folder)
        raise InvalidInput(
            f"the folder has none of {', '.join(FILE_NAMES)}", location=path or ".", hint="add a kustomization.yaml"
        )
    from gitsync.render.plain import plain_resources  # late: most folders have a kustomization

    resources = plain_resources(files, loader, folder, errors)
    if recorder:
        texts = {file: files.read(file) for file in {resource.origin.file for resource in resources}}
        for resource in resources:
            file, document = resource.origin
            recorder.start(resource, "manifest", SourceFile(file, texts[file], document))
    return _result(_Run(files, steps, recorder), resources)


def _build_chart(loader: Loader, chart: ChartOptions | None, helm: Helm | None, run: _Run) -> Build:
    """Build a folder that is a chart, with the values that the Application names."""
    from gitsync.objects.charts import ChartOptions  # late: few folders are charts
    from gitsync.render.kustomize import charts

    options = chart or ChartOptions()
    files = loader.files
    values = charts.read_values(files, loader.folder, options)
    resources = charts.chart_resources(files, loader.folder, values, options, helm)
    scopes = Scopes()
    _refuse_duplicates(scopes.ids_of(resources), resources)
    if not resources:
        raise EmptyRender(
            "the chart renders to no object", location=loader.folder or ".", hint="correct the chart or its values"
        )
    if run.recorder:
        for resource in resources:
            run.recorder.start(resource, "chart", SourceFile(resource.origin.file, b"", place=resource.origin.file))
    return _result(run, resources)._replace(chart=options)


def _similar_paths(tree: Tree, path: str) -> str:
    """Return the hint for a folder that does not exist: those of similar names in the deepest folder that does."""
    from difflib import get_close_matches  # late: a build that succeeds does not need it

    names = [name for name in path.split("/") if name not in ("", ".")]
    above = ""
    for name in names:
        below = f"{above}/{name}".lstrip("/")
        if tree.entry(below) is not Entry.FOLDER:
            folders = [item for item in tree.names(above) if tree.entry(f"{above}/{item}".lstrip("/")) is Entry.FOLDER]
            similar = [f"{above}/{item}".lstrip("/") for item in get_close_matches(name, folders, 3, 0.5)]
            return f"similar paths: {', '.join(similar)}" if similar else "correct the path of the application"
        above = below
    return "correct the path of the application"


def _recorder() -> Recorder:
    from gitsync.render.provenance.recorder import Recorder

    return Recorder()


def _build_kustomization(loader: Loader, kustomization: Kustomization, context: BuildContext) -> Build:
    """Build a kustomization and everything it names, then run the last steps over all resources."""
    files = loader.files
    steps = context.steps
    recorder = context.recorder
    context.use_schema(loader, kustomization)
    made = Accumulator()
    try:
        accumulate(context, loader, kustomization, made)
    except EmptyRender as error:  # an empty base is a mistake, not a request to delete all objects
        raise InvalidInput(error.message, location=error.location, hint=error.hint) from error
    resources = made.resources
    # References of what is incomplete would be wrong, and hide the real errors.
    if context.errors.collected:
        return _result(_Run(files, steps, recorder), resources)
    finish = _Finish(resources, recorder)
    finish("name hash", lambda: transformers.add_hashes(resources, context.scopes, steps))
    finish("name reference", lambda: fix_references(resources, made.config.name_reference, context.scopes, steps))
    unused: list[str] = []
    if made.variables:
        # late: few kustomizations have vars
        from gitsync.render.kustomize.variables import resolve_variables, variable_places

        unused.extend(resolve_variables(resources, made.variables, made.config.var_reference, steps))
        if recorder:
            places = partial(variable_places, made.variables, resources, recorder)
            recorder.after("var", StepSource(BUILD_STEP, find=places), resources)
    ids = context.scopes.ids_of(resources)
    # Both come last: a later patch may repair what an earlier one broke.
    _refuse_nameless(ids, resources)
    _refuse_duplicates(ids, resources)
    sort = kustomization.fields.get("sortOptions")
    resources = in_order(ids, resources, sort, kustomization.where("sortOptions"))
    # Local objects configure the build; other objects may refer to them until here.
    resources = [resource for resource in resources if not _is_local(resource)]
    if "managedByLabel" in context.build_metadata:
        transformers.set_entries(resources, MANAGED_BY, (METADATA_LABELS,))
        finish("managedByLabel", lambda: None)
    return _result(_Run(files, steps, recorder), resources, context.build_metadata, (*context.warnings, *unused))


def joined_build(builds: Sequence[tuple[str, Build]], namespace: str, chart: ChartOptions) -> Build:
    """
    Return the builds of several sources, by their names, as one; raise InvalidInput for an object of two of them.

    ``namespace`` is that of objects without one; ``chart`` is what all of them depend on where one is a chart.
    """
    from gitsync.objects.ref import ref_of  # late: few builds have several sources

    sources: dict[ObjectRef, str] = {}
    for name, made in builds:
        for manifest in made.manifests:
            ref = ref_of(manifest)
            placed = ref._replace(namespace=ref.namespace or namespace)
            other = sources.setdefault(placed, name)
            if other != name:
                raise InvalidInput(
                    f"the sources {other} and {name} both have it",
                    location=f"spec.sources[{name}]",
                    object=str(ref),
                    hint="remove it from one of them, or patch it in a kustomization over the other",
                )
    return Build(
        manifests=tuple(manifest for _, made in builds for manifest in made.manifests),
        files_read=frozenset().union(*(made.files_read for _, made in builds)),
        warnings=tuple(warning for _, made in builds for warning in made.warnings),
        sources=tuple(origin for _, made in builds for origin in made.sources),
        provenance=tuple(history for _, made in builds for history in made.provenance),
        chart=chart if any(made.chart for _, made in builds) else None,
    )


class _Finish:
    """Run and record the last steps, which no file configures."""

    def __init__(self, resources: Sequence[Resource], recorder: Recorder | None) -> None:
        self._resources = resources
        self._recorder = recorder

    def __call__(self, step: str, act: Callable[[], None]) -> None:
        act()
        if self._recorder:
            self._recorder.after(step, StepSource(BUILD_STEP), self._resources)


class _Run(NamedTuple):
    """What lasts for one build: the files it reads, its cached steps, and its provenance if asked for."""

    files: Files
    steps: CachedSteps
    recorder: Recorder | None


def _result(
    run: _Run,
    resources: Sequence[Resource],
    build_metadata: frozenset[str] = frozenset(),
    warnings: tuple[str, ...] = (),
) -> Build:
    recorder = run.recorder

    def finish(unfinished: Iterable[Resource]) -> None:
        for resource in unfinished:
            _finish(resource, build_metadata)

    run.steps.run("finish", resources, finish)
    run.steps.keep()
    if recorder:
        recorder.after("buildMetadata", StepSource(BUILD_STEP), resources)
    return Build(
        tuple(resource.manifest for resource in resources),
        run.files.looked_at,
        warnings,
        tuple(resource.origin for resource in resources),
        tuple(recorder.history(resource) for resource in resources) if recorder else (),
    )


def _refuse_nameless(ids: Sequence[Id], resources: Sequence[Resource]) -> None:
    for id_, resource in zip(ids, resources, strict=True):
        if not id_.name or not id_.gvk.kind:
            raise InvalidInput(
                "after all patches the object has no kind or no name",
                location=resource.origin.file,
                object=f"{id_.gvk.kind} {id_.name}".strip(),
                hint="correct the patch that removes it",
            )


def _refuse_duplicates(ids: Sequence[Id], resources: Sequence[Resource]) -> None:
    if len(set(ids)) == len(ids):
        return
    by_id: dict[Id, Resource] = {}
    for id_, resource in zip(ids, resources, strict=True):
        other = by_id.setdefault(id_, resource)
        if other is not resource:
            raise InvalidInput(
                f"two objects have become the same: one from {other.origin.file}, one from {resource.origin.file}",
                location=resource.origin.file,
                object=str(id_),
                hint="correct the patch or transformer that renames one of them",
            )


def _is_local(resource: Resource) -> bool:
    annotations = (resource.manifest.get("metadata") or {}).get("annotations")
    is_named = isinstance(annotations, dict) and _LOCAL_CONFIG in annotations
    return is_named and resource.labels("annotations")[_LOCAL_CONFIG] != "false"


def _finish(resource: Resource, wanted: frozenset[str]) -> None:
    """Leave the annotations that Kustomize leaves: no notes of its own, and no empty mapping."""
    annotations = (resource.manifest.get("metadata") or {}).get("annotations", _ABSENT)
    if annotations is not _ABSENT:
        kept = {key: value for key, value in resource.labels("annotations").items() if key not in INTERNAL}
        if kept != annotations or not _SETTLED.issuperset(map(type, annotations.values())):
            resource.editable["metadata"]["annotations"] = kept
        if not kept:
            del resource.editable["metadata"]["annotations"]
    annotate(resource, wanted)
    if not is_plain(resource.manifest):
        try:
            resource.put(plain(resource.manifest))
        except ValueError as error:
            subject = f"{resource.gvk.kind} {resource.name}"
            raise InvalidInput(
                str(error), location=resource.origin.file, object=subject, hint="correct what sets it"
            ) from None


_PLACE: Final = itemgetter(0)


def in_order(
    ids: Sequence[Id], resources: Sequence[Resource], options: Mapping[str, Any] | None, location: str
) -> list[Resource]:
    """Return the resources, which have these ids, in the order that ``sortOptions`` asks for."""
    order = "legacy" if options is None else options.get("order") or ""
    legacy = (options or {}).get("legacySortOptions")
    if order not in ("legacy", "fifo"):
        raise InvalidInput(f"sortOptions.order {order!r} is not known", location=location, hint="write fifo or legacy")
    if order == "fifo":
        if legacy is not None:
            raise InvalidInput(
                "legacySortOptions is set, but the order is fifo", location=location, hint="write order: legacy"
            )
        return list(resources)
    ranks = KIND_ORDER
    if legacy is not None:
        first = legacy.get("orderFirst") or ()
        last = legacy.get("orderLast") or ()
        ranks = {kind: index - len(first) for index, kind in enumerate(first)}
        ranks.update({kind: index + 1 for index, kind in enumerate(last)})

    by_kind: dict[Gvk, list[tuple[str, Resource]]] = {}
    for id_, resource in zip(ids, resources, strict=True):
        by_kind.setdefault(id_.gvk, []).append((f"{resource.namespace or '~X'}|{id_.name}", resource))
    kinds = sorted(by_kind, key=lambda gvk: (ranks.get(gvk.kind, 0), gvk_order(gvk)[1], gvk.kind))
    return [resource for gvk in kinds for _, resource in sorted(by_kind[gvk], key=_PLACE)]
