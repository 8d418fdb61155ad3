"""A process answers lines by lines; one that does not answer in time delays nothing further."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from gitsync.cli.further_processes import Questions, answer_until_end

ECHO = 'while read -r line; do echo "$line answer"; done'
LATE = 'read -r first; read -r second; echo "$first late"; echo "$second right"; cat > /dev/null'


@contextmanager
def asked(script: str) -> Iterator[Questions]:
    process = subprocess.Popen(("sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Questions(process)
    finally:
        process.kill()
        process.communicate()


def test_each_question_has_its_answer() -> None:
    with asked(ECHO) as process:
        assert [process.ask(10) for _ in range(3)] == [b"answer"] * 3


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one() -> None:
    with asked(LATE) as process:
        assert process.ask(0.05) is None
        assert process.ask(10) == b"right"


def test_a_process_that_ended_or_does_not_read_answers_nothing() -> None:
    with asked("exit 0") as process:
        assert process.ask(10) is None
        assert process.ask(10) is None
    with asked("sleep 60") as process:
        assert [process.ask(0.0) for _ in range(200)] == [None] * 200
        assert process._asked == 100, "more would fill its input"


def test_questions_are_answered_until_the_input_ends() -> None:
    output = io.BytesIO()
    answer_until_end([b"1\n", b"2\n"], output, lambda: b"{}")
    assert output.getvalue() == b"1 {}\n2 {}\n"
