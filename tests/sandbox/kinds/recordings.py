"""Requests and answers recorded from an API server, made comparable with the pure strategies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.contract import Strategy

NAMESPACE = "scene"
NOW = "2024-01-02T03:04:05Z"
UID = "0b1e6f4e-0f0e-4d5e-9a1e-5f9c1d2e3a4b"
_REPEATED = re.compile(r"<(\d+) times (\w)>")


class Allocator:
    """An Environment that gives out the markers of the recordings."""

    def now(self) -> str:
        return NOW

    def allocate_ip(self, wanted: str = "") -> str:
        return wanted or "10.96.1.1"

    def allocate_port(self, wanted: int = 0) -> int:
        return wanted or 30001

    def random_suffix(self, length: int = 5) -> str:
        return "<rand>"

    def new_uid(self) -> str:
        return UID

    def get(self, group: str, kind: str, namespace: str, name: str) -> Manifest | None:
        return None


def resolved(value: Any) -> Any:
    """Return a recorded value with its markers replaced by what this test uses."""
    text = (
        json.dumps(value)
        .replace("<ns>", NAMESPACE)
        .replace("<uid:1>", UID)
        .replace('"<port:1>"', "30001")
        .replace("<time>", NOW)
        .replace("<ip:1>", "10.96.1.1")
    )
    text = _REPEATED.sub(lambda match: match[2] * int(match[1]), text)
    return json.loads(text)


def scenarios(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the scenarios of one file."""
    for scenario in json.loads(path.read_bytes()):
        yield scenario["name"], scenario["steps"]


def create(strategy: Strategy, body: Manifest) -> Manifest:
    """Return the object that a POST stores, but for the pipeline's own metadata."""
    metadata = {**(body.get("metadata") or {}), "uid": UID}
    if strategy.namespaced:  # type: ignore[attr-defined]
        metadata["namespace"] = NAMESPACE
    return strategy.prepare(strategy.default({**body, "metadata": metadata}), None, "", Allocator())
