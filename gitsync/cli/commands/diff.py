"""``gitsync diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.comparison import Evaluator, unobserved_notes
from gitsync.cli.options import (
    AgeKey,
    GitTarget,
    Output,
    command,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.plan_output import COLUMNS, addition_rows, print_additions, print_steps, rows_of


@command
def diff(
    target: GitTarget,
    local: Annotated[Path | None, typer.Option(help="Compare with this folder instead of the Git revision.")] = None,
    output: Output = Format.TABLE,
    age_key: AgeKey = None,
) -> Exit:
    """Show each field in which the cluster differs from Git. Exit code 1: there are differences; 3: maybe."""
    comparison = Evaluator(target, age_key).evaluate(local)
    steps = comparison.plan.outstanding
    for note in unobserved_notes(comparison.plan):
        say(note, "yellow", is_warning=True)
    if output is not Format.TABLE:
        rows = [row for step in steps for row in rows_of(step, comparison.traces)]
        show([*rows, *addition_rows(comparison.additions)], COLUMNS, output, key="object")
    elif steps or comparison.additions:
        print_steps(steps, comparison.traces)
        print_additions(comparison.additions)
    elif not comparison.plan.unobserved:
        say(f"in sync with {comparison.revision[:12] or 'the folder'}", "green")
    return comparison.exit_code or (Exit.DIFFERENT if comparison.additions else Exit.OK)
