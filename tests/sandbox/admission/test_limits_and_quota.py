from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.errors import ApiError
from tests.sandbox.admission.cluster import World, manifest, pod, pod_asking


def with_limits(*limits: dict[str, Any]) -> World:
    world = World()
    world.add("v1", "LimitRange", "l", spec={"limits": list(limits)})
    return world


def with_quota(hard: dict[str, str], **spec: Any) -> World:
    world = World()
    used = dict.fromkeys(hard, "0")
    world.add("v1", "ResourceQuota", "q", spec={"hard": hard, **spec}, status={"hard": hard, "used": used})
    return world


def used(world: World) -> dict[str, str]:
    quota = world.objects.get("", "ResourceQuota", "scene", "q")
    assert quota is not None
    found: dict[str, str] = quota["status"]["used"]
    return found


def refusal(world: World, obj: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    with pytest.raises(ApiError) as error:
        world.admit(obj, old)
    assert error.value.code == 403
    return error.value.message


CONTAINER = {
    "type": "Container",
    "default": {"cpu": "500m", "memory": "512Mi"},
    "defaultRequest": {"cpu": "100m"},
    "max": {"cpu": "2"},
}


def test_defaults_are_filled_in_and_noted() -> None:
    admitted = with_limits(CONTAINER).admit(pod())
    assert admitted["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "512Mi"},
        "requests": {"cpu": "100m", "memory": "512Mi"},
    }
    assert admitted["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container c; "
        "cpu, memory limit for container c"
    }


@pytest.mark.parametrize(
    ("limits", "resources", "why"),
    [
        ({"max": {"cpu": "2"}}, {"limits": {"cpu": "4"}}, "maximum cpu usage per Container is 2, but limit is 4"),
        (
            {"min": {"memory": "1Gi"}},
            {"requests": {"memory": "1Mi"}},
            "minimum memory usage per Container is 1Gi, but request is 1Mi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ),
    ],
)
def test_a_container_outside_the_limits_is_refused(limits: Any, resources: Any, why: str) -> None:
    world = with_limits({"type": "Container", **limits})
    assert refusal(world, pod_asking(**resources)) == f'pods "p" is forbidden: {why}'


def test_a_pod_is_the_sum_of_its_containers() -> None:
    two = pod(containers=[{"name": n, "image": "i", "resources": {"limits": {"cpu": "1"}}} for n in "ab"])
    world = with_limits({"type": "Pod", "max": {"cpu": "1500m"}})
    assert refusal(world, two) == 'pods "p" is forbidden: maximum cpu usage per Pod is 1500m, but limit is 2'


def test_a_claim_has_limits_too() -> None:
    claim = manifest("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "2Gi"}}})
    world = with_limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})
    assert "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi" in refusal(world, claim)


def test_what_fits_is_charged() -> None:
    world = with_quota({"pods": "2", "requests.cpu": "1", "count/pods": "5"})
    world.admit(pod_asking(requests={"cpu": "300m"}))
    world.admit(pod_asking(requests={"cpu": "400m"}))
    assert used(world) == {"pods": "2", "requests.cpu": "700m", "count/pods": "2"}
    assert refusal(world, pod_asking(requests={"cpu": "100m"})) == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )


def test_a_dry_run_is_not_charged() -> None:
    world = with_quota({"configmaps": "1"})
    world.admit(manifest("v1", "ConfigMap"), dry_run=True)
    assert used(world) == {"configmaps": "0"}


def test_a_quota_without_status_limits_nothing_yet() -> None:
    world = World()
    world.add("v1", "ResourceQuota", "q", spec={"hard": {"configmaps": "0"}})
    world.admit(manifest("v1", "ConfigMap"))


def test_a_pod_must_say_what_is_limited() -> None:
    world = with_quota({"requests.cpu": "1", "limits.memory": "1Gi"})
    assert refusal(world, pod()) == (
        'pods "p" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c'
    )


def test_services_count_their_node_ports() -> None:
    world = with_quota({"services.nodeports": "1", "services": "9"})
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    plain = manifest("v1", "Service", spec={"ports": ports})
    world.admit(plain)
    exposed = manifest("v1", "Service", spec={"ports": ports, "type": "NodePort"})
    assert "requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1" in refusal(
        world, exposed, plain
    )


def test_kinds_of_other_groups_are_counted_by_name() -> None:
    world = with_quota({"count/roles.rbac.authorization.k8s.io": "0"})
    role = manifest("rbac.authorization.k8s.io/v1", "Role", rules=[])
    assert "exceeded quota: q, requested: count/roles.rbac.authorization.k8s.io=1" in refusal(world, role)


@pytest.mark.parametrize(
    ("scopes", "resources", "counts"),
    [
        (["BestEffort"], {}, True),
        (["BestEffort"], {"requests": {"cpu": "1"}}, False),
        (["NotBestEffort"], {"requests": {"cpu": "1"}}, True),
        (["Terminating"], {}, False),
        (["NotTerminating"], {}, True),
    ],
)
def test_scopes_choose_the_pods(scopes: list[str], resources: Any, counts: bool) -> None:
    world = with_quota({"pods": "5"}, scopes=scopes)
    world.admit(pod_asking(**resources))
    assert used(world) == {"pods": "1" if counts else "0"}


def test_a_claim_that_grows_is_charged_the_difference() -> None:
    def claim(size: str) -> dict[str, Any]:
        return manifest("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": size}}})

    world = with_quota({"requests.storage": "3Gi"})
    world.admit(claim("1Gi"))
    world.admit(claim("2Gi"), claim("1Gi"))
    assert used(world) == {"requests.storage": "2Gi"}
