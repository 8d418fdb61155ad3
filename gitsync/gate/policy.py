"""Policy: which repositories, namespaces and kinds an Application may use, checked on the final objects."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from gitsync.objects.application import Application, Approvers
from gitsync.objects.parsing import Spec, Strings
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.objects.urls import matches_url

_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


class Require(Spec):
    """What the operator requires; an Application can be stricter, never weaker."""

    approval: Literal["Dangerous", "Moderate"] | None = Field(
        None, description="Class of plans from which approval is needed, also where the Application says `Never`."
    )
    approvers: Approvers = Field(
        default_factory=Approvers,
        description="Who approves and rejects; the Application's own approvers only narrow it; absent: any of those.",
    )
    signed_commits: bool = Field(False, description="Whether `source.verify.mode` must be `SignedCommits`.")
    service_accounts: Strings = Field(
        (), description="ServiceAccounts, one of which must be impersonated; absent: all, or none."
    )
    read_only: bool = Field(False, description="Whether nothing is written: plans are only shown.")


@dataclass(frozen=True, slots=True)
class Policy:
    """
    What the operator allows; patterns with ``*``. An empty tuple allows all, but for ``cluster_kinds``.

    ``applications`` are those that it applies to (``namespace/name``). ``namespaces`` may hold ``{app}``, the
    namespace of the Application. Kinds are written ``Kind`` for any group, ``Kind.group`` for one. Cluster-scoped
    kinds must be listed, or allowed by the Application's destination where ``cluster_kinds`` is None. Fields that
    ``expected_managers`` add to objects are neither reported nor removed. ``require`` are
    the requirements of this policy, and of those of the Applications that manage the Application.
    """

    name: str = "default"
    applications: tuple[str, ...] = ("*",)
    repositories: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    denied_kinds: tuple[str, ...] = ()
    cluster_kinds: tuple[str, ...] | None = None
    expected_managers: tuple[str, ...] = ()
    max_prune_share: float = 0.5
    max_objects: int = 10_000
    require: tuple[Require, ...] = ()

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written."""
        return any(require.read_only for require in self.require)

    def grants(self, ref: ObjectRef) -> bool:
        """Whether the operator lists the kind of an object, so that it was allowed on purpose."""
        return _names(self.kinds if ref.namespace else self.cluster_kinds or (), ref.of)


def violations(
    policy: Policy, app: Application, refs: Iterable[ObjectRef], is_namespaced: Callable[[GroupKind], bool]
) -> tuple[str, ...]:
    """
    Return the violations of an Application, one line each; empty when all is allowed.

    With any violation nothing of the plan may be written.
    """
    return (*application_violations(policy, app), *_object_violations(policy, app, refs, is_namespaced))


def application_violations(policy: Policy, app: Application) -> tuple[str, ...]:
    """Return what is not allowed about the Application itself: its repository, namespace and service account."""
    found = []
    if policy.repositories and not any(matches_url(item, app.source.repo_url) for item in policy.repositories):
        found.append(f"spec.source.repoURL is not allowed by policy {policy.name}")
    namespace = app.destination.namespace
    if not _matches(_namespaces(policy, app), namespace):
        found.append(f"spec.destination.namespace: {namespace} is not allowed by policy {policy.name}")
    account = app.destination.service_account
    if account and not _SERVICE_ACCOUNT.fullmatch(account):
        found.append(
            f"spec.destination.serviceAccountName: {account!r} is invalid; write the name of a ServiceAccount in"
            f" namespace {app.namespace}"
        )
    return (*found, *_unmet(policy, app))


def _unmet(policy: Policy, app: Application) -> Iterable[str]:
    for require in policy.require:
        if require.signed_commits and app.source.verify.mode != "SignedCommits":
            yield f"spec.source.verify.mode: SignedCommits is required by policy {policy.name}"
        account = app.destination.service_account
        if require.service_accounts and not (account and _matches(require.service_accounts, account)):
            accounts = ", ".join(require.service_accounts)
            yield f"spec.destination.serviceAccountName: one of {accounts} is required by policy {policy.name}"


def _object_violations(
    policy: Policy, app: Application, refs: Iterable[ObjectRef], is_namespaced: Callable[[GroupKind], bool]
) -> list[str]:
    found = []
    namespaces = _namespaces(policy, app)
    for ref in refs:
        if _names(policy.denied_kinds, ref.of):
            found.append(f"{ref}: kind {ref.of} is not allowed by policy {policy.name}")
        elif is_namespaced(ref.of):
            if policy.kinds and not _names(policy.kinds, ref.of):
                found.append(f"{ref}: kind {ref.of} is not allowed by policy {policy.name}")
            if not _matches(namespaces, ref.namespace):
                found.append(f"{ref}: namespace {ref.namespace} is not allowed by policy {policy.name}")
        elif not _allows_cluster_kind(policy, app, ref.of):
            found.append(
                f"{ref}: cluster-scoped kind {ref.of} is not allowed by policy {policy.name} for application {app.name}"
            )
    return found


def _allows_cluster_kind(policy: Policy, app: Application, of: GroupKind) -> bool:
    if policy.cluster_kinds is None:
        return app.destination.allow_cluster_scoped
    return app.destination.allow_cluster_scoped and _names(policy.cluster_kinds, of)


def _namespaces(policy: Policy, app: Application) -> tuple[str, ...]:
    return tuple(pattern.replace("{app}", app.namespace) for pattern in policy.namespaces)


def _names(patterns: Iterable[str], of: GroupKind) -> bool:
    return any(fnmatch.fnmatchcase(of.kind, pattern) or fnmatch.fnmatchcase(str(of), pattern) for pattern in patterns)


def _matches(patterns: tuple[str, ...], value: str) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns)
