"""The cells that several kinds share: ages, selectors, containers, ready counts."""

from __future__ import annotations

from typing import Any

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.registry.scale import selector_text

NONE = "<none>"
UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl shows it: two units at most, fewer as it grows."""
    total = int(seconds)
    # duration.HumanDuration: a clock may differ by two seconds.
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    # k8s.io/apimachinery/pkg/util/duration: each bound is where the second unit stops to matter.
    if total < 120:
        return f"{total}s"
    minutes = total // 60
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = total // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


def since(time: str | None, now: float) -> str:
    """Return how long ago a time was, as kubectl shows it."""
    return human_duration(now - seconds_of(time)) if time else UNKNOWN


def name(obj: Manifest, now: float) -> str:
    """Return the name."""
    return str(obj["metadata"]["name"])


def age(obj: Manifest, now: float) -> str:
    """Return the age."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def created(obj: Manifest, now: float) -> str:
    """Return the time of creation."""
    return str(obj["metadata"].get("creationTimestamp", ""))


def text(*path: str | int, absent: str = NONE) -> Any:
    """Return a cell of the member at a path."""

    def cell(obj: Manifest, now: float) -> str:
        value = at(obj, *path)
        if isinstance(value, bool):
            return "true" if value else "false"
        return absent if value is None or value == "" else str(value)

    return cell


def number(*path: str | int) -> Any:
    """Return a cell of the number at a path, 0 when absent."""
    return lambda obj, now: at(obj, *path) or 0


def count(*path: str | int) -> Any:
    """Return a cell of how many there are at a path."""
    return lambda obj, now: len(at(obj, *path) or ())


def joined(values: list[Any] | None, separator: str = ",") -> str:
    """Return values as one text, or ``<none>``."""
    return separator.join(str(value) for value in values) if values else NONE


def selector(*path: str | int) -> Any:
    """Return a cell of the selector at a path."""
    return lambda obj, now: selector_text(at(obj, *path)) or NONE


def pod_spec(obj: Manifest) -> Manifest:
    """Return the pod spec inside a workload."""
    spec = obj.get("spec") or {}
    template = at(spec, "jobTemplate", "spec", "template") or spec.get("template") or obj.get("template") or {}
    return template.get("spec") or {}


def container_names(obj: Manifest, now: float) -> str:
    """Return the names of a workload's containers."""
    return ",".join(container["name"] for container in pod_spec(obj).get("containers") or [])


def container_images(obj: Manifest, now: float) -> str:
    """Return the images of a workload's containers."""
    return ",".join(container.get("image", "") for container in pod_spec(obj).get("containers") or [])


def ready_of(wanted: int | None) -> Any:
    """Return a cell ``ready/wanted`` of a workload that wants ``wanted`` when it does not say."""

    def cell(obj: Manifest, now: float) -> str:
        replicas = at(obj, "spec", "replicas", default=wanted)
        return f"{at(obj, 'status', 'readyReplicas') or 0}/{replicas}"

    return cell


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(*path: str) -> Any:
    """Return a cell of the access modes at a path."""
    return lambda obj, now: ",".join(mode for key, mode in _MODES.items() if key in (at(obj, *path) or ()))
