"""Applications in Git: none may do more than the one that manages it, or than before, without a person."""

from __future__ import annotations

import copy

import pytest

from gitsync.objects.application import parse_application
from gitsync.objects.change import Action, Change, Difference, FieldDifference, Risk
from gitsync.objects.keys import HOLD_PREFIX, REQUESTED_OBJECTS, REQUESTED_REPAIR, REQUESTED_SYNC
from gitsync.objects.ref import ref_of
from gitsync.plan.risk.applications import WIDER
from gitsync.plan.risk.table import Scope, classify

QUERY = {"name": "errors", "prometheusQuery": "up", "max": "1"}
OPENAI = {"endpoint": "https://llm.example", "model": "m"}
RULE = {"match": {"kind": "Secret"}, "class": "Dangerous"}
WINDOW = {"kind": "Deny", "schedule": "0 0 * * *", "duration": "1h"}
ALLOW = {**WINDOW, "kind": "Allow"}
IGNORE = {"kind": "ClusterRole", "jsonPointers": ["/rules"]}
SIGNED = {"mode": "SignedCommits", "secretRef": {"name": "keys"}}
OTHER_KEYS = {**SIGNED, "secretRef": {"name": "others"}}


def declared(name="child", namespace="gitsync", **sections):
    spec = {"source": {"repoURL": "https://git.example/team", **sections.pop("source", {})}, **sections}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec}


def judged(desired, live=None, parent=None, action=None, *pointers):
    differences = tuple(FieldDifference(pointer, pointer, Difference.CHANGED) for pointer in pointers)
    action = action or (Action.UPDATE if live else Action.CREATE)
    change = Change(ref_of(desired), action, desired=desired, live=live, differences=differences)
    return classify(change, scope=Scope(parse_application(parent or declared("root"))))


CASES = [
    ("spec.source", {}, {"source": {"repoURL": "https://git.example/evil"}}),
    ("spec.source", {}, {"source": {"revision": "unprotected"}}),
    ("spec.source", {}, {"source": {"credentials": {"secretRef": {"name": "others"}}}}),
    ("spec.source.verify", {"source": {"verify": SIGNED}}, {}),
    (
        "spec.source.verify",
        {"source": {"verify": SIGNED}},
        {"source": {"verify": OTHER_KEYS}},
    ),
    ("spec.source.decryption", {}, {"source": {"decryption": {"provider": "sops", "secretRef": {"name": "age"}}}}),
    ("spec.destination.namespace", {}, {"destination": {"namespace": "kube-system"}}),
    ("spec.destination.allowClusterScoped", {}, {"destination": {"allowClusterScoped": True}}),
    ("spec.destination.createNamespace", {}, {"destination": {"createNamespace": True}}),
    (
        "spec.destination.serviceAccountName",
        {"destination": {"serviceAccountName": "deployer"}},
        {"destination": {"serviceAccountName": "admin"}},
    ),
    ("spec.destination.serviceAccountName", {"destination": {"serviceAccountName": "deployer"}}, {}),
    ("spec.risk.approval", {}, {"risk": {"approval": "Never"}}),
    ("spec.risk.approval", {"risk": {"approval": "Moderate"}}, {}),
    ("spec.risk.approvalTTL", {}, {"risk": {"approvalTTL": "720h"}}),
    ("spec.risk.maxDeletes", {}, {"risk": {"maxDeletes": 1000}}),
    ("spec.risk.rules", {"risk": {"rules": [RULE]}}, {}),
    ("spec.risk.approvers", {"risk": {"approvers": {"groups": ["sre"]}}}, {}),
    ("spec.risk.approvers", {"risk": {"approvers": {"groups": ["sre"]}}}, {"risk": {"approvers": {"users": ["sre"]}}}),
    ("spec.sync.automated", {"sync": {"automated": False}}, {}),
    ("spec.sync.prune", {"sync": {"prune": False}}, {}),
    ("spec.sync.preserveResourcesOnDeletion", {"sync": {"preserveResourcesOnDeletion": True}}, {}),
    ("spec.sync.ignoreDifferences", {}, {"sync": {"ignoreDifferences": [IGNORE]}}),
    ("spec.sync.windows", {"sync": {"windows": [WINDOW]}}, {}),
    ("spec.sync.windows", {"sync": {"windows": [ALLOW]}}, {"sync": {"windows": [ALLOW, {**ALLOW, "duration": "2h"}]}}),
    ("spec.sync.postSync.queries", {}, {"sync": {"postSync": {"queries": [QUERY]}}}),
    ("spec.reasoner", {}, {"reasoner": {"openAI": OPENAI}}),
    ("spec.reasoner", {"reasoner": {"openAI": OPENAI}}, {}),
]


@pytest.mark.parametrize(("field", "narrow", "wide"), CASES)
def test_a_wider_application_is_dangerous_and_names_the_field(field, narrow, wide):
    for result in (
        judged(declared(**copy.deepcopy(wide)), parent=declared("root", **copy.deepcopy(narrow))),
        judged(declared(**copy.deepcopy(wide)), declared(**copy.deepcopy(narrow))),
    ):
        assert (result.risk, result.always_asks) == (Risk.DANGEROUS, True)
        assert result.reason.endswith(f": {field}")


@pytest.mark.parametrize(("field", "narrow", "wide"), CASES)
def test_each_field_is_compared_by_its_own_rule(field, narrow, wide, monkeypatch):
    monkeypatch.delitem(WIDER, field)
    result = judged(declared(**copy.deepcopy(wide)), parent=declared("root", **copy.deepcopy(narrow)))
    assert result.rule == "creates"


@pytest.mark.parametrize("action", [Action.CREATE, Action.ADOPT, Action.REPLACE, Action.HOOK])
def test_no_action_hides_a_wider_application(action):
    wide = declared(risk={"approval": "Never"})
    result = judged(wide, None if action is Action.CREATE else wide, None, action)
    assert (result.rule, result.always_asks) == ("application-wider", True)


def test_what_gives_no_rights_is_judged_as_any_object():
    assert judged(declared()).rule == "creates"
    assert judged(declared(source={"path": "other"})).rule == "creates"
    stricter = {"approval": "Moderate", "rules": [RULE]}
    assert judged(declared(risk=stricter, sync={"windows": [WINDOW]})).rule == "creates"
    assert judged(declared(destination={"serviceAccountName": "deployer"})).rule == "creates"
    assert judged(declared(sync={"selfHeal": False}), declared(), None, None, "/spec/sync/selfHeal").rule == "updates"


def test_an_application_in_another_namespace_always_asks():
    result = judged(declared(namespace="kube-system"))
    assert (result.rule, result.risk, result.always_asks) == ("application-elsewhere", Risk.DANGEROUS, True)
    assert "kube-system" in result.reason


def test_an_application_with_an_invalid_spec_always_asks():
    assert judged(declared(risk={"approval": "Sometimes"})).reason.endswith("spec is invalid")


def test_finalizers_suspend_and_a_requested_sync_always_ask():
    desired = declared()
    desired["metadata"]["finalizers"] = ["gitsync.dev/finalizer"]
    assert judged(desired).reason.endswith("metadata.finalizers")
    changed = judged(desired, declared(), None, None, "/metadata/finalizers")
    assert changed.reason.endswith("metadata.finalizers")
    resumed = judged(declared(suspend=False), declared(suspend=True), None, None, "/spec/suspend")
    assert resumed.reason.endswith("spec.suspend")
    for annotation in (REQUESTED_SYNC, REQUESTED_OBJECTS, REQUESTED_REPAIR):
        asked = declared()
        asked["metadata"]["annotations"] = {annotation: "now"}
        assert judged(asked, declared()).reason.endswith(f"[{annotation}]")


def test_a_hold_that_a_commit_sets_always_asks():
    held = declared()
    held["metadata"]["annotations"] = {f"{HOLD_PREFIX}0a": "{}"}
    for result in (judged(held), judged(held, declared())):
        assert (result.risk, result.always_asks) == (Risk.DANGEROUS, True)
        assert result.reason.endswith(f"[{HOLD_PREFIX}0a]")
    # one that is there already is not set
    assert judged(held, held).rule != judged(held, declared()).rule


def application_set(generators=({"list": {"elements": [{"name": "a"}]}},), annotations=None, **sections):
    source = {"repoURL": "https://git.example/team", "path": "{{name}}", **sections.pop("source", {})}
    template = {"metadata": {"name": "{{name}}"}, "spec": {"source": source, **sections}}
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "child", "namespace": "gitsync", **({"annotations": annotations} if annotations else {})},
        "spec": {"generators": list(generators), "template": template},
    }


def files(url="https://git.example/team", **more):
    return {"git": {"repoURL": url, "files": [{"path": "a.yaml"}], **more}}


NESTED = {"matrix": {"generators": [files("https://git.example/evil"), files()]}}
APPROVED = {"gitsync.dev/approve-deletions": "0123"}


@pytest.mark.parametrize(("field", "narrow", "wide"), CASES)
def test_the_template_of_a_set_has_the_rights_of_an_application(field, narrow, wide):
    for result in (
        judged(application_set(**copy.deepcopy(wide)), parent=declared("root", **copy.deepcopy(narrow))),
        judged(application_set(**copy.deepcopy(wide)), application_set(**copy.deepcopy(narrow))),
    ):
        assert (result.risk, result.always_asks) == (Risk.DANGEROUS, True)
        assert field in result.reason


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (application_set([files("https://git.example/evil")]), "spec.generators"),
        (application_set([files(revision="unprotected")]), "spec.generators"),
        (application_set([files(credentials={"secretRef": {"name": "others"}})]), "spec.generators"),
        (application_set([NESTED]), "spec.generators"),
        (application_set(destination={"namespace": "{{name}}"}), "spec.destination.namespace"),
        (application_set(annotations=APPROVED), "approve-deletions"),
    ],
)
def test_a_new_set_lets_only_its_own_repository_choose_parameters(given, field):
    result = judged(given)
    assert (result.rule, result.always_asks) == ("application-wider", True)
    assert field in result.reason


def test_a_set_of_its_own_repository_is_created_without_a_question():
    assert judged(application_set([files()])).risk is Risk.SAFE


def test_elements_may_change_where_they_give_no_rights():
    more = [{"list": {"elements": [{"name": "a"}, {"name": "b"}]}}]
    assert judged(application_set(more), application_set(), None, None, "/spec/generators").rule == "updates"
    account = {"destination": {"serviceAccountName": "{{name}}"}}
    result = judged(application_set(more, **account), application_set(**account))
    assert (result.rule, "spec.generators" in result.reason) == ("application-widened", True)
    result = judged(application_set(annotations=APPROVED), application_set())
    assert (result.rule, "approve-deletions" in result.reason) == ("application-widened", True)


def test_a_set_elsewhere_and_its_delete_are_dangerous():
    other = application_set()
    other["metadata"]["namespace"] = "other"
    assert judged(other).rule == "application-elsewhere"
    gone = Change(ref_of(application_set()), Action.PRUNE, live=application_set())
    assert classify(gone).rule == "deletes-application"
