"""A field that a chart sets is edited in the values that the template prints, which a render proves."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.edit.engine import Edit, Editor, EditScope
from gitsync.edit.proof import EditRoot, EditTarget
from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path
from gitsync.objects.application import FolderRender
from gitsync.objects.charts import ChartOptions
from gitsync.objects.remote import chart_reference
from gitsync.objects.tree import MountedTree
from tests.edit.factories import changed_lines, tree_of
from tests.fakes.helm import ValuesHelm

TEMPLATE = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ .Values.replicaCount }}
  template:
    spec:
      containers:
      - name: web
        image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
        resources: {limits: {cpu: "{{ .Values.resources.limits.cpu }}"}}
"""
DEFAULTS = """# defaults
replicaCount: 1
image:
  repository: web
  tag: "1.0"
resources:
  limits:
    cpu: 100m
other: 1
"""
CHART = {
    "charts/web/Chart.yaml": "name: web\nversion: 1.0.0\napiVersion: v2\n",
    "charts/web/values.yaml": DEFAULTS,
    "charts/web/templates/web.yaml": TEMPLATE,
}
IMAGE = "spec.template.spec.containers[name=web].image"
CPU = "spec.template.spec.containers[name=web].resources.limits.cpu"


def of_chart(*value_files: str, path: str = "charts/web", **options: Any) -> EditRoot:
    """Return an Application of the chart."""
    chart = ChartOptions(release="web", value_files=value_files, **options)
    return EditRoot((FolderRender("", path, "Auto", chart),), is_application=True)


def edited(files: dict[str, str], field: str, value: str, *roots: EditRoot, **sources: str) -> Edit:
    """Set a field of what the first root renders to."""
    editor = Editor(EditTarget(tree_of(files), roots[0], lambda: roots, ValuesHelm(), sources))
    return editor.set(0, parse_path(field), value, EditScope())


@pytest.mark.parametrize(
    ("values", "field", "value", "lines"),
    [
        pytest.param("replicaCount: 2 # peak\n", "spec.replicas", "5", ["replicaCount: 5 # peak"], id="a value"),
        pytest.param(
            "a: 2\nreplicas: 2\nreplicaCount: 2\n",
            "spec.replicas",
            "5",
            ["replicaCount: 5"],
            id="the one of equal values",
        ),
        pytest.param("image: {tag: '2.0'}\n", IMAGE, "web:2.1", ["image: {tag: '2.1'}"], id="a part of a field"),
        pytest.param("image:\n  tag: '2.0'\n", "spec.replicas", "3", ["replicaCount: 3"], id="a default"),
        pytest.param("", "spec.replicas", "3", ["replicaCount: 3"], id="a default over an empty file"),
        pytest.param("# none yet\n", "spec.replicas", "3", ["replicaCount: 3"], id="a default over a comment"),
        pytest.param("a: 1", CPU, "1", ["resources:", "  limits:", '    cpu: "1"'], id="a default that is nested"),
        pytest.param(
            "resources:\n    limits:\n        memory: 1Gi # enough\n\nb: 1\n",
            CPU,
            "1",
            ['        cpu: "1"'],
            id="beside another",
        ),
        pytest.param("resources: {}\n", CPU, "1", ['resources: {"limits": {"cpu": "1"}}'], id="in brackets"),
        pytest.param(
            "resources: {limits: {memory: 1Gi}}\n",
            CPU,
            "1",
            ['resources: {limits: {memory: 1Gi, "cpu": "1"}}'],
            id="beside another in brackets",
        ),
    ],
)
def test_a_values_file_is_edited(values: str, field: str, value: str, lines: list[str]) -> None:
    files = {**CHART, "env/prod.yaml": values}
    edit = edited(files, field, value, of_chart("/env/prod.yaml"))
    assert edit.file == "env/prod.yaml"
    assert changed_lines(files, edit) == lines
    assert edit.others == ()
    # every other line stays
    kept = [line for line in values.splitlines() if line not in edit.content.decode().splitlines()]
    assert len(kept) <= 1


def test_the_last_values_file_gets_what_none_sets() -> None:
    files = {**CHART, "env/all.yaml": "other: 2\n", "env/prod.yaml": "other: 3\n"}
    edit = edited(files, "spec.replicas", "4", of_chart("/env/all.yaml", "/env/prod.yaml"))
    assert (edit.file, edit.line, edit.content) == ("env/prod.yaml", 2, b"other: 3\nreplicaCount: 4\n")


def test_a_chart_without_values_files_is_edited_itself() -> None:
    edit = edited(CHART, "spec.replicas", "4", of_chart())
    assert (edit.file, edit.line) == ("charts/web/values.yaml", 2)


def test_a_values_file_that_another_environment_reads_is_left_alone() -> None:
    files = {**CHART, "env/all.yaml": "replicaCount: 2\n", "env/prod.yaml": "{}\n", "env/dev.yaml": "{}\n"}
    prod, dev = (of_chart("/env/all.yaml", f"/env/{name}.yaml") for name in ("prod", "dev"))
    edit = edited(files, "spec.replicas", "5", prod, dev)
    assert (edit.file, edit.content) == ("env/prod.yaml", b'{"replicaCount": 5}\n')
    with pytest.raises(InvalidInput, match=r"env/all.yaml:1: .*the edit also changes Deployment web of charts/web"):
        edited(files, "spec.replicas", "5", of_chart("/env/all.yaml"), dev)


def test_a_value_of_the_application_itself_is_refused() -> None:
    files = {**CHART, "env/prod.yaml": "replicaCount: 2\n"}
    with pytest.raises(InvalidInput, match=r"comes from the chart charts/web, and no value of its files alone sets it"):
        edited(files, "spec.replicas", "5", of_chart("/env/prod.yaml", values='{"replicaCount": 3}'))


@pytest.mark.parametrize(
    ("entry", "files", "file", "lines"),
    [
        ("valuesInline: {replicaCount: 2}", {}, "kustomization.yaml", ["  valuesInline: {replicaCount: 5}"]),
        ("valuesInline:\n    image: {tag: 3}", {}, "kustomization.yaml", ["    replicaCount: 5"]),
        ("valuesFile: prod.yaml", {"prod.yaml": "replicaCount: 2\n"}, "prod.yaml", ["replicaCount: 5"]),
        (
            "additionalValuesFiles: [prod.yaml]",
            {"prod.yaml": "replicaCount: 2\n"},
            "prod.yaml",
            ["replicaCount: 5"],
        ),
        ("includeCRDs: true", {}, "kustomization.yaml", ["  valuesInline:", "    replicaCount: 5"]),
    ],
)
def test_values_of_a_kustomization_are_edited(entry: str, files: dict[str, str], file: str, lines: list[str]) -> None:
    kustomization = f"helmCharts:\n- name: web\n  releaseName: web\n  {entry}\nresources: []\n"
    files = {**CHART, "kustomization.yaml": kustomization, **files}
    edit = edited(files, "spec.replicas", "5", EditRoot.folder(""))
    assert (edit.file, changed_lines(files, edit)) == (file, lines)


def test_values_of_another_source_are_edited_and_a_registry_is_not() -> None:
    files = {
        **{path.replace("charts/web", "web"): text for path, text in CHART.items()},
        "values/prod.yaml": "image: {tag: '2.0'}\n",
        "extra/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {level: info}\n",
    }
    chart = ChartOptions(release="web", value_files=("/values/prod.yaml",))
    renders = (
        FolderRender("web", "web", "Helm", chart),
        FolderRender("extra", "extra", "Auto", ChartOptions(release="web")),
    )
    root = EditRoot(renders, is_application=True)
    sources = {"web": "", "values": "git.example.com/values main", "extra": "git.example.com/deploy main"}
    edit = edited(files, "spec.replicas", "3", root, **sources)
    assert (edit.file, changed_lines(files, edit)) == ("values/prod.yaml", ["replicaCount: 3"])
    without = EditRoot((renders[0]._replace(chart=ChartOptions(release="web")), renders[1]), is_application=True)
    with pytest.raises(InvalidInput, match=r"comes from the chart web, and no value of its files alone sets it"):
        edited(files, "spec.replicas", "3", without, **sources)


def test_a_chart_of_another_repository_is_edited_in_the_kustomization() -> None:
    entry = "{name: web, releaseName: web, repo: 'https://charts.example.com', version: 1.0.0}"
    files = {"kustomization.yaml": f"helmCharts:\n- {entry}\n"}
    chart = {path.removeprefix("charts/web/"): text for path, text in CHART.items()}
    reference = chart_reference("https://charts.example.com", "web", "1.0.0")
    tree = MountedTree(tree_of(files), {"_/web": tree_of(chart)}, {reference: "_/web"})
    root = EditRoot.folder("")
    editor = Editor(EditTarget(tree, root, lambda: (root,), ValuesHelm()))
    edit = editor.set(0, parse_path("spec.replicas"), "5", EditScope())
    added = entry.replace("}", ', "valuesInline": {"replicaCount": 5}}')
    assert (edit.file, edit.content.decode()) == ("kustomization.yaml", f"helmCharts:\n- {added}\n")
