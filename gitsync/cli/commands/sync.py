"""``gitsync sync``."""

from __future__ import annotations

import time

from gitsync.cli.applications import connect, is_good, one_application, request_sync
from gitsync.cli.options import Target
from gitsync.cli.output import Exit, say
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.objects.change import HoldReason
from gitsync.objects.conditions import READY, find_condition, main_message
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.phase import Phase

_POLL = 0.2


def sync(name: str, namespace: str, wait: bool, timeout: float, site: Target) -> Exit:
    """Ask for a sync by annotation and, unless told otherwise, wait for its end."""
    client = connect(site.kubeconfig)
    if at(one_application(client, namespace, name), "spec", "suspend", default=False):
        raise InvalidInput(
            "is suspended, so nothing of it is synced",
            object=f"Application {namespace}/{name}",
            hint=f"resume it first: gitsync resume {name}",
        )
    request = request_sync(client, namespace, name)
    if not wait:
        say(f"sync of {namespace}/{name} requested")
        return Exit.OK
    deadline = time.monotonic() + timeout
    while True:
        application = one_application(client, namespace, name)
        if _is_settled(application, request):
            state = application.get("status") or {}
            say(f"{namespace}/{name}: {state.get('sync')}, {state.get('health')}: {main_message(state)}")
            return Exit.OK if is_good(application) else Exit.DIFFERENT
        if time.monotonic() > deadline:
            message = main_message(application.get("status") or {}) or "no status yet"
            raise ClusterUnavailable(
                f"the sync did not end within {timeout:g} s: {message}",
                object=f"Application {namespace}/{name}",
                hint="is the controller running? `gitsync status` tells more",
            )
        time.sleep(_POLL)


def _is_settled(application: Manifest, request: str) -> bool:
    """Tell whether the request was taken up and nothing is on its way any more; what is held waits for a person."""
    state = application.get("status") or {}
    phase = Phase.of(state)
    if phase.is_held or phase is Phase.SUSPENDED:
        return True
    if find_condition(state, READY).get("reason") == HoldReason.WINDOW.value:
        return True
    if at(application, "status", "requestedSync") != request:
        return False
    is_busy = phase in (Phase.OBSERVING, Phase.PLANNING, Phase.EXECUTING)
    return not is_busy and state.get("health") != "Progressing"
