"""The report as lines for a terminal."""

from __future__ import annotations

from gitsync.preview.text import to_lines
from tests.preview.factories import deployment, report

BEFORE = {"prod/kustomization.yaml": "resources: [d.yaml]", "prod/d.yaml": deployment()}


def test_what_a_change_has_written_moves_no_cursor() -> None:
    hostile = (
        '{"apiVersion": "v1", "kind": "A\\u001b[31m", "metadata": {"name": "b\\r\\n\\u202e", "namespace": "c\\u0000"}}'
    )
    made = report(BEFORE, {**BEFORE, "prod/d.yaml": hostile})
    lines = [line for line, _ in to_lines(made)]
    assert any(r"A\x1b[31m c\x00/b\r\n\u202e" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_nothing_that_changes_is_one_line() -> None:
    assert list(to_lines(report(BEFORE, BEFORE))) == [("nothing changes in 1 deployed folder", "green")]
