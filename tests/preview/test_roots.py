"""Which folders of a repository are deployed, and which changed files reach them."""

from __future__ import annotations

import pytest

from gitsync.preview.roots import BuildSources, Root, find_roots
from tests.preview.factories import tree
from tests.render.kustomize_cases import MemoryTree

APP = """apiVersion: gitsync.dev/v1alpha1
kind: Application
metadata: {name: shop, namespace: team}
spec:
  source: {repoURL: "https://git.example.com/shop.git", path: %s}
"""


def paths(files: dict[str, str], own: bool = True) -> list[str]:
    return [root.path for root in find_roots(tree(files), lambda url: own)]


def test_a_kustomization_that_another_includes_is_not_deployed() -> None:
    files = {
        "base/kustomization.yaml": "resources: [d.yaml]",
        "parts/a/kustomization.yaml": "kind: Component",
        "prod/kustomization.yaml": "resources: [../base]\ncomponents: [../parts/a]",
        "dev/kustomization.yml": "bases: [../base]",
    }

    assert paths(files) == ["dev", "prod"]


class CountingTree(MemoryTree):
    """A tree that keeps the paths of all reads."""

    def __init__(self, files: dict[str, bytes | str]) -> None:
        super().__init__(files)
        self.read_paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        return super().read(path)


def test_a_kustomization_is_read_once_for_roots_and_readers() -> None:
    files = CountingTree(
        {"base/kustomization.yaml": b"resources: [d.yaml]", "prod/kustomization.yaml": b"bases: [../base]"}
    )
    sources = BuildSources(files)
    find_roots(files, lambda url: True, sources)
    by_search = len(files.read_paths)

    assert sources.reads_any(Root("prod"), ["base/d.yaml"])
    assert len(files.read_paths) == by_search


def test_a_repeated_key_hides_no_included_folder() -> None:
    files = {
        "base/kustomization.yaml": "resources: [d.yaml]",
        "prod/kustomization.yaml": "namespace: a\nnamespace: b\nresources: [../base]\n",
    }

    assert paths(files) == ["prod"]
    assert BuildSources(tree(files)).reads_any(Root("prod"), ["base/d.yaml"])


def test_an_application_deploys_its_path_even_if_it_is_included() -> None:
    files = {
        "base/kustomization.yaml": "resources: [d.yaml]",
        "prod/kustomization.yaml": "resources: [../base]",
        "apps/shop.yaml": APP % "./base/",
        "plain/d.yaml": "kind: ConfigMap",
    }

    assert paths(files) == ["base", "prod"]
    assert paths(files, own=False) == ["prod"]


@pytest.mark.parametrize("text", ["kind: [", APP % "[", "apiVersion: gitsync.dev/v1alpha1\nkind: Application\n"])
def test_a_file_that_is_not_valid_deploys_nothing(text: str) -> None:
    assert paths({"app.yaml": f"# gitsync.dev/\n{text}"}) == []


BASES = {
    "base/kustomization.yaml": "resources: [d.yaml]\nconfigMapGenerator: [{name: c, files: [p=../prompts/a.md]}]",
    "base/d.yaml": "kind: ConfigMap",
    "prompts/a.md": "hello",
    "prompts/b.md": "bye",
    "prod/kustomization.yaml": "resources: [../base]\npatches: [{path: patch.yaml}]",
}


@pytest.mark.parametrize(
    ("changed", "reads"),
    [
        pytest.param("prod/kustomization.yaml", True, id="its own kustomization"),
        pytest.param("prod/patch.yaml", True, id="a file that is absent so far"),
        pytest.param("base/d.yaml", True, id="a resource of a base"),
        pytest.param("prompts/a.md", True, id="a file of a generator with a key"),
        pytest.param("base/kustomization.yml", True, id="a second kustomization of a base"),
        pytest.param("prompts/b.md", False, id="a file beside one that is read"),
        pytest.param("README.md", False, id="an unrelated file"),
    ],
)
def test_a_root_reads_what_its_kustomizations_name(changed: str, reads: bool) -> None:
    assert BuildSources(tree(BASES)).reads_any(Root("prod"), {changed}) is reads


def test_a_folder_without_kustomization_reads_all_below_it() -> None:
    sources = BuildSources(tree({"plain/a/d.yaml": "kind: ConfigMap"}))

    assert sources.reads_any(Root("plain"), {"plain/a/new.yaml"})
    assert not sources.reads_any(Root("plain"), {"plainer/d.yaml"})


def test_kustomizations_that_include_each_other_end() -> None:
    files = {"a/kustomization.yaml": "resources: [../b]", "b/kustomization.yaml": "resources: [../a, f.yaml]"}

    assert BuildSources(tree(files)).reads_any(Root("a"), {"b/f.yaml"})


CHARTS = {
    "apps/shop.yaml": APP.replace("path: %s", "path: web, helm: {valueFiles: [prod.yaml, ../env/eu.yaml, /us.yaml]}"),
    "web/Chart.yaml": "name: web",
    "app/kustomization.yaml": "helmCharts: [{name: db, valuesFile: db.yaml}]",
    "app/charts/db/Chart.yaml": "name: db",
    "more/kustomization.yaml": "helmGlobals: {chartHome: vendor}\nhelmCharts: [{name: x}]",
}


@pytest.mark.parametrize(
    ("changed", "readers"),
    [
        ("web/templates/a.yaml", ["web"]),
        ("env/eu.yaml", ["web"]),
        ("us.yaml", ["web"]),
        ("shared/files/x.txt", ["web"]),
        ("env/us.yaml", []),
        ("app/charts/db/templates/a.yaml", ["app"]),
        ("app/db.yaml", ["app"]),
        ("app/other.yaml", ["app"]),
        ("more/vendor/x/values.yaml", ["more"]),
        ("more/charts/x/values.yaml", []),
        ("lib/files/a.txt", ["app"]),
        ("deep/b.txt", ["app"]),
        ("linked/store/x/values.yaml", ["linked"]),
    ],
)
def test_a_chart_reads_all_below_it_and_its_values(changed: str, readers: list[str]) -> None:
    files: dict[str, bytes | str] = {path: text.encode() for path, text in CHARTS.items()}
    links = {"web/files": "../shared/files", "app/charts/db/files": "../../../lib/files", "lib/files/b": "../../deep"}
    linked: dict[str, bytes | str] = {"linked/kustomization.yaml": b"helmCharts: [{name: x}]", "linked/charts": "store"}
    targets = ("shared/files/x.txt", "lib/files/a.txt", "deep/b.txt", "linked/store/x/values.yaml")
    sources = MemoryTree({**files, **links, **linked, **dict.fromkeys(targets, b"x")})
    roots = find_roots(sources, lambda url: True)

    assert [root.path for root in roots if BuildSources(sources).reads_any(root, {changed})] == readers
