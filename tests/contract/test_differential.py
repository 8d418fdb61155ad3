"""
Applying one state of an object and then another ends as applying the latter alone, or is refused with a reason.

``GITSYNC_DIFFERENTIAL=3000`` tries that many random pairs; ``GITSYNC_DIFFERENTIAL_SEED`` chooses others.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from gitsync.errors import GitsyncError
from gitsync.kube.messages import immutable_fields
from gitsync.objects.manifest import Manifest, at, metadata_of
from tests.contract.pairs import Pair, kinds, pair
from tests.contract.stage import Stage
from tests.waiting import until

PAIRS = int(os.environ.get("GITSYNC_DIFFERENTIAL", "12"))
SEED = int(os.environ.get("GITSYNC_DIFFERENTIAL_SEED", "1"))
BATCH = 60
"""Pairs of one commit and the next."""
TIMEOUT = 120.0
PATIENCE = 12.0
"""Seconds until a difference is final."""
OURS = (
    "gitsync.dev/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.",
    "pv.kubernetes.io/",
    "batch.kubernetes.io/",
)
"""Labels and annotations of gitsync and of controllers."""
ALLOCATED = frozenset(
    {
        "clusterIP",
        "clusterIPs",
        "nodePort",
        "healthCheckNodePort",
        "volumeName",
        "controller-uid",
        "job-name",
        "nodeName",
    }
)
KNOWN = {
    ("Job", "completions"): "immutable, and its default depends on whether parallelism was set at the creation",
    ("PersistentVolume", "claimRef"): "the claim that another pair of the batch bound to it",
    ("Service", "clusterIP"): "immutable: to and from headless; reported as kept",
    ("Service", "ipFamilies"): "those of a Service that was headless",
    ("Service", "ipFamilyPolicy"): "an update without it keeps it; reported as kept",
}
"""Members that differ for a reason, by kind and name."""


@pytest.mark.timeout(60 + PAIRS * 5)
def test_a_change_ends_as_its_latter_state_alone(stage: Stage) -> None:
    stage.start()
    findings = []
    for first in range(0, PAIRS, BATCH):
        for line in differences(stage, first, min(BATCH, PAIRS - first)):
            print(line, flush=True)
            findings.append(line)
    assert not findings, f"{len(findings)} of {PAIRS}:\n" + "\n".join(findings)


def differences(stage: Stage, first: int, count: int) -> Iterator[str]:
    """Yield how pairs end otherwise than their latter state alone."""
    random = Random(f"{SEED}/{first}")
    pairs = [made for number in range(first, first + count) if (made := valid_pair(stage, random, number))]
    name = f"batch{first}"
    for made in pairs:
        if made.is_global:
            stage.remember(made.latter["kind"], metadata_of(made.latter)["name"], made.latter["apiVersion"])
    commit = stage.repo.commit({f"{name}/all.json": _list([made.former for made in pairs])})
    stage.application(name, source={"path": name})
    stage.synced(commit, name, TIMEOUT)
    # one by one: what is refused must not hold back the others
    commit = stage.repo.commit({f"{name}/all.json": _list([made.latter for made in pairs])})
    until(lambda: is_settled(stage.status(name), commit), TIMEOUT, lambda: json.dumps(stage.status(name))[:3000])
    for made in pairs:
        yield from difference(stage, made)
    stage.delete("Application", name, namespace=stage.system, api="gitsync.dev/v1alpha1")


def is_settled(status: Manifest, commit: str) -> bool:
    """Whether each object of a commit was applied or refused."""
    revision = status.get("revision") or {}
    is_applied = status.get("phase") == "Synced" and revision.get("applied") == commit
    return is_applied or (status.get("phase") == "Failed" and revision.get("fetched") == commit)


def valid_pair(stage: Stage, random: Random, number: int) -> Pair | None:
    """Return a random pair whose states are both valid alone and differ, None where chance gave another one."""
    unique = f"{stage.system.rpartition('-')[2]}{number}"
    bases = kinds(unique)
    kind = sorted(bases)[number % len(bases)]
    made = pair(random, bases[kind], f"p{number}")
    if made.former == made.latter:
        return None
    with suppress(GitsyncError):
        alone(stage, made.former)
        alone(stage, made.latter)
        return made
    return None


def alone(stage: Stage, manifest: Manifest) -> Manifest:
    """Return what the API server would store of an object that does not exist."""
    name = metadata_of(manifest)["name"]
    text = json.dumps(manifest).replace(name, f"{name}x" if "." not in name else f"{name}")
    made = json.loads(text)
    made["metadata"]["namespace"] = stage.system
    if stage.cluster.resource(*_kind(made)).namespaced is False:  # type: ignore[union-attr]
        del made["metadata"]["namespace"]
    answer = stage.cluster.apply(made, manager="gitsync", dry_run=True)
    return json.loads(json.dumps(answer).replace(f"{name}x", name))  # type: ignore[no-any-return]


def difference(stage: Stage, made: Pair) -> Iterator[str]:
    """Yield how a pair ended otherwise than its latter state alone, with the refusal where there was one."""
    kind, name, api = made.latter["kind"], metadata_of(made.latter)["name"], made.latter["apiVersion"]
    expected = spec_of(alone(stage, made.latter))
    live = stage.live(kind, name, api=api)
    paths = _unexplained(kind, expected, live)
    give_up = time.monotonic() + PATIENCE
    # a conflict with a controller that writes status is tried again after seconds
    while paths and time.monotonic() < give_up:
        time.sleep(1.0)
        live = stage.live(kind, name, api=api)
        paths = _unexplained(kind, expected, live)
    if not paths:
        return
    sent = {**made.latter, "metadata": {**metadata_of(made.latter), "namespace": metadata_of(live).get("namespace")}}
    if not sent["metadata"]["namespace"]:
        del sent["metadata"]["namespace"]
    refusal: GitsyncError | None = None
    try:
        stage.cluster.apply(sent, manager="gitsync", dry_run=True)
    except GitsyncError as error:
        refusal = error
    # what cannot be changed in place is refused for kubectl apply too
    if refusal is None or not immutable_fields(refusal):
        yield f"{made}\n    {paths[:4]} {refusal or ''}"


def _unexplained(kind: str, expected: Manifest, live: Manifest) -> list[str]:
    differing = _differing(expected, spec_of(live), "")
    return [path for path in differing if (kind, path.partition(":")[0].rpartition(".")[2]) not in KNOWN]


def spec_of(live: Manifest) -> Manifest:
    """Return what a manifest declares of an object, without what is allocated or belongs to controllers."""
    metadata = {
        name: {key: value for key, value in (metadata_of(live).get(name) or {}).items() if not key.startswith(OURS)}
        for name in ("labels", "annotations")
    }
    content = {name: value for name, value in live.items() if name not in ("metadata", "status")}
    cleaned: Manifest = _cleaned({**content, "metadata": metadata})
    # allocated, but for this choice
    if at(live, "spec", "clusterIP") == "None":
        cleaned["spec"]["clusterIP"] = "None"
    return cleaned


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            key: _cleaned(member) for key, member in value.items() if key not in ALLOCATED and not key.startswith(OURS)
        }
        return {key: member for key, member in kept.items() if member not in ({}, None)}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _differing(expected: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(live, dict):
        for name in sorted(expected.keys() | live.keys()):
            yield from _differing(expected.get(name), live.get(name), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(live, list) and len(expected) == len(live):
        for index, (one, other) in enumerate(zip(expected, live, strict=True)):
            yield from _differing(one, other, f"{path}[{index}]")
    elif expected != live:
        yield f"{path}: {json.dumps(expected)} became {json.dumps(live)}"


def _kind(manifest: Manifest) -> tuple[str, str, str]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return group, version, manifest["kind"]


def _list(manifests: Sequence[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
