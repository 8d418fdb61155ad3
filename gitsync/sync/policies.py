"""The operator's policies as they are now, for Applications with those that manage them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gitsync.gate.approvals import may_view
from gitsync.gate.explain import PolicySummary, Setting, explain, summaries
from gitsync.gate.policy import Policy, object_violations
from gitsync.gate.policy_files import PolicySet, combine, policies_for, policy_named
from gitsync.objects.application import Application, owner_of_marks
from gitsync.objects.change import Plan
from gitsync.objects.keys import GROUP, VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.signers import Trust
from gitsync.objects.user import User
from gitsync.ports import Cluster, LiveCache, Source
from gitsync.sync.observe import created_namespace
from gitsync.sync.validation import policy_violations

_MOST_ANSWERS = 20_000
"""Answers that are kept; Applications that were deleted have some of them."""


class Policies:
    """
    Return what the policies allow and require of an Application.

    ``current`` is replaced as a whole when the operator changes them; ``problem`` is why the newest version is not
    used, empty while it is.
    """

    def __init__(self, cluster: Cluster, live: LiveCache, source: Source, current: PolicySet | None = None) -> None:
        self._cluster = cluster
        self._live = live
        self._source = source
        self.current = current or PolicySet()
        self.problem = ""
        self._answers: tuple[PolicySet, dict[tuple[str, ...], tuple[Policy, ...]]] = (self.current, {})
        """Of which set, and by the keys of an Application and those above it, what ``all_of`` returned."""
        self._signed: dict[str, tuple[object, frozenset[str]]] = {}
        """By Application: between which commits and by which signers was asked last, and who had signed."""

    def of(self, app: Application) -> Policy:
        """Return the policy of an Application, with the limits and requirements of those above it."""
        return combine(self.all_of(app))

    def sees_all(self, user: User) -> bool:
        """Return whether no policy hides Applications from a user."""
        return all(may_view(user, policy) for policy in self.current.policies)

    def may_view(self, key: str, user: User) -> bool:
        """Return whether a user may see an Application (``namespace/name``), which need not exist any more."""
        return may_view(user, policy_named(self.current.policies, key))

    def signers(self, app: Application) -> Trust:
        """Return the sets of signers that the policies require."""
        return self.of(app).trust

    def all_of(self, app: Application) -> tuple[Policy, ...]:
        """Return the policy of an Application, and those of the Applications above it; all have to allow a thing."""
        # ten times in a sync, and each pattern of each policy is matched
        answers = self._answers
        # one reference: the operator may replace the set meanwhile, and another thread these answers
        current = self.current
        if answers[0] is not current or len(answers[1]) >= _MOST_ANSWERS:
            answers = self._answers = (current, {})
        ancestors = self._ancestors(app)
        asked = (app.key, app.owner if app.is_managed else "", *ancestors)
        policies = answers[1].get(asked)
        if policies is None:
            policies = answers[1][asked] = policies_for(current.policies, app, ancestors)
        return policies

    def explain(self, app: Application) -> tuple[Setting, ...]:
        """Return the effective policy of an Application, a line for each setting."""
        # one reference: the operator may replace the set between two reads
        current = self.current
        return explain(app, self.all_of(app), current)

    def summaries(self, applications: Iterable[Application]) -> tuple[PolicySummary, ...]:
        """Return who may do what, by tenant and policy."""
        return summaries(applications, self.current)

    def violations(self, app: Application, plan: Plan) -> tuple[str, ...]:
        """Return the violations of policies and rules by an Application and its plan, one line each."""
        return policy_violations(app, plan, self.current, self._ancestors(app))

    def unreadable(self, app: Application, refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
        """
        Return the objects that a policy does not let an Application declare, with the reason.

        They are not read for it either: a commit that names an object of another team would show what it holds.
        """
        # several Applications may create a namespace, and nothing of it is shown but its name
        created = created_namespace(app)
        declared = [ref for ref in refs if ref not in created]
        namespaced = {ref.of for ref in declared if ref.namespace}
        return {
            ref: reason
            for policy in self.all_of(app)
            for ref, reason in object_violations(policy, app, declared, namespaced.__contains__)
        }

    def with_authors(self, app: Application, plan: Plan, applied: str) -> Plan:
        """Return the plan with the authors of its commits since the applied one, where a policy needs to know them."""
        is_needed = any(require.approvers.not_author for require in self.of(app).require)
        # reading the authors walks through the history
        if not is_needed or not plan.writes:
            return plan
        authors = self._source.authors(app.source, applied, plan.revision)
        trust = self.signers(app)
        # names of commits are not proved; a process for each commit and signer, so only where signers have users
        if any(signer.users for signers in trust for signer in signers):
            authors |= self._signing_users(app, applied, plan.revision, trust)
        return replace(plan, authors=authors)

    def _signing_users(self, app: Application, applied: str, revision: str, trust: Trust) -> frozenset[str]:
        """Return the users whose keys signed the commits of a plan; the last answer of an Application is cached."""
        asked = (applied, revision, trust)
        known, users = self._signed.get(app.key, (None, frozenset()))
        if known != asked:
            users = self._source.signing_users(app.source, applied, revision, trust)
            self._signed[app.key] = (asked, users)
        return users

    def _ancestors(self, app: Application) -> tuple[str, ...]:
        """Return the keys of the Applications that manage this one, the direct owner first."""
        ancestors: dict[str, None] = {}
        key = app.owner
        # a cycle of Applications that manage each other must end
        while key and key not in ancestors:
            ancestors[key] = None
            manifest = self.application(key)
            key = owner_of_marks(manifest, ref_of(manifest)) if manifest is not None else ""
        return tuple(ancestors)

    def application(self, key: str) -> Manifest | None:
        """Return the Application of a key (``namespace/name``), None where it does not exist."""
        resource = self._cluster.resource(GROUP, VERSION, "Application")
        namespace, _, name = key.partition("/")
        return self._live.get(resource, namespace, name) if resource is not None else None
