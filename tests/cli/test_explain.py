from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.kube.field_path import parse_path, show_path
from tests.cli.conftest import Gitsync
from tests.cli.factories import DEPLOYMENT, write
from tests.fakes.helm import ValuesHelm
from tests.git_repository import GitRepo

FILES = {
    "kustomization.yaml": "resources: [base]\nimages:\n- {name: web, newTag: '2'}\n",
    "base/kustomization.yaml": "resources: [web.yaml, secret.yaml]\n",
    "base/web.yaml": DEPLOYMENT,
    "base/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {token: hunter2}\n",
}


def test_every_object_is_named_with_its_file(gitsync: Gitsync, tmp_path: Path) -> None:
    rows = json.loads(gitsync("explain", write(tmp_path, FILES), "-o", "json").out)

    assert {row["object"]: row["where"].rpartition("/")[2] for row in rows} == {
        "Deployment web": "web.yaml:1",
        "Secret key": "secret.yaml:1",
    }


@pytest.mark.parametrize(
    "field",
    [
        "spec.template.spec.containers.0.image",
        'spec.template.spec.containers[name="web"].image',
        ".spec.template.spec.containers.[name=web].image",
    ],
)
def test_a_field_is_followed_through_its_steps(gitsync: Gitsync, tmp_path: Path, field: str) -> None:
    lines = gitsync("explain", write(tmp_path, FILES), "deployment/web", field).out.splitlines()

    assert lines[0] == '.spec.template.spec.containers[name="web"].image: web:2'
    assert [line.rpartition("/")[2] for line in lines[1:]] == [
        "web.yaml:12: resource",
        "kustomization.yaml:3: ImageTagTransformer",
    ]


def test_without_a_field_all_are_listed_and_secrets_are_hidden(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("explain", write(tmp_path, FILES), "Secret/key")

    assert ".stringData.token" in done.out
    assert "hunter2" not in done.out


def test_a_revision_can_be_explained(gitsync: Gitsync, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    first = repo.commit({"app/web.yaml": DEPLOYMENT})
    repo.commit({"app/web.yaml": DEPLOYMENT.replace("replicas: 2", "replicas: 5")})

    done = gitsync("explain", repo.work / "app", "Deployment/web", "spec.replicas", "--rev", first)

    assert done.out == ".spec.replicas: 2\n    app/web.yaml:5: manifest\n"


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["Deployment/gone"], "Deployment/gone not found; write KIND/NAME: Deployment/web\n"),
        (["Pod/gone"], "Pod/gone not found; write KIND/NAME: Deployment/web, Secret/key\n"),
        (["Deployment/web", "spec.gone"], "field spec.gone not found"),
        (["Deployment/web", "spec[["], "is not a valid field path"),
    ],
)
def test_a_missing_object_or_field_is_reported(
    gitsync: Gitsync, tmp_path: Path, arguments: list[str], output: str
) -> None:
    done = gitsync("explain", write(tmp_path, FILES), *arguments)

    assert done.code == 2
    assert output in done.err


def test_several_keys_of_an_item_are_spelled_as_the_api_server_does() -> None:
    parts = ("spec", "ports", "[port=53,protocol=UDP]", "[name=a,b]")

    assert show_path(parts) == '.spec.ports[port="53",protocol="UDP"][name="a,b"]'
    assert parse_path(show_path(parts)) == parts


@pytest.mark.parametrize(
    "path",
    [
        ".spec.replicas",
        '.metadata.annotations["a.b/c"]',
        '.spec.ports[port="80"].name',
        '.spec.ports[port="53",protocol="UDP"]',
        ".args[0]",
        '["a\\"b"].c',
    ],
)
def test_a_shown_path_can_be_read_again(path: str) -> None:
    assert show_path(parse_path(show_path(parse_path(path)))) == show_path(parse_path(path))


def test_a_broken_path_is_refused() -> None:
    with pytest.raises(InvalidInput, match="character 5"):
        parse_path("spec[")


def test_values_are_shown_as_yaml(gitsync: Gitsync, tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nimmutable: true\nx: null\ny: {}\nz: 'true'\n"
    folder = write(tmp_path, {"a.yaml": text})
    shown = {
        name: gitsync("explain", folder, "ConfigMap/a", name).out.splitlines()[0] for name in ("immutable", *"xyz")
    }

    assert shown == {"immutable": ".immutable: true", "x": ".x: null", "y": ".y: {}", "z": ".z: true"}


CHART = {
    "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "web/values.yaml": "replicas: 1\nimage: {tag: '1.0'}\nport: 8080\nother: 8080\n",
    "web/prod.yaml": "# of production\nimage: {tag: '2.0'}\n",
    "web/templates/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, labels: {app: web}}\n"
    'data: {replicas: "{{ .Values.replicas }}", image: "web:{{ .Values.image.tag }}", port: "{{ .Values.port }}"}\n',
}
IN_A_KUSTOMIZATION = "helmCharts:\n- name: web\n  releaseName: web\n  valuesInline:\n    replicas: 5\n"
PATCHED = "patches:\n- patch: '[{op: replace, path: /data/replicas, value: x}]'\n  target: {kind: ConfigMap}\n"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("data.replicas", "values.yaml:1"),
        ("data.image", "prod.yaml:2"),
        ("data.port", "values.yaml:3"),
        ("metadata.labels.app", ""),
    ],
)
def test_the_value_of_a_chart_is_found_by_probing(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, place: str
) -> None:
    monkeypatch.setattr("gitsync.workers.helm.HelmProgram", ValuesHelm)
    folder = write(tmp_path, CHART) / "web"
    (row,) = json.loads(gitsync("explain", folder, "ConfigMap/web", field, "--values", "prod.yaml", "-o", "json").out)
    steps = [step["where"].rpartition("/")[2] for step in row["steps"]]
    assert steps == ["web.yaml", place] if place else ["web.yaml"]


def test_the_value_of_a_chart_in_a_kustomization_is_found(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.workers.helm.HelmProgram", ValuesHelm)
    files = {f"prod/charts/{path}": text for path, text in CHART.items()}
    folder = write(tmp_path, {**files, "prod/kustomization.yaml": IN_A_KUSTOMIZATION}) / "prod"
    lines = gitsync("explain", folder, "ConfigMap/web", "data.replicas").out.splitlines()
    assert lines[0] == ".data.replicas: 5"
    assert lines[-1].endswith("prod/kustomization.yaml:5: value of the chart")
    # what a patch sets comes from no value
    write(tmp_path, {"prod/kustomization.yaml": IN_A_KUSTOMIZATION + PATCHED})
    patched = gitsync("explain", folder, "ConfigMap/web", "data.replicas").out
    assert "value of the chart" not in patched
