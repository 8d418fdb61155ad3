"""``gitsync plan``."""

from __future__ import annotations

from typing import Any

from gitsync.cli.oneshot import Desk, Look
from gitsync.cli.options import Site
from gitsync.cli.output import Exit, Format, say, show_one
from gitsync.cli.steps import drifted, field_row, print_steps
from gitsync.objects.change import Change
from gitsync.objects.manifest import at


def plan(name: str, namespace: str, output: Format, site: Site) -> Exit:
    """Print what a sync would do now and why; nothing is written."""
    found = Desk(site).look(namespace, name)
    if output is not Format.TABLE:
        show_one(_members(found), output)
    else:
        _print(found)
    return Exit.DIFFERS if found.plan.writes else Exit.DONE


def _print(found: Look) -> None:
    plan = found.plan
    say(f"plan {plan.digest[:12]} of {plan.application} at {plan.revision[:12]}")
    say(plan.explanation)
    for refusal in plan.refusals:
        say(f"refused: {refusal}", "red")
    for reason in _held(found):
        say(f"held: {reason}", "yellow")
    print_steps(plan.writes)


def _held(found: Look) -> list[str]:
    """Return why the controller holds this very plan."""
    held = at(found.manifest, "status", "plan", default={})
    return list(held.get("reasons") or ()) if held.get("id") == found.plan.digest[:12] else []


def _members(found: Look) -> dict[str, Any]:
    plan = found.plan
    return {
        "application": plan.application,
        "revision": plan.revision,
        "digest": plan.digest,
        "class": plan.risk.value,
        "explanation": plan.explanation,
        "refusals": list(plan.refusals),
        "held": _held(found),
        "steps": [_step(step) for step in plan.writes],
    }


def _step(step: Change) -> dict[str, Any]:
    return {
        "object": str(step.ref),
        "action": step.action.value,
        "class": step.risk.value,
        "rule": step.rule,
        "reason": step.reason,
        "stage": step.stage,
        "wave": step.wave,
        "problem": step.problem,
        "differences": [field_row(difference) for difference in drifted(step)],
    }
