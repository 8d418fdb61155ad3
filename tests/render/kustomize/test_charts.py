"""Charts: which files and values Helm gets, what becomes of what it prints, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.errors import InvalidInput, RemoteNeeded
from gitsync.objects.charts import ChartOptions, ClusterValues
from gitsync.objects.tree import Entry, MountedTree
from gitsync.render.build import Build, build
from gitsync.render.kustomize.charts import lock_digest, merged
from gitsync.render.kustomize.files import ParseCache
from tests.fakes.helm import FakeHelm
from tests.render.factories import config_map
from tests.render.kustomize_cases import MemoryTree

CHART = {
    "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "web/values.yaml": "size: 1\nimage: {name: nginx, tag: '1'}\n",
    "web/templates/a.yaml": config_map("a"),
    "web/templates/b.yaml": config_map("b") + "---\n" + config_map("c"),
}


def rendered(files: dict[str, Any], path: str = "web", helm: FakeHelm | None = None, **options: Any) -> Build:
    tree = MemoryTree({name: text if isinstance(text, Link) else text.encode() for name, text in files.items()})
    return build(tree, path, helm=helm or FakeHelm(), **options)


class Link(str):
    """The target of a symbolic link."""


def refusal(files: dict[str, Any], path: str = "web", helm: FakeHelm | None = None, **options: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        rendered(files, path, helm, **options)
    return str(caught.value)


def names(made: Build) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in made.manifests]


def kustomized(entry: str, files: dict[str, Any] | None = None, more: str = "") -> dict[str, Any]:
    charts = {f"app/charts/{name}": text for name, text in CHART.items()}
    return {**charts, **(files or {}), "app/kustomization.yaml": f"helmCharts: [{entry}]\n{more}"}


# an Application whose path is a chart


@pytest.mark.parametrize("renderer", ["Auto", "Helm"])
def test_a_folder_with_a_chart_is_rendered_by_helm(renderer):
    made = rendered(CHART, renderer=renderer)

    assert names(made) == ["a", "b", "c"]
    assert made.sources == (("web/templates/a.yaml", 0), ("web/templates/b.yaml", 0), ("web/templates/b.yaml", 1))


def test_a_kustomization_beside_the_chart_comes_first():
    files = {**CHART, "web/kustomization.yaml": "resources: [x.yaml]\n", "web/x.yaml": config_map("x")}

    assert names(rendered(files)) == ["x"]
    assert names(rendered(files, renderer="Helm")) == ["a", "b", "c"]


def test_values_files_are_read_in_order_from_the_chart_and_the_root():
    files = {**CHART, "web/prod.yaml": "size: 2\n", "env/eu.yaml": "size: 3\n"}
    helm = FakeHelm()
    chart = ChartOptions(value_files=("prod.yaml", "/env/eu.yaml", "../env/eu.yaml"), values='{"size": 4}')

    made = rendered(files, helm=helm, chart=chart)

    assert list(helm.values[0].items()) == [
        ("web/prod.yaml", b"size: 2\n"),
        ("env/eu.yaml", b"size: 3\n"),
        ("the inline values", b'{"size": 4}'),
    ]
    assert {"web/", "env/eu.yaml"} <= made.files_read


def test_a_missing_values_file_can_be_skipped():
    chart = ChartOptions(value_files=("no.yaml",), skips_missing_files=True)

    assert names(rendered(CHART, chart=chart)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("no.yaml", "web: the values file no.yaml does not exist (its real path is web/no.yaml)"),
        ("templates", "the values file templates is a folder, not a file"),
        ("../../etc/passwd", "../../etc/passwd leads outside the repository"),
        ("link.yaml", "link.yaml (a symlink to /etc/passwd) leads outside the repository"),
        ("out.yaml", "out.yaml (a symlink) leads outside the repository"),
        ("sub", "the values file sub is a submodule, not a file"),
        ("https://example.com/v.yaml", "is a URL, and values are not downloaded; copy it"),
        ("$values/prod.yaml", "is of another source; name a file of the same repository"),
        ("big.yaml", "web/big.yaml: the values have 1024 KiB, the limit is 1024 KiB"),
    ],
)
def test_a_values_file_that_cannot_be_read_is_one_line(path, line):
    files = {
        **CHART,
        "web/link.yaml": Link("/etc/passwd"),
        "web/out.yaml": Link("../../x"),
        "web/big.yaml": "a: " + "x" * (1 << 20),
    }
    tree = WithSubmodule({name: text if isinstance(text, Link) else text.encode() for name, text in files.items()})

    with pytest.raises(InvalidInput) as caught:
        build(tree, "web", chart=ChartOptions(value_files=(path,)), helm=FakeHelm())

    assert line in str(caught.value)


class WithSubmodule(MemoryTree):
    """A tree in which ``sub`` is a submodule, wherever it is asked for."""

    def entry(self, path: str) -> Entry | None:
        return Entry.SUBMODULE if path.endswith("/sub") else super().entry(path)


def test_a_release_whose_name_is_too_long_for_helm_is_refused():
    assert names(rendered(CHART, chart=ChartOptions("a" * 53))) == ["a", "b", "c"]
    assert "has 54 characters, and Helm accepts 53; write a shorter releaseName" in refusal(
        CHART, chart=ChartOptions("a" * 54)
    )


@pytest.mark.parametrize("renderer", ["Plain", "Kustomize"])
def test_another_renderer_names_that_of_charts(renderer):
    line = refusal(CHART, renderer=renderer)

    assert line.startswith("web/Chart.yaml: the folder web is a Helm chart, whose templates are not manifests; ")
    assert line.endswith("the path of an application with renderer: Helm")


def test_too_many_values_files_are_refused():
    line = refusal({**CHART, "web/p.yaml": ""}, chart=ChartOptions(value_files=("p.yaml",) * 21))

    assert "21 values files are more than the limit of 20" in line


# the files that Helm gets


def test_hidden_templates_and_what_helmignore_names_are_left_out():
    helm = FakeHelm()
    extra = dict.fromkeys(
        (
            *("web/templates/.a.swp", "web/docs/x.md", "web/notes.txt", "web/keep.txt", "web/ci/v.yaml"),
            *("web/a/ci/w.yaml", "web/b/c.yaml", "web/b/dd.yaml", "web/[x].md"),
        ),
        "x",
    )
    ignore = "\ufeff# comment\n\n*.txt\ndocs/\n/ci\nb/[!-c].yaml\nb/?.yaml\n\\[x\\].md\n"

    rendered({**CHART, **extra, "web/.helmignore": ignore}, helm=helm)

    assert set(helm.charts[0]) == {
        *(".helmignore", "Chart.yaml", "values.yaml", "templates/a.yaml", "templates/b.yaml"),
        *("a/ci/w.yaml", "b/dd.yaml"),
    }


def test_a_negated_rule_of_helmignore_keeps_nothing_else():
    helm = FakeHelm()

    # as Helm 3 and 4 do: what does not match *a* is ignored, and what matches is still ignored by other rules
    rendered({**CHART, "web/area.md": "x", "web/a.txt": "x", "web/.helmignore": "!*a*\n*.txt\n"}, helm=helm)

    assert set(helm.charts[0]) == {"Chart.yaml", "values.yaml", "templates/a.yaml", "templates/b.yaml", "area.md"}


@pytest.mark.parametrize("rule", ["!keep.txt", "!templates/", "Chart.yaml", "*.yaml"])
def test_a_helmignore_that_leaves_no_chart_is_one_line(rule):
    line = refusal({**CHART, "web/.helmignore": f"{rule}\n"})

    assert line.startswith("web/.helmignore: .helmignore ignores Chart.yaml: in Helm, a rule with ! ignores all")


@pytest.mark.parametrize("pattern", ["a/**/b", "[", "[z-a]"])
def test_a_pattern_of_helmignore_that_is_none_names_its_line(pattern):
    line = refusal({**CHART, "web/.helmignore": f"ok\n{pattern}\n"})

    assert line.startswith(f"web/.helmignore:2: {pattern!r} is not a pattern: ")


def test_links_are_followed_inside_the_repository():
    helm = FakeHelm()
    files = {**CHART, "web/files": Link("../shared"), "shared/x.txt": "x", "web/charts/lib": Link("../../lib")}
    files["lib/Chart.yaml"] = "name: lib\n"

    made = rendered(files, helm=helm)

    assert helm.charts[0]["files/x.txt"] == b"x"
    assert helm.charts[0]["charts/lib/Chart.yaml"] == b"name: lib\n"
    assert {"shared/", "lib/"} <= made.files_read


@pytest.mark.parametrize(
    ("link", "line"),
    [
        (Link(".."), "web/charts/loop: cycle: charts/loop leads back to web, a folder that contains it"),
        (Link("../.."), "web/charts/loop: cycle: charts/loop leads back to ., a folder that contains it"),
        (Link("."), "web/charts/loop: cycle: charts/loop leads back to web/charts, a folder that contains it"),
        (Link("loop"), "web/charts/loop: loop leads through a loop of symlinks"),
        (Link("/usr/share"), "web/charts/loop: loop (a symlink to /usr/share) leads outside the repository"),
        (Link("../../../x"), "web/charts/loop: loop (a symlink) leads outside the repository"),
    ],
)
def test_a_link_that_leads_in_a_circle_or_out_is_one_line(link, line):
    assert refusal({**CHART, "web/charts/loop": link}).startswith(line)


def test_a_link_to_nothing_is_left_out_as_by_helmignore():
    assert names(rendered({**CHART, "web/gone": Link("nowhere")})) == ["a", "b", "c"]


def test_a_submodule_in_a_chart_is_refused():
    tree = WithSubmodule({name: text.encode() for name, text in {**CHART, "web/charts/sub": "x"}.items()})

    with pytest.raises(InvalidInput, match="web/charts/sub: charts/sub is a Git submodule"):
        build(tree, "web", helm=FakeHelm())


def test_a_chart_of_too_many_files_is_refused(monkeypatch):
    monkeypatch.setattr("gitsync.render.kustomize.charts._MOST_FILES", 3)

    assert "web: the chart has more than 3 files; exclude files in .helmignore" in refusal(CHART)


def test_a_chart_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("gitsync.render.kustomize.charts._MOST_BYTES", 100)

    assert "web: the chart is larger than the limit of" in refusal(CHART)


# what Helm answers


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (
            'template: web/templates/a.yaml:3:7: executing "web/templates/a.yaml" at <.Values.x.y>: nil pointer',
            "web/templates/a.yaml:3: Helm cannot render the chart: web/templates/a.yaml:3:7: executing",
        ),
        (
            "execution error at (web/templates/b.yaml:1:4): size is required",
            "web/templates/b.yaml:1: Helm cannot render the chart: (web/templates/b.yaml:1:4): size is required",
        ),
        (
            "YAML parse error on web/templates/a.yaml: error converting YAML to JSON",
            "web/templates/a.yaml: Helm cannot render the chart: YAML parse error on",
        ),
        (
            "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to"
            " fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: redis, common",
            "web/Chart.yaml: dependencies of the chart are not in web/charts: redis, common; run 'helm dependency",
        ),
        ("chart requires kubeVersion: >=9", "web/Chart.yaml: Helm cannot render the chart: chart requires kubeVersion"),
    ],
)
def test_what_helm_rejects_is_located_in_the_chart(reason, line):
    assert refusal(CHART, helm=FakeHelm(reason)).startswith(line)


def test_without_helm_a_chart_is_refused_with_what_to_do():
    tree = MemoryTree({name: text.encode() for name, text in CHART.items()})

    with pytest.raises(
        InvalidInput, match=r"web/Chart\.yaml: the folder web is a Helm chart, and folders with charts are not edited"
    ):
        build(tree, "web")


def test_two_objects_of_one_name_are_refused():
    files = {**CHART, "web/templates/z.yaml": config_map("a")}

    assert "two objects have become the same: one from web/templates/a.yaml, one from web/templates/z.yaml" in refusal(
        files
    )


def test_a_chart_without_objects_is_refused():
    files = {"web/Chart.yaml": "name: web\n"}

    assert "web: the chart renders to no object" in refusal(files)


def test_the_renderer_helm_needs_a_chart():
    assert "web: the folder has no Chart.yaml" in refusal({"web/a.yaml": config_map("a")}, renderer="Helm")


def test_what_is_no_object_names_the_template():
    files = {**CHART, "web/templates/bad.yaml": "just: text\n"}

    assert refusal(files).startswith("web/templates/bad.yaml:1: the object has no kind")


@pytest.mark.parametrize(
    ("template", "file"),
    [
        ("web/templates/a.yaml", "web/templates/a.yaml"),
        ("web/charts/db/templates/x.yaml", "web/charts/db-2.tgz"),
        ("web/charts/cache/templates/x.yaml", "web/charts/cache-1/templates/x.yaml"),
        ("web/charts/alias/templates/x.yaml", "web/Chart.yaml"),
    ],
)
def test_an_object_names_the_template_or_archive_that_it_is_from(template, file):
    class Printing(FakeHelm):
        def template(self, *arguments: Any) -> bytes:
            return f"\n---\n# Source: {template}\n{config_map('a')}".encode()

    files = {**CHART, "web/charts/db-2.tgz": "x", "web/charts/cache-1/templates/x.yaml": "x"}

    assert rendered(files, helm=Printing()).sources == ((file, 0),)


def test_the_provenance_of_a_field_is_its_template():
    made = rendered(CHART, provenance=True)

    assert [str(setter) for setter in made.provenance[0].of("metadata.name")] == ["web/templates/a.yaml: chart"]


def test_an_unchanged_chart_is_not_rendered_again():
    helm = FakeHelm()
    cache = ParseCache()
    first = rendered(CHART, helm=helm, cache=cache)
    other = rendered({**CHART, "README.md": "x"}, helm=helm, cache=cache)

    assert len(helm.charts) == 1
    assert all(old is new for old, new in zip(first.manifests, other.manifests, strict=True))
    rendered(CHART, helm=helm, cache=cache, chart=ChartOptions(release="other"))
    rendered({**CHART, "web/values.yaml": "size: 2"}, helm=helm, cache=cache)
    assert len(helm.charts) == 3


# helmCharts of a kustomization


def test_a_chart_of_a_kustomization_is_rendered_below_charts():
    helm = FakeHelm()
    entry = (
        "{name: web, releaseName: r, namespace: dev, includeCRDs: true, skipHooks: true, skipTests: true,"
        " kubeVersion: '1.30', apiVersions: [a/v1]}"
    )

    made = rendered(kustomized(entry, more="namePrefix: x-\n"), "app", helm)

    assert names(made) == ["x-a", "x-b", "x-c"]
    assert helm.options == [
        ChartOptions("r", "dev", (), "", False, True, True, True, "1.30", ("a/v1",), is_kustomized=True)
    ]
    assert helm.values == [{"app/charts/web/values.yaml": CHART["web/values.yaml"].encode()}]


def test_the_namespace_of_a_kustomization_goes_to_helm_alone():
    helm = FakeHelm()

    made = rendered(kustomized("{name: web, releaseName: r}", more="namespace: shop\n"), "app", helm)

    assert helm.options[0].namespace == "shop"
    assert "namespace" not in made.manifests[0]["metadata"]


def test_a_chart_of_a_base_gets_the_namespace_of_the_nearest_overlay():
    helm = FakeHelm()
    files = kustomized("{name: web, releaseName: r}")
    files["mid/kustomization.yaml"] = "resources: [../app]\n"
    files["over/kustomization.yaml"] = "namespace: near\nresources: [../mid]\n"
    files["top/kustomization.yaml"] = "namespace: far\nresources: [../over, x.yaml]\n"
    files["top/x.yaml"] = config_map("x")

    rendered(files, "top", helm)

    assert helm.options[0].namespace == "near"


def test_charts_are_below_the_folder_that_helm_globals_name():
    files = {f"app/vendor/{name}": text for name, text in CHART.items()}
    files["app/kustomization.yaml"] = "helmGlobals: {chartHome: vendor}\nhelmCharts: [{name: web, releaseName: r}]\n"

    assert names(rendered(files, "app")) == ["a", "b", "c"]


def test_a_chart_of_a_repository_is_below_its_version():
    files = {f"app/charts/web-1.0/{name}": text for name, text in CHART.items()}
    files["app/kustomization.yaml"] = (
        "helmCharts: [{name: web, releaseName: r, repo: 'https://example.com', version: '1.0'}]\n"
    )

    assert names(rendered(files, "app")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        pytest.param("valuesInline: {size: 2, image: {tag: '2'}, list: [1]}", {"size": 2, "tag": "2"}, id="override"),
        pytest.param("valuesMerge: merge, valuesInline: {size: 2, image: {tag: '2'}, list: [1]}", {}, id="merge"),
    ],
)
def test_inline_values_are_merged_with_those_of_the_chart(entry, values):
    helm = FakeHelm()

    rendered(kustomized(f"{{name: web, releaseName: r, {entry}}}"), "app", helm)

    image = {"name": "nginx", "tag": values.get("tag", "1")}
    (content,) = helm.values[0].values()
    assert json.loads(content) == {"size": values.get("size", 1), "image": image, "list": [1]}


def test_values_below_inline_ones_are_read_as_helm_reads_them():
    helm = FakeHelm()
    files = {"app/charts/web/values.yaml": "a: no\nb: {c: [yes, 'no']}\nday: 2026-01-02\nmode: 0644\n"}

    rendered(kustomized("{name: web, releaseName: r, valuesInline: {on: off, tag: 2026-03-04}}", files), "app", helm)

    (content,) = helm.values[0].values()
    assert json.loads(content) == {
        "a": False,
        "b": {"c": [True, "no"]},
        "day": "2026-01-02",
        "mode": 420,
        "true": False,
        "tag": "2026-03-04",
    }


def test_inline_values_can_replace_those_of_the_chart():
    helm = FakeHelm()
    values = "valuesMerge: replace, valuesInline: {a: 1, b: null}, additionalValuesFiles: [more.yaml]"

    rendered(kustomized(f"{{name: web, releaseName: r, {values}}}", {"app/more.yaml": "b: 2\n"}), "app", helm)

    assert helm.values == [{"valuesInline": b'{"a": 1, "b": null}', "app/more.yaml": b"b: 2\n"}]


def test_merging_removes_what_is_null_and_replaces_lists():
    assert merged({"a": 1, "b": {"c": 1, "d": 2}, "l": [1, 2]}, {"a": None, "b": {"c": None, "e": 3}, "l": [3]}) == {
        "b": {"d": 2, "e": 3},
        "l": [3],
    }


REFERENCE = "chart:helm+https://charts.example.com/stable/web?^1"


def test_a_chart_of_a_repository_is_rendered_from_its_mount():
    text = "helmCharts: [{name: web, repo: 'https://charts.example.com/stable', version: ^1, releaseName: r}]"
    chart = {name.removeprefix("web/"): content for name, content in CHART.items()}
    trees = [
        MemoryTree({name: content.encode() for name, content in files.items()})
        for files in ({"app/kustomization.yaml": text}, chart)
    ]
    helm = FakeHelm()

    with pytest.raises(RemoteNeeded) as needed:
        build(trees[0], "app", helm=helm)
    assert needed.value.reference == REFERENCE

    made = build(MountedTree(trees[0], {"web@1": trees[1]}, {REFERENCE: "web@1"}), "app", helm=helm)
    assert names(made) == ["a", "b", "c"]
    assert made.sources[0] == ("web@1/templates/a.yaml", 0)
    assert helm.values == [{"web@1/values.yaml": CHART["web/values.yaml"].encode()}]


def test_a_chart_in_the_commit_comes_before_its_repository():
    files = {name.replace("app/charts/", "app/charts/web-1/"): text for name, text in kustomized("").items()}
    files["app/kustomization.yaml"] = (
        "helmCharts: [{name: web, repo: 'https://charts.example.com', version: '1', releaseName: r}]"
    )

    assert names(rendered(files, "app")) == ["a", "b", "c"]


def test_a_chart_without_values_needs_a_values_file():
    files = {**kustomized("{name: web, releaseName: r}"), "app/charts/web/values.yaml": None}

    line = refusal({name: text for name, text in files.items() if text is not None}, "app")

    assert "app/charts/web/values.yaml does not exist" in line
    assert line.endswith("write valuesFile, or add it to the chart")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("{releaseName: r}", "app/kustomization.yaml:1: the chart has no name"),
        ("{name: web}", "app/kustomization.yaml:1: the chart web has no releaseName"),
        (
            "{name: db, releaseName: r}",
            "the chart db of helmCharts is not in charts/db, and no repo has it; write repo and version, or run 'helm",
        ),
        (
            "{name: db, repo: 'https://x.example'}",
            "the chart db of helmCharts has no version, which is not",
        ),
        (
            "{name: db, version: '1', repo: 'git@x.example:y'}",
            "app/kustomization.yaml:1: repo: 'git@x.example:y'",
        ),
        (
            "{name: db, version: '1', repo: 'https://x.example'}",
            "the chart db of helmCharts is not in charts/db-1/db, and remote content is not allowed; run 'helm pull",
        ),
        ("{name: ../../web, releaseName: r}", "the file web is not in or below the folder app"),
        ("{name: ../../../web, releaseName: r}", "app/kustomization.yaml:1: charts/../../../web leads outside"),
        ("{name: web/templates, releaseName: r}", "the folder charts/web/templates has no Chart.yaml"),
        ("{name: web, releaseName: r, valuesFile: no.yaml}", "app/kustomization.yaml:1: no.yaml does not exist"),
        ("{name: web, releaseName: r, valuesFile: ../v.yaml}", "the file v.yaml is not in or below the folder app"),
        ("{name: web, releaseName: r, valuesMerge: x}", "valuesMerge 'x' is not known; write one of override, merge"),
        (
            "{name: web, releaseName: r, valuesInline: [1]}",
            "app/kustomization.yaml:1: valuesInline is not a mapping",
        ),
        ("{name: web, releaseName: r, version: 1.10}", "helmCharts.0.version must be a text, not a number"),
        ("{name: web, releaseName: r, extra: x}", "app/kustomization.yaml:1: "),
        ("{name: web, releaseName: r, valuesFile: l.yaml, valuesInline: {a: 1}}", "app/l.yaml: the values are not a"),
    ],
)
def test_a_chart_that_cannot_be_used_is_one_line(entry, line):
    files = {"web/Chart.yaml": "name: web\n", "v.yaml": "a: 1\n", "app/l.yaml": "[1]\n"}

    assert line in refusal(kustomized(entry, files), "app")


def test_two_charts_with_one_object_are_refused():
    entry = "{name: web, releaseName: r}, {name: web, releaseName: s}"

    assert "charts/web/templates/a.yaml: ConfigMap a: the object exists already" in refusal(kustomized(entry), "app")


def test_the_old_generator_of_charts_is_refused():
    files = {"app/kustomization.yaml": "helmChartInflationGenerator: [{chartName: web}]\n"}

    assert "helmChartInflationGenerator is not supported: it downloads its chart; commit the chart" in refusal(
        files, "app"
    )


def test_a_field_of_a_chart_that_a_patch_sets_names_both():
    patch = """patches: [{patch: '[{"op": "add", "path": "/data", "value": {"k": "v"}}]', target: {name: a}}]\n"""
    made = rendered(kustomized("{name: web, releaseName: r}", more=patch), "app", provenance=True)
    history = made.provenance[0]

    assert [str(setter) for setter in history.of("metadata.name")] == [
        "app/charts/web/templates/a.yaml: HelmChartInflationGenerator"
    ]
    assert [setter.where for setter in history.of("data.k")] == ["app/kustomization.yaml:2"]


# dependencies


DB = {"Chart.yaml": "apiVersion: v2\nname: db\nversion: 1.3.0\n", "templates/db.yaml": config_map("db")}
DEPENDENCY = {"name": "db", "version": ">=1 <2", "repository": "https://charts.example.com"}
DB_REFERENCE = "chart:helm+https://charts.example.com/db?"


def depending(*dependencies: dict[str, Any], **files: str) -> dict[str, Any]:
    """Return the files of a chart that depends on others."""
    chart = json.dumps({"apiVersion": "v2", "name": "web", "version": "1.0.0", "dependencies": dependencies})
    return {**CHART, "web/Chart.yaml": chart, **files}


def lock_of(*locked: dict[str, Any], declared: tuple[dict[str, Any], ...] = (DEPENDENCY,)) -> str:
    return json.dumps({"dependencies": locked, "digest": lock_digest(declared, locked), "generated": "2026"})


def mounted_db(files: dict[str, Any], version: str) -> tuple[list[str], FakeHelm]:
    """Return the names of what is rendered where the chart ``db`` is mounted for a version, and what Helm got."""
    own, db = (MemoryTree({name: text.encode() for name, text in texts.items()}) for texts in (files, DB))
    helm = FakeHelm()
    made = build(MountedTree(own, {"db@1": db}, {DB_REFERENCE + version: "db@1"}), "web", helm=helm)
    return names(made), helm


@pytest.mark.parametrize(
    ("files", "version"),
    [
        pytest.param({}, ">=1 <2", id="without a lock"),
        pytest.param({"web/Chart.lock": lock_of({**DEPENDENCY, "version": "1.3.0"})}, "1.3.0", id="locked"),
        pytest.param({"web/charts/db-extra/Chart.yaml": "name: db-extra\n"}, ">=1 <2", id="a similar name"),
    ],
)
def test_a_missing_dependency_is_taken_from_its_repository(files, version):
    wanted = depending(DEPENDENCY, **files)

    with pytest.raises(RemoteNeeded, match="the dependency db of the chart is not in charts/") as needed:
        rendered(wanted)
    assert needed.value.reference == DB_REFERENCE + version

    rendered_names, helm = mounted_db(wanted, version)
    assert "db" in rendered_names
    assert helm.charts[0]["charts/db/templates/db.yaml"] == DB["templates/db.yaml"].encode()


@pytest.mark.parametrize("path", ["web/charts/db/Chart.yaml", "web/charts/db-1.3.0.tgz", "web/charts/db-v2.tgz"])
def test_a_dependency_in_the_commit_needs_no_repository(path):
    helm = FakeHelm()

    rendered(depending(DEPENDENCY, **{path: "name: db\n", "web/Chart.lock": "{}"}), helm=helm)

    assert path.removeprefix("web/") in helm.charts[0]


def test_a_dependency_beside_the_chart_is_taken_from_the_commit():
    helm = FakeHelm()
    beside = {f"common/{name}": text for name, text in DB.items()}
    below = {"name": "leaf", "version": "1", "repository": "file://../leaf"}
    beside["common/Chart.yaml"] = json.dumps({"name": "db", "version": "1.3.0", "dependencies": [below]})
    leaf = {"leaf/Chart.yaml": "name: leaf\nversion: 1.0.0\n", "leaf/templates/leaf.yaml": config_map("leaf")}

    made = rendered(
        depending({"name": "db", "version": "1.3.0", "repository": "file://../common"}, **beside, **leaf), helm=helm
    )

    assert {"charts/db/Chart.yaml", "charts/db/charts/leaf/templates/leaf.yaml"} <= helm.charts[0].keys()
    assert ("common/templates/db.yaml", 0) in made.sources


def test_two_versions_of_a_dependency_are_both_taken():
    helm = FakeHelm()
    other = {**DEPENDENCY, "version": "1.2.0", "alias": "old"}
    old = {"Chart.yaml": "name: db\nversion: 1.2.0\n"}
    own, new_db, old_db = (
        MemoryTree({name: text.encode() for name, text in texts.items()})
        for texts in (depending(DEPENDENCY, other), DB, old)
    )
    references = {f"{DB_REFERENCE}>=1 <2": "db@1", f"{DB_REFERENCE}1.2.0": "db@2"}

    build(MountedTree(own, {"db@1": new_db, "db@2": old_db}, references), "web", helm=helm)

    assert {"charts/db/Chart.yaml", "charts/db-1.2.0/Chart.yaml"} <= helm.charts[0].keys()


def test_a_chart_of_a_repository_may_not_depend_on_itself():
    db = json.dumps({"name": "db", "version": "1.3.0", "dependencies": [DEPENDENCY]})
    own, other = (
        MemoryTree({name: text.encode() for name, text in texts.items()})
        for texts in (depending(DEPENDENCY), {**DB, "Chart.yaml": db})
    )
    tree = MountedTree(own, {"db@1": other}, {f"{DB_REFERENCE}>=1 <2": "db@1"})

    with pytest.raises(InvalidInput, match=r"^db@1/Chart.yaml: dependencies\[0\]: cycle: .*\(web -> db@1 -> db@1\)"):
        build(tree, "web", helm=FakeHelm())


def test_the_digest_of_a_lock_is_that_of_helm():
    # as printed by `helm dependency update` of Helm 3 and 4
    declared = [
        {
            "name": "web-v4",
            "version": ">=1.2.0, <2",
            "repository": "oci://127.0.0.1:15038/charts",
            "condition": "web.enabled",
            "tags": ["a", "bc"],
        },
        {
            "alias": "other",
            "name": "web-v4",
            "version": "1.2.3+b.1",
            "repository": "oci://127.0.0.1:15038/charts",
            "import-values": [{"parent": "b", "child": "a"}],
        },
    ]
    locked = [{**{name: entry[name] for name in ("name", "repository")}} for entry in declared]
    for entry, version in zip(locked, ("1.3.0", "1.2.3+b.1"), strict=True):
        entry["version"] = version

    assert lock_digest(declared, locked) == "sha256:2e3543f626ebcd8180c73117d8bd5d719fd77c1871a57f6bcfedafc14000fd7e"


@pytest.mark.parametrize(
    ("dependency", "files", "line"),
    [
        ({"repository": "@stable"}, {}, "the repository of the dependency db: '@stable' is neither an https:// nor an"),
        ({"repository": "alias:stable"}, {}, "dependencies[0]: the repository of the dependency db: 'alias:stable' is"),
        ({"version": ""}, {}, "web/Chart.yaml: dependencies[0]: the dependency db has no version; write version"),
        ({"version": 1.1}, {}, "dependencies[0] has no name, or a version or repository that is not a text; put"),
        ({"name": ""}, {}, "web/Chart.yaml: dependencies[0] has no name, or a version or repository that is"),
        ({"repository": "file://../no"}, {}, "the dependency db is not a chart in no; correct its path"),
        ({"repository": "file://../../no"}, {}, "../../no leads outside"),
        ({"repository": "file:///etc"}, {}, "/etc is an absolute path"),
        ({"repository": "file://."}, {}, "cycle: a chart depends on itself (web -> web); remove the dependency"),
        (
            {"repository": "file://../db"},
            {
                "db/Chart.yaml": json.dumps(
                    {"name": "db", "dependencies": [{"name": "web", "version": "1", "repository": "file://../web"}]}
                )
            },
            "db/Chart.yaml: dependencies[0]: cycle: a chart depends on itself (web -> db -> web)",
        ),
        ({}, {"web/Chart.lock": "dependencies: []\n"}, "web/Chart.lock: Chart.lock is out of date: its digest is not"),
        ({}, {"web/Chart.lock": "[]\n"}, "web/Chart.lock: Chart.lock is out of date: its digest is not one of"),
        ({}, {"web/Chart.lock": "dependencies: {a: 1}\n"}, "web/Chart.lock: dependencies is not a list"),
        (
            {},
            {"web/Chart.lock": lock_of({**DEPENDENCY, "version": "1.3.0"}).replace("1.3.0", "1.2.0")},
            "web/Chart.lock: Chart.lock is out of date: its digest is not one of the dependencies in Chart.yaml",
        ),
    ],
)
def test_a_dependency_that_cannot_be_taken_is_one_line(dependency, files, line):
    refused = refusal(depending({**DEPENDENCY, **dependency}, **files))

    assert line in refused
    assert "\n" not in refused


def test_dependencies_that_are_no_list_are_one_line():
    assert "web/Chart.yaml: dependencies is not a list" in refusal({**CHART, "web/Chart.yaml": "dependencies: x\n"})


# values of ConfigMaps and Secrets

OF_CONFIG = ClusterValues("ConfigMap shop/sizes", "size: 5\n")
OF_SECRET = ClusterValues("Secret shop/login", "db: {password: hunter22-of-shop}\n", is_secret=True)


def test_values_of_the_cluster_are_over_files_and_below_inline_ones():
    helm = FakeHelm()
    chart = ChartOptions(value_files=("values.yaml",), values="{}", cluster_values=(OF_CONFIG, OF_SECRET))

    rendered(CHART, helm=helm, chart=chart)

    assert list(helm.values[0]) == ["web/values.yaml", OF_CONFIG.name, OF_SECRET.name, "the inline values"]


def test_values_that_were_not_read_are_no_default():
    chart = ChartOptions(cluster_values=(OF_SECRET._replace(text=None),))

    assert refusal(CHART, chart=chart) == (
        "web/Chart.yaml: the values of Secret shop/login are in the cluster, which is not asked here;"
        " use gitsync diff or plan, which read it"
    )


def test_what_a_chart_makes_of_a_secret_is_masked():
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter22-of-shop}\n"
    config = config_map("a") + "data: {url: 'db://shop:hunter22-of-shop@db'}\n"
    files = {**CHART, "web/templates/a.yaml": config, "web/templates/b.yaml": secret}

    made = rendered(files, chart=ChartOptions(cluster_values=(OF_CONFIG, OF_SECRET)))

    annotations = [manifest["metadata"].get("annotations") for manifest in made.manifests]
    assert annotations == [{"gitsync.dev/masked-fields": "/data/url"}, None]
    # the texts of a ConfigMap can be read by all
    assert rendered(files, chart=ChartOptions(cluster_values=(OF_CONFIG,))).manifests[0] == made.manifests[0] | {
        "metadata": {"name": "a"}
    }


def test_an_error_of_helm_does_not_quote_a_secret():
    helm = FakeHelm("execution error at (web/templates/a.yaml:1:2): hunter22-of-shop is too short")

    line = refusal(CHART, helm=helm, chart=ChartOptions(cluster_values=(OF_SECRET,)))

    assert line.startswith("web/templates/a.yaml:1: Helm cannot render the chart:")
    assert "hunter22" not in line


def test_a_secret_that_is_not_yaml_is_not_quoted():
    broken = OF_SECRET._replace(text="password: [hunter22-of-shop\n")

    line = refusal(CHART, chart=ChartOptions(cluster_values=(broken,)))

    assert line == "the values of Secret shop/login are not valid YAML; correct the member, a mapping of values"


# texts in folded blocks

FOLDED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: f}\ndata:\n  run: >\n    do\n      sleep\n    done\n"


@pytest.mark.parametrize("files", [{**CHART, "web/templates/a.yaml": FOLDED}, {"web/a.yaml": FOLDED}])
def test_a_folded_text_is_that_of_helm_and_kubectl(files):
    assert rendered(files).manifests[0]["data"] == {"run": "do\n  sleep\ndone\n"}


def test_kustomize_changes_a_folded_text_also_of_a_chart():
    files = kustomized("{name: web, releaseName: r}", {"app/charts/web/templates/a.yaml": FOLDED})

    data = [manifest.get("data") for manifest in rendered(files, "app").manifests]
    assert {"run": "do\n\n  sleep\ndone\n"} in data
