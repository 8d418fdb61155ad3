"""``gitsync events``."""

from __future__ import annotations

from urllib.parse import urlencode

from gitsync.cli.dashboard import connect, of, one_object
from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import (
    DATA,
    NAMESPACE,
    Data,
    Name,
    Namespace,
    ObjectArgument,
    Output,
    ServerUrl,
    TokenFile,
)
from gitsync.cli.output import Exit, Format, say, show

_COLUMNS = ("last", "type", "reason", "count", "message")


@exit_on_error
def events(
    name: Name,
    object: ObjectArgument,
    namespace: Namespace = NAMESPACE,
    output: Output = Format.TABLE,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    data: Data = DATA,
) -> Exit:
    """List the Kubernetes Events about an object of an Application, newest first."""
    dashboard, application = connect(server, token_file, data), f"{namespace}/{name}"
    ref = one_object(dashboard, application, object)
    found = dashboard.get(f"{of(application)}/events?{urlencode({'ref': ref})}")
    if found or output is not Format.TABLE:
        show(found, _COLUMNS, output, key="reason")
    else:
        say("no Events: the API server keeps them for an hour by default")
    return Exit.OK
