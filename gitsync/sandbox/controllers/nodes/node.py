"""The simulated nodes: two machines that are always ready."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.contract import ControllerClient

NODES = ("node-a", "node-b")
_FIRST_ADDRESS = 10
# Large enough that examples from real clusters fit; "too big" is tested with requests above it.
_CAPACITY = {"cpu": "128", "memory": "512Gi", "ephemeral-storage": "2Ti", "pods": "5000"}


def create_nodes(api: ControllerClient, now: str) -> None:
    """Create the nodes that are absent."""
    for index, name in enumerate(NODES):
        if api.get("", "Node", "", name) is None:
            # A kubelet registers its node first, and then reports the status.
            created = api.create(_node(name, index), manager="kubelet")
            status = _status(f"192.168.0.{_FIRST_ADDRESS + index}", name, now)
            ready = api.update({**created, "status": status}, manager="kubelet", subresource="status")
            # Admission taints a new node not-ready; the node controller removes that once it is ready.
            spec = {key: value for key, value in ready["spec"].items() if key != "taints"}
            api.update({**ready, "spec": spec}, manager="kube-controller-manager")


def _node(name: str, index: int) -> Manifest:
    labels = {
        # Kubelets still write both generations of these labels.
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": f"10.244.{index}.0/24", "podCIDRs": [f"10.244.{index}.0/24"]},
    }


def _status(address: str, name: str, now: str) -> Manifest:
    return {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "conditions": [
            _condition(
                "MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available", now
            ),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", now),
            _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now),
        ],
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": name,
            "systemUUID": name,
            "bootID": name,
            "kernelVersion": "0.0.0-sandbox",
            "osImage": "gitsync sandbox",
            "containerRuntimeVersion": "fake://1.0.0",
            "kubeletVersion": "v1.36.2",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
