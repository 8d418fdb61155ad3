"""Edits that a render process finds are the same where they arrive."""

from __future__ import annotations

from dataclasses import replace

from gitsync.edit.adopt import ClusterValue, adopt
from gitsync.edit.proof import EditTarget
from gitsync.objects.ref import ObjectRef
from gitsync.workers.edits import adopted, of_values, to_adoption
from gitsync.workers.protocol import as_received
from tests.preview.factories import deployment, tree

WEB = ObjectRef("apps", "Deployment", "shop", "web")


def test_an_adoption_arrives_as_it_was_found() -> None:
    files = tree({"web/deployment.yaml": deployment() + "# caf\u00e9\n"})
    values = (
        ClusterValue(WEB, ".spec.replicas", 5, "kubectl-scale", "2026-11-25T03:00:00Z"),
        ClusterValue(WEB, ".spec.selector", {"a": "b"}),
    )
    request = as_received({"values": of_values(values), "path": "web", "namespace": "shop"})
    answer = as_received(adopted(files, request, None))
    expected = adopt(EditTarget(files, "web", lambda: ("web",)), values, "shop")
    arrived = to_adoption(answer, values)
    assert replace(arrived, manifests=()) == expected
    assert arrived.manifests[0]["spec"]["replicas"] == 5
    assert b"replicas: 5" in expected.files["web/deployment.yaml"]
    assert len(expected.refused) == 1
