"""Which deletions come from the removal of gitsync itself."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gitsync.errors import Rejected
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster
from gitsync.sync.deletion import Installation

APPLICATION: Manifest = {
    "apiVersion": "gitsync.dev/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "shop", "namespace": "shop"},
}
ALL = ("applications.gitsync.dev", "applicationsets.gitsync.dev", "agents.agents.gitsync.dev", "gitsync")


class Objects:
    """A cluster in which some definitions and namespaces are being deleted, are absent, or may not be read."""

    def __init__(self, *, deleting: str = "", absent: str = "", refused: int = 0) -> None:
        self._deleting = deleting
        self._absent = absent
        self._refused = refused

    def read(self, ref: ObjectRef, version: str) -> Manifest | None:
        if self._refused:
            raise Rejected("no", code=self._refused)
        if ref.name not in ALL or ref.name == self._absent:
            return None
        return {"metadata": {"deletionTimestamp": "2026-11-25T00:00:00Z"} if ref.name == self._deleting else {}}


def removal(manifest: Manifest = APPLICATION, namespace: str = "gitsync", **state: Any) -> str:
    return Installation(cast("Cluster", Objects(**state)), namespace).removal(manifest)


def owned_by(kind: str, group: str = "gitsync.dev") -> Manifest:
    owner = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "name": "owner", "uid": "u"}
    return {**APPLICATION, "metadata": {"name": "shop", "namespace": "shop", "ownerReferences": [owner]}}


def test_a_deletion_by_a_user_is_not_a_removal() -> None:
    assert removal() == ""


def test_the_definition_of_the_object_counts() -> None:
    assert removal(deleting="applications.gitsync.dev") == "CustomResourceDefinition applications.gitsync.dev"


def test_the_definition_of_another_kind_does_not_count() -> None:
    assert removal(deleting="applicationsets.gitsync.dev") == ""


@pytest.mark.parametrize("state", ["deleting", "absent"])
def test_the_definition_of_its_owner_counts(state: str) -> None:
    found = removal(owned_by("ApplicationSet"), **{state: "applicationsets.gitsync.dev"})
    assert found == "CustomResourceDefinition applicationsets.gitsync.dev"


def test_an_owner_of_another_project_does_not_count() -> None:
    assert removal(owned_by("Kustomization", "kustomize.toolkit.fluxcd.io")) == ""


def test_the_namespace_of_the_controller_counts() -> None:
    assert removal(deleting="gitsync") == "namespace gitsync of the controller"


@pytest.mark.parametrize("namespace", ["", "elsewhere"])
def test_a_controller_outside_the_cluster_has_no_namespace(namespace: str) -> None:
    assert removal(namespace=namespace, deleting="gitsync") == ""


def test_a_definition_that_may_not_be_read_changes_nothing() -> None:
    assert removal(refused=403) == ""


def test_another_refusal_is_raised() -> None:
    with pytest.raises(Rejected):
        removal(refused=500)
