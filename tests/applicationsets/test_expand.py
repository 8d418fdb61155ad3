"""Generators, parameters and templates: elements and files in, Applications out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.application import parse_application
from tests.applicationsets.factories import REPO, expanded, git, listed, manifest, named, names

FILES = {
    "apps/web/kustomization.yaml": "resources: []\n",
    "apps/api/x.yaml": "a: 1\n",
    "apps/.hidden/x.yaml": "a: 1\n",
    "apps/README.md": "text\n",
    "deep/eu/one/app.json": '{"name": "one", "cluster": {"size": 3, "tags": ["a", "b"]}}',
    "deep/us/two/app.yaml": "name: two\nis_on: true\nnothing: null\n",
    "many.yaml": "- {name: x}\n- {name: y}\n",
}


def test_a_list_yields_an_application_per_element_in_order() -> None:
    found = expanded(manifest(listed({"name": "b"}, {"name": "a"})))
    assert names(found) == ["b", "a"]
    assert found.applications["a"].element == "spec.generators[0].list.elements[1]"
    assert found.applications["a"].manifest["spec"] == {"source": {"repoURL": REPO, "path": "apps/a"}}


def test_folders_have_the_parameters_of_their_path(tmp_path: Path) -> None:
    text = "{{path.basename}}.{{path[0]}}.{{path[1]}}"
    directories = [{"path": "apps/*"}, {"path": "apps/api", "exclude": True}]
    found = expanded(manifest(git(directories=directories), template=named(text)), tmp_path, **FILES)
    assert names(found) == ["web.apps.web"]
    template = {"metadata": {"name": "x"}, "spec": {"source": {"repoURL": REPO, "path": "{{path}}:{{path.path}}"}}}
    found = expanded(manifest(git(directories=directories), template=template), tmp_path)
    assert found.applications["x"].manifest["spec"]["source"]["path"] == "apps/web:apps/web"


def test_files_are_flattened_and_have_their_path(tmp_path: Path) -> None:
    text = "{{name}}.{{path.basename}}.{{cluster.size}}.{{cluster.tags.1}}"
    found = expanded(manifest(git(files=[{"path": "deep/**/app.json"}]), template=named(text)), tmp_path, **FILES)
    assert names(found) == ["one.one.3.b"]
    found = expanded(
        manifest(git(files=[{"path": "deep/us/*/*.yaml"}]), template=named("{{name}}.{{is_on}}")), tmp_path
    )
    assert names(found) == ["two.true"]
    assert found.applications["two.true"].element == "spec.generators[0].git.files deep/us/two/app.yaml"


def test_a_file_with_a_list_yields_each_item(tmp_path: Path) -> None:
    found = expanded(manifest(git(files=[{"path": "many.yaml"}])), tmp_path, **FILES)
    assert names(found) == ["x", "y"]
    assert found.applications["y"].element == "spec.generators[0].git.files many.yaml[1]"


def test_a_matrix_combines_and_fills_its_second_generator(tmp_path: Path) -> None:
    second = git(files=[{"path": "deep/{{region}}/*/app.*"}])
    matrix = {"matrix": {"generators": [listed({"region": "us"}, {"region": "eu"}), second]}}
    found = expanded(manifest(matrix, template=named("{{region}}-{{name}}")), tmp_path, **FILES)
    assert names(found) == ["us-two", "eu-one"]


def test_a_merge_overrides_by_its_keys() -> None:
    base = listed({"name": "a", "size": "1"}, {"name": "b", "size": "1"})
    over = listed({"name": "b", "size": "2"}, {"name": "c", "size": "9"})
    found = expanded(
        manifest({"merge": {"mergeKeys": ["name"], "generators": [base, over]}}, template=named("{{name}}{{size}}"))
    )
    assert names(found) == ["a1", "b2"]


def test_a_matrix_of_a_merge_is_expanded() -> None:
    merge = {
        "merge": {"mergeKeys": ["name"], "generators": [listed({"name": "a"}), listed({"name": "a", "x": "{{n}}"})]}
    }
    found = expanded(
        manifest({"matrix": {"generators": [listed({"n": "1"}, {"n": "2"}), merge]}}, template=named("{{name}}{{x}}"))
    )
    assert names(found) == ["a1", "a2"]


def test_two_paths_of_a_matrix_need_a_prefix(tmp_path: Path) -> None:
    first, second = git(directories=[{"path": "apps/web"}]), git(directories=[{"path": "deep/*"}])
    with pytest.raises(InvalidInput, match=r"'path' has two values: 'apps/web' and 'deep/eu'.*pathParamPrefix"):
        expanded(manifest({"matrix": {"generators": [first, second]}}, template=named("x")), tmp_path, **FILES)
    prefixed = git(directories=[{"path": "deep/*"}], pathParamPrefix="env")
    template = named("{{path.basename}}-{{env.path.basename}}")
    found = expanded(manifest({"matrix": {"generators": [first, prefixed]}}, template=template), tmp_path)
    assert names(found) == ["web-eu", "web-us"]


REFUSED: list[tuple[list[dict[str, Any]], dict[str, Any], str]] = [
    (
        [listed({"name": "a"}, {"nome": "b"})],
        named("{{name}}"),
        r"spec\.template\.metadata\.name: ApplicationSet gitsync/shops: spec\.generators\[0\]\.list\.elements\[1\]"
        r" has no parameter 'name'; it has nome",
    ),
    (
        [listed({"name": "a"}), listed({"name": "a"})],
        named("{{name}}"),
        r"spec\.generators\[1\]\.list\.elements\[0\]: .*yields the name 'a', as spec\.generators\[0\]\.list",
    ),
    ([listed({"name": "Not_valid"})], named("{{name}}"), r"elements\[0\]: .*'Not_valid' is not a name"),
    ([listed({"name": "a" * 64})], named("{{name}}"), r"is not a name of at most 63"),
    ([listed({"a.b": "1", "a": {"b": "2"}})], named("x"), r"elements\[0\]: .*parameter 'a\.b' is set twice"),
    ([listed({"name": "{{other}}"})], named("x"), r"elements\[0\].*has no parameter 'other'"),
    (
        [{"merge": {"mergeKeys": ["id"], "generators": [listed({"id": "1"}), listed({"x": "1"})]}}],
        named("x"),
        r"merge\.generators\[1\]\.list\.elements\[0\]: .*has no parameter 'id', which is a merge key",
    ),
    (
        [{"merge": {"mergeKeys": ["id"], "generators": [listed({"id": "1"}, {"id": "1"}), listed({"id": "1"})]}}],
        named("x"),
        r"has the same merge keys as spec\.generators\[0\]\.merge\.generators\[0\]\.list\.elements\[0\]",
    ),
]


@pytest.mark.parametrize(("generators", "template", "message"), REFUSED)
def test_an_error_names_generator_and_element(
    generators: list[dict[str, Any]], template: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        expanded(manifest(*generators, template=template))


def test_a_file_that_is_not_a_mapping_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"spec\.generators\[0\]\.git\.files a\.yaml.*is not a mapping"):
        expanded(manifest(git(files=[{"path": "a.yaml"}])), tmp_path, **{"a.yaml": "- 1\n- 2\n"})


HOSTILE = 'x\n  serviceAccountName: admin\n# "\'{{other}}{"a": 1}'


def test_a_value_stays_a_text_whatever_it_contains() -> None:
    template = named("x")
    template["metadata"]["annotations"] = {"note": "<{{value}}>"}
    found = expanded(manifest(listed({"value": HOSTILE.replace("{{", "{ {")}), template=template))
    (one,) = found.applications.values()
    assert one.manifest["metadata"]["annotations"]["note"] == f"<{HOSTILE.replace('{{', '{ {')}>"
    assert one.manifest["spec"] == {"source": {"repoURL": REPO}}


def test_what_was_filled_in_is_not_filled_again(tmp_path: Path) -> None:
    template = named("x")
    template["metadata"]["annotations"] = {"note": "{{value}}"}
    files = {"a.yaml": "value: '{{other}}'\nother: secret\n"}
    found = expanded(manifest(git(files=[{"path": "a.yaml"}]), template=template), tmp_path, **files)
    assert found.applications["x"].manifest["metadata"]["annotations"]["note"] == "{{other}}"


def test_a_path_cannot_leave_the_folder_of_a_pattern(tmp_path: Path) -> None:
    second = git(files=[{"path": "deep/{{up}}/many.yaml"}])
    matrix = {"matrix": {"generators": [listed({"up": ".."}, {"up": "../.."}), second]}}
    assert names(expanded(manifest(matrix), tmp_path, **FILES)) == []


def test_generators_that_yield_nothing_are_named(tmp_path: Path) -> None:
    found = expanded(manifest(listed({"name": "a"}), git(directories=[{"path": "none/*"}])), tmp_path)
    assert (names(found), found.empty) == (["a"], ("spec.generators[1]",))


def test_a_set_marks_what_it_yields() -> None:
    (one,) = expanded(manifest(listed({"name": "a"}))).applications.values()
    (owner,) = one.manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ApplicationSet", "uid-of-the-set", True)
    assert one.manifest["metadata"]["namespace"] == "gitsync"


def test_applications_of_a_set_in_git_are_managed_as_the_set_is() -> None:
    given = manifest(listed({"name": "a"}))
    path = "gitsync.dev/ApplicationSet/gitsync/shops"
    given["metadata"]["annotations"] = {"gitsync.dev/tracking-id": f"gitsync/root:{path}"}
    (one,) = expanded(given).applications.values()
    app = parse_application(one.manifest)
    assert (app.owner, app.is_managed) == ("gitsync/root", True)
    given["metadata"]["annotations"] = {"gitsync.dev/tracking-id": f"gitsync/root:{path}-copy"}
    (one,) = expanded(given).applications.values()
    assert not parse_application(one.manifest).is_managed


def test_a_preserved_set_yields_applications_that_keep_their_objects() -> None:
    given = manifest(listed({"name": "a"}), syncPolicy={"preserveResourcesOnDeletion": True})
    (one,) = expanded(given).applications.values()
    assert one.manifest["spec"]["sync"] == {"preserveResourcesOnDeletion": True}


def test_a_thousand_elements_expand_in_order() -> None:
    given = manifest(listed(*({"name": f"app-{number}"} for number in range(1000))))
    assert names(expanded(given)) == [f"app-{number}" for number in range(1000)]
