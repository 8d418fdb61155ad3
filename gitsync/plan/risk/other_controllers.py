"""Risk rules for objects by which another controller acts with its own rights."""

from __future__ import annotations

from gitsync.objects.change import Change
from gitsync.objects.ref import GroupKind

DEPLOYERS = {
    GroupKind("argoproj.io", "Application"): "Argo CD applies it with its own rights",
    GroupKind("argoproj.io", "ApplicationSet"): "Argo CD applies it with its own rights",
    GroupKind("argoproj.io", "AppProject"): "it limits what Argo CD applies",
    GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization"): "Flux applies it with its own rights",
    GroupKind("helm.toolkit.fluxcd.io", "HelmRelease"): "Flux applies it with its own rights",
    GroupKind("helm.cattle.io", "HelmChart"): "the Helm controller applies it with its own rights",
    GroupKind("kubernetes.crossplane.io", "Object"): "Crossplane applies it with its own rights",
    GroupKind("gateway.networking.k8s.io", "ReferenceGrant"): "other namespaces may refer to objects of this one",
}
"""Kinds whose controller writes what they contain or name, with the reason to ask."""
SECRET_SOURCES = {
    GroupKind("external-secrets.io", "ExternalSecret"): "reads a secret store with the rights of its store",
    GroupKind("external-secrets.io", "ClusterExternalSecret"): "writes Secrets into several namespaces",
    GroupKind("external-secrets.io", "SecretStore"): "signs in at a secret store",
    GroupKind("external-secrets.io", "ClusterSecretStore"): "signs in at a secret store for all namespaces",
    GroupKind("external-secrets.io", "PushSecret"): "sends Secrets to a secret store",
    GroupKind("secrets-store.csi.x-k8s.io", "SecretProviderClass"): "reads a secret store",
    GroupKind("secrets.hashicorp.com", "VaultStaticSecret"): "reads a Vault",
    GroupKind("secrets.hashicorp.com", "VaultDynamicSecret"): "reads a Vault",
    GroupKind("secrets.hashicorp.com", "VaultAuth"): "signs in at a Vault",
}
"""Kinds by which an operator reads or sends secrets that the author of the object need not have."""


def acts_for_others(change: Change) -> str | None:
    """Match a new object, or one with another spec, by which another controller writes with its own rights."""
    return _reason(change, DEPLOYERS)


def reads_secret_store(change: Change) -> str | None:
    """Match a new object, or one with another spec, by which an operator reads or sends secrets."""
    return _reason(change, SECRET_SOURCES)


def _reason(change: Change, kinds: dict[GroupKind, str]) -> str | None:
    if change.desired is None or change.ref.of not in kinds:
        return None
    spec = (change.live or {}).get("spec")
    return kinds[change.ref.of] if change.live is None or spec != change.desired.get("spec") else None
