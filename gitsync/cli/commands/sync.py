"""``gitsync sync``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from gitsync.cli.applications import connect, is_good, one_application
from gitsync.cli.dashboard import DashboardOptions, one_object
from gitsync.cli.options import (
    ApplicationTarget,
    RequestOrigin,
    command,
)
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import read_view, user_name, user_requests
from gitsync.cluster.client import Client
from gitsync.errors import ClusterUnavailable, one_line
from gitsync.objects.change import HoldReason
from gitsync.objects.conditions import READY, find_condition, main_message
from gitsync.objects.keys import REQUESTED_OBJECTS
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.phase import Phase
from gitsync.objects.record import Outcome
from gitsync.objects.user import User
from gitsync.server.queries.words import sentence
from gitsync.services.requests import RequestKind

_POLL_PERIOD = 0.2
"""Seconds between two reads of the Application."""
_REPORT_PERIOD = 10.0
"""Seconds after which the progress is repeated although it is the same."""

_BUSY = (Phase.OBSERVING, Phase.PLANNING, Phase.EXECUTING)


@command
def sync(
    target: ApplicationTarget,
    origin: RequestOrigin,
    dashboard: DashboardOptions,
    wait: Annotated[bool, typer.Option(help="Wait until the sync has ended, and report progress.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 300.0,
    objects: Annotated[
        list[str] | None,
        typer.Option("--object", help="Sync only this object, as KIND/NAME or GROUP/KIND/NAMESPACE/NAME; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --object: print what the API server would answer, write nothing.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="With --object: delete those that Git does not declare any more.")
    ] = False,
    recreate: Annotated[
        bool, typer.Option("--replace", help="With --object: delete and create again what cannot be changed in place.")
    ] = False,
) -> Exit:
    """Request a sync now and wait until it ends. Exit code 1: not in sync or not healthy after it."""
    if objects or dry_run or prune or recreate:
        running = dashboard.require()
        wanted: dict[str, Any] = {
            "objects": [one_object(running, target.key, name) for name in objects or ()],
            "dryRun": dry_run,
            "prune": prune,
            "replace": recreate,
            "by": user_name(origin.by, "--by"),
            "reason": origin.reason,
        }
        taken = running.sync(target.namespace, target.name, wanted)
        if dry_run:
            return _print_answers(taken["steps"])
        if not wait:
            say(f"sync of {', '.join(objects or ())} of {target.key} requested")
            return Exit.OK
        return _report(target, _wait(connect(target.cluster), target, taken["request"], timeout))
    client = connect(target.cluster)
    requests, writer = user_requests(client, target.data)
    requests.request(read_view(client, target), RequestKind.SYNC, User(user_name(origin.by, "--by")), origin.reason)
    if not wait:
        say(f"sync of {target.key} requested")
        return Exit.OK
    return _report(target, _wait(client, target, writer.sync_ids[-1], timeout))


def _print_answers(steps: Sequence[Mapping[str, Any]]) -> Exit:
    """Print what the API server answered to each step of a dry run."""
    for step in steps:
        say(f"{step['action']} {step['object']}  [{step['risk']}] {step['outcome'].lower()}: {step['reason']}")
    is_accepted = all(step["outcome"] == Outcome.SUCCEEDED.value for step in steps)
    return Exit.OK if is_accepted else Exit.DIFFERENT


def _report(target: ApplicationTarget, application: Manifest) -> Exit:
    """Print the state of an Application after its sync."""
    state = application.get("status") or {}
    states = (str(state.get(name, "Unknown")) for name in ("sync", "health"))
    say(f"{target.key}: {sentence(states)}: {main_message(state)}")
    return Exit.OK if is_good(application) else Exit.DIFFERENT


def _wait(client: Client, target: ApplicationTarget, request: str, timeout: float) -> Manifest:
    """Return the Application when its sync has ended; print its progress to standard error until then."""
    progress = _Progress(target.key)
    deadline = time.monotonic() + timeout
    while True:
        application = one_application(client, target.namespace, target.name)
        if _is_settled(application, request):
            return application
        state = application.get("status") or {}
        if time.monotonic() > deadline:
            raise ClusterUnavailable(
                f"the sync did not end within {timeout:g} s: {main_message(state) or 'no status yet'}",
                object=f"Application {target.key}",
                hint="check that the controller runs, and `gitsync status`",
            )
        phase = Phase.of(state)
        if at(state, "requestedSync") != request and phase not in _BUSY:
            progress.report("waiting for the controller")
        else:
            progress.report(f"{sentence((phase.value, state.get('health', 'Unknown')))}: {main_message(state)}")
        time.sleep(_POLL_PERIOD)


class _Progress:
    """Progress lines on standard error: one for each new text, and one from time to time for an unchanged text."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._start = time.monotonic()
        self._text = ""
        self._reported_at = self._start

    def report(self, text: str) -> None:
        """Print a text when it is new or was printed long ago."""
        now = time.monotonic()
        if text == self._text and now - self._reported_at < _REPORT_PERIOD:
            return
        self._text = text
        self._reported_at = now
        line = one_line(f"{self._subject}: {text}", 300)
        print(f"{line} ({now - self._start:.0f} s)", file=sys.stderr, flush=True)


def _is_settled(application: Manifest, request: str) -> bool:
    """Return whether the requested sync has ended, or cannot go on without a user: its plan is held."""
    state = application.get("status") or {}
    phase = Phase.of(state)
    # of chosen objects: other steps may be held that this request is not about
    is_seen = request in (at(state, "pendingSync", "id"), state.get("requestedSync"))
    is_of_all = annotations_of(application).get(REQUESTED_OBJECTS) is None
    if (phase.is_held and (is_of_all or is_seen)) or phase is Phase.SUSPENDED:
        return True
    # a closed window is not a phase of its own: the plan waits as Pending
    if find_condition(state, READY).get("reason") == HoldReason.WINDOW.value:
        return True
    if state.get("requestedSync") != request:
        return False
    # a rollout that is in progress has no result yet
    return phase not in _BUSY and state.get("health") != "Progressing"
