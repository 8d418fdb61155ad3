"""``gitsync history``."""

from __future__ import annotations

from typing import Any

from gitsync.cli.applications import connect, one_application
from gitsync.cli.data_folder import open_records
from gitsync.cli.options import ApplicationTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.errors import InvalidInput
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import at

_COLUMNS = ("id", "started", "revision", "author", "message", "class", "outcome", "by", "duration")


@command
def history(
    target: ApplicationTarget,
    output: Output = Format.TABLE,
) -> Exit:
    """List the syncs: commit, author, message, outcome."""
    entries = _entries(target)
    if output in (Format.JSON, Format.YAML):
        show(entries, _COLUMNS, output, key="id")
    elif entries or output is not Format.TABLE:
        rows = [
            {
                **entry,
                "started": entry.get("startedAt", ""),
                "revision": str(entry.get("revision", ""))[:12],
                "duration": f"{entry.get('durationMs', 0)} ms",
            }
            for entry in entries
        ]
        show(rows, _COLUMNS, output, key="id")
    else:
        say("no sync yet")
    return Exit.OK


def _entries(target: ApplicationTarget) -> list[dict[str, Any]]:
    """Return the syncs that the status of an Application lists, or those in the database of another owner."""
    if OwnerKey.parse(target.key).of == APPLICATION:
        client = connect(target.cluster)
        listed: list[dict[str, Any]] = at(
            one_application(client, target.namespace, target.name), "status", "history", default=[]
        )
        return listed
    with open_records(target.data) as records:
        syncs = records.history(target.key)
        if not syncs:
            raise InvalidInput(
                f"no sync of {target.name} is recorded in namespace {target.namespace}",
                hint="name the namespace of the object with -n; gitsync agents lists Agents",
            )
        return [
            {
                "id": record.id,
                "startedAt": record.started.isoformat(timespec="seconds"),
                "revision": record.commit.id,
                "author": record.commit.author,
                "message": record.commit.subject,
                "class": record.risk,
                "outcome": record.outcome.value,
                "by": record.initiator,
                "durationMs": record.duration_ms,
            }
            for record in syncs
        ]
