"""Which live members a new choice of a union excludes."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.merge.schema import builtin
from gitsync.objects.manifest import Manifest
from gitsync.plan.drift import Path
from gitsync.plan.ownership import with_claimed
from gitsync.plan.unions import excluded_members

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
    return excluded_members(builtin().for_kind(group, version, desired["kind"]), desired, live)


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
