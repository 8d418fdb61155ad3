"""``gitsync suspend`` and ``gitsync resume``."""

from __future__ import annotations

from gitsync.cli.applications import change_application, connect, one_application
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, say
from gitsync.objects.keys import SUSPEND_MANAGER


def suspend(name: str, namespace: str, suspended: bool, site: Target) -> Exit:
    """Set ``spec.suspend`` and nothing else, as the button of the dashboard does."""
    client = connect(site.kubeconfig)
    one_application(client, namespace, name)
    change_application(client, namespace, name, SUSPEND_MANAGER, spec={"suspend": suspended})
    say(f"{namespace}/{name} {'suspended: nothing is written until you resume it' if suspended else 'resumed'}")
    return Exit.OK
