from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.render.build import build
from tests.render.factories import config_map, only, refusal, rendered
from tests.render.kustomize_cases import MemoryTree


@pytest.mark.parametrize(
    "resource",
    [
        "https://example.com/x.yaml",
        "http://169.254.169.254/latest",
        "git@example.com:org/repo.git//base",
        "ssh://git@example.com/repo",
        "github.com/org/repo//base?ref=main",
        "git::https://example.com/repo",
    ],
)
def test_remote_content_is_refused_as_such(resource):
    line = refusal({"kustomization.yaml": f"resources:\n- {resource}\n"})

    assert line.startswith("kustomization.yaml:2")
    assert "remote content is not allowed" in line


def test_a_folder_may_be_named_like_a_host():
    files = {
        "kustomization.yaml": "resources: [github.com/x]\n",
        "github.com/x/kustomization.yaml": "resources: [a.yaml]\n",
    }

    assert only({**files, "github.com/x/a.yaml": config_map("a")})["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        pytest.param("gone.yaml", "does not exist", id="absent"),
        pytest.param("../../x.yaml", "outside the repository", id="above the tree"),
        pytest.param("/etc/passwd", "absolute path", id="absolute"),
        pytest.param("../other/cm.yaml", "not in or below", id="beside the folder"),
        pytest.param("..", "cycle", id="a parent"),
        pytest.param(".", "cycle", id="itself"),
        pytest.param("empty", "no kustomization file", id="a folder without one"),
    ],
)
def test_what_may_not_be_loaded_is_refused_with_its_line(resource, says):
    files = {
        "app/kustomization.yaml": f"resources:\n- {resource}\n",
        "other/cm.yaml": config_map("a"),
        "kustomization.yaml": "resources: [app]\n",
        "app/empty/x.txt": "",
    }
    line = refusal(files, "app")

    assert "app/kustomization.yaml:2" in line
    assert says in line


def test_the_restriction_to_the_folder_can_be_lifted_but_not_the_one_to_the_tree():
    files = {"app/kustomization.yaml": "resources: [../cm.yaml]\n", "cm.yaml": config_map("a")}

    assert only(files, "app", load_restrictions=False)["metadata"]["name"] == "a"
    assert "outside" in refusal(
        {"app/kustomization.yaml": "resources: [../../cm.yaml]\n"}, "app", load_restrictions=False
    )


def test_bases_that_include_each_other_are_refused_with_the_chain():
    files = {"a/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "resources: [../a]\n"}

    assert "a -> b -> a" in refusal(files, "a")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside.yaml", "../sibling/cm.yaml"])
def test_a_link_that_leaves_the_folder_is_refused(target):
    tree = MemoryTree(
        {
            "app/kustomization.yaml": b"resources: [link.yaml]\n",
            "app/link.yaml": target,
            "sibling/cm.yaml": config_map("a").encode(),
        }
    )

    with pytest.raises(InvalidInput, match=r"outside|not in or below"):
        build(tree, "app")


def test_a_loop_of_links_is_refused():
    tree = MemoryTree({"kustomization.yaml": b"resources: [a]\n", "a": "b", "b": "a"})

    with pytest.raises(InvalidInput, match="loop of symlinks"):
        build(tree, "")


def test_a_list_is_taken_apart_and_an_empty_one_gives_nothing():
    files = {
        "kustomization.yaml": "resources: [l.yaml, m.yaml]\n",
        "l.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n",
        "m.yaml": "apiVersion: v1\nkind: ConfigMapList\nitems: []\n---\napiVersion: v1\nkind: List\n",
    }

    assert only(files)["metadata"]["name"] == "a"


def test_a_kind_that_only_ends_in_list_is_an_object():
    files = {
        "kustomization.yaml": "resources: [l.yaml]\n",
        "l.yaml": "apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\n",
    }

    assert only(files)["kind"] == "AllowList"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("just a text\n", "must be a Kubernetes object"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "no kind"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", "no metadata.name"),
        ("kind: List\nitems: {}\n", "must be a list"),
    ],
)
def test_a_document_that_is_no_object_is_refused_with_its_line(text, says):
    line = refusal({"kustomization.yaml": "resources: [x.yaml]\n", "x.yaml": config_map("a") + "---\n" + text})

    assert "x.yaml:" in line
    assert says in line


def test_the_same_file_twice_is_refused():
    files = {"kustomization.yaml": "resources: [a.yaml, a.yaml]\n", "a.yaml": config_map("a")}

    assert "already there" in refusal(files)


def test_a_component_and_a_base_may_not_change_places():
    files = {
        "c/kustomization.yaml": "kind: Component\nnamePrefix: x-\n",
        "b/kustomization.yaml": "namePrefix: y-\n",
        "one/kustomization.yaml": "resources: [../c]\n",
        "two/kustomization.yaml": "components: [../b]\n",
    }

    assert "list it under components" in refusal(files, "one")
    assert "list it under resources" in refusal(files, "two")


def test_a_component_changes_what_is_already_there():
    files = {
        "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: c-\n",
        "app/kustomization.yaml": "resources: [a.yaml]\ncomponents: [../c]\nnameSuffix: -s\n",
        "app/a.yaml": config_map("a"),
    }

    assert [one["metadata"]["name"] for one in rendered(files, "app").manifests] == ["c-a-s"]


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
@pytest.mark.parametrize(
    ("target", "says"),
    [
        pytest.param("../shared/kustomization.yaml", "leaves its folder", id="beside the folder"),
        pytest.param("../../kustomization.yaml", "outside the repository", id="above the repository"),
        pytest.param("/etc/kustomization.yaml", "outside the repository", id="absolute"),
        pytest.param("gone.yaml", "a symlink to a missing file", id="dangling"),
        pytest.param("../shared", "a symlink to a folder", id="a folder"),
    ],
)
def test_a_kustomization_file_that_may_not_be_read_is_never_taken_for_an_absent_one(name, target, says):
    """Else the folder would be applied as plain manifests."""
    tree = MemoryTree(
        {
            f"app/{name}": target,
            "app/cm.yaml": config_map("a").encode(),
            "shared/kustomization.yaml": b"resources: [x.yaml]\n",
            "root/kustomization.yaml": b"resources: [../app]\n",
        }
    )

    for path, renderer in (("app", "Auto"), ("app", "Kustomize"), ("root", "Auto")):
        with pytest.raises(InvalidInput, match=says) as caught:
            build(tree, path, renderer=renderer)
        assert caught.value.location == f"app/{name}"


def test_a_kustomization_file_may_be_a_link_inside_its_folder():
    tree = MemoryTree(
        {
            "app/kustomization.yaml": "files/k.yaml",
            "app/files/k.yaml": b"resources: [cm.yaml]\nnamePrefix: p-\n",
            "app/cm.yaml": config_map("a").encode(),
        }
    )

    assert build(tree, "app").manifests[0]["metadata"]["name"] == "p-a"


def test_without_load_restrictions_a_kustomization_file_may_be_a_link_to_another_folder():
    tree = MemoryTree(
        {
            "app/kustomization.yaml": "../shared/kustomization.yaml",
            "shared/kustomization.yaml": b"resources: [cm.yaml]\nnamePrefix: p-\n",
            "app/cm.yaml": config_map("a").encode(),
        }
    )

    assert build(tree, "app", load_restrictions=False).manifests[0]["metadata"]["name"] == "p-a"
