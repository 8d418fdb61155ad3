"""The steps that the demo prints are those of the README, in the same order."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gitsync.cli.commands.demo import Demo, progress, steps

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


def test_steps_that_wait_are_silent_and_end(demo: Demo) -> None:
    printed = steps(demo)
    waiting = [line for line in printed.splitlines() if "sleep" in line]
    assert waiting
    assert "until " not in printed
    assert [line for line in printed.splitlines() if "curl" in line and "curl -sS" not in line] == []
    for loop in waiting:
        asked = re.sub(r"do .* && break; sleep 2;", "do false && break; true;", loop)
        done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=True)
        assert done.stdout == "not yet: the dashboard shows what it waits for\n"
        assert done.stderr == ""


def test_a_step_of_the_start_is_repeated_while_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    is_reported = threading.Event()
    is_printed = threading.Event()

    def wait(ended: threading.Event, seconds: float) -> bool:
        assert seconds < 3
        if is_reported.wait() and not is_printed.is_set():
            is_printed.set()  # by this wait's end: the next call follows the line
            return False
        return ended.wait()

    with progress(wait) as report:
        report("loading the controller")
        is_reported.set()
        is_printed.wait()
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Loading the controller"
    assert re.fullmatch(r"  loading the controller: \d+ s", second)


def test_the_demo_loads_no_controller_before_its_sandbox_starts() -> None:
    script = (
        "import sys, gitsync.cli.commands.demo; print([name for name in sys.modules if name.startswith('gitsync')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "gitsync.cli.commands.demo" in done.stdout
    assert not re.search(r"gitsync\.(controllers|sync|operator|wiring|record|server\.app)\b", done.stdout)
