"""Risk as data: a table of rules, the first that matches decides the class of a step; users' rules only raise it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gitsync.objects.application import Application, RiskMatch, RiskRule
from gitsync.objects.change import DRIFT, Action, Change, Risk
from gitsync.objects.manifest import Manifest
from gitsync.objects.patterns import matches
from gitsync.objects.ref import ObjectRef
from gitsync.plan.risk import agents, annotation_rules, applications, endpoints, escalation, objects, redirects

Finding = str | None
"""The result of a rule: None for no match, else a text that names where it matched (it may be empty)."""


@dataclass(frozen=True, slots=True)
class Row:
    """The class, a stable name, and the reason that users read."""

    risk: Risk
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RiskCheck(Row):
    """A row with its predicate; ``always_asks``: its steps need approval whatever ``spec.risk.approval`` says."""

    finds: Callable[[Change], Finding]
    always_asks: bool = False


# no slots: ``cached_property`` needs a ``__dict__``
@dataclass(frozen=True)
class Scope:
    """The Application that a step is of, all that it declares, and what of that exists."""

    app: Application
    desired: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    live: Mapping[ObjectRef, Manifest] = field(default_factory=dict)

    @cached_property
    def settings(self) -> endpoints.LiveSettings:
        """The settings of what exists."""
        return endpoints.LiveSettings(self.app, self.live)

    @cached_property
    def secrets(self) -> escalation.OwnSecrets:
        """The Secrets that the Application declares and reads."""
        return escalation.OwnSecrets(self.app, self.desired, self.live)


@dataclass(frozen=True, slots=True)
class ScopedRule(Row):
    """A row that compares a step with the Application that it is of."""

    finds: Callable[[Change, Scope], Finding]
    always_asks: bool = False


NOTHING = "nothing"
"""The rule of steps that write nothing."""

SCOPED_RULES = (  # they precede the others: none of those may hide one that always asks
    ScopedRule(
        Risk.DANGEROUS,
        "application-elsewhere",
        "an Application in another namespace than the one that manages it",
        lambda change, scope: applications.elsewhere(change, scope.app),
        always_asks=True,
    ),
    ScopedRule(
        Risk.DANGEROUS,
        "application-wider",
        "an Application may do more than the one that manages it",
        lambda change, scope: applications.wider_than_parent(change, scope.app),
        always_asks=True,
    ),
    ScopedRule(
        Risk.DANGEROUS,
        "endpoint-introduced",
        "prompts and data may go to another service than so far",
        lambda change, scope: endpoints.endpoint_introduced(change, scope.settings),
    ),
    ScopedRule(
        Risk.DANGEROUS,
        "borrows-account",
        "runs as a ServiceAccount that is not the Application's",
        lambda change, scope: escalation.borrows_account(change, scope.app, scope.desired, scope.live),
    ),
    ScopedRule(
        Risk.DANGEROUS,
        "reads-secret",
        "reads a Secret that is not the Application's",
        lambda change, scope: escalation.reads_secret(change, scope.secrets),
    ),
    ScopedRule(
        Risk.DANGEROUS,
        "hides-fields",
        "hides fields from those who review it",
        lambda change, scope: annotation_rules.hides_fields(change, scope.app),
    ),
)

RULES = (  # the first match decides
    RiskCheck(Risk.SAFE, "releases", "stops managing an object, which stays as it is", objects.releases),
    RiskCheck(Risk.SAFE, "deletes-leftover", "deletes a generated object that nothing reads any more", objects.is_left),
    RiskCheck(
        Risk.DANGEROUS,
        "application-widened",
        "an Application may do more than before",
        applications.widened,
        always_asks=True,
    ),
    RiskCheck(
        Risk.DANGEROUS,
        "deletes-application",
        "deletes an Application, and what it applied with it",
        applications.deletes,
    ),
    RiskCheck(Risk.DANGEROUS, "deletes-data", "deletes an object that holds data", objects.deletes_data),
    RiskCheck(Risk.DANGEROUS, "deletes-guard", "deletes a policy or quota that protects others", objects.deletes_guard),
    RiskCheck(Risk.DANGEROUS, "asks-to-confirm", "its annotation asks for confirmation", objects.asks_to_confirm),
    RiskCheck(Risk.DANGEROUS, "replaces", "deletes the object and creates it again", objects.replaces),
    RiskCheck(Risk.MODERATE, "prunes", "deletes an object", objects.prunes),
    RiskCheck(Risk.DANGEROUS, "agent-tool-unapproved", "a tool no longer needs approval", agents.tool_unapproved),
    RiskCheck(Risk.DANGEROUS, "agent-tool-moved", "a tool is new, or reached elsewhere", agents.tool_moved),
    RiskCheck(Risk.DANGEROUS, "agent-data-moved", "conversations are stored or recorded elsewhere", agents.data_moved),
    RiskCheck(
        Risk.DANGEROUS, "agent-tool-permissions", "the program of a tool may reach more", agents.permissions_changed
    ),
    RiskCheck(Risk.DANGEROUS, "agent-checks-weakened", "an agent is checked less", agents.checks_weakened),
    RiskCheck(Risk.DANGEROUS, "agent-model-moved", "prompts and data go to another model service", agents.model_moved),
    RiskCheck(Risk.DANGEROUS, "endpoint-set", "prompts and data may go to another service", endpoints.endpoint_set),
    RiskCheck(Risk.DANGEROUS, "agent-network-open", "the network is no longer restricted", agents.network_opened),
    RiskCheck(Risk.DANGEROUS, "agent-security", "the security profile is loosened", agents.security_loosened),
    RiskCheck(Risk.DANGEROUS, "agent-credentials", "credentials come from another Secret", agents.credentials_moved),
    RiskCheck(
        Risk.DANGEROUS, "agent-volumes-deleted", "its volumes will be deleted, now or with it", agents.volumes_deletable
    ),
    RiskCheck(Risk.DANGEROUS, "stops", "stops all replicas", objects.stops),
    RiskCheck(Risk.DANGEROUS, "extends-api", "changes the API of the whole cluster", objects.extends_api),
    RiskCheck(Risk.DANGEROUS, "rbac-escalates", "grants a path to the rights of others", escalation.escalates),
    RiskCheck(Risk.DANGEROUS, "rbac-aggregates", "adds rules of one role to another", escalation.aggregates),
    RiskCheck(Risk.DANGEROUS, "mints-token", "creates a token of a ServiceAccount", escalation.mints_token),
    RiskCheck(Risk.DANGEROUS, "changes-account", "pods run as another ServiceAccount", escalation.changes_account),
    RiskCheck(Risk.DANGEROUS, "widens-rbac", "grants more permissions", objects.widens_rbac),
    RiskCheck(
        Risk.DANGEROUS, "widens-privileges", "gives pods more privileges on their node", objects.widens_privileges
    ),
    RiskCheck(Risk.DANGEROUS, "drops-protections", "removes restrictions of pods", objects.drops_protections),
    RiskCheck(Risk.DANGEROUS, "opens-network", "allows more network traffic", objects.opens_network),
    RiskCheck(
        Risk.DANGEROUS, "opens-network-fully", "allows traffic from or to everywhere", redirects.opens_new_policy
    ),
    RiskCheck(Risk.DANGEROUS, "redirects-service", "sends traffic elsewhere", redirects.redirects_service),
    RiskCheck(Risk.DANGEROUS, "redirects-names", "resolves names to other addresses", redirects.redirects_names),
    RiskCheck(Risk.DANGEROUS, "annotation-acts", "lets another controller act", annotation_rules.annotation_acts),
    RiskCheck(Risk.DANGEROUS, "acts-for-others", "another controller acts with its rights", escalation.acts_for_others),
    RiskCheck(Risk.DANGEROUS, "reads-secret-store", "reads or sends secrets of a store", escalation.reads_secret_store),
    RiskCheck(Risk.DANGEROUS, "claims-deletable", "its volumes will be deleted", objects.claims_deletable),
    RiskCheck(Risk.DANGEROUS, "loosens-namespace", "loosens pod security of a namespace", objects.loosens_namespace),
    # After the rules above for labels and annotations that act: of those, this one would hide all.
    RiskCheck(Risk.SAFE, "metadata-only", "only labels and annotations change", objects.metadata_only),
    RiskCheck(Risk.SAFE, "owns", "takes over fields that already have their values", objects.only_owns),
    RiskCheck(Risk.MODERATE, "adopts", "takes over an object that gitsync did not apply", objects.adopts),
    RiskCheck(Risk.MODERATE, "hook", "runs a hook", objects.runs_hook),
    RiskCheck(Risk.MODERATE, "agent-prompt", "a prompt is new or changed", agents.prompt_changed),
    RiskCheck(Risk.MODERATE, "agent-model", "the model changes", agents.model_changed),
    RiskCheck(Risk.MODERATE, "agent-tools", "the tools change", agents.tools_changed),
    RiskCheck(Risk.MODERATE, "image-unpinned", "runs an image that is not pinned by digest", objects.unpinned_image),
    RiskCheck(Risk.MODERATE, "image", "runs another image", objects.other_image),
    RiskCheck(Risk.MODERATE, "exposes", "can be reached from outside the cluster", objects.exposes),
    RiskCheck(Risk.MODERATE, "starts-workload", "starts a workload", objects.starts_workload),
    RiskCheck(Risk.SAFE, "creates", "creates an object", objects.creates),
    # matches everything, so that ``_first_match`` always finds a row
    RiskCheck(Risk.MODERATE, "updates", "changes an object", objects.updates),
)


def classify(
    change: Change,
    user_rules: Iterable[RiskRule] = (),
    predecessor: Manifest | None = None,
    scope: Scope | None = None,
) -> Change:
    """
    Return the step with its class, the rule that decided and the reason.

    The reason is appended to one that the step already has. A user's rule raises a class and never lowers one. An
    object that replaces a ``predecessor`` is classified as a change of that one too, and the higher class counts.
    ``scope`` is the Application that the step is of, with all that it declares. A step of an object that others
    changed is classified from the repaired object.
    """
    if change.repaired is not None:
        judged = classify(_from_repaired(change), user_rules, predecessor, scope)
        return replace(change, risk=judged.risk, rule=judged.rule, reason=judged.reason, always_asks=judged.always_asks)
    if not change.is_write:
        # The identical step where nothing changes: the planner makes thousands of them.
        return change if change.rule == NOTHING else replace(change, rule=NOTHING)
    rule, place = _first_match(change, scope)
    if change.action is Action.CREATE and predecessor is not None:
        other, other_place = _first_match(replace(change, action=Action.UPDATE, live=predecessor), scope)
        # The higher one: a new name must not make a change of content look like a harmless creation.
        if other.risk.level > rule.risk.level:
            rule = other
            place = other_place
    reason = f"{rule.reason}: {place}" if place else rule.reason
    risk = rule.risk
    name = rule.name
    for index, user_rule in enumerate(user_rules):
        if user_rule.risk.level > risk.level and _matches(user_rule.match, change):
            risk = user_rule.risk
            name = f"spec.risk.rules[{index}]"
            reason = f"{reason}; raised by {name}"
    if change.reason:
        reason = f"{change.reason}; {reason}"
    return replace(change, risk=risk, rule=name, reason=reason, always_asks=rule.always_asks)


def _from_repaired(change: Change) -> Change:
    """Return the step as it is from the repaired object, which exists also where others deleted the live one."""
    action = Action.UPDATE if change.action is Action.CREATE else change.action
    return replace(change, action=action, live=change.repaired, repaired=None)


def _first_match(change: Change, scope: Scope | None) -> tuple[RiskCheck | ScopedRule, str]:
    if scope is not None and change.action is not Action.RELEASE:
        for row in SCOPED_RULES:
            if (place := row.finds(change, scope)) is not None:
                return row, place
    return next((rule, place) for rule in RULES if (place := rule.finds(change)) is not None)


def plan_risk(changes: Iterable[Change], max_deletes: int) -> Risk:
    """Return the class of a plan: that of its highest step, and Dangerous when it deletes too many objects."""
    writes = [change for change in changes if change.is_write]
    if sum(change.action in (Action.PRUNE, Action.REPLACE) for change in writes) > max_deletes:
        return Risk.DANGEROUS
    return max((change.risk for change in writes), key=lambda risk: risk.level, default=Risk.SAFE)


def _matches(rule: RiskMatch, change: Change) -> bool:
    if rule.group and not matches(change.ref.group, rule.group):
        return False
    if rule.kind and not matches(change.ref.kind, rule.kind):
        return False
    if rule.actions and change.action.value not in {action.lower() for action in rule.actions}:
        return False
    return not rule.changed or any(_touches(change, pointer) for pointer in rule.changed)


def _touches(change: Change, pointer: str) -> bool:
    """Whether a step changes the field at a JSON Pointer; creating or deleting the object changes all fields."""
    if change.action is not Action.UPDATE and change.action is not Action.ADOPT:
        return True
    prefix = pointer.rstrip("/")
    return any(
        difference.kind in DRIFT
        and (
            difference.pointer == prefix
            or difference.pointer.startswith(f"{prefix}/")
            # a value above the field that is replaced as a whole
            or prefix.startswith(f"{difference.pointer}/")
        )
        for difference in change.differences
    )
