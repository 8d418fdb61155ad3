"""Outside clients against the sandbox: the official Python client, kr8s, and kopf."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import SharedInformer
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes.watch import Watch

from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.server import Sandbox
from tests.waiting import until

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "exams.kopf.example.com"},
    "spec": {
        "group": "kopf.example.com",
        "scope": "Namespaced",
        "names": {"plural": "exams", "singular": "exam", "kind": "Exam"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as running:
        yield running


@pytest.fixture
def client(sandbox: Sandbox, tmp_path: Path) -> Iterator[Any]:
    config = str(sandbox.kubeconfig(tmp_path / "config"))
    with kubernetes.config.new_client_from_config(config_file=config) as found:
        yield found
        found.rest_client.pool_manager.clear()


def test_the_typed_client_creates_patches_and_deletes(client: Any) -> None:
    core, apps = kubernetes.client.CoreV1Api(client), kubernetes.client.AppsV1Api(client)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typed"}, "data": {"a": "1"}}
    assert core.create_namespaced_config_map("default", body).metadata.uid
    assert core.patch_namespaced_config_map("typed", "default", {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
    container = {"name": "c", "image": "nginx:1"}
    template = {"metadata": {"labels": {"app": "typed"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "typed"}}, "template": template}
    apps.create_namespaced_deployment("default", {"metadata": {"name": "typed"}, "spec": spec})
    apps.patch_namespaced_deployment_scale("typed", "default", {"spec": {"replicas": 2}})
    deadline = time.monotonic() + 60
    while (apps.read_namespaced_deployment("typed", "default").status.ready_replicas or 0) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    pods = core.list_namespaced_pod("default", label_selector="app=typed").items
    assert [pod.status.phase for pod in pods] == ["Running", "Running"]
    assert "nginx:1" in core.read_namespaced_pod_log(pods[0].metadata.name, "default")
    core.delete_namespaced_config_map("typed", "default")
    apps.delete_namespaced_deployment("typed", "default", propagation_policy="Foreground")


def test_the_typed_client_watches(client: Any) -> None:
    core = kubernetes.client.CoreV1Api(client)
    version = core.list_namespaced_secret("default").metadata.resource_version
    for name in ("w1", "w2"):
        core.create_namespaced_secret("default", {"metadata": {"name": name}})
    watch = Watch()
    seen = []
    for event in watch.stream(core.list_namespaced_secret, "default", resource_version=version, timeout_seconds=60):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watch.stop()
    assert seen == [("ADDED", "w1"), ("ADDED", "w2")]


def test_the_dynamic_client_applies_and_deletes(client: Any) -> None:
    maps = DynamicClient(client).resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
    made = maps.server_side_apply(body=body, name="dynamic", namespace="default", field_manager="tests")
    assert made.metadata.managedFields[0].operation == "Apply"
    assert maps.get(name="dynamic", namespace="default").data.a == "1"
    maps.delete(name="dynamic", namespace="default")


def test_an_informer_keeps_its_cache_equal_to_the_cluster(client: Any) -> None:
    core = kubernetes.client.CoreV1Api(client)
    core.create_namespace({"metadata": {"name": "informed"}})
    core.create_namespaced_config_map("informed", {"metadata": {"name": "before"}})
    events: queue.Queue[tuple[str, str]] = queue.Queue()
    informer = SharedInformer(core.list_namespaced_config_map, namespace="informed")
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        informer.add_event_handler(kind, lambda obj, kind=kind: events.put((kind, obj.metadata.name)))
    informer.start()
    try:
        names = set()
        while "before" not in names:  # the listed state comes first; the root certificate may be part of it
            names.add(events.get(timeout=60)[1])
        core.create_namespaced_config_map("informed", {"metadata": {"name": "after"}})
        core.patch_namespaced_config_map("after", "informed", {"data": {"a": "1"}})
        core.delete_namespaced_config_map("before", "informed")
        seen: list[tuple[str, str]] = []
        while len(seen) < 3:
            event = events.get(timeout=60)
            seen += [event] if event[1] in ("before", "after") else []
        assert seen == [("ADDED", "after"), ("MODIFIED", "after"), ("DELETED", "before")]
        cached = {obj.metadata.name: obj.data for obj in informer.cache.list()}
        cached.pop("kube-root-ca.crt", None)
        assert cached == {"after": {"a": "1"}}
    finally:
        stopping = threading.Thread(target=informer.stop)
        stopping.start()
        while stopping.is_alive():  # it looks up from its watch only when something happens
            core.patch_namespaced_config_map("after", "informed", {"data": {"now": str(time.monotonic())}})
            stopping.join(0.2)


def test_one_candidate_leads_and_the_next_takes_over_when_its_lease_ends(client: Any) -> None:
    leading: queue.Queue[str] = queue.Queue()

    def candidate(name: str) -> threading.Thread:
        lock = LeaseLock("leader", "default", name)
        lock.api_instance = kubernetes.client.CoordinationV1Api(client)

        def lead() -> None:
            leading.put(name)
            raise RuntimeError("the work ended, so the lease is renewed no more")

        config = Config(lock, 3, 2, 1, onstarted_leading=lead, onstopped_leading=lambda: None)
        thread = threading.Thread(target=LeaderElection(config).run, daemon=True)
        thread.start()
        return thread

    first = candidate("one")
    assert leading.get(timeout=60) == "one"
    second = candidate("two")
    with pytest.raises(queue.Empty):
        leading.get(timeout=1)
    assert leading.get(timeout=60) == "two"
    lease = kubernetes.client.CoordinationV1Api(client).read_namespaced_lease("leader", "default")
    assert lease.spec.holder_identity == "two"
    first.join(60)
    second.join(60)


KR8S = """
import sys, kr8s
from kr8s.objects import ConfigMap, Deployment
api = kr8s.api(kubeconfig=sys.argv[1])
made = ConfigMap({"metadata": {"name": "kr", "namespace": "default"}, "data": {"a": "1"}}, api=api)
made.create()
made.patch({"data": {"b": "2"}})
assert dict(ConfigMap.get("kr", "default", api=api).raw["data"]) == {"a": "1", "b": "2"}
assert "default" in [found.name for found in api.get("namespaces")]
made.delete()
print("done")
"""


def test_a_script_of_kr8s_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    config = sandbox.kubeconfig(tmp_path / "config")
    done = subprocess.run(
        [sys.executable, "-c", KR8S, str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "done\n", done.stderr


KOPF = """
# What kopf's quick start builds: a claim for each object, labels that follow, and deletion by ownership.
import kopf
import kubernetes

kubernetes.config.load_kube_config()

@kopf.on.create("kopf.example.com", "v1", "exams")
def created(spec, name, namespace, patch, **_):
    if not spec.get("size"):
        raise kopf.PermanentError("a size is needed")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec["size"]}}},
    }
    kopf.adopt(claim)
    made = kubernetes.client.CoreV1Api().create_namespaced_persistent_volume_claim(namespace, claim)
    patch.status["seen"] = spec["size"]
    return {"claim": made.metadata.name}

@kopf.on.field("kopf.example.com", "v1", "exams", field="metadata.labels")
def relabelled(old, new, status, namespace, **_):
    if "created" in status:
        body = {"metadata": {"labels": new}}
        kubernetes.client.CoreV1Api().patch_namespaced_persistent_volume_claim(
            status["created"]["claim"], namespace, body
        )
"""


def test_the_operator_of_kopfs_quick_start_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    config = sandbox.kubeconfig(tmp_path / "config")
    operator = tmp_path / "operator.py"
    operator.write_text(KOPF)
    sandbox.call(lambda cluster: cluster.create(CRD, manager="tests"))
    until(lambda: sandbox.call(lambda cluster: cluster.resource("kopf.example.com", "Exam")), 40)
    command = [sys.executable, "-m", "kopf", "run", "--namespace", "default", "--quiet", str(operator)]
    environment = {"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def found(group: str, kind: str) -> Any:
        return sandbox.call(lambda cluster: cluster.get(group, kind, "default", "e"))

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        exam = {
            "apiVersion": "kopf.example.com/v1",
            "kind": "Exam",
            "metadata": {"name": "e", "namespace": "default"},
            "spec": {"size": "1Gi"},
        }
        sandbox.call(lambda cluster: cluster.create(exam, manager="tests"))
        status = until(lambda: (found("kopf.example.com", "Exam") or {}).get("status"), 40)
        assert (status["seen"], status["created"]) == ("1Gi", {"claim": "e"})
        claim = found("", "PersistentVolumeClaim")
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "Exam"
        label, ref = {"metadata": {"labels": {"team": "a"}}}, ObjectRef("kopf.example.com", "Exam", "default", "e")
        sandbox.call(lambda cluster: cluster.patch(ref, label, manager="tests"))
        until(lambda: found("", "PersistentVolumeClaim")["metadata"].get("labels") == {"team": "a"}, 40)
        sandbox.call(lambda cluster: cluster.delete(ref))
        until(lambda: found("kopf.example.com", "Exam") is None, 40)
        until(lambda: found("", "PersistentVolumeClaim") is None, 40)
        running.terminate()
