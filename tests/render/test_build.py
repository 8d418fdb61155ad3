from __future__ import annotations

import pickle

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import build
from gitsync.render.kustomize.files import ParseCache
from tests.render.factories import DEPLOYMENT, config_map, only, refusal, rendered
from tests.render.kustomize_cases import MemoryTree

OVERLAY = {
    "base/kustomization.yaml": "resources: [cm.yaml]\n",
    "base/cm.yaml": config_map("a"),
    "other/cm.yaml": config_map("b"),
    "over/kustomization.yaml": "resources: [../base]\nnamePrefix: p-\n",
}


def test_an_overlay_renders_its_base_with_its_changes():
    assert only(OVERLAY, "over")["metadata"]["name"] == "p-a"


def test_the_read_set_holds_what_was_read_and_what_was_looked_for_in_vain():
    read = rendered(OVERLAY, "over").files_read

    assert {"over/kustomization.yaml", "base/kustomization.yaml", "base/cm.yaml", "base/kustomization.yml"} <= read
    assert not any(path.startswith("other") for path in read)


def test_a_change_outside_the_read_set_changes_nothing():
    before = rendered(OVERLAY, "over")
    changed = {path: text if path in before.files_read else "x: [" for path, text in OVERLAY.items()}

    assert rendered(changed, "over") == before


def test_the_same_tree_gives_the_same_result_from_a_cache():
    cache = ParseCache()
    cold = rendered(OVERLAY, "over")

    assert rendered(OVERLAY, "over", cache=cache) == cold
    assert rendered(OVERLAY, "over", cache=cache) == cold


def test_a_result_can_be_sent_to_another_process():
    made = rendered(OVERLAY, "over", provenance=True)

    assert pickle.loads(pickle.dumps(made)).manifests == made.manifests


def test_a_folder_without_a_kustomization_is_all_its_manifests():
    files = {"app/b.yaml": config_map("b"), "app/sub/a.yml": config_map("a"), "app/readme.md": "x", "c.yaml": "y"}

    assert [manifest["metadata"]["name"] for manifest in rendered(files, "app").manifests] == ["b", "a"]


def test_plain_manifests_get_a_name_for_their_generated_one():
    text = b"apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: migrate-\nspec:\n  n: %d\n"
    first, second = (build(MemoryTree({"app/job.yaml": text % n}), "app").manifests[0]["metadata"] for n in (1, 2))
    assert first["generateName"] == "migrate-"
    assert first["name"].startswith("migrate-")
    assert first["name"] != second["name"]
    assert build(MemoryTree({"app/job.yaml": text % 1}), "app").manifests[0]["metadata"] == first


def test_kustomize_rejects_a_generated_name():
    files = {
        "app/kustomization.yaml": b"resources: [job.yaml]\n",
        "app/job.yaml": b"apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: migrate-\n",
    }
    with pytest.raises(InvalidInput, match=r"has no metadata\.name"):
        build(MemoryTree(files), "app")


def test_a_plain_folder_depends_on_every_name_below_it():
    assert "app/" in rendered({"app/b.yaml": config_map("b")}, "app").files_read


def test_plain_rejects_a_file_that_is_not_an_object():
    assert "the object has no kind" in refusal({"values.yaml": "resources: []\n"}, renderer="Plain")


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
@pytest.mark.parametrize("head", ["", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"])
@pytest.mark.parametrize("renderer", ["Auto", "Plain"])
def test_a_kustomization_below_plain_manifests_is_rejected_by_name(name, head, renderer):
    files = {"app/cm.yaml": config_map("a"), f"app/over/{name}": f"{head}resources: [../cm.yaml]\n"}
    line = refusal(files, "app", renderer=renderer)

    assert line.startswith(f"app/over/{name}: a kustomization file is not a Kubernetes object")
    assert "path of the application to app/over" in line


def test_an_object_of_flux_may_stand_in_a_file_named_as_a_kustomization():
    flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps}\n"

    assert only({"app/flux/kustomization.yaml": flux}, "app")["metadata"]["name"] == "apps"


@pytest.mark.parametrize(
    ("path", "renderer"),
    [
        pytest.param("chart", "Plain", id="as plain manifests"),
        pytest.param("chart", "Kustomize", id="as a kustomization"),
        pytest.param("", "Plain", id="below plain manifests"),
        pytest.param("over", "Auto", id="as a base"),
    ],
)
def test_a_helm_chart_is_rejected_with_what_to_do(path, renderer):
    files = {
        "chart/Chart.yaml": "apiVersion: v2\nname: web\n",
        "chart/templates/d.yaml": "kind: {{ .Values.kind }}\n",
        "over/kustomization.yaml": "resources: [../chart]\n",
    }
    line = refusal(files, path, renderer=renderer)

    assert "chart/Chart.yaml: the folder chart is a Helm chart" in line
    assert "name it in helmCharts of a kustomization" in line


def test_a_plain_folder_without_manifests_is_refused():
    assert "neither a kustomization file nor manifests" in refusal({"app/x.txt": ""}, "app")


def test_an_object_twice_in_plain_files_is_refused_with_both_files():
    line = refusal({"a.yaml": config_map("x"), "b.yaml": config_map("x")})

    assert "a.yaml" in line
    assert "b.yaml" in line


def test_kustomize_is_demanded_where_the_application_says_so():
    assert "none of kustomization.yaml" in refusal({"a.yaml": config_map("a")}, renderer="Kustomize")


@pytest.mark.parametrize("path", ["gone", "a.yaml"])
def test_a_path_that_is_no_folder_is_refused(path):
    assert path in refusal({"a.yaml": config_map("a")}, path)


def test_two_kustomization_files_are_refused():
    assert "kustomization.yml" in refusal(
        {"kustomization.yaml": "namespace: a\n", "kustomization.yml": "namespace: b\n"}
    )


def test_local_configuration_is_not_part_of_the_result():
    files = {
        "kustomization.yaml": "resources: [a.yaml]\n",
        "a.yaml": config_map("a")
        + "---\n"
        + config_map("b").replace("  name: b", "  name: b\n  annotations: {config.kubernetes.io/local-config: 'true'}"),
    }

    assert only(files)["metadata"]["name"] == "a"


def test_annotations_become_texts_and_an_empty_mapping_goes():
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {v: 1.10, n: 0x10, b: true}}\n"
    empty = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {}}\n"
    first, second = rendered({"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": f"{text}---\n{empty}"}).manifests

    assert first["metadata"]["annotations"] == {"v": "1.10", "n": "0x10", "b": "true"}
    assert "annotations" not in second["metadata"]


def test_nothing_of_the_build_stays_in_the_values():
    manifest = only({"kustomization.yaml": "resources: [d.yaml]\n", "d.yaml": DEPLOYMENT + "  x: 1.50\n  y: '2'\n"})

    assert type(manifest["spec"]["x"]) is float
    assert type(manifest["spec"]["y"]) is str


def test_objects_that_become_the_same_are_refused():
    line = refusal(
        {
            "kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {name: a}\n"
            "  patch: '- {op: replace, path: /metadata/name, value: b}'\n",
            "a.yaml": config_map("a") + "---\n" + config_map("b"),
        }
    )

    assert "become the same" in line


def test_a_link_inside_the_tree_is_followed():
    tree = MemoryTree(
        {
            "app/kustomization.yaml": b"resources: [cm.yaml]\n",
            "app/cm.yaml": "real.yaml",
            "app/real.yaml": config_map("a").encode(),
        }
    )
    made = build(tree, "app")

    assert made.manifests[0]["metadata"]["name"] == "a"
    assert {"app/cm.yaml", "app/real.yaml"} <= made.files_read


KINDS = ("Service", "Agent", "ConfigMap", "Namespace", "ValidatingWebhookConfiguration")


def order_of(options: str) -> list[str]:
    """Return the kinds in the order of the output."""
    text = "---\n".join(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n" for kind in KINDS)
    made = rendered({"kustomization.yaml": f"resources: [r.yaml]\n{options}", "r.yaml": text})
    return [manifest["kind"] for manifest in made.manifests]


LEGACY = ["Namespace", "ConfigMap", "Service", "Agent", "ValidatingWebhookConfiguration"]


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ("", LEGACY),
        ("sortOptions: {order: legacy}\n", LEGACY),
        ("sortOptions: {order: fifo}\n", list(KINDS)),
        (
            "sortOptions: {order: legacy, legacySortOptions: {orderFirst: [Service], orderLast: [Agent, ConfigMap]}}\n",
            ["Service", "Namespace", "ValidatingWebhookConfiguration", "Agent", "ConfigMap"],
        ),
    ],
)
def test_the_output_is_ordered(options, kinds):
    assert order_of(options) == kinds


@pytest.mark.parametrize(
    "options", ["sortOptions: {order: x}\n", "sortOptions: {}\n", "sortOptions: {order: fifo, legacySortOptions: {}}\n"]
)
def test_an_order_that_is_not_known_is_refused(options):
    line = refusal(
        {"kustomization.yaml": f"resources: [r.yaml]\n{options}", "r.yaml": "kind: A\nmetadata: {name: a}\n"}
    )

    assert line.startswith("kustomization.yaml:2")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("overlay/prod", "similar paths: overlays"),
        ("overlays/prd", "similar paths: overlays/prod"),
        ("./overlays/prod/x", "correct the path of the application"),
        ("unlike", "correct the path of the application"),
    ],
)
def test_a_path_that_is_gone_has_those_of_similar_names(path, hint):
    files = {"overlays/prod/a.yaml": config_map("a"), "overlays/dev/a.yaml": config_map("a")}
    assert refusal(files, path).endswith(f"does not exist; {hint}")
