"""``gitsync diff``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gitsync.cli.applications import connect
from gitsync.cli.oneshot import look, open_source
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import one_line
from gitsync.objects.change import ABSENT, DRIFT, Action, Change, FieldDifference

_COLUMNS = ("action", "class", "object", "path", "live", "desired", "manager", "time")
_SIGNS = {Action.CREATE: ("+", "green"), Action.PRUNE: ("-", "red"), Action.REPLACE: ("±", "red")}
_SHOWN = 200


def diff(
    name: str, namespace: str, local: Path | None, output: Format, kubeconfig: str, data: Path, file_urls: bool
) -> Exit:
    """Print each step of the plan with its fields; nothing is written."""
    found = look(connect(kubeconfig), open_source(data, allow_file_urls=file_urls), namespace, name, local)
    steps = found.plan.writes
    if output is Format.TABLE:
        _print(steps, found.revision)
    else:
        show([row for step in steps for row in _rows(step)], _COLUMNS, output)
    return Exit.DIFFERS if steps else Exit.DONE


def _drifted(step: Change) -> Iterable[FieldDifference]:
    return (difference for difference in step.differences if difference.kind in DRIFT)


def _rows(step: Change) -> list[dict[str, Any]]:
    """Return a row for each field, or one for the object where it is made or deleted as a whole."""
    base: dict[str, Any] = {
        "action": step.action.value,
        "class": step.risk.value,
        "object": str(step.ref),
        "reason": step.reason,
    }
    fields = [
        base
        | {
            "path": difference.path,
            "pointer": difference.pointer,
            "kind": difference.kind.value,
            "live": None if difference.live is ABSENT else difference.live,
            "desired": None if difference.desired is ABSENT else difference.desired,
            "manager": difference.owners[0].manager if difference.owners else "",
            "time": difference.owners[0].time if difference.owners else "",
        }
        for difference in _drifted(step)
    ]
    return fields or [base]


def _print(steps: tuple[Change, ...], revision: str) -> None:
    if not steps:
        say(f"in sync with {revision[:12] or 'the folder'}", "green")
        return
    for step in steps:
        sign, style = _SIGNS.get(step.action, ("~", "yellow"))
        say(f"{sign} {step.action.value} {step.ref}  [{step.risk.value}] {step.reason}", style)
        for difference in _drifted(step):
            owner = difference.owners[0] if difference.owners else None
            by = f"   ({owner.manager}, {owner.operation}, {owner.time})" if owner else ""
            say(f"    {difference.path}: {_shown(difference.live)} -> {_shown(difference.desired)}{by}")


def _shown(value: Any) -> str:
    return "(absent)" if value is ABSENT else one_line(repr(value), _SHOWN)
