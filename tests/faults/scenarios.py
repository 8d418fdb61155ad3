"""The syncs that schedules interrupt, each from the files before to the files after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitsync.objects.manifest import Manifest
from tests.flow.factories import config_map, deployment

Files = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    One sync of one or two applications.

    ``before`` is synced without faults, ``after`` with one. ``objects`` are what each Application holds in the end,
    ``deleted`` what may be deleted on the way, ``hooks`` what runs once. ``least`` is the minimum of schedules.
    ``existing`` are objects that other field managers apply in between, ``released`` those that are kept in the end
    without the marks of an Application. Where ``methods`` are given, the suite fails only their calls.
    """

    name: str
    before: Files
    after: Files
    objects: Mapping[str, frozenset[str]]
    least: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    hooks: frozenset[str] = frozenset()
    existing: tuple[tuple[str, Manifest], ...] = ()
    released: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    needs_approval: bool = False
    is_signed: bool = False
    """Whether the operator's policy requires signed commits, and approvals of users who are not their authors."""
    is_rolled_back: bool = False


def _hook(name: str, phase: str, policy: str) -> str:
    return f"""apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations:
    gitsync.dev/hook: {phase}
    gitsync.dev/hook-delete-policy: {policy}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tool
          image: tool:1
"""


def _in_wave(manifest: str, wave: int) -> str:
    annotations = f'metadata:\n  annotations: {{gitsync.dev/sync-wave: "{wave}"}}\n'
    return manifest.replace("metadata:\n", annotations, 1)


def _applied(manager: str, name: str, **data: str) -> tuple[str, Manifest]:
    return manager, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


_KEPT = 'metadata:\n  annotations: {gitsync.dev/prune: "false"}\n'


def _maps(*names: str, x: str = "1") -> Files:
    return {f"one/{name}.yaml": config_map(name, x=x) for name in names}


SCENARIOS = (
    Scenario(
        "create",
        before={},
        after={**_maps(*"abcdefghijkl"), "one/web.yaml": deployment("web")},
        objects={"one": frozenset({*"abcdefghijkl", "web"})},
        least=120,
    ),
    Scenario(
        "update with waves and hooks",
        before={**_maps("a", "b"), "one/web.yaml": _in_wave(deployment("web"), 1)},
        after={
            **_maps("a", "b", x="2"),
            "one/web.yaml": _in_wave(deployment("web", image="web:2"), 1),
            "one/before.yaml": _hook("before", "PreSync", "BeforeHookCreation"),
            "one/after.yaml": _hook("after", "PostSync", "HookSucceeded"),
        },
        objects={"one": frozenset({"a", "b", "web"})},
        deleted=frozenset({"after"}),
        hooks=frozenset({"before", "after"}),
        least=170,
    ),
    Scenario(
        "prune with approval",
        before=_maps(*"abcdefgh"),
        after={"one/a.yaml": config_map("a", x="2"), **dict.fromkeys([f"one/{name}.yaml" for name in "bcdfgh"])},
        objects={"one": frozenset({"a", "e"})},
        spec={"risk": {"maxDeletes": 1}},
        deleted=frozenset("bcdfgh"),
        needs_approval=True,
        least=100,
    ),
    Scenario(
        "move between applications",
        before={**_maps(*"abcefghi"), "two/d.yaml": config_map("d", x="1")},
        after={
            **dict.fromkeys(["one/b.yaml", "one/c.yaml", "one/g.yaml"]),
            "two/b.yaml": config_map("b", x="2"),
            "two/c.yaml": config_map("c", x="1"),
            "two/g.yaml": config_map("g", x="1"),
        },
        objects={"one": frozenset("aefhi"), "two": frozenset("bcdg")},
        least=80,
    ),
    Scenario(
        "rollback",
        before={**_maps("a"), "one/web.yaml": deployment("web")},
        after={
            "one/a.yaml": config_map("a", x="2"),
            "one/added.yaml": config_map("added", x="1"),
            "one/web.yaml": deployment("web", image="web:crash"),
        },
        objects={"one": frozenset({"a", "web"})},
        spec={"sync": {"postSync": {"onDegraded": "Rollback", "degradedFor": "0s"}}},
        deleted=frozenset({"added"}),
        is_rolled_back=True,
        least=140,
    ),
    Scenario(
        "adopt and release",
        before={**_maps("a"), "one/kept.yaml": config_map("kept", x="1").replace("metadata:\n", _KEPT)},
        after={**_maps("b"), "one/kept.yaml": None},
        existing=(_applied("kubectl", "b", x="0", y="1"), _applied("another", "a", z="1")),
        objects={"one": frozenset("ab")},
        spec={"sync": {"undeclaredFields": "Remove"}},
        released=frozenset({"kept"}),
        methods=frozenset({"apply", "set_managed_fields", "remove_fields", "release"}),
        least=36,
    ),
    Scenario(
        "signed commits",
        before=_maps(*"abcd"),
        after={"one/a.yaml": config_map("a", x="2"), **dict.fromkeys(["one/b.yaml", "one/c.yaml"])},
        objects={"one": frozenset("ad")},
        spec={"risk": {"maxDeletes": 1}},
        deleted=frozenset("bc"),
        needs_approval=True,
        is_signed=True,
        methods=frozenset({"check", "tag", "authors", "review", "keep_review"}),
        least=36,
    ),
)
