"""What Applications left behind, found in a real cluster."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Shop, as_account
from tests.flow.environment import NAMESPACE
from tests.waiting import until


def test_what_an_application_that_never_prunes_leaves_is_listed(shop: Shop) -> None:
    done = shop("orphans")
    assert (done.code, done.err) == (0, "")
    assert "no orphans: " in done.out
    assert shop("orphans", "-o", "json").json == []

    shop.world.application(sync={"prune": False})
    until(
        lambda: (
            not (shop.world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") or {})["metadata"].get(
                "finalizers"
            )
        )
    )
    shop.world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: shop.world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None)

    done = shop("orphans", "-o", "json")
    assert done.code == 1
    assert [(row["object"], row["application"], row["why"]) for row in done.json] == [
        ("ConfigMap shop/prompt", "gitsync/shop", "its Application is gone"),
        ("Deployment shop/web", "gitsync/shop", "its Application is gone"),
    ]
    assert all(row["created"].startswith("20") for row in done.json)
    assert "Deployment shop/web" in shop("orphans", "-n", "shop").out
    assert shop("orphans", "-n", "default").code == 0


def test_kinds_that_may_not_be_listed_are_reported(shop: Shop, tmp_path: Path) -> None:
    world = shop.world
    world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": "shop"}})
    rules = [
        {"apiGroups": ["gitsync.dev"], "resources": ["applications"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
    ]
    rbac = "rbac.authorization.k8s.io"
    world.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "viewer"}, "rules": rules})
    world.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "viewer"},
            "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "shop"}],
        }
    )
    done = shop("orphans", "--kubeconfig", as_account(world, "viewer", tmp_path / "limited"))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "may not list " in done.err
    assert "ConfigMap" not in done.err
    assert "grant yourself the verb list" in done.err
