"""What NetworkPolicies allow between Pods, against the examples of the Kubernetes documentation."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.server.queries.systems import Endpoint, denied_by

FRONT, BACK = Endpoint("shop", {"app": "front"}, 8080), Endpoint("shop", {"app": "back"}, 6379)
FAR = Endpoint("other", {"app": "front"}, 8080)
TO_BACK: dict[str, Any] = {"podSelector": {"matchLabels": {"app": "back"}}}
ONLY_FRONT = {"from": [{"podSelector": {"matchLabels": {"app": "front"}}}]}


def policy(namespace: str = "shop", **spec: Any) -> Manifest:
    metadata = {"name": "p", "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("sender", "given", "denied"),
    [
        (FRONT, None, ""),
        (FRONT, policy(podSelector={}), "ingress of p"),
        (FRONT, policy(podSelector={}, ingress=[{}]), ""),
        (FRONT, policy(podSelector={}, policyTypes=["Egress"]), "egress of p"),
        (FRONT, policy(podSelector={}, egress=[{}]), "ingress of p"),
        (FRONT, policy("elsewhere", podSelector={}), ""),
        (FRONT, policy(podSelector={"matchLabels": {"app": "x"}}), ""),
        (FRONT, policy(**TO_BACK, ingress=[ONLY_FRONT]), ""),
        (FAR, policy(**TO_BACK, ingress=[ONLY_FRONT]), "ingress of p"),
        (FAR, policy(**TO_BACK, ingress=[{"from": [{"namespaceSelector": {}}]}]), ""),
        (
            FAR,
            policy(
                **TO_BACK,
                ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}]}],
            ),
            "",
        ),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6379}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 6000, "endPort": 7000}]}]), ""),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"port": 80}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{**ONLY_FRONT, "ports": [{"protocol": "UDP"}]}]), "ingress of p"),
        (FRONT, policy(**TO_BACK, ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]), "ingress of p"),
    ],
)
def test_policies_deny_what_no_rule_allows(sender: Endpoint, given: Manifest | None, denied: str) -> None:
    assert denied_by(sender, BACK, [given] if given else []) == denied
