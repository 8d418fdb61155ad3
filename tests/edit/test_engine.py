"""A field gets its value from the one place that sets it, and nothing else changes unasked."""

from __future__ import annotations

import pytest

from gitsync.edit.engine import EditScope
from gitsync.errors import InvalidInput
from gitsync.render.build import build
from tests.edit.factories import changed_lines, edited, tree_after
from tests.fakes.helm import FakeHelm

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {plain: one, number: "1"} # both
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: c
        image: 'nginx:1'  # quoted
        args: ["--a", --b]
        env:
        - {name: TEXT, value: words}
"""
BASE = {"base/web.yaml": WEB, "base/kustomization.yaml": "resources: [web.yaml]\n"}
IMAGE = "spec.template.spec.containers[name=c].image"


def over(kustomization: str, **files: str) -> dict[str, str]:
    return {
        **BASE,
        "over/kustomization.yaml": f"resources: [../base]\n{kustomization}",
        **{f"over/{name.replace('_', '.')}": text for name, text in files.items()},
    }


MERGE = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 4 # patched\n"


@pytest.mark.parametrize(
    ("files", "field", "value", "place", "lines"),
    [
        pytest.param(over(""), "spec.replicas", "5", "base/web.yaml:7", ["  replicas: 5"], id="a resource"),
        pytest.param(
            over(""), IMAGE, "nginx:2", "base/web.yaml:12", ["        image: 'nginx:2'  # quoted"], id="quotes stay"
        ),
        pytest.param(
            over(""),
            "metadata.annotations.plain",
            "a, b",
            "base/web.yaml:5",
            ["  annotations: {plain: 'a, b', number: \"1\"} # both"],
            id="a value that needs quotes in braces",
        ),
        pytest.param(
            over(""),
            "metadata.annotations.plain",
            "8080",
            "base/web.yaml:5",
            ["  annotations: {plain: '8080', number: \"1\"} # both"],
            id="a text that looks like a number",
        ),
        pytest.param(
            over(""),
            "spec.template.spec.containers[name=c].args[1]",
            "--c",
            "base/web.yaml:13",
            ['        args: ["--a", --c]'],
            id="an item without a key",
        ),
        pytest.param(
            over("images:\n- name: nginx\n  newName: nginx\n  newTag: '2' # tag\n"),
            IMAGE,
            "nginx:3",
            "over/kustomization.yaml:5",
            ["  newTag: '3' # tag"],
            id="a tag of images",
        ),
        pytest.param(
            over("images:\n- name: nginx\n  newName: other\n"),
            IMAGE,
            "third:1",
            "over/kustomization.yaml:4",
            ["  newName: third"],
            id="a name of images",
        ),
        pytest.param(
            over("replicas:\n- name: web\n  count: 3\n"),
            "spec.replicas",
            "9",
            "over/kustomization.yaml:4",
            ["  count: 9"],
            id="replicas",
        ),
        pytest.param(
            over("labels:\n- pairs:\n    a: b\n    tier: x # here\n"),
            "metadata.labels.tier",
            "yes",
            "over/kustomization.yaml:5",
            ["    tier: 'yes' # here"],
            id="a label, a word that older readers take for true",
        ),
        pytest.param(
            over("patches:\n- path: p.yaml\n", p_yaml=MERGE),
            "spec.replicas",
            "6",
            "over/p.yaml:5",
            ["  replicas: 6 # patched"],
            id="a merge patch",
        ),
        pytest.param(
            over(
                "patches:\n- target: {kind: Deployment}\n  patch: |-\n    - op: replace\n      path: /spec/replicas\n"
                "      value: 4 # inline\n"
            ),
            "spec.replicas",
            "6",
            "over/kustomization.yaml:7",
            ["      value: 6 # inline"],
            id="an inline JSON patch",
        ),
        pytest.param(
            over("replacements:\n- sourceValue: words\n  targets:\n  - {select: {name: web}, fieldPaths: [spec.x], "
                 "options: {create: true}}\n"),
            "spec.x",
            "other",
            "over/kustomization.yaml:3",
            ["- sourceValue: other"],
            id="a replacement",
        ),
        pytest.param(
            over(""),
            "spec.template.spec.containers[name=c].name",
            "main",
            "base/web.yaml:11",
            ["      - name: main"],
            id="the key of an item, which is in the paths of all its fields",
        ),
        pytest.param(
            over(
                "patches:\n- target: {kind: Deployment}\n  patch: |-\n"
                "    - {op: add, path: /spec/limit, value: 1e3}\n"
            ),
            "spec.limit",
            "7",
            "over/kustomization.yaml:5",
            ["    - {op: add, path: /spec/limit, value: 7}"],
            id="a number that is written in another way",
        ),
    ],
)  # fmt: skip
def test_the_place_that_sets_a_field_is_changed(
    files: dict[str, str], field: str, value: str, place: str, lines: list[str]
) -> None:
    edit = edited(files, field, value)

    assert f"{edit.file}:{edit.line}" == place
    assert changed_lines(files, edit) == lines
    assert edit.others == ()


GENERATOR = "configMapGenerator:\n- name: made\n  literals:\n  - k=v=w\n  files: [f.txt]\n  envs: [e.env]\n"
GENERATED = over(GENERATOR, f_txt="one\ntwo\n", e_env="# c\nA=1\nB= two \n")


@pytest.mark.parametrize(
    ("field", "value", "file", "content"),
    [
        ("data.k", "x", "over/kustomization.yaml", "  - k=x\n"),
        ("data[\"f.txt\"]", "three\n", "over/f.txt", "three\n"),
        ("data.B", "3", "over/e.env", "# c\nA=1\nB=3\n"),
    ],
)  # fmt: skip
def test_generated_values_are_changed_in_their_source(field: str, value: str, file: str, content: str) -> None:
    edit = edited(GENERATED, field, value, kind="ConfigMap")

    assert edit.file == file
    assert content in edit.content.decode()
    assert {other.field for other in edit.others} == {("metadata", "name")}, "only the hash follows"


def test_a_secret_is_changed_in_the_clear() -> None:
    files = over("secretGenerator:\n- name: s\n  literals: [token=hunter2]\n")

    edit = edited(files, "data.token", "aHVudGVyMw==", kind="Secret")
    assert b"token=hunter3" in edit.content


OTHER = {**over(""), "other/kustomization.yaml": "resources: [../base]\n"}


def test_another_environment_is_not_changed_silently() -> None:
    with pytest.raises(InvalidInput) as refusal:
        edited(OTHER, "spec.replicas", "5")

    assert "the edit also changes Deployment web of other" in str(refusal.value)
    assert "--overlay" in refusal.value.hint


def test_another_environment_is_changed_where_asked_for() -> None:
    edit = edited(OTHER, "spec.replicas", "5", EditScope(also=True))

    assert [(other.root, other.field, other.old, other.new) for other in edit.others] == [
        ("other", ("spec", "replicas"), 2, 5)
    ]


@pytest.mark.parametrize("kustomization", ["", "patches:\n  - path: p.yaml\n# end\n", "patches: [{path: p.yaml}]\n"])
def test_an_overlay_gets_the_smallest_patch(kustomization: str) -> None:
    files = {**OTHER, **over(kustomization, p_yaml=MERGE), "other/kustomization.yaml": "resources: [../base]\n"}

    edit = edited(files, "spec.template.spec.containers[name=c].env[name=TEXT].value", "new", EditScope(overlay=True))

    assert edit.file == "over/kustomization.yaml"
    assert edit.content.startswith(files[edit.file].rstrip("]\n").removesuffix("# end").encode().rstrip(b"\n"))
    made = build(tree_after(files, edit), "over").manifests[0]
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "TEXT", "value": "new"}]
    assert edit.others == ()


def test_a_field_that_nothing_sets_gets_a_patch() -> None:
    edit = edited(over(""), "spec.paused", "true")

    assert edit.content.endswith(b"  spec:\n      paused: true\n")
    assert edit.new is True


SHARED = {
    "over/web.yaml": WEB,
    "over/api.yaml": WEB.replace("name: web", "name: api"),
    "over/kustomization.yaml": "resources: [web.yaml, api.yaml]\npatches:\n"
    "- target: {kind: Deployment}\n  patch: |-\n    - {op: replace, path: /spec/replicas, value: 4}\n",
}


def test_a_place_that_objects_share_is_left_for_a_patch() -> None:
    edit = edited(SHARED, "spec.replicas", "6")

    assert changed_lines(SHARED, edit)[-2:] == ["    spec:", "      replicas: 6"]
    assert edit.others == ()


def test_a_place_that_objects_share_is_changed_where_asked_for() -> None:
    edit = edited(SHARED, "spec.replicas", "6", EditScope(also=True))

    assert changed_lines(SHARED, edit) == ["    - {op: replace, path: /spec/replicas, value: 6}"]
    assert [other.object for other in edit.others] == ["Deployment web"], "the first one is set"


def test_what_only_a_shared_place_can_set_lists_the_rest() -> None:
    files = over("labels:\n- pairs: {tier: x}\n  includeSelectors: true\n")
    edit = edited(files, "metadata.labels.tier", "z")

    assert changed_lines(files, edit) == ["- pairs: {tier: z}"]
    assert {other.field[-2:] for other in edit.others} == {("matchLabels", "tier"), ("labels", "tier")}


@pytest.mark.parametrize(
    ("field", "value", "replacement"),
    [
        pytest.param(
            "spec.template.spec.containers[name=c].args[1]",
            "--c",
            ["path: /spec/template/spec/containers/0/args/1", "value: --c"],
            id="an item without a key",
        ),
        pytest.param(
            "spec.template.spec.containers[name=c].name",
            "d",
            ["path: /spec/template/spec/containers/0/name", "value: d"],
            id="the key of an item",
        ),
    ],
)
def test_what_a_merge_patch_cannot_set_gets_operations(field: str, value: str, replacement: list[str]) -> None:
    edit = edited(OTHER, field, value, EditScope(overlay=True))

    test = ["- op: test", "path: /spec/template/spec/containers/0/name", "value: c"]
    target = ["target:", "group: apps", "version: v1", "kind: Deployment", "name: web"]
    lines = [line.strip() for line in changed_lines(OTHER, edit)]
    assert lines == ["patches:", "- patch: |-", *test, "- op: replace", *replacement, *target]
    assert edit.others == ()


def test_an_item_of_a_custom_resource_gets_operations() -> None:
    resource = "apiVersion: example.com/v1\nkind: Site\nmetadata: {name: s, namespace: shop}\n"
    files = {
        "base/site.yaml": resource + "spec:\n  hosts:\n  - {name: a, size: 1}\n  - {name: b, size: 2}\n",
        "base/kustomization.yaml": "resources: [site.yaml]\n",
        "over/kustomization.yaml": "resources: [../base]\npatches: []\n",
        "other/kustomization.yaml": "resources: [../base]\n",
    }
    edit = edited(files, "spec.hosts[name=b].size", "9", EditScope(overlay=True), kind="Site")

    hosts = build(tree_after(files, edit), "over").manifests[0]["spec"]["hosts"]
    assert hosts == [{"name": "a", "size": 1}, {"name": "b", "size": 9}]
    assert b'"target": {"group": "example.com"' in edit.content, "a list in brackets stays one"


def test_a_patch_names_the_namespace_of_the_file() -> None:
    files = {name: text.replace("name: web\n", "name: web\n  namespace: shop\n") for name, text in OTHER.items()}
    files["over/kustomization.yaml"] += "namespace: mine\n"

    edit = edited(files, "spec.replicas", "6", EditScope(overlay=True))
    assert [line.strip() for line in changed_lines(files, edit)][4:7] == ["metadata:", "name: web", "namespace: shop"]


def test_a_patch_quotes_words_of_older_readers() -> None:
    edit = edited(OTHER, "metadata.annotations.plain", "yes", EditScope(overlay=True))
    assert changed_lines(OTHER, edit)[-1].strip() == 'plain: "yes"'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", '    text: ""'),
        ("  b\nc", '    text: "  b\\nc"'),
        ("\nb", '    text: "\\nb"'),
        ("\u0007", '    text: "\\u0007"'),
    ],
)
def test_a_block_that_cannot_hold_a_value_gets_quotes(value: str, written: str) -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n    text: |\n        one\n        two\n    b: c\n"
    )
    files = {"a.yaml": text, "kustomization.yaml": "resources: [a.yaml]\n"}

    edit = edited(files, "data.text", value, kind="ConfigMap")
    assert changed_lines(files, edit) == [written]


ANCHORED = WEB.replace("one, number", "&n one, again: *n, number")


def test_a_value_that_an_anchor_repeats_is_not_changed_silently() -> None:
    files = {"web.yaml": ANCHORED, "kustomization.yaml": "resources: [web.yaml]\n"}

    with pytest.raises(InvalidInput, match=r"web.yaml:5: the value is repeated by the alias \*n"):
        edited(files, "metadata.annotations.plain", "two")
    edit = edited(files, "metadata.annotations.plain", "two", EditScope(also=True))
    assert b"{plain: &n two, again: *n" in edit.content
    assert [other.field for other in edit.others] == [("metadata", "annotations", "again")]


def test_an_alias_is_written_out() -> None:
    files = {"web.yaml": ANCHORED, "kustomization.yaml": "resources: [web.yaml]\n"}

    edit = edited(files, "metadata.annotations.again", "two")
    assert b"{plain: &n one, again: two, number" in edit.content


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("spec.replicas", "many", "many is not a number"),
        ("spec.replicas", "2", ".spec.replicas already is 2"),
        ("metadata.name", "other", "identifies the object"),
        ("spec.template", "x", "is not a plain value"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_reason(field: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        edited(over(""), field, value)

    assert reason in str(refusal.value)


def test_a_field_of_several_values_is_refused() -> None:
    source = "source: {kind: Deployment, fieldPath: metadata.name}"
    target = (
        "{select: {kind: Deployment}, fieldPaths: [metadata.annotations.plain], options: {delimiter: '-', index: 1}}"
    )
    files = over(f"replacements:\n- {source}\n  targets:\n  - {target}\n")

    with pytest.raises(InvalidInput, match="no single place in Git sets"):
        edited(files, "metadata.annotations.plain", "a")


CHART = {
    "over/kustomization.yaml": "helmCharts:\n- {name: web, releaseName: web}\nresources: [own.yaml]\n"
    "images:\n- name: web\n  newTag: '2'\n",
    "over/own.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {level: info}\n",
    "over/charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "over/charts/web/values.yaml": "replicas: 2\n",
    # the fake prints templates as they are
    "over/charts/web/templates/web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    "spec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n      - {name: web, image: 'web:1'}\n",
}


def test_what_does_not_come_from_a_chart_is_set_beside_it() -> None:
    edit = edited(CHART, "data.level", "debug", kind="ConfigMap", helm=FakeHelm())
    assert (edit.file, changed_lines(CHART, edit)) == ("over/own.yaml", ["data: {level: debug}"])


def test_what_the_kustomization_sets_of_a_chart_is_set_there() -> None:
    edit = edited(CHART, 'spec.template.spec.containers[name="web"].image', "web:3", helm=FakeHelm())
    assert (edit.file, changed_lines(CHART, edit)) == ("over/kustomization.yaml", ["  newTag: '3'"])


def test_what_a_chart_sets_is_refused_with_the_ways_to_set_it() -> None:
    with pytest.raises(InvalidInput, match=r"\.spec\.replicas comes from the chart over/charts/web.*values file"):
        edited(CHART, "spec.replicas", "5", helm=FakeHelm())


def test_what_a_chart_sets_is_patched_where_asked_for() -> None:
    edit = edited(CHART, "spec.replicas", "5", EditScope(overlay=True), helm=FakeHelm())
    assert edit.file == "over/kustomization.yaml"
    assert changed_lines(CHART, edit)[-2:] == ["    spec:", "      replicas: 5"]


def test_a_folder_that_is_a_chart_is_not_edited() -> None:
    """An Application may render it with values of its own."""
    files = {name.replace("over/charts/web", "over"): text for name, text in CHART.items() if "charts" in name}
    with pytest.raises(InvalidInput, match="folders with charts are not edited"):
        edited(files, "spec.replicas", "5", helm=FakeHelm())


def test_an_environment_with_a_chart_is_not_changed_silently() -> None:
    shared = {
        **{name.replace("over/", "other/"): text for name, text in CHART.items() if "/charts/" in name},
        "base/own.yaml": CHART["over/own.yaml"],
        "base/kustomization.yaml": "resources: [own.yaml]\n",
        "over/kustomization.yaml": "resources: [../base]\n",
        "other/kustomization.yaml": "resources: [../base]\nhelmCharts:\n- {name: web, releaseName: web}\n",
    }
    with pytest.raises(InvalidInput, match="also changes ConfigMap own of other"):
        edited(shared, "data.level", "debug", kind="ConfigMap", helm=FakeHelm())
