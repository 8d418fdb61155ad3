"""Edits that a render process finds are the same where they arrive."""

from __future__ import annotations

from dataclasses import replace

from gitsync.edit.adopt import ClusterValue, adopt
from gitsync.edit.proof import EditRoot, EditTarget
from gitsync.objects.application import parse_application
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Snapshot
from gitsync.workers.edits import adopted, of_edit, to_adoption
from gitsync.workers.protocol import as_received
from tests.preview.factories import deployment, tree

WEB = ObjectRef("apps", "Deployment", "shop", "web")


def test_an_adoption_arrives_as_it_was_found() -> None:
    files = tree({"web/deployment.yaml": deployment() + "# caf\u00e9\n"})
    values = (
        ClusterValue(WEB, ".spec.replicas", 5, "kubectl-scale", "2026-11-25T03:00:00Z"),
        ClusterValue(WEB, ".spec.selector", {"a": "b"}),
    )
    source = {"repoURL": "https://git.example.com/shop.git", "path": "web"}
    spec = {"source": source, "destination": {"namespace": "shop"}}
    app = parse_application({"metadata": {"name": "web", "namespace": "gitsync"}, "spec": spec})
    request = as_received(of_edit(app, Snapshot(Commit("a" * 40), files, ""), values))
    answer = as_received(adopted(files, request, None))
    expected = adopt(EditTarget(files, EditRoot.folder("web"), lambda: (EditRoot.folder("web"),)), values, "shop")
    arrived = to_adoption(answer, values)
    assert replace(arrived, manifests=()) == expected
    assert arrived.manifests[0]["spec"]["replicas"] == 5
    assert b"replicas: 5" in expected.files["web/deployment.yaml"]
    assert len(expected.refused) == 1
