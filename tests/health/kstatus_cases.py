"""Run the kstatus conformance cases: ``run(folder)`` returns what failed of how many."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from gitsync.health import kstatus
from gitsync.health.kstatus import Status


def run(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with it, empty when it passes."""
    return [(case["name"], check(case)) for case in cases(folder)]


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        # The library also merges conditions and aggregates sets; the product judges single objects only.
        yield from (case for case in orjson.loads(file.read_bytes()) if case["op"] == "compute")


def check(case: dict[str, Any]) -> str:
    now = datetime.fromisoformat(case["now"].replace("Z", "+00:00")) if case.get("now") else None
    result, expect = kstatus.compute(case["object"], now), case["expect"]
    if result.status.value != expect["status"]:
        return f"status {result.status.value}, expected {expect['status']}"
    kind = {Status.IN_PROGRESS: "Reconciling", Status.FAILED: "Stalled"}.get(result.status)
    made = [{"type": kind, "status": "True", "reason": result.reason}] if kind else []
    for wanted in expect.get("conditions", []):
        if not any(all(have[key] == wanted[key] for key in ("type", "status", "reason")) for have in made):
            return f"conditions {made}, expected {wanted}"
    absent = set(expect.get("absentConditions", ())) & {have["type"] for have in made}
    return f"has {absent}" if absent else ""
