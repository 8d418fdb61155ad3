"""The helm program: what it gets, what it may do, and what becomes of its failures; Helm itself where there is one."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.charts import ChartFile, ChartOptions, HelmFailed
from gitsync.objects.record import Commit
from gitsync.ports import Snapshot
from gitsync.render.build import build
from gitsync.source.local import FolderTree
from gitsync.source.snapshot import GitTree
from gitsync.workers.helm import HelmProgram, helm_fingerprint
from gitsync.workers.pool import RenderPool
from tests.git_repository import GitRepo

CHART = (
    ChartFile("Chart.yaml", b"name: web\n"),
    ChartFile("templates/a.yaml", b"kind: ConfigMap\n"),
)
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
# The chart is the last argument; cat reads what begins with a pipe.
PRINT = 'printf "%s\\n" "$@"; for last in "$@"; do :; done; tar xzOf "$last"; for a in "$@"; do case "$a" in\n'
PRINT += '--values=*) cat "${a#--values=}";; esac; done; env\n'


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the only ``helm`` on PATH; a test writes what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "helm"


def does(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}")
    program.chmod(0o755)


def refusal(program: Path, script: str) -> str:
    does(program, script)
    with pytest.raises(InvalidInput) as caught:
        HelmProgram().template(CHART, (), ChartOptions())
    return str(caught.value)


def test_it_gets_the_chart_the_values_and_the_options(program: Path) -> None:
    does(program, PRINT)
    options = ChartOptions("--r", "ns", (), "", False, True, True, True, "1.30", ("a/v1", "b/v1"))

    output = HelmProgram().template(CHART, (ChartFile("v.yaml", b"size: 2\n" * 9000),), options).decode()

    lines = output.splitlines()
    assert [line for line in lines if line.startswith("--") and not line.startswith("--values=")] == [
        *("--namespace=ns", "--api-versions=a/v1", "--api-versions=b/v1", "--kube-version=1.30", "--include-crds"),
        *("--no-hooks", "--skip-tests", "--", "--r"),
    ]
    assert "name: web\nkind: ConfigMap\n" in output
    assert output.count("size: 2\n") == 9000


def test_it_sees_none_of_our_environment(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_TOKEN", "secret")
    monkeypatch.setenv("KUBECONFIG", "/home/ada/.kube/config")
    does(program, PRINT)

    output = HelmProgram().template(CHART, (), ChartOptions()).decode()

    assert "KUBECONFIG=/dev/null\n" in output
    assert "HELM_PLUGINS=/nonexistent\n" in output
    assert "secret" not in output
    assert "ada" not in output


def test_one_chart_after_the_other_is_rendered(program: Path) -> None:
    does(program, PRINT)
    helm = HelmProgram()
    long = helm.template((ChartFile("a", b"x" * 100_000),), (), ChartOptions())
    short = helm.template((ChartFile("a", b"short"),), (), ChartOptions())

    assert (b"x" * 100_000 in long, b"short" in short, b"xx" in short) == (True, True, False)


def test_a_failure_has_the_reason_without_the_warnings(program: Path) -> None:
    does(
        program,
        'echo "coalesce.go: warning: cannot overwrite table (hunter2)" >&2\n'
        'echo "Error: failed to parse ${3#--values=}: yaml: line 3\n  did not find :\n'
        '\nUse --debug flag to render out invalid YAML" >&2\nexit 1\n',
    )
    with pytest.raises(HelmFailed) as caught:
        HelmProgram().template(CHART, (ChartFile("env/prod.yaml", b"a"),), ChartOptions())

    assert str(caught.value) == "failed to parse env/prod.yaml: yaml: line 3 did not find :"


def test_a_failure_without_a_reason_has_the_code(program: Path) -> None:
    does(program, "exit 7\n")
    with pytest.raises(HelmFailed, match="helm ended with code 7"):
        HelmProgram().template(CHART, (), ChartOptions())


@pytest.mark.parametrize("script", ["kill -KILL $$", "echo 'fatal error: runtime: cannot allocate memory' >&2; exit 2"])
def test_a_chart_that_takes_too_much_memory_is_one_line(program: Path, script: str) -> None:
    assert (
        refusal(program, script) == "rendering the chart takes more memory than the limit of 512 MiB; divide the chart"
    )


def test_processor_time_that_is_over_is_one_line(program: Path) -> None:
    assert "takes too much processor time" in refusal(program, "kill -XCPU $$")


def test_an_output_that_is_too_large_is_one_line(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.workers.helm._OUTPUT_BYTES", 1 << 20)

    assert "the chart renders to more than the limit of 1 MiB" in refusal(program, "exec cat /dev/zero")


def test_errors_without_an_end_are_not_kept(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.workers.helm._ERROR_BYTES", 1 << 10)
    does(program, "echo 'Error: first' >&2; head -c 1000000 /dev/zero >&2; exit 1")
    with pytest.raises(HelmFailed, match=r"^first") as caught:
        HelmProgram().template(CHART, (), ChartOptions())

    assert len(str(caught.value)) < 1 << 17


def test_a_chart_that_takes_too_long_is_one_line(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.workers.helm._SECONDS", 0.0)

    assert "takes longer than the limit of 0 s" in refusal(program, "exec sleep 600")


def test_without_the_program_one_line_tells_how_to_get_it(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(InvalidInput, match=r"the program helm is not on PATH; install Helm 3 or 4 beside gitsync"):
        HelmProgram().template(CHART, (), ChartOptions())

    assert helm_fingerprint() == ""


def test_another_version_of_the_program_has_another_fingerprint(program: Path) -> None:
    does(program, "exit 0\n")
    first = helm_fingerprint()
    does(program, "exit 10\n")

    assert first
    assert helm_fingerprint() != first


def test_a_render_process_runs_it_within_its_limits(program: Path, tmp_path: Path) -> None:
    """It may write no file, and Helm reads the chart from memory."""
    output = f"printf -- '---\\n# Source: web/templates/a.yaml\\n%s' '{CONFIG_MAP}'"
    does(program, f"{output}; (echo x > {tmp_path}/written); exit 0\n")
    repo = GitRepo(tmp_path / "repo")
    commit = repo.commit({"web/Chart.yaml": "name: web\n", "web/templates/a.yaml": CONFIG_MAP})
    pool = RenderPool(1, 60.0, 256)
    try:
        snapshot = Snapshot(Commit(commit), GitTree(repo.origin, commit), str(repo.origin))
        made = pool.render(snapshot, "web", "Auto", ChartOptions("web", "shop", (), '{"a": 1}'))
    finally:
        pool.close()

    assert made.manifests[0]["metadata"] == {"name": "a"}
    assert made.chart == ChartOptions("web", "shop", (), '{"a": 1}')
    assert "web/" in made.files_read
    # where the kernel has Landlock, it is not even created
    written = tmp_path / "written"
    assert not written.exists() or written.read_bytes() == b""


# what Helm would open besides


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def template_of(program: Path, files: dict[str, bytes], script: str = "exit 0\n") -> bytes:
    does(program, script)
    chart = tuple(ChartFile(path, content) for path, content in files.items())
    return HelmProgram().template(chart, (), ChartOptions())


OUTSIDE = [
    b'{"$ref": "file:///etc/passwd"}',
    b'{"properties": {"a": {"allOf": [{"$ref": "http://localhost:8080/metrics#/a"}]}}}',
    b'{"$id": "http://127.0.0.1/", "$defs": {"a": {"$dynamicRef": "other.json"}}}',
    b'{"$schema": "http://[::1]/schema"}',
    b'{"\\u0024ref": "/etc/passwd"}',
]


@pytest.mark.parametrize("schema", OUTSIDE)
@pytest.mark.parametrize(
    "path", ["values.schema.json", "charts/db/values.schema.json", "charts/db-1.tgz", "charts/up/charts/db-1.tgz"]
)
def test_a_schema_that_refers_outside_of_itself_is_refused(program: Path, schema: bytes, path: str) -> None:
    content = packed({"db/values.schema.json": schema}) if path.endswith(".tgz") else schema
    with pytest.raises(InvalidInput, match=r"values\.schema\.json refers to .*; copy what it refers to into \$defs"):
        template_of(program, {path: content})


def test_a_schema_in_an_archive_in_an_archive_is_checked(program: Path) -> None:
    inner = packed({"db\\values.schema.json": OUTSIDE[0]})
    with pytest.raises(InvalidInput, match="refers to file:///etc/passwd, and schemas are not downloaded"):
        template_of(program, {"charts/up-1.tgz": packed({"up/./charts/db-1.tgz": inner})})


def test_a_schema_may_refer_to_itself_and_to_drafts(program: Path) -> None:
    schema = b"""{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/a", "$defs": {"a": {}},
        "properties": {"$ref": {"type": "string"}}}"""

    assert template_of(program, {"values.schema.json": schema}, "echo ok\n") == b"ok\n"


def test_dependencies_in_archives_keep_their_files(program: Path) -> None:
    archive = packed({"db/Chart.yaml": b"name: db\n", "db/a/../templates/b.yaml": b"kind: Pod\n", "pax": b"x"})
    script = 'for last in "$@"; do :; done; tar xzOf "$last" chart/charts/db-1.tgz > /dev/null\n'
    script += (
        'tar xzOf "$last" chart/charts/db-1.tgz | tar tzf -; tar xzOf "$last" chart/charts/db-1.tgz | tar xzOf -\n'
    )

    output = template_of(program, {"charts/db-1.tgz": archive}, script).decode()

    assert output.splitlines()[:2] == ["chart/Chart.yaml", "chart/templates/b.yaml"]
    assert output.endswith("name: db\nkind: Pod\nx")


def test_an_archive_that_templates_read_stays_as_it_is(program: Path) -> None:
    archive = packed({"x/values.schema.json": OUTSIDE[0]})
    script = 'for last in "$@"; do :; done; tar xzOf "$last" chart/files/x.tgz\n'

    assert template_of(program, {"files/x.tgz": archive}, script) == archive


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"x", "charts/db-1.tgz is not an archive of a chart: .*; run 'helm dependency build' again"),
        (packed({"a": b"x" * 9000})[:-20], "charts/db-1.tgz is not an archive of a chart: "),
        (packed({"db/zeros": bytes(1 << 21)}), "charts/db-1.tgz is larger than the limit of 1 MiB, unpacked"),
        (packed({"db/values.schema.json": b"{"}), "values.schema.json is not JSON: .*; correct the schema"),
    ],
    # not the archives themselves: they hold the time, and the processes of one run must name the tests alike
    ids=["not an archive", "cut", "too large", "bad schema"],
)
def test_a_dependency_that_cannot_be_checked_is_one_line(
    program: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, line: str
) -> None:
    monkeypatch.setattr("gitsync.workers.helm._ARCHIVE_BYTES", 1 << 20)
    with pytest.raises(InvalidInput, match=line):
        template_of(program, {"charts/db-1.tgz": content})


# Helm itself


@pytest.fixture
def helm(monkeypatch: pytest.MonkeyPatch) -> HelmProgram:
    """Return Helm, the program that GITSYNC_TEST_HELM names."""
    path = os.environ.get("GITSYNC_TEST_HELM", "")
    if not path:
        pytest.skip("set GITSYNC_TEST_HELM to the path of the helm program")
    monkeypatch.setenv("PATH", f"{Path(path).parent}:/usr/bin:/bin")
    return HelmProgram()


def chart_of(folder: Path, template: str, **files: str) -> FolderTree:
    (folder / "web/templates").mkdir(parents=True)
    (folder / "web/Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n" + files.pop("chart", ""))
    (folder / "web/templates/a.yaml").write_text(template)
    for name, text in files.items():
        (folder / "web" / f"{name}.yaml").write_text(text)
    return FolderTree(folder)


def test_helm_renders_with_values_release_and_capabilities(helm: HelmProgram, tmp_path: Path) -> None:
    template = CONFIG_MAP + (
        "data:\n  release: {{ .Release.Name }}/{{ .Release.Namespace }}\n  size: {{ .Values.size | quote }}\n"
        '  kube: {{ .Capabilities.KubeVersion.Version }}\n  has: {{ .Capabilities.APIVersions.Has "x/v1" | quote }}\n'
        '  secret: {{ (lookup "v1" "Secret" "n" "s") | toJson | quote }}\n'
        '  host: {{ getHostByName "localhost" | quote }}\n'
    )
    tree = chart_of(tmp_path, template, values="size: 1\n", prod="size: 2\n")
    options = ChartOptions("shop", "dev", ("prod.yaml",), '{"size": 3}', kube_version="1.31.0", api_versions=("x/v1",))

    made = build(tree, "web", chart=options, helm=helm)

    assert made.manifests[0]["data"] == {
        "release": "shop/dev",
        "size": "3",
        "kube": "v1.31.0",
        "has": "true",
        "secret": "{}",
        "host": "",
    }
    assert made.sources[0].file == "web/templates/a.yaml"


@pytest.mark.parametrize(
    ("template", "more", "line"),
    [
        ("{{ .Values.a.b.c }}", {}, r"web/templates/a\.yaml:1: Helm cannot render the chart: .*nil pointer"),
        ('{{ required "size is needed" .Values.size }}', {}, r"web/templates/a\.yaml:1: .*size is needed"),
        ("{{ if }}", {}, r"web/templates/a\.yaml:1: .*missing value for if"),
        ("a: [", {}, r"web/templates/a\.yaml: .*YAML parse error"),
        ('{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}', {}, r"nested reference name"),
        ('{{ env "HOME" }}', {}, r"function \"env\" not defined"),
        ("", {"chart": "dependencies: [{name: db, version: 1.0.0}]\n"}, r"web/Chart\.yaml: dependencies .*: db; run"),
        ("", {"chart": "kubeVersion: '>=99'\n"}, r"web/Chart\.yaml: .*kubeVersion: >=99"),
        ("{{ range until 2000000000 }}{{ . }}{{ end }}", {}, r"takes more memory than the limit|too much processor"),
        ('{{ repeat 2000000000 "x" }}', {}, r"takes more memory than the limit"),
    ],
)
def test_what_helm_rejects_is_one_line(
    helm: HelmProgram, tmp_path: Path, template: str, more: dict[str, str], line: str
) -> None:
    tree = chart_of(tmp_path, template, **more)

    with pytest.raises(InvalidInput, match=line):
        build(tree, "web", helm=helm)


def test_values_that_helm_cannot_read_name_their_file(helm: HelmProgram, tmp_path: Path) -> None:
    tree = chart_of(tmp_path, CONFIG_MAP, prod="a: [\n")

    with pytest.raises(InvalidInput, match=r"failed to parse web/prod\.yaml"):
        build(tree, "web", chart=ChartOptions(value_files=("prod.yaml",)), helm=helm)


def test_helm_checks_values_by_the_schemas_of_dependencies(helm: HelmProgram, tmp_path: Path) -> None:
    tree = chart_of(tmp_path, CONFIG_MAP, chart="dependencies: [{name: db, version: 1.0.0}]\n")
    files = {
        "db/Chart.yaml": b"apiVersion: v2\nname: db\nversion: 1.0.0\n",
        "db/templates/b.yaml": CONFIG_MAP.replace("name: a", "name: b").encode(),
        "db/values.schema.json": b'{"properties": {"size": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"maximum": 3}}}',
    }
    (tmp_path / "web/charts").mkdir()
    (tmp_path / "web/charts/db-1.0.0.tgz").write_bytes(packed(files))

    made = build(tree, "web", chart=ChartOptions(values='{"db": {"size": 3}}'), helm=helm)

    assert {manifest["metadata"]["name"] for manifest in made.manifests} == {"a", "b"}
    with pytest.raises(InvalidInput, match="maximum: got 4, want 3"):
        build(tree, "web", chart=ChartOptions(values='{"db": {"size": 4}}'), helm=helm)
