"""
Run the health conformance cases: ``run(folder)`` returns each case's name and what is wrong.

Kinds that upstream judges by a script are judged here by their rule alone, as their tests do: an object on its way out
is one thing for ``assess``, which every kind shares, and another for the rule of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from gitsync.health.assess import assess, kind_of, rule_for


def run(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with its status, empty when it is right."""
    return [(case["name"], status_problem(case)) for case in cases(folder)]


def run_messages(folder: Path) -> list[tuple[str, str]]:
    """Return each case's name and what is wrong with its message, for the cases that name one."""
    return [(case["name"], message_problem(case)) for case in cases(folder) if "message" in case["expected"]]


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        for case in orjson.loads(file.read_bytes()):
            yield {**case, "scripted": not file.name.startswith("builtin_")}


def status_problem(case: dict[str, Any]) -> str:
    found, wanted = _judge(case).health.value, case["expected"]["status"]
    return "" if found == wanted else f"{found}, expected {wanted}"


def message_problem(case: dict[str, Any]) -> str:
    found, wanted = _judge(case).message, case["expected"]["message"]
    return "" if found == wanted else f"{found!r}, expected {wanted!r}"


def _judge(case: dict[str, Any]) -> Any:
    live = case["object"]
    return rule_for(kind_of(live))(live) if case["scripted"] else assess(live)
