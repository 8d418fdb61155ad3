"""Policy documents, and which policy an Application has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.policy import (
    Policy,
    application_violations,
    secret_violations,
    server_violations,
    source_violations,
    violations,
)
from gitsync.gate.policy_files import parse_policy, policies_for, policy_for, with_controller_rights
from gitsync.gate.validation import parse_rules
from gitsync.objects.application import Application, parse_application
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


def tenant(**spec: Any) -> Policy:
    """Return the policy of a tenant of the namespace ``shop`` with one repository."""
    defaults = {
        "namespaces": ["shop"],
        "repositories": [{"url": "https://git.example/shop/*", "secrets": ["git"], "revisions": ["main"]}],
        "servers": [{"url": "https://models.example", "secrets": ["judge"]}],
        "decryption": {"secrets": ["age"]},
    }
    document = {"kind": "Tenant", "metadata": {"name": "shop"}, "spec": {**defaults, **spec}}
    policy = parse_policy(document, "t.yaml")
    assert policy is not None
    return policy


def shop_application(source: Mapping[str, Any] | None = None, **spec: Any) -> Application:
    """Return an Application that meets the tenant, with other members of its source and spec."""
    source = {"repoURL": "https://git.example/shop/web", "revision": "main", **(source or {})}
    destination = {"namespace": "shop", "serviceAccountName": "gitsync-deployer"}
    spec = {"source": source, "destination": destination, **spec}
    return parse_application({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})


def secret(name: str) -> dict[str, Any]:
    return {"secretRef": {"name": name}}


def test_an_application_within_its_tenant_violates_nothing() -> None:
    source = {"credentials": secret("git"), "decryption": {"provider": "sops", **secret("age")}}
    reasoner = {
        "openAI": {"endpoint": "https://models.example/v1", "model": "m", **secret("judge")},
    }
    app = shop_application(source, reasoner=reasoner)
    policy = policy_for([tenant()], app)
    assert (application_violations(policy, app), tuple(server_violations(policy, app, ""))) == ((), ())
    assert source_violations(policy, app) == ()


@pytest.mark.parametrize(
    ("source", "spec", "line"),
    [
        ({"repoURL": "https://evil.example/x"}, {}, "spec.source.repoURL is not allowed"),
        ({"revision": "other"}, {}, "spec.source.revision: other is not allowed"),
        ({"revision": "a" * 40}, {}, f"spec.source.revision: {'a' * 40} is not allowed"),
        ({"credentials": secret("bank-db")}, {}, "Secret bank-db is not allowed for https://git.example/shop/web"),
        ({"decryption": {"provider": "sops", **secret("bank-age")}}, {}, "Secret bank-age is not allowed"),
        (
            {},
            {"destination": {"namespace": "bank", "serviceAccountName": "gitsync-deployer"}},
            "namespace: bank is not",
        ),
        ({}, {"destination": {"namespace": "shop"}}, "one of gitsync-deployer is required"),
        ({}, {"destination": {"namespace": "shop", "serviceAccountName": "admin"}}, "one of gitsync-deployer is req"),
    ],
)
def test_what_a_tenant_does_not_list_is_refused(source: dict[str, Any], spec: dict[str, Any], line: str) -> None:
    app = shop_application(source, **spec)
    found = application_violations(policy_for([tenant()], app), app)
    assert any(line in item for item in found), found


@pytest.mark.parametrize(
    ("endpoint", "name", "is_allowed"),
    [
        ("https://models.example/v1", "judge", True),
        ("https://models.example/v1", "bank-key", False),
        ("https://models.example.evil.test/v1", "judge", False),
    ],
)
def test_a_key_is_sent_only_to_the_server_it_is_for(endpoint: str, name: str, is_allowed: bool) -> None:
    openai = {"endpoint": endpoint, "model": "m", **secret(name)}
    app = shop_application(reasoner={"openAI": openai})
    assert (list(secret_violations(tenant(), app)) == []) is is_allowed


def test_a_tenant_that_lists_nothing_allows_nothing() -> None:
    bare = parse_policy({"kind": "Tenant", "metadata": {"name": "shop"}, "spec": {"namespaces": ["shop"]}}, "t.yaml")
    assert bare is not None
    app = shop_application({"credentials": secret("git")})
    assert [line.partition(" ")[0] for line in source_violations(bare, app)] == [
        "spec.source.repoURL",
        "spec.source.credentials.secretRef.name:",
    ]
    assert (bare.cluster_kinds, bare.servers, bare.remotes, bare.controller_rights) == ((), (), (), False)


def test_the_first_grant_that_names_a_url_counts() -> None:
    grants = [{"url": "https://git.example/shop/web"}, {"url": "https://git.example/*", "secrets": ["git"]}]
    app = shop_application({"credentials": secret("git")})
    assert list(secret_violations(tenant(repositories=grants), app))


def test_a_policy_adds_to_a_tenant_and_opens_nothing() -> None:
    open_policy = parse_policy(document(applications=["*"], require={"approval": "Moderate"}), "p.yaml")
    assert open_policy is not None
    app = shop_application({"repoURL": "https://evil.example/x"})
    for policies in ([open_policy, tenant()], [tenant(), open_policy]):
        own = policies_for(policies, app)
        assert [policy.name for policy in own] == ["shop", "team-a"]
        assert any(application_violations(policy, app) for policy in own)
        assert [require.approval for require in policy_for(policies, app).require] == [None, None, "Moderate"]


def test_beside_tenants_an_application_of_none_may_use_nothing() -> None:
    app = application()
    (policy,) = policies_for([tenant()], app)
    assert "no tenant" in policy.name
    assert source_violations(policy, app)


def test_the_option_of_one_team_opens_no_tenant() -> None:
    rights = [
        policy.controller_rights for policy in with_controller_rights([tenant(), Policy(controller_rights=False)])
    ]
    assert rights == [False, True]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, r"spec\.namespaces: is required"),
        ({"namespaces": []}, r"spec\.namespaces"),
        ({"namespaces": ["shop"], "repos": []}, r"spec\.repos: is not a known field"),
        ({"namespaces": ["shop"], "repositories": [{"secret": "x"}]}, r"spec\.repositories\[0\]"),
    ],
)
def test_a_misspelt_tenant_is_an_error(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=f"t.yaml: {says}"):
        parse_policy({"kind": "Tenant", "metadata": {"name": "shop"}, "spec": spec}, "t.yaml")
