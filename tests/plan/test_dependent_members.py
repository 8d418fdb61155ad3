"""Which live members a new choice makes stale."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.merge.apply import Conflicts
from gitsync.merge.field_manager import Write, apply_object
from gitsync.merge.schema import builtin
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.plan.dependent_members import kept_members, stale_members
from gitsync.plan.drift import Path, find_drift, is_exact
from gitsync.plan.ownership import with_claimed

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}
VOLUMES = ("f:spec", "f:volumes")
POD = ("f:spec", "f:containers", 'k:{"name":"web"}')


def deployment(**spec: Any) -> Manifest:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def pod(container: dict[str, Any] | None = None, **spec: Any) -> Manifest:
    containers = {} if container is None else {"containers": [{"name": "web", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {**spec, **containers}}


def excluded(desired: Manifest, live: Manifest) -> tuple[Path, ...]:
    group, _, version = desired["apiVersion"].rpartition("/")
    return stale_members(builtin().for_kind(group, version, desired["kind"]), desired, live)


@pytest.mark.parametrize(
    ("desired", "live", "paths"),
    [
        pytest.param(
            deployment(strategy={"type": "Recreate"}),
            deployment(strategy=ROLLING),
            [("f:spec", "f:strategy", "f:rollingUpdate")],
            id="another value of a discriminator",
        ),
        pytest.param(deployment(strategy=ROLLING), deployment(strategy=ROLLING), [], id="the same value"),
        pytest.param(deployment(replicas=2), deployment(strategy=ROLLING), [], id="no value"),
        pytest.param(
            deployment(strategy={"type": "Recreate", "rollingUpdate": {}}),
            deployment(strategy=ROLLING),
            [],
            id="a member that is declared all the same",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]),
            [(*VOLUMES, 'k:{"name":"v"}', "f:emptyDir")],
            id="another member",
        ),
        pytest.param(
            pod({"livenessProbe": {"grpc": {"port": 1}}}),
            pod({"livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 10}}),
            [(*POD, "f:livenessProbe", "f:httpGet")],
            id="another handler",
        ),
        pytest.param(
            pod({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}),
            pod({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}}),
            [(*POD, "f:securityContext", "f:seccompProfile", "f:localhostProfile")],
            id="a union of the published schema",
        ),
        pytest.param({**pod(x=1), "kind": "Widget"}, {**pod(x=2), "kind": "Widget"}, [], id="an unknown kind"),
    ],
)
def test_a_new_choice_excludes_other_members(desired: Manifest, live: Manifest, paths: list[Path]) -> None:
    assert list(excluded(desired, live)) == paths


@pytest.mark.parametrize(
    ("owners", "claimed"),
    [
        pytest.param({}, (".spec.strategy.rollingUpdate",), id="a default of the API server"),
        pytest.param({"autoscaler": {"f:maxSurge": {}}}, None, id="a field of another manager"),
    ],
)
def test_only_members_without_an_owner_are_claimed(owners: dict[str, Any], claimed: tuple[str, ...] | None) -> None:
    live = deployment(strategy=ROLLING)
    live["metadata"]["managedFields"] = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "apps/v1",
            "fieldsV1": {"f:spec": {"f:strategy": {"f:rollingUpdate": fields}}},
        }
        for manager, fields in owners.items()
    ]
    desired = deployment(strategy={"type": "Recreate"})
    schema = builtin().for_kind("apps", "v1", "Deployment")
    moved = with_claimed(None, live, "apps/v1", schema, excluded(desired, live))
    assert (moved.claimed if moved else None) == claimed
    if moved is not None:
        ours = {"f:spec": {"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}}}
        assert moved.managed_fields[0]["fieldsV1"] == ours
        assert "which what Git declares excludes" in moved.reason


@pytest.mark.parametrize(
    ("image", "declared", "is_stale"),
    [
        pytest.param("web", {}, True, id="latest by default"),
        pytest.param("r.io:5000/web:latest", {}, True, id="latest of a registry with a port"),
        pytest.param("web:2", {}, False, id="the same default"),
        pytest.param("web@sha256:ab", {}, False, id="a digest"),
        pytest.param("web", {"imagePullPolicy": "IfNotPresent"}, False, id="declared"),
    ],
)
def test_the_pull_policy_follows_the_image(image: str, declared: dict[str, str], is_stale: bool) -> None:
    live = pod({"image": "web:1", "imagePullPolicy": "IfNotPresent"})
    assert bool(excluded(pod({"image": image, **declared}), live)) is is_stale


def test_a_pull_policy_of_another_source_stays() -> None:
    live = pod({"image": "web:1", "imagePullPolicy": "Always"})
    assert excluded(pod({"image": "web:2"}), live) == ()


def with_applied(live: Manifest, fields: dict[str, Any]) -> Manifest:
    """Return a live object of which gitsync applied some fields."""
    entry = {"manager": "gitsync", "operation": "Apply", "apiVersion": live["apiVersion"], "fieldsV1": fields}
    return {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}


ACCOUNT = ("f:spec", "f:template", "f:spec")


def with_account(**members: str) -> Manifest:
    return deployment(template={"spec": {"containers": [], **members}})


@pytest.mark.parametrize(
    ("declared", "live", "stale"),
    [
        pytest.param({}, {"serviceAccountName": "a", "serviceAccount": "a"}, 2, id="removed"),
        pytest.param({"serviceAccountName": "a"}, {"serviceAccountName": "a", "serviceAccount": "a"}, 0, id="declared"),
        pytest.param({"serviceAccount": "a"}, {"serviceAccountName": "a", "serviceAccount": "a"}, 0, id="by its alias"),
        pytest.param(
            {"serviceAccount": "b"}, {"serviceAccountName": "a", "serviceAccount": "a"}, 1, id="alias changed"
        ),
        pytest.param({"serviceAccountName": "b"}, {"serviceAccountName": "a", "serviceAccount": "a"}, 1, id="changed"),
        pytest.param({}, {}, 0, id="never declared"),
    ],
)
def test_an_account_goes_with_its_alias(declared: dict[str, str], live: dict[str, str], stale: int) -> None:
    owned = with_applied(with_account(**live), {"f:spec": {"f:template": {"f:spec": {"f:serviceAccountName": {}}}}})
    assert len(excluded(with_account(**declared), owned)) == stale


def test_an_account_that_another_client_sets_stays() -> None:
    live = with_account(serviceAccountName="a", serviceAccount="a")
    fields = {"f:spec": {"f:template": {"f:spec": {"f:serviceAccountName": {}}}}}
    live["metadata"]["managedFields"] = [{"manager": "operator", "operation": "Update", "fieldsV1": fields}]
    assert excluded(with_account(), live) == ()


def test_the_account_that_admission_gives_a_pod_stays() -> None:
    assert excluded(pod(), pod(serviceAccountName="default", serviceAccount="default")) == ()


def policy(**spec: Any) -> Manifest:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("declared", "live"),
    [
        pytest.param({"egress": [{}]}, {"policyTypes": ["Ingress"]}, id="added"),
        pytest.param({}, {"egress": [{}], "policyTypes": ["Ingress", "Egress"]}, id="removed"),
    ],
)
def test_policy_types_follow_egress_rules(declared: dict[str, Any], live: dict[str, Any]) -> None:
    owned = with_applied(policy(**live), {"f:spec": {"f:egress": {}}})
    assert excluded(policy(**declared), owned) == (("f:spec", "f:policyTypes"),)
    same = {**declared, "policyTypes": ["Ingress"]}
    assert excluded(policy(**same), owned) == ()


def test_policy_types_follow_egress_rules_of_others() -> None:
    live = policy(egress=[{}], policyTypes=["Ingress", "Egress"])
    assert excluded(policy(), with_applied(live, {"f:spec": {"f:podSelector": {}}})) == ()


def test_a_member_that_the_api_server_drops_is_no_drift() -> None:
    config = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}
    desired = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": config}
    live = {**desired, "spec": {"sessionAffinity": "None"}}
    schema = builtin().for_kind("", "v1", "Service")
    fields = {"f:spec": {"f:sessionAffinityConfig": {"f:clientIP": {"f:timeoutSeconds": {}}}}}
    assert find_drift(desired, with_applied(live, fields), schema).in_sync
    assert not find_drift(desired, with_applied(live, {}), schema).in_sync, "not applied yet"
    other = {**live, "spec": {"sessionAffinity": "ClientIP"}}
    assert not find_drift(desired, with_applied(other, fields), schema).in_sync


@pytest.mark.parametrize(
    ("desired", "others"),
    [
        pytest.param(
            deployment(strategy={"type": "Recreate"}), {"strategy": {"rollingUpdate": {"maxSurge": 1}}}, id="a strategy"
        ),
        pytest.param(policy(egress=[{}]), {"policyTypes": ["Ingress"]}, id="policy types of another source"),
        pytest.param(policy(), {"egress": [{}], "policyTypes": ["Ingress"]}, id="egress rules of others"),
        pytest.param(policy(egress=[]), {"policyTypes": ["Ingress"]}, id="no egress rules"),
        pytest.param(
            pod(volumes=[{"name": "v", "emptyDir": {}}]), {"dnsPolicy": "ClusterFirst"}, id="a volume with its source"
        ),
    ],
)
def test_nothing_is_stale_beside_what_is_live_and_owned(desired: Manifest, others: dict[str, Any]) -> None:
    # the plan relies on it: it reads stale members only where something differs
    group, _, version = desired["apiVersion"].rpartition("/")
    schema = builtin().for_kind(group, version, desired["kind"])
    assert schema is not None
    live = copy.deepcopy(apply_object(None, desired, schema, Write(FIELD_MANAGER)))
    assert not isinstance(live, Conflicts)
    for name, value in others.items():
        spec = live["spec"]
        spec[name] = {**spec[name], **value} if isinstance(value, dict) else value
    assert is_exact(desired, live, schema)
    assert excluded(desired, live) == ()


def service(**spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"a": "b"}, **spec},
    }


@pytest.mark.parametrize(
    ("declared", "live", "kept"),
    [
        pytest.param({}, {"clusterIP": "None"}, [".spec.clusterIP"], id="headless"),
        pytest.param({"clusterIP": "None"}, {"clusterIP": "None"}, [], id="declared headless"),
        pytest.param({"clusterIPs": ["None"]}, {"clusterIP": "None"}, [], id="declared headless as a list"),
        pytest.param({}, {"clusterIP": "10.0.0.1", "ipFamilyPolicy": "SingleStack"}, [], id="defaults"),
        pytest.param({}, {"ipFamilyPolicy": "PreferDualStack"}, [".spec.ipFamilyPolicy"], id="families"),
        pytest.param(
            {"clusterIP": "None"},
            {"clusterIP": "None", "selector": None, "ipFamilyPolicy": "RequireDualStack"},
            [],
            id="families of a headless Service without a selector",
        ),
    ],
)
def test_what_the_api_server_keeps_is_found(declared: dict[str, Any], live: dict[str, Any], kept: list[str]) -> None:
    assert [item.path for item in kept_members(service(**declared), service(**live))] == kept


def test_what_another_client_set_was_not_kept() -> None:
    live = service(ipFamilyPolicy="PreferDualStack")
    entry = {"manager": "cloud", "operation": "Update", "fieldsV1": {"f:spec": {"f:ipFamilyPolicy": {}}}}
    live["metadata"]["managedFields"] = [entry]
    assert kept_members(service(), live) == ()
