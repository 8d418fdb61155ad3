"""The content of what a plan creates, replaces and deletes, and the fields that others added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from gitsync.objects.change import ABSENT, Action, Difference, FieldDifference, FieldOwner, Risk
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ResourceView
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, changed, resource

SHOP = "/apps/gitsync/shop"
DIGEST = "a" * 64


def manifest(name: str, kind: str = "ConfigMap", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "data": data}


def created(name: str, **data: str) -> ResourceView:
    item = resource(name, sync="Missing")
    step = replace(item.change, action=Action.CREATE, live=None, desired=manifest(name, **data))
    return replace(item, change=step)


def pruned(name: str, **data: str) -> ResourceView:
    item = resource(name, sync="ToPrune")
    live = {**manifest(name, **data), "status": {"phase": "Bound"}}
    live["metadata"] |= {"uid": "u", "managedFields": [{"manager": "x"}]}
    return replace(item, change=replace(item.change, action=Action.PRUNE, live=live, desired=None))


def by_kubectl(path: str, value: str) -> FieldDifference:
    owner = FieldOwner("kubectl-set", "Update", "2026-03-01T11:00:00Z")
    return FieldDifference(path, "/x", Difference.FOREIGN, ABSENT, value, (owner,))


def test_created_and_deleted_objects_show_their_content(site: Open) -> None:
    view = application(resources=[created("new", MODEL_ID="claude"), pruned("old", MODEL_ENDPOINT="http://gateway")])
    opened = site([replace(view, status={**view.status, "sync": "OutOfSync"})])
    for page in ("plan", "diff"):
        text = opened.get(f"{SHOP}/{page}").text
        assert "<ins>apiVersion: v1\ndata:\n  MODEL_ID: claude" in text
        assert "<del>apiVersion: v1\ndata:\n  MODEL_ENDPOINT: http://gateway" in text
        assert "managedFields" not in text
        assert "Bound" not in text


def test_the_plan_as_json_has_the_content(site: Open) -> None:
    opened = site([application(resources=[created("new", a="1"), pruned("old", b="2"), changed_object()])])
    steps = orjson.loads(opened.get("/api/v1/applications/gitsync/shop/plan").text)["steps"]
    assert [(step["created"] or {}).get("data") for step in steps] == [{"a": "1"}, None, None]
    assert [(step["deleted"] or {}).get("data") for step in steps] == [None, {"b": "2"}, None]
    assert [(item["path"], item["live"], item["desired"]) for item in steps[2]["differences"]] == [
        (".data.mode", "closed", "open")
    ]


def changed_object() -> ResourceView:
    return resource("settings", sync="OutOfSync", differences=(changed(),))


def test_a_generated_object_and_its_predecessor_are_one_change(site: Open) -> None:
    old = pruned("prompt-aaaaaaaaaa", text="be nice")
    new = created("prompt-bbbbbbbbbb", text="be rude")
    step = replace(new.change, follows=old.ref, differences=(changed(".data.text", "be nice", "be rude"),))
    opened = site([application(resources=[replace(new, change=step), old])])
    text = opened.get(f"{SHOP}/plan").text
    assert "replaces prompt-aaaaaaaaaa, which is deleted" in text
    assert "<del>be nice</del> → <ins>be rude</ins>" in text
    assert text.count("<tr") == 2  # the head, and one step
    assert "2 steps" in text
    assert "1 object differs from Git" in opened.get(f"{SHOP}/diff").text


def test_history_shows_the_content(site: Open) -> None:
    opened = site([application()])
    content = {"path": "", "kind": "gone", "desired": manifest("new", a="1"), "live": None, "owners": []}
    step = Step("/ConfigMap/shop/new", "create", "Safe", "why", Outcome.SUCCEEDED, differences=(content,))
    record = SyncRecord(
        "gitsync/shop", Commit("c" * 40), "commit", NOW, 9, Outcome.SUCCEEDED, "Safe", "d", steps=(step,)
    )
    saved = opened.engine.records.save(record)
    assert "<ins>apiVersion: v1\ndata:\n  a: &#34;1&#34;" in opened.get(f"{SHOP}/history/{saved.id}").text


def test_an_object_that_is_not_in_the_cluster_shows_what_git_declares(site: Open) -> None:
    opened = site([application(resources=[created("new", MODEL_ID="claude")])])
    answer = opened.get(f"{SHOP}/object?ref=/ConfigMap/shop/new")
    assert answer.status == 200
    assert "Not in the cluster yet" in answer.text
    assert "MODEL_ID: claude" in answer.text


def test_fields_of_others_are_shown_by_manager_and_classified(site: Open) -> None:
    env = by_kubectl('.spec.template.spec.containers[name="a"].env[name="MODEL_ID"]', "gpt-5-rogue")
    opened = site([application(resources=[replace(resource("web", "Deployment"), foreign=(env,)), resource("calm")])])
    text = " ".join(opened.get(f"{SHOP}/diff").text.split())
    assert "gpt-5-rogue" in text
    assert "kubectl-set" in text
    assert "s-dangerous" in text
    assert "2 objects match Git in every declared field; 1 of them is shown" in text
    assert "(kubectl-set: 1)" in text
    assert "equal in every field" not in text


def test_fields_of_others_that_a_sync_removes_keep_their_class_and_are_drift(site: Open) -> None:
    env = by_kubectl('.spec.template.spec.containers[name="a"].env[name="MODEL_ID"]', "gpt-5-rogue")
    env = replace(env, kind=Difference.EXTRA, pointer="/spec/template/spec/containers/0/env/0")
    item = resource("web", "Deployment", sync="OutOfSync", differences=(env,), risk=Risk.SAFE)
    step = replace(item.change, desired=item.change.live, removed=(env.pointer,))
    opened = site([application(resources=[replace(item, change=step)])])
    text = " ".join(opened.get(f"{SHOP}/diff").text.split())
    assert "s-dangerous" in text.partition("Changed in the cluster:")[2].partition("</p>")[0]
    assert "Set by others, not in Git" not in text
    assert "gpt-5-rogue" in opened.get("/drift").text


def test_expected_fields_of_others_are_only_counted(site: Open) -> None:
    env = replace(by_kubectl(".metadata.labels.sidecar", "on"), kind=Difference.IGNORED)
    item = replace(resource("web", "Deployment"), foreign=(env,))
    text = site([application(resources=[item])]).get(f"{SHOP}/diff").text
    assert "Set by others, not in Git" not in text
    assert "s-dangerous" not in text


def test_the_class_of_drift_is_that_of_what_was_changed(site: Open) -> None:
    def deployment(image: str) -> dict[str, Any]:
        spec = {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    found = changed('.spec.template.spec.containers[name="a"].image', "triage:hotfix", "triage:2.1.0")
    item = resource("web", "Deployment", sync="OutOfSync", differences=(found,), risk=Risk.MODERATE)
    step = replace(item.change, live=deployment("triage:hotfix"), desired=deployment("triage:2.1.0"))
    text = site([application(resources=[replace(item, change=step)])]).get(f"{SHOP}/diff").text
    reason = text.partition("Changed in the cluster:")[2].partition("</p>")[0]
    assert "triage:hotfix" in reason
    assert "2.1.0" not in reason


def test_a_secret_is_masked_wherever_content_is_shown(site: Open) -> None:
    from gitsync.plan.mask import mask, mask_change

    item = created("key")
    ref = ObjectRef("", "Secret", "shop", "key")
    secret = {**manifest("key", "Secret"), "data": {"token": "c2stdmVyeS1zZWNyZXQ="}}
    new = mask_change(replace(item.change, ref=ref, desired=secret))
    opened = site([application(resources=[replace(item, ref=ref, change=new)])])
    for path in (
        f"{SHOP}/plan",
        f"{SHOP}/diff",
        f"{SHOP}/object?ref=/Secret/shop/key",
        "/api/v1/applications/gitsync/shop/plan",
    ):
        text = opened.get(path).text
        assert "c2stdmVyeS1zZWNyZXQ" not in text
        assert "token" in text
    assert mask(secret)["data"] == {"token": "••••••"}


def test_a_sync_shows_who_approved_or_rejected_it_and_why(site: Open) -> None:
    opened = site([application()])
    records = opened.engine.records
    other = replace(review_record("approve", "Eve", "not this plan"), digest="b" * 64)
    records.audit(
        [review_record("reject", "Ada", "too risky"), review_record("approve", "Bob", "cleared by legal"), other]
    )
    commit = Commit("c" * 40, "Change", "Ada <ada@example.com>", NOW)
    sync = SyncRecord(
        "gitsync/shop",
        commit,
        "commit",
        NOW,
        400,
        Outcome.SUCCEEDED,
        "Dangerous",
        DIGEST,
        approver="Bob",
        initiator="Git",
    )
    text = opened.get(f"{SHOP}/history/{records.save(sync).id}").text
    rejected, approved = text.index("Rejected by Ada"), text.index("Approved by Bob")
    assert rejected < text.index("too risky") < approved < text.index("cleared by legal")
    assert "not this plan" not in text


def review_record(action: str, by: str, reason: str) -> AuditRecord:
    return AuditRecord(
        "gitsync/shop", action, "", Outcome.SUCCEEDED, NOW, "", reason, commit="c" * 40, approver=by, digest=DIGEST
    )
