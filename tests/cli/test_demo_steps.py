"""The steps that the demo prints are those of the README, in the same order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitsync.cli.commands.demo import Demo, steps

README = Path(__file__).parents[2] / "README.md"
WORDS = ("commit", "hand", "prompt", "revert", "break it")


def numbered(text: str, pattern: str) -> list[str]:
    """Return the texts of numbered steps, in lower case."""
    parts = re.split(pattern, text, flags=re.MULTILINE)[1:]
    return [part.lower() for part in parts]


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    config = tmp_path / "kubeconfig"
    config.write_text("token: abc\n", encoding="utf-8")
    return Demo(tmp_path / "demo", tmp_path, config, "http://127.0.0.1:1", "http://127.0.0.1:2")


def test_the_demo_prints_the_steps_of_the_readme(demo: Demo) -> None:
    documented = README.read_text(encoding="utf-8").partition("## Try it")[2].partition("\n## ")[0]
    for found in (numbered(documented, r"^\d\. "), numbered(steps(demo), r"^# \d\. ")):
        assert len(found) == len(WORDS)
        assert [word for word, text in zip(WORDS, found, strict=True) if word not in text] == []


def test_without_agents_that_run_the_other_steps_have_their_numbers(demo: Demo) -> None:
    found = steps(Demo(demo.clone, demo.data, demo.kubeconfig, demo.url))
    assert re.findall(r"^# (\d)\. (\w+)", found, flags=re.MULTILINE) == [
        ("1", "Commit"),
        ("2", "Change"),
        ("3", "Undo"),
        ("4", "Break"),
    ]
    assert "--proxy" not in found
