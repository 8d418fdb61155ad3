"""
Risk rules for what lets a subject become another one, or act with the rights of another one.

Roles, tokens, service accounts, aggregation, and objects by which another controller acts with its own rights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gitsync.kube.kinds import NAMESPACE, SECRET
from gitsync.objects.application import Application
from gitsync.objects.change import Change
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.risk.privileges import permissions, pod_spec, secrets_read, service_accounts
from gitsync.plan.tracking import is_owned

_RBAC = "rbac.authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_TOKEN = "kubernetes.io/service-account-token"
_WRITES = ("create", "update", "patch")
_PATHS: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    (_RBAC, ("roles", "clusterroles"), "writes roles beyond its own rights", ("escalate",)),
    (_RBAC, ("roles", "clusterroles"), "binds roles beyond its own rights", ("bind",)),
    ("", ("users", "groups", "serviceaccounts", "userextras", "uids"), "acts as another user", ("impersonate",)),
    ("authentication.k8s.io", ("userextras", "uids"), "acts as another user", ("impersonate",)),
    # get: a WebSocket is opened by a GET request
    ("", ("pods/exec", "pods/attach", "pods/ephemeralcontainers"), "runs commands in pods", ("get", *_WRITES)),
    ("", ("serviceaccounts/token",), "creates tokens of service accounts", ("create",)),
    # the kubelet runs commands in every pod of its node
    ("", ("nodes/proxy",), "reaches the kubelet", ("get", *_WRITES, "delete")),
    # list and watch return the values too
    ("", ("secrets",), "reads Secrets", ("get", "list", "watch")),
    (_CERTIFICATES, ("certificatesigningrequests/approval",), "approves certificates", ("update", "patch")),
    (_CERTIFICATES, ("signers",), "approves certificates", ("approve", "sign")),
)
"""API group, resources, what the grant lets a subject do, and the verbs."""
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


def escalates(change: Change) -> str | None:
    """Match a role that grants a path to other rights, which it did not grant before."""
    if change.ref.group != _RBAC or change.ref.kind not in ("Role", "ClusterRole") or change.desired is None:
        return None
    known = permissions(change.live)
    for verb, group, resource, _ in sorted(permissions(change.desired) - known):
        # A grant for a URL has its verb in the place of the group.
        if verb == "*" or resource in ("*", "*/*") or (group == "*" and verb != "url"):
            return f"wildcard in {verb} {resource}"
        for path_group, resources, what, verbs in _PATHS:
            if group == path_group and verb in verbs and _covers(resource, resources):
                return f"{verb} {resource} {what}"
    return None


def aggregates(change: Change) -> str | None:
    """Match a ClusterRole whose rules come from more roles, or that adds its rules to another role."""
    if change.ref.of != GroupKind(_RBAC, "ClusterRole") or change.desired is None:
        return None
    rule = change.desired.get("aggregationRule")
    if rule is not None and rule != (change.live or {}).get("aggregationRule"):
        return "rules come from other roles"
    old = labels_of(change.live or {})
    added = (key for key, value in labels_of(change.desired).items() if _AGGREGATE in key and old.get(key) != value)
    return next(added, None)


def mints_token(change: Change) -> str | None:
    """Match a Secret in which the API server writes the token of a ServiceAccount."""
    # The type of a Secret is immutable, so that only a new one can be of this type.
    if change.ref.of != SECRET or change.live is not None or at(change.desired, "type") != _TOKEN:
        return None
    return annotations_of(change.desired or {}).get("kubernetes.io/service-account.name", "")


def changes_account(change: Change) -> str | None:
    """Match pods that run as another ServiceAccount than before, or that now mount its token."""
    if change.live is None or change.desired is None:
        return None
    accounts = service_accounts(change.desired)
    if accounts and (added := accounts - service_accounts(change.live)):
        return min(added)
    old = pod_spec(change.live)
    new = pod_spec(change.desired)
    # Absent counts as mounted: that is the default of Kubernetes.
    if new.get("automountServiceAccountToken") is True and old.get("automountServiceAccountToken") is False:
        return "automountServiceAccountToken"
    return None


def borrows_account(
    change: Change, app: Application, desired: Mapping[ObjectRef, Manifest], live: Mapping[ObjectRef, Manifest]
) -> str | None:
    """
    Match a new workload that runs as a ServiceAccount that is not its own Application's.

    To declare one that exists and that another client made is to take it over, with what is bound to it.
    """
    if change.live is not None:
        return None
    for account in sorted(service_accounts(change.desired)):
        own = ObjectRef("", "ServiceAccount", change.ref.namespace, account)
        if own not in desired or (own in live and not is_owned(app, live[own])):
            return account
    return None


# no slots: ``cached_property`` needs a ``__dict__``
@dataclass(frozen=True)
class OwnSecrets:
    """Which Secrets an Application declares, and which ones its objects read so far."""

    app: Application
    desired: Mapping[ObjectRef, Manifest]
    live: Mapping[ObjectRef, Manifest]

    @cached_property
    def owned(self) -> Mapping[ObjectRef, Manifest]:
        """What exists of the Application; what others made and the commit declares too is not part of it."""
        return {ref: item for ref, item in self.live.items() if is_owned(self.app, item)}

    @cached_property
    def read(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of the Secrets that are read so far."""
        return frozenset((ref.namespace, name) for ref, item in self.owned.items() for name in secrets_read(item))

    @property
    def is_first_sync(self) -> bool:
        """Whether nothing was applied yet, by an Application that a user applied."""
        # the namespace to create may exist before
        return not self.app.is_managed and all(ref.of == NAMESPACE for ref in self.live)

    def declares(self, namespace: str, name: str) -> bool:
        """Whether a Secret is the Application's: to declare one that others made is to take over its values."""
        ref = ObjectRef("", "Secret", namespace, name)
        return ref in self.desired and (ref not in self.live or ref in self.owned)


def reads_secret(change: Change, own: OwnSecrets) -> str | None:
    """
    Match a reference to a Secret that the Application neither declares nor reads so far.

    In the first sync of an Application that a user applied nothing exists, and who applied it named the repository.
    What it held before counts too, also where other Applications hold it now or the commit deletes it.
    The children of an Agent read what the Agent names, which has rules of its own.
    """
    names = secrets_read(change.desired)
    if not names or own.app.owns_by_reference or own.is_first_sync:
        return None
    names -= secrets_read(change.live)
    namespace = change.ref.namespace
    foreign = (
        name for name in sorted(names) if (namespace, name) not in own.read and not own.declares(namespace, name)
    )
    return next(foreign, None)


def _covers(resource: str, resources: tuple[str, ...]) -> bool:
    """Whether a grant covers one of the resources, also as ``*/exec`` or ``pods/*``."""
    kind, _, sub = resource.partition("/")
    names = (name.partition("/") for name in resources)
    return resource in resources or any(sub and kind in ("*", k) and sub in ("*", s) for k, _, s in names)


def acts_for_others(change: Change) -> str | None:
    """Match a new object, or one with another spec, by which another controller writes with its own rights."""
    return _reason_of_kind(change, DEPLOYERS)


def reads_secret_store(change: Change) -> str | None:
    """Match a new object, or one with another spec, by which an operator reads or sends secrets."""
    return _reason_of_kind(change, SECRET_SOURCES)


def _reason_of_kind(change: Change, kinds: dict[GroupKind, str]) -> str | None:
    if change.desired is None or change.ref.of not in kinds:
        return None
    spec = (change.live or {}).get("spec")
    return kinds[change.ref.of] if change.live is None or spec != change.desired.get("spec") else None
