"""A controller that runs with exactly the rights of the shipped manifests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import yaml

from gitsync.crds import definitions
from gitsync.objects.manifest import Manifest
from tests.cli.conftest import dashboard_url, running
from tests.contract.stage import Stage, eventually

CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
NOT_MOVED = {"CustomResourceDefinition", "Namespace"}
DEPLOYER = {"destination": {"serviceAccountName": "gitsync-deployer", "allowClusterScoped": False}}


_TENANT = "a-tenant"
"""A namespace that is replaced in what is printed, which is the same for all tests."""


@cache
def printed(*arguments: str) -> str:
    """Return what ``gitsync install`` prints."""
    command = [sys.executable, "-m", "gitsync", "install", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tenant_of(stage: Stage, namespace: str) -> list[Manifest]:
    """Return what is printed for a namespace of Applications or Agents, for the controller of the test."""
    return moved(stage, "--tenant", _TENANT, tenant=namespace)


def moved(stage: Stage, *arguments: str, tenant: str = "") -> list[Manifest]:
    """Return what is printed, moved into the namespace of the test; the definitions and the namespace are left out."""
    namespaces = {"gitsync": stage.system, _TENANT: tenant}
    text = re.sub(
        rf"(?m)^( *namespace): (gitsync|{_TENANT})$",
        lambda match: f"{match[1]}: {namespaces[match[2]]}",
        printed(*arguments),
    )
    items = [item for item in yaml.load_all(text, yaml.CSafeLoader) if item["kind"] not in NOT_MOVED]
    for item in items:
        if item["kind"] in CLUSTER_SCOPED:
            # Kustomize takes kinds that its schema lacks for namespaced ones; kubectl drops that as well
            item["metadata"].pop("namespace", None)
    return items


def install(stage: Stage, *components: str) -> None:
    """Apply the installation, and let Applications of its namespace deploy to the destination, as an administrator."""
    tenant = tenant_of(stage, stage.system)
    destination = next(item for item in tenant if item["metadata"]["name"] == "gitsync-deployer" and "roleRef" in item)
    bound = {**destination, "metadata": {"name": "gitsync-deployer", "namespace": stage.namespace}}
    options = [option for component in components for option in ("--component", component)]
    for manifest in [*moved(stage, *options), *tenant, bound]:
        if manifest["kind"] in CLUSTER_SCOPED:
            stage.remember(manifest["kind"], manifest["metadata"]["name"], manifest["apiVersion"])
        stage.apply(manifest, "kubectl")
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "t" * 32}}
    stage.apply({**secret, "metadata": {"name": "gitsync-dashboard", "namespace": stage.system}})


def kubeconfig_of(stage: Stage, account: str) -> Path:
    """Write a kubeconfig with a token of a ServiceAccount, as a pod has it, and return its path."""
    path = f"{stage.path('ServiceAccount', account, namespace=stage.system)}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    config = yaml.safe_load(stage.kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": "pod", "user": {"token": stage.raw("POST", path, request)["status"]["token"]}}]
    for context in config["contexts"]:
        context["context"]["user"] = "pod"
    file = stage.folder / "pod.kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def give_installed_rights(stage: Stage) -> None:
    """
    Let the controller of a stage have the rights of the installation with all components that read, and no others.

    Applications write by an account that may do everything, as the kinds of the tests are many; what is tested are the
    controller's own requests. What Agents become is written by the account of their namespace with the rights that
    ``gitsync install --tenant`` gives it, and no others.
    """
    install(stage, "agents", "read-secrets")
    for manifest in tenant_of(stage, stage.namespace):  # Agents are there
        stage.apply(manifest, "kubectl")
    name = f"{stage.system}-deployer"
    stage.remember("ClusterRoleBinding", name, "rbac.authorization.k8s.io/v1")
    stage.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "gitsync-deployer", "namespace": stage.system}],
        }
    )
    # as an administrator adds the kinds of an operator
    reader = f"{stage.system}-read"
    stage.remember("ClusterRole", reader, "rbac.authorization.k8s.io/v1")
    stage.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": reader, "labels": {"gitsync.dev/aggregate-to-read": "true"}},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
        }
    )
    stage.account = "gitsync-deployer"
    stage.controller_kubeconfig = kubeconfig_of(stage, "gitsync")


def remove_definitions(stage: Stage) -> None:
    """Remove what the preparation of each test installs as an administrator."""
    api = "apiextensions.k8s.io/v1"
    for definition in definitions():
        stage.delete("CustomResourceDefinition", definition["metadata"]["name"], api=api)
    for definition in definitions():  # the objects of a kind are deleted first
        name = definition["metadata"]["name"]
        eventually(stage, lambda name=name: stage.get("CustomResourceDefinition", name, namespace="", api=api) is None)  # type: ignore[misc]


@contextmanager
def controller(stage: Stage, kubeconfig: Path | None = None, **more: object) -> Iterator[str]:
    """Run the controller as its pod does, and yield the URL of the dashboard; ``more`` are further settings."""
    with pod(stage, kubeconfig, **more) as (_, log):
        yield dashboard_url(log)


@contextmanager
def pod(stage: Stage, kubeconfig: Path | None = None, **more: object) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run the controller as its pod does, and yield its process and its log; ``more`` are further settings."""
    settings: dict[str, object] = {
        "KUBECONFIG": kubeconfig or kubeconfig_of(stage, "gitsync"),
        "GITSYNC_NAMESPACE": stage.system,
        "GITSYNC_ALLOW_FILE_URLS": "true",
        **({"GITSYNC_NAMESPACES": f"{stage.system},{stage.namespace}"} if stage.is_real else {}),
        **more,
    }
    with running("run", "--port", "0", "--data", stage.folder / "data", cwd=stage.folder, **settings) as started:
        yield started
