from __future__ import annotations

import pytest

from tests.render.factories import config_map, only, refusal, rendered

TARGET = """\
apiVersion: x.io/v1
kind: Agent
metadata: {name: t}
spec:
  text: a.b.c
  number: 5
  items:
  - {name: one, v: x}
  - {name: two, v: y}
  inside: |
    # a comment
    server: {host: old, port: 1}
"""


def spec_of(source: str, target: str, more: str = "") -> dict:
    """Return the spec of the target after one replacement."""
    text = (
        "resources: [s.yaml, t.yaml]\nreplacements:\n"
        f"- source: {{kind: ConfigMap, name: s, {source}}}\n  targets:\n  - {{{target}}}\n{more}"
    )
    files = {"s.yaml": config_map("s", host="h:80", n="7"), "t.yaml": TARGET, "kustomization.yaml": text}
    return rendered(files).manifests[1]["spec"]


@pytest.mark.parametrize(
    ("source", "target", "field", "value"),
    [
        pytest.param("fieldPath: data.host", "fieldPaths: [spec.text]", "text", "h:80", id="a text"),
        pytest.param("fieldPath: data.n", "fieldPaths: [spec.number]", "number", 7, id="keeps the type of the target"),
        pytest.param(
            "fieldPath: data.host, options: {delimiter: ':', index: 1}",
            "fieldPaths: [spec.text], options: {delimiter: '.', index: 1}",
            "text",
            "a.80.c",
            id="a part of a part",
        ),
        pytest.param("", "fieldPaths: [spec.text]", "text", "s", id="the name by default"),
        pytest.param("fieldPath: .data.host", "fieldPaths: [.spec.text.]", "text", "h:80", id="dots at the ends"),
        pytest.param(
            "fieldPath: data.n",
            "fieldPaths: [spec.new.deep], options: {create: true}",
            "new",
            {"deep": 7},
            id="creates",
        ),
        pytest.param(
            "fieldPath: data.host",
            "fieldPaths: ['spec.items.[name=two].v']",
            "items",
            [{"name": "one", "v": "x"}, {"name": "two", "v": "h:80"}],
            id="an item by key",
        ),
        pytest.param(
            "fieldPath: data.n",
            "fieldPaths: [spec.items.*.v]",
            "items",
            [{"name": "one", "v": "7"}, {"name": "two", "v": "7"}],
            id="every item",
        ),
        pytest.param(
            "fieldPath: data.host",
            "fieldPaths: [spec.inside.server.host]",
            "inside",
            "# a comment\nserver: {host: 'h:80', port: 1}",
            id="inside a text that is YAML",
        ),
    ],
)
def test_a_value_is_copied(source, target, field, value):
    assert spec_of(source, f"select: {{kind: Agent}}, {target}")[field] == value


@pytest.mark.parametrize(
    ("select", "text"),
    [
        pytest.param("kind: A.*", "s", id="a kind"),
        pytest.param("kind: Agen", "a.b.c", id="the whole kind"),
        pytest.param("kind: Agent, name: '[st]'", "s", id="a name"),
        pytest.param("kind: Agent, version: v2|v1", "s", id="a version"),
        pytest.param("kind: Agent, group: x.io", "s", id="a group, where a dot is any character"),
        pytest.param("kind: Agent, namespace: default", "a.b.c", id="a namespace that is not written"),
    ],
)
def test_a_select_is_a_regular_expression_for_the_whole_value(select, text):
    assert spec_of("", f"select: {{{select}}}, fieldPaths: [spec.text]")["text"] == text


def test_a_source_is_not_a_regular_expression():
    line = "replacements: [{source: {kind: Config.*}, targets: [{select: {kind: Agent}}]}]\n"

    assert "no resource matches" in refusal({"t.yaml": TARGET, "kustomization.yaml": f"resources: [t.yaml]\n{line}"})


@pytest.mark.parametrize("value", ["v1", "'9'", "''"])
def test_a_source_value_is_written_in_the_replacement(value):
    line = f"- {{sourceValue: {value}, targets: [{{select: {{kind: Agent}}, fieldPaths: [spec.text]}}]}}\n"
    files = {"t.yaml": TARGET, "kustomization.yaml": f"resources: [t.yaml]\nreplacements:\n{line}"}

    assert rendered(files).manifests[0]["spec"]["text"] == value.strip("'")


INSIDE = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: t}}
data:
  f: |
{text}
"""


@pytest.mark.parametrize(
    ("text", "path", "create", "changed"),
    [
        pytest.param("a: 1 # why\nb: x\n", "a", False, "a: 7 # why\nb: x", id="a number stays one"),
        pytest.param("a: 'x'\n", "a", False, "a: '7'", id="a text stays one"),
        pytest.param("a: x\n", "a", False, 'a: "7"', id="also without quotes"),
        pytest.param(
            "l:\n- n: w\n  v: 1\n- n: x\n  v: 1\n", "l.[n=x].v", False, "l:\n- n: w\n  v: 1\n- n: x\n  v: 7", id="item"
        ),
        pytest.param("l: [1, 2]\n", "l.*", False, "l: [7, 7]", id="every item"),
        pytest.param("b: 1\na:\n  d: 1\n", "a.c", True, "b: 1\na:\n  d: 1\n  c: 7", id="a new field"),
        pytest.param('{"b": 1, "a": "<"}', "b", False, '{"a":"\\u003c","b":7}', id="JSON on one line"),
        pytest.param('{\n  "b": "1"\n}\n', "b", False, '{\n  "b": "7"\n}', id="JSON on several lines"),
        pytest.param('{"a": {}}', "a.c", True, '{"a":{"c":7}}', id="a new field in JSON"),
    ],
)
def test_a_value_inside_a_text_is_set_as_kustomize_sets_it(text, path, create, changed):
    """The expected texts are those of Kustomize 5.8.1."""
    options = ", options: {create: true}" if create else ""
    target = INSIDE.format(text="".join(f"    {line}\n" for line in text.splitlines()))
    line = f"- {{sourceValue: '7', targets: [{{select: {{name: t}}, fieldPaths: ['data.f.{path}']{options}}}]}}\n"
    files = {"t.yaml": target, "kustomization.yaml": f"resources: [t.yaml]\nreplacements:\n{line}"}

    assert only(files)["data"]["f"] == changed


@pytest.mark.parametrize("text", ["a: 1", "a: true", "plain", "- 1", "a: [1", "b: 1\n    ---\n    a: x"])
def test_a_text_that_cannot_take_a_value_is_refused(text):
    line = "- {sourceValue: x, targets: [{select: {name: t}, fieldPaths: [data.f.a]}]}\n"
    files = {
        "t.yaml": INSIDE.format(text=f"    {text}"),
        "kustomization.yaml": f"resources: [t.yaml]\nreplacements:\n{line}",
    }

    assert "unable to find the field data.f.a" in refusal(files)


def test_a_reject_takes_from_what_is_selected():
    assert spec_of("", "select: {kind: Agent}, reject: [{name: t}], fieldPaths: [spec.text]")["text"] == "a.b.c"


@pytest.mark.parametrize(
    ("replacement", "says"),
    [
        ("{source: {kind: ConfigMap, name: s}}", "needs a source or a sourceValue, and targets"),
        ("{source: {kind: ConfigMap}, targets: [{select: {kind: Agent}}]}", "2 resources match the source"),
        ("{source: {kind: Secret}, targets: [{select: {kind: Agent}}]}", "no resource matches the source"),
        (
            "{source: {kind: Agent, fieldPath: spec.gone}, targets: [{select: {kind: Agent}}]}",
            "spec.gone of a replacement is missing",
        ),
        ("{source: {kind: Agent}, targets: [{fieldPaths: [spec]}]}", "has no select"),
        (
            "{source: {kind: Agent}, targets: [{select: {kind: Agent}, fieldPaths: [spec.gone]}]}",
            "unable to find the field spec.gone",
        ),
        ("{source: {kind: Agent}, targets: [{select: {kind: Agent}, fieldPaths: [spec.items.9]}]}", "item 9"),
        ("{source: {kind: Agent}, targets: [{select: {kind: Agent}, fieldPaths: [spec.number]}]}", "cannot become 't'"),
        ("{sourceValue: '1e3', targets: [{select: {kind: Agent}, fieldPaths: [spec.number]}]}", "cannot become '1e3'"),
        ("{sourceValue: '1.0', targets: [{select: {kind: Agent}, fieldPaths: [spec.number]}]}", "cannot become '1.0'"),
        (
            "{source: {kind: Agent, fieldPath: spec.text, options: {delimiter: ., index: 9}}, "
            "targets: [{select: {kind: Agent}}]}",
            "options.index 9",
        ),
        ("{path: r.yaml, source: {kind: Agent}}", "a path and a source"),
    ],
)
def test_what_cannot_be_replaced_is_refused_with_its_line(replacement, says):
    text = f"resources: [s.yaml, t.yaml]\nreplacements:\n- {replacement}\n"
    two = config_map("s") + "---\n" + config_map("u")
    line = refusal({"s.yaml": two, "t.yaml": TARGET, "kustomization.yaml": text})

    assert line.startswith("kustomization.yaml:")
    assert says in line


def test_replacements_may_stand_in_a_file():
    files = {
        "s.yaml": config_map("s"),
        "t.yaml": TARGET,
        "r.yaml": "- source: {kind: ConfigMap, name: s}\n"
        "  targets: [{select: {kind: Agent}, fieldPaths: [spec.text]}]\n",
        "kustomization.yaml": "resources: [s.yaml, t.yaml]\nreplacements: [{path: r.yaml}]\n",
    }

    assert rendered(files).manifests[1]["spec"]["text"] == "s"


def test_an_object_that_a_replacement_renames_is_found_by_its_new_name() -> None:
    """The next replacement selects it by name."""
    made = rendered(
        {
            "r.yaml": config_map("a", called="c", value="one") + "---\n" + config_map("b"),
            "kustomization.yaml": (
                "resources: [r.yaml]\n"
                "replacements:\n"
                "- source: {name: a, fieldPath: data.called}\n"
                "  targets: [{select: {name: b}}]\n"
                "- source: {name: a, fieldPath: data.value}\n"
                "  targets: [{select: {name: c}, fieldPaths: [data.copied], options: {create: true}}]\n"
            ),
        }
    )
    assert [(one["metadata"]["name"], one.get("data", {}).get("copied")) for one in made.manifests] == [
        ("a", None),
        ("c", "one"),
    ]


def test_a_selector_of_labels_that_cannot_be_read_is_refused_though_nothing_has_the_name() -> None:
    assert "is not a label selector" in refusal(
        {
            "r.yaml": config_map("a", k="1"),
            "kustomization.yaml": (
                "resources: [r.yaml]\n"
                "replacements:\n"
                "- source: {name: a, fieldPath: data.k}\n"
                "  targets: [{select: {name: none, labelSelector: '='}, fieldPaths: [data.k]}]\n"
            ),
        }
    )
