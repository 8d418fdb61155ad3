"""
Subresources other than status: scale, log, eviction, binding, token, finalize.

A log is the file of a process, followed while it grows, or the text of a simulated container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox import errors
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers.nodes.runtime import ContainerBehaviour, ContainerRuntime, behaviour_of
from gitsync.sandbox.errors import ApiError, StatusCause
from gitsync.sandbox.http.port_forward import port_forward
from gitsync.sandbox.http.route import RequestRoute
from gitsync.sandbox.http.transport.messages import TEXT, HttpRequest, Reply, Response, Sink, StreamReply, Upgrade
from gitsync.sandbox.registry.contract import RequestContext
from gitsync.sandbox.registry.delete import read_options
from gitsync.sandbox.registry.managed_fields import scale_part
from gitsync.sandbox.registry.metadata import object_member, wrong_type
from gitsync.sandbox.registry.preconditions import quoted
from gitsync.sandbox.registry.resources import Address, ServedResource
from gitsync.sandbox.registry.scale import ScalePaths, scale_of, with_replicas
from gitsync.sandbox.users import AUDIENCE, ServiceAccount, Tokens

_LAST_WORDS = {
    ContainerBehaviour.FAILS: "fatal: the process ends with exit code 1",
    ContainerBehaviour.OOM: "allocating memory beyond the limit",
    ContainerBehaviour.ENDS: "done",
}


def log_of(pod: Manifest, container: str, *, previous: bool = False, has_times: bool = False) -> str | None:
    """
    Return the log of a container, or of the run before; None when there was none.

    The text depends on the pod alone: the same pod prints the same log.
    """
    status = _status_of(pod, container)
    spec = _spec_of(pod, container)
    if status is None or spec is None:
        return None
    began = _began(status, previous=previous)
    if began is None:
        return None
    ends = pod["spec"].get("restartPolicy", "Always") != "Always"
    lines = [
        f"{began} {spec['image']} starts in pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
        *(f"{began} listening on port {port['containerPort']}" for port in spec.get("ports") or ()),
    ]
    last = _LAST_WORDS.get(behaviour_of(spec, ends=ends))
    if last is None:
        lines.append(f"{began} ready")
    elif previous or "running" not in status["state"]:
        lines.append(f"{began} {last}")
    # all lines are written when the container starts
    return "".join(f"{began} {line}\n" if has_times else f"{line}\n" for line in lines)


def waiting_reason(pod: Manifest, container: str) -> str:
    """Return why a container has no log yet."""
    return str(at(_status_of(pod, container), "state", "waiting", "reason", default="ContainerCreating"))


def _status_of(pod: Manifest, container: str) -> Manifest | None:
    members = ("containerStatuses", "initContainerStatuses")
    statuses = [status for member in members for status in at(pod, "status", member) or ()]
    return next((status for status in statuses if status["name"] == container), None)


def _spec_of(pod: Manifest, container: str) -> Manifest | None:
    specs = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    return next((container_spec for container_spec in specs if container_spec["name"] == container), None)


def _began(status: Manifest, *, previous: bool) -> str | None:
    """Return when the run began that the log is of."""
    last = at(status, "lastState", "terminated", "startedAt")
    if previous:
        return None if last is None else str(last)
    now = at(status, "state", "running", "startedAt") or at(status, "state", "terminated", "startedAt") or last
    return None if now is None else str(now)


# Seconds between two reads of a file that may have grown.
_PERIOD = 0.2
_CHUNK = 256 * 1024


def log_file(runtime: ContainerRuntime | None, pod: Manifest, container: str, *, previous: bool) -> Path | None:
    """Return the file with the log of a container that runs as a process, None for a simulated one."""
    statuses = [*(at(pod, "status", "containerStatuses") or ()), *(at(pod, "status", "initContainerStatuses") or ())]
    status = next((container_status for container_status in statuses if container_status["name"] == container), None)
    if runtime is None or status is None:
        return None
    return runtime.log(uid_of(pod), container, status["restartCount"] - (1 if previous else 0))


def log_text(
    path: Path | None, pod: Manifest, container: str, *, previous: bool, has_times: bool = False
) -> str | None:
    """
    Return the log of a container so far, or of the run before; None when there was none.

    ``has_times`` begins each line of a simulated container with the time at which it was written.
    """
    if path is None:
        return log_of(pod, container, previous=previous, has_times=has_times)
    return path.read_text(encoding="utf-8", errors="replace")


def log_response(text: str, tail: str) -> Response:
    """Return a log, or its last lines."""
    return Response(200, "".join(last_lines(text, tail)).encode(), TEXT)


def last_lines(text: str, tail: str) -> list[str]:
    """Return the lines of a log, the last ones where ``tail`` is a number."""
    lines = text.splitlines(keepends=True)
    return lines[len(lines) - min(int(tail), len(lines)) :] if tail.isdecimal() else lines


def follow(path: Path, tail: str, is_running: Callable[[], bool]) -> StreamReply:
    """Return a stream of a log, from its last lines on until its container has ended."""

    def open_stream(sink: Sink) -> Callable[[], None]:
        task = asyncio.ensure_future(_copy(path, tail, is_running, sink))

        def close() -> None:
            if asyncio.current_task() is not task:  # the end of the stream closes it too
                task.cancel()

        return close

    return StreamReply(open_stream, TEXT)


async def _copy(path: Path, tail: str, is_running: Callable[[], bool], sink: Sink) -> None:
    with path.open("rb") as file:  # open until the end: the file goes with its Pod
        _send(sink, "".join(last_lines(file.read().decode("utf-8", "replace"), tail)).encode())
        is_last = False
        while not is_last:
            # Asked before the read, so that what the process wrote last is still sent.
            is_last = not is_running()
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # a log that became too large starts again
            while chunk := file.read(_CHUNK):
                _send(sink, chunk)
            await asyncio.sleep(_PERIOD)
    sink.end()


def _send(sink: Sink, chunk: bytes) -> None:
    if chunk:  # an empty chunk would end the stream
        sink.send(chunk)


_JSON_TYPES: Final = {str: "string", bool: "bool", dict: "object", list: "array"}


class Subresources:
    """Answer requests to subresources; each returns the object, or the whole response."""

    def __init__(self, cluster: SandboxCluster, tokens: Tokens, runtime: ContainerRuntime | None = None) -> None:
        self._cluster = cluster
        self._tokens = tokens
        self._runtime = runtime

    def read_scale(self, resource: ServedResource, route: RequestRoute) -> Manifest:
        """Return the Scale of an object."""
        return scale_of(self._live(resource, route), self._cluster.scale_paths(resource))

    def write_scale(
        self, resource: ServedResource, route: RequestRoute, change: Callable[[Manifest], Manifest], ctx: RequestContext
    ) -> Manifest:
        """Change the Scale of an object by a function on it, and return the new one."""
        paths = self._cluster.scale_paths(resource)
        live = self._live(resource, route)
        scale = change(scale_of(live, paths))
        version = at(scale, "metadata", "resourceVersion")
        # A Scale carries the resourceVersion of its object.
        if version and version != live["metadata"]["resourceVersion"]:
            raise errors.conflict(resource.plural, resource.group, route.name, errors.MODIFIED)
        path = paths[0] if paths else "spec.replicas"
        replicas = at(scale, "spec", "replicas") or 0
        _check_replicas(replicas, live, paths)
        return scale_of(self._cluster.writer.scale(resource, live, with_replicas(live, replicas, path), ctx), paths)

    def apply_scale(
        self, resource: ServedResource, route: RequestRoute, body: Manifest, ctx: RequestContext
    ) -> Manifest:
        """Change the Scale of an object by server-side apply, and return the new one; 409 on a conflict of owners."""
        paths = self._cluster.scale_paths(resource)
        live = self._live(resource, route)
        changed = self._cluster.writer.apply_scale(
            resource,
            live,
            scale_part(live, body, paths[0] if paths else "spec.replicas"),
            ctx,
            lambda merged: _check_replicas(at(scale_of(merged, paths), "spec", "replicas") or 0, live, paths),
        )
        return scale_of(changed, paths)

    def log(self, request: HttpRequest, resource: ServedResource, route: RequestRoute) -> Reply:
        """Return the log of a container as text, or as a stream where a client follows one of a process."""
        pod = self._live(resource, route)
        names = [container["name"] for container in at(pod, "spec", "containers", default=[])]
        container = request.query.get("container", "")
        if not container:
            if len(names) > 1:
                raise errors.bad_request(
                    f"a container name must be specified for pod {route.name}, choose one of: [{' '.join(names)}]"
                )
            container = names[0]
        elif container not in names + [c["name"] for c in at(pod, "spec", "initContainers", default=[]) or []]:
            raise errors.bad_request(f"container {container} is not valid for pod {route.name}")
        previous = request.flag("previous")
        path = log_file(self._runtime, pod, container, previous=previous)
        # not of a process: when it wrote a line is not recorded
        text = log_text(path, pod, container, previous=previous, has_times=request.flag("timestamps"))
        if text is None and previous:
            raise errors.bad_request(f'previous terminated container "{container}" in pod "{route.name}" not found')
        if text is None:
            reason = waiting_reason(pod, container)
            raise errors.bad_request(f'container "{container}" in pod "{route.name}" is waiting to start: {reason}')
        tail = request.query.get("tailLines", "")
        if path is not None and request.flag("follow"):
            return follow(path, tail, lambda: self._is_current(path, resource, route, container))
        return log_response(text, tail)

    def _is_current(self, path: Path, resource: ServedResource, route: RequestRoute, container: str) -> bool:
        """Return whether the process of this log runs."""
        pod = self._cluster.writer.current(resource, route.namespace, route.name)
        if pod is None or self._runtime is None or log_file(self._runtime, pod, container, previous=False) != path:
            return False
        return self._runtime.state(uid_of(pod), container).exit_code is None

    def port_forward(self, request: HttpRequest, resource: ServedResource, route: RequestRoute) -> Upgrade | Response:
        """Return the way to the ports of a pod, which has some where it runs as processes."""
        pod = self._live(resource, route)
        runtime = self._runtime
        is_running = runtime is not None and any(
            runtime.runs(container["image"]) for container in pod["spec"]["containers"]
        )
        return port_forward(request.headers, str(at(pod, "status", "podIP", default="")) if is_running else "")

    def evict(self, body: Manifest, resource: ServedResource, route: RequestRoute, ctx: RequestContext) -> Manifest:
        """Delete a pod unless a disruption budget forbids it."""
        pod = self._live(resource, route)
        for budget in self._cluster.list("policy", "PodDisruptionBudget", route.namespace):
            if _selects(budget, pod) and not at(budget, "status", "disruptionsAllowed"):
                raise ApiError(
                    429,
                    "TooManyRequests",
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    {
                        "causes": [
                            {
                                "reason": "DisruptionBudget",
                                "message": f"The disruption budget {budget['metadata']['name']} needs "
                                f"{at(budget, 'status', 'desiredHealthy', default=0)} healthy pods and has "
                                f"{at(budget, 'status', 'currentHealthy', default=0)} currently",
                            }
                        ]
                    },
                )
        options, dry_run = read_options(object_member(body, "deleteOptions"), {})
        ctx.dry_run = ctx.dry_run or dry_run
        self._cluster.deleter.delete(Address(resource, route.namespace, route.name), options, ctx)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def bind(self, body: Manifest, resource: ServedResource, route: RequestRoute) -> Manifest:
        """Assign a pod to a node."""
        pod = self._live(resource, route)
        node = at(body, "target", "name", default="")
        # Bound once and for all: a pod never moves.
        if at(pod, "spec", "nodeName"):
            raise errors.conflict(
                "pods/binding",
                "",
                route.name,
                f'pod {route.name} is already assigned to node "{pod["spec"]["nodeName"]}"',
            )
        self._cluster.bind({**pod, "spec": {**pod["spec"], "nodeName": node}})
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def issue_token(self, body: Manifest, resource: ServedResource, route: RequestRoute) -> Manifest:
        """Return a TokenRequest with a signed token of the service account."""
        account = self._live(resource, route)
        spec = object_member(body, "spec")
        seconds = spec.get("expirationSeconds") or 3600
        audiences = spec.get("audiences") or [AUDIENCE]
        if not isinstance(seconds, int):
            raise wrong_type(seconds, "TokenRequestSpec.spec.expirationSeconds", "int64")
        if not isinstance(audiences, list):
            raise wrong_type(audiences, "TokenRequestSpec.spec.audiences", "[]string")
        # pkg/apis/authentication/validation: ten minutes to 2^32 seconds.
        if not 600 <= seconds <= 1 << 32:
            bound = "less than 10 minutes" if seconds < 600 else "larger than 2^32 seconds"
            text = f"Invalid value: {seconds}: may not specify a duration {bound}"
            cause = StatusCause("FieldValueInvalid", text, "spec.expirationSeconds")
            raise errors.invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        now = int(self._cluster.clock.now())
        token = self._tokens.issue(
            ServiceAccount(route.namespace, route.name, account["metadata"]["uid"]), audiences, now + seconds, now
        )
        expires = timestamp(now + seconds)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": route.name,
                "namespace": route.namespace,
                "creationTimestamp": self._cluster.clock.timestamp(),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
            "status": {"token": token, "expirationTimestamp": expires},
        }

    def _live(self, resource: ServedResource, route: RequestRoute) -> Manifest:
        live = self._cluster.writer.current(resource, route.namespace, route.name)
        if live is None:
            raise errors.not_found(resource.plural, resource.group, route.name)
        return live


def _selects(budget: Manifest, pod: Manifest) -> bool:
    wanted = at(budget, "spec", "selector", "matchLabels")
    labels = pod["metadata"].get("labels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _check_replicas(replicas: int, live: Manifest, paths: ScalePaths | None) -> None:
    """Refuse what is not a number with 400, a negative one with 422; a custom resource has an error of its own."""
    if why := _not_decodable(replicas):
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {why}')
    if replicas >= 0:
        return
    name = live["metadata"]["name"]
    # Built-in kinds validate the Scale, custom resources the object that it is of.
    if paths is None:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise errors.invalid("Scale", "autoscaling", name, [StatusCause("FieldValueInvalid", text, "spec.replicas")])
    group = live["apiVersion"].rpartition("/")[0]
    text = f"Invalid value: {replicas}: should be a non-negative integer"
    raise errors.invalid(live["kind"], group, name, [StatusCause("FieldValueInvalid", text, f".{paths[0]}")])


def patched_scale(scale: Manifest) -> Manifest:
    """Return the Scale that a patch made; raise the 422 for one that cannot be decoded."""
    if why := _not_decodable(at(scale, "spec", "replicas") or 0):
        raise errors.invalid_patch(quoted(scale), why)
    return scale


def _not_decodable(replicas: Any) -> str:
    """Return why a value is not an int32, empty when it is one."""
    if isinstance(replicas, int) and not isinstance(replicas, bool):
        type_name = "" if -(1 << 31) <= replicas < 1 << 31 else f"number {replicas}"
    else:
        type_name = _JSON_TYPES.get(type(replicas), "number")
    return (
        f"json: cannot unmarshal {type_name} into Go struct field ScaleSpec.spec.replicas of type int32"
        if type_name
        else ""
    )
