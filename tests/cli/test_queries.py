"""Status, diff, plan, drift, history and audit, on a real cluster and a real repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Gitsync, Shop, as_account
from tests.flow.factories import config_map
from tests.waiting import until

PROMPT = {"name": "prompt", "namespace": "shop"}


def test_an_application_in_sync_exits_with_0(unchanged_shop: Shop) -> None:
    for command in ("status", "status shop", "diff shop", "plan shop", "drift", "drift shop", "audit verify"):
        done = unchanged_shop(*command.split())
        assert (done.code, done.err) == (0, ""), command

    row = unchanged_shop("status", "-o", "json").json[0]
    assert (row["name"], row["sync"], row["health"], row["revision"]) == (
        "shop",
        "Synced",
        "Healthy",
        unchanged_shop.second[:12],
    )
    assert yaml.safe_load(unchanged_shop("status", "shop", "-o", "yaml").out)["status"]["resources"]["total"] == 2
    assert f"in sync with {unchanged_shop.second[:12]}" in unchanged_shop("diff", "shop").out


def test_an_edit_by_hand_is_listed_with_field_values_manager_and_time(shop: Shop) -> None:
    shop("suspend", "shop", "--reason", "incident")
    until(lambda: shop.world.status()["phase"] == "Suspended", 5, shop.world.status)
    edit = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompt", "namespace": "shop"}}
    shop.world.apply({**edit, "data": {"text": "mine"}}, "eve")

    for command in ("diff", "drift"):
        done = shop(command, "shop", "-o", "json")
        row = done.json[0]
        assert done.code == 1
        assert (row["object"], row["path"], row["live"], row["desired"], row["manager"]) == (
            "ConfigMap shop/prompt",
            ".data.text",
            "mine",
            "b",
            "eve",
        )
        assert row["time"].startswith("20")
    made = shop("plan", "shop", "-o", "json")
    assert made.code == 1
    # what others changed is repaired apart from the steps of a commit
    assert made.json["steps"] == []
    assert [(step["action"], step["object"], bool(step["rule"])) for step in made.json["repairs"]] == [
        ("update", "ConfigMap shop/prompt", True)
    ]
    assert "ConfigMap shop/prompt" in shop("plan", "shop").out
    assert shop("status", "shop").code == 1  # suspended, and it differs from Git


def test_a_plan_names_the_verdicts_on_copies(shop: Shop) -> None:
    shop.world.stop()
    path = "/apis/gitsync.dev/v1alpha1/namespaces/gitsync/applications/shop"
    app = shop.world.client.get(path)
    row = {"object": "apps/Deployment/shop/triage", "digest": "d1", "attempt": 1, "at": "2026-01-01T12:00:00Z"}
    verdict = {"result": "Failed", "passed": 0, "cases": 1, "message": "0 of 1 cases passed; failed: manners"}
    running = {**row, "digest": "d2"}
    app["status"]["evaluations"] = [{**row, **verdict}, running]
    shop.world.client.send("PUT", f"{path}/status", app)
    line = "evaluation of Deployment shop/triage: Failed, 0 of 1 cases passed; failed: manners"
    assert [text for text in shop("plan", "shop").out.splitlines() if text.startswith("evaluation")] == [line]
    (evaluation,) = shop("plan", "shop", "-o", "json").json["evaluations"]
    assert (evaluation["agent"], evaluation["result"]) == ("Deployment shop/triage", "Failed")


def test_what_git_did_since_is_a_difference_but_no_drift(shop: Shop) -> None:
    shop("suspend", "shop", "--reason", "incident")
    until(lambda: shop.world.status()["phase"] == "Suspended", 5, shop.world.status)
    shop.world.repo.commit("more", {"shop/more.yaml": config_map("more", a="1")})

    assert shop("diff", "shop").code == 1
    assert shop("drift", "shop").code == 0


def test_a_folder_can_stand_in_for_git(shop: Shop, tmp_path: Path) -> None:
    local = shop.world.repo.clone / "shop"
    assert shop("diff", "shop", "--local", local).code == 0

    (local / "prompt.yaml").write_text(config_map("prompt", text="c"))

    assert ".data.text: 'b' -> 'c'" in shop("diff", "shop", "--local", local).out


def test_an_invalid_commit_is_shown_with_file_and_line(shop: Shop) -> None:
    shop.world.repo.commit("broken", {"shop/prompt.yaml": "a: [\n"})
    until(lambda: shop.world.condition("Rendered").get("status") == "False", 5, shop.world.status)

    done = shop("status", "shop")

    assert done.code == 1
    assert "shop/prompt.yaml:" in done.out
    assert "shop/prompt.yaml:" in shop("status").out


def test_history_of_an_unknown_owner_is_refused(unchanged_shop: Shop) -> None:
    done = unchanged_shop("history", "agent:triage")
    assert done.code == 2
    assert "no sync of agent:triage is recorded in namespace gitsync; name the namespace of the object" in done.err


def test_history_names_commit_author_and_message(unchanged_shop: Shop) -> None:
    assert [
        (item["revision"], item["author"], item["message"])
        for item in unchanged_shop("history", "shop", "-o", "json").json
    ] == [
        (unchanged_shop.second, "Ada", "a better prompt"),
        (unchanged_shop.first, "Ada", "the shop opens"),
    ]
    assert "the shop opens" in unchanged_shop("history", "shop").out


def test_the_audit_is_listed_exported_and_checked(unchanged_shop: Shop) -> None:
    listed = unchanged_shop("audit", "shop", "-o", "json").json
    lines = unchanged_shop("audit", "-o", "jsonl").out.splitlines()

    assert {record["resource"] for record in listed} == {"/ConfigMap/shop/prompt", "apps/Deployment/shop/web"}
    assert len(lines) == len(listed)
    assert len(unchanged_shop("audit", "--limit", "1", "-o", "json").json) == 1
    assert unchanged_shop("audit", "absent").out == "no records yet\n"
    assert unchanged_shop("audit", "verify").out == "the audit chain is intact\n"


def test_an_export_verifies_without_gitsync(unchanged_shop: Shop) -> None:
    exported = unchanged_shop("audit", "export").out
    documentation = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    verifier = documentation.partition("```python\n")[2].partition("```")[0]
    for text, code in (
        (exported, 0),
        (exported.replace("prompt", "other", 1), 1),
        (exported.partition("\n")[2] * 2, 1),
    ):
        assert subprocess.run([sys.executable, "-c", verifier], input=text, text=True).returncode == code


def test_verify_compares_the_chain_with_the_statuses_of_applications(shop: Shop) -> None:
    shop.world.stop()
    shop.world.change_records("DELETE FROM audit", f"UPDATE chain SET length = 0, head = '{'0' * 64}'")
    done = shop("audit", "verify")
    assert (done.code, "in the status of Application gitsync/shop" in done.out) == (1, True)

    assert shop("audit", "accept", "--by", "ada").code == 2
    assert shop("audit", "accept", "--by", "ada", "--reason", "restored a backup").code == 0
    assert shop("audit", "verify").out == "the audit chain is intact\n"


def test_a_broken_chain_exits_with_1(shop: Shop) -> None:
    shop.world.stop()
    shop.world.change_records("UPDATE audit SET body = replace(body, 'prompt', 'other') WHERE id = 1")

    done = shop("audit", "verify")

    assert (done.code, done.out) == (1, "audit record 1 was changed\n")


@pytest.mark.parametrize(
    "command", ["status", "diff", "plan", "drift", "history", "sync", "rollback", "suspend", "unpin"]
)
def test_an_unknown_application_names_the_known(unchanged_shop: Shop, command: str) -> None:
    done = unchanged_shop(command, "shoop")

    assert done.code == 2
    assert done.err == "gitsync: Application 'shoop' not found in namespace 'gitsync'; known: shop\n"


def test_an_audit_without_a_database_names_the_missing_file(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("audit", "--data", tmp_path)

    assert done.code == 2
    assert re.search(r"history database .* does not exist", done.err)
    assert not list(tmp_path.iterdir())


def test_an_application_that_fails_does_not_hide_the_drift_of_others(shop: Shop) -> None:
    shop("suspend", "shop", "--reason", "incident")
    until(lambda: shop.world.status()["phase"] == "Suspended", 5, shop.world.status)
    shop.world.apply(yaml.safe_load(config_map("prompt", text="x" * 200)) | {"metadata": PROMPT}, "eve")
    shop.world.application("aside", suspend=True, source={"repoURL": "file:///nowhere.git", "path": "shop"})
    shop.world.stop()
    status = {"revision": {"applied": shop.first}}
    aside = shop.world.get("Application", "aside", "gitsync", "gitsync.dev/v1alpha1")
    assert aside is not None
    shop.world.cluster.replace({**aside, "status": status}, manager="test", subresource="status")

    done = shop("drift")

    assert done.code in (2, 3)
    assert done.err.count("\n") == 1
    assert "ConfigMap shop/prompt" in done.out
    assert "x" * 60 not in done.out  # a table is for a glance, -o json for all of it
    assert "x" * 200 in shop("drift", "shop", "-o", "json").out


def test_a_kubeconfig_that_is_not_there_is_named(gitsync: Gitsync, tmp_path: Path) -> None:
    done = gitsync("status", "--kubeconfig", tmp_path / "gone")

    assert (done.code, f"file {tmp_path / 'gone'} does not exist" in done.err) == (2, True)


def test_a_user_of_one_namespace_gets_the_hint_to_name_it(shop: Shop, tmp_path: Path) -> None:
    world = shop.world
    world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer", "namespace": "shop"}})
    limited = as_account(world, "viewer", tmp_path / "limited")

    done = shop("status", "--kubeconfig", limited)

    assert done.code == 2
    assert "is forbidden" in done.err
    assert "-n NAMESPACE" in done.err


def test_an_unreachable_cluster_exits_with_3(gitsync: Gitsync, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )

    done = gitsync("status", "--kubeconfig", config)

    assert done.code == 3
    assert done.err.count("\n") == 1
