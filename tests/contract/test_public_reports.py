"""
What users reported about other controllers, as one scenario for each kind that no other contract test has.

docs/decisions/0058-kinds-of-reports.md lists the reports and where each kind is tested.
"""

from __future__ import annotations

import json

from gitsync.objects.manifest import Manifest, annotations_of, labels_of, uid_of
from tests.contract.manifests import config_map, definition, deployment, job, manifest, samples, with_wave
from tests.contract.stage import APPLICATION, TIMEOUT, Stage, eventually
from tests.waiting import until

APPS = "apps/v1"
EAGER = {"limit": 50, "backoff": {"initial": "1s", "factor": 1, "max": "1s"}}


def stateful_set(replicas: int, image: str) -> Manifest:
    """Return a StatefulSet whose claims the API server completes."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "web",
        "replicas": replicas,
        "minReadySeconds": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    return manifest(APPS, "StatefulSet", "web", spec=spec)


def test_what_the_api_server_completes_is_no_difference(stage: Stage) -> None:
    hook = samples(stage.system.rpartition("-")[2])["MutatingWebhookConfiguration"]
    stage.remember(hook.kind, hook.name, hook.api)
    pod = {"serviceAccountName": "runner", "containers": [{"name": "web", "image": "web:1"}]}
    files = {
        "hook.yaml": hook.manifest,
        "claims.yaml": stateful_set(1, "web:1"),
        "secret.yaml": manifest("v1", "Secret", "s", stringData={"a": "1"}),
        # admission refuses a Pod whose account does not exist, also in a dry run
        "pod.yaml": [manifest("v1", "Pod", "p", spec=pod), manifest("v1", "ServiceAccount", "runner")],
    }
    stage.sync(files)
    before = uid_of(stage.live("StatefulSet", "web", api=APPS))
    until(lambda: stage.plan_writes() == [], TIMEOUT, stage.plan_writes)
    stage.synced(stage.commit({"claims.yaml": stateful_set(2, "web:2")}))
    live = stage.live("StatefulSet", "web", api=APPS)
    assert (uid_of(live), live["spec"]["replicas"], live["spec"]["minReadySeconds"]) == (before, 2, 2)
    until(lambda: stage.plan_writes() == [], TIMEOUT, stage.plan_writes)
    assert stage.engine is not None
    # the others were not written again
    steps = stage.engine.records.history(f"{stage.system}/app")[0].steps
    assert [step.ref.rpartition("/")[2] for step in steps] == ["web"]


def test_only_what_git_removed_is_deleted(stage: Stage) -> None:
    kept = [config_map(f"keep{number}", a="1") for number in range(4)]
    both = {"a.yaml": config_map("a", a="1"), "b.yaml": config_map("b", a="1")}
    stage.sync({"keep.yaml": kept, **both})
    # an operator copies the marks of an object to those that it makes of it
    original = stage.live("ConfigMap", "a")
    copied = {"name": "copied", "labels": labels_of(original), "annotations": annotations_of(original)}
    stage.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**copied, "namespace": stage.namespace}})
    # what was deleted by hand comes back without a commit
    stage.delete("ConfigMap", "keep0")
    eventually(stage, lambda: stage.get("ConfigMap", "keep0"))
    # what was deleted by hand and in Git is gone, and no failure
    stage.delete("ConfigMap", "b")
    stage.synced(stage.commit(dict.fromkeys(both)))
    assert (stage.get("ConfigMap", "a"), stage.get("ConfigMap", "b")) == (None, None)
    assert stage.live("ConfigMap", "copied")
    assert stage.live("Namespace", stage.namespace, namespace="")["status"]["phase"] == "Active"


def test_what_was_not_pruned_is_pruned_once_it_may_be(stage: Stage) -> None:
    kept = [config_map(f"keep{number}", a="1") for number in range(3)]
    stage.sync({"keep.yaml": kept, "a.yaml": config_map("a", a="1")}, sync={"prune": False})
    stage.commit({"a.yaml": None, "b.yaml": config_map("b", a="1")})
    eventually(stage, lambda: stage.get("ConfigMap", "b"))
    stage.stop()
    assert stage.live("ConfigMap", "a")
    stage.start()
    stage.application(sync={"prune": True})
    eventually(stage, lambda: stage.get("ConfigMap", "a") is None)
    stage.phase("Synced")


def test_an_application_that_waits_for_health_is_deleted(stage: Stage) -> None:
    stage.commit({"web.yaml": deployment(replicas=1), "later.yaml": with_wave(1, config_map("later", a="1"))})
    stage.application()
    stage.start()
    eventually(stage, lambda: stage.get("Deployment", "web", api=APPS))
    stage.delete("Application", "app", namespace=stage.system, api=APPLICATION)
    eventually(stage, lambda: stage.get("Application", "app", namespace=stage.system, api=APPLICATION) is None)
    eventually(stage, lambda: stage.get("Deployment", "web", api=APPS) is None)


def test_a_hook_that_is_deleted_when_it_ends_holds_nothing_up(stage: Stage) -> None:
    hook = job("before", "PreSync")
    hook["spec"]["ttlSecondsAfterFinished"] = 0
    stage.sync({"hook.yaml": hook, "a.yaml": config_map("a", a="1")}, sync={"retry": EAGER})
    rejected = manifest("v1", "Secret", "s", type="kubernetes.io/tls", data={})
    stage.commit({"a.yaml": config_map("a", a="2"), "s.yaml": rejected})
    eventually(stage, lambda: stage.live("ConfigMap", "a")["data"] == {"a": "2"})
    stage.phase("Failed")
    stage.synced(stage.commit({"s.yaml": None}))


def test_a_missing_kind_and_a_duplicate_stop_their_objects_only(stage: Stage) -> None:
    group = f"{stage.system}.example.com"
    stage.remember("CustomResourceDefinition", f"widgets.{group}", "apiextensions.k8s.io/v1")
    twice = deployment(replicas=0)
    env = [{"name": "MODE", "value": "1"}, {"name": "MODE", "value": "2"}]
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = env
    widget = manifest(f"{group}/v1", "Widget", "w", spec={"size": 1})
    stage.commit({"a.yaml": config_map("a", a="1"), "twice.yaml": twice, "w.yaml": widget})
    stage.application(sync={"retry": EAGER})
    stage.start()

    def reported() -> str:
        return json.dumps([stage.status().get("conditions"), stage.status().get("problems")])

    eventually(stage, lambda: "MODE" in reported() and "twice.yaml" in reported())
    stage.commit({"twice.yaml": None})
    eventually(stage, lambda: "install its CustomResourceDefinition first" in reported())
    # another controller creates the definition, such as from a template of policies
    stage.apply(definition(group))
    stage.phase("Synced")
    assert stage.live("Widget", "w", api=f"{group}/v1")
    assert stage.live("ConfigMap", "a")
