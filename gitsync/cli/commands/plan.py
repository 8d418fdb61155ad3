"""``gitsync plan`` and ``gitsync diff``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.agent_revisions import object_verdicts, verdicts
from gitsync.cli.comparison import ApplicationComparison, Evaluator, unobserved_notes
from gitsync.cli.options import AgeKey, GitTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show, show_one
from gitsync.cli.plan_output import COLUMNS, addition_rows, drifted, field_row, print_additions, print_steps, rows_of
from gitsync.objects.change import Change, Decision
from gitsync.objects.manifest import at
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import place


@command
def plan(
    target: GitTarget,
    output: Output = Format.TABLE,
    age_key: AgeKey = None,
) -> Exit:
    """Show what a sync would do: each step with its class, rule and reason. Exit code 1: there are steps; 3: maybe."""
    evaluator = Evaluator(target, age_key)
    comparison = evaluator.evaluate()
    evaluations = verdicts(evaluator.client, comparison.plan.application)
    evaluations += object_verdicts(comparison.manifest.get("status") or {})
    if output in (Format.JSON, Format.YAML):
        show_one(_members(comparison) | {"evaluations": evaluations}, output)
    elif output is not Format.TABLE:
        rows = [row for step in comparison.plan.outstanding for row in rows_of(step, comparison.traces)]
        show(rows, COLUMNS, output, key="object")
    else:
        _print(comparison)
        for verdict in evaluations:
            say(f"evaluation of {verdict['agent']}: {verdict.get('result')}, {verdict.get('message', '')}")
    return comparison.exit_code


def _print(comparison: ApplicationComparison) -> None:
    plan = comparison.plan
    say(f"plan {plan.digest[:12]} of {plan.application} at {plan.revision[:12]}")
    say(plan.explanation)
    for refusal in _refusals(comparison):
        say(f"refused: {refusal}", "red")
    for reason in _hold_reasons(comparison):
        say(f"held: {reason}", "yellow")
    for note in comparison.notes:
        say(f"note: {note}", "yellow")
    if plan.repairs:
        say("changed by others in the cluster, and restored without an approval:")
        print_steps(plan.repairs, comparison.traces)
        say("what the commit changes:" if plan.writes else "the commit changes nothing else")
    print_steps(plan.writes, comparison.traces)
    print_additions(comparison.additions)


def _refusals(comparison: ApplicationComparison) -> list[str]:
    """Return the reasons for which the controller would refuse the plan."""
    return list(comparison.verdict.reasons) if comparison.verdict.decision is Decision.REFUSED else []


def _hold_reasons(comparison: ApplicationComparison) -> list[str]:
    """Return why the plan is held: from the status when the controller holds this very plan, else from the gate."""
    known = _known(comparison).get("reasons")
    return list(known or comparison.verdict.reasons) if comparison.verdict.decision is Decision.HELD else []


def _known(comparison: ApplicationComparison) -> dict[str, Any]:
    """Return the status of this very plan; a reasoner may have raised its class there."""
    status = at(comparison.manifest, "status", "plan", default={})
    # a status with another id is of an earlier plan
    return status if status.get("id") == comparison.plan.digest[:12] else {}


def _members(comparison: ApplicationComparison) -> dict[str, Any]:
    plan = comparison.plan
    return {
        "application": plan.application,
        "revision": plan.revision,
        "digest": plan.digest,
        "class": _known(comparison).get("class", plan.risk.value),
        "explanation": plan.explanation,
        "refusals": _refusals(comparison),
        "held": _hold_reasons(comparison),
        "notes": list(comparison.notes),
        "repairs": [_step(step, comparison.traces.get(step.ref, {})) for step in plan.repairs],
        "steps": [_step(step, comparison.traces.get(step.ref, {})) for step in plan.writes],
    }


def _step(step: Change, setters: Mapping[str, Sequence[FieldSetter]]) -> dict[str, Any]:
    return {
        "object": str(step.ref),
        "action": step.action.value,
        "class": step.risk.value,
        "rule": step.rule,
        "reason": step.reason,
        "stage": step.stage,
        "wave": step.wave,
        "problem": step.problem,
        "where": place(setters.get("", ())),
        "differences": [field_row(step, item, setters.get(item.path, ())) for item in drifted(step)],
    }


@command
def diff(
    target: GitTarget,
    local: Annotated[
        Path | None,
        typer.Option(
            help="Compare with this folder instead of the Git revision; of several sources, in a clone of one."
        ),
    ] = None,
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
