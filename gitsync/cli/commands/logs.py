"""``gitsync logs`` and ``gitsync events``."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlencode

import typer

from gitsync.cli.dashboard import Dashboard, DashboardOptions, application_path, one_object
from gitsync.cli.options import NAMESPACE, Name, Namespace, ObjectArgument, Output, command
from gitsync.cli.output import Exit, Format, say, show

_PERIOD = 1.0
"""Seconds between two reads of a log that is followed."""
_FOLLOWED = 2000
"""Lines that are read each time; more than that between two reads would be lost."""


@command
def logs(
    dashboard: DashboardOptions,
    name: Name,
    object: ObjectArgument,
    container: Annotated[str, typer.Option("--container", "-c", help="The container; by default the first.")] = "",
    pod: Annotated[str, typer.Option(help="The Pod of the object; by default the first.")] = "",
    previous: Annotated[bool, typer.Option("--previous", "-p", help="The log before the last restart.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option(min=1, max=2000, help="The last lines to print.")] = 200,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print when each line was written.")] = False,
    namespace: Namespace = NAMESPACE,
) -> Exit:
    """Print the log of a container of a Pod that an object owns, or is."""
    running = dashboard.require()
    application = f"{namespace}/{name}"
    query = {"ref": one_object(running, application, object), "pod": pod, "container": container}
    query |= {"previous": "true"} if previous else {}
    query |= {"timestamps": "true"} if timestamps else {}
    url = f"{application_path(application)}/logs?{urlencode(query)}"
    text = running.text(f"{url}&lines={lines}")
    say(text.rstrip("\n"))
    while follow:
        text = _print_new(running, url, text)
    return Exit.OK


def _print_new(dashboard: Dashboard, url: str, printed: str) -> str:
    time.sleep(_PERIOD)
    text = dashboard.text(f"{url}&lines={_FOLLOWED}")
    new = new_lines(printed.splitlines(), text.splitlines())
    if new:
        say("\n".join(new))
    return text


def new_lines(printed: list[str], now: list[str]) -> list[str]:
    """Return the lines that were added to a log whose last lines were read before."""
    if not printed:
        return now
    # from the end: repeated lines, such as those of probes, match the newest place
    for end in range(len(now), 0, -1):
        count = min(end, len(printed))
        if now[end - count : end] == printed[-count:]:
            return now[end:]
    # nothing in common: more lines came than are read at a time
    return now


_EVENT_COLUMNS = ("last", "type", "reason", "count", "message")


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
        show(listed, _EVENT_COLUMNS, output, key="reason")
    else:
        say("no Events: the API server keeps them for an hour by default")
    return Exit.OK
