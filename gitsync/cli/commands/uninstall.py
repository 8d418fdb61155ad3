"""``gitsync uninstall``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gitsync.cli.applications import connect
from gitsync.cli.options import NAMESPACE, ClusterTarget, Output, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.uninstall import Uninstaller

_COLUMNS = ("action", "object", "why")


@command
def uninstall(
    place: ClusterTarget,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, the plan is only printed.")] = False,
    workloads: Annotated[
        bool, typer.Option("--keep-workloads/--delete-workloads", help="Keep what Applications and Agents manage.")
    ] = True,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the controller.")] = NAMESPACE,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for each part to be gone.")] = 120.0,
    output: Output = Format.TABLE,
) -> Exit:
    """Remove the controller, its definitions and its rights; workloads stay. Exit code 1: there is something to do."""
    client = connect(place.cluster)
    uninstaller = Uninstaller(client, namespace, timeout)
    steps = list(uninstaller.plan(keeps_workloads=workloads))
    if not steps:
        say("nothing of gitsync is in the cluster", "green")
        return Exit.OK
    if not yes:
        show([asdict(step) for step in steps], _COLUMNS, output, key="object")
        if output is Format.TABLE:
            say("nothing was changed; to do this: gitsync uninstall --yes", "yellow")
        return Exit.DIFFERENT
    uninstaller.run(say, keeps_workloads=workloads)
    client.close()
    return Exit.OK
