"""``gitsync history``."""

from __future__ import annotations

from gitsync.cli.applications import connect, one_application
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.manifest import at

_COLUMNS = ("id", "started", "revision", "author", "message", "class", "outcome", "by", "duration")


def history(name: str, namespace: str, output: Format, kubeconfig: str) -> Exit:
    """Print what was synced, newest first."""
    application = one_application(connect(kubeconfig), namespace, name)
    entries = at(application, "status", "history", default=[])
    rows = [
        {
            **entry,
            "started": entry.get("startedAt", ""),
            "revision": entry.get("revision", "") if output is not Format.TABLE else entry.get("revision", "")[:12],
            "duration": f"{entry.get('durationMs', 0)} ms",
        }
        for entry in entries
    ]
    if not rows and output is Format.TABLE:
        say("nothing was synced yet")
        return Exit.DONE
    show(rows, _COLUMNS, output)
    return Exit.DONE
