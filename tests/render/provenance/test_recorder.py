from __future__ import annotations

from collections import Counter

import pytest

from gitsync.render.build import build
from tests.render.factories import DEPLOYMENT, config_map, rendered
from tests.render.kustomize_cases import MemoryTree

FILES = {
    "base/kustomization.yaml": "resources:\n- d.yaml\nconfigMapGenerator:\n- {name: g, literals: [a=b]}\n",
    "base/d.yaml": DEPLOYMENT,
    "kustomization.yaml": "namePrefix: p-\nresources: [base]\npatches:\n- path: p.yaml\n"
    "images:\n- {name: nginx, newTag: '2'}\n",
    "p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 3\n  template:\n"
    "    spec:\n      containers:\n      - name: side\n        image: s:1\n",
}


def setters(path: str, index: int = 1) -> list[str]:
    """Return the steps that set a field of one of the manifests."""
    return [str(one) for one in rendered(FILES, provenance=True).provenance[index].of(path)]


def test_a_field_nobody_changed_comes_from_its_file():
    assert setters("kind") == ["base/d.yaml:2: resource"]


def test_a_field_a_patch_changed_names_the_line_in_the_patch():
    assert setters("spec.replicas") == ["base/d.yaml:6: resource", "p.yaml:5: PatchTransformer"]


def test_a_field_that_a_patch_adds_comes_from_the_patch_alone():
    assert setters("spec.template.spec.containers.[name=side].image") == ["p.yaml:10: PatchTransformer"]


def test_an_item_can_be_named_by_its_index():
    image = setters("spec.template.spec.containers.1.image")

    assert image == ["base/d.yaml:11: resource", "kustomization.yaml:6: ImageTagTransformer"]


def test_the_steps_of_a_generated_name_are_all_there():
    assert [line.partition(": ")[2] for line in setters("metadata.name", 0)] == [
        "ConfigMapGenerator",
        "PrefixTransformer",
        "name hash",
    ]


def test_a_build_that_is_not_asked_records_nothing():
    assert rendered(FILES).provenance == ()


def test_plain_manifests_have_a_history_too():
    made = rendered({"a.yaml": config_map("a")}, provenance=True)

    assert [str(one) for one in made.provenance[0].of("metadata.name")] == ["a.yaml:4: manifest"]
    assert made.sources[0].file == "a.yaml"


class CountingTree(MemoryTree):
    """A tree that counts how often each file is read."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__({name: text.encode() for name, text in files.items()})
        self.reads: Counter[str] = Counter()

    def read(self, path: str) -> bytes:
        self.reads[path] += 1
        return super().read(path)


@pytest.mark.parametrize(
    "kustomization", [{}, {"kustomization.yaml": "resources: [many.yaml]\n"}], ids=["plain", "with a kustomization"]
)
def test_a_file_of_many_objects_is_not_read_for_each(kustomization: dict[str, str]) -> None:
    objects = "---\n".join(config_map(f"c{number}") for number in range(50))
    tree = CountingTree({"many.yaml": objects, **kustomization})
    made = build(tree, "", provenance=True)
    assert len({str(history.of("metadata.name")[0]) for history in made.provenance}) == 50
    assert tree.reads["many.yaml"] <= 3


def test_a_merged_generator_goes_on_with_the_history_of_the_base():
    files = {
        **FILES,
        "kustomization.yaml": "resources: [base]\nconfigMapGenerator:\n- {name: g, behavior: merge, literals: [a=c]}\n",
    }
    history = rendered(files, provenance=True).provenance[0]

    assert [one.where for one in history.of("data.a")] == ["base/kustomization.yaml:4", "kustomization.yaml:3"]


def test_the_data_of_a_generator_comes_from_its_literals_and_files():
    files = {
        "over/kustomization.yaml": "resources: [../base]\nsecretGenerator:\n- name: s\n  literals:\n"
        "  - one=1\n  - two=2\n",
        "base/kustomization.yaml": "configMapGenerator:\n- name: g\n  literals:\n  - a=1\n"
        "  files: [prompt.md, other=texts/o.md]\n  envs: [e.env]\n",
        "base/prompt.md": "hello\n",
        "base/texts/o.md": "there\n",
        "base/e.env": "# a comment\nx=1\n\ny=2\n",
    }

    made = {str(one.step): one for one in rendered(files, "over", provenance=True).provenance}

    places = {key: made["ConfigMapGenerator"].of(f"data.{key}")[-1].where for key in ("a", "other", "x", "y")}
    assert places == {
        "a": "base/kustomization.yaml:4",
        "other": "base/texts/o.md:1",
        "x": "base/e.env:2",
        "y": "base/e.env:4",
    }
    (prompt,) = made["ConfigMapGenerator"].setters(("data", "prompt.md"))
    assert str(prompt) == "base/prompt.md:1: ConfigMapGenerator"
    assert made["SecretGenerator"].of("data.two")[0].where == "over/kustomization.yaml:6"
    assert made["SecretGenerator"].of("type")[0].where == "over/kustomization.yaml:3"


HEAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"


@pytest.mark.parametrize(
    ("patch", "field", "places"),
    [
        pytest.param("path: p.yaml", "spec.replicas", ["r.yaml:6", "p.yaml:5"], id="a file"),
        pytest.param(
            'target: {kind: Deployment}, patch: \'[{"op": "replace", "path": "/spec/replicas", "value": 1}]\'',
            "spec.replicas",
            ["r.yaml:6", "kustomization.yaml:3"],
            id="a JSON patch",
        ),
        pytest.param("path: p.yaml", "spec.template.spec.containers.0.name", ["r.yaml:10", "p.yaml:9"], id="an item"),
        pytest.param("path: p.yaml", "spec.template.spec.containers.0.image", ["r.yaml:11"], id="what it does not set"),
    ],
)
def test_a_patch_that_repeats_a_value_is_the_last_to_set_it(patch, field, places):
    repeated = f"{HEAD}spec:\n  replicas: 1\n  template:\n    spec:\n      containers:\n      - name: web\n"
    files = {
        "r.yaml": DEPLOYMENT,
        "p.yaml": repeated,
        "kustomization.yaml": f"resources: [r.yaml]\npatches:\n- {{{patch}}}\n",
    }
    (history,) = rendered(files, provenance=True).provenance

    assert [setter.where for setter in history.of(field)] == places


def test_a_generator_that_repeats_a_value_is_the_last_to_set_it():
    head = "configMapGenerator:\n- {name: g"
    files = {
        "base/kustomization.yaml": f"{head}, literals: [a=b]}}\n",
        "kustomization.yaml": f"resources: [base]\n{head}, behavior: merge, literals: [a=b]}}\n",
    }
    (history,) = rendered(files, provenance=True).provenance

    assert [setter.where for setter in history.of("data.a")] == ["base/kustomization.yaml:2", "kustomization.yaml:3"]


SERVICE = (
    "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports:\n"
    "  - {port: 53, protocol: UDP}\n  - {port: 53, protocol: TCP}\n  - {port: 80}\n"
)


def test_items_with_equal_keys_are_distinguished_by_further_keys():
    (history,) = rendered({"s.yaml": SERVICE}, provenance=True).provenance

    assert {path[2:]: value for path, value in history.leaves.items() if path[0] == "spec"} == {
        ("[port=53,protocol=UDP]", "port"): 53,
        ("[port=53,protocol=UDP]", "protocol"): "UDP",
        ("[port=53,protocol=TCP]", "port"): 53,
        ("[port=53,protocol=TCP]", "protocol"): "TCP",
        ("[port=80]", "port"): 80,
    }
    assert [setter.where for setter in history.of("spec.ports.1.protocol")] == ["s.yaml:7"]
    assert len(history.below(("spec", "ports", "[port=53]"))) == 4
    assert len(history.below(("spec", "ports", "[port=80,protocol=TCP]"))) == 1


def test_items_with_all_keys_equal_are_distinguished_by_their_index():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    env:\n"
    text = f"{pod}    - {{name: A, value: x}}\n    - {{name: A, value: y}}\n"
    (history,) = rendered({"p.yaml": text}, provenance=True).provenance
    env = ("spec", "containers", "[name=c]", "env")

    assert history.leaves[*env, "0", "value"] == "x"
    assert history.leaves[*env, "1", "value"] == "y"
    assert [setter.where for setter in history.setters((*env, "1", "value"))] == ["p.yaml:9"]


def test_a_patch_of_one_of_several_items_with_equal_keys_sets_that_one_only():
    patch = SERVICE.replace("  - {port: 53, protocol: UDP}\n", "").replace("TCP}", "TCP, nodePort: 30053}")
    files = {
        "s.yaml": SERVICE,
        "p.yaml": patch.replace("  - {port: 80}\n", ""),
        "kustomization.yaml": "resources: [s.yaml]\npatches: [{path: p.yaml}]\n",
    }
    (history,) = rendered(files, provenance=True).provenance
    places = {
        item: [setter.where for setter in history.of(f"spec.ports.[port=53,protocol={item}].port")]
        for item in ("UDP", "TCP")
    }

    assert places == {"UDP": ["s.yaml:6"], "TCP": ["s.yaml:7", "p.yaml:6"]}
    assert [one.where for one in history.of("spec.ports.[port=53,protocol=TCP].nodePort")] == ["p.yaml:6"]


def test_a_patch_may_name_an_item_by_another_key():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    volumeMounts:\n"
    files = {
        "r.yaml": f"{pod}    - {{name: v, mountPath: /a}}\n    - {{name: v, mountPath: /b}}\n",
        "p.yaml": f"{pod}    - {{mountPath: /b, readOnly: true}}\n",
        "kustomization.yaml": "resources: [r.yaml]\npatches: [{path: p.yaml}]\n",
    }
    (history,) = rendered(files, provenance=True).provenance

    mounted = "spec.containers.0.volumeMounts.[name=v,mountPath=/b]"
    assert [one.where for one in history.of(f"{mounted}.readOnly")] == ["p.yaml:8"]
    assert [one.where for one in history.of(f"{mounted}.mountPath")] == ["r.yaml:9", "p.yaml:8"]


@pytest.mark.parametrize(
    ("patch", "renamed", "place"),
    [
        pytest.param(
            '[{"op": "replace", "path": "/spec/ports/2/port", "value": 81}, '
            '{"op": "add", "path": "/spec/ports/-", "value": {"port": 90}}]',
            "[port=81]",
            "s.yaml:8",
            id="and another one is appended",
        ),
        pytest.param(
            '[{"op": "replace", "path": "/spec/ports/1/port", "value": 54}]',
            "[port=54]",
            "s.yaml:7",
            id="that shared its key before",
        ),
        pytest.param(
            '[{"op": "replace", "path": "/spec/ports/2/port", "value": 53}]',
            "2",
            "s.yaml:8",
            id="that shares its key now",
        ),
    ],
)
def test_an_item_keeps_its_origin_when_its_key_changes(patch, renamed, place):
    patches = f"patches: [{{target: {{kind: Service}}, patch: '{patch}'}}]\n"
    files = {"s.yaml": SERVICE, "kustomization.yaml": f"resources: [s.yaml]\n{patches}"}
    (history,) = rendered(files, provenance=True).provenance

    found = history.setters(("spec", "ports", renamed, "port"))
    assert [setter.where for setter in found] == [place, "kustomization.yaml:2"]


def test_an_item_that_is_renamed_keeps_its_origin():
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  imagePullSecrets:\n"
        "  - name: other\n  - name: key\n    note: x\n"
    )
    files = {
        "r.yaml": f"{pod}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\n",
        "kustomization.yaml": "resources: [r.yaml]\nnamePrefix: p-\n",
    }
    history = next(
        item
        for item in rendered(files, provenance=True).provenance
        if ("spec", "imagePullSecrets", "[name=other]", "name") in item.leaves
    )

    assert [str(setter) for setter in history.of("spec.imagePullSecrets.[name=p-key].name")] == [
        "r.yaml:7: resource",
        "build: name reference",
    ]
    assert [str(setter) for setter in history.of("spec.imagePullSecrets.[name=p-key].note")] == ["r.yaml:8: resource"]


def test_annotations_that_are_not_in_the_result_are_not_in_the_history():
    files = {
        "r.yaml": config_map("a").replace("name: a", "name: a\n  annotations: {}"),
        "kustomization.yaml": "resources: [r.yaml]\n",
    }
    built = rendered(files, provenance=True)

    assert "annotations" not in built.manifests[0]["metadata"]
    assert not any("annotations" in path for path in built.provenance[0].leaves)


RULES = (
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules:\n"
    "- resources: [pods]\n  verbs: [get]\n- resources: [secrets]\n  verbs: [get]\n"
)


@pytest.mark.parametrize(
    ("operations", "places"),
    [
        pytest.param(
            "- op: add\n  path: /rules/0\n  value:\n    verbs: [get]\n",
            ["p.yaml:4", "r.yaml:6", "r.yaml:8"],
            id="in front of the others",
        ),
        pytest.param(
            "- op: add\n  path: /rules/-\n  value:\n    verbs: [get]\n    resources: [a]\n"
            "- op: add\n  path: /rules/-\n  value:\n    verbs: [get]\n    resources: [b]\n",
            ["r.yaml:6", "r.yaml:8", "p.yaml:4", "p.yaml:9"],
            id="two behind the others",
        ),
        pytest.param("- op: remove\n  path: /rules/0\n", ["r.yaml:8"], id="one is removed"),
        pytest.param(
            "- op: add\n  path: /rules/1/verbs/0\n  value: list\n", ["r.yaml:6", "p.yaml:3"], id="inside of an item"
        ),
    ],
)
def test_items_without_keys_keep_their_lines(operations: str, places: list[str]) -> None:
    files = {
        "r.yaml": RULES,
        "p.yaml": operations,
        "kustomization.yaml": "resources: [r.yaml]\npatches:\n- {path: p.yaml, target: {kind: Role}}\n",
    }
    history = rendered(files, provenance=True).provenance[0]

    verbs = [history.setters(("rules", str(index), "verbs", "0"))[-1].where for index in range(len(places))]
    assert verbs == places


def test_a_list_with_keys_keeps_its_lines_where_one_is_appended() -> None:
    task = "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: t}\nspec:\n  params:\n  - {name: a, type: string}\n"
    files = {
        "t.yaml": task,
        "p.yaml": "- op: add\n  path: /spec/params/-\n  value: {name: b, type: string}\n",
        "kustomization.yaml": "resources: [t.yaml]\npatches:\n- {path: p.yaml, target: {kind: Task}}\n",
    }
    history = rendered(files, provenance=True).provenance[0]

    assert [str(setter) for setter in history.of("spec.params.[name=a].type")] == ["t.yaml:6: resource"]
    assert [str(setter) for setter in history.of("spec.params.[name=b].type")] == ["p.yaml:3: PatchTransformer"]
