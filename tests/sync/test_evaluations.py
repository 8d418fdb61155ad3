"""Which changes wait for an evaluation, how its verdict is found, and what becomes of its copy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.keys import EVALUATION_LABEL, IGNORE_DIFFERENCES
from gitsync.objects.manifest import Manifest, at, labels_of, uid_of
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.sync.evaluations import MOST_ATTEMPTS
from tests.fakes.engine import Engine, config_map, data_of

CASE = '{"name": "manners", "input": "hello", "assert": [{"contains": "polite"}]}'
CASES = config_map("cases", **{"cases.jsonl": CASE, "evaluation.yaml": "port: 9000"})
TRIAGE = ObjectRef("apps", "Deployment", "prod", "triage")


def deployment(image: str = "triage:1", replicas: int = 1, **annotations: str) -> Manifest:
    container = {
        "name": "agent",
        "image": image,
        "envFrom": [{"secretRef": {"name": "key"}}],
        "volumeMounts": [{"name": "prompt", "mountPath": "/etc/triage"}, {"name": "data", "mountPath": "/data"}],
    }
    volumes = [
        {"name": "prompt", "configMap": {"name": "prompt"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    labels = {"app": "triage"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    names = {"gitsync.dev/evaluation": "cases", **annotations}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "triage", "annotations": names},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


class Evaluated:
    """An engine whose Deployment was evaluated once, and serves."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.commit("c1", deployment(), prompt("be polite"))
        self.answers("Passed")
        self.settle()
        assert self.engine.status["revision"]["applied"] == "c1"
        self.engine.written()

    def commit(self, name: str, *manifests: Manifest) -> None:
        self.engine.declare(name, CASES, *manifests)
        self.settle()

    def settle(self) -> None:
        for _ in range(5):
            self.engine.clock.seconds += 1
            self.engine.reconcile()

    @property
    def jobs(self) -> list[Manifest]:
        return [item for ref, item in self.engine.cluster.objects.items() if ref.kind == "Job"]

    @property
    def copies(self) -> set[ObjectRef]:
        """What the running evaluation has made; these fakes have no garbage collector for that of former ones."""
        name = ref_of(self.jobs[-1]).name
        objects = self.engine.cluster.objects.items()
        return {ref for ref, item in objects if labels_of(item).get(EVALUATION_LABEL) == name}

    def answers(self, result: str, message: str = "1 of 1 cases passed") -> None:
        """Let the Pod of the running Job end with a verdict."""
        job = self.jobs[-1]
        report = {"result": result, "passed": 1, "cases": 1, "message": message, "results": []}
        status = {"name": "evaluation", "state": {"terminated": {"exitCode": 0, "message": json.dumps(report)}}}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": ref_of(job).name, "uid": uid_of(job)}
        metadata = {"name": f"{ref_of(job).name}-x", "namespace": "prod", "ownerReferences": [owner]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
        self.engine.cluster.put({**pod, "status": {"phase": "Succeeded", "containerStatuses": [status]}})

    @property
    def image(self) -> str:
        live = self.engine.cluster.objects[TRIAGE]
        return str(at(live, "spec", "template", "spec", "containers", 0, "image"))

    @property
    def ready(self) -> tuple[str, str]:
        condition = next(item for item in self.engine.status["conditions"] if item["type"] == "Ready")
        return condition["reason"], condition["message"]


def prompt(text: str) -> Manifest:
    return config_map("prompt", **{"system.md": text})


def test_a_changed_image_waits_for_the_verdict_on_a_copy() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be polite"))
    assert (world.image, world.ready[0]) == ("triage:1", "Evaluating")
    (job,) = world.jobs
    pod = job["spec"]["template"]["spec"]
    assert [(it["image"], it["restartPolicy"]) for it in pod["initContainers"]] == [("triage:2", "Always")]
    assert pod["readinessGates"] == [{"conditionType": "gitsync.dev/serves"}]
    assert labels_of(job["spec"]["template"])["app"] == "triage"
    assert {volume["name"]: [*volume][1] for volume in pod["volumes"]} == {
        "prompt": "configMap",
        "data": "emptyDir",
        "evaluation": "configMap",
    }
    command = pod["containers"][0]["command"]
    assert command[command.index("--url") + 1] == "http://$(EVALUATED_POD_IP):9000/"
    world.answers("Passed")
    world.settle()
    assert (world.image, world.jobs) == ("triage:2", [])
    assert world.engine.status["phase"] == Phase.SYNCED.value


def test_a_prompt_is_copied_and_changes_only_after_the_verdict() -> None:
    world = Evaluated()
    world.commit("c2", deployment(), prompt("be very polite"))
    assert data_of(world.engine, "prompt") == {"system.md": "be polite"}
    copy = world.jobs[0]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    assert data_of(world.engine, copy) == {"system.md": "be very polite"}
    owned = world.engine.cluster.objects[ObjectRef("", "ConfigMap", "prod", copy)]
    assert owned["metadata"]["ownerReferences"][0]["uid"] == uid_of(world.jobs[0])
    assert "gitsync.dev/application" not in labels_of(owned)
    world.answers("Passed")
    world.settle()
    assert data_of(world.engine, "prompt") == {"system.md": "be very polite"}


def test_what_fails_stays_as_it_is_and_is_asked_once() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be polite"), config_map("other", a="1"))
    world.answers("Failed", "0 of 1 cases passed; failed: manners")
    world.settle()
    assert (world.image, world.jobs) == ("triage:1", [])
    assert data_of(world.engine, "other") == {"a": "1"}, "the rest of the commit is applied"
    message = "the evaluation of Deployment prod/triage failed: 0 of 1 cases passed; failed: manners; what serves stays"
    assert world.ready == ("EvaluationFailed", message)
    assert world.engine.status["phase"] == Phase.FAILED.value
    world.engine.restart()
    world.settle()
    assert world.jobs == []
    # a user who requests a sync gets another attempt, and one alone
    world.engine.cache.requested_by = "ada"
    world.settle()
    assert len(world.jobs) == 1
    world.answers("Failed")
    world.settle()
    assert (world.jobs, world.engine.cache.requested_by) == ([], "")


def test_an_update_of_something_else_does_not_take_the_commit_for_applied() -> None:
    world = Evaluated()
    # an update alone is planned again without the other objects
    cases = config_map("cases", **{"cases.jsonl": CASE, "evaluation.yaml": "port: 9001"})
    world.engine.declare("c2", cases, deployment("triage:2"), prompt("be very polite"))
    world.settle()
    assert data_of(world.engine, "cases") == cases["data"]
    assert world.engine.status["revision"]["applied"] == "c1"
    assert (world.image, world.ready[0], len(world.jobs)) == ("triage:1", "Evaluating", 1)
    assert data_of(world.engine, "prompt") == {"system.md": "be polite"}


def test_an_inconclusive_evaluation_is_repeated_and_then_held() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be polite"))
    delays = []
    for _ in range(MOST_ATTEMPTS):
        world.answers("Inconclusive", "the model did not answer")
        world.settle()
        assert world.jobs == []
        newest = world.engine.status["evaluations"][-1]
        if "retryAt" in newest:
            delays.append(world.engine.reconcile().requeue_after)
            assert world.ready[0] == "Evaluating"
            world.engine.clock.seconds += 30.0 * 2 ** len(delays)
            world.settle()
            assert len(world.jobs) == 1
    assert len(delays) == MOST_ATTEMPTS - 1
    assert world.ready[0] == "EvaluationFailed"
    assert "is inconclusive: the model did not answer" in world.ready[1]
    assert world.image == "triage:1"


def test_a_crash_between_the_copy_and_its_verdict_changes_nothing() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be very polite"))
    status = dict(world.engine.status)
    running = status.pop("evaluations")
    copies = world.copies
    # the status was not written, and one of the copies was not made
    lost = next(ref for ref in copies if ref.kind == "ConfigMap")
    del world.engine.cluster.objects[lost]
    world.engine.cluster.put({**world.engine.application, "status": status})
    world.engine.restart()
    world.settle()
    assert [it["digest"] for it in world.engine.status["evaluations"]] == [it["digest"] for it in running[-1:]]
    assert copies == world.copies
    assert len(world.jobs) == 1
    world.answers("Passed")
    world.engine.reconcile()
    # the verdict is in the status, and its Job is not deleted yet
    world.engine.restart()
    world.settle()
    assert (world.image, world.jobs) == ("triage:2", [])


def test_the_copy_of_a_superseded_commit_goes() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be polite"))
    (first,) = world.jobs
    world.commit("c3", deployment("triage:3"), prompt("be polite"))
    (second,) = world.jobs
    assert ref_of(first) != ref_of(second)
    assert second["spec"]["template"]["spec"]["initContainers"][0]["image"] == "triage:3"
    # a revert to what serves needs no verdict, and no copy
    world.commit("c4", deployment(), prompt("be polite"))
    assert (world.jobs, world.engine.status["phase"]) == ([], Phase.SYNCED.value)


def test_a_revert_to_what_has_passed_is_applied_at_once() -> None:
    world = Evaluated()
    world.commit("c2", deployment("triage:2"), prompt("be polite"))
    world.answers("Passed")
    world.settle()
    world.commit("c3", deployment(), prompt("be polite"))
    assert (world.image, world.jobs) == ("triage:1", [])


def test_drift_is_repaired_without_an_evaluation() -> None:
    world = Evaluated()
    live = world.engine.cluster.objects[TRIAGE]
    drifted = json.loads(json.dumps(live).replace("triage:1", "evil:1"))
    world.engine.cluster.put(drifted)
    world.settle()
    assert (world.image, world.jobs) == ("triage:1", [])
    # also while another commit waits for its verdict
    world.commit("c2", deployment("triage:2"), prompt("be polite"))
    world.engine.clock.seconds += 600
    world.engine.cluster.put(drifted)
    world.settle()
    assert (world.image, len(world.jobs)) == ("triage:1", 1)


@pytest.mark.parametrize(
    "manifest",
    [deployment(replicas=3), deployment(**{"example.com/note": "x"})],
    ids=["replicas", "an annotation"],
)
def test_what_changes_no_answer_is_applied_at_once(manifest: Manifest) -> None:
    world = Evaluated()
    world.commit("c2", manifest, prompt("be polite"))
    assert world.jobs == []
    assert world.engine.status["phase"] == Phase.SYNCED.value


def test_a_rotated_secret_is_applied_at_once() -> None:
    world = Evaluated()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": "1"}}
    world.commit("c2", deployment(), prompt("be polite"), secret)
    assert (world.jobs, world.engine.status["phase"]) == ([], Phase.SYNCED.value)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ((), "names ConfigMap cases, which the commit does not declare"),
        ((config_map("cases", **{"cases.jsonl": "{"}),), "cases/cases.jsonl:1"),
        ((config_map("cases", **{"cases.jsonl": CASE, "evaluation.yaml": "passPercent: 400"}),), "passPercent"),
    ],
)
def test_cases_that_cannot_be_asked_hold_the_object(cases: tuple[Manifest, ...], message: str) -> None:
    world = Evaluated()
    world.engine.declare("c2", deployment("triage:2"), prompt("be polite"), *cases)
    world.settle()
    assert world.image == "triage:1"
    assert message in world.ready[1]


IMAGE = "/spec/template/spec/containers/0/image"


def test_a_copy_has_the_live_value_of_what_a_rule_ignores() -> None:
    world = Evaluated()
    world.commit("c2", deployment("evil:2", **{IGNORE_DIFFERENCES: IMAGE}), prompt("be very polite"))
    (job,) = world.jobs
    assert "evil:2" not in json.dumps(job)
    assert [it["image"] for it in job["spec"]["template"]["spec"]["initContainers"]] == ["triage:1"]
    world.answers("Passed")
    world.settle()
    assert world.image == "triage:1"


def test_a_change_of_what_a_rule_ignores_needs_no_evaluation() -> None:
    world = Evaluated()
    world.commit("c2", deployment("evil:2", **{IGNORE_DIFFERENCES: IMAGE}), prompt("be polite"))
    assert (world.jobs, world.image, world.engine.status["phase"]) == ([], "triage:1", Phase.SYNCED.value)


JUDGE = """
judge:
  id: large
  endpoint: http://judge.models:8000/v1
  credentials: {{secretKeyRef: {{name: {secret}, key: token}}}}
"""


def judged_by(secret: str) -> Manifest:
    return config_map("cases", **{"cases.jsonl": CASE, "evaluation.yaml": JUDGE.format(secret=secret)})


def test_a_commit_does_not_choose_a_secret_of_others_for_its_judge() -> None:
    world = Evaluated()
    jobs = len(world.jobs)
    world.engine.declare("c2", deployment("triage:2"), prompt("be polite"), judged_by("bank-db"))
    world.settle()
    assert len(world.jobs) == jobs
    assert world.image == "triage:1"
    assert "judge's Secret bank-db is not the Application's" in world.ready[1]


@pytest.mark.parametrize("secret", ["key", "declared"], ids=["that the agent reads", "of the commit"])
def test_a_judge_may_have_a_secret_of_the_application(secret: str) -> None:
    world = Evaluated()
    jobs = len(world.jobs)
    declared = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "declared"}, "stringData": {"token": "t"}}
    world.engine.declare("c2", deployment("triage:2"), prompt("be polite"), judged_by(secret), declared)
    world.settle()
    assert len(world.jobs) == jobs + 1


def kagent(model: str, **declarative: Any) -> list[Manifest]:
    metadata = {"name": "triage", "annotations": {"gitsync.dev/evaluation": "cases"}}
    spec = {"type": "Declarative", "declarative": {"systemMessage": "be polite", "modelConfig": "large", **declarative}}
    return [
        {"apiVersion": "kagent.dev/v1alpha2", "kind": "Agent", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "kagent.dev/v1alpha2",
            "kind": "ModelConfig",
            "metadata": {"name": "large"},
            "spec": {"provider": "OpenAI", "model": model},
        },
    ]


def test_an_agent_of_kagent_is_asked_as_a_copy_that_its_controller_runs() -> None:
    engine = Engine()
    world = Evaluated.__new__(Evaluated)
    world.engine = engine
    world.commit("c1", *kagent("small"))
    agent = ObjectRef("kagent.dev", "Agent", "prod", "triage")
    assert agent not in engine.cluster.objects
    (job,) = world.jobs
    name = ref_of(job).name
    copy = engine.cluster.objects[ObjectRef("kagent.dev", "Agent", "prod", name)]
    model = copy["spec"]["declarative"]["modelConfig"]
    assert engine.cluster.objects[ObjectRef("kagent.dev", "ModelConfig", "prod", model)]["spec"]["model"] == "small"
    assert f"http://{name}.prod:8080/" in job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    world.answers("Passed")
    world.settle()
    assert engine.cluster.objects[agent]["spec"]["declarative"]["modelConfig"] == "large"
    # another model behind the same name is another behaviour of the agent, which itself has no step
    world.commit("c2", *kagent("other"))
    config = ObjectRef("kagent.dev", "ModelConfig", "prod", "large")
    assert engine.cluster.objects[config]["spec"]["model"] == "small"
    world.answers("Failed")
    world.settle()
    assert engine.cluster.objects[config]["spec"]["model"] == "small"
