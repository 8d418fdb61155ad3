"""Changes of a field that decides which others are valid: what the API server had set for the former value goes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at
from tests.contract.manifests import deployment, manifest
from tests.contract.stage import TIMEOUT, Stage
from tests.waiting import until

POD = {"containers": [{"name": "web", "image": "web:1"}]}
WORKLOAD: dict[str, Any] = {
    "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD},
}


def workload(kind: str, **spec: Any) -> Manifest:
    return manifest("apps/v1", kind, "web", spec={**WORKLOAD, **spec})


def with_pod(made: Manifest, **members: Any) -> Manifest:
    """Return a workload with more members of its Pods."""
    changed = deepcopy(made)
    changed["spec"]["template"]["spec"] |= members
    return changed


def service(**spec: Any) -> Manifest:
    return manifest("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}], **spec})


def network_policy(**spec: Any) -> Manifest:
    return manifest("networking.k8s.io/v1", "NetworkPolicy", "web", spec={"podSelector": {}, **spec})


VOLUME = ("spec", "template", "spec", "volumes", 0)


@pytest.mark.parametrize(
    ("former", "latter", "path", "expected"),
    [
        pytest.param(
            deployment(),
            {**deployment(), "spec": {**deployment()["spec"], "strategy": {"type": "Recreate"}}},
            ("spec", "strategy"),
            {"type": "Recreate"},
            id="strategy of a Deployment",
        ),
        pytest.param(
            workload("StatefulSet", serviceName="web"),
            workload("StatefulSet", serviceName="web", updateStrategy={"type": "OnDelete"}),
            ("spec", "updateStrategy"),
            {"type": "OnDelete"},
            id="strategy of a StatefulSet",
        ),
        pytest.param(
            with_pod(deployment(), volumes=[{"name": "v"}]),
            with_pod(deployment(), volumes=[{"name": "v", "configMap": {"name": "c", "optional": True}}]),
            VOLUME,
            {"name": "v", "configMap": {"name": "c", "optional": True, "defaultMode": 420}},
            id="source of a volume",
        ),
        pytest.param(
            deployment(image="web:1"),
            deployment(image="web"),
            ("spec", "template", "spec", "containers", 0, "imagePullPolicy"),
            "Always",
            id="pull policy of an image",
        ),
        pytest.param(
            with_pod(deployment(), serviceAccountName="deployer"),
            deployment(),
            ("spec", "template", "spec", "serviceAccount"),
            None,
            id="account of Pods that is removed",
        ),
        pytest.param(
            with_pod(deployment(), serviceAccount="deployer"),
            with_pod(deployment(), serviceAccount="other"),
            ("spec", "template", "spec", "serviceAccountName"),
            "other",
            id="account of Pods by its deprecated name",
        ),
        pytest.param(
            network_policy(),
            network_policy(egress=[{}]),
            ("spec", "policyTypes"),
            ["Ingress", "Egress"],
            id="egress rules that are added",
        ),
        pytest.param(
            network_policy(egress=[{}]),
            network_policy(),
            ("spec", "policyTypes"),
            ["Ingress"],
            id="egress rules that are removed",
        ),
        pytest.param(
            service(sessionAffinity="ClientIP"),
            service(sessionAffinity="None"),
            ("spec", "sessionAffinityConfig"),
            None,
            id="affinity of a Service",
        ),
    ],
)
def test_a_default_of_the_former_choice_is_removed(
    stage: Stage, former: Manifest, latter: Manifest, path: tuple[str | int, ...], expected: Any
) -> None:
    stage.sync({"a.yaml": former})
    uid = stage.live(former["kind"], "web", api=former["apiVersion"])["metadata"]["uid"]
    stage.synced(stage.commit({"a.yaml": latter}))
    live = stage.live(former["kind"], "web", api=former["apiVersion"])
    assert (at(live, *path), live["metadata"]["uid"]) == (expected, uid)


def test_what_the_api_server_keeps_is_reported(stage: Stage) -> None:
    stage.sync({"a.yaml": service(clusterIP="None")})
    stage.synced(stage.commit({"a.yaml": service()}))

    def message() -> str:
        return str(find_condition(stage.status(), "Undeclared").get("message", ""))

    until(lambda: ".spec.clusterIP is None, which Git no longer declares" in message(), TIMEOUT, message)
    stage.delete("Service", "web")
    until(lambda: not message(), TIMEOUT, message)
    assert stage.live("Service", "web")["spec"]["clusterIP"] != "None"


def test_a_renamed_holder_of_a_node_port_makes_room(stage: Stage) -> None:
    port = 30000 + int(stage.system[-4:], 16) % 2700
    former = service(type="NodePort", ports=[{"port": 80, "nodePort": port}])
    stage.sync({"a.yaml": former})
    latter = {**former, "metadata": {**former["metadata"], "name": "renamed"}}
    stage.synced(stage.commit({"a.yaml": latter}))
    assert stage.get("Service", "web") is None
    assert at(stage.live("Service", "renamed"), "spec", "ports", 0, "nodePort") == port
