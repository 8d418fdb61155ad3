"""What people write into charts, locks, values and helmCharts by mistake or malice: one line each, with its place."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.errors import GitsyncError
from gitsync.objects.charts import ChartOptions
from gitsync.render.build import build
from tests.fakes.helm import FakeHelm
from tests.render.factories import config_map
from tests.render.kustomize_cases import MemoryTree

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "values.yaml": "size: 1\n",
    "templates/a.yaml": config_map("a"),
}
DEPENDENCY = "[{name: db, version: '1', repository: 'https://h/x'}]"


def refusal(files: dict[str, str | bytes], path: str, **options: Any) -> str:
    """Return the one line by which a build is refused."""
    tree = MemoryTree({name: text.encode() if isinstance(text, str) else text for name, text in files.items()})
    with pytest.raises(GitsyncError) as caught:
        build(tree, path, helm=FakeHelm(), chart=ChartOptions(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def of_chart(files: dict[str, str | bytes], **options: Any) -> str:
    return refusal({f"web/{name}": text for name, text in {**CHART, **files}.items()}, "web", **options)


def of_kustomization(text: str) -> str:
    charts = {f"app/charts/web/{name}": text for name, text in CHART.items()}
    return refusal({**charts, "app/kustomization.yaml": text}, "app")


NOT_A_LIST = "web/Chart.yaml: dependencies is not a list"
NOT_TEXTS = "web/Chart.yaml: dependencies[0] has no name, or a version or repository that is not a text"
NOT_ALLOWED = "is not in charts/, and remote content is not allowed"


@pytest.mark.parametrize(
    ("dependencies", "line"),
    [
        ("5", NOT_A_LIST),
        ("text", NOT_A_LIST),
        ("{a: b}", NOT_A_LIST),
        ("[5]", NOT_TEXTS),
        ("[[]]", NOT_TEXTS),
        ("[null]", NOT_TEXTS),
        ("[{name: 5}]", NOT_TEXTS),
        ("[{name: db, version: [1]}]", NOT_TEXTS),
        ("[{name: db, version: 1, repository: 'file://'}]", NOT_TEXTS),
        ("&x [*x]", "web/Chart.yaml:4: the anchor &x contains itself"),
        ("[{name: ../../x, version: '1', repository: 'file://../x'}]", "the dependency ../../x is not a chart in x"),
        ("[{name: db, version: '1', repository: 'https://u:p@h/x'}]", NOT_ALLOWED),
        ("[{name: db, version: '1', repository: 'oci://h'}]", NOT_ALLOWED),
        ("[{name: db, version: no range at all, repository: 'https://h/x'}]", NOT_ALLOWED),
    ],
)
def test_dependencies_of_the_wrong_form(dependencies: str, line: str) -> None:
    assert line in of_chart({"Chart.yaml": f"{CHART['Chart.yaml']}dependencies: {dependencies}\n"})


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ("[", "web/Chart.yaml:3: a list in [ ] is not closed"),
        ("{", "web/Chart.yaml:3: a mapping in { } is not closed"),
        ("- a\n", "web/Chart.yaml:3: the indentation does not match"),
        ("\t", "web/Chart.yaml:1: a tab indents this line"),
        ("a: b: c", "web/Chart.yaml:1: a ': ' where no mapping can begin"),
        ("\0", "web/Chart.yaml:1: the control character U+0000 is not allowed"),
        ("&a [*a]", "web/Chart.yaml:1: the anchor &a contains itself"),
        ("name: !!python/object:x y", "web/Chart.yaml:1: the tag !!python/object:x cannot be used here"),
        ("? [a]\n: b", "web/Chart.yaml:1: a mapping or list is nested in a key"),
        (b"name: \xff", "web/Chart.yaml:1: byte 0xff is not UTF-8"),
    ],
)
def test_a_chart_file_that_is_not_yaml(start: str | bytes, line: str) -> None:
    first = start.encode() if isinstance(start, str) else start
    assert line in of_chart({"Chart.yaml": first + f"\ndependencies: {DEPENDENCY}".encode()})


@pytest.mark.parametrize(
    ("lock", "line"),
    [
        ("dependencies: 5", "web/Chart.lock: dependencies is not a list"),
        ("dependencies: [5]", "web/Chart.lock: dependencies[0] has no name"),
        ("[", "web/Chart.lock:2: while parsing"),
        (f"digest: 5\ndependencies: {DEPENDENCY}", "web/Chart.lock: Chart.lock is out of date"),
        ("digest: sha256:x\ndependencies: []", "web/Chart.lock: Chart.lock is out of date"),
        ("text", "web/Chart.lock: Chart.lock is out of date"),
    ],
)
def test_a_lock_of_the_wrong_form(lock: str, line: str) -> None:
    chart = f"{CHART['Chart.yaml']}dependencies: {DEPENDENCY}\n"
    assert line in of_chart({"Chart.yaml": chart, "Chart.lock": f"{lock}\n"})


@pytest.mark.parametrize(
    ("charts", "line"),
    [
        ("5", "helmCharts must be a list, not a number"),
        ("text", "helmCharts must be a list, not a text"),
        ("{}", "helmCharts must be a list, not a mapping"),
        ("[5]", "helmCharts.0 must be a mapping, not a number"),
        ("[[]]", "helmCharts.0 must be a mapping, not a list"),
        ("[{name: 5, releaseName: r}]", "helmCharts.0.name must be a text, not a number"),
        ("[{name: no, releaseName: r}]", "helmCharts.0.name must be a text, not a flag"),
        ("[{name: web, releaseName: 5}]", "helmCharts.0.releaseName must be a text"),
        ("[{name: web, releaseName: [r]}]", "helmCharts.0.releaseName must be a text, not a list"),
        ("[{name: web, releaseName: r, valuesInline: [1]}]", "valuesInline is not a mapping"),
        ("[{name: web, releaseName: r, valuesInline: text}]", "valuesInline is not a mapping"),
        ("[{name: web, releaseName: r, apiVersions: 5}]", "helmCharts.0.apiVersions must be a list"),
        ("[{name: web, releaseName: r, apiVersions: [5]}]", "helmCharts.0.apiVersions.0 must be a text"),
        ("[{name: web, releaseName: r, kubeVersion: 1.30}]", "helmCharts.0.kubeVersion must be a text"),
        ("[{name: web, releaseName: r, includeCRDs: 'yes'}]", "helmCharts.0.includeCRDs must be true or false"),
        ("[{name: web, releaseName: r, namespace: 5}]", "helmCharts.0.namespace must be a text"),
        ("[{name: web, releaseName: r, repo: 5, version: '1'}]", "helmCharts.0.repo must be a text"),
        ("[{name: web, releaseName: r, additionalValuesFiles: a.yaml}]", "additionalValuesFiles must be a list"),
        ("[{name: web, releaseName: r, additionalValuesFiles: [5]}]", "additionalValuesFiles.0 must be a text"),
        ("[{name: web, releaseName: r, additionalValuesFiles: [../../x]}]", "../../x leads outside the repository"),
        ('[{name: "a\\0b", releaseName: r}]', "is not in charts/a"),
        ("[{name: x, releaseName: r, repo: 'file:///etc', version: '1'}]", "is neither an https:// nor an oci://"),
    ],
)
def test_charts_of_a_kustomization_of_the_wrong_form(charts: str, line: str) -> None:
    message = of_kustomization(f"helmCharts: {charts}\n")
    assert message.startswith("app/kustomization.yaml:1: ")
    assert line in message


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("5", "app/kustomization.yaml:2: helmGlobals must be a mapping, not a number"),
        ("[a]", "app/kustomization.yaml:2: helmGlobals must be a mapping, not a list"),
        ("{chartHome: 5}", "app/kustomization.yaml:2: helmGlobals.chartHome must be a text"),
        ("{chartHome: /etc}", "/etc/web is an absolute path"),
        ("{chartHome: ../../..}", "../../../web leads outside the repository"),
    ],
)
def test_options_of_all_charts_of_the_wrong_form(options: str, line: str) -> None:
    assert line in of_kustomization(f"helmCharts: [{{name: web, releaseName: r}}]\nhelmGlobals: {options}\n")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("", "is a folder, not a file"),
        ("/", "the values file / is a folder, not a file"),
        ("\0", "does not exist"),
        ("/../x", "leads outside the repository"),
        ("./../../../x", "leads outside the repository"),
    ],
)
def test_values_files_that_are_none(file: str, line: str) -> None:
    assert line in of_chart({}, value_files=(file,))


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("a: [", "web/templates/a.yaml:2: while parsing"),
        ("- 1", "web/templates/a.yaml:1: a document must be a Kubernetes object"),
        ("5", "web/templates/a.yaml:1: a document must be a Kubernetes object"),
        ("apiVersion: v1", "web/templates/a.yaml:1: the object has no kind"),
        ("kind: ConfigMap", "web/templates/a.yaml:1: the ConfigMap has no metadata.name"),
        ("kind: ConfigMap\nmetadata: 5", "web/templates/a.yaml:2: the ConfigMap has no metadata.name"),
        ("kind: ConfigMap\nmetadata: {name: [a]}", "web/templates/a.yaml:2: the ConfigMap has no metadata.name"),
        ("kind: {}\nmetadata: {name: a}", "web/templates/a.yaml:1: the object has no kind"),
        ("kind: List\nitems: 5", "items of a List must be a list"),
        ("kind: List\nitems: [5]", "a document must be a Kubernetes object"),
        ("a: &a [*a]", "web/templates/a.yaml:1: the anchor &a contains itself"),
        ("a: !!binary x", "web/templates/a.yaml:1: a: the text is not base64"),
        ("x: {{ .Values.a }}", "web/templates/a.yaml:1: a mapping or list is nested in a key"),
    ],
)
def test_what_a_template_prints_that_is_not_an_object(template: str, line: str) -> None:
    assert line in of_chart({"templates/a.yaml": f"{template}\n"})
