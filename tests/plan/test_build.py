"""The plan: one step for each object, in order, stable, bound to its digest."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from gitsync.errors import InvalidInput, Rejected
from gitsync.objects.change import Action, Difference, Risk
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.plan.build import build_plan, uncertain
from gitsync.plan.steps import ClusterState, PlanInput
from tests.plan.factories import (
    application,
    applied,
    config,
    deployment,
    desired_of,
    edited,
    inventory_of,
    live_of,
    plan_of,
    ref,
)

APP = application()


def actions(plan):
    return {str(change.ref): change.action for change in plan.changes}


def test_an_empty_cluster_gets_everything():
    plan = plan_of(APP, [config(), deployment()], {})
    assert actions(plan) == {"ConfigMap shop/settings": Action.CREATE, "Deployment shop/web": Action.CREATE}


def test_a_second_plan_is_empty():
    manifests = [config(), deployment()]
    plan = plan_of(APP, manifests, live_of(APP, *manifests))
    assert not plan.writes
    assert plan.risk is Risk.SAFE
    assert plan.explanation == "Nothing to do: every object is as Git declares it."


def test_applying_a_plan_once_reaches_what_git_says():
    live = live_of(APP, config(a="1", b="2"))
    plan = plan_of(APP, [config(a="1", c="3")], live)
    (change,) = plan.writes
    after = {change.ref: applied(change.desired, live[change.ref])}
    assert after[change.ref]["data"] == {"a": "1", "c": "3"}
    assert not plan_of(APP, [config(a="1", c="3")], after).writes


def test_a_foreign_edit_is_put_back_with_its_owner_named():
    live = live_of(APP, config(key="ours"))
    edited = config(key="theirs")
    edited["metadata"]["namespace"] = "shop"
    live[ref(config())] = applied(edited, live[ref(config())], manager="kubectl-edit", resourceVersion="2")
    (change,) = plan_of(APP, [config(key="ours")], live).writes
    assert change.action is Action.UPDATE
    (difference,) = change.differences
    assert (difference.path, difference.desired, difference.live) == (".data.key", "ours", "theirs")
    assert [owner.manager for owner in difference.owners] == ["kubectl-edit"]
    assert change.certain


def test_a_change_of_git_is_confirmed_by_a_dry_run():
    live = live_of(APP, config(key="old"))
    plan = plan_of(APP, [config(key="new")], live)
    assert uncertain(plan) == (ref(config()),)
    answer = applied(next(iter(desired_of(APP, config(key="new")).values())), live[ref(config())])
    confirmed = plan_of(APP, [config(key="new")], live, dry_runs={ref(config()): answer})
    assert [change.action for change in confirmed.writes] == [Action.UPDATE]
    assert uncertain(confirmed) == ()


def test_a_change_of_git_needs_no_dry_run_where_the_value_before_was_stored_as_it_is():
    live, before = live_of(APP, config(key="old")), plan_of(APP, [config(key="old")], live_of(APP, config(key="old")))
    plan = plan_of(APP, [config(key="new")], live, previous=before)
    (change,) = plan.writes
    assert (change.action, change.certain, change.inferred) == (Action.UPDATE, True, True)
    assert uncertain(plan) == ()
    assert uncertain(plan, is_reviewed=True) == (change.ref,), "a person sees the answer of the API server"


def test_a_value_that_the_api_server_stored_otherwise_leaves_the_next_change_to_a_dry_run():
    """A webhook stores another value than the one that was applied; the last plan was settled by a dry run."""
    live = live_of(APP, config(key="capped"))
    answer = {ref(config()): live[ref(config())]}
    before = plan_of(APP, [config(key="10")], live, dry_runs=answer)
    assert not before.writes
    plan = plan_of(APP, [config(key="20")], live, previous=before)
    assert uncertain(plan) == (ref(config()),)


def test_a_field_that_the_last_commit_did_not_declare_is_left_to_a_dry_run():
    """Its live value is a default: how the API server stores a value of ours there is not known."""
    without, declared = deployment(), deployment(minReadySeconds=5)
    live = live_of(APP, without)
    live[ref(without)]["spec"]["minReadySeconds"] = 1
    before = plan_of(APP, [without], live)
    assert not before.writes
    assert uncertain(plan_of(APP, [declared], live, previous=before)) == (ref(without),)


def test_a_dry_run_that_changes_nothing_settles_it():
    """The API server may store another spelling of what was applied; this does not count as drift."""
    live = live_of(APP, config(key="stored"))
    key = ref(config())
    plan = plan_of(APP, [config(key="spelled")], live, dry_runs={key: copy.deepcopy(live[key])})
    assert not plan.writes


def test_a_refused_dry_run_stays_a_problem_of_that_object():
    live = live_of(APP, config(key="old"), deployment())
    plan = plan_of(APP, [config(key="new"), deployment()], live, dry_runs={ref(config()): Rejected("no", code=422)})
    (change,) = plan.writes
    assert change.problem == "no"


MISFIT = Rejected("failed to create typed live object (shop/w): .spec.a: expected numeric", code=500)
IMMUTABLE = Rejected("spec.selector: Invalid value: field is immutable", code=422)


@pytest.mark.parametrize(
    ("annotations", "error", "action"),
    [
        pytest.param({"gitsync.dev/force": "true"}, IMMUTABLE, Action.REPLACE, id="immutable and forced"),
        pytest.param({}, IMMUTABLE, Action.UPDATE, id="immutable, not forced"),
        pytest.param({"gitsync.dev/force": "true"}, MISFIT, Action.REPLACE, id="unfit for its schema and forced"),
        pytest.param(
            {"gitsync.dev/force": "true"}, Rejected("spec.replicas: Invalid value", code=422), Action.UPDATE,
            id="an invalid manifest is never a reason to delete the live object",
        ),
        pytest.param(
            {"gitsync.dev/force": "true"}, Rejected("immutable", code=403), Action.UPDATE, id="forbidden"
        ),
    ],
)  # fmt: skip
def test_an_object_is_replaced_only_for_an_immutable_field(annotations, error, action):
    live = live_of(APP, config(key="old", annotations=annotations))
    plan = plan_of(APP, [config(key="new", annotations=annotations)], live, dry_runs={ref(config()): error})
    assert [change.action for change in plan.writes] == [action]


def test_a_forced_adoption_is_dry_run_to_learn_whether_a_field_is_immutable():
    plain = config(key="old")
    plain["metadata"]["namespace"] = "shop"
    live = {ref(plain): applied(plain, manager="kubectl")}
    forced = config(key="new", annotations={"gitsync.dev/force": "true"})
    assert uncertain(plan_of(APP, [forced], live, inventory=Inventory())) == (ref(plain),)
    assert uncertain(plan_of(APP, [config(key="new")], live, inventory=Inventory())) == ()
    (change,) = plan_of(APP, [forced], live, inventory=Inventory(), dry_runs={ref(plain): IMMUTABLE}).writes
    assert (change.action, change.risk) == (Action.REPLACE, Risk.DANGEROUS)


def test_an_object_that_nobody_marked_is_adopted():
    plain = config()
    plain["metadata"]["namespace"] = "shop"
    live = {ref(plain): applied(plain, manager="kubectl")}
    (change,) = plan_of(APP, [config()], live, inventory=Inventory()).writes
    assert change.action is Action.ADOPT
    assert change.risk is Risk.MODERATE


def test_an_object_that_another_application_declares_refuses_the_plan():
    other = application("other")
    live = live_of(other, config())
    plan = plan_of(APP, [config()], live, inventory=Inventory(), claims={ref(config()): "gitsync/other"})
    (line,) = plan.refusals
    assert "belongs to Application gitsync/other" in line


def test_an_object_that_is_left_to_another_application_is_refused_before_it_exists():
    left_to = {ref(config()): "gitsync/first"}
    (line,) = plan_of(APP, [config()], {}, left_to=left_to).refusals
    assert "is left to Application gitsync/first, which declares it too and was first" in line
    owned = plan_of(APP, [config()], live_of(APP, config()), left_to=left_to)
    assert owned.refusals == ()


def test_an_object_that_another_application_let_go_is_transferred():
    live = live_of(application("other"), config())
    plan = plan_of(APP, [config()], live, inventory=Inventory())
    assert plan.refusals == ()
    (change,) = plan.writes
    assert change.action is Action.ADOPT
    assert "was applied by gitsync/other" in change.reason


@pytest.mark.parametrize(
    ("value", "action"), [("true", Action.UPDATE), ("once", Action.NOTHING), ("false", Action.NOTHING)]
)
def test_reconciling_can_be_turned_off_for_an_object(value, action):
    annotations = {"gitsync.dev/reconcile": value}
    live = live_of(APP, config(key="old", annotations=annotations))
    plan = plan_of(APP, [config(key="new", annotations=annotations)], live)
    assert [change.action for change in plan.changes] == [action]


@pytest.mark.parametrize(("value", "action"), [("once", Action.CREATE), ("false", Action.NOTHING)])
def test_an_object_that_is_made_once_is_made(value, action):
    plan = plan_of(APP, [config(annotations={"gitsync.dev/reconcile": value})], {})
    assert [change.action for change in plan.changes] == [action]


def test_an_object_that_is_being_deleted_is_created_once_it_is_gone():
    live = live_of(APP, config(key="old"))
    live[ref(config())]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (change,) = plan_of(APP, [config(key="new")], live).changes
    assert change.action is Action.CREATE
    assert change.live is live[ref(config())]
    assert "being deleted" in change.reason


def test_hooks_surround_a_sync_and_rest_without_one():
    hook = config("migrate", annotations={"gitsync.dev/hook": "PreSync,PostSync"})
    plan = plan_of(APP, [config(), hook], {})
    assert [(change.ref.name, change.action) for change in plan.changes] == [
        ("migrate", Action.HOOK),
        ("settings", Action.CREATE),
        ("migrate", Action.HOOK),
    ]
    resting = plan_of(APP, [config(), hook], live_of(APP, config()))
    assert not resting.writes
    assert {change.reason for change in resting.changes if change.ref.name == "migrate"} == {"runs with the next sync"}


def test_a_hook_of_several_phases_keeps_all_its_steps_in_the_next_plan():
    hook = config("migrate", annotations={"gitsync.dev/hook": "PreSync,PostSync"})
    live = live_of(APP, config(), hook)
    resting = plan_of(APP, [config(), hook], live)
    again = plan_of(APP, [config(key="new"), hook], live, previous=resting)
    actions = [change.action for change in again.changes if change.ref.name == "migrate"]
    assert actions == [Action.HOOK, Action.HOOK]


@pytest.mark.parametrize(
    ("app", "phase", "reason"),
    [
        (APP, "PreDelete", "PreDelete hook: runs when the Application is deleted"),
        (APP, "PostDelete", "PostDelete hook: cannot run, since its Namespace shop is deleted before it"),
        (application(sync={"prune": False}), "PreDelete", "does not run, since sync.prune is off"),
    ],
)
def test_a_hook_of_the_deletion_rests_in_syncs_and_says_whether_it_will_run(app, phase, reason):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    hook = config("undo", annotations={"gitsync.dev/hook": phase})
    plan = plan_of(app, [config(), hook, namespace], {})
    (change,) = [change for change in plan.changes if change.ref.name == "undo"]
    assert change.action is Action.NOTHING
    assert reason in change.reason


def test_a_post_delete_hook_runs_where_its_namespace_outlives_the_application():
    kept = {"argocd.argoproj.io/sync-options": "Delete=false"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": kept}}
    hook = config("undo", annotations={"gitsync.dev/hook": "PostDelete"})
    plan = plan_of(APP, [hook, namespace], {})
    assert "PostDelete hook: runs when the Application is deleted" in {change.reason for change in plan.changes}


def test_only_hooks_of_the_deletion_run_in_it():
    app = replace(APP, is_deleted=True)
    hook = config("undo", annotations={"gitsync.dev/hook": "PreSync,PreDelete"})
    plan = plan_of(app, [hook], {})
    assert [(change.action, change.reason.partition(";")[0]) for change in plan.changes] == [
        (Action.NOTHING, "PreSync hook: runs in syncs only"),
        (Action.HOOK, "PreDelete hook"),
    ]


def test_what_outlives_its_application_is_kept_also_while_hooks_are_declared():
    app = replace(APP, is_deleted=True)
    kept = config("kept", annotations={"argocd.argoproj.io/sync-options": "Delete=false"})
    hook = config("undo", annotations={"gitsync.dev/hook": "PreDelete"})
    plan = plan_of(app, [hook], live_of(app, kept, config()), inventory=inventory_of(live_of(app, kept, config())))
    assert {change.ref.name: change.action for change in plan.changes} == {
        "undo": Action.HOOK,
        "kept": Action.RELEASE,
        "settings": Action.PRUNE,
    }


def test_an_ignored_field_is_shown_and_never_applied():
    app = application(sync={"ignoreDifferences": [{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]})
    live = live_of(app, deployment())
    scaled = copy.deepcopy(live[ref(deployment())])
    scaled["spec"]["replicas"] = 5
    live[ref(deployment())] = scaled
    (resting,) = plan_of(app, [deployment()], live).changes
    assert resting.action is Action.NOTHING
    assert [difference.kind for difference in resting.differences] == [Difference.IGNORED]
    (change,) = plan_of(app, [deployment(image="web@sha256:2")], live).writes
    assert "replicas" not in change.desired["spec"]
    ours = next(item for item in change.managed_fields if item["manager"] == FIELD_MANAGER)
    assert "f:replicas" not in ours["fieldsV1"]["f:spec"]


def test_a_path_to_ignore_that_is_not_understood_is_refused_before_there_is_drift():
    app = application(sync={"ignoreDifferences": [{"kind": "Secret", "jqPathExpressions": ["keys"]}]})
    with pytest.raises(InvalidInput, match="'keys' is not a supported jq path"):
        plan_of(app, [config()], {})


def test_a_poisoned_annotation_is_named():
    with pytest.raises(
        InvalidInput, match=r"ConfigMap shop/settings: annotation gitsync\.dev/sync-wave: 'abc' is invalid"
    ):
        plan_of(APP, [config(annotations={"gitsync.dev/sync-wave": "abc"})], {})


def test_the_digest_follows_what_would_be_written():
    live = live_of(APP, config(key="old"))
    first = plan_of(APP, [config(key="new")], live)
    assert first.digest == plan_of(APP, [config(key="new")], live).digest
    assert first.digest != plan_of(APP, [config(key="newer")], live).digest
    edited_live = edited(live[ref(config())], ("data", "key"), "edited")
    assert first.digest != plan_of(APP, [config(key="new")], {ref(config()): edited_live}).digest
    recreated = edited(live[ref(config())], ("metadata", "uid"), "another")
    assert first.digest != plan_of(APP, [config(key="new")], {ref(config()): recreated}).digest


def test_an_approval_of_a_commit_does_not_approve_it_as_a_rewritten_one():
    given = PlanInput(APP, {}, {}, ClusterState({}, {}, {}), inventory_of({}), lambda of: None)
    forward, rewritten = (build_plan(replace(given, replaces=applied), "commit") for applied in ("", "a" * 40))
    assert (rewritten.revision, rewritten.replaces) == ("commit", "a" * 40)
    assert forward.digest != rewritten.digest


@pytest.mark.parametrize("declared", [[deployment(replicas=5)], []], ids=["update", "prune"])
def test_the_digest_does_not_follow_status_updates(declared):
    """A rollout or a heartbeat must not make an approval lapse before it is used."""
    live = live_of(APP, deployment())
    first = plan_of(APP, declared, live, inventory=inventory_of(live))
    assert first.writes
    updated = edited(
        edited(live[ref(deployment())], ("metadata", "resourceVersion"), "9"), ("status",), {"replicas": 1}
    )
    assert first.digest == plan_of(APP, declared, {ref(deployment()): updated}, inventory=inventory_of(live)).digest


def test_the_digest_follows_the_content_that_a_prune_loses():
    live = live_of(APP, config(key="old"))
    changed = {ref(config()): edited(live[ref(config())], ("data", "key"), "newer")}
    first, second = (plan_of(APP, [], found, inventory=inventory_of(live)) for found in (live, changed))
    assert first.writes
    assert first.digest != second.digest


def test_the_digest_does_not_follow_what_stays():
    unchanged = config("other")
    live = live_of(APP, config(key="old"), unchanged)
    first = plan_of(APP, [config(key="new"), unchanged], live)
    live[ref(unchanged)]["metadata"]["resourceVersion"] = "77"
    assert first.digest == plan_of(APP, [config(key="new"), unchanged], live).digest


def test_a_remembered_step_is_used_again_only_while_both_sides_stand():
    live = live_of(APP, config())
    first = plan_of(APP, [config()], live)
    again = plan_of(APP, [config()], live, previous=first)
    assert again.changes[0] is first.changes[0]
    assert plan_of(APP, [config(key="new")], live, previous=first).writes
    edited = copy.deepcopy(live)
    edited[ref(config())]["data"]["key"] = "theirs"
    edited[ref(config())]["metadata"]["resourceVersion"] = "2"
    assert plan_of(APP, [config()], edited, previous=first).writes
    assert plan_of(APP, [config()], {}, previous=first, inventory=inventory_of(live)).writes


def test_a_generated_object_is_judged_by_the_one_it_follows():
    """A generator gives changed content a new name; that a model moves is still seen."""
    before = config("model-aaaaaaaaaa", MODEL_ENDPOINT="http://a")
    live = live_of(APP, before)
    moved = plan_of(APP, [config("model-bbbbbbbbbb", MODEL_ENDPOINT="http://b")], live)
    assert {change.action: change.rule for change in moved.writes} == {
        Action.CREATE: "endpoint-introduced",
        Action.PRUNE: "prunes",
    }
    assert moved.risk is Risk.DANGEROUS
    other = plan_of(APP, [config("model-cccccccccc", MODEL_ENDPOINT="http://a", TIMEOUT="5")], live)
    assert other.risk is Risk.MODERATE


def test_too_many_deletes_make_the_plan_dangerous():
    app = application(risk={"maxDeletes": 1})
    manifests = [config(f"c{index}") for index in range(3)]
    live = live_of(app, *manifests)
    assert plan_of(app, manifests[:2], live).risk is Risk.MODERATE
    assert plan_of(app, manifests[:1], live).risk is Risk.DANGEROUS


def test_a_plan_from_a_previous_one_has_the_order_of_one_from_nothing():
    manifests = [deployment(), config(), *(config(name=f"c{number}") for number in range(5))]
    live = live_of(APP, *manifests)
    first = plan_of(APP, manifests, live)
    gone = {known: manifest for known, manifest in live.items() if known.name not in ("c1", "c3")}
    for now in (gone, live, {}, live):
        again = plan_of(APP, manifests, now, previous=first)
        assert again == plan_of(APP, manifests, now)
        first = again
    fewer, more = manifests[:-1], [*manifests, config(name="b")]
    for declared in (fewer, more, manifests):
        again = plan_of(APP, declared, live, previous=first, inventory=inventory_of(live))
        assert again == plan_of(APP, declared, live, inventory=inventory_of(live))
        first = again
