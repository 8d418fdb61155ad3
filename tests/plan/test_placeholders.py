"""Placeholders are left to the controller that fills them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.plan.normalize import without_placeholders

ADMISSION = "admissionregistration.k8s.io/v1"
CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


def webhooks(kind: str, bundle: str | None) -> Manifest:
    config: dict[str, Any] = {"url": "https://a.example.com"} | ({} if bundle is None else {"caBundle": bundle})
    return {"apiVersion": ADMISSION, "kind": kind, "webhooks": [{"name": "a", "clientConfig": config}]}


def definition(bundle: str | None) -> Manifest:
    config = {} if bundle is None else {"caBundle": bundle}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": config}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"conversion": conversion},
    }


def api_service(bundle: str | None) -> Manifest:
    spec = {"group": "a"} | ({} if bundle is None else {"caBundle": bundle})
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}


@pytest.mark.parametrize("blank", ["", "Cg==", "Cgo=", "IA=="])
@pytest.mark.parametrize(
    "made",
    [
        lambda bundle: webhooks("ValidatingWebhookConfiguration", bundle),
        lambda bundle: webhooks("MutatingWebhookConfiguration", bundle),
        definition,
        api_service,
    ],
)
def test_a_blank_bundle_is_undeclared(made: Any, blank: str) -> None:
    assert without_placeholders(made(blank)) == made(None)
    for kept in (made(CERTIFICATE), made(None), made("not base64!")):
        assert without_placeholders(kept) is kept


def test_the_rules_of_an_aggregated_role_are_undeclared() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    assert without_placeholders(role) is role
    aggregated = {**role, "aggregationRule": {"clusterRoleSelectors": []}}
    assert "rules" not in without_placeholders(aggregated)


@pytest.mark.parametrize("odd", [{"webhooks": "x"}, {"webhooks": ["x"]}, {"webhooks": [{"clientConfig": 1}]}, {}])
def test_a_manifest_that_does_not_fit_its_kind_stays_as_it_is(odd: Manifest) -> None:
    manifest = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration", **odd}
    assert without_placeholders(manifest) is manifest
