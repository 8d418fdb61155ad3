"""``gitsync events``."""

from __future__ import annotations

from urllib.parse import urlencode

from gitsync.cli.dashboard import DashboardOptions, application_path, one_object
from gitsync.cli.options import (
    NAMESPACE,
    Name,
    Namespace,
    ObjectArgument,
    Output,
    command,
)
from gitsync.cli.output import Exit, Format, say, show

_COLUMNS = ("last", "type", "reason", "count", "message")


@command
def events(
    dashboard: DashboardOptions,
    name: Name,
    object: ObjectArgument,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
) -> Exit:
    """List the Kubernetes Events about an object of an Application, newest first."""
    running = dashboard.require()
    application = f"{namespace}/{name}"
    ref = one_object(running, application, object)
    listed = running.get(f"{application_path(application)}/events?{urlencode({'ref': ref})}")
    if listed or output is not Format.TABLE:
        show(listed, _COLUMNS, output, key="reason")
    else:
        say("no Events: the API server keeps them for an hour by default")
    return Exit.OK
