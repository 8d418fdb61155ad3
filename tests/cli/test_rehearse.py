"""
``gitsync rehearse``: what an API server refuses of a change, and of its revert.

The cases run on the sandbox and, where ``GITSYNC_TEST_KUBECONFIG`` names one, on a real control plane as well.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.server import Sandbox
from gitsync.workers.rehearsals import Rehearsal, Surroundings, rehearsal_of
from tests.allowed_cluster import is_allowed
from tests.cli.conftest import Gitsync
from tests.cli.factories import DEPLOYMENT
from tests.git_repository import GitRepo

KUBECONFIG = "GITSYNC_TEST_KUBECONFIG"

WEB = DEPLOYMENT.replace("replicas: 2", "replicas: 0")
SET = WEB.replace("kind: Deployment", "kind: StatefulSet").replace(
    "spec:\n  replicas", "spec:\n  serviceName: web\n  replicas"
)
POD = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: web:1
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n"
CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: none
  resources: {requests: {storage: 1Gi}}
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: tool:1
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\ntype: Opaque\nstringData: {a: b}\n"
ROLE = """apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
"""
BINDING = """apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: r}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: default}]
"""
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {services: '0'}}\n"
RANGE = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, max: {cpu: 100m}}]}\n"
SCALER = """apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 3
"""
BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  minAvailable: 1
"""
CRON = """apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: 'tool:1'}]
"""
INGRESS = """apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: web, port: {number: 80}}}
"""
NETWORK = """apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: n}
spec:
  podSelector: {}
  ingress: [{ports: [{port: 80, protocol: TCP}]}]
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A change of one file, and the step that an API server refuses of it, with a part of its reason."""

    name: str
    old: str
    new: str
    reason: str
    step: str = "apply"


def changed(name: str, old: str, part: str, by: str, reason: str) -> Case:
    assert part in old, name
    return Case(name, old, old.replace(part, by), reason)


CASES = (
    changed(
        "a selector",
        WEB,
        "{matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}",
        "{matchLabels: {app: api}}\n  template:\n    metadata: {labels: {app: api}}",
        "immutable",
    ),
    changed("a selector beside other labels", WEB, "{labels: {app: web}}", "{labels: {app: api}}", "selector"),
    changed("a misspelt field", WEB, "replicas: 0", "replcas: 0", "replcas"),
    changed("a text for a number", WEB, "replicas: 0", "replicas: many", "replicas"),
    changed("fewer than no replicas", WEB, "replicas: 0", "replicas: -1", "greater than or equal to 0"),
    changed("no image", WEB, "image: web:1", "image: ''", "image"),
    changed(
        "no containers",
        WEB,
        "containers:\n      - name: web\n        image: web:1",
        "containers: []",
        "containers",
    ),
    changed(
        "a mount without its volume",
        WEB,
        "image: web:1",
        "image: web:1\n        volumeMounts: [{name: data, mountPath: /d}]",
        "Not found",
    ),
    changed(
        "a request above its limit",
        WEB,
        "image: web:1",
        "image: web:1\n        resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
        "must be less than or equal to",
    ),
    changed(
        "a quantity that is none",
        WEB,
        "image: web:1",
        "image: web:1\n        resources: {requests: {memory: 1GBB}}",
        "quantit",
    ),
    changed(
        "a variable without a name", WEB, "image: web:1", "image: web:1\n        env: [{name: '', value: x}]", "env"
    ),
    changed(
        "two handlers of a probe",
        WEB,
        "image: web:1",
        "image: web:1\n        livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 80}}",
        "more than 1 handler",
    ),
    changed(
        "two containers of one name", WEB, "image: web:1", "image: web:1\n      - {name: web, image: 'b:1'}", "web"
    ),
    changed("a policy for restarts", WEB, "containers:", "restartPolicy: Never\n      containers:", "restartPolicy"),
    changed("a label with a space", WEB, "{name: web}\nspec", "{name: web, labels: {team: 'a b'}}\nspec", "label"),
    changed(
        "the volumes of a StatefulSet", SET, "  selector:", "  podManagementPolicy: Parallel\n  selector:", "Forbidden"
    ),
    changed(
        "the template of a Job",
        JOB,
        "image: tool:1",
        "image: tool:2\n        env: [{name: A, value: b}]\n",
        "immutable",
    ),
    changed("the size of a claim", CLAIM, "storage: 1Gi", "storage: 512Mi", "spec"),
    changed("the class of a claim", CLAIM, "storageClassName: none", "storageClassName: other", "immutable"),
    changed(
        "the command of a Pod",
        POD,
        "image: web:1",
        "image: web:1\n    command: [sh]",
        "pod updates may not change fields",
    ),
    changed("the type of a Secret", SECRET, "type: Opaque", "type: example.com/other", "immutable"),
    changed(
        "the role of a binding",
        ROLE + "---\n" + BINDING,
        "kind: Role, name: r",
        "kind: Role, name: other",
        "cannot change roleRef",
    ),
    changed("a rule without verbs", ROLE, ", verbs: [get]", "", "verbs"),
    changed("an immutable ConfigMap", SETTINGS + "immutable: true\n", "a: '1'", "a: '2'", "immutable"),
    changed("a name in capitals", SETTINGS, "name: settings", "name: Settings", "RFC 1123"),
    changed("a key with a space", SETTINGS, "a: '1'", "'a b': '1'", "data"),
    changed("a port outside of the range", SERVICE, "port: 80", "port: 70000", "65535"),
    changed("two ports without names", SERVICE, "[{port: 80}]", "[{port: 80}, {port: 81}]", "name"),
    changed("a type of Service", SERVICE, "  selector", "  type: Balanced\n  selector", "Unsupported value"),
    changed("an external name", SERVICE, "  selector", "  type: ExternalName\n  selector", "externalName"),
    changed("a scaler below its minimum", SCALER, "minReplicas: 1", "minReplicas: 5", "minReplicas"),
    changed(
        "two bounds of a budget",
        BUDGET,
        "minAvailable: 1",
        "minAvailable: 1\n  maxUnavailable: 1",
        "cannot be both set",
    ),
    changed("a schedule", CRON, '"0 3 * * *"', '"0 25 * * *"', "schedule"),
    changed("a path without its type", INGRESS, "\n        pathType: Prefix", "", "pathType"),
    changed("a protocol", NETWORK, "protocol: TCP", "protocol: HTTP", "Unsupported value"),
    changed(
        "a kind that does not exist",
        SETTINGS + "---\n" + WEB,
        "kind: Deployment",
        "kind: Deploymnt",
        "no kind Deploymnt",
    ),
    changed("a version that was removed", BUDGET, "policy/v1", "policy/v1beta1", "no kind PodDisruptionBudget"),
    Case("a quota", QUOTA, QUOTA + "---\n" + SERVICE, "quota"),
    Case("a limit range", RANGE, RANGE + "---\n" + POD + "    resources: {limits: {cpu: 1}}\n", "maximum cpu usage"),
    Case(
        "an account that does not exist",
        SETTINGS,
        SETTINGS + "---\n" + POD + "  serviceAccountName: none\n",
        "serviceaccount",
    ),
    Case("a class of priority", SETTINGS, SETTINGS + "---\n" + POD + "  priorityClassName: none\n", "PriorityClass"),
    Case(
        "a namespace that does not exist",
        SETTINGS,
        SETTINGS + "---\n" + SETTINGS.replace("name: settings", "name: b, namespace: SPACE-none"),
        "not found",
    ),
    Case(
        "a ConfigMap that becomes immutable",
        SETTINGS,
        SETTINGS.replace("'1'", "'2'") + "immutable: true\n",
        "immutable",
        "revert",
    ),
    Case("a claim that is deleted", SETTINGS + "---\n" + CLAIM, SETTINGS, "does not bring back", "revert"),
)


def clusters() -> list[str]:
    return ["sandbox", *(["cluster"] if os.environ.get(KUBECONFIG) else [])]


@pytest.fixture(scope="module", params=clusters())
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    if request.param == "cluster":
        made = Client(Connection(os.environ[KUBECONFIG]))
        assert is_allowed(made), "the cluster has no label for tests"
        yield made
        made.close()
        return
    with Sandbox(workloads=False) as sandbox:
        made = Client(Connection(str(sandbox.kubeconfig(tmp_path_factory.mktemp("sandbox") / "kubeconfig"))))
        yield made
        made.close()


@pytest.fixture
def namespace(client: Client) -> Iterator[str]:
    name = f"rehearse-{uuid.uuid4().hex[:8]}"
    yield name
    cluster = KubernetesCluster(client)
    ref = ObjectRef("", "Namespace", "", name)
    live = cluster.read(ref, "v1")
    if live is not None:
        cluster.delete(ref, "v1", uid=uid_of(live))


CLUSTER_SCOPED = (
    "Namespace",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


def objects(text: str, namespace: str) -> dict[ObjectRef, Manifest]:
    documents = [document for document in read_all(text.replace("SPACE", namespace)) if document]
    placed = [
        item if item["kind"] in CLUSTER_SCOPED else {**item, "metadata": {"namespace": namespace, **item["metadata"]}}
        for item in documents
    ]
    return {ref_of(item): item for item in placed}


def rehearsed(client: Client, namespace: str, old: str, new: str) -> Rehearsal:
    return rehearsal_of(KubernetesCluster(client), objects(old, namespace), objects(new, namespace))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_an_api_server_refuses_is_found(client: Client, namespace: str, case: Case) -> None:
    problems = rehearsed(client, namespace, case.old, case.new).problems
    assert [problem.step.value for problem in problems] == [case.step], problems
    assert case.reason in problems[0].message


GUARDED = """apiVersion: v1
kind: Namespace
metadata: {name: SPACE, labels: {pod-security.kubernetes.io/enforce: baseline}}
"""
DEFINITION = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties: {size: {type: integer}, name: {type: string}}
            x-kubernetes-validations: [{rule: "self.size < 10", message: too large}]
"""
THING = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: 1}\n"
POLICY = """apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas < 5", message: too many replicas}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
"""
# what is cluster-scoped is rehearsed in a sandbox of its own
SCOPED = (
    Case("Pod Security", GUARDED, f"{GUARDED}---\n{POD}  hostNetwork: true\n", "PodSecurity"),
    changed("a schema", f"{DEFINITION}---\n{THING}", "{size: 1}", "{size: large}", "size"),
    changed("a required field", f"{DEFINITION}---\n{THING}", "{size: 1}", "{name: b}", "Required"),
    changed("a rule of a definition", f"{DEFINITION}---\n{THING}", "{size: 1}", "{size: 20}", "too large"),
    Case("a new definition", SETTINGS, f"{SETTINGS}---\n{DEFINITION}---\n{THING.replace('1}', '20}')}", "too large"),
    changed("an admission policy", f"{POLICY}---\n{WEB}", "replicas: 0", "replicas: 9", "too many replicas"),
)


@pytest.mark.parametrize("case", SCOPED, ids=lambda case: case.name)
def test_what_definitions_and_policies_refuse_is_found(tmp_path: Path, case: Case) -> None:
    with Sandbox(workloads=False) as sandbox:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        problems = rehearsed(client, "shop", case.old, case.new).problems
        client.close()
    assert [problem.step.value for problem in problems] == ["apply"], problems
    assert case.reason in problems[0].message


ACCEPTED = (
    changed("an image", WEB, "image: web:1", "image: web:2", ""),
    changed("more replicas", WEB, "replicas: 0", "replicas: 3", ""),
    changed("a value", SETTINGS, "a: '1'", "a: '2'", ""),
    changed("a port", SERVICE, "port: 80", "port: 81", ""),
    Case(
        "more objects", SETTINGS, "---\n".join((SETTINGS, WEB, SERVICE, SET.replace("name: web", "name: db"), CRON)), ""
    ),
    Case("fewer objects", "---\n".join((SETTINGS, WEB, SERVICE, BUDGET, ROLE, BINDING)), SETTINGS, ""),
    Case(
        "a class of another tool",
        SETTINGS,
        SETTINGS + "---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n",
        "",
    ),
    changed(
        "what is recreated",
        JOB.replace("{name: migrate}", "{name: m, annotations: {gitsync.dev/force: 'true'}}"),
        "image: tool:1",
        "image: tool:2",
        "",
    ),
    changed(
        "a hook",
        JOB.replace("{name: migrate}", "{name: m, annotations: {gitsync.dev/hook: PreSync}}"),
        "image: tool:1",
        "image: tool:2",
        "",
    ),
    Case(
        "a claim that is kept",
        SETTINGS + "---\n" + CLAIM.replace("{name: data}", "{name: data, annotations: {gitsync.dev/prune: 'false'}}"),
        SETTINGS,
        "",
    ),
    changed("what was refused before", WEB, "replicas: 0", "replicas: 0", ""),
)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_what_an_api_server_accepts_is_no_problem(client: Client, namespace: str, case: Case) -> None:
    assert rehearsed(client, namespace, case.old, case.new).problems == ()


def test_what_was_refused_before_the_change_is_not_judged(client: Client, namespace: str) -> None:
    broken = WEB.replace("replicas: 0", "replcas: 0")
    assert rehearsed(client, namespace, broken, broken.replace("web:1", "web:2")).problems == ()


def test_a_kind_that_nothing_defines_is_named(client: Client, namespace: str) -> None:
    thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n"
    rehearsal = rehearsed(client, namespace, SETTINGS, f"{SETTINGS}---\n{thing}")
    assert (rehearsal.problems, [str(kind) for kind in rehearsal.unknown]) == ((), ["Thing.example.com"])


def test_a_change_in_git_is_rehearsed(gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = GitRepo(tmp_path)
    repo.commit(
        {"prod/kustomization.yaml": "resources: [web.yaml, job.yaml]\n", "prod/web.yaml": WEB, "prod/job.yaml": JOB}
    )
    monkeypatch.chdir(repo.work)
    repo.commit({"prod/web.yaml": WEB.replace("web:1", "web:2")})
    done = gitsync("rehearse", "HEAD~1..HEAD")
    assert (done.code, done.out) == (0, "nothing is refused, and a revert brings everything back\n"), done.err
    assert "not known here: images, probes" in done.err
    repo.commit({"prod/job.yaml": JOB.replace("tool:1", "tool:2")})
    done = gitsync("rehearse", "HEAD~2..HEAD", "-o", "json")
    assert done.code == 2
    [problem] = done.json
    assert (problem["object"], problem["step"]) == ("Job default/migrate", "apply")
    assert "immutable" in problem["problem"]
    assert problem["where"].startswith("prod/job.yaml:")


SEALED = """apiVersion: v1
kind: Secret
metadata: {name: key}
data: {token: "ENC[AES256_GCM,data:abcd,iv:x,tag:y,type:str]"}
sops: {mac: "ENC[AES256_GCM,data:x,iv:x,tag:y,type:str]", lastmodified: "2026-01-01T00:00:00Z"}
"""


def test_what_sops_encrypts_is_rehearsed_with_other_values(client: Client, namespace: str) -> None:
    assert rehearsed(client, namespace, SETTINGS, f"{SETTINGS}---\n{SEALED}").problems == ()


def test_a_namespace_of_another_folder_exists(client: Client, namespace: str) -> None:
    other = f"{namespace}-b"
    new = objects(f"{SETTINGS}---\n{SETTINGS.replace('name: settings', f'name: b, namespace: {other}')}", namespace)
    cluster = KubernetesCluster(client)
    surroundings = Surroundings(is_namespace_used=lambda name: name == other)
    assert rehearsal_of(cluster, objects(SETTINGS, namespace), new, surroundings).problems == ()
    live = cluster.read(ObjectRef("", "Namespace", "", other), "v1")
    cluster.delete(ObjectRef("", "Namespace", "", other), "v1", uid=uid_of(live or {}))


def test_a_namespace_whose_name_is_not_valid_is_no_crash(client: Client) -> None:
    [problem] = rehearsed(client, "PROJECT", "", SETTINGS).problems
    assert problem.step.value == "apply"


def test_namespaces_of_other_folders_are_found_in_git(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = GitRepo(tmp_path)
    folder = "resources: [a.yaml]\n"
    repo.commit(
        {
            "prod/kustomization.yaml": f"namespace: shop\n{folder}",
            "prod/a.yaml": SETTINGS,
            "mesh/kustomization.yaml": folder,
            "mesh/a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: mesh}\n",
        }
    )
    monkeypatch.chdir(repo.work)
    repo.commit({"prod/kustomization.yaml": folder, "prod/a.yaml": SETTINGS.replace("settings", "s, namespace: mesh")})
    assert gitsync("rehearse", "HEAD~1..HEAD").code == 0


def test_a_preview_has_what_a_rehearsal_refuses(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = GitRepo(tmp_path)
    repo.commit({"prod/kustomization.yaml": "resources: [job.yaml]\n", "prod/job.yaml": JOB})
    monkeypatch.chdir(repo.work)
    repo.commit({"prod/job.yaml": JOB.replace("tool:1", "tool:2")})
    done = gitsync("preview", "HEAD~1..HEAD", "--rehearse")
    assert done.code == 2
    assert "rehearsal: prod: apply Job default/migrate: " in done.out
    assert "immutable" in done.out
    markdown = gitsync("preview", "HEAD~1..HEAD", "--rehearse", "-o", "markdown").out
    assert "#### Rehearsal: refused\n\n- apply `Job default/migrate` in `prod`: `" in markdown
    assert "<h2>Rehearsal: refused</h2>" in gitsync("preview", "HEAD~1..HEAD", "--rehearse", "-o", "html").out
    # a sound change, and what the runner of a job gets
    repo.commit({"prod/job.yaml": JOB + "  # a comment\n"})
    assert "rehearsal: nothing is refused" in gitsync("preview", "HEAD~2..HEAD~2", "--rehearse").out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error file=prod/job.yaml,line=" in gitsync("preview", "HEAD~2..HEAD~1", "--rehearse", "--ci").out


def test_a_rehearsal_begins_with_the_state_of_a_cluster(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = GitRepo(tmp_path)
    web = WEB.replace("{name: web}", "{name: web, namespace: shop}", 1)
    repo.commit({"prod/kustomization.yaml": "resources: [web.yaml]\n", "prod/web.yaml": web})
    monkeypatch.chdir(repo.work)
    service = SERVICE.replace("{name: web}", "{name: web, namespace: shop}")
    changed_web = web.replace("replicas: 0", "replicas: 9")
    secret = SECRET.replace("{name: key}", "{name: key, namespace: shop}")
    repo.commit({"prod/web.yaml": "---\n".join((changed_web, service, secret))})
    with Sandbox(workloads=False) as sandbox:
        kubeconfig = sandbox.kubeconfig(tmp_path / "kubeconfig")
        live = Client(Connection(str(kubeconfig)))
        cluster = KubernetesCluster(live)
        space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
        quota = QUOTA.replace("{name: q}", "{name: q, namespace: shop}")
        for text in (space, *POLICY.split("---\n"), quota, web, secret.replace("a: b", "a: live-password")):
            cluster.apply(read_all(text)[0], manager="test")
        done = gitsync("rehearse", "HEAD~1..HEAD", "--from-cluster", "--kubeconfig", kubeconfig, "-o", "json")
        deployment = cluster.read(ObjectRef("apps", "Deployment", "shop", "web"), "v1")
        live.close()
    problems = {row["object"]: row["problem"] for row in done.json}
    # the policy and the quota are in no file of the repository
    assert "too many replicas" in problems["Deployment shop/web"]
    assert "exceeded quota" in problems["Service shop/web"]
    assert "live-password" not in done.out + done.err
    # the cluster itself is only read
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 0
