"""Rules for a file that a tree may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.source.file_rules import FILE_MIB, MAX_FILE_MIB, file_limit

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_documented_limit_of_a_file_is_the_one_that_counts() -> None:
    text = f"| one file | {FILE_MIB} MiB; `GITSYNC_FILE_MIB` sets it, from 1 to {MAX_FILE_MIB} |"
    assert text in (DOCS / "yaml.md").read_text()


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.5", "", "²", "many"])
def test_another_limit_is_a_number_of_mib(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GITSYNC_FILE_MIB", text)
    with pytest.raises(InvalidInput, match=f"{text!r} is not a number of MiB"):
        file_limit()


def test_the_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSYNC_FILE_MIB", "3")
    assert file_limit() == 3 << 20
