"""Kinds that Kubernetes does not have in a group of its own."""

from __future__ import annotations

import pytest

from gitsync.kube.openapi import misspelt_kind


@pytest.mark.parametrize(
    ("group", "kind", "hint"),
    [
        ("apps", "Deploymnet", "write kind: Deployment"),
        ("apps", "deployment", "write kind: Deployment"),
        ("", "ConfigMpa", "write kind: ConfigMap"),
        ("networking.k8s.io", "Ingres", "write kind: Ingress"),
        ("batch", "Xyz", "the kinds of this group are CronJob, Job"),
        ("apps", "Deployment", None),
        ("example.com", "Deploymnet", None),
        ("gateway.networking.k8s.io", "HTTPRoute", None),
    ],
)
def test_a_misspelt_kind_of_kubernetes_has_its_nearest_name(group: str, kind: str, hint: str | None) -> None:
    assert misspelt_kind(group, kind) == hint
