"""Diff and plan agree with the controller: policies, other Applications, encrypted secrets, notes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gitsync.objects.ref import ObjectRef
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.source.repositories import Repositories
from tests.cli.conftest import Shop, as_account
from tests.flow.environment import NAMESPACE, Repository
from tests.flow.factories import WIDGET, WIDGETS, config_map
from tests.sops_encryption import Sealer, new_key
from tests.waiting import until

POLICY = """\
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: data}
spec:
  match: {kinds: [ConfigMap]}
  rules:
  - {name: calm, expression: "object.data.text != 'loud'", message: speak softly}
"""


def rest(shop: Shop, name: str = "shop") -> None:
    """Suspend an Application, so that the controller writes nothing."""
    shop("suspend", name, "--reason", "a test")
    until(lambda: shop.world.status(name)["phase"] == "Suspended", 10, lambda: shop.world.status(name))


def test_a_plan_names_the_rule_that_the_controller_will_refuse_it_for(shop: Shop, tmp_path: Path) -> None:
    rest(shop)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "data.yaml").write_text(POLICY)
    shop.world.repo.commit("shout", {"shop/prompt.yaml": config_map("prompt", text="loud")})

    assert shop("plan", "shop", "-o", "json").json["refusals"] == []
    asked = shop("plan", "shop", "--policies", tmp_path / "policies")
    assert "refused: ConfigMap shop/prompt: speak softly (rule data/calm)" in asked.out
    assert "note: suspended: nothing is written until" in asked.out
    lost = shop("plan", "shop", "--policies", tmp_path / "gone")
    assert (lost.code, "gone does not exist" in lost.err) == (2, True)


def test_an_object_of_another_application_is_refused_and_one_that_moves_is_not_deleted(shop: Shop) -> None:
    shop.world.repo.commit("two", {"other/prompt.yaml": config_map("prompt", text="c")})
    shop.world.application("other", destination={"namespace": "shop"}, suspend=True)

    claimed = shop("plan", "other", "-o", "json").json
    assert claimed["refusals"] == [
        "ConfigMap shop/prompt: belongs to Application gitsync/shop, which declares it too; remove it from one"
    ]

    rest(shop)
    shop.world.repo.commit("move", {"shop/prompt.yaml": None})
    moved = shop("plan", "other", "-o", "json").json
    assert (moved["refusals"], [step["action"] for step in moved["steps"]]) == ([], ["adopt"])
    assert shop("plan", "shop", "-o", "json").json["steps"] == []

    shop.world.repo.commit("drop", {"other/prompt.yaml": None, "other/more.yaml": config_map("more")})
    assert [step["action"] for step in shop("plan", "shop", "-o", "json").json["steps"]] == ["prune"]


def test_what_is_sealed_in_git_is_opened_with_the_secret_or_a_file(shop: Shop, tmp_path: Path) -> None:
    identity, text = new_key()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "hidden-8"}}
    sealed = Sealer(identity.to_public(), ("data", "stringData")).file(secret)
    shop.world.repo.commit("sealed", {"vault/s.yaml": sealed})
    source = {"decryption": {"provider": "sops", "secretRef": {"name": "age"}}}
    shop.world.application("vault", source=source, destination={"namespace": "shop"}, suspend=True)

    lost = shop("diff", "vault")
    assert (lost.code, "Secret gitsync/age does not exist" in lost.err) == (2, True)

    key = tmp_path / "age.key"
    key.write_text(text)
    by_file = shop("diff", "vault", "--age-key", key)
    assert (by_file.code, "+ create Secret shop/s" in by_file.out) == (1, True)
    assert shop("diff", "vault", "--age-key", tmp_path).code == 2

    age = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "age", "namespace": NAMESPACE}}
    shop.world.apply({**age, "stringData": {"me.agekey": text}})
    live = {"password": base64.b64encode(b"hidden-8").decode()}
    shop.world.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": live}
    )
    by_secret = shop("diff", "vault", "-o", "json")
    assert [(row["action"], row["path"]) for row in by_secret.json] == [
        ("adopt", ".metadata.labels"),
        ("adopt", ".metadata.annotations"),
    ]  # the values are equal
    assert "hidden-8" not in by_file.out + by_secret.out


def test_a_difference_lists_the_changes_inside_and_the_line_that_set_it(shop: Shop) -> None:
    rest(shop)
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "calm", "namespace": "shop"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}, {"ports": [{"port": 443}]}]},
    }
    shop.world.apply(policy, "eve")
    shop.world.repo.commit(
        "more",
        {
            "shop/policy.yaml": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: calm}\nspec:\n"
            "  podSelector: {}\n  ingress:\n  - ports: [{port: 80}]\n  - ports: [{port: 8443}]\n",
            "shop/prompt.yaml": config_map("prompt", text="b\\nc"),
        },
    )

    output = shop("diff", "shop").out.splitlines()
    assert "        [1].ports[0].port: 443 -> 8443" in output
    assert output[output.index("        [1].ports[0].port: 443 -> 8443") - 1].endswith("<- shop/policy.yaml:6")
    text = next(index for index, line in enumerate(output) if line.startswith("    .data.text"))
    assert output[text].endswith("<- shop/prompt.yaml:6")
    assert output[text + 1 : text + 3] == ["          b", "        + c"]

    rows = {row["path"]: row for row in shop("diff", "shop", "-o", "json").json}
    assert rows[".spec.ingress"]["inside"] == [{"path": "[1].ports[0].port", "live": 443, "desired": 8443}]
    assert rows[".data.text"]["steps"] == [{"where": "shop/prompt.yaml:6", "step": "manifest"}]
    steps = {step["object"]: step for step in shop("plan", "shop", "-o", "json").json["steps"]}
    places = {item["path"]: item["where"] for item in steps["NetworkPolicy shop/calm"]["differences"]}
    assert (places[".spec.ingress"], places[".metadata.labels"]) == ("shop/policy.yaml:6", "")  # the label is ours


def test_a_commit_that_does_not_fit_its_schema_is_refused_with_file_and_line(shop: Shop) -> None:
    rest(shop)
    web = (shop.world.repo.clone / "shop" / "web.yaml").read_text()
    shop.world.repo.commit("typo", {"shop/web.yaml": web.replace("replicas: 2", "replicas: two")})

    for command in ("plan", "diff"):
        done = shop(command, "shop")
        assert (done.code, done.out) == (2, "")
        assert "shop/web.yaml:6: Deployment shop/web: .spec.replicas" in done.err
    (shop.world.repo.clone / "shop" / "web.yaml").write_text("kind: ConfigMap\ndata: {a: no}\nmetadata: {name: a}\n")
    assert shop("diff", "shop", "--local", shop.world.repo.clone / "shop").code == 2


def test_a_rewritten_branch_is_compared_with_a_note(shop: Shop) -> None:
    rest(shop)
    shop.world.repo.git("reset", "-q", "--hard", shop.first)
    shop.world.repo.git("commit", "-q", "--amend", "-m", "another story")
    shop.world.repo.git("push", "-q", "--force", "origin", "HEAD:main")

    done = shop("plan", "shop")

    assert done.code == 1
    assert "note: " in done.out
    assert "non-fast-forward" in done.out


def test_automation_that_is_off_and_a_dependency_are_noted(shop: Shop) -> None:
    shop.world.repo.commit("late", {"late/a.yaml": config_map("late")})
    shop.world.application(
        "late", destination={"namespace": "shop"}, sync={"automated": False}, dependsOn=[{"name": "absent"}]
    )

    notes = shop("plan", "late", "-o", "json").json["notes"]

    assert notes == [
        "automated sync is off: nothing is written until: gitsync sync late",
        "depends on Application gitsync/absent, which does not exist",
    ]


def test_dry_runs_take_the_rights_of_the_application_where_they_may(shop: Shop, tmp_path: Path) -> None:
    world = shop.world
    rest(shop)
    found = world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1")
    assert found is not None
    world.application(destination={"namespace": "shop", "serviceAccountName": "deployer"}, suspend=True)
    world.repo.commit(
        "fewer", {"shop/prompt.yaml": config_map("prompt", other="x")}
    )  # whether a field goes, the server knows
    refused = 'cannot be done: ConfigMap shop/prompt: configmaps "prompt" is forbidden: User "system:serviceaccount:'

    assert f'{refused}gitsync:deployer"' in shop("plan", "shop").out

    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch"]}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    account = {"kind": "ServiceAccount", "name": "me", "namespace": "shop"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "me"}
    world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "me", "namespace": "shop"}})
    world.apply({**rbac, "kind": "ClusterRole", "metadata": {"name": "me"}, "rules": [everything]})
    world.apply(
        {**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "me"}, "subjects": [account], "roleRef": role}
    )
    limited = as_account(world, "me", tmp_path / "limited")
    done = shop("plan", "shop", "--kubeconfig", limited, "--allow-file-urls")
    assert "~ update ConfigMap shop/prompt" in done.out
    assert "cannot be done" not in done.out


def test_an_api_group_that_is_unavailable_hides_only_its_own_objects(shop: Shop) -> None:
    world = shop.world
    world.apply(read_all(WIDGETS, "crd.yaml")[0])
    world.cluster.definitions_changed()
    until(lambda: world.cluster.resource("example.com", "v1", "Widget") is not None, 10)
    world.synced(world.repo.commit("widget", {"shop/widget.yaml": WIDGET}))
    rest(shop)
    world.repo.commit("text", {"shop/widget.yaml": WIDGET.replace("3", "4"), "shop/prompt.yaml": config_map("prompt")})
    world.sandbox.inject(InjectedFault(FaultKind.GROUP_UNAVAILABLE, resource="widgets.example.com"))

    planned = shop("plan", "shop", "-o", "json")
    assert [step["object"] for step in planned.json["steps"]] == ["ConfigMap shop/prompt"]
    assert planned.code == 1
    reason = next(note for note in planned.json["notes"] if note.startswith("not compared: Widget shop/w: "))
    assert "kubectl get apiservices" in reason
    assert reason in shop("plan", "shop").out
    compared = shop("diff", "shop")
    assert (compared.code, "ConfigMap shop/prompt" in compared.out, reason in compared.err) == (1, True, True)

    world.repo.commit("only the widget", {"shop/prompt.yaml": config_map("prompt", text="b")})
    same = shop("diff", "shop")
    assert (same.code, "in sync" in same.out, reason in same.err) == (3, False, True)
    assert shop("plan", "shop").code == 3
    world.sandbox.clear_faults()
    assert shop("diff", "shop").code == 1


def test_a_comparison_leaves_no_process_that_reads_git(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Repositories] = []
    monkeypatch.setattr(Repositories, "close", lambda self: closed.append(self))
    assert shop("plan", "shop").code in (0, 1)
    assert len(closed) == 1


def test_a_plan_of_a_deleted_application_deletes_its_objects(shop: Shop) -> None:
    shop.world.stop()
    application = ObjectRef("gitsync.dev", "Application", NAMESPACE, "shop")
    live = shop.world.cluster.read(application, "v1alpha1")
    assert live is not None
    shop.world.cluster.delete(application, "v1alpha1", uid=live["metadata"]["uid"])

    plan = shop("plan", "shop", "-o", "json").json
    assert {step["object"]: step["action"] for step in plan["steps"]} == {
        "Deployment shop/web": "prune",
        "ConfigMap shop/prompt": "prune",
    }
    assert plan["notes"] == ["being deleted: what it applied is deleted with it"]

    shop.world.application(sync={"preserveResourcesOnDeletion": True})
    plan = shop("plan", "shop", "-o", "json").json
    assert plan["steps"] == []
    assert plan["notes"] == ["being deleted: its objects stay, since sync.preserveResourcesOnDeletion is on"]


def test_a_plan_keeps_the_configuration_that_pods_still_read(shop: Shop) -> None:
    old, new = "conf-2222222222", "conf-4444444444"
    web = (shop.world.repo.clone / "shop" / "web.yaml").read_text()
    reads = {name: f"{web}      volumes: [{{name: c, configMap: {{name: {name}}}}}]\n" for name in (old, new)}
    first = {"shop/conf.yaml": config_map(old, text="a"), "shop/web.yaml": reads[old]}
    shop.world.synced(shop.world.repo.commit("a configuration", first))
    until(lambda: shop.world.status()["health"] == "Healthy", 15, shop.world.status)
    rest(shop)
    shop.world.repo.commit("another", {"shop/conf.yaml": config_map(new, text="b"), "shop/web.yaml": reads[new]})
    steps = {step["object"]: step["action"] for step in shop("plan", "shop", "-o", "json").json["steps"]}
    assert steps == {f"ConfigMap shop/{new}": "create", "Deployment shop/web": "update"}


def test_a_clone_of_one_of_several_sources_is_compared(shop: Shop, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.commit("add", {"extra/more.yaml": config_map("more", text="1")})
    sources = [
        {"name": "shop", "repoURL": shop.world.repo.url, "path": "shop"},
        {"name": "extra", "repoURL": other.url, "path": "extra"},
    ]
    shop.world.application("joined", sources=sources, destination={"namespace": "shop"}, suspend=True)
    (other.clone / "extra" / "more.yaml").write_text(config_map("more", text="2"))
    (other.clone / "extra" / "new.yaml").write_text(config_map("new"))

    done = shop("diff", "joined", "--local", other.clone / "extra", "-o", "json")
    assert done.code == 1, done.err
    assert {row["object"] for row in done.json} >= {
        "ConfigMap shop/more",
        "ConfigMap shop/new",
        "ConfigMap shop/prompt",
    }
    assert "new" not in shop("diff", "joined", "-o", "json").out

    stranger = Repository(tmp_path / "stranger")
    lost = shop("diff", "joined", "--local", stranger.clone)
    assert (lost.code, lost.out) == (2, "")
    assert "--local: the folder is in a clone of none of the sources (shop, extra)" in lost.err
