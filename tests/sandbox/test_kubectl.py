"""The real kubectl against the sandbox."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gitsync.sandbox.server import Sandbox

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH"),
]

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1.25", ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {a: "1"}
"""


class Kubectl:
    """Run kubectl in a namespace of the test's own."""

    def __init__(self, sandbox: Sandbox, folder: Path, namespace: str) -> None:
        self.sandbox = sandbox
        self.folder = folder
        self.namespace = namespace
        self._config = sandbox.kubeconfig(folder / "kubeconfig")

    def run(self, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "-n", self.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "KUBECONFIG": str(self._config),
                "HOME": str(self.folder),
                **env,
            },
        )

    def __call__(self, *arguments: str, stdin: str = "", **env: str) -> str:
        done = self.run(*arguments, stdin=stdin, **env)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def kubectl(cluster: Sandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    name = "".join(char if char.isalnum() else "-" for char in request.node.name.lower())[:50].strip("-")
    found = Kubectl(cluster, tmp_path, name)
    found("create", "namespace", name)
    return found


def test_apply_creates_configures_and_leaves_alone(kubectl: Kubectl) -> None:
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", stdin=WEB)
    assert kubectl("apply", "-f", "-", stdin=WEB).count("unchanged") == 2
    assert "deployment.apps/web configured" in kubectl("apply", "-f", "-", stdin=WEB.replace("1.25", "1.26"))
    assert kubectl.json("get", "deploy", "web")["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.26"


def test_server_side_apply_shows_conflicts_and_forces(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=WEB)
    other = WEB.replace('a: "1"', 'a: "2"')
    refused = kubectl.run("apply", "--server-side", "--field-manager", "other", "-f", "-", stdin=other)
    assert refused.returncode == 1
    assert 'conflict with "kubectl": .data.a' in refused.stderr
    kubectl("apply", "--server-side", "--field-manager", "other", "--force-conflicts", "-f", "-", stdin=other)
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.a}") == "2"


def test_server_side_apply_takes_over_from_client_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("apply", "--server-side", "-f", "-", stdin=WEB.replace('a: "1"', 'a: "3"'))
    managers = kubectl.json("get", "cm", "settings", "--show-managed-fields")["metadata"]["managedFields"]
    assert ("kubectl", "Apply") in [(entry["manager"], entry["operation"]) for entry in managers]


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client side", "server side"])
def test_diff_tells_by_its_exit_code(kubectl: Kubectl, flags: tuple[str, ...]) -> None:
    kubectl("apply", *flags, "-f", "-", stdin=WEB)
    assert kubectl.run("diff", *flags, "-f", "-", stdin=WEB).returncode == 0
    changed = kubectl.run("diff", *flags, "-f", "-", stdin=WEB.replace("1.25", "1.26"))
    assert changed.returncode == 1, changed.stderr
    assert "+      - image: nginx:1.26" in changed.stdout


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}}}'),
        ("merge", '{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}}}'),
        ("json", '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]'),
    ],
)
def test_patch_of_every_type(kubectl: Kubectl, kind: str, patch: str) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("patch", "deploy", "web", "--type", kind, "-p", patch)
    container = kubectl.json("get", "deploy", "web")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "nginx:2"
    assert ("ports" in container) is (kind != "merge")


def test_edit_with_a_scripted_editor(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    editor = kubectl.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/a: "1"/a: edited/\' "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    assert "configmap/settings edited" in kubectl("edit", "cm", "settings", EDITOR=str(editor))
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.a}") == "edited"


def test_label_annotate_and_set_image(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("label", "deploy", "web", "tier=front")
    kubectl("label", "deploy", "web", "tier-")
    kubectl("annotate", "deploy", "web", "note=hello")
    kubectl("set", "image", "deploy/web", "web=nginx:1.27")
    kubectl("set", "env", "deploy/web", "A=b")
    found = kubectl.json("get", "deploy", "web")
    assert "tier" not in found["metadata"]["labels"]
    assert found["metadata"]["annotations"]["note"] == "hello"
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("nginx:1.27", [{"name": "A", "value": "b"}])


def test_a_deployment_rolls_out_scales_and_logs(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=60s")
    kubectl("scale", "deploy/web", "--replicas=3")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=3", "deploy/web", "--timeout=60s")
    assert kubectl("get", "pods", "--no-headers").count("Running") == 3
    assert "nginx:1.25" in kubectl("logs", "deploy/web")
    assert "ScalingReplicaSet" in kubectl("events")
    assert "Replicas:" in kubectl("describe", "deploy", "web")


def test_get_in_every_output(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=available", "deploy/web", "--timeout=60s")
    assert kubectl("get", "deploy").splitlines()[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert "nginx:1.25" in kubectl("get", "deploy", "-o", "wide")
    assert "kind: Deployment" in kubectl("get", "deploy", "web", "-o", "yaml")
    assert kubectl("get", "deploy", "-o", "name") == "deployment.apps/web\n"
    assert kubectl("get", "deploy", "-o", "jsonpath={.items[*].spec.replicas}") == "1"
    assert kubectl("get", "deploy", "-o", "custom-columns=N:.metadata.name", "--no-headers") == "web\n"
    assert "settings" in kubectl("get", "cm", "-l", "app=web")
    assert "pod/web-" in kubectl("get", "all")
    assert "web" in kubectl("get", "deploy", "-A")


def test_get_watch_shows_changes(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    command = ["kubectl", "-n", kubectl.namespace, "get", "cm", "settings", "-w", "-o", "jsonpath={.data.a}{'\\n'}"]
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "KUBECONFIG": str(kubectl.folder / "kubeconfig"),
        "HOME": str(kubectl.folder),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "1\n"
        kubectl("patch", "cm", "settings", "-p", '{"data":{"a":"2"}}')
        assert watching.stdout.readline() == "2\n"
        watching.terminate()


def test_delete_waits_and_cascades(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("wait", "--for=condition=available", "deploy/web", "--timeout=60s")
    kubectl("delete", "deploy", "web", "--cascade=foreground", "--wait", "--timeout=60s")
    assert kubectl("get", "rs,pods", "-o", "name") == ""
    assert kubectl.run("get", "deploy", "web").returncode == 1


def test_a_deleted_namespace_takes_everything_with_it(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "doomed")
    kubectl("-n", "doomed", "apply", "-f", "-", stdin=WEB)
    kubectl("delete", "namespace", "doomed", "--wait", "--timeout=60s")
    assert kubectl.run("get", "namespace", "doomed").returncode == 1


@pytest.mark.parametrize(
    ("command", "made", "path", "value"),
    [
        ("create configmap c --from-literal=a=b", "cm/c", "{.data.a}", "b"),
        ("create secret generic s --from-literal=a=b", "secret/s", "{.type} {.data.a}", "Opaque Yg=="),
        (
            "create deployment d --image=nginx --replicas=2 --port=80",
            "deploy/d",
            "{.spec.replicas} {.spec.template.spec.containers[0].ports[0].containerPort}",
            "2 80",
        ),
        (
            "create job j --image=busybox -- true",
            "job/j",
            "{.spec.template.spec.containers[0].command[0]} {.spec.backoffLimit}",
            "true 6",
        ),
        ("create serviceaccount sa", "sa/sa", "{.metadata.name}", "sa"),
        (
            "create role r --verb=get --resource=pods",
            "role/r",
            "{.rules[0].verbs[0]} {.rules[0].resources[0]}",
            "get pods",
        ),
        (
            "create rolebinding rb --role=r --user=jane",
            "rolebinding/rb",
            "{.roleRef.name} {.subjects[0].name}",
            "r jane",
        ),
        (
            "create service clusterip svc --tcp=80:8080",
            "svc/svc",
            "{.spec.type} {.spec.ports[0].targetPort}",
            "ClusterIP 8080",
        ),
        (
            "create ingress i --rule=example.com/*=svc:80",
            "ing/i",
            "{.spec.rules[0].host} {.spec.rules[0].http.paths[0].pathType}",
            "example.com Prefix",
        ),
        ("create quota q --hard=pods=10", "quota/q", "{.spec.hard.pods}", "10"),
        ("create poddisruptionbudget p --selector=app=web --min-available=1", "pdb/p", "{.spec.minAvailable}", "1"),
        ("run r --image=nginx", "pod/r", "{.spec.containers[0].image} {.metadata.labels.run}", "nginx r"),
        (
            "autoscale deploy web --min=1 --max=3 --cpu-percent=70",
            "hpa/web",
            "{.spec.maxReplicas} {.spec.metrics[0].resource.target.averageUtilization}",
            "3 70",
        ),
        ("expose deploy web --port=80", "svc/web", "{.spec.selector.app} {.spec.ports[0].port}", "web 80"),
    ],
    ids=lambda text: text.split(" -")[0] if text.startswith(("create", "run", "autoscale", "expose")) else "",
)
def test_imperative_commands_create(kubectl: Kubectl, command: str, made: str, path: str, value: str) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl(*command.split())
    assert kubectl("get", made, "-o", f"jsonpath={path}") == value


def test_a_cron_job_is_created_imperatively(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "c", "--image=busybox", "--schedule=*/5 * * * *")
    assert kubectl.json("get", "cronjob", "c")["spec"]["schedule"] == "*/5 * * * *"


def test_explain_and_discovery(kubectl: Kubectl) -> None:
    assert "replicas" in kubectl("explain", "deployment.spec")
    assert "deployments" in kubectl("api-resources", "--api-group=apps")
    assert "apps/v1" in kubectl("api-versions").splitlines()
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_a_wrong_manifest_is_refused_with_its_field(kubectl: Kubectl) -> None:
    refused = kubectl.run("apply", "-f", "-", stdin=WEB.replace("replicas: 1", "replicaz: 1"))
    assert refused.returncode == 1
    assert 'unknown field "spec.replicaz"' in refused.stderr


def test_who_may_what(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "readers", "--role=reader", "--user=jane")
    assert kubectl("auth", "can-i", "list", "configmaps", "--as", "jane") == "yes\n"
    assert kubectl.run("auth", "can-i", "list", "secrets", "--as", "jane").stdout == "no\n"
    assert "Forbidden" in kubectl.run("get", "secrets", "--as", "jane").stderr
    assert "sandbox-admin" in kubectl("auth", "whoami")


def test_apply_of_a_kustomization_and_prune_with_an_apply_set(kubectl: Kubectl) -> None:
    folder = kubectl.folder / "app"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text("resources: [web.yaml]\nnamePrefix: my-\n")
    (folder / "web.yaml").write_text(WEB)
    assert "deployment.apps/my-web created" in kubectl("apply", "-k", str(folder))
    prune = ["apply", "--server-side", "--prune", "--applyset=parent", "-f", "-"]
    second = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n"
    kubectl(*prune, stdin=f"{WEB}---\n{second}", KUBECTL_APPLYSET="true")
    assert "second" in kubectl("get", "cm")
    kubectl(*prune, stdin=WEB, KUBECTL_APPLYSET="true")
    assert "second" not in kubectl("get", "cm")


def test_a_custom_resource_from_definition_to_deletion(kubectl: Kubectl) -> None:
    definition = dedent("""
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: robots.kubectl.example.com}
        spec:
          group: kubectl.example.com
          scope: Namespaced
          names: {plural: robots, singular: robot, kind: Robot, shortNames: [rb]}
          versions:
          - name: v1
            served: true
            storage: true
            subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
            additionalPrinterColumns: [{name: Arms, type: integer, jsonPath: .spec.arms}]
            schema:
              openAPIV3Schema:
                type: object
                properties:
                  spec: {type: object, properties: {arms: {type: integer, default: 2}, replicas: {type: integer}}}
                  status: {type: object, properties: {replicas: {type: integer}}}
        """)
    robot = "apiVersion: kubectl.example.com/v1\nkind: Robot\nmetadata: {name: marvin}\nspec: {replicas: 1}\n"
    kubectl("apply", "-f", "-", stdin=definition)
    kubectl("wait", "--for=condition=established", "crd/robots.kubectl.example.com", "--timeout=60s")
    kubectl("apply", "-f", "-", stdin=robot)
    assert kubectl("get", "rb").split()[:3] == ["NAME", "ARMS", "marvin"]
    kubectl("scale", "robot", "marvin", "--replicas=4")
    kubectl("patch", "robot", "marvin", "--type=merge", "-p", '{"spec":{"arms":3}}')
    kubectl("patch", "robot", "marvin", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":4}}')
    found = kubectl.json("get", "robot", "marvin")
    assert (found["spec"], found["status"]) == ({"arms": 3, "replicas": 4}, {"replicas": 4})
    assert "arms" in kubectl("explain", "robot.spec")
    kubectl("delete", "crd", "robots.kubectl.example.com", "--timeout=60s")
    assert kubectl.run("get", "robots").returncode == 1


def test_top_shows_what_pods_and_nodes_use(kubectl: Kubectl) -> None:
    usage = {"sandbox.gitsync.dev/usage-cpu": "250m", "sandbox.gitsync.dev/usage-memory": "64Mi"}
    kubectl("run", "busy", "--image=nginx", *(f"--annotations={key}={value}" for key, value in usage.items()))
    kubectl("wait", "--for=condition=ready", "pod/busy", "--timeout=60s")
    assert kubectl("top", "pods", "--no-headers").split() == ["busy", "250m", "64Mi"]
    nodes = [line.split() for line in kubectl("top", "nodes", "--no-headers").splitlines()]
    assert ["250m", "64Mi"] in [[line[1], line[3]] for line in nodes]
