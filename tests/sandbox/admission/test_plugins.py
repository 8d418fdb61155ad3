from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.errors import ApiError
from tests.sandbox.admission.cluster import World, manifest

DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}


def claim(size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    requests = {"requests": {"storage": size}}
    return manifest(
        "v1", "PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "resources": requests, **spec}
    )


def with_class(name: str = "fast", **members: Any) -> World:
    world = World()
    world.add("storage.k8s.io/v1", "StorageClass", name, provisioner="example.com/p", **members)
    return world


def test_a_claim_that_names_no_class_gets_the_default() -> None:
    world = with_class(metadata=DEFAULT)
    assert world.admit(claim())["spec"]["storageClassName"] == "fast"
    assert world.admit(claim(storageClassName=""))["spec"]["storageClassName"] == ""
    assert "storageClassName" not in with_class().admit(claim())["spec"]


def test_a_bound_claim_grows_only_where_its_class_allows_it() -> None:
    old = {**claim(storageClassName="fast"), "status": {"phase": "Bound"}}
    new = {**claim("2Gi", storageClassName="fast"), "status": {"phase": "Bound"}}
    with_class(allowVolumeExpansion=True).admit(new, old)
    with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized") as refusal:
        with_class().admit(new, old)
    assert refusal.value.code == 403
    with_class().admit(old, old)
