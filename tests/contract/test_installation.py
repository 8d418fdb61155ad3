"""The shipped manifests install a controller that works with the rights of its ServiceAccount, and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitsync.cli.output import Exit
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import Rejected
from tests.agents.factories import agent
from tests.cli.conftest import process
from tests.contract.installed import DEPLOYER, controller, install, moved, printed, remove_definitions
from tests.contract.manifests import config_map, deployment
from tests.contract.stage import AGENTS, APPLICATION, Stage, eventually
from tests.waiting import never, until

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


@pytest.mark.own_rights
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


@pytest.mark.own_rights
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


KINDS = {"applications": (APPLICATION, "Application"), "agents": (AGENTS, "Agent")}


@pytest.mark.own_rights
@pytest.mark.parametrize(("role", "may_write"), [("view", False), ("edit", True), ("admin", True), ("", False)])
def test_users_of_a_namespace_reach_our_kinds_by_the_roles_of_kubernetes(
    stage: Stage, role: str, may_write: bool
) -> None:
    install(stage, "agents")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ada", "namespace": stage.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    if role:
        stage.apply(binding)
    paths = [f"/apis/{api}/namespaces/{stage.namespace}/{plural}" for plural, (api, _) in KINDS.items()]

    def may_read() -> bool:
        with suppress(Rejected):
            return all(stage.client.get(path, user="ada") for path in paths)
        return False

    # rules are aggregated a moment after their roles are stored
    until(may_read) if role else never(may_read, 1.0)
    source = {"source": {"repoURL": stage.repo.url}, "destination": {"namespace": stage.namespace}}
    specs = {"applications": source, "agents": agent()["spec"]}
    for path, (plural, (api, kind)) in zip(paths, KINDS.items(), strict=True):
        manifest = {"apiVersion": api, "kind": kind, "metadata": {"name": "theirs"}, "spec": specs[plural]}
        for method, target, body in (("POST", path, manifest), ("DELETE", f"{path}/theirs", {})):
            if may_write:
                stage.client.send(method, target, body, user="ada")
                continue
            with pytest.raises(Rejected, match="forbidden"):
                stage.client.send(method, target, body, user="ada")


@pytest.mark.own_rights
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


_PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
_CODE = re.compile(r"^```(\w*)\n(.*?)^```|`((?:gitsync|kubectl|helm|flux|make) [^`]*)`", re.MULTILINE | re.DOTALL)
NOT_RUN = {
    "make image": "needs Docker and a registry",
    "make run": "is run by tests/cli/test_tutorial.py",
    "make chart": "is run by tests/test_chart.py",
    "helm ": "tests/test_chart.py renders the chart with helm; the definitions are tested with a controller",
    "flux ": "needs Flux",
    "kubectl patch kustomizations.kustomize": "needs the definitions of Flux",
    "kubectl -n argocd": "needs the definitions of Argo CD",
    "kubectl delete secret -l owner=helm": "needs a release",
    "kubectl -n gitsync rollout status": "waits for Pods, which the sandbox of these tests does not run",
    "kubectl -n gitsync port-forward": "serves until it is stopped",
    "kubectl -n gitsync exec": "needs the container of the controller",
    "kubectl delete crd": "is tested with Applications and a controller by tests/flow",
    "kubectl apply -k": "names the options of a command that is run",
    "gitsync install --policies FOLDER": "has a placeholder",
    "gitsync install --crds": "is run as a part of a line",
    "gitsync bootstrap": "needs a repository; tests/contract/test_bootstrap.py runs it",
    "kubectl apply --server-side --field-manager=gitsync -k clusters/prod": "repairs what gitsync bootstrap installed",
    "gitsync webhook": "names a server of the manifests",
    "gh attestation": "needs a release on GitHub",
    "gitsync verify-install": "needs the image of a release; tests/cli/test_verify_install.py runs it",
    "gitsync rollback": "names a command that pushes",
    "gitsync diff NAME": "has a placeholder",
    "gitsync sync NAME": "has a placeholder",
}
"""The commands of the page that are not run, by their beginning, and why."""


def documented() -> tuple[list[str], str]:
    """Return the commands of the page in its order, lines of blocks and those in sentences; and its Application."""
    commands: list[str] = []
    application = ""
    for language, block, span in _CODE.findall(_PAGE):
        if language == "yaml":
            application = block
        elif span:
            commands.append(" ".join(span.split()))
        elif not language:
            commands += block.splitlines()
    return [command for command in commands if " | " in command or not command.startswith(tuple(NOT_RUN))], application


def test_each_command_that_is_not_run_is_on_the_page() -> None:
    beginnings = [beginning for beginning in NOT_RUN if f"`{beginning}" not in _PAGE and f"\n{beginning}" not in _PAGE]
    assert beginnings == []


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_every_command_of_the_page_works_as_printed(stage: Stage, tmp_path: Path) -> None:
    """From the installation to the end of it, in one folder; what Applications applied stays."""
    if stage.is_real:
        pytest.skip("the definitions of a shared cluster are not ours")
    commands, application = documented()
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    (tmp_path / "application.yaml").write_text(application)
    for name in ("key", "known_hosts", "app.pem"):
        (tmp_path / name).write_text(name)
    tools = {
        **os.environ,
        "KUBECONFIG": str(stage.kubeconfig),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TOKEN": "a token",
    }
    ran: list[str] = []

    def run(command: str) -> str:
        ran.append(command)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, env=tools, capture_output=True, text=True
        )
        # the plan of an uninstallation is a difference
        expected = {Exit.OK, Exit.DIFFERENT} if command == "gitsync uninstall" else {Exit.OK}
        assert done.returncode in expected, (command, done.stderr)
        return done.stdout

    secret = "kubectl -n shop create secret generic git "
    # another kind of installation, which does not replace the first one
    without_rights = [command for command in commands if "install --crds |" in command or "--namespaces" in command]
    for command in [command for command in commands if command not in without_rights]:
        if command.startswith("gitsync uninstall") and not any("uninstall" in earlier for earlier in ran):
            stage.sync({"settings.yaml": config_map("settings", a="1")})
            stage.stop()
        if command.startswith(secret) and any(earlier.startswith(secret) for earlier in ran):
            # the page shows one Secret by each method
            run("kubectl -n shop delete secret git")
        out = run(command)
        if "base64decode" in command:
            assert re.fullmatch("[0-9a-f]{48}", out)
    assert len(ran) > 20
    assert stage.live("ConfigMap", "settings")["data"] == {"a": "1"}
    assert stage.get("CustomResourceDefinition", "applications.gitsync.dev", api="apiextensions.k8s.io/v1") is None
    until(lambda: stage.get("Namespace", "gitsync") is None)
    run("kubectl create namespace gitsync && kubectl create namespace desk")
    assert len(without_rights) == 2
    for command in without_rights:
        run(command)
    run("gitsync uninstall --yes")
    stage.cluster.definitions_changed()
    CrdInstaller(stage.cluster, install=True).start()  # what removes the rest of the test needs it
