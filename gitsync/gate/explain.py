"""
Explain policies: of an Application each setting with its value and what decided it, and of all who may do what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gitsync.gate.approvals import approvers, is_named
from gitsync.gate.policy import Policy, TenantGrants, application_violations, server_violations
from gitsync.gate.policy_files import PolicySet, combine, own_policies
from gitsync.objects.application import Application, Window
from gitsync.objects.change import Risk
from gitsync.objects.parsing import duration

_ALWAYS = "cluster-scoped kinds, RBAC, Applications elsewhere"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the effective policy; ``source`` names the policy or the Application that decided it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """
    What a tenant or a policy allows and requires, and the Applications for which it counts (``namespace/name``).

    ``violations`` are what some of these lack, each as Application and reason.
    """

    kind: str
    name: str
    settings: tuple[Setting, ...]
    applications: tuple[str, ...]
    violations: tuple[tuple[str, str], ...]


def summaries(applications: Iterable[Application], current: PolicySet) -> tuple[PolicySummary, ...]:
    """
    Return who may do what: the tenants, then the policies, each with its Applications.

    A last one has the Applications that none names, where there are any.
    """
    # without any, the default is what counts for all
    known = current.policies or (Policy(),)
    by_policy: dict[tuple[str, str], list[Application]] = {_identity(policy): [] for policy in known}
    policies = {_identity(policy): policy for policy in known}
    for app in applications:
        for policy in own_policies(known, app.key):
            policies.setdefault(_identity(policy), policy)
            by_policy.setdefault(_identity(policy), []).append(app)
    tenants_first = sorted(policies, key=lambda identity: identity[0] != _TENANT)
    return tuple(_summary(policies[identity], by_policy[identity], current.prometheus) for identity in tenants_first)


_TENANT = "Tenant"


def _identity(policy: Policy) -> tuple[str, str]:
    return (_TENANT if policy.tenant is not None else "Policy", policy.name)


def _summary(policy: Policy, applications: Sequence[Application], prometheus: str) -> PolicySummary:
    kind, name = _identity(policy)
    violations = (
        (app.key, line)
        for app in sorted(applications, key=lambda app: app.key)
        for line in (*application_violations(policy, app), *server_violations(policy, app, prometheus))
    )
    source = f"{kind.lower()} {name}"
    settings = tuple(Setting(title, value, source) for title, value in (*_limits(policy), *_approvals(policy)))
    return PolicySummary(kind, name, settings, tuple(sorted(app.key for app in applications)), tuple(violations))


def explain(app: Application, policies: Sequence[Policy], current: PolicySet) -> tuple[Setting, ...]:
    """
    Return the settings of an Application.

    ``policies`` are its own and those of the Applications above it; without any policy, the defaults.
    """
    combined = combine(policies)
    own = f"Application {app.key}"
    source = (
        f"policy {combined.name}" if current.policies and not current.is_default else "the default, without a policy"
    )
    granted = ", ".join((*combined.kinds, *(combined.cluster_kinds or ())))
    always = f"{_ALWAYS}, except {granted}" if granted else _ALWAYS
    return (
        *_problems(app, policies, current.prometheus),
        Setting("approval", *_approval(app, policies, own)),
        Setting("approval of every class", always, source),
        Setting("approvers", approvers(app, combined), source if _names_approvers(combined) else own),
        *(Setting("window", _window(window), own) for window in app.sync.windows),
        *(Setting(name, value, f"policy {policy.name}") for policy in policies for name, value in _limits(policy)),
        Setting("largest share of objects deleted by one plan", f"{combined.max_prune_share:.0%}", source),
        Setting("largest number of objects", str(combined.max_objects), source),
        *(Setting("rule", rule.message, f"rule {rule.name}") for rule in current.rules),
    )


def _problems(app: Application, policies: Sequence[Policy], prometheus: str) -> Iterator[Setting]:
    for policy in policies:
        for line in (*application_violations(policy, app), *server_violations(policy, app, prometheus)):
            yield Setting("not met", line, f"policy {policy.name}")


def _approval(app: Application, policies: Sequence[Policy], own: str) -> tuple[str, str]:
    """Return the lowest class that needs approval, and what requires it."""
    required = [(app.risk.approval, own)]
    required += [
        (require.approval, f"policy {policy.name}")
        for policy in policies
        for require in policy.require
        if require.approval
    ]
    lowest = [(name, source) for name, source in required if name != "Never"]
    return min(lowest, key=lambda item: Risk(item[0]).level, default=("Never", own))


def _names_approvers(policy: Policy) -> bool:
    named = [require.approvers for require in policy.require]
    return any(approvers.groups or approvers.users or approvers.needs_proof for approvers in named)


def _limits(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield what a policy allows and requires; what it leaves open is left out."""
    if policy.tenant is not None:
        yield from _grants(policy.tenant)
    lists = (
        ("repositories", policy.repositories if policy.tenant is None else ()),
        ("revisions", policy.revisions),
        ("remote repositories", policy.remotes),
        ("namespaces", policy.namespaces),
        ("kinds", policy.kinds),
        ("denied kinds", policy.denied_kinds),
    )
    yield from ((name, ", ".join(values)) for name, values in lists if values)
    servers = policy.servers if policy.tenant is None or not policy.tenant.servers else None
    for name, values in (("cluster-scoped kinds", policy.cluster_kinds), ("external servers", servers)):
        if values is not None:
            yield name, ", ".join(values) or "none"
    for require in policy.require:
        for role, named in (("viewers", require.viewers), ("operators", require.operators)):
            if is_named(named):
                yield role, ", ".join((*named.groups, *named.users))
        if require.signed_commits:
            yield "commits", "signed"
        for signer in require.signers:
            count = f"{len(signer.keys)} {'key' if len(signer.keys) == 1 else 'keys'}"
            yield "signers", f"{', '.join(signer.paths)}: {count}{', also of tags' if signer.tags else ''}"
        if require.service_accounts:
            yield "service account", f"one of {', '.join(require.service_accounts)}"
        yield from (("window", _window(window)) for window in require.windows)
        if require.read_only:
            yield "read-only", "nothing is written"


def _approvals(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield who approves what; for one Application ``explain`` tells it together with its own settings."""
    for require in policy.require:
        if require.approval:
            yield "approval", f"from {require.approval}"
        if is_named(require.approvers):
            yield "approvers", ", ".join((*require.approvers.groups, *require.approvers.users))
        if require.approvers.count > 1:
            yield "approvals", str(require.approvers.count)


def _grants(tenant: TenantGrants) -> Iterator[tuple[str, str]]:
    for title, grants in (("repository", tenant.repositories), ("external server", tenant.servers)):
        for grant in grants:
            secrets = f"credentials of {', '.join(grant.secrets)}" if grant.secrets else "no credentials"
            revisions = f"; revisions {', '.join(grant.revisions)}" if grant.revisions else ""
            yield title, f"{grant.url}: {secrets}{revisions}"
    if not tenant.repositories:
        yield "repositories", "none"
    owner = "that others may have" if tenant.is_shared_key else "of its own"
    yield "SOPS keys", f"{', '.join(tenant.decryption)}, {owner}" if tenant.decryption else "none"


def _window(window: Window) -> str:
    return f"{window.kind} {window.schedule} for {duration(window.duration)} {window.time_zone}"
