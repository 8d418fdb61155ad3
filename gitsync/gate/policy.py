"""
Policy: which repositories, namespaces and kinds an Application may use, and what it has to require.

The first are checked on the final objects. An Application can be stricter than required, never weaker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from gitsync.objects.application import Application, Approvers, Window, field_of
from gitsync.objects.change import Risk
from gitsync.objects.parsing import Section, Spec, Strings, Text
from gitsync.objects.patterns import matches
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.objects.remote import without_user
from gitsync.objects.signers import Signer, Trust
from gitsync.objects.urls import matches_url


class RequiredApprovers(Approvers):
    """Who approves, how many users, and whether an author may."""

    count: Annotated[int, Field(ge=1, le=10)] = Field(
        1, description="Signed-in users who have to approve a plan, each for themselves."
    )
    not_author: bool = Field(
        False,
        description="Whether the approval of a user who is author or committer of one of the plan's commits does not"
        " count.",
    )

    @property
    def needs_proof(self) -> bool:
        """Whether only users count whose sign-in proved their name."""
        # A name that was only typed could be another one each time: one person would be two, or not the author.
        return self.count > 1 or self.not_author


class HostReviewer(Section):
    """A user of a Git host, whose approving review of a pull request counts as the approval of its plan."""

    host: Text = Field(description="The URL of the Git host, such as `https://git.example.com`.")
    login: Text = Field(description="Name of the user at the host.")
    user: Text = Field(description="Name of the user here, as approvers and authors of commits are named.")
    groups: Strings = Field((), description="Groups of the user here.")


class RequiredUpdates(Section):
    """What image updates and promotions may propose."""

    paths: Strings = Field((), description="Files that they may edit, as patterns with `*`; absent: all.")
    branches: Strings = Field((), description="Branches into which they may be proposed, as patterns; absent: all.")
    max_class: Annotated[Risk | None, Field(strict=False)] = Field(
        None, description="Highest class of what they change; what is above is written by a person. Absent: any."
    )
    review: bool = Field(
        False, description="Whether each of them is a pull request, also where the Application says `mode: Commit`."
    )


class Require(Spec):
    """What the operator requires; an Application can be stricter, never weaker."""

    approval: Literal["Dangerous", "Moderate"] | None = Field(
        None, description="Class of plans from which approval is needed, also where the Application says `Never`."
    )
    approvers: RequiredApprovers = Field(
        default_factory=RequiredApprovers,
        description="Who approves and rejects; the Application's own approvers only narrow it; absent: any of those.",
    )
    updates: RequiredUpdates = Field(
        default_factory=RequiredUpdates,
        description="Bounds of image updates and promotions, by the controller and by commands; the images are"
        " bounded by `allow.images`, and the repositories by `allow.repositories`.",
    )
    reviewers: Annotated[tuple[HostReviewer, ...], Field(strict=False, max_length=1000)] = Field(
        (),
        description="Users of the Git host whose approving review of a pull request counts as the approval of the plan"
        " to which its merge leads; they have to be approvers here, and no authors of it. Absent: none.",
    )
    viewers: Approvers = Field(
        default_factory=Approvers,
        description="Who sees the Application on the dashboard and in the API, besides the operators and approvers that"
        " are named here; absent: everyone who is signed in. Only that of its own policy counts.",
    )
    operators: Approvers = Field(
        default_factory=Approvers,
        description="Who requests syncs, suspends, resumes and reverts at the dashboard; absent: everyone who is signed"
        " in.",
    )
    signed_commits: bool = Field(
        False,
        description="Whether `source.verify.mode` must be `SignedCommits`; `signers` require signatures without it.",
    )
    signers: Annotated[tuple[Signer, ...], Field(strict=False)] = Field(
        (),
        description="Who may sign: each commit since the applied one has to be signed by keys that may sign all files"
        " that it changes, besides those of the Application; absent: as the Application says.",
    )
    service_accounts: Strings = Field(
        (), description="ServiceAccounts, one of which must be impersonated; absent: all, or none."
    )
    windows: Annotated[tuple[Window, ...], Field(strict=False)] = Field(
        (), description="Times in which syncs are allowed or denied, besides the windows of the Application."
    )
    read_only: bool = Field(False, description="Whether nothing is written: plans are only shown.")


def update_violations(
    policy: Policy, app: Application, revision: str, files: Iterable[str], risk: Risk
) -> Iterator[str]:
    """Yield why an image update or a promotion may not be proposed: by its branch, the files it edits, its class."""
    branch = revision.removeprefix("refs/heads/")
    # before any file: an Application that may not read its repository proposes nothing to it either
    yield from application_violations(policy, app)
    for bounds in (require.updates for require in policy.require):
        if not _matches(bounds.branches, branch):
            yield f"branch {branch} is not allowed for updates by policy {policy.name}"
        for file in files:
            if not _matches(bounds.paths, file):
                yield f"{file} is not allowed for updates by policy {policy.name}"
        if bounds.max_class is not None and risk.level > bounds.max_class.level:
            yield f"the update is {risk.value}, and policy {policy.name} allows at most {bounds.max_class.value}"


def needs_review(policy: Policy) -> bool:
    """Return whether updates are never committed to the tracked branch itself, by the operator's bounds or signers."""
    # a commit that no signer made would be rejected there, and keep later ones from being applied
    return bool(policy.trust) or any(require.updates.review or require.signed_commits for require in policy.require)


def unmet(require: Require, app: Application) -> Iterator[str]:
    """Yield what an Application lacks, one line each."""
    for part in app.source.parts:
        if require.signed_commits and not require.signers and part.verify.mode != "SignedCommits":
            yield f"{field_of(part)}.verify.mode: SignedCommits is required"
    account = app.destination.service_account
    accounts = require.service_accounts
    if accounts and not (account and any(matches(account, pattern) for pattern in accounts)):
        yield f"spec.destination.serviceAccountName: one of {', '.join(accounts)} is required"


_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
# It becomes a part of ``system:serviceaccount:NAMESPACE:NAME``: a colon in it would name another user.
_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class GrantedUrl:
    """
    A pattern of URLs that a tenant may use, and the Secrets whose credentials may be sent there.

    ``revisions`` are for repositories: branches, tags and ranges as in a policy; empty: every branch and tag.
    """

    url: str
    secrets: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TenantGrants:
    """
    What a tenant may use besides objects; all that is not listed is refused.

    ``decryption`` are Secrets with SOPS keys. With ``is_shared_key``, others may have these keys too, so that only
    Secrets are decrypted whose file names the namespace and name that they get.
    """

    repositories: tuple[GrantedUrl, ...] = ()
    servers: tuple[GrantedUrl, ...] = ()
    decryption: tuple[str, ...] = ()
    is_shared_key: bool = True


@dataclass(frozen=True, slots=True)
class Policy:
    """
    What the operator allows; patterns with ``*``. An empty tuple allows all, but for ``cluster_kinds`` and for
    ``remotes``, other repositories whose folders kustomizations may name.

    ``applications`` are those that it applies to (``namespace/name``). ``namespaces`` may hold ``{app}``, the
    namespace of the Application. Kinds are written ``Kind`` for any group, ``Kind.group`` for one. Cluster-scoped
    kinds must be listed, or allowed by the Application's destination where ``cluster_kinds`` is None. Fields that
    ``expected_managers`` add to objects are neither reported nor removed; ``users`` are managers of users besides those
    of ``plan.managers``. ``servers`` are the URLs of Prometheus and reasoners, None for all that the operator
    configured. ``require`` are the requirements of this policy, and of those of the Applications that manage the
    Application. ``controller_rights``: an Application that names no
    ServiceAccount may write with the controller's own rights, which in a cluster are those on every tenant's objects.
    ``revisions`` are branches, tags and ranges as Applications write them; a commit id is none of them.
    ``tenant`` is what a Tenant document grants, None for a Policy document.
    """

    name: str = "default"
    applications: tuple[str, ...] = ("*",)
    repositories: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    denied_kinds: tuple[str, ...] = ()
    cluster_kinds: tuple[str, ...] | None = None
    expected_managers: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    servers: tuple[str, ...] | None = None
    max_prune_share: float = 0.5
    max_objects: int = 10_000
    require: tuple[Require, ...] = ()
    controller_rights: bool = True
    tenant: TenantGrants | None = None

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written."""
        return any(require.read_only for require in self.require)

    @property
    def windows(self) -> tuple[tuple[Window, ...], ...]:
        """The windows that are required: of each member one has to allow a sync."""
        return tuple(require.windows for require in self.require if require.windows)

    @property
    def trust(self) -> Trust:
        """The sets of signers that are required."""
        return tuple(require.signers for require in self.require if require.signers)

    def grants(self, ref: ObjectRef) -> bool:
        """Whether the operator lists the kind of an object, so that it was allowed on purpose."""
        # An absent list allows kinds without naming them: that is not a grant.
        return _names(self.kinds if ref.namespace else self.cluster_kinds or (), ref.of)


def violations(
    policy: Policy, app: Application, refs: Iterable[ObjectRef], is_namespaced: Callable[[GroupKind], bool]
) -> tuple[str, ...]:
    """
    Return the violations of an Application, one line each; empty when all is allowed.

    With any violation nothing of the plan may be written.
    """
    lines = (f"{ref}: {reason}" for ref, reason in object_violations(policy, app, refs, is_namespaced))
    return (*application_violations(policy, app), *lines)


def application_violations(policy: Policy, app: Application) -> tuple[str, ...]:
    """Return what is not allowed about the Application itself: its repository, namespace and service account."""
    messages = [*_repository_violations(policy, app)]
    messages += _revision_violations(policy, app)
    messages += secret_violations(policy, app)
    namespace = app.destination.namespace
    if not _matches(_namespaces(policy, app), namespace):
        messages.append(f"spec.destination.namespace: {namespace} is not allowed by policy {policy.name}")
    messages += account_violations(policy, app)
    messages += [f"{line} by policy {policy.name}" for require in policy.require for line in unmet(require, app)]
    return tuple(messages)


def source_violations(policy: Policy, app: Application) -> tuple[str, ...]:
    """
    Return why a tenant may not read the repository of an Application, or use what it names for that.

    To be asked before a Git server is, which gets the credentials. Empty for a Policy document, whose plans are
    rejected before their first write.
    """
    if policy.tenant is None:
        return ()
    return (*_repository_violations(policy, app), *_revision_violations(policy, app), *secret_violations(policy, app))


def _repository_violations(policy: Policy, app: Application) -> Iterator[str]:
    for part in app.source.parts:
        if policy.repositories and not any(matches_url(item, part.repo_url) for item in policy.repositories):
            yield f"{field_of(part)}.repoURL is not allowed by policy {policy.name}"


def _revision_violations(policy: Policy, app: Application) -> Iterator[str]:
    for part in app.source.parts:
        patterns = policy.revisions
        if policy.tenant is not None:
            grant = _grant_at(policy.tenant.repositories, part.repo_url)
            patterns = grant.revisions if grant is not None else ()
        if not _is_allowed_revision(patterns, part.revision):
            yield (
                f"{field_of(part)}.revision: {part.revision} is not allowed by policy {policy.name}; follow one of"
                f" {', '.join(patterns)}"
            )


def _is_allowed_revision(patterns: tuple[str, ...], revision: str) -> bool:
    if not patterns or "*" in patterns:
        return True
    # servers show commits of forks and of deleted branches by their id: what is in no branch was reviewed by no rule
    if _COMMIT.fullmatch(revision):
        return False
    return any(matches(revision.removeprefix("refs/heads/"), pattern) for pattern in patterns)


def secret_violations(policy: Policy, app: Application) -> Iterator[str]:
    """Yield which Secrets a tenant may not use as an Application names them."""
    tenant = policy.tenant
    if tenant is None:
        return
    for source in app.source.parts:
        repository = _grant_at(tenant.repositories, source.repo_url)
        if source.credentials_secret and source.credentials_secret not in _secrets_of(repository):
            text = _not_granted(source.credentials_secret, source.repo_url, policy)
            yield f"{field_of(source)}.credentials.secretRef.name: {text}"
        if source.decryption_secret and source.decryption_secret not in tenant.decryption:
            name = source.decryption_secret
            yield f"{field_of(source)}.decryption.secretRef.name: Secret {name} is not allowed by policy {policy.name}"
    name = app.image_updates.credentials_secret
    for image in app.images if name else ():
        if name not in _secrets_of(_grant_at(tenant.repositories, f"oci://{image.name}")):
            yield f"spec.imageUpdates.secretRef.name: {_not_granted(name, f'oci://{image.name}', policy)}"
    if app.openai is not None and app.openai.key:
        server = _grant_at(tenant.servers, app.openai.endpoint, is_server=True)
        if app.openai.key not in _secrets_of(server):
            text = _not_granted(app.openai.key, app.openai.endpoint, policy)
            yield f"spec.reasoner.openAI.secretRef.name: {text}"


def key_service_violations(policy: Policy, app: Application, *, secret: str, url: str) -> Iterator[str]:
    """Yield why a tenant may not send the token of a Secret to the address of a key service."""
    tenant = policy.tenant
    if tenant is None:
        return
    try:
        grant = _grant_at(tenant.servers, url, is_server=True)
    except ValueError:
        grant = None  # an address that cannot be compared with one of a pattern
    if secret not in _secrets_of(grant):
        yield _not_granted(secret, url, policy)


def _grant_at(grants: Iterable[GrantedUrl], url: str, *, is_server: bool = False) -> GrantedUrl | None:
    """Return the grant for a URL: the first that names it, so that a wider one below does not add to it."""
    names = _is_server_at if is_server else matches_url
    return next((grant for grant in grants if names(grant.url, url)), None)


def _secrets_of(grant: GrantedUrl | None) -> tuple[str, ...]:
    return grant.secrets if grant is not None else ()


def _not_granted(secret: str, url: str, policy: Policy) -> str:
    return f"Secret {secret} is not allowed for {without_user(url)} by policy {policy.name}"


def account_violations(policy: Policy, app: Application) -> tuple[str, ...]:
    """Return why the rights by which an Application writes are not allowed or cannot be named, empty where they are."""
    account = app.destination.service_account
    messages = []
    if not account and not policy.controller_rights:
        # the setting changes nothing for a tenant
        setting = "" if policy.tenant is not None else ", or for one team alone set GITSYNC_CONTROLLER_RIGHTS=true"
        messages.append(
            f"spec.destination.serviceAccountName: none is named, and policy {policy.name} does not let the"
            f" controller's own rights be used; name a ServiceAccount of namespace {app.namespace}{setting}"
        )
    if account and not _SERVICE_ACCOUNT.fullmatch(account):
        messages.append(
            f"spec.destination.serviceAccountName: {account!r} is invalid; write the name of a ServiceAccount in"
            f" namespace {app.namespace}"
        )
    return tuple(messages)


def object_violations(
    policy: Policy, app: Application, refs: Iterable[ObjectRef], is_namespaced: Callable[[GroupKind], bool]
) -> Iterator[tuple[ObjectRef, str]]:
    """Yield the objects that a policy does not allow an Application to declare, each with the reason."""
    namespaces = _namespaces(policy, app)
    reasons: dict[tuple[GroupKind, str], str] = {}
    for ref in refs:
        # objects are many, kinds and namespaces are few
        key = (ref.of, ref.namespace)
        if key not in reasons:
            reasons[key] = _object_violation(policy, app, key, namespaces, is_namespaced(ref.of))
        if reasons[key]:
            yield ref, reasons[key]


def _object_violation(
    policy: Policy, app: Application, key: tuple[GroupKind, str], namespaces: tuple[str, ...], is_namespaced: bool
) -> str:
    of, namespace = key
    # ``kinds`` lists namespaced kinds; those of the cluster have a list of their own below.
    if _names(policy.denied_kinds, of) or (is_namespaced and policy.kinds and not _names(policy.kinds, of)):
        return f"kind {of} is not allowed by policy {policy.name}"
    if is_namespaced:
        is_allowed = _matches(namespaces, namespace)
        return "" if is_allowed else f"namespace {namespace} is not allowed by policy {policy.name}"
    if _allows_cluster_kind(policy, app, of):
        return ""
    return f"cluster-scoped kind {of} is not allowed by policy {policy.name} for application {app.name}"


def _allows_cluster_kind(policy: Policy, app: Application, of: GroupKind) -> bool:
    if policy.cluster_kinds is None:
        return app.destination.allow_cluster_scoped
    # both: the list of a policy is for many Applications, each of which still has to opt in
    return app.destination.allow_cluster_scoped and _names(policy.cluster_kinds, of)


def _namespaces(policy: Policy, app: Application) -> tuple[str, ...]:
    return tuple(pattern.replace("{app}", app.namespace) for pattern in policy.namespaces)


def _names(patterns: Iterable[str], of: GroupKind) -> bool:
    return any(matches(of.kind, pattern) or matches(str(of), pattern) for pattern in patterns)


def _matches(patterns: tuple[str, ...], value: str) -> bool:
    return not patterns or any(matches(value, pattern) for pattern in patterns)


def server_violations(policy: Policy, app: Application, prometheus: str) -> Iterator[str]:
    """Yield which servers an Application uses that its policy does not allow; ``prometheus`` is the operator's URL."""
    if app.openai is not None and not allows_server(policy, app.openai.endpoint):
        yield f"spec.reasoner.openAI.endpoint: {app.openai.endpoint} is not allowed by policy {policy.name}"
    if app.sync.limits:
        yield from query_violation(policy, prometheus)


def query_violation(policy: Policy, prometheus: str) -> Iterator[str]:
    """Yield that the operator's Prometheus may not be queried, where the policy does not allow it."""
    if prometheus and not allows_server(policy, prometheus):
        yield f"prometheusQuery: {prometheus} is not allowed by policy {policy.name}"


def allows_server(policy: Policy, url: str) -> bool:
    """Whether a policy allows a server; a pattern allows every path below it."""
    if policy.servers is None:
        return True
    return any(_is_server_at(pattern, url) for pattern in policy.servers)


def _is_server_at(pattern: str, url: str) -> bool:
    # With the slash: ``https://prom`` as a prefix would match ``https://prom.evil.example`` too.
    return matches_url(pattern, url) or matches_url(f"{pattern.rstrip('/')}/*", url)
