"""An adversary who writes commits: no sequence of them reaches a right without an approval."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitsync.gate.decide import decide
from gitsync.gate.policy_files import PolicySet, parse_policy, policy_for
from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.application import parse_application
from gitsync.objects.change import Action, Decision
from gitsync.objects.manifest import at
from gitsync.plan.risk import table
from gitsync.plan.risk.applications import WIDER
from gitsync.plan.tracking import owner_of
from gitsync.sync.validation import policy_violations
from tests.gate.factories import sequences
from tests.gate.test_requirements import NOW
from tests.plan.factories import (
    applied,
    config,
    deployment,
    desired_of,
    inventory_of,
    live_of,
    plan_of,
    schema_of,
)

SPEC = {"source": {"repoURL": "https://git.example/team"}, "destination": {"namespace": "shop"}}
POLICY = parse_policy(
    {
        "kind": "Policy",
        "metadata": {"name": "team"},
        "spec": {
            # every kind is granted: without its risk rule no default asks for it
            "allow": {
                "namespaces": ["shop", "gitsync"],
                "repositories": ["https://git.example/*"],
                "kinds": ["*"],
                "controllerRights": True,
            }
        },
    },
    "p.yaml",
)
POD, WEB = ("spec", "template", "spec"), ("spec", "template", "spec", "containers", 0)
RBAC = "rbac.authorization.k8s.io/v1"
ROOT_RISK = {"approvers": {"groups": ["sre"]}}
OWN = {**SPEC, "sync": {"windows": [{"kind": "Deny", "schedule": "0 0 * * *", "duration": "1h"}], "prune": False}}


def manifest(api, kind, name="x", namespace="shop", **members):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **members}


CHILD = manifest("gitsync.dev/v1alpha1", "Application", "child", "gitsync", spec=SPEC)
ROLE = manifest(RBAC, "Role", rules=[])
BINDING = manifest(RBAC, "RoleBinding", roleRef={"kind": "ClusterRole", "name": "view"}, subjects=[])
NETWORK = manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]})
RULES_EVIL = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
SUBJECT = [{"kind": "ServiceAccount", "name": "evil", "namespace": "shop"}]
IGNORE = [{"kind": "Secret", "jsonPointers": ["/data"]}]
DROPPED = {"capabilities": {"add": ["SYS_ADMIN"]}}
AGE = {"provider": "sops", "secretRef": {"name": "age"}}
ENV = [{"name": "OPENAI_BASE_URL", "value": "http://evil"}]

ATTACKS = [
    ("spec.source", CHILD, ("spec", "source", "repoURL"), "https://git.example/evil"),
    ("spec.source.decryption", CHILD, ("spec", "source", "decryption"), AGE),
    ("spec.destination.namespace", CHILD, ("spec", "destination", "namespace"), "gitsync"),
    ("spec.destination.allowClusterScoped", CHILD, ("spec", "destination", "allowClusterScoped"), True),
    ("spec.destination.createNamespace", CHILD, ("spec", "destination", "createNamespace"), True),
    ("spec.risk.approval", CHILD, ("spec", "risk", "approval"), "Never"),
    ("spec.risk.approvalTTL", CHILD, ("spec", "risk", "approvalTTL"), "999h"),
    ("spec.risk.maxDeletes", CHILD, ("spec", "risk", "maxDeletes"), 999),
    ("spec.risk.approvers", CHILD, ("spec", "risk", "approvers"), {"users": ["evil"]}),
    ("spec.sync.ignoreDifferences", CHILD, ("spec", "sync", "ignoreDifferences"), IGNORE),
    ("spec.sync.prune", CHILD, ("spec", "sync", "prune"), True),
    ("spec.reasoner", CHILD, ("spec", "reasoner"), {"openAI": {"endpoint": "https://evil.example", "model": "m"}}),
    ("widens-rbac", BINDING, ("subjects",), SUBJECT),
    ("rbac-escalates", ROLE, ("rules",), RULES_EVIL),
    ("endpoint-set", deployment(), (*WEB, "env"), ENV),
    ("endpoint-set", config("settings"), ("data", "OPENAI_BASE_URL"), "http://evil"),
    ("changes-account", deployment(), (*POD, "serviceAccountName"), "evil"),
    ("widens-privileges", deployment(), (*WEB, "securityContext"), DROPPED),
    ("opens-network", NETWORK, ("spec", "podSelector"), {"matchLabels": {"nothing": "x"}}),
    ("stops", deployment(), ("spec", "replicas"), 0),
]
BASES = [CHILD, ROLE, BINDING, NETWORK, deployment(), config("settings")]
NEW = [
    ("mints-token", manifest("v1", "Secret", "token", type="kubernetes.io/service-account-token")),
    ("borrows-account", deployment("late")),
    (
        "application-elsewhere",
        manifest("gitsync.dev/v1alpha1", "Application", "far", "shop", spec={**OWN, "risk": ROOT_RISK}),
    ),
]
READER = manifest("batch/v1", "Job", "reader")
READER["spec"] = {"template": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "bank-db"}}]}}}
NEW.append(("reads-secret", READER))
NEW[1][1]["spec"]["template"]["spec"]["serviceAccountName"] = "evil"


def with_attack(base, path, value):
    result = copy.deepcopy(base)
    place = result
    for key in path[:-1]:
        place = place[key] if isinstance(key, int) else place.setdefault(key, {})
    place[path[-1]] = value
    return result


def root():
    spec = {**OWN, "risk": ROOT_RISK}
    return parse_application({"metadata": {"name": "root", "namespace": "gitsync"}, "spec": spec})


def stored(ref, desired):
    made = copy.deepcopy(desired)
    made["metadata"] |= {"uid": f"uid-{ref.name}", "resourceVersion": "1"}
    return made


def start():
    """Return what the operator's Application applied with approval: nothing in it is an attack."""
    return {ref: stored(ref, desired) for ref, desired in desired_of(root(), *manifests_of([])).items()}


def commit(app, manifests, live):
    """Reconcile one commit as the controller does: plan, policy, gate, and apply only what is allowed."""
    own = {ref: item for ref, item in live.items() if owner_of(item) == app.key}
    plan = plan_of(app, manifests, live, inventory=inventory_of(own))
    violations = policy_violations(app, plan, PolicySet((POLICY,)))
    if decide(plan, app, policy_for([POLICY], app), None, NOW, violations=violations).decision is Decision.ALLOWED:
        for change in plan.writes:
            if change.action is Action.PRUNE:
                live.pop(change.ref)
            else:
                live[change.ref] = stored(change.ref, change.desired)


def reached(live, before):
    """Return the rights in the cluster without an approval, by a check of its own: values, not rules."""
    names = {ref.name for ref in live}
    found = {rule for rule, new in NEW if new["metadata"]["name"] in names}
    found |= {"gone" for ref in before if ref not in live and ref.kind in ("NetworkPolicy", "Application")}
    for rule, base, path, value in ATTACKS:
        of_kind = (item for item in live.values() if item["kind"] == base["kind"])
        found |= {rule for item in of_kind if at(item, *path) == value or _inside(at(item, *path), value)}
    return found


def _inside(found, value):
    return isinstance(found, dict) and isinstance(value, dict) and value.items() <= found.items()


def first_child():
    return {**CHILD, "spec": {**OWN, "risk": ROOT_RISK}}


def manifests_of(chosen):
    """Return a commit with these attacks on what exists; a negative number leaves an object out."""
    result = copy.deepcopy([first_child(), *BASES[1:]])
    for index in chosen:
        if index >= len(ATTACKS):
            result.append(copy.deepcopy(NEW[index - len(ATTACKS)][1]))
        elif index >= 0:
            _, base, path, value = ATTACKS[index]
            place = next((i for i, item in enumerate(result) if item["kind"] == base["kind"]), None)
            if place is not None:
                result[place] = with_attack(result[place], path, value)
        elif result:
            result.pop(-index % len(result))
    return result


CHOICES = st.lists(st.integers(-6, len(ATTACKS) + len(NEW) - 1), max_size=3, unique=True)


@sequences(150)
@given(st.lists(st.tuples(st.booleans(), CHOICES), min_size=1, max_size=4))
# the child takes over all that exists, after which nothing seems to be applied by the root
@example([(True, [len(ATTACKS), -6]), (False, [len(ATTACKS) + NEW.index(("reads-secret", READER))])])
def test_no_four_commits_reach_a_right_without_an_approval(commits):
    live = start()
    before = dict(live)
    for by_child, chosen in commits:
        child = next(item for ref, item in live.items() if ref.kind == "Application")
        app = parse_application(child) if by_child else root()
        commit(app, [] if by_child and not chosen else manifests_of(chosen), live)
        assert reached(live, before) == set()


EDITED = [index for index, (_, base, *_) in enumerate(ATTACKS) if base["kind"] != "Application"]
EDITORS = ("kubectl-edit", "kubectl-patch", "oc", "an-unknown-tool")


def edited(live, index, editor):
    """Edit a live object as a user who may write all objects of the namespace."""
    _, base, path, value = ATTACKS[index]
    ref = next(ref for ref in live if ref.kind == base["kind"])
    write = Write(editor, "2026-01-02T00:00:00Z")
    after = with_attack(live[ref], path, copy.deepcopy(value))
    return {**live, ref: update_object(live[ref], after, schema_of(base), write)}


def repair(app, manifests, before, live):
    """Reconcile as the controller does: repairs first, whatever the gate decides; nothing else is written here."""
    plan = plan_of(app, manifests, live, before=before)
    for step in plan.repairs:
        target = live[step.ref]
        if step.managed_fields is not None:
            target = {**target, "metadata": {**target["metadata"], "managedFields": list(step.managed_fields)}}
        live = {**live, step.ref: applied(step.desired, target)}
    return plan, live


APPLIED_LAST = [base for base in BASES if base["kind"] != "Application"]
APPLIED = live_of(root(), *APPLIED_LAST)
EDITS = st.lists(st.tuples(st.sampled_from(EDITED), st.sampled_from(EDITORS)), min_size=1, max_size=4)


@sequences(40)
@given(EDITS, st.lists(st.sampled_from(EDITED), max_size=2, unique=True))
def test_no_edits_of_an_editor_become_what_a_sync_writes(edits, committed):
    app = root()
    live = dict(APPLIED)
    manifests = [item for item in manifests_of(committed) if item["kind"] != "Application"]
    for index, editor in edits:
        live = edited(live, index, editor)
    plan, live = repair(app, manifests, APPLIED_LAST, live)
    # what was declared or what a known tool of users set is as it was applied, although a commit waits
    assert reached(live, {}) <= {ATTACKS[index][0] for index, editor in edits if editor == "an-unknown-tool"}
    # the commit is judged from what was applied: an edit to its values permits nothing
    verdict = decide(plan, app, policy_for([POLICY], app), None, NOW)
    assert (verdict.decision is Decision.ALLOWED) is not bool(committed)


SINGLE = [(rule, index) for index, (rule, *_) in enumerate((*ATTACKS, *NEW))]


@pytest.mark.parametrize(("rule", "index"), SINGLE)
def test_without_its_rule_the_attack_succeeds(rule, index, monkeypatch):
    live = start()
    commit(root(), manifests_of([index]), live)
    assert reached(live, {}) == set()
    monkeypatch.delitem(WIDER, rule, raising=False)
    for name in ("RULES", "SCOPED_RULES"):
        rows = [row for row in getattr(table, name) if row.name != rule]
        monkeypatch.setattr(table, name, tuple(rows))
    if rule == "rbac-escalates":  # a second rule covers it
        rows = [row for row in table.RULES if row.name != "widens-rbac"]
        monkeypatch.setattr(table, "RULES", tuple(rows))
    commit(root(), manifests_of([index]), live)
    assert rule in reached(live, {})


@pytest.mark.parametrize("approval", ["Never", "Dangerous"])
def test_an_operators_never_does_not_let_a_child_be_wider(approval):
    app = root()
    never = dataclasses.replace(app, risk=app.risk.model_copy(update={"approval": approval}))
    live = start()
    for index, (_, base, *_) in enumerate(ATTACKS):
        if base is CHILD:
            commit(never, manifests_of([index]), live)
            assert reached(live, live) == set()
