"""Names of objects that nothing provides after a change."""

from __future__ import annotations

import pytest

from tests.preview.factories import compare, deployment

KUSTOMIZATION = {"prod/kustomization.yaml": "resources: [d.yaml]"}
MOUNTS = deployment() + "      volumes: [{name: v, SOURCE}]\n"


def effects(source: str, *, others: dict[str, str] | None = None, base: str = "emptyDir: {}") -> list[str]:
    """Return the effects of giving the Deployment's volume another source."""
    before = {**KUSTOMIZATION, "prod/d.yaml": MOUNTS.replace("SOURCE", base), **(others or {})}
    after = {**before, "prod/d.yaml": MOUNTS.replace("SOURCE", source)}
    [change] = compare(before, after).changes
    return [effect.text for effect in change.effects if "which" in effect.text]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("configMap: {name: a}", "ConfigMap default/a"),
        ("secret: {secretName: a}", "Secret default/a"),
        ("persistentVolumeClaim: {claimName: a}", "PersistentVolumeClaim default/a"),
        ("projected: {sources: [{secret: {name: a}}]}", "Secret default/a"),
    ],
)
def test_a_new_name_that_nothing_declares_is_reported(source: str, target: str) -> None:
    assert effects(source) == [f"Deployment default/web: mounts {target}, which nothing in Git declares"]


@pytest.mark.parametrize(
    "source", ["configMap: {name: a, optional: true}", "configMap: {name: kube-root-ca.crt}", "configMap: [a]"]
)
def test_optional_and_given_ones_are_not_reported(source: str) -> None:
    assert effects(source) == []


def test_what_was_named_before_is_not_reported() -> None:
    assert effects("configMap: {name: a, defaultMode: 256}", base="configMap: {name: a}") == []


@pytest.mark.parametrize(
    "document",
    [
        "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
        "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: c}, spec: {secretName: a}}",
        "{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: a}}",
        "{apiVersion: bitnami.com/v1alpha1, kind: SealedSecret, metadata: {name: a}}",
    ],
)
def test_another_folder_may_provide_it(document: str) -> None:
    others = {"shared/kustomization.yaml": "resources: [a.yaml]", "shared/a.yaml": document}
    assert effects("secret: {secretName: a}", others=others) == []


def test_a_name_of_what_the_change_removes_is_reported() -> None:
    config = {"prod/c.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"}
    workload = {"prod/d.yaml": MOUNTS.replace("SOURCE", "configMap: {name: a}")}
    before = {"prod/kustomization.yaml": "resources: [d.yaml, c.yaml]", **config, **workload}
    [change] = compare(before, {**KUSTOMIZATION, **workload}).changes
    assert "Deployment default/web: mounts ConfigMap default/a, which the change removes" in [
        effect.text for effect in change.effects
    ]
