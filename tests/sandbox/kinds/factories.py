"""Manifests to make wrong ones from."""

from __future__ import annotations

import copy
from typing import Any

from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds import strategy_for
from tests.sandbox.kinds.recordings import Allocator, create

Manifest = dict[str, Any]


def of(api_version: str, kind: str, **members: Any) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **members}


def pod_spec(**container: Any) -> Manifest:
    return {"containers": [{"name": "c", "image": "nginx:1.25", **container}]}


def workload(kind: str, spec: Manifest | None = None, **members: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": spec or pod_spec()}
    return of("apps/v1", kind, spec={"selector": {"matchLabels": {"app": "x"}}, "template": template, **members})


def job(**members: Any) -> Manifest:
    return of("batch/v1", "Job", spec={"template": {"spec": {**pod_spec(), "restartPolicy": "Never"}}, **members})


def field_messages(causes: list[StatusCause]) -> list[tuple[str, str]]:
    """Return field and message of the causes."""
    return [(cause.field, cause.message) for cause in causes]


def created(manifest: Manifest) -> Manifest:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return create(strategy_for(group, version, manifest["kind"]), manifest)


def refused(manifest: Manifest) -> list[tuple[str, str]]:
    """Return what is wrong with a new object."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    strategy = strategy_for(group, version, manifest["kind"])
    return field_messages(strategy.validate(create(strategy, manifest), None, ""))


def refused_change(manifest: Manifest, *path: str | int, value: Any) -> list[tuple[str, str]]:
    """Return what is wrong with setting one member of a stored object; None removes it."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    strategy = strategy_for(group, version, manifest["kind"])
    old = create(strategy, manifest)
    new = copy.deepcopy(old)
    target: Any = new
    for part in path[:-1]:
        target = target[part]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    prepared = strategy.prepare(strategy.default(new), old, "", Allocator())
    return field_messages(strategy.validate(prepared, old, ""))
