"""Live objects that the tests of health start from."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest


def live(kind: str, spec: Any = None, status: Any = None, **metadata: Any) -> Manifest:
    """Return a live object; ``kind`` is ``Kind``, or ``group/version/Kind``."""
    api_version, _, name = kind.rpartition("/")
    result: Manifest = {"apiVersion": api_version or "v1", "kind": name, "metadata": {"name": "x", **metadata}}
    if spec is not None:
        result["spec"] = spec
    if status is not None:
        result["status"] = status
    return result


def said(*conditions: str, **status: Any) -> dict[str, Any]:
    """Return a status with conditions, each ``Type=Status:Reason:message``; reason and message may be absent."""
    found = []
    for each in conditions:
        sign, _, rest = each.partition(":")
        reason, _, message = rest.partition(":")
        kind, _, value = sign.partition("=")
        members = {"type": kind, "status": value, "reason": reason, "message": message}
        found.append({key: text for key, text in members.items() if text})
    return {"conditions": found, **status}


def pod(name: str = "web-1", owner: str = "", phase: str = "Running", **status: Any) -> Manifest:
    """Return a pod that runs for ever."""
    owners = [{"kind": "ReplicaSet", "uid": owner}] if owner else []
    return live(
        "Pod",
        {"restartPolicy": "Always"},
        {"phase": phase, **status},
        name=name,
        uid=f"uid-{name}",
        ownerReferences=owners,
    )


def waiting(why: str, image: str = "web:1", **last: Any) -> dict[str, Any]:
    """Return the status of a container that waits."""
    return {
        "name": "web",
        "image": image,
        "state": {"waiting": {"reason": why, "message": f"why {why}"}},
        "lastState": {"terminated": last} if last else {},
    }
