from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.admission.pod_security import violations
from gitsync.sandbox.status import ApiError
from tests.sandbox.admission.world import World, manifest, pod

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def spec(context: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "securityContext": context or {}}], **members}


@pytest.mark.parametrize(
    ("pod_spec", "found"),
    [
        (spec(), ""),
        (spec({"privileged": True}), 'privileged (container "c" must not set securityContext.privileged=true)'),
        (spec(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true, hostPID=true)"),
        (spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
        (
            spec({"capabilities": {"add": ["NET_ADMIN"]}}),
            'non-default capabilities (container "c" must not include "NET_ADMIN" in securityContext.capabilities.add)',
        ),
        (
            spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
            'hostPort (container "c" uses hostPort 80)',
        ),
    ],
)
def test_the_baseline(pod_spec: dict[str, Any], found: str) -> None:
    assert violations("baseline", pod_spec) == found


@pytest.mark.parametrize(
    ("pod_spec", "found"),
    [
        (spec(SAFE), ""),
        (
            spec({**SAFE, "runAsUser": 0}),
            'runAsUser=0 (container "c" must not set runAsUser=0)',
        ),
        (
            spec({**SAFE, "runAsNonRoot": False}),
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            spec(SAFE, volumes=[{"name": "v", "nfs": {}}]),
            'restricted volume types (volume "v" uses restricted volume type "nfs")',
        ),
    ],
)
def test_the_restricted_standard(pod_spec: dict[str, Any], found: str) -> None:
    assert violations("restricted", pod_spec) == found


def test_the_restricted_standard_names_all_that_is_missing() -> None:
    assert violations("restricted", spec()) == (
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'
    )


def test_a_pod_is_refused_and_a_template_warned_of() -> None:
    world = World()
    world.namespace(**{"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "baseline"})
    with pytest.raises(ApiError, match='violates PodSecurity "baseline:latest": host namespaces'):
        world.admit(pod(hostNetwork=True))
    template = {"spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "i"}]}}
    deployment = manifest("apps/v1", "Deployment", spec={"selector": {}, "template": template})
    world.admit(deployment)
    assert world.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)']
    world.admit(deployment, deployment)
    assert len(world.warnings) == 1
