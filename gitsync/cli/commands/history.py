"""``gitsync history``."""

from __future__ import annotations

from gitsync.cli.applications import connect, one_application
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.manifest import at

_COLUMNS = ("id", "started", "revision", "author", "message", "class", "outcome", "by", "duration")


def history(name: str, namespace: str, output: Format, site: Target) -> Exit:
    """Print what was synced, newest first."""
    application = one_application(connect(site.kubeconfig), namespace, name)
    entries = at(application, "status", "history", default=[])
    if output is not Format.TABLE:
        show(entries, _COLUMNS, output)
    elif entries:
        rows = [
            {
                **entry,
                "started": entry.get("startedAt", ""),
                "revision": str(entry.get("revision", ""))[:12],
                "duration": f"{entry.get('durationMs', 0)} ms",
            }
            for entry in entries
        ]
        show(rows, _COLUMNS, output)
    else:
        say("nothing was synced yet")
    return Exit.OK
