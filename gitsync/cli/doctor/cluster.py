"""Checks of a cluster: its version and clock, the definitions, and the controller's namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from gitsync.cli.doctor.finding import Finding, missing, ok, warning
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import INSTALL_HINT
from gitsync.crds import definitions, is_current
from gitsync.errors import Rejected
from gitsync.kube.kinds import defined_kind
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of

_SKEW_SECONDS = 10
_OLDEST = (1, 28)
"""The oldest version whose server-side apply and discovery the tests cover."""


def cluster_findings(client: Client, namespace: str, now: Callable[[], datetime]) -> Iterator[Finding]:
    """Yield the findings about the API server; raise ClusterUnavailable when it does not answer."""
    yield _version(client)
    yield _clock(client, now)
    cluster = KubernetesCluster(client)
    for definition in definitions():
        yield _definition(cluster, definition)
    yield namespace_finding(cluster, namespace, "namespace of the controller")


def namespace_finding(cluster: KubernetesCluster, name: str, check: str) -> Finding:
    """Return whether a namespace exists."""
    try:
        found = cluster.read(ObjectRef("", "Namespace", "", name), "v1")
    except Rejected as error:
        return warning(check, f"{name}: {error.message}", "let the controller get namespaces")
    if found is None:
        return missing(check, f"{name} does not exist", f"kubectl create namespace {name}")
    return ok(check, name)


def _version(client: Client) -> Finding:
    answer = client.get("/version")
    text = str(answer.get("gitVersion", ""))
    major, minor = (int("".join(filter(str.isdigit, str(answer.get(key, "0")))) or 0) for key in ("major", "minor"))
    if (major, minor) < _OLDEST:
        return warning("Kubernetes", f"{text} is older than what is tested", "upgrade to Kubernetes 1.28 or newer")
    return ok("Kubernetes", f"{text} at {client.host}")


def _clock(client: Client, now: Callable[[], datetime]) -> Finding:
    """Compare the clock with the API server's, by the time of creation of a review."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = client.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    except Rejected:  # not served before Kubernetes 1.28
        answer = {}
    text = at(answer, "metadata", "creationTimestamp")
    if not text:
        return warning("clock", "the API server does not report its time", "compare the clocks yourself")
    skew = (now() - datetime.fromisoformat(str(text))).total_seconds()
    if abs(skew) > _SKEW_SECONDS:
        detail = f"{skew:+.0f} s from the API server's; Leases, approvals and sync windows depend on it"
        return missing("clock", detail, "synchronize the clocks (NTP)")
    return ok("clock", "in step with the API server's")


def _definition(cluster: KubernetesCluster, definition: Manifest) -> Finding:
    of, check = defined_kind(definition), f"definition of {defined_kind(definition).kind}"
    if cluster.resource(of.group, VERSION, of.kind) is None:
        return missing(check, f"the cluster does not serve {of.kind} of {of.group}/{VERSION}", INSTALL_HINT)
    try:
        live = cluster.read(ref_of(definition), "v1")
    except Rejected as error:
        return warning(check, f"may not be read: {error.message}", INSTALL_HINT)
    if live is None or not is_current(live, definition):
        return warning(check, "is of another version of gitsync: fields may be dropped", INSTALL_HINT)
    return ok(check, f"{of.group}/{VERSION}")


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)
