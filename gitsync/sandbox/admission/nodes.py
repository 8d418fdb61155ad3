"""Taint of new nodes (plugin/pkg/admission/nodetaint)."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest

_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def with_taint(node: Manifest) -> Manifest:
    """Return a new Node that takes no pods until it is ready; who reports it as ready removes the taint."""
    taints = node["spec"].get("taints") or []
    pairs = {(taint.get("key"), taint.get("effect")) for taint in taints}
    if (_NOT_READY["key"], _NOT_READY["effect"]) in pairs:
        return node
    return {**node, "spec": {**node["spec"], "taints": [*taints, dict(_NOT_READY)]}}
