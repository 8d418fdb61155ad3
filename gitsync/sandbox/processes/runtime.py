"""Runtime: the Pods of this sandbox that are processes of this machine."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gitsync.kube.quantity import parse
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox.controllers.nodes.runtime import LOST, Notify, ProcessState
from gitsync.sandbox.processes.addresses import LoopbackAddresses, has_loopback_network
from gitsync.sandbox.processes.api_access import ApiAccess, refresh_after, write_kubeconfig
from gitsync.sandbox.processes.container import Plan, RunningContainer
from gitsync.sandbox.processes.environment import command_of, environment_of, proxy_variables
from gitsync.sandbox.processes.images import Image, Images, find_image
from gitsync.sandbox.processes.probes import Target
from gitsync.sandbox.processes.process import Launch
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
        uid, name = uid_of(pod), str(container["name"])
        self._pods[uid] = pod
        self._refresh_tokens(pod)
        running = self._containers.setdefault(uid, {})
        if name in running:
            running[name].close()
        namespace, pod_name = pod["metadata"]["namespace"], pod["metadata"]["name"]
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
        if all(each.state.exit_code is not None for each in running.values()):
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
        uid, delay = uid_of(pod), refresh_after(pod)
        self._refreshes.pop(uid, _nothing)()
        self._write_volumes(pod)
        if delay is not None:
            self._refreshes[uid] = self._api.call_later(delay, partial(self._refresh_tokens, pod))

    def _write_volumes(self, pod: Manifest) -> None:
        write_volumes(pod, self._folders, self._get, self._api)

    async def _stop(self, pod: Manifest, running: dict[str, RunningContainer], grace: float) -> None:
        sidecars = {each["name"] for each in pod["spec"].get("initContainers") or ()}
        for last in (False, True):
            await asyncio.gather(*(each.stop(grace) for name, each in running.items() if (name in sidecars) is last))
        self._notify(pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _plan(self, pod: Manifest, container: Manifest, image: Image, run: int) -> Plan:
        uid, name = uid_of(pod), str(container["name"])
        message = self._folders.pods / uid / f"{name}-termination"
        message.unlink(missing_ok=True)
        path = container.get("terminationMessagePath") or "/dev/termination-log"
        mounts = [*mounts_of(pod, container, self._folders), Mount(path, message)]
        defaults = {**self._variables(pod), **image.env}
        env = environment_of(pod, container, defaults, mounts, self._get)
        home = self._folders.pods / uid / name
        home.mkdir(parents=True, exist_ok=True)
        folder = Path(translate(container.get("workingDir") or "", mounts))
        env.setdefault("HOME", str(home))
        memory = parse(at(container, "resources", "limits", "memory", default="0")).nanos // 10**9
        launch = Launch(
            command_of(container, image, env, mounts),
            env,
            folder if folder.is_absolute() and folder.is_dir() else home,
            self._log(uid, name, run),
            memory,
        )
        target = Target(pod["status"]["podIP"], _ports([container]), env, mounts, launch.folder)
        grace = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
        return Plan(container, launch, target, grace, message)

    def _variables(self, pod: Manifest) -> dict[str, str]:
        """Return the variables of the sandbox: the way to Services, and with a token that to the API server."""
        found = proxy_variables(pod["metadata"]["namespace"], self._proxy)
        place = partial(folder_of, pod, folders=self._folders)
        config = write_kubeconfig(pod, self._folders.pods / uid_of(pod), place, self._api.url())
        return found if config is None else {**found, "KUBECONFIG": str(config)}

    def _log(self, uid: str, container: str, run: int) -> Path:
        return self._folders.pods / uid / f"{container}-{run}.log"


def _nothing() -> None:
    """Cancel nothing."""


def _ignore(namespace: str, name: str) -> None:
    """Take a report that has no reader."""


def _ports(containers: list[Manifest]) -> dict[str, int]:
    """Return the ports of containers by name, and by number where they have none."""
    found = [port for container in containers for port in container.get("ports") or ()]
    return {port.get("name") or str(port["containerPort"]): port["containerPort"] for port in found}
