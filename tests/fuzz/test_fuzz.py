"""Each target runs for a moment; ``make fuzz`` runs them for long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import CORPUS, TooSlow, check, edited
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_input_crashes_hangs_or_fills_the_memory(name: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", "1.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no failure" in done.stdout
    assert f"{name}: 0 inputs" not in done.stdout


def test_every_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert all(list(folder.iterdir()) for folder in CORPUS.iterdir())


def test_a_slow_target_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.__main__.SECONDS", 0.05)
    with pytest.raises(TooSlow):
        check(lambda data: sum(range(10**7)), b"x")


def test_edits_change_a_text() -> None:
    edits = [("insert", 0, 0, b"a"), ("delete", 1, 1, b""), ("repeat", 60, 1, b"")]
    assert edited(b"xy", edits) == b"ay"
    assert len(edited(b"x" * 100, [("repeat", 59, 400, b"")] * 9)) == 20_000
