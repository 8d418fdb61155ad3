"""
Findings of ``gitsync doctor``: about this machine, the cluster, the rights of the controller, and each Application.

Of the machine git and the data folder are checked, of the cluster its version, its clock and the definitions.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from gitsync.apply.change import impersonated
from gitsync.cli.adapters import DirectLiveCache
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import INSTALL_HINT
from gitsync.crds import definitions, is_current
from gitsync.errors import GitsyncError, Rejected
from gitsync.gate.explain import summaries
from gitsync.gate.policy import Policy, TenantGrants
from gitsync.gate.policy_files import PolicySet
from gitsync.kube.kinds import defined_kind
from gitsync.objects.application import Application, followed_source, parse_application
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, VERSION
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import Source
from gitsync.source.landlock import landlock_version
from gitsync.source.validation import is_commit
from gitsync.sync.credentials import ApplicationSecrets

_OLDEST_LANDLOCK = 4
"""The first version that restricts TCP; Linux 6.7."""
_OLDEST_GIT = (2, 31)
"""The first version that takes configuration from the environment (``GIT_CONFIG_COUNT``)."""
_NAMED = 5
"""Applications that a line names."""
_FREE_BYTES = 1 << 30
_SKEW_SECONDS = 10
_OLDEST_CLUSTER = (1, 28)
"""The oldest version whose server-side apply and discovery the tests cover."""
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
READ = ("get", "list", "watch")
WRITE = ("get", "create", "patch", "delete")


class CheckState(StrEnum):
    """How a check ended."""

    OK = "OK"
    WARNING = "Warning"
    """It works, with the limit that the detail names."""
    MISSING = "Missing"
    """It does not work until the fix is applied."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, how that ended, and what to do."""

    check: str
    result: CheckState
    detail: str = ""
    fix: str = ""


def ok(check: str, detail: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(check, CheckState.OK, detail)


def warning(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that limits what works."""
    return Finding(check, CheckState.WARNING, detail, fix)


def missing(check: str, detail: str, fix: str) -> Finding:
    """Return a finding that prevents something."""
    return Finding(check, CheckState.MISSING, detail, fix)


def machine_findings(data: Path) -> Iterator[Finding]:
    """Yield the findings about git, ssh and the data folder."""
    yield _git()
    if shutil.which("ssh") is None:
        yield warning(
            "ssh", "ssh is not on PATH: only repositories over HTTPS can be read", "install an OpenSSH client"
        )
    yield from _data(data)
    yield _landlock()


def _landlock() -> Finding:
    version = landlock_version()
    if version >= _OLDEST_LANDLOCK:
        return ok("Landlock", f"version {version}: renders change no file and have no TCP, git changes its mirror only")
    detail = f"version {version} of this kernel" if version else "this kernel has none, or it is off"
    return warning(
        "Landlock",
        f"{detail}: render processes and git are not kept from files and the network",
        "use Linux 6.7 or newer with lsm=landlock",
    )


def _git() -> Finding:
    if shutil.which("git") is None:
        return missing("git", "git is not on PATH", "install Git 2.31 or newer, or add its folder to PATH")
    # a git that fails prints no version, which is reported below
    text = subprocess.run(["git", "version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.search(r"(\d+)\.(\d+)", text)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST_GIT:
        return missing("git", f"{text or 'git version printed nothing'} is too old", "install Git 2.31 or newer")
    return ok("git", text)


def _data(data: Path) -> Iterator[Finding]:
    check = f"data folder {data}"
    fix = "name a folder that this user may write with --data or GITSYNC_DATA; in a pod, mount a volume on /data"
    try:
        data.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=data):  # the mode alone does not show a read-only file system
            pass
        free = shutil.disk_usage(data).free
    except OSError as error:
        yield missing(check, f"cannot be written by user {os.getuid()}: {error.strerror}", fix)
        return
    text = f"{free / (1 << 30):.1f} GiB free"
    yield ok(check, text) if free >= _FREE_BYTES else warning(check, text, "mirrors and history need 1 GiB; enlarge it")


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
        namespace = cluster.read(ObjectRef("", "Namespace", "", name), "v1")
    except Rejected as error:
        # not missing: the caller of this command may lack a right that the controller has
        return warning(check, f"{name}: {error.message}", "let the controller get namespaces")
    if namespace is None:
        return missing(check, f"{name} does not exist", f"kubectl create namespace {name}")
    return ok(check, name)


def _version(client: Client) -> Finding:
    answer = client.get("/version")
    text = str(answer.get("gitVersion", ""))
    # minor may end in "+" at a managed cluster, as in "28+"
    major, minor = (int("".join(filter(str.isdigit, str(answer.get(key, "0")))) or 0) for key in ("major", "minor"))
    if (major, minor) < _OLDEST_CLUSTER:
        return warning("Kubernetes", f"{text} is older than what is tested", "upgrade to Kubernetes 1.28 or newer")
    return ok("Kubernetes", f"{text} at {client.host}")


def _clock(client: Client, now: Callable[[], datetime]) -> Finding:
    """Compare the clock with the API server's, by the time of creation of a review."""
    # a review is stored nowhere and needs no right, and its metadata has the time of the API server
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
    of = defined_kind(definition)
    check = f"definition of {defined_kind(definition).kind}"
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


@dataclass(frozen=True, slots=True)
class NeededAccess:
    """Verbs on a resource, in all namespaces where ``namespace`` is empty."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        full = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{full} {self.name}".strip() + (f" in {self.namespace}" if self.namespace else "")

    @property
    def rule(self) -> str:
        """The rule of a role that grants it."""
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: [{", ".join(self.verbs)}]}}'


def controller_needs(namespaces: Iterable[str], install_crds: bool, leases_in: str) -> Iterator[NeededAccess]:
    """
    Yield what the controller needs for its own work; ``leases_in`` is empty without replicas.

    The installed roles have exactly this, which a test compares. Another role reads what Applications declare.
    """
    for namespace in namespaces or ("",):
        yield NeededAccess(APPLICATION.group, "applications", (*READ, "create", "patch", "update", "delete"), namespace)
        yield NeededAccess(APPLICATION.group, "applicationsets", (*READ, "patch"), namespace)
        yield NeededAccess(APPLICATION.group, "applicationsets/finalizers", ("update",), namespace)
        for kind in ("applications", "applicationsets"):
            yield NeededAccess(APPLICATION.group, f"{kind}/status", ("patch", "update"), namespace)
        for kind in ("agents", "multiagentsystems"):
            yield NeededAccess(AGENTS_GROUP, kind, (*READ, "patch", "update"), namespace)
            yield NeededAccess(AGENTS_GROUP, f"{kind}/status", ("patch", "update"), namespace)
        yield NeededAccess("", "events", ("get", "list", "create", "patch"), namespace)
        yield NeededAccess("", "pods/log", ("get",), namespace)
        yield NeededAccess("metrics.k8s.io", "pods", ("list",), namespace)
    for definition in definitions() if install_crds else ():
        name = definition["metadata"]["name"]
        yield NeededAccess("apiextensions.k8s.io", "customresourcedefinitions", ("get", "create", "patch"), name=name)
    if leases_in:
        yield NeededAccess("coordination.k8s.io", "leases", ("get", "list", "create", "update", "delete"), leases_in)


class Rights:
    """Ask the API server what the caller, or a user that it impersonates, may do; each answer is kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[NeededAccess, str], tuple[str, ...]] = {}

    def finding(self, need: NeededAccess, check: str, *, user: str = "") -> Finding:
        """Return whether all verbs are allowed, with the rule that is missing."""
        denied = self.denied(need, user)
        who = f" for {user}" if user else ""
        if not denied:
            return ok(check, f"{need}{who}")
        role = "Role" if need.namespace else "ClusterRole"
        rule = NeededAccess(need.group, need.resource, denied).rule
        fix = f"grant it by a {role} with {rule}, or apply `gitsync install`"
        return missing(check, f"may not {', '.join(denied)} {need}{who}", fix)

    def denied(self, need: NeededAccess, user: str = "") -> tuple[str, ...]:
        """Return the verbs that are not allowed."""
        if (need, user) not in self._known:  # Applications share most needs, and each verb is a request
            self._known[need, user] = tuple(verb for verb in need.verbs if not self._may(verb, need, user))
        return self._known[need, user]

    def _may(self, verb: str, need: NeededAccess, user: str) -> bool:
        resource, _, subresource = need.resource.partition("/")
        attributes = {
            "verb": verb,
            "group": need.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": need.namespace,
            "name": need.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        return bool(self._client.send("POST", _REVIEWS, review, user=user)["status"].get("allowed"))


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
    if not app.destination.create_namespace:  # else a sync creates it
        yield namespace_finding(checks.cluster, app.destination.namespace, f"{check}: namespace")
    for need, user in _needs(checks, app, Inventory.from_status(manifest.get("status") or {})):
        yield checks.rights.finding(need, f"{check}: rights", user=user)


def rejected_applications(
    cluster: KubernetesCluster, namespaces: Sequence[str] = ("",), *, has_own_rights: bool
) -> Iterator[Finding]:
    """Yield the Applications that earlier versions accept and this one rejects; what they applied stays as it is."""
    items = cluster.objects(APPLICATION, VERSION, namespaces)
    nameless = _keys(item for item in items if not at(item, "spec", "destination", "serviceAccountName"))
    if nameless and not has_own_rights:
        yield warning(
            "rights of Applications",
            f"without destination.serviceAccountName, and rejected where no policy allows it: {nameless}",
            "name a ServiceAccount, or for one team alone set GITSYNC_CONTROLLER_RIGHTS=true",
        )
    pinned = _keys(item for item in items if is_commit(followed_source(item)[1]))
    if pinned:
        yield warning(
            "revisions of Applications",
            f"follow a commit id, which has to be in a branch or tag: {pinned}",
            "push the commits to a branch or tag that stays",
        )


def _keys(items: Iterable[Manifest]) -> str:
    keys = [f"{at(item, 'metadata', 'namespace')}/{at(item, 'metadata', 'name')}" for item in items]
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if keys[_NAMED:] else "")


def policy_findings(checks: Checks, policies: PolicySet, applications: Iterable[Application]) -> Iterator[Finding]:
    """Yield whether the controller can act for each tenant, and what the Applications of each policy lack."""
    for policy in policies.policies:
        for namespace in policy.namespaces if policy.tenant is not None else ():
            # the namespaces of a pattern are those that its Applications name, which are checked with them
            if "*" not in namespace:
                yield from _tenant_findings(checks, policy, policy.tenant, namespace)
    for summary in summaries(applications, policies):
        fix = f"change its spec, or list what it needs in the {summary.kind} {summary.name}"
        for key, reason in summary.violations:
            yield missing(f"Application {key}: policy", reason, fix)


def _tenant_findings(checks: Checks, policy: Policy, tenant: TenantGrants | None, namespace: str) -> Iterator[Finding]:
    check = f"Tenant {policy.name}"
    yield namespace_finding(checks.cluster, namespace, f"{check}: namespace")
    accounts = [account for require in policy.require for account in require.service_accounts if "*" not in account]
    for account in accounts:
        need = NeededAccess("", "serviceaccounts", ("impersonate",), namespace, account)
        yield checks.rights.finding(need, f"{check}: rights")
    yield checks.rights.finding(NeededAccess("", "secrets", READ, namespace), f"{check}: rights")
    if tenant is None:
        return
    granted = [secret for grant in (*tenant.repositories, *tenant.servers) for secret in grant.secrets]
    for secret in dict.fromkeys((*granted, *tenant.decryption)):
        yield _secret_finding(checks, namespace, secret, f"{check}: Secret")


def _secret_finding(checks: Checks, namespace: str, name: str, check: str) -> Finding:
    try:
        secret = checks.cluster.read(ObjectRef("", "Secret", namespace, name), "v1")
    except Rejected as error:
        return warning(check, f"{namespace}/{name}: {error.message}", f"gitsync install --tenant {namespace}")
    if secret is None:
        return warning(check, f"{namespace}/{name} does not exist", "create it, or remove it from the Tenant")
    return ok(check, f"{namespace}/{name}")


def _git_server(checks: Checks, app: Application, check: str) -> Finding:
    try:
        credentials = ApplicationSecrets(checks.cluster, DirectLiveCache(checks.cluster)).credentials(app)
        commit = checks.source.resolve(app.source, credentials)
    except GitsyncError as error:
        where = f"{error.location}: " if error.location else ""
        return missing(
            check, f"{where}{error.message}", error.hint or "correct spec.source, or the Secret that it names"
        )
    return ok(check, f"{app.source.revision} is {commit[:12]}")


def _needs(checks: Checks, app: Application, inventory: Inventory) -> Iterator[tuple[NeededAccess, str]]:
    """Yield the rights of the controller and, for writes, of the ServiceAccount that it impersonates."""
    source = app.source
    if source.credentials_secret or source.verification_secret or source.decryption_secret:
        yield NeededAccess("", "secrets", READ, app.namespace), ""
    user = impersonated(app)
    if user:
        need = NeededAccess("", "serviceaccounts", ("impersonate",), app.namespace, app.destination.service_account)
        yield need, ""
        if checks.rights.denied(need):
            return  # what the account may do cannot be asked
    for group, kind, version, namespace in sorted(
        {(ref.group, ref.kind, held.version, ref.namespace) for ref, held in inventory.entries.items()}
    ):
        resource = checks.cluster.resource(group, version, kind)
        # a kind that the cluster does not serve any more needs no rights
        if resource is not None:
            watched = namespace if checks.namespaces else ""  # a controller of the whole cluster watches all namespaces
            yield NeededAccess(group, resource.plural, READ, watched), ""
            yield NeededAccess(group, resource.plural, WRITE, namespace), user
