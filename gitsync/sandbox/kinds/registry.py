"""Lookup of the rules and the schema of a kind."""

from __future__ import annotations

import functools

from gitsync.kube.openapi import ResourceType, openapi_schemas, resources
from gitsync.sandbox.crd.definition import validate_definition
from gitsync.sandbox.kinds import admission, cluster, config, counts, events, jobs, rbac, scaling, storage, workloads
from gitsync.sandbox.kinds.defaults import others as small
from gitsync.sandbox.kinds.defaults import prepare
from gitsync.sandbox.kinds.defaults import workloads as workloads_defaults
from gitsync.sandbox.kinds.defaults.pods import default_pod
from gitsync.sandbox.kinds.networking import endpoints, ingress, services
from gitsync.sandbox.kinds.networking.addresses import prepare_service
from gitsync.sandbox.kinds.pods import pod
from gitsync.sandbox.kinds.strategy import POD_SPECS, BuiltIn, KindRules, RuleTable
from gitsync.sandbox.kinds.system import api_server, certificates, devices, machines
from gitsync.sandbox.registry.contract import Strategy
from gitsync.sandbox.schema.decode import Codec
from gitsync.sandbox.validation.metadata import MetadataChecks
from gitsync.sandbox.validation.names import dns_label, path_segment

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"

_GENERIC = MetadataChecks(update=0, whole=0)
_UPDATE = MetadataChecks(whole=0)
_WHOLE = MetadataChecks(update=0)
_PLAIN = MetadataChecks(names=False)
"""Which functions the kind's Validate…Update of pkg/apis/*/validation calls on the metadata."""

_RULES: RuleTable = {
    ("", "Pod"): KindRules(
        default_pod, validate=pod.validate_pod, first_status=prepare.first_pod_status, generation=True
    ),
    ("", "PodTemplate"): KindRules(
        workloads_defaults.default_pod_template,
        validate=workloads.validate_pod_template,
        generation=True,
        metadata=_UPDATE,
    ),
    ("", "ReplicationController"): KindRules(
        workloads_defaults.default_replication_controller,
        validate=workloads.validate_replication_controller,
        validate_status=counts.REPLICA_SET.validate,
        generation=True,
        metadata=_UPDATE,
    ),
    ("", "Service"): KindRules(
        small.default_service, prepare_service, services.validate_service, name=dns_label, metadata=_UPDATE
    ),
    ("", "Endpoints"): KindRules(small.default_endpoints, validate=endpoints.validate_endpoints),
    ("", "ConfigMap"): KindRules(validate=config.validate_config_map),
    ("", "Secret"): KindRules(small.default_secret, validate=config.validate_secret),
    ("", "ServiceAccount"): KindRules(prepare=prepare.prepare_account),
    ("", "Event"): KindRules(validate=events.validate_event, metadata=_GENERIC),
    ("storage.k8s.io", "VolumeAttributesClass"): KindRules(
        prepare=prepare.prepare_attributes_class, validate=storage.validate_attributes_class
    ),
    ("storage.k8s.io", "CSIStorageCapacity"): KindRules(
        validate=storage.validate_capacity, needs_resource_version=True
    ),
    ("", "Node"): KindRules(small.default_node, prepare.prepare_node, machines.validate_node),
    ("storage.k8s.io", "CSINode"): KindRules(validate=machines.validate_csi_node, needs_resource_version=True),
    ("storage.k8s.io", "VolumeAttachment"): KindRules(
        validate=machines.validate_attachment, needs_resource_version=True
    ),
    ("events.k8s.io", "Event"): KindRules(validate=events.validate_new_event, metadata=_UPDATE),
    ("", "PersistentVolumeClaim"): KindRules(
        small.default_claim, prepare.prepare_claim, storage.validate_claim, first_status=prepare.first_claim_status
    ),
    ("", "PersistentVolume"): KindRules(
        small.default_volume,
        prepare.prepare_volume,
        storage.validate_volume,
        metadata=MetadataChecks(update=0, whole=2),
    ),
    ("", "Namespace"): KindRules(
        small.default_namespace, prepare.prepare_namespace, first_status=prepare.first_namespace_status, name=dns_label
    ),
    ("", "ResourceQuota"): KindRules(validate=cluster.validate_quota, metadata=_UPDATE),
    ("", "LimitRange"): KindRules(small.default_limit_range, validate=cluster.validate_limit_range),
    ("apps", "Deployment"): KindRules(
        workloads_defaults.default_deployment,
        validate=workloads.validate_deployment,
        validate_status=counts.DEPLOYMENT.validate,
        status_keeps=("labels",),
        generation=True,
        generation_metadata=("annotations",),  # the controller copies them to its ReplicaSets
        metadata=_UPDATE,
    ),
    ("apps", "ReplicaSet"): KindRules(
        workloads_defaults.default_replica_set,
        validate=workloads.validate_replica_set,
        validate_status=counts.REPLICA_SET.validate,
        generation=True,
        metadata=_UPDATE,
    ),
    ("apps", "StatefulSet"): KindRules(
        workloads_defaults.default_stateful_set,
        prepare.prepare_stateful_set,
        validate=workloads.validate_stateful_set,
        validate_status=counts.STATEFUL_SET.validate,
        generation=True,
        metadata=_UPDATE,
    ),
    ("apps", "DaemonSet"): KindRules(
        workloads_defaults.default_daemon_set,
        prepare.prepare_daemon_set,
        workloads.validate_daemon_set,
        counts.DAEMON_SET.validate,
        prepare_status=prepare.prepare_daemon_set,
        generation=True,
        metadata=_UPDATE,
    ),
    ("apps", "ControllerRevision"): KindRules(validate=workloads.validate_controller_revision),
    ("batch", "Job"): KindRules(
        workloads_defaults.default_job,
        prepare.prepare_job,
        jobs.validate_job,
        jobs.validate_job_status,
        generation=True,
    ),
    ("batch", "CronJob"): KindRules(
        workloads_defaults.default_cron_job,
        validate=jobs.validate_cron_job,
        name=jobs.cron_job_name,
        generation=True,
        metadata=_UPDATE,
    ),
    ("discovery.k8s.io", "EndpointSlice"): KindRules(
        small.default_endpoint_slice,
        prepare.prepare_endpoint_slice,
        validate=endpoints.validate_endpoint_slice,
        generation=True,
        generation_metadata=("labels",),
        metadata=_WHOLE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): KindRules(
        small.default_network_policy, validate=ingress.validate_network_policy, generation=True, metadata=_UPDATE
    ),
    ("networking.k8s.io", "IngressClass"): KindRules(
        small.default_ingress_class, validate=ingress.validate_ingress_class, generation=True
    ),
    ("networking.k8s.io", "ServiceCIDR"): KindRules(validate=services.validate_service_cidr, metadata=_UPDATE),
    ("certificates.k8s.io", "CertificateSigningRequest"): KindRules(
        prepare=certificates.prepare_request, validate=certificates.validate_request, name=path_segment
    ),
    ("networking.k8s.io", "Ingress"): KindRules(validate=ingress.validate_ingress, generation=True),
    ("policy", "PodDisruptionBudget"): KindRules(
        validate=scaling.validate_budget,
        validate_status=counts.BUDGET.validate,
        generation=True,
        metadata=_GENERIC,
        needs_resource_version=True,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): KindRules(
        small.default_autoscaler,
        validate=scaling.validate_autoscaler,
        validate_status=counts.AUTOSCALER.validate,
        metadata=_UPDATE,
    ),
    ("autoscaling/v1", "HorizontalPodAutoscaler"): KindRules(
        small.default_autoscaler_v1,
        validate=scaling.validate_autoscaler,
        validate_status=counts.AUTOSCALER.validate,
        metadata=_UPDATE,
    ),
    ("storage.k8s.io", "StorageClass"): KindRules(small.default_storage_class, validate=storage.validate_storage_class),
    ("storage.k8s.io", "CSIDriver"): KindRules(
        small.default_csi_driver,
        prepare.prepare_csi_driver,
        storage.validate_csi_driver,
        metadata=_UPDATE,
        needs_resource_version=True,
    ),
    (_RBAC, "Role"): KindRules(prepare=prepare.prepare_role, validate=rbac.validate_role, name=path_segment),
    (_RBAC, "ClusterRole"): KindRules(
        prepare=prepare.prepare_role, validate=rbac.validate_cluster_role, name=path_segment
    ),
    (_RBAC, "RoleBinding"): KindRules(small.default_binding, validate=rbac.validate_role_binding, name=path_segment),
    (_RBAC, "ClusterRoleBinding"): KindRules(
        small.default_binding, validate=rbac.validate_cluster_role_binding, name=path_segment
    ),
    ("scheduling.k8s.io", "PriorityClass"): KindRules(
        small.default_priority_class, validate=cluster.validate_priority_class, generation=True
    ),
    ("resource.k8s.io", "ResourceClaim"): KindRules(devices.default_claim, validate=devices.validate_claim),
    ("resource.k8s.io", "ResourceClaimTemplate"): KindRules(
        devices.default_template, validate=devices.validate_template, metadata=_UPDATE
    ),
    ("resource.k8s.io", "DeviceClass"): KindRules(validate=devices.validate_class, generation=True),
    ("resource.k8s.io", "ResourceSlice"): KindRules(generation=True, metadata=_UPDATE),
    ("node.k8s.io", "RuntimeClass"): KindRules(
        validate=cluster.validate_runtime_class, metadata=_PLAIN, needs_resource_version=True
    ),
    ("coordination.k8s.io", "Lease"): KindRules(
        prepare=prepare.prepare_lease,
        validate=cluster.validate_lease,
        metadata=MetadataChecks(whole=0, names=False),
        needs_resource_version=True,
    ),
    (_ADMISSION, "ValidatingWebhookConfiguration"): KindRules(
        small.default_webhooks, validate=admission.validate_webhooks, generation=True, needs_resource_version=True
    ),
    (_ADMISSION, "MutatingWebhookConfiguration"): KindRules(
        small.default_mutating_webhooks,
        validate=admission.validate_webhooks,
        generation=True,
        needs_resource_version=True,
    ),
    (_ADMISSION, "ValidatingAdmissionPolicy"): KindRules(
        small.default_policy, validate=admission.validate_policy, generation=True, needs_resource_version=True
    ),
    (_ADMISSION, "MutatingAdmissionPolicy"): KindRules(
        small.default_policy, generation=True, needs_resource_version=True
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): KindRules(
        small.default_policy_binding,
        validate=admission.validate_policy_binding,
        generation=True,
        needs_resource_version=True,
    ),
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): KindRules(
        small.default_policy_binding, generation=True, needs_resource_version=True
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): KindRules(
        small.default_flow_schema, validate=api_server.validate_flow_schema, generation=True
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): KindRules(
        small.default_priority_level, validate=api_server.validate_priority_level, generation=True
    ),
    ("apiregistration.k8s.io", "APIService"): KindRules(
        small.default_api_service,
        validate=api_server.validate_api_service,
        metadata=_PLAIN,
        needs_resource_version=True,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(
        small.default_definition,
        prepare.prepare_definition,
        validate_definition,
        first_status=prepare.first_definition_status,
        generation=True,
        metadata=_PLAIN,
    ),
}

_NO_RULES = KindRules()


@functools.cache
def strategy_for(group: str, version: str, kind: str) -> Strategy:
    """Return the strategy of a built-in kind; raise KeyError for a kind that Kubernetes does not have."""
    resource = _resources()[group, version, kind]
    has_status = any(sub.name == "status" for sub in resource.subresources)
    codec = _codec(resource.api_version)
    # The row of one version comes before that of the group.
    rules = _RULES.get((resource.api_version, kind)) or _RULES.get((group, kind), _NO_RULES)
    return BuiltIn(
        kind=kind,
        version=version,
        codec=codec,
        # Numbers that the server computed wrap at 32 bits as Go's conversions do; those of a client are refused.
        converter=_codec(resource.api_version, wraps=True),
        schema=codec.name_of(group, version, kind),
        rules=rules,
        namespaced=resource.namespaced,
        has_status=has_status,
        has_generation=rules.generation,
        pod_spec=POD_SPECS.get((group, kind)),
    )


@functools.cache
def _codec(group_version: str, *, wraps: bool = False) -> Codec:
    return Codec(openapi_schemas(group_version), wraps=wraps)


@functools.cache
def _resources() -> dict[tuple[str, str, str], ResourceType]:
    return {(resource.group, resource.version, resource.kind): resource for resource in resources()}
