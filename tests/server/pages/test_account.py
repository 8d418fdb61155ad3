"""The settings of a user: who they are, what policies let them do, and how pages look in their browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.gate.policy import Policy, Require
from gitsync.gate.policy_files import parse_policy
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User
from gitsync.server.auth.sessions import Session, Sessions
from gitsync.server.auth.users import Users, add
from gitsync.server.pages.account import Right, rights_of
from gitsync.server.queries.applications import policy_summaries
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, engine, resource

KEY = "gitsync/shop"
SRE = {"groups": ["sre"]}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("ada", ("sre",), is_authenticated=True), [Right("gitsync/blog", True, True), Right(KEY, True, True)]),
        (User("eve", ("dev",), is_authenticated=True), [Right("gitsync/blog", False, True), Right(KEY, False, False)]),
        (User("ada", ("sre",)), [Right("gitsync/blog", False, True), Right(KEY, False, False)]),
    ],
    ids=["named by a group", "another group", "a name that no sign-in proved"],
)
def test_rights_are_those_that_requests_have(tmp_path: Path, user: User, expected: list[Right]) -> None:
    still = engine(tmp_path, [application("shop", spec={"risk": {"approvers": SRE}}), application("blog")])
    still.policies.policy = Policy("team", require=(Require.model_validate({"operators": SRE}),))
    assert rights_of(still, user) == expected
    still.records.close()


def test_settings_show_name_groups_and_the_end_of_the_session(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    token = add(file, "ada", ["sre"])
    opened = site([application()], users=Users(file))
    cookie = opened.post("/sign-in", {"secret": token}).headers["set-cookie"].partition(";")[0]
    page = opened.get("/settings", Cookie=cookie).text
    assert "<dd>ada" in page
    assert "<dd>sre</dd>" in page
    assert "<dt>Signed in until</dt>" in page
    assert "name not proven" not in page


@pytest.mark.parametrize("access", [{}, {"token": "secret"}], ids=["without a sign-in", "with a shared token"])
def test_a_user_without_a_proven_name_learns_how_it_is_recorded(site: Open, access: dict[str, str]) -> None:
    opened = site([application()], **access)
    page = opened.get("/settings", Authorization="Bearer secret").text
    assert "Not known" in page
    assert "are recorded as <i>name not proven</i>" in page


def test_a_session_ends_when_its_time_is_over() -> None:
    sessions = Sessions(seconds=60, clock=lambda: 1000.0)
    end = sessions.end_of(sessions.issue(Session(name="ada")))
    assert end is not None
    assert end.timestamp() == 1060
    assert sessions.end_of("made up") is None


def test_a_chosen_theme_is_that_of_every_page(site: Open) -> None:
    opened = site([application()])
    chosen = opened.get("/view?theme=dark&back=/settings")
    assert (chosen.status, chosen.headers["location"]) == (303, "/settings")
    dark = {"Cookie": chosen.headers["set-cookie"].partition(";")[0]}
    page = opened.get("/apps", **dark).text
    assert '<html lang="en" data-theme="dark">' in page
    assert '<meta name="color-scheme" content="dark">' in page
    assert 'theme=dark&amp;back=/settings" aria-current="true"' in opened.get("/settings", **dark).text
    assert "data-theme" not in opened.get("/apps", Cookie="gitsync-theme=%22%3E").text
    for wrong in ("theme=pink", "back=/apps", "theme=dark&back=//evil.example"):
        assert opened.get(f"/view?{wrong}").status == 422


@pytest.mark.parametrize("path", ["/audit", "/changes", "/apps/gitsync/shop/suspend"])
def test_a_typed_name_is_marked_where_it_is_shown(site: Open, path: str) -> None:
    opened = site([application(resources=[resource("a")], phase="Suspended", spec={"suspend": True})])
    marks = []
    for user in (User("ada", is_authenticated=True), User("ada")):
        opened.engine.records.audit([AuditRecord.by_user(KEY, "suspend", user, NOW, "an incident")])
        marks.append(opened.get(path).text.count("name not proven"))
    assert marks == [0, 1]


def tenant(name: str, **require: Any) -> Policy:
    spec = {"namespaces": [name], "repositories": [{"url": "https://git.example.com/*", "secrets": ["git"]}]}
    policy = parse_policy(
        {"kind": "Tenant", "metadata": {"name": name}, "spec": {**spec, "require": require}}, "t.yaml"
    )
    assert policy is not None
    return policy


def test_policies_show_who_may_do_what_and_what_is_not_met(site: Open) -> None:
    opened = site([application()])
    opened.engine.policies.policy = tenant("gitsync", operators=SRE)
    page = " ".join(opened.get("/policies").text.split())
    assert "Tenant gitsync" in page
    assert "https://git.example.com/*: credentials of git" in page
    assert "<dt>operators</dt><dd>sre</dd>" in page
    assert "spec.destination.serviceAccountName: one of gitsync-deployer is required by policy gitsync" in page
    (answer,) = json.loads(opened.get("/api/v1/policies").text)
    assert (answer["kind"], answer["name"], answer["applications"]) == ("Tenant", "gitsync", ["gitsync/shop"])
    assert {item["application"] for item in answer["violations"]} == {"gitsync/shop"}


def test_a_policy_about_applications_of_others_is_hidden(tmp_path: Path) -> None:
    still = engine(tmp_path, [application()])
    still.policies.policy = tenant("gitsync")
    still.policies.named = (tenant("bank", viewers={"groups": ["bankers"]}),)
    named = [policy.name for policy in policy_summaries(still, User("eve", ("dev",), is_authenticated=True))]
    everything = [policy.name for policy in policy_summaries(still, User("ada", ("bankers",), is_authenticated=True))]
    still.records.close()
    assert (named, everything) == (["gitsync"], ["gitsync", "bank"])
