"""Bring the children of one owner to what was expanded: observe, plan, gate, apply and record."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from gitsync.agents.keys import AGENT_LABEL
from gitsync.apply.change import ApplyRequest, StepResult
from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import InvalidInput
from gitsync.gate.decide import decide, decide_deletion
from gitsync.gate.policy import Policy, account_violations
from gitsync.objects.application import Application, Destination, GitSource, RiskPolicy, parse_application
from gitsync.objects.change import Change, Decision, Plan, Risk, Verdict
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import AGENTS_MANAGER, APPLICATION
from gitsync.objects.manifest import Manifest, labels_of, uid_of
from gitsync.objects.options import Options, Reconcile
from gitsync.objects.record import Commit, Outcome, SyncRecord
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.operator.kinds import child_resources, own_resource
from gitsync.plan.parts import part_of
from gitsync.plan.risk.table import classify, plan_risk
from gitsync.plan.tracking import controller_of
from gitsync.ports import Ports
from gitsync.sync.cache import PlanCache
from gitsync.sync.input import ReconcileInput, SyncState, Target
from gitsync.sync.observe import Selection, health_of, observe
from gitsync.sync.operation import record_steps
from gitsync.sync.planner import Planned, Planner

_FIRST_LIST = 5.0
_REPLACEABLE = "Job"
"""The kind whose objects are recreated where a field cannot be changed: checks run again."""

_KEPT = "PersistentVolumeClaim"
"""The kind whose objects have no owner while they are to outlive it."""

_GIVEN = frozenset(
    {
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("rbac.authorization.k8s.io", "Role"),
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"),
    }
)
"""Children whose content is ours: a Lease, and the right to this Lease only."""

_ENDPOINT_RULES = frozenset({"endpoint-introduced", "endpoint-set"})
"""Rules that compare the settings of children with all that is live."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The object whose children are reconciled, and the text of what it is reconciled to, for the audit."""

    ref: ObjectRef
    uid: str
    generation: int
    manager: str = ""
    """The key of the Application that applied it from Git, empty where a user applied it."""
    is_permitted: bool = True
    """False: the gate of that Application permitted the spec, but not what is done now, which passes one of its own."""
    deletes_in_foreground: bool = False
    """Whether a deleted child stays until what it owns is gone, so that its absence means that its Pods have ended."""

    @property
    def application(self) -> Application:
        """
        The owner as the engine sees it.

        A spec that an Application applied from Git has passed its gate; one that a user applied has not.
        """
        return Application(
            name=f"{self.ref.kind.lower()}:{self.ref.name}",
            namespace=self.ref.namespace,
            uid=self.uid,
            generation=self.generation,
            # An empty URL: nothing is fetched for an owner that is not an Application.
            source=GitSource.model_construct(repo_url=""),
            destination=Destination(namespace=self.ref.namespace),
            # The limit of deletions is for Applications: replacing all children is a normal update of an Agent.
            risk=RiskPolicy(
                approval="Never" if self.manager and self.is_permitted else "Dangerous", max_deletes=1_000_000
            ),
            field_manager=AGENTS_MANAGER,
            owns_by_reference=True,
            deletes_in_foreground=self.deletes_in_foreground,
        )


@dataclass(frozen=True, slots=True)
class WriteRights:
    """
    By whose rights children are written: the policies, and the ServiceAccount where no Application names one.

    The controller's own rights are used only where the policy allows them, as for an Application (decision 0044).
    """

    policy_of: Callable[[Application], Policy]
    default_account: str = ""


AsLive: TypeAlias = Callable[[ObjectRef, Manifest, Manifest | None], Manifest]
"""Return a child with the members that its live object decides, None where it has none."""


@dataclass(frozen=True, slots=True)
class Desired:
    """
    The children to have; those of ``frozen`` are left as they are for now.

    ``as_live`` gets the live objects that the plan is made for. An object that was read before might be deleted
    meanwhile: a claim would be recreated without the snapshot that it is to be restored from.

    Children of ``kept`` are not part of this plan, and of a plan that ``is_partial`` no others than ``objects`` are.
    ``expired`` are live objects, also those without owner reference, that are deleted.
    """

    objects: Mapping[ObjectRef, Manifest]
    frozen: frozenset[ObjectRef] = frozenset()
    kept: frozenset[ObjectRef] = frozenset()
    is_partial: bool = False
    expired: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    as_live: AsLive = lambda ref, desired, live: desired

    @property
    def options(self) -> dict[ObjectRef, Options]:
        """The options of each child."""
        return {
            ref: Options(
                force=ref.kind == _REPLACEABLE,
                reconcile=Reconcile.NEVER if ref in self.frozen else Reconcile.ALWAYS,
            )
            for ref in self.objects
        }


@dataclass(frozen=True, slots=True)
class GateInput:
    """
    What decides whether a plan may run: whether its generation is new.

    A dangerous plan waits while not ``is_safe``. ``spec_change`` is the step from the last permitted spec to the new
    one, None where either is not known.
    """

    is_new: bool = False
    is_safe: bool = True
    spec_change: Change | None = None


Permit = Callable[[Collection[ObjectRef]], None]
"""Store that children may have the specs which they are about to get."""
_CONTINUED = GateInput()
"""Of a generation whose plan passed the gate before."""


@dataclass(slots=True)
class ChildrenCache:
    """What is kept of one owner between reconciles; losing it only costs recomputation."""

    plans: PlanCache = field(default_factory=PlanCache)


@dataclass(frozen=True, slots=True)
class ReconciledChildren:
    """What a pass found and did; ``conflicts`` are objects of children's names that belong to others."""

    live: Mapping[ObjectRef, Manifest]
    health: Mapping[ObjectRef, HealthStatus]
    plan: Plan
    verdict: Verdict = field(default_factory=lambda: Verdict(Decision.ALLOWED))
    results: tuple[StepResult, ...] = ()
    conflicts: tuple[str, ...] = ()
    is_guarded: bool = False
    """The plan is dangerous, and its backup has not succeeded."""
    refusal: str = ""
    """Why no rights are there to write with, empty where there are or nothing is to be written."""

    @property
    def held_plan(self) -> dict[str, Any]:
        """What a status says of a plan that does not run, empty where it runs."""
        if self.verdict.decision is Decision.ALLOWED:
            return {}
        return {
            "id": self.plan.digest[:12],
            "digest": self.plan.digest,
            "class": self.plan.risk.value,
            "steps": len(self.plan.writes),
            "reasons": list(self.verdict.reasons),
        }

    @property
    def failure(self) -> str:
        """Why a write failed or was refused, empty when none was."""
        if self.refusal:
            return self.refusal
        failed = [result for result in self.results if result.outcome is Outcome.FAILED]
        return f"{failed[0].change.ref}: {failed[0].message}" if failed else ""


class ChildrenReconciler:
    """Reconcile the children of owners, which owner references name, so that a crash leaves none unknown."""

    def __init__(
        self,
        ports: Ports,
        planner: Planner,
        applier: Applier,
        writes: WritesByOwner,
        rights: WriteRights,
    ) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._records = ports.records
        self._clock = ports.clock
        self._planner = planner
        self._applier = applier
        self._writes = writes
        self._policy_of = rights.policy_of
        self._default_account = rights.default_account

    def writer_of(self, owner: Owner) -> Application:
        """Return an owner as the engine sees it, with the account by whose rights its children are written."""
        app = owner.application
        manager = self._manager(owner)
        if manager is not None and manager.destination.service_account:
            account = manager.destination.service_account
            namespace = manager.namespace
        # before the default: an installation of one team has no accounts in its namespaces
        elif self._policy_of(manager or app).controller_rights:
            return app
        else:
            account = self._default_account
            namespace = app.namespace
        destination = app.destination.model_copy(update={"service_account": account})
        return replace(app, destination=destination, account_namespace=namespace)

    def _manager(self, owner: Owner) -> Application | None:
        """Return the Application that applied an owner, None where none did."""
        resource = own_resource(self._cluster, APPLICATION)
        namespace, _, name = owner.manager.partition("/")
        manifest = self._live.get(resource, namespace, name) if name and resource is not None else None
        if manifest is None:
            return None
        # the Application reports why its spec is invalid; until then its account is not known
        with suppress(InvalidInput):
            return parse_application(manifest)
        return None

    def refusal(self, owner: Owner, app: Application) -> str:
        """Return why nothing may be written for an owner by any rights, empty where it may."""
        if not account_violations(self._policy_of(self._manager(owner) or app), app):
            return ""
        return (
            f"no ServiceAccount writes for {app.key}: let an Application with destination.serviceAccountName apply it,"
            " name one in GITSYNC_DEFAULT_SERVICE_ACCOUNT, or for one team alone set GITSYNC_CONTROLLER_RIGHTS=true"
        )

    def children(self, uid: str, namespace: str) -> dict[ObjectRef, Manifest]:
        """Return the live children of an owner; raise ClusterUnavailable while a kind has not been listed."""
        kinds = child_resources(self._cluster)
        # Of one namespace: children are beside their owner, and rights elsewhere are not needed.
        self._live.follow([(resource, namespace) for resource in kinds.values()], _FIRST_LIST)
        # Others may name it as an owner besides their controller.
        children = (manifest for manifest in self._live.dependents(uid) if controller_of(manifest) == uid)
        return {ref_of(manifest): manifest for manifest in children}

    def reconcile(
        self,
        owner: Owner,
        desired: Desired,
        cache: ChildrenCache,
        gate_input: GateInput = _CONTINUED,
        permit: Permit = lambda refs: None,
    ) -> ReconciledChildren:
        """
        Apply what differs and delete what is not desired any more.

        ``permit`` is called with the children of each batch once the gate allowed them, before they are written.
        A plan for a new generation passes the gate; later ones only continue or restore what it allowed.
        """
        app = self.writer_of(owner)
        now = self._clock.now()
        began = self._clock.monotonic()
        # First: the observation that follows includes what these writes did.
        results = tuple(write.result for write in self._writes.of(app.key).take())
        # A partial plan has no children to delete, so that none are read.
        known = {} if desired.is_partial else self.children(owner.uid, owner.ref.namespace)
        held = {
            ref: InventoryEntry(str(manifest["apiVersion"]).rpartition("/")[2], uid_of(manifest))
            for ref, manifest in (known | dict(desired.expired)).items()
            if ref not in desired.kept
        }
        observed = observe(Selection(desired.objects, Inventory(held)), self._cluster, self._live)
        objects = {ref: desired.as_live(ref, child, observed.live.get(ref)) for ref, child in desired.objects.items()}
        observation = replace(observed, desired=objects)
        conflicts = _conflicts(owner, objects, observation.live)
        commit = Commit(f"generation-{owner.generation}", message=f"{owner.ref} at generation {owner.generation}")
        # An empty state: owner references are the inventory, so that nothing is kept in a status.
        input = ReconcileInput(app, now, SyncState())
        planned = self._planner.plan(input, Target(commit, objects, desired.options), observation, cache.plans)
        # Before the gate: outcomes of the last pass are recorded, whether a new plan may run or not.
        self._writes.of(app.key).resolve(planned.plan, observation.live)
        planned = replace(planned, plan=replace(planned.plan, authors=self._authors(owner)))
        judged = _judged(planned, gate_input.spec_change)
        verdict = self._verdict(judged, gate_input, is_deletion=desired.is_partial and not objects)
        refusal = self.refusal(owner, app) if planned.plan.writes else ""
        is_allowed = verdict.decision is Decision.ALLOWED and not refusal
        may_run = bool(planned.plan.writes) and not conflicts and is_allowed
        is_guarded = may_run and gate_input.is_new and not gate_input.is_safe and judged.plan.risk is Risk.DANGEROUS
        if may_run and not is_guarded:
            results += self._apply(planned, verdict, permit)
            # An approval is for one plan; what is left has another digest.
            if verdict.approver:
                self._records.end_approval(app.key, planned.plan.digest)
        if results:
            self._record(planned, results, now, round((self._clock.monotonic() - began) * 1000))
        # Read again: the answers of the writes are in the local copies by now.
        after = self.children(owner.uid, owner.ref.namespace) | {
            ref: manifest for ref, manifest in observation.live.items() if ref in objects and ref not in held
        }
        refs = objects.keys() | after.keys()
        health = {ref: health_of(ref, after.get(ref), self._live) for ref in refs}
        is_held = verdict.decision is Decision.HELD
        # The class that the gate has judged, and not the one of the children, explains why the plan waits.
        reported = replace(planned.plan, risk=judged.plan.risk) if is_held else planned.plan
        return ReconciledChildren(
            after, health, reported, _explained(verdict, judged, owner.ref), results, conflicts, is_guarded, refusal
        )

    def _verdict(self, planned: Planned, gate_input: GateInput, *, is_deletion: bool) -> Verdict:
        app = planned.app
        plan = planned.plan
        # Without writes there is nothing to review, and the database is not read.
        review = self._records.review(app.key, plan.digest, planned.inputs.now) if plan.writes else None
        if review is not None and review.steps:
            review = None  # a part of an Agent's children cannot be applied without the others
        policy = self._policy_of(app)
        if is_deletion:  # of chosen children: for ``decide`` a plan without declared objects is an empty render
            verdict = decide_deletion(plan, app, review, policy)
        else:
            verdict = decide(plan, app, policy, review, planned.inputs.now)
        # Of a generation that was permitted before, later steps of a rollout continue without being asked again
        # (decision 0019).
        if verdict.decision is Decision.HELD and not gate_input.is_new:
            return Verdict(Decision.ALLOWED, verdict.reasons)
        return verdict

    def _authors(self, owner: Owner) -> frozenset[str]:
        """Return names and addresses of the authors of the commit by which an Application applied the owner."""
        newest = self._records.history(owner.manager, limit=1) if owner.manager else ()
        return frozenset(name for record in newest for name in (record.commit.author, record.commit.email) if name)

    def _apply(self, planned: Planned, verdict: Verdict, permit: Permit) -> tuple[StepResult, ...]:
        app = planned.app
        observation = planned.observation
        request = ApplyRequest(
            app,
            planned.plan,
            planned.target.commit,
            uuid.uuid4().hex[:16],
            observation.versions,
            # Owner references are the inventory: nothing has to be widened before a write.
            lambda entries: permit(entries.keys()),
            lambda ref, manifest: health_of(ref, manifest, self._live),
            approver=verdict.approver,
        )
        return self._applier.execute(request).results

    def _record(self, planned: Planned, results: tuple[StepResult, ...], now: datetime, took: int) -> None:
        plan = planned.plan
        failed = [result for result in results if result.outcome is Outcome.FAILED]
        self._records.save(
            SyncRecord(
                application=planned.app.key,
                commit=planned.target.commit,
                trigger="agent",
                started=now,
                duration_ms=took,
                outcome=Outcome.FAILED if failed else Outcome.SUCCEEDED,
                risk=plan.risk.value,
                digest=plan.digest,
                explanation=plan.explanation,
                message=failed[0].message if failed else "",
                steps=tuple(record_steps(results).values()),
            ),
            keep=planned.app.history_limit,
        )


def _judged(planned: Planned, spec_change: Change | None) -> Planned:
    """
    Return what the gate judges, under the digest of all: what the spec of the owner decides on.

    Children are compared with what is live, which may be of several revisions: which endpoint is new, only the specs
    tell. A change that no child shows, such as that of a tool which needs no approval any more, is judged by them too.
    """
    plan = planned.plan
    limit = planned.app.risk.max_deletes
    if any(step.ref.of in _GIVEN for step in plan.writes):
        steps = [step.ref.path for step in plan.writes if step.ref.of not in _GIVEN]
        plan = part_of(plan, steps, limit)
    if spec_change is None or not plan.writes:
        return replace(planned, plan=plan)
    judged = classify(spec_change)
    # The rules compare with all that is live; the endpoint is judged by the change of the spec instead.
    children = [replace(step, risk=Risk.MODERATE) if step.rule in _ENDPOINT_RULES else step for step in plan.changes]
    changes = (judged, *children)
    return replace(planned, plan=replace(plan, changes=changes, risk=plan_risk(changes, limit)))


def _explained(verdict: Verdict, judged: Planned, owner: ObjectRef) -> Verdict:
    """Return the verdict of a held plan with why the spec needs an approval."""
    reasons = [f"{step.ref}: {step.reason}" for step in judged.plan.writes if step.ref == owner]
    return replace(verdict, reasons=(*verdict.reasons, *reasons)) if verdict.decision is Decision.HELD else verdict


def _conflicts(
    owner: Owner, desired: Mapping[ObjectRef, Manifest], live: Mapping[ObjectRef, Manifest]
) -> tuple[str, ...]:
    """Return a line for each live object that a child would replace."""
    conflicts = []
    for ref, manifest in desired.items():
        is_owned = controller_of(manifest) == owner.uid
        if ref in live and is_owned and not _is_or_becomes_child(owner, live[ref]):
            conflicts.append(f"{ref} exists and does not belong to {owner.ref}; rename one of them, or delete it")
    return tuple(conflicts)


def _is_or_becomes_child(owner: Owner, live: Manifest) -> bool:
    """Whether an object belongs to an owner; a volume of this name that was to outlive its Agent is adopted."""
    controller = controller_of(live)
    is_kept_volume = live.get("kind") == _KEPT and labels_of(live).get(AGENT_LABEL) == owner.ref.name
    return controller == owner.uid or (is_kept_volume and not controller)
