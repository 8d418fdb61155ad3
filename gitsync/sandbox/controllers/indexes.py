"""Indexed Jobs: each pod has a completion index, and the status says which are done. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.sandbox.controllers.pods import is_active

_INDEX = "batch.kubernetes.io/job-completion-index"


def missing(job: Manifest, owned: Iterable[Manifest], count: int) -> Sequence[int | None]:
    """Return the indexes of the next ``count`` pods, lowest first; None for each in a Job that is not indexed."""
    spec = job["spec"]
    if spec.get("completionMode") != "Indexed":
        return [None] * count
    done = _numbers(at(job, "status", "completedIndexes") or "")
    taken = {index_of(pod) for pod in owned if is_active(pod) or at(pod, "status", "phase") == "Succeeded"}
    free = [index for index in range(spec["completions"]) if index not in done and index not in taken]
    return free[:count]


def indexed(pod: Manifest, job: Manifest, index: int) -> Manifest:
    """Return the pod with its index as name, hostname, label, annotation and environment variable."""
    meta = pod["metadata"]
    name = f"{job['metadata']['name']}-{index}"
    field = f"metadata.annotations['{_INDEX}']"
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": field}}}
    spec = {**pod["spec"], "hostname": name}
    for member in ("containers", "initContainers"):
        if pod["spec"].get(member):
            spec[member] = [{**each, "env": [*(each.get("env") or ()), variable]} for each in pod["spec"][member]]
    metadata = {
        **meta,
        "generateName": f"{name}-",
        "labels": {**(meta.get("labels") or {}), _INDEX: str(index)},
        "annotations": {**(meta.get("annotations") or {}), _INDEX: str(index)},
    }
    return {**pod, "metadata": metadata, "spec": spec}


def index_of(pod: Manifest) -> int:
    """Return the completion index of a pod, -1 where it has none."""
    text = annotations_of(pod).get(_INDEX, "")
    return int(text) if text.isdigit() else -1


def completed(status: Manifest, finished: Iterable[Manifest]) -> Manifest:
    """Return the status member that names the completed indexes, as ranges: ``0-2,4``."""
    done = _numbers(status.get("completedIndexes") or "")
    done |= {index_of(pod) for pod in finished if at(pod, "status", "phase") == "Succeeded"}
    return {"completedIndexes": _ranges(sorted(done))}


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
