"""Runtime: the Pods of this sandbox that are processes of this machine, each on an address of its own."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from gitsync.kube.quantity import parse
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox.controllers.nodes.runtime import LOST, ContainerUsage, Notify, ProcessState
from gitsync.sandbox.processes.api_access import ApiAccess, refresh_after, write_kubeconfig
from gitsync.sandbox.processes.container import ContainerPlan, Launch, RunningContainer
from gitsync.sandbox.processes.environment import Image, Images, command_of, environment_of, find_image, proxy_variables
from gitsync.sandbox.processes.probes import ProbeTarget
from gitsync.sandbox.processes.usage import UsageMeter, read_sessions
from gitsync.sandbox.processes.volumes import (
    Folders,
    Get,
    Mount,
    folder_of,
    mounts_of,
    refers_to,
    translate,
    write_volumes,
)

# 127.0.x.x is left to services of the machine itself, such as systemd-resolved on 127.0.0.53.
_FIRST = int(IPv4Address("127.1.0.1"))
_LAST = int(IPv4Address("127.254.255.254"))


def has_loopback_network() -> bool:
    """Return whether every address of 127.0.0.0/8 belongs to this machine, as on Linux."""
    return sys.platform == "linux"


class LoopbackAddresses:
    """Give Pods addresses on which their ports are free; other sandboxes of the machine take other ones."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}
        # Sandboxes of one machine cannot see each other's Pods before these listen.
        self._next = random.randint(_FIRST, _LAST)

    def of(self, uid: str, ports: Iterable[int]) -> str:
        """Return the address of a Pod, always the same one until it is released."""
        known = next((address for address, owner in self._taken.items() if owner == uid), None)
        return known or self._allocate(uid, tuple(ports))

    def release(self, uid: str) -> None:
        """Free the address of a Pod."""
        self._taken = {address: owner for address, owner in self._taken.items() if owner != uid}

    def _allocate(self, uid: str, ports: tuple[int, ...]) -> str:
        while True:
            address = str(IPv4Address(self._next))
            self._next = self._next + 1 if self._next < _LAST else _FIRST
            if address not in self._taken and all(_is_free(address, port) for port in ports):
                self._taken[address] = uid
                return address


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        # Connections of an ended Pod in TIME_WAIT do not occupy a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except PermissionError:
            return True  # the Pod itself reports that it may not listen there
        except OSError:
            return False
    return True


class Processes:
    """
    Run the containers whose image is in the table, until the sandbox ends, however it ends.

    ``folders`` hold the logs and volumes; ``proxy`` is the address of the HTTP proxy to Services, and ``api`` the way
    to the API server. On a system without
    addresses of 127.0.0.0/8 every container is simulated.
    """

    def __init__(self, images: Images, folders: Folders, proxy: str, get: Get, api: ApiAccess) -> None:
        self._images = images if has_loopback_network() else {}
        self._folders = folders
        self._proxy = proxy
        self._get = get
        self._api = api
        self._loop = asyncio.get_running_loop()
        self._addresses = LoopbackAddresses()
        self._pods: dict[str, Manifest] = {}
        self._containers: dict[str, dict[str, RunningContainer]] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}
        self._refreshes: dict[str, Callable[[], None]] = {}
        self._notify: Notify = _ignore
        self._meter = UsageMeter[tuple[str, str]](time.monotonic, read_sessions)

    def runs(self, image: str) -> bool:
        """Return whether an image is in the table."""
        return find_image(self._images, image) is not None

    def address(self, pod: Manifest) -> str:
        """Return an address on which the Pod's ports are free."""
        return self._addresses.of(uid_of(pod), _ports(pod["spec"]["containers"]).values())

    def start(self, pod: Manifest, container: Manifest, run: int) -> None:
        """Start a container; what is left of the run before is killed."""
        image = find_image(self._images, container["image"])
        if image is None:
            return
        uid = uid_of(pod)
        name = str(container["name"])
        self._pods[uid] = pod
        self._refresh_tokens(pod)
        running = self._containers.setdefault(uid, {})
        if name in running:
            running[name].close()
        namespace = pod["metadata"]["namespace"]
        pod_name = pod["metadata"]["name"]
        plan = self._plan(pod, container, image, run)
        running[name] = RunningContainer(plan, self._loop, lambda: self._notify(namespace, pod_name))

    def state(self, uid: str, container: str) -> ProcessState:
        """Return the state of a container's process."""
        running = self._containers.get(uid, {}).get(container)
        return LOST if running is None else running.state

    def stop(self, pod: Manifest, grace: float) -> bool:
        """End a Pod's processes, sidecars last; return whether all have ended."""
        uid = uid_of(pod)
        running = self._containers.get(uid, {})
        if all(container.state.exit_code is not None for container in running.values()):
            return True
        if uid not in self._stopping:
            self._stopping[uid] = self._loop.create_task(self._stop(pod, running, grace))
        return False

    def remove(self, uid: str) -> None:
        """Forget a Pod: its processes, address, logs and files."""
        for container in self._containers.pop(uid, {}).values():
            container.close()
        task = self._stopping.pop(uid, None)
        if task is not None:
            task.cancel()
        self._refreshes.pop(uid, _nothing)()
        if self._pods.pop(uid, None) is not None:
            shutil.rmtree(self._folders.pods / uid, ignore_errors=True)
        self._addresses.release(uid)

    def close(self) -> None:
        """End all processes, and report nothing more."""
        self._notify = _ignore
        for uid in list(self._containers):
            self.remove(uid)

    def log(self, uid: str, container: str, run: int) -> Path | None:
        """Return the log file of one run of a container."""
        path = self._log(uid, container, run)
        return path if path.is_file() else None

    def usage(self) -> Mapping[tuple[str, str], ContainerUsage]:
        """Return what the processes of containers use, by the uid of their Pod and their name."""
        return self._meter.measure(
            {
                (uid, name): container.process.session
                for uid, containers in self._containers.items()
                for name, container in containers.items()
                if container.process.exit_code is None
            }
        )

    def refresh(self, kind: str, namespace: str, name: str) -> None:
        """Write the files of a changed ConfigMap or Secret into the volumes that have them."""
        for pod in self._pods.values():
            if pod["metadata"]["namespace"] == namespace and refers_to(pod, kind, name):
                self._write_volumes(pod)

    def notify(self, action: Notify) -> None:
        """Call an action when a container of a Pod ends, or its probes change it."""
        self._notify = action

    def _refresh_tokens(self, pod: Manifest) -> None:
        """Write the volumes of a Pod now, and again before its tokens expire: clients read them again."""
        uid = uid_of(pod)
        delay = refresh_after(pod)
        self._refreshes.pop(uid, _nothing)()
        self._write_volumes(pod)
        if delay is not None:
            self._refreshes[uid] = self._api.call_later(delay, partial(self._refresh_tokens, pod))

    def _write_volumes(self, pod: Manifest) -> None:
        write_volumes(pod, self._folders, self._get, self._api)

    async def _stop(self, pod: Manifest, running: dict[str, RunningContainer], grace: float) -> None:
        sidecars = {container["name"] for container in pod["spec"].get("initContainers") or ()}
        for last in (False, True):
            await asyncio.gather(
                *(container.stop(grace) for name, container in running.items() if (name in sidecars) is last)
            )
        self._notify(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _plan(self, pod: Manifest, container: Manifest, image: Image, run: int) -> ContainerPlan:
        uid = uid_of(pod)
        name = str(container["name"])
        message = self._folders.pods / uid / f"{name}-termination"
        # The message of the run before is not one of this run.
        message.unlink(missing_ok=True)
        path = container.get("terminationMessagePath") or "/dev/termination-log"
        mounts = [*mounts_of(pod, container, self._folders), Mount(path, message)]
        defaults = {**self._variables(pod), **image.env}
        env = environment_of(pod, container, defaults, mounts, self._get)
        home = self._folders.pods / uid / name
        home.mkdir(parents=True, exist_ok=True)
        folder = Path(translate(container.get("workingDir") or "", mounts))
        # Programs keep caches there; the user's own home is not for containers.
        env.setdefault("HOME", str(home))
        memory = parse(at(container, "resources", "limits", "memory", default="0")).nanos // 10**9
        launch = Launch(
            command_of(container, image, env, mounts),
            env,
            folder if folder.is_absolute() and folder.is_dir() else home,
            self._log(uid, name, run),
            memory,
        )
        target = ProbeTarget(pod["status"]["podIP"], _ports([container]), env, mounts, launch.folder)
        grace = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
        return ContainerPlan(container, launch, target, grace, message)

    def _variables(self, pod: Manifest) -> dict[str, str]:
        """Return the variables of the sandbox: the way to Services, and with a token that to the API server."""
        variables = proxy_variables(pod["metadata"]["namespace"], self._proxy)
        place = partial(folder_of, pod, folders=self._folders)
        config = write_kubeconfig(pod, self._folders.pods / uid_of(pod), place, self._api.url())
        return variables if config is None else {**variables, "KUBECONFIG": str(config)}

    def _log(self, uid: str, container: str, run: int) -> Path:
        return self._folders.pods / uid / f"{container}-{run}.log"


def _nothing() -> None:
    """Cancel nothing."""


def _ignore(namespace: str, name: str) -> None:
    """Take a report that has no reader."""


def _ports(containers: list[Manifest]) -> dict[str, int]:
    """Return the ports of containers by name, and by number where they have none."""
    ports = [port for container in containers for port in container.get("ports") or ()]
    return {port.get("name") or str(port["containerPort"]): port["containerPort"] for port in ports}
