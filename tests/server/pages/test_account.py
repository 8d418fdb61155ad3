"""The settings of a user: who they are, what policies let them do, and how pages look in their browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gitsync.gate.policy import Policy, Require
from gitsync.gate.policy_files import parse_policy
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User
from gitsync.record.tables import VIEWS
from gitsync.server.auth.users import Users, add
from gitsync.server.notify.rules import NotificationRule, Receivers
from gitsync.server.pages.account import Right, rights_of
from gitsync.server.queries.applications import policy_summaries
from tests.asgi_server import Answer
from tests.server.conftest import Open, Site
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


def test_settings_show_name_and_groups(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    token = add(file, "ada", ["sre"])
    opened = site([application()], users=Users(file))
    cookie = opened.post("/sign-in", {"secret": token}).headers["set-cookie"].partition(";")[0]
    page = opened.get("/settings", Cookie=cookie).text
    assert "<dd>ada" in page
    assert "<dd>sre</dd>" in page
    assert "name not proven" not in page


@pytest.mark.parametrize("access", [{}, {"token": "secret"}], ids=["without a sign-in", "with a shared token"])
def test_a_user_without_a_proven_name_learns_how_it_is_recorded(site: Open, access: dict[str, str]) -> None:
    opened = site([application()], **access)
    page = opened.get("/settings", Authorization="Bearer secret").text
    assert "Not known" in page
    assert "are recorded as <i>name not proven</i>" in page


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


def _cookies(answer: Answer, opened: Site) -> str:
    """Return what a browser sends after an answer that saved views."""
    saved = re.search(r"gitsync-views=[^;]*", answer.headers["set-cookie"])
    assert saved is not None
    return f"{opened.form_cookie}; {saved[0]}"


def test_a_saved_view_is_above_its_list_and_in_the_settings(site: Open) -> None:
    opened = site([application()])
    saving = {"page": "/objects", "q": 'health:Degraded "a b"', "name": "Sick <ones>"}
    answer = opened.post("/views", saving)
    assert answer.headers["location"] == "/objects?q=health%3ADegraded+%22a+b%22"
    cookies = _cookies(answer, opened)
    link = '<a href="/objects?q=health%3ADegraded+%22a+b%22"'
    assert link in opened.get("/objects", Cookie=cookies).text
    assert link not in opened.get("/apps", Cookie=cookies).text
    settings = opened.get("/settings", Cookie=cookies).text
    assert f"{link}>Sick &lt;ones&gt;</a>" in settings
    again = opened.post("/views", {**saving, "q": "kind:Pod"}, Cookie=cookies)
    assert opened.get("/settings", Cookie=_cookies(again, opened)).text.count("Sick &lt;ones&gt;</a>") == 1
    deleted = opened.post("/views/delete", {"page": "/objects", "name": "Sick <ones>"}, Cookie=cookies)
    assert "Sick" not in opened.get("/settings", Cookie=_cookies(deleted, opened)).text


def test_a_saved_view_follows_its_user_to_another_browser(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    tokens = {name: add(file, name, []) for name in ("ada", "eve")}
    opened = site([application()], users=Users(file))

    def browser(name: str, *cookies: str) -> dict[str, str]:
        answer = opened.post("/sign-in", {"secret": tokens[name]})
        session = answer.headers["set-cookie"].partition(";")[0]
        return {"Cookie": "; ".join((opened.form_cookie, session, *cookies))}

    laptop, phone, other = browser("ada"), browser("ada"), browser("eve")
    saved = opened.post("/views", {"page": "/objects", "q": "kind:Pod", "name": "Pods"}, **laptop)
    assert "gitsync-views" not in saved.headers["set-cookie"]
    link = '<a href="/objects?q=kind%3APod"'
    assert link in opened.get("/objects", **phone).text
    assert link in opened.get("/settings", **phone).text
    assert link not in opened.get("/apps", **phone).text
    for page in ("/objects", "/settings"):
        assert link not in opened.get(page, **other).text, "views of others are not shown"
    opened.post("/views/delete", {"page": "/objects", "name": "Pods"}, **other)
    assert link in opened.get("/objects", **laptop).text
    opened.post("/views/delete", {"page": "/objects", "name": "Pods"}, **phone)
    assert link not in opened.get("/objects", **laptop).text


def test_views_that_a_browser_has_kept_stay_there_for_its_user(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    token = add(file, "ada", [])
    opened = site([application()], users=Users(file))
    session = opened.post("/sign-in", {"secret": token}).headers["set-cookie"].partition(";")[0]
    kept = base64.urlsafe_b64encode(json.dumps([["Old", "/apps", "x"], ["Both", "/apps", "y"]]).encode()).decode()
    cookies = f"{opened.form_cookie}; {session}; gitsync-views={kept}"
    opened.post("/views", {"page": "/apps", "q": "z", "name": "Both"}, Cookie=cookies)
    section = opened.get("/settings", Cookie=cookies).text.partition('id="views"')[2].partition("</section>")[0]
    assert re.findall(r'<a href="/apps\?q=(.)">(\w+)</a>', section) == [("z", "Both"), ("x", "Old")]
    deleted = opened.post("/views/delete", {"page": "/apps", "name": "Both"}, Cookie=cookies)
    saved = re.search(r"gitsync-views=([^;]*)", deleted.headers["set-cookie"])
    assert saved is not None
    assert json.loads(base64.urlsafe_b64decode(saved[1])) == [["Old", "/apps", "x"]]
    assert opened.engine.views.of("ada") == ()


def test_a_list_is_shown_while_saved_views_cannot_be_read(site: Open, tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    token = add(file, "ada", [])
    opened = site([application()], users=Users(file))
    with opened.engine.records._database.writing() as connection:
        VIEWS.drop(connection)
    assert opened.get("/apps", Authorization=f"Bearer {token}").status == 200


def test_a_list_offers_to_save_the_filter_that_is_not_saved(site: Open) -> None:
    opened = site([application()])
    assert "Save this view" not in opened.get("/apps").text
    assert "Save this view" in opened.get("/apps?q=ns:gitsync").text
    cookies = _cookies(opened.post("/views", {"page": "/apps", "q": "ns:gitsync", "name": "Ours"}), opened)
    page = opened.get("/apps?q=ns:gitsync", Cookie=cookies).text
    assert "Save this view" not in page
    assert '<a href="/apps?q=ns%3Agitsync" aria-current="true">Ours</a>' in page
    assert "Save this view" not in site([application()], read_only=True).get("/apps?q=ns:gitsync").text


@pytest.mark.parametrize("page", ["//elsewhere.example.com", "/settings", "javascript:alert(1)"])
def test_only_filters_of_lists_are_saved(site: Open, page: str) -> None:
    opened = site([application()])
    assert opened.post("/views", {"page": page, "q": "x", "name": "x"}).status == 422
    forged = base64.urlsafe_b64encode(json.dumps([["x", page, "q"]]).encode()).decode()
    section = opened.get("/settings", Cookie=f"gitsync-views={forged}").text.partition('id="views"')[2]
    assert "None. Filter a list" in section.partition("</section>")[0]


def test_a_cookie_of_views_that_is_not_ours_is_ignored(site: Open) -> None:
    opened = site([application()])
    for cookie in ("x", "W10", "bnVsbA==", base64.urlsafe_b64encode(b"[[1]]").decode()):
        assert opened.get("/settings", Cookie=f"gitsync-views={cookie}").status == 200


def test_more_views_than_a_cookie_holds_are_refused(site: Open) -> None:
    opened = site([application()])
    items = [[str(number), "/apps", "x" * 200] for number in range(12)]
    cookie = base64.urlsafe_b64encode(json.dumps(items).encode()).decode()
    answer = opened.post(
        "/views",
        {"page": "/apps", "q": "y" * 300, "name": "last"},
        Cookie=f"{opened.form_cookie}; gitsync-views={cookie}",
    )
    assert answer.status == 422
    assert "the browser cannot keep more views" in answer.text


def test_settings_show_what_is_sent_where_without_secrets(site: Open, tmp_path: Path) -> None:
    opened = site([application("shop")])
    assert "None are sent about what you see" in opened.get("/settings").text
    (tmp_path / "urls").write_text("slack://T1JJ3T3L2/A1BRTD4JD/secret\nmailto://ops:secret@example.com\n")
    rules = [
        {"applications": ["shop"], "kinds": ["failed", "approval"], "urlFile": str(tmp_path / "urls")},
        {"applications": ["other"], "urls": ["json://other.example.com"]},
        {"applications": ["gitsync/*"], "urlFile": str(tmp_path / "absent")},
    ]
    opened.engine.receivers = Receivers(tuple(map(NotificationRule.model_validate, rules)), has_events=True)
    page = opened.get("/settings").text
    assert '<th scope="row">slack, mailto</th><td class="what">failed, approval</td><td>shop</td>' in page
    assert "the file of URLs cannot be read" in page
    assert "secret" not in page
    assert "other.example.com" not in page, "rules of Applications that the user does not see are not shown"
    assert "Each change of state is a Kubernetes Event" in page
