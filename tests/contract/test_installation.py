"""The shipped manifests install a controller that works with the rights of its ServiceAccount, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.controllers.crds import CrdInstaller
from tests.cli.conftest import process
from tests.contract.installed import DEPLOYER, controller, install, moved, printed, remove_definitions
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import APPLICATION, Stage, eventually
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]


def denied(url: str) -> list[str]:
    """Return the metrics of requests that the API server refused with 403."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return [text for text in lines if text.startswith("gitsync_api_requests_total") and 'code="403"' in text]


def with_credentials(stage: Stage) -> dict[str, Any]:
    """Return a source whose credentials are a Secret beside the Application."""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"username": "u", "password": "p"}}
    stage.apply({**secret, "metadata": {"name": "git", "namespace": stage.system}})
    return {"source": {"credentials": {"secretRef": {"name": "git"}}}}


def test_the_installed_rights_suffice(stage: Stage) -> None:
    if not stage.is_real:  # on a shared cluster, Applications of others exist
        remove_definitions(stage)
        stage.cluster.definitions_changed()
    install(stage)
    files = {"web.yaml": deployment(replicas=1), "settings.yaml": config_map("settings", a="1")}
    with controller(stage) as url:
        until(lambda: stage.get("CustomResourceDefinition", "applications.gitsync.dev", api="apiextensions.k8s.io/v1"))
        stage.cluster.definitions_changed()
        first = stage.commit(files)
        stage.application(**with_credentials(stage), **DEPLOYER)
        stage.synced(first)
        stage.patch("ConfigMap", "settings", {"data": {"a": "edited"}})
        eventually(stage, lambda: stage.live("ConfigMap", "settings")["data"] == {"a": "1"})
        stage.synced(stage.commit({"settings.yaml": None}))
        assert stage.get("ConfigMap", "settings") is None
        assert stage.live("Deployment", "web", api="apps/v1")
        assert denied(url) == []
        tools = {**os.environ, "KUBECONFIG": str(stage.folder / "pod.kubeconfig"), "GITSYNC_NAMESPACE": stage.system}
        options = ("-n", stage.system, "-o", "json", "--allow-file-urls", "--data", stage.folder / "data")
        report = process("doctor", *options, env=tools)
        # whether the kernel has Landlock depends on the machine
        assert [row for row in report.json if row["result"] != "OK" and row["check"] != "Landlock"] == []


def test_the_roles_of_some_namespaces_suffice(stage: Stage) -> None:
    """The component namespaced: the controller has no cluster-scoped right, not even for the definitions."""
    installed = moved(stage, "--component", "namespaced")
    tenant = printed("--component", "namespaced", "--tenant", stage.namespace)
    for item in [
        *installed,
        *yaml.load_all(tenant.replace("namespace: gitsync", f"namespace: {stage.system}"), yaml.CSafeLoader),
    ]:
        stage.apply(item, "kubectl")
    deployer = moved(stage, "--component", "namespaced", "--tenant", stage.system)
    for item in deployer:
        stage.apply(item, "kubectl")
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "t" * 32}}
    stage.apply({**secret, "metadata": {"name": "gitsync-dashboard", "namespace": stage.system}})
    binding = next(item for item in deployer if item["metadata"]["name"] == "gitsync-deployer" and "roleRef" in item)
    stage.apply({**binding, "metadata": {"name": "system-deployer", "namespace": stage.namespace}}, "kubectl")
    watched = {"GITSYNC_NAMESPACES": f"{stage.system},{stage.namespace}", "GITSYNC_INSTALL_CRDS": "false"}
    with controller(stage, **watched) as url:
        first = stage.commit({"web.yaml": deployment(replicas=1), "settings.yaml": config_map("settings", a="1")})
        stage.application(**with_credentials(stage), **DEPLOYER)
        stage.synced(first)
        stage.patch("ConfigMap", "settings", {"data": {"a": "edited"}})
        eventually(stage, lambda: stage.live("ConfigMap", "settings")["data"] == {"a": "1"})
        stage.synced(stage.commit({"settings.yaml": None}))
        assert stage.get("ConfigMap", "settings") is None
        assert denied(url) == []


def test_an_application_that_names_no_account_may_write_nothing(stage: Stage) -> None:
    install(stage)
    stage.commit({"settings.yaml": config_map("settings", a="1")})
    with controller(stage):
        stage.application(destination={"allowClusterScoped": False})
        eventually(stage, lambda: "serviceAccountName: none is named" in str(stage.status().get("conditions")))
    assert stage.get("ConfigMap", "settings") is None


def test_the_pod_is_admitted_as_restricted(stage: Stage) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.system, "labels": labels}})
    install(stage)
    path, selector = stage.path("Pod", "", namespace=stage.system), {"labelSelector": "app.kubernetes.io/name=gitsync"}
    eventually(stage, lambda: stage.client.get(path, selector)["items"])
    spec = stage.client.get(path, selector)["items"][0]["spec"]
    assert spec["serviceAccountName"] == "gitsync"


def test_an_upgrade_ends_the_old_pod_before_the_new_one(stage: Stage) -> None:
    """The volume and the Lease belong to one process: a second one would refuse to start."""
    install(stage)
    path, selector = stage.path("Pod", "", namespace=stage.system), {"labelSelector": "app.kubernetes.io/name=gitsync"}
    first = eventually(stage, lambda: stage.client.get(path, selector)["items"])[0]
    name, uid = first["metadata"]["name"], first["metadata"]["uid"]
    stage.patch("Pod", name, {"metadata": {"finalizers": ["example.com/held"]}}, namespace=stage.system)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "controller", "image": "gitsync:next"}]}}}}
    stage.patch("Deployment", "gitsync", image, "strategic", api="apps/v1", namespace=stage.system)
    eventually(stage, lambda: stage.live("Pod", name, namespace=stage.system)["metadata"].get("deletionTimestamp"))
    assert [pod["metadata"]["uid"] for pod in stage.client.get(path, selector)["items"]] == [uid]
    stage.patch("Pod", name, {"metadata": {"finalizers": None}}, namespace=stage.system)
    images = lambda: [pod["spec"]["containers"][0]["image"] for pod in stage.client.get(path, selector)["items"]]  # noqa: E731
    eventually(stage, lambda: images() == ["gitsync:next"])


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_and_install_give_the_same(stage: Stage) -> None:
    if stage.is_real:
        pytest.skip("the namespace gitsync of a shared cluster is not ours")
    remove_definitions(stage)
    kubectl = ["kubectl", "--kubeconfig", str(stage.kubeconfig), "apply"]
    made = subprocess.run([*kubectl, "-k", str(ROOT / "manifests/gitsync")], capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    again = subprocess.run([*kubectl, "-f", "-"], input=printed(), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert [text for text in again.stdout.splitlines() if not text.endswith(" unchanged")] == []
    assert stage.get("Application", "none", api=APPLICATION) is None


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_uninstalling_as_documented_keeps_the_workloads(stage: Stage) -> None:
    if stage.is_real:
        pytest.skip("the definitions of a shared cluster are not ours")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    commands = page.split("\n## Uninstall\n")[1].split("```")[1]
    tools = {
        **os.environ,
        "KUBECONFIG": str(stage.kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    run = {"shell": True, "env": tools, "capture_output": True, "text": True, "executable": "/bin/bash"}
    assert subprocess.run("gitsync install | kubectl apply -f -", **run).returncode == 0
    stage.sync({"settings.yaml": config_map("settings", a="1")})
    assert stage.live("Application", "app", namespace=stage.system, api=APPLICATION)["metadata"]["finalizers"]
    stage.stop()

    done = subprocess.run(f"set -o pipefail\n{commands}", **run)

    assert done.returncode == 0, done.stderr
    assert stage.live("ConfigMap", "settings")["data"] == {"a": "1"}
    until(lambda: stage.get("Namespace", "gitsync") is None)
    assert stage.get("CustomResourceDefinition", "applications.gitsync.dev", api="apiextensions.k8s.io/v1") is None
    stage.cluster.definitions_changed()
    CrdInstaller(stage.cluster, install=True).start()  # what removes the rest of the test needs it
