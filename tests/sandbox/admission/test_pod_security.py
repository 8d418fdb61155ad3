from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.admission.pod_security import violations
from gitsync.sandbox.errors import ApiError
from tests.sandbox.admission.cluster import World, manifest, pod

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


def namespace(**labels: str) -> dict[str, Any]:
    names = {f"pod-security.kubernetes.io/{name.replace('_', '-')}": value for name, value in labels.items()}
    return manifest("v1", "Namespace", "scene", metadata={"labels": names})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"enforce": "strict"}, 'Invalid value: "strict": must be one of privileged, baseline, restricted'),
        ({"warn_version": "1.30"}, 'Invalid value: "1.30": must be "latest" or "v1.x"'),
    ],
)
def test_labels_must_name_a_standard(labels: dict[str, str], message: str) -> None:
    world = World()
    with pytest.raises(ApiError) as refusal:
        world.admit(namespace(**labels))
    assert refusal.value.code == 422
    assert [cause["message"] for cause in refusal.value.details["causes"]] == [message]
    world.admit(namespace(**labels), namespace(**labels))


def test_pods_that_are_there_are_warned_of() -> None:
    world = World()
    for name in ("b", "a"):
        world.objects.put(pod(name))
    world.admit(namespace(enforce="restricted"), namespace())
    assert world.warnings == [
        'existing pods in namespace "scene" violate the new PodSecurity enforce level "restricted:latest"',
        "a (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
        "seccompProfile",
    ]
