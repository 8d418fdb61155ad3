"""Table cells of pods, Services, Ingresses, Jobs, autoscalers, events, nodes, storage and RBAC."""

from __future__ import annotations

from typing import Any

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.printers.cells import NONE, UNKNOWN, access_modes, human_duration, joined, since

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_ROLE_LABEL = "node-role.kubernetes.io/"


def cluster_ip(service: Manifest, now: float) -> str:
    """Return the first cluster address."""
    ips = at(service, "spec", "clusterIPs") or []
    return str(ips[0] if ips else at(service, "spec", "clusterIP") or NONE)


def external_ip(service: Manifest, now: float) -> str:
    """Return where a Service is reached from outside."""
    spec = service["spec"]
    external_ips = list(spec.get("externalIPs") or [])
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind == "LoadBalancer":
        balanced = _ingress_points(service)
        return joined(balanced + external_ips) if balanced or external_ips else "<pending>"
    return joined(external_ips)


def service_ports(service: Manifest, now: float) -> str:
    """Return the ports of a Service with node ports and protocols."""
    return joined(
        [
            f"{port['port']}:{port['nodePort']}/{port['protocol']}"
            if port.get("nodePort")
            else f"{port['port']}/{port['protocol']}"
            for port in at(service, "spec", "ports") or []
        ]
    )


def ingress_hosts(ingress: Manifest, now: float) -> str:
    """Return the first hosts of an Ingress."""
    hosts = [rule["host"] for rule in at(ingress, "spec", "rules") or [] if rule.get("host")]
    return _some(hosts) if hosts else "*"


def ingress_address(ingress: Manifest, now: float) -> str:
    """Return where an Ingress is reached."""
    return ",".join(_ingress_points(ingress))


def ingress_ports(ingress: Manifest, now: float) -> str:
    """Return the ports an Ingress opens."""
    return "80, 443" if at(ingress, "spec", "tls") else "80"


def ingress_parameters(ingress_class: Manifest, now: float) -> str:
    """Return what an IngressClass refers to."""
    parameters = at(ingress_class, "spec", "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def endpoints(obj: Manifest, now: float) -> str:
    """Return the addresses of an Endpoints object."""
    addresses: list[str] = []
    for subset in obj.get("subsets") or []:
        ports = subset.get("ports") or []
        ips = [address["ip"] for address in subset.get("addresses") or []]
        hosts = [f"[{ip}]" if ":" in ip else ip for ip in ips]
        addresses.extend(f"{host}:{port['port']}" for port in ports for host in hosts)
        if not ports:
            addresses.extend(ips)
    return _some(addresses) if addresses else NONE


def slice_ports(obj: Manifest, now: float) -> str:
    """Return the ports of an EndpointSlice."""
    ports = obj.get("ports") or []
    return _some([str(port.get("port", "*")) for port in ports]) if ports else "<unset>"


def slice_endpoints(obj: Manifest, now: float) -> str:
    """Return the addresses of an EndpointSlice."""
    addresses = [address for endpoint in obj.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    return _some(addresses) if addresses else "<unset>"


def job_status(job: Manifest, now: float) -> str:
    """Return what a Job is at."""
    true = {item["type"] for item in at(job, "status", "conditions") or [] if item.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget") if kind in true), "Running")


def job_completions(job: Manifest, now: float) -> str:
    """Return how many pods of a Job succeeded, of how many."""
    done = at(job, "status", "succeeded") or 0
    wanted = at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(job, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def job_duration(job: Manifest, now: float) -> str:
    """Return how long a Job took, or has been running."""
    start = at(job, "status", "startTime")
    end = at(job, "status", "completionTime")
    if not start:
        return ""
    return human_duration((seconds_of(end) if end else now) - seconds_of(start))


def suspended(obj: Manifest, now: float) -> str:
    """Return whether a CronJob is suspended."""
    return "True" if at(obj, "spec", "suspend") else "False"


def last_schedule(obj: Manifest, now: float) -> str:
    """Return when a CronJob was last started."""
    scheduled_at = at(obj, "status", "lastScheduleTime")
    return since(scheduled_at, now) if scheduled_at else NONE


def scale_target(autoscaler: Manifest, now: float) -> str:
    """Return what an autoscaler scales."""
    target = at(autoscaler, "spec", "scaleTargetRef", default={})
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def scale_metrics(autoscaler: Manifest, now: float) -> str:
    """Return what an autoscaler measures, and what it wants."""
    spec = autoscaler["spec"]
    status = autoscaler.get("status") or {}
    metrics = spec.get("metrics")
    if metrics is None and "targetCPUUtilizationPercentage" in spec:
        current = status.get("currentCPUUtilizationPercentage")
        shown = f"{current}%" if current is not None else UNKNOWN
        return f"cpu: {shown}/{spec['targetCPUUtilizationPercentage']}%"
    if not metrics:
        return NONE
    current_metrics = status.get("currentMetrics") or []
    shown_metrics = [
        _metric(metric, current_metrics[i] if i < len(current_metrics) else {}) for i, metric in enumerate(metrics)
    ]
    # Two metrics fit into the column.
    more = len(shown_metrics) - 2
    return ", ".join(shown_metrics[:2]) + (f" + {more} more..." if more > 0 else "")


def _metric(metric: Manifest, current: Manifest) -> str:
    kind = metric["type"]
    member = kind[0].lower() + kind[1:]
    wanted = metric.get(member) or {}
    measured = current.get(member) or {}
    target = wanted.get("target") or {}
    current_values = measured.get("current") or {}
    label = f"{wanted.get('name')}: " if kind in ("Resource", "ContainerResource") else ""
    if "averageUtilization" in target:
        value = current_values.get("averageUtilization")
        return f"{label}{f'{value}%' if value is not None else UNKNOWN}/{target['averageUtilization']}%"
    if "averageValue" in target:
        suffix = "" if label or kind == "Pods" else " (avg)"
        return f"{label}{current_values.get('averageValue') or UNKNOWN}/{target['averageValue']}{suffix}"
    return f"{label}{current_values.get('value') or UNKNOWN}/{target.get('value')}"


def event_last_seen(event: Manifest, now: float) -> str:
    """Return when an event was last seen."""
    series = at(event, "series", "lastObservedTime")
    return since(series or event.get("lastTimestamp") or event.get("eventTime"), now)


def event_first_seen(event: Manifest, now: float) -> str:
    """Return when an event was first seen."""
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def event_object(event: Manifest, now: float) -> str:
    """Return what an event is about."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_source(event: Manifest, now: float) -> str:
    """Return who wrote an event."""
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(part for part in (component, host) if part)


def event_count(event: Manifest, now: float) -> int:
    """Return how often an event was seen."""
    return int(at(event, "series", "count") or event.get("count") or event.get("deprecatedCount") or 1)


def node_status(node: Manifest, now: float) -> str:
    """Return whether a node is ready."""
    ready = [item for item in at(node, "status", "conditions") or [] if item.get("type") == "Ready"]
    text = "Unknown"
    if ready:
        text = "Ready" if ready[0].get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if at(node, "spec", "unschedulable") else text


def node_roles(node: Manifest, now: float) -> str:
    """Return the roles in a node's labels."""
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return joined(sorted(roles))


def node_address(kind: str) -> Any:
    """Return a cell of a node's address of a kind."""

    def cell(node: Manifest, now: float) -> str:
        for address in at(node, "status", "addresses") or []:
            if address.get("type") == kind:
                return str(address["address"])
        return NONE

    return cell


def claim(volume: Manifest, now: float) -> str:
    """Return the claim a volume is bound to."""
    reference = at(volume, "spec", "claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def phase(obj: Manifest, now: float) -> str:
    """Return the phase of a volume or claim."""
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(at(obj, "status", "phase", default=""))


def bound_capacity(obj: Manifest, now: float) -> str:
    """Return the capacity of a claim that is bound."""
    return str(at(obj, "status", "capacity", "storage", default="")) if at(obj, "spec", "volumeName") else ""


def bound_access_modes(obj: Manifest, now: float) -> str:
    """Return the access modes of a claim that is bound."""
    return str(access_modes("status", "accessModes")(obj, now)) if at(obj, "spec", "volumeName") else ""


def class_name(obj: Manifest, now: float) -> str:
    """Return the name of a StorageClass, and whether it is the default."""
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return f"{obj['metadata']['name']} (default)" if default else str(obj["metadata"]["name"])


def role(binding: Manifest, now: float) -> str:
    """Return what a binding grants."""
    role_ref = binding.get("roleRef") or {}
    return f"{role_ref.get('kind', '')}/{role_ref.get('name', '')}"


def subjects(kind: str) -> Any:
    """Return a cell of the subjects of a kind that a binding names."""

    def cell(binding: Manifest, now: float) -> str:
        named = [item for item in binding.get("subjects") or [] if item.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{item.get('namespace', '')}/{item['name']}" for item in named)
        return ", ".join(item["name"] for item in named)

    return cell


def quota(prefixes: tuple[str, ...], others: bool) -> Any:
    """Return a cell of a quota's used and hard amounts, of limits or of everything else."""

    def cell(obj: Manifest, now: float) -> str:
        hard = at(obj, "status", "hard") or {}
        used = at(obj, "status", "used") or {}
        names = [name for name in sorted(hard) if name.startswith(prefixes) is not others]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def budget(*path: str) -> Any:
    """Return a cell of a disruption budget's bound."""

    def cell(obj: Manifest, now: float) -> str:
        value = at(obj, *path)
        return "N/A" if value is None else str(value)

    return cell


def used(resource: str) -> Any:
    """Return a cell of what the containers of a PodMetrics use together, in the unit of each amount."""

    def cell(metrics: Manifest, now: float) -> str:
        amounts = [container["usage"][resource] for container in metrics["containers"]]
        unit = amounts[0].lstrip("0123456789") if amounts else ""
        return f"{sum(int(amount.removesuffix(unit)) for amount in amounts)}{unit}"

    return cell


def data_count(obj: Manifest, now: float) -> int:
    """Return how many keys a ConfigMap or Secret has."""
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def controller_of(obj: Manifest, now: float) -> str:
    """Return the controller among the owners."""
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = owner["kind"].lower()
            return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return NONE


def claim_state(claim: Manifest, now: float) -> str:
    """Return whether a ResourceClaim has its devices, and who uses them."""
    status = claim.get("status") or {}
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    if status.get("allocation"):
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return ",".join(states or ["pending"])


def param_kind(obj: Manifest, now: float) -> str:
    """Return the kind that parameterises a policy."""
    kind = at(obj, "spec", "paramKind")
    return f"{kind['apiVersion']}/{kind['kind']}" if kind else "<unset>"


def param_ref(obj: Manifest, now: float) -> str:
    """Return the object that parameterises a policy binding."""
    reference = at(obj, "spec", "paramRef")
    if not reference:
        return "<unset>"
    name = reference.get("name", "*")
    return f"{reference['namespace']}/{name}" if reference.get("namespace") else str(name)


def aggregated_service(obj: Manifest, now: float) -> str:
    """Return the Service behind an APIService."""
    service = at(obj, "spec", "service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def availability(obj: Manifest, now: float) -> str:
    """Return whether an APIService is available, and why it is not."""
    for condition in at(obj, "status", "conditions") or ():
        if condition["type"] == "Available":
            shows_reason = condition["status"] != "True" and condition.get("reason")
            return f"{condition['status']} ({condition['reason']})" if shows_reason else str(condition["status"])
    return "Unknown"


def _ingress_points(obj: Manifest) -> list[str]:
    return [
        str(point.get("ip") or point.get("hostname") or "")
        for point in at(obj, "status", "loadBalancer", "ingress") or []
    ]


def _some(values: list[str], most: int = 3) -> str:
    # Three at most, as printers of Kubernetes cut (formatEndpoints).
    shown = ",".join(values[:most])
    return f"{shown} + {len(values) - most} more..." if len(values) > most else shown


def ready(pod: Manifest, now: float) -> str:
    """Return ``ready/total`` containers; sidecars count."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec", "containers") or []) + len(sidecars)
    statuses = at(pod, "status", "containerStatuses") or []
    done = sum(1 for status in statuses if status.get("ready") and at(status, "state", "running") is not None)
    for status in at(pod, "status", "initContainerStatuses") or []:
        if status["name"] in sidecars and status.get("started") and status.get("ready"):
            done += 1
    return f"{done}/{total}"


def status(pod: Manifest, now: float) -> str:
    """Return the reason or phase that matters most."""
    reason = str(at(pod, "status", "reason") or at(pod, "status", "phase") or "")
    for condition in at(pod, "status", "conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initial, initializing = _initializing(pod)
    if initializing:
        reason = initial
    if not initializing or _initialized(pod):
        reason = _containers_reason(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if at(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status", "phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def restarts(pod: Manifest, now: float) -> str:
    """Return how often containers restarted, and when last."""
    statuses = list(at(pod, "status", "containerStatuses") or [])
    initial, initializing = _initializing(pod)
    if initializing and initial:
        statuses = at(pod, "status", "initContainerStatuses") or []
    total = sum(item.get("restartCount") or 0 for item in statuses)
    ended = [at(item, "lastState", "terminated", "finishedAt") for item in statuses]
    times = [seconds_of(time) for time in ended if time]
    if not total or not times:
        return str(total)
    return f"{total} ({human_duration(now - max(times))} ago)"


def ip(pod: Manifest, now: float) -> str:
    """Return the first address."""
    ips = at(pod, "status", "podIPs") or []
    return str((ips[0].get("ip") if ips else at(pod, "status", "podIP")) or NONE)


def readiness_gates(pod: Manifest, now: float) -> str:
    """Return how many readiness gates are met."""
    gates = at(pod, "spec", "readinessGates") or []
    if not gates:
        return NONE
    met = {
        condition["type"] for condition in at(pod, "status", "conditions") or [] if condition.get("status") == "True"
    }
    return f"{sum(1 for gate in gates if gate['conditionType'] in met)}/{len(gates)}"


def labels(obj: Manifest, now: float) -> str:
    """Return the labels of a pod template."""
    labels = at(obj, "template", "metadata", "labels") or {}
    return joined([f"{key}={value}" for key, value in sorted(labels.items())])


def _sidecars(pod: Manifest) -> set[str]:
    return {
        container["name"]
        for container in at(pod, "spec", "initContainers") or []
        if container.get("restartPolicy") == "Always"
    }


def _initializing(pod: Manifest) -> tuple[str, bool]:
    """Return what the first unfinished init container is at, and whether there is one."""
    containers = at(pod, "spec", "initContainers") or []
    sidecars = _sidecars(pod)
    for index, item in enumerate(at(pod, "status", "initContainerStatuses") or []):
        terminated = at(item, "state", "terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if item["name"] in sidecars and item.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ending(terminated)}", True
        waiting = at(item, "state", "waiting", "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}", True
        return f"Init:{index}/{len(containers)}", True
    return "", False


def _initialized(pod: Manifest) -> bool:
    return any(
        condition.get("type") == "Initialized" and condition.get("status") == "True"
        for condition in at(pod, "status", "conditions") or []
    )


def _containers_reason(pod: Manifest, reason: str) -> str:
    running = False
    # Backwards, so that the first container's reason is the one that stays.
    for item in reversed(at(pod, "status", "containerStatuses") or []):
        waiting = at(item, "state", "waiting", "reason")
        terminated: Any = at(item, "state", "terminated")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _ending(terminated)
        elif item.get("ready") and at(item, "state", "running") is not None:
            running = True
    if reason == "Completed" and running:
        is_ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in at(pod, "status", "conditions") or []
        )
        return "Running" if is_ready else "NotReady"
    return reason


def _ending(terminated: Manifest) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
