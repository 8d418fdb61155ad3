from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.kustomize.transformers import split_image
from tests.render.factories import DEPLOYMENT, config_map, patched, refusal, rendered


def image_of(kustomization: str, image: str = "nginx:1") -> str:
    """Return the image of the Deployment's container."""
    manifest = patched(DEPLOYMENT.replace("nginx:1", image), kustomization)
    return manifest["spec"]["template"]["spec"]["containers"][0]["image"]


@pytest.mark.parametrize(
    ("image", "change", "result"),
    [
        ("nginx:1", "{name: nginx, newTag: v2}", "nginx:v2"),
        ("nginx", "{name: nginx, newTag: v2}", "nginx:v2"),
        ("nginx:1", "{name: nginx, newName: reg.io/x}", "reg.io/x:1"),
        ("nginx:1", "{name: nginx, digest: 'sha256:ab'}", "nginx@sha256:ab"),
        ("nginx:1@sha256:ab", "{name: nginx, newTag: v2}", "nginx:v2"),
        ("nginx:1", "{name: nginx, tagSuffix: -x}", "nginx:1-x-x"),  # Kustomize goes over such a field twice
        ("nginx:1", "{name: ngin, newTag: v2}", "nginx:1"),
        ("x/nginx:1", "{name: nginx, newTag: v2}", "x/nginx:1"),
        ("reg.io:5000/a/b:1", "{name: 'reg.io:5000/a/b', newTag: v2}", "reg.io:5000/a/b:v2"),
        ("app-web:1", "{name: 'app-.*', newTag: v2}", "app-web:v2"),
    ],
)
def test_an_image_is_changed_where_its_whole_name_matches(image, change, result):
    assert image_of(f"images: [{change}]\n", image) == result


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("a", ("a", "", "")),
        ("a:1", ("a", "1", "")),
        ("h:80/a", ("h:80/a", "", "")),
        ("h:80/a:1@d:e", ("h:80/a", "1", "d:e")),
        ("a@d:e", ("a", "", "d:e")),
    ],
)
def test_an_image_reference_has_a_name_a_tag_and_a_digest(image, parts):
    assert split_image(image) == parts


def test_containers_are_found_in_any_kind():
    manifest = (
        "apiVersion: x.io/v1\nkind: Agent\nmetadata: {name: a}\nspec: {run: {containers: [{image: 'nginx:1'}]}}\n"
    )

    assert patched(manifest, "images: [{name: nginx, newTag: '2'}]\n")["spec"]["run"]["containers"] == [
        {"image": "nginx:2"}
    ]


def test_the_image_of_a_volume_is_changed():
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: v, image: {reference: data:1}}]}\n"
    changed = patched(pod, "images: [{name: data, newTag: '2'}]\n")

    assert changed["spec"]["volumes"] == [{"name": "v", "image": {"reference": "data:2"}}]


def test_a_regular_expression_that_explodes_elsewhere_is_answered_at_once():
    assert image_of("images: [{name: '(a+)+b', newTag: '2'}]\n", "a" * 40 + "!")


@pytest.mark.parametrize("change", ["{name: '(', newTag: v2}"])
def test_an_image_name_that_is_no_expression_is_refused(change):
    line = refusal({"r.yaml": DEPLOYMENT, "kustomization.yaml": f"resources: [r.yaml]\nimages: [{change}]\n"})

    assert line.startswith("kustomization.yaml:2")


def test_labels_go_to_selectors_and_templates_only_where_asked():
    only_meta = patched(DEPLOYMENT, "labels: [{pairs: {a: b}}]\n")
    templates = patched(DEPLOYMENT, "labels: [{pairs: {a: b}, includeTemplates: true}]\n")
    selectors = patched(DEPLOYMENT, "labels: [{pairs: {a: b}, includeSelectors: true}]\n")

    assert "metadata" not in only_meta["spec"]["template"]
    assert templates["spec"]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert "selector" not in templates["spec"]
    assert selectors["spec"]["selector"] == {"matchLabels": {"a": "b"}}


def test_a_label_that_yaml_would_not_read_as_a_text_is_refused():
    assert "cannot become a key" in refusal(
        {"r.yaml": DEPLOYMENT, "kustomization.yaml": "resources: [r.yaml]\nlabels: [{pairs: {'1': b}}]\n"}
    )


def test_a_namespace_is_not_for_what_has_none():
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\n"
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: old}\n"
    files = {"r.yaml": f"{role}---\n{space}---\n{config_map('c')}"}
    made = rendered({**files, "kustomization.yaml": "resources: [r.yaml]\nnamespace: ns\n"}).manifests

    assert [one["metadata"] for one in made] == [{"name": "ns"}, {"name": "r"}, {"name": "c", "namespace": "ns"}]


def test_the_default_account_of_a_binding_is_put_into_the_namespace():
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\n"
        "subjects: [{kind: ServiceAccount, name: default}, {kind: ServiceAccount, name: other}]\n"
    )

    assert patched(binding, "namespace: ns\n")["subjects"] == [
        {"kind": "ServiceAccount", "name": "default", "namespace": "ns"},
        {"kind": "ServiceAccount", "name": "other"},
    ]


def test_two_objects_that_a_namespace_makes_one_are_refused():
    files = {"r.yaml": config_map("a") + "---\n" + config_map("a").replace("name: a", "name: a\n  namespace: x")}

    assert "twice" in refusal({**files, "kustomization.yaml": "resources: [r.yaml]\nnamespace: ns\n"})


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition"])
def test_some_names_take_no_prefix(kind):
    assert (
        patched(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n", "namePrefix: p-\n")["metadata"]["name"] == "a"
    )


def test_replicas_are_set_by_name_and_an_unknown_name_is_refused():
    assert patched(DEPLOYMENT, "replicas: [{name: web, count: 7}]\n")["spec"]["replicas"] == 7
    assert "no resource with the name x" in refusal(
        {"r.yaml": DEPLOYMENT, "kustomization.yaml": "resources: [r.yaml]\nreplicas: [{name: x, count: 1}]\n"}
    )


def test_a_path_through_a_plain_value_is_refused_with_the_file():
    line = refusal(
        {
            "r.yaml": DEPLOYMENT.replace("template:", "template: x\n  y:"),
            "kustomization.yaml": "resources: [r.yaml]\ncommonLabels: {a: b}\n",
        }
    )

    assert "r.yaml: Deployment web" in line


def test_a_configuration_names_the_fields_of_other_kinds():
    files = {
        "r.yaml": "apiVersion: x.io/v1\nkind: Agent\nmetadata: {name: a}\nspec: {img: 'nginx:1', note: {}}\n",
        "c.yaml": "images: [{path: spec/img, kind: Agent}]\ncommonAnnotations: [{path: spec/note, kind: Agent}]\n",
        "kustomization.yaml": "resources: [r.yaml]\nconfigurations: [c.yaml]\n"
        "images: [{name: nginx, newTag: '2'}]\ncommonAnnotations: {a: b}\n",
    }

    assert rendered(files).manifests[0]["spec"] == {"img": "nginx:2", "note": {"a": "b"}}


CUSTOM = "apiVersion: x.io/v1\nkind: Agent\nmetadata: {name: a}\nspec: "


def configured(spec: str, path: str, *, create: bool = False, change: str = "namePrefix: p-", field: str = "") -> dict:
    """Return what one change makes of a spec where a configuration names a path for it."""
    field = field or change.partition(":")[0]
    files = {
        "r.yaml": f"{CUSTOM}{spec}\n",
        "c.yaml": f"{field}: [{{path: '{path}', create: {str(create).lower()}}}]\n",
        "kustomization.yaml": f"resources: [r.yaml]\nconfigurations: [c.yaml]\n{change}\n",
    }
    return rendered(files).manifests[0]["spec"]


@pytest.mark.parametrize(
    ("spec", "path", "create", "made"),
    [
        pytest.param("{a: x}", "/spec/a", False, {"a": "p-x"}, id="a slash may come first"),
        pytest.param("{}", "spec/a/b", True, {"a": {"b": "p-"}}, id="a missing name is created"),
        pytest.param("{}", "spec/a/b", False, {}, id="or not"),
        pytest.param("{l: null}", "spec/l[]/b", False, {"l": []}, id="a list that is null is empty"),
        pytest.param("[]", "spec/0/b", False, [], id="a part that is not a name is not reached"),
    ],
)
def test_a_path_leads_where_kustomize_says(spec, path, create, made):
    assert configured(spec, path, create=create) == made


@pytest.mark.parametrize("path", ["spec/0/a", "spec//a", "spec/", "spec/-", "spec/[name=a]", "spec/*/a"])
def test_a_part_of_a_path_that_is_no_name_is_refused_where_it_is_reached(path):
    with pytest.raises(InvalidInput, match="is not the name of a field"):
        configured("{a: x}", path)


def test_a_flag_in_a_configuration_may_be_an_old_word():
    assert configured("{}", "spec/a", change="namespace: ns") == {}
    files = {
        "r.yaml": f"{CUSTOM}{{}}\n",
        "c.yaml": "namespace: [{path: spec/a, create: yes}]\n",
        "kustomization.yaml": "resources: [r.yaml]\nconfigurations: [c.yaml]\nnamespace: ns\n",
    }
    assert rendered(files).manifests[0]["spec"] == {"a": "ns"}


@pytest.mark.parametrize("change", ["namePrefix: p-", "replicas: [{name: a, count: 2}]", "namespace: ns"])
def test_a_mapping_where_a_plain_value_belongs_is_refused(change):
    with pytest.raises(InvalidInput, match="plain value"):
        configured("{a: {}}", "spec/a", change=change)


def test_replicas_in_quotes_stay_in_quotes():
    manifest = DEPLOYMENT.replace("replicas: 1", 'replicas: "1"')

    assert patched(manifest, "replicas: [{name: web, count: 3}]\n")["spec"]["replicas"] == "3"


@pytest.mark.parametrize("flag", ["includeSelectors", "includeTemplates"])
def test_a_configuration_adds_fields_to_labels_with_selectors_and_templates(flag):
    change = f"labels: [{{pairs: {{a: b}}, {flag}: true}}]"

    assert configured("{}", "spec/x", create=True, change=change) == {"x": {"a": "b"}}


def test_a_configuration_may_name_the_namespace_of_objects():
    assert configured("{}", "metadata/namespace", change="namespace: ns") == {}


def test_a_configuration_that_contradicts_the_defaults_is_refused():
    with pytest.raises(InvalidInput, match="disagree on 'create'"):
        configured("{}", "metadata/annotations", change="commonAnnotations: {a: b}")


@pytest.mark.parametrize("flag", ["includeSelectors", "includeTemplates"])
def test_a_configuration_without_a_kind_reaches_kinds_that_the_defaults_leave_out(flag):
    change = f"labels: [{{pairs: {{a: b}}, {flag}: true}}]"

    made = configured("{}", "spec/template/metadata/labels", create=True, change=change)

    assert made == {"template": {"metadata": {"labels": {"a": "b"}}}}


def test_a_configuration_may_repeat_itself_for_one_kind():
    rows = "commonAnnotations:\n- path: spec/template/metadata/annotations\n"
    files = {"r.yaml": config_map("a"), "kustomization.yaml": "resources: [r.yaml]\nconfigurations: [c.yaml]\n"}

    assert "disagree on 'create'" in refusal({**files, "c.yaml": rows})
    assert rendered({**files, "c.yaml": f"{rows}- {{path: spec/template/metadata/annotations, kind: ConfigMap}}\n"})


def test_a_contradicting_configuration_is_named_with_its_line():
    rows = "commonAnnotations:\n- path: spec/template/metadata/annotations\n"
    files = {"r.yaml": config_map("a"), "kustomization.yaml": "resources: [r.yaml]\nconfigurations:\n- c.yaml\n"}

    assert refusal({**files, "c.yaml": rows}).startswith("kustomization.yaml:2: two configurations disagree")


def test_a_number_that_json_cannot_hold_is_refused():
    target = "{select: {name: a}, fieldPaths: [data.x], options: {create: true}}"
    replacement = f"replacements:\n- sourceValue: '.inf'\n  targets: [{target}]\n"
    files = {"r.yaml": config_map("a"), "kustomization.yaml": f"resources: [r.yaml]\n{replacement}"}

    assert "r.yaml: ConfigMap a: .inf is not a number" in refusal(files)
