"""Policy documents, and which policy an Application has."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.policy import Policy, violations
from gitsync.gate.policy_files import parse_policy, policy_for
from gitsync.gate.validation import parse_rules
from tests.gate.factories import application, is_namespaced


def document(**spec):
    return {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "team-a"}, "spec": spec}


def test_a_document_says_what_is_allowed():
    allow = {
        "repositories": ["https://git.example/team-a/*"],
        "revisions": ["main"],
        "namespaces": ["team-a"],
        "kinds": ["ConfigMap"],
        "deniedKinds": ["Secret"],
        "clusterKinds": [],
    }
    found = parse_policy(
        document(applications=["gitsync/team-a-*"], allow=allow, limits={"pruneShare": 0.2, "maxObjects": 50}), "p.yaml"
    )
    assert found == Policy(
        name="team-a",
        applications=("gitsync/team-a-*",),
        repositories=("https://git.example/team-a/*",),
        revisions=("main",),
        namespaces=("team-a",),
        kinds=("ConfigMap",),
        denied_kinds=("Secret",),
        cluster_kinds=(),
        max_prune_share=0.2,
        max_objects=50,
        controller_rights=False,
    )


def test_a_document_with_rules_only_allows_and_forbids_nothing():
    assert parse_policy(document(rules=[]), "p.yaml") is None


def test_a_document_without_rules_has_none():
    assert parse_rules(document(allow={}), "p.yaml") == ()


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({}, "kind must be Policy"),
        ({"kind": "Policy", "metadata": {}, "spec": {}}, "kind must be Policy"),
        (document(alow={}), r"spec\.alow: is not a known field; write one of applications, allow"),
        (document(allow=[]), r"spec\.allow: a list is not a mapping"),
        (
            document(allow={"namespace": ["a"]}),
            r"spec\.allow\.namespace: is not a known field; write one of repositories",
        ),
        (document(allow={"namespaces": "a"}), r"spec\.allow\.namespaces: 'a' is not a list"),
        (
            document(allow={}, limits={"pruneShare": 2}),
            r"spec\.limits\.pruneShare: 2 is out of range; write a number of at most 1",
        ),
        (document(allow={}, limits={"maxObjects": True}), r"spec\.limits\.maxObjects: true is not an integer"),
        (document(allow={"namespaces": None}), r"spec\.allow\.namespaces: null is not a list"),
        (document(allow={"namespaces": [1]}), r"spec\.allow\.namespaces\[0\]: 1 is not a string"),
        (document(applications="a"), r"spec\.applications: 'a' is not a list"),
    ],
)
def test_a_document_that_is_misspelt_is_refused_with_its_place(found, says):
    with pytest.raises(InvalidInput, match=f"p.yaml: {says}"):
        parse_policy(found, "p.yaml")


def test_the_first_policy_that_names_an_application_is_its_own():
    first, rest = Policy(name="first", applications=("gitsync/demo",)), Policy(name="rest")
    assert policy_for([first, rest], application()) == first
    assert policy_for([Policy(name="other", applications=("x/*",)), rest], application()) == rest


def test_without_policies_everything_namespaced_is_allowed():
    assert policy_for([], application()) == Policy()


def test_an_application_that_no_policy_names_may_do_nothing():
    policy = policy_for([Policy(name="other", applications=("x/*",))], application())
    line, _ = violations(policy, application(), [], is_namespaced)
    assert "no policy names this application" in line
