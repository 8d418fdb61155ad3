"""``gitsync history``."""

from __future__ import annotations

from gitsync.cli.applications import connect, one_application
from gitsync.cli.options import Output, Target, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.manifest import at

_COLUMNS = ("id", "started", "revision", "author", "message", "class", "outcome", "by", "duration")


@command
def history(
    target: Target,
    output: Output = Format.TABLE,
) -> Exit:
    """List the syncs: commit, author, message, outcome."""
    client = connect(target.cluster)
    entries = at(one_application(client, target.namespace, target.name), "status", "history", default=[])
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
