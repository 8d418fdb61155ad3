"""``gitsync diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.evaluation import Evaluator, unobserved_notes
from gitsync.cli.options import DATA, NAMESPACE, AgeKey, Data, FileUrls, Kubeconfig, Name, Namespace, Output, Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.plan_output import COLUMNS, print_steps, rows_of


@exit_on_error
def diff(
    name: Name,
    namespace: Namespace = NAMESPACE,
    local: Annotated[Path | None, typer.Option(help="Compare with this folder instead of the Git revision.")] = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
    allow_file_urls: FileUrls = False,
    age_key: AgeKey = None,
) -> Exit:
    """Show each field in which the cluster differs from Git. Exit code 1: there are differences; 3: maybe."""
    target = Target(
        name=name,
        namespace=namespace,
        kubeconfig=kubeconfig,
        data=data,
        file_urls=allow_file_urls,
        age_key=age_key,
    )
    found = Evaluator(target).evaluate(local)
    steps = found.plan.writes
    for note in unobserved_notes(found.plan):
        say(note, "yellow", is_warning=True)
    if output is not Format.TABLE:
        show([row for step in steps for row in rows_of(step, found.traces)], COLUMNS, output, key="object")
    elif steps:
        print_steps(steps, found.traces)
    elif not found.plan.unobserved:
        say(f"in sync with {found.revision[:12] or 'the folder'}", "green")
    return found.exit_code
