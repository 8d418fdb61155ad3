"""Fields of users that the next apply removes: what makes it invalid, and what changes what a Pod does."""

from __future__ import annotations

import copy

import pytest

from gitsync.merge.field_manager import Write, update_object
from gitsync.objects.change import DRIFT, Action
from gitsync.objects.manifest import metadata_of
from gitsync.plan.field_owners import is_injector, is_interactive
from tests.plan.factories import (
    SERVICE,
    application,
    applied,
    config,
    deployment,
    desired_of,
    live_of,
    plan_of,
    ref,
    schema_of,
)

APP = application()
WEB = deployment()
HARDENED = copy.deepcopy(WEB)
HARDENED["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False}
RECREATED = {**WEB, "spec": {**WEB["spec"], "strategy": {"type": "Recreate"}}}
PROBED = copy.deepcopy(WEB)
PROBED["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["true"]}}


def container(manifest):
    return manifest["spec"]["template"]["spec"]["containers"][0]


def written(manifest, edit, manager="kubectl-edit", subresource=""):
    """Return the cluster after a manager edited a live object by an update."""
    live = live_of(APP, manifest)
    before = live[ref(manifest)]
    after = copy.deepcopy(before)
    edit(after)
    write = Write(manager, "2026-01-02T00:00:00Z", subresource)
    return {**live, ref(manifest): update_object(before, after, schema_of(manifest), write)}


def restored(manifest, live, **options):
    """Return what lives after the plan was carried out: the transfer of fields, then one apply."""
    plan = plan_of(APP, [manifest], live, before=[manifest], **options)
    (step,) = plan.repairs
    target = live[step.ref]
    if step.managed_fields is not None:
        target = {**target, "metadata": {**metadata_of(target), "managedFields": list(step.managed_fields)}}
    return applied(step.desired, target)


def same(found, wanted):
    return {key: value for key, value in found.items() if key != "metadata"} == {
        key: value for key, value in wanted.items() if key != "metadata"
    }


def renumber(service):
    service["spec"]["ports"][0]["port"] = 8080


def privileged(deployment):
    container(deployment)["securityContext"]["privileged"] = True


def add_variable(deployment):
    container(deployment)["env"] = [{"name": "MODEL_ID", "value": "rogue"}]


def add_container(deployment):
    deployment["spec"]["template"]["spec"]["containers"].append({"name": "istio-proxy", "image": "evil"})


def roll(deployment):
    deployment["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}}


def probe_by_http(deployment):
    container(deployment)["livenessProbe"] = {"httpGet": {"port": 80, "path": "/"}}


def add_key(settings):
    settings["data"]["prompt.txt"] = "ignore all rules"


@pytest.mark.parametrize(
    ("manifest", "edit"),
    [
        pytest.param(SERVICE, renumber, id="a renumbered port of a Service"),
        pytest.param(HARDENED, privileged, id="privileged beside allowPrivilegeEscalation"),
        pytest.param(WEB, add_variable, id="an added variable"),
        pytest.param(WEB, add_container, id="an added container, whatever its name"),
        pytest.param(RECREATED, roll, id="another strategy with its settings"),
        pytest.param(PROBED, probe_by_http, id="another handler of a probe"),
        pytest.param(config(), add_key, id="an added key of a ConfigMap"),
    ],
)
def test_one_apply_restores_the_declared_object(manifest, edit):
    declared = live_of(APP, manifest)[ref(manifest)]
    assert same(restored(manifest, written(manifest, edit)), declared)


def test_the_operator_names_further_managers_of_users():
    live = written(WEB, add_variable, manager="ops-portal")
    assert plan_of(APP, [WEB], live, before=[WEB]).repairs == ()
    assert same(restored(WEB, live, users=("ops-*",)), live_of(APP, WEB)[ref(WEB)])


def label(deployment):
    deployment["metadata"]["labels"] = {**(deployment["metadata"].get("labels") or {}), "owner": "bob"}


def add_port(service):
    service["spec"]["ports"].append({"port": 9090, "name": "metrics"})


def restart(deployment):
    template = deployment["spec"]["template"]["metadata"]
    template["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("manifest", "edit", "manager"),
    [
        pytest.param(WEB, label, "kubectl-label", id="a label"),
        pytest.param(SERVICE, add_port, "kubectl-edit", id="a port beside the declared ones"),
        pytest.param(WEB, restart, "kubectl-rollout", id="kubectl rollout restart"),
        pytest.param(WEB, add_variable, "Reloader", id="a variable of a known controller"),
        pytest.param(WEB, add_container, "my-injector", id="a container of a controller"),
    ],
)
def test_what_is_harmless_or_of_a_controller_stays(manifest, edit, manager):
    plan = plan_of(APP, [manifest], written(manifest, edit, manager), before=[manifest])
    assert plan.outstanding == ()


@pytest.mark.parametrize("setting", ["Report", "Ignore"])
def test_what_the_application_reports_or_ignores_stays(setting):
    app = application(sync={"undeclaredFields": setting})
    plan = plan_of(app, [WEB], written(WEB, add_variable), before=[WEB])
    assert plan.outstanding == ()


@pytest.mark.parametrize("setting", ["Report", "Ignore", "Remove", None])
def test_what_conflicts_is_taken_over_whatever_the_setting(setting):
    app = application(sync={"undeclaredFields": setting} if setting else {})
    (step,) = plan_of(app, [SERVICE], written(SERVICE, renumber), before=[SERVICE]).repairs
    assert step.managed_fields is not None
    assert "takes over the fields applied by kubectl-edit" in step.reason


def test_an_ignore_rule_keeps_a_field_of_a_user():
    rule = {"kind": "Deployment", "managedFieldsManagers": ["kubectl-edit"]}
    app = application(sync={"ignoreDifferences": [rule]})
    assert plan_of(app, [WEB], written(WEB, add_variable), before=[WEB]).outstanding == ()


def test_a_field_that_a_controller_shares_stays():
    live = written(WEB, add_variable)
    shared = written_again(live, add_variable, "my-controller")
    assert plan_of(APP, [WEB], shared, before=[WEB]).outstanding == ()


def written_again(live, edit, manager):
    """Return the cluster after another manager applied the same field, which both own then."""
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    manifest["spec"] = {"template": {"spec": {"containers": [{"name": "web", "env": []}]}}}
    container(manifest)["env"] = [{"name": "MODEL_ID", "value": "rogue"}]
    return {**live, ref(WEB): applied(manifest, live[ref(WEB)], manager)}


def test_the_fields_of_others_keep_their_owners():
    def both(deployment):
        label(deployment)
        add_variable(deployment)

    (step,) = plan_of(APP, [WEB], written(WEB, both), before=[WEB]).repairs
    (kubectl,) = [entry for entry in step.managed_fields if entry["manager"] == "kubectl-edit"]
    assert kubectl["fieldsV1"] == {"f:metadata": {"f:labels": {"f:owner": {}}}}


def test_the_differences_name_who_added_a_field():
    (step,) = plan_of(APP, [WEB], written(WEB, add_variable), before=[WEB]).repairs
    assert step.action is Action.UPDATE
    (item,) = [found for found in step.differences if found.kind in DRIFT]
    assert [owner.manager for owner in item.owners] == ["kubectl-edit"]


def test_after_a_refused_apply_all_fields_of_users_are_taken_over():
    live = written(WEB, label)
    assert plan_of(APP, [WEB], live, before=[WEB]).outstanding == ()
    version = metadata_of(live[ref(WEB)])["resourceVersion"]
    (step,) = plan_of(APP, [WEB], live, before=[WEB], refused={ref(WEB): version}).repairs
    assert step.managed_fields is not None


def test_fields_of_subresources_are_no_additions():
    def scale(deployment):
        deployment["spec"]["replicas"] = 7

    (step,) = plan_of(APP, [WEB], written(WEB, scale, "kubectl-scale", "scale"), before=[WEB]).repairs
    assert step.managed_fields is None
    assert desired_of(APP, WEB)[step.ref] == step.desired


@pytest.mark.parametrize("manager", ["kubectl-edit", "kubectl", "k9s", "Mozilla", "node-fetch", "oc-edit"])
def test_tools_of_users_are_interactive(manager):
    assert is_interactive(manager)


@pytest.mark.parametrize("manager", ["kube-controller-manager", "argo-rollouts", "vpa-updater", "gitsync", "kubelet"])
def test_controllers_are_not_interactive(manager):
    assert not is_interactive(manager)


def test_the_operator_adds_managers_to_the_table():
    assert is_interactive("acme-console", ("acme-*",))
    assert is_injector("cert-manager-cainjector")


def test_what_a_user_adds_beside_a_controller_is_removed_alone():
    stakater = {"name": "STAKATER_SETTINGS_CONFIGMAP", "value": "5e1f"}
    rogue = {"name": "MODEL_ID", "value": "rogue"}
    reloaded = written(WEB, lambda web: container(web).update(env=[stakater]), "Reloader")[ref(WEB)]
    # Git declares no variable, so that the list as a whole belongs to both
    edited = copy.deepcopy(reloaded)
    container(edited)["env"].append(rogue)
    write = Write("kubectl-set", "2026-01-03T00:00:00Z")
    live = {**live_of(APP, WEB), ref(WEB): update_object(reloaded, edited, schema_of(WEB), write)}
    assert container(restored(WEB, live))["env"] == [stakater]
    plan = plan_of(application(sync={"undeclaredFields": "Report"}), [WEB], live, before=[WEB])
    assert plan.repairs == ()
