"""``gitsync doctor``."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from gitsync.cli.applications import all_applications, connect, kept_heads, readable
from gitsync.cli.data_folder import open_records
from gitsync.cli.findings import (
    Checks,
    CheckState,
    Finding,
    Rights,
    application_findings,
    cluster_findings,
    controller_needs,
    machine_findings,
    missing,
    ok,
    policy_findings,
    utc_now,
    warning,
)
from gitsync.cli.options import (
    AnyNamespace,
    ClusterTarget,
    FileUrls,
    Output,
    command,
    load_settings,
)
from gitsync.cli.output import Exit, Format, show
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import ClusterUnavailable, GitsyncError, InvalidInput, Rejected, TransientError
from gitsync.objects.manifest import Manifest
from gitsync.record.records import SqlRecords
from gitsync.server.notify.channels import AppriseChannel
from gitsync.server.notify.rules import read_rules
from gitsync.services.policies import read_policies
from gitsync.settings import Settings
from gitsync.source.validation import PlainHosts

_VERIFIED = 20_000
"""Audit records that are verified; ``gitsync audit verify`` reads all."""
_COLUMNS = ("result", "check", "detail", "fix")


@command
def doctor(
    place: ClusterTarget,
    namespace: AnyNamespace = "",
    output: Output = Format.TABLE,
    allow_file_urls: FileUrls = False,
) -> Exit:
    """Report what is missing on a cluster, a Git server or this machine, with the fix. Exit code 1: something is."""
    settings = load_settings(kubeconfig=place.cluster, data=place.data)
    client = connect(place.cluster)
    file_urls = allow_file_urls or place.is_demo
    findings = [*machine_findings(settings.data), *_plain_hosts(settings), *_notifications(settings)]
    code = Exit.OK
    try:
        findings += _database(client, settings)
        findings += _cluster(client, settings, namespace, file_urls=file_urls)
    except ClusterUnavailable as error:
        findings.append(missing("API server", error.message, error.hint or f"is {client.host} reachable from here?"))
        code = Exit.UNAVAILABLE
    finally:
        client.close()
    show([asdict(finding) for finding in findings], _COLUMNS, output, key="check")
    return code or (Exit.DIFFERENT if any(finding.result is CheckState.MISSING for finding in findings) else Exit.OK)


def _cluster(client: Client, settings: Settings, namespace: str, *, file_urls: bool) -> Iterator[Finding]:
    """Yield the findings about the cluster, the controller's rights, and the Applications."""
    yield from cluster_findings(client, settings.namespace, utc_now)
    rights = Rights(client)
    watched = tuple(filter(None, map(str.strip, settings.namespaces.split(","))))
    for need in controller_needs(watched, settings.install_crds, settings.namespace if settings.replicas else ""):
        yield rights.finding(need, "rights of the controller")
    try:
        applications = [item for place in _places(namespace, watched) for item in all_applications(client, place)]
    except Rejected as error:
        yield missing("Applications", error.message, error.hint)
        return
    if shutil.which("git") is None:
        return  # which is reported; no Application can be checked
    # not the mirrors of the controller: a check changes none of its data
    with tempfile.TemporaryDirectory() as mirrors:
        source = settings.repositories(Path(mirrors), file_urls=file_urls)
        checks = Checks(KubernetesCluster(client), rights, source, watched)
        for manifest in applications:
            yield from application_findings(checks, manifest)
        if settings.policies is not None:
            yield from _policies(checks, settings, applications)


def _policies(checks: Checks, settings: Settings, applications: Iterable[Manifest]) -> Iterator[Finding]:
    """Yield the findings about the tenants and policies of the controller, where they can be read here."""
    try:
        policies = read_policies(settings.policies, settings.prometheus, controller_rights=settings.controller_rights)
    except InvalidInput as error:
        yield missing("policies", str(error), "correct the file; the controller uses the earlier ones until then")
        return
    yield from policy_findings(checks, policies, readable(applications))


def _database(client: Client, settings: Settings) -> Iterator[Finding]:
    """Yield whether the history database answers, where there is one already, and whether its audit is intact."""
    if not settings.database and not (settings.data / "history.db").exists():
        return  # the controller creates it at its first start
    try:
        with open_records(settings.data) as records:
            newest = records.audit_records(limit=1)
            yield ok("history database", f"{records.size() / (1 << 20):.1f} MiB")
            yield _audit(client, records, newest[0].id if newest else 0)
    except GitsyncError as error:
        yield missing("history database", error.message, error.hint)


def _audit(client: Client, records: SqlRecords, newest: int) -> Finding:
    """Return whether the newest part of the audit chain is intact, as much as is read in a second."""
    try:
        heads = kept_heads(client)
    except GitsyncError:
        heads = []  # what the cluster lacks is a finding of its own
    first = max(newest - _VERIFIED + 1, 0)
    if wrong := records.verify(heads, first=first):
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return missing(
            "audit chain", f"{wrong[0]}{more}", "gitsync audit verify lists all; restore a backup, or accept the loss"
        )
    detail = f"the newest {_VERIFIED} of {newest} records are intact" if first > 1 else f"{newest} records are intact"
    return ok("audit chain", detail)


def _notifications(settings: Settings) -> Iterator[Finding]:
    """Yield whether the rules of notifications can be sent, as far as that shows without a message."""
    if settings.notifications is None:
        return
    try:
        rules = read_rules(settings.notifications)
    except InvalidInput as error:
        yield missing("notifications", str(error), "correct the file; the controller does not start with it")
        return
    for number, rule in enumerate(rules, 1):
        check = f"notification rule {number}"
        try:
            AppriseChannel(rule).check()
        except InvalidInput as error:
            yield missing(check, str(error), error.hint)
        except TransientError as error:
            yield warning(check, error.message, "nothing is sent until the controller reaches it")
        else:
            yield ok(check, ", ".join(rule.services))


def _plain_hosts(settings: Settings) -> Iterator[Finding]:
    """Yield what the operator allows over HTTP without TLS."""
    hosts = PlainHosts.parse(settings.git_http_hosts, settings.git_http_sign_in)
    if hosts.signed_in:
        detail = f"credentials of repositories at {', '.join(sorted(hosts.signed_in))} are sent without TLS"
        yield warning("GITSYNC_GIT_HTTP_SIGN_IN", detail, "serve them over HTTPS")
    if anonymous := hosts.anonymous - hosts.signed_in:
        detail = f"what {', '.join(sorted(anonymous))} sends can be changed on the way"
        yield warning("GITSYNC_GIT_HTTP_HOSTS", detail, "serve them over HTTPS, or require signed commits")


def _places(namespace: str, watched: tuple[str, ...]) -> tuple[str, ...]:
    """Return the namespaces whose Applications are checked; an empty one means all."""
    return (namespace,) if namespace else watched or ("",)
