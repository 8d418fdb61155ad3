"""
Each recorded outage fires exactly one alert of the shipped rules, and none of them without an outage.

Prometheus evaluates the rules: ``promtool`` is of Debian's package ``prometheus``. ``record_outages.py`` makes the
recordings.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.server.record_outages import FOLDER, OUTAGES, RULES

BEFORE = 20
DURING = 75
AFTER = 75
"""Minutes; rates of an hour have forgotten the outage by its end."""
REASON = "promtool is not installed (Debian's package prometheus)"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=REASON)


def rules() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["spec"]["groups"]
    return groups


def series(name: str, values: list[float | None]) -> dict[str, str]:
    """Return a series of promtool, a value a minute: before the outage, during it, and after it."""
    before, during, growth = values
    # the clock is recorded as its difference from the true time, which is that of the test
    slope = 60.0 if name.startswith("gitsync_clock_seconds") else 0.0
    offset = lambda minute: slope * minute  # noqa: E731
    parts = [
        _part(before, offset(0), slope, BEFORE),
        _part(during, offset(BEFORE), slope + (growth or 0.0), DURING),
        _part(before if not growth else _end(during, growth), offset(BEFORE + DURING), slope, AFTER),
    ]
    return {"series": name.replace("{}", ""), "values": " ".join(parts)}


def _end(during: float | None, growth: float) -> float | None:
    """Return where a counter is after the outage."""
    return None if during is None else during + growth * DURING


def _part(value: float | None, offset: float, slope: float, minutes: int) -> str:
    if value is None:
        return f"_x{minutes}"
    # promtool repeats the first value n times more
    return f"{value + offset}+{slope}x{minutes - 1}"


def evaluated(folder: Path, recorded: dict[str, list[float | None]], expected: str) -> str:
    """Return what promtool reports of a recording, empty where it fires as expected."""
    # the time since the last success is reset by the first one after the outage
    names = {name: values for name, values in recorded.items() if not name.startswith("gitsync_oldest_look")}
    rows = [series(name, values) for name, values in names.items()]
    for name in recorded.keys() - names.keys():
        row = series(name, recorded[name])
        row["values"] = " ".join([*row["values"].split()[:-1], f"0+0x{AFTER - 1}"])
        rows.append(row)
    firing = [
        {"eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": _expected(rule, expected, during)}
        for group in rules()
        for rule in group["rules"]
        for minute, during in ((BEFORE - 1, False), (BEFORE + DURING - 1, True), (BEFORE + DURING + AFTER - 1, False))
    ]
    # whether an alert fires, not what it shows: its text has the value
    for group in rules():
        for rule in group["rules"]:
            assert rule["annotations"].keys() == {"summary", "runbook_url"}
    plain = [
        {**group, "rules": [{k: v for k, v in rule.items() if k != "annotations"} for rule in group["rules"]]}
        for group in rules()
    ]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": plain}))
    test = {"interval": "1m", "input_series": rows, "alert_rule_test": firing}
    (folder / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _expected(rule: dict[str, Any], alert: str, during: bool) -> list[dict[str, Any]]:
    return [{"exp_labels": rule["labels"]}] if during and rule["alert"] == alert else []


@needs_promtool
def test_the_rules_are_valid(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rules()}))
    done = subprocess.run(
        ["promtool", "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("name", sorted(OUTAGES))
def test_an_outage_fires_exactly_its_alert(tmp_path: Path, name: str) -> None:
    recording = json.loads((FOLDER / f"{name}.json").read_text())
    assert evaluated(tmp_path, recording["series"], recording["alert"]) == ""


def test_every_outage_is_recorded_with_its_alert() -> None:
    recorded = {file.stem: json.loads(file.read_text())["alert"] for file in FOLDER.glob("*.json")}
    assert recorded == {name: alert for name, (_, alert) in OUTAGES.items()}
    assert set(recorded.values()) <= {rule["alert"] for group in rules() for rule in group["rules"]}
