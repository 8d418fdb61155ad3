"""Checks of each Application: its Git server, namespaces, Secrets, and the rights that its objects need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gitsync.apply.change import impersonated
from gitsync.cli.adapters import DirectLiveCache
from gitsync.cli.doctor.cluster import namespace_finding
from gitsync.cli.doctor.finding import Finding, missing, ok
from gitsync.cli.doctor.rights import READ, WRITE, Need, Rights
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import GitsyncError
from gitsync.objects.application import Application, parse_application
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest
from gitsync.ports import Source
from gitsync.sync.credentials import credentials_of


@dataclass(frozen=True, slots=True)
class Checks:
    """What the checks of Applications use."""

    cluster: KubernetesCluster
    rights: Rights
    source: Source
    namespaces: tuple[str, ...] = ()
    """The namespaces that the controller watches; empty: all."""


def application_findings(checks: Checks, manifest: Manifest) -> Iterator[Finding]:
    """Yield the findings about one Application."""
    try:
        app = parse_application(manifest)
    except GitsyncError as error:
        yield missing("Application", str(error), "correct its spec")
        return
    check = f"Application {app.key}"
    yield _git_server(checks, app, f"{check}: Git")
    if not app.destination.create_namespace:
        yield namespace_finding(checks.cluster, app.destination.namespace, f"{check}: namespace")
    for need, user in _needs(checks, app, Inventory.from_status(manifest.get("status") or {})):
        yield checks.rights.finding(need, f"{check}: rights", user=user)


def _git_server(checks: Checks, app: Application, check: str) -> Finding:
    try:
        credentials = credentials_of(app, checks.cluster, DirectLiveCache(checks.cluster))
        commit = checks.source.resolve(app.source, credentials)
    except GitsyncError as error:
        where = f"{error.location}: " if error.location else ""
        return missing(
            check, f"{where}{error.message}", error.hint or "correct spec.source, or the Secret that it names"
        )
    return ok(check, f"{app.source.revision} is {commit[:12]}")


def _needs(checks: Checks, app: Application, inventory: Inventory) -> Iterator[tuple[Need, str]]:
    """Yield the rights of the controller and, for writes, of the ServiceAccount that it impersonates."""
    source = app.source
    if source.credentials_secret or source.verification_secret or source.decryption_secret:
        yield Need("", "secrets", READ, app.namespace), ""
    user = impersonated(app)
    if user:
        need = Need("", "serviceaccounts", ("impersonate",), app.namespace, app.destination.service_account)
        yield need, ""
        if checks.rights.denied(need):
            return  # what the account may do cannot be asked
    for group, kind, version, namespace in sorted(
        {(ref.group, ref.kind, held.version, ref.namespace) for ref, held in inventory.entries.items()}
    ):
        resource = checks.cluster.resource(group, version, kind)
        if resource is not None:
            watched = namespace if checks.namespaces else ""
            yield Need(group, resource.plural, READ, watched), ""
            yield Need(group, resource.plural, WRITE, namespace), user
