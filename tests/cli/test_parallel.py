"""Parallel tasks return their results in order, also when a process is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.cli.builds import TaskOutput, map_forked
from gitsync.errors import InvalidInput

HERE = os.getpid()


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def with_process(item: str) -> TaskOutput:
    return item * 200_000, str(os.getpid())


def test_results_come_in_order_from_several_processes() -> None:
    output = list(map_forked(with_process, list("abcde")))

    assert [text for text, _ in output] == [letter * 200_000 for letter in "abcde"]
    processes = [process for _, process in output]
    assert processes[0::2] == [processes[0]] * 3
    assert len({*processes, str(HERE)}) == 3


def test_one_item_needs_no_other_process() -> None:
    assert list(map_forked(with_process, ["a"])) == [("a" * 200_000, str(HERE))]


def dying(item: str) -> TaskOutput:
    if os.getpid() != HERE and item == "c":
        os.kill(os.getpid(), 9)
    return item, str(os.getpid() == HERE)


def test_items_of_a_killed_process_are_computed_here() -> None:
    output = list(map_forked(dying, list("abcde")))

    assert output == [("a", "False"), ("b", "False"), ("c", "True"), ("d", "False"), ("e", "True")]


def refusing(item: str) -> TaskOutput:
    raise InvalidInput(f"not {item}")


def test_an_error_is_raised_here_and_no_process_is_left() -> None:
    before = children()
    with pytest.raises(InvalidInput, match="not a"):
        list(map_forked(refusing, ["a", "b"]))
    assert children() == before


def children() -> set[str]:
    """Return the ids of the processes that this one has, also of those that ended and were not taken note of."""
    return {child for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()}


def test_a_pipe_closed_early_is_not_an_error(tmp_path: Path) -> None:
    text = "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{i}}}\n" for i in range(3000))
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(text)
    command = f"{sys.executable} -m gitsync build {tmp_path}/a {tmp_path}/b {tmp_path}/c | head -n 1"

    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "apiVersion: v1\n", "")
