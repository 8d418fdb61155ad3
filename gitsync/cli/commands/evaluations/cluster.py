"""Agents of a folder, running in a sandbox of this process for their evaluation."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from gitsync.agents.model.agent import Agent
from gitsync.cli.options import load_settings
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import ClusterUnavailable
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.plan.order import stage_of
from gitsync.sandbox.processes.images import read_images
from gitsync.sandbox.server import Sandbox
from gitsync.wiring import build_controller

_MANAGER = "gitsync-eval"
_CLUSTER_SCOPED = frozenset({"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"})
_PATIENCE = 180.0
_PERIOD = 0.2


@contextlib.contextmanager
def running_agents(
    manifests: Sequence[Manifest], agents: Sequence[Agent], images: Path | None
) -> Iterator[dict[str, str]]:
    """Run what a folder renders to, and yield the URLs of these Agents by name once they are ready."""
    table = read_images(images or Path(str(files("gitsync.demo_agents") / "images.yaml")))
    with tempfile.TemporaryDirectory(prefix="gitsync-eval-") as folder, Sandbox(images=table) as sandbox:
        kubeconfig = sandbox.kubeconfig(Path(folder) / "kubeconfig")
        client = Client(Connection(str(kubeconfig)))
        cluster = KubernetesCluster(client)
        CrdInstaller(cluster, install=True).start()
        _create_namespace(cluster, "gitsync")  # for the Lease of the controller
        controller = build_controller(load_settings(kubeconfig=str(kubeconfig), data=Path(folder) / "data"))
        controller.start()
        try:
            _apply(cluster, manifests)
            _wait(cluster, agents)
            os.environ["http_proxy"] = sandbox.proxy_url  # how urllib finds the Services of the sandbox
            yield {
                one.name: f"http://{one.name}.{_namespace(one.namespace)}:{one.spec.runtime.port}/" for one in agents
            }
        finally:
            os.environ.pop("http_proxy", None)
            controller.stop()
            client.close()


def _apply(cluster: KubernetesCluster, manifests: Sequence[Manifest]) -> None:
    given = sorted(map(_unchecked, manifests), key=lambda one: stage_of(ref_of(one).of))
    known = {ref_of(one).name for one in given if one.get("kind") == "Namespace"}
    for name in sorted({_namespace(ref_of(one).namespace) for one in given} - known):
        _create_namespace(cluster, name)
    for manifest in given:
        cluster.apply(manifest, manager=_MANAGER)


def _create_namespace(cluster: KubernetesCluster, name: str) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, manager=_MANAGER)


def _unchecked(manifest: Manifest) -> Manifest:
    """Return a manifest with a namespace, an Agent without the evaluation that this command does itself."""
    spec = manifest.get("spec")
    if manifest.get("kind") == "Agent" and isinstance(spec, dict):
        manifest = {**manifest, "spec": {name: value for name, value in spec.items() if name != "evaluation"}}
    if manifest.get("kind") in _CLUSTER_SCOPED:
        return manifest
    return {**manifest, "metadata": {**metadata_of(manifest), "namespace": _namespace(ref_of(manifest).namespace)}}


def _namespace(name: str) -> str:
    return name or "default"


def _wait(cluster: KubernetesCluster, agents: Sequence[Agent]) -> None:
    deadline = time.monotonic() + _PATIENCE
    for agent in agents:
        ref = agent.ref
        while True:
            live = cluster.read(ref._replace(namespace=_namespace(ref.namespace)), VERSION)
            if at(live, "status", "phase") == "Running":
                break
            if time.monotonic() > deadline:
                why = [one.get("message", "") for one in at(live, "status", "conditions", default=[])]
                raise ClusterUnavailable(f"{agent.name} is not ready: {'; '.join(filter(None, why))}")
            time.sleep(_PERIOD)
