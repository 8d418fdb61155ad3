"""What the settings of an Application cannot switch off: requirements of the operator, limits of a managed one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.decide import decide, decide_deletion
from gitsync.gate.explain import explain
from gitsync.gate.policy import Policy, application_violations
from gitsync.gate.policy_files import PolicySet, parse_policy, policies_for, policy_for
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
    spec["allow"] = {"controllerRights": True, **spec.get("allow", {})}  # no test here is about them
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
def test_what_a_user_applied_by_hand_asks_too_unless_a_policy_lists_the_kind(app):
    plan = plan_of(BINDING)
    assert decision(plan, app) is Decision.HELD
    assert decision(plan, app, policy(allow={"clusterKinds": ["ClusterRoleBinding"]})) is Decision.ALLOWED


def test_the_namespace_that_a_user_asked_for_and_an_unchanged_object_do_not_ask():
    namespace = ObjectRef("", "Namespace", "", "shop")
    wanted = {"destination": {"namespace": "shop", "createNamespace": True}}
    assert decision(plan_of(namespace), application(owner="", **wanted)) is Decision.ALLOWED
    assert decision(plan_of(namespace), application(**wanted)) is Decision.HELD
    assert decision(plan_of(namespace._replace(name="other")), application(owner="", **wanted)) is Decision.HELD
    (step,) = plan_of(BINDING).changes
    owned = replace(plan_of(BINDING), changes=(replace(step, action=Action.UPDATE, live={"kind": "x"}),))
    assert decision(owned, application(owner="")) is Decision.ALLOWED


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


ANN, BEN = User("ann", ("sre",), is_authenticated=True), User("ben", ("sre",), is_authenticated=True)
TWO = {"approval": "Moderate", "approvers": {"groups": ["sre"], "count": 2}}


def reviewed(plan, by, *also):
    required = policy(require=TWO)
    app = application(owner="", risk={"approval": "Never"})
    return decide(plan, app, required, Review(by, True, until=NOW, also=also), NOW)


def test_as_many_users_approve_as_the_policy_counts():
    plan = plan_of(risk=Risk.DANGEROUS)
    assert reviewed(plan, ANN).reasons[0] == "ann approved it, 1 more approval is needed"
    assert reviewed(plan, ANN, BEN).approver == "ann, ben"
    for other in (ANN, User("eve", ("dev",), is_authenticated=True), User("ben", ("sre",))):
        assert reviewed(plan, ANN, other).decision is Decision.HELD
    typed = policy(require={"approvers": {"count": 2}})
    review = Review(User("ann"), True, until=NOW, also=(User("ben"),))  # names that anyone can type
    assert decision(plan, application(owner="", risk={}), typed, review) is Decision.HELD


@pytest.mark.parametrize("author", ["ann", "Ann", "ann@example.com"])
def test_an_author_does_not_approve_the_own_commit(author):
    app, required = application(owner="", risk={}), policy(require={"approvers": {"notAuthor": True}})
    plan = replace(plan_of(risk=Risk.DANGEROUS), authors=frozenset({"Someone", author}))
    found = decide(plan, app, required, Review(ANN, True, until=NOW), NOW)
    assert found.reasons[0] == "ann approved it, but is an author of its commits"
    assert decision(plan, app, required, Review(BEN, True, until=NOW)) is Decision.ALLOWED
    assert decision(plan, app, review=Review(ANN, True, until=NOW)) is Decision.ALLOWED


def test_windows_of_the_policy_hold_besides_those_of_the_application():
    closed = {"kind": "Deny", "schedule": "0 12 * * *", "duration": "1h"}
    other = {**closed, "schedule": "0 3 * * *"}
    required = policy(require={"windows": [closed]})
    app = application(owner="", sync={"windows": [other]})
    assert decide(plan_of(), app, required, None, NOW).reasons == (
        "a Deny window is open (0 12 * * * UTC), by policy team",
    )
    assert decision(plan_of(), app, policy(require={"windows": [other]})) is Decision.ALLOWED
    allowed = {**other, "kind": "Allow"}
    always = application(owner="", sync={"windows": [{**allowed, "schedule": "* * * * *"}]})
    assert decision(plan_of(), always, policy(require={"windows": [allowed]})) is Decision.HELD
    with pytest.raises(InvalidInput, match=r"spec.require.windows: 'x' is not a valid cron expression"):
        policy(require={"windows": [{**closed, "schedule": "x"}]})


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


def test_signers_of_all_policies_above_an_application_count():
    shop = {"keys": ["ssh-ed25519 AAAA shop"], "paths": ["apps/shop/*"]}
    lead = {"keys": ["ssh-ed25519 AAAA lead"], "tags": True}
    own = policy(require={"signedCommits": True, "signers": [shop]}, applications=["gitsync/child"])
    above = policy(require={"signers": [lead]}, applications=["gitsync/root"])
    found = policy_for((own, above), application())
    assert [[signer.paths for signer in signers] for signers in found.trust] == [[("apps/shop/*",)], [("*",)]]
    assert [[signer.tags for signer in signers] for signers in found.trust] == [[False], [True]]
    assert application_violations(found, application()) == (), "signers ask for signatures without the Application"
    lines = [item.value for item in explain(application(), (own, above), PolicySet((own, above)))]
    assert [line for line in lines if "1 key" in line] == ["apps/shop/*: 1 key", "*: 1 key, also of tags"]
    with pytest.raises(InvalidInput, match=r"signers\[0\].keys"):
        policy(require={"signers": [{"paths": ["x"]}]})


QUERY = {"name": "errors", "prometheusQuery": "up", "max": "1"}
METRICS = "https://metrics.example:9090/prefix"


@pytest.mark.parametrize(
    ("servers", "wanted"),
    [
        (None, []),
        (["https://metrics.example:9090", "https://llm.example"], []),
        (["https://metrics.example:9090/prefix", "https://*.example/v1"], []),
        (["https://llm.example"], ["prometheusQuery"]),
        ([], ["spec.reasoner.openAI.endpoint", "prometheusQuery"]),
    ],
)
def test_external_servers_are_those_that_the_policy_lists(servers, wanted):
    allow = {} if servers is None else {"servers": servers}
    app = application(
        owner="",
        sync={"postSync": {"queries": [QUERY]}},
        reasoner={"openAI": {"endpoint": "https://llm.example/v1", "model": "m"}},
    )
    policies = PolicySet((policy(allow=allow),), prometheus=METRICS)
    assert [line.partition(":")[0] for line in policy_violations(app, plan_of(), policies)] == wanted


def test_the_servers_of_children_and_agents_count_too():
    agent = {"kind": "Agent", "spec": {"rollout": {"analysis": {"queries": [QUERY]}}}}
    ref = ObjectRef("agents.gitsync.dev", "Agent", "gitsync", "helper")
    plan = replace(plan_of(), changes=(Change(ref, Action.CREATE, desired=agent),))
    policies = PolicySet((policy(allow={"servers": []}),), prometheus=METRICS)
    (line,) = policy_violations(application(owner=""), plan, policies)
    assert line == f"Agent gitsync/helper: prometheusQuery: {METRICS} is not allowed by policy team"


def test_the_effective_policy_names_what_decided_each_setting():
    app = application(risk={"approval": "Never", "approvers": {"users": ["ann"]}})
    policies = policies_for([OWN, ROOT], app)
    found = {item.name: (item.value, item.source) for item in explain(app, policies, PolicySet((OWN, ROOT)))}
    assert found["approval"] == ("Moderate", "policy root")
    assert found["approvers"] == ("ann", "Application gitsync/child")
    assert found["repositories"] == ("https://git.example/*", "policy root")
    assert found["largest number of objects"] == ("50", "policy own, root")
    defaults = explain(app, policies_for([], app), PolicySet())
    assert {item.source for item in defaults} == {"Application gitsync/child", "the default, without a policy"}


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
    (line,) = policy_violations(application(), elsewhere, PolicySet((OWN, ROOT)))
    assert "namespace kube-system is not allowed by policy root" in line
    assert policy_violations(application(owner=""), elsewhere, PolicySet((OWN, ROOT))) == ()


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
    lines = policy_violations(root, Plan(root.key, "c", (change,), "d", Risk.SAFE), PolicySet((ROOT,)))
    assert [line.partition(": ")[2][:20] for line in lines] == ["spec.source.repoURL ", "spec.destination.nam"]
