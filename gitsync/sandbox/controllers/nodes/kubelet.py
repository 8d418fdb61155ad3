"""
Kubelet: the nodes, and the pods that are assigned to one, simulated or as processes.

The simulated nodes are two machines that are always ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import ControllerContext, SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.nodes.containers import (
    Container,
    Move,
    Pace,
    all_stopped,
    config_error,
    current,
    next_move,
    perform,
    with_containers,
)
from gitsync.sandbox.controllers.nodes.runtime import ContainerBehaviour
from gitsync.sandbox.controllers.object_meta import Key, is_deleting, key_of
from gitsync.sandbox.controllers.pods import is_finished
from gitsync.sandbox.registry.contract import ControllerClient

_SOURCES = {"configMap": "ConfigMap", "secret": "Secret"}
_SELECTORS = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}
_FROM = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


def missing_volume(api: ControllerClient, pod: Manifest) -> str | None:
    """Return why a volume of the pod cannot be mounted, None when all can."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for kind, name in _volume_sources(volume):
            if api.get("", kind, namespace, name) is None:
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {kind.lower()} "{name}" not found'
    return None


def _volume_sources(volume: Manifest) -> Iterator[tuple[str, str]]:
    """Return the kinds and names of the objects that a volume needs."""
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for member, kind in _SOURCES.items():
            reference = source.get(member)
            if reference and not reference.get("optional"):
                # A secret volume names it secretName, a projected source name.
                yield kind, reference.get("secretName") or reference.get("name") or ""


def missing_environment(api: ControllerClient, namespace: str, container: Manifest) -> str | None:
    """Return why the environment of a container cannot be made, None when it can."""
    for source in container.get("envFrom") or ():
        for member, kind in _FROM.items():
            reference = source.get(member)
            if reference and not reference.get("optional"):
                source_object = api.get("", kind, namespace, reference["name"])
                if source_object is None:
                    return f'{kind.lower()} "{reference["name"]}" not found'
    for variable in container.get("env") or ():
        for member, kind in _SELECTORS.items():
            reference = (variable.get("valueFrom") or {}).get(member)
            if reference and not reference.get("optional"):
                missing = _missing_key(api, namespace, kind, reference)
                if missing:
                    return missing
    return None


def _missing_key(api: ControllerClient, namespace: str, kind: str, reference: Manifest) -> str | None:
    name = reference["name"]
    key = reference["key"]
    source_object = api.get("", kind, namespace, name)
    if source_object is None:
        return f'{kind.lower()} "{name}" not found'
    if key in (source_object.get("data") or {}) or key in (source_object.get("binaryData") or {}):
        return None
    return f"couldn't find key {key} in {kind} {namespace}/{name}"


_FIRST = int(IPv4Address("10.244.0.2"))
# The range without network, gateway and broadcast address.
_COUNT = 2**16 - 3


class Addresses:
    """Give each pod an address of 10.244.0.0/16 that no other pod has; addresses of finished pods return."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._next = 0

    def observe(self, event: str, pod: Manifest) -> None:
        """Follow one pod: take note of its address, or free it."""
        address = at(pod, "status", "podIP")
        # A pod on the network of its node has the address of the node.
        if not address or pod["spec"].get("hostNetwork"):
            return
        if event == "DELETED" or is_finished(pod):
            # The address may belong to another pod already.
            if self._owner.get(address) == uid_of(pod):
                del self._owner[address]
        else:
            self._owner[address] = uid_of(pod)

    def allocate(self, uid: str) -> str:
        """Return a free address, the one freed longest ago last."""
        for _ in range(_COUNT):
            address = str(IPv4Address(_FIRST + self._next))
            # Not the lowest free one: clients keep addresses of deleted pods for a while.
            self._next = (self._next + 1) % _COUNT
            if address not in self._owner:
                self._owner[address] = uid
                return address
        raise RuntimeError("more pods than addresses")


_MANAGER = "kubelet"
# Timers may fire a little early; a move that is due within a millisecond is performed.
_EARLY = 1e-3


@dataclass(slots=True)
class _Plan:
    """When each container of one pod changes state, by name; the empty name means the end of the pod."""

    uid: str
    due: dict[str, tuple[Move, int, float]] = field(default_factory=dict)


class Kubelet(SandboxController):
    """Move pods through their phases in the time that images and names ask for, and remove deleted ones."""

    name = "kubelet"
    watches = frozenset({("", "Pod"), ("", "ConfigMap"), ("", "Secret")})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._plans: dict[Key, _Plan] = {}
        self._blocked: dict[str, set[Key]] = {}
        self._addresses = Addresses()
        self._runtime = context.runtime
        if self._runtime is not None:
            self._runtime.notify(lambda namespace, name: self.enqueue((namespace, name)))

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the pod, or the pods that wait for a ConfigMap or Secret of this namespace."""
        if obj["kind"] == "Pod":
            self._addresses.observe(event, obj)
            self.enqueue(key_of(obj))
            return
        namespace, name = key_of(obj)
        if self._runtime is not None:
            self._runtime.refresh(obj["kind"], namespace, name)
        for key in self._blocked.get(namespace, ()):
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        """Admit a new pod, stop a deleted one, and plan the next moves of the containers."""
        pod = self.api.get("", "Pod", *key)
        # It is added again below if it still waits.
        self._blocked.get(key[0], set()).discard(key)
        plan = self._plans.get(key)
        if plan is not None and (pod is None or plan.uid != uid_of(pod)):
            # A pod of the same name is another pod.
            del self._plans[key]
            if self._runtime is not None:
                self._runtime.remove(plan.uid)
        if pod is None:
            return
        if not at(pod, "spec", "nodeName"):
            if is_deleting(pod) and not pods.is_finished(pod):
                self._report(pod, {**pod["status"], "phase": "Failed"})  # only a finalizer holds it, and waits for this
            return
        plan = self._plans.setdefault(key, _Plan(uid_of(pod)))
        if is_deleting(pod):
            self._stop(key, plan, pod)
        elif pods.is_finished(pod):
            self._end_processes(pod)
        else:
            if not at(pod, "status", "startTime"):
                pod = self._admit(pod)
            pod = self._move(pod, plan)
            if not pods.is_finished(pod):
                self._plan_moves(key, plan, pod)

    def _current(self, pod: Manifest) -> list[Container]:
        """Return the containers that may move now; those that run, with the state of their process."""
        return [self._with_process(pod, container) for container in current(pod)]

    def _with_process(self, pod: Manifest, container: Container) -> Container:
        if self._runtime is None or not self._runtime.runs(container.spec["image"]):
            return container
        state = self._runtime.state(uid_of(pod), container.name)
        return replace(container, behaviour=ContainerBehaviour.PROCESS, process=state)

    def _end_processes(self, pod: Manifest) -> bool:
        """End the processes of a pod within its grace period; return whether all have ended."""
        default_grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        grace = pod["metadata"].get("deletionGracePeriodSeconds", default_grace)
        return self._runtime is None or self._runtime.stop(pod, float(grace or 0))

    def _admit(self, pod: Manifest) -> Manifest:
        """Report a pod for the first time."""
        host = self._host_ip(pod)
        status = {
            **(pod.get("status") or {}),
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "startTime": self.context.now(),
        }
        return self._report(pod, with_containers({**pod, "status": status}, {}, self.context.now()))

    def _host_ip(self, pod: Manifest) -> str:
        node = self.api.get("", "Node", "", pod["spec"]["nodeName"])
        addresses = at(node, "status", "addresses") or ()
        return next((address["address"] for address in addresses if address["type"] == "InternalIP"), "127.0.0.1")

    def _report(self, pod: Manifest, status: Manifest) -> Manifest:
        if status == pod.get("status"):
            return pod
        return self.api.update({**pod, "status": status}, manager=_MANAGER, subresource="status")

    def _plan_moves(self, key: Key, plan: _Plan, pod: Manifest) -> None:
        """Note when each container moves next; a move that was planned before keeps its time."""
        reason = missing_volume(self.api, pod)
        if reason is not None and not at(pod, "status", "podIP"):
            self._block(key)
            self.context.recorder.warning(pod, "FailedMount", reason, self._source(pod))
            # The containers start from the beginning once the volume can be mounted.
            plan.due.clear()
            return
        now = self.context.timers.now()
        due: dict[str, tuple[Move, int, float]] = {}
        for container in self._current(pod):
            move = next_move(container, self._pace())
            if move is None or self._waits_for_config(key, container):
                continue
            planned = plan.due.get(container.name)
            signature = _signature(container, move)
            # Reconciles for other reasons must not put the move off again and again.
            due[container.name] = planned if planned and planned[:2] == signature else (*signature, now + move[1])
        plan.due = due
        if due:
            self.enqueue_after(key, min(when for *_, when in due.values()) - now)

    def _pace(self) -> Pace:
        behaviour = self.context.behaviour
        return Pace(behaviour.start_delay, behaviour.run_time, behaviour.slow_delay)

    def _waits_for_config(self, key: Key, container: Container) -> bool:
        """Return whether the container was refused for a missing ConfigMap or Secret that is still missing."""
        if at(container.status, "state", "waiting", "reason") != "CreateContainerConfigError":
            return False
        if missing_environment(self.api, key[0], container.spec) is None:
            return False
        self._block(key)
        return True

    def _block(self, key: Key) -> None:
        self._blocked.setdefault(key[0], set()).add(key)

    def _stop(self, key: Key, plan: _Plan, pod: Manifest) -> None:
        """Stop the containers of a deleted pod, and remove the pod after its grace period."""
        if pods.is_finished(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0:
            return  # only finalizers hold it
        now = self.context.timers.now()
        if "" not in plan.due:
            grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
            # A simulated container needs no time to end; the short delay shows Terminating.
            plan.due = {"": (Move.END, 0, now + min(float(grace), self.context.behaviour.stop_delay))}
            for container in self._current(pod):
                if "running" in container.status["state"]:
                    source = self._source(pod, container)
                    self.context.recorder.normal(pod, "Killing", f"Stopping container {container.name}", source)
        seconds_left = plan.due[""][2] - now
        if seconds_left > _EARLY:
            self._end_processes(pod)
            self.enqueue_after(key, seconds_left)
            return
        if not self._end_processes(pod):
            return  # the runtime reports their end
        if "finalizers" in pod["metadata"]:
            self._report(pod, all_stopped(pod, self.context.now()))
        # As a real kubelet confirms the end: only a deletion with grace 0 removes the object.
        self.api.delete(ObjectRef("", "Pod", *key), uid=plan.uid, grace_seconds=0)

    def _move(self, pod: Manifest, plan: _Plan) -> Manifest:
        """Perform the moves that are due, and return the changed pod."""
        now = self.context.timers.now() + _EARLY
        changed: dict[str, Manifest] = {}
        moved: list[tuple[Container, Move]] = []
        for container in self._current(pod):
            planned = plan.due.get(container.name)
            next_one = next_move(container, self._pace())
            if (
                planned is None
                or planned[2] > now
                or next_one is None
                or planned[:2] != _signature(container, next_one)
            ):
                continue
            move = planned[0]
            del plan.due[container.name]
            error = None
            if move is Move.START:
                error = missing_environment(self.api, pod["metadata"]["namespace"], container.spec)
            if error is not None:
                changed[container.name] = config_error(container, error)
            else:
                changed[container.name] = perform(container, move, self.context.now())
            moved.append((container, move))
        if not changed:
            return pod
        status = {**pod["status"], **self._network(pod)}
        status = with_containers({**pod, "status": status}, changed, self.context.now())
        pod = self._report(pod, status)
        for container, move in moved:
            self._run(pod, container, move, changed[container.name])
            self._record_move(pod, container, move, changed[container.name])
        return pod

    def _run(self, pod: Manifest, container: Container, move: Move, status: Manifest) -> None:
        """Start the process of a container that starts to run."""
        starts = move in (Move.START, Move.RESTART) and "running" in status["state"]
        if self._runtime is not None and starts and container.behaviour is ContainerBehaviour.PROCESS:
            # After the status was written: the process reads the API, and finds its pod running.
            self._runtime.start(pod, container.spec, status["restartCount"])

    def _network(self, pod: Manifest) -> Manifest:
        if at(pod, "status", "podIP"):
            return {}
        if pod["spec"].get("hostNetwork"):
            address = pod["status"]["hostIP"]
        elif self._runtime is not None and any(
            self._runtime.runs(container["image"]) for container in pod["spec"]["containers"]
        ):
            address = self._runtime.address(pod)
        else:
            address = self._addresses.allocate(uid_of(pod))
        return {"podIP": address, "podIPs": [{"ip": address}]}

    def _source(self, pod: Manifest, container: Container | None = None) -> EventSource:
        path = ""
        if container is not None:
            init = any(init_spec["name"] == container.name for init_spec in pod["spec"].get("initContainers") or ())
            path = f"spec.{'initContainers' if init else 'containers'}{{{container.name}}}"
        return EventSource("kubelet", pod["spec"]["nodeName"], path)

    def _record_move(self, pod: Manifest, container: Container, move: Move, status: Manifest) -> None:
        """Record the events of a move, in the kubelet's words."""
        recorder = self.context.recorder
        source = self._source(pod, container)
        image = container.spec["image"]
        blocked = at(status, "state", "waiting", "reason")
        if move in (Move.READY, Move.PROBED, Move.END):
            return
        if blocked == "ErrImagePull":
            reason = at(status, "state", "waiting", "message")
            recorder.normal(pod, "Pulling", f'Pulling image "{image}"', source)
            recorder.warning(pod, "Failed", f'Failed to pull image "{image}": {reason}', source)
            recorder.warning(pod, "Failed", "Error: ErrImagePull", source)
        elif blocked == "ImagePullBackOff":
            recorder.normal(pod, "BackOff", f'Back-off pulling image "{image}"', source)
            recorder.warning(pod, "Failed", "Error: ImagePullBackOff", source)
        elif blocked == "CreateContainerConfigError":
            recorder.warning(pod, "Failed", f"Error: {at(status, 'state', 'waiting', 'message')}", source)
        else:
            recorder.normal(pod, "Pulled", f'Container image "{image}" already present on machine', source)
            recorder.normal(pod, "Created", f"Created container: {container.name}", source)
            recorder.normal(pod, "Started", f"Started container {container.name}", source)
            if blocked == "CrashLoopBackOff":
                meta = pod["metadata"]
                name = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
                text = f"Back-off restarting failed container {container.name} in pod {name}"
                recorder.warning(pod, "BackOff", text, source)


def _signature(container: Container, move: tuple[Move, float]) -> tuple[Move, int]:
    """Return what tells one move of a container from the next of the same sort."""
    return move[0], container.status["restartCount"]


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
