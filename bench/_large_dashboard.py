"""A dashboard of 1,000 Applications and 10,000 objects, with history and audit, without a controller."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitsync.objects.health import Health
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.app import create_app
from tests.asgi_server import Served, serve
from tests.server.fakes import NOW, StillEngine, application, changed, engine, resource

APPLICATIONS, OBJECTS = 1000, 10
_SYNCS, _WRITES = 400, 400
_HEALTH = [Health.HEALTHY] * 9 + [Health.DEGRADED]


@contextmanager
def large_dashboard() -> Iterator[tuple[Served, StillEngine]]:
    """Serve it until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        still = engine(Path(folder), [_view(number) for number in range(APPLICATIONS)])
        _record(still)
        with serve(create_app(still)) as web:
            yield web, still
        still.records.close()


def _view(number: int) -> ApplicationView:
    health = _HEALTH[number % len(_HEALTH)].value
    held = ("1 dangerous step waits for an approver",) if number % 100 == 0 else ()
    return application(f"app-{number}", [_object(number, i) for i in range(OBJECTS)], health=health, held=held)


def _object(number: int, index: int) -> ResourceView:
    """Return an object; one of ten has a prompt that differs."""
    name = f"thing-{number}-{index}"
    if index:
        return resource(name)
    before = "\n".join(f"line {line} of a prompt" for line in range(40))
    difference = changed(".data.prompt", before, before.replace("line 20 of a", "line 20 of another"))
    return resource(name, sync="OutOfSync", differences=(difference, changed()))


def _record(still: StillEngine) -> None:
    done = Outcome.SUCCEEDED
    for number in range(_SYNCS):
        steps = (Step(f"/ConfigMap/shop/thing-{number}-0", "update", "Safe", "because", done),)
        commit = Commit("c" * 40, message="Change a prompt", author="Ada")
        key = f"gitsync/app-{number % 20}"
        still.records.save(SyncRecord(key, commit, "commit", NOW, 9, done, "Safe", "d", steps=steps))
    write = AuditRecord("gitsync/app-1", "update", "/ConfigMap/shop/thing-1-0", done, NOW, "s")
    still.records.audit([write] * _WRITES)
