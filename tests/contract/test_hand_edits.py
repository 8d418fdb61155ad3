"""
Edits of users by many commands and of many kinds end as Git declares, in one write; a controller keeps its fields.

``GITSYNC_HAND_EDITS=2000`` makes that many edits; ``GITSYNC_HAND_EDITS_SEED`` chooses others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from gitsync.errors import GitsyncError
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from tests.contract.pairs import kinds, pair
from tests.contract.stage import Stage
from tests.waiting import until

EDITS = int(os.environ.get("GITSYNC_HAND_EDITS", "12"))
SEED = int(os.environ.get("GITSYNC_HAND_EDITS_SEED", "1"))
BATCH = 60
"""Objects of one Application, each with one edit by a user."""
PATIENCE = 600.0
CONTROLLER = "acme-operator"
STATE = "acme.example/state"
MANAGERS = ("kubectl-edit", "kubectl-patch", "kubectl-set", "kubectl-replace", "kubectl-label", "kubectl-annotate")
IDENTITIES = ("name", "port", "containerPort", "ip", "mountPath", "key")
"""Members by which an item of a list is found again, the first that it has."""
KEPT = {
    ("PersistentVolumeClaim", "storage"): "a claim does not shrink",
    ("PersistentVolume", "claimRef"): "the volume binder sets it",
}
"""Declared members that stay as they are for a reason, by kind and name."""


@dataclass(frozen=True, slots=True)
class Edited:
    """An object as Git declares it, and what of it lived before its edit."""

    declared: Manifest
    baseline: Any
    edit: str
    generation: int
    """Of the edited object; 0 for a kind without one. The API server counts each write of a spec."""


@pytest.mark.timeout(120 + EDITS * 5)
def test_every_hand_edit_ends_as_git_declares(stage: Stage) -> None:
    stage.start()
    unrepaired: list[str] = []
    made = 0
    for first in range(0, EDITS, BATCH):
        edited = list(batch(stage, first, min(BATCH, EDITS - first)))
        made += len(edited)
        for finding in differences(stage, edited):
            print(finding, flush=True)
            unrepaired.append(finding)
        print(f"{made} edits, {len(unrepaired)} not repaired", flush=True)
        stage.delete("Application", f"batch{first}", namespace=stage.system, api="gitsync.dev/v1alpha1")
    assert made >= EDITS // 3, "the API server refuses most edits, so that nothing is tried"
    assert not unrepaired, f"{len(unrepaired)} of {made}:\n" + "\n".join(unrepaired)


def batch(stage: Stage, first: int, count: int) -> Iterator[Edited]:
    """Apply objects from Git, let a controller and then users write to them, and yield what the users edited."""
    random = Random(f"{SEED}/{first}")
    declared = []
    latter = {}
    for number in range(first, first + count):
        unique = f"{stage.system.rpartition('-')[2]}{number}"
        bases = kinds(unique)
        chosen = pair(random, bases[sorted(bases)[number % len(bases)]], f"p{number}")
        if is_valid(stage, chosen.former):
            declared.append(chosen.former)
            latter[id(chosen.former)] = chosen.latter
            if chosen.is_global:
                stage.remember(chosen.former["kind"], metadata_of(chosen.former)["name"], chosen.former["apiVersion"])
    name = f"batch{first}"
    commit = stage.repo.commit(
        {f"{name}/all.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": declared})}
    )
    stage.application(name, source={"path": name})
    stage.synced(commit, name, PATIENCE)
    # from here on with the default: a repair needs no approval
    stage.application(name, source={"path": name}, risk={"approval": "Dangerous"})
    for former in declared:
        patch(stage, former, {"metadata": {"annotations": {STATE: "kept"}}}, CONTROLLER)
    for former in declared:
        baseline = of_declared(live(stage, former), former)
        edit = merge_patch(former, latter[id(former)]) or {"metadata": {"labels": {"app": "by-hand"}}}
        manager = random.choice(MANAGERS)
        if patched := patch(stage, former, edit, manager):
            name = f"{former['kind']} {metadata_of(former)['name']}: {manager} {json.dumps(edit)}"
            yield Edited(former, baseline, name, int(metadata_of(patched).get("generation", 0)))


def differences(stage: Stage, edited: list[Edited]) -> Iterator[str]:
    """Wait until every object is as it was before its edit, and yield those that are not."""
    remaining: dict[str, str] = {}

    def are_restored() -> bool:
        remaining.clear()
        for item in edited:
            manifest = live(stage, item.declared)
            kept = [
                path for path in differing(item.baseline, of_declared(manifest, item.declared)) if not known(item, path)
            ]
            if annotations_of(manifest).get(STATE) != "kept":
                kept.append(f"{STATE} of {CONTROLLER} is gone")
            # the answer to the edit has the generation of the edit, whenever the repair began
            if int(metadata_of(manifest).get("generation", 0)) > item.generation + 1:
                kept.append("it took more than one write")
            if kept:
                remaining[item.edit] = f"{item.edit}\n    {kept[:4]}"
        return not remaining

    try:
        until(are_restored, PATIENCE)
    except AssertionError:
        yield from remaining.values()


def known(item: Edited, path: str) -> bool:
    return (item.declared["kind"], path.partition(":")[0].rpartition(".")[2]) in KEPT


def is_valid(stage: Stage, manifest: Manifest) -> bool:
    metadata = {**metadata_of(manifest), "namespace": stage.namespace}
    if stage.cluster.resource(*api_of(manifest)).namespaced is False:  # type: ignore[union-attr]
        del metadata["namespace"]
    try:
        stage.cluster.apply({**manifest, "metadata": metadata}, manager="gitsync", dry_run=True)
    except GitsyncError:
        return False
    return True


def patch(stage: Stage, manifest: Manifest, body: Any, manager: str) -> Manifest | None:
    """Patch an object as a field manager; return the answer, None where the API server refused it."""
    name = metadata_of(manifest)["name"]
    try:
        return stage.patch(manifest["kind"], name, body, manager=manager, api=manifest["apiVersion"])
    except GitsyncError:
        return None  # not valid, or immutable: nothing was edited


def live(stage: Stage, manifest: Manifest) -> Manifest:
    return stage.live(manifest["kind"], metadata_of(manifest)["name"], api=manifest["apiVersion"])


def api_of(manifest: Manifest) -> tuple[str, str, str]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return group, version, manifest["kind"]


def merge_patch(former: Any, latter: Any) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from one manifest to another; annotations are set and removed singly."""
    changed: dict[str, Any] = {}
    for name in former.keys() | latter.keys():
        old = former.get(name)
        new = latter.get(name)
        if name == "annotations" and isinstance(old, dict) and new is None:
            new = {}  # one by one: what a controller annotates is not the user's to remove
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := merge_patch(old, new):
                changed[name] = inner
        elif old != new:
            changed[name] = new
    return changed


def of_declared(value: Any, declared: Any) -> Any:
    """Return what lives of the members and items that are declared."""
    if isinstance(declared, Mapping) and isinstance(value, Mapping):
        # an API server keeps what is written as stringData in data
        return {name: of_declared(value.get(name), member) for name, member in declared.items() if name != "stringData"}
    if isinstance(declared, list) and isinstance(value, list):
        return [of_declared(item_like(value, item), item) for item in declared]
    return value


def item_like(items: list[Any], declared: Any) -> Any:
    """Return the item of a list that a declared one became, None where there is none."""
    if not isinstance(declared, Mapping):
        return declared if declared in items else None
    identity = next((name for name in IDENTITIES if name in declared), None)
    if identity is None:
        return next(iter(items), None)
    return next((item for item in items if item.get(identity) == declared[identity]), None)


def differing(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            yield from differing(expected.get(name), actual.get(name), f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, item in enumerate(expected):
            yield from differing(item, actual[index], f"{path}[{index}]")
    elif expected != actual:
        yield f"{path}: {json.dumps(expected)} became {json.dumps(actual)}"
