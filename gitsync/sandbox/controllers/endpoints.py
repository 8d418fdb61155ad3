"""Endpoints and EndpointSlices: the addresses of the pods behind a Service."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, at, labels_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, is_deleting, key_of, owner_reference, without_empty

_NAME = "kubernetes.io/service-name"
_MANAGED = "endpointslice.kubernetes.io/managed-by"
_HEADLESS = "service.kubernetes.io/headless"
_TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"
_CONTROLLER = "endpointslice-controller.k8s.io"


class EndpointsController(SandboxController):
    """Write the addresses of the pods that a Service selects, in the old form and the new."""

    name = "endpoints"
    watches = frozenset({("", "Service"), ("", "Pod"), ("discovery.k8s.io", "EndpointSlice"), ("", "Endpoints")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Queue the Service, those that select or selected the pod, or the one whose EndpointSlice was deleted."""
        namespace = obj["metadata"].get("namespace", "")
        if obj["kind"] == "Service":
            self.enqueue(key_of(obj))
        elif obj["kind"] == "Pod":
            if old is None or event == "DELETED" or _answer(obj) != _answer(old):
                for service in self.api.list("", "Service", namespace):
                    if any(_selects(service, pod) for pod in (obj, old or obj)):
                        self.enqueue(key_of(service))
        # What was deleted by hand is written again.
        elif event == "DELETED":
            self.enqueue((namespace, labels_of(obj).get(_NAME) or obj["metadata"]["name"]))

    def reconcile(self, key: Key) -> None:
        """Write both objects of one Service, or delete what is left of it."""
        service = self.api.get("", "Service", *key)
        # The slice goes with its owner, Endpoints have none in the old controller.
        if service is None:
            self.api.delete(ObjectRef("", "Endpoints", *key))
            return
        if is_deleting(service) or not service["spec"].get("selector") or service["spec"]["type"] == "ExternalName":
            return
        # An index by labels; the selector of a Service is a plain map.
        selected = self.api.list("", "Pod", key[0], service["spec"]["selector"])
        answering = sorted(
            (pod for pod in selected if at(pod, "status", "podIP") and not pods.is_finished(pod)),
            key=lambda pod: pod["metadata"]["name"],
        )
        self._write_endpoints(service, answering)
        self._write_slice(service, answering)

    def _write_endpoints(self, service: Manifest, answering: list[Manifest]) -> None:
        namespace, name = key_of(service)
        subsets = _subsets(service, [pod for pod in answering if not is_deleting(pod)])
        known = self.api.get("", "Endpoints", namespace, name)
        if known is None:
            labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
            metadata = {"name": name, "namespace": namespace, **self._marks(service, labels)}
            created = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
            self.api.create(without_empty(created), manager=MANAGER)
        elif (known.get("subsets") or []) != subsets:
            changed = {**known, "metadata": {**known["metadata"], **self._marks(known, {})}, "subsets": subsets}
            self.api.update(without_empty(changed), manager=MANAGER)

    def _write_slice(self, service: Manifest, answering: list[Manifest]) -> None:
        namespace, name = key_of(service)
        endpoints = [_endpoint(pod) for pod in answering]
        # Named target ports are resolved by the first pod: pods that resolve differently would need slices of their
        # own.
        ports = [_port(port, answering[0], named=True) for port in service["spec"].get("ports") or () if answering]
        known = next(
            (
                port
                for port in self.api.owned_by(uid_of(service))
                if port["kind"] == "EndpointSlice" and labels_of(port).get(_MANAGED) == _CONTROLLER
            ),
            None,
        )
        if known is None:
            metadata = {
                "generateName": f"{name}-",
                "namespace": namespace,
                **self._marks(service, {_MANAGED: _CONTROLLER, _NAME: name}),
                "ownerReferences": [owner_reference(service)],
            }
            created = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": metadata,
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            }
            self.api.create(created, manager=MANAGER)
        elif (known.get("endpoints") or [], known.get("ports") or []) != (endpoints, ports):
            metadata = {**known["metadata"], **self._marks(known, {})}
            changed = {**known, "metadata": metadata, "endpoints": endpoints, "ports": ports}
            self.api.update(changed, manager=MANAGER)

    def _marks(self, source: Manifest, labels: dict[str, str]) -> Manifest:
        """Return the labels and annotations of an object that is made for a Service or changed."""
        # kube-proxy ignores objects with this label.
        headless = {_HEADLESS: ""} if at(source, "spec", "clusterIP") == "None" else {}
        return {
            "labels": {**labels_of(source), **labels, **headless},
            "annotations": {_TRIGGERED: self.context.now()},
        }


def _selects(service: Manifest, pod: Manifest) -> bool:
    selector = service["spec"].get("selector")
    return bool(selector) and pods.has_labels(pod, selector)


def _answer(pod: Manifest) -> tuple[object, ...]:
    """Return what of a pod its Services speak of."""
    return (
        at(pod, "status", "podIP"),
        pods.is_ready(pod),
        pods.is_finished(pod),
        is_deleting(pod),
        labels_of(pod),
    )


def _port(port: Manifest, pod: Manifest, *, named: bool) -> Manifest:
    """Return a port of the Service as its pods answer it; ``named`` keeps an empty name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, str):
        containers = at(pod, "spec", "containers") or ()
        numbers = [
            numbered["containerPort"]
            for container in containers
            for numbered in container.get("ports") or ()
            if numbered.get("name") == target
        ]
        target = numbers[0] if numbers else port["port"]
    members = {"name": port.get("name", ""), "port": target, "protocol": port.get("protocol", "TCP")}
    return members if named else without_empty(members)


def _subsets(service: Manifest, answering: list[Manifest]) -> list[Manifest]:
    if not answering:
        return []
    ports = [_port(port, answering[0], named=False) for port in service["spec"].get("ports") or ()]
    unready_too = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = [_address(pod) for pod in answering if unready_too or pods.is_ready(pod)]
    waiting = [_address(pod) for pod in answering if not (unready_too or pods.is_ready(pod))]
    return [without_empty({"addresses": ready, "notReadyAddresses": waiting, "ports": ports})]


def _address(pod: Manifest) -> Manifest:
    return {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": _target(pod)}


def _target(pod: Manifest) -> Manifest:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _endpoint(pod: Manifest) -> Manifest:
    ready = pods.is_ready(pod)
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            # KEP-1672: a terminating pod may still serve, but gets no new connections.
            "ready": ready and not is_deleting(pod),
            "serving": ready,
            "terminating": is_deleting(pod),
        },
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": _target(pod),
    }
