"""What the settings of an Application cannot switch off: requirements of the operator, limits of a managed one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.decide import decide, decide_deletion
from gitsync.gate.policy import Policy, application_violations
from gitsync.gate.policy_files import parse_policy, policies_for, policy_for
from gitsync.objects.application import parse_application
from gitsync.objects.change import Action, Change, Decision, Plan, Review, Risk
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.sync.validation import policy_violations

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MARK = "gitsync.dev/tracking-id"
RBAC = "rbac.authorization.k8s.io"
BINDING = ObjectRef(RBAC, "ClusterRoleBinding", "", "x")
ROLE = ObjectRef(RBAC, "Role", "gitsync", "x")


def application(name="child", owner="gitsync/root", marked_for=None, **spec):
    path = f"gitsync.dev/Application/gitsync/{marked_for or name}"
    annotations = {MARK: f"{owner}:{path}"} if owner else {}
    spec = {"source": {"repoURL": "https://git.example/x"}, "risk": {"approval": "Never"}, **spec}
    return parse_application(
        {"metadata": {"name": name, "namespace": "gitsync", "annotations": annotations}, "spec": spec}
    )


CONFIG = ObjectRef("", "ConfigMap", "gitsync", "x")


def plan_of(ref=CONFIG, risk=Risk.SAFE, **members):
    change = Change(ref, Action.CREATE, risk, desired={"kind": ref.kind}, **members)
    return Plan("gitsync/child", "commit", (change,), "digest", risk)


def decision(plan, app, policy=None, review=None):
    return decide(plan, app, policy or Policy(), review, NOW).decision


def policy(name="team", **spec):
    found = parse_policy({"kind": "Policy", "metadata": {"name": name}, "spec": spec}, "p.yaml")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "ref",
    [
        BINDING,
        ROLE,
        ObjectRef("", "Namespace", "", "x"),
        ObjectRef("apiextensions.k8s.io", "CustomResourceDefinition", "", "x"),
        ObjectRef("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "x"),
        ObjectRef("apiregistration.k8s.io", "APIService", "", "x"),
        ObjectRef("gitsync.dev", "Application", "other", "x"),
    ],
)
@pytest.mark.parametrize("risk", list(Risk))
def test_a_managed_application_asks_for_privileged_kinds_whatever_it_says(ref, risk):
    assert decision(plan_of(ref, risk), application()) is Decision.HELD
    assert decide_deletion(plan_of(ref, risk), application(), None, Policy()).decision is Decision.HELD
    approved = Review(User("jane"), True, until=NOW)
    assert decision(plan_of(ref, risk), application(), review=approved) is Decision.ALLOWED


@pytest.mark.parametrize(
    "app", [application(owner=""), application(owner="gitsync/child"), application(marked_for="b")]
)
def test_what_a_user_applied_by_hand_is_the_operators_word(app):
    assert decision(plan_of(BINDING, Risk.DANGEROUS), app) is Decision.ALLOWED


def test_an_ordinary_object_of_a_managed_application_does_not_ask():
    assert decision(plan_of(), application()) is Decision.ALLOWED


def test_a_policy_that_lists_the_kind_grants_it():
    listed = policy(allow={"clusterKinds": ["ClusterRoleBinding"], "kinds": ["Role"]})
    assert decision(plan_of(BINDING), application(), listed) is Decision.ALLOWED
    assert decision(plan_of(ROLE), application(), listed) is Decision.ALLOWED
    assert decision(plan_of(BINDING), application(), policy(allow={"namespaces": ["gitsync"]})) is Decision.HELD


def test_a_step_that_always_asks_holds_also_what_a_user_applied():
    assert decision(plan_of(always_asks=True), application(owner="")) is Decision.HELD


def test_a_policy_requires_a_class_whatever_the_application_says():
    required = policy(require={"approval": "Moderate"})
    for approval, risk, wanted in (
        ("Never", Risk.MODERATE, Decision.HELD),
        ("Dangerous", Risk.MODERATE, Decision.HELD),
        ("Never", Risk.SAFE, Decision.ALLOWED),
    ):
        app = application(owner="", risk={"approval": approval})
        assert decision(plan_of(risk=risk), app, required) is wanted
    stricter = application(owner="", risk={"approval": "Moderate"})
    assert decision(plan_of(risk=Risk.MODERATE), stricter, policy(require={"approval": "Dangerous"})) is Decision.HELD


def test_an_approver_has_to_be_one_of_policy_and_application():
    required = policy(require={"approval": "Moderate", "approvers": {"groups": ["sre"]}})
    app = application(owner="", risk={"approval": "Never", "approvers": {"users": ["ann", "joe"]}})
    plan = plan_of(risk=Risk.DANGEROUS)
    for user, wanted in (
        (User("ann", ("sre",), is_authenticated=True), Decision.ALLOWED),
        (User("ann", ("dev",), is_authenticated=True), Decision.HELD),
        (User("eve", ("sre",), is_authenticated=True), Decision.HELD),
        (User("ann", ("sre",)), Decision.HELD),
    ):
        assert decision(plan, app, required, Review(user, True, until=NOW)) is wanted


def test_a_read_only_policy_refuses_every_write():
    required = policy(require={"readOnly": True})
    assert decision(plan_of(), application(), required) is Decision.REFUSED
    assert decide_deletion(plan_of(), application(), None, required).decision is Decision.REFUSED
    unchanged = replace(plan_of(), changes=())
    assert decision(unchanged, application(), required) is Decision.ALLOWED


def test_signed_commits_and_a_service_account_are_required():
    required = policy(require={"signedCommits": True, "serviceAccounts": ["deploy-*"]})
    unsigned, unnamed = application_violations(required, application())
    assert "SignedCommits is required by policy team" in unsigned
    assert "one of deploy-* is required by policy team" in unnamed
    source = {"repoURL": "https://git.example/x", "verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}}
    met = application(source=source, destination={"serviceAccountName": "deploy-web"})
    assert application_violations(required, met) == ()


@pytest.mark.parametrize("members", [{"approval": "Never"}, {"approvals": "Moderate"}, {"readOnly": "yes"}])
def test_a_requirement_that_is_misspelt_is_refused(members):
    with pytest.raises(InvalidInput, match="require"):
        policy(require=members)


OWN = policy("own", applications=["gitsync/child"], allow={"namespaces": ["*"]}, limits={"maxObjects": 50})
ROOT = policy("root", applications=["gitsync/root"], allow={"namespaces": ["{app}"], "repositories": ["https://git.example/*"]},
              limits={"pruneShare": 0.1}, require={"approval": "Moderate"})  # fmt: skip


def test_a_managed_application_may_do_what_all_policies_above_it_allow():
    assert [found.name for found in policies_for([OWN, ROOT], application())] == ["own", "root"]
    assert [found.name for found in policies_for([OWN, ROOT], application(owner=""))] == ["own"]
    assert [found.name for found in policies_for([OWN, ROOT], application(owner="gitsync/x"), ["gitsync/root"])] == [
        "own", "none (no policy names this application)", "root",
    ]  # fmt: skip
    merged = policy_for([OWN, ROOT], application())
    assert (merged.max_objects, merged.max_prune_share, merged.require) == (50, 0.1, ROOT.require)
    elsewhere = plan_of(ObjectRef("", "ConfigMap", "kube-system", "x"))
    (line,) = policy_violations(application(), elsewhere, [OWN, ROOT], ())
    assert "namespace kube-system is not allowed by policy root" in line
    assert policy_violations(application(owner=""), elsewhere, [OWN, ROOT], ()) == ()


def test_a_plan_with_an_application_that_the_policy_does_not_allow_is_refused():
    ref = ObjectRef("gitsync.dev", "Application", "gitsync", "new")
    manifest = {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "new", "namespace": "gitsync"},
        "spec": {"source": {"repoURL": "https://evil.example/x"}, "destination": {"namespace": "kube-system"}},
    }
    change = Change(ref, Action.CREATE, desired=manifest)
    root = application("root", owner="")
    lines = policy_violations(root, Plan(root.key, "c", (change,), "d", Risk.SAFE), [ROOT], ())
    assert [line.partition(": ")[2][:20] for line in lines] == ["spec.source.repoURL ", "spec.destination.nam"]
