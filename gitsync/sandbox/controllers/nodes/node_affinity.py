"""Placement: which nodes a pod accepts, by its nodeSelector, its required node affinity and its tolerations."""

from __future__ import annotations

from gitsync.kube.selectors import holds
from gitsync.objects.manifest import Manifest, at, labels_of


def accepts(pod_spec: Manifest, node: Manifest) -> bool:
    """Return whether the node is one that the pod's nodeSelector and required node affinity name."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    required = at(pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms")
    if not terms:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(holds(rule, labels) for rule in term.get("matchExpressions") or ())
        and all(holds(rule, fields) for rule in term.get("matchFields") or ())
        for term in terms
    )


def untolerated(pod_spec: Manifest, node: Manifest) -> Manifest | None:
    """Return a taint of the node that keeps the pod away, None when there is none."""
    tolerations = pod_spec.get("tolerations") or ()
    for taint in at(node, "spec", "taints") or ():
        hard = taint["effect"] in ("NoSchedule", "NoExecute")
        if hard and not any(_tolerates(each, taint) for each in tolerations):
            return dict(taint)
    return None


def target_of(pod: Manifest) -> str:
    """Return the node a pod runs on or, made for one node only, waits for; empty where there is none."""
    node = at(pod, "spec", "nodeName")
    if node:
        return str(node)
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0)
    for rule in at(pod["spec"], *path, "matchFields") or ():
        if rule["key"] == "metadata.name" and rule["operator"] == "In":
            return str(rule["values"][0])
    return ""


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))
