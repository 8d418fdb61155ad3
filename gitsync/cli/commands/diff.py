"""``gitsync diff``."""

from __future__ import annotations

from pathlib import Path

from gitsync.cli.evaluation import Evaluator
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.plan_output import COLUMNS, print_steps, rows_of


def diff(name: str, namespace: str, local: Path | None, output: Format, site: Target) -> Exit:
    """Print each step of the plan with its fields; nothing is written."""
    found = Evaluator(site).evaluate(namespace, name, local)
    steps = found.plan.writes
    if output is not Format.TABLE:
        show([row for step in steps for row in rows_of(step, found.traces)], COLUMNS, output)
    elif steps:
        print_steps(steps, found.traces)
    else:
        say(f"in sync with {found.revision[:12] or 'the folder'}", "green")
    return Exit.DIFFERENT if steps else Exit.OK
