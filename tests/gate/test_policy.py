"""Policy: all or nothing, on the final objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitsync.gate.policy import Policy, Require, TenantGrants, application_violations, update_violations, violations
from gitsync.objects.application import parse_application
from gitsync.objects.change import Risk
from gitsync.objects.ref import ObjectRef
from tests.gate.factories import application, is_namespaced

TEAM = Policy(
    name="team-a",
    repositories=("https://git.example/team-a/*",),
    namespaces=("team-a", "{app}-*"),
    kinds=("ConfigMap", "Deployment.apps", "Agent"),
    denied_kinds=("Secret",),
    cluster_kinds=("Namespace",),
)


def found(ref, policy=TEAM, app=None):
    return violations(policy, app or application(), [ref], is_namespaced)


@pytest.mark.parametrize(
    "ref",
    [
        ObjectRef("", "ConfigMap", "team-a", "x"),
        ObjectRef("apps", "Deployment", "team-a", "x"),
        ObjectRef("agents.gitsync.dev", "Agent", "gitsync-dev", "x"),
    ],
)
def test_what_the_policy_lists_is_allowed(ref):
    assert found(ref) == ()


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        (ObjectRef("", "ConfigMap", "kube-system", "evil"), ("ConfigMap kube-system/evil", "namespace kube-system")),
        (ObjectRef("", "Secret", "team-a", "s"), ("Secret team-a/s", "kind Secret")),
        (ObjectRef("other.dev", "Deployment", "team-a", "x"), ("kind Deployment.other.dev",)),
        (ObjectRef("", "Namespace", "", "evil"), ("cluster-scoped kind Namespace",)),
        (ObjectRef("rbac.authorization.k8s.io", "ClusterRoleBinding", "", "evil"), ("ClusterRoleBinding",)),
    ],
)
def test_what_it_does_not_list_is_named_with_the_policy(ref, words):
    (line,) = found(ref)
    assert all(word in line for word in (*words, "not allowed", "team-a"))


def test_a_cluster_scoped_kind_needs_both_the_policy_and_the_application():
    namespace = ObjectRef("", "Namespace", "", "n")
    role = ObjectRef("rbac.authorization.k8s.io", "ClusterRole", "", "r")
    allowed = application(cluster=True)
    assert found(namespace, app=allowed) == ()
    assert found(role, app=allowed)
    assert found(role, policy=Policy(), app=allowed) == ()
    assert found(role, policy=Policy())


def test_an_open_policy_allows_every_namespaced_kind():
    assert found(ObjectRef("x.dev", "Widget", "anywhere", "w"), policy=Policy()) == ()


def test_another_repository_is_refused():
    (line,) = violations(TEAM, application(repo="https://git.example/other/demo"), [], is_namespaced)
    assert line == "spec.source.repoURL is not allowed by policy team-a"


def test_each_of_several_sources_has_to_be_allowed():
    """A policy of one repository must not be passed by another one beside it."""
    sources = [
        {"name": "own", "repoURL": "https://git.example/team-a/demo", "path": "x"},
        {"name": "other", "repoURL": "https://git.example/other/demo", "revision": "next"},
    ]
    app = parse_application({"metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"sources": sources}})
    policy = replace(TEAM, revisions=("main",), require=(Require(signed_commits=True),))
    assert [line for line in application_violations(policy, app) if line.startswith("spec.sources")] == [
        "spec.sources[other].repoURL is not allowed by policy team-a",
        "spec.sources[other].revision: next is not allowed by policy team-a; follow one of main",
        "spec.sources[own].verify.mode: SignedCommits is required by policy team-a",
        "spec.sources[other].verify.mode: SignedCommits is required by policy team-a",
    ]


@pytest.mark.parametrize(
    "url",
    ["https://git.example/team-a/../other/demo", "https://git.example/team-a/%2e%2e/other/demo",
     "https://git.example/team-a/..%2fother", "https://evil.test/https://git.example/team-a/x"],
)  # fmt: skip
def test_a_url_that_leaves_the_listed_folder_is_refused(url):
    assert violations(TEAM, application(repo=url), [], is_namespaced)


@pytest.mark.parametrize("url", ["https://GIT.example:443/team-a/demo.git", "https://me@git.example/team-a/demo/"])
def test_another_spelling_of_a_listed_repository_is_allowed(url):
    assert violations(TEAM, application(repo=url), [], is_namespaced) == ()


def test_another_destination_is_refused():
    (line,) = violations(TEAM, application(namespace="kube-system"), [], is_namespaced)
    assert "spec.destination.namespace: kube-system is not allowed" in line


@pytest.mark.parametrize(
    "account",
    [
        "system:masters",
        "kube-system:default",
        "../kube-system/default",
        "system:serviceaccount:kube-system:default",
        "team-a\nImpersonate-Group: system:masters",
        "Deployer",
        "-x",
    ],
)
def test_an_identity_outside_the_namespace_is_refused(account):
    (line,) = violations(TEAM, application(account=account), [], is_namespaced)
    assert "serviceAccountName" in line
    assert "invalid" in line


def test_a_plain_service_account_is_accepted():
    assert violations(TEAM, application(account="deployer"), [], is_namespaced) == ()


@pytest.mark.parametrize(("account", "is_rejected"), [("", True), ("deployer", False)])
def test_the_controllers_own_rights_have_to_be_allowed(account: str, is_rejected: bool) -> None:
    app = application()
    app = replace(app, destination=app.destination.model_copy(update={"service_account": account}))
    lines = application_violations(Policy(name="shop", controller_rights=False), app)

    assert bool(lines) is is_rejected
    assert all("name a ServiceAccount of namespace gitsync" in line for line in lines)
    assert application_violations(Policy(controller_rights=True), app) == ()
    assert all("GITSYNC_CONTROLLER_RIGHTS" in line for line in lines)


def test_a_tenant_is_not_told_of_a_setting_that_changes_nothing_for_it() -> None:
    of_tenant = Policy(name="shop", controller_rights=False, tenant=TenantGrants())
    lines = application_violations(of_tenant, application())
    assert any("serviceAccountName" in line for line in lines)
    assert not any("GITSYNC_CONTROLLER_RIGHTS" in line for line in lines)


@pytest.mark.parametrize(
    ("revision", "is_allowed"),
    [
        ("main", True),
        ("refs/heads/main", True),
        ("release-1", True),
        ("refs/tags/v1.2", True),
        ("refs/tags/main", False),
        ("topic", False),
        ("refs/pull/7/head", False),
        ("f" * 40, False),
        ("f" * 64, False),
    ],
)
def test_a_policy_limits_what_is_followed(revision, is_allowed):
    policy = Policy(name="team", revisions=("main", "release-*", "refs/tags/v*", "f*"))
    source = {"repoURL": "https://x", "revision": revision}
    app = parse_application({"metadata": {"name": "a", "namespace": "g"}, "spec": {"source": source}})
    lines = application_violations(policy, app)
    expected = f"spec.source.revision: {revision} is not allowed by policy team"
    assert [expected in line for line in lines] == ([] if is_allowed else [True])
    assert application_violations(Policy(revisions=("*",)), app) == ()


@pytest.mark.parametrize(
    ("bounds", "files", "risk", "reasons"),
    [
        ({}, ["a.yaml"], Risk.DANGEROUS, []),
        ({"paths": ["prod/*"]}, ["prod/images.yaml"], Risk.SAFE, []),
        ({"paths": ["prod/*"]}, ["prod/a.yaml", "base/a.yaml"], Risk.SAFE, ["base/a.yaml is not allowed for updates"]),
        ({"branches": ["release/*"]}, ["a.yaml"], Risk.SAFE, ["branch main is not allowed for updates"]),
        ({"maxClass": "Safe"}, ["a.yaml"], Risk.MODERATE, ["the update is Moderate, and policy"]),
        ({"maxClass": "Moderate"}, ["a.yaml"], Risk.MODERATE, []),
    ],
)
def test_updates_stay_within_their_bounds(bounds, files, risk, reasons):
    policy = Policy(name="team", require=(Require.model_validate({"updates": bounds}),))
    app = parse_application(
        {
            "metadata": {"name": "shop", "namespace": "gitsync"},
            "spec": {"source": {"repoURL": "https://git.example.com/a", "revision": "refs/heads/main"}},
        }
    )
    lines = list(update_violations(policy, app, app.source.revision, files, risk))
    assert len(lines) == len(reasons)
    assert all(line.startswith(reason) for line, reason in zip(lines, reasons, strict=True))
    elsewhere = Policy(name="team", repositories=("https://git.example.com/b",))
    assert "spec.source.repoURL is not allowed by policy team" in list(
        update_violations(elsewhere, app, app.source.revision, [], risk)
    )
