from __future__ import annotations

import pytest

from gitsync.sandbox.errors import ApiError
from tests.sandbox.admission.cluster import World, pod


def test_a_new_pod_gets_account_token_priority_and_patience() -> None:
    spec = World().admit(pod())["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert volume["name"].startswith("kube-api-access-")
    assert mount == {
        "name": volume["name"],
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_the_given_object_stays_as_it_was() -> None:
    given = pod()
    before = repr(given)
    World().admit(given)
    assert repr(given) == before


def test_a_pod_may_do_without_the_token() -> None:
    spec = World().admit(pod(automountServiceAccountToken=False))["spec"]
    assert "volumes" not in spec
    world = World()
    world.add("v1", "ServiceAccount", "default", automountServiceAccountToken=False)
    assert "volumes" not in world.admit(pod())["spec"]
    assert "volumes" in world.admit(pod(automountServiceAccountToken=True))["spec"]


def test_an_account_lends_its_pull_secrets() -> None:
    world = World()
    world.add("v1", "ServiceAccount", "default", imagePullSecrets=[{"name": "a"}])
    assert world.admit(pod())["spec"]["imagePullSecrets"] == [{"name": "a"}]
    assert world.admit(pod(imagePullSecrets=[{"name": "b"}]))["spec"]["imagePullSecrets"] == [{"name": "b"}]


def test_an_account_that_is_not_there_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        World().admit(pod(serviceAccountName="none"))
    assert refusal.value.code == 403
    assert refusal.value.message == (
        'pods "p" is forbidden: error looking up service account scene/none: serviceaccount "none" not found'
    )


def test_the_runtime_class_must_exist_and_says_what_runs_where() -> None:
    world = World()
    world.add(
        "node.k8s.io/v1",
        "RuntimeClass",
        "kata",
        handler="kata",
        overhead={"podFixed": {"cpu": "100m"}},
        scheduling={"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    )
    spec = world.admit(pod(runtimeClassName="kata", nodeSelector={"disk": "ssd"}))["spec"]
    assert spec["overhead"] == {"cpu": "100m"}
    assert spec["nodeSelector"] == {"disk": "ssd", "kata": "yes"}
    assert {"key": "kata", "operator": "Exists"} in spec["tolerations"]
    for members, why in (
        ({"runtimeClassName": "none"}, 'RuntimeClass "none" not found'),
        ({"overhead": {"cpu": "1"}}, "without corresponding RuntimeClass"),
        ({"runtimeClassName": "kata", "overhead": {"cpu": "1"}}, "match RuntimeClass"),
        ({"runtimeClassName": "kata", "nodeSelector": {"kata": "no"}}, "conflict: runtimeClass"),
    ):
        with pytest.raises(ApiError, match=why) as refusal:
            world.admit(pod(**members))
        assert refusal.value.code == 403


def test_the_priority_is_that_of_the_class() -> None:
    world = World()
    world.add("scheduling.k8s.io/v1", "PriorityClass", "high", value=1000, preemptionPolicy="Never")
    spec = world.admit(pod(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    with pytest.raises(ApiError, match="no PriorityClass with name low was found"):
        world.admit(pod(priorityClassName="low"))
    with pytest.raises(ApiError, match=r"the integer value of priority \(5\) must not be provided"):
        world.admit(pod(priority=5))


def test_the_default_class_is_taken_by_pods_that_name_none() -> None:
    world = World()
    world.add("scheduling.k8s.io/v1", "PriorityClass", "usual", value=7, globalDefault=True)
    spec = world.admit(pod())["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


def test_a_toleration_of_everything_covers_the_nodes() -> None:
    tolerations = [{"operator": "Exists"}]
    assert World().admit(pod(tolerations=tolerations))["spec"]["tolerations"] == tolerations


def test_a_namespace_that_goes_takes_nothing_new() -> None:
    world = World()
    namespace = world.objects.get("", "Namespace", "", "scene")
    assert namespace is not None
    namespace["metadata"]["deletionTimestamp"] = "2024-01-02T03:04:05Z"
    old = world.add("v1", "ConfigMap", "old")
    with pytest.raises(ApiError) as refusal:
        world.admit(pod())
    assert refusal.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    assert world.admit(old, old) == old


def test_some_namespaces_stay() -> None:
    world = World()
    old = world.add("v1", "Namespace", "default")
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        world.admit(None, old)
