"""Values of the cluster become edits of the files that set them."""

from __future__ import annotations

from typing import Any

from gitsync.edit.adopt import Adoption, ClusterValue, adopt
from gitsync.edit.proof import EditRoot, EditTarget
from gitsync.objects.ref import ObjectRef
from tests.preview.factories import deployment, tree

WEB = ObjectRef("apps", "Deployment", "shop", "web")
FILES = {
    "base/kustomization.yaml": "resources: [deployment.yaml]\n",
    "base/deployment.yaml": deployment(),
    "prod/kustomization.yaml": "resources: [../base]\nreplicas:\n- name: web\n  count: 2 # of three zones\n",
    "dev/kustomization.yaml": "resources: [../base]\n",
}
ROOTS = (EditRoot.folder("prod"), EditRoot.folder("dev"))


def adopted(*values: ClusterValue, root: str = "prod") -> Adoption:
    return adopt(
        EditTarget(tree(FILES), EditRoot.folder(root), lambda: ROOTS),
        values,
        "shop",
    )


def value(path: str, live: Any, ref: ObjectRef = WEB) -> ClusterValue:
    return ClusterValue(ref, path, live, "kubectl-scale", "2026-11-25T03:00:00Z")


def test_a_value_goes_to_the_line_that_sets_it() -> None:
    adoption = adopted(value(".spec.replicas", 5))
    content = adoption.files["prod/kustomization.yaml"].decode()
    assert content == FILES["prod/kustomization.yaml"].replace("count: 2 #", "count: 5 #")
    assert adoption.refused == ()
    message = adoption.message("gitsync/shop", "the queue\ngrew")
    assert message.startswith(
        "Keep what was changed in the cluster: Deployment shop/web\n\n- Deployment shop/web .spec.replicas"
    )
    assert "2 -> 5 (prod/kustomization.yaml:4), by kubectl-scale at 2026-11-25T03:00:00Z" in message
    assert "the queue\\ngrew" in message
    assert message.endswith("\nGitsync-Adopt: gitsync/shop\n")


def test_a_value_keeps_its_type() -> None:
    adoption = adopted(value(".metadata.annotations.zone", "5"))
    [item] = adoption.values
    assert item.old is None
    assert b'zone: "5"' in adoption.files["prod/kustomization.yaml"].replace(b"'", b'"')


def test_several_values_are_one_change() -> None:
    image = '.spec.template.spec.containers[name="main"].image'
    adoption = adopted(value(".spec.replicas", 5), value(".metadata.labels.tier", "gold"), value(image, "web:2"))
    assert len(adoption.values) + len(adoption.refused) == 3
    assert adoption.files["prod/kustomization.yaml"].count(b"count: 5") == 1


def test_what_cannot_be_written_is_refused_with_its_reason() -> None:
    secret = ObjectRef("", "Secret", "shop", "web")
    adoption = adopted(
        value(".data.key", "c2VjcmV0", secret),
        value(".spec.template.spec.containers", [{"name": "main"}]),
        value(".spec.paused", None),
        value(".spec.replicas", 5, ObjectRef("apps", "Deployment", "shop", "gone")),
        value(".spec.replicas", 7),
    )
    assert [str(item.kept.value) for item in adoption.values] == ["7"]
    reasons = " | ".join(problem for _, problem in adoption.refused)
    assert "is a Secret" in reasons
    assert reasons.count("is not a plain value") == 2
    assert "is not declared by the newest commit" in reasons
    assert "c2VjcmV0" not in reasons


def test_a_transformer_that_repeats_the_value_is_edited() -> None:
    # the base has 1 too, so that this one changes nothing yet, and is in no history
    repeated = {**FILES, "dev/kustomization.yaml": "resources: [../base]\nreplicas:\n- name: web\n  count: 1\n"}
    adoption = adopt(
        EditTarget(tree(repeated), EditRoot.folder("dev"), lambda: ROOTS),
        [value(".spec.replicas", 5)],
        "shop",
    )
    assert adoption.files == {"dev/kustomization.yaml": b"resources: [../base]\nreplicas:\n- name: web\n  count: 5\n"}


def test_no_other_environment_changes() -> None:
    adoption = adopted(value('.spec.template.spec.containers[name="main"].image', "web:2"))
    assert adoption.refused == ()
    assert list(adoption.files) == ["prod/kustomization.yaml"]
    assert b"image: web:2" in adoption.files["prod/kustomization.yaml"]
