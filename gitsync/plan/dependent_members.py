"""
Members that depend on others: unions such as the sources of a volume, and defaults such as the pull policy of an image.

A default of the API server has no owner, so that no apply removes it: ``strategy: {type: Recreate}`` beside the default
``rollingUpdate`` of the former type is refused for good, and a NetworkPolicy that gets egress rules does not enforce
them by its former default ``policyTypes``. What a new choice makes stale has to be removed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge.fieldset import Node, Path
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.change import Difference, FieldDifference
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest
from gitsync.plan.equality import indexed
from gitsync.plan.field_owners import applied_fields, node_at, owners_of


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
_VOLUME = f"{_CORE}Volume"
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


def _pull_policy(container: Mapping[str, Any]) -> str:
    """Return the default for an image (pkg/apis/core/v1/defaults.go: SetDefaults_Container)."""
    image = str(container.get("image") or "")
    name, has_digest, _ = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or has_digest) else "IfNotPresent"


def _policy_types(spec: Mapping[str, Any]) -> list[str]:
    """Return the default for the rules of a NetworkPolicy (pkg/apis/networking/v1/defaults.go)."""
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


_DEFAULTS: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Any]]]] = {
    f"{_CORE}Container": ("imagePullPolicy", _pull_policy),
    "io.k8s.api.networking.v1.NetworkPolicySpec": ("policyTypes", _policy_types),
}
"""Members whose default follows from other members, by schema: the member, and its default for an object."""

_MIRRORED: Final = {f"{_CORE}PodSpec": ("serviceAccountName", "serviceAccount")}
"""
Members of which the API server sets each to the other one, by schema: a field and its deprecated alias.

Removed alone, a field comes back from its alias, which has no owner (pkg/apis/core/v1/conversion.go: PodSpec), so that
Pods would go on as an account that Git has taken from them.
"""


_NESTING: Final = frozenset({dict, list})
"""Values that may have members."""
_ALIASES: Final = frozenset(member for pair in _MIRRORED.values() for member in pair)


def stale_members(
    schema: Schema | None, desired: Manifest, live: Manifest, manager: str = FIELD_MANAGER
) -> tuple[Path, ...]:
    """Return the paths of live members that what Git declares makes stale, of any owner."""
    paths = tuple(_stale(schema or DEDUCED, desired, live, (), applied_fields(live, manager) or {}))
    mirrored = {path for path in paths if path[-1].removeprefix("f:") in _ALIASES}
    if not mirrored:
        return paths
    others = owners_of(live, manager).others
    # what another manager owns comes back with each apply, and its alias with it
    foreign = {path[:-1] for path in mirrored if node_at(others, path) is not None}
    return tuple(path for path in paths if path not in mirrored or path[:-1] not in foreign)


def _stale(schema: Schema, desired: Any, live: Any, path: Path, ours: Node) -> Iterator[Path]:
    """Yield the stale members of a value; ``ours`` is what we own of it."""
    if type(desired) is dict and type(live) is dict and not schema.map_atomic:
        union = _union_of(schema)
        if union is not None:
            yield from ((*path, f"f:{name}") for name in sorted(union.excluded(desired, live)))
        # a Pod itself gets its account from an admission plugin, and never another one
        if schema.name in _MIRRORED and len(path) > 1:
            yield from ((*path, f"f:{name}") for name in _mirrored(schema, desired, live))
        member, default = _DEFAULTS.get(schema.name, ("", None))
        if default is not None and member not in desired and live.get(member) == default(live):
            # as after the apply: what we own and Git does not declare is removed, and what others set stays
            remaining = {name: value for name, value in live.items() if f"f:{name}" not in ours}
            if default({**remaining, **desired}) != live[member]:
                yield (*path, f"f:{member}")
        for name, value in desired.items():
            # most are scalars; what is equal has no member that Git does not declare
            if type(value) not in _NESTING or name not in live or value == live[name]:
                continue
            below = schema.fields[name]
            # what is undescribed has no unions
            if below is not None and below is not DEDUCED:
                element = f"f:{name}"
                yield from _stale(below, value, live[name], (*path, element), ours.get(element) or {})
    elif type(desired) is list and type(live) is list and schema.list_type == "map" and schema.items is not None:
        live_items = indexed(schema, live) or {}
        for element, (_, item) in (indexed(schema, desired) or {}).items():
            if element in live_items:
                there = live_items[element][1]
                yield from _stale(schema.items, item, there, (*path, element), ours.get(element) or {})


def kept_members(desired: Manifest, live: Manifest, manager: str = FIELD_MANAGER) -> tuple[FieldDifference, ...]:
    """
    Return the members of a Service that Git does not declare and that the API server keeps from an earlier state.

    An update without them leaves them as they are (pkg/registry/core/service/storage: patchAllocatedValues and
    defaultOnReadIPFamilies), and no owner tells that Git removed them. A new Service would get other values.
    """
    if live.get("kind") != "Service" or live.get("apiVersion") != "v1":
        return ()
    spec = live.get("spec") or {}
    declared = desired.get("spec") or {}
    is_headless = spec.get("clusterIP") == "None"
    # without a selector, a headless Service gets all families of the cluster
    has_default = spec.get("ipFamilyPolicy", "SingleStack") == "SingleStack" or (
        is_headless and not spec.get("selector")
    )
    is_kept = {
        "clusterIP": is_headless and "clusterIPs" not in declared,
        "ipFamilyPolicy": not has_default,
    }
    names = [name for name, kept in is_kept.items() if kept and name not in declared]
    others = owners_of(live, manager).others if names else {}
    return tuple(
        FieldDifference(f".spec.{name}", f"/spec/{name}", Difference.FOREIGN, live=spec[name])
        for name in names
        # what another client or an admission webhook sets was not kept from what Git declared
        if node_at(others, ("f:spec", f"f:{name}")) is None
    )


def _mirrored(schema: Schema, desired: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[str]:
    """Yield the members that Git does not declare and that have another value than the alias that it may declare."""
    pair = _MIRRORED.get(schema.name, ())
    for name, alias in (pair, pair[::-1]) if pair else ():
        if name in live and name not in desired and desired.get(alias) != live[name]:
            yield name


def is_of_another_choice(schema: Schema, name: str, live: Mapping[str, Any]) -> bool:
    """
    Whether a member goes with another value of its discriminator than the live one.

    Where the API server accepts such a member it drops it (``sessionAffinityConfig`` without ``sessionAffinity``,
    pkg/apis/core/v1/defaults.go: SetDefaults_Service), so that to apply it again would never end.
    """
    union = _union_of(schema)
    if union is None or not union.discriminator or name not in union.members:
        return False
    return live.get(union.discriminator) != union.members[name]


def _union_of(schema: Schema) -> Union | None:
    # of all its members but the name, at most one may be set (validateVolumeSource)
    if schema.name == _VOLUME:
        return _one_of(*(schema.declared - {"name"}))
    return _UNIONS.get(schema.name) or _published(schema)


def _published(schema: Schema) -> Union | None:
    """Return the union that the OpenAPI document declares (``x-kubernetes-unions``)."""
    if not schema.union:
        return None
    return Union(schema.union["fields-to-discriminateBy"], str(schema.union.get("discriminator") or ""))
