"""``gitsync history``."""

from __future__ import annotations

from gitsync.cli.applications import connect, one_application
from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, NAMESPACE, Data, Kubeconfig, Name, Namespace, Output, Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.objects.manifest import at

_COLUMNS = ("id", "started", "revision", "author", "message", "class", "outcome", "by", "duration")


@exit_on_error
def history(
    name: Name,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = "",
    data: Data = DATA,
) -> Exit:
    """List the syncs: commit, author, message, outcome."""
    client = connect(Target(kubeconfig=kubeconfig, data=data).cluster)
    entries = at(one_application(client, namespace, name), "status", "history", default=[])
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
