"""
Unions: members of a type that exclude each other, such as the sources of a volume.

A default of the API server has no owner, so that no apply removes it: ``strategy: {type: Recreate}`` beside the default
``rollingUpdate`` of the former type is refused for good. What a new choice excludes has to be removed with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge.fieldset import Path
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.manifest import Manifest
from gitsync.plan.equality import indexed


@dataclass(frozen=True, slots=True)
class Union:
    """
    Members of a type of which one may be set.

    With a discriminator, a member may be set where that has the member's value.
    """

    members: Mapping[str, str]
    discriminator: str = ""

    def excluded(self, desired: Mapping[str, Any], live: Mapping[str, Any]) -> frozenset[str]:
        """Return the live members that a new choice of the desired value excludes; an old choice excludes none."""
        present = frozenset(self.members) & live.keys() - desired.keys()
        if self.discriminator:
            choice = desired.get(self.discriminator)
            is_new = choice is not None and choice != live.get(self.discriminator)
            return frozenset(name for name in present if self.members[name] != choice) if is_new else frozenset()
        # where the declared member is live already, the other one was valid beside it
        is_new = any(name in desired and name not in live for name in self.members)
        return present if is_new else frozenset()


def _one_of(*members: str) -> Union:
    return Union(dict.fromkeys(members, ""))


_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_FLOW = "io.k8s.api.flowcontrol.v1."
_ROLLING = Union({"rollingUpdate": "RollingUpdate"}, "type")
_UNIONS: Final[Mapping[str, Union]] = {
    # pkg/apis/apps/validation: "may not be specified when strategy type is Recreate", and its like
    f"{_APPS}DeploymentStrategy": _ROLLING,
    f"{_APPS}StatefulSetUpdateStrategy": _ROLLING,
    f"{_APPS}DaemonSetUpdateStrategy": _ROLLING,
    # pkg/apis/core/validation: ValidateService, validateEnv, validateHandler
    f"{_CORE}ServiceSpec": Union({"sessionAffinityConfig": "ClientIP"}, "sessionAffinity"),
    f"{_CORE}EnvVar": _one_of("value", "valueFrom"),
    f"{_CORE}EnvVarSource": _one_of("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    f"{_CORE}Probe": _one_of("exec", "grpc", "httpGet", "tcpSocket"),
    f"{_CORE}LifecycleHandler": _one_of("exec", "httpGet", "sleep", "tcpSocket"),
    f"{_CORE}PodResourceClaim": _one_of("resourceClaimName", "resourceClaimTemplateName"),
    # pkg/apis/networking/validation: validateIngressBackend
    "io.k8s.api.networking.v1.IngressBackend": _one_of("resource", "service"),
    "io.k8s.api.networking.v1.ServiceBackendPort": _one_of("name", "number"),
    # pkg/apis/policy/validation: "minAvailable and maxUnavailable cannot be both set"
    "io.k8s.api.policy.v1.PodDisruptionBudgetSpec": _one_of("maxUnavailable", "minAvailable"),
    # pkg/apis/flowcontrol/validation
    f"{_FLOW}PriorityLevelConfigurationSpec": Union({"exempt": "Exempt", "limited": "Limited"}, "type"),
    f"{_FLOW}LimitResponse": Union({"queuing": "Queue"}, "type"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion": Union(
        {"webhook": "Webhook"}, "strategy"
    ),
}
"""The unions that Kubernetes validates although its OpenAPI documents do not say so, by schema, with their source."""


def excluded_members(schema: Schema | None, desired: Manifest, live: Manifest) -> tuple[Path, ...]:
    """Return the paths of live members that what Git declares excludes, of any owner."""
    return tuple(_excluded(schema or DEDUCED, desired, live, ()))


def _excluded(schema: Schema, desired: Any, live: Any, path: Path) -> Iterator[Path]:
    if type(desired) is dict and type(live) is dict and not schema.map_atomic:
        union = _union_of(schema)
        if union is not None:
            yield from ((*path, f"f:{name}") for name in sorted(union.excluded(desired, live)))
        for name in desired.keys() & live.keys():
            below = schema.fields[name]
            # what is undescribed has no unions
            if below is not None and below is not DEDUCED:
                yield from _excluded(below, desired[name], live[name], (*path, f"f:{name}"))
    elif type(desired) is list and type(live) is list and schema.list_type == "map" and schema.items is not None:
        live_items = indexed(schema, live) or {}
        for element, (_, item) in (indexed(schema, desired) or {}).items():
            if element in live_items:
                yield from _excluded(schema.items, item, live_items[element][1], (*path, element))


def _union_of(schema: Schema) -> Union | None:
    # of all its members but the name, at most one may be set (validateVolumeSource)
    if schema.name == f"{_CORE}Volume":
        return _one_of(*(schema.declared - {"name"}))
    return _UNIONS.get(schema.name) or _published(schema)


def _published(schema: Schema) -> Union | None:
    """Return the union that the OpenAPI document declares (``x-kubernetes-unions``)."""
    if not schema.union:
        return None
    return Union(schema.union["fields-to-discriminateBy"], str(schema.union.get("discriminator") or ""))
