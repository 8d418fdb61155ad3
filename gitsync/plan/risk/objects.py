"""Risk rules for Kubernetes objects: one predicate per row of the risk table."""

from __future__ import annotations

from typing import Any

from gitsync.kube.kinds import CRD, NAMESPACE, PERSISTENT_VOLUME_CLAIM, SERVICE
from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.manifest import Manifest, at, labels_of
from gitsync.objects.options import Deletion
from gitsync.objects.ref import GroupKind
from gitsync.plan.options import options_of
from gitsync.plan.risk.privileges import (
    containers,
    permissions,
    pod_spec,
    pod_specs,
    privileges,
    protections,
    subjects,
    widened,
)

_RBAC = "rbac.authorization.k8s.io"
_DATA_KINDS = frozenset(
    {
        NAMESPACE,
        PERSISTENT_VOLUME_CLAIM,
        # with the reclaim policy Delete, its storage is deleted
        GroupKind("", "PersistentVolume"),
        CRD,
        # a volume of its state may be deleted with it
        GroupKind("agents.gitsync.dev", "Agent"),
        GroupKind("agents.gitsync.dev", "MultiAgentSystem"),
    }
)
_GUARD_KINDS = frozenset(
    {
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("", "ResourceQuota"),
        GroupKind("", "LimitRange"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    }
)
_API_KINDS = frozenset(
    {
        CRD,
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        GroupKind("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    }
)
_SCALED_KINDS = frozenset(
    {
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("agents.gitsync.dev", "Agent"),
        GroupKind("agents.gitsync.dev", "MultiAgentSystem"),
    }
)
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
_POD_SECURITY_LEVELS = {"privileged": 0, "baseline": 1, "restricted": 2}


def deletes_data(change: Change) -> str | None:
    """Match the delete of a kind whose content cannot be applied again."""
    return "" if _deletes(change) and change.ref.of in _DATA_KINDS else None


def loses_data(change: Change) -> bool:
    """Whether a step deletes what cannot be applied again, what may delete it, or what asks to be confirmed first."""
    # a StatefulSet may have its claims deleted with it (persistentVolumeClaimRetentionPolicy)
    is_stateful = change.action is Action.REPLACE and change.ref.of == GroupKind("apps", "StatefulSet")
    return is_stateful or deletes_data(change) is not None or asks_to_confirm(change) is not None


def deletes_guard(change: Change) -> str | None:
    """Match the delete of a policy or quota that limits others."""
    # Not a replace, which creates it again and has a rule of its own.
    return "" if change.action is Action.PRUNE and change.ref.of in _GUARD_KINDS else None


def asks_to_confirm(change: Change) -> str | None:
    """Match the delete of an object whose annotation asks for confirmation."""
    if not _deletes(change) or change.live is None:
        return None
    options = options_of(change.live)
    return "" if Deletion.CONFIRM in (options.prune, options.delete) else None


def replaces(change: Change) -> str | None:
    """Match deleting and creating again."""
    return "" if change.action is Action.REPLACE else None


def is_left(change: Change) -> str | None:
    """Match the delete of what the sync of the applied commit kept; who approved that, approved this."""
    return "" if change.is_leftover and asks_to_confirm(change) is None else None


def prunes(change: Change) -> str | None:
    """Match any other delete."""
    return "" if change.action is Action.PRUNE else None


def stops(change: Change) -> str | None:
    """Match scaling to zero or suspending what runs now."""
    if change.live is None or change.desired is None or change.ref.of not in _SCALED_KINDS:
        return None
    if _replicas(change.desired) == 0 and _replicas(change.live) != 0:
        return "replicas 0"
    if at(change.desired, "spec", "suspend") is True and at(change.live, "spec", "suspend") is not True:
        return "suspended"
    return None


def extends_api(change: Change) -> str | None:
    """Match CRDs, aggregated APIs and admission: they affect every request in the cluster."""
    return "" if change.ref.of in _API_KINDS else None


def widens_rbac(change: Change) -> str | None:
    """Match a role with more permissions, and a binding with more subjects, than now."""
    if change.ref.group != _RBAC or change.desired is None:
        return None
    if change.ref.kind in ("Role", "ClusterRole"):
        grants = widened(permissions(change.live), permissions(change.desired))
        return (
            f"{grants[0][0]} {grants[0][2]}" + (f" and {len(grants) - 1} more" if grants[1:] else "")
            if grants
            else None
        )
    bound = sorted(subjects(change.desired) - subjects(change.live))
    return f"{bound[0][0]} {bound[0][2]} gets {bound[0][3]} {bound[0][4]}" if bound else None


def widens_privileges(change: Change) -> str | None:
    """Match pods with more privileges on their node than now."""
    if change.ref.of == GroupKind("", "PersistentVolume"):
        path = at(change.desired, "spec", "hostPath", "path") or at(change.desired, "spec", "local", "path")
        # The source of a volume is immutable: an update cannot have added it.
        return f"hostPath {path}" if path and change.action is not Action.UPDATE else None
    privileges_after = _all_privileges(change.desired)
    return _some(privileges_after - _all_privileges(change.live)) if privileges_after else None


def _all_privileges(manifest: Manifest | None) -> frozenset[str]:
    """Return the privileges of all pods that an object describes; of several, each with its place."""
    specs = pod_specs(manifest)
    place = {path: f" at {path}" if len(specs) > 1 else "" for path in specs}
    return frozenset(f"{text}{place[path]}" for path, spec in specs.items() for text in privileges(spec))


def claims_deletable(change: Change) -> str | None:
    """Match a StatefulSet whose claims will be deleted with it or when it scales down, which was not so."""
    policy = at(change.desired, "spec", "persistentVolumeClaimRetentionPolicy", default={}) or {}
    known = at(change.live, "spec", "persistentVolumeClaimRetentionPolicy", default={}) or {}
    for member in ("whenDeleted", "whenScaled"):
        if policy.get(member) == "Delete" and known.get(member) != "Delete" and change.live is not None:
            return f"{member}: Delete"
    return None


def drops_protections(change: Change) -> str | None:
    """Match pods that drop a restriction that they have now; those of a removed container do not count."""
    desired = pod_spec(change.desired)
    if change.live is None or not desired or not protections(pod_spec(change.live)):
        return None
    names = {container.get("name") for container in containers(desired)}
    kept = {**pod_spec(change.live)}
    for key in ("initContainers", "containers", "ephemeralContainers"):
        if isinstance(kept.get(key), list):
            kept[key] = [item for item in kept[key] if isinstance(item, dict) and item.get("name") in names]
    return _some(protections(kept) - protections(desired))


def opens_network(change: Change) -> str | None:
    """Match a NetworkPolicy that allows what it did not, or no longer covers a direction."""
    if change.ref.of != GroupKind("networking.k8s.io", "NetworkPolicy") or not change.live or not change.desired:
        return None
    live_spec = change.live.get("spec") or {}
    desired_spec = change.desired.get("spec") or {}
    if live_spec.get("podSelector") != desired_spec.get("podSelector"):
        return "podSelector"
    for direction in ("ingress", "egress"):
        allowed = live_spec.get(direction) or []
        if any(rule not in allowed for rule in desired_spec.get(direction) or []):
            return direction
    dropped = set(live_spec.get("policyTypes") or ()) - set(
        desired_spec.get("policyTypes") or live_spec.get("policyTypes") or ()
    )
    return _some(frozenset(dropped))


def loosens_namespace(change: Change) -> str | None:
    """Match a namespace whose enforced pod security level is lowered."""
    if change.ref.of != NAMESPACE or not change.desired:
        return None
    # A new namespace without a level has the default of the cluster, as all others without one.
    if not change.live:
        return "privileged" if labels_of(change.desired).get(_POD_SECURITY) == "privileged" else None
    live_level = labels_of(change.live).get(_POD_SECURITY)
    desired_level = labels_of(change.desired).get(_POD_SECURITY)
    if _POD_SECURITY_LEVELS.get(str(desired_level), 0) >= _POD_SECURITY_LEVELS.get(str(live_level), 0):
        return None
    return f"{live_level} to {desired_level or 'none'}"


def metadata_only(change: Change) -> str | None:
    """Match an update of labels and annotations of the object itself."""
    drift = [difference for difference in change.differences if difference.kind in DRIFT]
    if change.action is not Action.UPDATE or not drift:
        return None
    outside = (not difference.pointer.startswith(("/metadata/labels", "/metadata/annotations")) for difference in drift)
    return None if any(outside) else ""


def only_owns(change: Change) -> str | None:
    """Match an update that changes no value: it records that the fields are ours."""
    changes = any(difference.kind in DRIFT for difference in change.differences)
    return "" if change.action is Action.UPDATE and not changes else None


def releases(change: Change) -> str | None:
    """Match giving up an object that stays as it is."""
    return "" if change.action is Action.RELEASE else None


def adopts(change: Change) -> str | None:
    """Match taking over an object that exists and is not ours yet."""
    return "" if change.action is Action.ADOPT else None


def runs_hook(change: Change) -> str | None:
    """Match a hook."""
    return "" if change.action is Action.HOOK else None


def unpinned_image(change: Change) -> str | None:
    """Match a new or changed image that is named without a digest."""
    return _some(frozenset(image for image in _new_images(change) if "@sha256:" not in image))


def other_image(change: Change) -> str | None:
    """Match a changed image."""
    return _some(_new_images(change)) if change.live is not None else None


def exposes(change: Change) -> str | None:
    """Match what lets traffic in from outside the cluster."""
    if change.ref.kind in ("Ingress", "Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute"):
        return ""
    kind = at(change.desired, "spec", "type")
    if change.ref.of == SERVICE and kind in ("LoadBalancer", "NodePort"):
        return str(kind) if at(change.live, "spec", "type") != kind else None
    return None


def starts_workload(change: Change) -> str | None:
    """Match creating something that runs pods."""
    runs = pod_specs(change.desired) or change.ref.group == "agents.gitsync.dev"
    return "" if change.action is Action.CREATE and runs else None


def creates(change: Change) -> str | None:
    """Match any other creation."""
    return "" if change.action is Action.CREATE else None


def updates(change: Change) -> str | None:
    """Match everything else."""
    return ""


def _deletes(change: Change) -> bool:
    return change.action in (Action.PRUNE, Action.REPLACE)


def _replicas(manifest: Manifest) -> Any:
    # absent: the default of the API server
    return at(manifest, "spec", "replicas", default=1)


def _new_images(change: Change) -> frozenset[str]:
    def images(manifest: Manifest | None) -> frozenset[str]:
        pod_images = {str(container["image"]) for container in containers(pod_spec(manifest)) if container.get("image")}
        agent_image = at(manifest, "spec", "runtime", "image")
        return frozenset(pod_images | {str(agent_image)} if agent_image else pod_images)

    return images(change.desired) - images(change.live)


def _some(names: frozenset[str]) -> str | None:
    if not names:
        return None
    first, *rest = sorted(names)
    return f"{first} and {len(rest)} more" if rest else first
