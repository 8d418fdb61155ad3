"""People with names of their own: who may review which plan, by a token, at a proxy, or at neither."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from gitsync.errors import InvalidInput
from gitsync.gate.policy import Policy, Require
from gitsync.objects.change import Risk
from gitsync.objects.user import User
from gitsync.record.configuration_audit import USERS, ConfigurationAudit
from gitsync.server.auth.access import Proxy
from gitsync.server.auth.users import UserAudit, Users, add, hash_of, read, remove, session_of
from tests.asgi_server import Answer
from tests.server.conftest import Open, Site
from tests.server.fakes import NOW, StoppedClock, application, resource

SHOP, KEY, DIGEST = "/apps/gitsync/shop", "gitsync/shop", "d" * 64
API = "/api/v1/applications/gitsync/shop"
HELD = application(
    resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)],
    held=("1 dangerous step waits for platform, eve",),
    spec={"risk": {"approvers": {"groups": ["platform"], "users": ["eve"]}}},
)


def key_of(token: str) -> str:
    return hash_of(session_of(token))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def signed_in(opened: Site, token: str) -> dict[str, str]:
    """Sign in as a browser does, and return its cookies."""
    cookie = opened.post("/sign-in", {"secret": token}).headers["set-cookie"].partition(";")[0]
    return {"Cookie": f"{opened.form_cookie}; {cookie}"}


def approve(opened: Site, headers: dict[str, str], **fields: str) -> Answer:
    return opened.post(f"{SHOP}/review", {"decision": "approve", "digest": DIGEST, **fields}, **headers)


def call(opened: Site, word: dict[str, Any], **headers: str) -> Answer:
    sent = {"Content-Type": "application/json", **headers}
    return opened.web.ask(f"{API}/review", method="POST", body=orjson.dumps(word), headers=sent)


def test_the_file_holds_neither_token_nor_session(file: Path) -> None:
    token = add(file, "ada", ["platform"])
    text = file.read_text()
    assert token not in text
    assert session_of(token) not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Users(file).find(key_of(token)) == User("ada", ("platform",), is_authenticated=True)
    assert Users(file).find(key_of("another")) is None


def test_a_user_has_several_named_tokens_that_expire(file: Path) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    laptop, robot = add(file, "ada", ["platform"], "laptop", soon), add(file, "ada", ["platform"], "robot")
    users = Users(file)
    assert [users.find(key_of(token)).token for token in (laptop, robot)] == ["laptop", "robot"]  # type: ignore[union-attr]
    assert users.find(key_of(laptop), soon) is None
    assert users.find(key_of(robot), soon) is not None
    replaced = add(file, "ada", ["sre"], "robot")
    assert users.find(key_of(robot)) is None
    assert users.find(key_of(replaced)) == users.find(key_of(laptop)) == User("ada", ("sre",), is_authenticated=True)
    assert remove(file, "ada")
    assert read(file) == []


def test_the_audit_names_the_token_and_the_sign_in(site: Open, file: Path) -> None:
    token = add(file, "ada", ["platform"], "laptop")
    opened = site([HELD], users=Users(file))
    assert approve(opened, signed_in(opened, token)).status == 303
    review, sign_in = opened.engine.records.audit_records()
    assert (sign_in.action, sign_in.approver, sign_in.details["token"]) == ("sign-in", "ada", "laptop")
    assert (review.action, review.approver, review.details["token"]) == ("approve", "ada", "laptop")


def test_each_change_of_the_users_is_audited_once_without_tokens(site: Open, file: Path) -> None:
    token = add(file, "ada", ["platform"], "laptop")
    records = site([HELD]).engine.records
    audit = ConfigurationAudit(records, StoppedClock(), USERS)
    for _ in range(2):
        UserAudit(file, audit).check()  # the second one is that of a restart
    add(file, "ada", ["sre"], "laptop")
    add(file, "eve", [])
    watch = UserAudit(file, audit)
    watch.check()
    remove(file, "eve")
    watch.check()
    file.write_text("users: [")
    watch.check()
    found = list(reversed(records.audit_records(action=USERS)))
    assert [record.message for record in found] == [
        "added ada (laptop)",
        "added eve; changed ada (laptop)",
        "removed eve",
    ]
    assert {record.approver for record in found} == {f"{file.owner()} (owner of users.yaml)"}
    assert key_of(token) not in repr(found)
    assert session_of(token) not in repr(found)


def test_an_application_with_an_invalid_spec_keeps_its_operators(site: Open, file: Path) -> None:
    eve = add(file, "eve", ["platform"])
    opened = site([replace(HELD, application=None)], users=Users(file))
    require = Require.model_validate({"operators": {"groups": ["operators"]}})
    opened.engine.policies.policy = Policy(name="team", require=(require,))
    assert opened.post(f"{SHOP}/suspend", {"reason": "why"}, **signed_in(opened, eve)).status == 403
    assert opened.engine.policies.asked[-1] == HELD.key


@pytest.mark.parametrize("path", ["/sync", "/suspend", "/resume", "/revert"])
def test_only_the_operators_that_a_policy_names_request(site: Open, file: Path, path: str) -> None:
    ada, eve = add(file, "ada", ["operators"]), add(file, "eve", ["platform"])
    opened = site([HELD], users=Users(file))
    require = Require.model_validate({"operators": {"groups": ["operators"]}})
    opened.engine.policies.policy = Policy(name="team", require=(require,))
    fields = {"reason": "why", "newest": "x"}
    refused = opened.post(f"{SHOP}{path}", fields, **signed_in(opened, eve))
    assert (refused.status, "eve is not one of the operators that policy team names" in refused.text) == (403, True)
    assert approve(opened, signed_in(opened, eve)).status == 303  # an approver need not be an operator
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {eve}"}
    if path != "/revert":
        assert opened.web.ask(f"{API}{path}", method="POST", body=b'{"reason": "x"}', headers=headers).status == 403
        status = 409 if path == "/resume" else 303  # it is not suspended
        assert opened.post(f"{SHOP}{path}", fields, **signed_in(opened, ada)).status == status
    requested = [done for done in opened.engine.requests.done if done[0] != "look"]
    assert len(requested) == (path in ("/sync", "/suspend"))


def test_a_session_ends_with_its_token(site: Open, file: Path) -> None:
    token = add(file, "ada", [])
    opened = site([HELD], users=Users(file))
    headers = signed_in(opened, token)
    assert opened.get("/apps", **headers).status == 200
    assert remove(file, "ada")
    assert opened.get("/apps", **headers).status == 401


def test_wrong_tokens_for_an_account_delay_that_account_at_any_address(site: Open, file: Path) -> None:
    ada, eve, known = add(file, "ada", []), add(file, "eve", []), add(file, "ada", [], "robot")
    # each replica counts its own
    opened = site([HELD], users=Users(file), proxy=Proxy.parse("127.0.0.1", False), are_two=False)
    bearer = {"Authorization": f"Bearer {known}"}
    assert opened.get("/apps", **bearer).status == 200

    def attempt(secret: str, address: int) -> int:
        return opened.post("/sign-in", {"secret": secret}, **{"X-Forwarded-For": f"192.0.2.{address}"}).status

    tries = [attempt(f"ada.{number}", number) for number in range(1, 8)]
    assert tries[:5] == [401] * 5
    assert tries[-1] == 429
    assert attempt(ada, 50) == 429
    assert attempt(eve, 51) == 303
    assert opened.get("/apps", **bearer).status == 200  # a token that was used before is not delayed


def test_adding_somebody_again_gives_a_new_token_and_leaves_the_others(file: Path) -> None:
    first, other = add(file, "ada", []), add(file, "grace", ["on-call"])
    second = add(file, "ada", ["platform"])
    users = Users(file)
    assert users.find(key_of(first)) is None
    assert users.find(key_of(second)) == User("ada", ("platform",), is_authenticated=True)
    assert users.find(key_of(other)) == User("grace", ("on-call",), is_authenticated=True)
    assert remove(file, "ada")
    assert not remove(file, "ada")
    assert [entry["name"] for entry in read(file)] == ["grace"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("users: 3\n", "has no list of users"),
        ("[]\n", "cannot|has no list|mapping"),
        (f"users: [{{name: a, tokenHash: {'0' * 63}}}]\n", "tokenHash is not a valid hash"),
        (f"users: [{{name: '', tokenHash: {'0' * 64!r}}}]\n", "is not a valid name"),
        (f"users: [{{name: a, groups: platform, tokenHash: {'0' * 64!r}}}]\n", "is not a valid name"),
        (f"users: [{{name: a, expires: soon, tokenHash: {'0' * 64!r}}}]\n", "expires: 'soon' is not a time"),
        (f"users: [{{name: a, tokenName: 3, tokenHash: {'0' * 64!r}}}]\n", "is not a valid name"),
        (f"users: [{{name: a, group: [b], tokenHash: {'0' * 64!r}}}]\n", "group is unknown"),
        (f"users: [{{name: a, tokenHash: {'0' * 64!r}}}, {{name: a, tokenHash: {'1' * 64!r}}}]\n", "duplicate user"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        Users(file)


def test_a_file_that_breaks_later_lets_nobody_in_until_it_is_mended(file: Path) -> None:
    token = add(file, "ada", [])
    users, good = Users(file), file.read_bytes()
    file.write_text("users: [\n")
    assert users.find(key_of(token)) is None
    file.write_bytes(good)
    assert users.find(key_of(token)) is not None
    file.unlink()
    assert users.find(key_of(token)) is None


def test_somebody_of_the_group_approves_in_their_own_name(site: Open, file: Path) -> None:
    token = add(file, "ada", ["platform"])
    opened = site([HELD], users=Users(file))
    headers = signed_in(opened, token)
    page = opened.get(f"{SHOP}/plan", **headers).text
    assert "As ada" in page
    assert 'name="by"' not in page
    assert approve(opened, headers, by="another user", reason="looked").status == 303
    review = opened.engine.records.review(KEY, DIGEST, NOW)
    assert review is not None
    assert review.by == User("ada", ("platform",), is_authenticated=True)
    (link,) = opened.engine.records.audit_records(KEY)
    assert link.approver == "ada"
    assert link.details.items() >= {"groups": ["platform"], "signedIn": True}.items()
    assert opened.engine.requests.done == [("look", KEY)]


def test_who_may_not_approve_sees_who_may_and_is_refused(site: Open, file: Path) -> None:
    token = add(file, "mallory", ["sales"])
    opened = site([HELD], users=Users(file))
    headers = signed_in(opened, token)
    for path in (f"{SHOP}/plan", "/approvals"):
        page = opened.get(path, **headers).text
        assert "platform, eve may review this plan; you are mallory, of sales" in page
        assert "/review" not in page
    for decision in ("approve", "reject"):
        fields = {"decision": decision, "digest": DIGEST, "by": "eve", "reason": "x"}
        answer = opened.post(f"{SHOP}/review", fields, **headers)
        assert (answer.status, "mallory is not one of platform, eve" in answer.text) == (403, True)
    assert [link.action for link in opened.engine.records.audit_records()] == ["sign-in"]


@pytest.mark.parametrize("options", [{}, {"token": "shared"}])
def test_a_name_that_nobody_vouches_for_may_not_approve_where_approvers_are_named(
    site: Open, options: dict[str, str]
) -> None:
    opened = site([HELD], **options)
    headers = signed_in(opened, "shared") if options else {}
    page = opened.get(f"{SHOP}/plan", **headers).text
    assert "platform, eve may review this plan: sign in with a token of your own" in page
    answer = approve(opened, headers, by="eve")
    assert answer.status == 403
    assert "sign in to the dashboard with a token of your own" in answer.text
    assert opened.engine.records.review(KEY, DIGEST, NOW) is None


def test_the_shared_token_approves_where_no_approvers_are_named(site: Open, file: Path) -> None:
    add(file, "ada", [])
    held = application(resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)], held=("it waits",))
    opened = site([held], token="shared", users=Users(file))
    assert approve(opened, signed_in(opened, "shared"), by="Grace").status == 303
    review = opened.engine.records.review(KEY, DIGEST, NOW)
    assert review is not None
    assert review.by == User("Grace")


def test_a_session_ends_with_the_entry(site: Open, file: Path) -> None:
    token = add(file, "ada", ["platform"])
    add(file, "grace", [])
    opened = site([HELD], users=Users(file))
    headers = signed_in(opened, token)
    assert opened.get("/apps", **headers).status == 200
    remove(file, "ada")
    assert opened.get("/apps", **headers).status == 401
    assert opened.get("/apps", Authorization=f"Bearer {token}").status == 401


def test_a_proxy_is_believed_only_where_it_is_named_and_switched_on(site: Open) -> None:
    ada = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "sales, platform"}
    for proxy, status in (
        (Proxy.parse("127.0.0.1", True), 303),
        (Proxy.parse("10.0.0.0/8, 127.0.0.0/8", True), 303),
        (Proxy.parse("10.0.0.7", True), 401),
    ):
        opened = site([HELD], proxy=proxy)
        assert approve(opened, ada).status == status
    opened = site([HELD], proxy=Proxy.parse("127.0.0.1", False))  # no sign-in is required, so no user is known
    assert approve(opened, ada, by="ada").status == 403
    opened = site([HELD], proxy=Proxy.parse("10.0.0.7", True))  # who speaks for the proxy is not the proxy
    assert approve(opened, {**ada, "X-Forwarded-For": "10.0.0.7"}).status == 401


def test_what_a_proxy_says_unclearly_is_nobody(site: Open) -> None:
    opened = site([HELD], proxy=Proxy.parse("127.0.0.1", True))
    for user in ("", " ", "a\u00a0b", "x" * 101):
        assert opened.get("/apps", X_Forwarded_User=user).status == 401
    assert opened.get("/apps").status == 401
    assert opened.get("/apps", X_Forwarded_User="ada").status == 200


@pytest.mark.parametrize(
    ("addresses", "says"), [("", "any client could impersonate"), ("proxy.example", "is not a valid address")]
)
def test_a_proxy_without_an_address_is_refused(addresses: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Proxy.parse(addresses, True)


def test_behind_a_proxy_with_tls_cookies_are_secure(site: Open) -> None:
    named, other = site(token="t", proxy=Proxy.parse("127.0.0.1", False)), site(token="t")
    over_tls = {"X-Forwarded-Proto": "https"}
    assert "Secure" in named.post("/sign-in", {"secret": "t"}, **over_tls).headers["set-cookie"]
    assert "Secure" not in other.post("/sign-in", {"secret": "t"}, **over_tls).headers["set-cookie"]


def test_machines_read_the_plan_and_review_it(site: Open, file: Path) -> None:
    bearer = {"Authorization": f"Bearer {add(file, 'ada', ['platform'])}"}
    opened = site([HELD], users=Users(file))
    assert opened.get(f"{API}/plan").status == 401
    plan = orjson.loads(opened.get(f"{API}/plan", **bearer).text)
    assert (plan["digest"], plan["held"]) == (DIGEST, ["1 dangerous step waits for platform, eve"])
    assert plan["steps"][0]["object"] == "ConfigMap shop/a"
    reject = call(opened, {"digest": DIGEST, "verdict": "reject", "reason": "no"}, **bearer)
    assert orjson.loads(reject.text) == {
        "application": KEY,
        "digest": DIGEST,
        "by": "ada",
        "until": "",
    }
    refused = call(opened, {"digest": DIGEST, "verdict": "approve"}, **bearer)
    assert (refused.status, "rejected by ada: no" in orjson.loads(refused.text)["detail"]) == (403, True)
    done = call(opened, {"digest": DIGEST, "verdict": "approve", "overrule": True}, **bearer)
    assert orjson.loads(done.text)["until"] == "2026-03-02T12:00:00+00:00"


@pytest.mark.parametrize(
    ("word", "headers", "status"),
    [
        ({"digest": "e" * 64, "verdict": "approve"}, {}, 409),
        ({"digest": DIGEST, "verdict": "perhaps"}, {}, 422),
        ({"verdict": "approve"}, {}, 422),
        ({"digest": DIGEST, "verdict": "reject"}, {}, 422),
        ({"digest": DIGEST, "verdict": "approve"}, {"Content-Type": "text/plain"}, 415),
        ({"digest": DIGEST, "verdict": "approve"}, {"Origin": "http://evil.example"}, 403),
        ({"digest": DIGEST, "verdict": "approve"}, {"Origin": "null"}, 403),
    ],
)
def test_a_call_that_cannot_be_taken_says_so_as_json(
    site: Open, file: Path, word: dict[str, str], headers: dict[str, str], status: int
) -> None:
    bearer = {"Authorization": f"Bearer {add(file, 'ada', ['platform'])}"}
    opened = site([HELD], users=Users(file))
    answer = call(opened, word, **{**bearer, **headers})
    assert answer.status == status
    assert orjson.loads(answer.text)["detail"]
    assert opened.engine.records.audit_records() == ()


def test_a_hash_is_of_the_session_so_that_who_reads_the_file_cannot_sign_in(site: Open, file: Path) -> None:
    token = add(file, "ada", ["platform"])
    opened = site([HELD], users=Users(file))
    stolen = hash_of(session_of(token))
    assert opened.get("/apps", Cookie=f"gitsync-session-{opened.port}={stolen}").status == 401
    assert opened.get("/apps", Authorization=f"Bearer {stolen}").status == 401
