"""
Facts about the server's Go types that OpenAPI lacks: pointers, members written as null, type names.

A member that is a pointer keeps its zero value (``replicas: 0``); any other drops it (``hostPort: 0``).
"""

from __future__ import annotations


def _pairs(table: dict[str, str]) -> frozenset[str]:
    return frozenset(f"{struct}.{member}" for struct, members in table.items() for member in members.split())


ZERO_QUANTITY = frozenset({"ResourceFieldSelector.divisor"})
"""Quantities that are not pointers in Go, so that an absent one is written as 0."""

KEEPS_EMPTY = frozenset({"ObjectMeta.managedFields"})
"""Lists whose empty value is kept: an empty managedFields clears the ownership of all fields."""

KEEPS_ZERO = _pairs(
    {
        # apps
        "DaemonSetSpec": "revisionHistoryLimit",
        "DaemonSetStatus": "collisionCount",
        "DeploymentSpec": "progressDeadlineSeconds replicas revisionHistoryLimit",
        "DeploymentStatus": "collisionCount terminatingReplicas",
        "ReplicaSetSpec": "replicas",
        "ReplicaSetStatus": "terminatingReplicas",
        "RollingUpdateStatefulSetStrategy": "partition",
        "StatefulSetSpec": "replicas revisionHistoryLimit",
        "StatefulSetStatus": "collisionCount",
        "ReplicationControllerSpec": "replicas",
        # autoscaling
        "HorizontalPodAutoscalerSpec": "minReplicas targetCPUUtilizationPercentage",
        "HorizontalPodAutoscalerStatus": "observedGeneration currentCPUUtilizationPercentage",
        "HPAScalingRules": "stabilizationWindowSeconds selectPolicy",
        "MetricTarget": "averageUtilization",
        "MetricValueStatus": "averageUtilization",
        # batch
        "CronJobSpec": "failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone",
        "JobSpec": "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy"
        " manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend ttlSecondsAfterFinished",
        "JobStatus": "failedIndexes ready terminating",
        "PodFailurePolicyOnExitCodesRequirement": "containerName",
        "SuccessPolicyRule": "succeededCount succeededIndexes",
        # coordination
        "LeaseSpec": "holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy",
        # core: pods
        "Container": "restartPolicy",
        "EphemeralContainer": "restartPolicy",
        "ContainerStatus": "started stopSignal",
        "Lifecycle": "stopSignal",
        "PodDNSConfigOption": "value",
        "PodResourceClaim": "resourceClaimName resourceClaimTemplateName",
        "PodSecurityContext": "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy"
        " supplementalGroupsPolicy",
        "PodSchedulingGroup": "podGroupName",
        "PodSpec": "activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers hostnameOverride"
        " preemptionPolicy priority runtimeClassName setHostnameAsFQDN shareProcessNamespace"
        " terminationGracePeriodSeconds",
        "Probe": "terminationGracePeriodSeconds",
        "SecurityContext": "allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup"
        " runAsNonRoot runAsUser",
        "SeccompProfile": "localhostProfile",
        "AppArmorProfile": "localhostProfile",
        "Toleration": "tolerationSeconds",
        "TopologySpreadConstraint": "minDomains nodeAffinityPolicy nodeTaintsPolicy",
        "VolumeMount": "mountPropagation recursiveReadOnly",
        "VolumeMountStatus": "recursiveReadOnly",
        "WindowsSecurityContextOptions": "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName",
        "ConfigMapEnvSource": "optional",
        "ConfigMapKeySelector": "optional",
        "SecretEnvSource": "optional",
        "SecretKeySelector": "optional",
        "FileKeySelector": "optional",
        # core: volumes
        "AzureDiskVolumeSource": "cachingMode fsType readOnly kind",
        "AzureFilePersistentVolumeSource": "secretNamespace",
        "CSIVolumeSource": "fsType readOnly",
        "ClusterTrustBundleProjection": "name optional signerName",
        "ConfigMapProjection": "optional",
        "ConfigMapVolumeSource": "defaultMode optional",
        "DownwardAPIVolumeFile": "mode",
        "DownwardAPIVolumeSource": "defaultMode",
        "FCVolumeSource": "lun",
        "GlusterfsPersistentVolumeSource": "endpointsNamespace",
        "HostPathVolumeSource": "type",
        "ISCSIPersistentVolumeSource": "initiatorName",
        "ISCSIVolumeSource": "initiatorName",
        "KeyToPath": "mode",
        "LocalVolumeSource": "fsType",
        "PodCertificateProjection": "maxExpirationSeconds",
        "ProjectedVolumeSource": "defaultMode",
        "SecretProjection": "optional",
        "SecretVolumeSource": "defaultMode optional",
        "ServiceAccountTokenProjection": "expirationSeconds",
        # core: the rest
        "ClientIPConfig": "timeoutSeconds",
        "ConfigMap": "immutable",
        "EndpointAddress": "nodeName",
        "EndpointPort": "appProtocol",
        "GRPCAction": "service",
        "LoadBalancerIngress": "ipMode",
        "NodeSwapStatus": "capacity",
        "PersistentVolumeClaimSpec": "storageClassName volumeAttributesClassName volumeMode",
        "PersistentVolumeClaimStatus": "currentVolumeAttributesClassName",
        "PersistentVolumeSpec": "volumeAttributesClassName volumeMode",
        "PortStatus": "error",
        "Secret": "immutable",
        "ServiceAccount": "automountServiceAccountToken",
        "ServicePort": "appProtocol",
        "ServiceSpec": "allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass"
        " trafficDistribution",
        "TypedLocalObjectReference": "apiGroup",
        "TypedObjectReference": "apiGroup namespace",
        # discovery, networking, policy
        "Endpoint": "hostname nodeName zone",
        "EndpointConditions": "ready serving terminating",
        "HTTPIngressPath": "pathType",
        "IngressClassParametersReference": "apiGroup namespace scope",
        "IngressPortStatus": "error",
        "IngressSpec": "ingressClassName",
        "NetworkPolicyPort": "endPort protocol",
        "PodDisruptionBudgetSpec": "unhealthyPodEvictionPolicy",
        # scheduling, storage, node
        "PriorityClass": "preemptionPolicy",
        "CSIDriverSpec": "attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount"
        " preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets storageCapacity",
        "StorageClass": "allowVolumeExpansion reclaimPolicy volumeBindingMode",
        "TokenRequest": "expirationSeconds",
        "VolumeAttachmentSource": "persistentVolumeName",
        "VolumeError": "errorCode",
        "VolumeNodeResources": "count",
        "CertificateSigningRequestSpec": "expirationSeconds",
        # devices
        "ResourceSliceSpec": "nodeName allNodes perDeviceNodeSelection",
        "Device": "nodeName allNodes bindsToNode allowMultipleAllocations",
        "DeviceAttribute": "int bool string version",
        "ExactDeviceRequest": "adminAccess",
        "DeviceConstraint": "matchAttribute distinctAttribute",
        "DeviceToleration": "tolerationSeconds",
        "DeviceRequestAllocationResult": "adminAccess",
        "DeviceClassSpec": "extendedResourceName",
        "AllocatedDeviceStatus": "shareID",
        # flow control, admission and extension
        "ExemptPriorityLevelConfiguration": "lendablePercent nominalConcurrencyShares",
        "LimitedPriorityLevelConfiguration": "borrowingLimitPercent lendablePercent nominalConcurrencyShares",
        "MatchResources": "matchPolicy",
        "MutatingWebhook": "failurePolicy matchPolicy reinvocationPolicy sideEffects timeoutSeconds",
        "ValidatingWebhook": "failurePolicy matchPolicy sideEffects timeoutSeconds",
        "NamedRuleWithOperations": "scope",
        "RuleWithOperations": "scope",
        "ParamRef": "parameterNotFoundAction",
        "ServiceReference": "path port",
        "MutatingAdmissionPolicySpec": "failurePolicy",
        "ValidatingAdmissionPolicySpec": "failurePolicy",
        "Validation": "reason",
        "WebhookClientConfig": "url",
        "CustomResourceDefinitionVersion": "deprecationWarning",
        "CustomResourceSubresourceScale": "labelSelectorPath",
        "JSONSchemaProps": "maxItems maxLength maxProperties maximum minItems minLength minProperties minimum"
        " multipleOf x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-preserve-unknown-fields",
        "ValidationRule": "optionalOldSelf reason",
        # meta
        "DeleteOptions": "gracePeriodSeconds orphanDependents propagationPolicy",
        "ListMeta": "remainingItemCount",
        "ObjectMeta": "deletionGracePeriodSeconds",
        "OwnerReference": "blockOwnerDeletion controller",
        "Preconditions": "resourceVersion uid",
    }
)
"""Members that are pointers to a plain value."""

DROPS_DEFAULT = _pairs(
    {
        "ReplicationControllerSpec": "minReadySeconds",
        "LocalObjectReference": "name",
        "ConfigMapEnvSource": "name",
        "ConfigMapKeySelector": "name",
        "ConfigMapProjection": "name",
        "ConfigMapVolumeSource": "name",
        "SecretEnvSource": "name",
        "SecretKeySelector": "name",
        "SecretProjection": "name",
    }
)
"""Members whose zero is declared as default, and is still left out."""

NULL_WHEN_ABSENT = _pairs(
    {
        "ClusterRole": "rules",
        "Role": "rules",
        "HorizontalPodAutoscalerStatus": "currentMetrics",
        "DeviceClaim": "requests",
        "CSINodeDriver": "topologyKeys",
        "AllocatedDeviceStatus": "conditions",
        "CustomResourceDefinitionStatus": "conditions storedVersions",
        "TypedLocalObjectReference": "apiGroup",
        "TypedObjectReference": "apiGroup",
        "Event": "eventTime firstTimestamp lastTimestamp deprecatedFirstTimestamp deprecatedLastTimestamp",
        "EventSeries": "lastObservedTime",
        "APIServiceCondition": "lastTransitionTime",
        "ContainerStateRunning": "startedAt",
        "ContainerStateTerminated": "finishedAt startedAt",
        "CustomResourceDefinitionCondition": "lastTransitionTime",
        "DaemonSetCondition": "lastTransitionTime",
        "DeploymentCondition": "lastTransitionTime lastUpdateTime",
        "HorizontalPodAutoscalerCondition": "lastTransitionTime",
        "JobCondition": "lastProbeTime lastTransitionTime",
        "NamespaceCondition": "lastTransitionTime",
        "NodeCondition": "lastHeartbeatTime lastTransitionTime",
        "PersistentVolumeClaimCondition": "lastProbeTime lastTransitionTime",
        "PodCondition": "lastProbeTime lastTransitionTime",
        "ReplicaSetCondition": "lastTransitionTime",
        "ReplicationControllerCondition": "lastTransitionTime",
        "StatefulSetCondition": "lastTransitionTime",
    }
)
"""Members that are written as null when they have no value."""

_RAW = (
    "runtime.RawExtension",
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
    "meta.v1.FieldsV1",
    "meta.v1.Patch",
)

_NAMED_STRINGS = {
    "Container.imagePullPolicy": "v1.PullPolicy",
    "Container.terminationMessagePolicy": "v1.TerminationMessagePolicy",
    "ContainerPort.protocol": "v1.Protocol",
    "CronJobSpec.concurrencyPolicy": "v1.ConcurrencyPolicy",
    "DeploymentStrategy.type": "v1.DeploymentStrategyType",
    "PodSpec.dnsPolicy": "v1.DNSPolicy",
    "PodSpec.restartPolicy": "v1.RestartPolicy",
    "Secret.type": "v1.SecretType",
    "ServicePort.protocol": "v1.Protocol",
    "ServiceSpec.type": "v1.ServiceType",
    "StatefulSetSpec.podManagementPolicy": "v1.PodManagementPolicyType",
}


def is_raw(schema: str) -> bool:
    """Return whether the type keeps whatever JSON it is given."""
    return schema.endswith(_RAW)


def go_type_of(name: str, *, member: bool = False) -> str:
    """Return a Go type as messages name it: of a schema, or of a string member given as ``Struct.member``."""
    if member:
        return _NAMED_STRINGS.get(name, "string")
    return ".".join(name.rsplit(".", 2)[-2:])
