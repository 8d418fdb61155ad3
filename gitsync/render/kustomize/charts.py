"""
Charts: the files and values of a Helm chart in the tree, and the resources that Helm makes of them.

Helm gets only what is read here: links are followed inside the repository alone, and nothing is downloaded. A chart of
a Helm repository is among the files of the build, as folders of other repositories are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.kube.kinds import SECRET
from gitsync.kube.masked_fields import SecretTexts, with_masked_fields
from gitsync.objects.charts import ChartFile, ChartOptions, Helm, HelmFailed
from gitsync.objects.ref import ref_of
from gitsync.objects.remote import chart_reference
from gitsync.objects.tree import Entry
from gitsync.render.kustomize.files import CHART_FILE, Files, is_below, is_chart, join
from gitsync.render.kustomize.loader import Loader
from gitsync.render.resources.internal_annotations import name_history
from gitsync.render.resources.objects import objects_in
from gitsync.render.resources.resource import Origin, Resource, ResourceVersion
from gitsync.render.yaml.scalar_types import plain
from gitsync.render.yaml.scalars import as_written
from gitsync.render.yaml.yaml11 import read_yaml11

DEFAULT_HOME: Final = "charts"
"""The folder of charts below a kustomization (``types.HelmDefaultHome`` of Kustomize)."""
GENERATOR: Final = "HelmChartInflationGenerator"
"""The name of ``helmCharts`` among the generators of Kustomize."""
IGNORE_FILE: Final = ".helmignore"
_VALUES_FILE: Final = "values.yaml"
_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 32 << 20
"""Of one chart, also what the program's archive has room for."""
_MOST_VALUE_FILES: Final = 20
_LONGEST_RELEASE: Final = 53
"""``chartutil.maxReleaseNameLen`` of Helm; the name of an Application, which is the default, may be longer."""
_LONGEST_VALUES: Final = 1 << 20
"""What a pipe of Linux holds for users without privileges (``fs.pipe-max-size``); Helm reads values from one."""
# Helm prints a document as "---", then the template that made it (``action.renderResources``).
_SOURCE: Final = re.compile(rb"^---\n# Source: (.*)\n", re.MULTILINE)
_PLACE: Final = re.compile(r"([\w.-]+/[\w./@+ -]+?\.[A-Za-z0-9]+)(?::(\d+))?(?::\d+)?")
"""A template in a message of Helm: ``web/templates/a.yaml``, with line and column where Helm knows them."""


def read_values(files: Files, chart: str, options: ChartOptions) -> tuple[ChartFile, ...]:
    """Return the values that the options of an Application name, in the order in which they override each other."""
    values: list[ChartFile] = []
    for path in options.value_files:
        where = f"the values file {path}"
        if path.startswith("$"):
            raise InvalidInput(f"{where} is of another source", hint="name a file of the same repository")
        if "://" in path:
            raise InvalidInput(f"{where} is a URL, and values are not downloaded", hint="copy it into the repository")
        real, entry = files.resolve("" if path.startswith("/") else chart, path.lstrip("/"), where)
        if entry is None and options.skips_missing_files:
            continue
        if entry is not Entry.FILE:
            what = "does not exist" if entry is None else f"is a {entry.value}, not a file"
            raise InvalidInput(
                f"{where} {what} (its real path is {real})",
                location=chart or ".",
                hint="correct spec.source.helm.valueFiles: paths are relative to the chart, or to the root with a /",
            )
        values.append(ChartFile(real, files.read(real)))
    for item in options.cluster_values:
        if item.text is None:
            raise InvalidInput(
                f"the values of {item.name} are in the cluster, which is not asked here",
                location=join(chart, CHART_FILE),
                hint="use gitsync diff or plan, which read it",
            )
        values.append(ChartFile(item.name, item.text.encode()))
    if options.values:
        values.append(ChartFile("the inline values", options.values.encode()))
    return tuple(values)


class KustomizeChart(NamedTuple):
    """A chart that ``helmCharts`` names: its real folder, its values, and how it is rendered."""

    folder: str
    values: tuple[ChartFile, ...]
    options: ChartOptions


_MERGES: Final = ("override", "merge", "replace")


def kustomize_chart(loader: Loader, item: Mapping[str, Any], home: str, where: str) -> KustomizeChart:
    """
    Return the chart of an entry of ``helmCharts``; ``home`` is the folder of charts, relative to the kustomization.

    Source: ``HelmChartInflationGenerator`` of Kustomize 5.8, and ``HelmChart.AsHelmArgs``.
    """
    name = item.get("name") or ""
    if not name:
        raise InvalidInput("the chart has no name", location=where, hint="write the name of its folder")
    # Where Kustomize unpacks what it downloads, so that versions do not overwrite each other.
    is_pulled = bool(item.get("version") and item.get("repo"))
    path = join(f"{home}/{name}-{item['version']}" if is_pulled else home, name)
    # Before the other fields: most charts that are not in the commit also lack them, and users have to commit it first.
    folder = _chart_folder(loader, path, item, where)
    if not item.get("releaseName"):
        raise InvalidInput(
            f"the chart {name} has no releaseName, and Helm would generate another one in each build",
            location=where,
            hint="write releaseName",
        )
    return KustomizeChart(
        folder,
        _merged_values(loader, item, folder, where),
        ChartOptions(
            release=item["releaseName"],
            namespace=item.get("namespace") or "default",
            includes_crds=bool(item.get("includeCRDs")),
            skips_hooks=bool(item.get("skipHooks")),
            skips_tests=bool(item.get("skipTests")),
            is_kustomized=True,
            kube_version=item.get("kubeVersion") or "",
            api_versions=tuple(item.get("apiVersions") or ()),
        ),
    )


def _chart_folder(loader: Loader, path: str, item: Mapping[str, Any], where: str) -> str:
    """Return the real folder of a chart: where Kustomize leaves it, else among the files of its Helm repository."""
    real, entry = loader.files.resolve(loader.folder, path, where)
    if entry is Entry.FOLDER:
        if not is_chart(loader.files, loader.inside(real, path, where)):
            raise InvalidInput(
                f"the folder {path} has no {CHART_FILE}", location=where, hint="name the folder of a chart"
            )
        return real
    name = item["name"]
    if not item.get("repo"):
        raise InvalidInput(
            f"the chart {name} of helmCharts is not in {path}, and no repo has it",
            location=where,
            hint=f"write repo and version, or run 'helm pull --untar' there and commit the folder {path}",
        )
    if not item.get("version"):
        raise InvalidInput(
            f"the chart {name} of helmCharts has no version, which is not supported, since its content may change",
            location=where,
            hint="write version",
        )
    try:
        reference = chart_reference(item["repo"], name, item["version"])
    except ValueError as error:
        raise InvalidInput(f"repo: {error}", location=where, hint="name a Helm repository or OCI registry") from error
    folder = loader.files.remote(reference)
    if folder is None:
        needed = RemoteNeeded(
            f"the chart {name} of helmCharts is not in {path}, and remote content is not allowed",
            location=where,
            hint=f"run 'helm pull --untar' there and commit the folder {path}, or allow its repository: --remote URL,"
            " or spec.allow.remotes of a policy",
        )
        needed.reference = reference
        raise needed
    return folder


def _merged_values(loader: Loader, item: Mapping[str, Any], folder: str, where: str) -> tuple[ChartFile, ...]:
    """
    Return the values of an entry of ``helmCharts``, with ``valuesInline`` merged as Kustomize merges them.

    Without a ``valuesFile`` they are those of the chart, in its real ``folder``.
    """
    merge = item.get("valuesMerge") or _MERGES[0]
    if merge not in _MERGES:
        raise InvalidInput(
            f"valuesMerge {merge!r} is not known", location=where, hint=f"write one of {', '.join(_MERGES)}"
        )
    inline = item.get("valuesInline") or {}
    if not isinstance(inline, dict):
        raise InvalidInput("valuesInline is not a mapping", location=where, hint="write key: value")
    files = [_values_file(loader, path, where) for path in item.get("additionalValuesFiles") or ()]
    if inline and merge == "replace":
        return (_as_file(inline), *files)
    path = item.get("valuesFile")
    first = _values_file(loader, path, where) if path else _default_values(loader.files, folder, where)
    if inline:
        # Helm and Kustomize read them by the rules of YAML 1.1, in which `no` is false.
        documents = read_yaml11(first.content, first.path)
        own = documents[0] if documents and documents[0] is not None else {}
        if not isinstance(own, dict):
            raise InvalidInput("the values are not a mapping", location=first.path, hint="write key: value")
        first = _as_file(merged(own, inline) if merge == "override" else merged(inline, own))
    return (first, *files)


def _values_file(loader: Loader, path: str, where: str) -> ChartFile:
    real = loader.file(path, where)
    return ChartFile(real, loader.files.read(real))


def _default_values(files: Files, folder: str, where: str) -> ChartFile:
    real, entry = files.resolve(folder, _VALUES_FILE, where)
    if entry is not Entry.FILE:
        raise InvalidInput(
            f"{join(folder, _VALUES_FILE)} does not exist (its real path is {real})",
            location=where,
            hint="write valuesFile, or add it to the chart",
        )
    return ChartFile(real, files.read(real))


def _as_file(values: Any) -> ChartFile:
    return ChartFile("valuesInline", json.dumps(plain(as_written(values))).encode())


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the members of another one over it; null removes a member, and lists are replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return result


def generated_resources(loader: Loader, chart: KustomizeChart, helm: Helm | None) -> list[Resource]:
    """Return what ``helmCharts`` makes of a chart, with the mark by which Kustomize knows that it is from Helm."""
    resources = chart_resources(loader.files, chart.folder, chart.values, chart.options, helm)
    for resource in resources:
        resource.is_from_helm = True
    return resources


def chart_resources(
    files: Files, folder: str, values: tuple[ChartFile, ...], options: ChartOptions, helm: Helm | None
) -> list[Resource]:
    """
    Return what Helm makes of the chart in a real folder, each object with its template as the origin.

    The result of equal files, values and options is taken from the cache. Raise InvalidInput with the template and
    line, where Helm knows them. Without ``helm``, as where files are edited, every chart is refused.
    """
    if helm is None:
        raise InvalidInput(
            f"the folder {folder or '.'} is a Helm chart, and folders with charts are not edited",
            location=join(folder, CHART_FILE),
            hint="make the change by hand, such as in a values file",
        )
    if len(options.release) > _LONGEST_RELEASE:
        raise InvalidInput(
            f"the name of the release, {options.release}, has {len(options.release)} characters, and Helm accepts"
            f" {_LONGEST_RELEASE}",
            location=join(folder, CHART_FILE),
            hint="write a shorter releaseName",
        )
    _check_values(values)
    paths = _paths_with_dependencies(files, folder, (folder,))
    # their texts are among the values; which of them are secret decides what is masked
    known = options._replace(values="", value_files=())
    digest = hashlib.sha256(repr((known, values)).encode())
    for inside, real in paths.items():
        digest.update(f"{inside}\0{files.blob_id(real)}\0".encode("utf-8", "surrogateescape"))
    made = files.kept(
        digest.hexdigest(), f"chart {folder}", lambda: _rendered(_Chart(files, folder, paths), values, options, helm)
    )
    return [Resource(version.manifest, origin, version) for version, origin in made]


def _check_values(values: tuple[ChartFile, ...]) -> None:
    if len(values) > _MOST_VALUE_FILES:
        raise InvalidInput(
            f"{len(values)} values files are more than the limit of {_MOST_VALUE_FILES}", hint="join some of them"
        )
    for file in values:
        if len(file.content) > _LONGEST_VALUES:
            raise InvalidInput(
                f"the values have {len(file.content) >> 10} KiB, the limit is {_LONGEST_VALUES >> 10} KiB",
                location=file.path,
                hint="divide the file",
            )


# files


def _chart_paths(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    """
    Yield the files of a chart, by their path in it, with their real paths; those that ``.helmignore`` names left out.

    A link is followed, as Helm follows it; one that leads to a folder around it would never end, and is refused.
    """
    ignored = _ignore_rules(files, folder)
    count = 0
    waiting: list[tuple[str, tuple[str, ...]]] = [("", (folder,))]
    while waiting:
        inside, chain = waiting.pop()
        inner: list[tuple[str, tuple[str, ...]]] = []
        for name in files.names(chain[-1]):
            path = join(inside, name)
            real, entry = files.resolve(chain[-1], name, join(folder, path))
            if entry is None or ignored.ignores(path, is_folder=entry is Entry.FOLDER):
                continue
            if entry is Entry.SUBMODULE:
                raise InvalidInput(
                    f"{path} is a Git submodule, and submodules are not read",
                    location=join(folder, path),
                    hint="copy what is needed",
                )
            if entry is Entry.FILE:
                count += 1
                yield path, real
            elif any(is_below(visited, real) for visited in chain):
                raise InvalidInput(
                    f"cycle: {path} leads back to {real or '.'}, a folder that contains it",
                    location=join(folder, path),
                    hint="remove the link",
                )
            else:
                inner.append((path, (*chain, real)))
            if count + len(waiting) > _MOST_FILES:
                raise InvalidInput(
                    f"the chart has more than {_MOST_FILES} files",
                    location=folder or ".",
                    hint=f"exclude files in {IGNORE_FILE}",
                )
        waiting += reversed(inner)


class _IgnoreRule(NamedTuple):
    expression: re.Pattern[str]
    is_negated: bool
    only_folders: bool
    by_name: bool
    """Whether the rule is matched with the last part of a path alone."""


class _IgnoreRules(NamedTuple):
    """
    The rules of a ``.helmignore``: the first one that ignores a file decides.

    Unlike in Git, one with ``!`` keeps nothing that another one ignores: it ignores all that it does not match. Source:
    ``Rules.Ignore`` in internal/ignore of Helm.
    """

    rules: tuple[_IgnoreRule, ...]

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        name = path.rpartition("/")[2]
        for rule in self.rules:
            is_kind = is_folder or not rule.only_folders
            is_match = is_kind and rule.expression.fullmatch(name if rule.by_name else path) is not None
            if is_match is not rule.is_negated:
                return True
        return False


# Helm's own rule: hidden files among the templates are those of editors.
_DEFAULT_RULES: Final = ("templates/.?*",)


def _ignore_rules(files: Files, folder: str) -> _IgnoreRules:
    path, entry = files.resolve(folder, IGNORE_FILE)
    text = files.read(path).decode("utf-8", "replace").removeprefix("\ufeff") if entry is Entry.FILE else ""
    rules: list[_IgnoreRule] = []
    for number, line in enumerate((*text.splitlines(), *_DEFAULT_RULES), 1):
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        body = rule.removeprefix("!")
        pattern = body.removesuffix("/")
        try:
            if "**" in rule:
                raise ValueError("** is not supported by Helm")
            expression = re.compile(_expression(pattern.removeprefix("/")))
        except (ValueError, re.error) as error:
            raise InvalidInput(
                f"{rule!r} is not a pattern: {error}", location=f"{path}:{number}", hint="write it as Helm documents it"
            ) from None
        rules.append(_IgnoreRule(expression, rule != body, body != pattern, "/" not in pattern))
    return _IgnoreRules(tuple(rules))


_TOKEN: Final = re.compile(r"(?s)\*|\?|\[\^?[^\]]+\]|\\.|.")
_WILDCARDS: Final = {"*": "[^/]*", "?": "[^/]"}


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern of Go's ``filepath.Match``; raise ValueError for one that is none."""
    if "[" in _TOKEN.findall(pattern):
        raise ValueError("a [ has no ]")
    return "".join(
        _WILDCARDS.get(token) or (token if len(token) > 1 and token[0] == "[" else re.escape(token[-1]))
        for token in _TOKEN.findall(pattern)
    )


# dependencies


class _Dependency(NamedTuple):
    """A dependency of a chart: its entry in Chart.yaml, the version to take, and where the entry is."""

    name: str
    repository: str
    version: str
    location: str


def _paths_with_dependencies(files: Files, folder: str, chain: tuple[str, ...]) -> dict[str, str]:
    """
    Return the files of a chart with those of its dependencies that it has not in ``charts/``, as Helm would copy them.

    ``chain`` are the folders of the charts that led here.
    """
    paths = dict(_chart_paths(files, folder))
    if CHART_FILE not in paths:
        raise InvalidInput(
            f"{IGNORE_FILE} ignores {CHART_FILE}: in Helm, a rule with ! ignores all that it does not match",
            location=join(folder, IGNORE_FILE),
            hint="remove the rule",
        )
    for dependency in _missing_dependencies(files, paths):
        place = f"charts/{dependency.name}"
        # two versions of one chart, with an alias each
        if f"{place}/{CHART_FILE}" in paths:
            place = f"{place}-{dependency.version}"
        for inside, real in _dependency_paths(files, folder, dependency, chain).items():
            paths[f"{place}/{inside}"] = real
        if len(paths) > _MOST_FILES:
            raise InvalidInput(
                f"the chart and its dependencies have more than {_MOST_FILES} files", location=dependency.location
            )
    return paths


def _dependency_paths(files: Files, folder: str, dependency: _Dependency, chain: tuple[str, ...]) -> dict[str, str]:
    """Return the files of a dependency: of a folder beside the chart, or of a Helm repository."""
    is_beside = dependency.repository.startswith(_BESIDE)
    real = _beside(files, folder, dependency) if is_beside else _remote_dependency(files, dependency)
    if real in chain:
        names = " -> ".join(path or "." for path in (*chain, real))
        raise InvalidInput(
            f"cycle: a chart depends on itself ({names})", location=dependency.location, hint="remove the dependency"
        )
    return _paths_with_dependencies(files, real, (*chain, real))


def _beside(files: Files, folder: str, dependency: _Dependency) -> str:
    where = dependency.location
    real, entry = files.resolve(folder, dependency.repository.removeprefix(_BESIDE), where)
    if entry is not Entry.FOLDER or not is_chart(files, real):
        raise InvalidInput(
            f"the dependency {dependency.name} is not a chart in {real or '.'}", location=where, hint="correct its path"
        )
    return real


_BESIDE: Final = "file://"


def _remote_dependency(files: Files, dependency: _Dependency) -> str:
    """Return the folder of a dependency among the files of the build; raise RemoteNeeded where it is not there yet."""
    name, repository, version, where = dependency
    try:
        reference = chart_reference(repository, name, version)
    except ValueError as error:
        raise InvalidInput(
            f"the repository of the dependency {name}: {error}",
            location=where,
            hint="write the URL of a Helm repository or OCI registry, or of a folder as file://../NAME",
        ) from error
    folder = files.remote(reference)
    if folder is None:
        needed = RemoteNeeded(
            f"the dependency {name} of the chart is not in charts/, and remote content is not allowed",
            location=where,
            hint="run 'helm dependency build' and commit the folder charts, or allow its repository: --remote URL, or"
            " spec.allow.remotes of a policy",
        )
        needed.reference = reference
        raise needed
    return folder


def _missing_dependencies(files: Files, paths: Mapping[str, str]) -> Iterator[_Dependency]:
    """Yield the dependencies with a repository that a chart has not in its folder ``charts``."""
    file = paths[CHART_FILE]
    declared = files.parsed(file, "dependencies", lambda: _dependencies(files.read(file), file))
    missing = [number for number, entry in enumerate(declared) if not _is_vendored(entry["name"], paths)]
    lock = paths.get(_LOCK_FILE)
    locked = _locked(files, lock, declared) if missing and lock else None
    for number in missing:
        entry = declared[number]
        where = f"{file}: dependencies[{number}]"
        # without a repository Helm takes it from the folder charts, and reports that it is not there
        if not entry.get("repository"):
            continue
        version = str((locked[number] if locked else entry).get("version") or "")
        if not version and not entry["repository"].startswith(_BESIDE):
            raise InvalidInput(f"the dependency {entry['name']} has no version", location=where, hint="write version")
        yield _Dependency(entry["name"], entry["repository"], version, where)


_LOCK_FILE: Final = "Chart.lock"
_ENTRY_FIELDS: Final = ("name", "repository", "version")
_HASHED_FIELDS: Final = ("name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias")
"""The members of a dependency in the order in which Helm hashes them, without those that are empty."""


def _dependencies(content: bytes, file: str) -> list[dict[str, Any]]:
    """Return the dependencies of a Chart.yaml or Chart.lock."""
    if b"dependencies" not in content:
        return []
    document = next(iter(read_yaml11(content, file)), None)
    entries = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(entries, list | None):
        raise InvalidInput("dependencies is not a list", location=file, hint="write - name: …")
    plain_entries: list[dict[str, Any]] = plain(as_written(entries or []))
    for number, entry in enumerate(plain_entries):
        is_valid = isinstance(entry, dict) and entry.get("name")
        if not is_valid or not all(isinstance(entry.get(name) or "", str) for name in _ENTRY_FIELDS):
            raise InvalidInput(
                f"dependencies[{number}] has no name, or a version or repository that is not a text",
                location=file,
                hint="put numbers in quotes",
            )
    return plain_entries


def _is_vendored(name: str, paths: Mapping[str, str]) -> bool:
    """Return whether a chart has a dependency as a folder, or as an archive of whatever version."""
    start = f"charts/{name}"
    archive = re.compile(rf"{re.escape(start)}-v?\d[^/]*\.tgz")
    return any(path.startswith(f"{start}/") or archive.fullmatch(path) for path in paths)


def _locked(files: Files, lock: str, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the locked dependencies; raise InvalidInput where they are of other ones than the chart declares."""
    content = files.read(lock)
    entries = _dependencies(content, lock)
    document = next(iter(read_yaml11(content, lock)), None)
    digest = document.get("digest") if isinstance(document, dict) else None
    if digest != lock_digest(declared, entries):
        raise InvalidInput(
            f"{_LOCK_FILE} is out of date: its digest is not one of the dependencies in {CHART_FILE}",
            location=lock,
            hint="run 'helm dependency update', and commit it",
        )
    return entries


def lock_digest(declared: Sequence[Mapping[str, Any]], locked: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of dependencies and the versions that were taken for them (``resolver.HashReq`` of Helm)."""
    hashed = [[_hashed(entry) for entry in entries] for entries in (declared, locked)]
    text = json.dumps(hashed, ensure_ascii=False, separators=(",", ":"))
    # encoding/json of Go
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _hashed(entry: Mapping[str, Any]) -> dict[str, Any]:
    # Go sorts the keys of what it has as a map, which of a dependency are the mappings of import-values
    entry = {name: json.loads(json.dumps(value, sort_keys=True)) for name, value in entry.items()}
    members = {name: entry[name] for name in _HASHED_FIELDS if entry.get(name)}
    return {name: members.get(name, "") for name in _HASHED_FIELDS if name in members or name in ("name", "repository")}


# what Helm makes of them


class _Chart(NamedTuple):
    files: Files
    folder: str
    paths: dict[str, str]

    def read(self) -> tuple[ChartFile, ...]:
        content: list[ChartFile] = []
        size = 0
        for inside, real in self.paths.items():
            content.append(ChartFile(inside, self.files.read(real)))
            size += len(content[-1].content)
            if size > _MOST_BYTES:
                raise InvalidInput(
                    f"the chart is larger than the limit of {_MOST_BYTES >> 20} MiB",
                    location=self.folder or ".",
                    hint=f"exclude files in {IGNORE_FILE}",
                )
        return tuple(content)

    def source(self, template: str) -> str:
        """
        Return the file of a template that Helm names: ``web/charts/db/templates/a.yaml`` in the chart ``web``.

        A dependency goes by its name or alias there, its folder or archive may have another one.
        """
        inside = template.partition("/")[2]
        if inside in self.paths:
            return self.paths[inside]
        above, _, below = inside.partition("charts/")
        name, _, rest = below.partition("/")
        for path, real in self.paths.items():
            if not above and name and path.startswith(f"charts/{name}") and path.endswith((".tgz", f"/{rest}")):
                return real
        return self.paths[CHART_FILE]


def _rendered(
    chart: _Chart, values: tuple[ChartFile, ...], options: ChartOptions, helm: Helm
) -> list[tuple[ResourceVersion, Origin]]:
    secrets = secret_texts(options)
    try:
        output = helm.template(chart.read(), values, options)
    except HelmFailed as error:
        raise _refusal(chart, _without(secrets, str(error))) from None
    except InvalidInput as error:
        message = _without(secrets, error.message)
        raise InvalidInput(
            message, location=error.location or join(chart.folder, CHART_FILE), hint=error.hint
        ) from None
    made: list[tuple[ResourceVersion, Origin]] = []
    counts: dict[str, int] = {}
    # Before the first source there is nothing to apply, such as a blank line.
    parts = _SOURCE.split(output)[1:]
    for template, text in zip(parts[::2], parts[1::2], strict=True):
        file = chart.source(template.decode("utf-8", "replace").strip())
        for _, manifest in objects_in(text, file, generates_names=True, is_kustomized=options.is_kustomized):
            number = counts[file] = counts.get(file, -1) + 1
            if secrets is not None and ref_of(manifest).of != SECRET:
                manifest = with_masked_fields(manifest, secrets)
            made.append((ResourceVersion(manifest, *name_history(manifest, file)), Origin(file, number)))
    return made


def secret_texts(options: ChartOptions) -> SecretTexts | None:
    """Return the texts of values from Secrets, None without any; raise InvalidInput where they are not YAML."""
    if not options.has_secrets:
        return None
    texts: list[str] = []
    for item in options.cluster_values:
        if item.is_secret:
            try:
                texts += _scalars(plain(as_written(read_yaml11((item.text or "").encode(), item.name))))
            except InvalidInput:
                # its own message may quote what is not YAML
                raise InvalidInput(
                    f"the values of {item.name} are not valid YAML", hint="correct the member, a mapping of values"
                ) from None
    return SecretTexts(texts)


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _without(secrets: SecretTexts | None, message: str) -> str:
    return secrets.hidden_in(message, _HIDDEN) if secrets is not None else message


_HIDDEN: Final = "••••••"
_SHOWN: Final = 300
"""Characters of both ends of a reason."""
# What Helm writes before its reason, which says nothing about the chart.
_PREFIXES: Final = re.compile(r"^(Error:|INSTALLATION FAILED:|template:|execution error at|An error occurred while)\s*")
_MISSING: Final = re.compile(r"found in Chart\.yaml, but missing in charts/ directory: (.*)")


def _refusal(chart: _Chart, reason: str) -> InvalidInput:
    """Return the error of a chart that Helm rejects, located at the template that Helm names."""
    where = join(chart.folder, CHART_FILE)
    missing = _MISSING.search(reason)
    if missing:
        return InvalidInput(
            f"dependencies of the chart are not in {join(chart.folder, 'charts')}: {missing[1].strip()}",
            location=where,
            hint="run 'helm dependency build', and commit the folder charts",
        )
    text = reason.strip()
    while (shorter := _PREFIXES.sub("", text)) != text:
        text = shorter
    place = _PLACE.search(text)
    if place and place[1].partition("/")[2] in chart.paths:
        where = chart.source(place[1]) + (f":{place[2]}" if place[2] else "")
    # Of a chain of templates that include each other, the first and the cause; the reason is at the end.
    if len(text) > 2 * _SHOWN:
        text = f"{text[:_SHOWN]} … {text[-_SHOWN:]}"
    return InvalidInput(f"Helm cannot render the chart: {text}", location=where, hint="correct the chart or its values")
