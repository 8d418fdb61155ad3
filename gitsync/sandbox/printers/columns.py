"""
The columns of each built-in kind.

A description is a text of its own, or the name of the documented field whose words it borrows:
``core.v1.ConfigMap.data``. ``tools/make_column_docs.py`` collects those words.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib import resources as package_files

import orjson

from gitsync.sandbox.printers import cells_by_kind
from gitsync.sandbox.printers.cells import (
    access_modes,
    age,
    container_images,
    container_names,
    count,
    created,
    name,
    number,
    ready_of,
    selector,
    text,
)
from gitsync.sandbox.printers.table import Cell, Column
from gitsync.sandbox.registry.resources import ServedResource

_META = "meta.v1.ObjectMeta"
_NAME = Column("Name", name, f"{_META}.name", format="name")
_AGE = Column("Age", age, f"{_META}.creationTimestamp")
_CREATED_AT = Column("Created At", created, f"{_META}.creationTimestamp", "date")
_CONTAINERS = Column("Containers", container_names, "Names of each container in the template.", priority=1)
_IMAGES = Column("Images", container_images, "Images referenced by each container in the template.", priority=1)
_READY = "Number of the pod with ready state"
_WEBHOOKS = Column(
    "Webhooks",
    count("webhooks"),
    "Webhooks indicates the number of webhooks registered in this configuration",
    "integer",
)


def _selector(doc: str, *path: str) -> Column:
    return Column("Selector", selector(*path), doc, priority=1)


def _status(label: str, member: str, doc: str, kind: str = "integer") -> Column:
    return Column(label, number("status", member), f"{doc}.{member}", kind)


def _binding(what: str) -> tuple[Column, ...]:
    kind = what[0].upper() + what[1:]
    return (
        _NAME,
        Column("Role", cells_by_kind.role, f"rbac.v1.{kind}.roleRef"),
        _AGE,
        Column("Users", cells_by_kind.subjects("User"), f"Users in the {what}", priority=1),
        Column("Groups", cells_by_kind.subjects("Group"), f"Groups in the {what}", priority=1),
        Column(
            "ServiceAccounts", cells_by_kind.subjects("ServiceAccount"), f"ServiceAccounts in the {what}", priority=1
        ),
    )


def _replicas(of: str) -> tuple[Column, ...]:
    return (
        _NAME,
        Column("Desired", number("spec", "replicas"), f"{of}Spec.replicas", "integer"),
        _status("Current", "replicas", f"{of}Status"),
        _status("Ready", "readyReplicas", f"{of}Status"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _selector(f"{of}Spec.selector", "spec", "selector"),
    )


_POLICY_BINDING = (
    _NAME,
    Column(
        "PolicyName",
        text("spec", "policyName"),
        "PolicyName indicates the policy definition which the policy binding binded to",
    ),
    Column(
        "ParamRef",
        cells_by_kind.param_ref,
        "ParamRef indicates the param resource which sets the configuration param",
    ),
    _AGE,
)


def _policy(what: str, cell: Cell, description: str) -> tuple[Column, ...]:
    return (
        _NAME,
        Column(what, cell, description, "integer"),
        Column(
            "ParamKind",
            cells_by_kind.param_kind,
            "ParamKind specifies the kind of resources used to parameterize this policy",
        ),
        _AGE,
    )


_ADMISSION = "admissionregistration.k8s.io"
_METRICS = "metrics.k8s.io"
_POD = "core.v1.Pod"
_EVENT = "core.v1.Event"
_NODE_INFO = "core.v1.NodeSystemInfo"
_VOLUME = "core.v1.PersistentVolume"
_CLAIM = "core.v1.PersistentVolumeClaim"
_SCALER = "autoscaling.v2.HorizontalPodAutoscaler"
_CRON = "batch.v1.CronJob"
_CSI = "storage.v1.CSIDriverSpec"

_EVENT_COLUMNS = (
    Column("Last Seen", cells_by_kind.event_last_seen, f"{_EVENT}.lastTimestamp"),
    Column("Type", text("type", absent=""), f"{_EVENT}.type"),
    Column("Reason", text("reason", absent=""), f"{_EVENT}.reason"),
    Column("Object", cells_by_kind.event_object, f"{_EVENT}.involvedObject"),
    Column(
        "Subobject", text("involvedObject", "fieldPath", absent=""), "core.v1.ObjectReference.fieldPath", priority=1
    ),
    Column("Source", cells_by_kind.event_source, f"{_EVENT}.source", priority=1),
    Column("Message", lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip(), f"{_EVENT}.message"),
    Column("First Seen", cells_by_kind.event_first_seen, f"{_EVENT}.firstTimestamp", priority=1),
    Column("Count", cells_by_kind.event_count, f"{_EVENT}.count", priority=1),
    replace(_NAME, priority=1),
)

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        _NAME,
        Column("Ready", cells_by_kind.ready, "The aggregate readiness state of this pod for accepting traffic."),
        Column("Status", cells_by_kind.status, "The aggregate status of the containers in this pod."),
        Column(
            "Restarts",
            cells_by_kind.restarts,
            "The number of times the containers in this pod have been restarted and when the last container in "
            "this pod has restarted.",
        ),
        _AGE,
        Column("IP", cells_by_kind.ip, f"{_POD}Status.podIP", priority=1),
        Column("Node", text("spec", "nodeName"), f"{_POD}Spec.nodeName", priority=1),
        Column("Nominated Node", text("status", "nominatedNodeName"), f"{_POD}Status.nominatedNodeName", priority=1),
        Column("Readiness Gates", cells_by_kind.readiness_gates, f"{_POD}Spec.readinessGates", priority=1),
    ),
    ("", "PodTemplate"): (
        _NAME,
        replace(_CONTAINERS, priority=0),
        replace(_IMAGES, priority=0),
        Column("Pod Labels", cells_by_kind.labels, "The labels for the pod template."),
    ),
    ("", "ReplicationController"): _replicas("core.v1.ReplicationController"),
    ("apps", "ReplicaSet"): _replicas("apps.v1.ReplicaSet"),
    ("apps", "Deployment"): (
        _NAME,
        Column("Ready", ready_of(None), _READY),
        _status("Up-to-date", "updatedReplicas", "apps.v1.DeploymentStatus", "string"),
        _status("Available", "availableReplicas", "apps.v1.DeploymentStatus", "string"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _selector("apps.v1.DeploymentSpec.selector", "spec", "selector"),
    ),
    ("apps", "StatefulSet"): (_NAME, Column("Ready", ready_of(None), _READY), _AGE, _CONTAINERS, _IMAGES),
    ("apps", "DaemonSet"): (
        _NAME,
        _status("Desired", "desiredNumberScheduled", "apps.v1.DaemonSetStatus"),
        _status("Current", "currentNumberScheduled", "apps.v1.DaemonSetStatus"),
        _status("Ready", "numberReady", "apps.v1.DaemonSetStatus"),
        _status("Up-to-date", "updatedNumberScheduled", "apps.v1.DaemonSetStatus"),
        _status("Available", "numberAvailable", "apps.v1.DaemonSetStatus"),
        Column("Node Selector", selector("spec", "template", "spec", "nodeSelector"), f"{_POD}Spec.nodeSelector"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _selector("apps.v1.DaemonSetSpec.selector", "spec", "selector"),
    ),
    ("apps", "ControllerRevision"): (
        _NAME,
        Column("Controller", cells_by_kind.controller_of, "Controller of the object"),
        Column("Revision", number("revision"), "apps.v1.ControllerRevision.revision"),
        _AGE,
    ),
    ("batch", "Job"): (
        _NAME,
        Column("Status", cells_by_kind.job_status, "Status of the job."),
        Column("Completions", cells_by_kind.job_completions, "batch.v1.JobStatus.succeeded"),
        Column("Duration", cells_by_kind.job_duration, "Time required to complete the job."),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _selector("batch.v1.JobSpec.selector", "spec", "selector"),
    ),
    ("batch", "CronJob"): (
        _NAME,
        Column("Schedule", text("spec", "schedule"), f"{_CRON}Spec.schedule"),
        Column("Timezone", text("spec", "timeZone"), f"{_CRON}Spec.timeZone"),
        Column("Suspend", cells_by_kind.suspended, f"{_CRON}Spec.suspend", "boolean"),
        Column("Active", count("status", "active"), f"{_CRON}Status.active", "integer"),
        Column("Last Schedule", cells_by_kind.last_schedule, f"{_CRON}Status.lastScheduleTime"),
        _AGE,
        _CONTAINERS,
        _IMAGES,
        _selector("batch.v1.JobSpec.selector", "spec", "jobTemplate", "spec", "selector"),
    ),
    ("", "Service"): (
        _NAME,
        Column("Type", text("spec", "type"), "core.v1.ServiceSpec.type"),
        Column("Cluster-IP", cells_by_kind.cluster_ip, "core.v1.ServiceSpec.clusterIP"),
        Column("External-IP", cells_by_kind.external_ip, "core.v1.ServiceSpec.externalIPs"),
        Column("Port(s)", cells_by_kind.service_ports, "core.v1.ServiceSpec.ports"),
        _AGE,
        _selector("core.v1.ServiceSpec.selector", "spec", "selector"),
    ),
    ("networking.k8s.io", "Ingress"): (
        _NAME,
        Column(
            "Class",
            text("spec", "ingressClassName"),
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        Column(
            "Hosts",
            cells_by_kind.ingress_hosts,
            "Hosts that incoming requests are matched against before the ingress rule",
        ),
        Column(
            "Address",
            cells_by_kind.ingress_address,
            "Address is a list containing ingress points for the load-balancer",
        ),
        Column("Ports", cells_by_kind.ingress_ports, "Ports of TLS configurations that open"),
        _AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        _NAME,
        Column("Controller", text("spec", "controller"), "Controller that is responsible for handling this class"),
        Column("Parameters", cells_by_kind.ingress_parameters, "A reference to a resource with additional parameters"),
        _AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (
        _NAME,
        Column("Pod-Selector", selector("spec", "podSelector"), "networking.v1.NetworkPolicySpec.podSelector"),
        _AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        _NAME,
        Column(
            "Min Available",
            cells_by_kind.budget("spec", "minAvailable"),
            "The minimum number of pods that must be available.",
        ),
        Column(
            "Max Unavailable",
            cells_by_kind.budget("spec", "maxUnavailable"),
            "The maximum number of pods that may be unavailable.",
        ),
        Column(
            "Allowed Disruptions",
            number("status", "disruptionsAllowed"),
            "Calculated number of pods that may be disrupted at this time.",
            "integer",
        ),
        _AGE,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        _NAME,
        Column("Reference", cells_by_kind.scale_target, f"{_SCALER}Spec.scaleTargetRef"),
        Column("Targets", cells_by_kind.scale_metrics, f"{_SCALER}Spec.metrics"),
        Column("MinPods", text("spec", "minReplicas", absent="<unset>"), f"{_SCALER}Spec.minReplicas"),
        Column("MaxPods", number("spec", "maxReplicas"), f"{_SCALER}Spec.maxReplicas"),
        _status("Replicas", "currentReplicas", f"{_SCALER}Status", "string"),
        _AGE,
    ),
    ("", "ConfigMap"): (_NAME, Column("Data", cells_by_kind.data_count, "core.v1.ConfigMap.data"), _AGE),
    ("", "Secret"): (
        _NAME,
        Column("Type", text("type"), "core.v1.Secret.type"),
        Column("Data", cells_by_kind.data_count, "core.v1.Secret.data"),
        _AGE,
    ),
    ("", "ServiceAccount"): (_NAME, _AGE),
    ("", "Namespace"): (
        _NAME,
        Column("Status", text("status", "phase", absent=""), "The status of the namespace"),
        _AGE,
    ),
    ("", "Node"): (
        _NAME,
        Column("Status", cells_by_kind.node_status, "The status of the node"),
        Column("Roles", cells_by_kind.node_roles, "The roles of the node"),
        _AGE,
        Column("Version", text("status", "nodeInfo", "kubeletVersion", absent=""), f"{_NODE_INFO}.kubeletVersion"),
        Column("Internal-IP", cells_by_kind.node_address("InternalIP"), "core.v1.NodeStatus.addresses", priority=1),
        Column("External-IP", cells_by_kind.node_address("ExternalIP"), "core.v1.NodeStatus.addresses", priority=1),
        Column(
            "OS-Image", text("status", "nodeInfo", "osImage", absent="<unknown>"), f"{_NODE_INFO}.osImage", priority=1
        ),
        Column(
            "Kernel-Version",
            text("status", "nodeInfo", "kernelVersion", absent="<unknown>"),
            f"{_NODE_INFO}.kernelVersion",
            priority=1,
        ),
        Column(
            "Container-Runtime",
            text("status", "nodeInfo", "containerRuntimeVersion", absent="<unknown>"),
            f"{_NODE_INFO}.containerRuntimeVersion",
            priority=1,
        ),
    ),
    ("", "Event"): _EVENT_COLUMNS,
    ("events.k8s.io", "Event"): _EVENT_COLUMNS,
    ("", "Endpoints"): (_NAME, Column("Endpoints", cells_by_kind.endpoints, "core.v1.Endpoints.subsets"), _AGE),
    ("discovery.k8s.io", "EndpointSlice"): (
        _NAME,
        Column("AddressType", text("addressType"), "discovery.v1.EndpointSlice.addressType"),
        Column("Ports", cells_by_kind.slice_ports, "discovery.v1.EndpointSlice.ports"),
        Column("Endpoints", cells_by_kind.slice_endpoints, "discovery.v1.EndpointSlice.endpoints"),
        _AGE,
    ),
    ("", "PersistentVolume"): (
        _NAME,
        Column("Capacity", text("spec", "capacity", "storage", absent=""), f"{_VOLUME}Spec.capacity"),
        Column("Access Modes", access_modes("spec", "accessModes"), f"{_VOLUME}Spec.accessModes"),
        Column(
            "Reclaim Policy",
            text("spec", "persistentVolumeReclaimPolicy", absent=""),
            f"{_VOLUME}Spec.persistentVolumeReclaimPolicy",
        ),
        Column("Status", cells_by_kind.phase, f"{_VOLUME}Status.phase"),
        Column("Claim", cells_by_kind.claim, f"{_VOLUME}Spec.claimRef"),
        Column("StorageClass", text("spec", "storageClassName", absent=""), "StorageClass of the pv"),
        Column(
            "VolumeAttributesClass",
            text("spec", "volumeAttributesClassName", absent="<unset>"),
            "VolumeAttributesClass of the pv",
        ),
        Column("Reason", text("status", "reason", absent=""), f"{_VOLUME}Status.reason"),
        _AGE,
        Column("VolumeMode", text("spec", "volumeMode", absent="<unset>"), f"{_VOLUME}Spec.volumeMode", priority=1),
    ),
    ("", "PersistentVolumeClaim"): (
        _NAME,
        Column("Status", cells_by_kind.phase, f"{_CLAIM}Status.phase"),
        Column("Volume", text("spec", "volumeName", absent=""), f"{_CLAIM}Spec.volumeName"),
        Column("Capacity", cells_by_kind.bound_capacity, f"{_CLAIM}Status.capacity"),
        Column("Access Modes", cells_by_kind.bound_access_modes, f"{_CLAIM}Status.accessModes"),
        Column("StorageClass", text("spec", "storageClassName", absent=""), "StorageClass of the pvc"),
        Column(
            "VolumeAttributesClass",
            text("spec", "volumeAttributesClassName", absent="<unset>"),
            "VolumeAttributesClass of the pvc",
        ),
        _AGE,
        Column("VolumeMode", text("spec", "volumeMode", absent="<unset>"), f"{_CLAIM}Spec.volumeMode", priority=1),
    ),
    ("storage.k8s.io", "StorageClass"): (
        replace(_NAME, cell=cells_by_kind.class_name),
        Column("Provisioner", text("provisioner"), "storage.v1.StorageClass.provisioner"),
        Column("ReclaimPolicy", text("reclaimPolicy", absent="Delete"), "storage.v1.StorageClass.reclaimPolicy"),
        Column(
            "VolumeBindingMode",
            text("volumeBindingMode", absent="Immediate"),
            "storage.v1.StorageClass.volumeBindingMode",
        ),
        Column(
            "AllowVolumeExpansion",
            lambda obj, now: bool(obj.get("allowVolumeExpansion")),
            "storage.v1.StorageClass.allowVolumeExpansion",
        ),
        _AGE,
    ),
    ("storage.k8s.io", "CSIDriver"): (
        _NAME,
        Column(
            "AttachRequired",
            lambda obj, now: obj["spec"].get("attachRequired", True),
            f"{_CSI}.attachRequired",
            "boolean",
        ),
        Column(
            "PodInfoOnMount",
            lambda obj, now: obj["spec"].get("podInfoOnMount", False),
            f"{_CSI}.podInfoOnMount",
            "boolean",
        ),
        Column(
            "StorageCapacity",
            lambda obj, now: obj["spec"].get("storageCapacity", False),
            f"{_CSI}.storageCapacity",
            "boolean",
        ),
        Column(
            "TokenRequests",
            lambda obj, now: ",".join(item["audience"] for item in obj["spec"].get("tokenRequests") or []) or "<unset>",
            f"{_CSI}.tokenRequests",
        ),
        Column(
            "RequiresRepublish",
            lambda obj, now: obj["spec"].get("requiresRepublish", False),
            f"{_CSI}.requiresRepublish",
            "boolean",
        ),
        Column(
            "Modes",
            lambda obj, now: ",".join(obj["spec"].get("volumeLifecycleModes") or ["Persistent"]),
            f"{_CSI}.volumeLifecycleModes",
        ),
        _AGE,
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding("roleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding("clusterRoleBinding"),
    ("coordination.k8s.io", "Lease"): (
        _NAME,
        Column("Holder", text("spec", "holderIdentity", absent=""), "coordination.v1.LeaseSpec.holderIdentity"),
        _AGE,
    ),
    ("", "ResourceQuota"): (
        _NAME,
        Column(
            "Request",
            cells_by_kind.quota(("limits.",), True),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        Column(
            "Limit",
            cells_by_kind.quota(("limits.",), False),
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention "
            "on the node.",
        ),
        _AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        _NAME,
        Column("Value", number("value"), "scheduling.v1.PriorityClass.value", "integer"),
        Column(
            "Global-Default",
            lambda obj, now: bool(obj.get("globalDefault")),
            "scheduling.v1.PriorityClass.globalDefault",
            "boolean",
        ),
        _AGE,
        Column("PreemptionPolicy", text("preemptionPolicy"), "scheduling.v1.PriorityClass.preemptionPolicy"),
    ),
    ("node.k8s.io", "RuntimeClass"): (
        _NAME,
        Column("Handler", text("handler")),
        _AGE,
    ),
    ("resource.k8s.io", "DeviceClass"): (_NAME, _AGE),
    ("resource.k8s.io", "ResourceClaimTemplate"): (_NAME, _AGE),
    ("resource.k8s.io", "ResourceClaim"): (
        _NAME,
        Column(
            "State",
            cells_by_kind.claim_state,
            "A summary of the current state (allocated, pending, reserved, etc.).",
        ),
        _AGE,
    ),
    (_ADMISSION, "ValidatingWebhookConfiguration"): (_NAME, _WEBHOOKS, _AGE),
    (_ADMISSION, "MutatingWebhookConfiguration"): (_NAME, _WEBHOOKS, _AGE),
    (_ADMISSION, "ValidatingAdmissionPolicy"): _policy(
        "Validations",
        count("spec", "validations"),
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    (_ADMISSION, "MutatingAdmissionPolicy"): _policy(
        "Mutations",
        count("spec", "mutations"),
        "Mutation indicates the number of mutations rules defined in this configuration",
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("storage.k8s.io", "CSINode"): (
        _NAME,
        Column(
            "Drivers",
            count("spec", "drivers"),
            "Drivers indicates the number of CSI drivers registered on the node",
            "integer",
        ),
        _AGE,
    ),
    ("apiregistration.k8s.io", "APIService"): (
        _NAME,
        Column(
            "Service", cells_by_kind.aggregated_service, "The reference to the service that hosts this API endpoint."
        ),
        Column("Available", cells_by_kind.availability, "Whether this service is available."),
        _AGE,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): (
        _NAME,
        Column("DriverName", text("driverName"), "storage.v1.VolumeAttributesClass.driverName"),
        _AGE,
    ),
    ("storage.k8s.io", "VolumeAttachment"): (
        _NAME,
        Column("Attacher", text("spec", "attacher"), "storage.v1.VolumeAttachmentSpec.attacher", format="name"),
        Column(
            "PV",
            text("spec", "source", "persistentVolumeName", absent=""),
            "storage.v1.VolumeAttachmentSource.persistentVolumeName",
        ),
        Column("Node", text("spec", "nodeName"), "storage.v1.VolumeAttachmentSpec.nodeName"),
        Column(
            "Attached",
            lambda obj, now: bool((obj.get("status") or {}).get("attached")),
            "storage.v1.VolumeAttachmentStatus.attached",
            "boolean",
        ),
        _AGE,
    ),
}

_METRICS_CPU = "CPU usage, in nanocores."
_METRICS_MEMORY = "Memory usage, in kibibytes."
_WINDOW = Column("Window", text("window"), "The time that the usage was measured over.")
_COLUMNS[_METRICS, "NodeMetrics"] = (
    _NAME,
    Column("CPU", text("usage", "cpu"), _METRICS_CPU),
    Column("Memory", text("usage", "memory"), _METRICS_MEMORY),
    _WINDOW,
)
_COLUMNS[_METRICS, "PodMetrics"] = (
    _NAME,
    Column("CPU", cells_by_kind.used("cpu"), _METRICS_CPU),
    Column("Memory", cells_by_kind.used("memory"), _METRICS_MEMORY),
    _WINDOW,
)
_PLAIN = (_NAME, _CREATED_AT)


@functools.cache
def _docs() -> dict[str, str]:
    raw = package_files.files("gitsync.sandbox").joinpath("data", "column_docs.json").read_bytes()
    docs: dict[str, str] = orjson.loads(raw)
    return docs


def documented_fields() -> set[str]:
    """Return the names of the fields whose documentation columns borrow."""
    columns = [column for columns_of_kind in _COLUMNS.values() for column in columns_of_kind] + list(_PLAIN)
    return {column.description for column in columns if column.description and " " not in column.description}


@functools.cache
def _described(key: tuple[str, str]) -> tuple[Column, ...]:
    columns = _COLUMNS.get(key, _PLAIN)
    docs = _docs()
    return tuple(replace(column, description=docs.get(column.description, column.description)) for column in columns)


def columns_of(resource: ServedResource) -> tuple[Column, ...]:
    """Return the columns of a built-in resource."""
    return _described((resource.group, resource.kind))
