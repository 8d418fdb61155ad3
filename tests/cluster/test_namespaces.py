"""A controller whose rights end at some namespaces watches these, and says so of all others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable, Refused
from gitsync.objects.manifest import Manifest
from gitsync.ports import ApiResource
from gitsync.sandbox.server import Sandbox
from tests.cluster.service_accounts import kubeconfig_of
from tests.waiting import until

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
NAMESPACE = ApiResource("", "v1", "Namespace", "namespaces", False)

Watch = Callable[..., InformerCache]


def config_map(namespace: str, x: str) -> Manifest:
    metadata = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": x}}


@pytest.fixture
def watch(server: Sandbox, cluster: KubernetesCluster, tmp_path: Path) -> Iterator[Watch]:
    """Return views with the rights of a service account that may do everything in one and two, and nothing in three."""
    for name in ("one", "two", "three"):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager="m")
        cluster.apply(config_map(name, "1"), manager="m")
    config = kubeconfig_of(server, cluster, tmp_path / "limited", {"one", "two"})
    with ExitStack() as stack:
        client = Client(Connection(str(config)))
        stack.callback(client.close)

        def made(*namespaces: str) -> InformerCache:
            view = InformerCache(client, namespaces)
            stack.callback(view.stop)
            return view

        yield made


def test_what_may_not_be_listed_everywhere_is_said_at_once_with_the_cure(watch: Watch) -> None:
    view, began = watch(), time.monotonic()
    with pytest.raises(ClusterUnavailable, match=r"ConfigMap v1 has not been listed.*forbidden.*GITSYNC_NAMESPACES"):
        view.follow([(CONFIG_MAP, "")], 600)
    assert time.monotonic() - began < 60


def test_named_namespaces_are_followed_together(cluster: KubernetesCluster, watch: Watch) -> None:
    view = watch("one", "two")
    view.follow([(CONFIG_MAP, "")], 60)
    names = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in view.all(CONFIG_MAP)}
    assert {("one", "a"), ("two", "a")} <= names
    assert {namespace for namespace, _ in names} == {"one", "two"}
    cluster.apply(config_map("two", "2"), manager="m")
    until(lambda: (view.get(CONFIG_MAP, "two", "a") or {}).get("data") == {"x": "2"})
    assert view.get(CONFIG_MAP, "one", "absent") is None
    view.observe_write(CONFIG_MAP, cluster.apply(config_map("one", "3"), manager="m"))
    assert (view.get(CONFIG_MAP, "one", "a") or {})["data"] == {"x": "3"}


def test_an_object_elsewhere_is_not_taken_for_absent(watch: Watch) -> None:
    view = watch("one", "two")
    view.follow([(CONFIG_MAP, "")], 60)
    with pytest.raises(Refused, match=r"ConfigMap in namespace three: the controller watches only .* one, two; add"):
        view.get(CONFIG_MAP, "three", "a")


def test_a_namespace_without_the_right_is_named(watch: Watch) -> None:
    with pytest.raises(ClusterUnavailable, match=r"ConfigMap v1 in three has not been listed yet: .*add the rule"):
        watch("one", "three").follow([(CONFIG_MAP, "three")], 20)


def test_rights_are_needed_only_where_objects_are(watch: Watch) -> None:
    view = watch("one", "three")
    view.follow([(CONFIG_MAP, "one")], 20)
    assert view.get(CONFIG_MAP, "one", "a") is not None


def test_of_all_namespaces_those_that_may_be_read_are_followed(watch: Watch) -> None:
    view = watch("one", "three")
    view.follow([(CONFIG_MAP, "")], 20)
    assert {item["metadata"]["namespace"] for item in view.all(CONFIG_MAP)} == {"one"}
    with pytest.raises(ClusterUnavailable, match="add the rule"):
        watch("three").follow([(CONFIG_MAP, "")], 20)


def test_kinds_without_namespaces_are_followed_whole(server: Sandbox, client: Client) -> None:
    view = InformerCache(client, ("default",))
    view.follow([(NAMESPACE, "")], 60)
    assert view.get(NAMESPACE, "", "kube-system") is not None
    view.stop()


def test_one_namespace_is_followed_where_only_it_may_be_read(cluster: KubernetesCluster, watch: Watch) -> None:
    for namespaces in ((), ("one", "three")):
        view = watch(*namespaces)
        view.follow([(CONFIG_MAP, "one")], 10, only=True)
        assert (view.get(CONFIG_MAP, "one", "a") or {})["data"] == {"x": "1"}
        view.observe_write(CONFIG_MAP, cluster.apply(config_map("one", "2"), manager="m"))
        assert (view.get(CONFIG_MAP, "one", "a") or {})["data"] == {"x": "2"}
        cluster.apply(config_map("one", "1"), manager="m")
    view = watch()
    view.follow([(CONFIG_MAP, "one")], 10, only=True)
    for scope, only in (("three", True), ("", False)):  # rights in one namespace are none in others
        with pytest.raises(ClusterUnavailable, match=r"ConfigMap v1.* has not been listed yet: .*forbidden"):
            view.follow([(CONFIG_MAP, scope)], 20, only=only)


def test_a_kind_followed_everywhere_is_not_followed_again_in_one_namespace(server: Sandbox, client: Client) -> None:
    view = InformerCache(client)
    view.follow([(CONFIG_MAP, "")], 60)
    view.follow([(CONFIG_MAP, "default")], 10, only=True)
    assert server.requests(verb="watch", resource="configmaps") <= 1
    assert view.get(CONFIG_MAP, "kube-system", "absent") is None
    view.stop()


def test_a_kind_followed_in_one_namespace_can_be_followed_everywhere(
    client: Client, cluster: KubernetesCluster
) -> None:
    for name in ("one", "two"):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager="m")
        cluster.apply(config_map(name, "1"), manager="m")
    view = InformerCache(client)
    view.follow([(CONFIG_MAP, "one")], 10, only=True)
    view.follow([(CONFIG_MAP, "")], 60)
    assert (view.get(CONFIG_MAP, "two", "a") or {})["data"] == {"x": "1"}
    assert len([item for item in view.all(CONFIG_MAP) if item["metadata"]["name"] == "a"]) == 2
    cluster.apply(config_map("one", "2"), manager="m")
    until(lambda: (view.get(CONFIG_MAP, "one", "a") or {}).get("data") == {"x": "2"})
    view.stop()
