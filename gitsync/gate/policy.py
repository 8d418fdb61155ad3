"""Policy: which repositories, namespaces and kinds an Application may use, checked on the final objects."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gitsync.objects.application import Application
from gitsync.objects.ref import GroupKind, ObjectRef

_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Policy:
    """
    What the operator allows; patterns with ``*``. An empty tuple allows all, but for ``cluster_kinds``.

    ``applications`` are those that it applies to (``namespace/name``). ``namespaces`` may hold ``{app}``, the
    namespace of the Application. Kinds are written ``Kind`` for any group, ``Kind.group`` for one. Cluster-scoped
    kinds must be listed, or allowed by the Application's destination where ``cluster_kinds`` is None.
    """

    name: str = "default"
    applications: tuple[str, ...] = ("*",)
    repositories: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    denied_kinds: tuple[str, ...] = ()
    cluster_kinds: tuple[str, ...] | None = None
    max_prune_share: float = 0.5
    max_objects: int = 10_000


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
    if not _matches(policy.repositories, app.source.repo_url):
        found.append(f"spec.source.repoURL is not allowed by policy {policy.name}")
    namespace = app.destination.namespace
    if not _matches(_namespaces(policy, app), namespace):
        found.append(f"spec.destination.namespace: {namespace} is not allowed by policy {policy.name}")
    account = app.destination.service_account
    if account and not _SERVICE_ACCOUNT.fullmatch(account):
        found.append(
            f"spec.destination.serviceAccountName: {account!r} is invalid; write the name of a ServiceAccount in"
            f" namespace {namespace}"
        )
    return tuple(found)


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
