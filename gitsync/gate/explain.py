"""Explain the effective policy of an Application: each setting with its value and what decided it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gitsync.gate.approvals import approvers
from gitsync.gate.policy import Policy, application_violations, server_violations
from gitsync.gate.policy_files import PolicySet, combine
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
    """Yield what a policy allows and requires, besides approvals; what it leaves open is left out."""
    lists = (
        ("repositories", policy.repositories),
        ("revisions", policy.revisions),
        ("remote repositories", policy.remotes),
        ("namespaces", policy.namespaces),
        ("kinds", policy.kinds),
        ("denied kinds", policy.denied_kinds),
    )
    yield from ((name, ", ".join(values)) for name, values in lists if values)
    for name, values in (("cluster-scoped kinds", policy.cluster_kinds), ("external servers", policy.servers)):
        if values is not None:
            yield name, ", ".join(values) or "none"
    for require in policy.require:
        if named := (*require.operators.groups, *require.operators.users):
            yield "operators", ", ".join(named)
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


def _window(window: Window) -> str:
    return f"{window.kind} {window.schedule} for {duration(window.duration)} {window.time_zone}"
