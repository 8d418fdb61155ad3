"""A controller with rights in some namespaces only works there, and refuses what it could not see."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import ClusterUnavailable
from tests.cluster.service_accounts import kubeconfig_of
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until


@pytest.fixture
def limited(world: World, tmp_path: Path) -> World:
    """The world of a controller that may do everything in gitsync and shop, and nothing in mall."""
    world.namespace("mall")
    world.kubeconfig = kubeconfig_of(world.sandbox, world.cluster, tmp_path / "limited", {NAMESPACE, "shop"})
    return world


def test_with_named_namespaces_it_syncs_there_and_heals(limited: World) -> None:
    world = limited
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start(namespaces=f"{NAMESPACE}, shop", install_crds=False)
    world.synced(commit)
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: world.get("ConfigMap", "a") is not None, 5)


def test_an_application_that_leaves_them_is_refused_before_any_write(limited: World) -> None:
    world = limited
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "mall/a.yaml": config_map("b", x="1")})
    world.application()
    world.application("mall")
    world.start(namespaces=f"{NAMESPACE},shop", install_crds=False)
    world.synced(commit)
    until(lambda: world.condition("Ready", "mall").get("status") == "False", 5, lambda: world.status("mall"))
    message = world.condition("Ready", "mall")["message"]
    assert "watches only the namespaces gitsync, shop" in message
    assert "GITSYNC_NAMESPACES" in message
    assert world.get("ConfigMap", "b", "mall") is None


def test_without_them_the_start_says_what_to_do(limited: World) -> None:
    with pytest.raises(ClusterUnavailable, match=r"Application.*forbidden.*GITSYNC_NAMESPACES"):
        limited.start(install_crds=False)
