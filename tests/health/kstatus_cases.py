"""Run the kstatus conformance cases: ``run(folder)`` returns what failed of how many."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gitsync.health import kstatus
from gitsync.health.fields import conditions
from gitsync.health.kstatus import Status

_LATE = datetime(2100, 1, 1, tzinfo=UTC)


def run(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with it, empty when it passes."""
    return [(case["name"], check(case)) for case in cases(folder)]


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        yield from orjson.loads(file.read_bytes())


def check(case: dict[str, Any]) -> str:
    return str(_CHECKS[case["op"]](case))


def _compute(case: dict[str, Any]) -> str:
    now = datetime.fromisoformat(case["now"].replace("Z", "+00:00")) if case.get("now") else None
    result, expect = kstatus.compute(case["object"], now), case["expect"]
    if result.status.value != expect["status"]:
        return f"status {result.status.value}, expected {expect['status']}"
    made = [result.condition] if result.condition else []
    for wanted in expect.get("conditions", []):
        if not any(all(have[key] == wanted[key] for key in ("type", "status", "reason")) for have in made):
            return f"conditions {made}, expected {wanted}"
    absent = set(expect.get("absentConditions", ())) & {have["type"] for have in made}
    return f"has {absent}" if absent else ""


def _augment(case: dict[str, Any]) -> str:
    result, expect = kstatus.augment(case["object"], _LATE), case["expect"]
    if "object" in expect:
        return "" if result == expect["object"] else f"object {result}"
    have = conditions(result)
    if len(have) != expect["conditionCount"]:
        return f"{len(have)} conditions"
    for wanted in expect["conditions"]:
        if not any(
            each["type"] == wanted["type"] and each.get("reason", "") == wanted.get("reason", "") for each in have
        ):
            return f"conditions {have}, expected {wanted}"
    return ""


def _aggregate(case: dict[str, Any]) -> str:
    status = kstatus.aggregate((Status(word) for word in case["statuses"]), Status(case["desired"]))
    return "" if status.value == case["expect"]["status"] else status.value


def _owner(case: dict[str, Any]) -> str:
    own = Status(case["own"]) if case["own"] else None
    status = kstatus.owner_status(own, (Status(word) for word in case["statuses"]))
    return "" if status.value == case["expect"]["status"] else status.value


_CHECKS = {"compute": _compute, "augment": _augment, "aggregate": _aggregate, "owner": _owner}
