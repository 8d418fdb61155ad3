"""Sync, approve, reject, rollback, pin, suspend: each does what the user requests, and only that."""

from __future__ import annotations

import re
from pathlib import Path

from gitsync.cli.dashboard import address_file
from gitsync.cli.options import load_settings
from gitsync.cli.serve import access_of
from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.asgi_server import serve
from tests.cli.conftest import Shop
from tests.waiting import until


def phase(shop: Shop, wanted: str) -> None:
    until(lambda: shop.world.status().get("phase") == wanted and shop.world.shows(wanted), 10, shop.world.status)


def test_a_sync_waits_until_it_is_done(shop: Shop) -> None:
    done = shop("sync", "shop", "--timeout", "120")

    assert done.code == 0
    assert done.out.startswith("gitsync/shop: Synced and healthy")
    assert all(re.fullmatch(r"gitsync/shop: .+ \(\d+ s\)", line) for line in done.err.splitlines())
    assert "requested" in shop("sync", "shop", "--no-wait").out
    spec = shop.world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1")
    assert spec is not None
    assert spec["spec"]["source"]["repoURL"] == shop.world.repo.url  # nothing else was touched


def test_a_sync_without_a_controller_times_out(shop: Shop) -> None:
    shop.world.stop()

    done = shop("sync", "shop", "--timeout", "0.3")

    assert done.code == 3
    assert "did not end within 0.3 s" in done.err
    assert "check that the controller runs" in done.err
    assert done.err.startswith("gitsync/shop: waiting for the controller (0 s)\n")


def test_a_sync_reports_what_it_waits_for(shop: Shop) -> None:
    shop.world.sandbox.pause("kubelet")
    web = (shop.world.repo.clone / "shop" / "web.yaml").read_text()
    shop.world.synced(shop.world.repo.commit("more", {"shop/web.yaml": web.replace("replicas: 2", "replicas: 3")}))
    until(lambda: "Waiting for rollout" in str(shop.world.status()["conditions"]), describe=shop.world.status)

    done = shop("sync", "shop", "--timeout", "8")

    assert done.code == 3
    assert "Synced and progressing: Deployment shop/web: Waiting for rollout to finish" in done.err


def hold(shop: Shop) -> None:
    """Commit what waits for a person: an application that is scaled to nothing."""
    web = (shop.world.repo.clone / "shop" / "web.yaml").read_text()
    shop.world.repo.commit("close", {"shop/web.yaml": web.replace("replicas: 2", "replicas: 0")})
    phase(shop, "AwaitingApproval")


def replicas(shop: Shop) -> int:
    found = shop.world.get("Deployment", "web", api="apps/v1")
    assert found is not None
    return int(found["spec"]["replicas"])


def test_an_approval_lets_exactly_the_held_plan_run(shop: Shop) -> None:
    hold(shop)
    assert "held: 1 dangerous step waits" in shop("plan", "shop").out
    assert shop("sync", "shop").code == 1  # the plan waits for approval

    done = shop("approve", "shop", "--by", "grace", "--reason", "night")

    assert (done.code, done.err) == (0, "")
    assert "approved by grace" in done.out
    until(lambda: replicas(shop) == 0, 10)
    phase(shop, "Synced")
    records = {record["action"]: record for record in shop("audit", "shop", "-o", "json").json[::-1]}
    assert (records["approve"]["approver"], records["approve"]["reasoning"]) == ("grace", "night")
    assert records["update"]["approver"] == "grace"
    assert shop("approve", "shop").code == 2  # no plan waits any more


def test_a_rejected_plan_does_not_run(shop: Shop) -> None:
    hold(shop)

    done = shop("reject", "shop", "--by", "grace", "--reason", "not today")

    assert done.code == 0
    assert replicas(shop) == 2
    phase(shop, "Rejected")
    assert "held: rejected by grace: not today" in shop("plan", "shop").out
    assert shop("sync", "shop").code == 1  # asking for a sync changes nothing of that
    assert replicas(shop) == 2
    refused = shop("approve", "shop", "--by", "linus")
    assert (refused.code, "rejected by grace: not today" in refused.err, "--overrule" in refused.err) == (2, True, True)

    assert shop("approve", "shop", "--by", "linus", "--overrule").code == 0
    until(lambda: replicas(shop) == 0, 10)


def test_a_rejection_needs_a_reason(shop: Shop) -> None:
    hold(shop)
    assert "needs a reason" in shop("reject", "shop", "--by", "grace").err


def name_approvers(shop: Shop) -> None:
    """Let only the platform group approve."""
    shop.world.application(risk={"approval": "Dangerous", "approvers": {"groups": ["platform"]}})
    hold(shop)


def test_the_database_alone_does_not_take_a_name_for_proven(shop: Shop) -> None:
    name_approvers(shop)

    done = shop("approve", "shop", "--by", "platform")

    assert done.code == 2
    assert "only platform may review this plan" in done.err
    assert "--token-file" in done.err
    assert replicas(shop) == 2


def test_an_approval_at_the_dashboard_is_of_the_person_of_the_token(shop: Shop, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    for name, group in (("ada", "platform"), ("mallory", "sales")):
        (tmp_path / name).write_text(shop.run("users", "add", name, "--group", group, "--users", users).out.split()[-1])
    name_approvers(shop)
    settings = load_settings(users=users)
    with serve(shop.world.dashboard(access_of(settings))) as web:
        at = ("--server", web.url)
        assert "--token-file" in shop("approve", "shop", *at).err
        refused = shop("approve", "shop", *at, "--token-file", tmp_path / "mallory", "--by", "ada")
        assert (refused.code, "mallory is not one of platform" in refused.err) == (2, True)
        rejected = shop("reject", "shop", *at, "--token-file", tmp_path / "ada", "--reason", "wait")
        assert "rejected by ada" in rejected.out
        phase(shop, "Rejected")
        done = shop("approve", "shop", *at, "--token-file", tmp_path / "ada", "--overrule", "--reason", "now")
        assert (done.code, done.err) == (0, "")
        assert "approved by ada" in done.out
        assert "update Deployment shop/web  [Dangerous" in done.out
        until(lambda: replicas(shop) == 0, 10)
    link = shop.world.controller.records.audit_records("gitsync/shop", action="approve")[0]
    assert (link.approver, link.details["groups"], link.message) == (
        "ada",
        ["platform"],
        "overrules: rejected by ada: wait",
    )


def test_a_change_of_the_users_is_audited_with_who_made_it(shop: Shop, tmp_path: Path) -> None:
    users, data = tmp_path / "users.yaml", shop.world.folder / "data"
    shop.run("users", "add", "ada", "--group", "platform", "--users", users, "--by", "grace", "--data", data)
    shop.run("users", "remove", "ada", "--users", users, "--by", "grace", "--data", data)
    found = shop.world.controller.records.audit_records(action="users")
    assert [(record.message, record.approver) for record in found] == [("removed ada", "grace"), ("added ada", "grace")]


def test_a_dashboard_on_the_data_folder_is_asked_first(shop: Shop) -> None:
    hold(shop)
    data = shop.world.folder / "data"
    with serve(shop.world.dashboard()) as web:
        address_file(data).write_text(f"{web.url}\n")
        assert "approved by grace" in shop("approve", "shop", "--by", "grace").out
        until(lambda: replicas(shop) == 0, 10)
    assert shop("approve", "shop").code == 2  # no dashboard answers there any more, so the database is used
    assert "not a valid URL" in shop("approve", "shop", "--server", "nonsense").err
    assert shop("approve", "shop", "--server", "http://127.0.0.1:9").code == 3


def test_a_plan_that_was_run_is_not_approved_again_before_the_status_follows(shop: Shop) -> None:
    """Until then a command takes what the sync has written for drift from a plan that waits."""
    hold(shop)
    shop.world.sandbox.inject(
        InjectedFault(FaultKind.ERROR, verb="update", resource="applications.gitsync.dev", code=503)
    )
    assert shop("approve", "shop").code == 0
    until(lambda: replicas(shop) == 0)
    again = shop("approve", "shop")
    assert (again.code, "no plan waits for approval" in again.err) == (2, True), again
    assert len(shop.world.controller.records.audit_records("gitsync/shop", action="approve")) == 1
    shop.world.sandbox.clear_faults()
    phase(shop, "Synced")


def test_the_effective_policy_is_that_of_the_files_or_of_the_running_controller(shop: Shop) -> None:
    folder = shop.world.folder / "policies"
    folder.mkdir()
    (folder / "team.yaml").write_text("kind: Policy\nmetadata: {name: team}\nspec: {require: {approval: Moderate}}\n")
    answer = shop("policy", "explain", "shop", "--policies", folder)
    assert "Moderate" in answer.out
    assert "policy team" in answer.out
    hold(shop)
    rejected = shop("approve", "shop", "--policies", folder)  # the Application has no account
    assert (rejected.code, "a policy rejects the plan" in rejected.err) == (2, True), rejected.err
    refused = shop("approve", "shop", "--policies", strict(folder))
    assert (refused.code, "2 users may review this plan" in refused.err) == (2, True), refused.err
    with serve(shop.world.dashboard()) as web:
        address_file(shop.world.folder / "data").write_text(f"{web.url}\n")
        assert "the default, without a policy" in shop("policy", "explain", "shop").out


def strict(folder: Path) -> Path:
    """Change the policy in a folder to one that counts only signed-in users; return the folder."""
    spec = "{allow: {controllerRights: true}, require: {approvers: {count: 2}}}"
    text = f"kind: Policy\nmetadata: {{name: team}}\nspec: {spec}\n"
    (folder / "team.yaml").write_text(text)
    return folder


def test_a_rollback_is_a_real_commit_by_its_author(shop: Shop) -> None:
    done = shop("rollback", "shop", "--author", "Eve <eve@example.com>")

    assert (done.code, done.err) == (0, "")
    shop.world.repo.git("pull", "-q", "origin", "main")
    head = shop.world.repo.git("log", "-1", "--format=%H %an %s").split(" ", 2)
    assert head[1:] == ["Eve", 'Revert "a better prompt"']
    shop.world.synced(head[0])
    prompt = shop.world.get("ConfigMap", "prompt")
    assert prompt is not None
    assert prompt["data"] == {"text": "a"}


def test_a_rollback_can_go_to_a_sync_and_to_a_branch_for_review(shop: Shop) -> None:
    oldest = shop("history", "shop", "-o", "json").json[-1]["id"]

    done = shop("rollback", "shop", "--to", oldest, "--branch", "undo")

    assert done.code == 0
    assert "a better prompt" in done.out
    shop.world.repo.git("fetch", "-q", "origin")
    assert shop.world.repo.git("rev-parse", "origin/main") == shop.second
    assert shop.world.repo.git("show", "origin/undo:shop/prompt.yaml").endswith('text: "a"')


def test_a_rollback_to_nothing_known_is_refused(shop: Shop) -> None:
    done = shop("rollback", "shop", "--to", "fffffff")

    assert done.code == 2
    assert "not among the last 2 commits" in done.err


def test_a_pin_holds_until_it_is_taken_back(shop: Shop) -> None:
    done = shop("pin", "shop", shop.first[:8])

    assert (done.code, done.err) == (0, "")
    assert f"pinned to {shop.first[:12]} the shop opens (Ada)" in done.out
    shop.world.synced(shop.first)
    assert re.search(r"Pinned: +instead of main", shop("status", "shop").out)
    assert shop("pin", "shop", "main").code == 0  # again: what it followed before is still known
    assert shop("unpin", "shop").out == "gitsync/shop follows main again\n"
    shop.world.synced(shop.second)
    actions = {record["action"]: record for record in shop("audit", "shop", "-o", "json").json}
    assert actions["pin"]["commit"] == shop.first
    assert actions["unpin"]["approver"]
    assert "is not pinned" in shop("unpin", "shop").err
    assert "does not name a commit" in shop("pin", "shop", "no-such-thing").err


def test_a_suspended_application_syncs_again_when_resumed(shop: Shop) -> None:
    done = shop("suspend", "shop", "--by", "grace", "--reason", "maintenance")
    assert done.code == 0
    assert "gitsync resume shop --reason" in done.out + done.err
    phase(shop, "Suspended")
    (record,) = shop("audit", "shop", "-o", "json", "--limit", "1").json
    assert (record["action"], record["approver"], record["reasoning"]) == ("suspend", "grace", "maintenance")
    done = shop("sync", "shop")
    assert done.code == 2
    assert done.err.endswith("is suspended, so it is not synced; resume it first\n")

    assert shop("resume", "shop", "--reason", "moved").code == 0
    phase(shop, "Synced")


def test_a_field_is_held_by_name_and_given_back(shop: Shop) -> None:
    done = shop("hold", "shop", "Deployment/web", "spec.replicas", "--for", "30m", "--reason", "the queue grows")

    assert done.code == 0
    assert done.out.startswith("Deployment web .spec.replicas is left as it is until ")
    until(lambda: "FieldsHeld" in shop("status", "shop").out, describe=shop.world.status)
    ended = shop("unhold", "shop", "deployment/shop/web")
    assert ended.out == "Deployment web .spec.replicas is what Git declares again\n"
    assert "no such field is held" in shop("unhold", "shop").err
    records = shop.world.controller.records.audit_records("gitsync/shop")
    assert [record.action for record in records if record.action.endswith("hold")] == ["unhold", "hold"]


def test_a_hold_that_is_not_valid_is_refused(shop: Shop) -> None:
    web = ("Deployment/web", "spec.replicas")
    for arguments, problem in (
        (("Deployment/api", "spec.replicas", "--reason", "x"), "the Application has no object 'Deployment/api'"),
        (web, "to hold a field needs a name and a reason"),
        (("Deployment/web", "spec..[", "--reason", "x"), "is not a valid field path"),
        ((*web, "--for", "soon", "--reason", "x"), "'soon' is not a duration"),
        ((*web, "--for", "25h", "--reason", "x"), "held for 24h at most"),
    ):
        done = shop("hold", "shop", *arguments)
        assert (done.code, done.out) == (2, "")
        assert problem in done.err
