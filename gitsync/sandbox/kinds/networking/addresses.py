"""Addresses and ports of a Service: allocated when it is created, kept and released when it changes."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import ApiError, StatusCause, invalid
from gitsync.sandbox.registry.contract import WriteContext

_HAS_CLUSTER_IP = frozenset({"ClusterIP", "NodePort", "LoadBalancer"})
_HAS_NODE_PORTS = frozenset({"NodePort", "LoadBalancer"})
_CLUSTER_MEMBERS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def prepare_service(new: Manifest, old: Manifest | None, env: WriteContext) -> Manifest:
    """Return the Service with its addresses and node ports; one that had them keeps them."""
    spec: dict[str, Any] = dict(new["spec"])
    old_spec: dict[str, Any] = old["spec"] if old is not None else {}
    if old_spec:
        # Before what is kept: a member that the new type lacks must not be restored.
        _release(spec, old_spec)
        _keep_allocated(spec, old_spec)
    name = new["metadata"].get("name", "")
    if spec.get("type") in _HAS_CLUSTER_IP:
        _assign_cluster_ip(spec, old_spec, name, env)
        _assign_families(spec, old_spec)
    if _needs_node_ports(spec):
        _assign_node_ports(spec, old_spec, name, env)
    if _needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = env.allocate_port()
    return {**new, "spec": spec}


def _needs_node_ports(spec: dict[str, Any]) -> bool:
    if spec.get("type") == "LoadBalancer":
        wanted = spec.get("allocateLoadBalancerNodePorts", True)
        return bool(wanted) or any(port.get("nodePort") for port in spec.get("ports", ()))
    return spec.get("type") == "NodePort"


def _needs_health_port(spec: dict[str, Any]) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _release(spec: dict[str, Any], old_spec: dict[str, Any]) -> None:
    """Take away what the new type does not have, where the client sent it back unchanged."""
    if spec["type"] not in _HAS_CLUSTER_IP and old_spec["type"] in _HAS_CLUSTER_IP:
        for member in _CLUSTER_MEMBERS:
            # A client that reads, changes the type and writes sends the old addresses along; another value is its own
            # mistake.
            if spec.get(member) == old_spec.get(member):
                spec.pop(member, None)
    if old_spec["type"] in _HAS_NODE_PORTS and spec["type"] not in _HAS_NODE_PORTS:
        old_ports = {port.get("nodePort") for port in old_spec.get("ports", ())}
        spec["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort" or value not in old_ports}
            for port in spec.get("ports", ())
        ]
        for member in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"):
            if not spec.get("externalIPs"):
                spec.pop(member, None)
    if spec["type"] != "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)
    if not _needs_health_port(spec) and spec.get("healthCheckNodePort") == old_spec.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)
    if not spec.get("ports", True):
        del spec["ports"]


def _keep_allocated(spec: dict[str, Any], old_spec: dict[str, Any]) -> None:
    """Fill in what the client left out and the stored Service has."""
    if spec["type"] in _HAS_CLUSTER_IP and old_spec["type"] in _HAS_CLUSTER_IP:
        # Leaving out an allocated address keeps it: manifests rarely name it.
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            for member in ("clusterIP", "clusterIPs"):
                if member in old_spec:
                    spec[member] = old_spec[member]
        elif spec.get("clusterIP") != old_spec.get("clusterIP") and spec.get("clusterIPs") == old_spec.get(
            "clusterIPs"
        ):
            spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else old_spec["clusterIPs"]
            spec["clusterIP"] = spec["clusterIPs"][0]
    if spec["type"] in _HAS_NODE_PORTS and old_spec["type"] in _HAS_NODE_PORTS:
        stored = {_key(port): port["nodePort"] for port in old_spec.get("ports", ()) if port.get("nodePort")}
        taken = {port.get("nodePort") for port in spec.get("ports", ())}
        ports = []
        for port in spec.get("ports", ()):
            kept = stored.get(_key(port))
            # Unless another port of the same write asks for that number.
            if not port.get("nodePort") and kept and kept not in taken:
                port = {**port, "nodePort": kept}
            ports.append(port)
        if ports:
            spec["ports"] = ports
    if _needs_health_port(spec) and _needs_health_port(old_spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = old_spec.get("healthCheckNodePort")


def _key(port: dict[str, Any]) -> tuple[str, int]:
    return port.get("protocol", "TCP"), port["port"]


def _assign_cluster_ip(spec: dict[str, Any], old_spec: dict[str, Any], name: str, env: WriteContext) -> None:
    wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    held = old_spec.get("clusterIP") if old_spec.get("type") in _HAS_CLUSTER_IP else None
    if not wanted:
        wanted = env.allocate_ip()
    # A headless Service has no address, and one that is held is not allocated again.
    elif wanted != "None" and not held:
        try:
            wanted = env.allocate_ip(wanted)
        except ApiError as error:
            # The allocator knows neither Service nor field.
            raise _named(error, name, "spec.clusterIPs") from None
    spec["clusterIP"] = wanted
    spec["clusterIPs"] = [wanted, *(spec.get("clusterIPs") or [])[1:]]


def _assign_families(spec: dict[str, Any], old_spec: dict[str, Any]) -> None:
    if "ipFamilyPolicy" not in spec and "ipFamilyPolicy" in old_spec:
        spec["ipFamilyPolicy"] = old_spec["ipFamilyPolicy"]
        spec.setdefault("ipFamilies", old_spec.get("ipFamilies", ["IPv4"]))
    # Its endpoints are written by hand and may be of any family (pkg/registry/core/service/storage/alloc.go).
    headless_alone = spec["clusterIP"] == "None" and not spec.get("selector")
    if headless_alone and "ipFamilyPolicy" not in spec and len(spec.get("ipFamilies", ())) != 1:
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
        spec["ipFamilyPolicy"] = "RequireDualStack"
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _assign_node_ports(spec: dict[str, Any], old_spec: dict[str, Any], name: str, env: WriteContext) -> None:
    held = {port.get("nodePort") for port in old_spec.get("ports", ())}
    ports: list[dict[str, Any]] = []
    for index, port in enumerate(spec.get("ports", ())):
        wanted = port.get("nodePort", 0)
        automatic = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
        if (wanted and wanted not in held) or (not wanted and automatic):
            # DNS by TCP and UDP on one number, for example.
            shared = next((done["nodePort"] for done in ports if _shares(done, port, wanted)), 0)
            try:
                port = {**port, "nodePort": shared or env.allocate_port(wanted)}
            except ApiError as error:
                raise _named(error, name, f"spec.ports[{index}].nodePort") from None
        ports.append(port)
    if ports:
        spec["ports"] = ports


def _shares(allocated: dict[str, Any], port: dict[str, Any], wanted: int) -> bool:
    """Return whether the port may use the node port of one before it: same number, other protocol."""
    if not allocated.get("nodePort") or allocated["port"] != port["port"] or allocated["protocol"] == port["protocol"]:
        return False
    return not wanted or wanted == allocated["nodePort"]


def _named(error: ApiError, name: str, field: str) -> ApiError:
    """Return the refusal of an allocation for this Service and field."""
    texts = [cause["message"] for cause in error.details.get("causes", ())]
    return invalid("Service", "", name, [StatusCause("FieldValueInvalid", text, field) for text in texts])
