"""The held plan of an Application, for its approval or rejection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gitsync.cli.dashboard import Dashboard
from gitsync.cli.evaluation import Evaluation
from gitsync.cli.options import Target
from gitsync.cli.output import say
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import at
from gitsync.objects.ref import ObjectRef


def review_at_dashboard(
    dashboard: Dashboard, target: Target, review: dict[str, Any], steps: Iterable[str] = ()
) -> dict[str, Any]:
    """Print the plan that the dashboard shows, and send a review of exactly that plan, or of some of its steps."""
    plan = dashboard.plan(target.namespace, target.name)
    for step in plan["steps"]:
        rule = f", rule {step['rule']}" if step["rule"] else ""
        say(f"{step['action']} {step['object']}  [{step['risk']}{rule}] {step['reason']}")
    chosen = selected([step["path"] for step in plan["steps"]], steps)
    return dashboard.review(target.namespace, target.name, {**review, "digest": plan["digest"], "steps": chosen})


def selected(paths: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the paths of the steps named by ``KIND/NAME`` or by path; raise InvalidInput for an unknown one."""
    found = []
    for name in names:
        matching = [path for path in paths if path == name or _short(path) == name]
        if not matching:
            known = ", ".join(map(_short, paths[:10]))
            raise InvalidInput(f"the plan has no step {name!r}", location="--step", hint=f"steps are {known}")
        found += matching
    return found


def _short(path: str) -> str:
    ref = ObjectRef.from_path(path)
    return f"{ref.kind}/{ref.name}"


def shown_digest(evaluation: Evaluation) -> str:
    """Return the digest of the evaluated plan where the status shows that plan, else what the status shows."""
    shown = str(at(evaluation.manifest, "status", "plan", "id", default="")) or "none"
    digest = evaluation.plan.digest
    return digest if digest.startswith(shown) else shown
